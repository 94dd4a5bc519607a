//! Permissions: every value that decides, times every kind of access.

use super::attempt::Access;
use super::cpu::Translate;
use super::lab::{ALL_OPEN, FREE, INDEX, Lab};
use super::rules::{Hierarchy, Leaf, Setting, with_field};

const PRIVILEGED: [Access; 5] =
    [Access::Load, Access::Store, Access::Swap, Access::At(Translate::S1E1R), Access::At(Translate::S1E1W)];
const UNPRIVILEGED: [Access; 4] =
    [Access::Ldtr, Access::Sttr, Access::At(Translate::S1E0R), Access::At(Translate::S1E0W)];
const EL0_DATA: [Access; 2] = [Access::UserLoad, Access::UserStore];

/// Every section of this module.
pub fn run(lab: &mut Lab) {
    if lab.has.pie {
        indices(lab);
        without_overlays(lab);
        pairs(lab, false);
    }
    direct(lab);
    hierarchy(lab);
    if lab.has.poe {
        keys(lab);
        if lab.has.pie {
            privileged(lab);
            unprivileged(lab);
            pairs(lab, true);
        }
        direct_overlays(lab);
    }
    switches(lab);
    blocks(lab);
}

/// `setting` with the leaf's own fields of PIR_EL1 and PIRE0_EL1.
fn with_pi(setting: Setting, inner: u8, outer: u8) -> Setting {
    let index = setting.leaf.pi_index;
    Setting { pir: with_field(setting.pir, index, inner), pire0: with_field(setting.pire0, index, outer), ..setting }
}

/// `setting` with the leaf's own fields of POR_EL1 and POR_EL0.
fn with_po(setting: Setting, inner: u8, outer: u8) -> Setting {
    let index = setting.leaf.po_index;
    Setting { por: with_field(setting.por, index, inner), por0: with_field(setting.por0, index, outer), ..setting }
}

/// `setting` with another key.
fn with_key(setting: Setting, po_index: u8) -> Setting {
    Setting { leaf: Leaf { po_index, ..setting.leaf }, ..setting }
}

/// Table D8-67: PIIndex selects its field and no other.
fn indices(lab: &mut Lab) {
    for pi_index in FREE {
        let base = lab.base(true);
        let leaf = Leaf { pi_index, ..base.leaf };
        for (others, own) in [(0x0000_0000_0000_0000, 0x5), (0x5555_5555_5555_5555, 0)] {
            let setting = Setting { leaf, pir: others, pire0: others, ..base };
            lab.check_all(with_pi(setting, own, own), &Access::ALL);
            lab.check_all(with_pi(setting, own, own), &Access::TRANSLATIONS);
        }
    }
    lab.score.section(format_args!("PIE=1 POE=0 PIIndex"));
}

/// Table D8-68 with overlays off, where the registers of overlays must not count.
fn without_overlays(lab: &mut Lab) {
    for value in 0..16 {
        for (inner, outer) in [(value, 0), (0, value), (value, value)] {
            let setting = with_pi(lab.base(true), inner, outer);
            for por in [0, ALL_OPEN] {
                let setting = Setting { por, por0: por, ..setting };
                lab.check_all(setting, &Access::ALL);
                lab.check_all(setting, &Access::TRANSLATIONS);
                lab.check(setting, Access::Swap);
            }
        }
    }
    lab.score.section(format_args!("PIE=1 POE=0 all accesses"));
}

/// R_VFPJF, R_TBKKB, and with overlays that neither looks at these: PIR_EL1 times PIRE0_EL1 times PAN, by every access.
fn pairs(lab: &mut Lab, overlays: bool) {
    // POR_EL1, POR_EL0.
    let cases: &[(u8, u8)] = if overlays { &[(7, 7), (7, 0), (3, 5)] } else { &[(7, 7)] };
    for inner in 0..16 {
        for outer in 0..16 {
            let setting = with_pi(Setting { poe: overlays, e0poe: overlays, ..lab.base(true) }, inner, outer);
            for (por, por0) in cases {
                // EPAN does not count with indirect permissions.
                for (pan, epan) in [(false, false), (true, false), (true, true)] {
                    let setting = with_po(Setting { pan, epan, ..setting }, *por, *por0);
                    lab.check_all(setting, &Access::ALL);
                    lab.check_all(setting, &Access::TRANSLATIONS);
                }
            }
        }
    }
    lab.score
        .section(format_args!("PIE=1 POE={} PIR_EL1 times PIRE0_EL1, PAN and EPAN off and on", u8::from(overlays)));
}

