//! With the gate off nothing refuses a store to a table: what the other tests see is the gate's doing.
//! qemu: --gate none
//! expect: 0
#![no_std]
#![no_main]

use mm::linear;
use palisade::exception::probe;
use palisade::protection::Protection;

palisade::kernel_main!(main);

fn main(boot: &palisade::Boot) -> u32 {
    assert_eq!(boot.protection, Protection::None);
    let root = linear::ptr(boot.memory.kernel.table().frame().start()).addr() as u64;
    // SAFETY: entry 300 of the root is empty and stays so.
    assert_eq!(unsafe { probe::write_u64(root + 300 * 8, 0) }, Ok(()));
    0
}
