//! The mechanism of the other tests can fail: another fault than the announced one is no success.
//! expect: 1
//! line: ^expected another fault: write at 0x0000000000000000
#![no_std]
#![no_main]

use core::arch::asm;
use palisade::exception::{Access, Expectation, expect};

palisade::kernel_main!(main);

fn main(_boot: &palisade::Boot) -> u32 {
    expect(Expectation::Translation(Access::Write, 0));
    // SAFETY: faults; if it did not, a load changes nothing.
    unsafe { asm!("ldr {0}, [{0}]", inout(reg) 0_u64 => _, options(readonly, nostack)) };
    0
}
