//! Register bits, accesses that are UNDEFINED, traps from EL0.

use super::attempt::{Exception, Instruction, Outcome, UserCode};
use super::cpu;
use super::lab::Lab;
use super::rules::with_field;
use core::fmt;

/// ESR_EL1 of an instruction that is UNDEFINED: EC 0, IL 1.
const UNDEFINED: u64 = 1 << 25;
/// ESR_ELx.EC of a trapped MSR or MRS.
const EC_TRAP: u64 = 0x18;
/// What is written and read back.
const PATTERNS: [u64; 6] =
    [0, !0, 0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, 0x5555_5555_5555_5555, !0x5555_5555_5555_5555];

/// Every section of this module.
pub fn run(lab: &mut Lab) {
    identification(lab);
    bits(lab);
    undefined(lab);
    traps(lab);
}

/// ID_AA64MMFR3_EL1 (D24.2): known values, and what one feature needs of another (A2.2).
fn identification(lab: &mut Lab) {
    let mmfr3 = cpu::mmfr3::read();
    let field = |low: u32| mmfr3 >> low & 0xf;
    for (name, low, most) in [("TCRX", 0, 1), ("SCTLRX", 4, 1), ("S1PIE", 8, 1), ("S2PIE", 12, 1), ("S1POE", 16, 1)] {
        lab.score.judge(field(low) <= most, format_args!("ID_AA64MMFR3_EL1.{name} is {}", field(low)));
    }
    for (name, low) in [("S1PIE", 8), ("S1POE", 16)] {
        let right = field(low) == 0 || field(0) == 1;
        lab.score.judge(right, format_args!("{name} is there and TCR2_EL1 is not: {mmfr3:#x}"));
    }
    lab.score.section(format_args!("ID_AA64MMFR3_EL1"));
}

/// Bits that hold what is written: all of PIR_EL1 and PIRE0_EL1, fields 0 to 7 of POR_EL1 and POR_EL0, PIE, POE and E0POE. Fields 8 to 15
/// of a POR are RES0 here, and may hold what is written or read as 0.
fn bits(lab: &mut Lab) {
    lab.set(lab.base(false));
    for pattern in PATTERNS {
        if lab.has.pie {
            // SAFETY: the direct permissions are in force.
            unsafe {
                cpu::pir::write(pattern);
                cpu::pire0::write(!pattern);
            }
            cpu::isb();
            let (pir, pire0) = (cpu::pir::read(), cpu::pire0::read());
            lab.score.judge(pir == pattern, format_args!("PIR_EL1 {pattern:#x} reads as {pir:#x}"));
            lab.score.judge(pire0 == !pattern, format_args!("PIRE0_EL1 {:#x} reads as {pire0:#x}", !pattern));
        }
        if lab.has.poe {
            // SAFETY: overlays are off.
            unsafe {
                cpu::por::write(pattern);
                cpu::por0::write(!pattern);
            }
            cpu::isb();
            for (name, wrote, read) in [("1", pattern, cpu::por::read()), ("0", !pattern, cpu::por0::read())] {
                let (low, high) = (read & 0xffff_ffff, read >> 32);
                let right = low == wrote & 0xffff_ffff && (high == 0 || high == wrote >> 32);
                lab.score.judge(right, format_args!("POR_EL{name} {wrote:#x} reads as {read:#x}"));
            }
        }
    }
    switches(lab);
    lab.renew();
    lab.score.section(format_args!("register bits"));
}

fn switches(lab: &mut Lab) {
    if lab.has.poe {
        // SAFETY: key 0 is open.
        unsafe { cpu::por::write(with_field(0, 0, 7)) };
        let before = cpu::cpacr::read();
        for wrote in [before | cpu::CPACR_E0POE, before & !cpu::CPACR_E0POE] {
            // SAFETY: concerns POR_EL0 at EL0 alone.
            unsafe { cpu::cpacr::write(wrote) };
            cpu::isb();
            let read = cpu::cpacr::read();
            lab.score.judge(read == wrote, format_args!("CPACR_EL1 {wrote:#x} reads as {read:#x}"));
        }
    }
    let known = match (lab.has.pie, lab.has.poe) {
        (true, true) => cpu::TCR2_PIE | cpu::TCR2_POE | cpu::TCR2_E0POE,
        (true, false) => cpu::TCR2_PIE,
        _ => return,
    };
    // SAFETY: the kernel's own fields are the kernel's.
    unsafe {
        cpu::pir::write(pkeys::pi::PIR_EL1);
        cpu::pire0::write(pkeys::pi::PIRE0_EL1);
    }
    for wrote in (0..16).step_by(2) {
        let wrote = wrote & known;
        // SAFETY: key 0 is open, and the kernel's mappings mean the same by direct and by indirect permissions.
        unsafe { cpu::tcr2::write(wrote) };
        cpu::isb();
        let read = cpu::tcr2::read();
        cpu::flush_tlb();
        lab.score.judge(read == wrote, format_args!("TCR2_EL1 {wrote:#x} reads as {read:#x}"));
    }
}

