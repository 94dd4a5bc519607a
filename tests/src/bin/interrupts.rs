//! Interrupts inside an open section: the handler runs closed and opens a section of its own, and the section goes on
//! open.
//! expect: 0
#![no_std]
#![no_main]

use core::arch::asm;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use mm::linear;
use palisade::boot::device_address;
use palisade::exception::{self, probe};
use pkeys::{Context, KernelTables, Por, UserTables};
use platform::arch::{Arch, Arm};
use platform::gic::{Gic, Registers};
use platform::machine::{self, PhysRange};
use platform::timer::Timer;
use spin::Mutex;

palisade::kernel_main!(main);

static TAKEN: AtomicU64 = AtomicU64::new(0);
static ENTRY: AtomicU64 = AtomicU64::new(0);
static GIC: Mutex<Option<Gic>> = Mutex::new(None);

fn set(por: Por) {
    // SAFETY: a test of the register; every value leaves key 0 accessible, and the test ends closed.
    unsafe { Arm::write_por(por.bits()) };
    let _ = Arm::isb();
}

fn writes() -> bool {
    // SAFETY: the entry is empty and stays so: the write faults, or writes what is there.
    unsafe { probe::write_u64(ENTRY.load(Ordering::Relaxed), 0) }.is_ok()
}

fn handler() {
    let mut gic = GIC.lock();
    let gic = gic.as_mut().expect("set up");
    let interrupt = gic.acknowledge().expect("one is pending");
    Timer::new().expect("there is a timer").cancel();
    assert_eq!(Arm::read_por(), Por::CLOSED.bits(), "handlers run closed");
    assert!(!writes());
    set(KernelTables::OPEN);
    assert!(writes());
    set(Por::CLOSED);
    TAKEN.fetch_add(1, Ordering::Relaxed);
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

fn main(boot: &palisade::Boot) -> u32 {
    let entry = linear::ptr(boot.memory.kernel.table().frame().start()).addr() as u64 + 300 * 8;
    ENTRY.store(entry, Ordering::Relaxed);
    let mpidr = boot.machine.cpus[0];
    // SAFETY: boot has mapped the controller's registers at their device addresses, and nobody else uses them.
    let mut gic = unsafe { Gic::new(registers(boot.machine.gic), 1, mpidr) }.expect("a controller");
    gic.enable(boot.machine.timer_intid, mpidr).expect("the timer's interrupt");
    *GIC.lock() = Some(gic);
    exception::set_interrupt_handler(handler);
    let timer = Timer::new().expect("there is a timer");
    for por in [Por::CLOSED, UserTables::OPEN, KernelTables::OPEN] {
        let before = TAKEN.load(Ordering::Relaxed);
        set(por);
        timer.arm(timer.after(Duration::from_micros(10)));
        // SAFETY: unmasks interrupts; the handler is set.
        unsafe { asm!("msr daifclr, #2") };
        while TAKEN.load(Ordering::Relaxed) == before {
            assert_eq!(writes(), por == KernelTables::OPEN);
        }
        // SAFETY: masks them again.
        unsafe { asm!("msr daifset, #2") };
        assert_eq!(Arm::read_por(), por.bits(), "the section goes on as it was");
        assert_eq!(writes(), por == KernelTables::OPEN);
        set(Por::CLOSED);
    }
    0
}
