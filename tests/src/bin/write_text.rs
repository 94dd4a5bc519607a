//! A store to the kernel's text faults.
//! expect: 0
//! line: ^the expected fault came: write
#![no_std]
#![no_main]

use palisade::exception::{Access, Expectation, expect};

palisade::kernel_main!(main);

fn main(_boot: &palisade::Boot) -> u32 {
    let text = main as *const () as *mut u32;
    expect(Expectation::Permission(Access::Write, text.addr() as u64));
    // SAFETY: faults; if it did not, this kernel ends right after.
    unsafe { text.write_volatile(0) };
    1
}