fn judge(lab: &mut Lab, name: fmt::Arguments<'_>, outcome: &Outcome, syndrome: Option<u64>) {
    let right = match (outcome.exception, syndrome) {
        (Some(Exception { esr, .. }), Some(syndrome)) => esr == syndrome,
        (exception, syndrome) => exception.is_none() && syndrome.is_none(),
    };
    let syndrome = syndrome.unwrap_or(0);
    lab.score.judge(right, format_args!("{name}: ESR {syndrome:#x} expected (0: no exception); {outcome}"));
}

/// Registers of features that are not there, and of other Exception levels, are UNDEFINED at EL1.
fn undefined(lab: &mut Lab) {
    lab.set(lab.base(false));
    let unless = |there: bool| (!there).then_some(UNDEFINED);
    let (pie, poe) = (unless(lab.has.pie), unless(lab.has.poe));
    for (instruction, syndrome) in [
        (Instruction::ReadPor1, poe),
        (Instruction::ReadPor0, poe),
        (Instruction::WritePor1, poe),
        (Instruction::WritePor0, poe),
        (Instruction::ReadPor2, Some(UNDEFINED)),
        (Instruction::ReadPor3, Some(UNDEFINED)),
        (Instruction::ReadPor12, Some(UNDEFINED)),
        (Instruction::ReadPir, pie),
        (Instruction::ReadPire0, pie),
        (Instruction::ReadTcr2, pie),
    ] {
        let outcome = lab.prober.instruction(instruction, super::lab::ALL_OPEN);
        judge(lab, format_args!("{instruction:?} at EL1"), &outcome, syndrome);
    }
    lab.renew();
    lab.score.section(format_args!("UNDEFINED at EL1"));
}

/// EL0: POR_EL0 traps by CPACR_EL1.E0POE, the others are UNDEFINED.
fn traps(lab: &mut Lab) {
    lab.set(lab.base(false));
    let svc = Some(0x15 << 26 | 1 << 25 | 0x50);
    // ISS of a trapped MRS x1 or MSR, POR_EL0 = S3_3_C10_C2_4: Op0, Op2, Op1, CRn, Rt, CRm, direction.
    let trap =
        |read: u64| Some(EC_TRAP << 26 | 1 << 25 | 3 << 20 | 4 << 17 | 3 << 14 | 10 << 10 | 1 << 5 | 2 << 1 | read);
    for enabled in [false, true] {
        if lab.has.poe {
            let cpacr = cpu::cpacr::read() & !cpu::CPACR_E0POE;
            // SAFETY: concerns POR_EL0 at EL0 alone.
            unsafe { cpu::cpacr::write(if enabled { cpacr | cpu::CPACR_E0POE } else { cpacr }) };
            cpu::isb();
        }
        let (read, write) = match (lab.has.poe, enabled) {
            (false, _) => (Some(UNDEFINED), Some(UNDEFINED)),
            (true, false) => (trap(1), trap(0)),
            (true, true) => (svc, svc),
        };
        for (name, code, syndrome) in [
            ("MRS POR_EL0 at EL0", UserCode::ReadPor0, read),
            ("MSR POR_EL0 at EL0", UserCode::WritePor0, write),
            ("MRS POR_EL1 at EL0", UserCode::ReadPor1, Some(UNDEFINED)),
            ("MRS PIR_EL1 at EL0", UserCode::ReadPir, Some(UNDEFINED)),
            ("MRS PIRE0_EL1 at EL0", UserCode::ReadPire0, Some(UNDEFINED)),
            ("MRS TCR2_EL1 at EL0", UserCode::ReadTcr2, Some(UNDEFINED)),
        ] {
            let outcome = lab.prober.user(lab.target(), code, 0, super::lab::ALL_OPEN);
            judge(lab, format_args!("{name}"), &outcome, syndrome);
        }
        if lab.has.poe {
            let outcome = lab.prober.instruction(Instruction::ReadPor0, 0);
            judge(lab, format_args!("MRS POR_EL0 at EL1"), &outcome, None);
        }
    }
    if lab.has.poe {
        // SAFETY: as above.
        unsafe { cpu::cpacr::write(cpu::cpacr::read() & !cpu::CPACR_E0POE) };
    }
    lab.renew();
    lab.score.section(format_args!("EL0's register accesses"));
}
