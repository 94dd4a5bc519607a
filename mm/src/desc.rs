//! Descriptors: the one place where a translation table's bits stand (Arm ARM DDI 0487, D8.3; VMSAv8-64, 4 KiB granule).

use crate::addr::{Frame, PAGE_SHIFT, VirtAddr};
use core::fmt;
use pkeys::Pkey;
use pkeys::pi::{PiIndex, gated_index};

/// Entries in a table.
pub const ENTRIES: usize = 512;
/// Entries of a contiguous run at the last level: 64 KiB (Arm ARM D8.6.1).
pub const CONTIGUOUS_PAGES: u64 = 16;

/// A level of the walk. The root is level 0, pages are at level 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// The root: an entry spans 512 GiB and is never a block.
    L0 = 0,
    /// An entry spans 1 GiB.
    L1 = 1,
    /// An entry spans 2 MiB.
    L2 = 2,
    /// An entry is a page.
    L3 = 3,
}

impl Level {
    /// Every level, from the root down.
    pub const ALL: [Level; 4] = [Level::L0, Level::L1, Level::L2, Level::L3];

    /// The level below; `None` below pages.
    #[inline(always)]
    pub const fn below(self) -> Option<Level> {
        match self {
            Level::L0 => Some(Level::L1),
            Level::L1 => Some(Level::L2),
            Level::L2 => Some(Level::L3),
            Level::L3 => None,
        }
    }

    /// Base-2 logarithm of the bytes that one entry spans.
    #[inline(always)]
    pub const fn shift(self) -> u32 {
        PAGE_SHIFT + 9 * (3 - self as u32)
    }

    /// Bytes that one entry spans.
    #[inline(always)]
    pub const fn span(self) -> u64 {
        1 << self.shift()
    }

    /// Pages that one entry spans.
    pub const fn pages(self) -> u64 {
        1 << (self.shift() - PAGE_SHIFT)
    }

    /// The index of `va`'s entry in its table at this level, 0 to 511.
    #[inline(always)]
    pub const fn index(self, va: VirtAddr) -> usize {
        (va.get() >> self.shift()) as usize % ENTRIES
    }

    /// The level whose number is `number`.
    pub const fn from_number(number: u8) -> Option<Level> {
        match number {
            0 => Some(Level::L0),
            1 => Some(Level::L1),
            2 => Some(Level::L2),
            3 => Some(Level::L3),
            _ => None,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "level {}", *self as u8)
    }
}

/// How the CPU reads permissions out of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// UXN, PXN and AP as they stand (TCR2_EL1.PIE = 0).
    Direct,
    /// Through PIR_EL1 and PIRE0_EL1 (TCR2_EL1.PIE = 1).
    Indirect,
}

/// What a leaf is for: a whole set of permissions and attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attr {
    /// EL1 reads and executes.
    KernelText,
    /// EL1 reads.
    KernelRodata,
    /// EL1 reads and writes.
    KernelData,
    /// EL1 reads and writes Device-nGnRE memory.
    Device,
    /// EL1 reads; writes only in the context of the key (a gated one): frames that hold tables.
    TableFrames(Pkey),
    /// EL0 reads and executes.
    UserText,
    /// EL0 reads.
    UserRodata,
    /// EL0 reads and writes.
    UserData,
}

const VALID: u64 = 1 << 0;
const TABLE_OR_PAGE: u64 = 1 << 1;
const ATTR_DEVICE: u64 = 1 << 2;
const READ_ONLY: u64 = 1 << 7; // AP[2]; nDirty under indirect permissions
const INNER_SHAREABLE: u64 = 0b11 << 8;
const ACCESSED: u64 = 1 << 10;
const NOT_GLOBAL: u64 = 1 << 11;
/// Set in the PIIndex of writable user pages, clear in that of read-only ones, and these differ in nothing else; DBM under direct
/// permissions, where it means nothing without hardware dirty management.
const USER_WRITE_INDEX: u64 = 1 << 51;
const CONTIGUOUS: u64 = 1 << 52;
const ADDRESS: u64 = 0x0000_ffff_ffff_f000;
const POINDEX_SHIFT: u32 = 60;

/// Where PIIndex bits 3 to 0 stand: 54, 53, 51, 6.
const fn place_index(index: PiIndex) -> u64 {
    let i = index as u64;
    (i >> 3 & 1) << 54 | (i >> 2 & 1) << 53 | (i >> 1 & 1) << 51 | (i & 1) << 6
}

