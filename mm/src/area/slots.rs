//! Slots: where areas stand in the address space, and what is known of each.
//!
//! Class `k` is an arena of 1 TiB cut into slots of 2^k pages. Taking a slot pops the class's list of free ones, or takes
//! the next that was never used. From an address, class and slot follow by shifts, and the slot's record by two steps
//! through a directory that only ever grows, in pieces of 4 KiB.

use super::AreaError;
use crate::addr::{Frame, PAGE_SHIFT, PAGE_SIZE, VirtAddr};
use crate::desc::Level;
use crate::frame::OutOfMemory;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::num::NonZeroU32;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use spin::{Mutex, Once};

/// Where the arenas begin: that of class 0, which is empty (docs/architecture.md).
pub(super) const BASE: u64 = 0xffff_8000_0000_0000;
/// Base-2 logarithm of an arena's bytes.
const ARENA_SHIFT: u32 = 40;
/// Class of the largest slots: 2^18 pages, 1 GiB.
pub(super) const MAX_CLASS: u32 = 18;
/// Classes, the unused class 0 included.
pub(super) const CLASSES: usize = MAX_CLASS as usize + 1;
/// Pages before a stack within its slot.
pub(super) const STACK_OFFSET: u64 = 16;

/// A class has at most 2^23 slots, so that class and slot fit one link.
const SLOT_BITS: u32 = 23;
/// Records of a chunk: 4 KiB.
const CHUNK: usize = 512;
/// Chunks of a part of the directory: 4 KiB.
const PART: usize = 256;
/// Parts of a class.
const PARTS: usize = (1 << SLOT_BITS) / (CHUNK * PART);

/// A slot's name: class in bits 23 and up, number in its arena below. Never zero, as no slot has class 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SlotId(NonZeroU32);

impl SlotId {
    #[inline(always)]
    fn new(class: u32, slot: u32) -> SlotId {
        SlotId(NonZeroU32::new(class << SLOT_BITS | slot).expect("no slot has class 0"))
    }

    #[inline(always)]
    fn class(self) -> u32 {
        self.0.get() >> SLOT_BITS
    }

    #[inline(always)]
    fn slot(self) -> usize {
        (self.0.get() & ((1 << SLOT_BITS) - 1)) as usize
    }

    /// Address of the first byte of the area that is `content`, in this slot.
    #[inline(always)]
    pub(super) fn address(self, content: Content) -> u64 {
        let class = self.class();
        let slot = BASE + (u64::from(class) << ARENA_SHIFT) + ((self.slot() as u64) << (class + PAGE_SHIFT));
        slot + content.offset()
    }

    /// The same as an address that is known to be one.
    #[inline(always)]
    pub(super) fn start(self, content: Content) -> VirtAddr {
        VirtAddr::new(self.address(content)).expect("arenas lie in the kernel's half")
    }

    /// The slot that `addr` lies in, used or not.
    #[inline(always)]
    pub(super) fn containing(addr: VirtAddr) -> Option<SlotId> {
        let offset = addr.get().checked_sub(BASE)?;
        let class = offset >> ARENA_SHIFT;
        if class == 0 || class > u64::from(MAX_CLASS) {
            return None;
        }
        let slot = (offset & ((1 << ARENA_SHIFT) - 1)) >> (class as u32 + PAGE_SHIFT);
        (slot < 1 << SLOT_BITS).then(|| SlotId::new(class as u32, slot as u32))
    }
}

/// Slots of a class.
fn limit(class: u32) -> u32 {
    1 << SLOT_BITS.min(ARENA_SHIFT - PAGE_SHIFT - class)
}

/// What a slot holds: pages in bits 0 to 17, flags above. Zero: nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Content(u32);

impl Content {
    pub(super) const NOTHING: Content = Content(0);
    const PAGES: u32 = (1 << MAX_CLASS) - 1;
    const LIVE: u32 = 1 << 18;
    const FREED: u32 = 1 << 19;
    const RAM: u32 = 1 << 20;
    const STACK: u32 = 1 << 21;

    /// A live area of `pages` pages, fewer than the slot has.
    #[inline(always)]
    pub(super) fn live(pages: u64, kind: super::AreaKind) -> Content {
        let kind = match kind {
            super::AreaKind::Vmalloc => 0,
            super::AreaKind::Ram => Content::RAM,
            super::AreaKind::Stack => Content::STACK,
        };
        Content(pages as u32 & Content::PAGES | Content::LIVE | kind)
    }

    #[inline(always)]
    pub(super) fn pages(self) -> u64 {
        u64::from(self.0 & Content::PAGES)
    }

    pub(super) fn is_live(self) -> bool {
        self.0 & Content::LIVE != 0
    }

    /// Whether the area is freed but not purged yet.
    pub(super) fn is_freed(self) -> bool {
        self.0 & Content::FREED != 0
    }

