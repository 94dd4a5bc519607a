//! mm

#![no_std]

#[cfg(not(target_os = "none"))]
extern crate std;

pub mod addr;
pub mod frame;
pub mod linear;
