//! When memory is full the heap says so to those who ask first, and is whole again when they have given it back.
//! qemu: --memory 128M
//! expect: 0
#![no_std]
#![no_main]

extern crate alloc;

use alloc::vec::Vec;

palisade::kernel_main!(main);

const PIECE: usize = 1 << 20;

fn fill() -> Vec<Vec<u8>> {
    let mut pieces = Vec::with_capacity(1024);
    loop {
        let mut piece = Vec::new();
        if piece.try_reserve_exact(PIECE).is_err() {
            return pieces;
        }
        piece.resize(PIECE, 0x5a);
        pieces.push(piece);
    }
}

fn main(boot: &palisade::Boot) -> u32 {
    let first = fill();
    palisade::println!("{} pieces of 1 MiB", first.len());
    assert!(first.len() > 64, "most of 128 MiB are the heap's to have");
    assert!(first.iter().all(|piece| piece.iter().all(|byte| *byte == 0x5a)), "no piece overlaps another");
    assert!(boot.memory.frames.stats().free() * 4096 < 4 << 20);
    let had = first.len();
    drop(first);
    assert_eq!(fill().len(), had);
    let mut huge = Vec::<u8>::new();
    assert!(huge.try_reserve_exact(1 << 40).is_err());
    0
}
