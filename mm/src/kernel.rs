//! The kernel's root: what boot builds, and the little that changes in it later.
//!
//! # What boot has to provide
//! [`Builder`] runs on the boot tables. They map the image's `tables` block, writable, at its linear address (and nothing
//! else of the linear map); [`Builder::new`] takes what of that block the boot tables leave free. From the moment the
//! root built here is live, the block lies under the kernel-table key in its linear mapping, which is then its only one.

use crate::addr::{Frame, FrameRange, PAGE_SIZE, Page, PageRange, PhysAddr, VirtAddr};
use crate::desc::{Attr, Decoded, Descriptor, Format, LeafBits, Level};
use crate::frame::{FrameMeta, OutOfMemory};
use crate::linear::{LINEAR_BASE, VMEMMAP_BASE};
use crate::pool::BLOCK_FRAMES;
use crate::table::Table;
use pkeys::{KernelTables, Off, Policy, Section, Token};
use platform::arch::Arch;

/// The kernel's translation tables.
#[derive(Clone, Copy, Debug)]
pub struct KernelRoot {
    root: Table<KernelTables>,
    format: Format,
}

impl KernelRoot {
    /// The root table, for walks.
    pub const fn table(&self) -> Table<KernelTables> {
        self.root
    }

    /// How this CPU reads the leaves' permissions.
    pub const fn format(&self) -> Format {
        self.format
    }

    /// The page of the linear map that holds `frame`.
    pub fn linear_page(frame: Frame) -> PageRange {
        let va = LINEAR_BASE + frame.start().get();
        let page = VirtAddr::new(va).map(Page::containing).expect("RAM lies in the linear map");
        PageRange::new(page, 1).expect("one page always fits")
    }

    /// Puts the 2 MiB of the linear map that begin at `block` under `attr`. The caller flushes.
    ///
    /// # Panics
    /// Where the linear map has no 2 MiB block there: blocks come from the zone that boot mapped that way.
    pub(crate) fn set_linear_block<P: Policy>(&self, token: Token<'_, P, KernelTables>, block: Frame, attr: Attr) {
        let va = Self::linear_page(block).start().start();
        let table = [Level::L0, Level::L1].into_iter().try_fold(self.root, |table, level| table.next(level, va));
        let entry = table.expect("the tables' zone is mapped by 2 MiB blocks").entry(Level::L2, va);
        assert_eq!(entry.get().decode(Level::L2), Decoded::Leaf(block), "no 2 MiB block of the linear map");
        entry.set(token, Descriptor::leaf(block, attr.leaf_bits(self.format), Level::L2));
    }

    /// The table of `level` that holds `va`'s entry, made on the way by `source` where it is missing.
    ///
    /// # Panics
    /// Where a larger leaf maps `va`: a table in its place would take break-before-make.
    #[inline]
    pub(crate) fn table_for<P: Policy>(
        &self,
        token: Token<'_, P, KernelTables>,
        va: VirtAddr,
        level: Level,
        mut source: impl FnMut(Level) -> Result<Table<KernelTables>, OutOfMemory>,
    ) -> Result<Table<KernelTables>, OutOfMemory> {
        let mut table = self.root;
        let mut at = Level::L0;
        while let Some(below) = at.below() {
            if at == level {
                break;
            }
            let entry = table.entry(at, va);
            table = match entry.get().decode(at) {
                Decoded::Table(frame) => Table::at(frame),
                Decoded::Absent => {
                    let new = source(below)?;
                    entry.set(token, Descriptor::table(new.frame()));
                    new
                }
                other => panic!("{va} is mapped at {at} ({other:?}): no table goes there"),
            };
            at = below;
        }
        Ok(table)
    }
}

/// A mapping that boot makes.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    /// The first virtual address, page-aligned.
    pub va: VirtAddr,
    /// The first physical address, page-aligned.
    pub pa: PhysAddr,
    /// Bytes, a multiple of [`PAGE_SIZE`].
    pub bytes: u64,
    /// What it is for.
    pub attr: Attr,
    /// The largest leaf to use: [`Level::L1`] lets 1 GiB blocks in, [`Level::L2`] 2 MiB ones, [`Level::L3`] pages only.
    pub largest: Level,
}

/// Builds the kernel's root, before protection is armed, out of frames of the image's `tables` block.
#[derive(Debug)]
pub struct Builder {
    root: KernelRoot,
    free: FrameRange,
    used: u64,
}

