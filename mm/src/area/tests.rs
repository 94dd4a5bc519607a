//! The order of operations, step by step, and every error.

use super::*;
use crate::desc::{Decoded, Descriptor, Level};
use crate::frame::Kind;
use crate::pool::BLOCK_FRAMES;
use crate::table::walk;
use crate::testing::Machine;
use pkeys::{Batched, Context, KernelTables, Off, PerWrite, Pkey, Por, PorGate};
use platform::arch::{Op, Recorder};
use std::vec;
use std::vec::Vec;

mod model;

type O = Off<Recorder>;
type B = Batched<PorGate<Recorder>>;
type W = PerWrite<PorGate<Recorder>>;

const OPEN: Op = Op::Por(KernelTables::OPEN.bits());
const CLOSE: Op = Op::Por(Por::CLOSED.bits());
const HUGE: VmFlags = VmFlags { huge: true, align: PAGE_SIZE };

fn plain() -> VmFlags {
    VmFlags::default()
}

fn setup(blocks: u64) -> (Machine, Areas) {
    let machine = Machine::new(blocks);
    let areas = Areas::new(machine.memory).unwrap();
    (machine, areas)
}

/// Frames that are free or in the table pool: what no area holds.
fn unheld(machine: &Machine) -> u64 {
    machine.free() + u64::from(machine.memory.pool.usage(Pkey::KernelTables).blocks) * BLOCK_FRAMES
}

fn leaf(machine: &Machine, va: VirtAddr) -> (Level, Descriptor) {
    let found = walk(machine.memory.kernel.table(), va);
    (found.level, found.descriptor)
}

fn frame_of(machine: &Machine, va: VirtAddr) -> Frame {
    let (level, descriptor) = leaf(machine, va);
    assert!(matches!(descriptor.decode(level), Decoded::Leaf(_)), "{va} is not mapped: {descriptor:?}");
    descriptor.frame().checked_add((va.get() & (level.span() - 1)) / PAGE_SIZE).unwrap()
}

fn page(va: VirtAddr, n: u64) -> VirtAddr {
    va.checked_add(n * PAGE_SIZE).unwrap()
}

fn count(ops: &[Op], wanted: fn(&Op) -> bool) -> usize {
    ops.iter().filter(|op| wanted(op)).count()
}

fn is_por(op: &Op) -> bool {
    matches!(op, Op::Por(_))
}

fn is_isb(op: &Op) -> bool {
    *op == Op::Isb
}

fn is_store(op: &Op) -> bool {
    matches!(op, Op::Store { .. })
}

/// What is recorded while an area of `pages` pages is made, freed and purged, its table being there.
fn life<P: Policy>(pages: u64) -> (VirtAddr, [Vec<Op>; 3]) {
    let (_machine, areas) = setup(12);
    let warm = areas.vmalloc::<P>(pages, plain()).unwrap();
    areas.vfree::<P>(warm).unwrap();
    areas.purge::<P>();
    Recorder::take();
    let addr = areas.vmalloc::<P>(pages, plain()).unwrap();
    assert_eq!(addr, warm);
    let made = Recorder::take();
    areas.vfree::<P>(addr).unwrap();
    let freed = Recorder::take();
    areas.purge::<P>();
    (addr, [made, freed, Recorder::take()])
}

fn without_stores(ops: &[Op]) -> Vec<Op> {
    ops.iter().copied().filter(|op| !is_store(op)).collect()
}

fn tlbis(addr: VirtAddr, pages: u64) -> Vec<Op> {
    (0..pages).map(|n| Op::TlbiPageGlobal(page(addr, n).get())).collect()
}

#[test]
fn the_baseline_is_stores_and_barriers() {
    let (addr, [made, freed, purged]) = life::<O>(3);
    assert!(made[..3].iter().all(is_store));
    assert_eq!(made[3..], [Op::DsbIshst, Op::Isb]);
    assert_eq!(freed, []);
    assert!(purged[..3].iter().all(|op| matches!(op, Op::Store { value: 0, .. })));
    assert_eq!(purged[3..], [vec![Op::DsbIshst], tlbis(addr, 3), vec![Op::DsbIsh, Op::Isb]].concat());
}

