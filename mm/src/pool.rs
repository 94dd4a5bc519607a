//! Where tables come from: naturally aligned 2 MiB blocks that lie under a table key as blocks of the linear map.
//!
//! Taking a table out of a block, or putting it back, edits no descriptor and invalidates no TLB entry. Only growing by
//! a block, and giving an empty one back, does (one descriptor and one TLBI for 512 tables). The pool needs no table to
//! grow: the linear map of the zone that blocks come from consists of 2 MiB blocks from boot on.
//!
//! Free tables are all zero. A table is emptied entry by entry as its mappings go, so that it comes back that way, and
//! taking one needs no clearing. Which frames are free stands in their metadata, never in the frames themselves.
//!
//! The pool's lock also is the barrier between a table's emptying and the store that hooks it up again: released after the
//! one and acquired before the other, it keeps every walker from finding old entries behind the new hook.

use crate::addr::Frame;
use crate::desc::{Attr, Level};
use crate::frame::{Frames, Kind, OutOfMemory};
use crate::kernel::KernelRoot;
use crate::linear;
use crate::table::Table;
use crate::tlb::{self, Stale};
use pkeys::section::ArchOf;
use pkeys::{Context, KernelTables, Pkey, Policy, Token};
use platform::arch::Arch;
use spin::Mutex;

use alloc::vec::Vec;

/// Frames in a block.
pub const BLOCK_FRAMES: u64 = 512;
/// Base-2 logarithm of [`BLOCK_FRAMES`].
pub const BLOCK_ORDER: u32 = 9;
/// Empty blocks that each key keeps, so that tables that come and go do not make the pool grow and shrink in turns: a space of
/// 2 GiB mapped by pages, or a fork of one of 1 GiB, finds its tables there. At most 4 MiB a key.
const EMPTY_KEPT: u32 = 2;

/// No index.
const NONE: u16 = u16::MAX;

/// One block's state, in a doubly linked list of those with free tables.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// Index in the block of its first free table; the others follow through their metadata's links.
    first: u16,
    /// How many are free.
    free: u16,
    previous: u16,
    next: u16,
}

/// One key's blocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Blocks under the key.
    pub blocks: u32,
    /// Of those, blocks without a table in use.
    pub empty: u32,
    /// Tables in use.
    pub tables: u64,
}

#[derive(Debug)]
struct KeyState {
    /// The first block with a free table.
    partial: u16,
    usage: Usage,
}

#[derive(Debug)]
struct State {
    blocks: Vec<Block>,
    keys: [KeyState; 2],
}

/// The table pool of all keys. Blocks of different keys never mix.
#[derive(Debug)]
pub struct TablePool {
    /// Number of the zone's first frame, a multiple of [`BLOCK_FRAMES`].
    zone_start: u64,
    state: Mutex<State>,
}

fn key_index(key: Pkey) -> usize {
    match key {
        Pkey::UserTables => 0,
        Pkey::KernelTables | Pkey::Default => 1,
    }
}

impl TablePool {
    /// A pool without blocks, for a zone of `blocks` blocks from frame `zone_start` on.
    ///
    /// # Errors
    /// Out of memory where the heap has no room for 8 bytes a block.
    ///
    /// # Panics
    /// Where the zone does not begin at a block's border or is of 2^16 blocks (128 GiB) or more.
    pub fn new(zone_start: Frame, blocks: u64) -> Result<Self, OutOfMemory> {
        assert!(zone_start.is_aligned(BLOCK_ORDER) && blocks < u64::from(NONE));
        let mut list = Vec::new();
        list.try_reserve_exact(blocks as usize).map_err(|_| OutOfMemory { order: 0 })?;
        list.resize(blocks as usize, Block { first: NONE, free: 0, previous: NONE, next: NONE });
        let key = || KeyState { partial: NONE, usage: Usage::default() };
        let state = State { blocks: list, keys: [key(), key()] };
        Ok(TablePool { zone_start: zone_start.number(), state: Mutex::new(state) })
    }