    pub(super) fn is_ram(self) -> bool {
        self.0 & Content::RAM != 0
    }

    pub(super) fn kind(self) -> super::AreaKind {
        match self.0 & (Content::RAM | Content::STACK) {
            0 => super::AreaKind::Vmalloc,
            Content::RAM => super::AreaKind::Ram,
            _ => super::AreaKind::Stack,
        }
    }

    /// Bytes from the slot's start to the area's.
    #[inline(always)]
    fn offset(self) -> u64 {
        if self.0 & Content::STACK != 0 { STACK_OFFSET * PAGE_SIZE } else { 0 }
    }
}

/// What is known of one slot.
#[derive(Debug)]
pub(super) struct Record {
    content: AtomicU32,
    /// The next of the list that the slot is in: its class's free ones, the freed areas, or a purge's own.
    next: AtomicU32,
}

impl Record {
    const fn new() -> Record {
        Record { content: AtomicU32::new(0), next: AtomicU32::new(0) }
    }

    #[inline(always)]
    pub(super) fn content(&self) -> Content {
        Content(self.content.load(Ordering::Acquire))
    }

    #[inline(always)]
    pub(super) fn set_content(&self, content: Content) {
        self.content.store(content.0, Ordering::Release);
    }

    /// Turns `live`, which is what was read, into a freed area; false where another CPU was faster.
    #[inline(always)]
    pub(super) fn free(&self, live: Content) -> bool {
        let freed = live.0 ^ (Content::LIVE | Content::FREED);
        self.content.compare_exchange(live.0, freed, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    #[inline(always)]
    pub(super) fn next(&self) -> Option<SlotId> {
        NonZeroU32::new(self.next.load(Ordering::Relaxed)).map(SlotId)
    }

    #[inline(always)]
    pub(super) fn set_next(&self, next: Option<SlotId>) {
        self.next.store(code(next), Ordering::Relaxed);
    }
}

#[inline(always)]
fn code(id: Option<SlotId>) -> u32 {
    id.map_or(0, |id| id.0.get())
}

/// Why a record must be there.
const IN_USE: &str = "slots in use have records";

type Chunk = Box<[Record; CHUNK]>;
type Part = Box<[Once<Chunk>; PART]>;

#[derive(Debug)]
struct State {
    /// The first free slot that was used before.
    free: Option<SlotId>,
    /// Slots from this one on were never used.
    fresh: u32,
}

#[derive(Debug)]
struct Class {
    state: Mutex<State>,
    leaf: LeafHint,
    parts: [Once<Part>; PARTS],
}

impl Class {
    fn new() -> Class {
        let state = Mutex::new(State { free: None, fresh: 0 });
        Class { state, leaf: LeafHint(AtomicU64::new(0)), parts: [const { Once::new() }; PARTS] }
    }

    #[inline(always)]
    fn record(&self, slot: usize) -> Option<&Record> {
        let part = self.parts[slot / (CHUNK * PART)].get()?;
        let chunk = part[slot / CHUNK % PART].get()?;
        Some(&chunk[slot % CHUNK])
    }

    /// Takes the next slot that was never used, or one that was given back meanwhile.
    #[cold]
    #[inline(never)]
    fn take_fresh(&self, class: u32) -> Result<(SlotId, &Record), AreaError> {
        loop {
            let mut state = self.state.lock();
            if let Some(id) = state.free {
                let record = self.record(id.slot()).expect(IN_USE);
                state.free = record.next();
                return Ok((id, record));
            }
            let slot = state.fresh;
            if slot == limit(class) {
                return Err(AreaError::NoSlot { slot_pages: 1 << class });
            }
            if let Some(record) = self.record(slot as usize) {
                state.fresh = slot + 1;
                return Ok((SlotId::new(class, slot), record));
            }
            drop(state);
            self.grow(slot as usize)?;
        }
    }

    /// Makes the record of `slot`, and those beside it.
    #[cold]
    fn grow(&self, slot: usize) -> Result<(), OutOfMemory> {
        let part = self.parts[slot / (CHUNK * PART)].try_call_once(|| boxed(Once::new))?;
        part[slot / CHUNK % PART].try_call_once(|| boxed(Record::new))?;
        Ok(())
    }
}

/// `N` items on the heap.
fn boxed<T, const N: usize>(make: impl FnMut() -> T) -> Result<Box<[T; N]>, OutOfMemory> {
    let mut items = Vec::new();
    items.try_reserve_exact(N).map_err(|_| OutOfMemory { order: 0 })?;
    items.resize_with(N, make);
    items.into_boxed_slice().try_into().map_err(|_| OutOfMemory { order: 0 })
}

/// The leaf table that was used last in a class's arena: number of the 2 MiB that it maps in bits 36 and up, its frame's
/// below. Only for classes whose slots are no larger than that: their leaf tables stay for ever, so a hint is never wrong.
///
/// A CPU that takes the hint has not read the entries that lead to the table. So the hint is released after they were
/// stored and acquired before it is used: what they say is then known to this CPU's walker too.
#[derive(Debug)]
pub(super) struct LeafHint(AtomicU64);

impl LeafHint {
    const FRAME_BITS: u32 = 36;

    fn span(va: VirtAddr) -> u64 {
        va.get() << (64 - ARENA_SHIFT) >> (64 - ARENA_SHIFT + Level::L2.shift())
    }

    /// The leaf table for `va`, if it is the one used last. (Frame 0 is never a table of an arena.)
    #[inline(always)]
    pub(super) fn get(&self, va: VirtAddr) -> Option<Frame> {
        let hint = self.0.load(Ordering::Acquire);
        let frame = hint & ((1 << LeafHint::FRAME_BITS) - 1);
        (frame != 0 && hint >> LeafHint::FRAME_BITS == LeafHint::span(va)).then(|| Frame::from_number(frame))
    }

    pub(super) fn set(&self, va: VirtAddr, table: Frame) {
        self.0.store(LeafHint::span(va) << LeafHint::FRAME_BITS | table.number(), Ordering::Release);
    }
}

/// The slots of all classes.
#[derive(Debug)]
pub(super) struct Slots {
    classes: Box<[Class; CLASSES]>,
    /// The areas that were freed but not purged, last one first.
    freed: AtomicU32,
}

impl Slots {
    pub(super) fn new() -> Result<Slots, OutOfMemory> {
        Ok(Slots { classes: boxed(Class::new)?, freed: AtomicU32::new(0) })
    }

    /// Where the leaf table of the last area of `id`'s class is remembered; `None` for classes with larger slots than a leaf
    /// table maps.
    #[inline(always)]
    pub(super) fn leaf_hint(&self, id: SlotId) -> Option<&LeafHint> {
        let class = id.class();
        (1 << class <= Level::L2.pages()).then(|| &self.classes[class as usize].leaf)
    }

    /// The record of a slot, where it or one near it was ever used.
    #[inline(always)]
    pub(super) fn find(&self, id: SlotId) -> Option<&Record> {
        self.classes.get(id.class() as usize)?.record(id.slot())
    }

    /// The record of a slot that is or was in use.
    #[inline(always)]
    pub(super) fn record(&self, id: SlotId) -> &Record {
        self.find(id).expect(IN_USE)
    }

    /// Takes a slot of `class` (1 to [`MAX_CLASS`]). Its content is nothing.
    #[inline(always)]
    pub(super) fn take(&self, class: u32) -> Result<(SlotId, &Record), AreaError> {
        let slots = &self.classes[class as usize];
        let mut state = slots.state.lock();
        let Some(id) = state.free else {
            drop(state);
            return slots.take_fresh(class);
        };
        let record = slots.record(id.slot()).expect(IN_USE);
        state.free = record.next();
        Ok((id, record))
    }

    /// Gives one slot back whose content is nothing.
    #[cold]
    pub(super) fn give(&self, id: SlotId) {
        let mut given = Given::new();
        given.push(id, self.record(id));
        self.give_all(&given);
    }

    /// Gives slots back, one lock a class.
    pub(super) fn give_all(&self, given: &Given) {
        for (class, &(first, last)) in self.classes.iter().zip(&given.lists) {
            if let (Some(first), Some(last)) = (first, last) {
                let mut state = class.state.lock();
                self.record(last).set_next(state.free);
                state.free = Some(first);
            }
        }
    }

    /// Adds a freed area to the list of those.
    #[inline(always)]
    pub(super) fn push_freed(&self, id: SlotId, record: &Record) {
        let mut head = self.freed.load(Ordering::Relaxed);
        loop {
            record.set_next(NonZeroU32::new(head).map(SlotId));
            match self.freed.compare_exchange_weak(head, id.0.get(), Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes all freed areas, as a list through their records. Taking all of it at once is what makes a list without a lock
    /// safe: nobody ever follows a link of a list that others pop from.
    pub(super) fn take_freed(&self) -> Option<SlotId> {
        NonZeroU32::new(self.freed.swap(0, Ordering::Acquire)).map(SlotId)
    }
}

/// Slots on their way back, a list a class: first and last.
pub(super) struct Given {
    lists: [(Option<SlotId>, Option<SlotId>); CLASSES],
}

impl Given {
    pub(super) fn new() -> Given {
        Given { lists: [(None, None); CLASSES] }
    }

    #[inline(always)]
    pub(super) fn push(&mut self, id: SlotId, record: &Record) {
        let (first, last) = &mut self.lists[id.class() as usize];
        record.set_next(*first);
        *first = Some(id);
        last.get_or_insert(id);
    }
}

const _: () = assert!(size_of::<Record>() == 8 && (CHUNK * size_of::<Record>()) as u64 == PAGE_SIZE);
const _: () = assert!(MAX_CLASS < 1 << (32 - SLOT_BITS));
