//! What several test kernels share.

use core::ptr;
use mm::addr::{Page, PageRange, PhysAddr, VirtAddr};
use mm::desc::{Decoded, Descriptor, Level};
use mm::linear::{self, LINEAR_BASE};
use mm::memory::Memory;
use mm::table::{Table, leaves_of, walk};
use pkeys::{Batched, Pkey, PorGate};
use platform::arch::{Arm, Counted, Events};

/// How the kernel itself writes tables.
pub type Protected = Batched<PorGate<Arm>>;
/// The same, with its events counted.
pub type Counting = Batched<PorGate<Counted<Arm>>>;

/// `count` pages from the one that begins at `address`.
///
/// # Panics
/// Where that is no page range.
pub fn pages(address: u64, count: u64) -> PageRange {
    let start = VirtAddr::new(address).and_then(Page::from_start).expect("a page's address");
    PageRange::new(start, count).expect("pages of one half")
}

/// `address` as an address.
///
/// # Panics
/// Where it is not canonical.
pub fn virt(address: u64) -> VirtAddr {
    VirtAddr::new(address).expect("a canonical address")
}

/// Runs `work`; what it counted by [`Counted`], beside its result.
pub fn events<R>(work: impl FnOnce() -> R) -> (R, Events) {
    let before = Events::now();
    let result = work();
    (result, Events::now().since(before))
}

/// The leaf for `va` below `root`, its level, and the physical address that it gives `va`; `None` where `va` is not mapped.
pub fn translate<C: 'static>(root: Table<C>, va: VirtAddr) -> Option<(Descriptor, Level, PhysAddr)> {
    let found = walk(root, va);
    let Decoded::Leaf(first) = found.descriptor.decode(found.level) else { return None };
    let pa = first.start().checked_add(va.get() & (found.level.span() - 1))?;
    Some((found.descriptor, found.level, pa))
}

/// The word at physical address `pa`, by way of the linear map.
pub fn read_physical(pa: PhysAddr) -> u64 {
    // SAFETY: the linear map holds all RAM, readable, and the callers pass addresses in frames of RAM, aligned to a word.
    unsafe { linear::ptr(pa).cast::<u64>().read_volatile() }
}

/// Reads the word at `va`, which is mapped for the kernel to read.
pub fn read(va: VirtAddr) -> u64 {
    // SAFETY: the callers pass aligned addresses inside areas that are mapped and theirs.
    unsafe { ptr::read_volatile(va.as_mut_ptr::<u64>()) }
}

/// Writes the word at `va`, which is mapped for the kernel to write, in memory that is the caller's.
pub fn write(va: VirtAddr, value: u64) {
    // SAFETY: the callers pass aligned addresses inside areas that are mapped and theirs.
    unsafe { ptr::write_volatile(va.as_mut_ptr::<u64>(), value) }
}

/// Frames that are free, or in the table pool's blocks: all that an operation may take and has to give back in the end. What
/// the kernel heap has taken it keeps.
pub fn accounted(memory: &Memory) -> u64 {
    let blocks = |key| u64::from(memory.pool.usage(key).blocks);
    memory.frames.stats().free() + (blocks(Pkey::UserTables) + blocks(Pkey::KernelTables)) * mm::pool::BLOCK_FRAMES
}

/// A number that changes with any leaf of the kernel's root: FNV-1a over addresses and descriptors.
pub fn fingerprint(memory: &Memory) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut mix = |word: u64| hash = (hash ^ word).wrapping_mul(0x100_0000_01b3);
    leaves_of(memory.kernel.table(), virt(LINEAR_BASE), &mut |va, _, leaf| {
        mix(va.get());
        mix(leaf.bits());
    });
    hash
}

/// Marsaglia's xorshift64: the same sequence in every run.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(2) | 1)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        (self.draw() >> 16) % limit
    }
}
