//! The benchmarks: each under off, per-write and batched, three copies of the same code in one boot.
//!
//! A copy is measured twice: once plainly, for instructions or time, and once with every event counted
//! ([`platform::arch::Counted`]), which would disturb the former. Off, and whatever the mock gate gates, run with protection off as a
//! whole ([`crate::window`]), so that descriptors are the same for all.

mod areas;
mod meter;
mod spaces;

use crate::boot::Boot;
use crate::bootargs::{Gate, Time};
use crate::protection::Protection;
use crate::window::with_protection_off;
use alloc::vec::Vec;
use core::fmt;
use meter::{Clock, Meter};
use mm::addr::PAGE_SHIFT;
use mm::area::{AreaError, Areas};
use mm::frame::OutOfMemory;
use mm::space::SpaceError;
use pkeys::{Batched, MockGate, Off, PerWrite, Policy, PorGate};
use platform::arch::{Arm, Counted};
use platform::features::Features;
use platform::pmu::InstructionCounter;
use platform::timer::Timer;
use report::{Bench, Counts, Head, PorOrigin, Row, Strategy, Summary, TimeSource, UnknownName};

/// What fork and munmap work on where the boot arguments do not say: as the published benchmarks.
const DEFAULT_REGION: u64 = 1 << 30;
/// The same where each write of POR_EL1 traps, so that the whole run takes minutes; what a page costs is the same.
const DEFAULT_REGION_TRAPPED: u64 = 64 << 20;
/// Samples of each strategy where time is the host's.
const DEFAULT_SAMPLES: u32 = 10;

/// What a benchmark works with.
pub struct Env<'a> {
    memory: &'static mm::memory::Memory,
    areas: &'a Areas,
    /// Bytes that fork and munmap work on.
    region: u64,
}

/// One line of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    bench: Bench,
    pages: u32,
    huge: bool,
}

const fn case(bench: Bench, pages: u32, huge: bool) -> Case {
    Case { bench, pages, huge }
}

/// Every line, in the order of the report.
const CASES: [Case; 17] = [
    case(Bench::Fork, 1, false),
    case(Bench::Fork, 512, false),
    case(Bench::Munmap, 1, false),
    case(Bench::Munmap, 512, false),
    case(Bench::FixSize, 1, false),
    case(Bench::FixSize, 4, false),
    case(Bench::FixSize, 16, false),
    case(Bench::FixSize, 64, false),
    case(Bench::FixSize, 256, false),
    case(Bench::FixSize, 16, true),
    case(Bench::FixSize, 64, true),
    case(Bench::FixSize, 256, true),
    case(Bench::FixAlign, areas::ALIGNED_PAGES, false),
    case(Bench::FullFit, 1, false),
    case(Bench::LongBusyList, areas::BUSY_PAGES, false),
    case(Bench::RandomSize, 1, false),
    case(Bench::VmMapRam, 1, false),
];

/// Why a benchmark ended without a result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BenchError {
    /// `bench=` names one that does not exist.
    Name {
        /// What it names.
        name: &'static str,
        /// What there is.
        error: UnknownName,
    },
    /// The machine is too small for the region.
    Region {
        /// Bytes asked for.
        bytes: u64,
        /// Bytes free.
        free: u64,
    },
    /// `size=` is no whole number of 2 MiB, which folios of 512 pages need.
    Unaligned {
        /// Bytes asked for.
        bytes: u64,
    },
    /// An address space could not do what it should.
    Space(SpaceError),
    /// A kernel area could not be had.
    Area(AreaError),
    /// The machine has no generic timer.
    NoTimer,
    /// `time=icount`, but nothing here counts instructions.
    NoIcount,
}

impl BenchError {
    /// Whether other boot arguments would help.
    pub fn is_usage(&self) -> bool {
        use BenchError::{Name, NoIcount, Region, Unaligned};
        matches!(self, Name { .. } | Region { .. } | Unaligned { .. } | NoIcount)
    }
}

impl From<SpaceError> for BenchError {
    fn from(error: SpaceError) -> Self {
        BenchError::Space(error)
    }
}

impl From<OutOfMemory> for BenchError {
    fn from(error: OutOfMemory) -> Self {
        BenchError::Space(SpaceError::OutOfMemory(error))
    }
}

