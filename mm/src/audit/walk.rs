//! Reading tables without trusting them: an entry is followed only to RAM that says it is a table of the right level, and no
//! more tables are read than there are.

use super::Scope;
use super::violation::{Mapping, Owner, Place, Violation};
use crate::addr::{Frame, FrameRange, VirtAddr};
use crate::desc::{Decoded, Descriptor, ENTRIES, Format, Level};
use crate::frame::Kind;
use crate::linear::LINEAR_BASE;
use crate::memory::Memory;
use crate::pool::BLOCK_FRAMES;
use crate::table::Table;
use pkeys::{Pkey, UserTables};

/// First address of the kernel's half.
const KERNEL_HALF: u64 = 0xffff_0000_0000_0000;

/// A table to read only: no token fits its entries.
type Any = Table<()>;

impl Owner {
    /// First address that a root of this owner translates.
    const fn base(self) -> u64 {
        match self {
            Owner::Kernel => KERNEL_HALF,
            Owner::User { .. } | Owner::Empty => 0,
        }
    }

    /// The key that its tables lie under.
    pub(super) const fn key(self) -> Pkey {
        match self {
            Owner::Kernel | Owner::Empty => Pkey::KernelTables,
            Owner::User { .. } => Pkey::UserTables,
        }
    }
}

impl Place {
    /// Where the root of `owner` stands.
    pub(super) fn root(owner: Owner) -> Self {
        Place { owner, level: Level::L0, va: address(owner.base()) }
    }

    /// First address that the `index`th entry translates.
    fn entry_va(self, index: usize) -> VirtAddr {
        address(self.va.get() + ((index as u64) << self.level.shift()))
    }

    /// The `index`th entry, which holds `descriptor`.
    fn mapping(self, index: usize, descriptor: Descriptor) -> Mapping {
        Mapping { owner: self.owner, level: self.level, va: self.entry_va(index), descriptor }
    }
}

fn address(va: u64) -> VirtAddr {
    VirtAddr::new(va).expect("a root's entries translate one half")
}

impl Mapping {
    /// The frames that a leaf covers.
    pub(super) fn frames(&self) -> FrameRange {
        let start = self.descriptor.frame().number() & !(self.level.pages() - 1);
        FrameRange::new(Frame::from_number(start), self.level.pages()).expect("a descriptor holds 48 bits of address")
    }

    /// Whether it is a leaf of the linear map.
    pub(super) fn is_linear(&self) -> bool {
        self.owner == Owner::Kernel && self.va.get() == LINEAR_BASE + self.frames().start().start().get()
    }
}

/// What all parts of an audit look at.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) memory: &'a Memory,
    pub(super) ram: &'a [FrameRange],
    /// How leaves' permissions are read.
    pub(super) format: Format,
}

impl View<'_> {
    /// The kind of `frame`; `Absent` where it is no RAM.
    pub(super) fn kind(&self, frame: Frame) -> Kind {
        if self.is_ram(frame) { frame.meta().kind() } else { Kind::Absent }
    }

    pub(super) fn is_ram(&self, frame: Frame) -> bool {
        self.ram.iter().any(|range| range.contains(frame))
    }

    /// The key of a leaf, where POIndex and PIIndex agree on one.
    pub(super) fn key(&self, descriptor: Descriptor) -> Option<Pkey> {
        let key = descriptor.key()?;
        let agree = self.format == Format::Direct || descriptor.index_key() == key;
        agree.then_some(key)
    }

    /// The block that holds the kernel's root, whose tables boot made.
    fn is_boot_block(&self, frame: Frame) -> bool {
        frame.number() / BLOCK_FRAMES == self.memory.kernel.table().frame().number() / BLOCK_FRAMES
    }

    /// Whether a table may be without a root that leads to it: the boot tables, which lie before the kernel's root.
    pub(super) fn is_boot_table(&self, frame: Frame) -> bool {
        self.is_boot_block(frame) && frame < self.memory.kernel.table().frame()
    }

    /// Whether `frame` can be read as the table at `place`.
    fn check_table(&self, frame: Frame, place: Place) -> Result<(), Violation> {
        let kind = self.kind(frame);
        if kind != Kind::Table {
            return Err(Violation::NotATable { frame, place, kind });
        }
        let tag = frame.meta().tag();
        // Whoever made the kernel's first tables may not have told their levels.
        let untold = tag == 0 && self.is_boot_block(frame);
        if tag != place.level as u16 && !untold {
            return Err(Violation::WrongLevel { frame, place, tag });
        }
        Ok(())
    }

    /// Looks `frame` up in the linear map. Returns its leaf, and how many frames from `frame` on share the answer.
    pub(super) fn linear(&self, frame: Frame) -> (Option<Mapping>, u64) {
        let va = address(LINEAR_BASE + frame.start().get());
        let mut place = Place::root(Owner::Kernel);
        let mut table = self.memory.kernel.table().frame();
        loop {
            let index = place.level.index(va);
            let mut leaf = None;
            if self.check_table(table, place).is_ok() {
                let mapping = place.mapping(index, Any::at(table).entries()[index].get());
                match (mapping.descriptor.decode(place.level), place.level.below()) {
                    (Decoded::Table(next), Some(level)) => {
                        place = Place { level, va: mapping.va, ..place };
                        table = next;
                        continue;
                    }
                    (Decoded::Leaf(_), _) if mapping.is_linear() => leaf = Some(mapping),
                    _ => {}
                }
            }
            let pages = place.level.pages();
            return (leaf, pages - frame.number() % pages);
        }
    }
}

