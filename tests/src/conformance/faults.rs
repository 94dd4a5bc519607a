//! Clean leaves, faults other than Permission faults, and what may be held in a TLB.

use super::attempt::{Access, Outcome, failed_translation, is_abort};
use super::cpu;
use super::lab::{INDEX, Lab};
use super::rules::{Leaf, Setting, with_field};

/// Every section of this module.
pub fn run(lab: &mut Lab) {
    if lab.has.pie {
        clean(lab);
    }
    other_faults(lab);
    if lab.has.pie {
        caching(lab);
    }
}

/// Leaf, base permissions and overlays of one number each.
fn setting(lab: &Lab, base: u8, overlay: u8) -> Setting {
    let poe = lab.has.poe;
    let setting = lab.base(lab.has.pie);
    let po_index = setting.leaf.po_index;
    Setting {
        poe,
        e0poe: poe,
        pir: with_field(setting.pir, INDEX, base),
        pire0: with_field(setting.pire0, INDEX, base),
        por: with_field(setting.por, po_index, overlay),
        por0: with_field(setting.por0, po_index, overlay),
        ..setting
    }
}

/// R_PPGMC, and D8.15.5.1: dirty state comes last.
fn clean(lab: &mut Lab) {
    for level in [3, 2, 1] {
        for base in 0..16 {
            for overlay in [7, 3, 5, 0] {
                let setting = setting(lab, base, overlay);
                let leaf = Leaf { bit7: true, level, ..setting.leaf };
                lab.check_all(Setting { leaf, ..setting }, &Access::ALL);
                lab.check_all(Setting { leaf, ..setting }, &Access::TRANSLATIONS);
            }
        }
    }
    lab.score.section(format_args!("clean leaves"));
}

/// Translation and Access flag faults come first, whatever the overlay says, and have no Overlay bit (D8.15.5, D24.2 "ESR_EL1").
fn other_faults(lab: &mut Lab) {
    for (base, overlay) in [(5, 7), (5, 0), (0, 0)] {
        for access in Access::ALL.into_iter().chain(Access::TRANSLATIONS) {
            let setting = setting(lab, base, overlay);
            if !lab.possible(&setting, access) {
                continue;
            }
            // EL0's own code lies below the same root and level 1 table.
            let first = if matches!(access, Access::UserLoad | Access::UserStore) { 2 } else { 0 };
            for level in first..4 {
                let outcome = lab.with_descriptor(setting, level, |_| 0, access);
                judge(lab, access, &outcome, 0b000100 | u64::from(level));
            }
            for level in 1..4 {
                let setting = Setting { leaf: Leaf { level, ..setting.leaf }, ..setting };
                let outcome = lab.with_descriptor(setting, level, |leaf| leaf & !(1 << 10), access);
                judge(lab, access, &outcome, 0b001000 | u64::from(level));
            }
        }
    }
    lab.score.section(format_args!("Translation and Access flag faults"));
}

fn judge(lab: &mut Lab, access: Access, outcome: &Outcome, status: u64) {
    let right = match access {
        Access::At(_) => outcome.value & 0x0000_ffff_ffff_ffff == failed_translation(status, None),
        _ => is_abort(access, outcome, lab.target(), access.syndrome(status, 0), lab.pstate()),
    };
    lab.score.judge(right, format_args!("{access:?}: fault status {status:#08b} expected; {outcome}"));
}

/// Each change of a leaf or a register that decides, right after an access that the TLB may remember: overlays with an ISB alone, all
/// else with a TLBI. Every section does that too; here the entry is surely there.
fn caching(lab: &mut Lab) {
    for access in Access::ALL {
        for (before, after) in [(7, 0), (0, 7), (3, 4), (4, 3), (7, 8)] {
            if lab.has.poe {
                lab.check(setting(lab, 3, before), access);
                lab.check(setting(lab, 3, after), access);
                let enabled = setting(lab, 3, before);
                lab.check(Setting { poe: false, e0poe: false, ..enabled }, access);
                lab.check(enabled, access);
                keyed(lab, access, before, after);
            }
            lab.check(setting(lab, 3, 7), access);
            lab.check(setting(lab, 5, 7), access);
            lab.check(setting(lab, 0, 7), access);
        }
    }
    lab.score.section(format_args!("changes under entries that the TLB knows"));
    if lab.has.poe {
        user_writes(lab);
    }
}

/// POIndex, whose change takes a TLBI.
fn keyed(lab: &mut Lab, access: Access, before: u8, after: u8) {
    let setting = setting(lab, 1, before);
    for po_index in [3, 4, 3] {
        let leaf = Leaf { po_index, ..setting.leaf };
        let [por, por0] = [setting.por, setting.por0].map(|por| with_field(por, 4, after));
        lab.check(Setting { leaf, por, por0, ..setting }, access);
    }
}

/// POR_EL0 as written by EL0 itself.
fn user_writes(lab: &mut Lab) {
    use super::attempt::UserCode;
    let open = setting(lab, 5, 7);
    lab.set(open);
    // SAFETY: lets EL0 reach POR_EL0.
    unsafe { cpu::cpacr::write(cpu::cpacr::read() | cpu::CPACR_E0POE) };
    cpu::isb();
    for value in 0..16 {
        let wanted = setting(lab, 5, value);
        let kept = with_field(wanted.por0, 7, 7);
        lab.prober.user(lab.target(), UserCode::WritePor0, 0, kept);
        lab.score.judge(cpu::por0::read() == kept, format_args!("POR_EL0 as EL0 wrote it: {kept:#x} expected"));
        let back = lab.prober.user(lab.target(), UserCode::ReadPor0, 0, 0);
        lab.score.judge(back.value == kept, format_args!("POR_EL0 as EL0 reads it: {kept:#x} expected; {back}"));
        lab.assume(Setting { por0: wanted.por0, ..open });
        for access in [Access::UserLoad, Access::UserStore, Access::UserFetch, Access::Ldtr, Access::Load] {
            lab.check(Setting { por0: wanted.por0, ..open }, access);
        }
    }
    // SAFETY: EL0 no longer reaches POR_EL0.
    unsafe { cpu::cpacr::write(cpu::cpacr::read() & !cpu::CPACR_E0POE) };
    cpu::isb();
    lab.score.section(format_args!("POR_EL0 written by EL0"));
}
