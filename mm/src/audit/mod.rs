//! The auditor: whether the invariants I1 and I5 hold, and whether the tables are what the books say.
//!
//! It walks the kernel's root, every user root and all of RAM's metadata, and reports each violation with its facts. It only
//! reads, allocates nothing and waits for no lock, so that it can be called from a panic as well as from a test. Nothing may change
//! meanwhile for its word to be exact: an operation that another CPU is in the middle of looks like a violation.
//!
//! | file | holds |
//! |---|---|
//! | `violation` | what can be found |
//! | `walk` | reading tables without trusting them |
//! | `alias` | executable by one leaf, writable by another |
//! | `ram` | the pass over RAM |
//!
//! # What it takes
//! - Linear in tables, leaves and frames of RAM: metadata is counted once and checked once, leaves are read twice, the tables above
//!   the last level once more for each 32 MiB of RAM that hold a table.
//! - A leaf outside the linear map costs the frames that it covers; the linear map's are checked in the pass over RAM.
//! - Beyond 16 runs of executable frames, the leaves are read twice more for each 16.
//! - Broken tables cost no more: no more tables are read than there are. Where a table stands in several places, those below it may be
//!   reported as well.
//! - A few KiB of stack.
//!
//! # What it does not check
//! EL1 may write through the linear map what EL0 may execute: user text gets there that way. What a TLB still holds is
//! not to be seen from here, and neither is which root the CPU uses: compare TTBR1_EL1 with [`crate::kernel::KernelRoot::table`].

mod alias;
mod ram;
#[cfg(test)]
mod tests;
mod violation;
mod walk;

pub use violation::{Mapping, Owner, Place, Violation};

use crate::addr::{Frame, FrameRange};
use crate::frame::Kind;
use crate::memory::Memory;
use crate::pool::BLOCK_FRAMES;
use crate::table::Table;
use alias::{Compare, Gather, Runs};
use core::ops::Range;
use pkeys::{Pkey, UserTables};
use walk::{Find, View, Visit, Walked, walk};

/// The kernel areas' part of the address space (docs/architecture.md).
const AREAS: Range<u64> = 0xffff_8000_0000_0000..0xffff_c000_0000_0000;

/// What to audit.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a, S> {
    /// The machine's memory.
    pub memory: &'a Memory,
    /// All of RAM, each frame once: exactly the frames that have metadata to be looked at.
    pub ram: &'a [FrameRange],
    /// The roots of all user spaces, each once.
    pub spaces: S,
}

/// What an audit went through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Violations reported.
    pub violations: u64,
    /// Tables that roots lead to, the roots among them.
    pub tables: u64,
    /// Leaves.
    pub leaves: u64,
    /// Frames of RAM.
    pub frames: u64,
    /// Entries read and frames looked at: the audit's cost.
    pub steps: u64,
    /// Whether the pool's own counts were compared too: not where its lock is held.
    pub pool_counted: bool,
    /// Whether a walk ended early because there were more tables to read than there are: some table is shared, and reported so.
    pub truncated: bool,
}

impl<'a, S: Iterator<Item = Table<UserTables>> + Clone> Scope<'a, S> {
    /// Checks everything and hands each violation to `report`.
    pub fn audit(&self, report: &mut dyn FnMut(Violation)) -> Summary {
        let mut violations = 0;
        let mut counting = |violation| {
            violations += 1;
            report(violation);
        };
        let tables = ram::count_tables(self.ram);
        let mut summary = self.check_entries(tables, &mut counting);
        let totals = ram::pass(self, tables, &mut counting);
        summary.pool_counted = self.check_counts(&totals, &mut counting);
        summary.frames = self.ram.iter().map(FrameRange::count).sum();
        summary.steps += summary.frames + totals.walked.steps;
        summary.truncated |= totals.walked.truncated;
        Summary { violations, ..summary }
    }

    /// Which table `frame` is: whose, at which level, for which addresses. `None` where no root leads to it.
    pub fn locate(&self, frame: Frame) -> Option<Place> {
        let mut find = Find { frame, found: None };
        walk(self, ram::count_tables(self.ram), &mut find);
        find.found
    }

