//! Addresses, frames and pages as types of their own.
//!
//! Nothing here converts to or from a bare integer without saying so: an address is made by a checked `new`, a frame
//! or page from an address, and there is no sum of two addresses. All four are one `u64` wide and cost nothing.

use core::fmt;

/// Bytes in a page and in a frame: the 4 KiB granule (Arm ARM D8.2).
pub const PAGE_SIZE: u64 = 1 << PAGE_SHIFT;
/// Base-2 logarithm of [`PAGE_SIZE`].
pub const PAGE_SHIFT: u32 = 12;
/// Bits of a physical address that the 4 KiB granule's descriptors hold without LPA2 (Arm ARM D8.3).
pub const PHYS_BITS: u32 = 48;
/// Bits of a virtual address in either half of the address space (TnSZ = 16).
pub const VIRT_BITS: u32 = 48;

/// A physical address, below 2^48.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct PhysAddr(u64);

/// A canonical virtual address: the top 16 bits are all zero (TTBR0's half) or all one (TTBR1's).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct VirtAddr(u64);

macro_rules! address {
    ($name:ident) => {
        impl $name {
            /// The address as an integer.
            pub const fn get(self) -> u64 {
                self.0
            }

            /// The address `bytes` further on, or `None` where that is no valid address.
            pub const fn checked_add(self, bytes: u64) -> Option<Self> {
                match self.0.checked_add(bytes) {
                    Some(sum) if same_half(self.0, sum) => Self::new(sum),
                    _ => None,
                }
            }

            /// The address `bytes` before, or `None` where that is no valid address.
            pub const fn checked_sub(self, bytes: u64) -> Option<Self> {
                match self.0.checked_sub(bytes) {
                    Some(difference) if same_half(self.0, difference) => Self::new(difference),
                    _ => None,
                }
            }

            /// Bytes from `start` up to here, or `None` where `start` lies above.
            pub const fn bytes_from(self, start: Self) -> Option<u64> {
                self.0.checked_sub(start.0)
            }

            /// The largest address not above this one that is a multiple of `align` (a power of two).
            pub const fn align_down(self, align: u64) -> Self {
                debug_assert!(align.is_power_of_two());
                Self(self.0 & !(align - 1))
            }

            /// The smallest address not below this one that is a multiple of `align` (a power of two), or `None`
            /// where that is no valid address.
            pub const fn align_up(self, align: u64) -> Option<Self> {
                debug_assert!(align.is_power_of_two());
                self.checked_add(self.0.wrapping_neg() & (align - 1))
            }

            /// Whether the address is a multiple of `align` (a power of two).
            pub const fn is_aligned(self, align: u64) -> bool {
                debug_assert!(align.is_power_of_two());
                self.0 & (align - 1) == 0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#018x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }

        impl fmt::LowerHex for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::LowerHex::fmt(&self.0, f)
            }
        }
    };
}

/// Whether two integers would be addresses of the same half, so that no sum steps over the hole between the halves.
const fn same_half(a: u64, b: u64) -> bool {
    (a ^ b) >> VIRT_BITS == 0
}

address!(PhysAddr);
address!(VirtAddr);

impl PhysAddr {
    /// The physical address `address`, or `None` where it has more than [`PHYS_BITS`] bits.
    pub const fn new(address: u64) -> Option<Self> {
        if address >> PHYS_BITS == 0 { Some(Self(address)) } else { None }
    }
}

impl VirtAddr {
    /// The virtual address `address`, or `None` where it is not canonical.
    pub const fn new(address: u64) -> Option<Self> {
        let top = address >> VIRT_BITS;
        if top == 0 || top == u64::MAX >> VIRT_BITS { Some(Self(address)) } else { None }
    }

    /// Whether TTBR1 translates the address (the kernel's half).
    pub const fn is_upper(self) -> bool {
        self.0 >> 63 != 0
    }

    /// The address as a pointer. Making it is safe; whether it may be used is the caller's to prove.
    pub const fn as_mut_ptr<T>(self) -> *mut T {
        core::ptr::with_exposed_provenance_mut(self.0 as usize)
    }
}

/// One frame: 4 KiB of physical memory, known by its number (its address divided by [`PAGE_SIZE`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Frame(u64);

impl Frame {
    /// Frames that physical addresses can name.
    pub const LIMIT: u64 = 1 << (PHYS_BITS - PAGE_SHIFT);

    /// The frame that holds `address`.
    pub const fn containing(address: PhysAddr) -> Self {
        Self(address.0 >> PAGE_SHIFT)
    }

    /// The frame that begins at `address`, or `None` where none does.
    pub const fn from_start(address: PhysAddr) -> Option<Self> {
        if address.is_aligned(PAGE_SIZE) { Some(Self::containing(address)) } else { None }
    }

    /// Frame number `number`.
    ///
    /// # Panics
    /// Where `number` is not below [`Frame::LIMIT`]; debug builds only, as descriptors and metadata hold no such
    /// number.
    pub const fn from_number(number: u64) -> Self {
        debug_assert!(number < Self::LIMIT);
        Self(number)
    }

