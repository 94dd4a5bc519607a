//! User address spaces: regions, and the tables under TTBR0 that back them with pages.
//!
//! Every operation that writes tables is one [`Section`], however many entries it writes, and ends in a barrier that it
//! needs anyway. Memory is anonymous and private: pages appear zeroed at the first touch or by [`AddressSpace::populate`],
//! `fork` shares them copy-on-write. Each valid leaf holds one reference of its folio.
//!
//! | file | operation |
//! |---|---|
//! | `region` | which ranges there are |
//! | `populate` | pages for a whole range |
//! | `fork` | a child that shares all pages |
//! | `unmap` | taking a range away; also the end of a space |
//! | `fault` | one page, on a touch or a write to a shared one |
//! | `protect` | other permissions |

mod fault;
mod fork;
mod populate;
mod protect;
mod region;
#[cfg(test)]
mod tests;
mod unmap;

pub use fault::{Access, Resolved};
pub use region::Region;

use crate::addr::{PAGE_SHIFT, PageRange, PhysAddr, VIRT_BITS};
use crate::asid::Tagged;
use crate::desc::{Attr, Decoded, Descriptor, LeafBits, Level};
use crate::frame::{BLOCK_ORDER, OutOfMemory};
use crate::memory::Memory;
use crate::table::Table;
use crate::tlb::Stale;
use core::fmt;
use core::marker::PhantomData;
use pkeys::section::ArchOf;
use pkeys::{Policy, Section, Token, UserTables};
use platform::arch::{Arch, Asid};
use region::{Regions, numbers};

/// The lowest page that can be mapped: 64 KiB, as Linux's mmap_min_addr, so that null pointers fault.
const LOWEST_PAGE: u64 = 16;
/// The page after the last of the lower half.
const END_PAGE: u64 = 1 << (VIRT_BITS - PAGE_SHIFT);

/// What EL0 may do with a region. Nothing is writable and executable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Read.
    Read,
    /// Read and write.
    ReadWrite,
    /// Read and execute.
    ReadExecute,
}

impl Protection {
    const fn attr(self) -> Attr {
        match self {
            Protection::Read => Attr::UserRodata,
            Protection::ReadWrite => Attr::UserData,
            Protection::ReadExecute => Attr::UserText,
        }
    }
}

/// Why an operation did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceError {
    /// No frame, table or heap memory is left.
    OutOfMemory(OutOfMemory),
    /// The range is empty, or not within the user's half above the first 64 KiB.
    NotUser {
        /// Number of the range's first page.
        page: u64,
        /// Pages in the range.
        pages: u64,
    },
    /// A region is there already.
    Overlap {
        /// Number of the first page that both have.
        page: u64,
    },
    /// No region holds the page.
    Unmapped {
        /// The page's number.
        page: u64,
    },
    /// The region does not permit the access.
    Denied {
        /// The page's number.
        page: u64,
    },
    /// Folios have orders 0 to 9.
    FolioOrder {
        /// The order asked for.
        order: u32,
    },
}

impl From<OutOfMemory> for SpaceError {
    fn from(error: OutOfMemory) -> Self {
        SpaceError::OutOfMemory(error)
    }
}

impl fmt::Display for SpaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = |page: u64| page << PAGE_SHIFT;
        match *self {
            SpaceError::OutOfMemory(error) => error.fmt(f),
            SpaceError::NotUser { page, pages } => write!(f, "{pages} pages at {:#x} are no user range", address(page)),
            SpaceError::Overlap { page } => write!(f, "{:#x} is mapped already", address(page)),
            SpaceError::Unmapped { page } => write!(f, "{:#x} is not mapped", address(page)),
            SpaceError::Denied { page } => write!(f, "the region at {:#x} does not permit this", address(page)),
            SpaceError::FolioOrder { order } => write!(f, "no folio has order {order}: 0 to {BLOCK_ORDER} do"),
        }
    }
}

impl core::error::Error for SpaceError {}

/// A user address space, whose tables are written under policy `P`.
#[derive(Debug)]
pub struct AddressSpace<P: Policy> {
    memory: &'static Memory,
    root: Table<UserTables>,
    regions: Regions,
    tagged: Tagged,
    policy: PhantomData<P>,
}

impl<P: Policy> AddressSpace<P> {
    /// An empty space.
    ///
    /// # Errors
    /// Out of memory where no table is left for its root.
    pub fn new(memory: &'static Memory) -> Result<Self, OutOfMemory> {
        let section = Section::<P, UserTables>::open();
        let space = Self::new_in(section.token(), memory);
        section.end(ArchOf::<P>::isb);
        space
    }

