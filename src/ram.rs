//! RAM before there is a frame allocator: which of it is free, and taking pieces of that.

use core::fmt;
use core::ops::Range;
use mm::addr::{FrameRange, PhysAddr};
use platform::machine::{MAX_BANKS, MAX_RESERVED, PhysRange, Ranges};

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
#[derive(Clone, Debug)]
pub struct Ram {
    banks: Ranges<MAX_BANKS>,
    taken: Ranges<{ MAX_RESERVED + TAKEN_BY_BOOT }>,
}

impl Ram {
    /// RAM of these banks, of which what is reserved and the image (physical addresses) are taken.
    pub fn new(banks: &Ranges<MAX_BANKS>, reserved: &Ranges<MAX_RESERVED>, image: Range<u64>) -> Self {
        let mut ram = Ram { banks: banks.clone(), taken: Ranges::default() };
        for range in reserved.as_slice() {
            ram.mark(range.start()..range.end());
        }
        ram.mark(image);
        ram
    }

    fn mark(&mut self, range: Range<u64>) {
        if let Some(range) = PhysRange::new(range.start, range.end - range.start) {
            self.taken.insert(range).expect("room for every reserved range and all that boot takes");
        }
    }

    /// Physical address of the first byte of RAM.
    pub fn start(&self) -> u64 {
        self.banks.as_slice().first().map_or(0, |bank| bank.start())
    }

    /// Bytes of RAM.
    pub fn total(&self) -> u64 {
        self.banks.total()
    }

    /// Whether all of `range` is RAM of one bank.
    pub fn holds(&self, range: &Range<u64>) -> bool {
        self.banks.as_slice().iter().any(|bank| bank.start() <= range.start && range.end <= bank.end())
    }

    /// The address at which `bytes` of RAM have come, counted from the first bank on; the end of RAM where there is less.
    pub fn end_of_first(&self, bytes: u64) -> u64 {
        let mut left = bytes;
        let mut end = 0;
        for bank in self.banks.as_slice() {
            let part = left.min(bank.size());
            end = bank.start() + part;
            left -= part;
            if left == 0 {
                break;
            }
        }
        end
    }

    /// The banks' whole frames.
    pub fn banks(&self) -> impl Iterator<Item = FrameRange> + '_ {
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
    pub fn free(&self) -> impl Iterator<Item = FrameRange> + '_ {
        self.gaps().filter(|gap| !gap.is_empty()).map(frames).filter(|range| range.count() > 0)
    }

    /// Takes `bytes` of free RAM, aligned to `align` (a power of two): the highest that there are.
    ///
    /// # Errors
    /// [`NoRoom`] where no free piece is as large.
    pub fn take(&mut self, bytes: u64, align: u64) -> Result<Range<u64>, NoRoom> {
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

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::vec::Vec;

    const MIB: u64 = 1 << 20;

    fn ranges<const N: usize>(list: &[Range<u64>]) -> Ranges<N> {
        let mut ranges = Ranges::default();
        for range in list {
            ranges.insert(PhysRange::new(range.start, range.end - range.start).unwrap()).unwrap();
        }
        ranges
    }

    /// Free frames as byte ranges.
    fn free(ram: &Ram) -> Vec<Range<u64>> {
        ram.free().map(|free| free.start().start().get()..free.end_number() << 12).collect()
    }

    /// Two banks, something reserved at their edges, across them and outside, and the image in the first.
    fn sample() -> Ram {
        let banks = ranges(&[64 * MIB..128 * MIB, 256 * MIB..300 * MIB]);
        let reserved = ranges(&[0..65 * MIB, 120 * MIB..257 * MIB, 299 * MIB..400 * MIB, 270 * MIB + 1..270 * MIB + 2]);
        Ram::new(&banks, &reserved, 70 * MIB..78 * MIB)
    }

    #[test]
    fn free_is_ram_that_nothing_takes_in_whole_frames() {
        let ram = sample();
        assert_eq!((ram.start(), ram.total()), (64 * MIB, 108 * MIB));
        let expected = [65 * MIB..70 * MIB, 78 * MIB..120 * MIB, 257 * MIB..270 * MIB, 270 * MIB + 4096..299 * MIB];
        assert_eq!(free(&ram), expected);
    }

    #[test]
    fn ram_is_counted_across_holes() {
        let ram = sample();
        let at = |mib| ram.end_of_first(mib * MIB) / MIB;
        assert_eq!([at(1), at(64), at(65), at(108), at(109)], [65, 128, 257, 300, 300]);
        assert!(ram.holds(&(64 * MIB..128 * MIB)) && ram.holds(&(70 * MIB..78 * MIB)));
        for outside in [60 * MIB..70 * MIB, 127 * MIB..129 * MIB, 100 * MIB..260 * MIB, 200 * MIB..201 * MIB] {
            assert!(!ram.holds(&outside), "{outside:x?}");
        }
    }

    #[test]
    fn taking_gives_the_highest_that_fits_and_is_taken_then() {
        let mut ram = sample();
        assert_eq!(ram.take(4096, 4096), Ok(299 * MIB - 4096..299 * MIB));
        assert_eq!(ram.take(4 * MIB, 2 * MIB), Ok(294 * MIB..298 * MIB));
        assert_eq!(ram.take(40 * MIB, 2 * MIB), Ok(80 * MIB..120 * MIB), "the first bank has the larger piece");
        assert_eq!(ram.take(40 * MIB, 4096), Err(NoRoom { bytes: 40 * MIB }));
        let expected = [
            65 * MIB..70 * MIB,
            78 * MIB..80 * MIB,
            257 * MIB..270 * MIB,
            270 * MIB + 4096..294 * MIB,
            298 * MIB..299 * MIB - 4096,
        ];
        assert_eq!(free(&ram), expected);
    }

    #[test]
    fn everything_can_be_taken_once() {
        let mut ram = sample();
        let pages: u64 = ram.free().map(|free| free.count()).sum();
        let taken: Vec<_> = core::iter::from_fn(|| ram.take(MIB, MIB).ok()).collect();
        assert!(taken.is_sorted_by(|a, b| a.start >= b.end), "no two overlap");
        let left: u64 = ram.free().map(|free| free.count()).sum();
        assert_eq!(left + 256 * taken.len() as u64, pages);
    }
}
