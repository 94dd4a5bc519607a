//! What the CPU can do, from its ID registers (Arm ARM DDI 0487, D24.2).

use core::fmt;

/// Raw values of the ID registers that [`Features::decode`] looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdRegisters {
    /// ID_AA64MMFR0_EL1.
    pub mmfr0: u64,
    /// ID_AA64MMFR1_EL1.
    pub mmfr1: u64,
    /// ID_AA64MMFR2_EL1.
    pub mmfr2: u64,
    /// ID_AA64MMFR3_EL1.
    pub mmfr3: u64,
    /// ID_AA64PFR0_EL1.
    pub pfr0: u64,
    /// ID_AA64PFR1_EL1.
    pub pfr1: u64,
    /// ID_AA64ISAR0_EL1.
    pub isar0: u64,
    /// ID_AA64DFR0_EL1.
    pub dfr0: u64,
}

#[cfg(target_os = "none")]
impl IdRegisters {
    /// Reads the running CPU's registers.
    pub fn read() -> Self {
        use aarch64_cpu::registers::{
            ID_AA64DFR0_EL1, ID_AA64ISAR0_EL1, ID_AA64MMFR0_EL1, ID_AA64MMFR1_EL1, ID_AA64MMFR2_EL1, ID_AA64PFR0_EL1,
            ID_AA64PFR1_EL1, Readable,
        };
        IdRegisters {
            mmfr0: ID_AA64MMFR0_EL1.get(),
            mmfr1: ID_AA64MMFR1_EL1.get(),
            mmfr2: ID_AA64MMFR2_EL1.get(),
            // ID_AA64MMFR3_EL1, which aarch64-cpu does not name; RES0 on CPUs that predate it.
            mmfr3: crate::sysreg::mrs!("s3_0_c0_c7_3"),
            pfr0: ID_AA64PFR0_EL1.get(),
            pfr1: ID_AA64PFR1_EL1.get(),
            isar0: ID_AA64ISAR0_EL1.get(),
            dfr0: ID_AA64DFR0_EL1.get(),
        }
    }
}

/// FEAT_BBM: how a live entry may change its block size (D8.17.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlockChange {
    /// Level 0: break-before-make always.
    BreakBeforeMake,
    /// Level 1: the nT bit may mark an entry during the change.
    WithNt,
    /// Level 2: block and table may be swapped directly.
    Direct,
}

/// The performance monitors (ID_AA64DFR0_EL1.PMUVer).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pmu {
    /// None, or one that is not the architected PMUv3.
    None,
    /// PMUv3 with 32-bit event counters.
    V3,
    /// PMUv3p5 or later: event counters of 64 bits.
    V3p5,
}

/// Decoded CPU features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// FEAT_S1PIE: stage 1 permissions by PIR_ELx.
    pub s1pie: bool,
    /// FEAT_S1POE: stage 1 permission overlays by POR_ELx.
    pub s1poe: bool,
    /// FEAT_TCR2: TCR2_EL1 exists.
    pub tcr2: bool,
    /// FEAT_PAN or later.
    pub pan: bool,
    /// FEAT_HCX: HCRX_EL2 exists.
    pub hcx: bool,
    /// FEAT_FGT: the fine-grained trap registers exist.
    pub fgt: bool,
    /// FEAT_VHE.
    pub vhe: bool,
    /// FEAT_LSE: atomic instructions.
    pub lse: bool,
    /// FEAT_RNG: the RNDR register.
    pub rndr: bool,
    /// FEAT_E0PD.
    pub e0pd: bool,
    /// FEAT_TLBIRANGE.
    pub tlbi_range: bool,
    /// FEAT_GCS.
    pub gcs: bool,
    /// GIC CPU interface by system registers (ID_AA64PFR0_EL1.GIC).
    pub gic_sysregs: bool,
    /// EL2 is implemented.
    pub el2: bool,
    /// The 4 KiB granule is there for stage 1.
    pub granule_4k: bool,
    /// Width of a physical address in bits, 32 to 56; 0 where the encoding is unknown.
    pub pa_bits: u8,
    /// Width of an ASID in bits, 8 or 16; 0 where the encoding is unknown.
    pub asid_bits: u8,
    /// How a live block may change its size.
    pub bbm: BlockChange,
    /// The performance monitors.
    pub pmu: Pmu,
}

