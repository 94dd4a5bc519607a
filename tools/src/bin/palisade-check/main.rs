//! Checks what the kernel's benchmarks wrote: the JSON lines against their schema (`docs/json.md`), and the counts in
//! them against the committed benchmark file.

mod counts;
mod lines;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lexopt::prelude::*;

use counts::Baseline;
use lines::Line;

const USAGE: &str = "usage: palisade-check json LINES
       palisade-check counts LINES BASELINE.json [--update]

json    checks every JSON line of a report: keys, types, ranges, a complete set of strategies per row.
counts  also compares the counts with the baseline: instructions may grow by 3 %, event counts must
        be equal. --update writes the baseline instead.
Exit code: 0 all is well, 1 something is wrong with the results, 2 a wrong call or an unreadable file.";

/// What the command line asks for.
enum Command {
    Help,
    Json { lines: PathBuf },
    Counts { lines: PathBuf, baseline: PathBuf, update: bool },
}

/// Why a command did not succeed.
enum Failure {
    /// The results are wrong; what is wrong has been said.
    Results,
    /// The call or a file is wrong.
    Call(String),
}

fn main() -> ExitCode {
    let outcome = match parse(std::env::args_os()) {
        Ok(command) => run(&command),
        Err(error) => Err(Failure::Call(format!("{error}\n{USAGE}"))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Results) => ExitCode::from(1),
        Err(Failure::Call(reason)) => {
            eprintln!("palisade-check: {reason}");
            ExitCode::from(2)
        }
    }
}

fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, lexopt::Error> {
    let (mut words, mut update) = (Vec::new(), false);
    let mut parser = lexopt::Parser::from_iter(args);
    while let Some(arg) = parser.next()? {
        match arg {
            Short('h') | Long("help") => return Ok(Command::Help),
            Long("update") => update = true,
            Value(value) => words.push(value),
            other => return Err(other.unexpected()),
        }
    }
    let mut words = words.into_iter();
    let command = words.next().ok_or("no command given")?;
    let mut path = |what: &str| words.next().map(PathBuf::from).ok_or(format!("{what} is missing"));
    let command = match command.to_str() {
        Some("json") if update => return Err("--update belongs to counts".into()),
        Some("json") => Command::Json { lines: path("LINES")? },
        Some("counts") => Command::Counts { lines: path("LINES")?, baseline: path("BASELINE.json")?, update },
        _ => return Err(format!("unknown command {}", command.display()).into()),
    };
    match words.next() {
        Some(word) => Err(format!("unexpected argument {}", word.display()).into()),
        None => Ok(command),
    }
}

fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Help => println!("{USAGE}"),
        Command::Json { lines } => {
            let lines = valid_lines(lines)?;
            println!("{} results are valid", lines.len());
        }
        Command::Counts { lines, baseline, update: true } => {
            let recorded = Baseline::of(&valid_lines(lines)?).map_err(Failure::Call)?;
            fs::write(baseline, recorded.to_json()).map_err(|error| unusable(baseline, "write", error))?;
            println!("recorded {} results in {}", recorded.len(), baseline.display());
        }
        Command::Counts { lines, baseline, update: false } => {
            let new = Baseline::of(&valid_lines(lines)?).map_err(Failure::Call)?;
            let old = Baseline::from_json(&read(baseline)?)
                .map_err(|reason| Failure::Call(format!("{}: {reason}", baseline.display())))?;
            let comparison = old.compare(&new);
            print!("{comparison}");
            if !comparison.passed() {
                return Err(Failure::Results);
            }
        }
    }
    Ok(())
}

/// Reads and checks JSON lines; prints everything that is wrong with them.
fn valid_lines(path: &Path) -> Result<Vec<Line>, Failure> {
    lines::check(&read(path)?).map_err(|problems| {
        for problem in &problems {
            println!("{}: {problem}", path.display());
        }
        println!("{} problems", problems.len());
        Failure::Results
    })
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| unusable(path, "read", error))
}

fn unusable(path: &Path, verb: &str, error: std::io::Error) -> Failure {
    Failure::Call(format!("can't {verb} {}: {error}", path.display()))
}