#[test]
fn batched_opens_once_to_make_and_once_to_purge() {
    for pages in [1, 3, 300] {
        let (addr, [made, freed, purged]) = life::<B>(pages);
        assert_eq!(count(&made, is_store), pages as usize);
        assert_eq!(without_stores(&made), [OPEN, Op::Isb, CLOSE, Op::DsbIshst, Op::Isb]);
        assert_eq!(made[..2], [OPEN, Op::Isb]);
        assert!(is_store(&made[2]));
        assert_eq!(freed, []);
        assert_eq!(count(&purged, is_store), pages as usize);
        let expected =
            [vec![OPEN, Op::Isb, CLOSE, Op::DsbIshst], tlbis(addr, pages), vec![Op::DsbIsh, Op::Isb]].concat();
        assert_eq!(without_stores(&purged), expected);
        // The closing write comes after the last store, before the barriers.
        assert_eq!(purged.iter().position(|op| *op == CLOSE), Some(2 + pages as usize));
    }
}

#[test]
fn per_write_opens_for_each_entry() {
    let (_, [made, freed, purged]) = life::<W>(5);
    for ops in [&made, &purged] {
        assert_eq!((count(ops, is_store), count(ops, is_por)), (5, 10));
        assert_eq!(count(ops, is_isb), 11);
        assert_eq!([ops[0], ops[1], ops[3], ops[4]], [OPEN, Op::Isb, CLOSE, Op::Isb]);
    }
    assert_eq!(freed, []);
}

#[test]
fn mapping_frames_that_exist_costs_the_same() {
    let (machine, areas) = setup(12);
    let frames: Vec<Frame> = (0..5).map(|_| machine.memory.frames.alloc().unwrap()).collect();
    let warm = areas.vm_map_ram::<B>(&frames).unwrap();
    areas.vm_unmap_ram::<B>(warm, 5).unwrap();
    areas.purge::<B>();
    Recorder::take();
    let addr = areas.vm_map_ram::<B>(&frames).unwrap();
    let made = Recorder::take();
    assert_eq!((addr, count(&made, is_store)), (warm, 5));
    assert_eq!(without_stores(&made), [OPEN, Op::Isb, CLOSE, Op::DsbIshst, Op::Isb]);
    areas.vm_unmap_ram::<B>(addr, 5).unwrap();
    assert_eq!(Recorder::take(), []);
    areas.purge::<B>();
    let purged = Recorder::take();
    assert_eq!(count(&purged, is_store), 5);
    let expected = [vec![OPEN, Op::Isb, CLOSE, Op::DsbIshst], tlbis(addr, 5), vec![Op::DsbIsh, Op::Isb]].concat();
    assert_eq!(without_stores(&purged), expected);
}

#[test]
fn one_purge_serves_many_areas() {
    let (machine, areas) = setup(40);
    let before = unheld(&machine);
    let made: Vec<VirtAddr> = (1..=40).map(|pages| areas.vmalloc::<B>(pages % 20 + 1, plain()).unwrap()).collect();
    Recorder::take();
    made.iter().for_each(|addr| areas.vfree::<B>(*addr).unwrap());
    assert_eq!(Recorder::take(), []);
    let pages = areas.freed_pages();
    assert_eq!(areas.purge::<B>(), pages);
    let purged = without_stores(&Recorder::take());
    assert_eq!(purged, [OPEN, Op::Isb, CLOSE, Op::DsbIshst, Op::TlbiAll, Op::DsbIsh, Op::Isb]);
    assert_eq!((areas.freed_pages(), unheld(&machine)), (0, before));
}

#[test]
fn vfree_purges_above_the_threshold() {
    let (machine, areas) = setup(4);
    let before = unheld(&machine);
    assert_eq!(areas.threshold(), 3 * 512 / 16);
    let made: Vec<VirtAddr> = (0..=areas.threshold()).map(|_| areas.vmalloc::<B>(1, plain()).unwrap()).collect();
    let (last, first) = made.split_last().unwrap();
    first.iter().for_each(|addr| areas.vfree::<B>(*addr).unwrap());
    assert_eq!(areas.freed_pages(), areas.threshold());
    areas.vfree::<B>(*last).unwrap();
    assert_eq!((areas.freed_pages(), unheld(&machine)), (0, before));
}

