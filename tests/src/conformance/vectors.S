// Vectors of the conformance kernel, accesses that may fault, and the code that runs at EL0.
//
// TPIDRRO_EL0 points at this CPU's record: ESR, FAR, ELR and SPSR of the last exception, then where to go on after it (0: it was
// not expected), the PSTATE to go on with where it came from EL0, and how many there have been. See `attempt.rs`.

.macro other
    .balign 0x80
    b conformance_other
.endm
.macro sync
    .balign 0x80
    b conformance_sync
.endm

    .section .text.vectors, "ax"
    .balign 0x800
    .global conformance_vectors
conformance_vectors:
    other
    other
    other
    other
    sync                        // EL1, SP_EL1
    other
    other
    other
    sync                        // EL0
    other
    other
    other
    other
    other
    other
    other

    .section .text, "ax"
conformance_sync:
    stp x0, x1, [sp, #-32]!
    stp x2, x3, [sp, #16]
    mrs x0, tpidrro_el0
    mrs x1, esr_el1
    mrs x2, far_el1
    stp x1, x2, [x0]
    mrs x1, elr_el1
    mrs x2, spsr_el1
    stp x1, x2, [x0, #16]
    ldp x1, x3, [x0, #32]
    cbz x1, 1f
    str xzr, [x0, #32]
    msr elr_el1, x1
    tst x2, #0xf
    csel x2, x3, x2, eq         // from EL0
    msr spsr_el1, x2
    ldr x1, [x0, #48]
    add x1, x1, #1
    str x1, [x0, #48]
    ldp x2, x3, [sp, #16]
    ldp x0, x1, [sp], #32
    eret
1:  bl conformance_unexpected

conformance_other:
    mrs x0, tpidrro_el0
    mrs x1, esr_el1
    mrs x2, far_el1
    stp x1, x2, [x0]
    mrs x1, elr_el1
    mrs x2, spsr_el1
    stp x1, x2, [x0, #16]
    bl conformance_unexpected

// \name(x0: record, x1: address, x2: value) does \instruction, which reaches the address by x1 and the value by x2, and returns x2.
// Where it faults, the vectors go on right behind it.
.macro attempt name, instruction:vararg
    .global \name
\name:
    adr x3, 1f
    str x3, [x0, #32]
    \instruction
1:  str xzr, [x0, #32]
    mov x0, x2
    ret
.endm

    .arch_extension lse
    attempt conformance_load, ldr x2, [x1]
    attempt conformance_store, str x2, [x1]
    attempt conformance_ldtr, ldtr x2, [x1]
    attempt conformance_sttr, sttr x2, [x1]
    attempt conformance_swap, swp x2, x2, [x1]
    attempt conformance_mrs_por_el1, mrs x2, s3_0_c10_c2_4
    attempt conformance_mrs_por_el0, mrs x2, s3_3_c10_c2_4
    attempt conformance_mrs_por_el2, mrs x2, s3_4_c10_c2_4
    attempt conformance_mrs_por_el3, mrs x2, s3_6_c10_c2_4
    attempt conformance_mrs_por_el12, mrs x2, s3_5_c10_c2_4
    attempt conformance_mrs_pir_el1, mrs x2, s3_0_c10_c2_3
    attempt conformance_mrs_pire0_el1, mrs x2, s3_0_c10_c2_2
    attempt conformance_mrs_tcr2_el1, mrs x2, s3_0_c2_c0_3
    attempt conformance_msr_por_el1, msr s3_0_c10_c2_4, x2
    attempt conformance_msr_por_el0, msr s3_3_c10_c2_4, x2

// (x0: record, x1: address): calls the code there.
    .global conformance_fetch
conformance_fetch:
    stp x29, x30, [sp, #-16]!
    adr x3, 1f
    str x3, [x0, #32]
    blr x1
1:  str xzr, [x0, #32]
    ldp x29, x30, [sp], #16
    mov x0, #0
    ret

// (x0: record, x1: address, x2: EL0's x0, x3: EL0's x1) runs EL0 code there, which takes no other register, until the exception that
// ends it; returns EL0's x1.
    .global conformance_el0
conformance_el0:
    adr x4, 1f
    str x4, [x0, #32]
    msr elr_el1, x1
    mov x4, #0x3c0              // EL0t, DAIF masked
    msr spsr_el1, x4
    mov x0, x2
    mov x1, x3
    eret
1:  mov x0, x1
    ret

// What the test page holds: code for EL1 at its start, code for EL0 at 8.
    .section .rodata.conformance, "a"
    .balign 8
    .global conformance_page
conformance_page:
    ret
    nop
    svc #0x51
    nop

// What EL0 runs: eight bytes each.
    .global conformance_user
conformance_user:
    ldr x1, [x0]
    svc #0x50
    str x1, [x0]
    svc #0x50
    mrs x1, s3_3_c10_c2_4       // POR_EL0
    svc #0x50
    msr s3_3_c10_c2_4, x1
    svc #0x50
    mrs x1, s3_0_c10_c2_4       // POR_EL1
    svc #0x50
    mrs x1, s3_0_c10_c2_3       // PIR_EL1
    svc #0x50
    mrs x1, s3_0_c10_c2_2       // PIRE0_EL1
    svc #0x50
    mrs x1, s3_0_c2_c0_3        // TCR2_EL1
    svc #0x50
    .global conformance_user_end
conformance_user_end:

// A second CPU's way from PSCI to Rust. x0: the physical address of what it needs (`smp::Start`), MMU and caches off.
    .section .text, "ax"
    .global conformance_second
conformance_second:
    msr daifset, #0xf
    ldp x1, x2, [x0]            // MAIR_EL1, TCR_EL1
    ldp x3, x4, [x0, #16]       // TTBR0_EL1, TTBR1_EL1
    ldp x5, x6, [x0, #32]       // PIR_EL1, PIRE0_EL1
    ldp x7, x8, [x0, #48]       // TCR2_EL1, SCTLR_EL1
    ldp x9, x10, [x0, #64]      // stack, vectors
    ldp x11, x12, [x0, #80]     // record, entry
    ldp x13, x14, [x0, #96]     // argument, TPIDR_EL1
    msr mair_el1, x1
    msr tcr_el1, x2
    msr ttbr0_el1, x3
    msr ttbr1_el1, x4
    msr s3_0_c10_c2_3, x5
    msr s3_0_c10_c2_2, x6
    mov x5, #7
    msr s3_0_c10_c2_4, x5       // POR_EL1: key 0 open, or nothing runs
    msr s3_0_c2_c0_3, x7
    msr cpacr_el1, xzr
    isb
    tlbi vmalle1
    dsb nsh
    isb
    msr sctlr_el1, x8
    isb
    mov sp, x9
    msr vbar_el1, x10
    msr tpidrro_el0, x11
    msr tpidr_el1, x14
    isb
    mov x29, #0
    mov x30, #0
    mov x0, x13
    br x12
