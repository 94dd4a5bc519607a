//! A load from address 0 faults.
//! expect: 0
//! line: ^the expected fault came: read at 0x0000000000000000
#![no_std]
#![no_main]

use core::arch::asm;
use palisade::exception::{Access, Expectation, expect};

palisade::kernel_main!(main);

fn main(_boot: &palisade::Boot) -> u32 {
    expect(Expectation::Translation(Access::Read, 0));
    // SAFETY: faults; if it did not, a load changes nothing.
    unsafe { asm!("ldr {0}, [{0}]", inout(reg) 0_u64 => _, options(readonly, nostack)) };
    1
}
