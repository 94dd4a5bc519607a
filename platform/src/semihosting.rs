//! Arm semihosting: the call that ends QEMU with an exit code of our choice, and one that prints where there is no UART yet.
//!
//! With semihosting off in the emulator, `HLT #0xF000` is UNDEFINED. The kernel's EL1 exception handler recognises it
//! by its address ([`hlt_address`]) and skips it, so that [`exit`] returns and the caller can fall back to PSCI
//! SYSTEM_OFF. A debugger that answers semihosting may also let the call return.

use core::arch::naked_asm;

/// Operation number of SYS_WRITEC (semihosting specification, "SYS_WRITEC (0x03)").
const SYS_WRITEC: u64 = 0x03;
/// Operation number of SYS_EXIT_EXTENDED (semihosting specification, "SYS_EXIT_EXTENDED (0x20)").
const SYS_EXIT_EXTENDED: u64 = 0x20;
/// Reason code ADP_Stopped_ApplicationExit: the subcode is the exit status.
const APPLICATION_EXIT: u64 = 0x20026;

/// Asks the semihosting host to end the program with `code`; QEMU exits with its low eight bits.
///
/// Returns only if nobody served the call: see the module's text.
pub fn exit(code: u32) {
    let block = [APPLICATION_EXIT, u64::from(code)];
    // SAFETY: SYS_EXIT_EXTENDED reads the two words at `block`, which outlive the call, and writes no memory.
    unsafe { call(SYS_EXIT_EXTENDED, block.as_ptr().cast()) };
}

/// Writes one byte to the host's debug console; nothing happens where nobody serves the call.
pub fn put(byte: u8) {
    // SAFETY: SYS_WRITEC reads the one byte that x1 points to, which outlives the call, and writes no memory.
    unsafe { call(SYS_WRITEC, (&raw const byte).cast()) };
}

/// Address of the `HLT #0xF000` in [`exit`], for the exception handler that skips it (4 bytes) where it is UNDEFINED.
pub fn hlt_address() -> usize {
    call as *const () as usize
}

/// The call itself: operation in x0, parameter block in x1, result in x0. Its first instruction is the HLT.
///
/// # Safety
/// `block` points to what `operation` reads and writes, for the length of the call.
#[unsafe(naked)]
unsafe extern "C" fn call(operation: u64, block: *const u8) -> u64 {
    naked_asm!("hlt #0xf000", "ret")
}
