//! Other permissions for a range.

use super::populate::table_end;
use super::{AddressSpace, Protection, SpaceError, index, user_range};
use crate::addr::PageRange;
use crate::desc::{LeafBits, Level};
use crate::tlb::{self, Stale};
use pkeys::section::ArchOf;
use pkeys::{Policy, Section, Token, UserTables};

impl<P: Policy> AddressSpace<P> {
    /// Gives `range` another protection. Pages that become writable stay write-protected until they are written to, as they
    /// may be shared.
    ///
    /// # Errors
    /// Where regions do not cover the range, or the heap has no room for a region that falls in two. Nothing has changed then.
    pub fn protect(&mut self, range: PageRange, protection: Protection) -> Result<(), SpaceError> {
        let (start, end) = user_range(range)?;
        self.regions.covers(start, end).map_err(|page| SpaceError::Unmapped { page })?;
        self.regions.protect(start, end, protection)?;
        let bits = self.leaf_bits(protection).write_protected();
        let section = Section::<P, UserTables>::open();
        let changed = self.rewrite(section.token(), start, end, bits);
        let stale = if changed { self.stale(range) } else { Stale::Nothing };
        section.end(|| tlb::flush::<ArchOf<P>>(stale));
        Ok(())
    }

    /// Puts every page from `start` to `end` under `bits`; whether any entry changed.
    fn rewrite(&self, token: Token<'_, P, UserTables>, start: u64, end: u64, bits: LeafBits) -> bool {
        let mut changed = false;
        let mut page = start;
        while page < end {
            let next = table_end(page).min(end);
            if let Some(table) = self.leaf_table(page) {
                let at = index(Level::L3, page);
                for entry in &table.entries()[at..at + (next - page) as usize] {
                    let old = entry.get();
                    let new = old.with_bits(bits);
                    if old.is_valid() && new != old {
                        entry.set(token, new);
                        changed = true;
                    }
                }
            }
            page = next;
        }
        changed
    }
}
