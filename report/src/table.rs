//! The table that a person reads on the serial line, at most 120 columns wide.

use core::fmt::{self, Write};

use crate::bench::{Strategy, Unit};
use crate::fit::{Errors, error, errors, rows as fitted_rows};
use crate::linux::peer_instructions;
use crate::model::{CONSTANTS, FITTED, Modelled, linux_instructions};
use crate::number::{Text, count, optional, pct};
use crate::published::{Mark, Published, Version};
use crate::row::{Gate, Head, PorOrigin, Row, TimeSource};

/// The widest line of the report, in columns.
pub const WIDTH: usize = 120;

/// Writes the head, the results, the comparison with Linux, host times where there are any, and the cost model.
///
/// # Errors
/// Those of `out`.
pub fn write_table(out: &mut dyn Write, head: &Head, rows: &[Row]) -> fmt::Result {
    write_head(out, head)?;
    write_results(out, rows)?;
    if rows.iter().any(|row| row.time(Strategy::Off).is_some()) {
        write_times(out, rows)?;
    }
    if head.time == TimeSource::Icount {
        write_peer(out, rows)?;
    }
    write_model(out)
}

fn write_head(out: &mut dyn Write, head: &Head) -> fmt::Result {
    writeln!(out, "Palisade: what gating page-table writes costs")?;
    let gate = match (head.gate, head.por) {
        (Gate::Por, PorOrigin::Hardware) => "por; counts from POR_EL1 itself, which this CPU implements (FEAT_S1POE)",
        (Gate::Por, _) => {
            "por; POR_EL1 is emulated here: the trapped writes are counted, the handler's instructions too"
        }
        (Gate::Mock, PorOrigin::Emulated) => "mock; counts from the mock gate because POR_EL1 is emulated here",
        (Gate::Mock, PorOrigin::Hardware) => "mock; counts from the mock gate though this CPU implements POR_EL1",
        (Gate::Mock, PorOrigin::Absent) => "mock; counts from the mock gate because this CPU has no POR_EL1",
        (Gate::None, _) => "none; page tables are unprotected and every strategy runs as off",
    };
    writeln!(out, "gate      {gate}")?;
    if head.gate == Gate::Mock {
        writeln!(
            out,
            "          (it writes CONTEXTIDR_EL1 with the same instructions and barriers, and protects nothing)"
        )?;
    }
    let time = match head.time {
        TimeSource::Icount => "icount: virtual time counts guest instructions; two runs print the same digits",
        TimeSource::Host => "host clock: means with 95 % intervals; R and I mark significant changes (Welch, 95 %)",
    };
    writeln!(out, "time      {time}")?;
    writeln!(out, "overhead  modelled from the counts, not measured; the model and its error stand below")?;
    writeln!(
        out,
        "published kpkeys_hardened_pgtables v4 and v5, real time on Graviton3; R and I mark significant changes"
    )?;
    writeln!(out)
}

/// A row's name as the first columns of a table print it.
fn row_name(row: &Row) -> Text {
    let huge = u8::from(row.huge);
    Text::of(format_args!("{:<14} {:>3} {huge}", row.bench, row.pages))
}

fn write_results(out: &mut dyn Write, rows: &[Row]) -> fmt::Result {
    writeln!(
        out,
        "{:<34} {:>9} {:>8} {:>7} {:>6} {:>6} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "", "instr", "POR wr", "ISB", "DSB", "TLBI", "% of own", "% of", "% of", "publ.", "publ."
    )?;
    writeln!(
        out,
        "{:<14} {:>3} h {:<3} {:<9} {:>49} {:>8} {:>8} {:>8} {:>8}",
        "benchmark", "p", "per", "strategy", "off", "Linux", "port", "v4 %", "v5 %"
    )?;
    for row in rows {
        let mut first = true;
        for strategy in Strategy::ALL {
            if row.counts(strategy).is_some() {
                let name = if first { row_name(row) } else { Text::of(format_args!("")) };
                write_result(out, &name, row, strategy)?;
                first = false;
            }
        }
    }
    writeln!(
        out,
        "p: pages per area, for fork and munmap per folio. h: huge mappings allowed. JSON figures are per operation."
    )?;
    writeln!(
        out,
        "% of Linux: added cost as a share of a distribution's Linux (fork and munmap p:512: of the port's, uncounted"
    )?;
    writeln!(out, "there); % of port: of the ported scheme's Linux, on which the model is fitted.")?;
    writeln!(out)
}

