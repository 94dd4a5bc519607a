//! Pages for a whole range at once.

use super::region::Region;
use super::{AddressSpace, SpaceError, index, user_range};
use crate::addr::{Frame, PageRange};
use crate::desc::{Descriptor, ENTRIES, LeafBits, Level};
use crate::frame::OutOfMemory;
use crate::linear;
use crate::table::Table;
use crate::tlb;
use pkeys::section::ArchOf;
use pkeys::{Policy, Section, Token, UserTables};
use platform::arch::Arch;

impl<P: Policy> AddressSpace<P> {
    /// Backs every page of `range` that has none with zeroed memory.
    ///
    /// # Errors
    /// Where regions do not cover the range (nothing has changed), or memory runs out (the pages so far stay).
    pub fn populate(&mut self, range: PageRange) -> Result<(), SpaceError> {
        let (start, end) = user_range(range)?;
        self.regions.covers(start, end).map_err(|page| SpaceError::Unmapped { page })?;
        let section = Section::<P, UserTables>::open();
        let result = self.fill_range(section.token(), start, end);
        section.end(tlb::publish::<ArchOf<P>>);
        Ok(result?)
    }

    fn fill_range(&self, token: Token<'_, P, UserTables>, start: u64, end: u64) -> Result<(), OutOfMemory> {
        for region in self.regions.overlapping(start, end) {
            let bits = self.leaf_bits(region.protection);
            let (mut page, end) = (region.start.max(start), region.end.min(end));
            while page < end {
                let table = self.leaf_table_or_new(token, page)?;
                let next = table_end(page).min(end);
                while page < next {
                    page += self.fill(token, table, region, page, bits)?;
                }
            }
        }
        Ok(())
    }

    /// Backs `page`, and the folio around it where the region has folios and this one is all unbacked. Returns how many pages
    /// from `page` on are backed now.
    #[inline(always)]
    pub(super) fn fill(
        &self,
        token: Token<'_, P, UserTables>,
        table: Table<UserTables>,
        region: &Region,
        page: u64,
        bits: LeafBits,
    ) -> Result<u64, OutOfMemory> {
        let entry = &table.entries()[index(Level::L3, page)];
        if !entry.get().is_absent() {
            return Ok(1);
        }
        if region.folio_order > 0
            && let Some((first, frame)) = self.folio_for(table, region, page)
        {
            let pages = 1 << region.folio_order;
            map_folio(token, table, first, frame, pages, bits);
            return Ok(first + pages - page);
        }
        let frame = self.memory.frames.alloc()?;
        zero::<ArchOf<P>>(frame);
        entry.set(token, Descriptor::page(frame, bits));
        table.frame().meta().add_live(1);
        Ok(1)
    }

    /// A zeroed folio for the aligned run of pages around `page`, with its first page; `None` where the run is not all within the
    /// region, is backed in part, or no folio of that order is free.
    fn folio_for(&self, table: Table<UserTables>, region: &Region, page: u64) -> Option<(u64, Frame)> {
        let pages = 1 << region.folio_order;
        let first = page & !(pages - 1);
        if first < region.start || first + pages > region.end {
            return None;
        }
        let at = index(Level::L3, first);
        let run = &table.entries()[at..at + pages as usize];
        if !run.iter().all(|entry| entry.get().is_absent()) {
            return None;
        }
        let folio = self.memory.frames.alloc_folio(region.folio_order).ok()?;
        for i in 0..pages {
            zero::<ArchOf<P>>(Frame::from_number(folio.number() + i));
        }
        Some((first, folio))
    }
}

/// Maps a folio's pages one by one, from page `first` on; each takes a reference, of which the folio has one already.
fn map_folio<P: Policy>(
    token: Token<'_, P, UserTables>,
    table: Table<UserTables>,
    first: u64,
    folio: Frame,
    pages: u64,
    bits: LeafBits,
) {
    folio.meta().get_n(pages as u32 - 1);
    let at = index(Level::L3, first);
    for (i, entry) in table.entries()[at..at + pages as usize].iter().enumerate() {
        entry.set(token, Descriptor::page(Frame::from_number(folio.number() + i as u64), bits));
    }
    table.frame().meta().add_live(pages as u32);
}

/// The page after the last that shares `page`'s last-level table.
pub(super) const fn table_end(page: u64) -> u64 {
    (page | (ENTRIES as u64 - 1)) + 1
}

/// Zeroes a frame just allocated.
#[inline(always)]
pub(super) fn zero<A: Arch>(frame: Frame) {
    // SAFETY: the frame was allocated by the caller and is mapped nowhere but in the linear map, where data frames are
    // writable; a frame's start is 4 KiB-aligned.
    unsafe { A::zero_page(linear::ptr(frame.start())) };
}
