//! The interrupt controller: GICv2 or GICv3/4, over the `arm-gic` crate.
//!
//! Only what the kernel needs: set up, enable an interrupt, acknowledge, end. All interrupts are Group 1 Non-secure
//! (v3) or in the one group that Non-secure software sees (v2), at one priority, level triggered.

use core::ptr::NonNull;

use arm_gic::gicv2::{self, GicV2};
use arm_gic::gicv3::registers::{Gicd, GicrSgi};
use arm_gic::gicv3::{self, GicCpuInterface, GicV3};
use arm_gic::{IntId, InterruptGroup, UniqueMmioPointer};
use thiserror::Error;

/// Bytes of one redistributor: its RD and SGI frames, 64 KiB each; GICv4 has two more.
const REDISTRIBUTOR_SIZE: usize = 0x2_0000;
/// MPIDR_EL1's affinity fields, Aff3 [39:32] and Aff2..Aff0 [23:0].
const MPIDR_AFFINITY: u64 = 0xff_00ff_ffff;
/// Priority mask that lets every priority through.
const ALL_PRIORITIES: u8 = 0xff;
/// The interrupt number in a GICC_IAR value; above it GICv2 puts the sender of an SGI.
const IAR_INTID: u32 = 0x3ff;

/// Virtual addresses of the controller's registers, as the kernel mapped them.
#[derive(Clone, Copy, Debug)]
pub enum Registers {
    /// GICv2.
    V2 {
        /// The distributor.
        distributor: NonNull<u8>,
        /// The CPU interface.
        cpu: NonNull<u8>,
    },
    /// GICv3 or GICv4.
    V3 {
        /// The distributor.
        distributor: NonNull<u8>,
        /// The first redistributor.
        redistributors: NonNull<u8>,
        /// Length of the redistributors' mapping in bytes.
        redistributors_size: usize,
    },
}

