//! Sixteen bytes of metadata per frame.

use core::sync::atomic::{AtomicU32, Ordering, fence};

use crate::addr::Frame;
use crate::linear;

/// What a frame is in use for.
///
/// The kind is true at all times: a free frame says `Free` or `Held`, a frame inside a folio `FolioHead` or
/// `FolioTail`, and so on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// No RAM, or RAM the kernel was not given. Zero, so that fresh metadata says so.
    Absent = 0,
    /// RAM that is never handed out (firmware, the FDT).
    Reserved = 1,
    /// Part of the kernel image or of what boot placed beside it.
    Image = 2,
    /// First frame of a free block, on one of the buddy's lists; [`FrameMeta::order`] is the block's.
    Free = 3,
    /// Free, but no block's first frame: inside a free block, or in a CPU's front.
    Held = 4,
    /// An allocated single frame: user or kernel data.
    Data = 5,
    /// First frame of a folio of order 1 or more; the folio's references are counted here.
    FolioHead = 6,
    /// Any other frame of a folio.
    FolioTail = 7,
    /// A live translation table.
    Table = 8,
    /// In a block of the table pool, but not in use as a table.
    Pool = 9,
}

impl Kind {
    const ALL: [Self; 10] = [
        Self::Absent,
        Self::Reserved,
        Self::Image,
        Self::Free,
        Self::Held,
        Self::Data,
        Self::FolioHead,
        Self::FolioTail,
        Self::Table,
        Self::Pool,
    ];
}

/// What is known of one frame.
///
/// Every field is atomic so that a shared reference serves everyone; who may write which field when is a matter of
/// ownership: the buddy while the frame is free, whoever allocated it (or holds the lock of what it belongs to) while
/// it is not. Only the reference count is contended.
#[derive(Debug)]
#[repr(C)]
pub struct FrameMeta {
    refs: AtomicU32,
    /// Kind in bits 0 to 7, order in bits 8 to 15, the owner's tag in bits 16 to 31.
    state: AtomicU32,
    /// Frame number plus one of the next in a chain: the buddy's free list, or a chain of the owner. Zero: none.
    next: AtomicU32,
    /// While free: the previous frame of the buddy's list, coded as `next`. While a table: its valid entries.
    aux: AtomicU32,
}

const _: () = assert!(size_of::<FrameMeta>() == 16);

/// Frame numbers below this can carry metadata: 16 TiB, as links are 32 bits wide and zero means none.
pub(crate) const META_LIMIT: u64 = u32::MAX as u64;

/// References beyond this count as an overflow. Half the range is left so that every CPU can be past the check.
const MAX_REFS: u32 = i32::MAX as u32;

/// The state word of a frame of this kind and order with a tag of zero.
pub(super) const fn state(kind: Kind, order: u32) -> u32 {
    kind as u32 | order << 8
}

/// The link that names `frame`, or none.
pub(super) fn link_to(frame: Option<Frame>) -> u32 {
    frame.map_or(0, |frame| {
        debug_assert!(frame.number() < META_LIMIT);
        frame.number() as u32 + 1
    })
}

/// The frame that a link names.
pub(super) fn linked(link: u32) -> Option<Frame> {
    link.checked_sub(1).map(|number| Frame::from_number(number.into()))
}

impl Frame {
    /// The frame's metadata.
    ///
    /// Metadata is mapped for all RAM that the allocator was given (on the host: for all of the arena) and the rest of
    /// the 4 MiB-aligned blocks it lies in. To ask for that of any other frame is a bug, which ends in a fault.
    #[inline(always)]
    pub fn meta(self) -> &'static FrameMeta {
        debug_assert!(self.number() < META_LIMIT);
        let meta = linear::meta_base().wrapping_add(self.number() as usize);
        // SAFETY: (1) `meta_base` is the start of an array that is reserved for metadata for ever, aligned to a page;
        // (2) all its fields are atomics for which any bit pattern is valid, so no reference to it can conflict.
        unsafe { &*meta }
    }

    /// First frame of the folio that this frame belongs to: itself unless it is a tail.
    ///
    /// Folios are naturally aligned and each of their frames knows the order, so no link is followed.
    #[inline(always)]
    pub fn head(self) -> Frame {
        Frame::from_number(self.number() & !((1 << self.meta().order()) - 1))
    }
}

impl FrameMeta {
    /// References held on the frame (of a folio: on its head). Another CPU may change it at once, unless the caller
    /// holds them all.
    #[inline(always)]
    pub fn refs(&self) -> u32 {
        self.refs.load(Ordering::Acquire)
    }

    /// Adds `n` references. The caller holds one already (as a mapping does while its table is locked), so no order
    /// with other memory is needed, as in Linux's `refcount_inc`.
    ///
    /// # Panics
    /// Where the count passes 2^31: a leak or an attack, and never a count to wrap around to zero.
    #[inline(always)]
    pub fn get_n(&self, n: u32) {
        let before = self.refs.fetch_add(n, Ordering::Relaxed);
        debug_assert!(before > 0, "reference taken on a free frame");
        if before > MAX_REFS {
            refs_overflow(before);
        }
    }

