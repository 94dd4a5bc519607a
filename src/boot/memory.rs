//! From the device tree's RAM to the machine's [`Memory`]: the kernel's own root, frames, heap and table pool.

use super::entry::{self, BOOT_TABLES, FDT_WINDOW};
use super::image::{BLOCK, Part, Placement};
use crate::heap::FRAMES;
use crate::ram::{NoRoom, Ram};
use crate::stack;
use crate::tables;
use core::ops::Range;
use core::ptr;
use mm::addr::{Frame, FrameRange, PAGE_SIZE, PhysAddr, VirtAddr};
use mm::asid::Asids;
use mm::desc::{Attr, Format, Level};
use mm::frame::OutOfMemory;
use mm::kernel::{Builder, KernelRoot, Mapping, metadata_of};
use mm::linear::{self, LINEAR_BASE};
use mm::memory::Memory;
use mm::pool::TablePool;
use platform::arch::{Arch, Arm};
use platform::features::Features;
use platform::machine::{Gic, Machine, PhysRange};
use spin::Once;
use thiserror::Error;

/// Where devices are mapped: this, plus the physical address (docs/architecture.md).
const DEVICE_BASE: u64 = 0xffff_c000_0000_0000;
/// Free memory, in bytes, below which the kernel does not try.
const LEAST_FREE: u64 = 64 << 20;
const GIB: u64 = 1 << 30;
/// Most bytes, holes included, that the zone of tables reaches over for a sixteenth of RAM: with its end rounded up, what the
/// pool can number.
const MOST_ZONE: u64 = 126 * GIB;

static MEMORY: Once<Memory> = Once::new();

