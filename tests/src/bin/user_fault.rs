//! A fault of a user access goes to the handler, which runs with POR_EL1 closed, even out of an open section.
//! expect: 0
#![no_std]
#![no_main]

use core::sync::atomic::{AtomicU64, Ordering};
use palisade::exception::{self, Fault, probe};
use pkeys::{Context, Por, UserTables};
use platform::arch::{Arch, Arm};

palisade::kernel_main!(main);

const ADDRESS: u64 = 0x1234_5678;

static CALLS: AtomicU64 = AtomicU64::new(0);
static BEFORE: AtomicU64 = AtomicU64::new(0);

fn handler(fault: &Fault) -> bool {
    assert_eq!(fault.far, ADDRESS);
    assert_eq!(fault.por, BEFORE.load(Ordering::Relaxed));
    assert_eq!(Arm::read_por(), Por::CLOSED.bits());
    // The first time it is to be tried again.
    CALLS.fetch_add(1, Ordering::Relaxed).is_multiple_of(2)
}

fn main(_boot: &palisade::Boot) -> u32 {
    exception::set_user_fault_handler(handler);
    for por in [Por::CLOSED, UserTables::OPEN] {
        BEFORE.store(por.bits(), Ordering::Relaxed);
        // SAFETY: a test of what exceptions do to an open section; closed again below.
        unsafe { Arm::write_por(por.bits()) };
        let _ = Arm::isb();
        assert!(probe::read_user_u8(ADDRESS).is_err());
        assert_eq!(Arm::read_por(), por.bits(), "the section goes on as it was");
        // SAFETY: closes.
        unsafe { Arm::write_por(Por::CLOSED.bits()) };
        let _ = Arm::isb();
    }
    assert_eq!(CALLS.load(Ordering::Relaxed), 4);
    0
}
