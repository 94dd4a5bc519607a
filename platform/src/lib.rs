//! The machine: the instructions that the table code needs ([`arch`]), what the CPU can do, and the devices that
//! QEMU's virt board has.
#![no_std]

#[cfg(not(target_os = "none"))]
extern crate std;

pub mod arch;
pub mod backtrace;
pub mod features;
#[cfg(target_os = "none")]
pub mod gic;
pub mod machine;
pub mod pl011;
#[cfg(target_os = "none")]
pub mod pmu;
#[cfg(target_os = "none")]
pub mod psci;
#[cfg(target_os = "none")]
pub mod semihosting;
pub mod symbols;
#[cfg(target_os = "none")]
mod sysreg;
pub mod timer;
