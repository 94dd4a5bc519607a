//! Test kernels, one a file in `src/bin`, each of a single behaviour or a single fault that has to come.
//!
//! The exit code is the verdict. The first lines of each file say how `./qemu.sh test` runs it: `//! qemu: OPTIONS` (those of
//! `qemu.sh`), `//! expect: CODE` (0 where it is missing) and `//! line: PATTERN`, which a line of the output has to match too.
#![no_std]

#[cfg(target_os = "none")]
pub mod interrupts;
#[cfg(target_os = "none")]
pub mod kit;
