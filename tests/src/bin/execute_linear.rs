//! A jump to the kernel's own text by its address in the linear map faults: only the link address executes.
//! expect: 0
//! line: ^the expected fault came: fetch
#![no_std]
#![no_main]

use core::mem;
use mm::linear;
use palisade::boot::image::Part;
use palisade::exception::{Access, Expectation, expect};

palisade::kernel_main!(main);

extern "C" fn nothing() {}

fn main(boot: &palisade::Boot) -> u32 {
    let within = nothing as *const () as usize - Part::Text.link_range().start as usize;
    let alias = linear::ptr(boot.image.start(Part::Text)).wrapping_add(within);
    expect(Expectation::Permission(Access::Execute, alias.addr() as u64));
    // SAFETY: faults; if it did not, it is a function that does nothing.
    unsafe { mem::transmute::<*mut u8, extern "C" fn()>(alias)() };
    1
}
