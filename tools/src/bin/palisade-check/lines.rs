//! The JSON lines' schema, and what must hold between the lines of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use report::json::SCHEMA as VERSION;
use report::{Bench, Gate, PorOrigin, Published, Strategy, TimeSource, Version};
use serde_json::{Map, Value};

/// What a key's value may be.
enum Kind {
    /// One of the names of a set.
    Name(fn(&str) -> bool),
    /// `true` or `false`.
    Flag,
    /// A whole number, at least this large.
    Whole(u64),
    /// A number, zero or more.
    Count,
    /// A number, zero or more, or `null`.
    CountOrNull,
    /// Any number, or `null`.
    NumberOrNull,
    /// `"R"`, `"I"`, `""`, or `null`.
    MarkOrNull,
}

/// Every key of a line; `docs/json.md` describes them.
static KEYS: [(&str, Kind); 27] = [
    ("bench", Kind::Name(|name| Bench::from_name(name).is_ok())),
    ("pages", Kind::Whole(1)),
    ("huge", Kind::Flag),
    ("strategy", Kind::Name(|name| Strategy::from_name(name).is_ok())),
    ("gate", Kind::Name(|name| Gate::ALL.iter().any(|gate| gate.name() == name))),
    ("instructions_per_op", Kind::CountOrNull),
    ("por_writes_per_op", Kind::Count),
    ("isb_per_op", Kind::Count),
    ("dsb_per_op", Kind::Count),
    ("tlbi_per_op", Kind::Count),
    ("modelled_overhead_pct", Kind::CountOrNull),
    ("modelled_added_pct_of_linux", Kind::CountOrNull),
    ("modelled_added_pct_of_port", Kind::CountOrNull),
    ("published_v4_pct", Kind::NumberOrNull),
    ("published_v4_mark", Kind::MarkOrNull),
    ("published_v5_pct", Kind::NumberOrNull),
    ("published_v5_mark", Kind::MarkOrNull),
    ("ops", Kind::Whole(1)),
    ("ptes_per_op", Kind::Whole(1)),
    ("linux_instructions_per_op", Kind::CountOrNull),
    ("port_instructions_per_op", Kind::CountOrNull),
    ("mean_ns", Kind::CountOrNull),
    ("ci95_ns", Kind::CountOrNull),
    ("samples", Kind::Whole(0)),
    ("measured_overhead_pct", Kind::NumberOrNull),
    ("mark", Kind::MarkOrNull),
    ("time", Kind::Name(|name| TimeSource::ALL.iter().any(|time| time.name() == name))),
];

/// Keys that every line of a run shares, besides `gate` and `time`.
static RUN_KEYS: [(&str, Kind); 2] = [
    ("por", Kind::Name(|name| PorOrigin::ALL.iter().any(|por| por.name() == name))),
    ("schema", Kind::Whole(VERSION as u64)),
];

impl Kind {
    fn accepts(&self, value: &Value) -> bool {
        let number = value.as_f64();
        match self {
            Self::Name(known) => value.as_str().is_some_and(known),
            Self::Flag => value.is_boolean(),
            Self::Whole(least) => value.as_u64().is_some_and(|value| value >= *least),
            Self::Count => number.is_some_and(|value| value >= 0.0),
            Self::CountOrNull => value.is_null() || number.is_some_and(|value| value >= 0.0),
            Self::NumberOrNull => value.is_null() || number.is_some(),
            Self::MarkOrNull => value.is_null() || matches!(value.as_str(), Some("" | "R" | "I")),
        }
    }

    const fn expected(&self) -> &'static str {
        match self {
            Self::Name(_) => "one of the known names",
            Self::Flag => "true or false",
            Self::Whole(0) => "a whole number",
            Self::Whole(_) => "a whole number, large enough",
            Self::Count => "a number, zero or more",
            Self::CountOrNull => "a number, zero or more, or null",
            Self::NumberOrNull => "a number or null",
            Self::MarkOrNull => "R, I, an empty string or null",
        }
    }
}

/// Something wrong with a line, or between lines.
#[derive(Debug, PartialEq)]
pub struct Problem {
    /// Line number, from 1; 0 where it is about the file as a whole.
    line: usize,
    reason: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.reason),
            line => write!(f, "line {line}: {}", self.reason),
        }
    }
}

/// Which result a line holds: benchmark, pages, huge, strategy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The benchmark and its size.
    pub row: (Bench, u64, bool),
    /// The strategy.
    pub strategy: Strategy,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bench, pages, huge) = self.row;
        write!(f, "{bench} p:{pages} h:{} {}", u8::from(huge), self.strategy)
    }
}

/// A line that keeps to the schema.
#[derive(Debug)]
pub struct Line {
    /// Which result it holds.
    pub key: Key,
    values: Map<String, Value>,
}

impl Line {
    /// A number of the line; `None` for `null`.
    pub fn number(&self, key: &str) -> Option<f64> {
        self.values[key].as_f64()
    }

