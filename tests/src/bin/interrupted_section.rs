//! Timer interrupts at any point of open sections, thousands of them: each handler runs closed, can't write tables, writes those of
//! another space in a section of its own; and what was interrupted goes on as if nothing had been.
//! expect: 0
#![no_std]
#![no_main]

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use mm::addr::{Frame, PhysAddr};
use mm::desc::{Descriptor, Level};
use mm::linear;
use mm::memory::Memory;
use mm::space::{AddressSpace, Protection};
use mm::table::{Table, walk};
use mm::tlb;
use palisade::exception::{Kind, probe};
use palisade_tests::interrupts;
use palisade_tests::kit::{Protected, Random, accounted, pages, virt};
use pkeys::{PerWrite, Policy, Por, PorGate, Section, UserTables};
use platform::arch::{Arch, Arm};
use spin::Mutex;

palisade::kernel_main!(main);

const REGION: u64 = 0x20_0000_0000;
/// Interrupts inside the raw section that are wanted at least.
const WANTED: u64 = 2000;
const ROUNDS: u64 = 30;

/// Interrupts, and how many of them came while the flag below said that a section was open.
static TAKEN: AtomicU64 = AtomicU64::new(0);
static INSIDE: AtomicU64 = AtomicU64::new(0);
static OPEN: AtomicBool = AtomicBool::new(false);
/// The handler's own leaf table, and the entry that the interrupted section writes.
static OWN: Mutex<Option<Table<UserTables>>> = Mutex::new(None);
static VICTIM: AtomicU64 = AtomicU64::new(0);
static RANDOM: Mutex<Option<Random>> = Mutex::new(None);

