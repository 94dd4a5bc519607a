//! The kernel's command line: `key=value` words, with spaces between.

use core::fmt;
use log::LevelFilter;
use thiserror::Error;

/// How table writes are gated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gate {
    /// By POR_EL1; the kernel ends where the CPU can't have that.
    #[default]
    Auto,
    /// The same, asked for by name.
    Por,
    /// By a register that protects nothing.
    Mock,
    /// Not at all.
    None,
}

/// What benchmarks count in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Time {
    /// Instructions, by QEMU's virtual time under -icount.
    #[default]
    Icount,
    /// The clock.
    Host,
}

/// The command line, decoded. What was not given has its default, or is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Args<'a> {
    /// `gate=`.
    pub gate: Gate,
    /// `bench=`: names with commas between, unchecked.
    pub bench: Option<&'a str>,
    /// `size=`, in bytes: what fork and munmap work on.
    pub size: Option<u64>,
    /// `samples=`, from 1 to 100,000.
    pub samples: Option<u32>,
    /// `time=`.
    pub time: Time,
    /// `log=`.
    pub log: LevelFilter,
}

/// What a word of the command line has wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ArgError<'a> {
    /// A key that the kernel does not know, or a word without `=`.
    #[error("unknown boot argument `{0}`")]
    Unknown(&'a str),
    /// A value that its key does not take.
    #[error("bad value in boot argument `{key}={value}`: {wanted}")]
    BadValue {
        /// The key.
        key: &'static str,
        /// The value given.
        value: &'a str,
        /// What it takes.
        wanted: &'static str,
    },
}

/// Most samples: one more digit, and a run would take days, and their list be larger than what the heap gives in one piece.
const MOST_SAMPLES: u32 = 100_000;

/// What the kernel knows: key, values, meaning.
const KNOWN: [(&str, &str, &str); 6] = [
    ("gate", "auto, por, mock or none", "how table writes are gated (default auto)"),
    ("bench", "all, none, or names with commas", "which benchmarks to run (default all)"),
    ("size", "bytes, such as 16M or 1G", "memory that fork and munmap work on (default 1G; 64M where POR_EL1 traps)"),
    ("samples", "a whole number from 1 to 100000", "samples per measurement"),
    ("time", "icount or host", "what benchmarks count in (default icount)"),
    ("log", "off, error, warn, info, debug or trace", "how much to print (default info)"),
];

/// The list of boot arguments, one a line.
pub struct Usage;

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("boot arguments:")?;
        for (key, values, meaning) in KNOWN {
            write!(f, "\n  {key:8} {values}: {meaning}")?;
        }
        Ok(())
    }
}

impl<'a> Args<'a> {
    /// Decodes `line`. A key given twice has its last value.
    ///
    /// # Errors
    /// The first word that is wrong.
    pub fn parse(line: &'a str) -> Result<Self, ArgError<'a>> {
        let mut args = Args {
            gate: Gate::default(),
            bench: None,
            size: None,
            samples: None,
            time: Time::default(),
            log: LevelFilter::Info,
        };
        for word in line.split_ascii_whitespace() {
            args.take(word)?;
        }
        Ok(args)
    }

    fn take(&mut self, word: &'a str) -> Result<(), ArgError<'a>> {
        let (key, value) = word.split_once('=').ok_or(ArgError::Unknown(word))?;
        let (key, wanted, _) = KNOWN.into_iter().find(|known| known.0 == key).ok_or(ArgError::Unknown(word))?;
        let bad = ArgError::BadValue { key, value, wanted };
        match key {
            "gate" => {
                self.gate = match value {
                    "auto" => Gate::Auto,
                    "por" => Gate::Por,
                    "mock" => Gate::Mock,
                    "none" => Gate::None,
                    _ => return Err(bad),
                }
            }
            "bench" if !value.is_empty() => self.bench = Some(value),
            "size" => self.size = Some(size(value).ok_or(bad)?),
            "samples" => self.samples = Some(samples(value).ok_or(bad)?),
            "time" => {
                self.time = match value {
                    "icount" => Time::Icount,
                    "host" => Time::Host,
                    _ => return Err(bad),
                }
            }
            "log" => self.log = value.parse().map_err(|_| bad)?,
            _ => return Err(bad),
        }
        Ok(())
    }
}

/// A number of samples.
fn samples(text: &str) -> Option<u32> {
    text.parse().ok().filter(|samples| (1..=MOST_SAMPLES).contains(samples))
}

/// A number of bytes, with K, M or G for powers of 1024; above 0.
fn size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' | b'k' => (&text[..text.len() - 1], 10),
        b'M' | b'm' => (&text[..text.len() - 1], 20),
        b'G' | b'g' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number: u64 = digits.parse().ok()?;
    number.checked_mul(1 << shift).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::string::ToString;

    #[test]
    fn defaults() {
        let args = Args::parse("  ").unwrap();
        assert_eq!((args.gate, args.time, args.log), (Gate::Auto, Time::Icount, LevelFilter::Info));
        assert_eq!((args.bench, args.size, args.samples), (None, None, None));
    }

    #[test]
    fn every_key() {
        let args = Args::parse("gate=mock bench=fork,munmap size=16M samples=3 time=host log=debug").unwrap();
        assert_eq!(args.gate, Gate::Mock);
        assert_eq!(args.bench, Some("fork,munmap"));
        assert_eq!(args.size, Some(16 << 20));
        assert_eq!(args.samples, Some(3));
        assert_eq!(args.time, Time::Host);
        assert_eq!(args.log, LevelFilter::Debug);
    }

    #[test]
    fn sizes() {
        let of = |value| size(value);
        assert_eq!(of("4096"), Some(4096));
        assert_eq!(of("4k"), Some(4096));
        assert_eq!(of("1G"), Some(1 << 30));
        for bad in ["", "G", "0", "0M", "-1", "1.5G", "1T", "99999999999G", "1GG", "16é"] {
            assert_eq!(of(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let error = |line| Args::parse(line).unwrap_err().to_string();
        assert_eq!(error("gate=auto colour=red"), "unknown boot argument `colour=red`");
        assert_eq!(error("quiet"), "unknown boot argument `quiet`");
        assert_eq!(error("gate=open"), "bad value in boot argument `gate=open`: auto, por, mock or none");
        for bad in ["samples=0", "samples=100001", "samples=", "size=0", "bench=", "time=", "log=loud", "gate="] {
            assert!(matches!(Args::parse(bad), Err(ArgError::BadValue { .. })), "{bad}");
        }
    }

    #[test]
    fn the_list_names_every_key() {
        let usage = Usage.to_string();
        for (key, ..) in KNOWN {
            assert!(usage.contains(key));
        }
    }
}