const fn read_index(bits: u64) -> u64 {
    (bits >> 54 & 1) << 3 | (bits >> 53 & 1) << 2 | (bits >> 51 & 1) << 1 | bits >> 6 & 1
}

const _: () = assert!(place_index(PiIndex::UserData) == place_index(PiIndex::UserRodata) | USER_WRITE_INDEX);

/// A user leaf's bits with its writes trapped (copy-on-write): AP\[2\] for direct permissions, the read-only PIIndex for indirect
/// ones. By the Arm ARM nDirty, in AP\[2\]'s place, would do there by itself. But QEMU (10.2 and 11.1) asks for it only when a store
/// walks the tables: a load before leaves a TLB entry that lets the store through.
const fn write_protected(bits: u64) -> u64 {
    bits & !USER_WRITE_INDEX | READ_ONLY
}

impl Attr {
    /// The bits of a leaf with these attributes: all but the address and what the level adds.
    pub const fn leaf_bits(self, format: Format) -> LeafBits {
        let (index, extra) = match self {
            Attr::KernelText => (PiIndex::KernelText, READ_ONLY),
            Attr::KernelRodata => (PiIndex::KernelRodata, READ_ONLY),
            Attr::KernelData => (PiIndex::KernelData, 0),
            Attr::Device => (PiIndex::KernelData, ATTR_DEVICE),
            Attr::TableFrames(key) => {
                let index = match format {
                    Format::Indirect => gated_index(key),
                    Format::Direct => PiIndex::KernelData,
                };
                (index, (key.index() as u64) << POINDEX_SHIFT)
            }
            Attr::UserText => (PiIndex::UserText, READ_ONLY | NOT_GLOBAL),
            Attr::UserRodata => (PiIndex::UserRodata, READ_ONLY | NOT_GLOBAL),
            Attr::UserData => (PiIndex::UserData, NOT_GLOBAL),
        };
        LeafBits(VALID | ACCESSED | INNER_SHAREABLE | place_index(index) | extra)
    }
}

/// [`Attr`] as descriptor bits, so that loops convert once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafBits(u64);

impl LeafBits {
    /// The same user page with its writes trapped, as a read-only one: copy-on-write.
    pub const fn write_protected(self) -> LeafBits {
        LeafBits(write_protected(self.0))
    }

    /// The same, marked as part of a contiguous run.
    pub const fn contiguous(self) -> LeafBits {
        LeafBits(self.0 | CONTIGUOUS)
    }
}

/// One entry's value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Descriptor(u64);

/// What an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// Nothing, neither to the CPU nor to us.
    Absent,
    /// Invalid to the CPU, but still naming the page that it mapped until its TLB entries are gone.
    Retired,
    /// A table of the next level.
    Table(Frame),
    /// A block or page that begins at this frame.
    Leaf(Frame),
}

impl Descriptor {
    /// The empty entry.
    pub const ABSENT: Descriptor = Descriptor(0);

    /// An entry that leads to the table in `frame`.
    #[inline(always)]
    pub const fn table(frame: Frame) -> Descriptor {
        Descriptor(frame.start().get() | VALID | TABLE_OR_PAGE)
    }

    /// A page at level 3.
    #[inline(always)]
    pub const fn page(frame: Frame, bits: LeafBits) -> Descriptor {
        Descriptor(frame.start().get() | bits.0 | TABLE_OR_PAGE)
    }

    /// A block at level 1 or 2, whose first frame is aligned to it, or a page at level 3.
    #[inline(always)]
    pub const fn leaf(frame: Frame, bits: LeafBits, level: Level) -> Descriptor {
        match level {
            Level::L3 => Descriptor::page(frame, bits),
            _ => Descriptor(frame.start().get() | bits.0),
        }
    }

    /// The value as the walker reads it.
    #[inline(always)]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// A value as read from memory.
    #[inline(always)]
    pub const fn from_bits(bits: u64) -> Descriptor {
        Descriptor(bits)
    }

    /// What the entry says at `level`.
    pub const fn decode(self, level: Level) -> Decoded {
        let table_bit = self.0 & TABLE_OR_PAGE != 0;
        match (self.0 & VALID != 0, level, table_bit) {
            (false, ..) if self.0 == 0 => Decoded::Absent,
            (false, ..) => Decoded::Retired,
            (true, Level::L3, true) | (true, Level::L1 | Level::L2, false) => Decoded::Leaf(self.frame()),
            (true, Level::L3, false) | (true, Level::L0, false) => Decoded::Retired,
            (true, _, true) => Decoded::Table(self.frame()),
        }
    }

