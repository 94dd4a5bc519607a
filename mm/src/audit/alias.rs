//! Frames that are executable by one leaf and writable by another (I5).
//!
//! Executable leaves are few, and their frames mostly lie in a row: they are gathered as [`CAPACITY`] runs at a time, and every
//! leaf is held against those. So the leaves are walked once for each [`CAPACITY`] runs that there are.

use super::violation::{Mapping, Violation};
use super::walk::Visit;
use crate::addr::Frame;
use crate::desc::{Access, Format};

/// Runs of executable frames that one walk compares with.
pub(super) const CAPACITY: usize = 16;

/// Executable frames in a row.
#[derive(Clone, Copy)]
struct Run {
    /// The leaf of the first.
    text: Mapping,
    start: u64,
    /// The first after the run.
    end: u64,
    /// Whether EL1 may execute them; else EL0 alone may.
    kernel: bool,
}

/// Some of the runs of executable frames, in the order of the walk.
pub(super) struct Runs {
    runs: [Option<Run>; CAPACITY],
    /// Runs to leave out: those that were compared with before.
    skip: u64,
    /// Runs so far.
    seen: u64,
    /// End and privilege of the last run, kept or not.
    last: (u64, bool),
}

impl Runs {
    /// Gathers runs after the first `skip`.
    pub(super) const fn after(skip: u64) -> Self {
        Runs { runs: [None; CAPACITY], skip, seen: 0, last: (0, false) }
    }

    /// Takes an executable leaf in.
    pub(super) fn add(&mut self, leaf: Mapping, access: Access) {
        let frames = leaf.frames();
        let (start, end, kernel) = (frames.start().number(), frames.end_number(), access.el1_execute);
        let extends = self.seen > 0 && self.last == (start, kernel);
        self.last = (end, kernel);
        self.seen += u64::from(!extends);
        let Some(slot) = self.seen.checked_sub(self.skip + 1).and_then(|at| self.runs.get_mut(at as usize)) else {
            return;
        };
        match slot {
            Some(run) if extends => run.end = end,
            _ => *slot = Some(Run { text: leaf, start, end, kernel }),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs[0].is_none()
    }

    /// How many runs to skip for those that had no room; `None` where all had.
    pub(super) fn more(&self) -> Option<u64> {
        let next = self.skip + CAPACITY as u64;
        (self.seen > next).then_some(next)
    }
}

pub(super) fn writes(access: Access) -> bool {
    access.el1_write || access.el0_write
}

pub(super) fn executes(access: Access) -> bool {
    access.el1_execute || access.el0_execute
}

/// Gathers runs in a walk of its own.
pub(super) struct Gather {
    pub(super) format: Format,
    pub(super) runs: Runs,
}

impl Visit for Gather {
    const LEAVES: bool = true;

    fn leaf(&mut self, leaf: Mapping) {
        let access = leaf.descriptor.access(self.format);
        if executes(access) {
            self.runs.add(leaf, access);
        }
    }
}

/// Holds every leaf against the runs.
pub(super) struct Compare<'r> {
    pub(super) format: Format,
    pub(super) runs: Runs,
    pub(super) report: &'r mut dyn FnMut(Violation),
}

impl Visit for Compare<'_> {
    const LEAVES: bool = true;

    fn leaf(&mut self, leaf: Mapping) {
        let access = leaf.descriptor.access(self.format);
        // A leaf that is both breaks the rule by itself, and has been reported.
        if !writes(access) || executes(access) {
            return;
        }
        let frames = leaf.frames();
        for run in self.runs.runs.iter().map_while(Option::as_ref) {
            let first = run.start.max(frames.start().number());
            // The linear map lets EL1 write what EL0 executes: that is how it gets there.
            let forbidden = run.kernel || access.el0_write;
            if forbidden && first < run.end.min(frames.end_number()) {
                let frame = Frame::from_number(first);
                (self.report)(Violation::WritableText { frame, text: run.text, leaf });
            }
        }
    }
}
