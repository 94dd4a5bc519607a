//! Overlay faults that are over before they are handled.
//!
//! A write of POR_EL1 holds for the accesses after the next context synchronisation event. A section may open without
//! one (or an implementation may deliver the fault of an access that ran ahead), so that an access faults though
//! POR_EL1, as read, allows it. Taking the exception was such an event: the access can be tried again.

use crate::syndrome::{Access, Fault, Kind};
use core::arch::asm;
use pkeys::{Context, KernelTables, Por, UserTables};
use platform::arch::{Arch, Arm};

/// PAR_EL1.F: the translation was aborted.
const PAR_FAULT: u64 = 1;

/// Whether the access would pass with POR_EL1 as the interrupted code had written it. The MMU itself is asked, so that
/// a fault with any other cause is never retried. Only where POR_EL1 is a register.
pub(super) fn would_pass(fault: &Fault) -> bool {
    const BOTH: Por = Por::ALL_OPEN;
    if !matches!(fault.kind(), Kind::Permission(_)) || fault.access() == Access::Execute {
        return false;
    }
    // One arm a value, so that no instruction writes a value that an attacker may have put into the frame.
    match Por::from_bits(fault.por) {
        UserTables::OPEN => open_and_ask::<{ UserTables::OPEN.bits() }>(fault),
        KernelTables::OPEN => open_and_ask::<{ KernelTables::OPEN.bits() }>(fault),
        BOTH => open_and_ask::<{ BOTH.bits() }>(fault),
        _ => false,
    }
}

/// Asks the MMU about the access with POR_EL1 at `POR`, and closes again.
fn open_and_ask<const POR: u64>(fault: &Fault) -> bool {
    // SAFETY: a constant that leaves key 0 accessible; closed again below, with interrupts masked as in every handler.
    unsafe { Arm::write_por(POR) };
    let _ = Arm::isb();
    let par: u64;
    // SAFETY: an address translation instruction accesses no memory but tables, and PAR_EL1 is no one's across calls.
    unsafe {
        match fault.access() {
            Access::Write => asm!("at s1e1w, {}", in(reg) fault.far, options(nostack, preserves_flags)),
            _ => asm!("at s1e1r, {}", in(reg) fault.far, options(nostack, preserves_flags)),
        }
        asm!("isb", "mrs {}, par_el1", out(reg) par, options(nostack, preserves_flags));
        Arm::write_por(Por::CLOSED.bits());
    }
    let _ = Arm::isb();
    par & PAR_FAULT == 0
}