    /// Drops `n` references that the caller holds; true where they were the last, and the frame is the caller's to
    /// free. Everything that others did with the frame before they dropped theirs has then happened.
    ///
    /// # Panics
    /// Where fewer than `n` are held.
    #[inline(always)]
    #[must_use = "the last reference obliges the caller to free the frame"]
    pub fn put_n(&self, n: u32) -> bool {
        // Whoever holds all references is alone with the frame: nobody else may add one.
        if self.refs.load(Ordering::Acquire) == n {
            self.refs.store(0, Ordering::Relaxed);
            return true;
        }
        let before = self.refs.fetch_sub(n, Ordering::Release);
        if before < n {
            refs_underflow(before, n);
        }
        if before == n {
            fence(Ordering::Acquire);
        }
        before == n
    }

    /// Drops the caller's reference where it is the only one: true, and the frame is the caller's alone. Else nothing
    /// happens. For frames that a TLB may still know: other holders must not come to be the last before it forgets them.
    #[inline(always)]
    #[must_use = "the last reference obliges the caller to free the frame"]
    pub fn put_if_last(&self) -> bool {
        let last = self.refs.load(Ordering::Acquire) == 1;
        if last {
            self.refs.store(0, Ordering::Relaxed);
        }
        last
    }

    /// What the frame is in use for.
    #[inline(always)]
    pub fn kind(&self) -> Kind {
        Kind::ALL[(self.state.load(Ordering::Relaxed) & 0xff) as usize]
    }

    /// Whether the frame is of kind `kind`; cheaper than comparing [`FrameMeta::kind`].
    #[inline(always)]
    pub fn is(&self, kind: Kind) -> bool {
        self.state.load(Ordering::Relaxed) & 0xff == kind as u32
    }

    /// Whether the frame is allocated data, single or in a folio.
    #[inline(always)]
    pub fn is_data(&self) -> bool {
        let kind = self.state.load(Ordering::Relaxed) & 0xff;
        (Kind::Data as u32..=Kind::FolioTail as u32).contains(&kind)
    }

    /// Says what the frame, single and the caller's own, is in use for; its order and tag become 0.
    #[inline(always)]
    pub fn set_kind(&self, kind: Kind) {
        self.set_state(state(kind, 0));
    }

    /// Order of the folio (any of its frames) or free block (its first frame) that the frame belongs to; else 0.
    #[inline(always)]
    pub fn order(&self) -> u32 {
        self.state.load(Ordering::Relaxed) >> 8 & 0xff
    }

    /// The owner's 16 bits, 0 after allocation and after [`FrameMeta::set_kind`].
    #[inline(always)]
    pub fn tag(&self) -> u16 {
        (self.state.load(Ordering::Relaxed) >> 16) as u16
    }

    /// Sets the owner's 16 bits. For the owner alone.
    #[inline(always)]
    pub fn set_tag(&self, tag: u16) {
        let state = self.state.load(Ordering::Relaxed) & 0xffff;
        self.set_state(state | u32::from(tag) << 16);
    }

    #[inline(always)]
    pub(super) fn has_state(&self, state: u32) -> bool {
        self.state.load(Ordering::Relaxed) == state
    }

    #[inline(always)]
    pub(super) fn set_state(&self, state: u32) {
        self.state.store(state, Ordering::Relaxed);
    }

    /// Makes the frame an allocated one with one reference.
    #[inline(always)]
    pub(super) fn begin(&self, state: u32) {
        self.set_state(state);
        self.refs.store(1, Ordering::Relaxed);
    }

    /// Link to the next free block of the buddy's list.
    #[inline(always)]
    pub(super) fn next(&self) -> u32 {
        self.next.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(super) fn set_next(&self, link: u32) {
        self.next.store(link, Ordering::Relaxed);
    }

    /// Link to the previous free block of the buddy's list.
    #[inline(always)]
    pub(super) fn previous(&self) -> u32 {
        self.aux.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(super) fn set_previous(&self, link: u32) {
        self.aux.store(link, Ordering::Relaxed);
    }

    /// Valid entries in the table that the frame is. Anything after allocation: set it first.
    #[inline(always)]
    pub fn live(&self) -> u32 {
        self.aux.load(Ordering::Relaxed)
    }

    /// Sets the number of valid entries. For the holder of the table's lock.
    #[inline(always)]
    pub fn set_live(&self, live: u32) {
        self.aux.store(live, Ordering::Relaxed);
    }

    /// Counts `n` entries that became valid. For the holder of the table's lock, so no atomic addition is needed.
    #[inline(always)]
    pub fn add_live(&self, n: u32) {
        self.set_live(self.live() + n);
    }

    /// Counts `n` entries that are valid no more and returns how many are left. For the holder of the table's lock.
    #[inline(always)]
    pub fn sub_live(&self, n: u32) -> u32 {
        let left = self.live() - n;
        self.set_live(left);
        left
    }

    /// The next frame of the owner's chain. Anything after allocation: set it first.
    #[inline(always)]
    pub fn link(&self) -> Option<Frame> {
        linked(self.next.load(Ordering::Relaxed))
    }

    /// Sets the next frame of the owner's chain. For the owner alone.
    #[inline(always)]
    pub fn set_link(&self, next: Option<Frame>) {
        self.next.store(link_to(next), Ordering::Relaxed);
    }
}

#[cold]
#[inline(never)]
fn refs_overflow(refs: u32) -> ! {
    panic!("a frame has {refs} references: leaked, or attacked")
}

#[cold]
#[inline(never)]
fn refs_underflow(refs: u32, dropped: u32) -> ! {
    panic!("{dropped} references dropped on a frame that has {refs}")
}
