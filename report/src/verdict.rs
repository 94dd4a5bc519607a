//! The closing verdict: the project's targets, checked row by row, and every miss named.

use core::fmt::{self, Write};

use crate::bench::{Bench, Strategy};
use crate::linux::{Ported, peer_instructions};
use crate::model::Modelled;
use crate::number::{Text, count};
use crate::published::{Published, Version};
use crate::row::Row;

/// How many targets there are.
const TARGETS: usize = 7;

/// What each target bounds, as a heading and in words.
static HEADINGS: [(&str, &str); TARGETS] = [
    ("off/Linux", "instructions of off as a ratio of Linux's"),
    ("% of own", "batched, modelled per cent of our own baseline"),
    ("% of Linux", "batched, modelled per cent of Linux"),
    ("POR writes", "batched, POR writes per operation"),
    ("added ISBs", "batched, ISBs per operation beyond off"),
    ("ISBs/port", "batched, added ISBs beside the ported scheme's"),
    ("instr/entry", "batched, instructions added per entry"),
];

/// A counted or modelled value and what it must not exceed.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Check {
    value: f64,
    limit: f64,
    /// Whether the limit itself already misses.
    strict: bool,
}

impl Check {
    const fn at_most(value: f64, limit: f64) -> Self {
        Self { value, limit, strict: false }
    }

    const fn under(value: f64, limit: f64) -> Self {
        Self { value, limit, strict: true }
    }

    fn met(&self) -> bool {
        if self.strict { self.value < self.limit } else { self.value <= self.limit }
    }
}

/// Writes which of the targets each row meets, and names every miss.
///
/// # Errors
/// Those of `out`.
pub fn write_verdict(out: &mut dyn Write, rows: &[Row]) -> fmt::Result {
    writeln!(out, "Verdict: value/limit per target; ! marks a miss")?;
    write!(out, "{:<20}", "benchmark        p h")?;
    for (heading, _) in &HEADINGS {
        write!(out, " {heading:>13}")?;
    }
    writeln!(out)?;
    let (mut met, mut missed) = (0_u32, 0_u32);
    for row in rows {
        write!(out, "{:<14} {:>3} {}", row.bench, row.pages, u8::from(row.huge))?;
        for check in checks(row, rows) {
            write!(out, " {:>13}", cell(check))?;
            match check {
                Some(check) if check.met() => met += 1,
                Some(_) => missed += 1,
                None => {}
            }
        }
        writeln!(out)?;
    }
    for row in rows {
        write_misses(out, row, rows)?;
        write_port_note(out, row)?;
    }
    writeln!(out, "{met} targets met, {missed} missed")
}

fn cell(check: Option<Check>) -> Text {
    match check {
        None => Text::of(format_args!("-")),
        Some(check) => {
            let mark = if check.met() { "" } else { "!" };
            Text::of(format_args!("{}/{}{mark}", count(check.value), count(check.limit)))
        }
    }
}

fn write_misses(out: &mut dyn Write, row: &Row, rows: &[Row]) -> fmt::Result {
    for (check, (_, meaning)) in checks(row, rows).iter().zip(&HEADINGS) {
        if let Some(check) = check.filter(|check| !check.met()) {
            let bound = if check.strict { "not under" } else { "over" };
            let (value, limit) = (count(check.value), count(check.limit));
            writeln!(
                out,
                "missed: {} p:{} h:{}: {meaning}: {value}, {bound} {limit}",
                row.bench,
                row.pages,
                u8::from(row.huge)
            )?;
        }
    }
    Ok(())
}

/// Says where a share of Linux's cost is met of the distribution's Linux, but would not be of the port, whose cost is
/// lower.
fn write_port_note(out: &mut dyn Write, row: &Row) -> fmt::Result {
    let modelled = Modelled::of(row, Strategy::Batched);
    let share = |pct: Option<f64>| pct.and_then(|pct| share_of_linux(row, pct));
    let (Some(linux), Some(port)) = (share(modelled.of_linux_pct), share(modelled.of_port_pct)) else { return Ok(()) };
    if !linux.met() || port.met() {
        return Ok(());
    }
    let (Row { bench, pages, .. }, huge) = (row, u8::from(row.huge));
    let (value, limit) = (count(port.value), count(port.limit));
    writeln!(
        out,
        "note: {bench} p:{pages} h:{huge}: met of the distribution's Linux, but {value} % of the port, limit {limit}"
    )
}

/// Every target for `row`; `None` where it sets none or something was not counted.
fn checks(row: &Row, rows: &[Row]) -> [Option<Check>; TARGETS] {
    let whole_region = matches!(row.bench, Bench::Fork | Bench::Munmap);
    let modelled = Modelled::of(row, Strategy::Batched);
    let batched = row.per_op(Strategy::Batched);
    let added_isb = added(row, |counts| counts.isb);
    let port = Ported::of(row.bench, row.pages, row.huge);
    [
        baseline(row),
        modelled.overhead_pct.filter(|_| whole_region).map(|pct| Check::under(pct, 1.0)),
        modelled.of_linux_pct.and_then(|pct| share_of_linux(row, pct)),
        // One section per map and one per unmap, each of two writes and one ISB.
        batched.filter(|_| !whole_region).map(|counts| Check::at_most(rounded(counts.por_writes), 4.0)),
        added_isb.filter(|_| !whole_region).map(|isb| Check::at_most(rounded(isb), 2.0)),
        added_isb.zip(port).map(|(isb, port)| Check::under(isb / row.units_per_op() as f64, port.batched.isb)),
        added_per_entry(row, rows).map(|added| Check::under(added, 0.5)),
    ]
}

