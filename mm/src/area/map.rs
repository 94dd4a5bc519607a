//! Making an area's entries: one section, one look-up per leaf table, one store per entry.

use super::Areas;
use super::slots::SlotId;
use crate::addr::{Frame, PAGE_SIZE, PageRange, VirtAddr};
use crate::desc::{CONTIGUOUS_PAGES, Decoded, Descriptor, ENTRIES, Level};
use crate::frame::{BLOCK_ORDER, Frames, OutOfMemory};
use crate::kernel::KernelRoot;
use crate::table::{Entry, Table};
use crate::tlb::{self, Stale};
use pkeys::section::ArchOf;
use pkeys::{KernelTables, Policy, Section, Token};

/// Pages of a level-2 block.
pub(super) const BLOCK_PAGES: u64 = 1 << BLOCK_ORDER;
/// Order of the folios that contiguous runs map: 64 KiB.
pub(super) const RUN_ORDER: u32 = CONTIGUOUS_PAGES.ilog2();

/// The frames of an area to be, as chains. Mapped in this order, each piece is aligned as it has to be.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    /// Folios of 2 MiB.
    blocks: Option<Frame>,
    block_count: u64,
    /// Folios of 64 KiB.
    runs: Option<Frame>,
    /// Single frames.
    singles: Option<Frame>,
}

impl Pieces {
    /// Allocates `pages` frames as the largest folios that fit and are free. Where it fails, what it got is still to be
    /// freed.
    pub(super) fn allocate(&mut self, frames: &Frames, pages: u64) -> Result<(), OutOfMemory> {
        (self.blocks, self.block_count) = folios(frames, BLOCK_ORDER, pages / BLOCK_PAGES);
        let left = pages - self.block_count * BLOCK_PAGES;
        let (runs, count) = folios(frames, RUN_ORDER, left / CONTIGUOUS_PAGES);
        self.runs = runs;
        self.singles = frames.alloc_chain(left - count * CONTIGUOUS_PAGES)?;
        Ok(())
    }

    /// Frees what was not mapped.
    #[cold]
    pub(super) fn free(self, frames: &Frames) {
        for chain in [self.blocks, self.runs, self.singles] {
            frames.drop_chain(chain);
        }
    }
}

/// Up to `count` folios of `order` as a chain, and how many there are. Too few is no error: smaller ones do as well.
fn folios(frames: &Frames, order: u32, count: u64) -> (Option<Frame>, u64) {
    let mut chain = None;
    for got in 0..count {
        let Ok(head) = frames.alloc_folio(order) else { return (chain, got) };
        head.meta().set_link(chain);
        chain = Some(head);
    }
    (chain, count)
}

/// Finds leaf tables, remembering the last one.
pub(super) struct Leaves {
    root: Table<KernelTables>,
    /// Number of the 2 MiB of address space that `table` maps.
    span: u64,
    table: Table<KernelTables>,
}

impl Leaves {
    /// Remembers nothing yet: no address has all bits set in its span.
    pub(super) fn new(kernel: &KernelRoot) -> Leaves {
        Leaves { root: kernel.table(), span: u64::MAX, table: kernel.table() }
    }

    fn span(va: VirtAddr) -> u64 {
        va.get() >> Level::L2.shift()
    }

    #[inline(always)]
    fn remember(&mut self, va: VirtAddr, table: Table<KernelTables>) {
        self.span = Leaves::span(va);
        self.table = table;
    }

    /// The table of `level` (2 or 3) that holds `va`'s entry, where it is there.
    #[inline(always)]
    fn walk(root: Table<KernelTables>, va: VirtAddr, level: Level) -> Option<Table<KernelTables>> {
        let table = root.next(Level::L0, va)?.next(Level::L1, va)?;
        if level == Level::L2 { Some(table) } else { table.next(Level::L2, va) }
    }

    /// The level-2 entry that maps `va` or leads to its leaf table, which exists.
    pub(super) fn block_entry(&self, va: VirtAddr) -> &'static Entry<KernelTables> {
        let table = Leaves::walk(self.root, va, Level::L2).expect("an area's tables are made before its entries");
        table.entry(Level::L2, va)
    }

    /// The entries from `va` on in its leaf table; `None` where there is no leaf table, but a block.
    #[inline(always)]
    pub(super) fn entries(&mut self, va: VirtAddr) -> Option<&'static [Entry<KernelTables>]> {
        if Leaves::span(va) != self.span {
            let table = Leaves::walk(self.root, va, Level::L3)?;
            self.remember(va, table);
        }
        Some(&self.table.entries()[Level::L3.index(va)..])
    }

    /// As [`Leaves::entries`], where the area is known to have a leaf table there.
    #[inline(always)]
    fn leaf_entries(&mut self, va: VirtAddr) -> &'static [Entry<KernelTables>] {
        self.entries(va).expect("an area's tables are made before its entries")
    }
}

