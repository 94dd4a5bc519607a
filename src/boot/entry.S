// From the boot loader to Rust in the upper half.
//
// Entered as the Linux arm64 boot protocol has it (Documentation/arch/arm64/booting.rst): MMU and data cache off, the
// image at any 2 MiB-aligned address and clean to the point of coherency, the FDT's address in x0; at EL1, EL2 or EL3.
// Also entered as QEMU enters an ELF file: x0 is not the FDT's address then, which QEMU puts at the start of RAM.
//
// Until the MMU is on only PC-relative addresses are right. x20 holds the FDT's physical address (0: none), x21 the
// physical address of the image.

// Sets \flags to "ne" where the \width-bit field at \shift of ID register \id is not 0; uses x9.
.macro has id, shift, width=4
    mrs x9, \id
    ubfx x9, x9, #\shift, #\width
    cmp x9, #0
.endm

// Loads the physical address of \symbol, 4 KiB-aligned or not, within 4 GiB.
.macro address reg, symbol
    adrp \reg, \symbol
    add \reg, \reg, :lo12:\symbol
.endm

    .section .text.head, "ax"
    .global _head
_head:
    b start
    nop
    .quad 0                     // text_offset
    .quad __image_size          // bss and tables included
    .quad 0xa                   // little endian, 4 KiB pages, anywhere
    .quad 0, 0, 0
    .long 0x644d5241            // "ARM\x64"
    .long 0

    .section .text.boot, "ax"
start:
    msr daifset, #0xf
    adr x21, _head
    mov x20, x0
    tst x20, #7
    b.ne 1f
    cbz x20, 1f
    bl is_fdt
    b.eq 2f
1:  mov x20, {QEMU_ELF_FDT}
    bl is_fdt
    b.eq 2f
    mov x20, #0
2:  mrs x0, CurrentEL
    cmp x0, #(3 << 2)
    b.eq from_el3
    cmp x0, #(2 << 2)
    b.eq from_el2
    ldr x0, ={SCTLR_MMU_OFF}
    msr sctlr_el1, x0
    isb
    b at_el1

// Sets "eq" where an FDT lies at x20: its magic is big-endian 0xd00dfeed. The boot protocol has only the image clean to
// the point of coherency, and this reads past the cache.
is_fdt:
    dc civac, x20
    dsb sy
    ldr w0, [x20]
    mov w1, #0x0dd0
    movk w1, #0xedfe, lsl #16
    cmp w0, w1
    ret

// EL3: everything below is non-secure AArch64, and no feature that the kernel uses traps. Bits that belong to a feature
// are set only where it is there, because they are RES0 elsewhere.
from_el3:
    mov x0, #0x531              // RW, HCE, RES1, NS
    has id_aa64mmfr0_el1, 56    // FEAT_FGT
    b.eq 1f
    orr x0, x0, #(1 << 27)      // FGTEn
1:  has id_aa64mmfr1_el1, 40    // FEAT_HCX
    b.eq 2f
    orr x0, x0, #(1 << 38)      // HXEn
2:  has s3_0_c0_c7_3, 0         // ID_AA64MMFR3_EL1: FEAT_TCR2
    b.eq 3f
    orr x0, x0, #(1 << 43)      // TCR2En
3:  has s3_0_c0_c7_3, 8, 12     // FEAT_S1PIE, FEAT_S2PIE, FEAT_S1POE
    b.eq 4f
    orr x0, x0, #(1 << 45)      // PIEn
4:  msr scr_el3, x0
    msr cptr_el3, xzr
    msr mdcr_el3, xzr
    has id_aa64pfr0_el1, 24     // GIC system registers
    b.eq 5f
    mrs x0, s3_6_c12_c12_5      // ICC_SRE_EL3
    mov x1, #9                  // Enable, SRE
    orr x0, x0, x1
    msr s3_6_c12_c12_5, x0
5:  isb
    has id_aa64pfr0_el1, 8      // EL2
    b.eq 6f
    ldr x0, ={SCTLR_EL2_MMU_OFF} // UNKNOWN at a reset into EL3
    msr sctlr_el2, x0
    mov x0, #0x3c9              // EL2h, DAIF masked
    adr x1, from_el2
    b 7f
