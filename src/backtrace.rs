//! Printing a backtrace of this CPU.

use core::arch::asm;
use core::fmt::{self, Write};
use core::ops::Range;
use core::ptr;

use platform::backtrace::{self, Walk};

use crate::symbols;

/// The frame pointer (x29) of the function that calls this: where a backtrace of itself starts.
#[inline(always)]
pub fn frame_pointer() -> u64 {
    let fp;
    // SAFETY: the instruction copies a register and touches nothing else.
    unsafe { asm!("mov {}, x29", out(reg) fp, options(nomem, nostack, preserves_flags)) };
    fp
}

/// Writes the calls that led to the frame at `fp`, one a line, with the names of their functions.
///
/// `pc`, where given, comes first: the address of an instruction, such as ELR_EL1. `fp` is the x29 that belongs to it.
/// `stacks` are the address ranges of the stacks that the frames may lie on, innermost first; whatever the frames
/// hold, nothing outside these is read.
///
/// # Safety
/// Every range of `stacks` must be mapped as memory that this CPU may read, until the function returns.
///
/// # Errors
/// Only those of `out`.
pub unsafe fn print(out: &mut dyn Write, pc: Option<u64>, fp: u64, stacks: &[Range<u64>]) -> fmt::Result {
    let read = |addr: u64| {
        let word = ptr::with_exposed_provenance::<u64>(usize::try_from(addr).ok()?);
        // SAFETY: 1. `Walk` asks only for aligned words that lie inside `stacks`; 2. those are readable memory, as this
        // function's caller promises; 3. the read is volatile, so a frame of a function still running may be read.
        Some(unsafe { word.read_volatile() })
    };
    backtrace::write(out, symbols::table(), pc, Walk::new(fp, stacks, read))
}