#[test]
fn a_shortage_purges_and_tries_again() {
    let (machine, areas) = setup(3);
    let kept = areas.vmalloc::<B>(1, plain()).unwrap();
    let most = machine.free() - 20;
    let addr = areas.vmalloc::<B>(20, plain()).unwrap();
    let mut held = Vec::new();
    while machine.free() > most - 600 {
        held.push(machine.memory.frames.alloc().unwrap());
    }
    areas.vfree::<B>(addr).unwrap();
    let left = machine.free();
    let all = areas.vmalloc::<B>(left + 20, plain()).expect("the freed area's frames come back");
    assert_eq!((machine.free(), areas.freed_pages()), (0, 0));
    assert_eq!(areas.vmalloc::<B>(1, plain()), Err(AreaError::NoMemory(OutOfMemory { order: 0 })));
    areas.vfree::<B>(all).unwrap();
    areas.vfree::<B>(kept).unwrap();
    areas.purge::<B>();
    assert_eq!(machine.free(), left + 21);
}

#[test]
fn huge_areas_are_blocks_and_runs() {
    let (machine, areas) = setup(8);
    let before = unheld(&machine);
    let addr = areas.vmalloc::<B>(512 + 16 + 3, HUGE).unwrap();
    let made = Recorder::take();
    assert!(addr.is_aligned(Level::L2.span()));
    let (level, block) = leaf(&machine, page(addr, 511));
    assert_eq!((level, block.frame().meta().order(), block.is_contiguous()), (Level::L2, 9, false));
    let run = frame_of(&machine, page(addr, 512));
    assert_eq!(run.meta().order(), 4);
    for n in 0..16 {
        let (level, entry) = leaf(&machine, page(addr, 512 + n));
        assert_eq!((level, entry.is_contiguous()), (Level::L3, true));
        assert_eq!(entry.frame().number(), run.number() + n);
    }
    for n in 528..531 {
        let (level, entry) = leaf(&machine, page(addr, n));
        assert_eq!((level, entry.is_contiguous(), entry.frame().meta().order()), (Level::L3, false, 0));
    }
    assert!(leaf(&machine, page(addr, 531)).1.is_absent());
    assert_eq!(count(&made, |op| *op == OPEN), 1, "one section, the pool not growing");
    areas.vfree::<B>(addr).unwrap();
    areas.purge::<B>();
    assert_eq!(unheld(&machine), before);
}

#[test]
fn a_block_takes_an_emptied_leaf_tables_place() {
    let (machine, areas) = setup(8);
    let before = unheld(&machine);
    let addr = areas.vmalloc::<B>(600, plain()).unwrap();
    assert_eq!(leaf(&machine, addr).0, Level::L3);
    areas.vfree::<B>(addr).unwrap();
    areas.purge::<B>();
    let tables = machine.memory.pool.usage(Pkey::KernelTables).tables;
    Recorder::take();
    assert_eq!(areas.vmalloc::<B>(600, HUGE), Ok(addr));
    let ops = Recorder::take();
    let flush = [Op::DsbIshst, Op::TlbiPageGlobal(addr.get()), Op::DsbIsh, Op::Isb];
    assert!(matches!(ops[2], Op::Store { value: 0, .. }), "unhooked first");
    assert_eq!(ops[3..7], flush);
    assert_eq!(leaf(&machine, addr).0, Level::L2);
    assert_eq!(machine.memory.pool.usage(Pkey::KernelTables).tables, tables - 1);
    areas.vfree::<B>(addr).unwrap();
    areas.purge::<B>();
    assert_eq!(areas.vmalloc::<B>(600, plain()), Ok(addr));
    areas.vfree::<B>(addr).unwrap();
    areas.purge::<B>();
    assert_eq!(unheld(&machine), before);
}

#[test]
fn without_folios_huge_falls_back_to_pages() {
    let (machine, areas) = setup(3);
    let mut held = Vec::new();
    while let Ok(frame) = machine.memory.frames.alloc() {
        held.push(frame);
    }
    // Every other frame comes back, so that no two of them make a block.
    held.iter().filter(|frame| frame.number() % 2 == 0).for_each(|frame| machine.memory.frames.release(*frame, 1));
    let all = machine.free();
    // No block is left for the table pool either, whose first block has tables enough.
    let addr = areas.vmalloc::<B>(100, HUGE).unwrap();
    assert!((0..100).all(|n| !leaf(&machine, page(addr, n)).1.is_contiguous()));
    areas.vfree::<B>(addr).unwrap();
    areas.purge::<B>();
    assert_eq!(machine.free(), all);
}

