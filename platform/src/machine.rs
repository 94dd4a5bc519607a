//! The machine that the flattened device tree describes, read without a heap and without trust in the blob.

mod blob;
mod range;
mod tree;

pub use blob::{BlobError, blob_at, blob_size};
pub use range::{Full, PhysRange, Ranges};

use arrayvec::ArrayVec;
use core::fmt;
use thiserror::Error;

use crate::arch::MAX_CPUS;

/// The largest number of separate RAM banks.
pub const MAX_BANKS: usize = 16;
/// The largest number of separate reserved ranges.
pub const MAX_RESERVED: usize = 32;

/// How PSCI is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conduit {
    /// HVC: the hypervisor answers (QEMU virt without EL2 or EL3).
    Hvc,
    /// SMC: the firmware answers (QEMU virt with `virtualization=on`).
    Smc,
}

/// The interrupt controller's registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gic {
    /// GICv2.
    V2 {
        /// The distributor.
        distributor: PhysRange,
        /// The CPU interface.
        cpu: PhysRange,
    },
    /// GICv3 or GICv4.
    V3 {
        /// The distributor.
        distributor: PhysRange,
        /// The first region of redistributors.
        redistributors: PhysRange,
    },
}

/// What the device tree says of the machine. Ranges are physical.
#[derive(Clone, Debug)]
pub struct Machine<'a> {
    /// RAM: sorted, overlapping and adjacent banks merged, without what must not be mapped (`no-map`).
    pub banks: Ranges<MAX_BANKS>,
    /// What may not be used as free memory: the memory reservation block, /reserved-memory, the initrd and the device
    /// tree itself. Sorted and merged; parts may lie outside of RAM.
    pub reserved: Ranges<MAX_RESERVED>,
    /// The initial RAM disk, if the boot loader left one.
    pub initrd: Option<PhysRange>,
    /// The device tree itself.
    pub fdt: PhysRange,
    /// The console's PL011 registers.
    pub uart: PhysRange,
    /// The interrupt controller.
    pub gic: Gic,
    /// INTID of the virtual timer's interrupt (27 on QEMU virt).
    pub timer_intid: u32,
    /// How PSCI is called; `None` where the machine has no PSCI.
    pub psci: Option<Conduit>,
    /// Affinity (MPIDR_EL1 without its flag bits) of each CPU; of the first [`MAX_CPUS`] where there are more.
    pub cpus: ArrayVec<u64, MAX_CPUS>,
    /// The kernel's command line; empty where there is none.
    pub bootargs: &'a str,
}

/// A thing that a [`MachineError`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// RAM banks.
    Memory,
    /// Ranges that are not free.
    Reserved,
    /// The initial RAM disk.
    Initrd,
    /// The device tree's own place.
    Fdt,
    /// The PL011.
    Uart,
    /// The interrupt controller.
    Gic,
    /// The generic timer.
    Timer,
    /// PSCI.
    Psci,
    /// The CPUs.
    Cpus,
    /// The command line.
    Bootargs,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::Memory => "memory",
            Part::Reserved => "reserved memory",
            Part::Initrd => "the initrd",
            Part::Fdt => "the device tree itself",
            Part::Uart => "a PL011 UART",
            Part::Gic => "a GICv2 or GICv3",
            Part::Timer => "the generic timer",
            Part::Psci => "PSCI",
            Part::Cpus => "CPUs",
            Part::Bootargs => "bootargs",
        })
    }
}

/// Why a device tree does not make a [`Machine`].
#[derive(Clone, Copy, Debug, Error)]
pub enum MachineError {
    /// The blob's form is broken.
    #[error("{0}")]
    Blob(#[from] BlobError),
    /// The `fdt` crate found something that the check of the form does not cover.
    #[error("device tree: {0}")]
    Tree(fdt::FdtError),
    /// The machine lacks something that the kernel needs.
    #[error("the device tree does not name {0}")]
    Missing(Part),
    /// A property is absent, or its value has the wrong length, is no text or makes no sense.
    #[error("device tree: bad or missing `{property}` ({len} bytes) for {part}")]
    BadProperty {
        /// What it is about.
        part: Part,
        /// The property's name.
        property: &'static str,
        /// Length of its value in bytes, 0 if it is absent.
        len: usize,
    },
    /// Address or size cells that we cannot read: more than two.
    #[error("device tree: {cells} address or size cells for {part}, at most 2 are supported")]
    BadCells {
        /// What it is about.
        part: Part,
        /// The number stated.
        cells: u32,
    },
    /// A range that wraps around the end of the address space, or is empty where that makes no sense.
    #[error("device tree: bad range for {part}: {size:#x} bytes at {start:#x}")]
    BadRange {
        /// What it is about.
        part: Part,
        /// Its start.
        start: u64,
        /// Its size in bytes.
        size: u64,
    },
    /// More of something than there is room for.
    #[error("device tree: more than {limit} for {part}")]
    TooMany {
        /// What it is about.
        part: Part,
        /// How many there may be.
        limit: usize,
    },
}

impl From<fdt::FdtError> for MachineError {
    fn from(error: fdt::FdtError) -> Self {
        MachineError::Tree(error)
    }
}

impl<'a> Machine<'a> {
    /// Reads the device tree `blob`, which lies at physical address `address`.
    ///
    /// # Errors
    /// Whatever is wrong or missing first; see [`MachineError`].
    pub fn parse(blob: &'a [u8], address: u64) -> Result<Self, MachineError> {
        tree::parse(blob, address)
    }

    /// The console's PL011 registers in a device tree that [`Machine::parse`] refuses, so that it can be said why.
    ///
    /// # Errors
    /// Where the blob is broken as a whole, or names no usable PL011.
    pub fn console(blob: &[u8]) -> Result<PhysRange, MachineError> {
        tree::console(blob)
    }
}
