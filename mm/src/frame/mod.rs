//! Frames of physical memory: their metadata ([`FrameMeta`]), and who hands them out ([`Frames`]).
//!
//! Three layers, from the bottom up:
//! - 16 bytes of metadata per frame, in one array indexed by frame number (`meta`);
//! - a buddy allocator for blocks of up to 4 MiB, in two zones, behind one lock (`buddy`);
//! - per CPU a stack of free single frames, used without a lock and refilled in batches (`front`).

use core::fmt;

use platform::arch::MAX_CPUS;
use spin::Mutex;

use crate::addr::{Frame, FrameRange};
use buddy::Buddy;
use front::Front;
use meta::state;

mod buddy;
mod front;
mod meta;

#[cfg(test)]
mod tests;

pub use buddy::{BLOCK_ORDER, MAX_ORDER, Zone, ZoneStats};
pub use meta::{FrameMeta, Kind};

/// No free block was left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory {
    /// Order of the block asked for: 2^order frames in a row.
    pub order: u32,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "out of memory: no free block of order {}", self.order)
    }
}

impl core::error::Error for OutOfMemory {}

/// How much memory there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Of [`Zone::Tables`].
    pub tables: ZoneStats,
    /// Of [`Zone::Data`].
    pub data: ZoneStats,
}

impl Stats {
    /// Frames given to the allocator.
    pub const fn total(&self) -> u64 {
        self.tables.total + self.data.total
    }

    /// Frames that are free, those in the CPUs' fronts included.
    pub const fn free(&self) -> u64 {
        self.tables.free + self.data.free
    }
}

/// All frames of the machine. Meant to be a `static`, where it is all zero until memory is added.
///
/// Nothing here touches what frames contain. Frames are plain numbers, so it is for the callers to free only what they
/// own and only once; debug builds check what the metadata can tell.
pub struct Frames {
    fronts: [Front; MAX_CPUS],
    buddy: Mutex<Buddy>,
    #[cfg(any(not(target_os = "none"), feature = "inject"))]
    inject: inject::Countdown,
}

impl Default for Frames {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frames").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl Frames {
    /// An allocator that has no memory yet.
    pub const fn new() -> Self {
        Self {
            fronts: [const { Front::new() }; MAX_CPUS],
            buddy: Mutex::new(Buddy::new()),
            #[cfg(any(not(target_os = "none"), feature = "inject"))]
            inject: inject::Countdown::new(),
        }
    }

    /// Makes the frames below `boundary` [`Zone::Tables`] and the others [`Zone::Data`]; without it all are `Data`.
    ///
    /// # Panics
    /// Where `boundary` is not 2 MiB-aligned, or memory was added before.
    pub fn set_boundary(&self, boundary: Frame) {
        self.with_buddy(|buddy| buddy.set_boundary(boundary));
    }

    /// Takes frames in as free memory, at boot. Linear in their number.
    ///
    /// # Panics
    /// Where the range reaches beyond 16 TiB (frame numbers must fit the metadata's links).
    ///
    /// # Safety
    /// 1. All of `range` is RAM that nobody uses and that was not added before.
    /// 2. The metadata of every 4 MiB-aligned block of physical memory that `range` touches is mapped for ever, and was
    ///    zero before the first use: blocks merge by looking at a neighbour's metadata, which may not be RAM.
    pub unsafe fn add_range(&self, range: FrameRange) {
        // SAFETY: the caller's promise is passed on.
        self.with_buddy(|buddy| unsafe { buddy.add_range(range) });
    }

    /// Takes a single frame: `Data`, with one reference. Its contents are anything.
    ///
    /// # Errors
    /// [`OutOfMemory`] where the buddy and this CPU's front are empty; other CPUs' fronts may hold up to 63 frames each.
    #[inline]
    pub fn alloc(&self) -> Result<Frame, OutOfMemory> {
        self.check_injected(0)?;
        let popped = self.on_front(|front| match front.pop() {
            None => self.refill_and_pop(front),
            popped => popped,
        });
        let frame = Frame::from_number(popped.ok_or(OutOfMemory { order: 0 })?.into());
        frame.meta().begin(state(Kind::Data, 0));
        Ok(frame)
    }

    #[cold]
    #[inline(never)]
    fn refill_and_pop(&self, front: &Front) -> Option<u32> {
        front.refill(&mut self.buddy.lock());
        front.pop()
    }