#[test]
fn alignment_is_kept() {
    let (_machine, areas) = setup(4);
    for align in [1, 64, PAGE_SIZE, 2 * PAGE_SIZE, 64 << 10, 2 << 20, 1 << 30] {
        for _ in 0..3 {
            let addr = areas.vmalloc::<B>(5, VmFlags { huge: false, align }).unwrap();
            assert!(addr.is_aligned(align.max(PAGE_SIZE)));
        }
    }
    for align in [PAGE_SIZE + 1, 3 * PAGE_SIZE, 2 << 30, u64::MAX] {
        assert_eq!(areas.vmalloc::<B>(1, VmFlags { huge: false, align }), Err(AreaError::BadAlign { align }));
    }
}

#[test]
fn stacks_stand_at_odd_multiples_between_guards() {
    let (machine, areas) = setup(4);
    let before = unheld(&machine);
    let stacks: Vec<PageRange> = (0..3).map(|_| areas.alloc_stack::<B>().unwrap()).collect();
    for stack in &stacks {
        let start = stack.start().start();
        assert_eq!((stack.bytes(), start.get() & 0x1_ffff), (64 << 10, 64 << 10));
        for n in 0..16 {
            assert!(leaf(&machine, page(start, n)).1.is_valid());
            assert!(!leaf(&machine, start.checked_sub((n + 1) * PAGE_SIZE).unwrap()).1.is_valid());
            assert!(!leaf(&machine, page(start, 16 + n)).1.is_valid());
        }
        let info = AreaInfo { pages: *stack, kind: AreaKind::Stack, freed: false };
        assert_eq!(areas.area_of(start.checked_sub(1).unwrap()), Some(info), "the guard is the stack's");
    }
    let slot = stacks[0].start().start().align_down(128 << 10);
    assert_eq!(areas.vfree::<B>(slot), Err(AreaError::NoArea { addr: slot }));
    stacks.iter().for_each(|stack| areas.vfree::<B>(stack.start().start()).unwrap());
    areas.purge::<B>();
    assert_eq!(unheld(&machine), before);
}

#[test]
fn mapped_frames_are_kept_until_the_purge() {
    let (machine, areas) = setup(4);
    let before = unheld(&machine);
    let single = machine.memory.frames.alloc().unwrap();
    let folio = machine.memory.frames.alloc_folio(2).unwrap();
    let tail = folio.checked_add(3).unwrap();
    let addr = areas.vm_map_ram::<B>(&[tail, single, folio]).unwrap();
    assert_eq!((single.meta().refs(), folio.meta().refs()), (2, 3));
    assert_eq!([0, 1, 2].map(|n| frame_of(&machine, page(addr, n))), [tail, single, folio]);
    assert_eq!(areas.vfree::<B>(addr), Err(AreaError::WrongKind { addr }));
    assert_eq!(areas.vm_unmap_ram::<B>(addr, 2), Err(AreaError::WrongSize { addr, pages: 3, given: 2 }));
    Recorder::take();
    areas.vm_unmap_ram::<B>(addr, 3).unwrap();
    assert_eq!(Recorder::take(), []);
    machine.memory.frames.release(single, 1);
    machine.memory.frames.release(folio, 1);
    assert_eq!((single.meta().kind(), folio.meta().refs()), (Kind::Data, 2), "a TLB may still know them");
    areas.purge::<B>();
    assert_eq!(unheld(&machine), before);
}

#[test]
fn only_data_in_use_is_mapped_again() {
    let (machine, areas) = setup(4);
    let data = machine.memory.frames.alloc().unwrap();
    let pool = machine.memory.frames.alloc_pool_block().unwrap();
    let freed = machine.memory.frames.alloc().unwrap();
    machine.memory.frames.release(freed, 1);
    let root = machine.memory.kernel.table().frame();
    for frame in [root, pool, freed] {
        let error = AreaError::NotMappable { frame, kind: frame.meta().kind() };
        assert_eq!(areas.vm_map_ram::<B>(&[data, frame, data]), Err(error));
        assert_eq!(data.meta().refs(), 1, "no reference is left behind");
    }
    assert_eq!(areas.freed_pages(), 0);
}

#[test]
fn frames_with_other_references_outlive_their_area() {
    let (machine, areas) = setup(8);
    let before = unheld(&machine);
    let addr = areas.vmalloc::<B>(600, HUGE).unwrap();
    let shared = [page(addr, 3), page(addr, 520), page(addr, 599)].map(|va| frame_of(&machine, va));
    let again = areas.vm_map_ram::<B>(&shared).unwrap();
    areas.vfree::<B>(addr).unwrap();
    areas.purge::<B>();
    for (n, frame) in shared.into_iter().enumerate() {
        assert_eq!(frame_of(&machine, page(again, n as u64)), frame);
        assert_eq!(frame.head().meta().refs(), 1);
    }
    areas.vm_unmap_ram::<B>(again, 3).unwrap();
    areas.purge::<B>();
    assert_eq!(unheld(&machine), before);
}

