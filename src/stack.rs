//! Kernel stacks.
//!
//! A stack is 64 KiB at an odd multiple of 64 KiB, and what lies below it, down to the even multiple, is its guard. So
//! bit 16 of an address is set in every stack and clear in its guard, by which the vectors tell an overflow. Each CPU
//! also has a small stack to turn to then, guarded in the same way.

use crate::boot::image;
use crate::percpu::PerCpu;
use crate::ram::{NoRoom, Ram};
use core::arch::asm;
use core::ops::Range;
use mm::addr::{PAGE_SIZE, PhysAddr, VirtAddr};
use mm::desc::{Attr, Level};
use mm::frame::OutOfMemory;
use mm::kernel::{Builder, Mapping};
use platform::arch::Arm;

/// Bytes in a kernel stack, and in the guard below it.
pub const STACK_BYTES: u64 = 64 << 10;
/// Bytes in an overflow stack.
pub const OVERFLOW_BYTES: u64 = 16 << 10;

/// Where the stacks of CPU 0 begin; four times [`STACK_BYTES`] a CPU (docs/architecture.md).
const STACKS_BASE: u64 = 0xffff_ffff_e000_0000;

/// One CPU's stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stacks {
    /// First address of the stack.
    start: u64,
    /// First address of the overflow stack.
    overflow: u64,
}

impl Stacks {
    /// Those of CPU `index`.
    const fn of(index: u64) -> Self {
        let base = STACKS_BASE + index * 4 * STACK_BYTES;
        Stacks { start: base + STACK_BYTES, overflow: base + 3 * STACK_BYTES }
    }

    /// The stack.
    pub fn stack(self) -> Range<u64> {
        self.start..self.start + STACK_BYTES
    }

    /// The overflow stack.
    pub fn overflow(self) -> Range<u64> {
        self.overflow..self.overflow + OVERFLOW_BYTES
    }
}

/// The memory behind the boot CPU's stacks.
pub(crate) struct Backing(Range<u64>);

impl Backing {
    /// Takes the memory.
    pub(crate) fn take(ram: &mut Ram) -> Result<Self, NoRoom> {
        ram.take(STACK_BYTES + OVERFLOW_BYTES, PAGE_SIZE).map(Backing)
    }

    /// The stacks' addresses.
    pub(crate) fn stacks(&self) -> Stacks {
        Stacks::of(0)
    }

    /// Maps the stacks, by pages, with nothing below either.
    pub(crate) fn map(&self, builder: &mut Builder) -> Result<(), OutOfMemory> {
        let stacks = self.stacks();
        let mut pa = self.0.start;
        for range in [stacks.stack(), stacks.overflow()] {
            let bytes = range.end - range.start;
            let va = VirtAddr::new(range.start).expect("stacks lie in the kernel's half");
            let from = PhysAddr::new(pa).expect("stacks lie in RAM");
            builder.map::<Arm>(Mapping { va, pa: from, bytes, attr: Attr::KernelData, largest: Level::L3 })?;
            pa += bytes;
        }
        Ok(())
    }
}

/// The kernel stack of this CPU that `address` lies on, as far as that is mapped for ever.
pub fn containing(address: u64) -> Option<Range<u64>> {
    let own = PerCpu::current().stacks().map(|stacks| [stacks.stack(), stacks.overflow()]);
    let stacks = own.unwrap_or([image::boot_stack(), image::overflow_stack()]);
    stacks.into_iter().find(|stack| stack.contains(&address))
}

/// Makes `stacks` this CPU's own, and goes over to them and on to `next`; whatever is on the stack left behind is lost.
pub(crate) fn leave_boot_stack(stacks: Stacks, next: extern "C" fn() -> !) -> ! {
    PerCpu::current().set_stacks(stacks);
    // SAFETY: the stack is mapped, empty and this CPU's own; `next` never returns, and the zero frame record ends
    // backtraces.
    unsafe {
        asm!(
            "mov sp, {stack}",
            "mov x29, xzr",
            "mov x30, xzr",
            "br {next}",
            stack = in(reg) stacks.stack().end,
            next = in(reg) next,
            options(noreturn),
        )
    }
}
