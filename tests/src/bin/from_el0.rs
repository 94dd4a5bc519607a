//! EL0 does not run yet: whatever comes from there ends the kernel, with EL0's own registers.
//! expect: 101
//! line: ^PANIC on CPU 0: synchronous exception from EL0: SVC
#![no_std]
#![no_main]

use core::arch::asm;
use mm::addr::{Page, PageRange, VirtAddr};
use mm::space::{AddressSpace, Protection};
use palisade::exception::probe;
use pkeys::{Batched, PorGate};
use platform::arch::Arm;

palisade::kernel_main!(main);

const ADDRESS: u64 = 0x40_0000;
/// `SVC #0`.
const SVC: u32 = 0xd400_0001;

fn main(boot: &palisade::Boot) -> u32 {
    let mut space = AddressSpace::<Batched<PorGate<Arm>>>::new(boot.memory).expect("memory for a space");
    let page = VirtAddr::new(ADDRESS).map(Page::containing).expect("a user address");
    let range = PageRange::new(page, 1).expect("one page");
    space.map(range, Protection::ReadWrite, 0).expect("an empty space");
    space.populate(range).expect("memory for a page");
    space.activate();
    for (i, byte) in SVC.to_le_bytes().into_iter().enumerate() {
        probe::write_user_u8(ADDRESS + i as u64, byte).expect("a populated page");
    }
    space.protect(range, Protection::ReadExecute).expect("the same range");
    // SAFETY: goes to EL0, where the one instruction there comes back to the vectors for good.
    unsafe {
        asm!(
            "dsb ish", "ic iallu", "dsb ish", "isb",
            "msr sp_el0, {sp}", "msr elr_el1, {pc}", "msr spsr_el1, xzr", "eret",
            sp = in(reg) 0x1230_0000_u64,
            pc = in(reg) ADDRESS,
            options(noreturn),
        )
    }
}