/// Settings with every combination of UXN, PXN, DBM and AP.
fn direct_leaves(base: Setting) -> impl Iterator<Item = Setting> {
    (0..32).map(move |bits: u8| {
        let leaf = Leaf { pi_index: bits & 15, bit7: bits & 16 != 0, ..base.leaf };
        Setting { leaf, ..base }
    })
}

/// Tables D8-63 and D8-65, with WXN and PAN. Indices that the kernel needs differ from it in PIR_EL1 alone, which does not count here.
fn direct(lab: &mut Lab) {
    for wxn in [false, true] {
        for setting in direct_leaves(Setting { wxn, por: 0, por0: 0, ..lab.base(false) }) {
            for bits in 0..8_u8 {
                let setting = Setting { pan: bits & 1 != 0, uao: bits & 2 != 0, epan: bits & 4 != 0, ..setting };
                lab.check_all(setting, &Access::ALL);
                lab.check_all(setting, &Access::TRANSLATIONS);
                lab.check(setting, Access::Swap);
            }
        }
    }
    lab.score.section(format_args!("PIE=0 POE=0 all accesses, WXN, PAN, UAO and EPAN off and on"));
}

/// Table D8-64, R_RLQFP, R_NJJNG; and R_JHSVW, R_BVXDG, HPD0, which switch them off.
fn hierarchy(lab: &mut Lab) {
    for bits in 1..16_u8 {
        let above = Hierarchy { ap: bits & 3, uxn: bits & 4 != 0, pxn: bits & 8 != 0 };
        let base = Setting { above, ..lab.base(false) };
        for leaf in [(1, false), (1, true), (0, false)] {
            let leaf = Leaf { pi_index: leaf.0, bit7: leaf.1, ..base.leaf };
            for (hpd, poe, e0poe) in
                [(false, false, false), (true, false, false), (false, true, false), (false, false, true)]
            {
                lab.check_all(Setting { leaf, hpd, poe, e0poe, ..base }, &Access::ALL);
            }
        }
        let indirect = Setting { pie: true, hpd: false, ..base };
        for (inner, outer) in [(5, 7), (7, 3)] {
            lab.check_all(with_pi(indirect, inner, outer), &Access::ALL);
        }
    }
    lab.score.section(format_args!("hierarchical permissions, on and off"));
}

/// Table D8-72: POIndex selects its field and no other, and fields 8 to 15 do not count.
fn keys(lab: &mut Lab) {
    for po_index in 0..8 {
        for pie in [false, true] {
            let base = with_key(Setting { poe: true, e0poe: true, ..lab.base(pie) }, po_index);
            let base = with_pi(Setting { leaf: Leaf { pi_index: 1, ..base.leaf }, ..base }, 5, 7);
            for (others, own) in [(0, 7), (!0 / 15 * 7, 0), (!0 / 15 * 3, 5), (!0 / 15 * 5, 3)] {
                // Key 0 is the kernel's own; EL1 keeps it.
                let inner = if po_index == 0 { 7 } else { own };
                lab.check_all(with_po(Setting { por: others, por0: others, ..base }, inner, own), &Access::ALL);
            }
        }
    }
    lab.score.section(format_args!("POE=1 POIndex"));
}

