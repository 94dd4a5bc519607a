# What './qemu.sh test' runs on the QEMU with FEAT_S1POE.
# shellcheck shell=bash

readonly STRICT="--cpu max,x-s1poe-strict=on"
readonly ALL_SYNCHRONISED='[1-9][0-9]* writes to POR_ELx, 0 accesses depended on an unsynchronized one$'

# The kernel where POR_EL1 is the CPU's own; in strict mode a write to it takes effect at the ISB and not before.
poe_main_tests() {
    local kernel=$OUT/$TARGET/release/palisade
    poe_test "S1POE: POR_EL1 is the CPU's" "$kernel" 0 "--bench none" 'protection: protection keys by POR_EL1 \(FEAT_S1POE\)'
    poe_test "S1POE: boot at EL1" "$kernel" 0 "--bench none" '^self-check: passed'
    poe_test "S1POE: boot at EL2" "$kernel" 0 "--bench none --el2" '^self-check: passed'
    poe_test "S1POE: boot the ELF at EL2" "$kernel" 0 "--bench none --boot elf --el2" '^self-check: passed'
    poe_test "S1POE: against the clock" "$kernel" 0 "--bench none --time host" '^self-check: passed'
    poe_test "S1POE: mock gate" "$kernel" 0 "--bench none --gate mock" '^self-check: skipped'
    poe_test "S1POE: no gate" "$kernel" 0 "--bench fork --size 2M --gate none" '^self-check: skipped'
    poe_test "S1POE, turned off: emulation" "$kernel" 0 "--bench none --cpu max,s1poe=off" 'POR_EL1 emulated'
    poe_test "S1POE, strict: boot at EL1" "$kernel" 0 "--bench none $STRICT" '^self-check: passed'
    poe_test "S1POE, strict: boot at EL2" "$kernel" 0 "--bench none --el2 $STRICT" '^self-check: passed'
    poe_test "S1POE, strict: no ISB is missing" "$kernel" 0 "--bench fork,munmap,vm_map_ram --size 2M $STRICT" "$ALL_SYNCHRONISED"
}

# What the script says where the source is wrong or not to be had.
poe_script_tests() {
    local run=$REPO/qemu.sh fake=$SCRATCH/fake
    echo "no archive" >"$fake/source.tar.xz"
    script_test "build-qemu: wrong option" 2 'unknown option --fast' "$run" build-qemu --fast
    script_test "build-qemu: missing source" 2 'no such file' "$run" build-qemu --source "$fake/none"
    script_test "build-qemu: wrong source" 10 'is not qemu_.*: its SHA-256 is' \
        env XDG_CACHE_HOME="$fake/empty" "$run" build-qemu --source "$fake/source.tar.xz"
    script_test "build-qemu: no network" 10 'no source lists .*is the network up\?' \
        env PATH="$fake/offline:$PATH" XDG_CACHE_HOME="$fake/empty" "$run" build-qemu
}

# What the kernel counts does not hang on how POR_EL1 is honoured, but for what the gates themselves take.
poe_bench_tests() {
    local kernel=$OUT/$TARGET/release/palisade results=$SCRATCH/poe.json
    poe_test "S1POE: short benchmark run" "$kernel" 0 "--size 16M --timeout 200 --json $results" '^palisade: exit 0'
    if [[ -n $POE_MISSING ]]; then
        skip "S1POE: results are valid" "no QEMU with FEAT_S1POE: $POE_MISSING"
        skip "S1POE: unprotected counts as on stock QEMU" "no QEMU with FEAT_S1POE: $POE_MISSING"
        return
    fi
    step "S1POE: results are valid" 10 "$TOOLS/palisade-check" json "$results" || true
    step "S1POE: unprotected counts as on stock QEMU" 10 cmp <(counts_of_off "$SCRATCH/first.json") <(counts_of_off "$results") || true
}

# The rows of strategy off, each with its instructions.
counts_of_off() { sed -n 's/^{\("bench.*"strategy":"off"\),.*\("instructions_per_op":[^,]*\),.*/\1 \2/p' "$1"; }

# Every test kernel in strict mode, and the judge of the CPU in both.
poe_kernel_tests() {
    local judge=$REPO/tests/src/bin/conformance.rs
    kernel_tests poe_test "S1POE, strict: " "$STRICT"
    poe_test "S1POE: kernel conformance" "$OUT/$TARGET/checked/conformance" 0 "$(wish "$judge" qemu)" "$(wish "$judge" line)"
}