    /// A name of the line.
    pub fn name(&self, key: &str) -> &str {
        self.values[key].as_str().unwrap_or_default()
    }
}

/// Checks a file of JSON lines.
///
/// # Errors
/// Every problem found. What must hold between lines is checked only where each line by itself is right.
pub fn check(text: &str) -> Result<Vec<Line>, Vec<Problem>> {
    let (mut lines, mut problems) = (Vec::new(), Vec::new());
    for (index, text) in text.lines().enumerate() {
        match parse(text.trim_end()) {
            Ok(line) => lines.push(line),
            Err(reasons) => problems.extend(reasons.into_iter().map(|reason| Problem { line: index + 1, reason })),
        }
    }
    if problems.is_empty() {
        problems = check_lines(&lines).into_iter().chain(check_run(&lines)).collect();
    }
    if problems.is_empty() { Ok(lines) } else { Err(problems) }
}

fn parse(text: &str) -> Result<Line, Vec<String>> {
    if !text.starts_with(r#"{"bench":"#) {
        return Err(vec![r#"does not start with {"bench":"#.into()]);
    }
    let values: Map<String, Value> = serde_json::from_str(text).map_err(|error| vec![error.to_string()])?;
    let mut reasons = Vec::new();
    for (key, kind) in KEYS.iter().chain(&RUN_KEYS) {
        match values.get(*key) {
            None => reasons.push(format!("{key} is missing")),
            Some(value) if !kind.accepts(value) => reasons.push(format!("{key} is {value}, not {}", kind.expected())),
            Some(_) => {}
        }
    }
    let known: BTreeSet<&str> = KEYS.iter().chain(&RUN_KEYS).map(|(key, _)| *key).collect();
    reasons.extend(values.keys().filter(|key| !known.contains(key.as_str())).map(|key| format!("{key} is unknown")));
    if values.get("schema").is_some_and(|schema| *schema != VERSION) {
        reasons.push(format!("schema is {}, not {VERSION}", values["schema"]));
    }
    match (key(&values), reasons.is_empty()) {
        (Some(key), true) => Ok(Line { key, values }),
        _ => Err(reasons),
    }
}

fn key(values: &Map<String, Value>) -> Option<Key> {
    let bench = Bench::from_name(values.get("bench")?.as_str()?).ok()?;
    let strategy = Strategy::from_name(values.get("strategy")?.as_str()?).ok()?;
    Some(Key { row: (bench, values.get("pages")?.as_u64()?, values.get("huge")?.as_bool()?), strategy })
}

/// What must hold within each line.
fn check_lines(lines: &[Line]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let mut wrong = |reason: String| problems.push(Problem { line: index + 1, reason });
        let icount = line.name("time") == TimeSource::Icount.name();
        if icount && line.number("instructions_per_op").is_none_or(|count| count == 0.0) {
            wrong("no instructions counted under icount".into());
        }
        if icount && line.number("modelled_overhead_pct").is_none() {
            wrong("nothing modelled under icount".into());
        }
        if line.key.strategy == Strategy::Off {
            for key in ["por_writes_per_op", "modelled_overhead_pct"] {
                if line.number(key).is_some_and(|value| value != 0.0) {
                    wrong(format!("{key} of off is {}, not 0", line.values[key]));
                }
            }
        }
        if line.name("gate") == Gate::None.name() && line.number("por_writes_per_op") != Some(0.0) {
            wrong("POR writes without a gate".into());
        }
        let (bench, pages, huge) = line.key.row;
        let published = u32::try_from(pages).ok().and_then(|pages| Published::of(bench, pages, huge));
        for (key, version) in [("published_v4_pct", Version::V4), ("published_v5_pct", Version::V5)] {
            let figure = published.and_then(|row| row.figure(version, line.key.strategy)).map(|figure| figure.pct);
            if line.number(key) != figure {
                wrong(format!("{key} is {}, but {figure:?} was published", line.values[key]));
            }
        }
    }
    problems
}

/// What must hold between the lines of one run.
fn check_run(lines: &[Line]) -> Vec<Problem> {
    let whole_file = |reason: String| Problem { line: 0, reason };
    let mut problems = Vec::new();
    if lines.is_empty() {
        problems.push(whole_file("no results".into()));
    }
    for key in ["gate", "por", "time"] {
        let names: BTreeSet<&str> = lines.iter().map(|line| line.name(key)).collect();
        if names.len() > 1 {
            problems.push(whole_file(format!("{key} differs between lines: {names:?}")));
        }
    }
    let mut rows: BTreeMap<(Bench, u64, bool), Vec<Strategy>> = BTreeMap::new();
    for line in lines {
        rows.entry(line.key.row).or_default().push(line.key.strategy);
    }
    for (row, strategies) in rows {
        for strategy in Strategy::ALL {
            let times = strategies.iter().filter(|other| **other == strategy).count();
            if times != 1 {
                problems.push(whole_file(format!("{} is there {times} times, not once", Key { row, strategy })));
            }
        }
    }
    problems
}
