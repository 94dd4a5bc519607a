//! Exceptions that end the kernel, and what is said of them.

use super::expect::{Expectation, expected};
use super::frame::ExceptionFrame;
use crate::panic;
use crate::syndrome::{Access, Class, Fault, Kind};
use crate::tables::{self, Keyed};
use core::arch::asm;
use core::fmt;
use pkeys::{Pkey, Por};

const VECTORS: [&str; 16] = [
    "synchronous exception on SP_EL0",
    "interrupt on SP_EL0",
    "fast interrupt on SP_EL0",
    "SError on SP_EL0",
    "synchronous exception",
    "interrupt that nobody serves",
    "fast interrupt",
    "SError",
    "synchronous exception from EL0",
    "interrupt from EL0",
    "fast interrupt from EL0",
    "SError from EL0",
    "synchronous exception from AArch32",
    "interrupt from AArch32",
    "fast interrupt from AArch32",
    "SError from AArch32",
];

/// Ends the kernel over an exception that nothing handles.
pub(super) fn unexpected(frame: &mut ExceptionFrame, vector: u64) -> ! {
    if vector >= 8 {
        // SAFETY: reads the interrupted level's stack pointer.
        unsafe { asm!("mrs {}, sp_el0", out(reg) frame.sp, options(nomem, nostack, preserves_flags)) };
    }
    let name = VECTORS.get(vector as usize).copied().unwrap_or("exception");
    check(None);
    match vector % 4 {
        0 => panic::fatal(frame, format_args!("{name}: {}", Class::of(frame.esr))),
        _ => panic::fatal(frame, format_args!("{name}")),
    }
}

/// Ends the kernel over a stack that ran into its guard.
pub(super) fn stack_overflow(frame: &ExceptionFrame) -> ! {
    check(Some(Expectation::StackOverflow));
    panic::fatal(frame, format_args!("kernel stack overflow, SP {:#018x}", frame.sp))
}

/// Ends the kernel over a fault that nothing recovers.
pub(super) fn fault(frame: &ExceptionFrame, fault: &Fault) -> ! {
    check(Expectation::of(fault));
    if let (Kind::Permission(_), Access::Write) = (fault.kind(), fault.access())
        && let Some(keyed) = tables::keyed(fault.far)
        && keyed.key != Pkey::Default
    {
        panic::fatal(frame, format_args!("{}", TableWrite { fault, keyed }));
    }
    panic::fatal(frame, format_args!("{fault}"))
}

/// Ends a test kernel well where `happened` was announced, and notes that it will end badly where something else was.
fn check(happened: Option<Expectation>) {
    match (expected(), happened) {
        (None, _) => (),
        (Some(expected), Some(happened)) if expected == happened => {
            crate::println!("the expected fault came: {expected}");
            crate::exit(0);
        }
        (Some(expected), _) => {
            crate::println!("expected another fault: {expected}");
            panic::set_exit_code(1);
        }
    }
}

/// A store to a table outside a section.
struct TableWrite<'a> {
    fault: &'a Fault,
    keyed: Keyed,
}

impl fmt::Display for TableWrite<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault { far, elr, por, .. } = *self.fault;
        writeln!(f, "unguarded write to a page table")?;
        write!(f, "  who    {elr:#018x}")?;
        if let Some((name, offset)) = crate::symbols::table().and_then(|table| table.lookup(elr)) {
            write!(f, " {name}+{offset:#x}")?;
        }
        writeln!(f, "\n  where  {far:#018x}, {}", self.keyed.place)?;
        writeln!(f, "  key    {}", self.keyed.key)?;
        write!(f, "  POR    {}", Por::from_bits(por))
    }
}
