//! Many pages with many keys in the TLB at once, and overlays that change under them: what an implementation that is sparing
//! with its TLB can get wrong.

use super::attempt::Access;
use super::lab::{FREE, Lab};
use super::rules::{Leaf, Setting, with_field};
use palisade_tests::kit::Random;

/// Accesses of a run.
const STEPS: u64 = 20_000;
/// Values of PIR_EL1 and PIRE0_EL1 for the free indices; few pairs of them are unsafe (R_VFPJF).
const PIR: [u8; 12] = [5, 7, 3, 1, 6, 0xc, 0xe, 2, 5, 5, 0xa, 7];
const PIRE0: [u8; 12] = [5, 0, 3, 7, 0, 7, 3, 3, 6, 0xe, 1, 7];

/// The section: runs with few pages that are used again and again, and with all.
pub fn run(lab: &mut Lab) {
    if !lab.has.poe || !lab.has.pie {
        return;
    }
    lab.link_crowd();
    for (pages, seed) in [(1, 1), (4, 2), (9, 3), (40, 4), (512, 5)] {
        let base = lab.base(true);
        // Among them is always a block.
        let block = Leaf { level: 2, po_index: 3, ..base.leaf };
        let mut setting = Setting { leaf: block, poe: true, e0poe: true, ..base };
        for (i, index) in FREE.into_iter().enumerate() {
            setting.pir = with_field(setting.pir, index, PIR[i]);
            setting.pire0 = with_field(setting.pire0, index, PIRE0[i]);
        }
        walk(lab, setting, pages, &mut Random::new(seed));
        lab.score.section(format_args!("{pages} pages and a block under changing overlays"));
    }
}

/// Accesses at random, with changes of POR_EL1, POR_EL0, PAN and the pages' keys between them.
fn walk(lab: &mut Lab, mut setting: Setting, pages: u64, random: &mut Random) {
    let mut keys: [u8; 512] = core::array::from_fn(|i| (i * 5 % 8) as u8);
    for i in 0..512 {
        lab.map_crowd(i, leaf(i, keys[i as usize]));
    }
    for _ in 0..STEPS {
        // Of those in use, which are spread over the addresses.
        let i = random.below(pages) * (512 / pages);
        let key = &mut keys[i as usize];
        match random.below(64) {
            // Key 0 of POR_EL1 is the kernel's own, key 7 of POR_EL0 that of EL0's code.
            0..8 => setting.por = with_field(setting.por, 1 + random.below(7) as u8, random.below(8) as u8),
            8..16 => setting.por0 = with_field(setting.por0, random.below(7) as u8, random.below(8) as u8),
            16 => setting.pan = !setting.pan && lab.has.pan2,
            17 => {
                *key = random.below(8) as u8;
                lab.map_crowd(i, leaf(i, *key));
            }
            _ => (),
        }
        lab.set(setting);
        let (target, leaf) =
            if random.below(pages + 1) == 0 { (lab.target(), setting.leaf) } else { (Lab::crowd(i), leaf(i, *key)) };
        lab.make(Setting { leaf, ..setting }, Access::ALL[random.below(8) as usize], target);
    }
}

/// The leaf of page `i` with this key.
fn leaf(i: u64, po_index: u8) -> Leaf {
    Leaf { level: 3, pi_index: FREE[(i % 12) as usize], bit7: false, po_index }
}
