# The QEMU with FEAT_S1POE: QEMU's source with the patches of qemu/, built once, into the cache.
# shellcheck shell=bash

# Source suites that may have the version that qemu/source.sha256 names, tried in this order.
readonly SOURCE_SUITES=(trixie-backports forky sid)
readonly POE_MESSAGE="building QEMU with FEAT_S1POE (once, about 7 minutes)"
# The least that boots the virt machine from -kernel.
readonly POE_OPTIONS=(--target-list=aarch64-softmmu --with-devices-aarch64=minimal --without-default-features --enable-tcg
    --enable-system --enable-fdt=system --disable-tools --disable-docs --disable-guest-agent --disable-install-blobs
    --disable-debug-info --disable-werror --disable-download)

# Leaves the built one in QEMU where the cache has it: that of just these patches, this source and these options.
cached_poe() {
    local key
    key=$({ cat "$REPO"/qemu/patches/*.patch "$REPO/qemu/source.sha256" && echo "${POE_OPTIONS[@]}"; } | sha256sum)
    QEMU=$CACHE/s1poe-qemu-${key:0:16}/qemu-system-aarch64
    [[ -x $QEMU ]]
}

# setup_poe [SOURCE]: leaves the QEMU with FEAT_S1POE in QEMU; builds it where it is not there.
setup_poe() {
    if cached_poe; then return; fi
    lock_cache
    if ! cached_poe && ! make_poe "${1:-}"; then
        [[ -z $POE_MISSING ]] || say "no QEMU with FEAT_S1POE: $POE_MISSING"
        exit $EXIT_SETUP
    fi
    unlock_cache
}

# make_poe SOURCE: builds it, in a shell of its own, whose environment only the build is to have. Where what the build needs is
# not to be had, POE_MISSING says what; a build that fails says so itself.
make_poe() {
    local code=0
    POE_MISSING=''
    (
        prepare_poe "$1" || {
            echo "$POE_REASON" >"$SCRATCH/poe-missing"
            exit 1
        }
        build_poe
    ) || code=$?
    [[ ! -e $SCRATCH/poe-missing ]] || POE_MISSING=$(<"$SCRATCH/poe-missing")
    return "$code"
}

# prepare_poe SOURCE: source and build tools; fails where one is not to be had, and says which in POE_REASON.
prepare_poe() {
    poe_source "$1" && poe_packages && poe_meson
}

# poe_source SOURCE: the checked source archive into POE_SOURCE, the given one or else Debian's.
poe_source() {
    local hash name sum
    read -r hash name <"$REPO/qemu/source.sha256"
    POE_SOURCE=$1
    [[ -n $POE_SOURCE ]] || fetch_source "$name" || return 1
    sum=$(sha256sum <"$POE_SOURCE")
    if [[ ${sum%% *} != "$hash" ]]; then
        POE_REASON="$POE_SOURCE is not $name: its SHA-256 is ${sum%% *}, and qemu/source.sha256 has $hash"
        return 1
    fi
}

# fetch_source NAME: the archive NAME of Debian's source package into POE_SOURCE.
fetch_source() {
    local name=$1 suite version upstream reached='' found='' wanted=${1#qemu_}
    wanted=${wanted%.orig.tar.xz}
    POE_REASON="this machine has no apt-get to fetch its source with; give it with build-qemu --source FILE"
    command -v apt-get >/dev/null || return 1
    for suite in "${SOURCE_SUITES[@]}"; do
        if ! apt_open "$suite" deb-src; then
            # A mirror may lack a suite; one that does not answer lacks them all.
            grep -q 'does not have a Release file' "$SCRATCH/log" && continue
            break
        fi
        reached=yes
        while read -r version; do
            upstream=${version#*:}
            [[ ${upstream%-*} == "$wanted" ]] || continue
            found=$version
            private_apt quietly "fetching the source of QEMU $wanted from Debian $suite" env -C "$SCRATCH" \
                timeout --foreground 900 apt-get source --download-only --tar-only "qemu=$version" || break 2
            POE_SOURCE=$SCRATCH/$name
            return 0
        done < <(private_apt apt-cache madison qemu | awk -F' *[|] *' '$3 ~ / Sources$/ { print $2 }')
    done
    if [[ -n $found ]]; then
        POE_REASON="its source $found did not download ($(log_reason)): try again when the network is up"
    elif [[ -n $reached ]]; then
        POE_REASON="no Debian suite at this machine's mirror has $name; give the file with build-qemu --source FILE"
    else
        POE_REASON="no source lists from this machine's mirror ($(log_reason)): is the network up?"
    fi
    return 1
}

# The Debian packages, of those that the build needs, whose contents are not there.
missing_packages() {
    command -v patch >/dev/null || echo patch
    command -v xz >/dev/null || echo xz-utils
    command -v ninja >/dev/null || echo ninja-build
    command -v pkg-config >/dev/null || echo pkg-config
    pkg-config --exists 'glib-2.0 >= 2.66' 2>/dev/null || echo libglib2.0-dev
    pkg-config --exists zlib 2>/dev/null || echo zlib1g-dev
    cc -E -o /dev/null -x c - <<<'#include <libfdt.h>' 2>/dev/null || echo libfdt-dev
}

# What is not installed comes from Debian into a folder of this run, POE_ROOT; the build then looks there as well.
poe_packages() {
    local missing deb
    POE_ROOT=''
    if ! command -v cc >/dev/null; then
        POE_REASON="there is no C compiler: install gcc"
        return 1
    fi
    mapfile -t missing < <(missing_packages)
    ((${#missing[@]} > 0)) || return 0
    if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
        POE_REASON="the build needs ${missing[*]}: install them"
        return 1
    fi
    if ! apt_open own || ! private_apt quietly "fetching what the build needs: ${missing[*]}" \
        timeout --foreground 600 apt-get install --download-only "${missing[@]}"; then
        POE_REASON="the build needs ${missing[*]}, which did not download ($(log_reason)): is the network up? Else install them"
        return 1
    fi
    POE_ROOT=$SCRATCH/root
    mkdir "$POE_ROOT"
    for deb in "$APT_DIR"/cache/archives/*.deb; do
        dpkg-deb -x "$deb" "$POE_ROOT" 2>"$SCRATCH/log" || {
            POE_REASON="cannot unpack ${deb##*/} ($(log_reason)): is the disk full?"
            return 1
        }
    done
    use_poe_root
}

