//! Which protection this machine gives, and putting it into force.

use crate::bootargs::Gate;
use crate::exception::{self, PorMode};
use core::arch::asm;
use core::fmt;
use pkeys::pi::PIR_EL1;
use platform::arch::{Arch, Arm};
use platform::features::Features;

/// TCR2_EL1 of a CPU that has indirect permissions (PIE) in force and overlays (POE) not.
const TCR2_PIE: u64 = 1 << 1;

/// How the tables are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// FEAT_S1POE: POR_EL1 is a register.
    Hardware,
    /// FEAT_S1PIE alone: the EL1 vector emulates POR_EL1 by PIR_EL1. The MMU enforces it all the same.
    Emulated,
    /// Not at all.
    None,
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protection::Hardware => "protection keys by POR_EL1 (FEAT_S1POE)",
            Protection::Emulated => "protection keys by PIR_EL1, POR_EL1 emulated (FEAT_S1PIE without FEAT_S1POE)",
            Protection::None => "none: page tables are writable",
        })
    }
}

/// The CPU lacks indirect permissions, on which protection rests: POR_EL1 is used with them or emulated by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported;

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "this CPU lacks FEAT_S1PIE, which both FEAT_S1POE and its emulation need here, so page tables can't be protected; \
             boot with gate=none or gate=mock to run without protection",
        )
    }
}

impl core::error::Error for Unsupported {}

impl Protection {
    /// What `gate` asks for and the CPU has.
    ///
    /// # Errors
    /// [`Unsupported`] where `gate` asks for protection and there is none.
    pub fn choose(features: &Features, gate: Gate) -> Result<Self, Unsupported> {
        let indirect = features.s1pie && features.tcr2;
        match gate {
            Gate::Mock | Gate::None => Ok(Protection::None),
            Gate::Auto | Gate::Por if indirect && features.s1poe => Ok(Protection::Hardware),
            Gate::Auto | Gate::Por if indirect => Ok(Protection::Emulated),
            Gate::Auto | Gate::Por => Err(Unsupported),
        }
    }

    /// Puts it into force on this CPU. The entry code has closed all keys in the way that the CPU has, so only doing
    /// without takes a change.
    pub(crate) fn enforce(self, features: &Features) {
        match self {
            Protection::Hardware => exception::install(PorMode::Hardware),
            Protection::Emulated => exception::install(PorMode::Emulated),
            Protection::None => {
                if features.s1pie && features.tcr2 {
                    open_all(features);
                }
                exception::install(PorMode::Virtual);
            }
        }
    }
}

/// Opens every key for good. Where POR_EL1 is a register it stops having an effect, so that whoever writes it changes
/// nothing; elsewhere its writes trap, and are remembered only.
fn open_all(features: &Features) {
    if features.s1poe {
        // SAFETY: protection is off for the whole run, as the boot arguments ask; key 0, which all else has, loses
        // nothing.
        unsafe { asm!("msr s3_0_c2_c0_3, {}", in(reg) TCR2_PIE, options(nostack, preserves_flags)) };
    } else {
        // SAFETY: the value differs from the one in force only in what gated indices allow.
        unsafe { asm!("msr s3_0_c10_c2_3, {}", in(reg) PIR_EL1, options(nostack, preserves_flags)) };
    }
    let _ = Arm::isb();
    // SAFETY: dropping TLB entries of this CPU changes no translation; PIR_EL1 may be held in them.
    unsafe { asm!("tlbi vmalle1", "dsb nsh", "isb", options(nostack, preserves_flags)) };
}
