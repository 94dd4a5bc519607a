//! Kernel areas: memory that is mapped for the kernel page by page, as Linux's vmalloc and vm_map_ram do.
//!
//! # Address space
//! Class `k` (1 to 18) is an arena of slots of 2^k pages each. An area takes a slot of the smallest class with more pages
//! than it has, so at least one page after it stays unmapped, and slots are as aligned as they are large, which blocks
//! and contiguous runs need. With 64 TiB of address space that waste is none, and taking a slot is one step: no search,
//! no tree. An area that asks for an alignment takes a larger class.
//!
//! # Making
//! Frames first (their contents are anything, as with Linux's vmalloc), then one section that makes missing tables and stores
//! all entries, so an area costs two POR writes and one ISB beyond the baseline, however large it is. Whatever fails, fails
//! before the first entry is stored. The code that runs with the kernel's tables open is only that: no frame is allocated
//! there, unless the table pool has to grow. Leaf tables stay once made, as in Linux, but where a block takes one's place.
//!
//! # Freeing
//! [`Areas::vfree`] and [`Areas::vm_unmap_ram`] only put the area on a list: no table is written, nothing is flushed, no section
//! is opened. When the freed pages pass a threshold, when memory runs short or when [`Areas::purge`] is called, one section
//! clears the entries of all of them and one TLBI follows; only then do frames and slots return to use. The published scheme
//! clears entries at each vfree, which takes two POR writes and an ISB each.
//!
//! What this costs: freed frames stay in quarantine, at most [`Areas::threshold`] pages and one area of them; and an access
//! after vfree is not caught until the purge. It reaches the freed area's own memory, never that of a new owner: a frame gets
//! one only after the flush.
//!
//! # Frames of others
//! [`Areas::vm_map_ram`] takes a reference on each frame, held until the purge, so that they can't be freed while a stale
//! mapping leads to them. It refuses everything but data: a table has no alias (invariant I1).
//!
//! # Concurrency
//! Areas are made and freed on several CPUs at once, but not by interrupt handlers. A slot has one owner, so storing its entries
//! takes no lock, even where slots share a leaf table; making tables does, as does purging.

mod error;
mod map;
mod purge;
mod slots;
#[cfg(test)]
mod tests;

pub use error::AreaError;

use crate::addr::{Frame, PAGE_SIZE, Page, PageRange, VirtAddr};
use crate::desc::{Attr, CONTIGUOUS_PAGES, LeafBits};
use crate::frame::OutOfMemory;
use crate::memory::Memory;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use map::Pieces;
use pkeys::Policy;
use slots::{Content, MAX_CLASS, SlotId, Slots};
use spin::Mutex;

/// Pages that may wait for a purge: 32 MiB, as Linux allows one CPU (`lazy_max_pages` in mm/vmalloc.c).
const LAZY_PAGES: u64 = 8192;
/// The part of memory that may wait for a purge, where that is less.
const LAZY_SHARE: u64 = 16;
/// Pages of a kernel stack: 64 KiB.
pub const STACK_PAGES: u64 = 16;

/// What an area is to be like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VmFlags {
    /// Whether folios of 64 KiB and 2 MiB may be used, mapped as contiguous runs and blocks, as far as they are free.
    pub huge: bool,
    /// Alignment of the first address in bytes, a power of two up to 1 GiB; less than a page counts as one.
    pub align: u64,
}

impl Default for VmFlags {
    fn default() -> Self {
        VmFlags { huge: false, align: PAGE_SIZE }
    }
}

/// What an area is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AreaKind {
    /// Made by [`Areas::vmalloc`]: the frames are its own.
    Vmalloc,
    /// Made by [`Areas::vm_map_ram`]: the frames are others'.
    Ram,
    /// Made by [`Areas::alloc_stack`].
    Stack,
}

/// An area, as reports tell of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AreaInfo {
    /// Its pages, without any guard page.
    pub pages: PageRange,
    /// What it is.
    pub kind: AreaKind,
    /// Whether it is freed and only waits for a purge.
    pub freed: bool,
}

