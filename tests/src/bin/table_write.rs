//! A store to the kernel's root outside of a section ends the kernel, and the report says what it was.
//! expect: 101
//! line: ^PANIC on CPU 0: unguarded write to a page table
#![no_std]
#![no_main]

use mm::linear;

palisade::kernel_main!(main);

fn main(boot: &palisade::Boot) -> u32 {
    let root = linear::ptr(boot.memory.kernel.table().frame().start()).cast::<u64>();
    // Entry 300 spans kernel areas that nobody uses.
    let entry = root.wrapping_add(300);
    // SAFETY: faults; if it did not, this kernel ends right after.
    unsafe { entry.write_volatile(0) };
    0
}
