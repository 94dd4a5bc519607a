//! Protection keys: which keys exist, what POR_EL1 holds in which context, and the guards that open a context.
//!
//! | module | holds |
//! |---|---|
//! | [`key`] | the keys, the permissions of an overlay, the POR layout |
//! | [`pi`] | the indirect permission indices: one of its own for each gated key |
//! | [`context`] | what may be open, as constants |
//! | [`gate`] | how a context is opened: POR_EL1, the mock register, or not at all |
//! | [`section`] | policies (off, per-write, batched), sections and the tokens that permit a write |
//! | [`emulation`] | the pure part of POR_EL1 on a CPU that has S1PIE alone |
//!
//! This crate knows nothing of page tables: `mm` takes its tokens as proof that a write may happen.
#![no_std]

pub mod context;
pub mod emulation;
pub mod gate;
pub mod key;
pub mod pi;
pub mod section;

pub use context::{Context, KernelTables, UserTables};
pub use gate::{Gate, MockGate, NoGate, PorGate};
pub use key::{Overlay, Pkey, Por};
pub use section::{Batched, Off, PerWrite, Policy, Section, Token};
