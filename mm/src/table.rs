//! Tables and their entries. The store in [`Entry::set`] is the only one in Palisade that writes a translation table, and
//! it takes a token.
//!
//! ```compile_fail,E0061
//! use mm::desc::Descriptor;
//! use mm::table::Entry;
//! fn unguarded(entry: &Entry<pkeys::UserTables>) {
//!     entry.set(Descriptor::ABSENT); // error: where is the token?
//! }
//! ```
//! A token for one kind of table does not write the other:
//! ```compile_fail,E0308
//! use mm::desc::Descriptor;
//! use mm::table::Entry;
//! use pkeys::{KernelTables, Policy, Token, UserTables};
//! fn foreign<P: Policy>(entry: &Entry<KernelTables>, token: Token<'_, P, UserTables>) {
//!     entry.set(token, Descriptor::ABSENT);
//! }
//! ```

use crate::addr::{Frame, VirtAddr};
use crate::desc::{Decoded, Descriptor, ENTRIES, Level};
use crate::linear;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU64, Ordering};
use pkeys::section::ArchOf;
use pkeys::{Context, Policy, Token};
use platform::arch::Arch;

/// A live table, written in context `C`. Only the pool and the walk from a root make one.
pub struct Table<C> {
    frame: Frame,
    context: PhantomData<fn() -> C>,
}

impl<C> Clone for Table<C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for Table<C> {}

impl<C> core::fmt::Debug for Table<C> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Table({})", self.frame)
    }
}

impl<C: 'static> Table<C> {
    /// The table in `frame`, which must be live (or about to be) and of context `C`.
    pub(crate) const fn at(frame: Frame) -> Self {
        Table { frame, context: PhantomData }
    }

    /// The table's frame.
    #[inline(always)]
    pub const fn frame(self) -> Frame {
        self.frame
    }

    /// The table's entries.
    #[inline(always)]
    pub(crate) fn entries(self) -> &'static [Entry<C>; ENTRIES] {
        let table = linear::ptr(self.frame.start()).cast_const().cast();
        // SAFETY: (1) the linear map holds all of RAM for ever, so the 4 KiB stay mapped and, as the start of a frame,
        // are aligned; (2) `Entry` is an `AtomicU64`, valid for any bit pattern, and table frames are accessed by nothing
        // else (the table pool owns their memory, whether they are in use as a table or not).
        unsafe { &*table }
    }

    /// The table's entries, for code outside this crate that tries what tables do.
    ///
    /// # Safety
    /// A token permits any store to them: the caller answers for what each descriptor that it stores maps, and for the barriers
    /// and TLBIs that it takes; and the table stays live.
    pub unsafe fn raw_entries(self) -> &'static [Entry<C>; ENTRIES] {
        self.entries()
    }

    /// The entry for `va` in this table of level `level`.
    #[inline(always)]
    pub(crate) fn entry(self, level: Level, va: VirtAddr) -> &'static Entry<C> {
        &self.entries()[level.index(va)]
    }

    /// The table that `va`'s entry of this table, at `level`, leads to.
    #[inline(always)]
    pub fn next(self, level: Level, va: VirtAddr) -> Option<Table<C>> {
        match self.entry(level, va).get().decode(level) {
            Decoded::Table(frame) => Some(Table::at(frame)),
            _ => None,
        }
    }
}

/// One entry of a live table.
#[repr(transparent)]
pub struct Entry<C> {
    value: AtomicU64,
    context: PhantomData<fn() -> C>,
}

impl<C> core::fmt::Debug for Entry<C> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.get().fmt(f)
    }
}

impl<C> Entry<C> {
    /// What it holds.
    #[inline(always)]
    pub fn get(&self) -> Descriptor {
        Descriptor::from_bits(self.value.load(Ordering::Relaxed))
    }
}

impl<C: Context> Entry<C> {
    /// Stores `descriptor`, one 64-bit store. The barrier and TLBI that it needs are the section's end to make.
    #[inline(always)]
    pub fn set<P: Policy>(&self, token: Token<'_, P, C>, descriptor: Descriptor) {
        token.write(|| {
            self.value.store(descriptor.bits(), Ordering::Relaxed);
            ArchOf::<P>::note_store(self.value.as_ptr().addr() as u64, descriptor.bits());
        });
    }
}

/// What a walk for one address found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The level of the last entry read.
    pub level: Level,
    /// The table that this entry stands in.
    pub table: Frame,
    /// The entry: a leaf, or what ended the walk.
    pub descriptor: Descriptor,
}

/// Reads the entries for `va` from `root` down, as the CPU does.
pub fn walk<C: 'static>(root: Table<C>, va: VirtAddr) -> Found {
    let mut table = root;
    let mut level = Level::L0;
    loop {
        let descriptor = table.entry(level, va).get();
        match (descriptor.decode(level), level.below()) {
            (Decoded::Table(frame), Some(below)) => {
                table = Table::at(frame);
                level = below;
            }
            _ => return Found { level, table: table.frame, descriptor },
        }
    }
}

/// Shows every leaf below `root`, whose first entry translates `base`, to `see`: the address that it maps, its level, itself. Linear
/// in the tables there are.
pub fn leaves_of<C: 'static>(root: Table<C>, base: VirtAddr, see: &mut dyn FnMut(VirtAddr, Level, Descriptor)) {
    leaves_below(root, Level::L0, base.get(), see);
}

fn leaves_below<C: 'static>(
    table: Table<C>,
    level: Level,
    base: u64,
    see: &mut dyn FnMut(VirtAddr, Level, Descriptor),
) {
    for (index, entry) in table.entries().iter().enumerate() {
        let descriptor = entry.get();
        let address = base + ((index as u64) << level.shift());
        match (descriptor.decode(level), level.below()) {
            (Decoded::Table(frame), Some(below)) => leaves_below(Table::<C>::at(frame), below, address, see),
            (Decoded::Leaf(_), _) => {
                see(VirtAddr::new(address).expect("a root's entries translate one half"), level, descriptor);
            }
            _ => {}
        }
    }
}
