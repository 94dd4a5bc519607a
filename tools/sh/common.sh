# Messages, temporary files and waiting, for qemu.sh and the files beside this one.
# shellcheck shell=bash

readonly TARGET=aarch64-unknown-none-softfloat
readonly EXIT_USAGE=2 EXIT_SETUP=10 EXIT_TIMEOUT=124
CACHE=${XDG_CACHE_HOME:-}
[[ $CACHE == /* ]] || CACHE=${HOME:?is not set, so there is no place for the cache}/.cache
CACHE=$CACHE/palisade

say() { printf 'qemu.sh: %s\n' "$*" >&2; }

die() {
    local code=$1
    shift
    say "$*"
    exit "$code"
}

# A folder for this run, gone when it ends; what a killed run left a day ago goes too.
scratch_dir() {
    if ! mkdir -p "$CACHE" 2>/dev/null || ! SCRATCH=$(mktemp -d "$CACHE/run.XXXXXX" 2>/dev/null); then
        die $EXIT_SETUP "cannot write to the cache folder $CACHE: make it writable, or set XDG_CACHE_HOME"
    fi
    trap 'rm -rf "$SCRATCH"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    find "$CACHE" -maxdepth 1 -name 'run.*' -mtime +1 -exec rm -rf {} +
}

# quietly MESSAGE COMMAND...: keeps the output in $SCRATCH/log; says MESSAGE where it takes more than two seconds.
quietly() {
    local message=$1 pulse code=0
    shift
    # The pipe closes when the command ends, which is before the reader's time is up or after it.
    exec {pulse}> >(
        ended=0
        read -rt 2 || ended=$?
        ((ended <= 128)) || say "$message"
    )
    "$@" >"$SCRATCH/log" 2>&1 </dev/null {pulse}>&- || code=$?
    exec {pulse}>&-
    return "$code"
}

# The first line of the last quiet command's output that reads like an error, else its last line.
log_reason() {
    local error='^(E:|W: Failed|error|dpkg-deb: error|tar:|qemu-system|palisade-[a-z]+:)'
    grep -m1 -E "$error" "$SCRATCH/log" || tail -n1 "$SCRATCH/log"
}

# version_at_least VERSION MINIMUM
version_at_least() {
    [[ $(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n1) == "$2" ]]
}

# Only one set-up at a time writes to the cache.
lock_cache() {
    exec {CACHE_LOCK}>"$CACHE/lock"
    flock -n "$CACHE_LOCK" || {
        say "waiting for another set-up in $CACHE to end"
        flock "$CACHE_LOCK"
    }
}

# Given back by name: a child that is still there shares the descriptor.
unlock_cache() {
    flock -u "$CACHE_LOCK"
    exec {CACHE_LOCK}>&-
}