/// All kernel areas. One for the whole machine.
#[derive(Debug)]
pub struct Areas {
    memory: &'static Memory,
    /// Leaf bits of kernel data.
    bits: LeafBits,
    slots: Slots,
    /// Pages of the areas that are freed but not purged.
    freed_pages: AtomicU64,
    threshold: u64,
    /// The purger's frames that others share. Its lock is the right to purge.
    shared: Mutex<Vec<u32>>,
    /// The right to make tables in the arenas.
    tables: Mutex<()>,
}

impl Areas {
    /// No areas yet.
    ///
    /// # Errors
    /// Out of memory where the heap has no room for the slots' directory (19 KiB) and 4 bytes for each page that may wait for
    /// a purge (up to 32 KiB).
    pub fn new(memory: &'static Memory) -> Result<Areas, OutOfMemory> {
        let threshold = LAZY_PAGES.min(memory.frames.stats().total() / LAZY_SHARE).max(1);
        let mut shared = Vec::new();
        shared.try_reserve_exact(threshold as usize).map_err(|_| OutOfMemory { order: 0 })?;
        Ok(Areas {
            memory,
            bits: Attr::KernelData.leaf_bits(memory.kernel.format()),
            slots: Slots::new()?,
            freed_pages: AtomicU64::new(0),
            threshold,
            shared: Mutex::new(shared),
            tables: Mutex::new(()),
        })
    }

    /// Allocates `pages` frames and maps them one after the other, readable and writable for the kernel. Their contents are
    /// anything. Where memory is short it purges and tries again.
    ///
    /// # Errors
    /// [`AreaError::Empty`], [`AreaError::TooLarge`] (2^18 pages or more), [`AreaError::BadAlign`],
    /// [`AreaError::NoMemory`], [`AreaError::NoSlot`].
    pub fn vmalloc<P: Policy>(&self, pages: u64, flags: VmFlags) -> Result<VirtAddr, AreaError> {
        let class = class_for(pages)?;
        let class = if flags.align > PAGE_SIZE { class.max(align_class(flags.align)?) } else { class };
        let huge = flags.huge && pages >= CONTIGUOUS_PAGES;
        self.with_purge::<P, _>(|| match huge {
            true => self.make_huge::<P>(class, pages, AreaKind::Vmalloc),
            false => self.make_plain::<P>(class, pages, AreaKind::Vmalloc),
        })
    }

    /// Makes a kernel stack of [`STACK_PAGES`] pages that begins at an odd multiple of 64 KiB. The 64 KiB below it and
    /// those above it stay unmapped. [`Areas::vfree`] frees it by its first address.
    ///
    /// # Errors
    /// [`AreaError::NoMemory`], [`AreaError::NoSlot`].
    pub fn alloc_stack<P: Policy>(&self) -> Result<PageRange, AreaError> {
        let start = self.with_purge::<P, _>(|| self.make_huge::<P>(STACK_CLASS, STACK_PAGES, AreaKind::Stack))?;
        Ok(page_range(start, STACK_PAGES))
    }

    /// Maps `frames` one after the other, readable and writable for the kernel, and takes a reference on each (a folio's are
    /// counted on its head) until the area is unmapped and purged. The caller holds a reference on each.
    ///
    /// # Errors
    /// [`AreaError::Empty`], [`AreaError::TooLarge`], [`AreaError::NotMappable`] for a frame that is no data in use,
    /// [`AreaError::NoMemory`], [`AreaError::NoSlot`].
    pub fn vm_map_ram<P: Policy>(&self, frames: &[Frame]) -> Result<VirtAddr, AreaError> {
        let class = class_for(frames.len() as u64)?;
        self.with_purge::<P, _>(|| {
            self.refer(frames)?;
            let made = self
                .make(class, frames.len() as u64, AreaKind::Ram, |id, start| self.map_slice::<P>(id, start, frames));
            made.inspect_err(|_| self.forget(frames))
        })
    }

