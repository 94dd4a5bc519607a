# What './qemu.sh test' runs besides the test kernels of tests/src/bin, which it finds by itself.
# shellcheck shell=bash

lint_tests() {
    step "format" 60 cargo fmt --all --manifest-path "$REPO/Cargo.toml" -- --check || true
    step "clippy, host" 400 env -C "$REPO" cargo clippy --quiet --all-targets -- -D warnings || true
    step "clippy, bare metal" 400 bare_cargo clippy --quiet -p palisade -p palisade-tests -- -D warnings || true
    if command -v shellcheck >/dev/null; then
        step "shellcheck" 60 env -C "$REPO" shellcheck -x -a qemu.sh .ci/run || true
    else
        skip "shellcheck" "not installed"
    fi
}

# The script's own answers to wrong usage and to machines that lack something.
script_tests() {
    local run=$REPO/qemu.sh fake=$SCRATCH/fake
    mkdir -p "$fake"/{old,hasty,offline,rust,empty}
    printf '#!/bin/sh\necho "QEMU emulator version 7.2.1 (made up)"\n' >"$fake/old/qemu-system-aarch64"
    # shellcheck disable=SC2016 # the fake's own variable
    printf '#!/bin/sh\n[ "$1" = indextargets ] || { echo "E: Could not connect" >&2; exit 100; }\necho "http://mirror.invalid/debian stable"\n' \
        >"$fake/offline/apt-get"
    printf '#!/bin/sh\nexit 1\n' >"$fake/offline/rustup"
    printf '#!/bin/sh\necho "release: 1.70.0"\n' >"$fake/rust/rustc"
    printf '#!/bin/sh\necho "QEMU emulator version 99.0"\n' >"$fake/hasty/qemu-system-aarch64"
    chmod +x "$fake"/*/*
    script_test "help" 0 'Cache folder: ' "$run" --help
    script_test "unknown option" 2 'unknown option --colour .*--help' "$run" --colour
    script_test "unknown command" 2 'unknown command fly .*--help' "$run" fly
    script_test "option without value" 2 '--smp: needs a value' "$run" --smp
    script_test "bad number" 2 '--smp 0: must be a whole number from 1 to 512' "$run" --smp 0
    script_test "bad size" 2 '--memory lots: must be a size such as' "$run" --memory lots
    script_test "bad choice" 2 '--gate open: must be one of auto por mock none' "$run" --gate open
    script_test "bad memory bank" 2 'memory bank 0x90000000:2G: must lie in' "$run" --memory 2G --banks 0x40000000:1G,0x90000000:2G
    script_test "unwritable JSON file" 2 'cannot be written' "$run" --json "$fake/none/results.json"
    script_test "missing ELF" 2 'no such file' "$run" boot-elf "$fake/none.elf"
    script_test "missing QEMU" 2 'no such program' "$run" --qemu "$fake/none"
    script_test "unknown CPU" 2 'QEMU has no such model' "$run" --cpu pentium
    script_test "old QEMU asked for" 10 'QEMU too old: .* is 7\.2\.1' "$run" --qemu "$fake/old/qemu-system-aarch64"
    script_test "old QEMU in PATH" 0 'passing over .*7\.2\.1' env PATH="$fake/old:$PATH" "$run" setup
    script_test "old rustc" 10 'rustc 1\.70\.0 is too old' env PATH="$fake/rust:$PATH" "$run" setup
    script_test "no network" 10 'no (QEMU|sources) .*is the network up\?' \
        env PATH="$fake/old:$fake/offline:$PATH" XDG_CACHE_HOME="$fake/empty" "$run" setup
    script_test "no cache folder" 10 'cannot write to the cache folder' env XDG_CACHE_HOME=/dev/null "$run" setup
    if [[ $(uname -m) == aarch64 ]]; then
        skip "KVM on another host" "this is an arm64 host"
    else
        script_test "KVM on another host" 2 '--kvm: this host is .*arm64' "$run" --kvm
    fi
    script_test "launcher" 2 'unknown option --colour' env -C "$REPO" cargo run --quiet -- --colour
}

# The kernel itself, without benchmarks unless named: each way in, each size of memory, each refusal.
main_tests() {
    local kernel=$OUT/$TARGET/release/palisade
    # Among these, as it needs the kernel built.
    script_test "QEMU that quits" 1 'QEMU ended before the kernel did' "$REPO/qemu.sh" --qemu "$SCRATCH/fake/hasty/qemu-system-aarch64"
    boot_test "boot at EL1" "$kernel" 0 "--bench none" '^self-check: passed'
    boot_test "boot at EL2" "$kernel" 0 "--bench none --el2" '^self-check: passed'
    boot_test "boot the ELF" "$kernel" 0 "--bench none --boot elf" '^self-check: passed'
    boot_test "boot the ELF at EL2" "$kernel" 0 "--bench none --boot elf --el2" '^self-check: passed'
    boot_test "against the clock" "$kernel" 0 "--bench none --time host" '^self-check: passed'
    boot_test "POR gate" "$kernel" 0 "--bench none --gate por" '^self-check: passed'
    boot_test "mock gate" "$kernel" 0 "--bench none --gate mock" '^self-check: skipped'
    boot_test "no gate" "$kernel" 0 "--bench fork --size 2M --gate none" '^self-check: skipped'
    boot_test "counts against the clock: refusal" "$kernel" 2 "--time host --append time=icount" 'nothing here counts instructions'
    boot_test "four CPUs present" "$kernel" 0 "--bench none --smp 4"
    boot_test "more CPUs than the kernel numbers" "$kernel" 0 "--bench none --smp 65"
    boot_test "memory 40 MiB: refusal" "$kernel" 4 "--bench none --memory 40M" '[Mm]emory'
    boot_test "memory 128 MiB" "$kernel" 0 "--bench none --memory 128M"
    boot_test "memory 8 GiB" "$kernel" 0 "--bench none --memory 8G"
    if [[ $(cat /proc/sys/vm/overcommit_memory 2>/dev/null) == 2 ]]; then
        skip "memory 64 GiB" "this host promises no memory that it does not have"
    else
        boot_test "memory 64 GiB" "$kernel" 0 "--bench none --memory 64G"
    fi
    # 1.5 GiB in 4 KiB frames.
    boot_test "two banks, one node" "$kernel" 0 "--bench none --memory 2G --banks 0x40000000:512M,0x80000000:1G" '393216 frames'
    boot_test "two banks, two nodes" "$kernel" 0 "--bench none --memory 2G --bank-nodes 0x40000000:512M,0x80000000:1G" '393216 frames'
    boot_test "banks that end within a page" "$kernel" 0 "--bench fork --size 2M --banks 0x40000000:102406K,0x46402800:400001K" '^self-check: passed'
    boot_test "a bank of 13 MiB, another above 4 GiB" "$kernel" 0 "--bench fork --size 2M --memory 5G --bank-nodes 0x40000000:13M,0x100000000:1G"
    boot_test "no bank where the kernel lies: refusal" "$kernel" 4 "--bench none --banks 0x50000000:512M" 'no memory where the kernel lies'
    boot_test "CPU without S1PIE: refusal" "$kernel" 3 "--bench none --cpu cortex-a72" 'S1PIE|S1POE'
    boot_test "CPU without S1PIE, unprotected" "$kernel" 0 "--bench none --cpu cortex-a72 --gate none" 'none: page tables are writable'
    boot_test "CPU without S1PIE, POR gate: refusal" "$kernel" 3 "--bench none --cpu cortex-a72 --gate por" 'S1PIE|S1POE'
    boot_test "boot arguments not UTF-8" "$kernel" 2 "--append "$'bench=\xe9' 'boot arguments have to be UTF-8'
    boot_test "unknown boot argument" "$kernel" 2 "--append colour=blue" 'colour'
    boot_test "bad benchmark name" "$kernel" 2 "--bench teleport" 'unknown benchmark'
    boot_test "bad size in boot argument" "$kernel" 2 "--append size=lots" 'lots'
}

# The default run meets every target; a short one has valid results, the same twice, with the counts of the benchmark file.
bench_tests() {
    local kernel=$OUT/$TARGET/release/palisade options="--size 16M --timeout 200" clock
    clock="--time host --samples 3 --size 2M --bench fork,vm_map_ram"
    boot_test "short benchmark run" "$kernel" 0 "$options --json $SCRATCH/first.json"
    boot_test "the same again" "$kernel" 0 "$options --json $SCRATCH/second.json"
    boot_test "benchmarks against the clock" "$kernel" 0 "$clock --json $SCRATCH/clock.json"
    boot_test "default benchmark run" "$kernel" 0 "--timeout 240" ', 0 missed$'
    step "results are valid" 10 "$TOOLS/palisade-check" json "$SCRATCH/first.json" || true
    step "results against the clock are valid" 10 "$TOOLS/palisade-check" json "$SCRATCH/clock.json" || true
    step "results are the same twice" 10 cmp "$SCRATCH/first.json" "$SCRATCH/second.json" || true
    step "counts against the benchmark file" 10 "$TOOLS/palisade-check" counts "$SCRATCH/first.json" "$REPO/tests/counts.json" || true
}