    /// Takes a table for `level` of `C`'s key: all zero, with no live entry.
    ///
    /// # Errors
    /// Out of memory where no block has a free table and the zone has no free block.
    #[inline]
    pub fn take<P: Policy, C: Context>(
        &self,
        token: Token<'_, P, C>,
        frames: &Frames,
        kernel: &KernelRoot,
        level: Level,
    ) -> Result<Table<C>, OutOfMemory> {
        loop {
            if let Some(frame) = self.state.lock().take(C::KEY, self.zone_start) {
                let meta = frame.meta();
                meta.set_kind(Kind::Table);
                meta.set_tag(level as u16);
                meta.set_live(0);
                return Ok(Table::at(frame));
            }
            self.grow::<P, C>(token, frames, kernel)?;
        }
    }

    /// Puts a table back. All its entries are zero, nothing leads to it, and no TLB or walker knows it any more.
    #[inline]
    pub fn put<P: Policy, C: Context>(
        &self,
        token: Token<'_, P, C>,
        frames: &Frames,
        kernel: &KernelRoot,
        table: Table<C>,
    ) {
        let frame = table.frame();
        debug_assert!(frame.meta().is(Kind::Table), "{frame} is put back, but is no table");
        debug_assert!(table.entries().iter().all(|entry| entry.get().is_absent()), "{frame} is not empty");
        frame.meta().set_kind(Kind::Pool);
        let emptied = self.state.lock().put(C::KEY, self.zone_start, frame);
        if let Some(block) = emptied {
            shrink::<P, C>(token, frames, kernel, block);
        }
    }

    /// What `key` has. Linear in nothing.
    pub fn usage(&self, key: Pkey) -> Usage {
        self.state.lock().keys[key_index(key)].usage
    }

    /// The same without waiting: `None` where the pool is in use, as it may be for ever once the kernel has panicked.
    pub fn try_usage(&self, key: Pkey) -> Option<Usage> {
        Some(self.state.try_lock()?.keys[key_index(key)].usage)
    }

    /// Gives the pool a block that lies under the kernel-table key already: the one in the image. Its first `used` frames are
    /// live tables.
    ///
    /// # Safety
    /// The block's other frames are all zero, and used by nothing else. It has not been given before.
    pub unsafe fn donate(&self, block: Frame, used: u64) {
        for (i, frame) in block_frames(block).enumerate() {
            frame.meta().set_kind(if (i as u64) < used { Kind::Table } else { Kind::Pool });
        }
        self.state.lock().add(Pkey::KernelTables, self.zone_start, block, used as u16);
    }

    #[cold]
    fn grow<P: Policy, C: Context>(
        &self,
        token: Token<'_, P, C>,
        frames: &Frames,
        kernel: &KernelRoot,
    ) -> Result<(), OutOfMemory> {
        let block = frames.alloc_pool_block()?;
        set_key::<P, C>(token, kernel, block, Attr::TableFrames(C::KEY));
        // Zeroed only now that the block is out of reach: what a stale pointer writes before that must not come to stand in
        // a table.
        token.write(|| {
            for frame in block_frames(block) {
                // SAFETY: the block has just been allocated, so nothing else refers to its frames, which are 4 KiB-aligned; the
                // linear map holds them under the key that `token` opens.
                unsafe { ArchOf::<P>::zero_page(linear::ptr(frame.start())) };
            }
        });
        self.state.lock().add(C::KEY, self.zone_start, block, 0);
        Ok(())
    }
}

/// Gives an empty block, already off the pool's lists, back to general use.
#[cold]
fn shrink<P: Policy, C: Context>(token: Token<'_, P, C>, frames: &Frames, kernel: &KernelRoot, block: Frame) {
    set_key::<P, C>(token, kernel, block, Attr::KernelData);
    frames.free_pool_block(block);
}

