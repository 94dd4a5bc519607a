//! Switching the machine off.

use core::arch::asm;
use platform::arch::{Arch, Arm};
use platform::machine::Conduit;
use platform::psci::Psci;
use platform::semihosting;
use spin::Once;

static CONDUIT: Once<Conduit> = Once::new();

/// Says how PSCI is called on this machine.
pub(crate) fn set_conduit(conduit: Conduit) {
    CONDUIT.call_once(|| conduit);
}

/// Prints `palisade: exit CODE` as the last line, and ends the machine with that code (0 to 255).
pub fn exit(code: u32) -> ! {
    let _ = Arm::irq_save();
    crate::println!("palisade: exit {code}");
    off(code)
}

/// Ends the machine: by semihosting, which can pass `code` on, else by PSCI, else by waiting for ever.
pub(crate) fn off(code: u32) -> ! {
    semihosting::exit(code);
    if let Some(conduit) = CONDUIT.get() {
        // An error means that the machine still runs; waiting is all that is left.
        let _ = Psci::new(*conduit).system_off();
    }
    loop {
        // SAFETY: waits; with interrupts masked.
        unsafe { asm!("wfi", options(nomem, nostack, preserves_flags)) };
    }
}
