//! The buddy allocator: free blocks of 2^0 to 2^10 frames, split and merged in a bounded number of steps.
//!
//! Free blocks of one order and zone form a doubly linked list through the metadata of their first frames, so any of
//! them is taken out without a search. Whether a block's buddy is free and whole is read off the buddy's own metadata:
//! the kind `Free` and the order stand only in the first frame of a free block.

use super::meta::{FrameMeta, Kind, META_LIMIT, state};
use crate::addr::{Frame, FrameRange};

/// The largest order of a free block: 4 MiB.
pub const MAX_ORDER: u32 = 10;
const ORDERS: usize = MAX_ORDER as usize + 1;

/// Order of a 2 MiB block: of a table-pool block, and the largest of a folio.
pub const BLOCK_ORDER: u32 = 9;

/// The two parts of memory, below and from the boundary on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Zone {
    /// Low memory, which the linear map holds in 2 MiB blocks, so that each can carry the page-table key by itself.
    /// Table-pool blocks come from here alone.
    Tables = 0,
    /// All other memory: for data, which turns to `Tables` only when this is used up.
    Data = 1,
}

/// Where data comes from, in order of preference.
const DATA_ZONES: [Zone; 2] = [Zone::Data, Zone::Tables];

/// How many frames a zone has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ZoneStats {
    /// Frames the zone was given.
    pub total: u64,
    /// Those of them that are free.
    pub free: u64,
}

/// A number coded as a link: zero means none.
type Link = u32;

/// The metadata of frame `number`.
fn meta(number: u32) -> &'static FrameMeta {
    Frame::from_number(number.into()).meta()
}

struct FreeLists {
    heads: [Link; ORDERS],
    /// Bit `n` is set where the list of order `n` has a block.
    filled: u32,
    stats: ZoneStats,
}

impl FreeLists {
    const fn new() -> Self {
        Self { heads: [0; ORDERS], filled: 0, stats: ZoneStats { total: 0, free: 0 } }
    }

    fn push(&mut self, block: u32, order: u32) {
        let head = &mut self.heads[order as usize];
        let first = meta(block);
        first.set_state(state(Kind::Free, order));
        first.set_next(*head);
        first.set_previous(0);
        if let Some(next) = head.checked_sub(1) {
            meta(next).set_previous(block + 1);
        }
        *head = block + 1;
        self.filled |= 1 << order;
    }

    /// Takes `block` off the list of `order`; its first frame becomes `Held`.
    fn unlink(&mut self, block: u32, order: u32) {
        let first = meta(block);
        let (next, previous) = (first.next(), first.previous());
        first.set_state(state(Kind::Held, 0));
        if let Some(next) = next.checked_sub(1) {
            meta(next).set_previous(previous);
        }
        match previous.checked_sub(1) {
            Some(previous) => meta(previous).set_next(next),
            None => {
                self.heads[order as usize] = next;
                self.filled &= !(u32::from(next == 0) << order);
            }
        }
    }

    /// Order of the smallest free block of `order` or more.
    fn smallest(&self, order: u32) -> Option<u32> {
        let fitting = self.filled >> order;
        (fitting != 0).then(|| order + fitting.trailing_zeros())
    }
}

/// All free blocks of the machine.
pub(super) struct Buddy {
    zones: [FreeLists; 2],
    /// Number of the first frame of `Zone::Data`.
    boundary: u32,
    /// Lists touched so far, for the tests that show operations to be bounded.
    #[cfg(test)]
    pub(super) steps: u64,
}

impl Buddy {
    pub(super) const fn new() -> Self {
        Self {
            zones: [FreeLists::new(), FreeLists::new()],
            boundary: 0,
            #[cfg(test)]
            steps: 0,
        }
    }

    #[cfg(test)]
    fn count_steps(&mut self, steps: u32) {
        self.steps += u64::from(steps);
    }

    #[cfg(not(test))]
    fn count_steps(&mut self, _steps: u32) {}

    pub(super) fn set_boundary(&mut self, boundary: Frame) {
        assert!(boundary.is_aligned(BLOCK_ORDER), "zone boundary {boundary} is no multiple of 2 MiB");
        assert!(self.zones.iter().all(|zone| zone.stats.total == 0), "zone boundary set after memory was added");
        self.boundary = boundary.number().min(META_LIMIT) as u32;
    }

    pub(super) fn zone(&self, number: u32) -> Zone {
        if number < self.boundary { Zone::Tables } else { Zone::Data }
    }

    pub(super) fn stats(&self, zone: Zone) -> ZoneStats {
        self.zones[zone as usize].stats
    }

