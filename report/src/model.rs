//! The cost model: what a strategy's counts would cost on the hardware that the published figures come from.
//!
//! Costs are in *units*; an instruction of the unprotected code costs one on average. An operation costs
//! `instructions + ENTRY * entries` without protection, and a strategy adds `POR_WRITE`, `ISB`, `DSB` and `TLBI` for
//! each of these that it executes more often than the baseline does, and its added instructions in full.
//! [`crate::fit`] derives the constants; `docs/measuring.md` discusses them.

use crate::bench::Strategy;
use crate::fit::Costs;
use crate::linux::{Ported, peer_instructions};
use crate::row::{PerOp, Row};

/// One constant of the model, in units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constant {
    /// What it prices.
    pub name: &'static str,
    /// Its price in units.
    pub units: f64,
    /// Where the value comes from.
    pub source: &'static str,
}

/// An instruction. It defines the unit.
pub const INSTRUCTION: Constant =
    Constant { name: "plain instruction", units: 1.0, source: "defines the unit (average of unprotected kernel code)" };
/// A `POR_EL1` write, whether it opens or closes.
pub const POR_WRITE: Constant = Constant { name: "POR_EL1 write", units: 49.0, source: "fitted to the published rows" };
/// An `ISB`.
pub const ISB: Constant = Constant { name: "ISB", units: 34.0, source: "fitted to the published rows" };
/// What a table entry's write stalls beyond its instructions: the entry, its struct page, the page.
pub const ENTRY: Constant =
    Constant { name: "stall per entry written", units: 42.0, source: "fitted to the published rows" };
/// A `DSB` that only the strategy executes.
pub const DSB: Constant =
    Constant { name: "added DSB", units: ISB.units, source: "assumed: as an ISB (no row has one)" };
/// A `TLBI` that only the strategy executes.
pub const TLBI: Constant =
    Constant { name: "added TLBI", units: ISB.units, source: "assumed: as an ISB (no row has one)" };

/// Every constant, in the order of the report.
pub static CONSTANTS: [Constant; 6] = [INSTRUCTION, POR_WRITE, ISB, ENTRY, DSB, TLBI];

/// The fitted constants.
pub const FITTED: Costs =
    Costs { por_write: POR_WRITE.units, isb: ISB.units, entry: ENTRY.units, added_instruction: 0.0 };

/// What an unprotected operation costs, in units.
#[must_use]
pub fn baseline_units(instructions: f64, entries: f64) -> f64 {
    INSTRUCTION.units * instructions + ENTRY.units * entries
}

/// What `gated` costs beyond `off`, in units. A count that is lower than the baseline's counts as equal: that a
/// compiler laid a copy of the code out shorter earns nothing.
#[must_use]
pub fn added_units(off: &PerOp, gated: &PerOp) -> f64 {
    let more = |gated: f64, off: f64| (gated - off).max(0.0);
    INSTRUCTION.units * more(gated.instructions, off.instructions)
        + POR_WRITE.units * more(gated.por_writes, off.por_writes)
        + ISB.units * more(gated.isb, off.isb)
        + DSB.units * more(gated.dsb, off.dsb)
        + TLBI.units * more(gated.tlbi, off.tlbi)
}

/// Linux's instructions for a row, per whole operation: the peer's where it was measured, else the port's.
#[must_use]
pub fn linux_instructions(row: &Row) -> Option<f64> {
    let per_unit = peer_instructions(row.bench, row.pages, row.huge);
    per_unit.map(|count| count * row.units_per_op() as f64).or_else(|| port_instructions(row))
}

/// The port's instructions for a row, per whole operation, where it was counted.
#[must_use]
pub fn port_instructions(row: &Row) -> Option<f64> {
    Ported::of(row.bench, row.pages, row.huge).map(|port| port.off * row.units_per_op() as f64)
}

/// What the model makes of a row under one strategy; a figure is `None` where what it needs was not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Modelled {
    /// Added cost, per cent of our own unprotected operation's cost.
    pub overhead_pct: Option<f64>,
    /// Added cost, per cent of Linux's cost of that operation ([`linux_instructions`]).
    pub of_linux_pct: Option<f64>,
    /// Added cost, per cent of the cost in the port, on which the model is fitted ([`port_instructions`]).
    pub of_port_pct: Option<f64>,
}