    fn new_in(token: Token<'_, P, UserTables>, memory: &'static Memory) -> Result<Self, OutOfMemory> {
        let root = memory.take_table(token, Level::L0)?;
        let regions = Regions::default();
        Ok(AddressSpace { memory, root, regions, tagged: Tagged::NONE, policy: PhantomData })
    }

    /// The root table, for walks.
    pub fn root(&self) -> Table<UserTables> {
        self.root
    }

    /// The region that holds a page, if one does.
    pub fn region(&self, page: crate::addr::Page) -> Option<Region> {
        self.regions.find(page.start().get() >> PAGE_SHIFT)
    }

    /// Adds a region. No page appears yet. Folios of `folio_order` back it where they fit, mapped by pages always.
    ///
    /// # Errors
    /// Where the range is no user range or overlaps a region, or the heap is full.
    pub fn map(&mut self, range: PageRange, protection: Protection, folio_order: u32) -> Result<(), SpaceError> {
        let (start, end) = user_range(range)?;
        if folio_order > BLOCK_ORDER {
            return Err(SpaceError::FolioOrder { order: folio_order });
        }
        self.regions.insert(Region { start, end, protection, folio_order })
    }

    /// Makes the space the one that TTBR0 translates on this CPU.
    pub fn activate(&mut self) {
        self.tagged = self.memory.asids.activate::<ArchOf<P>>(self.tagged);
        write_ttbr0::<ArchOf<P>>(self.root.frame().start(), self.tagged.asid());
    }

    /// Takes the space off this CPU, if it is on it: TTBR0 translates nothing.
    pub fn deactivate(&mut self) {
        if self.memory.asids.is_active::<ArchOf<P>>(self.tagged) {
            write_ttbr0::<ArchOf<P>>(self.memory.empty_root.start(), Asid(0));
            self.memory.asids.deactivate::<ArchOf<P>>();
        }
    }

    /// What TLBs may hold of `range`.
    fn stale(&self, range: PageRange) -> Stale {
        if self.memory.asids.is_current(self.tagged) { Stale::Pages(self.tagged.asid(), range) } else { Stale::Nothing }
    }

    /// What TLBs may hold of the whole space.
    fn stale_space(&self) -> Stale {
        if self.memory.asids.is_current(self.tagged) { Stale::Space(self.tagged.asid()) } else { Stale::Nothing }
    }

    fn leaf_bits(&self, protection: Protection) -> LeafBits {
        protection.attr().leaf_bits(self.memory.kernel.format())
    }

    /// The last-level table that holds page number `page`'s entry, if it is there.
    fn leaf_table(&self, page: u64) -> Option<Table<UserTables>> {
        [Level::L0, Level::L1, Level::L2].into_iter().try_fold(self.root, |table, level| {
            match table.entries()[index(level, page)].get().decode(level) {
                Decoded::Table(frame) => Some(Table::at(frame)),
                _ => None,
            }
        })
    }

    /// The same, made where it is missing. A table that was made for nothing stays until its range is unmapped.
    fn leaf_table_or_new(&self, token: Token<'_, P, UserTables>, page: u64) -> Result<Table<UserTables>, OutOfMemory> {
        let mut table = self.root;
        for (level, below) in [(Level::L0, Level::L1), (Level::L1, Level::L2), (Level::L2, Level::L3)] {
            let entry = &table.entries()[index(level, page)];
            table = match entry.get().decode(level) {
                Decoded::Table(frame) => Table::at(frame),
                _ => {
                    let new = self.memory.take_table(token, below)?;
                    entry.set(token, Descriptor::table(new.frame()));
                    table.frame().meta().add_live(1);
                    new
                }
            };
        }
        Ok(table)
    }
}

impl<P: Policy> Drop for AddressSpace<P> {
    fn drop(&mut self) {
        self.deactivate();
        self.end();
        self.memory.asids.release(self.tagged);
    }
}

/// The index of page number `page` in a table of `level`.
#[inline(always)]
fn index(level: Level, page: u64) -> usize {
    (page >> (level.shift() - PAGE_SHIFT)) as usize % crate::desc::ENTRIES
}

fn user_range(range: PageRange) -> Result<(u64, u64), SpaceError> {
    let (start, end) = numbers(range);
    if range.count() == 0 || start < LOWEST_PAGE || end > END_PAGE {
        return Err(SpaceError::NotUser { page: start, pages: range.count() });
    }
    Ok((start, end))
}

/// TTBR0_EL1 with an ASID (TCR_EL1.A1 = 0), and the ISB that makes it hold.
fn write_ttbr0<A: Arch>(root: PhysAddr, asid: Asid) {
    A::write_ttbr0(root.get() | u64::from(asid.0) << 48);
    let _ = A::isb();
}
