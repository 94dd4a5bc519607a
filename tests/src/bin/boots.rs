//! A kernel comes up and ends well.
//! expect: 0
//! line: ^palisade: exit 0
#![no_std]
#![no_main]

palisade::kernel_main!(main);

fn main(boot: &palisade::Boot) -> u32 {
    let stats = boot.memory.frames.stats();
    palisade::println!("{} of {} frames are free", stats.free(), stats.total());
    u32::from(stats.free() == 0 || stats.free() > stats.total())
}