fn write_result(out: &mut dyn Write, name: &Text, row: &Row, strategy: Strategy) -> fmt::Result {
    let Some(counts) = row.per_unit(strategy) else { return Ok(()) };
    let modelled = Modelled::of(row, strategy);
    // The baseline's overheads are zero by definition, and three zeroes only make the table harder to read.
    let share = |value: Option<f64>| if strategy == Strategy::Off { pct(None) } else { pct(value) };
    let published = Published::of(row.bench, row.pages, row.huge);
    let figure = |version| optional(published.and_then(|row| row.figure(version, strategy)));
    let unit = row.bench.unit().name();
    writeln!(
        out,
        "{name:<20} {unit:<3} {strategy:<9} {:>9} {:>8} {:>7} {:>6} {:>6} {:>8} {:>8} {:>8} {:>8} {:>8}",
        optional((counts.instructions > 0.0).then(|| count(counts.instructions))),
        count(counts.por_writes),
        count(counts.isb),
        count(counts.dsb),
        count(counts.tlbi),
        share(modelled.overhead_pct),
        share(modelled.of_linux_pct),
        share(modelled.of_port_pct),
        figure(Version::V4),
        figure(Version::V5),
    )
}

fn write_times(out: &mut dyn Write, rows: &[Row]) -> fmt::Result {
    writeln!(out, "Host time per operation")?;
    writeln!(
        out,
        "{:<14} {:>3} h {:<9} {:>14} {:>12} {:>7} {:>10} {:>10} {:>10}",
        "benchmark", "p", "strategy", "mean ns", "+- 95 % ns", "samples", "change %", "v4 %", "v5 %"
    )?;
    for row in rows {
        for strategy in Strategy::ALL {
            let Some(time) = row.time(strategy) else { continue };
            let off = row.time(Strategy::Off).filter(|_| strategy != Strategy::Off);
            let change = off.map(|off| match time.mark(&off) {
                Mark::None => Text::of(format_args!("{:.2}", time.overhead_pct(&off))),
                Mark::Regression => Text::of(format_args!("R {:.2}", time.overhead_pct(&off))),
                Mark::Improvement => Text::of(format_args!("I {:.2}", time.overhead_pct(&off))),
            });
            let published = Published::of(row.bench, row.pages, row.huge);
            let figure = |version| optional(published.and_then(|row| row.figure(version, strategy)));
            writeln!(
                out,
                "{} {strategy:<9} {:>14.1} {:>12} {:>7} {:>10} {:>10} {:>10}",
                row_name(row),
                time.mean_ns,
                optional(time.ci95_ns().map(|ci| Text::of(format_args!("{ci:.1}")))),
                time.samples,
                optional(change),
                figure(Version::V4),
                figure(Version::V5),
            )?;
        }
    }
    writeln!(out)
}

fn write_peer(out: &mut dyn Write, rows: &[Row]) -> fmt::Result {
    writeln!(out, "Unprotected (off) beside Linux on the same emulator, instructions")?;
    writeln!(out, "{:<14} {:>3} h {:<3} {:>9} {:>9} {:>6}", "benchmark", "p", "per", "Palisade", "Linux", "ratio")?;
    for row in rows {
        let (Some(off), Some(linux)) = (row.per_unit(Strategy::Off), linux_instructions(row)) else { continue };
        let linux = linux / row.units_per_op() as f64;
        let unit = row.bench.unit().name();
        let from_port =
            if peer_instructions(row.bench, row.pages, row.huge).is_none() { "  (the port's count)" } else { "" };
        writeln!(
            out,
            "{} {unit:<3} {:>9} {:>9} {:>6.2}{from_port}",
            row_name(row),
            count(off.instructions),
            count(linux),
            off.instructions / linux
        )?;
    }
    writeln!(out)
}

fn write_model(out: &mut dyn Write) -> fmt::Result {
    writeln!(out, "Cost model (1 unit = an average unprotected instruction)")?;
    for constant in CONSTANTS {
        writeln!(out, "  {:<24} {:>4} units  {}", constant.name, constant.units, constant.source)?;
    }
    writeln!(out, "What it makes of the ported scheme's counts, beside what was published for that scheme")?;
    writeln!(
        out,
        "{:<14} {:>3} h {:>10} {:>8} {:>8} {:>8} {:>8}  {:>10} {:>8} {:>8} {:>8} {:>8}",
        "benchmark", "p", "per-write", "v4", "v5", "err4 %", "err5 %", "batched", "v4", "v5", "err4 pp", "err5 pp"
    )?;
    for (port, published) in fitted_rows() {
        write!(out, "{:<14} {:>3} {}", port.bench, port.pages, u8::from(port.huge))?;
        for (strategy, gap) in [(Strategy::PerWrite, ""), (Strategy::Batched, " ")] {
            let modelled = FITTED.predict(port, strategy);
            let figures = Version::ALL.map(|version| published.figure(version, strategy));
            let off_by = figures.map(|figure| figure.map(|figure| error(modelled, figure.pct, strategy)));
            let [v4, v5] = figures.map(optional);
            let [error4, error5] = off_by.map(pct);
            write!(out, "{gap} {modelled:>10.2} {v4:>8} {v5:>8} {error4:>8} {error5:>8}")?;
        }
        writeln!(out)?;
    }
    write_errors(out, "per-write", "%", errors(&FITTED, Strategy::PerWrite))?;
    write_errors(out, "batched", "percentage points", errors(&FITTED, Strategy::Batched))?;
    writeln!(out)
}

