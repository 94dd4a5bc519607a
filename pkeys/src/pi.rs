//! Indirect permission indices: what PIR_EL1 and PIRE0_EL1 hold, and which PIIndex means what.
//!
//! A leaf's PIIndex is {bit 54, bit 53, bit 51, bit 6}, the places of UXN, PXN, DBM and AP\[1\] (Arm ARM D8.4.1). The indices
//! of ungated mappings are chosen so that the same four bits, read as direct permissions, mean the same; only the gated
//! ones need S1PIE to be told apart.

use crate::key::{Overlay, Pkey, Por};

/// A PIIndex in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PiIndex {
    /// User text: EL0 reads and executes.
    UserText = 0x5,
    /// Kernel text: EL1 reads and executes.
    KernelText = 0x8,
    /// Frames that hold kernel tables; gated by [`Pkey::KernelTables`].
    KernelTables = 0x9,
    /// Frames that hold user tables; gated by [`Pkey::UserTables`].
    UserTables = 0xa,
    /// Kernel read-only data.
    KernelRodata = 0xc,
    /// User read-only data.
    UserRodata = 0xd,
    /// Kernel data.
    KernelData = 0xe,
    /// User data.
    UserData = 0xf,
}

/// PIR encodings that are subject to overlays (Arm ARM D24.2 "PIR_EL1"): none, R, RX, RW.
const NONE: u64 = 0;
const R: u64 = 1;
const RX: u64 = 3;
const RW: u64 = 5;

const fn field(index: PiIndex, permission: u64) -> u64 {
    permission << (index as u8 * 4)
}

/// PIR_EL1 where POR_EL1 is real: gated frames are writable as far as the overlay lets them.
pub const PIR_EL1: u64 = field(PiIndex::UserText, R)
    | field(PiIndex::KernelText, RX)
    | field(PiIndex::KernelTables, RW)
    | field(PiIndex::UserTables, RW)
    | field(PiIndex::KernelRodata, R)
    | field(PiIndex::UserRodata, R)
    | field(PiIndex::KernelData, RW)
    | field(PiIndex::UserData, RW);

/// PIRE0_EL1, in every case.
pub const PIRE0_EL1: u64 = field(PiIndex::UserText, RX) | field(PiIndex::UserRodata, R) | field(PiIndex::UserData, RW);

/// PIR_EL1 that has the effect of `por` on a CPU without overlays: each gated key's own index gets the overlay's share of RW.
pub const fn pir_under(por: Por) -> u64 {
    let mut pir = PIR_EL1;
    let mut i = 0;
    while i < Pkey::GATED.len() {
        let key = Pkey::GATED[i];
        let shift = gated_index(key) as u8 * 4;
        pir = pir & !(0xf << shift) | rw_under(por.overlay(key)) << shift;
        i += 1;
    }
    pir
}

/// The PIIndex of frames under `key`; the default key has no single one and gives kernel data's.
pub const fn gated_index(key: Pkey) -> PiIndex {
    match key {
        Pkey::Default => PiIndex::KernelData,
        Pkey::UserTables => PiIndex::UserTables,
        Pkey::KernelTables => PiIndex::KernelTables,
    }
}

/// The PIR encoding of RW under an overlay. Write-only has no encoding; it is refused as a whole, like no access.
const fn rw_under(overlay: Overlay) -> u64 {
    match (overlay.reads(), overlay.writes()) {
        (true, true) => RW,
        (true, false) => R,
        (false, _) => NONE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_leaves_tables_readable_and_all_else_as_it_was() {
        let pir = pir_under(Por::CLOSED);
        assert_eq!(pir >> 36 & 0xff, 0x11);
        let gated: u64 = 0xff << 36;
        assert_eq!(pir & !gated, PIR_EL1 & !gated);
        assert_eq!(pir_under(Por::ALL_OPEN), PIR_EL1);
    }

    #[test]
    fn one_key_opens_alone() {
        let pir = pir_under(Por::CLOSED.with(Pkey::UserTables, Overlay::RW));
        assert_eq!(pir >> 40 & 0xf, RW);
        assert_eq!(pir >> 36 & 0xf, R);
    }

    #[test]
    fn nothing_is_writable_and_executable() {
        for shift in (0..64).step_by(4) {
            for pir in [PIR_EL1, PIRE0_EL1] {
                assert!([NONE, R, RX, RW].contains(&(pir >> shift & 0xf)));
            }
        }
    }
}
