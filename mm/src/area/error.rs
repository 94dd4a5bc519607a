//! What can go wrong with an area.

use crate::addr::{Frame, VirtAddr};
use crate::frame::{Kind, OutOfMemory};
use core::fmt;

/// Why an area was not made, or not freed. Nothing has changed where one of these comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AreaError {
    /// An area of no pages was asked for.
    Empty,
    /// More pages than the largest slot holds beside its guard page.
    TooLarge {
        /// Pages asked for.
        pages: u64,
    },
    /// An alignment that is no power of two, or larger than the largest slot.
    BadAlign {
        /// Bytes asked for.
        align: u64,
    },
    /// No frame, table or record was to be had, not even after a purge.
    NoMemory(OutOfMemory),
    /// All address space for areas of this size is in use.
    NoSlot {
        /// Pages of the slots that are used up.
        slot_pages: u64,
    },
    /// A frame that areas may not map: only data has aliases, never a table, the image or what is free.
    NotMappable {
        /// The frame.
        frame: Frame,
        /// What it is in use for.
        kind: Kind,
    },
    /// No area begins at this address: it never did, or was purged since it was freed.
    NoArea {
        /// The address given.
        addr: VirtAddr,
    },
    /// The area was freed before.
    AlreadyFreed {
        /// The address given.
        addr: VirtAddr,
    },
    /// `vfree` of an area that `vm_map_ram` made, or the other way about.
    WrongKind {
        /// The address given.
        addr: VirtAddr,
    },
    /// `vm_unmap_ram` with another number of pages than were mapped.
    WrongSize {
        /// The address given.
        addr: VirtAddr,
        /// Pages of the area there.
        pages: u64,
        /// Pages given.
        given: u64,
    },
}

impl AreaError {
    /// Whether a purge may help.
    pub(super) fn is_shortage(&self) -> bool {
        matches!(self, AreaError::NoMemory(_) | AreaError::NoSlot { .. })
    }
}

impl From<OutOfMemory> for AreaError {
    fn from(error: OutOfMemory) -> Self {
        AreaError::NoMemory(error)
    }
}

impl fmt::Display for AreaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AreaError::Empty => write!(f, "an area of no pages"),
            AreaError::TooLarge { pages } => write!(f, "no area can have {pages} pages"),
            AreaError::BadAlign { align } => write!(f, "no area can be aligned to {align:#x} bytes"),
            AreaError::NoMemory(error) => write!(f, "kernel area: {error}"),
            AreaError::NoSlot { slot_pages } => write!(f, "all slots of {slot_pages} pages are in use"),
            AreaError::NotMappable { frame, kind } => write!(f, "frame {frame} ({kind:?}) may not be mapped again"),
            AreaError::NoArea { addr } => write!(f, "no kernel area begins at {addr}"),
            AreaError::AlreadyFreed { addr } => write!(f, "the kernel area at {addr} is freed already"),
            AreaError::WrongKind { addr } => write!(f, "the kernel area at {addr} is freed as the wrong kind"),
            AreaError::WrongSize { addr, pages, given } => {
                write!(f, "the kernel area at {addr} has {pages} pages, not {given}")
            }
        }
    }
}

impl core::error::Error for AreaError {}
