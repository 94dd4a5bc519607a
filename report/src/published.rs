//! The published figures of `kpkeys_hardened_pgtables`, v4 and v5.
//!
//! Source: the cover letters of the series, v4 (on 6.15-rc1) and v5 (on 6.17-rc1, benchmark table corrected on 20
//! August 2025). Graviton3 (EC2 M7g), `POR_EL1` accesses replaced by `CONTEXTIDR_EL1`, ISBs kept; real time, per cent
//! over the unhardened kernel.

use core::fmt;

use crate::bench::{Bench, Strategy};

/// How sure a change is, as the published tables mark it (95 %).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Not significant.
    None,
    /// (R): a significant regression.
    Regression,
    /// (I): a significant improvement.
    Improvement,
}

impl Mark {
    /// `R`, `I`, or nothing.
    #[must_use]
    pub const fn letter(self) -> Option<char> {
        match self {
            Self::None => None,
            Self::Regression => Some('R'),
            Self::Improvement => Some('I'),
        }
    }
}

/// A published change of real time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Per cent over the unhardened kernel.
    pub pct: f64,
    /// Whether it is significant.
    pub mark: Mark,
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mark.letter() {
            Some(letter) => write!(f, "{letter} {:.2}", self.pct),
            None => write!(f, "{:.2}", self.pct),
        }
    }
}

/// A version of the published series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// v4, on Linux 6.15-rc1.
    V4,
    /// v5, on Linux 6.17-rc1, corrected.
    V5,
}

impl Version {
    /// Both versions.
    pub const ALL: [Self; 2] = [Self::V4, Self::V5];
}

/// The published figures of one benchmark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// The benchmark.
    pub bench: Bench,
    /// Pages per area, or per folio for fork and munmap.
    pub pages: u32,
    /// Whether huge mappings were allowed.
    pub huge: bool,
    v4: [Figure; 2],
    v5: [Figure; 2],
}

impl Published {
    /// The figure of that version for that strategy; the baseline has none.
    #[must_use]
    pub const fn figure(&self, version: Version, strategy: Strategy) -> Option<Figure> {
        let figures = match version {
            Version::V4 => &self.v4,
            Version::V5 => &self.v5,
        };
        match strategy {
            Strategy::Off => None,
            Strategy::PerWrite => Some(figures[0]),
            Strategy::Batched => Some(figures[1]),
        }
    }

    /// The published figures of a row, where there are any.
    #[must_use]
    pub fn of(bench: Bench, pages: u32, huge: bool) -> Option<&'static Self> {
        PUBLISHED.iter().find(|row| (row.bench, row.pages, row.huge) == (bench, pages, huge))
    }
}

const fn r(pct: f64) -> Figure {
    Figure { pct, mark: Mark::Regression }
}

const fn n(pct: f64) -> Figure {
    Figure { pct, mark: Mark::None }
}

const fn i(pct: f64) -> Figure {
    Figure { pct, mark: Mark::Improvement }
}

const fn row(bench: Bench, pages: u32, huge: bool, v4: [Figure; 2], v5: [Figure; 2]) -> Published {
    Published { bench, pages, huge, v4, v5 }
}

/// Every published microbenchmark row; each pair is per-write, batched.
pub static PUBLISHED: [Published; 14] = [
    row(Bench::Fork, 1, false, [r(225.56), n(-0.07)], [r(221.39), r(3.35)]),
    row(Bench::Fork, 512, false, [r(254.32), n(0.73)], [r(282.89), r(6.99)]),
    row(Bench::Munmap, 1, false, [r(24.49), n(4.29)], [r(17.37), n(-0.28)]),
    row(Bench::Munmap, 512, false, [r(161.47), r(6.06)], [r(172.61), r(8.08)]),
    row(Bench::FixSize, 1, false, [r(14.80), r(11.85)], [r(15.54), r(12.57)]),
    row(Bench::FixSize, 4, false, [r(38.42), r(10.47)], [r(39.18), r(9.13)]),
    row(Bench::FixSize, 16, false, [r(64.74), r(6.41)], [r(65.81), n(2.97)]),
    row(Bench::FixSize, 64, false, [r(79.98), r(3.24)], [r(83.39), n(-0.49)]),
    row(Bench::FixSize, 256, false, [r(85.46), r(2.77)], [r(87.85), i(-2.04)]),
    row(Bench::FixSize, 16, true, [r(47.89), n(3.10)], [r(51.21), n(3.77)]),
    row(Bench::FixSize, 64, true, [r(62.43), n(3.36)], [r(60.02), n(0.99)]),
    row(Bench::FixSize, 256, true, [r(64.30), r(2.68)], [r(63.82), n(1.16)]),
    row(Bench::RandomSize, 1, false, [r(74.94), r(3.13)], [r(77.79), n(-0.51)]),
    row(Bench::VmMapRam, 1, false, [r(30.53), r(26.20)], [r(30.67), r(27.09)]),
];
