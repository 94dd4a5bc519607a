//! Exceptions: the vectors, what each exception leads to, and accesses that may fault.
//!
//! A synchronous exception from EL1 is, in this order: an access to POR_EL1 that the CPU does not know (emulated), a
//! fault that POR_EL1 as written would not give (retried), a fault of an instruction in the exception table (the user
//! fault handler, then the fixup), or the end of the kernel. EL0 does not run yet: whatever comes from there ends it too.

mod expect;
mod frame;
mod overlay;
pub mod probe;
mod report;
mod vectors;

pub use expect::{Expectation, expect};
pub use frame::ExceptionFrame;

use core::arch::asm;
use core::mem;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use pkeys::Por;
use pkeys::emulation::{self, PorAccess};
use platform::arch::{Arch, Arm};
use platform::semihosting;

use crate::boot::image::Part;
use crate::percpu::PerCpu;

pub use crate::syndrome::{Access, Class, Fault, Kind};

/// Decides on a fault at a user address: true where the access can be tried again.
pub type UserFaultHandler = fn(&Fault) -> bool;
/// Serves one interrupt.
pub type InterruptHandler = fn();

static USER_FAULT: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
/// Whether the vectors are those of [`PorMode::Hardware`].
static HARDWARE: AtomicBool = AtomicBool::new(false);
static INTERRUPT: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// Sets who decides on faults of user accesses ([`probe::read_user_u8`], [`probe::write_user_u8`]), instead of who did before. It
/// runs with interrupts masked and POR_EL1 closed.
pub fn set_user_fault_handler(handler: UserFaultHandler) {
    USER_FAULT.store(handler as *mut (), Ordering::Release);
}

/// Sets who serves interrupts. It runs with interrupts masked and POR_EL1 closed.
pub fn set_interrupt_handler(handler: InterruptHandler) {
    INTERRUPT.store(handler as *mut (), Ordering::Release);
}

/// Called by `vectors.S` for every exception, with POR_EL1 closed and interrupts masked.
#[unsafe(no_mangle)]
extern "C" fn exception_dispatch(frame: &mut ExceptionFrame, vector: u64) {
    debug_assert!(is_closed(), "an exception handler began open");
    match vector {
        4 => synchronous(frame),
        5 => interrupt(frame),
        vectors::OVERFLOW => report::stack_overflow(frame),
        _ => report::unexpected(frame, vector),
    }
    debug_assert!(is_closed(), "an exception handler left a section open");
}

/// Whether POR_EL1 is closed, by the register itself where it is one, and by what emulation keeps where it is not: reading the
/// register would be an exception of its own there.
fn is_closed() -> bool {
    let por = match HARDWARE.load(Ordering::Relaxed) {
        true => Arm::read_por(),
        false => PerCpu::current().virtual_por(),
    };
    por == Por::CLOSED.bits()
}

fn synchronous(frame: &mut ExceptionFrame) {
    match Class::of(frame.esr) {
        Class::UNKNOWN if undefined(frame) => (),
        Class::INSTRUCTION_ABORT | Class::DATA_ABORT => abort(frame),
        _ => report::unexpected(frame, 4),
    }
}

/// Handles an UNDEFINED instruction where it is one of those that the kernel executes knowing that; tells whether it was.
fn undefined(frame: &mut ExceptionFrame) -> bool {
    if frame.elr == semihosting::hlt_address() as u64 {
        frame.elr += 4;
        return true;
    }
    if !Part::Text.link_range().contains(&frame.elr) || !frame.elr.is_multiple_of(4) {
        return false;
    }
    let word = ptr::with_exposed_provenance::<u32>(frame.elr as usize);
    // SAFETY: the address is 4-byte aligned and lies in the image's text, which is readable and constant.
    let Some(access) = emulation::decode(unsafe { word.read() }) else {
        return false;
    };
    match access {
        PorAccess::Write { from } => {
            vectors::resume_with(Por::from_bits(frame.x.get(usize::from(from)).copied().unwrap_or(0)));
        }
        PorAccess::Read { to } => {
            if let Some(register) = frame.x.get_mut(usize::from(to)) {
                *register = frame.por;
            }
        }
    }
    frame.elr += 4;
    true
}

fn abort(frame: &mut ExceptionFrame) {
    let fault = Fault { esr: frame.esr, far: frame.far, elr: frame.elr, por: frame.por };
    if fault.is_overlay() && overlay::would_pass(&fault) {
        return;
    }
    let Some(fixup) = probe::fixup_of(frame.elr) else {
        report::fault(frame, &fault);
    };
    if fixup.user && is_user(fault.far) && resolve(&fault) {
        return;
    }
    (frame.x[3], frame.x[4], frame.x[5], frame.x[6]) = (fault.esr, fault.far, fault.elr, fault.por);
    frame.elr = fixup.address;
}

/// Whether `address` lies in TTBR0's half.
const fn is_user(address: u64) -> bool {
    address >> 48 == 0
}

fn resolve(fault: &Fault) -> bool {
    let handler = USER_FAULT.load(Ordering::Acquire);
    if handler.is_null() {
        return false;
    }
    // SAFETY: only `set_user_fault_handler` stores here, and it stores a `UserFaultHandler`.
    let handler = unsafe { mem::transmute::<*mut (), UserFaultHandler>(handler) };
    handler(fault)
}

fn interrupt(frame: &mut ExceptionFrame) {
    let handler = INTERRUPT.load(Ordering::Acquire);
    if handler.is_null() {
        report::unexpected(frame, 5);
    }
    // SAFETY: only `set_interrupt_handler` stores here, and it stores an `InterruptHandler`.
    let handler = unsafe { mem::transmute::<*mut (), InterruptHandler>(handler) };
    handler();
}

/// The ways in which POR_EL1 can be honoured, each with a vector table of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PorMode {
    /// It is a register.
    Hardware,
    /// PIR_EL1 has its effect.
    Emulated,
    /// It is remembered only.
    Virtual,
}

/// Makes this CPU's vectors those of `mode`; at boot, where POR_EL1 is closed and no section is open.
pub(crate) fn install(mode: PorMode) {
    HARDWARE.store(mode == PorMode::Hardware, Ordering::Relaxed);
    let table = match mode {
        PorMode::Hardware => &raw const vectors_hardware,
        PorMode::Emulated => &raw const vectors_emulated,
        PorMode::Virtual => &raw const vectors_virtual,
    };
    // SAFETY: each symbol is a complete, aligned vector table.
    unsafe { asm!("msr vbar_el1, {}", "isb", in(reg) table, options(nostack, preserves_flags)) };
}

// SAFETY: `vectors.S` defines them; only their addresses are used.
unsafe extern "C" {
    static vectors_hardware: u8;
    static vectors_emulated: u8;
    static vectors_virtual: u8;
}
