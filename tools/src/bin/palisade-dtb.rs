//! Gives a device tree blob other memory banks, and bundles a kernel Image with a device tree.

use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lexopt::prelude::*;
use tools::bundle;
use tools::dtb::{self, Bank, Layout};

const USAGE: &str = "usage: palisade-dtb split [--node-per-bank] IN.dtb OUT.dtb BASE:SIZE...
       palisade-dtb bundle KERNEL.img IN.dtb OUT.img

split   writes the device tree blob IN.dtb to OUT.dtb with the given banks as its memory: in one
        memory node, or with --node-per-bank in a node for each; a SIZE may end in K, M or G
bundle  makes one arm64 Image that boots the Image KERNEL.img with IN.dtb, whatever device tree
        the boot loader passes";

/// What the command line asks for.
enum Job {
    Help,
    Split { input: PathBuf, output: PathBuf, banks: Vec<Bank>, layout: Layout },
    Bundle { kernel: PathBuf, dtb: PathBuf, output: PathBuf },
}

fn main() -> ExitCode {
    let job = match parse(std::env::args_os()) {
        Ok(job) => job,
        Err(error) => {
            eprintln!("palisade-dtb: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&job) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("palisade-dtb: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Reads the command line.
fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Job, lexopt::Error> {
    let (mut words, mut layout) = (Vec::new(), Layout::OneNode);
    let mut parser = lexopt::Parser::from_iter(args);
    while let Some(arg) = parser.next()? {
        match arg {
            Short('h') | Long("help") => return Ok(Job::Help),
            Long("node-per-bank") => layout = Layout::NodePerBank,
            Value(value) => words.push(value),
            other => return Err(other.unexpected()),
        }
    }
    let mut words = words.into_iter();
    let verb = words.next().ok_or("split or bundle?")?;
    let mut path = |what| words.next().map(PathBuf::from).ok_or(format!("which {what}?"));
    match verb.to_str() {
        Some("split") => {
            let (input, output) = (path("IN.dtb")?, path("OUT.dtb")?);
            let banks = words.map(|word| word.parse()).collect::<Result<_, _>>()?;
            Ok(Job::Split { input, output, banks, layout })
        }
        Some("bundle") => {
            let (kernel, dtb, output) = (path("KERNEL.img")?, path("IN.dtb")?, path("OUT.img")?);
            match words.next() {
                Some(extra) => Err(Value(extra).unexpected()),
                None => Ok(Job::Bundle { kernel, dtb, output }),
            }
        }
        _ => Err(format!("unknown verb {}: split or bundle?", verb.display()).into()),
    }
}

/// Does the work.
fn run(job: &Job) -> Result<(), Box<dyn Error>> {
    match job {
        Job::Help => println!("{USAGE}"),
        Job::Split { input, output, banks, layout } => {
            let blob = dtb::set_memory(&read(input)?, banks, *layout);
            write(output, blob.map_err(|error| format!("{}: {error}", input.display()))?)?;
        }
        Job::Bundle { kernel, dtb, output } => write(output, bundle::bundle(&read(kernel)?, &read(dtb)?)?)?,
    }
    Ok(())
}

/// Reads a whole file.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Writes a whole file.
fn write(path: &Path, bytes: Vec<u8>) -> Result<(), String> {
    fs::write(path, bytes).map_err(|error| format!("cannot write {}: {error}", path.display()))
}