    /// Address of the frame's first byte.
    pub const fn start(self) -> PhysAddr {
        PhysAddr(self.0 << PAGE_SHIFT)
    }

    /// The frame's number.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The frame `frames` further on, or `None` beyond the last physical address.
    pub const fn checked_add(self, frames: u64) -> Option<Self> {
        match self.0.checked_add(frames) {
            Some(number) if number < Self::LIMIT => Some(Self(number)),
            _ => None,
        }
    }

    /// Whether the frame may begin a naturally aligned block of 2^`order` frames.
    pub const fn is_aligned(self, order: u32) -> bool {
        self.0 & ((1 << order) - 1) == 0
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frame({:#x})", self.start().0)
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.start(), f)
    }
}

/// One page: 4 KiB of virtual address space, aligned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Page(VirtAddr);

impl Page {
    /// The page that holds `address`.
    pub const fn containing(address: VirtAddr) -> Self {
        Self(address.align_down(PAGE_SIZE))
    }

    /// The page that begins at `address`, or `None` where none does.
    pub const fn from_start(address: VirtAddr) -> Option<Self> {
        if address.is_aligned(PAGE_SIZE) { Some(Self(address)) } else { None }
    }

    /// Address of the page's first byte.
    pub const fn start(self) -> VirtAddr {
        self.0
    }

    /// The page `pages` further on, or `None` where that lies outside this half of the address space.
    pub const fn checked_add(self, pages: u64) -> Option<Self> {
        let Some(bytes) = pages.checked_mul(PAGE_SIZE) else { return None };
        match self.0.checked_add(bytes) {
            Some(start) => Some(Self(start)),
            None => None,
        }
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Page({:#x})", self.0.0)
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// `count` frames from `start` on, all of them below [`Frame::LIMIT`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameRange {
    start: Frame,
    count: u64,
}

impl FrameRange {
    /// `count` frames from `start` on, or `None` where the last would lie beyond physical memory.
    pub const fn new(start: Frame, count: u64) -> Option<Self> {
        match start.0.checked_add(count) {
            Some(end) if end <= Frame::LIMIT => Some(Self { start, count }),
            _ => None,
        }
    }

    /// The frames that lie wholly within `bytes` bytes from `start` on (for memory that may be used).
    pub const fn within(start: PhysAddr, bytes: u64) -> Self {
        let end = Self::end_byte(start, bytes) >> PAGE_SHIFT;
        let first = start.0.div_ceil(PAGE_SIZE);
        Self { start: Frame(first), count: end.saturating_sub(first) }
    }

    /// The frames that `bytes` bytes from `start` on touch (for memory that must be left alone).
    pub const fn covering(start: PhysAddr, bytes: u64) -> Self {
        let end = Self::end_byte(start, bytes).div_ceil(PAGE_SIZE);
        let first = start.0 >> PAGE_SHIFT;
        Self { start: Frame(first), count: if bytes == 0 { 0 } else { end - first } }
    }

    /// First byte after the region, cut off at the end of physical memory.
    const fn end_byte(start: PhysAddr, bytes: u64) -> u64 {
        let end = start.0.saturating_add(bytes);
        if end > 1 << PHYS_BITS { 1 << PHYS_BITS } else { end }
    }

    /// The first frame.
    pub const fn start(&self) -> Frame {
        self.start
    }

    /// How many frames.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Number of the first frame after the range (up to [`Frame::LIMIT`], so not always a frame itself).
    pub const fn end_number(&self) -> u64 {
        self.start.0 + self.count
    }

    /// Whether `frame` lies in the range.
    pub const fn contains(&self, frame: Frame) -> bool {
        frame.0.wrapping_sub(self.start.0) < self.count
    }

    /// The frames in ascending order.
    pub const fn iter(&self) -> FrameIter {
        FrameIter { next: self.start.0, end: self.end_number() }
    }
}

impl IntoIterator for FrameRange {
    type Item = Frame;
    type IntoIter = FrameIter;

    fn into_iter(self) -> FrameIter {
        self.iter()
    }
}

/// The frames of a [`FrameRange`] in ascending order.
#[derive(Clone, Debug)]
pub struct FrameIter {
    next: u64,
    end: u64,
}

impl Iterator for FrameIter {
    type Item = Frame;

    fn next(&mut self) -> Option<Frame> {
        if self.next == self.end {
            return None;
        }
        let frame = Frame(self.next);
        self.next += 1;
        Some(frame)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.end - self.next) as usize;
        (left, Some(left))
    }
}

impl ExactSizeIterator for FrameIter {}

/// `count` pages from `start` on, all in one half of the address space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageRange {
    start: Page,
    count: u64,
}

impl PageRange {
    /// `count` pages from `start` on, or `None` where the last would lie outside `start`'s half.
    pub const fn new(start: Page, count: u64) -> Option<Self> {
        if count == 0 || start.checked_add(count - 1).is_some() { Some(Self { start, count }) } else { None }
    }

