//! Costs that must not grow: of populate, fork and munmap per page from 1 MiB to 1 GiB, of a frame from an empty to a full machine,
//! of a table from the pool, which is no TLBI and no descriptor edit.
//! qemu: --memory 2G
//! expect: 0
#![no_std]
#![no_main]

extern crate alloc;

use alloc::vec::Vec;
use mm::addr::Frame;
use mm::desc::Level;
use mm::memory::Memory;
use mm::space::{AddressSpace, Protection};
use mm::table::Table;
use palisade_tests::kit::{Counting, Protected, Random, events, fingerprint, pages};
use pkeys::{Pkey, Section, UserTables};
use platform::arch::Events;
use platform::pmu::InstructionCounter;
use platform::timer::Timer;

palisade::kernel_main!(main);

/// 2 MiB-aligned, so that each size but the smallest is whole tables.
const REGION: u64 = 0x10_0000_0000;
/// How much more the dearest may cost than the cheapest, in per cent.
const TOLERANCE: u64 = 10;
const OPERATIONS: [&str; 3] = ["populate", "fork", "munmap"];

#[derive(Clone, Copy)]
struct Test {
    memory: &'static Memory,
    counter: InstructionCounter,
}

/// Hundredths, as text has them.
struct Hundredths(u64);

impl core::fmt::Display for Hundredths {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}.{:02}", self.0 / 100, self.0 % 100)
    }
}

/// Prints what `costs`, in hundredths, are; whether they differ by more than they may.
fn is_uneven(what: &str, costs: &[u64]) -> bool {
    let (least, most) = (costs.iter().min().copied().unwrap_or(0), costs.iter().max().copied().unwrap_or(0));
    palisade::print!("{what}:");
    costs.iter().for_each(|cost| palisade::print!(" {}", Hundredths(*cost)));
    let uneven = most * 100 > least * (100 + TOLERANCE);
    palisade::println!("{}", if uneven { " - not flat" } else { "" });
    uneven
}

/// Whether what `costs` says, pages and instructions for them in ascending order, is more than in proportion to the pages, or for any
/// number more than that proportion and what one page costs, `one`.
fn is_steep(one: u64, costs: &[(u64, u64)]) -> bool {
    let (all, most) = costs.last().copied().unwrap_or((1, 0));
    let mut steep = false;
    for &(count, cost) in costs {
        let share = most * count / all;
        let (grows, stands_out) =
            (share * 100 > cost * (100 + TOLERANCE), cost > one + share * (100 + TOLERANCE) / 100);
        if grows || stands_out {
            palisade::println!("  not flat: {count} pages cost {cost}, their share of {all} pages {share}");
            steep = true;
        }
    }
    steep
}

impl Test {
    fn instructions<R>(self, work: impl FnOnce() -> R) -> (R, u64) {
        let start = self.counter.read();
        let result = work();
        (result, self.counter.read() - start)
    }

    /// Instructions of populate, fork and munmap of `count` pages.
    fn space(self, count: u64, order: u32) -> [u64; 3] {
        let region = pages(REGION, count);
        let mut space = AddressSpace::<Protected>::new(self.memory).expect("room");
        space.map(region, Protection::ReadWrite, order).expect("free addresses");
        space.activate();
        let (result, populate) = self.instructions(|| space.populate(region));
        result.expect("room");
        let (child, fork) = self.instructions(|| space.fork());
        drop(child.expect("room"));
        let (result, munmap) = self.instructions(|| space.unmap(region));
        result.expect("user pages");
        [populate, fork, munmap]
    }

    /// Whether the operations cost more per page for more pages, or for few pages more than one page's cost explains.
    fn spaces(self) -> bool {
        let mut uneven = false;
        // From 1 MiB, or from one folio, to 1 GiB.
        for (order, logs) in [(0, [8, 10, 12, 14, 16, 18]), (9, [9, 11, 12, 14, 16, 18])] {
            self.space(512, order);
            let one = self.space(1, order);
            let sizes = logs.map(|log| (1_u64 << log, self.space(1 << log, order)));
            for (index, name) in OPERATIONS.iter().enumerate() {
                let costs = sizes.map(|(count, costs)| (count, costs[index]));
                palisade::print!("{name} p:{}: {} instructions for one page; each of", 1 << order, one[index]);
                costs.iter().for_each(|(count, cost)| palisade::print!(" {count}: {}", Hundredths(cost * 100 / count)));
                palisade::println!();
                uneven |= is_steep(one[index], &costs);
            }
        }
        uneven
    }