    /// Takes frames in as free memory.
    ///
    /// # Safety
    /// As of `Frames::add_range`.
    pub(super) unsafe fn add_range(&mut self, range: FrameRange) {
        assert!(range.end_number() <= META_LIMIT, "memory beyond 16 TiB");
        for frame in range {
            frame.meta().set_state(state(Kind::Held, 0));
            let zone = self.zone(frame.number() as u32);
            self.zones[zone as usize].stats.total += 1;
        }
        self.free_run(range.start().number() as u32, range.count() as u32);
    }

    /// Frees `count` frames from `start` on, whole blocks at a time.
    pub(super) fn free_run(&mut self, mut start: u32, mut count: u32) {
        while count > 0 {
            let mut order = start.trailing_zeros().min(count.ilog2()).min(MAX_ORDER);
            if order > BLOCK_ORDER && self.zone(start) != self.zone(start + (1 << BLOCK_ORDER)) {
                order = BLOCK_ORDER;
            }
            self.free(start, order);
            start += 1 << order;
            count -= 1 << order;
        }
    }

    /// Frees a block whose frames are all `Held`, merging it with its buddies as far as those are free.
    pub(super) fn free(&mut self, mut block: u32, mut order: u32) {
        let zone = self.zone(block);
        self.zones[zone as usize].stats.free += 1 << order;
        while order < MAX_ORDER {
            let buddy = block ^ 1 << order;
            // The boundary is a multiple of 2 MiB: smaller buddies lie on one side of it.
            let crosses = order >= BLOCK_ORDER && self.zone(buddy) != zone;
            if crosses || !meta(buddy).has_state(state(Kind::Free, order)) {
                break;
            }
            self.zones[zone as usize].unlink(buddy, order);
            block &= !(1 << order);
            order += 1;
            self.count_steps(1);
        }
        self.zones[zone as usize].push(block, order);
        self.count_steps(1);
    }

    /// Takes a block of `order` for data from the preferred zone that has one. Its frames are `Held`.
    pub(super) fn alloc_data(&mut self, order: u32) -> Option<u32> {
        DATA_ZONES.iter().find_map(|&zone| self.alloc(zone, order))
    }

    /// Takes a block of `order` from `zone`. Its frames are `Held`.
    pub(super) fn alloc(&mut self, zone: Zone, order: u32) -> Option<u32> {
        let from = self.zones[zone as usize].smallest(order)?;
        Some(self.take(zone, from, order))
    }

    /// Takes 2^k frames, as many as are free in one block but at most `limit` (not 0), for data. Returns the first and
    /// how many. The frames are `Held`.
    pub(super) fn alloc_up_to(&mut self, limit: u32) -> Option<(u32, u32)> {
        let (zone, from) = DATA_ZONES.iter().find_map(|&zone| Some((zone, self.zones[zone as usize].smallest(0)?)))?;
        let order = from.min(limit.ilog2());
        Some((self.take(zone, from, order), 1 << order))
    }

    /// Takes the first block of order `from`, which is there, and gives back all but its first 2^`order` frames.
    fn take(&mut self, zone: Zone, from: u32, order: u32) -> u32 {
        let lists = &mut self.zones[zone as usize];
        let block = lists.heads[from as usize] - 1;
        lists.unlink(block, from);
        lists.stats.free -= 1 << order;
        for half in (order..from).rev() {
            lists.push(block + (1 << half), half);
        }
        self.count_steps(from - order + 1);
        block
    }
}

#[cfg(test)]
impl Buddy {
    /// The free blocks of every zone and order, each as (zone, order, number), in ascending order.
    pub(super) fn blocks(&self) -> std::vec::Vec<(Zone, u32, u32)> {
        let mut blocks = std::vec::Vec::new();
        for zone in [Zone::Tables, Zone::Data] {
            for order in 0..=MAX_ORDER {
                let mut previous = 0;
                let mut at = self.zones[zone as usize].heads[order as usize];
                assert_eq!(at != 0, self.zones[zone as usize].filled >> order & 1 == 1);
                while let Some(block) = at.checked_sub(1) {
                    assert_eq!(meta(block).previous(), previous);
                    assert!(meta(block).has_state(state(Kind::Free, order)));
                    assert_eq!(self.zone(block), zone);
                    blocks.push((zone, order, block));
                    (previous, at) = (at, meta(block).next());
                }
            }
        }
        blocks.sort_by_key(|&(zone, order, block)| (zone as u32, order, block));
        blocks
    }
}