#[test]
fn areas_larger_than_the_purgers_room_take_several_flushes() {
    let (machine, areas) = setup(4);
    let before = unheld(&machine);
    let frame = machine.memory.frames.alloc().unwrap();
    let pages = 2 * areas.threshold() + 5;
    let frames = vec![frame; pages as usize];
    let own = areas.vmalloc::<B>(3, plain()).unwrap();
    let addr = areas.vm_map_ram::<B>(&frames).unwrap();
    areas.vfree::<B>(own).unwrap();
    Recorder::take();
    areas.vm_unmap_ram::<B>(addr, pages).unwrap();
    let ops = Recorder::take();
    assert_eq!((count(&ops, |op| *op == OPEN), count(&ops, |op| *op == Op::DsbIsh)), (3, 3));
    assert_eq!((areas.freed_pages(), frame.meta().refs()), (0, 1));
    assert!((0..pages).all(|n| leaf(&machine, page(addr, n)).1.is_absent()));
    machine.memory.frames.release(frame, 1);
    assert_eq!(unheld(&machine), before);
}

#[test]
fn bad_requests_are_errors() {
    let (_machine, areas) = setup(3);
    assert_eq!(areas.vmalloc::<B>(0, plain()), Err(AreaError::Empty));
    assert_eq!(areas.vm_map_ram::<B>(&[]), Err(AreaError::Empty));
    for pages in [1 << 18, u64::MAX] {
        assert_eq!(areas.vmalloc::<B>(pages, plain()), Err(AreaError::TooLarge { pages }));
    }
    let most = (1 << 18) - 1;
    assert_eq!(areas.vmalloc::<B>(most, plain()), Err(AreaError::NoMemory(OutOfMemory { order: 0 })));
}

#[test]
fn bad_addresses_are_errors() {
    let (_machine, areas) = setup(4);
    let addr = areas.vmalloc::<B>(3, plain()).unwrap();
    let class = addr.get() - slots::BASE;
    let strange = [
        0,
        PAGE_SIZE,
        slots::BASE - PAGE_SIZE,
        slots::BASE,
        slots::BASE + (19 << 40),
        u64::MAX,
        addr.get() + 1,
        addr.get() + PAGE_SIZE,
        addr.get() + 4 * PAGE_SIZE,
        slots::BASE + class + (1 << 39),
        slots::BASE + 2 * (1 << 40) - 1,
        crate::linear::LINEAR_BASE,
    ];
    for bad in strange {
        let bad = VirtAddr::new(bad).unwrap();
        assert_eq!(areas.vfree::<B>(bad), Err(AreaError::NoArea { addr: bad }));
        assert_eq!(areas.vm_unmap_ram::<B>(bad, 3), Err(AreaError::NoArea { addr: bad }));
    }
    assert_eq!(areas.vm_unmap_ram::<B>(addr, 3), Err(AreaError::WrongKind { addr }));
    areas.vfree::<B>(addr).unwrap();
    assert_eq!(areas.area_of(addr).map(|info| info.freed), Some(true));
    assert_eq!(areas.vfree::<B>(addr), Err(AreaError::AlreadyFreed { addr }));
    assert_eq!(areas.freed_pages(), 3);
    areas.purge::<B>();
    assert_eq!(areas.area_of(addr), None);
    assert_eq!(areas.vfree::<B>(addr), Err(AreaError::NoArea { addr }));
}

/// Makes an area in some way, of frames that it is given for vm_map_ram.
type Make = fn(&Areas, &[Frame]) -> Result<VirtAddr, AreaError>;