/// PIR_EL1 times POR_EL1 times key, by every privileged access.
fn privileged(lab: &mut Lab) {
    for (name, accesses) in [("data", &PRIVILEGED[..]), ("fetch", &[Access::Fetch][..])] {
        for po_index in 1..8 {
            for inner in 0..16 {
                let base = with_key(Setting { poe: true, ..lab.base(true) }, po_index);
                let setting = with_pi(base, inner, 0);
                for por in 0..16 {
                    lab.check_all(with_po(setting, por, 7), accesses);
                }
            }
        }
        lab.score.section(format_args!("PIE=1 POE=1 privileged {name}"));
    }
}

/// PIRE0_EL1 times POR_EL0 times key, by every unprivileged access.
fn unprivileged(lab: &mut Lab) {
    for (name, accesses) in
        [("EL0 data", &EL0_DATA[..]), ("EL0 fetch", &[Access::UserFetch][..]), ("LDTR, STTR", &UNPRIVILEGED[..])]
    {
        for po_index in 0..8 {
            for outer in 0..16 {
                let base = with_key(Setting { e0poe: true, ..lab.base(true) }, po_index);
                let setting = with_pi(base, 0, outer);
                for por0 in 0..16 {
                    lab.check_all(with_po(setting, 7, por0), accesses);
                }
            }
        }
        lab.score.section(format_args!("PIE=1 E0POE=1 {name}"));
    }
}

/// Direct permissions times POR_EL1 and POR_EL0, WXN off and on.
fn direct_overlays(lab: &mut Lab) {
    for wxn in [false, true] {
        let base = Setting { wxn, poe: true, e0poe: true, ..lab.base(false) };
        for setting in direct_leaves(base) {
            for por in 0..16 {
                lab.check_all(with_po(setting, por, por), &Access::ALL);
                lab.check_all(with_po(setting, por, 15 - por), &Access::TRANSLATIONS);
            }
        }
    }
    lab.score.section(format_args!("PIE=0 POE=1 E0POE=1 all accesses, WXN off and on"));
}

/// Every combination of PIE, POE, E0POE, PAN and UAO.
fn switches(lab: &mut Lab) {
    for bits in 0..32_u8 {
        let on = |bit: u8| bits >> bit & 1 != 0;
        // DBM is 0 and AP[1] is 1: with direct permissions, EL0 reads and writes.
        let base = lab.base(on(4));
        let setting = Setting {
            leaf: Leaf { pi_index: 1, ..base.leaf },
            poe: on(3),
            e0poe: on(2),
            pan: on(1),
            uao: on(0),
            ..base
        };
        for (inner, outer) in [(5, 5), (5, 0), (5, 7), (7, 3), (1, 0xc), (6, 1), (1, 6), (0xe, 0xa), (4, 4)] {
            for (por, por0) in [(7, 7), (1, 7), (7, 1), (0, 7), (7, 0), (2, 4), (4, 2), (6, 5), (8, 15)] {
                let setting = with_po(with_pi(setting, inner, outer), por, por0);
                lab.check_all(setting, &Access::ALL);
                lab.check_all(setting, &Access::TRANSLATIONS);
            }
        }
    }
    lab.score.section(format_args!("PIE, POE, E0POE, PAN and UAO, off and on"));
}

/// Blocks of 2 MiB and 1 GiB.
fn blocks(lab: &mut Lab) {
    for level in [2, 1] {
        for value in 0..16 {
            for (poe, pors) in [(false, &[0][..]), (true, &[0, 1, 2, 4, 5, 7][..])] {
                let base = Setting { poe, e0poe: poe, ..lab.base(true) };
                let leaf = Leaf { level, pi_index: INDEX, bit7: false, po_index: 5 };
                for (inner, outer) in [(value, 0), (1, value)] {
                    let setting = with_pi(Setting { leaf, ..base }, inner, outer);
                    for por in pors {
                        lab.check_all(with_po(setting, *por, *por), &Access::ALL);
                        lab.check_all(with_po(setting, *por, *por), &Access::TRANSLATIONS);
                    }
                }
            }
        }
        for setting in direct_leaves(lab.base(false)) {
            let leaf = Leaf { level, ..setting.leaf };
            lab.check_all(Setting { leaf, ..setting }, &Access::ALL);
        }
        lab.score.section(format_args!("block at level {level}"));
    }
}
