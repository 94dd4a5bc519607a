//! Recorded order, exact counts, and random sequences against a simple model.

use super::*;
use crate::addr::{Frame, Page, VirtAddr};
use crate::linear;
use crate::testing::{Machine, leaves};
use pkeys::{Batched, Off, PerWrite, PorGate};
use platform::arch::{Op, Recorder};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::vec::Vec;

type Gated = Batched<PorGate<Recorder>>;
type Each = PerWrite<PorGate<Recorder>>;

const BASE: u64 = 0x4000_0000 >> PAGE_SHIFT;

fn pages(first: u64, count: u64) -> PageRange {
    let start = VirtAddr::new((BASE + first) << PAGE_SHIFT).unwrap();
    PageRange::new(Page::containing(start), count).unwrap()
}

fn at(page: u64) -> VirtAddr {
    VirtAddr::new((BASE + page) << PAGE_SHIFT).unwrap()
}

/// What the CPU would do with a store: faults are resolved, then the byte lands.
fn write<P: Policy>(space: &mut AddressSpace<P>, page: u64, byte: u8) -> Result<(), SpaceError> {
    loop {
        let found = crate::table::walk(space.root(), at(page));
        if found.descriptor.is_valid() && !found.descriptor.is_write_protected() {
            let frame = found.descriptor.frame();
            // SAFETY: the frame belongs to a space of this test's machine; the test is single-threaded.
            unsafe { *linear::ptr(frame.start()) = byte };
            return Ok(());
        }
        space.fault(at(page), Access::Write)?;
    }
}

