//! POR_EL1 holds what is written, from and to any register, and the tables obey it at once.
//! expect: 0
#![no_std]
#![no_main]

use core::arch::asm;
use mm::linear;
use palisade::exception::probe;
use pkeys::{Context, KernelTables, Por, UserTables};
use platform::arch::{Arch, Arm};

palisade::kernel_main!(main);

fn set(por: Por) {
    // SAFETY: a test of the register itself; every value leaves key 0 accessible, and the last one is closed.
    unsafe { Arm::write_por(por.bits()) };
    let _ = Arm::isb();
}

/// Writes and reads POR_EL1 by way of `$register`.
macro_rules! through {
    ($($register:tt)*) => {$({
        let back: u64;
        // SAFETY: as in `set`.
        unsafe {
            asm!(
                concat!("msr s3_0_c10_c2_4, ", $register),
                "isb",
                concat!("mov ", $register, ", #0"),
                concat!("mrs ", $register, ", s3_0_c10_c2_4"),
                inout($register) UserTables::OPEN.bits() => back,
            );
        }
        assert_eq!(back, UserTables::OPEN.bits(), $register);
        set(Por::CLOSED);
    })*};
}

fn main(boot: &palisade::Boot) -> u32 {
    through!("x0" "x1" "x2" "x3" "x7" "x8" "x15" "x16" "x17" "x20" "x28");
    let entry = linear::ptr(boot.memory.kernel.table().frame().start()).addr() as u64 + 300 * 8;
    // SAFETY: entry 300 of the root is empty and stays so: the write faults, or writes what is there.
    let writes = || unsafe { probe::write_u64(entry, 0) }.is_ok();
    for _ in 0..3 {
        assert!(!writes(), "closed");
        set(UserTables::OPEN);
        assert!(!writes(), "another key is open");
        set(KernelTables::OPEN);
        assert!(writes(), "its own key is open");
        set(Por::CLOSED);
    }
    assert!(!writes());
    0
}
