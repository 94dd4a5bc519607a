//! The registers that the conformance kernel drives.

use core::arch::asm;

/// TCR2_EL1.PIE.
pub const TCR2_PIE: u64 = 1 << 1;
/// TCR2_EL1.E0POE.
pub const TCR2_E0POE: u64 = 1 << 2;
/// TCR2_EL1.POE.
pub const TCR2_POE: u64 = 1 << 3;
/// TCR_EL1.HPD0.
pub const TCR_HPD0: u64 = 1 << 41;
/// SCTLR_EL1.WXN.
pub const SCTLR_WXN: u64 = 1 << 19;
/// SCTLR_EL1.EPAN.
pub const SCTLR_EPAN: u64 = 1 << 57;
/// PSTATE.PAN, as the register PAN and in SPSR_EL1.
pub const PAN: u64 = 1 << 22;
/// PSTATE.UAO, as the register UAO and in SPSR_EL1.
pub const UAO: u64 = 1 << 23;
/// CPACR_EL1.E0POE.
pub const CPACR_E0POE: u64 = 1 << 29;

/// A function that reads a system register, or writes it, as it is.
macro_rules! accessor {
    (read $name:literal) => {
        /// Reads it.
        pub fn read() -> u64 {
            let value;
            // SAFETY: reading the register has no effect.
            unsafe { core::arch::asm!(concat!("mrs {}, ", $name), out(reg) value, options(nostack, preserves_flags)) };
            value
        }
    };
    (write $name:literal) => {
        /// Writes it, without a barrier.
        ///
        /// # Safety
        /// Text, data, stack and devices of the kernel stay as accessible as they are.
        pub unsafe fn write(value: u64) {
            // SAFETY: the caller's promise.
            unsafe { core::arch::asm!(concat!("msr ", $name, ", {}"), in(reg) value, options(nostack, preserves_flags)) };
        }
    };
}

/// A module for each register.
macro_rules! registers {
    ($($(#[$doc:meta])* $module:ident = $name:literal $($accessor:ident)*;)*) => {$(
        $(#[$doc])*
        pub mod $module {
            $(accessor!($accessor $name);)*
        }
    )*};
}

registers! {
    /// TCR2_EL1.
    tcr2 = "s3_0_c2_c0_3" read write;
    /// PIR_EL1.
    pir = "s3_0_c10_c2_3" read write;
    /// PIRE0_EL1.
    pire0 = "s3_0_c10_c2_2" read write;
    /// POR_EL1.
    por = "s3_0_c10_c2_4" read write;
    /// POR_EL0.
    por0 = "s3_3_c10_c2_4" read write;
    /// SCTLR_EL1.
    sctlr = "sctlr_el1" read write;
    /// TCR_EL1.
    tcr = "tcr_el1" read write;
    /// MAIR_EL1.
    mair = "mair_el1" read;
    /// TTBR0_EL1.
    ttbr0 = "ttbr0_el1" read write;
    /// TTBR1_EL1.
    ttbr1 = "ttbr1_el1" read;
    /// VBAR_EL1.
    vbar = "vbar_el1" read write;
    /// TPIDRRO_EL0.
    tpidrro = "tpidrro_el0" write;
    /// TPIDR_EL1.
    tpidr = "tpidr_el1" read;
    /// CPACR_EL1.
    cpacr = "cpacr_el1" read write;
    /// PSTATE.PAN.
    pan = "s3_0_c4_c2_3" write;
    /// PSTATE.UAO.
    uao = "s3_0_c4_c2_4" write;
    /// ID_AA64MMFR3_EL1.
    mmfr3 = "s3_0_c0_c7_3" read;
    /// ID_AA64MMFR2_EL1.
    mmfr2 = "id_aa64mmfr2_el1" read;
    /// ID_AA64MMFR1_EL1.
    mmfr1 = "id_aa64mmfr1_el1" read;
    /// ID_AA64ISAR0_EL1.
    isar0 = "id_aa64isar0_el1" read;
}

/// ISB: what was written to system registers holds from here on.
pub fn isb() {
    // SAFETY: a barrier.
    unsafe { asm!("isb", options(nostack, preserves_flags)) };
}

/// Makes stores to tables visible to the walker, and drops this CPU's TLB.
pub fn flush_tlb() {
    // SAFETY: barriers, and a TLB that forgets; what it held is in the tables.
    unsafe { asm!("dsb ishst", "tlbi vmalle1", "dsb nsh", "isb", options(nostack, preserves_flags)) };
}

/// Drops this CPU's TLB entries for the page at `address`.
pub fn flush_page(address: u64) {
    let operand = address >> 12 & ((1 << 44) - 1);
    // SAFETY: as in `flush_tlb`.
    unsafe {
        asm!("dsb ishst", "tlbi vaae1, {}", "dsb nsh", "isb", in(reg) operand, options(nostack, preserves_flags))
    };
}

/// An address translation instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Translate {
    /// AT S1E1R.
    S1E1R,
    /// AT S1E1W.
    S1E1W,
    /// AT S1E0R.
    S1E0R,
    /// AT S1E0W.
    S1E0W,
    /// AT S1E1RP (FEAT_PAN2).
    S1E1RP,
    /// AT S1E1WP (FEAT_PAN2).
    S1E1WP,
}

/// Executes `AT` and returns PAR_EL1.
macro_rules! at {
    ($address:expr, $instruction:literal) => {{
        let par: u64;
        // SAFETY: translates an address, into PAR_EL1 alone.
        unsafe {
            asm!(concat!($instruction, ", {}"), "isb", "mrs {}, par_el1", in(reg) $address, lateout(reg) par,
                options(nostack, preserves_flags))
        };
        par
    }};
}

impl Translate {
    /// Translates `address`; PAR_EL1 says what came of it.
    pub fn run(self, address: u64) -> u64 {
        match self {
            Translate::S1E1R => at!(address, "at s1e1r"),
            Translate::S1E1W => at!(address, "at s1e1w"),
            Translate::S1E0R => at!(address, "at s1e0r"),
            Translate::S1E0W => at!(address, "at s1e0w"),
            Translate::S1E1RP => at!(address, "sys #0, c7, c9, #0"),
            Translate::S1E1WP => at!(address, "sys #0, c7, c9, #1"),
        }
    }
}
