//! What is measured: the benchmarks, and the strategies each is run under.

use core::fmt;

/// A name that no benchmark, strategy, gate or mark carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {kind} (one of: {known})")]
pub struct UnknownName {
    /// What was looked for, for example `benchmark`.
    pub kind: &'static str,
    /// The names that exist, separated by blanks.
    pub known: &'static str,
}

/// A microbenchmark. What each does is described in `docs/measuring.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bench {
    /// `fork` of a process with a populated, PTE-mapped region.
    Fork,
    /// One `munmap` of a populated, PTE-mapped region.
    Munmap,
    /// vmalloc of a fixed number of pages, one byte written, vfree.
    FixSize,
    /// As [`Bench::FixSize`], with an alignment that grows from call to call.
    FixAlign,
    /// Many live single-page areas.
    FullFit,
    /// vmalloc among many long-lived areas.
    LongBusyList,
    /// vmalloc of 1 to 100 pages, drawn from a fixed seed.
    RandomSize,
    /// vm_map_ram of pages that exist, one byte written, vm_unmap_ram.
    VmMapRam,
}

impl Bench {
    /// Every benchmark, in the order of the report.
    pub const ALL: [Self; 8] = [
        Self::Fork,
        Self::Munmap,
        Self::FixSize,
        Self::FixAlign,
        Self::FullFit,
        Self::LongBusyList,
        Self::RandomSize,
        Self::VmMapRam,
    ];

    /// Every name, separated by blanks, for messages.
    pub const NAMES: &str = "fork munmap fix_size fix_align full_fit long_busy_list random_size vm_map_ram";

    /// The name used in the table, in the JSON lines and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fork => "fork",
            Self::Munmap => "munmap",
            Self::FixSize => "fix_size",
            Self::FixAlign => "fix_align",
            Self::FullFit => "full_fit",
            Self::LongBusyList => "long_busy_list",
            Self::RandomSize => "random_size",
            Self::VmMapRam => "vm_map_ram",
        }
    }

    /// The benchmark of that name.
    ///
    /// # Errors
    /// [`UnknownName`] where no benchmark is called so.
    pub fn from_name(name: &str) -> Result<Self, UnknownName> {
        let unknown = UnknownName { kind: "benchmark", known: Self::NAMES };
        Self::ALL.into_iter().find(|bench| bench.name() == name).ok_or(unknown)
    }

    /// What the table's figures are per. JSON figures are always per whole operation.
    #[must_use]
    pub const fn unit(self) -> Unit {
        match self {
            Self::Fork | Self::Munmap => Unit::Pte,
            _ => Unit::Op,
        }
    }
}

impl fmt::Display for Bench {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The unit of a row's figures in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Per last-level entry of the region: fork and munmap.
    Pte,
    /// Per operation.
    Op,
}

impl Unit {
    /// The word that stands in the table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pte => "PTE",
            Self::Op => "op",
        }
    }
}

/// How writes to the translation tables are gated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strategy {
    /// Not at all: the baseline, compiled without a gate.
    Off,
    /// Opened and closed around every entry written.
    PerWrite,
    /// Opened and closed once for all entries of a section.
    Batched,
}

impl Strategy {
    /// How many strategies there are.
    pub const COUNT: usize = Self::ALL.len();

    /// Every strategy, in the order of the report; [`Strategy::Off`] comes first.
    pub const ALL: [Self; 3] = [Self::Off, Self::PerWrite, Self::Batched];

    /// Every name, separated by blanks, for messages.
    pub const NAMES: &str = "off per-write batched";

    /// The name used in the table, in the JSON lines and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::PerWrite => "per-write",
            Self::Batched => "batched",
        }
    }

    /// The strategy of that name.
    ///
    /// # Errors
    /// [`UnknownName`] where no strategy is called so.
    pub fn from_name(name: &str) -> Result<Self, UnknownName> {
        let unknown = UnknownName { kind: "strategy", known: Self::NAMES };
        Self::ALL.into_iter().find(|strategy| strategy.name() == name).ok_or(unknown)
    }

    /// Its place in [`Strategy::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for bench in Bench::ALL {
            assert_eq!(Bench::from_name(bench.name()), Ok(bench));
        }
        for strategy in Strategy::ALL {
            assert_eq!(Strategy::from_name(strategy.name()), Ok(strategy));
            assert_eq!(Strategy::ALL[strategy.index()], strategy);
        }
        assert!(Bench::NAMES.split(' ').eq(Bench::ALL.map(Bench::name)));
        assert!(Strategy::NAMES.split(' ').eq(Strategy::ALL.map(Strategy::name)));
    }

    #[test]
    fn an_unknown_name_says_what_exists() {
        let error = Bench::from_name("forks").unwrap_err();
        assert_eq!(std::format!("{error}"), std::format!("unknown benchmark (one of: {})", Bench::NAMES));
        assert!(Strategy::from_name("Off").is_err());
    }
}
