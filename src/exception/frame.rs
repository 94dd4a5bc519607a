//! What an exception leaves of the code that it interrupted.

use core::fmt;
use pkeys::Por;

/// The registers of the interrupted code, as `vectors.S` stores them. What stands here when the handler returns is what
/// the code goes on with, except for `sp`, `por` and `pir`.
#[derive(Clone, Debug)]
#[repr(C, align(16))]
pub struct ExceptionFrame {
    /// x0 to x30.
    pub x: [u64; 31],
    /// SP, of the level that was interrupted.
    pub sp: u64,
    /// ELR_EL1: the address to return to.
    pub elr: u64,
    /// SPSR_EL1.
    pub spsr: u64,
    /// ESR_EL1.
    pub esr: u64,
    /// FAR_EL1; UNKNOWN where the exception reports no address.
    pub far: u64,
    /// POR_EL1, real or virtual.
    pub por: u64,
    /// PIR_EL1 where POR_EL1 is emulated by it, else 0.
    pub pir: u64,
    /// A frame record of the interrupted code: x29 and ELR_EL1. x29 points to it while the handler runs.
    pub record: [u64; 2],
}

impl fmt::Display for ExceptionFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, value) in self.x.iter().enumerate() {
            let end = if i % 4 == 3 { "\n" } else { "  " };
            write!(f, "x{i:<2} {value:016x}{end}")?;
        }
        writeln!(f, "sp  {:016x}", self.sp)?;
        writeln!(f, "elr {:016x}  spsr {:08x}  esr {:010x}  far {:016x}", self.elr, self.spsr, self.esr, self.far)?;
        writeln!(f, "por {}", Por::from_bits(self.por))
    }
}
