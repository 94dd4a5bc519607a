//! Interrupts inside an open section: the handler runs closed and opens a section of its own, and the section goes on
//! open.
//! expect: 0
#![no_std]
#![no_main]

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use mm::linear;
use palisade::exception::probe;
use palisade_tests::interrupts;
use pkeys::{Context, KernelTables, Por, UserTables};
use platform::arch::{Arch, Arm};

palisade::kernel_main!(main);

static TAKEN: AtomicU64 = AtomicU64::new(0);
static ENTRY: AtomicU64 = AtomicU64::new(0);

fn set(por: Por) {
    // SAFETY: a test of the register; every value leaves key 0 accessible, and the test ends closed.
    unsafe { Arm::write_por(por.bits()) };
    let _ = Arm::isb();
}

fn writes() -> bool {
    // SAFETY: the entry is empty and stays so: the write faults, or writes what is there.
    unsafe { probe::write_u64(ENTRY.load(Ordering::Relaxed), 0) }.is_ok()
}

fn handler() -> Option<Duration> {
    assert_eq!(Arm::read_por(), Por::CLOSED.bits(), "handlers run closed");
    assert!(!writes());
    set(KernelTables::OPEN);
    assert!(writes());
    set(Por::CLOSED);
    TAKEN.fetch_add(1, Ordering::Relaxed);
    None
}

fn main(boot: &palisade::Boot) -> u32 {
    let entry = linear::ptr(boot.memory.kernel.table().frame().start()).addr() as u64 + 300 * 8;
    ENTRY.store(entry, Ordering::Relaxed);
    interrupts::start(boot, handler);
    for por in [Por::CLOSED, UserTables::OPEN, KernelTables::OPEN] {
        let before = TAKEN.load(Ordering::Relaxed);
        set(por);
        interrupts::arm(Duration::from_micros(10));
        interrupts::unmasked(|| {
            while TAKEN.load(Ordering::Relaxed) == before {
                assert_eq!(writes(), por == KernelTables::OPEN);
            }
        });
        assert_eq!(Arm::read_por(), por.bits(), "the section goes on as it was");
        assert_eq!(writes(), por == KernelTables::OPEN);
        set(Por::CLOSED);
    }
    0
}