6:  ldr x0, ={SCTLR_MMU_OFF}
    msr sctlr_el1, x0
    mov x0, #0x3c5              // EL1h, DAIF masked
    adr x1, at_el1
7:  msr spsr_el3, x0
    msr elr_el3, x1
    eret

// EL2: nothing below traps, no second stage. x10 tells whether HCR_EL2.E2H is 1: on some cores it can't be cleared, and
// on those without FEAT_E2H0 it is RES1, which software has to write as such. With E2H, CNTHCTL_EL2 and CPTR_EL2 have
// the layout of their EL1 counterparts, and SCTLR_EL1 is reached as SCTLR_EL12.
from_el2:
    mov x0, #(1 << 31)          // RW
    has s3_0_c0_c7_4, 24        // ID_AA64MMFR4_EL1.E2H0: 0 with FEAT_E2H0
    b.eq 1f
    orr x0, x0, #(1 << 34)      // E2H
1:  msr hcr_el2, x0
    isb
    mrs x10, hcr_el2
    ldr x0, ={SCTLR_MMU_OFF}
    tbnz x10, #34, 1f
    msr sctlr_el1, x0
    mov x0, #3                  // EL1PCTEN, EL1PCEN
    msr cnthctl_el2, x0
    mov x0, #0x33ff             // RES1 bits; SVE and SME, where they are there, do not trap
    has id_aa64pfr0_el1, 32
    b.eq 11f
    bic x0, x0, #(1 << 8)
11: has id_aa64pfr1_el1, 24
    b.eq 2f
    bic x0, x0, #(1 << 12)
    b 2f
1:  msr s3_5_c1_c0_0, x0        // SCTLR_EL12
    mov x0, #(3 << 10)
    msr cnthctl_el2, x0
    mov x0, #(3 << 20)          // FPEN
    has id_aa64pfr0_el1, 32
    b.eq 12f
    orr x0, x0, #(3 << 16)      // ZEN
12: has id_aa64pfr1_el1, 24
    b.eq 2f
    orr x0, x0, #(3 << 24)      // SMEN
2:  msr cptr_el2, x0
    msr cntvoff_el2, xzr
    msr hstr_el2, xzr
    msr vttbr_el2, xzr
    mrs x0, midr_el1
    msr vpidr_el2, x0
    mrs x0, mpidr_el1
    msr vmpidr_el2, x0
    mov x0, #0
    mrs x9, id_aa64dfr0_el1
    ubfx x9, x9, #8, #4         // PMUVer: 0 none, 15 none of the architecture's
    add x9, x9, #1
    tst x9, #14
    b.eq 3f
    mrs x0, pmcr_el0
    ubfx x0, x0, #11, #5        // HPMN = N: every counter is EL1's
3:  msr mdcr_el2, x0
    has id_aa64pfr0_el1, 24     // GIC system registers
    b.eq 4f
    mrs x0, s3_4_c12_c9_5       // ICC_SRE_EL2
    mov x1, #9                  // Enable, SRE
    orr x0, x0, x1
    msr s3_4_c12_c9_5, x0
    isb
    mrs x0, s3_4_c12_c9_5
    tbz x0, #0, 4f
    msr s3_4_c12_c11_0, xzr     // ICH_HCR_EL2
4:  has id_aa64mmfr1_el1, 40    // FEAT_HCX
    b.eq 5f
    has s3_0_c0_c7_3, 0         // FEAT_TCR2
    mov x0, #(1 << 14)          // TCR2En
    csel x0, xzr, x0, eq
    msr s3_4_c1_c2_2, x0        // HCRX_EL2
5:  has id_aa64mmfr0_el1, 56    // FEAT_FGT
    b.eq 8f
    mov x0, #0
    has s3_0_c0_c7_3, 8         // FEAT_S1PIE
    b.eq 6f
    orr x0, x0, #(3 << 57)      // nPIRE0_EL1, nPIR_EL1
6:  has s3_0_c0_c7_3, 16        // FEAT_S1POE
    b.eq 7f
    orr x0, x0, #(3 << 59)      // nPOR_EL0, nPOR_EL1
