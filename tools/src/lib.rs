//! Host-side tools: [`image`] and [`symtab`] make a linked kernel bootable (`palisade-image`), [`dtb`] and
//! [`bundle`] show it other memory than the machine has (`palisade-dtb`).

pub mod bundle;
pub mod dtb;
pub mod header;
pub mod image;
pub mod symtab;
