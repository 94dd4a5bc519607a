//! Ranges of physical memory, and sorted lists of them in fixed room.

use arrayvec::ArrayVec;
use core::fmt;
use thiserror::Error;

/// A range of physical addresses: not empty, and its end does not exceed `u64::MAX`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PhysRange {
    start: u64,
    size: u64,
}

impl PhysRange {
    /// `size` bytes from `start`; `None` if that is empty or wraps.
    pub const fn new(start: u64, size: u64) -> Option<Self> {
        match start.checked_add(size) {
            Some(_) if size > 0 => Some(PhysRange { start, size }),
            _ => None,
        }
    }

    /// First byte.
    pub const fn start(self) -> u64 {
        self.start
    }

    /// Length in bytes, at least 1.
    pub const fn size(self) -> u64 {
        self.size
    }

    /// The byte after the last.
    pub const fn end(self) -> u64 {
        self.start + self.size
    }

    /// Whether `address` lies inside.
    pub const fn contains(self, address: u64) -> bool {
        address >= self.start && address - self.start < self.size
    }

    /// Whether the two share a byte.
    pub const fn overlaps(self, other: PhysRange) -> bool {
        self.start < other.end() && other.start < self.end()
    }

    /// The smallest range that holds both, if they overlap or touch.
    fn joined(self, other: PhysRange) -> Option<PhysRange> {
        if self.start > other.end() || other.start > self.end() {
            return None;
        }
        let start = self.start.min(other.start);
        PhysRange::new(start, self.end().max(other.end()) - start)
    }
}

impl fmt::Display for PhysRange {
    /// First and last address: `0x40000000-0x7fffffff`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}-{:#x}", self.start, self.end() - 1)
    }
}

impl fmt::Debug for PhysRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Up to `N` ranges, ascending, none of which overlap or touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges<const N: usize>(ArrayVec<PhysRange, N>);

/// The list is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no room for another range")]
pub struct Full;

impl<const N: usize> Ranges<N> {
    /// Adds a range, merging it with those that it overlaps or touches.
    ///
    /// # Errors
    /// [`Full`], with the list as it was, where there is no room for one more.
    pub fn insert(&mut self, range: PhysRange) -> Result<(), Full> {
        let mut merged = range;
        // Those that `range` joins stand next to each other, since the list is sorted.
        let first = self.0.iter().take_while(|old| old.end() < range.start).count();
        let mut after = first;
        while let Some(joined) = self.0.get(after).and_then(|old| merged.joined(*old)) {
            merged = joined;
            after += 1;
        }
        if after == first {
            return self.0.try_insert(first, merged).map_err(|_| Full);
        }
        self.0.drain(first + 1..after);
        self.0[first] = merged;
        Ok(())
    }

    /// Takes a range out, of whatever holds parts of it.
    ///
    /// # Errors
    /// [`Full`], with the list as it was, where a range would fall in two and there is no room for both.
    pub fn remove(&mut self, range: PhysRange) -> Result<(), Full> {
        let mut left = ArrayVec::new();
        for &old in &self.0 {
            let below = PhysRange::new(old.start, old.end().min(range.start).saturating_sub(old.start));
            let start = old.start.max(range.end());
            let above = PhysRange::new(start, old.end().saturating_sub(start));
            for part in below.into_iter().chain(above) {
                left.try_push(part).map_err(|_| Full)?;
            }
        }
        self.0 = left;
        Ok(())
    }

    /// The ranges, ascending.
    pub fn as_slice(&self) -> &[PhysRange] {
        &self.0
    }

    /// The sum of the sizes in bytes.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|range| range.size()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn range(start: u64, end: u64) -> PhysRange {
        PhysRange::new(start, end - start).unwrap()
    }

    fn list<const N: usize>(pairs: &[(u64, u64)]) -> Ranges<N> {
        let mut list = Ranges::default();
        for &(start, end) in pairs {
            list.insert(range(start, end)).unwrap();
        }
        list
    }

    #[test]
    fn range_limits() {
        assert_eq!(PhysRange::new(5, 0), None);
        assert_eq!(PhysRange::new(u64::MAX, 2), None);
        let last = PhysRange::new(u64::MAX - 1, 1).unwrap();
        assert_eq!(last.end(), u64::MAX);
        assert!(last.contains(u64::MAX - 1) && !last.contains(u64::MAX) && !last.contains(0));
    }

    #[test]
    fn sorts_and_merges() {
        assert_eq!(list::<4>(&[(8, 9), (2, 4), (5, 6)]).as_slice(), [range(2, 4), range(5, 6), range(8, 9)]);
        assert_eq!(list::<4>(&[(2, 4), (4, 6)]).as_slice(), [range(2, 6)], "adjacent");
        assert_eq!(list::<4>(&[(4, 6), (2, 4)]).as_slice(), [range(2, 6)], "adjacent, other way round");
        assert_eq!(list::<4>(&[(2, 9), (3, 4)]).as_slice(), [range(2, 9)], "inside");
        assert_eq!(list::<4>(&[(3, 4), (6, 7), (9, 10), (2, 9)]).as_slice(), [range(2, 10)], "over several");
        assert_eq!(list::<4>(&[(3, 4), (6, 7), (9, 10)]).total(), 3);
    }

    #[test]
    fn full_list_still_merges() {
        let mut full = list::<2>(&[(1, 2), (5, 6)]);
        assert_eq!(full.insert(range(8, 9)), Err(Full));
        assert_eq!(full.as_slice(), [range(1, 2), range(5, 6)]);
        full.insert(range(2, 5)).unwrap();
        assert_eq!(full.as_slice(), [range(1, 6)]);
    }

    #[test]
    fn removes_ends_middles_and_wholes() {
        let without = |start, end| {
            let mut list = list::<4>(&[(2, 6), (8, 12)]);
            list.remove(range(start, end)).unwrap();
            list.as_slice().to_vec()
        };
        assert_eq!(without(3, 4), [range(2, 3), range(4, 6), range(8, 12)], "a middle");
        assert_eq!(without(1, 3), [range(3, 6), range(8, 12)], "a start");
        assert_eq!(without(5, 9), [range(2, 5), range(9, 12)], "an end and a start");
        assert_eq!(without(2, 6), [range(8, 12)], "a whole");
        assert_eq!(without(0, 20), [], "all");
        assert_eq!(without(6, 8), [range(2, 6), range(8, 12)], "a gap");
        let mut full = list::<2>(&[(2, 6), (8, 12)]);
        assert_eq!(full.remove(range(3, 4)), Err(Full));
        assert_eq!(full.as_slice(), [range(2, 6), range(8, 12)]);
    }

    /// Against a set of bytes, for every pair of ranges in a small space put after two fixed ones.
    #[test]
    fn agrees_with_a_set() {
        let all: Vec<_> = (0..12u64).flat_map(|s| (s + 1..=12).map(move |e| (s, e))).collect();
        for &a in &all {
            for &b in &all {
                let pairs = [(3, 5), (7, 8), a, b];
                let got = list::<8>(&pairs);
                for byte in 0..13 {
                    let want = pairs.iter().any(|&(s, e)| s <= byte && byte < e);
                    let count = got.as_slice().iter().filter(|r| r.contains(byte)).count();
                    assert_eq!(count, usize::from(want), "{pairs:?} at {byte}");
                }
                assert!(got.as_slice().windows(2).all(|w| w[0].end() < w[1].start()));
            }
        }
    }
}
