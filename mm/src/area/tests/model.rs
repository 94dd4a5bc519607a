//! Random sequences against a model that keeps what is mapped in plain collections.

use super::*;
use crate::testing::leaves;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
enum Step {
    Vmalloc { pages: u64, huge: bool, align: u32 },
    Stack,
    MapRam { first: usize, count: usize },
    Free(usize),
    FreeAgain(usize),
    Purge,
    TakeFolio(u32),
    DropFolio(usize),
    FailAfter(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pages = prop_oneof![4 => 1..5_u64, 3 => 5..80_u64, 1 => 80..900_u64];
    let step = prop_oneof![
        6 => (pages, any::<bool>(), 0..14_u32).prop_map(|(pages, huge, align)| Step::Vmalloc { pages, huge, align }),
        1 => Just(Step::Stack),
        4 => (any::<usize>(), 1..40_usize).prop_map(|(first, count)| Step::MapRam { first, count }),
        9 => any::<usize>().prop_map(Step::Free),
        1 => any::<usize>().prop_map(Step::FreeAgain),
        1 => Just(Step::Purge),
        2 => (0..6_u32).prop_map(Step::TakeFolio),
        2 => any::<usize>().prop_map(Step::DropFolio),
        2 => (0..6_u64).prop_map(Step::FailAfter),
    ];
    prop::collection::vec(step, 1..120)
}

/// An area as the model knows it.
#[derive(Clone)]
struct Known {
    start: VirtAddr,
    kind: AreaKind,
    frames: Vec<Frame>,
}

impl Known {
    fn pages(&self) -> u64 {
        self.frames.len() as u64
    }
}

struct World {
    areas: Areas,
    live: Vec<Known>,
    freed: Vec<Known>,
    /// Folio heads that the test holds a reference on.
    folios: Vec<Frame>,
    before: u64,
    machine: Machine,
}

fn stamp(frame: Frame) -> *mut u64 {
    crate::linear::ptr(frame.start()).cast()
}

impl World {
    fn new() -> World {
        let (machine, areas) = setup(7);
        let before = unheld(&machine);
        World { areas, live: Vec::new(), freed: Vec::new(), folios: Vec::new(), before, machine }
    }

    /// Every folio that somebody refers to, and the references.
    fn held(&self) -> BTreeMap<Frame, u32> {
        let mut held = BTreeMap::new();
        for area in self.live.iter().chain(&self.freed) {
            let heads: Vec<Frame> = area.frames.iter().map(|frame| frame.head()).collect();
            match area.kind {
                AreaKind::Ram => heads.iter().for_each(|head| *held.entry(*head).or_default() += 1),
                _ => heads
                    .iter()
                    .collect::<BTreeSet<_>>()
                    .into_iter()
                    .for_each(|head| *held.entry(*head).or_default() += 1),
            }
        }
        self.folios.iter().for_each(|head| *held.entry(*head).or_default() += 1);
        held
    }

    fn add(&mut self, start: VirtAddr, pages: u64, kind: AreaKind) {
        self.forget_purged();
        let frames: Vec<Frame> = (0..pages).map(|n| frame_of(&self.machine, page(start, n))).collect();
        if kind != AreaKind::Ram {
            let held = self.held();
            for frame in &frames {
                assert!(!held.contains_key(&frame.head()), "{frame} has an owner already");
                // SAFETY: the frame is the area's alone, and the arena's memory is 4 KiB-aligned.
                unsafe { stamp(*frame).write(start.get()) };
            }
        }
        self.live.push(Known { start, kind, frames });
    }

    fn map_ram<P: Policy>(&mut self, first: usize, count: usize) {
        let owned = self.live.iter().filter(|area| area.kind != AreaKind::Ram).flat_map(|area| area.frames.iter());
        let tails = self.folios.iter().map(|head| Frame::from_number(head.number() + (1 << head.meta().order()) - 1));
        let all: Vec<Frame> = owned.copied().chain(tails).collect();
        if all.is_empty() {
            return;
        }
        let frames: Vec<Frame> = all.iter().cycle().skip(first % all.len()).take(count).copied().collect();
        if let Ok(start) = self.areas.vm_map_ram::<P>(&frames) {
            self.add(start, count as u64, AreaKind::Ram);
            assert_eq!(self.live.last().unwrap().frames, frames);
        }
    }

    fn free<P: Policy>(&mut self, pick: usize) {
        if self.live.is_empty() {
            return;
        }
        let area = self.live.swap_remove(pick % self.live.len());
        let freed = match area.kind {
            AreaKind::Ram => self.areas.vm_unmap_ram::<P>(area.start, area.pages()),
            _ => self.areas.vfree::<P>(area.start),
        };
        assert_eq!(freed, Ok(()));
        self.freed.push(area);
    }

