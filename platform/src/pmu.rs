//! Counting instructions: PMU event INST_RETIRED where it counts, else virtual time.
//!
//! Under QEMU's `-icount shift=0` both are exact: each guest instruction is one INST_RETIRED and one nanosecond of
//! virtual time. Without `-icount` QEMU does not implement INST_RETIRED, and CNTVCT_EL0 is the host's time.

use crate::features::{Features, Pmu};
use crate::sysreg::{mrs, msr};
use crate::timer::Timer;

/// Common event 0x08, "instruction architecturally executed" (Arm ARM DDI 0487, D13.12).
const INST_RETIRED: u64 = 0x08;
/// PMCR_EL0: E, counters run; LC, PMCCNTR_EL0 overflows at 64 bits; LP, the event counters too (FEAT_PMUv3p5).
const PMCR_E: u64 = 1 << 0;
const PMCR_LC: u64 = 1 << 6;
const PMCR_LP: u64 = 1 << 7;
/// PMCR_EL0.N, the number of event counters this Exception level may use.
const PMCR_N_SHIFT: u32 = 11;
const PMCR_N_MASK: u64 = 0x1f;
/// PMCNTENSET_EL0: the cycle counter, event counter 0.
const ENABLE_CYCLES: u64 = 1 << 31;
const ENABLE_COUNTER_0: u64 = 1 << 0;

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
    /// Sets event counter 0 and the cycle counter running on this CPU, if it has a PMU that counts instructions in
    /// 64 bits; else falls back to virtual time.
    pub fn start(features: &Features, timer: Timer) -> Self {
        let source = if start_pmu(features) { Source::Pmu } else { Source::VirtualTime };
        InstructionCounter { source, timer }
    }

    /// Where [`InstructionCounter::read`] reads.
    pub const fn source(self) -> Source {
        self.source
    }

    /// The count now, from an arbitrary start; only differences mean something. A context synchronisation event comes
    /// first, so that on real cores what stands before is counted and what stands after is not.
    #[inline(always)]
    pub fn read(self) -> u64 {
        match self.source {
            Source::Pmu => {
                aarch64_cpu::asm::barrier::isb(aarch64_cpu::asm::barrier::SY);
                mrs!("pmevcntr0_el0")
            }
            Source::VirtualTime => self.timer.rate().nanos(self.timer.now()),
        }
    }
}

/// Starts counter 0 on INST_RETIRED, and the cycle counter. False, with the PMU untouched, where there is no such event
/// or only 32 bits for it: those wrap within seconds.
fn start_pmu(features: &Features) -> bool {
    if features.pmu < Pmu::V3p5 {
        return false;
    }
    let control = mrs!("pmcr_el0");
    let counters = control >> PMCR_N_SHIFT & PMCR_N_MASK;
    // PMCEID0_EL0 bit n: common event n is implemented.
    if counters == 0 || mrs!("pmceid0_el0") >> INST_RETIRED & 1 == 0 {
        return false;
    }
    // Filter bits 0: count at EL1 and EL0, not at EL2.
    msr!("pmevtyper0_el0", INST_RETIRED);
    msr!("pmccfiltr_el0", 0);
    msr!("pmcntenset_el0", ENABLE_CYCLES | ENABLE_COUNTER_0);
    msr!("pmcr_el0", control | PMCR_E | PMCR_LC | PMCR_LP);
    aarch64_cpu::asm::barrier::isb(aarch64_cpu::asm::barrier::SY);
    true
}

/// PMCCNTR_EL0: cycles on this CPU since some moment, once [`InstructionCounter::start`] found a PMU. Under QEMU with
/// `-icount` it follows virtual time.
#[inline(always)]
pub fn cycles() -> u64 {
    mrs!("pmccntr_el0")
}
