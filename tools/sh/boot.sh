# One run of QEMU: its command line from the options, and its exit code.
# shellcheck shell=bash

# Leaves the command line, but for the kernel, in QEMU_ARGS.
qemu_args() {
    local machine=virt,dtb-randomness=off option promise=reserve=off
    QEMU_ARGS=(-smp "$SMP" -display none -nic none -no-reboot -seed 1 -rtc "base=2026-01-01T00:00:00,clock=vm")
    if [[ -n $KVM ]]; then
        machine+=,gic-version=host
        QEMU_ARGS+=(-accel kvm)
    else
        machine+=,gic-version=3
        QEMU_ARGS+=(-accel tcg -semihosting-config "enable=on,target=native")
    fi
    [[ $TIME == host ]] || QEMU_ARGS+=(-icount "shift=0,sleep=off")
    [[ -z $EL2 ]] || machine+=,virtualization=on
    for option in "${MACHINE_EXTRA[@]}"; do
        machine+=,$option
    done
    # Guest memory is only promised, so that a large guest starts on a small host.
    [[ $(cat /proc/sys/vm/overcommit_memory 2>/dev/null) != 2 ]] || promise=reserve=on
    QEMU_ARGS+=(-m "$MEMORY" -object "memory-backend-ram,id=ram,size=$MEMORY,$promise")
    machine+=,memory-backend=ram
    QEMU_ARGS+=(-M "$machine" -cpu "$CPU")
    # This CPU counts the accesses that hang on a POR_EL1 write not synchronised yet, and reports them in QEMU's log.
    [[ $CPU != *x-s1poe-strict=on* ]] || QEMU_ARGS+=(-d guest_errors)
    ((${#BOOTARGS[@]} == 0)) || QEMU_ARGS+=(-append "${BOOTARGS[*]}")
    if [[ -n $GDB ]]; then
        QEMU_ARGS+=(-s -S)
        LIMIT=86400
        say "the CPU waits for a debugger: gdb-multiarch $BOOT_ELF -ex 'target remote :1234'"
    fi
}

# boot ELF: runs it under the options; returns the kernel's exit code. The serial output goes to stdout and $SCRATCH/serial.
boot() {
    local code=0 stdin=/dev/stdin kernel
    make_image "$1"
    qemu_args
    [[ -z $BANKS ]] || use_banks "$BANK_NODES" "$BANKS"
    kernel=$BOOT_IMAGE
    [[ $FORMAT == image ]] || kernel=$BOOT_ELF
    [[ -t 0 ]] || stdin=/dev/null
    : >"$SCRATCH/serial"
    timeout --foreground -k 5 "$LIMIT" "$QEMU" "${QEMU_ARGS[@]}" -kernel "$kernel" \
        -chardev "stdio,id=console,logfile=$SCRATCH/serial" -serial chardev:console -monitor none \
        <$stdin 2>"$SCRATCH/qemu-stderr" || code=$?
    if ((code == EXIT_TIMEOUT)); then
        say "the kernel did not end within $LIMIT s; --timeout gives it longer"
        return $EXIT_TIMEOUT
    fi
    cat "$SCRATCH/qemu-stderr" >&2
    if ((code == 1)) && [[ ! -s $SCRATCH/serial ]]; then
        say "QEMU did not start: see its message above"
        return $EXIT_SETUP
    fi
    # Where there is no semihosting the kernel can only switch off; its code is then in its last line.
    ((code != 0)) || code=$(exit_line) || say "QEMU ended before the kernel did"
    if [[ -n $JSON ]]; then
        tr -d '\r' <"$SCRATCH/serial" | sed -n '/^{.*}$/p' >"$JSON" || die $EXIT_SETUP "--json $JSON: could not be written"
        say "$(wc -l <"$JSON") results in $JSON"
    fi
    return "$code"
}

# The N of a last line `palisade: exit N`; without one, 1 and failure: QEMU exits with 0 too where it was told to quit.
exit_line() {
    local last
    last=$(tail -n1 "$SCRATCH/serial" | tr -d '\r')
    if [[ $last =~ ^palisade:\ exit\ ([0-9]{1,3})$ ]]; then
        echo "${BASH_REMATCH[1]}"
    else
        echo 1
        return 1
    fi
}