    /// Frees what [`Areas::vmalloc`] or [`Areas::alloc_stack`] returned at `addr`. The mapping goes with the next purge, which
    /// this call makes itself where enough has gathered.
    ///
    /// # Errors
    /// [`AreaError::NoArea`], [`AreaError::AlreadyFreed`], [`AreaError::WrongKind`].
    pub fn vfree<P: Policy>(&self, addr: VirtAddr) -> Result<(), AreaError> {
        self.free::<P>(addr, |content| if content.is_ram() { Err(AreaError::WrongKind { addr }) } else { Ok(()) })
    }

    /// Unmaps the `pages` pages that [`Areas::vm_map_ram`] mapped at `addr`, lazily as [`Areas::vfree`].
    ///
    /// # Errors
    /// [`AreaError::NoArea`], [`AreaError::AlreadyFreed`], [`AreaError::WrongKind`], [`AreaError::WrongSize`].
    pub fn vm_unmap_ram<P: Policy>(&self, addr: VirtAddr, pages: u64) -> Result<(), AreaError> {
        self.free::<P>(addr, |content| match content.is_ram() {
            false => Err(AreaError::WrongKind { addr }),
            true if content.pages() != pages => {
                Err(AreaError::WrongSize { addr, pages: content.pages(), given: pages })
            }
            true => Ok(()),
        })
    }

    /// Unmaps all that was freed, flushes the TLBs and gives frames and slots back. Returns the number of pages.
    pub fn purge<P: Policy>(&self) -> u64 {
        self.purge_waiting::<P>()
    }

    /// Pages of the areas that are freed but not purged yet.
    pub fn freed_pages(&self) -> u64 {
        self.freed_pages.load(Ordering::Relaxed)
    }

    /// Freed pages above which vfree and vm_unmap_ram purge.
    pub fn threshold(&self) -> u64 {
        self.threshold
    }

    /// The area in whose slot `addr` lies: in it, or in the guard pages beside it.
    pub fn area_of(&self, addr: VirtAddr) -> Option<AreaInfo> {
        let id = SlotId::containing(addr)?;
        let content = self.slots.find(id)?.content();
        let known = content.is_live() || content.is_freed();
        known.then(|| AreaInfo {
            pages: page_range(id.start(content), content.pages()),
            kind: content.kind(),
            freed: content.is_freed(),
        })
    }

    /// Makes an area of single frames of its own.
    #[inline(always)]
    fn make_plain<P: Policy>(&self, class: u32, pages: u64, kind: AreaKind) -> Result<VirtAddr, AreaError> {
        let chain = self.memory.frames.alloc_chain(pages)?;
        let made = self.make(class, pages, kind, |id, start| self.map_chain::<P>(id, start, pages, chain));
        if made.is_err() {
            self.memory.frames.drop_chain(chain);
        }
        made
    }

    /// Makes an area of folios of its own, as far as there are any.
    #[inline(never)]
    fn make_huge<P: Policy>(&self, class: u32, pages: u64, kind: AreaKind) -> Result<VirtAddr, AreaError> {
        let mut pieces = Pieces::default();
        let made = match pieces.allocate(self.memory.frames, pages) {
            Ok(()) => self.make(class, pages, kind, |_, start| self.map_pieces::<P>(start, pages, &pieces)),
            Err(error) => Err(error.into()),
        };
        if made.is_err() {
            pieces.free(self.memory.frames);
        }
        made
    }

    /// Takes a slot and lets `map` map the area.
    #[inline(always)]
    fn make(
        &self,
        class: u32,
        pages: u64,
        kind: AreaKind,
        map: impl FnOnce(SlotId, VirtAddr) -> Result<(), OutOfMemory>,
    ) -> Result<VirtAddr, AreaError> {
        let (id, record) = self.slots.take(class)?;
        let content = Content::live(pages, kind);
        let start = id.start(content);
        if let Err(error) = map(id, start) {
            self.slots.give(id);
            return Err(error.into());
        }
        record.set_content(content);
        Ok(start)
    }

