//! The vector tables' assembly, with the offsets and constants that it needs.

use super::frame::ExceptionFrame;
use core::arch::{asm, global_asm};
use core::mem::{offset_of, size_of};
use pkeys::pi::pir_under;
use pkeys::{Context, KernelTables, Por, UserTables};
use platform::arch::CpuHeader;

/// The vector that the assembly reports where a kernel stack has overflown, beside the architecture's sixteen.
pub const OVERFLOW: u64 = 16;

/// Which bit two register values differ in.
const fn bit(closed: u64, open: u64) -> u32 {
    let differing = closed ^ open;
    assert!(differing.is_power_of_two() && open & differing != 0);
    differing.trailing_zeros()
}

// The pairs of bits that the assembly keeps stand for these four values.
const _: () = assert!(Por::CLOSED.writable() == 0 && Por::ALL_OPEN.writable() == 3);
const _: () = assert!(UserTables::OPEN.writable() == 1 && KernelTables::OPEN.writable() == 2);

/// Replaces what the interrupted code goes on with in POR_EL1: one of the four values that sections set, whichever lets
/// the same keys be written as `por` does.
pub fn resume_with(por: Por) {
    // SAFETY: every vector has pushed a pair onto TPIDRRO_EL0 before it calls Rust, and this changes no other; nothing
    // but the vectors' way back reads the register.
    unsafe {
        asm!(
            "mrs {stack}, tpidrro_el0",
            "bfi {stack}, {keys}, #0, #2",
            "msr tpidrro_el0, {stack}",
            stack = out(reg) _,
            keys = in(reg) por.writable(),
            options(nomem, nostack, preserves_flags),
        )
    };
}

global_asm!(
    include_str!("vectors.S"),
    FRAME = const size_of::<ExceptionFrame>(),
    ELR = const offset_of!(ExceptionFrame, elr),
    ESR = const offset_of!(ExceptionFrame, esr),
    POR = const offset_of!(ExceptionFrame, por),
    RECORD = const offset_of!(ExceptionFrame, record),
    VIRTUAL_POR = const offset_of!(CpuHeader, virtual_por),
    OVERFLOW_STACK = const offset_of!(CpuHeader, overflow_stack),
    OVERFLOW = const OVERFLOW,
    POR_CLOSED = const Por::CLOSED.bits(),
    PIR_CLOSED = const pir_under(Por::CLOSED),
    POR_USER = const bit(Por::CLOSED.bits(), UserTables::OPEN.bits()),
    POR_KERNEL = const bit(Por::CLOSED.bits(), KernelTables::OPEN.bits()),
    PIR_USER = const bit(pir_under(Por::CLOSED), pir_under(UserTables::OPEN)),
    PIR_KERNEL = const bit(pir_under(Por::CLOSED), pir_under(KernelTables::OPEN)),
);