    /// Takes `count` single frames as [`Frames::alloc`] does, as a chain linked by [`FrameMeta::set_link`] (`None` for no
    /// frames): all of them, or none. Interrupts are masked for a batch or a block at a time.
    ///
    /// # Errors
    /// As [`Frames::alloc`].
    #[inline]
    pub fn alloc_chain(&self, count: u64) -> Result<Option<Frame>, OutOfMemory> {
        if count == 1 {
            let frame = self.alloc()?;
            frame.meta().set_link(None);
            return Ok(Some(frame));
        }
        self.alloc_many(count)
    }

    #[inline(never)]
    fn alloc_many(&self, count: u64) -> Result<Option<Frame>, OutOfMemory> {
        let mut chain = None;
        let mut left = count;
        while left > 0 {
            let got = if left < front::BATCH as u64 {
                self.alloc_singles(left, &mut chain).map(|()| left)
            } else {
                self.alloc_run(left, &mut chain)
            };
            match got {
                Ok(got) => left -= got,
                Err(error) => {
                    self.drop_chain(chain);
                    return Err(error);
                }
            }
        }
        Ok(chain)
    }

    /// Puts the frames of one free block before the chain, at most `most` of them; returns how many. Many frames at once do
    /// not go through the front: that would only copy their numbers to and fro.
    fn alloc_run(&self, most: u64, chain: &mut Option<Frame>) -> Result<u64, OutOfMemory> {
        self.check_injected(0)?;
        let limit = most.min(1 << MAX_ORDER) as u32;
        let Some((first, count)) = self.with_buddy(|buddy| buddy.alloc_up_to(limit)) else {
            return self.alloc_singles(1, chain).map(|()| 1);
        };
        (first..first + count).for_each(|number| begin_single(number, chain));
        Ok(count.into())
    }

    /// Puts `count` frames before the chain, by way of this CPU's front, or as many as there are.
    #[inline(always)]
    fn alloc_singles(&self, count: u64, chain: &mut Option<Frame>) -> Result<(), OutOfMemory> {
        self.check_injected(0)?;
        self.on_front(|front| {
            let mut left = count as usize;
            loop {
                left -= front.take(left, |number| begin_single(number, chain));
                if left == 0 {
                    return Ok(());
                }
                front.refill(&mut self.buddy.lock());
                if front.is_empty() {
                    return Err(OutOfMemory { order: 0 });
                }
            }
        })
    }

    /// Drops the only reference of every frame or folio of a chain, and frees them all.
    pub fn drop_chain(&self, first: Option<Frame>) {
        let mut at = first;
        while let Some(frame) = at {
            at = frame.meta().link();
            let last = frame.meta().put_n(1);
            debug_assert!(last, "{frame} of a chain has other references");
        }
        self.free_chain(first);
    }

    /// Takes a folio of 2^`order` frames, naturally aligned; returns its head, which has one reference. Its contents
    /// are anything. Order 0 is [`Frames::alloc`].
    ///
    /// Linear in the folio's size (one store a frame): each tail is told where it belongs once, here.
    ///
    /// # Errors
    /// [`OutOfMemory`] where no block is large enough.
    ///
    /// # Panics
    /// Where `order` is above [`BLOCK_ORDER`].
    pub fn alloc_folio(&self, order: u32) -> Result<Frame, OutOfMemory> {
        assert!(order <= BLOCK_ORDER, "no folio has order {order}");
        if order == 0 {
            return self.alloc();
        }
        let head = self.alloc_block(order, |buddy| buddy.alloc_data(order))?;
        set_states(head, 1 << order, state(Kind::FolioTail, order));
        head.meta().begin(state(Kind::FolioHead, order));
        Ok(head)
    }

    /// Takes a block for the table pool: 2 MiB, naturally aligned, from [`Zone::Tables`]; each of its frames `Pool`,
    /// without references.
    ///
    /// # Errors
    /// [`OutOfMemory`] where that zone has no whole block left, whatever the other may have.
    pub fn alloc_pool_block(&self) -> Result<Frame, OutOfMemory> {
        let head = self.alloc_block(BLOCK_ORDER, |buddy| buddy.alloc(Zone::Tables, BLOCK_ORDER))?;
        set_states(head, 1 << BLOCK_ORDER, state(Kind::Pool, 0));
        Ok(head)
    }