fn read<P: Policy>(space: &mut AddressSpace<P>, page: u64) -> Result<u8, SpaceError> {
    loop {
        let found = crate::table::walk(space.root(), at(page));
        if found.descriptor.is_valid() {
            // SAFETY: as in `write`.
            return Ok(unsafe { *linear::ptr(found.descriptor.frame().start()) });
        }
        space.fault(at(page), Access::Read)?;
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    stores: usize,
    por: usize,
    isb: usize,
    dsb: usize,
    tlbi: usize,
}

fn counts() -> Counts {
    let mut counts = Counts::default();
    for op in Recorder::take() {
        match op {
            Op::Store { .. } => counts.stores += 1,
            Op::Por(_) | Op::Contextidr(_) => counts.por += 1,
            Op::Isb => counts.isb += 1,
            Op::DsbIsh | Op::DsbIshst => counts.dsb += 1,
            Op::Ttbr0(_) => {}
            _ => counts.tlbi += 1,
        }
    }
    counts
}

/// Counts of populate, fork and unmap of `count` pages, after the pool has grown.
fn life<P: Policy>(count: u64, order: u32) -> [Counts; 3] {
    let machine = Machine::new(24);
    let warm = AddressSpace::<P>::new(machine.memory).unwrap();
    let mut space = AddressSpace::<P>::new(machine.memory).unwrap();
    space.map(pages(0, count), Protection::ReadWrite, order).unwrap();
    space.activate();
    counts();
    space.populate(pages(0, count)).unwrap();
    let populate = counts();
    let child = space.fork().unwrap();
    let fork = counts();
    drop(child);
    counts();
    space.unmap(pages(0, count)).unwrap();
    let unmap = counts();
    drop(space);
    drop(warm);
    [populate, fork, unmap]
}

#[test]
fn one_section_an_operation_whatever_its_size() {
    for (count, order) in [(1, 0), (600, 0), (1024, 0), (1024, 9)] {
        let off = life::<Off<Recorder>>(count, order);
        let batched = life::<Gated>(count, order);
        for (off, batched) in off.iter().zip(&batched) {
            assert_eq!(batched.por, 2, "{count} pages: {batched:?}");
            assert_eq!(batched.isb, off.isb + 1, "{count} pages");
            assert_eq!((batched.stores, batched.dsb, batched.tlbi), (off.stores, off.dsb, off.tlbi));
        }
    }
}

#[test]
fn per_write_opens_for_every_store() {
    for counts in life::<Each>(600, 0) {
        assert_eq!(counts.por, 2 * counts.stores);
    }
}

#[test]
fn unmap_stores_then_invalidates_then_empties_then_closes() {
    let machine = Machine::new(4);
    let mut space = AddressSpace::<Gated>::new(machine.memory).unwrap();
    space.map(pages(0, 2), Protection::ReadWrite, 0).unwrap();
    space.populate(pages(0, 2)).unwrap();
    space.activate();
    let asid = space.tagged.asid();
    Recorder::take();
    space.unmap(pages(0, 1)).unwrap();
    let ops = Recorder::take();
    let kinds: Vec<Op> = ops
        .into_iter()
        .map(|op| match op {
            Op::Store { value, .. } => Op::Store { address: 0, value: u64::from(value != 0) },
            other => other,
        })
        .collect();
    let (retire, empty) = (Op::Store { address: 0, value: 1 }, Op::Store { address: 0, value: 0 });
    let tlbi = Op::TlbiPage(asid, at(0).get());
    assert_eq!(
        kinds,
        [Op::Por(0x157), Op::Isb, retire, Op::DsbIshst, tlbi, Op::DsbIsh, empty, Op::Por(0x117), Op::Isb]
    );
}

#[test]
fn dropping_a_space_leaves_another_one_active() {
    let machine = Machine::new(4);
    let mut first = AddressSpace::<Gated>::new(machine.memory).unwrap();
    let mut second = AddressSpace::<Gated>::new(machine.memory).unwrap();
    first.activate();
    second.activate();
    Recorder::take();
    drop(first);
    assert!(!Recorder::take().iter().any(|op| matches!(op, Op::Ttbr0(_))), "the second space runs on");
    drop(second);
    let empty = machine.memory.empty_root.start().get();
    assert!(Recorder::take().contains(&Op::Ttbr0(empty)), "TTBR0 must not lead to a root that is gone");
}

#[test]
fn a_copy_breaks_before_it_makes() {
    let machine = Machine::new(4);
    let mut space = AddressSpace::<Gated>::new(machine.memory).unwrap();
    space.map(pages(0, 1), Protection::ReadWrite, 0).unwrap();
    write(&mut space, 0, 7).unwrap();
    let mut child = space.fork().unwrap();
    space.activate();
    Recorder::take();
    assert_eq!(space.fault(at(0), Access::Write), Ok(Resolved::Copied));
    let ops = Recorder::take();
    let position = |wanted: &dyn Fn(&Op) -> bool| ops.iter().position(wanted).unwrap();
    let broken = position(&|op| matches!(op, Op::Store { value: 0, .. }));
    let flushed = position(&|op| matches!(op, Op::TlbiPage(..)));
    let waited = position(&|op| *op == Op::DsbIsh);
    let made = position(&|op| matches!(op, Op::Store { value, .. } if *value != 0));
    assert!(broken < flushed && flushed < waited && waited < made, "{ops:?}");
    assert_eq!(read(&mut child, 0), Ok(7));
    assert_eq!(child.fault(at(0), Access::Write), Ok(Resolved::Reused));
}

#[test]
fn a_folio_becomes_writable_again_as_a_whole() {
    let machine = Machine::new(8);
    let mut space = AddressSpace::<Gated>::new(machine.memory).unwrap();
    space.map(pages(0, 512), Protection::ReadWrite, 9).unwrap();
    space.populate(pages(0, 512)).unwrap();
    drop(space.fork().unwrap());
    assert_eq!(space.fault(at(5), Access::Write), Ok(Resolved::Reused));
    let protected = leaves(space.root()).iter().filter(|(.., leaf)| leaf.is_write_protected()).count();
    assert_eq!(protected, 0);
}

#[test]
fn of_a_folio_in_two_regions_only_the_writable_one_becomes_writable_again() {
    let machine = Machine::new(8);
    let mut space = AddressSpace::<Gated>::new(machine.memory).unwrap();
    space.map(pages(0, 16), Protection::ReadWrite, 4).unwrap();
    space.populate(pages(0, 16)).unwrap();
    space.protect(pages(4, 3), Protection::Read).unwrap();
    drop(space.fork().unwrap());
    assert_eq!(space.fault(at(8), Access::Write), Ok(Resolved::Reused));
    assert_eq!(space.fault(at(5), Access::Write), Err(SpaceError::Denied { page: BASE + 5 }));
    let protected = leaves(space.root()).iter().filter(|(.., leaf)| leaf.is_write_protected()).count();
    assert_eq!(protected, 7, "the read-only region, and the one before it");
}

#[test]
fn bad_arguments_are_errors() {
    let machine = Machine::new(4);
    let mut space = AddressSpace::<Gated>::new(machine.memory).unwrap();
    let null = PageRange::new(Page::containing(VirtAddr::new(0).unwrap()), 1).unwrap();
    assert_eq!(space.map(null, Protection::Read, 0), Err(SpaceError::NotUser { page: 0, pages: 1 }));
    let kernel = PageRange::new(Page::containing(VirtAddr::new(0xffff_8000_0000_0000).unwrap()), 1).unwrap();
    assert!(matches!(space.map(kernel, Protection::Read, 0), Err(SpaceError::NotUser { .. })));
    assert!(matches!(space.map(pages(0, 0), Protection::Read, 0), Err(SpaceError::NotUser { .. })));
    assert_eq!(space.map(pages(0, 1), Protection::Read, 10), Err(SpaceError::FolioOrder { order: 10 }));
    space.map(pages(0, 4), Protection::Read, 0).unwrap();
    assert_eq!(space.map(pages(3, 2), Protection::Read, 0), Err(SpaceError::Overlap { page: BASE + 3 }));
    assert_eq!(space.populate(pages(3, 2)), Err(SpaceError::Unmapped { page: BASE + 4 }));
    assert_eq!(space.fault(at(0), Access::Write), Err(SpaceError::Denied { page: BASE }));
    assert_eq!(space.fault(at(9), Access::Read), Err(SpaceError::Unmapped { page: BASE + 9 }));
}

#[test]
fn failing_any_allocation_loses_nothing() {
    let machine = Machine::new(16);
    let frames = machine.memory.frames;
    drop(AddressSpace::<Gated>::new(machine.memory).unwrap());
    let free = machine.free();
    let mut n = 0;
    loop {
        frames.fail_after(n);
        let run = || -> Result<(), SpaceError> {
            let mut space = AddressSpace::<Gated>::new(machine.memory)?;
            space.map(pages(0, 700), Protection::ReadWrite, 4)?;
            space.populate(pages(0, 700))?;
            let mut child = space.fork()?;
            write(&mut child, 3, 1)?;
            space.unmap(pages(10, 600))
        };
        let result = run();
        let fired = frames.fail_never();
        frames.drain();
        assert_eq!(machine.free(), free, "allocation {n} failing lost frames ({result:?})");
        if !fired {
            assert_eq!(result, Ok(()));
            break;
        }
        n += 1;
    }
    assert!(n > 20);
}

/// A space as a map from page to protection and content.
type Model = BTreeMap<u64, (Protection, u8)>;

#[derive(Debug, Clone)]
enum Step {
    Map(u64, u64, bool, u32),
    Populate(u64, u64),
    Write(u64, u8),
    Read(u64),
    Unmap(u64, u64),
    Protect(u64, u64, bool),
    Fork,
    Swap,
    DropChild,
}

fn steps() -> impl Strategy<Value = Step> {
    let page = || prop_oneof![0..1600u64, 500..530u64];
    let count = || prop_oneof![1..8u64, 1..900u64];
    prop_oneof![
        3 => (page(), count(), any::<bool>(), prop_oneof![Just(0), Just(2), Just(9)])
            .prop_map(|(p, n, w, o)| Step::Map(p, n, w, o)),
        2 => (page(), count()).prop_map(|(p, n)| Step::Populate(p, n)),
        6 => (page(), any::<u8>()).prop_map(|(p, b)| Step::Write(p, b)),
        3 => page().prop_map(Step::Read),
        3 => (page(), count()).prop_map(|(p, n)| Step::Unmap(p, n)),
        2 => (page(), count(), any::<bool>()).prop_map(|(p, n, w)| Step::Protect(p, n, w)),
        2 => Just(Step::Fork),
        2 => Just(Step::Swap),
        1 => Just(Step::DropChild),
    ]
}

fn protection(writable: bool) -> Protection {
    if writable { Protection::ReadWrite } else { Protection::Read }
}

struct World<P: Policy> {
    spaces: Vec<(AddressSpace<P>, Model)>,
}

impl<P: Policy> World<P> {
    fn step(&mut self, step: Step) {
        let (space, model) = &mut self.spaces[0];
        match step {
            Step::Map(page, count, writable, order) => {
                let free = model.range(page..page + count).next().is_none();
                let result = space.map(pages(page, count), protection(writable), order);
                assert_eq!(result.is_ok(), free);
                if free {
                    model.extend((page..page + count).map(|page| (page, (protection(writable), 0))));
                }
            }
            Step::Populate(page, count) => {
                let covered = model.range(page..page + count).count() as u64 == count;
                match space.populate(pages(page, count)) {
                    Ok(()) => assert!(covered),
                    Err(SpaceError::Unmapped { .. }) => assert!(!covered),
                    Err(error) => assert!(matches!(error, SpaceError::OutOfMemory(_))),
                }
            }
            Step::Write(page, byte) => match (write(space, page, byte), model.get_mut(&page)) {
                (Ok(()), Some((Protection::ReadWrite, content))) => *content = byte,
                (Err(SpaceError::Denied { .. }), Some((Protection::Read, _))) => {}
                (Err(SpaceError::Unmapped { .. }), None) | (Err(SpaceError::OutOfMemory(_)), Some(_)) => {}
                (result, expected) => panic!("{result:?} where the model has {expected:?}"),
            },
            Step::Read(page) => match (read(space, page), model.get(&page)) {
                (Ok(byte), Some((_, content))) => assert_eq!(byte, *content),
                (Err(SpaceError::Unmapped { .. }), None) | (Err(SpaceError::OutOfMemory(_)), Some(_)) => {}
                (result, expected) => panic!("{result:?} where the model has {expected:?}"),
            },
            Step::Unmap(page, count) => {
                space.unmap(pages(page, count)).unwrap();
                model.retain(|at, _| !(page..page + count).contains(at));
            }
            Step::Protect(page, count, writable) => {
                let covered = model.range(page..page + count).count() as u64 == count;
                let result = space.protect(pages(page, count), protection(writable));
                assert_eq!(result.is_ok(), covered);
                if covered {
                    model.range_mut(page..page + count).for_each(|(_, page)| page.0 = protection(writable));
                }
            }
            Step::Fork => {
                if self.spaces.len() < 4
                    && let Ok(child) = self.spaces[0].0.fork()
                {
                    let model = self.spaces[0].1.clone();
                    self.spaces.push((child, model));
                }
            }
            Step::Swap => {
                let last = self.spaces.len() - 1;
                self.spaces.swap(0, last);
                self.spaces[0].0.activate();
            }
            Step::DropChild => {
                if self.spaces.len() > 1 {
                    self.spaces.pop();
                }
            }
        }
    }

    /// Leaves, references and live counts against each other and the model.
    fn check(&self, machine: &Machine) {
        let mut references: BTreeMap<u64, u32> = BTreeMap::new();
        for (space, model) in &self.spaces {
            machine.check_tables(space.root());
            for (page, level, leaf) in leaves(space.root()) {
                assert_eq!(level, Level::L3);
                let (protection, _) = model.get(&(page - BASE)).expect("a page that no region holds");
                let access = leaf.access(crate::desc::Format::Indirect);
                assert!(!access.el0_write || *protection == Protection::ReadWrite);
                *references.entry(leaf.frame().head().number()).or_default() += 1;
                let shared = leaf.frame().head().meta().refs() > 1 && leaf.frame().meta().order() == 0;
                assert!(!(shared && access.el0_write), "a shared page is writable");
            }
            live_counts(space.root(), Level::L0);
        }
        for (frame, count) in references {
            assert_eq!(Frame::from_number(frame).meta().refs(), count, "references of frame {frame}");
        }
    }
}

fn live_counts(table: Table<UserTables>, level: Level) {
    let valid = table.entries().iter().filter(|entry| entry.get().is_valid()).count() as u32;
    assert_eq!(table.frame().meta().live(), valid);
    for entry in table.entries() {
        if let Decoded::Table(frame) = entry.get().decode(level) {
            live_counts(Table::at(frame), level.below().unwrap());
        }
    }
}

fn random<P: Policy>(steps: Vec<Step>, blocks: u64) {
    let machine = Machine::new(blocks);
    drop(AddressSpace::<P>::new(machine.memory).unwrap());
    let free = machine.free();
    let space = AddressSpace::new(machine.memory).unwrap();
    let mut world = World::<P> { spaces: std::vec![(space, Model::new())] };
    for step in steps {
        world.step(step);
        Recorder::take();
    }
    world.check(&machine);
    drop(world);
    machine.memory.frames.drain();
    assert_eq!(machine.free(), free, "frames are lost");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn random_sequences_match_the_model(steps in prop::collection::vec(steps(), 1..80)) {
        random::<Gated>(steps, 40);
    }

    #[test]
    fn random_sequences_with_little_memory(steps in prop::collection::vec(steps(), 1..80)) {
        random::<Off<Recorder>>(steps, 5);
    }
}
