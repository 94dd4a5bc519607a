//! Frames against a simple model, and the bounds on their cost.

use std::collections::BTreeMap;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::addr::PAGE_SIZE;
use crate::linear::host::Arena;

/// Frames over all of an arena but what `holes` names, the lowest `tables` frames being `Zone::Tables`.
fn frames_with_holes(arena: &Arena, tables: u64, holes: &[u64]) -> Frames {
    let frames = Frames::new();
    frames.set_boundary(Frame::from_number(tables));
    let mut start = 0;
    for &end in holes.iter().chain([&arena.range().count()]) {
        let range = FrameRange::new(Frame::from_number(start), end - start).unwrap();
        // SAFETY: the arena is simulated RAM with metadata for whole 4 MiB blocks, and each part is added once.
        unsafe { frames.add_range(range) };
        start = end + 1;
    }
    frames
}

fn frames(arena: &Arena, tables: u64) -> Frames {
    frames_with_holes(arena, tables, &[])
}

/// Everything about the free memory once the front is empty.
fn snapshot(frames: &Frames) -> (Stats, Vec<(Zone, u32, u32)>) {
    frames.drain();
    (frames.stats(), frames.buddy.lock().blocks())
}

/// Allocates single frames until there are no more.
fn exhaust(frames: &Frames) -> Vec<Frame> {
    core::iter::from_fn(|| frames.alloc().ok()).collect()
}

fn give_back(frames: &Frames, taken: impl IntoIterator<Item = Frame>) {
    taken.into_iter().for_each(|frame| frames.release(frame, 1));
}

#[test]
fn a_fresh_allocator_has_nothing() {
    let _arena = Arena::new(1);
    let frames = Frames::new();
    assert_eq!(frames.alloc(), Err(OutOfMemory { order: 0 }));
    assert_eq!(frames.alloc_folio(9), Err(OutOfMemory { order: 9 }));
    assert_eq!(frames.alloc_pool_block(), Err(OutOfMemory { order: 9 }));
    assert_eq!(frames.stats(), Stats::default());
}

#[test]
fn memory_starts_as_the_largest_blocks_that_respect_the_boundary() {
    let arena = Arena::new(4096);
    let frames = frames(&arena, 1536);
    let blocks = frames.buddy.lock().blocks();
    use Zone::{Data, Tables};
    assert_eq!(blocks, [(Tables, 9, 1024), (Tables, 10, 0), (Data, 9, 1536), (Data, 10, 2048), (Data, 10, 3072)]);
    assert_eq!(frames.stats().tables, ZoneStats { total: 1536, free: 1536 });
    assert_eq!(frames.stats().data, ZoneStats { total: 2560, free: 2560 });
}

#[test]
fn zones_do_not_merge_across_the_boundary() {
    let arena = Arena::new(1024);
    let frames = frames(&arena, 512);
    let before = snapshot(&frames);
    let taken = exhaust(&frames);
    assert_eq!(taken.len(), 1024);
    give_back(&frames, taken);
    assert_eq!(snapshot(&frames), before);
    assert_eq!(before.1, [(Zone::Tables, 9, 0), (Zone::Data, 9, 512)]);
}

#[test]
fn data_spares_the_tables_zone_and_pool_blocks_come_from_nowhere_else() {
    let arena = Arena::new(2048);
    let frames = frames(&arena, 1024);
    let data: Vec<_> = (0..1024).map(|_| frames.alloc().unwrap()).collect();
    assert!(data.iter().all(|frame| frame.number() >= 1024));
    let low = frames.alloc_folio(9).unwrap();
    assert_eq!(low.number(), 0);
    let pool = frames.alloc_pool_block().unwrap();
    assert_eq!(pool.number(), 512);
    assert!((512..1024).all(|number| Frame::from_number(number).meta().is(Kind::Pool)));
    give_back(&frames, data);
    assert_eq!(frames.alloc_pool_block(), Err(OutOfMemory { order: 9 }));
    frames.free_pool_block(pool);
    frames.release(low, 1);
    assert_eq!(frames.stats().free(), 2048);
}

#[test]
fn a_pool_block_is_found_although_the_front_holds_its_frames() {
    let arena = Arena::new(512);
    let frames = frames(&arena, 512);
    let one = frames.alloc().unwrap();
    assert!(frames.alloc_pool_block().is_err());
    frames.release(one, 1);
    assert!(frames.alloc_pool_block().is_ok());
}

