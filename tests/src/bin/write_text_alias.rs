//! A store to the kernel's text by its address in the linear map faults.
//! expect: 0
//! line: ^the expected fault came: write
#![no_std]
#![no_main]

use mm::linear;
use palisade::boot::image::Part;
use palisade::exception::{Access, Expectation, expect};

palisade::kernel_main!(main);

fn main(boot: &palisade::Boot) -> u32 {
    let text = linear::ptr(boot.image.start(Part::Text)).cast::<u32>();
    expect(Expectation::Permission(Access::Write, text.addr() as u64));
    // SAFETY: faults; if it did not, this kernel ends right after.
    unsafe { text.write_volatile(0) };
    1
}