    /// Whether the CPU uses the entry.
    #[inline(always)]
    pub const fn is_valid(self) -> bool {
        self.0 & VALID != 0
    }

    /// Whether there is anything in the entry, valid or retired.
    #[inline(always)]
    pub const fn is_absent(self) -> bool {
        self.0 == 0
    }

    /// The frame that the entry names (of a table, or a leaf's first).
    #[inline(always)]
    pub const fn frame(self) -> Frame {
        Frame::from_number((self.0 & ADDRESS) >> PAGE_SHIFT)
    }

    /// The same leaf, invalid to the CPU.
    #[inline(always)]
    pub const fn retired(self) -> Descriptor {
        Descriptor(self.0 & !VALID)
    }

    /// The same user page with its writes trapped: all that a read-only one has.
    #[inline(always)]
    pub const fn write_protected(self) -> Descriptor {
        Descriptor(write_protected(self.0))
    }

    /// The same page of user data with writes let through.
    #[inline(always)]
    pub const fn write_enabled(self) -> Descriptor {
        Descriptor(self.0 & !READ_ONLY | USER_WRITE_INDEX)
    }

    /// Whether two leaves differ in nothing but the frame.
    pub const fn same_attributes(self, other: Descriptor) -> bool {
        (self.0 ^ other.0) & !ADDRESS == 0
    }

    /// Whether AP\[2\]/nDirty traps writes.
    #[inline(always)]
    pub const fn is_write_protected(self) -> bool {
        self.0 & READ_ONLY != 0
    }

    /// The same leaf with other attributes.
    pub const fn with_bits(self, bits: LeafBits) -> Descriptor {
        Descriptor(self.0 & (ADDRESS | TABLE_OR_PAGE) | bits.0)
    }

    /// A leaf's key (POIndex); `None` where it is one that Palisade does not use.
    pub const fn key(self) -> Option<Pkey> {
        Pkey::from_index((self.0 >> POINDEX_SHIFT) as u8 & 7)
    }

    /// The key that a leaf's PIIndex belongs to: that of the gated frames which have this index to themselves, else the default
    /// one. With indirect permissions it is [`Descriptor::key`] in every leaf of ours.
    pub fn index_key(self) -> Pkey {
        let index = read_index(self.0);
        Pkey::GATED.into_iter().find(|key| gated_index(*key) as u64 == index).unwrap_or(Pkey::Default)
    }

    /// Whether the leaf is marked as part of a contiguous run.
    pub const fn is_contiguous(self) -> bool {
        self.0 & CONTIGUOUS != 0
    }

    /// What EL1 and EL0 may do through the leaf by its base permissions, before any overlay.
    pub const fn access(self, format: Format) -> Access {
        match format {
            Format::Indirect => {
                let shift = read_index(self.0) * 4;
                let el1 = pkeys::pi::PIR_EL1 >> shift & 7;
                let el0 = pkeys::pi::PIRE0_EL1 >> shift & 7;
                let dirty = self.0 & READ_ONLY == 0;
                Access {
                    el1_write: el1 & 4 != 0 && dirty,
                    el1_execute: el1 & 2 != 0,
                    el0_read: el0 & 1 != 0,
                    el0_write: el0 & 4 != 0 && dirty,
                    el0_execute: el0 & 2 != 0,
                }
            }
            Format::Direct => {
                let user = self.0 & 1 << 6 != 0;
                let writable = self.0 & READ_ONLY == 0;
                Access {
                    el1_write: writable,
                    el1_execute: self.0 & 1 << 53 == 0,
                    el0_read: user,
                    el0_write: user && writable,
                    el0_execute: self.0 & 1 << 54 == 0,
                }
            }
        }
    }
}

impl fmt::Debug for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Descriptor({:#x})", self.0)
    }
}

