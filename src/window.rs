//! Protection off for a stretch, as a whole: what measuring without it takes.

use pkeys::Por;
use platform::arch::{Arch, Arm};

/// Runs `work` with every key open on this CPU, then closes them. Descriptors stay as they are, so what runs in it differs from the
/// protected kernel in POR_EL1's value alone. An exception inside closes for its own time, as ever.
pub fn with_protection_off<R>(work: impl FnOnce() -> R) -> R {
    set(Por::ALL_OPEN);
    let result = work();
    set(Por::CLOSED);
    result
}

/// Inlined, so that each write's value is a constant in the instruction stream.
#[inline(always)]
fn set(por: Por) {
    // SAFETY: this turns protection off, or on again, for a stretch as a whole; both constants leave key 0 accessible.
    unsafe { Arm::write_por(por.bits()) };
    let _ = Arm::isb();
}
