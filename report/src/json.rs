//! The JSON lines, one per row and strategy. `docs/json.md` describes every key.
//!
//! Every string in them is a name from this crate, so nothing needs escaping.

use core::fmt::{self, Write};

use crate::bench::Strategy;
use crate::model::{Modelled, linux_instructions, port_instructions};
use crate::number::Json;
use crate::published::{Mark, Published, Version};
use crate::row::{Head, Row};

/// The version of the lines' schema; it changes with any key's meaning.
pub const SCHEMA: u32 = 1;

/// Writes one line per row and strategy that was counted. Every line starts with `{"bench":`.
///
/// # Errors
/// Those of `out`.
pub fn write_json(out: &mut dyn Write, head: &Head, rows: &[Row]) -> fmt::Result {
    for row in rows {
        for strategy in Strategy::ALL {
            write_line(out, head, row, strategy)?;
        }
    }
    Ok(())
}

fn write_line(out: &mut dyn Write, head: &Head, row: &Row, strategy: Strategy) -> fmt::Result {
    let (Some(counts), Some(per_op)) = (row.counts(strategy), row.per_op(strategy)) else { return Ok(()) };
    write!(
        out,
        r#"{{"bench":"{}","pages":{},"huge":{},"strategy":"{strategy}","gate":"{}","#,
        row.bench,
        row.pages,
        row.huge,
        head.gate.name(),
    )?;
    let instructions = Json((counts.instructions > 0).then_some(per_op.instructions));
    write!(
        out,
        r#""instructions_per_op":{instructions},"por_writes_per_op":{},"isb_per_op":{},"dsb_per_op":{},"tlbi_per_op":{},"#,
        Json(Some(per_op.por_writes)),
        Json(Some(per_op.isb)),
        Json(Some(per_op.dsb)),
        Json(Some(per_op.tlbi)),
    )?;
    let modelled = Modelled::of(row, strategy);
    write!(
        out,
        r#""modelled_overhead_pct":{},"modelled_added_pct_of_linux":{},"modelled_added_pct_of_port":{},"#,
        Json(modelled.overhead_pct),
        Json(modelled.of_linux_pct),
        Json(modelled.of_port_pct),
    )?;
    write_published(out, row, strategy)?;
    write!(
        out,
        r#""ops":{},"ptes_per_op":{},"linux_instructions_per_op":{},"port_instructions_per_op":{},"#,
        counts.ops,
        row.ptes_per_op,
        Json(linux_instructions(row)),
        Json(port_instructions(row)),
    )?;
    write_time(out, row, strategy)?;
    writeln!(out, r#""time":"{}","por":"{}","schema":{SCHEMA}}}"#, head.time.name(), head.por.name())
}

fn write_published(out: &mut dyn Write, row: &Row, strategy: Strategy) -> fmt::Result {
    let published = Published::of(row.bench, row.pages, row.huge);
    for (name, version) in [("v4", Version::V4), ("v5", Version::V5)] {
        let figure = published.and_then(|published| published.figure(version, strategy));
        write!(out, r#""published_{name}_pct":{},"#, Json(figure.map(|figure| figure.pct)))?;
        write!(out, r#""published_{name}_mark":{},"#, MarkName(figure.map(|figure| figure.mark)))?;
    }
    Ok(())
}

fn write_time(out: &mut dyn Write, row: &Row, strategy: Strategy) -> fmt::Result {
    let time = row.time(strategy);
    let against = row.time(Strategy::Off).filter(|_| strategy != Strategy::Off).zip(time);
    write!(
        out,
        r#""mean_ns":{},"ci95_ns":{},"samples":{},"measured_overhead_pct":{},"mark":{},"#,
        Json(time.map(|time| time.mean_ns)),
        Json(time.and_then(|time| time.ci95_ns())),
        time.map_or(0, |time| time.samples),
        Json(against.map(|(off, time)| time.overhead_pct(&off))),
        MarkName(against.map(|(off, time)| time.mark(&off))),
    )
}

/// A mark as JSON: `"R"`, `"I"`, `""` for not significant, `null` for none to be had.
struct MarkName(Option<Mark>);

impl fmt::Display for MarkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.map(Mark::letter) {
            None => f.write_str("null"),
            Some(None) => f.write_str(r#""""#),
            Some(Some(letter)) => write!(f, r#""{letter}""#),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::{head, sample_rows};
    use crate::{Bench, stats::Summary};
    use serde_json::Value;
    use std::string::String;
    use std::vec::Vec;

    fn lines(rows: &[Row]) -> Vec<Value> {
        let mut text = String::new();
        write_json(&mut text, &head(), rows).unwrap();
        assert!(text.lines().all(|line| line.starts_with(r#"{"bench":"#)));
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn every_row_and_strategy_has_a_line_with_what_went_in() {
        let rows = sample_rows();
        let lines = lines(&rows);
        assert_eq!(lines.len(), rows.len() * Strategy::COUNT);
        let mut left = lines.iter();
        for row in &rows {
            for strategy in Strategy::ALL {
                let line = left.next().unwrap();
                assert_eq!(line["bench"], row.bench.name());
                assert_eq!(line["pages"], row.pages);
                assert_eq!(line["huge"], row.huge);
                assert_eq!(line["strategy"], strategy.name());
                assert_eq!(line["gate"], "mock");
                let isb = line["isb_per_op"].as_f64().unwrap();
                assert!((isb - row.per_op(strategy).unwrap().isb).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn what_was_not_published_is_null() {
        let lines = lines(&sample_rows());
        let find = |bench: &str, strategy: &str| {
            lines.iter().find(|line| line["bench"] == bench && line["strategy"] == strategy).unwrap()
        };
        assert!(find("full_fit", "batched")["published_v5_pct"].is_null());
        assert!(find("full_fit", "batched")["linux_instructions_per_op"].is_null());
        assert!(find("fork", "off")["published_v4_pct"].is_null());
        assert_eq!(find("fork", "per-write")["published_v4_pct"], 225.56);
        assert_eq!(find("fork", "per-write")["published_v4_mark"], "R");
        assert_eq!(find("fork", "batched")["published_v4_mark"], "");
        assert_eq!(find("fork", "off")["modelled_overhead_pct"], 0);
        assert!(find("fork", "off")["mean_ns"].is_null());
    }

    #[test]
    fn host_times_are_marked_against_the_baseline() {
        let mut row = sample_rows()[0];
        assert_eq!(row.bench, Bench::Fork);
        row.set_time(Strategy::Off, Summary::of(&[100.0, 101.0, 99.0]).unwrap());
        row.set_time(Strategy::PerWrite, Summary::of(&[300.0, 303.0, 297.0]).unwrap());
        row.set_time(Strategy::Batched, Summary::of(&[100.5, 101.5, 98.0]).unwrap());
        let lines = lines(&[row]);
        assert!(lines[0]["mark"].is_null() && lines[0]["measured_overhead_pct"].is_null());
        assert_eq!(lines[1]["mark"], "R");
        assert_eq!(lines[1]["measured_overhead_pct"], 200);
        assert_eq!(lines[2]["mark"], "");
        assert_eq!(lines[2]["samples"], 3);
    }
}