    /// The first page.
    pub const fn start(&self) -> Page {
        self.start
    }

    /// How many pages.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Length in bytes.
    pub const fn bytes(&self) -> u64 {
        self.count << PAGE_SHIFT
    }

    /// Whether `page` lies in the range.
    pub const fn contains(&self, page: Page) -> bool {
        page.0.0.wrapping_sub(self.start.0.0) >> PAGE_SHIFT < self.count
    }

    /// The pages in ascending order.
    pub const fn iter(&self) -> PageIter {
        PageIter { next: self.start.0.0, left: self.count }
    }
}

impl IntoIterator for PageRange {
    type Item = Page;
    type IntoIter = PageIter;

    fn into_iter(self) -> PageIter {
        self.iter()
    }
}

/// The pages of a [`PageRange`] in ascending order.
#[derive(Clone, Debug)]
pub struct PageIter {
    /// Wraps to zero after the last page of the upper half, where `left` is zero too.
    next: u64,
    left: u64,
}

impl Iterator for PageIter {
    type Item = Page;

    fn next(&mut self) -> Option<Page> {
        self.left = self.left.checked_sub(1)?;
        let page = Page(VirtAddr(self.next));
        self.next = self.next.wrapping_add(PAGE_SIZE);
        Some(page)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for PageIter {}

#[cfg(test)]
mod tests {
    use super::*;

    fn pa(address: u64) -> PhysAddr {
        PhysAddr::new(address).unwrap()
    }

    fn va(address: u64) -> VirtAddr {
        VirtAddr::new(address).unwrap()
    }

    #[test]
    fn physical_addresses_have_48_bits() {
        assert!(PhysAddr::new((1 << 48) - 1).is_some());
        assert_eq!(PhysAddr::new(1 << 48), None);
        assert_eq!(pa((1 << 48) - 1).checked_add(1), None);
        assert_eq!(pa(0).checked_sub(1), None);
        assert_eq!(pa((1 << 48) - 1).align_up(4096), None);
        assert_eq!(pa(0x1001).align_up(4096), Some(pa(0x2000)));
        assert_eq!(pa(0x1fff).align_down(4096), pa(0x1000));
        assert_eq!(pa(0x3000).bytes_from(pa(0x1000)), Some(0x2000));
        assert_eq!(pa(0x1000).bytes_from(pa(0x3000)), None);
    }

    #[test]
    fn virtual_addresses_are_canonical_and_keep_to_their_half() {
        assert_eq!(VirtAddr::new(1 << 48), None);
        assert_eq!(VirtAddr::new(0xfffe_ffff_ffff_ffff), None);
        assert!(va(0xffff_0000_0000_0000).is_upper());
        assert!(!va(0xffff_ffff_ffff).is_upper());
        assert_eq!(va(0xffff_ffff_ffff).checked_add(0xffff_0000_0000_0001), None);
        assert_eq!(va(u64::MAX).checked_add(1), None);
        assert_eq!(va(0xffff_0000_0000_0000).checked_sub(1), None);
    }

    #[test]
    fn frames_and_pages_round_as_named() {
        assert_eq!(Frame::from_start(pa(0x1001)), None);
        assert_eq!(Frame::containing(pa(0x1fff)).start(), pa(0x1000));
        assert_eq!(Frame::from_number(Frame::LIMIT - 1).checked_add(1), None);
        assert!(Frame::from_number(512).is_aligned(9) && !Frame::from_number(256).is_aligned(9));
        assert_eq!(Page::from_start(va(1)), None);
        assert_eq!(Page::containing(va(u64::MAX)).checked_add(1), None);
    }

    #[test]
    fn ranges_hold_what_they_say() {
        let usable = FrameRange::within(pa(0x1001), 0x2fff);
        assert_eq!((usable.start().number(), usable.count()), (2, 2));
        let reserved = FrameRange::covering(pa(0x1fff), 2);
        assert_eq!((reserved.start().number(), reserved.count()), (1, 2));
        assert_eq!(FrameRange::covering(pa(0x1fff), 0).count(), 0);
        assert_eq!(FrameRange::within(pa(0x1001), 0x10).count(), 0);
        assert!(usable.contains(Frame::from_number(3)) && !usable.contains(Frame::from_number(4)));
        assert!(FrameRange::new(Frame::from_number(Frame::LIMIT - 1), 2).is_none());
        assert!(FrameRange::new(Frame::from_number(5), u64::MAX).is_none());
        assert!(usable.iter().map(Frame::number).eq([2, 3]));
    }

    #[test]
    fn page_ranges_reach_the_last_page() {
        let last = Page::containing(va(u64::MAX));
        let range = PageRange::new(last, 1).unwrap();
        assert!(range.iter().eq([last]));
        assert!(range.contains(last));
        assert!(PageRange::new(last, 2).is_none());
        assert!(PageRange::new(Page::containing(va(0xffff_ffff_f000)), 2).is_none());
        assert!(PageRange::new(last, u64::MAX).is_none());
    }
}
