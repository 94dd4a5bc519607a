# What a build and a boot need: the target's core and alloc, and a QEMU whose `-cpu max` has FEAT_S1PIE.
# shellcheck shell=bash

readonly RUSTC_MINIMUM=1.95.0 QEMU_MINIMUM=10.2
# Counted up when the recipe below changes, so that older results are built again.
readonly SYSROOT_RECIPE=1

# Leaves `--sysroot=...` in SYSROOT_FLAG, or nothing where the toolchain itself has the target.
setup_rust() {
    local verbose version own stamp sysroot
    if ! command -v cargo >/dev/null || ! command -v rustc >/dev/null; then
        die $EXIT_SETUP "cargo and rustc are not in PATH: install Rust by rustup, or add its bin folder to PATH"
    fi
    if ! verbose=$(rustc -vV) || ! own=$(rustc --print sysroot); then
        die $EXIT_SETUP "rustc does not run: see its message above"
    fi
    version=$(sed -n 's/^release: //p' <<<"$verbose")
    version_at_least "$version" "$RUSTC_MINIMUM" ||
        die $EXIT_SETUP "rustc $version is too old: Palisade needs $RUSTC_MINIMUM (rustup update stable)"
    SYSROOT_FLAG=''
    if has_target "$own"; then return; fi
    sysroot=$CACHE/sysroot-$version
    stamp="recipe: $SYSROOT_RECIPE"$'\n'$verbose
    SYSROOT_FLAG=--sysroot=$sysroot
    if has_target "$sysroot" && [[ $(cat "$sysroot/stamp" 2>/dev/null) == "$stamp" ]]; then return; fi

    lock_cache
    if has_target "$sysroot" && [[ $(cat "$sysroot/stamp" 2>/dev/null) == "$stamp" ]]; then
        unlock_cache
        return
    fi
    if command -v rustup >/dev/null &&
        quietly "trying to add the target $TARGET by rustup, for at most 20 s" timeout 20 rustup target add "$TARGET" &&
        has_target "$own"; then
        SYSROOT_FLAG=''
    else
        build_sysroot "$version" "$own" "$sysroot"
        printf '%s\n' "$stamp" >"$sysroot/stamp"
    fi
    unlock_cache
}

has_target() { compgen -G "$1/lib/rustlib/$TARGET/lib/libcore-*.rlib" >/dev/null; }

# build_sysroot VERSION TOOLCHAIN SYSROOT: core, alloc and compiler_builtins from the sources of just this rustc.
build_sysroot() {
    local version=$1 source=$2/lib/rustlib/src/rust/library sysroot=$3 work=$SCRATCH/library crate built
    local flags="-Cembed-bitcode=yes -Cforce-frame-pointers=yes -Cpanic=abort -Zforce-unstable-if-unmarked"
    mkdir -p "$work"
    if [[ ! -f $source/core/Cargo.toml ]]; then
        fetch_rust_src "$version"
        source=$SCRATCH/rust-src
    fi
    for crate in core alloc compiler-builtins portable-simd stdarch; do
        cp -r "$source/$crate" "$work/"
    done
    # A workspace of these crates alone: the standard library's own one asks for crates that nothing here uses, as does
    # compiler_builtins' C part. With neither, the build needs no registry.
    rm -f "$work/compiler-builtins/Cargo.toml"
    sed -i -e '/^\[build-dependencies\]/,/^$/d' -e 's/^c = .*/c = []/' "$work/compiler-builtins/compiler-builtins/Cargo.toml"
    cat >"$work/Cargo.toml" <<'END'
[workspace]
resolver = "3"
members = ["core", "alloc", "compiler-builtins/compiler-builtins"]
[profile.release]
debug = "line-tables-only"
[profile.release.package.compiler_builtins]
codegen-units = 10000
END
    quietly "building core and alloc for $TARGET, once (about 30 s)" env -C "$work" \
        -u RUSTFLAGS -u CARGO_ENCODED_RUSTFLAGS RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR="$SCRATCH/sysroot-target" \
        CARGO_TARGET_AARCH64_UNKNOWN_NONE_SOFTFLOAT_RUSTFLAGS="$flags" \
        cargo build --offline --release --target "$TARGET" -p core -p alloc -p compiler_builtins --features compiler_builtins/mem ||
        die $EXIT_SETUP "core and alloc did not build for $TARGET ($(log_reason)): try 'rustup target add $TARGET'"
    built=$sysroot/lib/rustlib/$TARGET/lib
    rm -rf "$sysroot"
    mkdir -p "$built"
    cp "$SCRATCH/sysroot-target/$TARGET/release/deps/"*.rlib "$built/"
}

