//! The regions of an address space: what is mapped where and how, apart from which pages are there.

use super::{Protection, SpaceError};
use crate::addr::PageRange;
use crate::frame::OutOfMemory;
use alloc::vec::Vec;

/// A range of pages with one protection. All memory is anonymous and private.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Number of the first page.
    pub start: u64,
    /// Number of the page after the last.
    pub end: u64,
    /// What EL0 may do.
    pub protection: Protection,
    /// The order of the folios that back it where alignment lets them, 0 to 9.
    pub folio_order: u32,
}

/// Disjoint regions in ascending order.
#[derive(Debug, Default)]
pub struct Regions {
    list: Vec<Region>,
}

/// The page numbers of `range`.
pub fn numbers(range: PageRange) -> (u64, u64) {
    let start = range.start().start().get() >> crate::addr::PAGE_SHIFT;
    (start, start + range.count())
}

impl Regions {
    /// The region that holds page number `page`.
    pub fn find(&self, page: u64) -> Option<Region> {
        let after = self.list.partition_point(|region| region.start <= page);
        self.list[..after].last().copied().filter(|region| page < region.end)
    }

    /// The regions that overlap pages `start` to `end`.
    pub fn overlapping(&self, start: u64, end: u64) -> &[Region] {
        let first = self.list.partition_point(|region| region.end <= start);
        let after = self.list.partition_point(|region| region.start < end);
        &self.list[first..after.max(first)]
    }

    /// Whether regions cover pages `start` to `end` without a hole; else the first page that none covers.
    pub fn covers(&self, start: u64, end: u64) -> Result<(), u64> {
        let mut at = start;
        for region in self.overlapping(start, end) {
            if region.start > at {
                break;
            }
            at = region.end;
        }
        if at >= end { Ok(()) } else { Err(at) }
    }

    /// Adds a region.
    ///
    /// # Errors
    /// Where it overlaps another, or the heap is full; nothing has changed then.
    pub fn insert(&mut self, region: Region) -> Result<(), SpaceError> {
        if let Some(other) = self.overlapping(region.start, region.end).first() {
            return Err(SpaceError::Overlap { page: other.start.max(region.start) });
        }
        self.reserve(1)?;
        let at = self.list.partition_point(|other| other.start < region.start);
        self.list.insert(at, region);
        Ok(())
    }

    /// Takes pages `start` to `end` out of all regions.
    ///
    /// # Errors
    /// Where the heap has no room for a region that falls in two; nothing has changed then.
    pub fn remove(&mut self, start: u64, end: u64) -> Result<(), OutOfMemory> {
        self.split(start, end)?;
        self.list.retain(|region| region.end <= start || region.start >= end);
        Ok(())
    }

    /// Sets the protection of pages `start` to `end`.
    ///
    /// # Errors
    /// As [`Regions::remove`].
    pub fn protect(&mut self, start: u64, end: u64, protection: Protection) -> Result<(), OutOfMemory> {
        self.split(start, end)?;
        for region in self.list.iter_mut().filter(|region| region.start >= start && region.end <= end) {
            region.protection = protection;
        }
        Ok(())
    }

    /// A copy, for a child.
    ///
    /// # Errors
    /// Where the heap is full.
    pub fn try_clone(&self) -> Result<Self, OutOfMemory> {
        let mut copy = Regions::default();
        copy.reserve(self.list.len())?;
        copy.list.extend_from_slice(&self.list);
        Ok(copy)
    }

    /// Makes region borders at `start` and `end`.
    fn split(&mut self, start: u64, end: u64) -> Result<(), OutOfMemory> {
        self.reserve(2)?;
        for border in [start, end] {
            let at = self.list.partition_point(|region| region.end <= border);
            if let Some(region) = self.list.get_mut(at)
                && region.start < border
            {
                let mut low = *region;
                low.end = border;
                region.start = border;
                self.list.insert(at, low);
            }
        }
        Ok(())
    }

    fn reserve(&mut self, more: usize) -> Result<(), OutOfMemory> {
        self.list.try_reserve(more).map_err(|_| OutOfMemory { order: 0 })
    }
}