    /// Takes a block of `order` by `take`; where that fails, once more after this CPU's front was given back.
    fn alloc_block(&self, order: u32, take: impl Fn(&mut Buddy) -> Option<u32>) -> Result<Frame, OutOfMemory> {
        self.check_injected(order)?;
        let block = self.on_front(|front| {
            let mut buddy = self.buddy.lock();
            take(&mut buddy).or_else(|| {
                front.drain(&mut buddy, front::CAPACITY);
                take(&mut buddy)
            })
        });
        block.map(|number| Frame::from_number(number.into())).ok_or(OutOfMemory { order })
    }

    /// Gives back a single frame whose last reference is gone and which no TLB knows any more.
    #[inline]
    pub fn free(&self, frame: Frame) {
        end(frame);
        self.on_front(|front| {
            if !front.push(frame.number() as u32) {
                self.drain_and_push(front, frame);
            }
        });
    }

    #[cold]
    #[inline(never)]
    fn drain_and_push(&self, front: &Front, frame: Frame) {
        front.drain(&mut self.buddy.lock(), front::BATCH);
        let pushed = front.push(frame.number() as u32);
        debug_assert!(pushed);
    }

    /// Gives back a folio whose last reference is gone and which no TLB knows any more. Linear in its size, as
    /// [`Frames::alloc_folio`] is.
    pub fn free_folio(&self, head: Frame) {
        let order = head.meta().order();
        if order == 0 {
            return self.free(head);
        }
        debug_assert_eq!((head.meta().kind(), head.meta().refs()), (Kind::FolioHead, 0), "freeing {head}");
        self.free_block(head, order);
    }

    /// Gives back a block of the table pool, all of whose frames are `Pool` again.
    pub fn free_pool_block(&self, head: Frame) {
        debug_assert!(
            head.is_aligned(BLOCK_ORDER)
                && (0..1 << BLOCK_ORDER).all(|n| Frame::from_number(head.number() + n).meta().is(Kind::Pool)),
            "pool block {head} is in use"
        );
        self.free_block(head, BLOCK_ORDER);
    }

    fn free_block(&self, head: Frame, order: u32) {
        set_states(head, 1 << order, state(Kind::Held, 0));
        self.with_buddy(|buddy| buddy.free(head.number() as u32, order));
    }

    /// Drops `n` references of the folio (or single frame) that `frame` belongs to, and frees it where they were the
    /// last. For frames that no TLB knows any more.
    #[inline]
    pub fn release(&self, frame: Frame, n: u32) {
        let head = frame.head();
        if head.meta().put_n(n) {
            if head.meta().order() == 0 { self.free(head) } else { self.free_folio(head) }
        }
    }

    /// Gives back a chain of single frames and folio heads, linked by [`FrameMeta::set_link`], as [`Frames::free`] and
    /// [`Frames::free_folio`] do one by one. Interrupts are masked for a front's worth of frames or a block at a time.
    pub fn free_chain(&self, first: Option<Frame>) {
        let mut at = self.free_singles(first);
        while let Some(frame) = at {
            if frame.meta().order() > 0 {
                at = frame.meta().link();
                self.free_folio(frame);
            } else {
                at = self.free_run(frame);
            }
        }
    }

    /// Frees single frames from the chain's beginning as far as this CPU's front has room; returns the rest of the chain.
    fn free_singles(&self, first: Option<Frame>) -> Option<Frame> {
        self.on_front(|front| {
            let mut at = first;
            front.fill(|| {
                let frame = at.filter(|frame| frame.meta().order() == 0)?;
                at = frame.meta().link();
                end(frame);
                Some(frame.number() as u32)
            });
            at
        })
    }

    /// Frees single frames from the chain's beginning, as long as each is the next neighbour, up or down, of the one before;
    /// returns the rest of the chain. What was allocated in one go so goes back as whole blocks.
    fn free_run(&self, first: Frame) -> Option<Frame> {
        end(first);
        let mut at = first.meta().link();
        let step = at.map_or(0, |next| next.number().wrapping_sub(first.number()));
        let mut last = first.number();
        let mut left = if step == 1 || step == u64::MAX { (1 << MAX_ORDER) - 1 } else { 0 };
        while let Some(frame) = at {
            if left == 0 || frame.number() != last.wrapping_add(step) || frame.meta().order() > 0 {
                break;
            }
            end(frame);
            at = frame.meta().link();
            last = frame.number();
            left -= 1;
        }
        let start = first.number().min(last) as u32;
        let count = first.number().abs_diff(last) as u32 + 1;
        self.with_buddy(|buddy| buddy.free_run(start, count));
        at
    }