7:  msr s3_4_c1_c1_4, x0        // HFGRTR_EL2
    msr s3_4_c1_c1_5, x0        // HFGWTR_EL2
    msr s3_4_c1_c1_6, xzr       // HFGITR_EL2
    msr s3_4_c3_c1_4, xzr       // HDFGRTR_EL2
    msr s3_4_c3_c1_5, xzr       // HDFGWTR_EL2
8:  mov x0, #0x3c5              // EL1h, DAIF masked
    msr spsr_el2, x0
    adr x0, at_el1
    msr elr_el2, x0
    eret

at_el1:
    bl invalidate_tables        // a dirty line of an earlier user's must not be written back over ours
    bl build_tables
    dmb sy
    bl invalidate_tables        // nor may a line that was fetched meanwhile hide them
    bl set_up_translation       // x22: SCTLR_EL1
    msr sctlr_el1, x22
    isb
    ic iallu
    dsb nsh
    isb
    ldr x0, =in_upper_half
    br x0

// Invalidates the boot tables' lines to the point of coherency: they are written and read past the cache until the MMU
// is on.
invalidate_tables:
    address x0, __tables_start
    add x1, x0, {BOOT_TABLES_BYTES}
    mrs x2, ctr_el0
    ubfx x2, x2, #16, #4        // DminLine: log2 of words
    mov x3, #4
    lsl x2, x3, x2
1:  dc ivac, x0
    add x0, x0, x2
    cmp x0, x1
    b.lo 1b
    dsb sy
    ret

// Maps \start to \end with the attributes of \descriptor in the image's level 2 table x11; uses x0 to x3.
.macro map_image start, end, descriptor
    address x0, \start
    address x1, \end
    ldr x2, =\descriptor