# fetch_rust_src VERSION: the library folder of the distribution's rust-src of this version, into $SCRATCH/rust-src.
fetch_rust_src() {
    local version=$1
    if ! apt_find rust-src "$version" exact || ! apt_fetch rust-src no; then
        die $EXIT_SETUP "no sources of rustc $version: $APT_REASON;" \
            "otherwise 'rustup target add $TARGET', or 'rustup component add rust-src'"
    fi
    mkdir "$SCRATCH/rust-src"
    dpkg-deb --fsys-tarfile "${FETCHED[0]}" | tar -x -C "$SCRATCH/rust-src" --strip-components=5 --wildcards './usr/src/*/library/*'
}

# Leaves the QEMU to run in QEMU: the one asked for, else the one in PATH where it is new enough, else the cached or fetched one.
setup_qemu() {
    local asked=$1 version='' found
    if [[ $asked == poe ]]; then
        setup_poe
        return
    fi
    if [[ -n $asked ]]; then
        QEMU=$(command -v "$asked") || die $EXIT_USAGE "--qemu $asked: no such program; give the path of a qemu-system-aarch64"
        version=$(qemu_version "$QEMU") ||
            die $EXIT_USAGE "--qemu $asked: not a QEMU that runs here; give the path of a qemu-system-aarch64"
        version_at_least "$version" "$QEMU_MINIMUM" ||
            die $EXIT_SETUP "QEMU too old: $asked is $version, and -cpu max has FEAT_S1PIE from $QEMU_MINIMUM on;" \
                "leave --qemu out to have one fetched"
        return
    fi
    if found=$(command -v qemu-system-aarch64) && version=$(qemu_version "$found"); then
        if version_at_least "$version" "$QEMU_MINIMUM"; then
            QEMU=$found
            return
        fi
        say "passing over $found: version $version, and $QEMU_MINIMUM is needed for FEAT_S1PIE"
    fi
    if cached_qemu; then return; fi
    lock_cache
    cached_qemu || fetch_qemu
    unlock_cache
}

# check_cpu MODEL: refuses a CPU model that QEMU does not have.
check_cpu() {
    [[ $1 == max || $1 == host ]] || grep -qxE " +${1%%,*}" <<<"$("$QEMU" -M virt -cpu help)" ||
        usage_error "--cpu $1: QEMU has no such model ('$QEMU -M virt -cpu help' lists them)"
}

qemu_version() {
    local text
    text=$("$1" --version 2>/dev/null </dev/null) || return 1
    [[ $text =~ ^QEMU\ emulator\ version\ ([0-9]+(\.[0-9]+)+) ]] && echo "${BASH_REMATCH[1]}"
}

# The newest complete one in the cache.
cached_qemu() {
    QEMU=$(printf '%s\n' "$CACHE"/qemu-*/qemu-system-aarch64 | sort -V | tail -n1)
    [[ -x $QEMU ]]
}

fetch_qemu() {
    local root=$SCRATCH/qemu/root deb version
    if ! apt_find qemu-system-arm "$QEMU_MINIMUM" || ! apt_fetch qemu-system-arm yes; then
        die $EXIT_SETUP "no QEMU $QEMU_MINIMUM or newer: $APT_REASON; otherwise install one and give it with --qemu PATH"
    fi
    mkdir -p "$root"
    for deb in "${FETCHED[@]}"; do
        dpkg-deb -x "$deb" "$root" 2>"$SCRATCH/log" || die $EXIT_SETUP "cannot unpack ${deb##*/} ($(log_reason)): is the disk full?"
    done
    rm -rf "${root:?}"/{etc,var,usr/share/doc,usr/share/man,usr/share/locale,usr/share/lintian,usr/share/info,usr/sbin}
    cat >"$SCRATCH/qemu/qemu-system-aarch64" <<'END'
#!/bin/sh
# Runs the QEMU beside this file with the loader, libraries and firmware that came with it.
root=$(dirname "$(readlink -f "$0")")/root
for loader in "$root"/usr/lib64/ld-linux-*.so.* "$root"/usr/lib/ld-linux-*.so.*; do
    [ -x "$loader" ] && break
done
exec "$loader" --library-path "$(echo "$root"/usr/lib/*-linux-gnu)" \
    "$root/usr/bin/qemu-system-aarch64" -L "$root/usr/share/qemu" "$@"
END
    chmod +x "$SCRATCH/qemu/qemu-system-aarch64"
    version=$(qemu_version "$SCRATCH/qemu/qemu-system-aarch64") ||
        die $EXIT_SETUP "the fetched QEMU $FOUND_VERSION does not run here; install one and give it with --qemu PATH"
    QEMU=$CACHE/qemu-$version/qemu-system-aarch64
    rm -rf "$CACHE/qemu-$version"
    quietly "unpacking QEMU $version into $CACHE" mv "$SCRATCH/qemu" "$CACHE/qemu-$version.new"
    mv "$CACHE/qemu-$version.new" "$CACHE/qemu-$version"
}
