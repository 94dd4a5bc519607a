//! Taking a range away, in two passes around one TLB invalidation.
//!
//! The first pass makes the range unreachable: a last-level entry at the range's edges is retired (invalid, but still
//! naming its page), a table that lies in the range as a whole, or holds nothing else, is unhooked by one store. Then the TLBs forget the range.
//! The second pass reads the retired entries and the unhooked tables, empties them, drops the pages' references and puts the
//! tables back. So nothing is freed before its last TLB entry is gone (I6), no list of pages needs memory, and a table of
//! 512 pages costs one store and no barrier of its own.

use super::fork::Run;
use super::populate::table_end;
use super::{AddressSpace, SpaceError, index, user_range};
use crate::addr::{Frame, PageRange};
use crate::desc::{Descriptor, ENTRIES, Level};
use crate::frame::Frames;
use crate::table::{Entry, Table};
use crate::tlb::{self, Stale};
use core::ops::Range;
use pkeys::section::ArchOf;
use pkeys::{Policy, Section, Token, UserTables};
use platform::arch::Arch;

impl<P: Policy> AddressSpace<P> {
    /// Takes all that is mapped in `range` away. Pages without a region do no harm, as in munmap(2).
    ///
    /// # Errors
    /// Where the range is no user range, or the heap has no room for a region that falls in two. Nothing has changed then.
    pub fn unmap(&mut self, range: PageRange) -> Result<(), SpaceError> {
        let (start, end) = user_range(range)?;
        self.regions.remove(start, end)?;
        self.discard(start, end, self.stale(range));
        Ok(())
    }

    /// Takes everything away, and the root with it. Only for dropping the space.
    pub(super) fn end(&mut self) {
        let section = Section::<P, UserTables>::open();
        let mut unhooked = Chain::default();
        unhooked.push(self.root);
        tlb::shoot_down::<ArchOf<P>>(self.stale_space());
        self.reap(section.token(), unhooked);
        section.end(ArchOf::<P>::isb);
    }

    fn discard(&mut self, start: u64, end: u64, stale: Stale) {
        let section = Section::<P, UserTables>::open();
        let token = section.token();
        let mut unhooked = Chain::default();
        detach(token, self.root, Level::L0, start..end, &mut unhooked);
        tlb::shoot_down::<ArchOf<P>>(stale);
        self.reap_edges(token, start, end);
        self.reap(token, unhooked);
        section.end(ArchOf::<P>::isb);
    }

    /// Second pass over the last-level tables that the range covers in part: those of its first and its last page.
    fn reap_edges(&self, token: Token<'_, P, UserTables>, start: u64, end: u64) {
        let first_end = table_end(start).min(end);
        let last_start = ((end - 1) & !(ENTRIES as u64 - 1)).max(first_end);
        for (from, to) in [(start, first_end), (last_start, end)] {
            if from < to
                && let Some(table) = self.leaf_table(from)
            {
                let at = index(Level::L3, from);
                reap_leaves(token, self.memory.frames, &table.entries()[at..at + (to - from) as usize]);
            }
        }
    }

    /// Second pass over the tables that were unhooked, and all below them.
    fn reap(&self, token: Token<'_, P, UserTables>, mut unhooked: Chain) {
        while let Some(table) = unhooked.pop() {
            if table.frame().meta().tag() == Level::L3 as u16 {
                reap_leaves(token, self.memory.frames, table.entries());
            } else {
                unhook_all(token, table, &mut unhooked);
            }
            self.memory.put_table(token, table);
        }
    }
}

/// First pass: makes pages `range` below `table` unreachable.
fn detach<P: Policy>(
    token: Token<'_, P, UserTables>,
    table: Table<UserTables>,
    level: Level,
    range: Range<u64>,
    unhooked: &mut Chain,
) {
    let span = level.pages();
    let mut gone = 0;
    let mut page = range.start;
    while page < range.end {
        let next = ((page | (span - 1)) + 1).min(range.end);
        let entry = &table.entries()[index(level, page)];
        let descriptor = entry.get();
        if descriptor.is_valid() {
            let whole = next - page == span;
            gone += u32::from(detach_entry(token, entry, level, page..next, whole, unhooked));
        }
        page = next;
    }
    table.frame().meta().sub_live(gone);
}

/// First pass over one valid entry, of which pages `range` are to go; whether it is invalid now.
fn detach_entry<P: Policy>(
    token: Token<'_, P, UserTables>,
    entry: &Entry<UserTables>,
    level: Level,
    range: Range<u64>,
    whole: bool,
    unhooked: &mut Chain,
) -> bool {
    let descriptor = entry.get();
    let Some(below) = level.below() else {
        entry.set(token, descriptor.retired());
        return true;
    };
    let table = Table::at(descriptor.frame());
    let whole = whole || holds_nothing_else(table, below, &range);
    if !whole {
        detach(token, table, below, range, unhooked);
    }
    let unhook = whole || table.frame().meta().live() == 0;
    if unhook {
        entry.set(token, Descriptor::ABSENT);
        unhooked.push(table);
    }
    unhook
}

/// Whether a last-level table has entries for pages `range` alone, so that it can go as a whole: half the stores.
fn holds_nothing_else(table: Table<UserTables>, level: Level, range: &Range<u64>) -> bool {
    let live = table.frame().meta().live() as usize;
    let pages = (range.end - range.start) as usize;
    if level != Level::L3 || live > pages {
        return false;
    }
    let at = index(level, range.start);
    table.entries()[at..at + pages].iter().filter(|entry| entry.get().is_valid()).count() == live
}

/// Second pass over a table of tables: empties it. What it leads to is unhooked as well.
fn unhook_all<P: Policy>(token: Token<'_, P, UserTables>, table: Table<UserTables>, unhooked: &mut Chain) {
    // The first pass leaves many of them empty, and few are full.
    let mut left = table.frame().meta().live();
    let mut entries = table.entries().iter();
    while left > 0
        && let Some(entry) = entries.next()
    {
        let descriptor = entry.get();
        if descriptor.is_valid() {
            entry.set(token, Descriptor::ABSENT);
            unhooked.push(Table::at(descriptor.frame()));
            left -= 1;
        }
    }
}

/// Second pass over last-level entries: empties them and drops the references of what they named.
fn reap_leaves<P: Policy>(token: Token<'_, P, UserTables>, frames: &Frames, entries: &[Entry<UserTables>]) {
    let mut run = Run::NONE;
    let mut free = None;
    for entry in entries {
        let descriptor = entry.get();
        if descriptor.is_absent() {
            continue;
        }
        entry.set(token, Descriptor::ABSENT);
        run.add(descriptor.frame(), |folio, pages| drop_references(folio, pages, &mut free));
    }
    run.end(|folio, pages| drop_references(folio, pages, &mut free));
    frames.free_chain(free);
}

/// Drops `pages` references of a folio; puts it on the chain `free` where they were the last.
#[inline(always)]
fn drop_references(folio: Frame, pages: u32, free: &mut Option<Frame>) {
    let meta = folio.meta();
    if meta.put_n(pages) {
        meta.set_link(free.replace(folio));
    }
}

/// Tables that nothing leads to any more, linked through their frames' metadata.
#[derive(Default)]
struct Chain {
    first: Option<Frame>,
}

impl Chain {
    fn push(&mut self, table: Table<UserTables>) {
        table.frame().meta().set_link(self.first.replace(table.frame()));
    }

    fn pop(&mut self) -> Option<Table<UserTables>> {
        let frame = self.first?;
        self.first = frame.meta().link();
        Some(Table::at(frame))
    }
}
