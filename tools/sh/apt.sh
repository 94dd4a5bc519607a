# Debian packages without a change to the system: apt with folders, lists and configuration of its own, under $SCRATCH.
# shellcheck shell=bash

# Groups of suites that fit together, tried in this order; the first that has the package in the right version serves.
readonly SUITE_GROUPS=("trixie trixie-backports" "forky" "sid")

# The mirror that this machine's own apt uses, or nothing.
apt_mirror() {
    local codename
    # shellcheck source=/dev/null
    codename=$(. /etc/os-release 2>/dev/null && echo "${VERSION_CODENAME:-}")
    # shellcheck disable=SC2016 # apt's own format string
    apt-get indextargets --format '$(SITE) $(RELEASE)' 'Created-By: Packages' 2>/dev/null | awk -v name="$codename" '
        $1 ~ /security/ { next }
        $2 == name || $2 == "stable" { print $1; found = 1; exit }
        first == "" { first = $1 }
        END { if (!found && first != "") print first }'
}

# apt_open SUITES [TYPE]: private apt folders for these suites, lists of that type (deb or deb-src) fetched; leaves the folder
# in APT_DIR. Fails where nothing came. The suites `own` are what is configured here, with what is installed taken as there.
apt_open() {
    local suites=$1 type=${2:-deb} whose="of Debian $1" mirror keyring='' file suite list parts index=Packages
    APT_DIR=$SCRATCH/apt-$type-${suites// /-}
    if [[ -d $APT_DIR ]]; then
        [[ -e $APT_DIR/usable ]]
        return
    fi
    [[ $type == deb ]] || index=Sources
    mirror=$(apt_mirror)
    mkdir -p "$APT_DIR"/{state/lists/partial,cache/archives/partial,conf,empty}
    if [[ -z $mirror ]]; then
        echo "E: apt has no package source configured" >"$SCRATCH/log"
        return 1
    fi
    for file in /usr/share/keyrings/debian-archive-keyring.{pgp,gpg}; do
        [[ -r $file ]] && keyring="[signed-by=$file] "
    done
    if [[ $suites == own ]]; then
        list=/etc/apt/sources.list parts=/etc/apt/sources.list.d whose="that this machine uses"
        cp /var/lib/dpkg/status "$APT_DIR/status"
    else
        for suite in $suites; do
            echo "$type $keyring$mirror $suite main"
        done >"$APT_DIR/sources.list"
        : >"$APT_DIR/status"
        list=$APT_DIR/sources.list parts=$APT_DIR/empty
    fi
    # The system's settings (a proxy, say) count, but none of its hooks run and none of its folders is written to.
    cp /etc/apt/apt.conf.d/* "$APT_DIR/conf/" 2>/dev/null || true
    cp /etc/apt/apt.conf "$APT_DIR/conf/zy-main" 2>/dev/null || true
    cat >"$APT_DIR/conf/zz-palisade" <<END
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Pre-Invoke;
#clear DPkg::Post-Invoke;
#clear DPkg::Pre-Install-Pkgs;
Dir::State "$APT_DIR/state";
Dir::State::status "$APT_DIR/status";
Dir::Cache "$APT_DIR/cache";
Dir::Etc::sourcelist "$list";
Dir::Etc::sourceparts "$parts";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "$APT_DIR/empty";
APT::Sandbox::User "root";
APT::Get::Assume-Yes "true";
APT::Install-Recommends "false";
APT::Install-Suggests "false";
Acquire::Languages "none";
Acquire::Retries "1";
Acquire::http::Timeout "15";
Acquire::https::Timeout "15";
END
    printf 'Dir::Etc::parts "%s";\nDir::Etc::main "/dev/null";\n' "$APT_DIR/conf" >"$APT_DIR/apt.conf"
    # A suite that the mirror lacks makes update fail, while the other lists are there: what counts is what can be found.
    private_apt quietly "fetching the package lists ($type) $whose" timeout --foreground 180 apt-get update || true
    compgen -G "$APT_DIR/state/lists/*_$index*" >/dev/null && : >"$APT_DIR/usable"
}

# Runs a command with apt's configuration replaced by the private one of APT_DIR.
private_apt() { APT_CONFIG=$APT_DIR/apt.conf "$@"; }

# apt_find PACKAGE MINIMUM [EXACT]: opens group after group of suites until one has PACKAGE with an upstream version of at
# least MINIMUM, or just that one; leaves it in FOUND_VERSION and FOUND_SUITE.
apt_find() {
    local package=$1 wanted=$2 exact=${3:-} suites version suite upstream reached=''
    if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
        APT_REASON="this machine has no apt-get and dpkg-deb to fetch it with"
        return 1
    fi
    for suites in "${SUITE_GROUPS[@]}"; do
        if ! apt_open "$suites"; then
            # A mirror may lack a suite; one that does not answer lacks them all.
            grep -q 'does not have a Release file' "$SCRATCH/log" && continue
            break
        fi
        reached=yes
        while read -r version suite; do
            upstream=${version#*:}
            upstream=${upstream%%[+-]*}
            if [[ -n $exact ]]; then [[ $upstream == "$wanted" ]] || continue; fi
            version_at_least "$upstream" "$wanted" || continue
            FOUND_VERSION=$version FOUND_SUITE=$suite
            return 0
        done < <(private_apt apt-cache madison "$package" |
            awk -F' *[|] *' '{ split($3, place, " "); sub("/.*", "", place[2]); print $2, place[2] }')
    done
    if [[ -n $reached ]]; then
        APT_REASON="no Debian suite at this machine's mirror has $package $wanted"
    else
        APT_REASON="no package lists from this machine's mirror ($(log_reason)): is the network up?"
    fi
    return 1
}

# apt_fetch PACKAGE WITH_DEPENDENCIES: downloads what apt_find found; leaves the files' names in FETCHED.
apt_fetch() {
    local package=$1 dependencies=$2 message="fetching $1 $FOUND_VERSION from Debian $FOUND_SUITE"
    private_apt apt-get clean
    if [[ $dependencies == yes ]]; then
        private_apt quietly "$message and the libraries it needs" \
            timeout --foreground 900 apt-get install --download-only -t "$FOUND_SUITE" "$package=$FOUND_VERSION"
    else
        private_apt quietly "$message" env -C "$APT_DIR/cache/archives" timeout --foreground 900 apt-get download "$package=$FOUND_VERSION"
    fi || {
        APT_REASON="$package $FOUND_VERSION did not download ($(log_reason)): try again when the network is up"
        return 1
    }
    FETCHED=("$APT_DIR"/cache/archives/*.deb)
}
