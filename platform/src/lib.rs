//! The machine: the instructions that the table code needs ([`arch`]), what the CPU can do, and the devices that
//! QEMU's virt board has.
#![no_std]

#[cfg(not(target_os = "none"))]
extern crate std;

pub mod arch;
pub mod backtrace;
pub mod symbols;
