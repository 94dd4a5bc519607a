# Cargo for the bare-metal target, and the images that QEMU boots.
# shellcheck shell=bash

OUT=$(realpath -m "${CARGO_TARGET_DIR:-$REPO/target}")
export CARGO_TARGET_DIR=$OUT

# bare_cargo COMMAND ARGS...: cargo for the bare-metal target with our sysroot. Flags in the environment would replace the
# ones of .cargo/config.toml, so they are left out.
bare_cargo() {
    local config=()
    [[ -z $SYSROOT_FLAG ]] || config=(--config "target.$TARGET.rustflags=['$SYSROOT_FLAG']")
    env -C "$REPO" -u RUSTFLAGS -u CARGO_ENCODED_RUSTFLAGS cargo "${config[@]}" "$@" --target "$TARGET"
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
    cargo_quietly "building the kernel" bare_cargo build --quiet --release --bin palisade
    KERNEL=$OUT/$TARGET/release/palisade
}

# make_image ELF: the same program with a symbol table of its own, as ELF and as flat Image, into BOOT_ELF and BOOT_IMAGE.
make_image() {
    BOOT_ELF=$SCRATCH/${1##*/}.elf BOOT_IMAGE=$SCRATCH/${1##*/}.img
    cargo_quietly "building the image maker" env -C "$REPO" cargo build --quiet --release -p tools
    quietly "making the boot image" "$OUT/release/palisade-image" "$1" --elf "$BOOT_ELF" --image "$BOOT_IMAGE" ||
        die $EXIT_SETUP "no boot image of $1: $(log_reason)"
}
