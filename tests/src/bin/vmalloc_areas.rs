//! Kernel areas of every size and kind: what is written through one lies in its frames, guards and purged areas fault, nothing wrong
//! is freed or mapped. At last the kernel jumps into one, which has to fault.
//! expect: 0
#![no_std]
#![no_main]

extern crate alloc;

use alloc::vec::Vec;
use mm::addr::{Frame, PAGE_SIZE, VirtAddr};
use mm::area::{AreaError, Areas, STACK_PAGES, VmFlags};
use mm::desc::{CONTIGUOUS_PAGES, Level};
use mm::frame::Kind;
use mm::memory::Memory;
use mm::space::AddressSpace;
use palisade::exception::{Access, Expectation, Kind as FaultKind, expect, probe};
use palisade_tests::kit::{Protected, Random, accounted, read, read_physical, translate, virt, write};
use pkeys::Pkey;

palisade::kernel_main!(main);

/// Pages of the largest area there can be.
const MOST: u64 = (1 << 18) - 1;

struct Test<'a> {
    memory: &'static Memory,
    areas: &'a Areas,
}

fn page(area: VirtAddr, index: u64) -> VirtAddr {
    virt(area.get() + index * PAGE_SIZE)
}

/// What page `index` of an area at `area` holds, twice: at a place that differs from page to page.
fn pattern(area: VirtAddr, index: u64) -> (u64, u64) {
    (area.get() ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15), index * 8 % PAGE_SIZE)
}

fn is_unmapped(va: VirtAddr) -> bool {
    // SAFETY: areas are ordinary memory.
    unsafe { probe::read_u64(va.get()) }.is_err_and(|fault| matches!(fault.kind(), FaultKind::Translation(_)))
}

