//! Two CPUs on the same tables, with overlays of their own, at the same time.

use super::attempt::{
    Access, Outcome, Prober, Record, Target, cause_bits, is_abort, is_done, permission_fault, vectors,
};
use super::cpu;
use super::lab::Lab;
use super::rules::{Kind, Setting, Verdict, with_field};
use core::arch::asm;
use core::hint;
use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering};
use mm::addr::PAGE_SIZE;
use mm::linear;
use palisade::Boot;
use palisade::boot::image::{self, Part};
use platform::machine::Conduit;
use platform::psci::Psci;

/// Accesses that each CPU makes.
const ROUNDS: u64 = 4096;

/// What the second CPU starts with; `vectors.S` knows the layout.
#[repr(C)]
struct Start {
    mair: u64,
    tcr: u64,
    ttbr0: u64,
    ttbr1: u64,
    pir: u64,
    pire0: u64,
    tcr2: u64,
    sctlr: u64,
    stack: u64,
    vectors: u64,
    record: *const Record,
    entry: extern "C" fn(&Shared) -> !,
    argument: *const Shared,
    tpidr: u64,
}

/// What the two have in common.
struct Shared {
    record: &'static Record,
    target: Target,
    setting: Setting,
    /// Set when the second CPU is about to begin.
    ready: AtomicU64,
    /// Wrong outcomes of the second CPU.
    wrong: AtomicU64,
    /// Set when it is done.
    done: AtomicU64,
}

unsafe extern "C" {
    static conformance_second: u8;
}

/// The section.
pub fn run(lab: &mut Lab, boot: &Boot, record: &'static Record) {
    if !lab.has.poe || !lab.has.pie {
        return;
    }
    let (Some(Conduit::Hvc), Some(mpidr)) = (boot.machine.psci, boot.machine.cpus.get(1)) else {
        palisade::println!("conformance: two CPUs: skipped, takes a second CPU that PSCI starts at EL1");
        return;
    };
    let base = lab.base(true);
    let setting = Setting {
        poe: true,
        e0poe: true,
        pir: with_field(base.pir, base.leaf.pi_index, 5),
        pire0: with_field(base.pire0, base.leaf.pi_index, 3),
        ..base
    };
    lab.set(setting);
    lab.prober.run(Access::Store, lab.target(), 0);
    let code = boot.image.start(Part::Text).get();
    lab.map_identity(boot, code);
    let shared = Shared {
        record,
        target: lab.target(),
        setting,
        ready: AtomicU64::new(0),
        wrong: AtomicU64::new(0),
        done: AtomicU64::new(0),
    };
    let entry = code + (&raw const conformance_second).addr() as u64 - image::start();
    if !start(lab, boot, &shared, *mpidr, entry) {
        lab.score.judge(false, format_args!("PSCI does not start CPU {mpidr:#x}"));
        return;
    }
    while shared.ready.load(Ordering::Acquire) == 0 {
        hint::spin_loop();
    }
    let wrong = rounds(&shared, lab.prober, 0);
    while shared.done.load(Ordering::Acquire) == 0 {
        hint::spin_loop();
    }
    let other = shared.wrong.load(Ordering::Acquire);
    for i in 0..ROUNDS {
        lab.score.judge(i >= wrong, format_args!("CPU 0: {wrong} of {ROUNDS} accesses"));
        lab.score.judge(i >= other, format_args!("CPU 1: {other} of {ROUNDS} accesses"));
    }
    lab.renew();
    lab.score.section(format_args!("two CPUs with overlays of their own"));
}

/// Starts the second CPU on `shared`; tells whether PSCI agreed.
fn start(lab: &Lab, boot: &Boot, shared: &Shared, mpidr: u64, entry: u64) -> bool {
    let frame = boot.memory.frames.alloc().expect("memory for a stack");
    let page = linear::ptr(frame.start());
    let own = Start {
        mair: cpu::mair::read(),
        tcr: cpu::tcr::read(),
        ttbr0: lab.root(),
        ttbr1: cpu::ttbr1::read(),
        pir: cpu::pir::read(),
        pire0: cpu::pire0::read(),
        tcr2: cpu::tcr2::read(),
        sctlr: cpu::sctlr::read(),
        stack: page.addr() as u64 + PAGE_SIZE,
        vectors: vectors(),
        record: shared.record.address(),
        entry: second,
        argument: ptr::from_ref(shared),
        tpidr: cpu::tpidr::read(),
    };
    // SAFETY: the frame is this function's, aligned and large enough; the rest of it is the stack.
    unsafe { page.cast::<Start>().write(own) };
    for line in (0..size_of::<Start>()).step_by(16) {
        // SAFETY: cleans a line of it to memory, from where the CPU reads it with its caches off.
        unsafe { asm!("dc civac, {}", in(reg) page.add(line), options(nostack, preserves_flags)) };
    }
    // SAFETY: waits for that.
    unsafe { asm!("dsb sy", options(nostack, preserves_flags)) };
    // SAFETY: the entry code is written for this, and its argument and code are in memory: the argument by the above, the code since the
    // kernel was loaded.
    unsafe { Psci::new(Conduit::Hvc).cpu_on(mpidr, entry, frame.start().get()) }.is_ok()
}

/// Where the second CPU comes to.
extern "C" fn second(shared: &Shared) -> ! {
    let prober = Prober::on(shared.record);
    prober.set_pstate(0);
    shared.ready.store(1, Ordering::Release);
    let wrong = rounds(shared, prober, 5);
    shared.wrong.store(wrong, Ordering::Release);
    shared.done.store(1, Ordering::Release);
    loop {
        // SAFETY: waits, with interrupts masked.
        unsafe { asm!("wfi", options(nomem, nostack, preserves_flags)) };
    }
}

/// Makes accesses under a sequence of overlays that begins elsewhere on each CPU; how many of them went wrong.
fn rounds(shared: &Shared, prober: Prober, phase: u64) -> u64 {
    let key = shared.setting.leaf.po_index;
    let mut wrong = 0;
    for round in 0..ROUNDS {
        let value = ((round + phase) * 7 % 16) as u8;
        let setting = Setting {
            por: with_field(shared.setting.por, key, value),
            por0: with_field(shared.setting.por0, key, 15 - value),
            ..shared.setting
        };
        // SAFETY: key 0 and that of EL0's code stay open.
        unsafe {
            cpu::por::write(setting.por);
            cpu::por0::write(setting.por0);
        }
        cpu::isb();
        let access = Access::ALL[(round >> 4) as usize % Access::ALL.len()];
        let outcome = prober.run(access, shared.target, round);
        wrong += u64::from(!is_right(&setting, access, &outcome, shared.target));
    }
    wrong
}

fn is_right(setting: &Setting, access: Access, outcome: &Outcome, target: Target) -> bool {
    match setting.verdict(access.privileged(false), access.kind(), true) {
        Verdict::Denied(cause) => {
            let syndrome = access.syndrome(permission_fault(setting.leaf.level), cause_bits(cause));
            is_abort(access, outcome, target, syndrome, 0)
        }
        _ => {
            is_done(access, outcome, target)
                && (access.kind() != Kind::Read || outcome.exception.is_some() || outcome.value < ROUNDS)
        }
    }
}
