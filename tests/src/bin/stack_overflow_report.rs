//! The report of a stack overflow has a backtrace, taken on the overflow stack.
//! expect: 101
//! line: ^  #[0-9]+ [0-9a-f]{16} .*deeper
#![no_std]
#![no_main]

use core::hint::black_box;

palisade::kernel_main!(main);

#[expect(unconditional_recursion, reason = "that is the test")]
#[inline(never)]
fn deeper(level: u64) -> u64 {
    let frame = black_box([level; 24]);
    deeper(level + 1) + frame[(level % 24) as usize]
}

fn main(_boot: &palisade::Boot) -> u32 {
    black_box(deeper(0));
    0
}
