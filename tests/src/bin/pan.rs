//! EL1 reaches user memory by unprivileged accesses alone; a plain load is refused by PAN.
//! expect: 0
//! line: ^the expected fault came: read at 0x0000000000400000
#![no_std]
#![no_main]

use mm::addr::{Page, PageRange, VirtAddr};
use mm::space::{AddressSpace, Protection};
use palisade::exception::{Access, Expectation, expect, probe};
use pkeys::{Batched, PorGate};
use platform::arch::Arm;

palisade::kernel_main!(main);

const ADDRESS: u64 = 0x40_0000;

fn main(boot: &palisade::Boot) -> u32 {
    let mut space = AddressSpace::<Batched<PorGate<Arm>>>::new(boot.memory).expect("memory for a space");
    let page = VirtAddr::new(ADDRESS).map(Page::containing).expect("a user address");
    let range = PageRange::new(page, 1).expect("one page");
    space.map(range, Protection::ReadWrite, 0).expect("an empty space");
    space.populate(range).expect("memory for a page");
    space.activate();
    assert_eq!(probe::write_user_u8(ADDRESS, 0x5a), Ok(()));
    assert_eq!(probe::read_user_u8(ADDRESS), Ok(0x5a));
    expect(Expectation::Permission(Access::Read, ADDRESS));
    // SAFETY: faults; if it did not, a load changes nothing.
    unsafe { core::ptr::with_exposed_provenance::<u8>(ADDRESS as usize).read_volatile() };
    1
}
