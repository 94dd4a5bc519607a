//! Keys, overlay permissions and the POR layout (Arm ARM DDI 0487, D24.2 "POR_EL1").

use core::fmt;

/// A protection key: a leaf descriptor's POIndex, bits 62:60 on VMSAv8-64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Pkey {
    /// Everything that is not gated.
    Default = 0,
    /// The translation tables of user address spaces.
    UserTables = 1,
    /// The kernel's translation tables, boot tables included.
    KernelTables = 2,
}

impl Pkey {
    /// Every key in use.
    pub const ALL: [Pkey; 3] = [Pkey::Default, Pkey::UserTables, Pkey::KernelTables];

    /// The keys that are closed outside a section.
    pub const GATED: [Pkey; 2] = [Pkey::UserTables, Pkey::KernelTables];

    /// The key of a descriptor's POIndex field (0 to 7); `None` for a key that Palisade does not use.
    pub const fn from_index(index: u8) -> Option<Pkey> {
        match index {
            0 => Some(Pkey::Default),
            1 => Some(Pkey::UserTables),
            2 => Some(Pkey::KernelTables),
            _ => None,
        }
    }

    /// The POIndex value, 0 to 7.
    pub const fn index(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for Pkey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Pkey::Default => "default",
            Pkey::UserTables => "user tables",
            Pkey::KernelTables => "kernel tables",
        };
        write!(f, "{} ({name})", self.index())
    }
}

/// What one field of a POR allows. Values 8 to 15 are reserved and allow nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlay(u8);

impl Overlay {
    /// No access.
    pub const NONE: Overlay = Overlay(0);
    /// Read.
    pub const R: Overlay = Overlay(1);
    /// Execute.
    pub const X: Overlay = Overlay(2);
    /// Read and execute.
    pub const RX: Overlay = Overlay(3);
    /// Write.
    pub const W: Overlay = Overlay(4);
    /// Read and write.
    pub const RW: Overlay = Overlay(5);
    /// Write and execute.
    pub const WX: Overlay = Overlay(6);
    /// Everything.
    pub const RWX: Overlay = Overlay(7);

    /// The overlay that a POR field (its low four bits) encodes.
    pub const fn from_field(field: u8) -> Overlay {
        if field & 0xf < 8 { Overlay(field & 7) } else { Overlay::NONE }
    }

    /// Whether reads pass.
    pub const fn reads(self) -> bool {
        self.0 & 1 != 0
    }

    /// Whether instruction fetches pass.
    pub const fn executes(self) -> bool {
        self.0 & 2 != 0
    }

    /// Whether writes pass.
    pub const fn writes(self) -> bool {
        self.0 & 4 != 0
    }
}

impl fmt::Display for Overlay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flag = |set, letter| if set { letter } else { '-' };
        write!(f, "{}{}{}", flag(self.reads(), 'R'), flag(self.writes(), 'W'), flag(self.executes(), 'X'))
    }
}

/// A value of POR_EL1: four bits a key, key 0 lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Por(u64);

impl Por {
    /// Outside every section: key 0 does as the tables say, tables are read-only, keys without a use allow nothing.
    pub const CLOSED: Por = Por(0)
        .with(Pkey::Default, Overlay::RWX)
        .with(Pkey::UserTables, Overlay::R)
        .with(Pkey::KernelTables, Overlay::R);

    /// Protection off, for measuring without it: all that is gated is open.
    pub const ALL_OPEN: Por = Por::CLOSED.with(Pkey::UserTables, Overlay::RW).with(Pkey::KernelTables, Overlay::RW);

    /// The register value.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// A register value as read, valid or not.
    pub const fn from_bits(bits: u64) -> Por {
        Por(bits)
    }

    /// This value with `key`'s field replaced.
    pub const fn with(self, key: Pkey, overlay: Overlay) -> Por {
        let shift = key.index() * 4;
        Por(self.0 & !(0xf << shift) | (overlay.0 as u64) << shift)
    }

    /// What this value allows for `key`.
    pub const fn overlay(self, key: Pkey) -> Overlay {
        Overlay::from_field((self.0 >> (key.index() * 4)) as u8)
    }

    /// Which gated keys may be written: bit `n` for [`Pkey::GATED`]`[n]`.
    pub const fn writable(self) -> u64 {
        let mut keys = 0;
        let mut n = 0;
        while n < Pkey::GATED.len() {
            keys |= (self.overlay(Pkey::GATED[n]).writes() as u64) << n;
            n += 1;
        }
        keys
    }

    /// Everything that either value allows. Both must hold no reserved field value.
    pub const fn union(self, other: Por) -> Por {
        Por(self.0 | other.0)
    }
}

impl fmt::Display for Por {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x} (", self.0)?;
        for (i, key) in Pkey::ALL.into_iter().enumerate() {
            write!(f, "{}{}:{}", if i == 0 { "" } else { " " }, key.index(), self.overlay(key))?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::string::ToString;

    #[test]
    fn layout_is_four_bits_a_key() {
        assert_eq!(Por::CLOSED.bits(), 0x117);
        assert_eq!(Por::ALL_OPEN.bits(), 0x557);
        assert_eq!(Por::CLOSED.with(Pkey::UserTables, Overlay::RW).bits(), 0x157);
    }

    #[test]
    fn fields_decode_as_the_arm_arm_says() {
        let rwx = |v| {
            let o = Overlay::from_field(v);
            (o.reads(), o.writes(), o.executes())
        };
        let expected = [
            (false, false, false),
            (true, false, false),
            (false, false, true),
            (true, false, true),
            (false, true, false),
            (true, true, false),
            (false, true, true),
            (true, true, true),
        ];
        for (field, want) in expected.into_iter().enumerate() {
            assert_eq!(rwx(field as u8), want, "field {field}");
        }
        for field in 8..16 {
            assert_eq!(rwx(field), (false, false, false), "reserved field {field}");
        }
    }

    #[test]
    fn union_opens_both() {
        let user = Por::CLOSED.with(Pkey::UserTables, Overlay::RW);
        let kernel = Por::CLOSED.with(Pkey::KernelTables, Overlay::RW);
        assert_eq!(user.union(kernel), Por::ALL_OPEN);
        assert_eq!(user.to_string(), "0x157 (0:RWX 1:RW- 2:R--)");
    }

    #[test]
    fn writable_keys_tell_the_values_that_sections_set_apart() {
        let user = Por::CLOSED.with(Pkey::UserTables, Overlay::RW);
        let kernel = Por::CLOSED.with(Pkey::KernelTables, Overlay::RW);
        assert_eq!([Por::CLOSED, user, kernel, Por::ALL_OPEN].map(Por::writable), [0, 1, 2, 3]);
        assert_eq!(Por::CLOSED.with(Pkey::UserTables, Overlay::from_field(12)).writable(), 0);
    }

    #[test]
    fn keys_round_trip() {
        for key in Pkey::ALL {
            assert_eq!(Pkey::from_index(key.index()), Some(key));
        }
        assert_eq!(Pkey::from_index(3), None);
    }
}
