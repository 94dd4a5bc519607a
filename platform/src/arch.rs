//! Barriers, TLB maintenance and the few system registers that the table code writes: the one place where these
//! instructions stand.
//!
//! Everything above is generic over [`Arch`]. [`Arm`] executes the instructions, [`Counted`] executes and counts them,
//! [`Recorder`] (host only) records them in order with their operands, so that tests can check a protocol step by step.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicU64, Ordering};

/// The largest number of CPUs that per-CPU arrays have room for.
pub const MAX_CPUS: usize = 64;

/// An address-space identifier as TTBR0_EL1 and TLBI operands hold it (8 or 16 bits; 0 is the kernel's own).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asid(pub u16);

/// Proof that a context synchronisation event has just been executed; only [`Arch::isb`] makes one.
#[derive(Debug)]
#[must_use]
pub struct Synced(());

/// Barriers, TLBIs and register writes of one PE (Arm ARM DDI 0487, D8.17 "TLB maintenance", B2.3 "barriers").
///
/// All TLBIs are broadcast to the Inner Shareable domain unless their name says local. None of them has a barrier of
/// its own: the callers in `mm::tlb` put those around.
///
/// # Safety
/// On a CPU, each method executes just the instruction that it names, for that operand, at its place in program order, and
/// no compiler moves memory accesses across it: `mm` frees frames in reliance on that. `cpu` is the running CPU's own number,
/// and interrupts stay masked from `irq_save` to its `irq_restore`.
pub unsafe trait Arch: 'static {
    /// `ISB`: a context synchronisation event.
    fn isb() -> Synced;
    /// `DSB ISHST`: earlier stores are visible to every table walker of the Inner Shareable domain.
    fn dsb_ishst();
    /// `DSB ISH`: earlier accesses and broadcast TLBIs are complete.
    fn dsb_ish();
    /// `TLBI VAE1IS`: one page's leaf and table entries, of one ASID. `va` is any address in the page.
    fn tlbi_page(asid: Asid, va: u64);
    /// `TLBI VAAE1IS`: one page's entries, of every ASID and global.
    fn tlbi_page_global(va: u64);
    /// `TLBI ASIDE1IS`: all non-global entries of one ASID.
    fn tlbi_asid(asid: Asid);
    /// `TLBI VMALLE1IS`: everything at EL1&0.
    fn tlbi_all();
    /// `MSR POR_EL1`; no barrier.
    ///
    /// # Safety
    /// The caller is a gate of `pkeys`, or code that turns protection off for a stretch as a whole and says so. `value` is
    /// a compile-time constant that leaves key 0 fully accessible.
    unsafe fn write_por(value: u64);
    /// `MRS POR_EL1`.
    fn read_por() -> u64;
    /// `MSR CONTEXTIDR_EL1`, the mock gate's stand-in for POR_EL1; no barrier.
    fn write_contextidr(value: u64);
    /// `MSR TTBR0_EL1`; no barrier.
    fn write_ttbr0(value: u64);
    /// Told of each store to a table, for recorders; executes nothing.
    #[inline(always)]
    fn note_store(_address: u64, _value: u64) {}
    /// The index of the CPU that runs this, below [`MAX_CPUS`].
    fn cpu() -> usize;
    /// Masks interrupts; returns the former DAIF for [`Arch::irq_restore`].
    fn irq_save() -> u64;
    /// Puts DAIF back to what [`Arch::irq_save`] returned.
    fn irq_restore(daif: u64);
    /// Zeroes a 4 KiB page.
    ///
    /// # Safety
    /// `page` is 4 KiB-aligned, mapped writable as normal memory, and nothing else refers to it.
    unsafe fn zero_page(page: *mut u8);
    /// Copies a 4 KiB page.
    ///
    /// # Safety
    /// Both are 4 KiB-aligned and mapped as normal memory, `to` writable and referred to by nothing else, and they do
    /// not overlap.
    unsafe fn copy_page(from: *const u8, to: *mut u8);
}

