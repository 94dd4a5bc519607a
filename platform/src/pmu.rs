//! Counting instructions: PMU event INST_RETIRED where it counts, else virtual time.
//!
//! Under QEMU's `-icount shift=0` both are exact: each guest instruction is one INST_RETIRED and one nanosecond of
//! virtual time. Without `-icount` QEMU does not implement INST_RETIRED, and CNTVCT_EL0 is the host's time.

use aarch64_cpu::asm::barrier;

use crate::features::{Features, Pmu};
use crate::sysreg::{mrs, msr};
use crate::timer::Timer;

/// Common event 0x08, "instruction architecturally executed" (Arm ARM DDI 0487, D13.12).
const INST_RETIRED: u64 = 0x08;
/// PMCR_EL0: E, counters run; LP, the event counters overflow at 64 bits (FEAT_PMUv3p5).
const PMCR_E: u64 = 1 << 0;
const PMCR_LP: u64 = 1 << 7;
/// PMCR_EL0.N, the number of event counters this Exception level may use.
const PMCR_N_SHIFT: u32 = 11;
const PMCR_N_MASK: u64 = 0x1f;
/// PMCNTENSET_EL0: event counter 0.
const ENABLE_COUNTER_0: u64 = 1 << 0;

/// How often [`InstructionCounter::counts_instructions`] tries: a clock that happens to agree once does not do so every time.
const TRIALS: usize = 4;
/// Rounds of [`spin`] in the shorter of a trial's two loops.
const TRIAL_LOOPS: u64 = 10_000;
/// Instructions by which a trial may be off: each of its four readings is exact to a tick, of 16 ns at 62.5 MHz.
const TRIAL_ERROR: u64 = 64;
/// Instructions in a round of [`spin`].
const SPIN_INSTRUCTIONS: u64 = 2;

/// Where an [`InstructionCounter`] gets its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// INST_RETIRED in a 64-bit PMU counter: instructions of EL0 and EL1.
    Pmu,
    /// CNTVCT_EL0 in nanoseconds: instructions only under `-icount shift=0`, and then only in steps of the counter's
    /// tick (1 for `-cpu max`, whose counter runs at 1 GHz).
    VirtualTime,
}

impl core::fmt::Display for Source {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Source::Pmu => "PMU event INST_RETIRED",
            Source::VirtualTime => "virtual time (CNTVCT_EL0)",
        })
    }
}

/// Counts instructions on the CPU that started it.
#[derive(Clone, Copy, Debug)]
pub struct InstructionCounter {
    source: Source,
    timer: Timer,
}

impl InstructionCounter {
    /// Sets the PMU's event counter 0 running on INST_RETIRED if this CPU has that event in 64 bits (32 wrap within
    /// seconds); else instructions are read off virtual time.
    pub fn start(features: &Features, timer: Timer) -> Self {
        let source = if features.pmu == Pmu::V3p5 && has_inst_retired() { Source::Pmu } else { Source::VirtualTime };
        if source == Source::Pmu {
            start_pmu();
        }
        InstructionCounter { source, timer }
    }

    /// Where [`InstructionCounter::read`] reads.
    pub const fn source(self) -> Source {
        self.source
    }

    /// The count now, from an arbitrary start; only differences mean something. A context synchronisation event comes
    /// first, so that on real cores what stands before is counted and what stands after is not. Reading twice in a row
    /// gives a small difference, always the same one under `-icount`: the reading's own instructions.
    #[inline(always)]
    pub fn read(self) -> u64 {
        match self.source {
            Source::Pmu => {
                barrier::isb(barrier::SY);
                mrs!("pmevcntr0_el0")
            }
            Source::VirtualTime => self.timer.rate().nanos(self.timer.now()),
        }
    }

    /// Whether [`InstructionCounter::read`] counts instructions, by trying it on loops of known length: not so where it reads
    /// the host's time, or virtual time of another rate than one instruction a nanosecond.
    pub fn counts_instructions(self) -> bool {
        (0..TRIALS).all(|_| {
            let [short, long] = [TRIAL_LOOPS, 2 * TRIAL_LOOPS].map(|loops| {
                let start = self.read();
                spin(loops);
                self.read().wrapping_sub(start)
            });
            // The difference is free of what the reading itself takes.
            long.wrapping_sub(short).abs_diff(TRIAL_LOOPS * SPIN_INSTRUCTIONS) <= TRIAL_ERROR
        })
    }
}

/// Runs `loops` rounds (at least 1) of two instructions each.
fn spin(loops: u64) {
    // SAFETY: counts a register down to 0; touches no memory and no stack.
    unsafe { core::arch::asm!("2: subs {0}, {0}, #1", "b.ne 2b", inout(reg) loops => _, options(nomem, nostack)) };
}

/// Whether an event counter is there for us and INST_RETIRED is an event it can count.
fn has_inst_retired() -> bool {
    let counters = mrs!("pmcr_el0") >> PMCR_N_SHIFT & PMCR_N_MASK;
    // PMCEID0_EL0 bit n: common event n is implemented.
    counters > 0 && mrs!("pmceid0_el0") >> INST_RETIRED & 1 == 1
}

/// Starts event counter 0 on INST_RETIRED.
fn start_pmu() {
    // Filter bits 0: count at EL1 and EL0, not at EL2.
    msr!("pmevtyper0_el0", INST_RETIRED);
    msr!("pmcntenset_el0", ENABLE_COUNTER_0);
    msr!("pmcr_el0", mrs!("pmcr_el0") | PMCR_E | PMCR_LP);
    barrier::isb(barrier::SY);
}