fn write_errors(out: &mut dyn Write, name: &str, unit: &str, errors: Errors) -> fmt::Result {
    let Errors { median, mean, max } = errors;
    writeln!(out, "error, {name:<9} median {median:.1}, mean {mean:.1}, largest {max:.1} {unit}")
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Bench, Counts, stats::Summary, write_verdict};
    use std::string::String;
    use std::vec::Vec;

    pub(crate) fn head() -> Head {
        Head { gate: Gate::Mock, por: PorOrigin::Emulated, time: TimeSource::Icount }
    }

    /// A run of every row, with counts of the right order.
    pub(crate) fn sample_rows() -> Vec<Row> {
        let sizes: [(Bench, &[(u32, bool)]); 8] = [
            (Bench::Fork, &[(1, false), (512, false)]),
            (Bench::Munmap, &[(1, false), (512, false)]),
            (
                Bench::FixSize,
                &[(1, false), (4, false), (16, false), (64, false), (256, false), (16, true), (64, true), (256, true)],
            ),
            (Bench::FixAlign, &[(1, false)]),
            (Bench::FullFit, &[(1, false)]),
            (Bench::LongBusyList, &[(10, false)]),
            (Bench::RandomSize, &[(1, false)]),
            (Bench::VmMapRam, &[(1, false)]),
        ];
        let mut rows = Vec::new();
        for (bench, sizes) in sizes {
            for &(pages, huge) in sizes {
                rows.push(sample_row(bench, pages, huge));
            }
        }
        rows
    }

    fn sample_row(bench: Bench, pages: u32, huge: bool) -> Row {
        let whole = bench.unit() == Unit::Pte;
        let ptes = if whole { 262_144 } else { u64::from(pages) };
        let (ops, sections) = if whole { (3, 1_024) } else { (997, 2) };
        let mut row = Row::new(bench, pages, huge, ptes);
        let off = Counts {
            ops,
            instructions: ops * (1_200 + 63 * ptes),
            por_writes: 0,
            isb: ops * 2,
            dsb: ops * 3 + 1,
            tlbi: ops / 2,
        };
        row.set_counts(Strategy::Off, off);
        let writes = ops * ptes * 4;
        row.set_counts(
            Strategy::PerWrite,
            Counts { instructions: off.instructions + writes * 3, por_writes: writes, isb: off.isb + writes, ..off },
        );
        row.set_counts(
            Strategy::Batched,
            Counts {
                instructions: off.instructions + ops * sections * 10,
                por_writes: ops * sections * 2,
                isb: off.isb + ops * sections,
                ..off
            },
        );
        row
    }

    fn assert_narrow(text: &str) {
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{} columns: {line}", line.chars().count());
            assert_eq!(line, line.trim_end(), "blanks at the end of: {line}");
            assert!(line.is_ascii(), "{line}");
        }
    }

    #[test]
    fn no_line_is_too_wide() {
        for gate in Gate::ALL {
            for por in PorOrigin::ALL {
                let mut text = String::new();
                let head = Head { gate, por, time: TimeSource::Icount };
                write_table(&mut text, &head, &sample_rows()).unwrap();
                write_verdict(&mut text, &sample_rows()).unwrap();
                assert_narrow(&text);
            }
        }
    }

    #[test]
    fn every_row_strategy_and_published_figure_is_shown() {
        let mut text = String::new();
        write_table(&mut text, &head(), &sample_rows()).unwrap();
        let results: Vec<&str> = text.lines().filter(|line| line.contains(" op ") || line.contains(" PTE ")).collect();
        assert!(results.len() >= sample_rows().len() * Strategy::COUNT);
        for wanted in ["R 282.89", "R 27.09", "I -2.04", "mock gate because POR_EL1 is emulated here", "error, batched"]
        {
            assert!(text.contains(wanted), "{wanted} is missing in\n{text}");
        }
        let fork = results.iter().find(|line| line.starts_with("fork             1 0 PTE off")).unwrap();
        assert!(fork.contains(" 63.0 "), "fork is not shown per PTE: {fork}");
    }

    #[test]
    fn host_times_have_a_table_of_their_own() {
        let mut row = sample_rows()[1];
        row.set_time(Strategy::Off, Summary::of(&[1e7, 1.01e7, 0.99e7]).unwrap());
        row.set_time(Strategy::PerWrite, Summary::of(&[3e7, 3.01e7, 2.99e7]).unwrap());
        let mut text = String::new();
        let head = Head { time: TimeSource::Host, ..head() };
        write_table(&mut text, &head, &[row]).unwrap();
        assert_narrow(&text);
        assert!(text.contains("R 200.00"), "{text}");
        assert!(!text.contains("beside Linux"), "{text}");
    }
}
