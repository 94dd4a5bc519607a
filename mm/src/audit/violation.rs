//! What an audit can find, each with the facts that a reader needs to go on from.

use crate::addr::{Frame, VirtAddr};
use crate::desc::{Descriptor, Level};
use crate::frame::Kind;
use core::fmt;
use pkeys::Pkey;

/// Whose tables lead somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The kernel's (TTBR1).
    Kernel,
    /// A user space's (TTBR0).
    User {
        /// The frame of its root.
        root: Frame,
    },
    /// The table without entries that TTBR0 holds while no space is active.
    Empty,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Owner::Kernel => f.write_str("kernel root"),
            Owner::User { root } => write!(f, "user root {root}"),
            Owner::Empty => f.write_str("empty root"),
        }
    }
}

/// Where a table stands: who has it, at which level, and what it translates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Whose it is.
    pub owner: Owner,
    /// The level of its entries: 0 for a root.
    pub level: Level,
    /// The first address that it translates.
    pub va: VirtAddr,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.level {
            Level::L0 => self.owner.fmt(f),
            level => write!(f, "{level} table for {} under the {}", self.va, self.owner),
        }
    }
}

/// An entry and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Whose tables it stands in.
    pub owner: Owner,
    /// The level of its table.
    pub level: Level,
    /// The first address that it translates.
    pub va: VirtAddr,
    /// The entry itself.
    pub descriptor: Descriptor,
}

impl fmt::Display for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {}, {:#018x})", self.va, self.owner, self.level, self.descriptor.bits())
    }
}

/// What is wrong, and where. `Display` names the invariant first: I1 (tables lie under their key in every mapping, and nothing
/// else does), I5 (nothing is writable and executable) or, for what merely makes either doubtful, `tables`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// I1: a table in use does not lie under its key in the linear map.
    Unkeyed {
        /// The table.
        frame: Frame,
        /// Where it stands.
        place: Place,
        /// The key it has to lie under.
        expected: Pkey,
        /// Its leaf of the linear map; `None` where there is none.
        leaf: Option<Mapping>,
    },
    /// I1: frames of the table pool that no root leads to (free ones, for the most part) lie under no table key in the linear map.
    UnkeyedPool {
        /// The first of them below the leaf.
        frame: Frame,
        /// Its kind.
        kind: Kind,
        /// How many there are below the leaf.
        frames: u64,
        /// Their leaf of the linear map; `None` where there is none.
        leaf: Option<Mapping>,
    },
    /// I1: a leaf with a table key covers frames that are no tables, or is no part of the linear map.
    StrayKey {
        /// The leaf.
        leaf: Mapping,
        /// The first frame below it that is no table.
        frame: Frame,
        /// Its kind.
        kind: Kind,
        /// How many there are below the leaf.
        frames: u64,
    },
    /// I1: a leaf's POIndex is that of no key, or its PIIndex is not the one of its key.
    BadKey {
        /// The leaf.
        leaf: Mapping,
    },
    /// I1: a table, or a free frame of the table pool, is mapped outside the linear map.
    Alias {
        /// The leaf that maps it.
        leaf: Mapping,
        /// The first such frame below it.
        frame: Frame,
        /// Its kind.
        kind: Kind,
    },
    /// I1: an entry, or a root register, leads to a frame that is in use for something else than a table.
    NotATable {
        /// The frame.
        frame: Frame,
        /// Where it stands as a table. The audit does not look into it.
        place: Place,
        /// Its kind; [`Kind::Absent`] where it is no RAM.
        kind: Kind,
    },
    /// I1: an entry leads to a table of another level.
    WrongLevel {
        /// The table.
        frame: Frame,
        /// Where it stands. The audit does not look into it there.
        place: Place,
        /// The level that its metadata names.
        tag: u16,
    },
    /// I1: a table is reached twice.
    Shared {
        /// The table.
        frame: Frame,
        /// Where it stands for the second time ([`super::Scope::locate`] names the first).
        place: Place,
    },
    /// I1: a table is in use that no root leads to: leaked, or taken out of its place.
    Unreached {
        /// The table.
        frame: Frame,
        /// The level that its metadata names.
        tag: u16,
    },
    /// I1: the pool's counts of all keys together and the frames' metadata disagree.
    PoolCount {
        /// Tables in use by the pool's count.
        tables: u64,
        /// Frames that say they are tables.
        found: u64,
        /// Frames in blocks by the pool's count.
        frames: u64,
        /// Frames that say they are of the pool, tables or free.
        found_frames: u64,
    },
    /// tables: an entry is neither valid nor empty, which it may be only within an operation.
    Retired {
        /// The entry.
        entry: Mapping,
    },
    /// tables: a table's count of valid entries is wrong.
    Live {
        /// The table.
        frame: Frame,
        /// Where it stands.
        place: Place,
        /// What is counted: in the metadata, or none for the empty root.
        counted: u32,
        /// The entries that are valid.
        valid: u32,
    },
    /// tables: a user or kernel-area leaf covers a frame that is not in use as data.
    Unowned {
        /// The leaf.
        leaf: Mapping,
        /// The first such frame below it.
        frame: Frame,
        /// Its kind; [`Kind::Absent`] where it is no RAM.
        kind: Kind,
    },
    /// I5: a leaf is writable and executable, be it for different privileges.
    WriteExecute {
        /// The leaf.
        leaf: Mapping,
    },
    /// I5: a frame is executable by one leaf and writable by another.
    WritableText {
        /// The frame, the first that both cover.
        frame: Frame,
        /// The leaf by which it is executable (of several to frames in a row, the first).
        text: Mapping,
        /// The leaf by which it is writable.
        leaf: Mapping,
    },
}

