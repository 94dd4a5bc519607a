//! What sections cost on this CPU: batched, two POR writes and one ISB more than nothing at all, for each operation as a whole; per
//! write, two POR writes and two ISBs for each store.
//! expect: 0
#![no_std]
#![no_main]

use mm::addr::Frame;
use mm::area::{Areas, VmFlags};
use mm::memory::Memory;
use mm::space::{Access, AddressSpace, Protection};
use palisade::window::with_protection_off;
use palisade_tests::kit::{events, pages, virt};
use pkeys::{Batched, Off, PerWrite, Policy, PorGate};
use platform::arch::{Arm, Counted, Events};

palisade::kernel_main!(main);

const REGION: u64 = 0x10_0000_0000;
const PAGES: u64 = 8;

/// One operation: what it is called, how many entries it stores, what was counted.
type Line = (&'static str, u64, Events);

fn spaces<P: Policy>(memory: &'static Memory) -> [Line; 9] {
    let region = pages(REGION, PAGES);
    let (space, new) = events(|| AddressSpace::<P>::new(memory));
    let mut space = space.expect("room for a root");
    space.map(region, Protection::ReadWrite, 0).expect("free addresses");
    space.activate();
    let (result, populate) = events(|| space.populate(region));
    result.expect("room");
    let (child, fork) = events(|| space.fork());
    let mut child = child.expect("room");
    child.activate();
    let (copied, copy) = events(|| child.fault(virt(REGION), Access::Write));
    copied.expect("the region is writable");
    let (result, protect) = events(|| child.protect(region, Protection::Read));
    result.expect("one region");
    let ((), end) = events(|| drop(child));
    space.activate();
    let (reused, reuse) = events(|| space.fault(virt(REGION), Access::Write));
    reused.expect("the region is writable");
    let (result, part) = events(|| space.unmap(pages(REGION, 3)));
    result.expect("user pages");
    space.map(pages(REGION, 3), Protection::ReadWrite, 0).expect("free addresses");
    let (filled, fill) = events(|| space.fault(virt(REGION), Access::Read));
    filled.expect("the region is readable");
    drop(space);
    [
        ("space", 0, new),
        // The pages, and three tables on the way to them.
        ("populate", PAGES + 3, populate),
        // Both sides' pages, the child's tables.
        ("fork", 2 * PAGES + 3, fork),
        // The old page goes before the new one comes.
        ("copying fault", 2, copy),
        // The copy alone: the shared pages are read-only as they are.
        ("protect", 1, protect),
        // The pages and the tables; nothing leads to the root.
        ("end of a space", PAGES + 3, end),
        ("reusing fault", 1, reuse),
        // Retired first, emptied once no TLB knows them.
        ("unmap", 2 * 3, part),
        ("filling fault", 1, fill),
    ]
}

fn kernel_areas<P: Policy>(memory: &'static Memory, areas: &Areas) -> [Line; 6] {
    let small = VmFlags::default();
    let huge = VmFlags { huge: true, ..small };
    // Once before, for the tables that stay.
    for (count, flags) in [(5, small), (20, huge)] {
        let area = areas.vmalloc::<P>(count, flags).expect("room");
        areas.vfree::<P>(area).expect("just made");
        areas.purge::<P>();
    }
    let (first, vmalloc) = events(|| areas.vmalloc::<P>(5, small));
    let (second, vmalloc_huge) = events(|| areas.vmalloc::<P>(20, huge));
    let frames = [(); 3].map(|()| memory.frames.alloc().expect("room"));
    let ram = areas.vm_map_ram::<P>(&frames).expect("room");
    areas.vm_unmap_ram::<P>(ram, 3).expect("just made");
    areas.purge::<P>();
    let (ram, map_ram) = events(|| areas.vm_map_ram::<P>(&frames));
    let (result, unmap_ram) = events(|| areas.vm_unmap_ram::<P>(ram.expect("room"), 3));
    result.expect("just made");
    let (result, vfree) = events(|| {
        areas.vfree::<P>(first.expect("room"))?;
        areas.vfree::<P>(second.expect("room"))
    });
    result.expect("just made");
    let (purged, purge) = events(|| areas.purge::<P>());
    assert_eq!(purged, 28);
    frames.into_iter().for_each(|frame: Frame| memory.frames.release(frame, 1));
    [
        ("vmalloc", 5, vmalloc),
        ("vmalloc huge", 20, vmalloc_huge),
        ("vm_map_ram", 3, map_ram),
        ("vm_unmap_ram", 0, unmap_ram),
        ("vfree", 0, vfree),
        ("purge", 28, purge),
    ]
}

/// Whether `line` opens a section at all: freeing an area lazily does not.
fn opens(name: &str) -> bool {
    !matches!(name, "vm_unmap_ram" | "vfree")
}

fn compare(off: &[Line], per_write: &[Line], batched: &[Line]) -> u32 {
    let mut wrong = 0;
    for ((off, per_write), batched) in off.iter().zip(per_write).zip(batched) {
        let (name, stores, base) = *off;
        let sections = u64::from(opens(name));
        let plus = |por_writes, isb| Events { por_writes, isb: base.isb + isb, ..base };
        let checks = [
            ("off", base, Events { por_writes: 0, ..base }),
            ("per write", per_write.2, plus(2 * stores, 2 * stores)),
            ("batched", batched.2, plus(2 * sections, sections)),
        ];
        for (policy, found, wanted) in checks {
            if found != wanted {
                palisade::println!("{name}, {policy}: {found:?} instead of {wanted:?}");
                wrong += 1;
            }
        }
        palisade::println!("{name:16} {stores:2} stores, off: {base:?}");
    }
    wrong
}

fn main(boot: &palisade::Boot) -> u32 {
    let areas = Areas::new(boot.memory).expect("room");
    let memory = boot.memory;
    type Gated = PorGate<Counted<Arm>>;
    // The pool's first blocks, and whatever else is made once.
    spaces::<Batched<Gated>>(memory);
    kernel_areas::<Batched<Gated>>(memory, &areas);
    let off = with_protection_off(|| {
        (spaces::<Off<Counted<Arm>>>(memory), kernel_areas::<Off<Counted<Arm>>>(memory, &areas))
    });
    let per_write = (spaces::<PerWrite<Gated>>(memory), kernel_areas::<PerWrite<Gated>>(memory, &areas));
    let batched = (spaces::<Batched<Gated>>(memory), kernel_areas::<Batched<Gated>>(memory, &areas));
    let wrong = compare(&off.0, &per_write.0, &batched.0) + compare(&off.1, &per_write.1, &batched.1);
    u32::from(wrong > 0)
}