#[test]
fn a_folio_knows_its_head_and_counts_there() {
    let arena = Arena::new(1024);
    let frames = frames(&arena, 0);
    let head = frames.alloc_folio(3).unwrap();
    assert!(head.is_aligned(3));
    for n in 0..8 {
        let frame = head.checked_add(n).unwrap();
        assert_eq!(frame.head(), head);
        assert_eq!(frame.meta().order(), 3);
        assert_eq!(frame.meta().kind(), if n == 0 { Kind::FolioHead } else { Kind::FolioTail });
    }
    head.meta().get_n(8);
    frames.release(head.checked_add(5).unwrap(), 8);
    assert_eq!(head.meta().refs(), 1);
    frames.release(head.checked_add(7).unwrap(), 1);
    assert!((0..8).all(|n| matches!(head.checked_add(n).unwrap().meta().kind(), Kind::Free | Kind::Held)));
    assert_eq!(frames.stats().free(), 1024);
}

#[test]
fn tags_links_and_live_counts_are_the_owners() {
    let arena = Arena::new(64);
    let frames = frames(&arena, 0);
    let frame = frames.alloc().unwrap();
    let meta = frame.meta();
    assert_eq!((meta.kind(), meta.tag(), meta.order()), (Kind::Data, 0, 0));
    meta.set_kind(Kind::Table);
    meta.set_tag(0xbeef);
    assert_eq!((meta.kind(), meta.tag(), meta.order()), (Kind::Table, 0xbeef, 0));
    meta.set_live(0);
    meta.add_live(512);
    assert_eq!((meta.sub_live(500), meta.live()), (12, 12));
    meta.set_link(Some(Frame::from_number(0)));
    assert_eq!(meta.link(), Some(Frame::from_number(0)));
    meta.set_link(None);
    assert_eq!(meta.link(), None);
}

#[test]
#[should_panic(expected = "references dropped on a frame that has 1")]
fn dropping_more_references_than_there_are_is_caught() {
    let arena = Arena::new(64);
    let frames = frames(&arena, 0);
    let _ = frames.alloc().unwrap().meta().put_n(2);
}

#[test]
#[should_panic(expected = "leaked, or attacked")]
fn reference_counts_do_not_wrap() {
    let arena = Arena::new(64);
    let frames = frames(&arena, 0);
    let meta = frames.alloc().unwrap().meta();
    meta.get_n(1 << 31);
    meta.get_n(1 << 31);
}

#[test]
#[should_panic(expected = "freeing")]
#[cfg(debug_assertions)]
fn a_double_free_is_caught() {
    let arena = Arena::new(64);
    let frames = frames(&arena, 0);
    let frame = frames.alloc().unwrap();
    frames.release(frame, 1);
    frames.free(frame);
}

#[test]
fn the_front_serves_repeated_use_without_the_buddy() {
    let arena = Arena::new(4096);
    let frames = frames(&arena, 0);
    let hot = frames.alloc().unwrap();
    frames.release(hot, 1);
    let steps = frames.buddy.lock().steps;
    for _ in 0..1000 {
        let again = frames.alloc().unwrap();
        assert_eq!(again, hot);
        frames.release(again, 1);
    }
    assert_eq!(frames.buddy.lock().steps, steps);
}

#[test]
fn the_front_moves_whole_batches_in_few_steps() {
    let arena = Arena::new(4096);
    let frames = frames(&arena, 0);
    let taken: Vec<_> = (0..1024).map(|_| frames.alloc().unwrap()).collect();
    assert!(taken.windows(2).all(|pair| pair[1].number() == pair[0].number() + 1), "ascending");
    give_back(&frames, taken);
    frames.drain();
    // A list or two per frame would be 2048 steps; in runs it is under 16 for each of 64 batches.
    assert!(frames.buddy.lock().steps < 64 * 16, "{} steps", frames.buddy.lock().steps);
    assert_eq!(frames.stats().free(), 4096);
}

#[test]
fn every_frame_of_a_full_machine_is_distinct_and_writable() {
    let arena = Arena::new(3000);
    let frames = frames_with_holes(&arena, 512, &[100, 777]);
    let before = snapshot(&frames);
    let taken = exhaust(&frames);
    assert_eq!(taken.len(), 2998);
    for frame in &taken {
        let bytes = crate::linear::ptr(frame.start());
        // SAFETY: the frame is this test's own memory until it gives it back, and lies in the arena.
        unsafe { bytes.cast::<u64>().write(frame.number()) };
        assert!((bytes as usize).is_multiple_of(PAGE_SIZE as usize));
    }
    for frame in &taken {
        // SAFETY: as above; written by the loop before.
        assert_eq!(unsafe { crate::linear::ptr(frame.start()).cast::<u64>().read() }, frame.number());
    }
    assert_eq!(frames.stats().free(), 0);
    assert_eq!(frames.alloc(), Err(OutOfMemory { order: 0 }));
    give_back(&frames, taken.into_iter().rev());
    assert_eq!(snapshot(&frames), before);
    assert_eq!(Frame::from_number(100).meta().kind(), Kind::Absent);
}

