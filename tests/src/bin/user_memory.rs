//! User memory as a kernel uses it: faults of unprivileged accesses go to the address space, pages appear, are shared, copied and
//! taken away, and no access ever sees what a stale TLB entry leads to.
//! expect: 0
#![no_std]
#![no_main]

use core::array;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use mm::addr::VirtAddr;
use mm::memory::Memory;
use mm::space::{self, AddressSpace, Protection, Resolved};
use palisade::exception::{self, Access, Fault, Kind, probe};
use palisade_tests::kit::{Protected, Random, accounted, pages};
use spin::Mutex;

palisade::kernel_main!(main);

type Space = AddressSpace<Protected>;

const SPACES: usize = 4;
const REGION: u64 = 0x7000_0000;

static TABLE: Mutex<[Option<Space>; SPACES]> = Mutex::new([const { None }; SPACES]);
/// The space that runs.
static CURRENT: AtomicUsize = AtomicUsize::new(0);
static FILLED: AtomicU64 = AtomicU64::new(0);
static COPIED: AtomicU64 = AtomicU64::new(0);
static REUSED: AtomicU64 = AtomicU64::new(0);
static SPURIOUS: AtomicU64 = AtomicU64::new(0);
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// What a kernel with processes would do about a user fault.
fn handler(fault: &Fault) -> bool {
    let access = match fault.access() {
        Access::Read => space::Access::Read,
        Access::Write => space::Access::Write,
        Access::Execute => space::Access::Execute,
    };
    let Some(va) = VirtAddr::new(fault.far) else { return false };
    let mut spaces = TABLE.lock();
    let Some(space) = &mut spaces[CURRENT.load(Ordering::Relaxed)] else { return false };
    let counter = match space.fault(va, access) {
        Ok(Resolved::Filled) => &FILLED,
        Ok(Resolved::Copied) => &COPIED,
        Ok(Resolved::Reused) => &REUSED,
        Ok(Resolved::Spurious) => &SPURIOUS,
        Err(_) => {
            REFUSED.fetch_add(1, Ordering::Relaxed);
            return false;
        }
    };
    counter.fetch_add(1, Ordering::Relaxed);
    true
}

/// Filled, copied, reused, spurious, refused since the last call.
fn faults() -> [u64; 5] {
    [&FILLED, &COPIED, &REUSED, &SPURIOUS, &REFUSED].map(|counter| counter.swap(0, Ordering::Relaxed))
}

fn with<R>(index: usize, work: impl FnOnce(&mut Space) -> R) -> R {
    work(TABLE.lock()[index].as_mut().expect("a space there"))
}

fn switch(index: usize) {
    CURRENT.store(index, Ordering::Relaxed);
    with(index, Space::activate);
}

fn put(index: usize, space: Option<Space>) {
    // The old one is dropped outside of the lock.
    let old = core::mem::replace(&mut TABLE.lock()[index], space);
    drop(old);
}

fn fork(parent: usize, child: usize) {
    let forked = with(parent, Space::fork).expect("room");
    put(child, Some(forked));
}

fn write(page: u64, value: u8) -> bool {
    probe::write_user_u8(REGION + page * 4096 + page % 4096, value).is_ok()
}

fn read(page: u64) -> Option<u8> {
    probe::read_user_u8(REGION + page * 4096 + page % 4096).ok()
}

