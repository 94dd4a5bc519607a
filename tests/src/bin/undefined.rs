//! An UNDEFINED instruction that is no access to POR_EL1 ends the kernel.
//! expect: 101
//! line: ^PANIC on CPU 0: synchronous exception: undefined instruction
#![no_std]
#![no_main]

use core::arch::asm;

palisade::kernel_main!(main);

fn main(_boot: &palisade::Boot) -> u32 {
    // SAFETY: UDF changes nothing.
    unsafe { asm!("udf #0") };
    0
}
