//! RAM before there is a frame allocator: which of it is free, and taking pieces of that.

use super::image::Placement;
use core::fmt;
use core::ops::Range;
use mm::addr::{FrameRange, PhysAddr};
use platform::machine::{MAX_BANKS, MAX_RESERVED, Machine, PhysRange, Ranges};

/// Pieces that boot itself takes, the image among them.
const TAKEN_BY_BOOT: usize = MAX_BANKS + 4;

/// No free piece of RAM is as large as what was asked for, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom {
    bytes: u64,
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no {} bytes in one piece", self.bytes)
    }
}

impl core::error::Error for NoRoom {}

/// The machine's RAM.
pub(crate) struct Ram {
    banks: Ranges<MAX_BANKS>,
    taken: Ranges<{ MAX_RESERVED + TAKEN_BY_BOOT }>,
}

impl Ram {
    /// All RAM, of which what the device tree reserves and the image are taken.
    pub(super) fn new(machine: &Machine<'_>, image: Placement) -> Self {
        let mut ram = Ram { banks: machine.banks.clone(), taken: Ranges::default() };
        for range in machine.reserved.as_slice() {
            ram.mark(range.start()..range.end());
        }
        ram.mark(image.all());
        ram
    }

    fn mark(&mut self, range: Range<u64>) {
        if let Some(range) = PhysRange::new(range.start, range.end - range.start) {
            self.taken.insert(range).expect("room for every reserved range and all that boot takes");
        }
    }

    /// Physical address of the first byte of RAM.
    pub(super) fn start(&self) -> u64 {
        self.banks.as_slice().first().map_or(0, |bank| bank.start())
    }

    /// Bytes of RAM.
    pub(super) fn total(&self) -> u64 {
        self.banks.total()
    }

    /// The banks' whole frames.
    pub(super) fn banks(&self) -> impl Iterator<Item = FrameRange> + '_ {
        self.banks.as_slice().iter().map(|bank| frames(bank.start()..bank.end())).filter(|bank| bank.count() > 0)
    }

    /// Free RAM, byte ranges in ascending order.
    fn gaps(&self) -> impl DoubleEndedIterator<Item = Range<u64>> + '_ {
        self.banks.as_slice().iter().flat_map(|bank| {
            let taken = self.taken.as_slice();
            // A gap begins where the bank does and where a taken range ends, and lasts until the next one begins.
            (0..=taken.len()).map(move |i| {
                let start = i.checked_sub(1).map_or(0, |before| taken[before].end());
                let end = taken.get(i).map_or(u64::MAX, |next| next.start());
                start.max(bank.start())..end.min(bank.end())
            })
        })
    }

    /// The free frames, in ascending order.
    pub(super) fn free(&self) -> impl Iterator<Item = FrameRange> + '_ {
        self.gaps().filter(|gap| !gap.is_empty()).map(frames).filter(|range| range.count() > 0)
    }

    /// Takes `bytes` of free RAM, aligned to `align` (a power of two): the highest that there are.
    pub(crate) fn take(&mut self, bytes: u64, align: u64) -> Result<Range<u64>, NoRoom> {
        let found = self.gaps().rev().find_map(|gap| {
            let start = gap.end.checked_sub(bytes)? & !(align - 1);
            (start >= gap.start).then_some(start..start + bytes)
        });
        let range = found.ok_or(NoRoom { bytes })?;
        self.mark(range.clone());
        Ok(range)
    }
}

/// The frames that lie wholly in `range`.
fn frames(range: Range<u64>) -> FrameRange {
    let start = PhysAddr::new(range.start).expect("RAM lies in physical memory");
    FrameRange::within(start, range.end - range.start)
}