# Lets compiler, linker, loader and pkg-config look into POE_ROOT too.
use_poe_root() {
    local link target libraries
    libraries=$(echo "$POE_ROOT"/usr/lib/*-linux-gnu):$(echo "$POE_ROOT"/lib/*-linux-gnu)
    export PATH=$POE_ROOT/usr/bin:$PATH
    export PKG_CONFIG_PATH=${libraries%%:*}/pkgconfig:$POE_ROOT/usr/share/pkgconfig
    export C_INCLUDE_PATH=$POE_ROOT/usr/include LIBRARY_PATH=$libraries LD_LIBRARY_PATH=$libraries
    find "$POE_ROOT" -name '*.pc' -exec sed -i "s|^prefix=/usr|prefix=$POE_ROOT/usr|" {} +
    # A library whose run-time half is installed has come without it: such a link leads to the installed one.
    while read -r link; do
        target=$(readlink "$link")
        if [[ $target != /* ]]; then
            ln -sf "$(dirname "${link#"$POE_ROOT"}")/$target" "$link"
        elif [[ -e $POE_ROOT$target ]]; then
            ln -sf "$POE_ROOT$target" "$link"
        fi
    done < <(find "$POE_ROOT" -name '*.so' -xtype l)
}

# Meson, which Debian's stable releases have too old, in a Python environment of this run.
poe_meson() {
    if ! quietly "making a Python environment" python3 -m venv "$SCRATCH/venv"; then
        POE_REASON="the build needs python3 with venv and pip: install python3-venv"
        return 1
    fi
    quietly "fetching Meson from PyPI" timeout --foreground 300 "$SCRATCH/venv/bin/pip" install --disable-pip-version-check \
        --retries 1 --timeout 15 'meson>=1.9,<2' pycotap || {
        POE_REASON="Meson did not come from PyPI ($(tail -n1 "$SCRATCH/log")): is the network up?"
        return 1
    }
}

# Unpacks POE_SOURCE, applies the patches and builds; the binary goes to QEMU, where cached_poe looked for it.
build_poe() {
    local tree=$SCRATCH/qemu-source build=$SCRATCH/qemu-build patch
    mkdir "$tree" "$build"
    quietly "unpacking QEMU's source" tar -xf "$POE_SOURCE" -C "$tree" --strip-components=1 || poe_failed "unpacking the source"
    # Debian's archive has no firmware, which its recipe asks for all the same; booting from -kernel takes none.
    printf 'roms = []\nkeymap_targets = []\n' >"$tree/pc-bios/meson.build"
    for patch in "$REPO"/qemu/patches/*.patch; do
        quietly "applying the patches" patch -d "$tree" -p1 --batch --fuzz=0 -i "$patch" || poe_failed "applying ${patch##*/}"
    done
    quietly "configuring QEMU" env -C "$build" "$tree/configure" "${POE_OPTIONS[@]}" --python="$SCRATCH/venv/bin/python3" ||
        poe_failed "configure"
    say "$POE_MESSAGE"
    poe_compile "$build" >"$SCRATCH/log"
    [[ -x $build/qemu-system-aarch64 ]] || poe_failed "the compiler"
    keep_poe "$build/qemu-system-aarch64"
}

