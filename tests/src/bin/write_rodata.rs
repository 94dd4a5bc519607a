//! A store to a constant faults.
//! expect: 0
//! line: ^the expected fault came: write
#![no_std]
#![no_main]

use palisade::exception::{Access, Expectation, expect};

palisade::kernel_main!(main);

static CONSTANT: u64 = 0x1234_5678;

fn main(_boot: &palisade::Boot) -> u32 {
    let constant = &raw const CONSTANT;
    expect(Expectation::Permission(Access::Write, constant.addr() as u64));
    // SAFETY: faults; if it did not, this kernel ends right after.
    unsafe { constant.cast_mut().write_volatile(0) };
    1
}