/// The four-bit ID field that starts at bit `low`.
const fn field(register: u64, low: u32) -> u8 {
    ((register >> low) & 0xf) as u8
}

impl Features {
    /// Decodes raw register values. ID fields are unsigned and grow with what is there (D24.1.3), except where the
    /// architecture says otherwise.
    pub const fn decode(id: &IdRegisters) -> Self {
        Features {
            s1pie: field(id.mmfr3, 8) >= 1,
            s1poe: field(id.mmfr3, 16) >= 1,
            tcr2: field(id.mmfr3, 0) >= 1,
            pan: field(id.mmfr1, 20) >= 1,
            hcx: field(id.mmfr1, 40) >= 1,
            fgt: field(id.mmfr0, 56) >= 1,
            vhe: field(id.mmfr1, 8) >= 1,
            lse: field(id.isar0, 20) >= 2,
            rndr: field(id.isar0, 60) >= 1,
            e0pd: field(id.mmfr2, 60) >= 1,
            tlbi_range: field(id.isar0, 56) >= 2,
            gcs: field(id.pfr1, 44) >= 1,
            gic_sysregs: field(id.pfr0, 24) >= 1,
            el2: field(id.pfr0, 8) >= 1,
            // TGran4 is signed: 0xf says no, 0 and 1 say yes, 1 with 52-bit addresses.
            granule_4k: field(id.mmfr0, 28) < 8,
            pa_bits: Self::pa_bits(field(id.mmfr0, 0)),
            asid_bits: match field(id.mmfr0, 4) {
                0 => 8,
                2 => 16,
                _ => 0,
            },
            bbm: match field(id.mmfr2, 52) {
                0 => BlockChange::BreakBeforeMake,
                1 => BlockChange::WithNt,
                _ => BlockChange::Direct,
            },
            // PMUVer: 0 none, 0xf an IMPLEMENTATION DEFINED one, 6 the first with 64-bit event counters.
            pmu: match field(id.dfr0, 8) {
                0 | 0xf => Pmu::None,
                1..=5 => Pmu::V3,
                _ => Pmu::V3p5,
            },
        }
    }

    /// ID_AA64MMFR0_EL1.PARange in bits.
    const fn pa_bits(range: u8) -> u8 {
        match range {
            0 => 32,
            1 => 36,
            2 => 40,
            3 => 42,
            4 => 44,
            5 => 48,
            6 => 52,
            7 => 56,
            _ => 0,
        }
    }

