//! What may be open. A context is a type, so that a token for one kind of table does not pass for another.

use crate::key::{Overlay, Pkey, Por};

mod sealed {
    pub trait Sealed {}
}

/// A set of keys that a section opens. The value is a constant: opening never reads the register.
pub trait Context: sealed::Sealed + 'static {
    /// POR_EL1 while the context is open.
    const OPEN: Por;
    /// The key whose frames it may write.
    const KEY: Pkey;
}

/// May write the tables of user address spaces, and no others.
#[derive(Debug)]
pub struct UserTables;

/// May write the kernel's tables, and no others.
#[derive(Debug)]
pub struct KernelTables;

impl sealed::Sealed for UserTables {}
impl Context for UserTables {
    const KEY: Pkey = Pkey::UserTables;
    const OPEN: Por = Por::CLOSED.with(Pkey::UserTables, Overlay::RW);
}

impl sealed::Sealed for KernelTables {}
impl Context for KernelTables {
    const KEY: Pkey = Pkey::KernelTables;
    const OPEN: Por = Por::CLOSED.with(Pkey::KernelTables, Overlay::RW);
}
