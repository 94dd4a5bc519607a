//! The machine's memory as a whole: what every address space and kernel area works with.

use crate::addr::Frame;
use crate::asid::Asids;
use crate::desc::Level;
use crate::frame::{Frames, OutOfMemory};
use crate::kernel::KernelRoot;
use crate::pool::TablePool;
use crate::table::Table;
use pkeys::{Context, Policy, Token};

/// Frames, tables, address-space identifiers and the kernel's root. One for the whole machine.
#[derive(Debug)]
pub struct Memory {
    /// Frames of RAM.
    pub frames: &'static Frames,
    /// Tables.
    pub pool: TablePool,
    /// Address-space identifiers.
    pub asids: Asids,
    /// The kernel's tables.
    pub kernel: KernelRoot,
    /// A table without entries, for TTBR0 while no space is active ([`crate::kernel::Builder::spare_table`]).
    pub empty_root: Frame,
}

impl Memory {
    /// Takes a table for `level` from the pool.
    ///
    /// # Errors
    /// Out of memory.
    #[inline]
    pub fn take_table<P: Policy, C: Context>(
        &self,
        token: Token<'_, P, C>,
        level: Level,
    ) -> Result<Table<C>, OutOfMemory> {
        self.pool.take(token, self.frames, &self.kernel, level)
    }

    /// Puts an empty table back that nothing leads to and no TLB knows.
    #[inline]
    pub fn put_table<P: Policy, C: Context>(&self, token: Token<'_, P, C>, table: Table<C>) {
        self.pool.put(token, self.frames, &self.kernel, table);
    }
}