/// Events that [`Counted`] counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Writes of POR_EL1, or of CONTEXTIDR_EL1 where the mock gate stands in.
    pub por_writes: u64,
    /// ISBs.
    pub isb: u64,
    /// DSBs of any kind.
    pub dsb: u64,
    /// TLBIs of any kind.
    pub tlbi: u64,
}

static POR_WRITES: AtomicU64 = AtomicU64::new(0);
static ISBS: AtomicU64 = AtomicU64::new(0);
static DSBS: AtomicU64 = AtomicU64::new(0);
static TLBIS: AtomicU64 = AtomicU64::new(0);

impl Events {
    /// What [`Counted`] has counted since boot, on all CPUs.
    pub fn now() -> Self {
        Events {
            por_writes: POR_WRITES.load(Ordering::Relaxed),
            isb: ISBS.load(Ordering::Relaxed),
            dsb: DSBS.load(Ordering::Relaxed),
            tlbi: TLBIS.load(Ordering::Relaxed),
        }
    }

    /// Both together.
    pub fn plus(self, other: Events) -> Events {
        Events {
            por_writes: self.por_writes + other.por_writes,
            isb: self.isb + other.isb,
            dsb: self.dsb + other.dsb,
            tlbi: self.tlbi + other.tlbi,
        }
    }

    /// What was counted since `earlier`.
    pub fn since(self, earlier: Events) -> Events {
        Events {
            por_writes: self.por_writes - earlier.por_writes,
            isb: self.isb - earlier.isb,
            dsb: self.dsb - earlier.dsb,
            tlbi: self.tlbi - earlier.tlbi,
        }
    }
}

/// `A`, with its events counted in [`Events`].
pub struct Counted<A>(PhantomData<A>);

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

// SAFETY: each method does what `A`'s does.
unsafe impl<A: Arch> Arch for Counted<A> {
    fn isb() -> Synced {
        count(&ISBS);
        A::isb()
    }
    fn dsb_ishst() {
        count(&DSBS);
        A::dsb_ishst();
    }
    fn dsb_ish() {
        count(&DSBS);
        A::dsb_ish();
    }
    fn tlbi_page(asid: Asid, va: u64) {
        count(&TLBIS);
        A::tlbi_page(asid, va);
    }
    fn tlbi_page_global(va: u64) {
        count(&TLBIS);
        A::tlbi_page_global(va);
    }
    fn tlbi_asid(asid: Asid) {
        count(&TLBIS);
        A::tlbi_asid(asid);
    }
    fn tlbi_all() {
        count(&TLBIS);
        A::tlbi_all();
    }
    #[inline(always)]
    unsafe fn write_por(value: u64) {
        count(&POR_WRITES);
        // SAFETY: the caller's promise is passed on unchanged.
        unsafe { A::write_por(value) }
    }
    fn read_por() -> u64 {
        A::read_por()
    }
    fn write_contextidr(value: u64) {
        count(&POR_WRITES);
        A::write_contextidr(value);
    }
    fn write_ttbr0(value: u64) {
        A::write_ttbr0(value);
    }
    fn cpu() -> usize {
        A::cpu()
    }
    fn irq_save() -> u64 {
        A::irq_save()
    }
    fn irq_restore(daif: u64) {
        A::irq_restore(daif);
    }
    unsafe fn zero_page(page: *mut u8) {
        // SAFETY: the caller's promise is passed on unchanged.
        unsafe { A::zero_page(page) }
    }
    unsafe fn copy_page(from: *const u8, to: *mut u8) {
        // SAFETY: the caller's promise is passed on unchanged.
        unsafe { A::copy_page(from, to) }
    }
}

#[cfg(target_os = "none")]
pub use arm::{Arm, CpuHeader};

#[cfg(target_os = "none")]
mod arm;

#[cfg(not(target_os = "none"))]
pub use recorder::{Op, Recorder};

#[cfg(not(target_os = "none"))]
mod recorder;
