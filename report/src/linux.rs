//! Linux's counts: the published scheme ported and counted, and the peer that Palisade is compared with.

use crate::bench::{Bench, Strategy};

/// What a strategy of the port adds to an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gated {
    /// Added instructions, per cent of the unprotected operation's.
    pub added_instructions_pct: f64,
    /// `POR_EL1` writes.
    pub por_writes: f64,
    /// ISBs beyond the unprotected operation's.
    pub isb: f64,
}

/// One operation of the kpkeys v5 scheme ported to Linux 7.3.4 (small configuration, 4 KiB pages, one CPU), counted
/// on a QEMU with FEAT_S1POE under `-icount`. Fork and munmap are per PTE, the rest per operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ported {
    /// The benchmark.
    pub bench: Bench,
    /// Pages per area, or per folio for fork and munmap.
    pub pages: u32,
    /// Whether huge mappings were allowed.
    pub huge: bool,
    /// Instructions without protection.
    pub off: f64,
    /// What a guard around every write adds.
    pub per_write: Gated,
    /// What batching adds.
    pub batched: Gated,
}

impl Ported {
    /// The port's counts for a row, where there are any.
    #[must_use]
    pub fn of(bench: Bench, pages: u32, huge: bool) -> Option<&'static Self> {
        PORTED.iter().find(|row| (row.bench, row.pages, row.huge) == (bench, pages, huge))
    }

    /// What `strategy` adds; the baseline adds nothing.
    #[must_use]
    pub const fn gated(&self, strategy: Strategy) -> Option<Gated> {
        match strategy {
            Strategy::Off => None,
            Strategy::PerWrite => Some(self.per_write),
            Strategy::Batched => Some(self.batched),
        }
    }

    /// Entries written: the per-write strategy makes two POR writes for each.
    #[must_use]
    pub const fn entries(&self) -> f64 {
        self.per_write.por_writes / 2.0
    }
}

const fn gated(added_instructions_pct: f64, por_writes: f64, isb: f64) -> Gated {
    Gated { added_instructions_pct, por_writes, isb }
}

const fn ported((bench, pages, huge): (Bench, u32, bool), off: f64, per_write: Gated, batched: Gated) -> Ported {
    Ported { bench, pages, huge, off, per_write, batched }
}

/// Every row that the port and the published tables share.
pub static PORTED: [Ported; 14] = [
    ported((Bench::Fork, 1, false), 173.2, gated(16.8, 4.008, 4.012), gated(16.2, 0.012, 0.014)),
    ported((Bench::Fork, 512, false), 47.0, gated(50.0, 4.008, 4.012), gated(49.0, 0.012, 0.014)),
    ported((Bench::Munmap, 1, false), 826.5, gated(1.8, 2.004, 2.004), gated(2.1, 0.008, 0.008)),
    ported((Bench::Munmap, 512, false), 54.4, gated(29.0, 2.004, 2.004), gated(31.0, 0.008, 0.008)),
    ported((Bench::FixSize, 1, false), 3_737.0, gated(2.6, 6.0, 6.0), gated(1.3, 4.0, 3.0)),
    ported((Bench::FixSize, 4, false), 4_529.0, gated(1.6, 18.0, 18.0), gated(2.5, 4.0, 3.0)),
    ported((Bench::FixSize, 16, false), 8_023.0, gated(5.9, 66.0, 66.0), gated(6.4, 4.1, 3.1)),
    ported((Bench::FixSize, 64, false), 21_513.0, gated(6.1, 258.0, 258.0), gated(7.0, 4.5, 3.4)),
    ported((Bench::FixSize, 256, false), 75_265.0, gated(7.5, 1_026.0, 1_026.0), gated(8.3, 6.0, 4.5)),
    ported((Bench::FixSize, 16, true), 8_383.0, gated(2.8, 66.0, 66.0), gated(4.2, 4.0, 3.0)),
    ported((Bench::FixSize, 64, true), 19_579.0, gated(7.4, 258.0, 258.0), gated(8.4, 10.3, 6.3)),
    ported((Bench::FixSize, 256, true), 66_363.0, gated(7.9, 1_026.0, 1_026.0), gated(8.6, 35.0, 19.0)),
    ported((Bench::RandomSize, 1, false), 19_276.0, gated(6.3, 203.0, 203.0), gated(6.7, 4.4, 3.3)),
    ported((Bench::VmMapRam, 1, false), 779.3, gated(2.6, 4.0, 4.0), gated(7.3, 4.0, 3.0)),
];

/// Instructions of one operation of the peer: Linux 7.3.4 as a distribution's cloud kernel, page tables unprotected, on
/// QEMU 11.1.3 under `-icount`, one CPU (`docs/measuring.md` has its options). Fork and munmap are per PTE of 1 GiB
/// of writable order-0 pages, the rest per operation.
static PEER: [(Bench, u32, bool, f64); 16] = [
    (Bench::Fork, 1, false, 239.5),
    (Bench::Munmap, 1, false, 1_271.0),
    (Bench::FixSize, 1, false, 4_729.0),
    (Bench::FixSize, 4, false, 6_446.0),
    (Bench::FixSize, 16, false, 11_201.0),
    (Bench::FixSize, 64, false, 30_438.0),
    (Bench::FixSize, 256, false, 107_628.0),
    (Bench::FixSize, 16, true, 10_731.0),
    (Bench::FixSize, 64, true, 26_101.0),
    (Bench::FixSize, 256, true, 88_890.0),
    (Bench::VmMapRam, 1, false, 1_049.0),
    (Bench::VmMapRam, 4, false, 1_481.0),
    (Bench::VmMapRam, 16, false, 3_227.0),
    (Bench::VmMapRam, 64, false, 10_225.0),
    (Bench::VmMapRam, 256, false, 38_606.0),
    (Bench::RandomSize, 1, false, 28_127.0),
];

/// The peer's instructions for a row, per PTE for fork and munmap; none for rows that it was not measured on.
#[must_use]
pub fn peer_instructions(bench: Bench, pages: u32, huge: bool) -> Option<f64> {
    PEER.iter().find(|row| (row.0, row.1, row.2) == (bench, pages, huge)).map(|row| row.3)
}
