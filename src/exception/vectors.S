// The EL1 vector tables, one for each way in which POR_EL1 is honoured. Exactly one is in VBAR_EL1.
//
//   vectors_hardware   POR_EL1 is a register: saved, closed, restored
//   vectors_emulated   PIR_EL1 has its effect: saved, closed, restored; the CPU's header holds what POR_EL1 reads as
//   vectors_virtual    the CPU's header holds it, and nothing enforces it
//
// Every entry builds an ExceptionFrame on the current stack and calls exception_dispatch(frame, vector). The handler
// runs with POR_EL1 at its closed value; what the frame holds when it returns is what the interrupted code goes on
// with, POR_EL1 and PIR_EL1 excepted. Those are in the frame for reports only: what is in memory can be forged. What is
// restored is one of four constants, chosen by two bits that never leave the CPU: which gated keys were open.
// TPIDRRO_EL0 is a stack of such pairs, the innermost exception's lowest, for 32 exceptions; they nest a handful deep.

    .section .text.vectors, "ax"

// One entry. Kernel stacks have bit 16 of their addresses set, and it is clear in the guard below, so SP tells an
// overflow without a register to spare: SP and x0 are swapped by sums and differences. An overflow goes on on this
// CPU's overflow stack. The EL0 thread registers are scratch there, pairs included: the kernel is about to panic.
.macro entry kind, vector
    .balign 0x80
    sub sp, sp, #{FRAME}
    add sp, sp, x0
    sub x0, sp, x0
    tbz x0, #16, 1f
    sub x0, sp, x0
    sub sp, sp, x0
    stp x0, x1, [sp]
    add x0, sp, #{FRAME}
    mov x1, #\vector
    b enter_\kind
