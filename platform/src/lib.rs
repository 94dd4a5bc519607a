//! The machine below the kernel: instructions, CPU features and the devices of QEMU's virt board.
//!
//! | module | holds | where |
//! |---|---|---|
//! | [`arch`] | barriers, TLB maintenance, the system registers that table code writes; a recorder on the host | both |
//! | [`features`] | what the ID registers say | both, `read` bare-metal |
//! | [`machine`] | the flattened device tree, checked and read into a `Machine` | both |
//! | [`pl011`] | the serial console | both |
//! | [`timer`] | tick arithmetic; the virtual timer | both, device bare-metal |
//! | `gic` | GICv2, GICv3, GICv4 | bare-metal |
//! | `pmu` | the instruction counter | bare-metal |
//! | `psci` | power off, reset, start CPUs | bare-metal |
//! | `semihosting` | QEMU's exit code | bare-metal |
//! | [`symbols`], [`backtrace`] | naming addresses, walking frames | both |
//!
//! "Both" is the host too, where the unit tests run. Nothing here allocates, takes a lock or knows where anything is
//! mapped: device registers come as virtual addresses from the kernel, whose promises about them are the `# Safety`
//! sections of the constructors.
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
