//! The instructions themselves.

use super::{Arch, Asid, Synced};
use core::arch::asm;

/// The head of each CPU's per-CPU area, which TPIDR_EL1 points to. The vectors' assembly knows these offsets.
#[repr(C)]
#[derive(Debug)]
pub struct CpuHeader {
    /// Offset 0: what POR_EL1 reads as where it is no register; else it stays at its closed value.
    pub virtual_por: u64,
    /// Offset 8: the CPU's index, below [`super::MAX_CPUS`].
    pub index: u64,
    /// Offset 16: the top of the stack that the vectors turn to when SP has run into a guard page.
    pub overflow_stack: u64,
}

/// The CPU that runs this code.
pub struct Arm;

// SAFETY: each method is the one instruction, by assembly that the compiler takes to read and write memory (but for `cpu`,
// which reads what never changes).
unsafe impl Arch for Arm {
    #[inline(always)]
    fn isb() -> Synced {
        // SAFETY: ISB has no operands and changes no memory; without `nomem` the compiler keeps accesses in order.
        unsafe { asm!("isb", options(nostack, preserves_flags)) };
        Synced(())
    }

    #[inline(always)]
    fn dsb_ishst() {
        // SAFETY: a barrier changes no state.
        unsafe { asm!("dsb ishst", options(nostack, preserves_flags)) };
    }

    #[inline(always)]
    fn dsb_ish() {
        // SAFETY: a barrier changes no state.
        unsafe { asm!("dsb ish", options(nostack, preserves_flags)) };
    }

    #[inline(always)]
    fn tlbi_page(asid: Asid, va: u64) {
        let operand = operand(asid, va);
        // SAFETY: dropping TLB entries never changes what a translation yields, only when it is walked again.
        unsafe { asm!("tlbi vae1is, {}", in(reg) operand, options(nostack, preserves_flags)) };
    }

    #[inline(always)]
    fn tlbi_page_global(va: u64) {
        let operand = operand(Asid(0), va);
        // SAFETY: as in `tlbi_page`.
        unsafe { asm!("tlbi vaae1is, {}", in(reg) operand, options(nostack, preserves_flags)) };
    }

    #[inline(always)]
    fn tlbi_asid(asid: Asid) {
        let operand = operand(asid, 0);
        // SAFETY: as in `tlbi_page`.
        unsafe { asm!("tlbi aside1is, {}", in(reg) operand, options(nostack, preserves_flags)) };
    }

    #[inline(always)]
    fn tlbi_all() {
        // SAFETY: as in `tlbi_page`.
        unsafe { asm!("tlbi vmalle1is", options(nostack, preserves_flags)) };
    }

    #[inline(always)]
    unsafe fn write_por(value: u64) {
        // SAFETY: the caller passes a constant that leaves key 0 (code, stacks, data) accessible, so execution goes on.
        // Where the register is UNDEFINED the EL1 vector emulates the write.
        unsafe { asm!("msr s3_0_c10_c2_4, {}", in(reg) value, options(nostack, preserves_flags)) };
    }

    #[inline(always)]
    fn read_por() -> u64 {
        let value;
        // SAFETY: reads one register; emulated by the EL1 vector where it is UNDEFINED.
        unsafe { asm!("mrs {}, s3_0_c10_c2_4", out(reg) value, options(nostack, preserves_flags)) };
        value
    }

    #[inline(always)]
    fn write_contextidr(value: u64) {
        // SAFETY: CONTEXTIDR_EL1 is read by debug and trace hardware only.
        unsafe { asm!("msr contextidr_el1, {}", in(reg) value, options(nostack, preserves_flags)) };
    }

    #[inline(always)]
    fn write_ttbr0(value: u64) {
        // SAFETY: the kernel runs from TTBR1 alone, so any TTBR0 keeps it running; `mm` passes roots it owns.
        unsafe { asm!("msr ttbr0_el1, {}", in(reg) value, options(nostack, preserves_flags)) };
    }

    #[inline(always)]
    fn cpu() -> usize {
        let header: *const CpuHeader;
        // SAFETY: reads TPIDR_EL1, which boot sets before the first Rust code runs on a CPU.
        unsafe { asm!("mrs {}, tpidr_el1", out(reg) header, options(nomem, nostack, preserves_flags)) };
        // SAFETY: boot points TPIDR_EL1 at a live `CpuHeader`, whose index never changes afterwards.
        unsafe { (*header).index as usize }
    }

    #[inline(always)]
    fn irq_save() -> u64 {
        let daif;
        // SAFETY: masks IRQ and FIQ; without `nomem` no access moves out of the masked stretch.
        unsafe { asm!("mrs {}, daif", "msr daifset, #3", out(reg) daif, options(nostack, preserves_flags)) };
        daif
    }

    #[inline(always)]
    fn irq_restore(daif: u64) {
        // SAFETY: puts back a value that `irq_save` read.
        unsafe { asm!("msr daif, {}", in(reg) daif, options(nostack, preserves_flags)) };
    }

    #[inline(always)]
    unsafe fn zero_page(page: *mut u8) {
        // SAFETY: the caller owns the page. DC ZVA's block size divides 4 KiB (DCZID_EL0.BS <= 9, Arm ARM D24.2 "DCZID_EL0"),
        // is read here, and the page is aligned to it. Where a hypervisor prohibits DC ZVA (DZP, bit 4), stores do.
        unsafe {
            asm!(
                "mrs {bs}, dczid_el0",
                "tbz {bs}, #4, 3f",
                "2: stp xzr, xzr, [{p}], #16",
                "cmp {p}, {end}",
                "b.ne 2b",
                "b 4f",
                "3: and {bs}, {bs}, #15",
                "mov {step}, #4",
                "lsl {step}, {step}, {bs}",
                "2: dc zva, {p}",
                "add {p}, {p}, {step}",
                "cmp {p}, {end}",
                "b.ne 2b",
                "4:",
                p = inout(reg) page => _,
                end = in(reg) page.add(4096),
                bs = out(reg) _,
                step = out(reg) _,
                options(nostack),
            )
        };
    }

    #[inline(always)]
    unsafe fn copy_page(from: *const u8, to: *mut u8) {
        // SAFETY: the caller owns `to`, may read `from`, and they do not overlap; 32 bytes a round, 128 rounds.
        unsafe {
            asm!(
                "2: ldp {a}, {b}, [{s}], #16",
                "ldp {c}, {d}, [{s}], #16",
                "stp {a}, {b}, [{p}], #16",
                "stp {c}, {d}, [{p}], #16",
                "cmp {p}, {end}",
                "b.ne 2b",
                s = inout(reg) from => _,
                p = inout(reg) to => _,
                end = in(reg) to.add(4096),
                a = out(reg) _, b = out(reg) _, c = out(reg) _, d = out(reg) _,
                options(nostack),
            )
        };
    }
}

/// The operand of a TLBI by address: ASID in bits 63:48, VA[55:12] in bits 43:0 (Arm ARM C5.5).
fn operand(asid: Asid, va: u64) -> u64 {
    u64::from(asid.0) << 48 | (va >> 12) & ((1 << 44) - 1)
}
