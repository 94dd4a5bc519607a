//! What the benchmark driver fills in: counts and times, a row per benchmark and size, the head.

use crate::bench::{Bench, Strategy, Unit};
use crate::stats::Summary;

/// Totals over all operations of one benchmark under one strategy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Operations that the totals cover; at least 1.
    pub ops: u64,
    /// Guest instructions; 0 where they were not counted (host time without a PMU).
    pub instructions: u64,
    /// Writes to `POR_EL1`, or to the mock gate's register.
    pub por_writes: u64,
    /// `ISB` instructions.
    pub isb: u64,
    /// `DSB` instructions.
    pub dsb: u64,
    /// `TLBI` instructions.
    pub tlbi: u64,
}

impl Counts {
    /// The totals divided by `ops * parts`: with 1 for `parts` per operation, with the PTEs of an operation per PTE.
    /// No operation at all counts as one, so that a row never holds a NaN.
    #[must_use]
    pub fn per(&self, parts: u64) -> PerOp {
        let divisor = self.ops.max(1) as f64 * parts.max(1) as f64;
        PerOp {
            instructions: self.instructions as f64 / divisor,
            por_writes: self.por_writes as f64 / divisor,
            isb: self.isb as f64 / divisor,
            dsb: self.dsb as f64 / divisor,
            tlbi: self.tlbi as f64 / divisor,
        }
    }
}

/// [`Counts`] per operation (or per PTE).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PerOp {
    /// Guest instructions.
    pub instructions: f64,
    /// Writes to `POR_EL1`, or to the mock gate's register.
    pub por_writes: f64,
    /// `ISB` instructions.
    pub isb: f64,
    /// `DSB` instructions.
    pub dsb: f64,
    /// `TLBI` instructions.
    pub tlbi: f64,
}

/// One line of results: a benchmark at one size, under every strategy that was run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// The benchmark.
    pub bench: Bench,
    /// Pages per area; for fork and munmap the pages of a folio (1 or 512).
    pub pages: u32,
    /// Whether huge mappings (contiguous hint, blocks) were allowed; false for fork and munmap, whose regions are
    /// always PTE-mapped.
    pub huge: bool,
    /// Last-level entries that one operation covers: the region in pages for fork and munmap, else `pages`.
    pub ptes_per_op: u64,
    counts: [Option<Counts>; Strategy::COUNT],
    times: [Option<Summary>; Strategy::COUNT],
}

impl Row {
    /// A row without results.
    #[must_use]
    pub const fn new(bench: Bench, pages: u32, huge: bool, ptes_per_op: u64) -> Self {
        Self { bench, pages, huge, ptes_per_op, counts: [None; Strategy::COUNT], times: [None; Strategy::COUNT] }
    }

    /// Files what was counted under `strategy`, replacing what was there.
    pub fn set_counts(&mut self, strategy: Strategy, counts: Counts) {
        self.counts[strategy.index()] = Some(counts);
    }

    /// Files what was timed under `strategy`, replacing what was there.
    pub fn set_time(&mut self, strategy: Strategy, time: Summary) {
        self.times[strategy.index()] = Some(time);
    }

    /// What was counted under `strategy`, if it was run.
    #[must_use]
    pub const fn counts(&self, strategy: Strategy) -> Option<Counts> {
        self.counts[strategy.index()]
    }

    /// What was timed under `strategy`, if it was timed.
    #[must_use]
    pub const fn time(&self, strategy: Strategy) -> Option<Summary> {
        self.times[strategy.index()]
    }

    /// What was counted per whole operation.
    #[must_use]
    pub fn per_op(&self, strategy: Strategy) -> Option<PerOp> {
        self.counts(strategy).map(|counts| counts.per(1))
    }

    /// What was counted per unit of the table: per PTE for fork and munmap, else per operation.
    #[must_use]
    pub fn per_unit(&self, strategy: Strategy) -> Option<PerOp> {
        self.counts(strategy).map(|counts| counts.per(self.units_per_op()))
    }

    /// How many of the table's units make one operation.
    #[must_use]
    pub const fn units_per_op(&self) -> u64 {
        match self.bench.unit() {
            Unit::Pte => self.ptes_per_op,
            Unit::Op => 1,
        }
    }

    /// Entries written per operation. Per-write gating makes two POR writes for each entry, so its POR writes tell.
    #[must_use]
    pub fn entries_per_op(&self) -> Option<f64> {
        self.per_op(Strategy::PerWrite).map(|counts| counts.por_writes / 2.0)
    }
}

/// Which register the counted gate wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// `POR_EL1`.
    Por,
    /// `CONTEXTIDR_EL1`, with the same barriers; protects nothing.
    Mock,
    /// None: every strategy ran as off.
    None,
}

impl Gate {
    /// Every gate.
    pub const ALL: [Self; 3] = [Self::Por, Self::Mock, Self::None];

    /// The name used in the table, in the JSON lines and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Por => "por",
            Self::Mock => "mock",
            Self::None => "none",
        }
    }
}

/// How this CPU honours `POR_EL1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PorOrigin {
    /// FEAT_S1POE is implemented.
    Hardware,
    /// Accesses trap and are emulated on FEAT_S1PIE.
    Emulated,
    /// Neither feature is implemented.
    Absent,
}

impl PorOrigin {
    /// Every origin.
    pub const ALL: [Self; 3] = [Self::Hardware, Self::Emulated, Self::Absent];

    /// The name used in the table and in the JSON lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hardware => "hardware",
            Self::Emulated => "emulated",
            Self::Absent => "absent",
        }
    }
}

/// What the clock counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeSource {
    /// Virtual time that counts guest instructions (QEMU's `-icount`).
    Icount,
    /// The host's time.
    Host,
}

impl TimeSource {
    /// Every time source.
    pub const ALL: [Self; 2] = [Self::Icount, Self::Host];

    /// The name used in the JSON lines and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Icount => "icount",
            Self::Host => "host",
        }
    }
}

/// What holds for every row of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The gate that the counted and timed code went through.
    pub gate: Gate,
    /// How the CPU honours `POR_EL1`.
    pub por: PorOrigin,
    /// What the clock counts.
    pub time: TimeSource,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn per_unit_is_per_pte_for_fork_and_per_op_for_vmalloc() {
        let counts = Counts { ops: 2, instructions: 4096, por_writes: 8, isb: 4, dsb: 2, tlbi: 1 };
        let mut fork = Row::new(Bench::Fork, 1, false, 1024);
        fork.set_counts(Strategy::PerWrite, counts);
        assert_eq!(fork.per_op(Strategy::PerWrite).unwrap().instructions, 2048.0);
        assert_eq!(fork.per_unit(Strategy::PerWrite).unwrap().instructions, 2.0);
        assert_eq!(fork.entries_per_op(), Some(2.0));
        assert_eq!(fork.per_op(Strategy::Off), None);

        let mut vmalloc = Row::new(Bench::FixSize, 4, false, 4);
        vmalloc.set_counts(Strategy::Off, counts);
        assert_eq!(vmalloc.per_unit(Strategy::Off), vmalloc.per_op(Strategy::Off));
        assert_eq!(vmalloc.entries_per_op(), None);
    }

    #[test]
    fn no_operation_gives_no_nan() {
        assert_eq!(Counts::default().per(0), PerOp::default());
    }
}
