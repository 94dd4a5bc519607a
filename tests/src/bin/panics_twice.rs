//! A panic while a panic is reported is said and ends the machine all the same.
//! expect: 101
//! line: another panic while reporting one
#![no_std]
#![no_main]

use core::fmt;

palisade::kernel_main!(main);

struct Unprintable;

impl fmt::Display for Unprintable {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("in a message")
    }
}

fn main(_boot: &palisade::Boot) -> u32 {
    panic!("{Unprintable}")
}
