//! Reading ESR_EL1 (Arm ARM DDI 0487, D24.2 "ESR_EL1").

use core::fmt;

/// ESR_EL1.EC, the class of an exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class(pub u8);

impl Class {
    /// An instruction that is UNDEFINED.
    pub const UNKNOWN: Class = Class(0x00);
    /// Instruction abort from EL0.
    pub const INSTRUCTION_ABORT_LOWER: Class = Class(0x20);
    /// Instruction abort from EL1.
    pub const INSTRUCTION_ABORT: Class = Class(0x21);
    /// Data abort from EL0.
    pub const DATA_ABORT_LOWER: Class = Class(0x24);
    /// Data abort from EL1.
    pub const DATA_ABORT: Class = Class(0x25);

    /// The class in `esr`.
    pub const fn of(esr: u64) -> Class {
        Class((esr >> 26) as u8 & 0x3f)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            0x00 => "undefined instruction",
            0x07 => "trapped FP or SIMD instruction",
            0x0d => "branch target exception",
            0x0e => "illegal execution state",
            0x15 => "SVC",
            0x16 => "HVC",
            0x17 => "SMC",
            0x18 => "trapped system register access",
            0x19 => "trapped SVE instruction",
            0x1c => "pointer authentication failure",
            0x20 | 0x21 => "instruction abort",
            0x22 => "misaligned PC",
            0x24 | 0x25 => "data abort",
            0x26 => "misaligned SP",
            0x2d => "GCS exception",
            0x2f => "SError",
            0x30 | 0x31 => "breakpoint",
            0x32 | 0x33 => "software step",
            0x34 | 0x35 => "watchpoint",
            0x3c => "BRK",
            _ => return write!(f, "exception of class {:#04x}", self.0),
        };
        f.write_str(name)
    }
}

/// Why an access faulted: ESR_EL1.DFSC or IFSC. Numbers are levels of the walk, -1 to 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An address wider than the tables allow.
    AddressSize(i8),
    /// No valid entry.
    Translation(i8),
    /// The access flag is clear.
    AccessFlag(i8),
    /// The entry, or its overlay, does not allow the access.
    Permission(i8),
    /// A misaligned address.
    Alignment,
    /// A synchronous external abort.
    External,
    /// Two TLB entries for one address.
    TlbConflict,
    /// Any other code.
    Other(u8),
}

impl Kind {
    /// The kind in an abort's `esr`.
    pub const fn of(esr: u64) -> Kind {
        let code = esr as u8 & 0x3f;
        let level = (code & 3) as i8;
        match code {
            0x00..=0x03 => Kind::AddressSize(level),
            0x04..=0x07 => Kind::Translation(level),
            0x08..=0x0b => Kind::AccessFlag(level),
            0x0c..=0x0f => Kind::Permission(level),
            0x10 | 0x13..=0x17 => Kind::External,
            0x21 => Kind::Alignment,
            0x29 => Kind::AddressSize(-1),
            0x2b => Kind::Translation(-1),
            0x30 => Kind::TlbConflict,
            _ => Kind::Other(code),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::AddressSize(level) => write!(f, "address size fault, level {level}"),
            Kind::Translation(level) => write!(f, "translation fault, level {level}"),
            Kind::AccessFlag(level) => write!(f, "access flag fault, level {level}"),
            Kind::Permission(level) => write!(f, "permission fault, level {level}"),
            Kind::Alignment => f.write_str("alignment fault"),
            Kind::External => f.write_str("external abort"),
            Kind::TlbConflict => f.write_str("TLB conflict"),
            Kind::Other(code) => write!(f, "fault {code:#04x}"),
        }
    }
}

/// What an access was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A load.
    Read,
    /// A store, an atomic instruction or cache maintenance.
    Write,
    /// An instruction fetch.
    Execute,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::Read => "read",
            Access::Write => "write",
            Access::Execute => "fetch",
        })
    }
}

/// An instruction or data abort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Fault {
    /// ESR_EL1.
    pub esr: u64,
    /// FAR_EL1: the address that was accessed.
    pub far: u64,
    /// ELR_EL1: the instruction that accessed it.
    pub elr: u64,
    /// POR_EL1 at that moment, real or virtual.
    pub por: u64,
}

impl Fault {
    /// Why the access faulted.
    pub const fn kind(&self) -> Kind {
        Kind::of(self.esr)
    }

    /// What the access was.
    pub const fn access(&self) -> Access {
        match Class::of(self.esr) {
            Class::INSTRUCTION_ABORT | Class::INSTRUCTION_ABORT_LOWER => Access::Execute,
            _ if self.esr & 1 << 6 != 0 => Access::Write,
            _ => Access::Read,
        }
    }

    /// Whether an overlay (POR_ELx) refused it: ISS2.Overlay. Always false where POR_EL1 is emulated.
    pub const fn is_overlay(&self) -> bool {
        self.esr & 1 << 38 != 0
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let overlay = if self.is_overlay() { ", by the overlay" } else { "" };
        write!(f, "{} at {:#018x}: {}{overlay}", self.access(), self.far, self.kind())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::string::ToString;

    fn fault(esr: u64) -> Fault {
        Fault { esr, far: 0xffff_0000_4080_a960, elr: 0, por: 0 }
    }

    #[test]
    fn an_overlay_fault_as_qemu_reports_it() {
        // EC 0x25, IL, WnR, permission fault of level 2, ISS2.Overlay.
        let fault = fault(1 << 38 | 0x25 << 26 | 1 << 25 | 1 << 6 | 0x0e);
        assert_eq!((fault.kind(), fault.access(), fault.is_overlay()), (Kind::Permission(2), Access::Write, true));
        assert_eq!(fault.to_string(), "write at 0xffff00004080a960: permission fault, level 2, by the overlay");
    }

    #[test]
    fn a_fetch_is_no_write_whatever_bit_6_says() {
        for class in [0x20, 0x21] {
            assert_eq!(fault(class << 26 | 1 << 6).access(), Access::Execute);
        }
        assert_eq!(fault(0x25 << 26).access(), Access::Read);
        assert!(!fault(0x25 << 26).is_overlay());
    }

    #[test]
    fn every_code_has_its_kind() {
        let expected = [
            (0x00, Kind::AddressSize(0)),
            (0x03, Kind::AddressSize(3)),
            (0x04, Kind::Translation(0)),
            (0x07, Kind::Translation(3)),
            (0x08, Kind::AccessFlag(0)),
            (0x0b, Kind::AccessFlag(3)),
            (0x0c, Kind::Permission(0)),
            (0x0f, Kind::Permission(3)),
            (0x10, Kind::External),
            (0x11, Kind::Other(0x11)),
            (0x14, Kind::External),
            (0x21, Kind::Alignment),
            (0x29, Kind::AddressSize(-1)),
            (0x2b, Kind::Translation(-1)),
            (0x30, Kind::TlbConflict),
            (0x3f, Kind::Other(0x3f)),
        ];
        for (code, kind) in expected {
            // Bits above the code do not count.
            assert_eq!(Kind::of(0x25 << 26 | 1 << 6 | 1 << 38 | code), kind, "{code:#x}");
        }
    }

    #[test]
    fn classes_have_names_or_numbers() {
        assert_eq!(Class::of(0x25 << 26 | 0x3ff_ffff), Class::DATA_ABORT);
        assert_eq!(Class::of(u64::MAX), Class(0x3f));
        assert_eq!(Class(0x00).to_string(), "undefined instruction");
        assert_eq!(Class(0x3f).to_string(), "exception of class 0x3f");
    }
}