fn handler() -> Option<Duration> {
    assert_eq!(Arm::read_por(), Por::CLOSED.bits(), "handlers run closed");
    TAKEN.fetch_add(1, Ordering::Relaxed);
    if OPEN.load(Ordering::Relaxed) {
        INSIDE.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: faults; if not, the test ends right after.
    let fault =
        unsafe { probe::write_u64(VICTIM.load(Ordering::Relaxed), 0) }.expect_err("the section is not the handler's");
    assert!(matches!(fault.kind(), Kind::Permission(_)) && fault.por == Por::CLOSED.bits());

    let own = *OWN.lock();
    let own = own.expect("set before the first interrupt");
    let section = Section::<Protected, UserTables>::open();
    let token = section.token();
    // SAFETY: the table is this test's own space's, which nobody uses; a page becomes write-protected or writable again, no more.
    for entry in unsafe { own.raw_entries() } {
        let old = entry.get();
        let new = if old.is_write_protected() { old.write_enabled() } else { old.write_protected() };
        entry.set(token, new);
        assert_eq!(entry.get(), new);
    }
    section.end(tlb::publish::<Arm>);
    assert_eq!(Arm::read_por(), Por::CLOSED.bits(), "the handler's section is over");
    let delay = RANDOM.lock().as_mut().expect("set before the first interrupt").below(40_000);
    Some(Duration::from_nanos(5_000 + delay))
}

/// A space of one full leaf table, and that table.
fn space_of_a_table(memory: &'static Memory) -> (AddressSpace<Protected>, Table<UserTables>) {
    let mut space = AddressSpace::new(memory).expect("room");
    space.map(pages(REGION, 512), Protection::ReadWrite, 0).expect("free addresses");
    space.populate(pages(REGION, 512)).expect("room");
    let mut table = space.root();
    for level in [Level::L0, Level::L1, Level::L2] {
        table = table.next(level, virt(REGION)).expect("populated");
    }
    (space, table)
}

fn address_of(table: Table<UserTables>, index: u64) -> u64 {
    linear::ptr(table.frame().start()).addr() as u64 + index * 8
}

/// One section that goes on writing one table until enough interrupts came in it.
fn long_section(memory: &'static Memory) {
    let (space, table) = space_of_a_table(memory);
    VICTIM.store(address_of(table, 7), Ordering::Relaxed);
    // SAFETY: as in the handler, for another space of this test, which lives until the end of this function.
    let entries = unsafe { table.raw_entries() };
    let before: [Descriptor; 512] = core::array::from_fn(|i| entries[i].get());
    let mut passes = 0;
    while INSIDE.load(Ordering::Relaxed) < WANTED {
        let section = Section::<Protected, UserTables>::open();
        let por = Arm::read_por();
        OPEN.store(true, Ordering::Relaxed);
        for _ in 0..8 {
            for entry in entries {
                let old = entry.get();
                let new = if passes % 2 == 0 { old.write_protected() } else { old.write_enabled() };
                entry.set(section.token(), new);
                assert_eq!(entry.get(), new);
            }
            passes += 1;
        }
        OPEN.store(false, Ordering::Relaxed);
        assert_eq!(Arm::read_por(), por, "the section is open to its end");
        section.end(tlb::publish::<Arm>);
        assert_eq!(Arm::read_por(), Por::CLOSED.bits());
    }
    for (entry, before) in entries.iter().zip(before) {
        assert_eq!(entry.get(), before);
    }
    drop(space);
    palisade::println!("{passes} passes over a table in open sections");
}

/// Whole operations, interrupted anywhere; what they leave has to be right.
fn operations<P: Policy>(memory: &'static Memory, round: u64) {
    let mut random = Random::new(round);
    let count = 600 + random.below(1000);
    let region = pages(REGION, count);
    let mut space = AddressSpace::<P>::new(memory).expect("room");
    space.map(region, Protection::ReadWrite, [0, 3][round as usize % 2]).expect("free addresses");
    space.activate();
    space.populate(region).expect("room");
    let root = space.root();
    let frame = |root, page: u64| -> Frame { walk(root, virt(REGION + page * 4096)).descriptor.frame() };
    for page in 0..count {
        assert!(walk(root, virt(REGION + page * 4096)).descriptor.is_valid());
        // SAFETY: a frame of this test's space, which only this test uses.
        unsafe { linear::ptr(frame(root, page).start()).cast::<u64>().write_volatile(page ^ round) };
    }
    let mut child = space.fork().expect("room");
    let cut = random.below(count - 8);
    child.protect(pages(REGION + cut * 4096, 8), Protection::Read).expect("mapped");
    space.unmap(pages(REGION + cut * 4096, 8)).expect("user pages");
    for page in 0..count {
        let parent = walk(root, virt(REGION + page * 4096)).descriptor;
        assert_eq!(parent.is_valid(), !(cut..cut + 8).contains(&page));
        let pa: PhysAddr = frame(child.root(), page).start();
        // SAFETY: as above; the child has it still.
        assert_eq!(unsafe { linear::ptr(pa).cast::<u64>().read_volatile() }, page ^ round);
    }
}

fn main(boot: &palisade::Boot) -> u32 {
    // Whatever is made once is made before the count.
    operations::<Protected>(boot.memory, 1);
    let before = accounted(boot.memory);
    let (own_space, own) = space_of_a_table(boot.memory);
    *OWN.lock() = Some(own);
    *RANDOM.lock() = Some(Random::new(1));
    VICTIM.store(address_of(own, 0), Ordering::Relaxed);
    interrupts::start(boot, handler);
    interrupts::arm(Duration::from_micros(20));
    interrupts::unmasked(|| {
        long_section(boot.memory);
        VICTIM.store(address_of(own, 0), Ordering::Relaxed);
        for round in 0..ROUNDS {
            operations::<Protected>(boot.memory, round);
            operations::<PerWrite<PorGate<Arm>>>(boot.memory, round);
        }
    });
    palisade::println!(
        "{} interrupts, {} in an open section",
        TAKEN.load(Ordering::Relaxed),
        INSIDE.load(Ordering::Relaxed)
    );
    drop(own_space);
    assert_eq!(accounted(boot.memory), before, "every frame is back");
    0
}
