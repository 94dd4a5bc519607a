//! A clean machine passes; each rule, broken once, is reported as such and as nothing else.

mod random;

use super::*;
use crate::addr::{Page, PageRange, VirtAddr};
use crate::desc::{Attr, Descriptor, Format, Level};
use crate::kernel::KernelRoot;
use crate::linear::LINEAR_BASE;
use crate::space::{Access, AddressSpace, Protection};
use crate::testing::Machine;
use core::mem::ManuallyDrop;
use pkeys::{Context, KernelTables, Off, Section};
use platform::arch::Recorder;
use std::string::ToString;
use std::vec;
use std::vec::Vec;

type Space = AddressSpace<Off<Recorder>>;

const DATA: u64 = 0x4000_0000;
const TEXT: u64 = 0x8000_0000;
const BLOCKS: u64 = 12;
const AREA: u64 = AREAS.start + (1 << 40);
const IMAGE: u64 = 0xffff_ffff_8000_0000;

/// A machine with three spaces, two of which share pages. They are never dropped: tests break their tables.
struct Setup {
    spaces: ManuallyDrop<Vec<Space>>,
    machine: Machine,
}

fn va(address: u64) -> VirtAddr {
    VirtAddr::new(address).unwrap()
}

fn range(address: u64, pages: u64) -> PageRange {
    PageRange::new(Page::from_start(va(address)).unwrap(), pages).unwrap()
}

fn fill(space: &mut Space, pages: u64, folio_order: u32) {
    space.map(range(DATA, pages), Protection::ReadWrite, folio_order).unwrap();
    space.map(range(TEXT, 8), Protection::ReadExecute, 0).unwrap();
    space.populate(range(DATA, pages)).unwrap();
    space.populate(range(TEXT, 8)).unwrap();
}

impl Setup {
    fn new() -> Setup {
        let machine = Machine::new(BLOCKS);
        let mut first = Space::new(machine.memory).unwrap();
        fill(&mut first, 700, 4);
        let mut second = first.fork().unwrap();
        second.fault(va(DATA), Access::Write).unwrap();
        second.protect(range(TEXT, 4), Protection::ReadWrite).unwrap();
        let mut third = Space::new(machine.memory).unwrap();
        fill(&mut third, 20, 0);
        Setup { spaces: ManuallyDrop::new(vec![first, second, third]), machine }
    }

    fn ram(&self) -> FrameRange {
        FrameRange::new(Frame::from_number(0), BLOCKS * BLOCK_FRAMES).unwrap()
    }