impl From<AreaError> for BenchError {
    fn from(error: AreaError) -> Self {
        BenchError::Area(error)
    }
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchError::Name { name, error } => write!(f, "bench={name}: {error}, or all, or none"),
            BenchError::Region { bytes, free } => {
                let (bytes, free) = (bytes >> 20, free >> 20);
                write!(
                    f,
                    "size={bytes}M needs more than the {free} MiB that are free: give a smaller size, or more memory"
                )
            }
            BenchError::Unaligned { bytes } => write!(f, "size={bytes} is not a multiple of 2M"),
            BenchError::Space(error) => error.fmt(f),
            BenchError::Area(error) => error.fmt(f),
            BenchError::NoTimer => f.write_str("the generic timer's frequency reads 0"),
            BenchError::NoIcount => f.write_str(
                "time=icount, but nothing here counts instructions: start QEMU with -icount shift=0,sleep=off, \
                 or boot with time=host",
            ),
        }
    }
}

impl core::error::Error for BenchError {}

/// Results of a run.
pub struct Results {
    /// What holds for all rows.
    pub head: Head,
    /// A row a case.
    pub rows: Vec<Row>,
}

/// A run of benchmarks, decided on.
pub struct Plan<'a> {
    env: Env<'a>,
    cases: Vec<Case>,
    clock: Clock,
    samples: u32,
    head: Head,
}

impl<'a> Plan<'a> {
    /// What the boot arguments ask for, checked.
    ///
    /// # Errors
    /// Where they name no benchmark, a size that this machine can't serve, or a time that it does not have.
    pub fn new(boot: &Boot, areas: &'a Areas) -> Result<Self, BenchError> {
        let args = &boot.args;
        let free = boot.memory.frames.stats().free() << PAGE_SHIFT;
        // Tables, the child's included, and what the pool keeps take a little over 1 % of the region; a quarter is ample.
        let most = free - free / 4;
        let default = if traps(args.gate, boot.protection) { DEFAULT_REGION_TRAPPED } else { DEFAULT_REGION };
        let default = default.min(most & !((2 << 20) - 1));
        let region = args.size.unwrap_or(default);
        if !region.is_multiple_of(2 << 20) {
            return Err(BenchError::Unaligned { bytes: region });
        }
        if region > most {
            return Err(BenchError::Region { bytes: region, free });
        }
        let timer = Timer::new().ok_or(BenchError::NoTimer)?;
        let clock = Clock::new(InstructionCounter::start(&boot.features, timer), timer);
        if args.time == Time::Icount && !clock.counts_instructions() {
            return Err(BenchError::NoIcount);
        }
        let (samples, time) = match args.time {
            Time::Icount => (args.samples.unwrap_or(1), TimeSource::Icount),
            Time::Host => (args.samples.unwrap_or(DEFAULT_SAMPLES), TimeSource::Host),
        };
        let env = Env { memory: boot.memory, areas, region };
        let head = head(args.gate, &boot.features, boot.protection, time);
        Ok(Plan { env, cases: select(args.bench)?, clock, samples, head })
    }

    /// Runs it, a progress line a case.
    ///
    /// # Errors
    /// The first benchmark that can't go on.
    pub fn run(&self) -> Result<Results, BenchError> {
        let mut rows = Vec::new();
        rows.try_reserve(self.cases.len()).map_err(|_| OutOfMemory { order: 0 })?;
        for (i, case) in self.cases.iter().enumerate() {
            crate::println!(
                "running {:2} of {}: {} p:{} h:{}",
                i + 1,
                self.cases.len(),
                case.bench,
                case.pages,
                u8::from(case.huge)
            );
            rows.push(self.row(*case)?);
        }
        Ok(Results { head: self.head, rows })
    }

    fn row(&self, case: Case) -> Result<Row, BenchError> {
        let ptes = match case.bench {
            Bench::Fork | Bench::Munmap => self.env.region >> PAGE_SHIFT,
            _ => u64::from(case.pages),
        };
        let mut row = Row::new(case.bench, case.pages, case.huge, ptes);
        // The first run of a case finds pools and tables cold, as no later one does.
        with_protection_off(|| run::<Off<Arm>>(&self.env, case, &mut Meter::new(self.clock)))?;
        with_protection_off(|| self.strategy::<Off<Arm>, Off<Counted<Arm>>>(Strategy::Off, case, &mut row))?;
        match self.head.gate {
            report::Gate::Por => {
                self.strategy::<PerWrite<PorGate<Arm>>, PerWrite<PorGate<Counted<Arm>>>>(
                    Strategy::PerWrite,
                    case,
                    &mut row,
                )?;
                self.strategy::<Batched<PorGate<Arm>>, Batched<PorGate<Counted<Arm>>>>(
                    Strategy::Batched,
                    case,
                    &mut row,
                )?;
            }
            report::Gate::Mock => with_protection_off(|| {
                self.strategy::<PerWrite<MockGate<Arm>>, PerWrite<MockGate<Counted<Arm>>>>(
                    Strategy::PerWrite,
                    case,
                    &mut row,
                )?;
                self.strategy::<Batched<MockGate<Arm>>, Batched<MockGate<Counted<Arm>>>>(
                    Strategy::Batched,
                    case,
                    &mut row,
                )
            })?,
            report::Gate::None => {
                for strategy in [Strategy::PerWrite, Strategy::Batched] {
                    self.strategy::<Off<Arm>, Off<Counted<Arm>>>(strategy, case, &mut row)?;
                }
            }
        }
        Ok(row)
    }

