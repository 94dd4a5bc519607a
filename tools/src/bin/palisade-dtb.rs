//! Gives a device tree blob other memory banks.

use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use lexopt::prelude::*;
use tools::dtb::{self, Bank, Layout};

const USAGE: &str = "usage: palisade-dtb split [--node-per-bank] IN.dtb OUT.dtb BASE:SIZE...

Writes the device tree blob IN.dtb to OUT.dtb with the given banks as its memory: in one memory
node, or with --node-per-bank in a node for each. A SIZE may end in K, M or G.";

/// What the command line asks for.
struct Options {
    input: PathBuf,
    output: PathBuf,
    banks: Vec<Bank>,
    layout: Layout,
}

fn main() -> ExitCode {
    let options = match parse(std::env::args_os()) {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("palisade-dtb: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("palisade-dtb: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Reads the command line; gives `None` where help is asked for.
fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Option<Options>, lexopt::Error> {
    let (mut words, mut banks, mut layout) = (Vec::new(), Vec::new(), Layout::OneNode);
    let mut parser = lexopt::Parser::from_iter(args);
    while let Some(arg) = parser.next()? {
        match arg {
            Short('h') | Long("help") => return Ok(None),
            Long("node-per-bank") => layout = Layout::NodePerBank,
            Value(value) if words.len() < 3 => words.push(value),
            Value(value) => banks.push(value.parse()?),
            other => return Err(other.unexpected()),
        }
    }
    let Ok([verb, input, output]) = <[OsString; 3]>::try_from(words) else {
        return Err("split, IN.dtb and OUT.dtb are needed".into());
    };
    if verb != "split" {
        return Err(format!("unknown verb {}: there is only split", verb.display()).into());
    }
    Ok(Some(Options { input: input.into(), output: output.into(), banks, layout }))
}

/// Does the work.
fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let (input, output) = (&options.input, &options.output);
    let blob = fs::read(input).map_err(|error| format!("cannot read {}: {error}", input.display()))?;
    let blob = dtb::set_memory(&blob, &options.banks, options.layout)
        .map_err(|error| format!("{}: {error}", input.display()))?;
    Ok(fs::write(output, blob).map_err(|error| format!("cannot write {}: {error}", output.display()))?)
}