impl Violation {
    /// The invariant that is broken, or `tables`.
    pub const fn invariant(&self) -> &'static str {
        match self {
            Violation::Retired { .. } | Violation::Live { .. } | Violation::Unowned { .. } => "tables",
            Violation::WriteExecute { .. } | Violation::WritableText { .. } => "I5",
            _ => "I1",
        }
    }

    fn fmt_i1(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Violation::Unkeyed { frame, place, expected, leaf } => {
                write!(f, "frame {frame}, the {place}, should lie under key {expected}: {}", Lies(leaf))
            }
            Violation::UnkeyedPool { frame, kind, frames, leaf } => {
                write!(f, "{} under no table key: {}", Frames(frame, kind, frames), Lies(leaf))
            }
            Violation::StrayKey { leaf, frame, kind, frames } => {
                write!(f, "{} under a table key: {}", Frames(frame, kind, frames), Lies(Some(leaf)))
            }
            Violation::BadKey { leaf } => {
                let index = leaf.descriptor.index_key();
                write!(f, "{leaf} has {}, and the PIIndex of key {index}", Key(leaf))
            }
            Violation::Alias { leaf, frame, kind } => {
                write!(f, "frame {frame} ({kind:?}) is mapped outside the linear map: {}", Lies(Some(leaf)))
            }
            Violation::NotATable { frame, place, kind } => {
                write!(f, "frame {frame} ({kind:?}) is no table but stands as the {place}")
            }
            Violation::WrongLevel { frame, place, tag } => {
                write!(f, "frame {frame}, a table made for level {tag}, stands as the {place}")
            }
            Violation::Shared { frame, place } => write!(f, "frame {frame} stands elsewhere and as the {place}"),
            Violation::Unreached { frame, tag } => {
                write!(f, "no root leads to frame {frame}, a table made for level {tag}")
            }
            Violation::PoolCount { tables, found, frames, found_frames } => {
                write!(f, "the pool counts {tables} tables in {frames} frames, the metadata {found} in {found_frames}")
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.invariant())?;
        match *self {
            Violation::Retired { entry } => write!(f, "{entry} is neither valid nor empty"),
            Violation::Live { frame, place, counted, valid } => {
                write!(f, "frame {frame}, the {place}, has {valid} valid entries but counts {counted}")
            }
            Violation::Unowned { leaf, frame, kind } => {
                write!(f, "frame {frame} ({kind:?}) is no data but mapped by {leaf}")
            }
            Violation::WriteExecute { leaf } => write!(f, "{leaf} is writable and executable"),
            Violation::WritableText { frame, text, leaf } => {
                write!(f, "frame {frame} is executable by {text} and writable by {leaf}")
            }
            _ => self.fmt_i1(f),
        }
    }
}

/// Frames that have something in common, the first of them with its kind.
struct Frames(Frame, Kind, u64);

impl fmt::Display for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Frames(frame, kind, count) = self;
        match count {
            1 => write!(f, "frame {frame} ({kind:?}) lies"),
            _ => write!(f, "{count} frames from {frame} ({kind:?}) on lie"),
        }
    }
}

/// The leaf that frames lie under.
struct Lies(Option<Mapping>);

impl fmt::Display for Lies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("the linear map does not map it"),
            Some(leaf) => write!(f, "{leaf} has {}", Key(leaf)),
        }
    }
}

/// A leaf's key.
struct Key(Mapping);

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.descriptor.key() {
            Some(key) => write!(f, "key {key}"),
            None => f.write_str("a key that is not in use"),
        }
    }
}