#[test]
fn a_chain_gives_back_singles_and_folios() {
    let arena = Arena::new(4096);
    let frames = frames(&arena, 0);
    let before = snapshot(&frames);
    let mut first = None;
    for n in 0..200 {
        let frame = if n % 7 == 3 { frames.alloc_folio(n % 5) } else { frames.alloc() }.unwrap();
        assert!(frame.meta().put_n(1));
        frame.meta().set_link(first);
        first = Some(frame);
    }
    frames.free_chain(first);
    frames.free_chain(None);
    assert_eq!(snapshot(&frames), before);
}

#[test]
fn an_injected_failure_comes_once_and_loses_nothing() {
    let arena = Arena::new(2048);
    let frames = frames(&arena, 1024);
    frames.fail_after(2);
    let (one, two) = (frames.alloc().unwrap(), frames.alloc_folio(4).unwrap());
    assert_eq!(frames.alloc_pool_block(), Err(OutOfMemory { order: 9 }));
    assert!(frames.alloc_pool_block().is_ok());
    assert!(frames.fail_never());
    frames.fail_after(0);
    assert!(!frames.fail_never());
    give_back(&frames, [one, two]);
    assert_eq!(frames.stats().free(), 1536);
}

/// Buddy steps that `work` takes.
fn steps(frames: &Frames, work: impl FnOnce()) -> u64 {
    let before = frames.buddy.lock().steps;
    work();
    frames.buddy.lock().steps - before
}

#[test]
fn cost_is_flat_from_empty_to_full() {
    const BOUND: u64 = 2 * (MAX_ORDER as u64 + 1);
    let arena = Arena::new(16384);
    let frames = frames(&arena, 4096);
    let mut singles = Vec::new();
    let mut folios = Vec::new();
    // Fill to the brim with folios of all small orders and batches of singles, then empty in another order.
    'fill: for n in 0.. {
        let order = n % 6;
        let mut got = None;
        let cost = steps(&frames, || got = frames.alloc_folio(order).ok());
        let Some(frame) = got else { break 'fill };
        assert!(cost <= if order == 0 { front::BATCH as u64 * BOUND } else { BOUND }, "{cost} steps");
        if order == 0 { singles.push(frame) } else { folios.push(frame) }
    }
    singles.extend(exhaust(&frames));
    assert_eq!(frames.stats().free(), 0);
    for frame in folios.into_iter().rev() {
        let cost = steps(&frames, || frames.release(frame, 1));
        assert!(cost <= BOUND, "{cost} steps");
    }
    let total = steps(&frames, || give_back(&frames, singles.iter().copied()));
    assert!(total <= singles.len() as u64 * 2 + BOUND, "{total} steps for {} frames", singles.len());
    assert_eq!(frames.stats().free(), 16384);
}

#[test]
fn several_cpus_share_one_buddy() {
    let arena = Arena::new(8192);
    let frames = frames(&arena, 1024);
    let before = snapshot(&frames);
    std::thread::scope(|scope| {
        for cpu in 1..5 {
            let (arena, frames) = (&arena, &frames);
            scope.spawn(move || {
                let _shared = arena.share(cpu);
                let mut mine = Vec::new();
                for n in 0..3000_u32 {
                    let taken = if n % 11 == 0 { frames.alloc_folio(n % 6) } else { frames.alloc() };
                    mine.extend(taken.ok());
                    if n % 3 == 0 {
                        let at = n as usize * 7919 % mine.len();
                        let frame = mine.swap_remove(at);
                        assert_eq!(frame.meta().refs(), 1);
                        frame.meta().get_n(2);
                        frames.release(frame, 3);
                    }
                }
                give_back(frames, mine);
                frames.drain();
            });
        }
    });
    assert_eq!(snapshot(&frames), before);
}

/// One step of a random run.
#[derive(Clone, Debug)]
enum Step {
    Alloc(u32),
    Pool,
    Get(usize, u32),
    Release(usize, u32),
    Chain(usize, usize),
    Drain,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => Just(Step::Alloc(0)),
        6 => (0..=BLOCK_ORDER).prop_map(Step::Alloc),
        1 => Just(Step::Pool),
        4 => (any::<usize>(), 1..5_u32).prop_map(|(at, n)| Step::Get(at, n)),
        10 => (any::<usize>(), 1..5_u32).prop_map(|(at, n)| Step::Release(at, n)),
        2 => (any::<usize>(), 0..80_usize).prop_map(|(at, n)| Step::Chain(at, n)),
        1 => Just(Step::Drain),
    ]
}

/// What is allocated: head's number to order and references; a pool block has none.
#[derive(Default)]
struct Model(BTreeMap<u64, (u32, u32)>);

