//! The TLB protocol: the order of store, barrier, invalidation and barrier, as functions and no habit
//! (Arm ARM D8.17).
//!
//! [`publish`] and [`flush`] end in an ISB, so that a section's closing register write, which comes before them, needs none of its own.

use crate::addr::PageRange;
use platform::arch::{Arch, Asid, Synced};

/// Pages of one address space above which its whole ASID is invalidated instead.
const ASID_THRESHOLD: u64 = 64;
/// Kernel pages above which everything is invalidated instead (Linux's MAX_DVM_OPS).
const KERNEL_THRESHOLD: u64 = 512;

/// What has to leave the TLBs, and the walkers' caches of table entries with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Stale {
    /// Nothing: no CPU can hold anything of it.
    Nothing,
    /// Pages of one address space.
    Pages(Asid, PageRange),
    /// Pages of the kernel's half, or one page of a block there.
    Kernel(PageRange),
    /// All that is not the kernel's, of one ASID.
    Space(Asid),
    /// Everything.
    All,
}

/// Makes entries that were invalid and are now valid known to all walkers: DSB ISHST; ISB.
#[inline(always)]
pub fn publish<A: Arch>() -> Synced {
    A::dsb_ishst();
    A::isb()
}

/// Makes changed or cleared entries known and their old contents forgotten, everywhere: DSB ISHST; TLBI…; DSB ISH. What
/// they named may be reused after this. An ISB has to follow before this CPU itself relies on the change.
#[inline]
pub fn shoot_down<A: Arch>(stale: Stale) {
    A::dsb_ishst();
    if stale != Stale::Nothing {
        invalidate::<A>(stale);
        A::dsb_ish();
    }
}

/// [`shoot_down`] and the ISB.
#[inline]
pub fn flush<A: Arch>(stale: Stale) -> Synced {
    shoot_down::<A>(stale);
    A::isb()
}

fn invalidate<A: Arch>(stale: Stale) {
    match stale {
        Stale::Nothing => {}
        Stale::Pages(asid, range) if range.count() <= ASID_THRESHOLD => {
            range.iter().for_each(|page| A::tlbi_page(asid, page.start().get()));
        }
        Stale::Kernel(range) if range.count() <= KERNEL_THRESHOLD => {
            range.iter().for_each(|page| A::tlbi_page_global(page.start().get()));
        }
        Stale::Pages(asid, _) | Stale::Space(asid) => A::tlbi_asid(asid),
        Stale::Kernel(_) | Stale::All => A::tlbi_all(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::{Page, VirtAddr};
    use platform::arch::{Op, Recorder};
    use std::vec;

    fn range(pages: u64) -> PageRange {
        PageRange::new(Page::from_start(VirtAddr::new(0x40_0000).unwrap()).unwrap(), pages).unwrap()
    }

    fn recorded(stale: Stale) -> std::vec::Vec<Op> {
        Recorder::take();
        let _ = flush::<Recorder>(stale);
        Recorder::take()
    }

    #[test]
    fn the_order_is_dsb_tlbi_dsb_isb() {
        let asid = Asid(7);
        let pages = recorded(Stale::Pages(asid, range(2)));
        let tlbi = |va| Op::TlbiPage(asid, va);
        assert_eq!(pages, vec![Op::DsbIshst, tlbi(0x40_0000), tlbi(0x40_1000), Op::DsbIsh, Op::Isb]);
        assert_eq!(recorded(Stale::Space(asid)), vec![Op::DsbIshst, Op::TlbiAsid(asid), Op::DsbIsh, Op::Isb]);
        assert_eq!(recorded(Stale::All), vec![Op::DsbIshst, Op::TlbiAll, Op::DsbIsh, Op::Isb]);
        assert_eq!(recorded(Stale::Nothing), vec![Op::DsbIshst, Op::Isb]);
    }

    #[test]
    fn long_ranges_become_one_tlbi() {
        assert_eq!(recorded(Stale::Pages(Asid(7), range(65)))[1], Op::TlbiAsid(Asid(7)));
        assert_eq!(recorded(Stale::Kernel(range(513)))[1], Op::TlbiAll);
        assert_eq!(recorded(Stale::Kernel(range(512))).len(), 515);
    }
}