    fn step<P: Policy>(&mut self, step: &Step) {
        match *step {
            Step::Vmalloc { pages, huge, align } => {
                let flags = VmFlags { huge, align: 1 << (align + 10) };
                if let Ok(start) = self.areas.vmalloc::<P>(pages, flags) {
                    assert!(start.is_aligned(flags.align));
                    self.add(start, pages, AreaKind::Vmalloc);
                }
            }
            Step::Stack => {
                if let Ok(stack) = self.areas.alloc_stack::<P>() {
                    self.add(stack.start().start(), stack.count(), AreaKind::Stack);
                }
            }
            Step::MapRam { first, count } => self.map_ram::<P>(first, count),
            Step::Free(pick) => self.free::<P>(pick),
            Step::FreeAgain(pick) => {
                if let Some(addr) = self.freed.get(pick % self.freed.len().max(1)).map(|area| area.start) {
                    assert_eq!(self.areas.vfree::<P>(addr), Err(AreaError::AlreadyFreed { addr }));
                }
            }
            Step::Purge => {
                let pages: u64 = self.freed.iter().map(Known::pages).sum();
                assert_eq!(self.areas.purge::<P>(), pages);
            }
            Step::TakeFolio(order) => self.folios.extend(self.machine.memory.frames.alloc_folio(order).ok()),
            Step::DropFolio(pick) => {
                if !self.folios.is_empty() {
                    let folio = self.folios.swap_remove(pick % self.folios.len());
                    self.machine.memory.frames.release(folio, 1);
                }
            }
            Step::FailAfter(n) => self.machine.memory.frames.fail_after(n),
        }
        self.forget_purged();
    }

    /// A purge, whoever called for it, takes everything.
    fn forget_purged(&mut self) {
        if self.areas.freed_pages() == 0 {
            self.freed.clear();
        }
    }

    fn check(&self) {
        let pages: u64 = self.freed.iter().map(Known::pages).sum();
        assert_eq!(self.areas.freed_pages(), pages);
        self.check_mappings();
        let held = self.held();
        for (head, refs) in &held {
            assert_eq!(head.meta().refs(), *refs, "{head}");
        }
        let frames: u64 = held.keys().map(|head| 1 << head.meta().order()).sum();
        assert_eq!(unheld(&self.machine) + frames, self.before, "a frame is lost");
        for area in self.live.iter().filter(|area| area.kind != AreaKind::Ram) {
            for frame in &area.frames {
                // SAFETY: the frame is the area's, and was written when the area was made.
                assert_eq!(unsafe { stamp(*frame).read() }, area.start.get(), "{frame} was given to another");
            }
        }
    }

    /// The arenas map exactly what is live or freed, in the right order, with a page unmapped after each area.
    fn check_mappings(&self) {
        let number = |va: VirtAddr| va.get() << 16 >> 28;
        let arenas = number(VirtAddr::new(slots::BASE).unwrap())..number(VirtAddr::new(0xffff_c000_0000_0000).unwrap());
        let mut found = BTreeMap::new();
        for (first, level, descriptor) in leaves(self.machine.memory.kernel.table()) {
            if arenas.contains(&first) {
                assert_eq!(descriptor.key(), Some(Pkey::Default));
                found.extend((0..level.pages()).map(|n| (first + n, descriptor.frame().number() + n)));
            }
        }
        let mut expected = BTreeMap::new();
        for (areas, freed) in [(&self.live, false), (&self.freed, true)] {
            for area in areas {
                for (n, frame) in area.frames.iter().enumerate() {
                    let twice = expected.insert(number(area.start) + n as u64, frame.number());
                    assert_eq!(twice, None, "areas overlap at {}", area.start);
                }
                let info = AreaInfo { pages: page_range(area.start, area.pages()), kind: area.kind, freed };
                assert_eq!(self.areas.area_of(page(area.start, area.pages() - 1)), Some(info));
            }
        }
        assert_eq!(found, expected);
        for area in self.live.iter().chain(&self.freed) {
            assert!(!found.contains_key(&(number(area.start) + area.pages())), "no guard after {}", area.start);
        }
    }

    fn end<P: Policy>(mut self) {
        self.machine.memory.frames.fail_never();
        while !self.live.is_empty() {
            self.free::<P>(0);
        }
        self.folios.drain(..).for_each(|folio| self.machine.memory.frames.release(folio, 1));
        self.areas.purge::<P>();
        self.forget_purged();
        self.check();
        assert_eq!(unheld(&self.machine), self.before);
    }
}

fn run<P: Policy>(steps: &[Step]) {
    let mut world = World::new();
    for step in steps {
        world.step::<P>(step);
        world.check();
        Recorder::take();
    }
    world.end::<P>();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn batched_areas_agree_with_the_model(steps in steps()) {
        run::<B>(&steps);
    }

    #[test]
    fn ungated_areas_agree_with_the_model(steps in steps()) {
        run::<O>(&steps);
    }

    #[test]
    fn per_write_areas_agree_with_the_model(steps in steps()) {
        run::<W>(&steps);
    }
}
