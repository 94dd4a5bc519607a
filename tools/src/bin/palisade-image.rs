//! Makes a linked kernel bootable: fills in its symbol table and writes it as an ELF and as a flat arm64 Image.

use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lexopt::prelude::*;
use tools::image;

const USAGE: &str = "usage: palisade-image ELF [--elf OUT.elf] [--image OUT.img]

Reads the linked kernel ELF, writes the names of its functions into its .symbols section,
and writes the result as an ELF (--elf), as a flat arm64 Image (--image), or as both.";

/// What the command line asks for.
struct Options {
    input: PathBuf,
    elf: Option<PathBuf>,
    image: Option<PathBuf>,
}

fn main() -> ExitCode {
    let options = match parse(std::env::args_os()) {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("palisade-image: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(summary) => {
            println!("{summary}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("palisade-image: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Reads the command line; gives `None` where help is asked for.
fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Option<Options>, lexopt::Error> {
    let (mut input, mut elf, mut image) = (None, None, None);
    let mut parser = lexopt::Parser::from_iter(args);
    while let Some(arg) = parser.next()? {
        match arg {
            Short('h') | Long("help") => return Ok(None),
            Long("elf") => elf = Some(PathBuf::from(parser.value()?)),
            Long("image") => image = Some(PathBuf::from(parser.value()?)),
            Value(value) if input.is_none() => input = Some(PathBuf::from(value)),
            other => return Err(other.unexpected()),
        }
    }
    let input = input.ok_or("which ELF?")?;
    if elf.is_none() && image.is_none() {
        return Err("nothing to write: give --elf or --image".into());
    }
    Ok(Some(Options { input, elf, image }))
}

/// Does the work; gives the line that says what was done.
fn run(options: &Options) -> Result<String, Box<dyn Error>> {
    let path = &options.input;
    let elf = fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let built = image::build(&elf).map_err(|error| format!("{}: {error}", path.display()))?;
    write(options.elf.as_deref(), &built.elf)?;
    write(options.image.as_deref(), &built.image)?;
    Ok(format!(
        "{}: {} functions in {} of {} reserved bytes; image of {} bytes, {} in memory",
        path.display(),
        built.functions,
        built.table,
        built.reserved,
        built.image.len(),
        built.memory,
    ))
}

/// Writes `bytes` to `path`, if one is given.
fn write(path: Option<&Path>, bytes: &[u8]) -> Result<(), String> {
    let Some(path) = path else {
        return Ok(());
    };
    fs::write(path, bytes).map_err(|error| format!("cannot write {}: {error}", path.display()))
}
