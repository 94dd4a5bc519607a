//! Whatever spaces and areas do, in whatever order and however little memory there is, an audit finds nothing after it.

use super::{DATA, range, va};
use crate::addr::{Frame, FrameRange, PAGE_SIZE, VirtAddr};
use crate::area::{Areas, VmFlags};
use crate::audit::{Scope, Summary};
use crate::pool::BLOCK_FRAMES;
use crate::space::{Access, AddressSpace, Protection};
use crate::testing::Machine;
use pkeys::{Batched, PorGate};
use platform::arch::Recorder;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

type P = Batched<PorGate<Recorder>>;

/// Pages that spaces use, across several last-level tables.
const PAGES: u64 = 2000;

#[derive(Clone, Debug)]
enum Step {
    Map { space: usize, first: u64, pages: u64, protection: Protection, order: u32 },
    Populate { space: usize, first: u64, pages: u64 },
    Unmap { space: usize, first: u64, pages: u64 },
    Protect { space: usize, first: u64, pages: u64, protection: Protection },
    Fault { space: usize, page: u64, access: Access },
    Fork { space: usize },
    End { space: usize },
    Vmalloc { pages: u64, huge: bool },
    MapRam { pages: u64 },
    Free { area: usize },
    Purge,
}

fn step() -> impl Strategy<Value = Step> {
    let space = any::<usize>;
    let pages = || (0..PAGES, prop_oneof![1..20_u64, 1..1200_u64]);
    let protection = || {
        prop_oneof![
            3 => Just(Protection::ReadWrite),
            1 => Just(Protection::Read),
            2 => Just(Protection::ReadExecute),
        ]
    };
    let access = || prop_oneof![Just(Access::Read), Just(Access::Write), Just(Access::Execute)];
    prop_oneof![
        3 => (space(), pages(), protection(), 0..5_u32).prop_map(|(space, (first, pages), protection, order)| {
            Step::Map { space, first, pages, protection, order }
        }),
        3 => (space(), pages()).prop_map(|(space, (first, pages))| Step::Populate { space, first, pages }),
        2 => (space(), pages()).prop_map(|(space, (first, pages))| Step::Unmap { space, first, pages }),
        3 => (space(), pages(), protection()).prop_map(|(space, (first, pages), protection)| {
            Step::Protect { space, first, pages, protection }
        }),
        5 => (space(), 0..PAGES, access()).prop_map(|(space, page, access)| Step::Fault { space, page, access }),
        2 => space().prop_map(|space| Step::Fork { space }),
        1 => space().prop_map(|space| Step::End { space }),
        2 => (1..600_u64, any::<bool>()).prop_map(|(pages, huge)| Step::Vmalloc { pages, huge }),
        1 => (1..40_u64).prop_map(|pages| Step::MapRam { pages }),
        2 => any::<usize>().prop_map(|area| Step::Free { area }),
        1 => Just(Step::Purge),
    ]
}

/// What is there to operate on.
struct World {
    spaces: Vec<AddressSpace<P>>,
    /// Address, pages, and whether it was made by vm_map_ram.
    made: Vec<(VirtAddr, u64, bool)>,
    areas: Areas,
    blocks: u64,
    machine: Machine,
}

fn at(first: u64, pages: u64) -> crate::addr::PageRange {
    range(DATA + first * PAGE_SIZE, pages)
}

impl World {
    fn new(blocks: u64) -> World {
        let machine = Machine::new(blocks);
        let areas = Areas::new(machine.memory).unwrap();
        let spaces = [AddressSpace::new(machine.memory).unwrap()].into();
        World { spaces, made: Vec::new(), areas, blocks, machine }
    }

    fn space(&mut self, pick: usize) -> Option<&mut AddressSpace<P>> {
        let index = pick.checked_rem(self.spaces.len())?;
        self.spaces.get_mut(index)
    }

    /// Errors are as good as successes here.
    fn run(&mut self, step: &Step) -> Option<()> {
        match *step {
            Step::Map { space, first, pages, protection, order } => {
                self.space(space)?.map(at(first, pages), protection, order).ok()
            }
            Step::Populate { space, first, pages } => self.space(space)?.populate(at(first, pages)).ok(),
            Step::Unmap { space, first, pages } => self.space(space)?.unmap(at(first, pages)).ok(),
            Step::Protect { space, first, pages, protection } => {
                self.space(space)?.protect(at(first, pages), protection).ok()
            }
            Step::Fault { space, page, access } => {
                self.space(space)?.fault(va(DATA + page * PAGE_SIZE), access).ok().map(drop)
            }
            Step::Fork { space } => {
                let child = self.space(space)?.fork().ok()?;
                self.spaces.push(child);
                Some(())
            }
            Step::End { space } => {
                let index = space.checked_rem(self.spaces.len())?;
                drop(self.spaces.swap_remove(index));
                Some(())
            }
            Step::Vmalloc { pages, huge } => {
                let address = self.areas.vmalloc::<P>(pages, VmFlags { huge, ..VmFlags::default() }).ok()?;
                self.made.push((address, pages, false));
                Some(())
            }
            Step::MapRam { pages } => self.map_ram(pages),
            Step::Free { area } => {
                let (address, pages, ram) = self.made.swap_remove(area.checked_rem(self.made.len())?);
                let freed = match ram {
                    true => self.areas.vm_unmap_ram::<P>(address, pages),
                    false => self.areas.vfree::<P>(address),
                };
                freed.unwrap();
                Some(())
            }
            Step::Purge => {
                self.areas.purge::<P>();
                Some(())
            }
        }
    }

    /// Maps new frames, which only the area refers to afterwards.
    fn map_ram(&mut self, pages: u64) -> Option<()> {
        let frames = self.machine.memory.frames;
        let taken: Vec<_> = (0..pages).map_while(|_| frames.alloc().ok()).collect();
        let made = if taken.is_empty() { None } else { self.areas.vm_map_ram::<P>(&taken).ok() };
        taken.iter().for_each(|frame| frames.release(*frame, 1));
        self.made.push((made?, taken.len() as u64, true));
        Some(())
    }

    fn audit(&self, after: &Step) -> Summary {
        // In two ranges, not in order, whose border no block of 2 MiB or 1 GiB ends at.
        let border = self.blocks * BLOCK_FRAMES / 3 + 7;
        let range = |start, end| FrameRange::new(Frame::from_number(start), end - start).unwrap();
        let ram = [range(border, self.blocks * BLOCK_FRAMES), range(0, border)];
        let roots: Vec<_> = self.spaces.iter().map(AddressSpace::root).collect();
        let scope = Scope { memory: self.machine.memory, ram: &ram, spaces: roots.iter().copied() };
        scope.audit(&mut |violation| panic!("{violation}, after {after:?}"))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_found_after_any_operation(
        steps in prop::collection::vec(step(), 1..60),
        blocks in prop_oneof![Just(6_u64), Just(20), Just(70)],
    ) {
        let mut world = World::new(blocks);
        for step in &steps {
            world.run(step);
            let summary = world.audit(step);
            prop_assert!(summary.pool_counted && !summary.truncated);
        }
    }
}
