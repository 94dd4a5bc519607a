# The steps of './qemu.sh test' and how each is judged; tests.sh lists what is booted.
# shellcheck shell=bash

PASSED=0 FAILED=0 SKIPPED=0

# verdict NAME CODE SINCE [REASON]: counts and prints one test.
verdict() {
    local name=$1 code=$2 took=$((SECONDS - $3)) reason=${4:-}
    if ((code == 0)); then
        PASSED=$((PASSED + 1))
        printf 'ok    %s (%d s)\n' "$name" "$took"
    else
        FAILED=$((FAILED + 1))
        printf 'FAIL  %s (%d s)%s\n' "$name" "$took" "${reason:+: $reason}"
    fi
}

skip() {
    SKIPPED=$((SKIPPED + 1))
    printf 'skip  %s: %s\n' "$1" "$2"
}

# The end of a file, set off from the list of tests.
show_end() { tail -n "${2:-40}" "$1" | sed 's/^/      | /'; }

# step NAME LIMIT COMMAND...: one test that passes when the command exits 0 within LIMIT seconds; its output shows only where it
# fails, and then step fails too.
step() {
    local name=$1 limit=$2 since=$SECONDS code=0
    shift 2
    # bare_cargo has a time limit of its own.
    [[ $(type -t "$1") == function ]] || set -- timeout --foreground "$limit" "$@"
    quietly "running: $name" "$@" || code=$?
    verdict "$name" "$code" "$since" "exit code $code"
    if ((code != 0)); then
        show_end "$SCRATCH/log"
        return 1
    fi
}

# host_tests: cargo's own tests, each counted.
host_tests() {
    local since=$SECONDS code=0 ok bad
    quietly "running: the host crates' tests" timeout --foreground 400 env -C "$REPO" cargo test --no-fail-fast || code=$?
    ok=$(sed -n 's/^test result: .* \([0-9]\+\) passed;.*/\1/p' "$SCRATCH/log" | awk '{ n += $1 } END { print n + 0 }')
    bad=$(sed -n 's/^test result: .* \([0-9]\+\) failed;.*/\1/p' "$SCRATCH/log" | awk '{ n += $1 } END { print n + 0 }')
    PASSED=$((PASSED + ok)) FAILED=$((FAILED + bad))
    if ((code != 0)); then
        ((bad > 0)) || FAILED=$((FAILED + 1))
        printf 'FAIL  host tests (%d s): %d passed, %d failed, exit code %d\n' $((SECONDS - since)) "$ok" "$bad" "$code"
        show_end "$SCRATCH/log" 60
    else
        printf 'ok    host tests (%d s): %d passed\n' $((SECONDS - since)) "$ok"
    fi
}

# boot_test NAME ELF CODE "OPTIONS" [PATTERN]: boots it; the exit code decides, and where given a line that matches PATTERN.
boot_test() {
    local name=$1 elf=$2 wanted=$3 options=$4 pattern=${5:-} since=$SECONDS code=0 reason='' words
    # Bytes, as an option may be no UTF-8: else one that is not takes the end of the line with it.
    LC_ALL=C read -ra words <<<"$options"
    if [[ ! -r $elf ]]; then
        verdict "$name" 1 "$since" "${elf##*/} was not built"
        return
    fi
    (
        default_options
        LIMIT=60
        parse_options "${words[@]}"
        boot "$elf"
    ) >"$SCRATCH/boot" 2>&1 || code=$?
    sed -i 's/\r$//' "$SCRATCH/boot"
    if ((code != wanted)); then
        reason="exit code $code instead of $wanted"
    elif [[ -n $pattern ]] && ! grep -qE -- "$pattern" "$SCRATCH/boot"; then
        reason="no line matches '$pattern'"
    fi
    verdict "$name" "$((${#reason} > 0))" "$since" "$reason"
    [[ -z $reason ]] || show_end "$SCRATCH/boot"
}

# script_test NAME CODE PATTERN COMMAND...: a command's exit code, and the one line that it says.
script_test() {
    local name=$1 wanted=$2 pattern=$3 since=$SECONDS code=0 reason=''
    shift 3
    timeout --foreground 60 "$@" >"$SCRATCH/script" 2>&1 </dev/null || code=$?
    if ((code != wanted)); then
        reason="exit code $code instead of $wanted"
    elif ! grep -qE -- "$pattern" "$SCRATCH/script"; then
        reason="no line matches '$pattern'"
    fi
    verdict "$name" "$((${#reason} > 0))" "$since" "$reason"
    [[ -z $reason ]] || show_end "$SCRATCH/script"
}

# The test kernels' own wishes stand in their first lines: `//! qemu: OPTIONS`, `//! expect: CODE`, `//! line: PATTERN`.
wish() { grep -m1 "^//! $2: " "$1" | sed 's|^[^:]*: *||'; }

# kernel_tests BOOT [PREFIX [OPTION...]]: each test kernel by BOOT, which is boot_test or poe_test; the options come before its own.
kernel_tests() {
    local boot=$1 prefix=${2:-} source name
    shift $(($# < 2 ? $# : 2))
    for source in "$REPO"/tests/src/bin/*.rs; do
        [[ -e $source ]] || continue
        name=$(basename "$source" .rs)
        "$boot" "${prefix}kernel $name" "$OUT/$TARGET/checked/$name" "$(wish "$source" expect | grep . || echo 0)" \
            "$* $(wish "$source" qemu)" "$(wish "$source" line)"
    done
}

# Leaves the QEMU with FEAT_S1POE in POE_QEMU, built where the cache lacks it, or why there is none in POE_MISSING.
prepare_poe_tests() {
    local stock=$QEMU since=$SECONDS code=0 name="build QEMU with FEAT_S1POE"
    POE_MISSING=''
    if ! cached_poe; then
        lock_cache
        cached_poe || make_poe '' || code=$?
        unlock_cache
        if [[ -n $POE_MISSING ]]; then
            skip "$name" "$POE_MISSING"
        else
            verdict "$name" "$code" "$since" "see above"
            ((code == 0)) || POE_MISSING="it did not build"
        fi
    fi
    POE_QEMU=$QEMU QEMU=$stock
}

# boot_test on the QEMU with FEAT_S1POE; skipped where there is none.
poe_test() {
    local QEMU=$POE_QEMU
    if [[ -n $POE_MISSING ]]; then
        skip "$1" "no QEMU with FEAT_S1POE: $POE_MISSING"
    else
        boot_test "$@"
    fi
}

run_tests() {
    setup_rust
    setup_qemu ''
    lint_tests
    host_tests
    build_tools
    script_tests
    poe_script_tests
    prepare_poe_tests
    if step "build the kernel" 300 bare_cargo build --quiet --release -p palisade --bin palisade; then
        main_tests
        bench_tests
        poe_main_tests
        poe_bench_tests
    fi
    if step "build the test kernels" 400 bare_cargo build --quiet --profile checked -p palisade-tests; then
        kernel_tests boot_test
        poe_kernel_tests
    fi
    printf '%d passed, %d failed%s\n' "$PASSED" "$FAILED" "$( ((SKIPPED == 0)) || printf ', %d skipped' "$SKIPPED")"
    ((FAILED == 0)) || return 1
}