#[test]
fn a_failure_at_any_point_loses_nothing() {
    let ways: [Make; 6] = [
        |areas, _| areas.vmalloc::<B>(1, plain()),
        |areas, _| areas.vmalloc::<B>(40, plain()),
        |areas, _| areas.vmalloc::<B>(600, plain()),
        |areas, _| areas.vmalloc::<B>(1100, HUGE),
        |areas, _| areas.alloc_stack::<B>().map(|stack| stack.start().start()),
        |areas, frames| areas.vm_map_ram::<B>(frames),
    ];
    for make in ways {
        for n in 0.. {
            let (machine, areas) = setup(8);
            let frames: Vec<Frame> = (0..600).map(|_| machine.memory.frames.alloc().unwrap()).collect();
            use_up_the_tables(&machine);
            let before = unheld(&machine);
            machine.memory.frames.fail_after(n);
            let first = make(&areas, &frames);
            let fired = machine.memory.frames.fail_never();
            assert!(fired || first.is_ok(), "{first:?}");
            if first.is_err() {
                assert_eq!(unheld(&machine), before);
                assert!(frames.iter().all(|frame| frame.meta().refs() == 1));
            }
            let addr = first.or_else(|_| make(&areas, &frames)).unwrap();
            assert!(addr.is_aligned(1 << 40) || addr.get() & 0xffff_ffff == 0x1_0000, "the first slot came back");
            let pages = areas.area_of(addr).unwrap().pages.count();
            areas.vfree::<B>(addr).or_else(|_| areas.vm_unmap_ram::<B>(addr, pages)).unwrap();
            areas.purge::<B>();
            assert_eq!(unheld(&machine), before);
            if !fired {
                break;
            }
        }
    }
}

/// Takes the kernel's tables until another one makes the pool grow.
fn use_up_the_tables(machine: &Machine) {
    let section = pkeys::Section::<B, KernelTables>::open();
    let blocks = machine.memory.pool.usage(Pkey::KernelTables).blocks;
    while machine.memory.pool.usage(Pkey::KernelTables).tables < u64::from(blocks) * BLOCK_FRAMES {
        machine.memory.take_table(section.token(), Level::L3).unwrap();
    }
}

#[test]
fn running_out_of_tables_loses_nothing() {
    let (machine, areas) = setup(4);
    // Leaves no block whole for the pool to grow by.
    let pages = machine.free() - 200;
    let kept = areas.vmalloc::<B>(pages, plain()).unwrap();
    use_up_the_tables(&machine);
    let frame = machine.memory.frames.alloc().unwrap();
    let free = machine.free();
    let error = AreaError::NoMemory(OutOfMemory { order: 9 });
    assert_eq!(areas.vmalloc::<B>(2, plain()), Err(error));
    assert_eq!(areas.vm_map_ram::<B>(&[frame]), Err(error));
    assert_eq!((frame.meta().refs(), machine.free()), (1, free));
    areas.vfree::<B>(kept).unwrap();
    assert!(areas.vmalloc::<B>(2, plain()).is_ok(), "the purge lets the pool grow");
    assert_eq!(machine.free(), free + pages - BLOCK_FRAMES - 2);
}

#[test]
fn several_cpus_at_once() {
    const ROUNDS: u64 = 1500;
    let (machine, areas) = setup(12);
    let before = unheld(&machine);
    std::thread::scope(|scope| {
        for cpu in 1..4 {
            let (machine, areas) = (&machine, &areas);
            scope.spawn(move || {
                let _cpu = machine.join(cpu as usize);
                let mut kept = Vec::new();
                for round in 0..ROUNDS {
                    let pages = 1 + (round * 7 + cpu * 13) % 40;
                    let flags = VmFlags { huge: round % 3 == 0, align: PAGE_SIZE };
                    let addr = areas.vmalloc::<B>(pages, flags).unwrap();
                    let frames: Vec<Frame> = (0..pages).map(|n| frame_of(machine, page(addr, n))).collect();
                    let again = areas.vm_map_ram::<B>(&frames).unwrap();
                    kept.push((addr, again, frames));
                    if round % 5 != 0 {
                        let (addr, again, frames) = kept.swap_remove(round as usize % kept.len());
                        for (n, frame) in frames.iter().enumerate() {
                            assert_eq!(frame_of(machine, page(addr, n as u64)), *frame);
                        }
                        areas.vfree::<B>(addr).unwrap();
                        areas.vm_unmap_ram::<B>(again, frames.len() as u64).unwrap();
                    }
                    if kept.len() > 8 {
                        let (addr, again, frames) = kept.remove(0);
                        areas.vm_unmap_ram::<B>(again, frames.len() as u64).unwrap();
                        areas.vfree::<B>(addr).unwrap();
                    }
                    Recorder::take();
                }
                for (addr, again, frames) in kept {
                    areas.vfree::<B>(addr).unwrap();
                    areas.vm_unmap_ram::<B>(again, frames.len() as u64).unwrap();
                }
            });
        }
    });
    areas.purge::<B>();
    assert_eq!((areas.freed_pages(), unheld(&machine)), (0, before));
}