# poe_compile FOLDER: prints the build's output, and on the terminal how far it is.
poe_compile() {
    local line shown=$SECONDS
    while IFS= read -r line; do
        printf '%s\n' "$line"
        if ((SECONDS >= shown + 20)) && [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]]; then
            say "$POE_MESSAGE: ${BASH_REMATCH[1]} of ${BASH_REMATCH[2]}"
            shown=$SECONDS
        fi
    done < <(timeout --foreground 3600 ninja -C "$1" qemu-system-aarch64 2>&1 </dev/null)
}

poe_failed() {
    local reason
    cp "$SCRATCH/log" "$CACHE/s1poe-qemu.log"
    reason=$(grep -m1 -E 'error:|ERROR:|FAILED|^tar:' "$SCRATCH/log" || tail -n1 "$SCRATCH/log")
    die $EXIT_SETUP "QEMU with FEAT_S1POE did not build: $1: $reason (all of it: $CACHE/s1poe-qemu.log)"
}

# keep_poe BINARY: the binary, and those of its libraries that are not installed, into the cache.
keep_poe() {
    local made=$SCRATCH/s1poe library folder
    mkdir "$made"
    cp "$1" "$made/qemu-system-aarch64" || die $EXIT_SETUP "cannot write to $CACHE: is the disk full?"
    if [[ -n $POE_ROOT ]]; then
        mkdir "$made/lib"
        while read -r library; do
            cp -L "$library" "$made/lib/"
        done < <(ldd "$1" | awk -v root="$POE_ROOT/" 'index($3, root) == 1 { print $3 }')
    fi
    if compgen -G "$made/lib/*" >/dev/null; then
        mv "$made/qemu-system-aarch64" "$made/lib/qemu"
        cat >"$made/qemu-system-aarch64" <<'END'
#!/bin/sh
# Runs the QEMU with the libraries that it was built with.
lib=$(dirname "$(readlink -f "$0")")/lib
LD_LIBRARY_PATH=$lib exec "$lib/qemu" "$@"
END
        chmod +x "$made/qemu-system-aarch64"
    fi
    qemu_version "$made/qemu-system-aarch64" >/dev/null || poe_failed "the result does not run"
    folder=$(dirname "$QEMU")
    rm -rf "$folder" "$CACHE/s1poe-qemu.log"
    mv "$made" "$folder"
}