/// What a walk shows.
pub(super) trait Visit {
    /// Whether last-level tables are read too.
    const LEAVES: bool;

    /// A table; whether to read it.
    fn table(&mut self, _frame: Frame, _place: Place) -> bool {
        true
    }

    /// A table has been read that has `valid` valid entries.
    fn read(&mut self, _frame: Frame, _place: Place, _valid: u32) {}

    /// A leaf.
    fn leaf(&mut self, _leaf: Mapping) {}

    /// An entry that is neither valid nor empty.
    fn retired(&mut self, _entry: Mapping) {}

    /// An entry leads to what can't be read as a table.
    fn refused(&mut self, _why: Violation) {}
}

/// What a walk took.
#[derive(Clone, Copy, Default)]
pub(super) struct Walked {
    /// Entries read.
    pub(super) steps: u64,
    /// Whether there were more tables to read than there are.
    pub(super) truncated: bool,
}

impl core::ops::AddAssign for Walked {
    fn add_assign(&mut self, other: Walked) {
        self.steps += other.steps;
        self.truncated |= other.truncated;
    }
}

/// Shows `visit` everything in `scope`, where `tables` frames say that they are tables. The order is always the same.
pub(super) fn walk<S, V: Visit>(scope: &Scope<'_, S>, tables: u64, visit: &mut V) -> Walked
where
    S: Iterator<Item = Table<UserTables>> + Clone,
{
    let view = scope.view();
    // One more than there are, so that whoever runs out of them has met one twice.
    let mut walk = Walk { view, visit, left: tables + 1, walked: Walked { steps: 0, truncated: false } };
    walk.enter(view.memory.kernel.table().frame(), Place::root(Owner::Kernel));
    walk.enter(view.memory.empty_root, Place::root(Owner::Empty));
    for space in scope.spaces.clone() {
        let root = space.frame();
        walk.enter(root, Place::root(Owner::User { root }));
    }
    walk.walked
}

struct Walk<'a, 'v, V> {
    view: View<'a>,
    visit: &'v mut V,
    /// Tables that may still be met.
    left: u64,
    walked: Walked,
}

impl<V: Visit> Walk<'_, '_, V> {
    fn enter(&mut self, frame: Frame, place: Place) {
        if let Err(why) = self.view.check_table(frame, place) {
            return self.visit.refused(why);
        }
        let Some(left) = self.left.checked_sub(1) else {
            self.walked.truncated = true;
            return;
        };
        self.left = left;
        if !self.visit.table(frame, place) || (place.level == Level::L3 && !V::LEAVES) {
            return;
        }
        self.walked.steps += ENTRIES as u64;
        let mut valid = 0;
        for (index, entry) in Any::at(frame).entries().iter().enumerate() {
            let descriptor = entry.get();
            if descriptor.is_absent() {
                continue;
            }
            valid += u32::from(descriptor.is_valid());
            let mapping = place.mapping(index, descriptor);
            match (descriptor.decode(place.level), place.level.below()) {
                (Decoded::Table(next), Some(level)) => self.enter(next, Place { level, va: mapping.va, ..place }),
                (Decoded::Leaf(_), _) => self.visit.leaf(mapping),
                _ => self.visit.retired(mapping),
            }
        }
        self.visit.read(frame, place, valid);
    }
}

/// Finds the first place of a table.
pub(super) struct Find {
    pub(super) frame: Frame,
    pub(super) found: Option<Place>,
}

impl Visit for Find {
    const LEAVES: bool = false;

    fn table(&mut self, frame: Frame, place: Place) -> bool {
        if frame == self.frame && self.found.is_none() {
            self.found = Some(place);
        }
        self.found.is_none()
    }
}