/// Base permissions of a leaf. EL1 can read every leaf of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// EL1 may write.
    pub el1_write: bool,
    /// EL1 may fetch instructions.
    pub el1_execute: bool,
    /// EL0 may read.
    pub el0_read: bool,
    /// EL0 may write.
    pub el0_write: bool,
    /// EL0 may fetch instructions.
    pub el0_execute: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::PhysAddr;

    fn frame() -> Frame {
        Frame::containing(PhysAddr::new(0x1234_5600_0000).unwrap())
    }

    #[test]
    fn known_bit_patterns() {
        // Linux's PAGE_KERNEL: AF, inner shareable, UXN, PXN, DBM.
        let data = Descriptor::page(frame(), Attr::KernelData.leaf_bits(Format::Indirect));
        assert_eq!(data.bits(), 0x0068_1234_5600_0703);
        assert_eq!(data, Descriptor::page(frame(), Attr::KernelData.leaf_bits(Format::Direct)));
        let text = Descriptor::leaf(frame(), Attr::KernelText.leaf_bits(Format::Direct), Level::L2);
        assert_eq!(text.bits(), 0x0040_1234_5600_0781);
        let user = Descriptor::page(frame(), Attr::UserData.leaf_bits(Format::Direct));
        assert_eq!(user.bits(), 0x0068_1234_5600_0f43);
    }

    #[test]
    fn gated_frames_carry_key_and_an_index_of_their_own() {
        for (key, index) in [(Pkey::UserTables, 0xa), (Pkey::KernelTables, 9)] {
            let leaf = Descriptor::leaf(frame(), Attr::TableFrames(key).leaf_bits(Format::Indirect), Level::L2);
            assert_eq!(leaf.key(), Some(key));
            assert_eq!(read_index(leaf.bits()), index);
            let access = leaf.access(Format::Indirect);
            assert!(access.el1_write && !access.el1_execute && !access.el0_read && !access.el0_execute);
            let direct = Descriptor::leaf(frame(), Attr::TableFrames(key).leaf_bits(Format::Direct), Level::L2);
            assert_eq!(direct.key(), Some(key));
            let access = direct.access(Format::Direct);
            assert!(access.el1_write && !access.el1_execute && !access.el0_read && !access.el0_execute);
        }
    }

    #[test]
    fn no_attribute_is_writable_and_executable() {
        use Attr::*;
        let all = [
            KernelText,
            KernelRodata,
            KernelData,
            Device,
            TableFrames(Pkey::UserTables),
            TableFrames(Pkey::KernelTables),
            UserText,
            UserRodata,
            UserData,
        ];
        for format in [Format::Direct, Format::Indirect] {
            for attr in all {
                let a = Descriptor::page(frame(), attr.leaf_bits(format)).access(format);
                let writable = a.el1_write || a.el0_write;
                let executable = a.el1_execute || a.el0_execute;
                assert!(!(writable && executable), "{attr:?} {format:?}");
                let protected = Descriptor::page(frame(), attr.leaf_bits(format).write_protected()).access(format);
                assert!(!protected.el1_write && !protected.el0_write, "{attr:?} {format:?}");
            }
        }
    }

    #[test]
    fn write_protected_user_data_is_read_only_data() {
        for format in [Format::Direct, Format::Indirect] {
            let [data, rodata, text] = [Attr::UserData, Attr::UserRodata, Attr::UserText]
                .map(|attr| Descriptor::page(frame(), attr.leaf_bits(format)));
            // By its index and not by nDirty alone, which QEMU does not look at in a TLB entry.
            assert_eq!(data.write_protected(), rodata);
            assert_eq!(rodata.write_enabled(), data);
            assert_eq!((rodata.write_protected(), text.write_protected()), (rodata, text));
        }
    }

    #[test]
    fn decoding() {
        let bits = Attr::KernelData.leaf_bits(Format::Direct);
        assert_eq!(Descriptor::ABSENT.decode(Level::L3), Decoded::Absent);
        assert_eq!(Descriptor::page(frame(), bits).decode(Level::L3), Decoded::Leaf(frame()));
        assert_eq!(Descriptor::leaf(frame(), bits, Level::L1).decode(Level::L1), Decoded::Leaf(frame()));
        assert_eq!(Descriptor::table(frame()).decode(Level::L0), Decoded::Table(frame()));
        let retired = Descriptor::page(frame(), bits).retired();
        assert_eq!(retired.decode(Level::L3), Decoded::Retired);
        assert_eq!(retired.frame(), frame());
        // Reserved encodings: a block at level 0, bits 1:0 = 01 at level 3. The CPU takes both as invalid.
        assert_eq!(Descriptor::from_bits(0x1001).decode(Level::L0), Decoded::Retired);
        assert_eq!(Descriptor::from_bits(0x1001).decode(Level::L3), Decoded::Retired);
    }

    #[test]
    fn level_arithmetic() {
        let va = VirtAddr::new(0xffff_8000_4020_3000).unwrap();
        let indices = Level::ALL.map(|level| level.index(va));
        assert_eq!(indices, [256, 1, 1, 3]);
        assert_eq!(Level::L1.span(), 1 << 30);
        assert_eq!(Level::L2.pages(), 512);
    }
}
