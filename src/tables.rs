//! The live kernel root, for looking up what an address is mapped as.

use core::fmt;
use mm::addr::{Frame, VirtAddr};
use mm::desc::{Decoded, ENTRIES, Level};
use mm::frame::Kind;
use mm::kernel::KernelRoot;
use mm::table::{Table, walk};
use pkeys::{KernelTables, Pkey};
use spin::Once;

static ROOT: Once<KernelRoot> = Once::new();

/// Says which root is live.
pub(crate) fn set_root(root: KernelRoot) {
    ROOT.call_once(|| root);
}

/// Notes in the metadata of every table of `root` which level it is of, as the pool does for those that it hands out.
pub(crate) fn note_levels(root: KernelRoot) {
    note(root.table(), Level::L0);
}

fn note(table: Table<KernelTables>, level: Level) {
    table.frame().meta().set_tag(level as u16);
    let Some(below) = level.below() else { return };
    for index in 0..ENTRIES as u64 {
        // Only the address's bits of this level count.
        let va = VirtAddr::new(index << level.shift());
        if let Some(next) = va.and_then(|va| table.next(level, va)) {
            note(next, below);
        }
    }
}

/// An address of the kernel's half that is mapped.
#[derive(Clone, Copy, Debug)]
pub struct Keyed {
    /// The key of its mapping.
    pub key: Pkey,
    /// What is there.
    pub place: Place,
}

/// What lies at an address.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    frame: Frame,
    /// Byte offset in the frame.
    offset: u64,
    key: Pkey,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = match self.key {
            Pkey::UserTables => "user",
            Pkey::KernelTables => "kernel",
            Pkey::Default => "no",
        };
        let meta = self.frame.meta();
        match (meta.is(Kind::Table), Level::from_number(meta.tag() as u8)) {
            (true, Some(level)) => write!(f, "entry {} of a {owner} table of {level}", self.offset / 8)?,
            (true, None) => write!(f, "entry {} of a {owner} table", self.offset / 8)?,
            (false, _) => write!(f, "a free page of the {owner} tables' pool")?,
        }
        write!(f, ", physical {:#x}", self.frame.start().get() + self.offset)
    }
}

/// What `address` is mapped as, by the kernel's root; `None` where it is not, or before that root is live.
pub fn keyed(address: u64) -> Option<Keyed> {
    let va = VirtAddr::new(address)?;
    if address >> 48 == 0 {
        return None;
    }
    let found = walk(ROOT.get()?.table(), va);
    let Decoded::Leaf(first) = found.descriptor.decode(found.level) else {
        return None;
    };
    let within = address & (found.level.span() - 1);
    let frame = Frame::from_number(first.number() + (within >> 12));
    let key = found.descriptor.key()?;
    Some(Keyed { key, place: Place { frame, offset: within & 0xfff, key } })
}
