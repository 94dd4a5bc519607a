//! The host's stand-in: it records instead of executing.

use super::{Arch, Asid, Synced};
use std::cell::RefCell;
use std::vec::Vec;

/// One recorded operation, with its operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `ISB`.
    Isb,
    /// `DSB ISHST`.
    DsbIshst,
    /// `DSB ISH`.
    DsbIsh,
    /// `TLBI VAE1IS`.
    TlbiPage(Asid, u64),
    /// `TLBI VAAE1IS`.
    TlbiPageGlobal(u64),
    /// `TLBI ASIDE1IS`.
    TlbiAsid(Asid),
    /// `TLBI VMALLE1IS`.
    TlbiAll,
    /// `MSR POR_EL1`.
    Por(u64),
    /// `MSR CONTEXTIDR_EL1`.
    Contextidr(u64),
    /// `MSR TTBR0_EL1`.
    Ttbr0(u64),
    /// A store of `value` to the table entry at `address`, as `mm` tells it.
    Store {
        /// The entry's physical address.
        address: u64,
        /// The descriptor stored.
        value: u64,
    },
    /// The page at this host address was zeroed.
    Zero(u64),
}

std::thread_local! {
    static LOG: RefCell<(Vec<Op>, u64)> = const { RefCell::new((Vec::new(), 0)) };
}

/// Records every operation of the current thread.
pub struct Recorder;

impl Recorder {
    /// Takes what was recorded so far.
    pub fn take() -> Vec<Op> {
        LOG.with(|log| core::mem::take(&mut log.borrow_mut().0))
    }

    /// Adds an operation that is no method of [`Arch`] (a table store).
    pub fn push(op: Op) {
        LOG.with(|log| log.borrow_mut().0.push(op));
    }

    /// Presets what POR_EL1 reads as, without recording a write.
    pub fn preset_por(value: u64) {
        LOG.with(|log| log.borrow_mut().1 = value);
    }
}

// SAFETY: no CPU translates by the host's simulated tables, and each test thread has a log, and a CPU, of its own.
unsafe impl Arch for Recorder {
    fn isb() -> Synced {
        Self::push(Op::Isb);
        Synced(())
    }
    fn dsb_ishst() {
        Self::push(Op::DsbIshst);
    }
    fn dsb_ish() {
        Self::push(Op::DsbIsh);
    }
    fn tlbi_page(asid: Asid, va: u64) {
        Self::push(Op::TlbiPage(asid, va));
    }
    fn tlbi_page_global(va: u64) {
        Self::push(Op::TlbiPageGlobal(va));
    }
    fn tlbi_asid(asid: Asid) {
        Self::push(Op::TlbiAsid(asid));
    }
    fn tlbi_all() {
        Self::push(Op::TlbiAll);
    }
    unsafe fn write_por(value: u64) {
        Self::push(Op::Por(value));
        Self::preset_por(value);
    }
    fn read_por() -> u64 {
        LOG.with(|log| log.borrow().1)
    }
    fn write_contextidr(value: u64) {
        Self::push(Op::Contextidr(value));
    }
    fn write_ttbr0(value: u64) {
        Self::push(Op::Ttbr0(value));
    }
    fn note_store(address: u64, value: u64) {
        Self::push(Op::Store { address, value });
    }
    fn cpu() -> usize {
        0
    }
    fn irq_save() -> u64 {
        0
    }
    fn irq_restore(_daif: u64) {}
    unsafe fn zero_page(page: *mut u8) {
        Self::push(Op::Zero(page.addr() as u64));
        // SAFETY: the caller owns the 4 KiB at `page`.
        unsafe { page.write_bytes(0, 4096) }
    }
    unsafe fn copy_page(from: *const u8, to: *mut u8) {
        // SAFETY: the caller may read `from` and owns `to`; they do not overlap.
        unsafe { core::ptr::copy_nonoverlapping(from, to, 4096) }
    }
}
