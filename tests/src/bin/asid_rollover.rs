//! More address spaces than identifiers: numbers are used again and again, and no space ever sees another's memory.
//!
//! QEMU has no CPU with 8 bits of ASID and S1PIE, so the kernel is given 7 of the 16.
//! expect: 0
#![no_std]
#![no_main]

extern crate alloc;

use alloc::boxed::Box;
use alloc::vec::Vec;
use mm::addr::Frame;
use mm::asid::Asids;
use mm::linear;
use mm::memory::Memory;
use mm::pool::TablePool;
use mm::space::{Access, AddressSpace, Protection};
use mm::table::walk;
use palisade::exception::probe;
use palisade_tests::kit::{Counting, Random, events, pages, virt};

palisade::kernel_main!(main);

const BITS: u32 = 7;
const SPACES: usize = 400;
const STEPS: u64 = 20_000;
/// What every space has, each with contents of its own.
const REGION: u64 = 0x5000_0000;

type Space = AddressSpace<Counting>;

/// A second memory beside the kernel's: the same frames, tables of its own, few identifiers.
fn memory(boot: &palisade::Boot) -> &'static Memory {
    let kernel = boot.memory.kernel;
    let zone = Frame::containing(boot.image.boot_tables().start().start().align_down(1 << 30));
    Box::leak(Box::new(Memory {
        frames: boot.memory.frames,
        pool: TablePool::new(zone, 512).expect("room"),
        asids: Asids::new(BITS).expect("room"),
        kernel,
        empty_root: boot.memory.empty_root,
    }))
}

/// A space whose page holds `tag`.
fn space(memory: &'static Memory, tag: u8) -> Space {
    let mut space = Space::new(memory).expect("room");
    space.map(pages(REGION, 1), Protection::ReadWrite, 0).expect("free addresses");
    space.fault(virt(REGION), Access::Write).expect("room");
    let frame = walk(space.root(), virt(REGION)).descriptor.frame();
    // SAFETY: the space's own frame, which nothing else refers to.
    unsafe { linear::ptr(frame.start()).write_volatile(tag) };
    space
}

fn main(boot: &palisade::Boot) -> u32 {
    let memory = memory(boot);
    let mut random = Random::new(1);
    let mut tags: Vec<u8> = (0..SPACES).map(|_| random.draw() as u8).collect();
    let mut spaces: Vec<Space> = tags.iter().map(|tag| space(memory, *tag)).collect();
    let mut rollovers = 0;
    for _ in 0..STEPS {
        let at = random.below(SPACES as u64) as usize;
        let ((), counted) = events(|| spaces[at].activate());
        rollovers += counted.tlbi;
        assert_eq!(probe::read_user_u8(REGION), Ok(tags[at]));
        match random.below(8) {
            0 => {
                tags[at] = random.draw() as u8;
                assert_eq!(probe::write_user_u8(REGION, tags[at]), Ok(()));
            }
            1 => {
                // Its number may go to the next one at once.
                tags[at] = random.draw() as u8;
                spaces[at] = space(memory, tags[at]);
                spaces[at].activate();
                assert_eq!(probe::read_user_u8(REGION), Ok(tags[at]));
            }
            2 => {
                // The page goes, and with it what TLBs hold under this number, current or not.
                let other = random.below(SPACES as u64) as usize;
                spaces[other].unmap(pages(REGION, 1)).expect("a user page");
                tags[other] = random.draw() as u8;
                spaces[other] = space(memory, tags[other]);
            }
            _ => (),
        }
    }
    palisade::println!("{STEPS} activations of {SPACES} spaces with {BITS} bits: {rollovers} rollovers");
    // Spaces outnumber identifiers three to one, so that most activations need a new one.
    assert!((STEPS / 2) >> BITS < rollovers && rollovers < STEPS >> (BITS - 1));
    0
}
