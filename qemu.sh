#!/usr/bin/env bash
# Sets up what is missing, builds the kernel, boots it in QEMU and brings its exit code back; --help says more.
set -euo pipefail

REPO=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
readonly REPO
# shellcheck source=tools/sh/common.sh
source "$REPO/tools/sh/common.sh"
# shellcheck source=tools/sh/apt.sh
source "$REPO/tools/sh/apt.sh"
# shellcheck source=tools/sh/setup.sh
source "$REPO/tools/sh/setup.sh"
# shellcheck source=tools/sh/poe.sh
source "$REPO/tools/sh/poe.sh"
# shellcheck source=tools/sh/build.sh
source "$REPO/tools/sh/build.sh"
# shellcheck source=tools/sh/options.sh
source "$REPO/tools/sh/options.sh"
# shellcheck source=tools/sh/boot.sh
source "$REPO/tools/sh/boot.sh"
# shellcheck source=tools/sh/test.sh
source "$REPO/tools/sh/test.sh"
# shellcheck source=tools/sh/tests.sh
source "$REPO/tools/sh/tests.sh"
# shellcheck source=tools/sh/poe_tests.sh
source "$REPO/tools/sh/poe_tests.sh"

show_help() {
    cat <<END
Palisade: an AArch64 kernel whose page tables stand behind a protection key

  ./qemu.sh [OPTIONS]           set up what is missing, build, boot, run the benchmarks, print the report
  ./qemu.sh test                every test, on the host and in QEMU; closes with 'N passed, N failed' and ', N skipped' if any
  ./qemu.sh setup               only the set-up
  ./qemu.sh build-qemu [--source FILE]   build the QEMU with FEAT_S1POE of qemu/, once; from Debian's source, or from FILE
  ./qemu.sh boot-elf ELF [OPTIONS]   boot one bare-metal program (cargo's runner for the target)
  ./qemu.sh clean               remove the cache folder
  ./qemu.sh --help

What to run
  --bench LIST        benchmarks, with commas between (the kernel lists them where a name is unknown)
  --gate KIND         auto, por (POR_EL1), mock (same instructions, no protection) or none
  --size SIZE         memory that fork and munmap work on, such as 16M or 1G
  --samples N         samples per measurement
  --time KIND         icount (instructions, repeatable; the default) or host (the clock)
  --json FILE         also write the results, one JSON line each, to FILE
  --log LEVEL         off, error, warn, info, debug or trace
  --append "K=V ..."  further boot arguments

The machine
  --memory SIZE       RAM (default 2G)              --smp N           CPUs (default 1)
  --cpu MODEL         CPU model (default max)
  --el2               enter the kernel at EL2       --machine-opt K=V further option of the virt machine
  --boot FORMAT       image (default) or elf        --timeout SECONDS limit of the run (default 600)
  --banks LIST        the banks of RAM that the device tree names, BASE:SIZE with commas between, inside the RAM of --memory,
                      which begins at 0x40000000; --bank-nodes LIST gives each a memory node of its own
  --gdb               wait for a debugger on port 1234
  --kvm               run on this host's own CPU (arm64 hosts), against the clock
  --qemu PATH         the QEMU to use ($QEMU_MINIMUM or newer); default: from PATH where new enough, else one fetched once
  --qemu poe          the one with FEAT_S1POE, which build-qemu builds; it has --cpu max,x-s1poe-strict=on (see qemu/README.md)

Exit codes: 0 well; 1 a check or benchmark failed; 2 wrong usage or boot arguments; 3 the CPU lacks what protection
needs; 4 too little memory; 10 set-up failed; 101 kernel panic; 124 time limit.

Cache folder: $CACHE (XDG_CACHE_HOME moves it)
Nothing else outside this repository is written, but for what 'rustup target add' itself may add to the toolchain.
END
}

# What every boot needs besides the program itself.
prepare_boot() {
    setup_qemu "$QEMU_ASKED"
    check_cpu "$CPU"
    build_tools
}

setup_verb() {
    scratch_dir
    setup_rust
    setup_qemu ''
    say "ready: $QEMU; ${SYSROOT_FLAG:-$TARGET from the toolchain itself}"
}

build_qemu_verb() {
    local source=''
    case ${1:-} in
        '') ;;
        --source)
            (($# == 2)) || usage_error "build-qemu --source: needs the path of a source archive"
            source=$(readlink -m "$2")
            [[ -f $source && -r $source ]] || usage_error "--source $2: no such file"
            ;;
        *) usage_error "build-qemu: unknown option $1" ;;
    esac
    scratch_dir
    setup_poe "$source"
    say "ready: $QEMU"
}

test_verb() {
    scratch_dir
    run_tests
}

clean_verb() {
    rm -rf "$CACHE"
    say "removed $CACHE"
}

main() {
    local verb=run elf
    case ${1:-} in
        -h | --help | help)
            show_help
            return
            ;;
        '' | -*) ;;
        *)
            verb=$1
            shift
            ;;
    esac
    default_options
    case $verb in
        run)
            parse_options "$@"
            scratch_dir
            setup_rust
            prepare_boot
            build_kernel
            boot "$KERNEL"
            ;;
        boot-elf)
            (($# > 0)) || usage_error "boot-elf: needs the path of an ELF file"
            elf=$1
            shift
            [[ -r $elf ]] || usage_error "boot-elf $elf: no such file"
            parse_options "$@"
            scratch_dir
            prepare_boot
            boot "$elf"
            ;;
        build-qemu) build_qemu_verb "$@" ;;
        setup | test | clean)
            (($# == 0)) || usage_error "$verb: takes no options"
            "${verb}_verb"
            ;;
        *) usage_error "unknown command $verb" ;;
    esac
}

main "$@"