    /// Reads and decodes the running CPU's registers.
    #[cfg(target_os = "none")]
    pub fn read() -> Self {
        Self::decode(&IdRegisters::read())
    }
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = [
            ("S1PIE", self.s1pie),
            ("S1POE", self.s1poe),
            ("TCR2", self.tcr2),
            ("PAN", self.pan),
            ("LSE", self.lse),
            ("VHE", self.vhe),
            ("HCX", self.hcx),
            ("FGT", self.fgt),
            ("RNDR", self.rndr),
        ];
        for (name, present) in flags {
            write!(f, "{name} {}, ", if present { "yes" } else { "no" })?;
        }
        let bbm = match self.bbm {
            BlockChange::BreakBeforeMake => 0,
            BlockChange::WithNt => 1,
            BlockChange::Direct => 2,
        };
        let pmu = match self.pmu {
            Pmu::None => "none",
            Pmu::V3 => "v3",
            Pmu::V3p5 => "v3p5",
        };
        write!(f, "PMU {pmu}, BBM {bbm}, PA {} bits, ASID {} bits", self.pa_bits, self.asid_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    /// Only what `change` sets; all other fields 0.
    fn with(change: impl Fn(&mut IdRegisters)) -> Features {
        let mut id = IdRegisters::default();
        change(&mut id);
        Features::decode(&id)
    }

    #[test]
    fn overlays_and_indirect_permissions_are_apart() {
        let f = with(|id| id.mmfr3 = 1 << 16);
        assert!(f.s1poe && !f.s1pie && !f.tcr2);
        let f = with(|id| id.mmfr3 = 1 << 8);
        assert!(f.s1pie && !f.s1poe && !f.tcr2);
        let f = with(|id| id.mmfr3 = 1 << 12 | 1 << 20 | 1 << 24);
        assert!(!f.s1pie && !f.s1poe && !f.tcr2, "S2PIE, S2POE, AIE are not ours");
        assert!(with(|id| id.mmfr3 = 1).tcr2);
    }

    #[test]
    fn single_bit_features() {
        assert!(with(|id| id.mmfr1 = 3 << 20).pan);
        assert!(with(|id| id.mmfr1 = 1 << 40).hcx);
        assert!(with(|id| id.mmfr1 = 1 << 8).vhe);
        assert!(with(|id| id.mmfr0 = 1 << 56).fgt);
        assert!(with(|id| id.isar0 = 1 << 60).rndr);
        assert!(with(|id| id.mmfr2 = 1 << 60).e0pd);
        assert!(with(|id| id.pfr1 = 1 << 44).gcs);
        assert!(with(|id| id.pfr0 = 1 << 24).gic_sysregs);
        assert!(with(|id| id.pfr0 = 1 << 8).el2);
        assert!(with(|id| id.isar0 = 2 << 56).tlbi_range);
        assert!(!with(|id| id.isar0 = 1 << 56).tlbi_range, "1 is TLBI OS only");
        assert!(with(|id| id.isar0 = 2 << 20).lse);
        assert!(!with(|id| id.isar0 = 1 << 20).lse, "1 is reserved");
    }

    #[test]
    fn sizes() {
        let f = with(|_| ());
        assert_eq!((f.pa_bits, f.asid_bits, f.granule_4k), (32, 8, true));
        let f = with(|id| id.mmfr0 = 0xf << 28 | 2 << 4 | 6);
        assert_eq!((f.pa_bits, f.asid_bits, f.granule_4k), (52, 16, false));
        let f = with(|id| id.mmfr0 = 1 << 28 | 1 << 4 | 8);
        assert_eq!((f.pa_bits, f.asid_bits, f.granule_4k), (0, 0, true), "unknown encodings");
        for (raw, bits) in [(1, 36), (2, 40), (3, 42), (4, 44), (5, 48), (7, 56)] {
            assert_eq!(with(|id| id.mmfr0 = raw).pa_bits, bits);
        }
    }

    #[test]
    fn levels() {
        assert_eq!(with(|_| ()).bbm, BlockChange::BreakBeforeMake);
        assert_eq!(with(|id| id.mmfr2 = 1 << 52).bbm, BlockChange::WithNt);
        assert_eq!(with(|id| id.mmfr2 = 2 << 52).bbm, BlockChange::Direct);
        assert_eq!(with(|_| ()).pmu, Pmu::None);
        assert_eq!(with(|id| id.dfr0 = 0xf << 8).pmu, Pmu::None);
        assert_eq!(with(|id| id.dfr0 = 1 << 8).pmu, Pmu::V3);
        assert_eq!(with(|id| id.dfr0 = 5 << 8).pmu, Pmu::V3);
        assert_eq!(with(|id| id.dfr0 = 6 << 8).pmu, Pmu::V3p5);
    }

    #[test]
    fn display_is_one_line() {
        let f = with(|id| {
            id.mmfr3 = 1 << 8 | 1;
            id.mmfr0 = 2 << 4 | 5;
        });
        assert_eq!(
            f.to_string(),
            "S1PIE yes, S1POE no, TCR2 yes, PAN no, LSE no, VHE no, HCX no, FGT no, RNDR no, \
             PMU none, BBM 0, PA 48 bits, ASID 16 bits"
        );
    }
}