impl Builder {
    /// Begins a root. `free` is what of the `tables` block is free.
    ///
    /// # Errors
    /// Out of memory where `free` is empty.
    ///
    /// # Safety
    /// The frames of `free` are all zero, mapped writable at their linear addresses, and used by nothing else.
    pub unsafe fn new(free: FrameRange, format: Format) -> Result<Self, OutOfMemory> {
        if free.count() == 0 {
            return Err(OutOfMemory { order: 0 });
        }
        let root = KernelRoot { root: Table::at(free.start()), format };
        Ok(Builder { root, free, used: 1 })
    }

    /// Maps a range with the largest leaves that fit, leaving pages that are mapped already as they are.
    ///
    /// # Errors
    /// Out of memory where the `tables` block has no table left.
    ///
    /// # Panics
    /// Where the range is not page-aligned or leaves the address space.
    pub fn map<A: Arch>(&mut self, mapping: Mapping) -> Result<(), OutOfMemory> {
        let Mapping { va, pa, bytes, attr, largest } = mapping;
        assert!(
            va.is_aligned(PAGE_SIZE) && pa.is_aligned(PAGE_SIZE) && bytes.is_multiple_of(PAGE_SIZE),
            "{mapping:x?}"
        );
        let bits = attr.leaf_bits(self.root.format);
        let section = Section::<Off<A>, KernelTables>::open();
        let mut done = 0;
        while done < bytes {
            let va = va.checked_add(done).expect("a mapping stays in its half");
            let pa = pa.checked_add(done).expect("a mapping is of physical memory");
            let level = fitting(largest, va, pa, bytes - done);
            self.map_one(section.token(), va, Frame::containing(pa), level, bits)?;
            done += level.span();
        }
        section.end(crate::tlb::publish::<A>);
        Ok(())
    }

    /// A table that stays empty.
    ///
    /// # Errors
    /// Out of memory where the `tables` block has no table left.
    pub fn spare_table(&mut self) -> Result<Frame, OutOfMemory> {
        self.take().map(Table::frame)
    }

    /// The root and how many frames of `free` it took. The rest is the table pool's ([`crate::pool::TablePool::donate`]).
    pub fn finish(self) -> (KernelRoot, u64) {
        (self.root, self.used)
    }

    fn take(&mut self) -> Result<Table<KernelTables>, OutOfMemory> {
        if self.used == self.free.count() {
            return Err(OutOfMemory { order: 0 });
        }
        let frame = Frame::from_number(self.free.start().number() + self.used);
        self.used += 1;
        Ok(Table::at(frame))
    }

    fn map_one<P: Policy>(
        &mut self,
        token: Token<'_, P, KernelTables>,
        va: VirtAddr,
        frame: Frame,
        level: Level,
        bits: LeafBits,
    ) -> Result<(), OutOfMemory> {
        let root = self.root;
        let table = root.table_for(token, va, level, |_| self.take())?;
        let entry = table.entry(level, va);
        if entry.get().is_absent() {
            entry.set(token, Descriptor::leaf(frame, bits, level));
        }
        Ok(())
    }
}

/// The largest leaf, not above `largest`, that may begin a mapping of `bytes` at `va` and `pa`.
fn fitting(largest: Level, va: VirtAddr, pa: PhysAddr, bytes: u64) -> Level {
    [Level::L1, Level::L2]
        .into_iter()
        .filter(|level| *level >= largest)
        .find(|level| va.is_aligned(level.span()) && pa.is_aligned(level.span()) && bytes >= level.span())
        .unwrap_or(Level::L3)
}

/// Where the metadata of `frames` stands: address and bytes, in whole pages. It is rounded out to the 4 MiB-aligned blocks
/// that `frames` touches, as [`crate::frame::Frames::add_range`] asks; where there is no RAM it has to be zero all the same.
pub fn metadata_of(frames: FrameRange) -> (VirtAddr, u64) {
    let size = size_of::<FrameMeta>() as u64;
    let start = frames.start().number() & !(LARGEST_BLOCK - 1);
    let end = frames.end_number().next_multiple_of(LARGEST_BLOCK);
    let va = VirtAddr::new(VMEMMAP_BASE + start * size).expect("frame numbers fit the metadata's half");
    (va, (end - start) * size)
}

/// Frames in the buddy's largest block.
const LARGEST_BLOCK: u64 = 1 << crate::frame::MAX_ORDER;

const _: () = assert!((LARGEST_BLOCK * size_of::<FrameMeta>() as u64).is_multiple_of(PAGE_SIZE));
const _: () = assert!(BLOCK_FRAMES == Level::L2.pages());