impl Model {
    fn used(&self) -> u64 {
        self.0.values().map(|&(order, _)| 1 << order).sum()
    }

    fn insert(&mut self, head: Frame, order: u32, refs: u32) {
        assert!(head.is_aligned(order), "{head} for order {order}");
        let (start, end) = (head.number(), head.number() + (1 << order));
        if let Some((&below, &(order, _))) = self.0.range(..end).next_back() {
            assert!(below + (1 << order) <= start, "{head} overlaps what is in use");
        }
        self.0.insert(start, (order, refs));
    }

    fn pick(&self, at: usize) -> Option<(Frame, u32, u32)> {
        let (&start, &(order, refs)) = self.0.iter().nth(at.checked_rem(self.0.len())?)?;
        Some((Frame::from_number(start), order, refs))
    }

    fn run(&mut self, frames: &Frames, step: Step) {
        match step {
            Step::Alloc(order) => match frames.alloc_folio(order) {
                Ok(head) => self.insert(head, order, 1),
                Err(error) => {
                    assert_eq!(error, OutOfMemory { order });
                    let blocks = snapshot(frames).1;
                    assert!(blocks.iter().all(|block| block.1 < order));
                }
            },
            Step::Pool => match frames.alloc_pool_block() {
                Ok(head) => self.insert(head, BLOCK_ORDER, 0),
                Err(_) => {
                    let blocks = snapshot(frames).1;
                    assert!(blocks.iter().all(|block| block.0 == Zone::Data || block.1 < BLOCK_ORDER));
                }
            },
            Step::Get(at, n) => {
                if let Some((head, _, refs @ 1..)) = self.pick(at) {
                    head.meta().get_n(n);
                    self.0.get_mut(&head.number()).unwrap().1 = refs + n;
                }
            }
            Step::Release(at, n) => match self.pick(at) {
                Some((head, _, 0)) => {
                    frames.free_pool_block(head);
                    self.0.remove(&head.number());
                }
                Some((head, order, refs)) => {
                    let tail = head.checked_add(at as u64 % (1 << order)).unwrap();
                    assert_eq!(tail.head(), head);
                    frames.release(tail, n.min(refs));
                    match refs.saturating_sub(n) {
                        0 => drop(self.0.remove(&head.number())),
                        left => self.0.get_mut(&head.number()).unwrap().1 = left,
                    }
                }
                None => {}
            },
            Step::Chain(at, n) => {
                let mut first = None;
                for _ in 0..n {
                    if let Some((head, _, refs @ 1..)) = self.pick(at) {
                        assert!(head.meta().put_n(refs));
                        head.meta().set_link(first);
                        first = Some(head);
                        self.0.remove(&head.number());
                    }
                }
                frames.free_chain(first);
            }
            Step::Drain => frames.drain(),
        }
    }

    /// What the metadata says of every frame agrees with the model.
    fn check(&self, frames: &Frames, range: FrameRange) {
        assert_eq!(frames.stats().free() + self.used(), frames.stats().total());
        let mut at = range.start().number();
        for (&start, &(order, refs)) in &self.0 {
            assert!((at..start).all(|n| !in_use(Frame::from_number(n))));
            let head = Frame::from_number(start);
            assert_eq!(head.meta().refs(), refs);
            at = start + (1 << order);
            assert!((start..at).all(|n| in_use(Frame::from_number(n))));
        }
        assert!((at..range.end_number()).all(|n| !in_use(Frame::from_number(n))));
    }
}

fn in_use(frame: Frame) -> bool {
    !matches!(frame.meta().kind(), Kind::Free | Kind::Held | Kind::Absent)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_runs_agree_with_the_model(
        steps in prop::collection::vec(step(), 1..400),
        blocks in 1..8_u64,
        odd in 0..512_u64,
        tables in 0..6_u64,
        holes in prop::collection::btree_set(0..512_u64, 0..4),
    ) {
        let arena = Arena::new(blocks * 512 + odd);
        let holes: Vec<_> = holes.into_iter().collect();
        let frames = frames_with_holes(&arena, tables * 512, &holes);
        let before = snapshot(&frames);
        prop_assert_eq!(before.0.total(), arena.range().count() - holes.len() as u64);
        let mut model = Model::default();
        for step in steps {
            model.run(&frames, step);
        }
        model.check(&frames, arena.range());
        for (head, (_, refs)) in core::mem::take(&mut model.0) {
            let head = Frame::from_number(head);
            if refs == 0 { frames.free_pool_block(head) } else { frames.release(head, refs) }
        }
        model.check(&frames, arena.range());
        prop_assert_eq!(snapshot(&frames), before);
    }
}