    fn with_scope<R>(&self, work: impl FnOnce(Scope<'_, std::vec::IntoIter<Table<UserTables>>>) -> R) -> R {
        let spaces = self.spaces.iter().map(Space::root).collect::<Vec<_>>().into_iter();
        work(Scope { memory: self.machine.memory, ram: &[self.ram()], spaces })
    }

    fn audit(&self) -> (Vec<Violation>, Summary) {
        let mut found = Vec::new();
        let summary = self.with_scope(|scope| scope.audit(&mut |violation| found.push(violation)));
        assert_eq!(summary.violations, found.len() as u64);
        for violation in &found {
            let line = violation.to_string();
            assert!(line.starts_with(violation.invariant()) && !line.contains('\n'), "{line}");
        }
        (found, summary)
    }

    fn found(&self) -> Vec<Violation> {
        self.audit().0
    }

    fn locate(&self, frame: Frame) -> Option<Place> {
        self.with_scope(|scope| scope.locate(frame))
    }

    fn owner(&self, space: usize) -> Owner {
        Owner::User { root: self.spaces[space].root().frame() }
    }

    /// The table of `level` that holds the entry for `address` in a space.
    fn table(&self, space: usize, level: Level, address: u64) -> Table<UserTables> {
        table(self.spaces[space].root(), level, address)
    }

    fn place(&self, space: usize, level: Level, address: u64) -> Place {
        Place { owner: self.owner(space), level, va: va(address) }
    }

    /// A user leaf or other entry, with what stands there.
    fn mapping(&self, space: usize, level: Level, address: u64) -> Mapping {
        let descriptor = self.table(space, level, address).entry(level, va(address)).get();
        Mapping { owner: self.owner(space), level, va: va(address), descriptor }
    }

    /// Maps `frame` in the kernel's half.
    fn map_kernel(&self, address: u64, level: Level, frame: Frame, attr: Attr) -> Mapping {
        let memory = self.machine.memory;
        let section = Section::<Off<Recorder>, KernelTables>::open();
        let token = section.token();
        let table =
            memory.kernel.table_for(token, va(address), level, |level| memory.take_table(token, level)).unwrap();
        let descriptor = Descriptor::leaf(frame, attr.leaf_bits(Format::Indirect), level);
        table.entry(level, va(address)).set(token, descriptor);
        Mapping { owner: Owner::Kernel, level, va: va(address), descriptor }
    }

    /// Puts the 2 MiB of the linear map that hold `frame` under other bits.
    fn set_linear(&self, frame: Frame, change: impl FnOnce(Descriptor) -> Descriptor) -> Mapping {
        let address = KernelRoot::linear_page(frame).start().start().align_down(Level::L2.span());
        let table = table(self.machine.memory.kernel.table(), Level::L2, address.get());
        let descriptor = change(table.entry(Level::L2, address).get());
        set(table, Level::L2, address.get(), descriptor);
        Mapping { owner: Owner::Kernel, level: Level::L2, va: address, descriptor }
    }

    fn data(&self) -> Frame {
        self.mapping(2, Level::L3, DATA).descriptor.frame()
    }
}

fn table<C: Context>(root: Table<C>, level: Level, address: u64) -> Table<C> {
    let above = Level::ALL.into_iter().take_while(|above| *above < level);
    above.fold(root, |table, level| table.next(level, va(address)).unwrap())
}

fn set<C: Context>(table: Table<C>, level: Level, address: u64, descriptor: Descriptor) {
    let section = Section::<Off<Recorder>, C>::open();
    table.entry(level, va(address)).set(section.token(), descriptor);
}

fn keyed(key: Pkey) -> impl FnOnce(Descriptor) -> Descriptor {
    move |old| old.with_bits(Attr::TableFrames(key).leaf_bits(Format::Indirect))
}

fn data_block(old: Descriptor) -> Descriptor {
    old.with_bits(Attr::KernelData.leaf_bits(Format::Indirect))
}

#[test]
fn a_clean_machine_is_clean() {
    let setup = Setup::new();
    Recorder::take();
    let (found, summary) = setup.audit();
    assert_eq!(found, []);
    assert_eq!(Recorder::take(), [], "an audit only reads");
    // Root, level 1 and level 2 of each space, a last-level table for text in each, and 2, 2 and 1 for data. The kernel has
    // a root, a level 1 and a level 2 table, and the empty root.
    let user = 3 * (1 + 1 + 2) + 3 + 5;
    assert_eq!(summary.tables, user + 4);
    assert_eq!(summary.leaves, 2 * 708 + 28 + BLOCKS);
    assert_eq!(summary.frames, BLOCKS * BLOCK_FRAMES);
    assert!(summary.pool_counted && !summary.truncated);
}

#[test]
fn kernel_areas_image_and_devices_are_clean() {
    let setup = Setup::new();
    let folio = setup.machine.memory.frames.alloc_folio(9).unwrap();
    let text = setup.machine.memory.frames.alloc_folio(9).unwrap();
    setup.map_kernel(AREA, Level::L2, folio, Attr::KernelData);
    setup.map_kernel(AREA + Level::L2.span(), Level::L3, setup.data(), Attr::KernelData);
    setup.map_kernel(0xffff_c000_0900_0000, Level::L3, Frame::from_number(0x9000), Attr::Device);
    setup.map_kernel(IMAGE, Level::L2, text, Attr::KernelText);
    setup.set_linear(text, |old| old.with_bits(Attr::KernelRodata.leaf_bits(Format::Indirect)));
    assert_eq!(setup.found(), []);
}

#[test]
fn tables_without_their_key_are_named_one_by_one() {
    let setup = Setup::new();
    let root = setup.spaces[2].root().frame();
    let leaf = setup.set_linear(root, data_block);
    let found = setup.found();
    let place = setup.place(2, Level::L3, TEXT);
    let frame = setup.table(2, Level::L3, TEXT).frame();
    let expected = Pkey::UserTables;
    assert!(found.contains(&Violation::Unkeyed { frame, place, expected, leaf: Some(leaf) }));
    assert!(found.contains(&Violation::Unkeyed {
        frame: root,
        place: setup.place(2, Level::L0, 0),
        expected,
        leaf: Some(leaf)
    }));
    // One line for each table in use, and one for all free frames of the block.
    let usage = setup.machine.memory.pool.usage(expected);
    assert_eq!((usage.blocks, found.len() as u64), (1, usage.tables + 1));
    let free = found.iter().find(|violation| matches!(violation, Violation::UnkeyedPool { .. }));
    let Some(Violation::UnkeyedPool { kind: Kind::Pool, frames, leaf: Some(named), .. }) = free else {
        panic!("{found:?}")
    };
    assert_eq!((*frames, *named), (BLOCK_FRAMES - usage.tables, leaf));
    let line = found.last().unwrap().to_string();
    assert!(line.ends_with("has key 0 (default)"), "{line}");
}

#[test]
fn user_tables_under_the_kernels_key_are_wrong_too() {
    let setup = Setup::new();
    let leaf = setup.set_linear(setup.spaces[0].root().frame(), keyed(Pkey::KernelTables));
    let found = setup.found();
    assert_eq!(found.len() as u64, setup.machine.memory.pool.usage(Pkey::UserTables).tables);
    let wrong = |violation: &Violation| matches!(violation, Violation::Unkeyed { expected: Pkey::UserTables, leaf: Some(l), .. } if *l == leaf);
    assert!(found.iter().all(wrong), "{found:?}");
}

#[test]
fn the_kernels_tables_and_the_empty_root_are_checked_too() {
    let setup = Setup::new();
    let memory = setup.machine.memory;
    let leaf = Some(setup.set_linear(memory.empty_root, keyed(Pkey::UserTables)));
    let found = setup.found();
    assert_eq!(found.len(), 4);
    for (frame, owner) in [(memory.kernel.table().frame(), Owner::Kernel), (memory.empty_root, Owner::Empty)] {
        let place = Place::root(owner);
        assert!(found.contains(&Violation::Unkeyed { frame, place, expected: Pkey::KernelTables, leaf }));
    }
}

#[test]
fn a_key_over_anything_else_is_stray() {
    let setup = Setup::new();
    let data = setup.data();
    let block = Frame::from_number(data.number() & !(BLOCK_FRAMES - 1));
    let leaf = setup.set_linear(data, keyed(Pkey::UserTables));
    let kind = block.meta().kind();
    assert_eq!(setup.found(), [Violation::StrayKey { leaf, frame: block, kind, frames: BLOCK_FRAMES }]);
}

#[test]
fn a_key_over_no_ram_is_stray() {
    let setup = Setup::new();
    let beyond = Frame::from_number(BLOCKS * BLOCK_FRAMES);
    let address = LINEAR_BASE + beyond.start().get();
    let leaf = setup.map_kernel(address, Level::L2, beyond, Attr::TableFrames(Pkey::UserTables));
    assert_eq!(setup.found(), [Violation::StrayKey { leaf, frame: beyond, kind: Kind::Absent, frames: BLOCK_FRAMES }]);
}

#[test]
fn a_key_outside_the_linear_map_is_stray() {
    let setup = Setup::new();
    let leaf = setup.map_kernel(AREA, Level::L3, setup.data(), Attr::TableFrames(Pkey::KernelTables));
    assert_eq!(setup.found(), [Violation::StrayKey { leaf, frame: setup.data(), kind: Kind::Data, frames: 1 }]);
}

#[test]
fn keys_not_in_use_and_half_keys_are_bad() {
    let setup = Setup::new();
    let (address, clean) = (DATA, setup.mapping(2, Level::L3, DATA));
    let gated = Attr::TableFrames(Pkey::UserTables).leaf_bits(Format::Indirect);
    let gated = Descriptor::page(clean.descriptor.frame(), gated).bits();
    let key = 7 << 60;
    for bits in [clean.descriptor.bits() | 5 << 60, clean.descriptor.bits() | 1 << 60, gated & !key, gated ^ 3 << 60] {
        set(setup.table(2, Level::L3, DATA), Level::L3, address, Descriptor::from_bits(bits));
        assert_eq!(setup.found(), [Violation::BadKey { leaf: setup.mapping(2, Level::L3, DATA) }]);
    }
}

#[test]
fn aliases_of_tables_and_free_tables_are_found_with_and_without_key() {
    let setup = Setup::new();
    let table = setup.table(0, Level::L2, DATA).frame();
    let pool = setup.ram().iter().filter(|frame| frame.meta().is(Kind::Pool)).last().unwrap();
    for (frame, kind) in [(table, Kind::Table), (pool, Kind::Pool)] {
        for attr in [Attr::KernelRodata, Attr::TableFrames(Pkey::UserTables)] {
            let leaf = setup.map_kernel(AREA, Level::L3, frame, attr);
            assert_eq!(setup.found(), [Violation::Alias { leaf, frame, kind }]);
        }
    }
}

#[test]
fn a_table_mapped_to_its_own_space_is_found() {
    let setup = Setup::new();
    let frame = setup.table(0, Level::L3, DATA).frame();
    let data = setup.mapping(0, Level::L3, DATA);
    let bits = Attr::UserData.leaf_bits(Format::Indirect);
    set(setup.table(0, Level::L3, DATA), Level::L3, DATA, Descriptor::page(frame, bits));
    let leaf = setup.mapping(0, Level::L3, DATA);
    assert_eq!(setup.found(), [Violation::Alias { leaf, frame, kind: Kind::Table }]);
    set(setup.table(0, Level::L3, DATA), Level::L3, DATA, data.descriptor);
    assert_eq!(setup.found(), []);
}

#[test]
fn a_block_that_covers_a_table_is_an_alias_of_it() {
    let setup = Setup::new();
    let first = Frame::from_number(0);
    for level in [Level::L1, Level::L2] {
        let leaf = setup.map_kernel(0xffff_d000_0000_0000, level, first, Attr::KernelRodata);
        assert_eq!(setup.found(), [Violation::Alias { leaf, frame: first, kind: Kind::Table }]);
        let table = table(setup.machine.memory.kernel.table(), level, leaf.va.get());
        set(table, level, leaf.va.get(), Descriptor::ABSENT);
    }
}

#[test]
fn a_table_whose_frame_says_otherwise_is_not_read() {
    let setup = Setup::new();
    let frame = setup.table(2, Level::L3, DATA).frame();
    frame.meta().set_kind(Kind::Data);
    let (place, kind) = (setup.place(2, Level::L3, DATA), Kind::Data);
    let found = setup.found();
    assert_eq!(found[0], Violation::NotATable { frame, place, kind });
    assert!(
        matches!(found[1], Violation::StrayKey { frame: stray, kind, frames: 1, .. } if (stray, kind) == (frame, Kind::Data))
    );
    assert!(matches!(found[2], Violation::PoolCount { tables, found, frames, found_frames }
        if tables == found + 1 && frames == found_frames + 1));
    assert_eq!(found.len(), 3);
}

#[test]
fn an_entry_to_data_or_to_no_ram_is_not_followed() {
    let setup = Setup::new();
    let table = setup.table(0, Level::L2, TEXT);
    let last = setup.table(0, Level::L3, TEXT).frame();
    let place = setup.place(0, Level::L3, TEXT);
    let text = setup.mapping(0, Level::L2, TEXT);
    for (frame, kind) in [(setup.data(), Kind::Data), (Frame::from_number(0x8_0000_0000), Kind::Absent)] {
        set(table, Level::L2, TEXT, Descriptor::table(frame));
        let lost = Violation::Unreached { frame: last, tag: 3 };
        assert_eq!(setup.found(), [Violation::NotATable { frame, place, kind }, lost]);
    }
    set(table, Level::L2, TEXT, text.descriptor);
    assert_eq!(setup.found(), []);
}

#[test]
fn a_table_of_another_level_is_not_followed() {
    let setup = Setup::new();
    let frame = setup.table(0, Level::L2, DATA).frame();
    let (at, place) = (TEXT + Level::L2.span(), setup.place(0, Level::L3, TEXT + Level::L2.span()));
    let table = setup.table(0, Level::L2, TEXT);
    set(table, Level::L2, at, Descriptor::table(frame));
    table.frame().meta().add_live(1);
    assert_eq!(setup.found(), [Violation::WrongLevel { frame, place, tag: 2 }]);
}

#[test]
fn a_table_that_two_spaces_share_is_found() {
    let setup = Setup::new();
    let frame = setup.table(0, Level::L3, DATA).frame();
    let lost = setup.table(2, Level::L3, DATA).frame();
    set(setup.table(2, Level::L2, DATA), Level::L2, DATA, Descriptor::table(frame));
    let place = setup.place(2, Level::L3, DATA);
    assert_eq!(setup.found(), [Violation::Shared { frame, place }, Violation::Unreached { frame: lost, tag: 3 }]);
    assert_eq!(setup.locate(frame), Some(setup.place(0, Level::L3, DATA)));
}

#[test]
fn tables_far_apart_are_found_too() {
    let machine = Machine::new(40);
    let frames = machine.memory.frames;
    let far = |block: Frame| block.number() >= 2 * ram::WINDOW as u64;
    while !far(frames.alloc_folio(9).unwrap()) {}
    let space = ManuallyDrop::new(Space::new(machine.memory).unwrap());
    let root = space.root();
    assert!(far(root.frame()) && machine.memory.empty_root < root.frame());
    let audit = |spaces: &[Table<UserTables>]| {
        let ram = [FrameRange::new(Frame::from_number(0), 40 * BLOCK_FRAMES).unwrap()];
        let mut found = Vec::new();
        Scope { memory: machine.memory, ram: &ram, spaces: spaces.iter().copied() }.audit(&mut |v| found.push(v));
        found
    };
    assert_eq!(audit(&[root]), []);
    assert_eq!(audit(&[]), [Violation::Unreached { frame: root.frame(), tag: 0 }]);
    let place = Place::root(Owner::User { root: root.frame() });
    assert_eq!(audit(&[root, root]), [Violation::Shared { frame: root.frame(), place }]);
}

#[test]
fn loops_and_wide_sharing_end() {
    let setup = Setup::new();
    let (root, steps) = (setup.spaces[0].root(), setup.audit().1.steps);
    let below = root.entry(Level::L0, va(DATA)).get();
    for index in 1..256 {
        set(root, Level::L0, index << Level::L0.shift(), below);
    }
    let (found, summary) = setup.audit();
    assert!(summary.truncated && summary.steps < 4 * steps, "{summary:?} after {steps}");
    let shared = found.iter().filter(|violation| matches!(violation, Violation::Shared { .. })).count();
    assert!(shared > 0 && found.len() == shared + usize::from(found.iter().any(is_live)), "{found:?}");
}

fn is_live(violation: &Violation) -> bool {
    matches!(violation, Violation::Live { .. })
}

#[test]
fn a_table_that_no_space_has_is_lost() {
    let mut setup = Setup::new();
    setup.spaces.remove(1);
    let lost = Space::new(setup.machine.memory).unwrap();
    let root = lost.root().frame();
    assert!(setup.found().contains(&Violation::Unreached { frame: root, tag: 0 }));
    assert_eq!(setup.locate(root), None);
    core::mem::forget(lost);
}

#[test]
fn the_pools_counts_are_compared() {
    let setup = Setup::new();
    let pool = setup.ram().iter().find(|frame| frame.meta().is(Kind::Pool)).unwrap();
    let tables = setup.audit().1.tables;
    pool.meta().set_kind(Kind::Table);
    let [lost, count] = setup.found()[..] else { panic!() };
    assert_eq!(lost, Violation::Unreached { frame: pool, tag: 0 });
    let frames = 2 * BLOCK_FRAMES;
    assert_eq!(count, Violation::PoolCount { tables, found: tables + 1, frames, found_frames: frames });
}

#[test]
fn retired_entries_and_wrong_counts_are_found() {
    let setup = Setup::new();
    let table = setup.table(2, Level::L3, DATA);
    let (frame, place) = (table.frame(), setup.place(2, Level::L3, DATA));
    let leaf = setup.mapping(2, Level::L3, DATA);
    set(table, Level::L3, DATA, leaf.descriptor.retired());
    let entry = setup.mapping(2, Level::L3, DATA);
    let count = Violation::Live { frame, place, counted: 20, valid: 19 };
    assert_eq!(setup.found(), [Violation::Retired { entry }, count]);
    frame.meta().sub_live(1);
    assert_eq!(setup.found(), [Violation::Retired { entry }]);
    set(table, Level::L3, DATA, Descriptor::ABSENT);
    assert_eq!(setup.found(), []);
}

#[test]
fn the_empty_root_is_empty() {
    let setup = Setup::new();
    let empty = Table::<KernelTables>::at(setup.machine.memory.empty_root);
    let level1 = setup.spaces[0].root().entry(Level::L0, va(DATA)).get();
    set(empty, Level::L0, 0, level1);
    let found = setup.found();
    let place = Place::root(Owner::Empty);
    assert!(found.contains(&Violation::Live { frame: empty.frame(), place, counted: 0, valid: 1 }));
    assert!(found.contains(&Violation::Shared { frame: level1.frame(), place: setup.place(0, Level::L1, 0) }));
}

#[test]
fn leaves_of_freed_frames_are_found() {
    let setup = Setup::new();
    let frames = setup.machine.memory.frames;
    let frame = setup.data();
    frames.release(frame, 1);
    let leaf = setup.mapping(2, Level::L3, DATA);
    assert_eq!(setup.found(), [Violation::Unowned { leaf, frame, kind: Kind::Held }]);
    assert_eq!(frames.alloc(), Ok(frame));
    assert_eq!(setup.found(), []);
    let folio = frames.alloc_folio(9).unwrap();
    let block = setup.map_kernel(AREA, Level::L2, folio, Attr::KernelData);
    let tail = Frame::from_number(folio.number() + 77);
    tail.meta().set_kind(Kind::Absent);
    assert_eq!(setup.found(), [Violation::Unowned { leaf: block, frame: tail, kind: Kind::Absent }]);
}

#[test]
fn other_kernel_leaves_may_name_what_is_no_data_but_nothing_free() {
    let setup = Setup::new();
    let frame = setup.machine.memory.frames.alloc().unwrap();
    frame.meta().set_kind(Kind::Image);
    let leaf = setup.map_kernel(0xffff_e000_0000_0000, Level::L3, frame, Attr::KernelData);
    assert_eq!(setup.found(), []);
    frame.meta().set_kind(Kind::Held);
    assert_eq!(setup.found(), [Violation::Unowned { leaf, frame, kind: Kind::Held }]);
}

#[test]
fn a_leaf_that_is_writable_and_executable_is_found() {
    let setup = Setup::new();
    let text = setup.mapping(0, Level::L3, TEXT);
    // No PIIndex of ours is both; under direct permissions, user text without AP[2] is.
    let leaf = Mapping { descriptor: text.descriptor.write_enabled(), ..text };
    let mut found = Vec::new();
    setup.with_scope(|scope| {
        let mut report = |violation| found.push(violation);
        for format in [Format::Direct, Format::Indirect] {
            let view = View { format, ..scope.view() };
            Checks::new(view, &mut report).leaf(leaf);
        }
    });
    assert_eq!(found, [Violation::WriteExecute { leaf }]);
}

#[test]
fn kernel_text_is_writable_nowhere() {
    let setup = Setup::new();
    let text = setup.machine.memory.frames.alloc_folio(9).unwrap();
    let image = setup.map_kernel(IMAGE, Level::L2, text, Attr::KernelText);
    let linear = setup.set_linear(text, |old| old);
    assert_eq!(setup.found(), [Violation::WritableText { frame: text, text: image, leaf: linear }]);
    setup.set_linear(text, |old| old.with_bits(Attr::KernelRodata.leaf_bits(Format::Indirect)));
    assert_eq!(setup.found(), []);
    let frame = Frame::from_number(text.number() + 300);
    let leaf = setup.map_kernel(AREA, Level::L3, frame, Attr::KernelData);
    assert_eq!(setup.found(), [Violation::WritableText { frame, text: image, leaf }]);
}

#[test]
fn user_text_is_writable_in_no_space() {
    let setup = Setup::new();
    let text = setup.mapping(0, Level::L3, TEXT);
    // The second space has the page too, write-protected until it gets a copy.
    let shared = setup.mapping(1, Level::L3, TEXT);
    assert_eq!(shared.descriptor.frame(), text.descriptor.frame());
    set(setup.table(1, Level::L3, TEXT), Level::L3, TEXT, shared.descriptor.write_enabled());
    let leaf = setup.mapping(1, Level::L3, TEXT);
    assert_eq!(setup.found(), [Violation::WritableText { frame: text.descriptor.frame(), text, leaf }]);
}

#[test]
fn text_in_many_pieces_is_compared_in_full() {
    let setup = Setup::new();
    let memory = setup.machine.memory;
    let singles: Vec<_> = (0..100).map(|_| memory.frames.alloc().unwrap()).collect();
    let linear = |frame| setup.set_linear(frame, |old| old.with_bits(Attr::KernelRodata.leaf_bits(Format::Indirect)));
    let mut blocks: Vec<_> = singles.iter().map(|frame| frame.number() / BLOCK_FRAMES).collect();
    blocks.dedup();
    for block in blocks {
        linear(Frame::from_number(block * BLOCK_FRAMES));
    }
    // Every other frame, so that no two make a run.
    for (i, frame) in singles.iter().step_by(2).enumerate() {
        setup.map_kernel(AREA + i as u64 * 0x1000, Level::L3, *frame, Attr::KernelText);
    }
    assert_eq!(setup.found(), []);
    for i in [0, 15, 16, 31, 32, 49] {
        let frame = singles[2 * i as usize];
        let leaf = setup.map_kernel(AREA + (1 << 30), Level::L3, frame, Attr::KernelData);
        let found = setup.found();
        let [Violation::WritableText { frame: named, text, leaf: by }] = found[..] else { panic!("{i}: {found:?}") };
        assert_eq!((named, text.va, by), (frame, va(AREA + i * 0x1000), leaf));
    }
}

#[test]
fn locate_knows_every_level_of_both_halves() {
    let setup = Setup::new();
    for level in Level::ALL {
        let frame = setup.table(1, level, TEXT).frame();
        let base = TEXT & !((level.span() << 9) - 1);
        assert_eq!(setup.locate(frame), Some(setup.place(1, level, base)));
    }
    let memory = setup.machine.memory;
    let linear = table(memory.kernel.table(), Level::L2, LINEAR_BASE).frame();
    let place = Place { owner: Owner::Kernel, level: Level::L2, va: va(LINEAR_BASE) };
    assert_eq!(setup.locate(linear), Some(place));
    assert_eq!(setup.locate(memory.empty_root), Some(Place::root(Owner::Empty)));
    assert_eq!(setup.locate(setup.data()), None);
    assert_eq!(place.to_string(), "level 2 table for 0xffff000000000000 under the kernel root");
}

#[test]
fn steps_are_linear() {
    let steps = |pages| {
        let machine = Machine::new(40);
        let mut space = Space::new(machine.memory).unwrap();
        space.map(range(DATA, pages), Protection::ReadWrite, 0).unwrap();
        let ram = [FrameRange::new(Frame::from_number(0), 40 * BLOCK_FRAMES).unwrap()];
        let audit = |space: &Space| {
            let scope = Scope { memory: machine.memory, ram: &ram, spaces: [space.root()].into_iter() };
            scope.audit(&mut |violation| panic!("{violation}")).steps
        };
        let before = audit(&space);
        space.populate(range(DATA, pages)).unwrap();
        audit(&space) - before
    };
    // A last-level table for each 512 pages; each page is one entry and one frame covered.
    let [one, eight] = [512, 8 * 512].map(steps);
    assert!(eight <= 8 * one && one < 512 * 12, "{one} {eight}");
}
