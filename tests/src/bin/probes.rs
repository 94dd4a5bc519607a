//! Accesses that may fault say how, and the kernel goes on.
//! expect: 0
#![no_std]
#![no_main]

use mm::linear;
use palisade::exception::{Access, Kind, probe};
use pkeys::Por;

palisade::kernel_main!(main);

static CONSTANT: u64 = 0x1234_5678;

fn main(boot: &palisade::Boot) -> u32 {
    let constant = (&raw const CONSTANT).addr() as u64;
    // SAFETY: a constant; memory without side effects.
    assert_eq!(unsafe { probe::read_u64(constant) }, Ok(CONSTANT));
    let mut word = 1;
    // SAFETY: `word` is this function's.
    assert_eq!(unsafe { probe::write_u64((&raw mut word).addr() as u64, 2) }, Ok(()));
    // SAFETY: `word` is live; read past the compiler, which did not see the write.
    assert_eq!(unsafe { (&raw const word).read_volatile() }, 2);

    // SAFETY: the write faults, or the kernel ends right after.
    let fault = unsafe { probe::write_u64(constant, 0) }.expect_err("constants are read-only");
    assert_eq!((fault.access(), fault.kind(), fault.far), (Access::Write, Kind::Permission(2), constant));
    assert!(!fault.is_overlay());
    assert_eq!(fault.por, Por::CLOSED.bits());

    let root = linear::ptr(boot.memory.kernel.table().frame().start()).addr() as u64;
    // SAFETY: the write faults, or the kernel ends right after.
    let fault = unsafe { probe::write_u64(root + 300 * 8, 0) }.expect_err("tables are gated");
    assert_eq!((fault.access(), fault.kind()), (Access::Write, Kind::Permission(2)));
    assert_eq!(fault.is_overlay(), boot.features.s1poe);

    // SAFETY: nothing is mapped at 0.
    let fault = unsafe { probe::read_u64(0) }.expect_err("nothing is at 0");
    assert_eq!((fault.access(), fault.kind()), (Access::Read, Kind::Translation(0)));
    let fault = probe::write_user_u8(0, 1).expect_err("no address space is active");
    assert_eq!((fault.access(), fault.kind()), (Access::Write, Kind::Translation(0)));
    0
}
