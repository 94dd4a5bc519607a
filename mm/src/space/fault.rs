//! One page: the first touch, and the first write to a page that may be shared.

use super::populate::table_end;
use super::region::Region;
use super::{AddressSpace, Protection, SpaceError, index};
use crate::addr::{Frame, PAGE_SHIFT, Page, PageRange, VirtAddr};
use crate::desc::{Descriptor, ENTRIES, Level};
use crate::frame::OutOfMemory;
use crate::linear;
use crate::table::{Entry, Table};
use crate::tlb;
use pkeys::section::ArchOf;
use pkeys::{Policy, Section, Token, UserTables};
use platform::arch::Arch;

/// What was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A read.
    Read,
    /// A write.
    Write,
    /// An instruction fetch.
    Execute,
}

/// How a fault was resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// A zeroed page appeared (with its folio's others).
    Filled,
    /// The page was shared: the space has a copy of its own now.
    Copied,
    /// The page had been shared, but is the space's own by now: it became writable again.
    Reused,
    /// The entry permits the access already: another CPU resolved it, or a TLB was behind.
    Spurious,
}

impl<P: Policy> AddressSpace<P> {
    /// Resolves a fault at `va`.
    ///
    /// # Errors
    /// Where no region holds the page, the region does not permit the access, or memory is out. Nothing has changed then.
    pub fn fault(&mut self, va: VirtAddr, access: Access) -> Result<Resolved, SpaceError> {
        let page = va.get() >> PAGE_SHIFT;
        let region = self.regions.find(page).ok_or(SpaceError::Unmapped { page })?;
        if !permits(region.protection, access) {
            return Err(SpaceError::Denied { page });
        }
        let section = Section::<P, UserTables>::open();
        let token = section.token();
        let result = match self.leaf_table_or_new(token, page) {
            Ok(table) => self.resolve(token, table, &region, page, access),
            Err(error) => Err(error),
        };
        let stale = match result {
            Ok(Resolved::Reused | Resolved::Spurious) => self.stale(one(page)),
            _ => tlb::Stale::Nothing,
        };
        section.end(|| tlb::flush::<ArchOf<P>>(stale));
        Ok(result?)
    }

    fn resolve(
        &self,
        token: Token<'_, P, UserTables>,
        table: Table<UserTables>,
        region: &Region,
        page: u64,
        access: Access,
    ) -> Result<Resolved, OutOfMemory> {
        let entry = &table.entries()[index(Level::L3, page)];
        let descriptor = entry.get();
        if descriptor.is_absent() {
            self.fill(token, table, region, page, self.leaf_bits(region.protection))?;
            return Ok(Resolved::Filled);
        }
        if access != Access::Write || !descriptor.is_write_protected() {
            return Ok(Resolved::Spurious);
        }
        if is_exclusive(table, descriptor) {
            write_enable(token, table, region, page, descriptor);
            return Ok(Resolved::Reused);
        }
        self.copy(token, entry, descriptor, page)?;
        Ok(Resolved::Copied)
    }

    /// Replaces a shared page by a copy: break (invalidate, and wait until no TLB holds the old page), then make.
    fn copy(
        &self,
        token: Token<'_, P, UserTables>,
        entry: &Entry<UserTables>,
        old: Descriptor,
        page: u64,
    ) -> Result<(), OutOfMemory> {
        let new = self.memory.frames.alloc()?;
        let (from, to) = (linear::ptr(old.frame().start()), linear::ptr(new.start()));
        // SAFETY: both are frames of RAM, 4 KiB-aligned and distinct (`new` was free until now, so nothing else refers to it);
        // `old` is kept alive by the reference that its entry holds, and nobody can write it: it is shared, so every entry that
        // names it is write-protected.
        unsafe { ArchOf::<P>::copy_page(from, to) };
        entry.set(token, Descriptor::ABSENT);
        tlb::shoot_down::<ArchOf<P>>(self.stale(one(page)));
        let bits = self.leaf_bits(Protection::ReadWrite);
        entry.set(token, Descriptor::page(new, bits));
        self.memory.frames.release(old.frame(), 1);
        Ok(())
    }
}

/// Whether entries of this table hold every reference of the folio that `descriptor` names.
fn is_exclusive(table: Table<UserTables>, descriptor: Descriptor) -> bool {
    let folio = descriptor.frame().head();
    let refs = folio.meta().refs();
    if folio.meta().order() == 0 || refs == 1 {
        return refs == 1;
    }
    let ours = table.entries().iter().filter(|entry| names(entry.get(), folio)).count();
    ours == refs as usize
}

/// Lets writes to `page`, which is `descriptor`, through and, where it is part of a folio, to the folio's other pages that the region
/// maps alike, so that a folio is looked at once and not once a page.
fn write_enable<P: Policy>(
    token: Token<'_, P, UserTables>,
    table: Table<UserTables>,
    region: &Region,
    page: u64,
    descriptor: Descriptor,
) {
    let folio = descriptor.frame().head();
    let entries = table.entries();
    if folio.meta().order() == 0 {
        return entries[index(Level::L3, page)].set(token, descriptor.write_enabled());
    }
    // A page of another region is to stay read-only.
    let first = region.start.max(table_end(page) - ENTRIES as u64);
    let last = region.end.min(table_end(page)) - 1;
    for entry in &entries[index(Level::L3, first)..=index(Level::L3, last)] {
        let other = entry.get();
        if names(other, folio) && other.same_attributes(descriptor) {
            entry.set(token, other.write_enabled());
        }
    }
}

fn names(descriptor: Descriptor, folio: Frame) -> bool {
    descriptor.is_valid() && descriptor.frame().head() == folio
}

fn permits(protection: Protection, access: Access) -> bool {
    match access {
        Access::Read => true,
        Access::Write => protection == Protection::ReadWrite,
        Access::Execute => protection == Protection::ReadExecute,
    }
}

fn one(page: u64) -> PageRange {
    let start = VirtAddr::new(page << PAGE_SHIFT).map(Page::containing).expect("a region's page is a user page");
    PageRange::new(start, 1).expect("one page always fits")
}
