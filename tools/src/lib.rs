//! Host-side tools: [`image`] and [`symtab`] make a linked kernel bootable (`palisade-image`), [`dtb`] changes the
//! memory that a device tree describes (`palisade-dtb`).

pub mod dtb;
pub mod image;
pub mod symtab;
