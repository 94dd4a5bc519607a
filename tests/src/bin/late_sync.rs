//! A section that opens without an ISB writes all the same: a fault for lack of one is over when it is handled, and is
//! retried. A real one is not.
//! expect: 0
#![no_std]
#![no_main]

use mm::linear;
use palisade::exception::{Kind, probe};
use pkeys::{Context, KernelTables, Por, UserTables};
use platform::arch::{Arch, Arm};

palisade::kernel_main!(main);

fn main(boot: &palisade::Boot) -> u32 {
    let root = linear::ptr(boot.memory.kernel.table().frame().start()).addr() as u64;
    for entry in 300..310 {
        let entry = root + entry * 8;
        // SAFETY: a test of the register; closed again below.
        unsafe { Arm::write_por(KernelTables::OPEN.bits()) };
        // SAFETY: the entry is empty and stays so.
        assert_eq!(unsafe { probe::write_u64(entry, 0) }, Ok(()));
        // SAFETY: as above, with the key of other tables.
        unsafe { Arm::write_por(UserTables::OPEN.bits()) };
        let _ = Arm::isb();
        // SAFETY: faults, or writes what is there.
        let fault = unsafe { probe::write_u64(entry, 0) }.expect_err("another key is open");
        assert_eq!((fault.kind(), fault.por), (Kind::Permission(2), UserTables::OPEN.bits()));
        // SAFETY: closes.
        unsafe { Arm::write_por(Por::CLOSED.bits()) };
        let _ = Arm::isb();
    }
    0
}
