//! Each CPU's front: a small stack of free frames that is used without a lock.

use core::sync::atomic::{AtomicU32, Ordering};

use super::buddy::Buddy;

/// Frames a front can hold. With its count it fills 256 bytes.
pub(super) const CAPACITY: usize = 63;
/// Frames moved between a front and the buddy at a time.
pub(super) const BATCH: usize = 32;

/// A stack of free frames, all of them `Held` and of order 0.
///
/// It is used by one CPU with interrupts masked, so plain loads and stores do; they are atomics (which compile to just
/// those) so that other CPUs may look at it for statistics.
#[repr(C, align(64))]
pub(super) struct Front {
    count: AtomicU32,
    frames: [AtomicU32; CAPACITY],
}

impl Front {
    pub(super) const fn new() -> Self {
        Self { count: AtomicU32::new(0), frames: [const { AtomicU32::new(0) }; CAPACITY] }
    }

    #[inline(always)]
    fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed) as usize
    }

    #[inline(always)]
    fn set_count(&self, count: usize) {
        self.count.store(count as u32, Ordering::Relaxed);
    }

    /// Takes the frame that was freed last.
    #[inline(always)]
    pub(super) fn pop(&self) -> Option<u32> {
        let left = self.count().checked_sub(1)?;
        let frame = self.frames.get(left)?.load(Ordering::Relaxed);
        self.set_count(left);
        Some(frame)
    }

    /// Puts a frame on top; false where the front is full.
    #[inline(always)]
    pub(super) fn push(&self, frame: u32) -> bool {
        let count = self.count();
        let Some(slot) = self.frames.get(count) else { return false };
        slot.store(frame, Ordering::Relaxed);
        self.set_count(count + 1);
        true
    }

    /// Fills the empty front with at least half a batch, or with what is left; it pops them in ascending order of address
    /// where they come from one block.
    ///
    /// Each block may have up to a whole batch: to ask for just what is missing would split blocks for the remainders, and
    /// then again for the remainders of those.
    pub(super) fn refill(&self, buddy: &mut Buddy) {
        debug_assert_eq!(self.count(), 0);
        let mut count = 0;
        while count < BATCH / 2 {
            let Some((first, taken)) = buddy.alloc_up_to(BATCH as u32) else { break };
            for (slot, frame) in self.frames[count..].iter().zip((first..first + taken).rev()) {
                slot.store(frame, Ordering::Relaxed);
            }
            count += taken as usize;
        }
        self.set_count(count);
    }

    /// Puts frames from `source` on top until it has no more or the front is full.
    #[inline(always)]
    pub(super) fn fill(&self, mut source: impl FnMut() -> Option<u32>) {
        let mut count = self.count();
        for slot in self.frames.iter().skip(count) {
            let Some(frame) = source() else { break };
            slot.store(frame, Ordering::Relaxed);
            count += 1;
        }
        self.set_count(count);
    }

    /// Takes up to `most` frames, the one that was freed last first, and shows them to `each`. Returns how many.
    #[inline(always)]
    pub(super) fn take(&self, most: usize, mut each: impl FnMut(u32)) -> usize {
        let count = self.count();
        let left = count.saturating_sub(most);
        let taken = &self.frames[left..count];
        taken.iter().rev().for_each(|slot| each(slot.load(Ordering::Relaxed)));
        self.set_count(left);
        taken.len()
    }

    /// Whether there is nothing to take.
    pub(super) fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Gives the last `amount` frames back, or all there are.
    ///
    /// Memory that was allocated in one go is mostly freed in one go as well, so frames that follow each other, up or
    /// down, go back together as whole blocks instead of meeting again one merge at a time.
    pub(super) fn drain(&self, buddy: &mut Buddy, amount: usize) {
        let count = self.count();
        let left = count.saturating_sub(amount);
        let mut frames = self.frames[left..count].iter().map(|slot| slot.load(Ordering::Relaxed));
        let mut upcoming = frames.next();
        while let Some(first) = upcoming {
            upcoming = frames.next();
            let step = upcoming.map_or(0, |next| next.wrapping_sub(first));
            let mut last = first;
            if step == 1 || step == u32::MAX {
                while upcoming == Some(last.wrapping_add(step)) {
                    last = last.wrapping_add(step);
                    upcoming = frames.next();
                }
            }
            buddy.free_run(first.min(last), first.abs_diff(last) + 1);
        }
        self.set_count(left);
    }

    /// Calls `visit` with every frame held; of another CPU's front that is a guess.
    pub(super) fn for_each(&self, mut visit: impl FnMut(u32)) {
        for slot in self.frames.iter().take(self.count()) {
            visit(slot.load(Ordering::Relaxed));
        }
    }
}