/// Why the machine's memory does not do.
#[derive(Clone, Copy, Debug, Error)]
pub(super) enum MemoryError {
    /// Less is free than the kernel needs, in bytes.
    #[error("too little memory: {free} bytes are free, the kernel needs {LEAST_FREE}; boot with more")]
    TooLittle {
        /// What is free.
        free: u64,
    },
    /// No bank holds the kernel's image.
    #[error("the device tree names no memory where the kernel lies, from {start:#x} to {end:#x}")]
    NoImage {
        /// The image's first physical address.
        start: u64,
        /// The first after it.
        end: u64,
    },
    /// No room for something that boot needs, in one piece.
    #[error("too little memory: {0}; boot with more")]
    NoRoom(#[from] NoRoom),
    /// No room for the first tables, or on the heap.
    #[error("too little memory: {0}; boot with more")]
    OutOfMemory(#[from] OutOfMemory),
}

/// The address at which the device whose registers begin at `physical` is mapped.
pub fn device_address(physical: u64) -> u64 {
    DEVICE_BASE + physical
}

/// The plan: what is where, before anything is mapped.
struct Plan {
    ram: Ram,
    /// First frame of the tables' zone, and the first after it.
    zone: Range<u64>,
    stacks: stack::Backing,
}

/// Builds the kernel's root and puts it into force; POR_EL1 is closed, and the tables lie under their key from here on.
pub(super) fn build_root(machine: &Machine<'_>, image: Placement, features: &Features) -> Result<Built, MemoryError> {
    let mut ram = Ram::new(&machine.banks, &machine.reserved, image.all());
    if !ram.holds(&image.all()) {
        let Range { start, end } = image.all();
        return Err(MemoryError::NoImage { start, end });
    }
    let zone = zone(&ram, image);
    let stacks = stack::Backing::take(&mut ram)?;
    let mut plan = Plan { ram, zone, stacks };
    let free = FrameRange::within(image.start(Part::Tables), BLOCK);
    let free = FrameRange::new(Frame::from_number(free.start().number() + BOOT_TABLES), free.count() - BOOT_TABLES)
        .expect("the tables' block lies in physical memory");
    zero(free);
    let format = if features.s1pie && features.tcr2 { Format::Indirect } else { Format::Direct };
    // SAFETY: these frames of the tables' block have just been zeroed; the boot tables, which are live, do without them
    // and map them writable at their linear addresses.
    let mut builder = unsafe { Builder::new(free, format) }?;
    map_image(&mut builder, image)?;
    map_linear(&mut builder, &plan)?;
    map_metadata(&mut builder, &mut plan)?;
    map_devices(&mut builder, machine)?;
    plan.stacks.map(&mut builder)?;
    let empty_root = builder.spare_table()?;
    let (root, used) = builder.finish();
    Ok(Built { plan, root, empty_root, tables_used: BOOT_TABLES + used, asid_bits: u32::from(features.asid_bits) })
}

/// A root that is complete, and what is needed to go on once it is live.
pub(super) struct Built {
    plan: Plan,
    root: KernelRoot,
    empty_root: Frame,
    tables_used: u64,
    asid_bits: u32,
}

impl Built {
    /// Makes the root the live one, and takes the boot tables out of use. Device addresses change to
    /// [`device_address`].
    ///
    /// # Safety
    /// The boot tables are live, and interrupts are masked.
    pub(super) unsafe fn enter(&self, image: Placement) {
        // SAFETY: the caller's promise; and the root maps every part of the image (the boot stack among it) at its link
        // address with the boot tables' attributes, and the builder has published both tables.
        unsafe { entry::replace_root(image, self.root.table().frame(), self.empty_root) };
        tables::set_root(self.root);
    }

    /// Takes frames, heap and table pool into service. Only once the root is live.
    pub(super) fn populate(self, image: Placement) -> Result<&'static Memory, MemoryError> {
        let Plan { ram, zone, .. } = self.plan;
        for bank in ram.banks() {
            clear_metadata(bank);
        }
        FRAMES.set_boundary(Frame::from_number(zone.end));
        for free in ram.free() {
            // SAFETY: (1) `Ram` leaves out what the device tree reserves, the image and what boot took, and yields each
            // frame once; (2) the metadata of every bank has been mapped and cleared, in whole 4 MiB blocks.
            unsafe { FRAMES.add_range(free) };
        }
        let free = FRAMES.stats().free() * PAGE_SIZE;
        if free < LEAST_FREE {
            return Err(MemoryError::TooLittle { free });
        }
        let pool = TablePool::new(Frame::from_number(zone.start), (zone.end - zone.start) * PAGE_SIZE / BLOCK)?;
        // SAFETY: boot tables and builder have used the first frames of the block; the others were zeroed for the builder.
        unsafe { pool.donate(Frame::containing(image.start(Part::Tables)), self.tables_used) };
        tables::note_levels(self.root);
        let asids = Asids::new(self.asid_bits)?;
        let memory = Memory { frames: &FRAMES, pool, asids, kernel: self.root, empty_root: self.empty_root };
        Ok(MEMORY.call_once(|| memory))
    }

    /// Where the boot CPU's guarded stacks are.
    pub(super) fn stacks(&self) -> stack::Stacks {
        self.plan.stacks.stacks()
    }
}

/// Frame numbers of the zone that tables come from: a sixteenth of RAM from the first bank on, and the image in any case.
/// It is mapped by 2 MiB blocks, so the end is a multiple of 1 GiB: all else can have larger ones.
fn zone(ram: &Ram, image: Placement) -> Range<u64> {
    let start = ram.start() / BLOCK * BLOCK;
    let wanted = ram.end_of_first(ram.total() / 16).clamp(start + 1, start + MOST_ZONE);
    let end = wanted.max(image.all().end).next_multiple_of(GIB);
    start / PAGE_SIZE..end / PAGE_SIZE
}

fn zero(frames: FrameRange) {
    for frame in frames {
        // SAFETY: the frames are the free ones of the tables' block, which the boot tables map writable at its linear
        // address, and to which nothing refers yet.
        unsafe { Arm::zero_page(linear::ptr(frame.start())) };
    }
}

/// A mapping of `range`, physical addresses, at `va`.
fn mapping(va: u64, range: Range<u64>, attr: Attr, largest: Level) -> Mapping {
    let va = VirtAddr::new(va).expect("boot maps canonical addresses");
    let pa = PhysAddr::new(range.start).expect("boot maps physical memory");
    Mapping { va, pa, bytes: range.end - range.start, attr, largest }
}

/// The attributes of `part` at its link address (`None`: not mapped there) and in the linear map. No part is writable
/// by one address and executable by the other.
const fn attributes(part: Part) -> (Option<Attr>, Attr) {
    match part {
        Part::Text => (Some(Attr::KernelText), Attr::KernelRodata),
        Part::Rodata => (Some(Attr::KernelRodata), Attr::KernelRodata),
        Part::Data => (Some(Attr::KernelData), Attr::KernelData),
        Part::Tables => (None, Attr::TableFrames(pkeys::Pkey::KernelTables)),
    }
}

fn map_image(builder: &mut Builder, image: Placement) -> Result<(), OutOfMemory> {
    for part in Part::ALL {
        let range = image.range(part);
        let (linked, linear) = attributes(part);
        if let Some(attr) = linked {
            builder.map::<Arm>(mapping(part.link_range().start, range.clone(), attr, Level::L2))?;
        }
        builder.map::<Arm>(mapping(LINEAR_BASE + range.start, range, linear, Level::L2))?;
    }
    Ok(())
}

/// Maps the RAM that [`map_image`] has left.
fn map_linear(builder: &mut Builder, plan: &Plan) -> Result<(), OutOfMemory> {
    let boundary = plan.zone.end * PAGE_SIZE;
    for bank in plan.ram.banks() {
        let range = bank.start().start().get()..bank.end_number() * PAGE_SIZE;
        let low = range.start..range.end.min(boundary);
        let high = range.start.max(boundary)..range.end;
        for (range, largest) in [(low, Level::L2), (high, Level::L1)] {
            if !range.is_empty() {
                builder.map::<Arm>(mapping(LINEAR_BASE + range.start, range, Attr::KernelData, largest))?;
            }
        }
    }
    Ok(())
}

fn map_metadata(builder: &mut Builder, plan: &mut Plan) -> Result<(), MemoryError> {
    let mut mapped = 0;
    for index in 0..plan.ram.banks().count() {
        let Some(bank) = plan.ram.banks().nth(index) else { break };
        // Two banks may share the metadata of one 4 MiB block.
        let metadata = metadata(bank);
        let start = metadata.start.max(mapped);
        mapped = metadata.end;
        if start == metadata.end {
            continue;
        }
        let bytes = metadata.end - start;
        let align = if bytes >= BLOCK { BLOCK } else { PAGE_SIZE };
        let backing = plan.ram.take(bytes, align)?;
        builder.map::<Arm>(mapping(start, backing, Attr::KernelData, Level::L2))?;
    }
    Ok(())
}

/// Virtual addresses of the metadata of `bank`.
fn metadata(bank: FrameRange) -> Range<u64> {
    let (va, bytes) = metadata_of(bank);
    va.get()..va.get() + bytes
}

fn clear_metadata(bank: FrameRange) {
    for page in metadata(bank).step_by(PAGE_SIZE as usize) {
        // SAFETY: `map_metadata` has mapped these pages to memory that is nothing else's, and nobody has used them yet.
        unsafe { Arm::zero_page(ptr::with_exposed_provenance_mut(page as usize)) };
    }
}

fn map_devices(builder: &mut Builder, machine: &Machine<'_>) -> Result<(), OutOfMemory> {
    let gic = match machine.gic {
        Gic::V2 { distributor, cpu } => [distributor, cpu],
        Gic::V3 { distributor, redistributors } => [distributor, redistributors],
    };
    for device in [machine.uart].into_iter().chain(gic) {
        let pages = pages(device);
        builder.map::<Arm>(mapping(device_address(pages.start), pages, Attr::Device, Level::L2))?;
    }
    let fdt = pages(machine.fdt);
    builder.map::<Arm>(mapping(FDT_WINDOW + fdt.start % BLOCK, fdt, Attr::KernelRodata, Level::L3))
}

/// The pages that `range` touches.
fn pages(range: PhysRange) -> Range<u64> {
    range.start() / PAGE_SIZE * PAGE_SIZE..range.end().next_multiple_of(PAGE_SIZE)
}