    fn view(&self) -> View<'a> {
        View { memory: self.memory, ram: self.ram, format: self.memory.kernel.format() }
    }

    /// Every table and every leaf, each for itself, and then the writable leaves against the executable ones.
    fn check_entries(&self, tables: u64, report: &mut dyn FnMut(Violation)) -> Summary {
        let format = self.view().format;
        let mut checks = Checks::new(self.view(), &mut *report);
        let mut walked = walk(self, tables, &mut checks);
        let Checks { mut runs, tables: reached, leaves, covered, .. } = checks;
        while !runs.is_empty() {
            let mut compare = Compare { format, runs, report: &mut *report };
            walked += walk(self, tables, &mut compare);
            let Some(skip) = compare.runs.more() else { break };
            let mut gather = Gather { format, runs: Runs::after(skip) };
            walked += walk(self, tables, &mut gather);
            runs = gather.runs;
        }
        let Walked { steps, truncated } = walked;
        Summary { tables: reached, leaves, steps: steps + covered, truncated, ..Summary::default() }
    }

    /// The pool's counts against the metadata's; whether they could be compared.
    fn check_counts(&self, totals: &ram::Totals, report: &mut dyn FnMut(Violation)) -> bool {
        let usage = Pkey::GATED.map(|key| self.memory.pool.try_usage(key));
        let [Some(user), Some(kernel)] = usage else { return false };
        let tables = user.tables + kernel.tables;
        let frames = u64::from(user.blocks + kernel.blocks) * BLOCK_FRAMES;
        if (tables, frames) != (totals.tables, totals.pool) {
            report(Violation::PoolCount { tables, found: totals.tables, frames, found_frames: totals.pool });
        }
        true
    }
}

/// The rules for single tables and leaves.
struct Checks<'a, 'r> {
    view: View<'a>,
    runs: Runs,
    tables: u64,
    leaves: u64,
    /// Frames that leaves outside the linear map cover.
    covered: u64,
    report: &'r mut dyn FnMut(Violation),
}

impl<'a, 'r> Checks<'a, 'r> {
    fn new(view: View<'a>, report: &'r mut dyn FnMut(Violation)) -> Self {
        Checks { view, runs: Runs::after(0), tables: 0, leaves: 0, covered: 0, report }
    }
}

impl Visit for Checks<'_, '_> {
    const LEAVES: bool = true;

    fn table(&mut self, frame: Frame, place: Place) -> bool {
        self.tables += 1;
        let expected = place.owner.key();
        let (leaf, _) = self.view.linear(frame);
        if leaf.and_then(|leaf| self.view.key(leaf.descriptor)) != Some(expected) {
            (self.report)(Violation::Unkeyed { frame, place, expected, leaf });
        }
        true
    }

    fn read(&mut self, frame: Frame, place: Place, valid: u32) {
        let counted = match place.owner {
            Owner::Kernel => return,
            Owner::User { .. } => frame.meta().live(),
            Owner::Empty => 0,
        };
        if counted != valid {
            (self.report)(Violation::Live { frame, place, counted, valid });
        }
    }

    fn leaf(&mut self, leaf: Mapping) {
        self.leaves += 1;
        let access = leaf.descriptor.access(self.view.format);
        if alias::writes(access) && alias::executes(access) {
            (self.report)(Violation::WriteExecute { leaf });
        }
        if alias::executes(access) {
            self.runs.add(leaf, access);
        }
        if self.view.key(leaf.descriptor).is_none() {
            (self.report)(Violation::BadKey { leaf });
        }
        if leaf.is_linear() { self.linear_leaf(leaf) } else { self.other_leaf(leaf) }
    }

    fn retired(&mut self, entry: Mapping) {
        (self.report)(Violation::Retired { entry });
    }

    fn refused(&mut self, why: Violation) {
        (self.report)(why);
    }
}

impl Checks<'_, '_> {
    /// A leaf of the linear map: what it covers of RAM is checked in the pass over RAM; it may cover no more with a key.
    fn linear_leaf(&mut self, leaf: Mapping) {
        if !ram::is_gated(self.view, leaf) {
            return;
        }
        let mut outside = leaf.frames().iter().filter(|frame| !self.view.is_ram(*frame));
        if let Some(frame) = outside.next() {
            let frames = 1 + outside.count() as u64;
            (self.report)(Violation::StrayKey { leaf, frame, kind: Kind::Absent, frames });
        }
    }

    /// A leaf anywhere else: it maps no table, and where it belongs to a space or a kernel area nothing but data.
    fn other_leaf(&mut self, leaf: Mapping) {
        let frames = leaf.frames();
        self.covered += frames.count();
        let find = |wanted: fn(Kind) -> bool| {
            frames.iter().map(|frame| (frame, self.view.kind(frame))).find(|(_, kind)| wanted(*kind))
        };
        let for_data = leaf.owner != Owner::Kernel || AREAS.contains(&leaf.va.get());
        if let Some((frame, kind)) = find(is_pool) {
            (self.report)(Violation::Alias { leaf, frame, kind });
        } else if ram::is_gated(self.view, leaf) {
            let (frame, frames) = (frames.start(), frames.count());
            (self.report)(Violation::StrayKey { leaf, frame, kind: self.view.kind(frame), frames });
        } else if let Some((frame, kind)) = find(if for_data { is_no_data } else { is_free }) {
            (self.report)(Violation::Unowned { leaf, frame, kind });
        }
    }
}

fn is_pool(kind: Kind) -> bool {
    matches!(kind, Kind::Table | Kind::Pool)
}

fn is_free(kind: Kind) -> bool {
    matches!(kind, Kind::Free | Kind::Held)
}

fn is_no_data(kind: Kind) -> bool {
    !matches!(kind, Kind::Data | Kind::FolioHead | Kind::FolioTail)
}