/// Why the controller could not be set up or used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum GicError {
    /// The redistributors' region is too short for the CPUs.
    #[error("GIC redistributors: {size:#x} bytes do not hold {cpus} CPUs")]
    RegionTooShort {
        /// The region's length in bytes.
        size: usize,
        /// The number of CPUs.
        cpus: usize,
    },
    /// No redistributor belongs to the CPU.
    #[error("GIC: no redistributor for the CPU with MPIDR {0:#x}")]
    NoRedistributor(u64),
    /// No such interrupt.
    #[error("GIC: {0} is no interrupt number")]
    BadInterrupt(u32),
    /// The GICv3 refuses.
    #[error("GICv3: {0}")]
    V3(#[from] gicv3::GicError),
    /// The GICv2 refuses.
    #[error("GICv2: {0}")]
    V2(#[from] gicv2::Error),
}

/// An interrupt that was acknowledged and has to be ended with [`Gic::end`] on the same CPU.
#[derive(Debug)]
#[must_use]
pub struct Active(IntId);

impl Active {
    /// Its number (INTID).
    pub fn intid(&self) -> u32 {
        u32::from(self.0) & if self.0.is_private() || self.0.is_spi() { u32::MAX } else { IAR_INTID }
    }
}

/// The controller. The kernel keeps it behind a lock, with interrupts masked while it is held.
#[derive(Debug)]
pub struct Gic(Version);

#[derive(Debug)]
enum Version {
    V2(GicV2<'static>),
    V3 { gic: GicV3<'static>, cpus: usize },
}

// SAFETY: the pointers inside lead to device registers, mapped alike on every CPU; every access to the distributor and
// the redistributors goes through `&mut self`.
unsafe impl Send for Gic {}

impl Gic {
    /// Sets up the distributor and the running CPU's interface; every interrupt is left disabled. `cpus` is the number
    /// of CPUs in the machine, `mpidr` the running one's MPIDR_EL1.
    ///
    /// # Errors
    /// [`GicError::RegionTooShort`], [`GicError::NoRedistributor`], or what the driver says of the hardware.
    ///
    /// # Safety
    /// For as long as the value lives, (1) `registers` are the virtual addresses of such a controller's registers,
    /// mapped as Device memory: 4 KiB of a GICv2 distributor and 8 KiB of its CPU interface, or 64 KiB of a GICv3
    /// distributor and `redistributors_size` bytes of its redistributors; and (2) nothing else accesses them. Called at
    /// EL1, with ICC_SRE_EL1 usable on a GICv3 (ICC_SRE_EL2.Enable, where EL2 exists).
    pub unsafe fn new(registers: Registers, cpus: usize, mpidr: u64) -> Result<Self, GicError> {
        match registers {
            Registers::V2 { distributor, cpu } => {
                // SAFETY: (1) and (2) of the caller's promise are what `GicV2::new` asks.
                let mut gic = unsafe { GicV2::new(distributor.as_ptr().cast(), cpu.as_ptr().cast()) };
                gic.setup();
                gic.enable_all_interrupts(false);
                Ok(Gic(Version::V2(gic)))
            }
            Registers::V3 { distributor, redistributors, redistributors_size: size } => {
                if size / REDISTRIBUTOR_SIZE < cpus {
                    return Err(GicError::RegionTooShort { size, cpus });
                }
                // SAFETY: by (1) these are a distributor's registers, by (2) no other reference to them exists.
                let gicd = unsafe { UniqueMmioPointer::new(distributor.cast::<Gicd>()) };
                // SAFETY: by (1) and (2) these are the redistributors, unaliased; there is room for one at least.
                let mut gic = unsafe { GicV3::new(gicd, redistributors.cast::<GicrSgi>(), cpus)? };
                let index = redistributor_index(&mut gic, cpus, mpidr)?;
                gic.setup(index);
                gic.enable_all_interrupts(false);
                GicCpuInterface::set_priority_mask(ALL_PRIORITIES);
                Ok(Gic(Version::V3 { gic, cpus }))
            }
        }
    }

    /// Enables interrupt `intid` (16 to 31: the running CPU's own, whose MPIDR_EL1 is `mpidr`).
    ///
    /// # Errors
    /// [`GicError::BadInterrupt`], [`GicError::NoRedistributor`], or what the driver says.
    pub fn enable(&mut self, intid: u32, mpidr: u64) -> Result<(), GicError> {
        let id = IntId::try_from(intid).map_err(|_| GicError::BadInterrupt(intid))?;
        if !(id.is_private() || id.is_spi()) {
            return Err(GicError::BadInterrupt(intid));
        }
        match &mut self.0 {
            Version::V2(gic) => gic.enable_interrupt(id, true)?,
            Version::V3 { gic, cpus } => {
                let index = redistributor_index(gic, *cpus, mpidr)?;
                gic.enable_interrupt(id, Some(index), true)?;
            }
        }
        Ok(())
    }

    /// Takes the pending interrupt of highest priority; `None` where there is none (a spurious one).
    pub fn acknowledge(&mut self) -> Option<Active> {
        match &mut self.0 {
            // From the Non-secure side GICC_IAR gives the one group there is, whatever its number.
            Version::V2(gic) => gic.get_and_acknowledge_interrupt(InterruptGroup::Group0),
            Version::V3 { .. } => GicCpuInterface::get_and_acknowledge_interrupt(InterruptGroup::Group1),
        }
        .map(Active)
    }

    /// Ends an interrupt: drops its priority and deactivates it.
    pub fn end(&mut self, interrupt: Active) {
        match &mut self.0 {
            Version::V2(gic) => gic.end_interrupt(interrupt.0, InterruptGroup::Group0),
            Version::V3 { .. } => GicCpuInterface::end_interrupt(interrupt.0, InterruptGroup::Group1),
        }
    }
}

/// Which redistributor is the CPU's: they need not be in the device tree's order.
fn redistributor_index(gic: &mut GicV3<'_>, cpus: usize, mpidr: u64) -> Result<usize, GicError> {
    let affinity = mpidr & MPIDR_AFFINITY;
    for index in 0..cpus {
        if gic.gicr_typer(index)?.core_mpidr() == affinity {
            return Ok(index);
        }
    }
    Err(GicError::NoRedistributor(affinity))
}
