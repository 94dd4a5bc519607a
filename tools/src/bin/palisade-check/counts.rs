//! The committed benchmark file: counts per result, and what a new run may differ by.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use report::{Bench, Strategy};
use serde_json::{Value, json};

use crate::lines::{Key, Line};

/// By how much an instruction count may grow before it is a regression, and shrink before it is worth recording: a
/// compiler's release moves it by this much without anybody's doing.
const INSTRUCTION_TOLERANCE: f64 = 0.03;

/// The version of the file's format.
const FORMAT: u64 = 1;

/// Counts that must be equal.
static EVENTS: [&str; 4] = ["por_writes_per_op", "isb_per_op", "dsb_per_op", "tlbi_per_op"];

/// Counts whose meaning depends on how the run was made, so that a difference makes the rest incomparable.
static SETTINGS: [&str; 2] = ["ops", "ptes_per_op"];

/// The key of the instruction count.
const INSTRUCTIONS: &str = "instructions_per_op";

/// All numbers of a result that are kept, in the file's order.
fn kept() -> impl Iterator<Item = &'static str> {
    SETTINGS.into_iter().chain([INSTRUCTIONS]).chain(EVENTS)
}

/// The counts of one run.
#[derive(Debug, PartialEq)]
pub struct Baseline {
    gate: String,
    results: BTreeMap<Key, BTreeMap<&'static str, f64>>,
}

impl Baseline {
    /// The counts of checked lines.
    ///
    /// # Errors
    /// A reason where instructions were not counted: the file is for runs under icount.
    pub fn of(lines: &[Line]) -> Result<Self, String> {
        let mut results = BTreeMap::new();
        for line in lines {
            let number = |key: &'static str| Some((key, line.number(key)?));
            let numbers: Option<BTreeMap<_, _>> = kept().map(number).collect();
            let numbers =
                numbers.ok_or(format!("{}: {INSTRUCTIONS} is null: counts need a run under icount", line.key))?;
            results.insert(line.key.clone(), numbers);
        }
        let gate = lines.first().map(|line| line.name("gate").to_owned()).unwrap_or_default();
        Ok(Self { gate, results })
    }

    /// How many results there are.
    pub fn len(&self) -> usize {
        self.results.len()
    }

    /// Reads the file's text.
    ///
    /// # Errors
    /// A reason where it is not such a file.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let file: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if file["format"] != FORMAT {
            return Err(format!("format is {}, not {FORMAT}", file["format"]));
        }
        let gate = file["gate"].as_str().ok_or("no gate")?.to_owned();
        let mut results = BTreeMap::new();
        for row in file["results"].as_array().ok_or("no results")? {
            let (key, numbers) = result(row).ok_or_else(|| format!("not a result: {row}"))?;
            if results.insert(key.clone(), numbers).is_some() {
                return Err(format!("{key} is there twice"));
            }
        }
        Ok(Self { gate, results })
    }

    /// The file's text: a result per line, so that a change shows as such in a diff.
    pub fn to_json(&self) -> String {
        let results: Vec<String> = self
            .results
            .iter()
            .map(|(Key { row: (bench, pages, huge), strategy }, numbers)| {
                let mut line =
                    format!(r#"    {{"bench": "{bench}", "pages": {pages}, "huge": {huge}, "strategy": "{strategy}""#);
                for key in kept() {
                    let _infallible = write!(line, r#", "{key}": {}"#, numbers[key]);
                }
                line + "}"
            })
            .collect();
        let gate = json!(self.gate);
        format!(
            "{{\n  \"format\": {FORMAT},\n  \"gate\": {gate},\n  \"results\": [\n{}\n  ]\n}}\n",
            results.join(",\n")
        )
    }

    /// Compares a new run with these counts.
    pub fn compare(&self, new: &Self) -> Comparison {
        let mut comparison = Comparison { compared: 0, failures: Vec::new(), improvements: Vec::new() };
        if self.gate != new.gate {
            comparison.failures.push(format!("recorded through the gate {}, but run through {}", self.gate, new.gate));
        }
        for (key, old) in &self.results {
            match new.results.get(key) {
                Some(new) => comparison.result(key, old, new),
                None => comparison.failures.push(format!("{key}: no longer there")),
            }
        }
        for key in new.results.keys().filter(|key| !self.results.contains_key(key)) {
            comparison.failures.push(format!("{key}: not recorded yet (--update records it)"));
        }
        comparison
    }
}

fn result(row: &Value) -> Option<(Key, BTreeMap<&'static str, f64>)> {
    let bench = Bench::from_name(row["bench"].as_str()?).ok()?;
    let strategy = Strategy::from_name(row["strategy"].as_str()?).ok()?;
    let key = Key { row: (bench, row["pages"].as_u64()?, row["huge"].as_bool()?), strategy };
    let numbers: Option<BTreeMap<_, _>> = kept().map(|key| Some((key, row[key].as_f64()?))).collect();
    Some((key, numbers?))
}

/// What a comparison found.
#[derive(Debug, PartialEq)]
pub struct Comparison {
    compared: usize,
    failures: Vec<String>,
    improvements: Vec<String>,
}

impl Comparison {
    /// Whether nothing regressed and everything could be compared.
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }

    fn result(&mut self, key: &Key, old: &BTreeMap<&str, f64>, new: &BTreeMap<&str, f64>) {
        self.compared += 1;
        if let Some(setting) = SETTINGS.into_iter().find(|setting| old[setting] != new[setting]) {
            let (old, new) = (old[setting], new[setting]);
            self.failures.push(format!("{key}: {setting} was {old}, is {new}: run as the file was recorded"));
            return;
        }
        let (before, after) = (old[INSTRUCTIONS], new[INSTRUCTIONS]);
        let change = format!("{key}: {INSTRUCTIONS} {before} -> {after} ({:+.1} %)", 100.0 * (after / before - 1.0));
        if after > before * (1.0 + INSTRUCTION_TOLERANCE) {
            self.failures.push(change);
        } else if after < before * (1.0 - INSTRUCTION_TOLERANCE) {
            self.improvements.push(change);
        }
        for event in EVENTS {
            let (before, after) = (old[event], new[event]);
            if before != after {
                // Fewer may be better, or may be a barrier that got lost: somebody has to look.
                let hint = if after < before { " (fewer: --update if that is meant)" } else { "" };
                self.failures.push(format!("{key}: {event} {before} -> {after}{hint}"));
            }
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for failure in &self.failures {
            writeln!(f, "regression: {failure}")?;
        }
        for improvement in &self.improvements {
            writeln!(f, "improved: {improvement}; --update records it")?;
        }
        let (failures, improvements) = (self.failures.len(), self.improvements.len());
        writeln!(f, "{} results compared: {failures} regressions, {improvements} improvements", self.compared)
    }
}