impl Test<'_> {
    fn vmalloc(&self, pages: u64, flags: VmFlags) -> VirtAddr {
        self.areas.vmalloc::<Protected>(pages, flags).expect("room")
    }

    /// Frees an area and waits until it is gone; it has to fault from then on.
    fn free(&self, area: VirtAddr, pages: u64) {
        self.areas.vfree::<Protected>(area).expect("an area");
        // A large one is purged at once.
        if pages <= self.areas.threshold() {
            assert_eq!(self.areas.vfree::<Protected>(area), Err(AreaError::AlreadyFreed { addr: area }));
            assert_eq!(self.areas.purge::<Protected>(), pages);
        }
        assert_eq!(self.areas.vfree::<Protected>(area), Err(AreaError::NoArea { addr: area }));
        for index in [0, pages / 2, pages - 1] {
            assert!(is_unmapped(page(area, index)), "page {index} of {area}");
        }
    }

    /// The linear map's address of what the area's page is mapped to, as physical memory.
    fn check_page(&self, area: VirtAddr, index: u64) -> Level {
        let (value, offset) = pattern(area, index);
        let va = virt(page(area, index).get() + offset);
        let (leaf, level, pa) = translate(self.memory.kernel.table(), va).expect("mapped");
        assert_eq!(read_physical(pa), value, "page {index} of {area}");
        let access = leaf.access(self.memory.kernel.format());
        assert!(access.el1_write && !access.el1_execute && !access.el0_read && !access.el0_execute);
        level
    }

    /// Fills an area and finds it all in its frames (of a large one, some pages of each table); it has guards at both ends. Returns
    /// how many pages blocks map.
    fn check(&self, area: VirtAddr, pages: u64) -> u64 {
        let step = if pages > 1 << 12 { 64 } else { 1 };
        for index in (0..pages).step_by(step) {
            let (value, offset) = pattern(area, index);
            write(virt(page(area, index).get() + offset), value);
        }
        let in_blocks =
            (0..pages).step_by(step).filter(|index| self.check_page(area, *index) == Level::L2).count() * step;
        assert!(is_unmapped(page(area, pages)), "the page after {pages} pages at {area}");
        assert!(is_unmapped(virt(area.get() - 8)), "the page before {area}");
        in_blocks as u64
    }

    /// Each size class with its smallest and its largest area, as far as memory goes; and two beside each other.
    fn every_class(&self) {
        for class in 1..=18 {
            for pages in [1 << (class - 1), (1 << class) - 1] {
                for huge in [false, true] {
                    let area = self.vmalloc(pages, VmFlags { huge, ..VmFlags::default() });
                    let in_blocks = self.check(area, pages);
                    assert_eq!(in_blocks, if huge { pages & !511 } else { 0 }, "{pages} pages");
                    if huge && pages % 512 >= CONTIGUOUS_PAGES {
                        let (leaf, ..) = translate(self.memory.kernel.table(), page(area, in_blocks)).expect("mapped");
                        assert!(leaf.is_contiguous());
                    }
                    if pages < 1 << 12 {
                        let beside = self.vmalloc(pages, VmFlags { huge, ..VmFlags::default() });
                        self.check(beside, pages);
                        for index in 0..pages {
                            self.check_page(area, index);
                        }
                        self.free(beside, pages);
                    }
                    self.free(area, pages);
                }
            }
        }
        assert!(self.areas.vmalloc::<Protected>(MOST + 1, VmFlags::default()).is_err());
        for shift in 12..=30 {
            let area = self.vmalloc(3, VmFlags { huge: false, align: 1 << shift });
            assert!(area.is_aligned(1 << shift));
            self.check(area, 3);
            self.free(area, 3);
        }
    }

    /// Frames that are there already: mapped in any order, kept until the last mapping is gone, and never what is no data.
    fn map_ram(&self) {
        let frames = self.memory.frames;
        let mut list: Vec<Frame> = (0..600).map(|_| frames.alloc().expect("room")).collect();
        list.reverse();
        let folio = frames.alloc_folio(4).expect("room");
        list.extend((0..16).map(|i| Frame::from_number(folio.number() + i)));
        let count = list.len() as u64;
        let area = self.areas.vm_map_ram::<Protected>(&list).expect("room");
        self.check(area, count);
        for (index, frame) in (0..).zip(&list) {
            let (_, _, pa) = translate(self.memory.kernel.table(), page(area, index)).expect("mapped");
            assert_eq!(Frame::containing(pa), *frame);
        }
        assert_eq!(self.areas.vfree::<Protected>(area), Err(AreaError::WrongKind { addr: area }));
        let wrong = AreaError::WrongSize { addr: area, pages: count, given: 1 };
        assert_eq!(self.areas.vm_unmap_ram::<Protected>(area, 1), Err(wrong));
        let free = frames.stats().free();
        list.drain(..600).for_each(|frame| frames.release(frame, 1));
        frames.release(folio, 1);
        assert_eq!(frames.stats().free(), free, "the area still refers to them");
        assert_eq!(read(virt(page(area, 7).get() + 56)), pattern(area, 7).0);
        self.areas.vm_unmap_ram::<Protected>(area, count).expect("an area");
        assert_eq!(self.areas.purge::<Protected>(), count);
        assert_eq!(frames.stats().free(), free + count);
        assert!(is_unmapped(area));
    }

    fn refusals(&self, boot: &palisade::Boot) {
        let space = AddressSpace::<Protected>::new(self.memory).expect("room");
        let user = space.root().frame();
        let kernel = self.memory.kernel.table().frame();
        let boot_table = boot.image.boot_tables().start();
        let good = self.memory.frames.alloc().expect("room");
        let unused = self.memory.frames.alloc().expect("room");
        self.memory.frames.release(unused, 1);
        for frame in [user, kernel, boot_table, unused] {
            let kind = frame.meta().kind();
            let refused = Err(AreaError::NotMappable { frame, kind });
            assert_eq!(self.areas.vm_map_ram::<Protected>(&[frame]), refused, "{kind:?}");
            assert_eq!(self.areas.vm_map_ram::<Protected>(&[good, frame]), refused, "{kind:?}");
        }
        assert_eq!((user.meta().kind(), kernel.meta().kind()), (Kind::Table, Kind::Table));
        assert_eq!(good.meta().refs(), 1, "nothing was kept");
        self.memory.frames.release(good, 1);
        assert_eq!(self.areas.vm_map_ram::<Protected>(&[]), Err(AreaError::Empty));
        assert_eq!(self.areas.vmalloc::<Protected>(0, VmFlags::default()), Err(AreaError::Empty));
        let area = self.vmalloc(2, VmFlags::default());
        for addr in [page(area, 1), page(area, 2), virt(0xffff_8000_0000_0000), virt(0x1000), virt(u64::MAX)] {
            assert_eq!(self.areas.vfree::<Protected>(addr), Err(AreaError::NoArea { addr }));
        }
        assert_eq!(self.areas.vm_unmap_ram::<Protected>(area, 2), Err(AreaError::WrongKind { addr: area }));
        self.free(area, 2);
    }

    fn stacks(&self) {
        let stacks: [_; 5] = core::array::from_fn(|_| self.areas.alloc_stack::<Protected>().expect("room"));
        for stack in stacks {
            let start = stack.start().start();
            assert_eq!((stack.count(), start.get() >> 16 & 1), (STACK_PAGES, 1));
            self.check(start, STACK_PAGES);
            for i in 1..=STACK_PAGES {
                assert!(
                    is_unmapped(virt(start.get() - i * PAGE_SIZE)) && is_unmapped(page(start, STACK_PAGES - 1 + i))
                );
            }
        }
        for stack in stacks {
            (0..STACK_PAGES).for_each(|index| {
                self.check_page(stack.start().start(), index);
            });
        }
        for stack in stacks {
            self.areas.vfree::<Protected>(stack.start().start()).expect("a stack");
        }
        assert_eq!(self.areas.purge::<Protected>(), 5 * STACK_PAGES);
    }

    /// Areas come and go at random, purged now and then by themselves: none ever loses what it holds.
    fn random(&self, seed: u64) {
        let mut random = Random::new(seed);
        let mut live: Vec<(VirtAddr, u64, u64)> = Vec::with_capacity(64);
        for _ in 0..3000 {
            if live.len() < 64 && random.below(2) == 0 {
                let flags = VmFlags { huge: random.below(2) == 0, align: PAGE_SIZE << random.below(4) };
                let most = [4, 40, 1500][random.below(3) as usize];
                let pages = 1 + random.below(most);
                let area = self.vmalloc(pages, flags);
                let tag = random.draw();
                (0..pages).for_each(|index| write(page(area, index), tag ^ index));
                live.push((area, pages, tag));
            } else if !live.is_empty() {
                let (area, pages, tag) = live.swap_remove(random.below(live.len() as u64) as usize);
                assert!((0..pages).all(|index| read(page(area, index)) == tag ^ index), "{area}");
                self.areas.vfree::<Protected>(area).expect("an area");
            }
            if random.below(50) == 0 {
                self.areas.purge::<Protected>();
            }
        }
        for (area, pages, tag) in live {
            assert!((0..pages).all(|index| read(page(area, index)) == tag ^ index), "{area}");
            self.areas.vfree::<Protected>(area).expect("an area");
        }
        self.areas.purge::<Protected>();
    }
}

fn main(boot: &palisade::Boot) -> u32 {
    let areas = Areas::new(boot.memory).expect("room");
    let test = Test { memory: boot.memory, areas: &areas };
    // What is made once: the records of the slots, on the heap.
    test.random(1);
    test.every_class();
    let before = accounted(boot.memory);
    // Blocks take the place of leaf tables that smaller areas left, and the other way about; none may be lost on the way.
    let tables = || boot.memory.pool.usage(Pkey::KernelTables).tables;
    let made = tables();
    test.every_class();
    assert_eq!(tables(), made, "kernel tables of the same areas again");
    test.map_ram();
    test.refusals(boot);
    test.stacks();
    test.random(2);
    test.random(1);
    assert_eq!(accounted(boot.memory), before, "every frame is back");

    let area = test.vmalloc(1, VmFlags::default());
    // RET: where the page is executable after all, the kernel comes back and fails.
    write(area, 0xd65f_03c0);
    expect(Expectation::Permission(Access::Execute, area.get()));
    // SAFETY: the jump faults, or returns at once.
    let code: extern "C" fn() = unsafe { core::mem::transmute(area.as_mut_ptr::<()>()) };
    code();
    1
}