    /// Gives this CPU's front back to the buddy, so that its frames can be part of blocks again.
    pub fn drain(&self) {
        self.on_front(|front| front.drain(&mut self.buddy.lock(), front::CAPACITY));
    }

    /// How much memory there is, and how much is free. Exact where no other CPU allocates or frees meanwhile.
    pub fn stats(&self) -> Stats {
        self.with_buddy(|buddy| {
            let mut stats = Stats { tables: buddy.stats(Zone::Tables), data: buddy.stats(Zone::Data) };
            for front in &self.fronts {
                front.for_each(|number| match buddy.zone(number) {
                    Zone::Tables => stats.tables.free += 1,
                    Zone::Data => stats.data.free += 1,
                });
            }
            stats
        })
    }

    /// Runs `work` on this CPU's front with interrupts masked.
    #[inline(always)]
    fn on_front<R>(&self, work: impl FnOnce(&Front) -> R) -> R {
        // The index is below `MAX_CPUS` as it is; the mask spares the check that it is.
        masked(|cpu| work(&self.fronts[cpu % MAX_CPUS]))
    }

    fn with_buddy<R>(&self, work: impl FnOnce(&mut Buddy) -> R) -> R {
        masked(|_| work(&mut self.buddy.lock()))
    }

    #[cfg(any(not(target_os = "none"), feature = "inject"))]
    fn check_injected(&self, order: u32) -> Result<(), OutOfMemory> {
        if self.inject.fires() { Err(OutOfMemory { order }) } else { Ok(()) }
    }

    #[cfg(not(any(not(target_os = "none"), feature = "inject")))]
    #[inline(always)]
    fn check_injected(&self, _order: u32) -> Result<(), OutOfMemory> {
        Ok(())
    }

    /// Lets the next `n` allocations of any kind go on and fails the one after, once. On the host, and in the kernel
    /// with the feature `inject`.
    #[cfg(any(not(target_os = "none"), feature = "inject"))]
    pub fn fail_after(&self, n: u64) {
        self.inject.arm(n);
    }

    /// Ends what [`Frames::fail_after`] began; whether the failure has happened.
    #[cfg(any(not(target_os = "none"), feature = "inject"))]
    pub fn fail_never(&self) -> bool {
        self.inject.disarm()
    }
}

/// Makes frame `number` an allocated single one, before the others of the chain.
#[inline(always)]
fn begin_single(number: u32, chain: &mut Option<Frame>) {
    let frame = Frame::from_number(number.into());
    frame.meta().begin(state(Kind::Data, 0));
    frame.meta().set_link(*chain);
    *chain = Some(frame);
}

/// A single frame stops being its owner's: `Held` from here on.
#[inline(always)]
fn end(frame: Frame) {
    let meta = frame.meta();
    debug_assert_eq!((meta.kind(), meta.refs()), (Kind::Data, 0), "freeing {frame}");
    meta.set_state(state(Kind::Held, 0));
}

/// Stores `state` in the metadata of `count` frames from `first` on.
fn set_states(first: Frame, count: u64, state: u32) {
    for number in first.number()..first.number() + count {
        Frame::from_number(number).meta().set_state(state);
    }
}

/// Runs `work` with interrupts masked on one CPU, whose index it gets.
#[cfg(target_os = "none")]
#[inline(always)]
fn masked<R>(work: impl FnOnce(usize) -> R) -> R {
    use platform::arch::{Arch, Arm};

    let daif = Arm::irq_save();
    let result = work(Arm::cpu());
    Arm::irq_restore(daif);
    result
}

/// Runs `work` with the index of the CPU that this thread plays.
#[cfg(not(target_os = "none"))]
fn masked<R>(work: impl FnOnce(usize) -> R) -> R {
    work(crate::linear::host::cpu())
}

/// Allocations that fail on demand, so that tests reach every error path.
#[cfg(any(not(target_os = "none"), feature = "inject"))]
mod inject {
    use core::sync::atomic::{AtomicU64, Ordering};

    /// Allocations until the one that fails, that one included; zero: none fails.
    pub(super) struct Countdown(AtomicU64);

    impl Countdown {
        pub(super) const fn new() -> Self {
            Self(AtomicU64::new(0))
        }

        pub(super) fn arm(&self, n: u64) {
            self.0.store(n + 1, Ordering::Relaxed);
        }

        pub(super) fn disarm(&self) -> bool {
            self.0.swap(0, Ordering::Relaxed) == 0
        }

        pub(super) fn fires(&self) -> bool {
            let before = self.0.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            before == Ok(1)
        }
    }
}
