//! A jump into data faults.
//! expect: 0
//! line: ^the expected fault came: fetch
#![no_std]
#![no_main]

use core::mem;
use core::sync::atomic::AtomicU32;
use palisade::exception::{Access, Expectation, expect};

palisade::kernel_main!(main);

/// `RET`, where no instruction may be fetched.
static CODE: AtomicU32 = AtomicU32::new(0xd65f_03c0);

fn main(_boot: &palisade::Boot) -> u32 {
    let code = CODE.as_ptr();
    expect(Expectation::Permission(Access::Execute, code.addr() as u64));
    // SAFETY: faults; if it did not, the word is a function that returns at once.
    unsafe { mem::transmute::<*mut u32, extern "C" fn()>(code)() };
    1
}
