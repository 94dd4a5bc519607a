//! A whole machine's memory on the host, for unit and property tests.

use crate::addr::{Frame, FrameRange};
use crate::asid::Asids;
use crate::desc::{Attr, Decoded, Descriptor, ENTRIES, Format, Level};
use crate::frame::Frames;
use crate::kernel::{Builder, KernelRoot, Mapping};
use crate::linear::host::{Arena, Shared};
use crate::memory::Memory;
use crate::pool::{BLOCK_FRAMES, TablePool};
use crate::table::Table;
use pkeys::{Context, Pkey, Por};
use platform::arch::Recorder;
use std::boxed::Box;
use std::collections::BTreeSet;

/// Simulated memory with everything on it. The arena goes when this is dropped, so spaces and areas go first.
pub struct Machine {
    pub memory: &'static Memory,
    arena: Arena,
}

impl Machine {
    /// `blocks` blocks of 2 MiB, the first of which is the image's `tables` block.
    pub fn new(blocks: u64) -> Machine {
        let arena = Arena::new(blocks * BLOCK_FRAMES);
        Recorder::preset_por(Por::CLOSED.bits());
        let tables = FrameRange::new(Frame::from_number(0), BLOCK_FRAMES).unwrap();
        // SAFETY: the arena is new: zero, and used by nothing else.
        let mut builder = unsafe { Builder::new(tables, Format::Indirect) }.unwrap();
        for block in 0..blocks {
            let frame = Frame::from_number(block * BLOCK_FRAMES);
            let attr = if block == 0 { Attr::TableFrames(Pkey::KernelTables) } else { Attr::KernelData };
            let va = KernelRoot::linear_page(frame).start().start();
            let mapping = Mapping { va, pa: frame.start(), bytes: Level::L2.span(), attr, largest: Level::L2 };
            builder.map::<Recorder>(mapping).unwrap();
        }
        let empty_root = builder.spare_table().unwrap();
        let (kernel, used) = builder.finish();
        let frames: &'static Frames = Box::leak(Box::default());
        frames.set_boundary(Frame::from_number(blocks * BLOCK_FRAMES));
        let rest = FrameRange::new(Frame::from_number(BLOCK_FRAMES), (blocks - 1) * BLOCK_FRAMES).unwrap();
        // SAFETY: the arena's frames after the first block are used by nothing, and their metadata is fresh.
        unsafe { frames.add_range(rest) };
        let pool = TablePool::new(Frame::from_number(0), blocks).unwrap();
        // SAFETY: the builder has used the first frames of the block and left the others as they were.
        unsafe { pool.donate(tables.start(), used) };
        let memory = Memory { frames, pool, asids: Asids::new(8).unwrap(), kernel, empty_root };
        Recorder::take();
        Machine { memory: Box::leak(Box::new(memory)), arena }
    }

    /// Makes the calling thread one of this machine's CPUs, until the guard is dropped.
    pub fn join(&self, cpu: usize) -> Shared<'_> {
        Recorder::preset_por(Por::CLOSED.bits());
        self.arena.share(cpu)
    }

    /// Free frames, those in per-CPU fronts included.
    pub fn free(&self) -> u64 {
        self.memory.frames.stats().free()
    }

    /// The key under which the linear map holds `frame`.
    pub fn linear_key(&self, frame: Frame) -> Option<Pkey> {
        let va = KernelRoot::linear_page(frame).start().start();
        crate::table::walk(self.memory.kernel.table(), va).descriptor.key()
    }

    /// Checks I1 for the tables below `root`: each lies under `C`'s key in the linear map. Returns them.
    pub fn check_tables<C: Context>(&self, root: Table<C>) -> BTreeSet<u64> {
        let mut found = BTreeSet::new();
        self.collect(root, Level::L0, &mut found);
        found
    }

    fn collect<C: Context>(&self, table: Table<C>, level: Level, found: &mut BTreeSet<u64>) {
        assert_eq!(self.linear_key(table.frame()), Some(C::KEY), "{table:?}");
        assert!(found.insert(table.frame().number()), "{table:?} is reached twice");
        for entry in 0..ENTRIES {
            if let Decoded::Table(frame) = table.entries()[entry].get().decode(level) {
                self.collect(Table::<C>::at(frame), level.below().unwrap(), found);
            }
        }
    }
}

/// Every leaf below `root`: virtual page number and descriptor.
pub fn leaves<C: Context>(root: Table<C>) -> std::vec::Vec<(u64, Level, Descriptor)> {
    fn visit<C: Context>(table: Table<C>, level: Level, base: u64, out: &mut std::vec::Vec<(u64, Level, Descriptor)>) {
        for (index, entry) in table.entries().iter().enumerate() {
            let page = base + index as u64 * level.pages();
            match entry.get().decode(level) {
                Decoded::Table(frame) => visit(Table::<C>::at(frame), level.below().unwrap(), page, out),
                Decoded::Leaf(_) => out.push((page, level, entry.get())),
                Decoded::Absent => {}
                Decoded::Retired => panic!("page {page:#x} is left retired"),
            }
        }
    }
    let mut out = std::vec::Vec::new();
    visit(root, Level::L0, 0, &mut out);
    out
}