/// Puts a block of the linear map under other attributes, and waits until no TLB holds the old ones.
fn set_key<P: Policy, C: Context>(token: Token<'_, P, C>, kernel: &KernelRoot, block: Frame, attr: Attr) {
    token.nested::<KernelTables, _>(
        |token| kernel.set_linear_block(token, block, attr),
        || tlb::flush::<ArchOf<P>>(Stale::Kernel(KernelRoot::linear_page(block))),
    );
}

fn block_frames(block: Frame) -> impl Iterator<Item = Frame> {
    (0..BLOCK_FRAMES).map(move |i| Frame::from_number(block.number() + i))
}

impl State {
    fn take(&mut self, key: Pkey, zone_start: u64) -> Option<Frame> {
        let key = key_index(key);
        let index = self.keys[key].partial;
        let block = self.blocks.get_mut(usize::from(index))?;
        let frame = Frame::from_number(zone_start + u64::from(index) * BLOCK_FRAMES + u64::from(block.first));
        block.first = frame.meta().link().map_or(NONE, index_in_block);
        let was = block.free;
        block.free = was - 1;
        let usage = &mut self.keys[key].usage;
        usage.tables += 1;
        usage.empty -= u32::from(u64::from(was) == BLOCK_FRAMES);
        if was == 1 {
            self.unlink(key, index);
        }
        Some(frame)
    }

    /// Puts `frame` back; returns its block where that is empty now and one too many, taken off the lists.
    fn put(&mut self, key: Pkey, zone_start: u64, frame: Frame) -> Option<Frame> {
        let key = key_index(key);
        let index = ((frame.number() - zone_start) / BLOCK_FRAMES) as u16;
        let block = &mut self.blocks[usize::from(index)];
        let start = Frame::from_number(frame.number() & !(BLOCK_FRAMES - 1));
        frame
            .meta()
            .set_link((block.first != NONE).then(|| Frame::from_number(start.number() + u64::from(block.first))));
        block.first = index_in_block(frame);
        block.free += 1;
        let free = block.free;
        self.keys[key].usage.tables -= 1;
        if free == 1 {
            self.link(key, index);
        }
        if u64::from(free) < BLOCK_FRAMES {
            return None;
        }
        if self.keys[key].usage.empty < EMPTY_KEPT {
            self.keys[key].usage.empty += 1;
            return None;
        }
        self.unlink(key, index);
        self.keys[key].usage.blocks -= 1;
        self.blocks[usize::from(index)].free = 0;
        Some(start)
    }

    /// Adds `start`'s block, whose frames after the first `used` are free.
    fn add(&mut self, key: Pkey, zone_start: u64, start: Frame, used: u16) {
        let key = key_index(key);
        let index = ((start.number() - zone_start) / BLOCK_FRAMES) as u16;
        let mut next = None;
        for i in (u64::from(used)..BLOCK_FRAMES).rev() {
            let frame = Frame::from_number(start.number() + i);
            frame.meta().set_link(next);
            next = Some(frame);
        }
        let free = BLOCK_FRAMES as u16 - used;
        let block = &mut self.blocks[usize::from(index)];
        block.first = next.map_or(NONE, index_in_block);
        block.free = free;
        let usage = &mut self.keys[key].usage;
        usage.blocks += 1;
        usage.tables += u64::from(used);
        usage.empty += u32::from(used == 0);
        if free > 0 {
            self.link(key, index);
        }
    }

    fn link(&mut self, key: usize, index: u16) {
        let head = core::mem::replace(&mut self.keys[key].partial, index);
        let block = &mut self.blocks[usize::from(index)];
        block.previous = NONE;
        block.next = head;
        if let Some(head) = self.blocks.get_mut(usize::from(head)) {
            head.previous = index;
        }
    }

    fn unlink(&mut self, key: usize, index: u16) {
        let Block { previous, next, .. } = self.blocks[usize::from(index)];
        match self.blocks.get_mut(usize::from(previous)) {
            Some(previous) => previous.next = next,
            None => self.keys[key].partial = next,
        }
        if let Some(next) = self.blocks.get_mut(usize::from(next)) {
            next.previous = previous;
        }
    }
}