1:  add x0, x0, #{FRAME}
    msr tpidr_el0, x0
    sub x0, x0, #{FRAME}
    sub x0, sp, x0
    msr tpidrro_el0, x0
    mrs x0, tpidr_el1
    ldr x0, [x0, #{OVERFLOW_STACK}]
    sub sp, x0, #{FRAME}
    mrs x0, tpidrro_el0
    stp x0, x1, [sp]
    mrs x0, tpidr_el0
    mov x1, #{OVERFLOW}
    b enter_\kind
.endm

// Saves everything but x0 and x1, which the entry has saved. In: x0 the interrupted SP, x1 the vector. Out: x0 free, x1
// kept.
.macro save
    stp x2, x3, [sp, #16]
    stp x4, x5, [sp, #32]
    stp x6, x7, [sp, #48]
    stp x8, x9, [sp, #64]
    stp x10, x11, [sp, #80]
    stp x12, x13, [sp, #96]
    stp x14, x15, [sp, #112]
    stp x16, x17, [sp, #128]
    stp x18, x19, [sp, #144]
    stp x20, x21, [sp, #160]
    stp x22, x23, [sp, #176]
    stp x24, x25, [sp, #192]
    stp x26, x27, [sp, #208]
    stp x28, x29, [sp, #224]
    stp x30, x0, [sp, #240]
    mrs x2, elr_el1
    mrs x3, spsr_el1
    mrs x4, esr_el1
    mrs x5, far_el1
    stp x2, x3, [sp, #{ELR}]
    stp x4, x5, [sp, #{ESR}]
    stp x29, x2, [sp, #{RECORD}]
    add x29, sp, #{RECORD}
.endm

// Restores everything and returns.
.macro restore
    ldp x2, x3, [sp, #{ELR}]
    msr elr_el1, x2
    msr spsr_el1, x3
    ldp x2, x3, [sp, #16]
    ldp x4, x5, [sp, #32]
    ldp x6, x7, [sp, #48]
    ldp x8, x9, [sp, #64]
    ldp x10, x11, [sp, #80]
    ldp x12, x13, [sp, #96]
    ldp x14, x15, [sp, #112]
    ldp x16, x17, [sp, #128]
    ldp x18, x19, [sp, #144]
    ldp x20, x21, [sp, #160]
    ldp x22, x23, [sp, #176]
    ldp x24, x25, [sp, #192]
    ldp x26, x27, [sp, #208]
    ldp x28, x29, [sp, #224]
    ldr x30, [sp, #240]
    ldp x0, x1, [sp], #{FRAME}
    eret
.endm

// Pushes the pair of bits \user and \kernel of \register, and leaves it in \keys.
.macro push keys, register, user, kernel, scratch
    ubfx \keys, \register, #\user, #1
    ubfx \scratch, \register, #\kernel, #1
    orr \keys, \keys, \scratch, lsl #1
    mrs \scratch, tpidrro_el0
    orr \scratch, \keys, \scratch, lsl #2
    msr tpidrro_el0, \scratch
.endm

// Pops a pair into \keys.
.macro pop keys, scratch
    mrs \scratch, tpidrro_el0
    and \keys, \scratch, #3
    lsr \scratch, \scratch, #2
    msr tpidrro_el0, \scratch
.endm

// Opens in \register, a closed value, what the pair \keys says.
.macro open register, keys, user, kernel, scratch
    and \scratch, \keys, #1
    orr \register, \register, \scratch, lsl #\user
    and \scratch, \keys, #2
    orr \register, \register, \scratch, lsl #(\kernel - 1)
.endm

// PIR_EL1 may be held in a TLB, so a change of it takes a TLBI; of this CPU alone, whose register it is.
.macro set_pir value
    msr s3_0_c10_c2_3, \value
    isb
    tlbi vmalle1
    dsb nsh
    isb
.endm

enter_hardware:
    save
    mrs x2, s3_0_c10_c2_4       // POR_EL1
    stp x2, xzr, [sp, #{POR}]
    push x3, x2, {POR_USER}, {POR_KERNEL}, x4
    mov x3, #{POR_CLOSED}
    cmp x2, x3
    b.eq 1f
    msr s3_0_c10_c2_4, x3
    isb
1:  mov x0, sp
    bl exception_dispatch
    pop x2, x4
    cbz x2, 2f
    mov x3, #{POR_CLOSED}
    open x3, x2, {POR_USER}, {POR_KERNEL}, x4
    msr s3_0_c10_c2_4, x3       // in force from the ERET on
2:  restore

enter_emulated:
    save
    mrs x5, s3_0_c10_c2_3       // PIR_EL1
    push x3, x5, {PIR_USER}, {PIR_KERNEL}, x4
    mov x2, #{POR_CLOSED}
    open x2, x3, {POR_USER}, {POR_KERNEL}, x4
    stp x2, x5, [sp, #{POR}]
    cbz x3, 1f
    mrs x4, tpidr_el1
    mov x2, #{POR_CLOSED}
    str x2, [x4, #{VIRTUAL_POR}]
    ldr x5, ={PIR_CLOSED}
    set_pir x5
1:  mov x0, sp
    bl exception_dispatch
    pop x2, x4
    cbz x2, 2f
    mov x3, #{POR_CLOSED}
    open x3, x2, {POR_USER}, {POR_KERNEL}, x4
    mrs x4, tpidr_el1
    str x3, [x4, #{VIRTUAL_POR}]
    ldr x5, ={PIR_CLOSED}
    open x5, x2, {PIR_USER}, {PIR_KERNEL}, x4
    set_pir x5
2:  restore

enter_virtual:
    save
    mrs x5, tpidr_el1
    ldr x2, [x5, #{VIRTUAL_POR}]
    stp x2, xzr, [sp, #{POR}]
    push x3, x2, {POR_USER}, {POR_KERNEL}, x4
    mov x3, #{POR_CLOSED}
    str x3, [x5, #{VIRTUAL_POR}]
    mov x0, sp
    bl exception_dispatch
    pop x2, x4
    mov x3, #{POR_CLOSED}
    open x3, x2, {POR_USER}, {POR_KERNEL}, x4
    mrs x4, tpidr_el1
    str x3, [x4, #{VIRTUAL_POR}]
    restore
    .ltorg

.macro table kind
    .balign 0x800
    .global vectors_\kind
vectors_\kind:
    .irp vector, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    entry \kind, \vector
    .endr
    .balign 0x80
.endm

table hardware
table emulated
table virtual