    /// Runs `attempt`, and again after each purge that gave something back, as long as it fails for want of something.
    #[inline(always)]
    fn with_purge<P: Policy, T>(&self, attempt: impl Fn() -> Result<T, AreaError>) -> Result<T, AreaError> {
        loop {
            match attempt() {
                Err(error) if error.is_shortage() && self.relieve::<P>() => {}
                result => return result,
            }
        }
    }

    /// Purges, or waits for the CPU that does; whether anything may have come back.
    #[cold]
    #[inline(never)]
    fn relieve<P: Policy>(&self) -> bool {
        match self.try_purge::<P>() {
            Some(pages) => pages > 0,
            None => {
                drop(self.shared.lock());
                true
            }
        }
    }

    /// Takes a reference on each frame, or on none.
    #[inline(always)]
    fn refer(&self, frames: &[Frame]) -> Result<(), AreaError> {
        for (done, frame) in frames.iter().enumerate() {
            let head = frame.head().meta();
            if !frame.meta().is_data() || head.refs() == 0 {
                self.forget(&frames[..done]);
                return Err(AreaError::NotMappable { frame: *frame, kind: frame.meta().kind() });
            }
            head.get_n(1);
        }
        Ok(())
    }

    /// Drops the references on frames that were never mapped.
    #[cold]
    fn forget(&self, frames: &[Frame]) {
        frames.iter().for_each(|frame| self.memory.frames.release(*frame, 1));
    }

    /// Moves the area at `addr`, which `check` agrees to, to those that wait for a purge.
    #[inline(always)]
    fn free<P: Policy>(
        &self,
        addr: VirtAddr,
        check: impl FnOnce(Content) -> Result<(), AreaError>,
    ) -> Result<(), AreaError> {
        let unknown = AreaError::NoArea { addr };
        let id = SlotId::containing(addr).ok_or(unknown)?;
        let record = self.slots.find(id).ok_or(unknown)?;
        let content = record.content();
        if content == Content::NOTHING || id.address(content) != addr.get() {
            return Err(unknown);
        }
        if content.is_freed() {
            return Err(AreaError::AlreadyFreed { addr });
        }
        check(content)?;
        if !record.free(content) {
            return Err(AreaError::AlreadyFreed { addr });
        }
        // Counted before it can be purged, so that the count never falls below zero.
        let pages = self.freed_pages.fetch_add(content.pages(), Ordering::Relaxed) + content.pages();
        self.slots.push_freed(id, record);
        if pages > self.threshold {
            self.try_purge::<P>();
        }
        Ok(())
    }
}

/// Class of stacks: with a stack's guard below it and at least as much above it.
const STACK_CLASS: u32 = 6;
const _: () = assert!(slots::STACK_OFFSET == STACK_PAGES && 1 << STACK_CLASS >= 3 * STACK_PAGES);

/// The smallest class whose slots have more than `pages` pages.
#[inline(always)]
fn class_for(pages: u64) -> Result<u32, AreaError> {
    match pages.checked_ilog2() {
        None => Err(AreaError::Empty),
        Some(log) if log >= MAX_CLASS => Err(AreaError::TooLarge { pages }),
        Some(log) => Ok(log + 1),
    }
}

/// The smallest class whose slots are multiples of `align` bytes, more than a page.
fn align_class(align: u64) -> Result<u32, AreaError> {
    if !align.is_power_of_two() || align > PAGE_SIZE << MAX_CLASS {
        return Err(AreaError::BadAlign { align });
    }
    Ok(align.trailing_zeros() - PAGE_SIZE.trailing_zeros())
}

/// The pages of an area.
fn page_range(start: VirtAddr, pages: u64) -> PageRange {
    PageRange::new(Page::containing(start), pages).expect("an area ends before its slot does")
}