    /// Measures one copy: plainly, and with its events counted.
    fn strategy<P: Policy, C: Policy>(&self, strategy: Strategy, case: Case, row: &mut Row) -> Result<(), BenchError> {
        let mut samples = Vec::new();
        samples.try_reserve(self.samples as usize).map_err(|_| OutOfMemory { order: 0 })?;
        let mut plain = Meter::new(self.clock);
        for _ in 0..self.samples {
            let mut meter = Meter::new(self.clock);
            run::<P>(&self.env, case, &mut meter)?;
            samples.push(meter.nanos_per_op());
            plain.ops += meter.ops;
            plain.instructions += meter.instructions;
        }
        let mut counted = Meter::new(self.clock);
        run::<C>(&self.env, case, &mut counted)?;
        // Both passes do the same operations, so the events of one hold for each sample of the other.
        let samples_taken = u64::from(self.samples);
        row.set_counts(
            strategy,
            Counts {
                ops: plain.ops,
                instructions: if self.clock_counts() { plain.instructions } else { 0 },
                por_writes: counted.events.por_writes * samples_taken,
                isb: counted.events.isb * samples_taken,
                dsb: counted.events.dsb * samples_taken,
                tlbi: counted.events.tlbi * samples_taken,
            },
        );
        if self.head.time == TimeSource::Host
            && let Some(summary) = Summary::of(&samples)
        {
            row.set_time(strategy, summary);
        }
        Ok(())
    }

    /// Whether the instruction counter counts instructions, and not the host's time.
    fn clock_counts(&self) -> bool {
        self.head.time == TimeSource::Icount
    }
}

/// Whether the benchmarks write POR_EL1 and each write traps.
fn traps(gate: Gate, protection: Protection) -> bool {
    gate == Gate::Por && protection == Protection::Emulated
}

fn head(gate: Gate, features: &Features, protection: Protection, time: TimeSource) -> Head {
    let por = match (features.s1poe, features.s1pie) {
        (true, _) => PorOrigin::Hardware,
        (false, true) => PorOrigin::Emulated,
        (false, false) => PorOrigin::Absent,
    };
    let gate = match (gate, protection) {
        (Gate::None, _) => report::Gate::None,
        (Gate::Por, _) | (Gate::Auto, Protection::Hardware) => report::Gate::Por,
        (Gate::Mock | Gate::Auto, _) => report::Gate::Mock,
    };
    Head { gate, por, time }
}

/// The cases of the benchmarks that `names` lists: `all`, `none`, or names with commas between.
fn select(names: Option<&'static str>) -> Result<Vec<Case>, BenchError> {
    let names = names.unwrap_or("all");
    let mut cases = Vec::new();
    cases.try_reserve(CASES.len()).map_err(|_| OutOfMemory { order: 0 })?;
    match names {
        "all" => cases.extend(CASES),
        "none" => {}
        _ => {
            for name in names.split(',') {
                Bench::from_name(name).map_err(|error| BenchError::Name { name, error })?;
            }
            cases.extend(CASES.iter().filter(|case| names.split(',').any(|name| name == case.bench.name())));
        }
    }
    Ok(cases)
}

/// Runs one case once under `P`.
fn run<P: Policy>(env: &Env<'_>, case: Case, meter: &mut Meter) -> Result<(), BenchError> {
    let Case { bench, pages, huge } = case;
    match bench {
        Bench::Fork => spaces::fork::<P>(env, pages, meter),
        Bench::Munmap => spaces::munmap::<P>(env, pages, meter),
        Bench::FixSize => areas::fix_size::<P>(env, pages, huge, meter),
        Bench::FixAlign => areas::fix_align::<P>(env, meter),
        Bench::FullFit => areas::full_fit::<P>(env, meter),
        Bench::LongBusyList => areas::long_busy_list::<P>(env, meter),
        Bench::RandomSize => areas::random_size::<P>(env, meter),
        Bench::VmMapRam => areas::vm_map_ram::<P>(env, pages, meter),
    }
}