1:  sub x3, x0, x21
    lsr x3, x3, #21
    add x12, x0, x2
    str x12, [x11, x3, lsl #3]
    add x0, x0, #{BLOCK}
    cmp x0, x1
    b.lo 1b
.endm

// Points entry \index (0 to 511, a register or a number) of table \from to table \to; uses x12.
.macro link from, index, to
    orr x12, \to, #3
    str x12, [\from, \index, lsl #3]
.endm

build_tables:
    address x4, __tables_start
    mov x0, x4
    add x1, x4, {BOOT_TABLES_BYTES}
1:  stp xzr, xzr, [x0], #16
    cmp x0, x1
    b.lo 1b
    // TTBR0: the block with this code, where it is.
    add x5, x4, #0x1000
    add x6, x4, #0x2000
    ubfx x0, x21, #39, #9
    link x4, x0, x5
    ubfx x0, x21, #30, #9
    link x5, x0, x6
    ubfx x0, x21, #21, #9
    ldr x2, ={TEXT}
    orr x2, x2, x21
    str x2, [x6, x0, lsl #3]
    // TTBR1: the image, the window on the FDT and the page for the early console, in the top two GiB.
    add x4, x4, #0x3000
    add x5, x4, #0x1000
    add x11, x4, #0x2000
    add x6, x4, #0x3000
    add x7, x4, #0x4000
    mov x0, #511
    link x4, x0, x5
    link x5, x0, x6
    mov x0, #510
    link x5, x0, x11
    map_image __text_start, __text_end, {TEXT}
    map_image __rodata_start, __rodata_end, {RODATA}
    map_image __data_start, __data_end, {DATA}
    mov x0, {EARLY_DEVICE_INDEX}
    link x6, x0, x7
    // The tables' block at its address in the linear map, where it stays; it gets no alias in the image.
    add x5, x4, #0x5000
    add x6, x4, #0x6000
    address x1, __tables_start
    ubfx x0, x1, #39, #9
    link x4, x0, x5
    ubfx x0, x1, #30, #9
    link x5, x0, x6
    ubfx x0, x1, #21, #9
    ldr x2, ={DATA}
    add x2, x2, x1
    str x2, [x6, x0, lsl #3]
    cbz x20, 2f
    ldr x2, ={RODATA}
    lsr x0, x20, #21
    add x2, x2, x0, lsl #21
    add x3, x2, #{BLOCK}
    add x6, x4, #0x3000
    mov x0, {FDT_INDEX}
    add x6, x6, x0, lsl #3
    stp x2, x3, [x6]
2:  ret

// Sets every register of the translation regime but SCTLR_EL1, whose value it leaves in x22.
set_up_translation:
    address x0, __tables_start
    msr ttbr0_el1, x0
    add x0, x0, #0x3000
    msr ttbr1_el1, x0
    ldr x0, ={MAIR}
    msr mair_el1, x0
    ldr x1, ={TCR}
    mrs x2, id_aa64mmfr0_el1
    and x3, x2, #0xf            // PARange; 6 and up would need FEAT_LPA2's descriptors
    mov x0, #5
    cmp x3, x0
    csel x3, x3, x0, lo
    orr x1, x1, x3, lsl #32     // IPS
    ubfx x3, x2, #4, #4
    cmp x3, #2                  // 16-bit ASIDs
    b.ne 1f
    orr x1, x1, #(1 << 36)      // AS
1:  has id_aa64mmfr1_el1, 12    // FEAT_HPDS
    b.eq 2f
    orr x1, x1, #(3 << 41)      // HPD0, HPD1
2:  has id_aa64mmfr2_el1, 60    // FEAT_E0PD
    b.eq 3f
    orr x1, x1, #(1 << 56)      // E0PD1
3:  msr tcr_el1, x1
    msr cpacr_el1, xzr          // FP, SIMD, SVE and SME trap; EL0 has no POR_EL0
    msr mdscr_el1, xzr
    ldr x22, ={SCTLR_MMU_ON}
    has id_aa64mmfr1_el1, 20    // FEAT_PAN
    b.eq 4f
    bic x22, x22, #(1 << 23)    // SPAN: an exception sets PSTATE.PAN
4:  has s3_0_c0_c7_3, 0         // FEAT_TCR2
    b.eq 7f
    mov x0, #0
    has s3_0_c0_c7_3, 8         // FEAT_S1PIE
    b.eq 6f
    mov x0, #(1 << 1)           // PIE
    ldr x1, ={PIR_CLOSED}
    has s3_0_c0_c7_3, 16        // FEAT_S1POE
    b.eq 5f
    mov x2, {POR_CLOSED}
    msr s3_0_c10_c2_4, x2       // POR_EL1
    orr x0, x0, #(1 << 3)       // POE
    ldr x1, ={PIR_OPEN}
5:  msr s3_0_c10_c2_3, x1       // PIR_EL1
    ldr x1, ={PIRE0}
    msr s3_0_c10_c2_2, x1       // PIRE0_EL1
6:  msr s3_0_c2_c0_3, x0        // TCR2_EL1
7:  isb
    tlbi vmalle1
    dsb nsh
    isb
    ret

// replace_root(x0: the new TTBR1 root, x1: the root of an empty table). Called at its physical address, where TTBR0
// maps it: the two roots map some addresses by leaves of different size, so that neither may be live while the TLB
// still knows the other. Uses no stack. Leaves TTBR0 at the empty root too.
    .global replace_root
replace_root:
    msr ttbr1_el1, x1
    isb
    tlbi vmalle1
    dsb nsh
    isb
    msr ttbr1_el1, x0
    isb
    ldr x2, =1f
    br x2
1:  msr ttbr0_el1, x1
    isb
    tlbi vmalle1
    dsb nsh
    isb
    ret

in_upper_half:
    ldr x0, =__boot_stack_top
    mov sp, x0
    ldr x0, =__bss_start
    ldr x1, =__bss_end
1:  stp xzr, xzr, [x0], #16
    cmp x0, x1
    b.lo 1b
    ldr x0, =BOOT_CPU
    ldr x1, =__overflow_stack_top
    str x1, [x0, #16]
    msr tpidr_el1, x0
    ldr x0, =vectors_virtual
    has s3_0_c0_c7_3, 0         // FEAT_TCR2
    b.eq 2f
    has s3_0_c0_c7_3, 8         // FEAT_S1PIE
    b.eq 2f
    ldr x0, =vectors_emulated
    has s3_0_c0_c7_3, 16        // FEAT_S1POE
    b.eq 2f
    ldr x0, =vectors_hardware
2:  msr vbar_el1, x0
    isb
    has id_aa64mmfr1_el1, 20    // FEAT_PAN
    b.eq 3f
    .inst 0xd500419f            // MSR PAN, #1
3:  mov x0, x20
    mov x1, x21
    mov x29, #0
    mov x30, #0
    b boot_start
    .ltorg