impl Modelled {
    /// Models `row` under `strategy`.
    #[must_use]
    pub fn of(row: &Row, strategy: Strategy) -> Self {
        Self::try_of(row, strategy).unwrap_or_default()
    }

    fn try_of(row: &Row, strategy: Strategy) -> Option<Self> {
        let off = row.per_op(Strategy::Off)?;
        let added = added_units(&off, &row.per_op(strategy)?);
        let own_entries = row.entries_per_op()?;
        if off.instructions == 0.0 {
            return None;
        }
        let linux_entries = Ported::of(row.bench, row.pages, row.huge)
            .map_or(own_entries, |port| port.entries() * row.units_per_op() as f64);
        let share = |instructions: f64, entries: f64| 100.0 * added / baseline_units(instructions, entries);
        Some(Self {
            overhead_pct: Some(share(off.instructions, own_entries)),
            of_linux_pct: linux_instructions(row).map(|count| share(count, linux_entries)),
            of_port_pct: port_instructions(row).map(|count| share(count, linux_entries)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Bench;
    use crate::row::Counts;

    fn row() -> Row {
        let mut row = Row::new(Bench::FixSize, 1, false, 1);
        row.set_counts(Strategy::Off, Counts { ops: 10, instructions: 14_000, ..Counts::default() });
        let per_write = Counts { ops: 10, instructions: 14_600, por_writes: 40, isb: 40, ..Counts::default() };
        row.set_counts(Strategy::PerWrite, per_write);
        let batched = Counts { ops: 10, instructions: 13_900, por_writes: 40, isb: 20, ..Counts::default() };
        row.set_counts(Strategy::Batched, batched);
        row
    }

    #[test]
    fn the_added_cost_is_taken_of_three_baselines() {
        let row = row();
        let added = 60.0 + 4.0 * POR_WRITE.units + 4.0 * ISB.units;
        let modelled = Modelled::of(&row, Strategy::PerWrite);
        let close = |value: Option<f64>, expected: f64| (value.unwrap() - expected).abs() < 1e-9;
        assert!(close(modelled.overhead_pct, 100.0 * added / (1_400.0 + 2.0 * ENTRY.units)));
        assert!(close(modelled.of_linux_pct, 100.0 * added / (4_729.0 + 3.0 * ENTRY.units)));
        assert!(close(modelled.of_port_pct, 100.0 * added / (3_737.0 + 3.0 * ENTRY.units)));
    }

    #[test]
    fn fewer_instructions_earn_nothing() {
        let expected = 4.0 * POR_WRITE.units + 2.0 * ISB.units;
        let row = row();
        let (off, batched) = (row.per_op(Strategy::Off).unwrap(), row.per_op(Strategy::Batched).unwrap());
        assert_eq!(added_units(&off, &batched), expected);
    }

    #[test]
    fn the_baseline_adds_nothing() {
        assert_eq!(Modelled::of(&row(), Strategy::Off).overhead_pct, Some(0.0));
    }

    #[test]
    fn nothing_is_modelled_without_the_per_write_count() {
        let mut row = Row::new(Bench::FixSize, 1, false, 1);
        row.set_counts(Strategy::Off, Counts { ops: 1, instructions: 1, ..Counts::default() });
        assert_eq!(Modelled::of(&row, Strategy::Off), Modelled::default());
    }

    #[test]
    fn fork_is_compared_with_linux_per_operation() {
        let mut fork = Row::new(Bench::Fork, 1, false, 1000);
        assert_eq!(linux_instructions(&fork), Some(239_500.0));
        assert_eq!(port_instructions(&fork), Some(173_200.0));
        fork.pages = 512;
        assert_eq!(linux_instructions(&fork), port_instructions(&fork));
        fork.bench = Bench::FullFit;
        assert_eq!(linux_instructions(&fork), None);
    }
}
