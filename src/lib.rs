//! The kernel: boot, exceptions, and what every kernel binary of Palisade shares.
//!
//! A kernel binary (`src/main.rs`, each test kernel in `tests/`) is a main function; this library does all of the boot
//! and then calls it:
//! ```ignore
//! #![no_std]
//! #![no_main]
//! palisade::kernel_main!(main);
//! fn main(boot: &palisade::Boot) -> u32 { 0 }
//! ```
//!
//! # Code map
//! | module | holds |
//! |---|---|
//! | `boot` | linker script, entry code, boot tables, the kernel's root, the way from there to main |
//! | `ram`, `heap` | which RAM is free; frames and the kernel heap |
//! | `exception`, `syndrome` | vectors, dispatch, POR_EL1's emulation, accesses that may fault; reading ESR_EL1 |
//! | `program` | what the kernel does: the self-check (`selfcheck`), the benchmarks (`bench`), the report |
//! | `protection`, `window` | which protection the CPU gives, and putting it into force |
//! | `percpu`, `stack` | what each CPU has of its own |
//! | `tables` | what an address is mapped as |
//! | `console`, `bootargs` | output, input |
//! | `panic`, `backtrace`, `symbols`, `power` | the end, good or bad |
//!
//! # Boot flow
//! 1. `entry.S`, physical addresses, MMU off: down to EL1, boot tables, MMU on, W^X from there on.
//! 2. `entry.S`, upper half: stack, bss, per-CPU register, vectors.
//! 3. `boot::boot_start`: device tree, early console, boot arguments, features, protection.
//! 4. `boot::memory`: the kernel's root is built in the image's `tables` block and replaces the boot tables. From here
//!    on every table lies under its key. Then frames, heap, table pool.
//! 5. A stack with a guard below it, and on it the binary's main function; its result is the machine's exit code.
//!
//! Where code may live: what runs before step 2 ends is assembly; `bootargs`, `ram` and `syndrome` are pure and build
//! for the host too, where their tests run; all else is bare-metal only.
//!
//! # Exit codes 0 well, 1 a check failed, 2 wrong boot arguments, 3 the CPU lacks what protection needs, 4 too little
//! memory, 101 panic.
#![no_std]

#[cfg(target_os = "none")]
extern crate alloc;

pub mod bootargs;
pub mod ram;
pub mod syndrome;

#[cfg(target_os = "none")]
mod backtrace;
#[cfg(target_os = "none")]
pub mod bench;
#[cfg(target_os = "none")]
pub mod boot;
#[cfg(target_os = "none")]
pub mod console;
#[cfg(target_os = "none")]
pub mod exception;
#[cfg(target_os = "none")]
pub mod heap;
#[cfg(target_os = "none")]
mod panic;
#[cfg(target_os = "none")]
pub mod percpu;
#[cfg(target_os = "none")]
mod power;
#[cfg(target_os = "none")]
pub mod program;
#[cfg(target_os = "none")]
pub mod protection;
#[cfg(target_os = "none")]
pub mod selfcheck;
#[cfg(target_os = "none")]
pub mod stack;
#[cfg(target_os = "none")]
mod symbols;
#[cfg(target_os = "none")]
mod tables;
#[cfg(target_os = "none")]
pub mod window;

#[cfg(target_os = "none")]
pub use boot::Boot;
#[cfg(target_os = "none")]
pub use power::exit;

/// Makes `$main`, a `fn(&palisade::Boot) -> u32`, what the kernel does once it is up; its result is the exit code.
#[macro_export]
macro_rules! kernel_main {
    ($main:path) => {
        // SAFETY of the name: the library declares it with this signature, and a binary has one main function.
        #[unsafe(no_mangle)]
        fn palisade_main(boot: &$crate::Boot) -> u32 {
            let main: fn(&$crate::Boot) -> u32 = $main;
            main(boot)
        }
    };
}
