//! A recursion without end runs into the guard and is reported as such.
//! expect: 0
//! line: ^the expected fault came: kernel stack overflow
#![no_std]
#![no_main]

use core::hint::black_box;
use palisade::exception::{Expectation, expect};

palisade::kernel_main!(main);

#[expect(unconditional_recursion, reason = "that is the test")]
fn deeper(level: u64) -> u64 {
    let frame = black_box([level; 24]);
    deeper(level + 1) + frame[(level % 24) as usize]
}

fn main(_boot: &palisade::Boot) -> u32 {
    expect(Expectation::StackOverflow);
    black_box(deeper(0));
    1
}
