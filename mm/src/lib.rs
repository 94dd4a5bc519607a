//! mm

#![no_std]

pub mod addr;
pub mod frame;
pub mod linear;
