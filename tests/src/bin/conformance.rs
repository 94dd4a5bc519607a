//! Judges the CPU or emulator, not the kernel: FEAT_S1PIE, FEAT_S1POE and what belongs to them, by the Arm ARM.
//! qemu: --gate none --smp 2 --timeout 120
//! expect: 0
//! line: ^conformance: [0-9]+ cases, 0 wrong
#![no_std]
#![no_main]

#[path = "../conformance/mod.rs"]
mod conformance;

palisade::kernel_main!(conformance::main);