/// Rounds to a tenth: what a purge or a new table adds once in many operations is no miss.
fn rounded(value: f64) -> f64 {
    libm::round(value * 10.0) / 10.0
}

/// What batching adds to an operation, by one of the counts.
fn added(row: &Row, of: impl Fn(&crate::row::PerOp) -> f64) -> Option<f64> {
    Some(of(&row.per_op(Strategy::Batched)?) - of(&row.per_op(Strategy::Off)?))
}

/// The baseline takes at most half of the peer's instructions, where the peer was measured.
fn baseline(row: &Row) -> Option<Check> {
    let off = row.per_op(Strategy::Off).filter(|counts| counts.instructions > 0.0)?;
    let peer = peer_instructions(row.bench, row.pages, row.huge)? * row.units_per_op() as f64;
    Some(Check::at_most(off.instructions / peer, 0.5))
}

/// At most half of v5's batched per cent; under one per cent where less than two were published. Fork and munmap are
/// bounded by our own baseline instead.
fn share_of_linux(row: &Row, pct: f64) -> Option<Check> {
    if matches!(row.bench, Bench::Fork | Bench::Munmap) {
        return None;
    }
    let published = Published::of(row.bench, row.pages, row.huge)?.figure(Version::V5, Strategy::Batched)?.pct;
    Some(if published < 2.0 { Check::under(pct, 1.0) } else { Check::at_most(pct, published / 2.0) })
}

/// Instructions that batching adds per entry: for fork and munmap per PTE of the region, else from the growth since
/// the smallest row of the same benchmark.
fn added_per_entry(row: &Row, rows: &[Row]) -> Option<f64> {
    let extra = |row: &Row| added(row, |counts| counts.instructions);
    if matches!(row.bench, Bench::Fork | Bench::Munmap) {
        return Some(extra(row)? / row.units_per_op() as f64);
    }
    let smallest = rows.iter().find(|other| (other.bench, other.huge) == (row.bench, row.huge))?;
    let entries = row.entries_per_op()? - smallest.entries_per_op()?;
    (entries > 0.0).then(|| Some((extra(row)? - extra(smallest)?) / entries)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Counts;
    use crate::table::tests::sample_rows;
    use std::string::String;

    fn verdict(rows: &[Row]) -> String {
        let mut text = String::new();
        write_verdict(&mut text, rows).unwrap();
        text
    }

    #[test]
    fn a_row_that_meets_everything_misses_nothing() {
        let rows = sample_rows();
        let row = rows.iter().find(|row| row.bench == Bench::VmMapRam).unwrap();
        let mut row = *row;
        row.set_counts(Strategy::Off, Counts { ops: 1, instructions: 300, ..Counts::default() });
        row.set_counts(
            Strategy::PerWrite,
            Counts { ops: 1, instructions: 320, por_writes: 4, isb: 4, ..Counts::default() },
        );
        row.set_counts(
            Strategy::Batched,
            Counts { ops: 1, instructions: 300, por_writes: 2, isb: 1, ..Counts::default() },
        );
        let text = verdict(&[row]);
        assert!(text.ends_with("5 targets met, 0 missed\n"), "{text}");
        assert!(!text.contains("missed:"), "{text}");
    }

    #[test]
    fn misses_are_named_with_value_and_limit() {
        let mut row = Row::new(Bench::VmMapRam, 1, false, 1);
        row.set_counts(Strategy::Off, Counts { ops: 1, instructions: 900, isb: 1, ..Counts::default() });
        let gated = Counts { ops: 1, instructions: 900, por_writes: 6, isb: 5, ..Counts::default() };
        row.set_counts(Strategy::PerWrite, gated);
        row.set_counts(Strategy::Batched, gated);
        let text = verdict(&[row]);
        for wanted in [
            "missed: vm_map_ram p:1 h:0: instructions of off as a ratio of Linux's: 0.86, over 0.50",
            "missed: vm_map_ram p:1 h:0: batched, POR writes per operation: 6.00, over 4.00",
            "missed: vm_map_ram p:1 h:0: batched, ISBs per operation beyond off: 4.00, over 2.00",
            "beside the ported scheme's: 4.00, not under 3.00",
        ] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
    }

    #[test]
    fn a_target_that_only_the_distribution_lets_us_meet_is_noted() {
        let rows = sample_rows();
        let small = rows.iter().find(|row| row.bench == Bench::FixSize).unwrap();
        let text = verdict(&[*small]);
        assert!(text.contains("note: fix_size p:1 h:0: met of the distribution's Linux, but "), "{text}");
        let big = rows.iter().find(|row| row.bench == Bench::FixSize && row.pages == 256).unwrap();
        assert!(!verdict(&[*big]).contains("note:"));
    }

    #[test]
    fn instructions_per_entry_come_from_the_growth_between_rows() {
        let rows = sample_rows();
        let big = rows.iter().find(|row| row.bench == Bench::FixSize && row.pages == 256 && !row.huge).unwrap();
        assert_eq!(added_per_entry(big, &rows), Some(0.0));
        let smallest = rows.iter().find(|row| row.bench == Bench::FixSize).unwrap();
        assert_eq!(added_per_entry(smallest, &rows), None);
    }

    #[test]
    fn amortised_extras_are_rounded_away() {
        assert!(Check::at_most(rounded(4.04), 4.0).met());
        assert!(!Check::at_most(rounded(4.06), 4.0).met());
    }
}