/// One life of two spaces, fault by fault; `order` is that of the folios.
fn story(memory: &'static Memory, order: u32) {
    let folio = 1_u64 << order;
    let count = 2 * folio.max(4);
    let region = pages(REGION, count);
    put(0, Some(Space::new(memory).expect("room")));
    with(0, |space| space.map(region, Protection::ReadWrite, order)).expect("free addresses");
    switch(0);
    faults();

    // The first touch of a folio brings zeroes, whether it reads or writes.
    for page in 0..count {
        assert_eq!(read(page), Some(0));
    }
    assert!(write(1, 11) && write(2, 12));
    assert_eq!((read(0), read(1), read(2)), (Some(0), Some(11), Some(12)));
    assert_eq!(faults(), [count / folio, 0, 0, 0, 0]);

    // A fork shares. Entries that TLBs hold as writable must not serve any more.
    fork(0, 1);
    assert!(write(1, 21));
    assert_eq!(read(1), Some(21));
    assert_eq!(faults(), [0, 1, 0, 0, 0]);
    switch(1);
    assert_eq!((read(1), read(2)), (Some(11), Some(12)), "the child sees what was");
    assert!(write(2, 32));
    assert_eq!(faults(), [0, 1, 0, 0, 0]);
    switch(0);
    assert_eq!((read(1), read(2)), (Some(21), Some(12)), "the parent sees its own");

    // With the child gone the parent has its pages to itself again.
    put(1, None);
    assert!(write(0, 40) && write(2, 42));
    let [filled, copied, reused, spurious, refused] = faults();
    assert_eq!((filled, spurious, refused), (0, 0, 0));
    // Of a folio, one page was replaced, so that the rest is found to be the parent's at the first write to it.
    assert_eq!((copied, reused), (0, if order == 0 { 2 } else { 1 }));
    assert_eq!((read(0), read(1), read(2)), (Some(40), Some(21), Some(42)));

    // Read-only is read-only, at once, and later writable again.
    with(0, |space| space.protect(region, Protection::Read)).expect("one region");
    assert!(!write(2, 52) && !write(1, 51));
    assert_eq!((read(1), read(2)), (Some(21), Some(42)));
    with(0, |space| space.protect(region, Protection::ReadWrite)).expect("one region");
    assert!(write(2, 62));
    assert_eq!(read(2), Some(62));

    // What is unmapped is gone, and comes back empty.
    faults();
    with(0, |space| space.unmap(pages(REGION + 4096, 2))).expect("user pages");
    assert_eq!((read(1), read(2), write(1, 1)), (None, None, false));
    assert_eq!(faults(), [0, 0, 0, 0, 3]);
    assert_eq!((read(0), read(3)), (Some(40), Some(0)));
    with(0, |space| space.map(pages(REGION + 4096, 2), Protection::ReadWrite, order)).expect("free addresses");
    assert_eq!((read(1), read(2)), (Some(0), Some(0)));
    put(0, None);
}

/// The kernel itself does not get at user memory by its ordinary accesses (PAN).
fn privileged(memory: &'static Memory) {
    put(0, Some(Space::new(memory).expect("room")));
    with(0, |space| space.map(pages(REGION, 1), Protection::ReadWrite, 0)).expect("free addresses");
    switch(0);
    assert!(write(0, 5));
    // SAFETY: user memory of this test's own.
    let read_fault = unsafe { probe::read_u64(REGION) }.expect_err("PAN");
    // SAFETY: as above.
    let write_fault = unsafe { probe::write_u64(REGION, 6) }.expect_err("PAN");
    assert_eq!((read_fault.kind(), write_fault.kind()), (Kind::Permission(3), Kind::Permission(3)));
    assert_eq!(read(0), Some(5));
    put(0, None);
}

const MODEL_PAGES: usize = 40;

/// What a page of the model is: not mapped, or mapped so that it may be written, and holding this.
type Cell = Option<(bool, u8)>;
type Model = [Option<[Cell; MODEL_PAGES]>; SPACES];

fn range(random: &mut Random) -> (usize, usize) {
    let first = random.below(MODEL_PAGES as u64) as usize;
    (first, first + 1 + random.below((MODEL_PAGES - first) as u64) as usize)
}

/// Maps pages `from` to `to` wherever nothing is.
fn map_holes(model: &mut Model, current: usize, order: u32, from: usize, to: usize) {
    let Some(cells) = &mut model[current] else { return };
    for (page, cell) in cells.iter_mut().enumerate().take(to).skip(from) {
        if cell.is_none() {
            let one = pages(REGION + page as u64 * 4096, 1);
            with(current, |space| space.map(one, Protection::ReadWrite, order)).expect("free addresses");
            *cell = Some((true, 0));
        }
    }
}

