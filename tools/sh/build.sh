# Cargo for the bare-metal target, and the images that QEMU boots.
# shellcheck shell=bash

OUT=$(realpath -m "${CARGO_TARGET_DIR:-$REPO/target}")
export CARGO_TARGET_DIR=$OUT

# bare_cargo COMMAND ARGS...: cargo for the bare-metal target with our sysroot. Flags in the environment would replace the
# ones of .cargo/config.toml, so they are left out. Ten minutes are its limit.
bare_cargo() {
    local config=()
    [[ -z $SYSROOT_FLAG ]] || config=(--config "target.$TARGET.rustflags=['$SYSROOT_FLAG']")
    env -C "$REPO" -u RUSTFLAGS -u CARGO_ENCODED_RUSTFLAGS \
        timeout --foreground 600 cargo "$1" --target "$TARGET" "${config[@]}" "${@:2}"
}

# cargo_quietly MESSAGE COMMAND...: shows cargo's output where it fails.
cargo_quietly() {
    local message=$1
    shift
    quietly "$message" "$@" || {
        cat "$SCRATCH/log" >&2
        die $EXIT_SETUP "$message: failed, see above"
    }
}

# The kernel's ELF into KERNEL.
build_kernel() {
    cargo_quietly "building the kernel" bare_cargo build --quiet --release -p palisade --bin palisade
    KERNEL=$OUT/$TARGET/release/palisade
}

# The programs of the tools crate into TOOLS.
build_tools() {
    cargo_quietly "building the host tools" env -C "$REPO" cargo build --quiet -p tools --bins
    TOOLS=$OUT/debug
}

# make_image ELF: the same program with a symbol table of its own, as ELF and as flat Image, into BOOT_ELF and BOOT_IMAGE.
make_image() {
    BOOT_ELF=$SCRATCH/${1##*/}.elf BOOT_IMAGE=$SCRATCH/${1##*/}.img
    quietly "making the boot image" "$TOOLS/palisade-image" "$1" --elf "$BOOT_ELF" --image "$BOOT_IMAGE" ||
        die $EXIT_SETUP "no boot image of $1: $(log_reason)"
}

# use_banks NODES LIST: makes BOOT_IMAGE one that brings its own device tree, with these memory banks, in one node or in a
# node for each (NODES is --node-per-bank, or empty). QEMU itself describes all memory as one bank.
use_banks() {
    local nodes=$1 tree=$SCRATCH/virt.dtb banks
    IFS=, read -ra banks <<<"$2"
    quietly "reading QEMU's device tree" "$QEMU" "${QEMU_ARGS[@]}" -kernel "$BOOT_IMAGE" -machine "dumpdtb=$tree" ||
        die $EXIT_SETUP "no device tree from QEMU: $(log_reason)"
    quietly "setting the memory banks" "$TOOLS/palisade-dtb" split ${nodes:+"$nodes"} "$tree" "$tree.banks" "${banks[@]}" ||
        usage_error "the banks $2: $(log_reason)"
    quietly "bundling the device tree" "$TOOLS/palisade-dtb" bundle "$BOOT_IMAGE" "$tree.banks" "$BOOT_IMAGE.banks" ||
        die $EXIT_SETUP "no bundle of kernel and device tree: $(log_reason)"
    BOOT_IMAGE=$BOOT_IMAGE.banks
}
