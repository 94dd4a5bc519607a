//! POR_EL1 on a CPU that has S1PIE but not S1POE: the decoder of the trapped instruction.
//!
//! There `MSR`/`MRS POR_EL1` is UNDEFINED (EC 0). The EL1 vector reads the instruction, keeps the virtual register, and
//! writes [`crate::pi::pir_under`] of it to PIR_EL1, so the MMU itself enforces it. PIR_EL1 may be held in a TLB, so a
//! local TLBI follows.

/// What a trapped instruction wanted of POR_EL1. Register 31 is XZR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PorAccess {
    /// `MSR POR_EL1, Xt`.
    Write {
        /// t.
        from: u8,
    },
    /// `MRS Xt, POR_EL1`.
    Read {
        /// t.
        to: u8,
    },
}

/// Decodes an instruction word; `None` where it is no access to POR_EL1 (S3_0_C10_C2_4; Arm ARM C5.2.2).
pub const fn decode(instruction: u32) -> Option<PorAccess> {
    let register = (instruction & 31) as u8;
    match instruction & !31 {
        0xd518_a280 => Some(PorAccess::Write { from: register }),
        0xd538_a280 => Some(PorAccess::Read { to: register }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_both_directions_and_every_register() {
        for t in 0..32u8 {
            assert_eq!(decode(0xd518_a280 | u32::from(t)), Some(PorAccess::Write { from: t }));
            assert_eq!(decode(0xd538_a280 | u32::from(t)), Some(PorAccess::Read { to: t }));
        }
    }

    #[test]
    fn leaves_the_neighbours_alone() {
        // POR_EL0 (op1 3), POR_EL2 (op1 4), PIR_EL1 (op2 3), MAIR_EL1, UDF.
        for word in [0xd51b_a280, 0xd51c_a280, 0xd518_a260, 0xd518_a200, 0] {
            assert_eq!(decode(word), None, "{word:#x}");
        }
    }
}