/// A step that touches bytes: a write or a read, whose outcome has to be the model's.
fn touch(model: &mut Model, current: usize, random: &mut Random) {
    let page = random.below(MODEL_PAGES as u64) as usize;
    let cells = model[current].as_mut().expect("the current space is there");
    if random.below(2) == 0 {
        assert_eq!(read(page as u64), cells[page].map(|(_, value)| value), "page {page}");
        return;
    }
    let value = random.draw() as u8;
    let may = matches!(cells[page], Some((true, _)));
    assert_eq!(write(page as u64, value), may, "page {page}");
    if may {
        cells[page] = Some((true, value));
    }
}

/// A step that changes spaces. Returns the one that runs afterwards.
fn rearrange(model: &mut Model, current: usize, random: &mut Random) -> usize {
    let (from, to) = range(random);
    let chosen = pages(REGION + from as u64 * 4096, (to - from) as u64);
    let other = (current + 1 + random.below(SPACES as u64 - 1) as usize) % SPACES;
    let other_lives = model[other].is_some();
    let cells = model[current].as_mut().expect("the current space is there");
    match random.below(7) {
        0 => {
            with(current, |space| space.unmap(chosen)).expect("user pages");
            cells[from..to].fill(None);
        }
        1 => map_holes(model, current, [0, 1, 3][random.below(3) as usize], from, to),
        2 | 3 => {
            let writable = random.below(3) > 0;
            let protection = if writable { Protection::ReadWrite } else { Protection::Read };
            let covered = cells[from..to].iter().all(Option::is_some);
            assert_eq!(with(current, |space| space.protect(chosen, protection)).is_ok(), covered);
            if covered {
                cells[from..to].iter_mut().flatten().for_each(|cell| cell.0 = writable);
            }
        }
        4 => {
            fork(current, other);
            model[other] = model[current];
        }
        5 if other_lives => {
            // The other one runs, and this one ends or goes on later.
            switch(other);
            if random.below(3) == 0 {
                put(current, None);
                model[current] = None;
            }
            return other;
        }
        _ => {
            let covered = cells[from..to].iter().all(Option::is_some);
            assert_eq!(with(current, |space| space.populate(chosen)).is_ok(), covered);
        }
    }
    current
}

/// Random steps in up to four spaces, every byte compared with a model.
fn random_steps(memory: &'static Memory, seed: u64) {
    let mut random = Random::new(seed);
    let mut model: Model = array::from_fn(|_| None);
    put(0, Some(Space::new(memory).expect("room")));
    model[0] = Some([None; MODEL_PAGES]);
    let mut current = 0;
    switch(current);
    for step in 0..4000 {
        if random.below(3) > 0 {
            touch(&mut model, current, &mut random);
        } else {
            current = rearrange(&mut model, current, &mut random);
        }
        if step % 64 == 0 {
            let cells = model[current].expect("the current space is there");
            for (page, cell) in cells.iter().enumerate() {
                assert_eq!(read(page as u64), cell.map(|(_, value)| value), "page {page}");
            }
        }
    }
    for index in 0..SPACES {
        put(index, None);
    }
}

fn main(boot: &palisade::Boot) -> u32 {
    exception::set_user_fault_handler(handler);
    story(boot.memory, 0);
    let before = accounted(boot.memory);
    for order in [0, 4, 9] {
        story(boot.memory, order);
    }
    privileged(boot.memory);
    faults();
    for seed in 1..=8 {
        random_steps(boot.memory, seed);
    }
    let [filled, copied, reused, spurious, refused] = faults();
    palisade::println!(
        "random steps: {filled} faults filled, {copied} copied, {reused} reused, {spurious} spurious, {refused} refused"
    );
    assert!(filled > 0 && copied > 0 && reused > 0 && refused > 0);
    assert_eq!(accounted(boot.memory), before, "every frame is back");
    0
}
