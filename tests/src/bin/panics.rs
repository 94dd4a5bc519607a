//! A panic prints its message and a backtrace with names, and ends the machine with code 101.
//! expect: 101
//! line: ^  #[0-9]+ [0-9a-f]{16} .*fails_for_the_test
#![no_std]
#![no_main]

use core::hint::black_box;

palisade::kernel_main!(main);

#[inline(never)]
fn fails_for_the_test(number: u32) -> u32 {
    assert!(number != 7, "number {number}");
    number
}

fn main(_boot: &palisade::Boot) -> u32 {
    black_box(fails_for_the_test(black_box(7)))
}