/// The address `pages` pages after `va`, both of one area.
#[inline(always)]
pub(super) fn after(va: VirtAddr, pages: u64) -> VirtAddr {
    VirtAddr::new(va.get() + pages * PAGE_SIZE).expect("an area ends before its slot does")
}

impl Areas {
    /// Maps `pages` single frames, a chain, from `start` on.
    #[inline(always)]
    pub(super) fn map_chain<P: Policy>(
        &self,
        id: SlotId,
        start: VirtAddr,
        pages: u64,
        chain: Option<Frame>,
    ) -> Result<(), OutOfMemory> {
        let section = Section::<P, KernelTables>::open();
        let token = section.token();
        let mut leaves = self.leaves_for(token, id, start, pages)?;
        self.map_singles(token, &mut leaves, start, chain);
        section.end(tlb::publish::<ArchOf<P>>);
        Ok(())
    }

    /// Maps `pieces`, `pages` pages in all, from `start` on.
    #[inline(always)]
    pub(super) fn map_pieces<P: Policy>(
        &self,
        start: VirtAddr,
        pages: u64,
        pieces: &Pieces,
    ) -> Result<(), OutOfMemory> {
        let section = Section::<P, KernelTables>::open();
        let token = section.token();
        let block_pages = pieces.block_count * BLOCK_PAGES;
        let mut leaves = self.make_tables(token, start, block_pages, pages - block_pages)?;
        let mut at = start;
        if pieces.blocks.is_some() {
            at = self.map_blocks(token, &leaves, at, pieces.blocks);
        }
        if pieces.runs.is_some() {
            at = self.map_runs(token, &mut leaves, at, pieces.runs);
        }
        self.map_singles(token, &mut leaves, at, pieces.singles);
        section.end(tlb::publish::<ArchOf<P>>);
        Ok(())
    }

    /// Maps `frames` from `start` on.
    #[inline]
    pub(super) fn map_slice<P: Policy>(
        &self,
        id: SlotId,
        start: VirtAddr,
        frames: &[Frame],
    ) -> Result<(), OutOfMemory> {
        let section = Section::<P, KernelTables>::open();
        let token = section.token();
        let mut leaves = self.leaves_for(token, id, start, frames.len() as u64)?;
        let mut at = start;
        let mut left = frames;
        let bits = self.bits;
        loop {
            let entries = leaves.leaf_entries(at);
            for (entry, frame) in entries.iter().zip(left) {
                entry.set(token, Descriptor::page(*frame, bits));
            }
            if left.len() <= entries.len() {
                break;
            }
            left = &left[entries.len()..];
            at = after(at, entries.len() as u64);
        }
        section.end(tlb::publish::<ArchOf<P>>);
        Ok(())
    }

    /// The leaf tables for an area of `pages` pages in slot `id`, made where they are missing.
    #[inline(always)]
    fn leaves_for<P: Policy>(
        &self,
        token: Token<'_, P, KernelTables>,
        id: SlotId,
        start: VirtAddr,
        pages: u64,
    ) -> Result<Leaves, OutOfMemory> {
        let hint = self.slots.leaf_hint(id);
        if let Some(frame) = hint.and_then(|hint| hint.get(start)) {
            let mut leaves = Leaves::new(&self.memory.kernel);
            leaves.remember(start, Table::at(frame));
            return Ok(leaves);
        }
        let leaves = self.make_tables(token, start, 0, pages)?;
        if let Some(hint) = hint {
            hint.set(start, leaves.table.frame());
        }
        Ok(leaves)
    }

