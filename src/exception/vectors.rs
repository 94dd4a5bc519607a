//! The vector tables' assembly, with the offsets and constants that it needs.

use super::frame::ExceptionFrame;
use core::arch::global_asm;
use core::mem::{offset_of, size_of};
use pkeys::Por;
use pkeys::pi::pir_under;
use platform::arch::CpuHeader;

/// The vector that the assembly reports where a kernel stack has overflown, beside the architecture's sixteen.
pub const OVERFLOW: u64 = 16;

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
);
