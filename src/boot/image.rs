//! Where the linker has put the image's parts (`kernel.ld`).

use super::entry::BOOT_TABLES;
use core::ops::Range;
use mm::addr::{Frame, FrameRange, PhysAddr};

/// Alignment of every part of the image: one block of the linear map.
pub const BLOCK: u64 = 2 << 20;

/// A part of the image, whole blocks of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Code.
    Text,
    /// Constants and the symbol table.
    Rodata,
    /// Data, zero-initialised data and the boot stack.
    Data,
    /// The block of translation tables.
    Tables,
}

impl Part {
    /// All parts, in their order in memory.
    pub const ALL: [Part; 4] = [Part::Text, Part::Rodata, Part::Data, Part::Tables];

    /// Virtual addresses of the part as linked, its end rounded up to a block.
    pub fn link_range(self) -> Range<u64> {
        let (start, end) = match self {
            Part::Text => (&raw const __text_start, &raw const __text_end),
            Part::Rodata => (&raw const __rodata_start, &raw const __rodata_end),
            Part::Data => (&raw const __data_start, &raw const __data_end),
            Part::Tables => (&raw const __tables_start, &raw const __tables_end),
        };
        address(start)..address(end).next_multiple_of(BLOCK)
    }
}

/// Where the image lies in physical memory.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    /// Physical address of the image's first byte, a multiple of [`BLOCK`].
    base: u64,
}

impl Placement {
    /// The image whose first byte is at `base`, as the entry code found it.
    pub(super) const fn new(base: u64) -> Self {
        Placement { base }
    }

    /// Physical addresses of `part`.
    pub fn range(self, part: Part) -> Range<u64> {
        let link = part.link_range();
        self.base + (link.start - start())..self.base + (link.end - start())
    }

    /// Physical addresses of the whole image.
    pub fn all(self) -> Range<u64> {
        self.base..self.range(Part::Tables).end
    }

    /// The frames of the boot tables.
    pub fn boot_tables(self) -> FrameRange {
        FrameRange::new(Frame::containing(self.start(Part::Tables)), BOOT_TABLES)
            .expect("the image lies in physical memory")
    }

    /// The first byte of `part` in physical memory.
    pub fn start(self, part: Part) -> PhysAddr {
        PhysAddr::new(self.range(part).start).expect("the image lies in physical memory")
    }
}

/// Link address of the image's first byte.
pub fn start() -> u64 {
    address(&raw const __text_start)
}

/// The boot CPU's first stack.
pub fn boot_stack() -> Range<u64> {
    address(&raw const __boot_stack_bottom)..address(&raw const __boot_stack_top)
}

/// The boot CPU's overflow stack.
pub fn overflow_stack() -> Range<u64> {
    address(&raw const __boot_stack_top)..address(&raw const __overflow_stack_top)
}

fn address(symbol: *const u8) -> u64 {
    symbol.addr() as u64
}

// SAFETY: the linker script defines all of these; only their addresses are used.
unsafe extern "C" {
    static __text_start: u8;
    static __text_end: u8;
    static __rodata_start: u8;
    static __rodata_end: u8;
    static __data_start: u8;
    static __data_end: u8;
    static __tables_start: u8;
    static __tables_end: u8;
    static __boot_stack_bottom: u8;
    static __boot_stack_top: u8;
    static __overflow_stack_top: u8;
}
