//! Memory management: frames, translation tables that only a token can write, address spaces and kernel areas.
//!
//! | module | holds |
//! |---|---|
//! | [`addr`] | physical and virtual addresses, frames, pages, ranges |
//! | [`linear`] | where frames' contents and metadata are reached (on the host: a simulated memory) |
//! | [`frame`] | metadata, the buddy, the per-CPU front |
//! | [`desc`] | descriptors: the one place where table bits stand |
//! | [`table`] | tables, their entries, the one store that writes them, walking |
//! | [`tlb`] | the order of barriers and invalidations |
//! | [`pool`] | where tables come from: keyed 2 MiB blocks |
//! | [`kernel`] | the kernel's root, as boot builds it |
//! | [`space`] | user address spaces |
//! | [`area`] | kernel areas: vmalloc, vm_map_ram, stacks |
//! | [`asid`] | address-space identifiers |
//! | [`memory`] | all of it together |
//! | [`audit`] | whether the invariants hold |
#![no_std]

extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std;

pub mod addr;
pub mod area;
pub mod asid;
pub mod audit;
pub mod desc;
pub mod frame;
pub mod kernel;
pub mod linear;
pub mod memory;
pub mod pool;
pub mod space;
pub mod table;
pub mod tlb;

#[cfg(test)]
mod testing;