    /// Makes the tables that are missing for `block_pages` pages of blocks and then `pages` pages. What it made stays.
    #[inline(never)]
    fn make_tables<P: Policy>(
        &self,
        token: Token<'_, P, KernelTables>,
        start: VirtAddr,
        block_pages: u64,
        pages: u64,
    ) -> Result<Leaves, OutOfMemory> {
        let mut leaves = Leaves::new(&self.memory.kernel);
        for block in 0..block_pages / BLOCK_PAGES {
            self.table_at(token, after(start, block * BLOCK_PAGES), Level::L2)?;
        }
        let mut left = pages;
        let mut va = if block_pages > 0 { after(start, block_pages) } else { start };
        while left > 0 {
            let table = self.table_at(token, va, Level::L3)?;
            leaves.remember(va, table);
            let room = (ENTRIES - Level::L3.index(va)) as u64;
            if left <= room {
                break;
            }
            left -= room;
            va = after(va, room);
        }
        Ok(leaves)
    }

    #[inline(always)]
    fn table_at<P: Policy>(
        &self,
        token: Token<'_, P, KernelTables>,
        va: VirtAddr,
        level: Level,
    ) -> Result<Table<KernelTables>, OutOfMemory> {
        match Leaves::walk(self.memory.kernel.table(), va, level) {
            Some(table) => Ok(table),
            None => self.make_table(token, va, level),
        }
    }

    /// Makes the tables on the way to `va`'s entry of `level`; one CPU at a time.
    #[cold]
    #[inline(never)]
    fn make_table<P: Policy>(
        &self,
        token: Token<'_, P, KernelTables>,
        va: VirtAddr,
        level: Level,
    ) -> Result<Table<KernelTables>, OutOfMemory> {
        let _lock = self.tables.lock();
        self.memory.kernel.table_for(token, va, level, |level| self.memory.take_table(token, level))
    }

    /// Maps a chain of 2 MiB folios; returns the address after them.
    #[inline(never)]
    fn map_blocks<P: Policy>(
        &self,
        token: Token<'_, P, KernelTables>,
        leaves: &Leaves,
        start: VirtAddr,
        chain: Option<Frame>,
    ) -> VirtAddr {
        let mut at = start;
        let mut next = chain;
        while let Some(head) = next {
            next = head.meta().link();
            let entry = leaves.block_entry(at);
            if let Decoded::Table(frame) = entry.get().decode(Level::L2) {
                self.remove_leaf_table(token, entry, Table::at(frame), at);
            }
            entry.set(token, Descriptor::leaf(head, self.bits, Level::L2));
            at = after(at, BLOCK_PAGES);
        }
        at
    }

    /// Takes away the empty leaf table that an earlier area of the slot left where a block is to stand. It is this slot's
    /// alone, as a slot with room for blocks is a multiple of 2 MiB. Walkers may have cached the way to it, so it is
    /// flushed before the entry is used again and the table goes back (break-before-make, Arm ARM D8.16.1).
    #[cold]
    fn remove_leaf_table<P: Policy>(
        &self,
        token: Token<'_, P, KernelTables>,
        entry: &Entry<KernelTables>,
        table: Table<KernelTables>,
        va: VirtAddr,
    ) {
        entry.set(token, Descriptor::ABSENT);
        let page = PageRange::new(crate::addr::Page::containing(va), 1).expect("one page always fits");
        let _ = tlb::flush::<ArchOf<P>>(Stale::Kernel(page));
        self.memory.put_table(token, table);
    }

    /// Maps a chain of 64 KiB folios as contiguous runs; returns the address after them.
    #[inline(never)]
    fn map_runs<P: Policy>(
        &self,
        token: Token<'_, P, KernelTables>,
        leaves: &mut Leaves,
        start: VirtAddr,
        chain: Option<Frame>,
    ) -> VirtAddr {
        let bits = self.bits.contiguous();
        let mut at = start;
        let mut next = chain;
        while let Some(head) = next {
            next = head.meta().link();
            let entries = &leaves.leaf_entries(at)[..CONTIGUOUS_PAGES as usize];
            for (number, entry) in (head.number()..).zip(entries) {
                entry.set(token, Descriptor::page(Frame::from_number(number), bits));
            }
            at = after(at, CONTIGUOUS_PAGES);
        }
        at
    }

    /// Maps a chain of single frames.
    #[inline(always)]
    fn map_singles<P: Policy>(
        &self,
        token: Token<'_, P, KernelTables>,
        leaves: &mut Leaves,
        start: VirtAddr,
        chain: Option<Frame>,
    ) {
        let mut at = start;
        let mut next = chain;
        let bits = self.bits;
        while next.is_some() {
            let entries = leaves.leaf_entries(at);
            for entry in entries {
                let Some(frame) = next else { return };
                next = frame.meta().link();
                entry.set(token, Descriptor::page(frame, bits));
            }
            at = after(at, entries.len() as u64);
        }
    }
}
