//! A child that shares every page, copy-on-write.

use super::{AddressSpace, SpaceError};
use crate::addr::Frame;
use crate::desc::{Descriptor, Level};
use crate::frame::OutOfMemory;
use crate::memory::Memory;
use crate::table::Table;
use crate::tlb::{self, Stale};
use pkeys::section::ArchOf;
use pkeys::{Policy, Section, Token, UserTables};

impl<P: Policy> AddressSpace<P> {
    /// A copy of the space. Writable pages become write-protected in both; who writes first gets a copy.
    ///
    /// # Errors
    /// Out of memory; the child is gone then, and the parent's pages are its own again (its next writes fault once).
    pub fn fork(&mut self) -> Result<AddressSpace<P>, SpaceError> {
        let regions = self.regions.try_clone()?;
        let section = Section::<P, UserTables>::open();
        let token = section.token();
        let mut protected = false;
        let child = Self::new_in(token, self.memory).map(|mut child| {
            child.regions = regions;
            let copied = copy_table(token, self.memory, self.root, child.root, Level::L0, &mut protected);
            (child, copied)
        });
        let stale = if protected { self.stale_space() } else { Stale::Nothing };
        section.end(|| tlb::flush::<ArchOf<P>>(stale));
        let (child, copied) = child?;
        copied?;
        Ok(child)
    }
}

/// Copies what lies below `from` to `to`, an empty table of the same level. On an error `to` holds what was copied so far, with
/// every count right.
fn copy_table<P: Policy>(
    token: Token<'_, P, UserTables>,
    memory: &Memory,
    from: Table<UserTables>,
    to: Table<UserTables>,
    level: Level,
    protected: &mut bool,
) -> Result<(), OutOfMemory> {
    let Some(below) = level.below() else {
        copy_leaves(token, from, to, protected);
        return Ok(());
    };
    let mut left = from.frame().meta().live();
    for (source, target) in from.entries().iter().zip(to.entries()) {
        if left == 0 {
            break;
        }
        let descriptor = source.get();
        if !descriptor.is_valid() {
            continue;
        }
        left -= 1;
        let table = memory.take_table(token, below)?;
        target.set(token, Descriptor::table(table.frame()));
        to.frame().meta().add_live(1);
        copy_table(token, memory, Table::at(descriptor.frame()), table, below, protected)?;
    }
    Ok(())
}

/// Copies a last-level table, write-protecting on both sides. References are taken a run of one folio at a time.
fn copy_leaves<P: Policy>(
    token: Token<'_, P, UserTables>,
    from: Table<UserTables>,
    to: Table<UserTables>,
    protected: &mut bool,
) {
    let live = from.frame().meta().live();
    let mut left = live;
    let mut run = Run::NONE;
    for (source, target) in from.entries().iter().zip(to.entries()) {
        let descriptor = source.get();
        if !descriptor.is_valid() {
            if left == 0 {
                break;
            }
            continue;
        }
        left -= 1;
        let shared = descriptor.write_protected();
        if shared != descriptor {
            source.set(token, shared);
            *protected = true;
        }
        target.set(token, shared);
        run.add(descriptor.frame(), |folio, pages| folio.meta().get_n(pages));
    }
    run.end(|folio, pages| folio.meta().get_n(pages));
    to.frame().meta().set_live(live);
}

/// Successive pages of one folio, counted so that its references change once.
pub(super) struct Run {
    /// The folio's first frame.
    start: u64,
    /// Its frames; 0 where there is no run.
    size: u64,
    pages: u32,
}

impl Run {
    /// No run yet.
    pub(super) const NONE: Run = Run { start: 0, size: 0, pages: 0 };

    /// Counts `frame` in, after handing the run so far to `done` where `frame` is of another folio.
    #[inline(always)]
    pub(super) fn add(&mut self, frame: Frame, done: impl FnOnce(Frame, u32)) {
        if frame.number().wrapping_sub(self.start) < self.size {
            self.pages += 1;
            return;
        }
        let order = frame.meta().order();
        if order == 0 {
            return done(frame, 1);
        }
        self.flush(done);
        self.size = 1 << order;
        self.start = frame.number() & !(self.size - 1);
        self.pages = 1;
    }

    /// Hands the last run to `done`.
    #[inline(always)]
    pub(super) fn end(mut self, done: impl FnOnce(Frame, u32)) {
        self.flush(done);
    }

    fn flush(&mut self, done: impl FnOnce(Frame, u32)) {
        if self.pages > 0 {
            done(Frame::from_number(self.start), core::mem::take(&mut self.pages));
        }
    }
}