fn index_in_block(frame: Frame) -> u16 {
    (frame.number() % BLOCK_FRAMES) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Machine;
    use pkeys::{Batched, PorGate, Section, UserTables};
    use platform::arch::{Op, Recorder};
    use proptest::prelude::*;

    type P = Batched<PorGate<Recorder>>;

    fn take(machine: &Machine) -> Result<Table<UserTables>, OutOfMemory> {
        let section = Section::<P, UserTables>::open();
        machine.memory.take_table(section.token(), Level::L3)
    }

    fn put(machine: &Machine, table: Table<UserTables>) {
        let section = Section::<P, UserTables>::open();
        machine.memory.put_table(section.token(), table);
    }

    #[test]
    fn a_table_costs_no_tlbi_and_no_descriptor_edit() {
        let machine = Machine::new(4);
        let first = take(&machine).unwrap();
        Recorder::take();
        let second = take(&machine).unwrap();
        put(&machine, second);
        let por = |op: &Op| matches!(op, Op::Por(_) | Op::Isb);
        assert!(Recorder::take().iter().all(por), "only the sections themselves");
        put(&machine, first);
    }

    #[test]
    fn growing_keys_one_block_and_flushes_it_once() {
        let machine = Machine::new(4);
        Recorder::take();
        let table = take(&machine).unwrap();
        let ops = Recorder::take();
        let count = |wanted: fn(&Op) -> bool| ops.iter().filter(|op| wanted(op)).count();
        assert_eq!(count(|op| matches!(op, Op::Store { .. })), 1);
        assert_eq!(count(|op| matches!(op, Op::TlbiPageGlobal(_))), 1);
        let at = |wanted: fn(&Op) -> bool| ops.iter().position(wanted).unwrap();
        assert_eq!(count(|op| matches!(op, Op::Zero(_))) as u64, BLOCK_FRAMES);
        assert!(
            at(|op| matches!(op, Op::DsbIsh)) < at(|op| matches!(op, Op::Zero(_))),
            "zeroed while others could write"
        );
        assert_eq!(machine.linear_key(table.frame()), Some(Pkey::UserTables));
        assert_eq!(machine.memory.pool.usage(Pkey::UserTables).tables, 1);
    }

    #[test]
    fn running_out_is_an_error_and_loses_nothing() {
        let machine = Machine::new(5);
        let free = machine.free();
        let mut tables = std::vec::Vec::new();
        while let Ok(table) = take(&machine) {
            tables.push(table);
        }
        assert_eq!(tables.len() as u64, 4 * BLOCK_FRAMES);
        tables.into_iter().for_each(|table| put(&machine, table));
        assert_eq!(machine.free(), free - u64::from(EMPTY_KEPT) * BLOCK_FRAMES);
        let usage = machine.memory.pool.usage(Pkey::UserTables);
        assert_eq!((usage.blocks, usage.empty, usage.tables), (EMPTY_KEPT, EMPTY_KEPT, 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn random_use_keeps_tables_apart_keyed_and_zero(ops in prop::collection::vec((any::<bool>(), any::<usize>()), 1..3000)) {
            let machine = Machine::new(6);
            let mut held: std::vec::Vec<Table<UserTables>> = std::vec::Vec::new();
            for (taking, pick) in ops {
                if taking || held.is_empty() {
                    if let Ok(table) = take(&machine) {
                        prop_assert!(table.entries().iter().all(|entry| entry.get().is_absent()));
                        prop_assert!(held.iter().all(|other| other.frame() != table.frame()));
                        prop_assert_eq!(machine.linear_key(table.frame()), Some(Pkey::UserTables));
                        held.push(table);
                    }
                } else {
                    put(&machine, held.swap_remove(pick % held.len()));
                }
                prop_assert_eq!(machine.memory.pool.usage(Pkey::UserTables).tables, held.len() as u64);
            }
        }
    }
}
