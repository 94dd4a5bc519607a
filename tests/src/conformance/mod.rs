//! Is this CPU's FEAT_S1PIE and FEAT_S1POE the architecture's?
//!
//! After boot the kernel takes the CPU over: vectors that record an exception and go on, tables of its own below TTBR0_EL1, code at
//! EL0. It makes accesses of every kind under all values of what decides about them, and compares what comes with the Arm ARM's rules.
//!
//! | module | holds |
//! |---|---|
//! | `rules` | these rules, as tables, with their names; touches no CPU |
//! | `attempt`, `vectors.S` | accesses that may fault; what a fault has to look like |
//! | `cpu` | registers, TLB, AT |
//! | `lab`, `score` | tables and registers put into a setting; one case judged; the count |
//! | `matrix` | permissions: the cross products |
//! | `faults` | other faults, and what may be held in a TLB |
//! | `crowd` | overlays that change under many pages at once |
//! | `registers` | register bits, UNDEFINED accesses, traps from EL0 |
//! | `smp` | two CPUs with different overlays at once |
//!
//! What needs FEAT_S1POE is left out where it is not there, and so is what needs FEAT_S1PIE; a line says so. Not judged: EL2 and EL3
//! (their registers and traps; boot leaves for EL1), stage 2, GCS accesses, hardware dirty state, 128-bit descriptors.

mod attempt;
mod cpu;
mod crowd;
mod faults;
mod lab;
mod matrix;
mod registers;
mod rules;
mod score;
mod smp;

use attempt::Record;
use lab::Lab;
use palisade::Boot;

static RECORDS: [Record; 2] = [Record::new(), Record::new()];

/// Runs everything; the exit code.
pub fn main(boot: &Boot) -> u32 {
    let mut lab = Lab::new(boot, &RECORDS[0]);
    let has = lab.has;
    palisade::println!("conformance: S1PIE {} S1POE {}", yes(has.pie), yes(has.poe));
    if !has.poe {
        palisade::println!("conformance: no FEAT_S1POE: nothing about overlays is judged");
    }
    registers::run(&mut lab);
    matrix::run(&mut lab);
    faults::run(&mut lab);
    crowd::run(&mut lab);
    smp::run(&mut lab, boot, &RECORDS[1]);
    let score = lab.leave();
    if score.all_known > 0 {
        palisade::println!("conformance: {} more are wrong as is known of QEMU (see `Lab::is_known`)", score.all_known);
    }
    palisade::println!("conformance: {} cases, {} wrong", score.all_cases, score.all_wrong);
    u32::from(score.all_wrong > 0)
}

const fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}