    /// Instructions of one alloc and one free, in hundredths, over `count` frames taken and given back in any order.
    fn frames(self, count: u64) -> [u64; 2] {
        let frames = self.memory.frames;
        let mut list: Vec<Frame> = Vec::with_capacity(count as usize);
        let ((), alloc) = self.instructions(|| {
            for _ in 0..count {
                list.push(frames.alloc().expect("room"));
            }
        });
        let mut random = Random::new(count);
        for i in (1..list.len()).rev() {
            list.swap(i, random.below(i as u64 + 1) as usize);
        }
        let ((), free) = self.instructions(|| list.drain(..).for_each(|frame| frames.release(frame, 1)));
        [alloc, free].map(|cost| cost * 100 / count)
    }

    fn machine(self) -> bool {
        const SOME: u64 = 2000;
        let frames = self.memory.frames;
        let total = frames.stats().total();
        self.frames(SOME);
        let mut held = None;
        let costs = [1, 50, 99].map(|per_cent| {
            let used = total - frames.stats().free();
            let chain = frames.alloc_chain((total * per_cent / 100).saturating_sub(used)).expect("room");
            let costs = self.frames(SOME);
            frames.drop_chain(chain);
            costs
        });
        // The same with every other frame in use, so that no block is larger than one frame.
        let mut other = None;
        while frames.stats().free() > total / 100 {
            let Ok(first) = frames.alloc() else { break };
            let Ok(second) = frames.alloc() else { break };
            first.meta().set_link(held.replace(first));
            second.meta().set_link(other.replace(second));
        }
        frames.drop_chain(other);
        let checkered = self.frames(SOME);
        frames.drop_chain(held);
        palisade::println!(
            "in a machine of which every other frame is used: {} {}",
            Hundredths(checkered[0]),
            Hundredths(checkered[1])
        );
        let mut uneven = is_uneven("alloc of a frame with 1 %, 50 %, 99 % used", &costs.map(|[alloc, _]| alloc));
        uneven |= is_uneven("free of a frame with 1 %, 50 %, 99 % used", &costs.map(|[_, free]| free));
        uneven
    }

    /// Takes and puts as many tables as the pool has, without it growing or shrinking.
    fn pool(self) {
        let usage = || self.memory.pool.usage(Pkey::UserTables);
        let mut tables: Vec<Table<UserTables>> = Vec::with_capacity(1024);
        // One table makes the pool grow where it has no block yet.
        let section = Section::<Counting, UserTables>::open();
        tables.push(self.memory.take_table(section.token(), Level::L3).expect("room"));
        let blocks = usage().blocks;
        let room = u64::from(blocks) * mm::pool::BLOCK_FRAMES - usage().tables;
        let leaves = fingerprint(self.memory);
        let ((), counted) = events(|| {
            for _ in 0..room {
                tables.push(self.memory.take_table(section.token(), Level::L3).expect("room"));
            }
            for table in tables.drain(..) {
                self.memory.put_table(section.token(), table);
            }
        });
        assert_eq!(counted, Events::default(), "{room} tables taken and put");
        assert_eq!((usage().blocks, fingerprint(self.memory)), (blocks, leaves), "no descriptor has changed");
        // One more than there are, and the pool grows: what it does then is counted, so it is seen.
        let ((), grown) = events(|| {
            for _ in 0..=room + 1 {
                tables.push(self.memory.take_table(section.token(), Level::L3).expect("room"));
            }
        });
        assert_eq!((grown.tlbi, grown.por_writes), (1, 2));
        assert_eq!(usage().blocks, blocks + 1);
        assert_ne!(fingerprint(self.memory), leaves);
        tables.into_iter().for_each(|table| self.memory.put_table(section.token(), table));
        drop(section);
        palisade::println!("{room} tables: no TLBI, no descriptor edit; one more: {grown:?}");
    }
}

fn main(boot: &palisade::Boot) -> u32 {
    let timer = Timer::new().expect("there is a timer");
    let counter = InstructionCounter::start(&boot.features, timer);
    let test = Test { memory: boot.memory, counter };
    test.pool();
    let uneven = [test.spaces(), test.machine()];
    u32::from(uneven.contains(&true))
}
