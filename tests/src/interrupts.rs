//! Timer interrupts for test kernels.

use core::arch::asm;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};
use core::time::Duration;
use palisade::boot::device_address;
use palisade::exception;
use platform::gic::{Gic, Registers};
use platform::machine::{self, PhysRange};
use platform::timer::Timer;
use spin::Mutex;

static GIC: Mutex<Option<Gic>> = Mutex::new(None);
static WORK: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// What an interrupt does; returns the time to the next one, or `None` for no more.
pub type Work = fn() -> Option<Duration>;

/// Sets the interrupt controller up for the virtual timer, whose interrupts run `work` from then on. They stay masked.
///
/// # Panics
/// Where controller or timer are not to be had.
pub fn start(boot: &palisade::Boot, work: Work) {
    let mpidr = boot.machine.cpus[0];
    // SAFETY: boot has mapped the controller's registers at their device addresses, and nobody else uses them.
    let mut gic = unsafe { Gic::new(registers(boot.machine.gic), 1, mpidr) }.expect("a controller");
    gic.enable(boot.machine.timer_intid, mpidr).expect("the timer's interrupt");
    *GIC.lock() = Some(gic);
    WORK.store(work as *mut (), Ordering::Release);
    exception::set_interrupt_handler(serve);
}

/// Asks for the first interrupt after `delay`.
///
/// # Panics
/// Where there is no timer.
pub fn arm(delay: Duration) {
    let timer = Timer::new().expect("there is a timer");
    timer.arm(timer.after(delay));
}

/// Runs `work` with interrupts unmasked.
pub fn unmasked<R>(work: impl FnOnce() -> R) -> R {
    // SAFETY: unmasks IRQ, for which `start` has set a handler; without `nomem` no access moves out of the stretch.
    unsafe { asm!("msr daifclr, #2", options(nostack, preserves_flags)) };
    let result = work();
    // SAFETY: masks them again.
    unsafe { asm!("msr daifset, #2", options(nostack, preserves_flags)) };
    result
}

fn serve() {
    let mut gic = GIC.lock();
    let gic = gic.as_mut().expect("set up by `start`");
    let Some(interrupt) = gic.acknowledge() else { return };
    let timer = Timer::new().expect("there is a timer");
    timer.cancel();
    // SAFETY: only `start` stores here, before any interrupt is enabled, and it stores a `Work`.
    let work = unsafe { core::mem::transmute::<*mut (), Work>(WORK.load(Ordering::Acquire)) };
    if let Some(delay) = work() {
        timer.arm(timer.after(delay));
    }
    gic.end(interrupt);
}

fn registers(gic: machine::Gic) -> Registers {
    let at = |range: PhysRange| {
        NonNull::new(ptr::with_exposed_provenance_mut(device_address(range.start()) as usize)).expect("not at 0")
    };
    match gic {
        machine::Gic::V2 { distributor, cpu } => Registers::V2 { distributor: at(distributor), cpu: at(cpu) },
        machine::Gic::V3 { distributor, redistributors } => Registers::V3 {
            distributor: at(distributor),
            redistributors: at(redistributors),
            redistributors_size: redistributors.size() as usize,
        },
    }
}
