//! Damaged device trees: whatever is broken, [`Machine::parse`] says so or reads something; it neither panics nor hangs.

use platform::machine::Machine;
use proptest::prelude::*;

const SAMPLES: [&[u8]; 3] = [
    include_bytes!("dtb/virt-gicv3-4cpu.dtb"),
    include_bytes!("dtb/virt-initrd.dtb"),
    include_bytes!("dtb/virt-secure.dtb"),
];

fn read(blob: &[u8]) {
    if let Err(error) = Machine::parse(blob, 0x4400_0000) {
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn cut_off_anywhere() {
    for sample in SAMPLES {
        for len in (0..sample.len()).step_by(7) {
            assert!(Machine::parse(&sample[..len], 0).is_err(), "cut at {len}");
        }
    }
}

/// Cut off, with a header that agrees: total size and the strings' size (they come last) made to fit.
#[test]
fn cut_off_with_a_fitting_header() {
    for sample in SAMPLES {
        for len in (40..sample.len()).step_by(3) {
            let mut blob = sample[..len].to_vec();
            let strings = u32::from_be_bytes(blob[12..16].try_into().unwrap());
            blob[4..8].copy_from_slice(&(len as u32).to_be_bytes());
            blob[32..36].copy_from_slice(&(len as u32).saturating_sub(strings).to_be_bytes());
            read(&blob);
        }
    }
}

/// Every word set to values that lengths, offsets, tokens and cell counts go wrong with.
#[test]
fn every_word_replaced() {
    let sample = SAMPLES[1];
    let mut blob = sample.to_vec();
    for at in (0..sample.len() - 3).step_by(4) {
        for value in [0u32, 2, 3, 0x7fff_ffff, u32::MAX] {
            blob[at..at + 4].copy_from_slice(&value.to_be_bytes());
            read(&blob);
        }
        blob[at..at + 4].copy_from_slice(&sample[at..at + 4]);
    }
}

proptest! {
    #[test]
    fn bytes_flipped(which in 0..SAMPLES.len(), flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12)) {
        let mut blob = SAMPLES[which].to_vec();
        for (index, byte) in flips {
            let at = index.index(blob.len());
            blob[at] = byte;
        }
        read(&blob);
    }

    #[test]
    fn noise(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        read(&bytes);
    }
}
