//! What each CPU has of its own, reached by TPIDR_EL1.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::sync::atomic::AtomicU64;
use pkeys::Por;
use platform::arch::CpuHeader;
use spin::Once;

use crate::stack::Stacks;

/// One CPU's own state. Only that CPU uses it.
#[repr(C)]
pub struct PerCpu {
    /// What assembly knows, at offset 0.
    header: UnsafeCell<CpuHeader>,
    /// The CPU's guarded stacks, once it runs on them.
    stacks: Once<Stacks>,
    /// How many panics this CPU is in.
    pub panics: AtomicU64,
}

// SAFETY: `header` is written by boot before any Rust code runs on its CPU, and by that CPU's vectors, each with single
// instructions; Rust code reads single words of it. All else is atomic.
unsafe impl Sync for PerCpu {}

impl PerCpu {
    const fn new(index: u64) -> Self {
        PerCpu {
            header: UnsafeCell::new(CpuHeader { virtual_por: Por::CLOSED.bits(), index, overflow_stack: 0 }),
            stacks: Once::new(),
            panics: AtomicU64::new(0),
        }
    }

    /// The state of the CPU that runs this.
    #[inline(always)]
    pub fn current() -> &'static PerCpu {
        let address: *const PerCpu;
        // SAFETY: reads TPIDR_EL1, which boot sets before the first Rust code runs on a CPU and nothing changes.
        unsafe { asm!("mrs {}, tpidr_el1", out(reg) address, options(nomem, nostack, preserves_flags)) };
        // SAFETY: boot points TPIDR_EL1 at a `PerCpu` that lives for ever.
        unsafe { &*address }
    }

    /// The CPU's index, below [`platform::arch::MAX_CPUS`].
    pub fn index(&self) -> u64 {
        // SAFETY: the index never changes once this CPU runs Rust code.
        unsafe { (*self.header.get()).index }
    }

    /// POR_EL1 where it is emulated; else its closed value.
    pub fn virtual_por(&self) -> u64 {
        // SAFETY: only this CPU's vectors write the word, in between instructions as seen from here.
        unsafe { (&raw const (*self.header.get()).virtual_por).read_volatile() }
    }

    /// The guarded stacks that the CPU runs on; `None` while it is on its boot stack.
    pub fn stacks(&self) -> Option<Stacks> {
        self.stacks.get().copied()
    }

    /// Makes `stacks` the CPU's own, just before it goes over to them.
    pub(crate) fn set_stacks(&self, stacks: Stacks) {
        self.stacks.call_once(|| stacks);
        // SAFETY: only this CPU writes its header, and its vectors read this word only once a stack has overflown.
        unsafe { (*self.header.get()).overflow_stack = stacks.overflow().end };
    }
}

/// The boot CPU's, which the entry code refers to by name.
#[unsafe(no_mangle)]
static BOOT_CPU: PerCpu = PerCpu::new(0);
