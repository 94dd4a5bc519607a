//! Accesses that may fault and tell, instead of ending the kernel.

use crate::syndrome::Fault;
use core::arch::global_asm;
use core::mem::MaybeUninit;

/// One entry of the exception table, which `kernel.ld` collects.
#[repr(C)]
struct Recovery {
    /// The instruction that may fault.
    instruction: u64,
    /// Where to go on then, with x3 to x6 holding the [`Fault`].
    fixup: u64,
    /// 1 where the access is on behalf of user space.
    user: u64,
}

// Each accessor: x0 address, x1 value, x2 where to put the fault. Returns x0 = 0 and x1 = what was read, or x0 = 1.
global_asm!(
    ".macro accessor name, user, instruction:vararg",
    "    .global \\name",
    "    .type \\name, @function",
    "\\name:",
    "    \\instruction",
    "    mov x0, #0",
    "    ret",
    "    .size \\name, . - \\name",
    "    .pushsection .extable, \"a\", @progbits",
    "    .quad \\name, probe_fixup, \\user",
    "    .popsection",
    ".endm",
    ".pushsection .text, \"ax\"",
    "probe_fixup:",
    "    stp x3, x4, [x2]",
    "    stp x5, x6, [x2, #16]",
    "    mov x0, #1",
    "    ret",
    "accessor probe_read_u64, 0, ldr x1, [x0]",
    "accessor probe_write_u64, 0, str x1, [x0]",
    "accessor probe_read_user_u8, 1, ldtrb w1, [x0]",
    "accessor probe_write_user_u8, 1, sttrb w1, [x0]",
    ".popsection",
);

/// x0 and x1 as an accessor returns them.
#[repr(C)]
struct Outcome {
    faulted: u64,
    value: u64,
}

// SAFETY: the assembly above defines the accessors with this signature, the linker script the table's borders.
unsafe extern "C" {
    fn probe_read_u64(address: u64, unused: u64, fault: *mut Fault) -> Outcome;
    fn probe_write_u64(address: u64, value: u64, fault: *mut Fault) -> Outcome;
    fn probe_read_user_u8(address: u64, unused: u64, fault: *mut Fault) -> Outcome;
    fn probe_write_user_u8(address: u64, value: u64, fault: *mut Fault) -> Outcome;
    static __extable_start: Recovery;
    static __extable_end: Recovery;
}

type Accessor = unsafe extern "C" fn(u64, u64, *mut Fault) -> Outcome;

/// # Safety
/// As the accessor's access.
unsafe fn run(accessor: Accessor, address: u64, value: u64) -> Result<u64, Fault> {
    let mut fault = MaybeUninit::<Fault>::uninit();
    // SAFETY: the caller answers for the access; `fault` is there for the fixup to write.
    let outcome = unsafe { accessor(address, value, fault.as_mut_ptr()) };
    match outcome.faulted {
        0 => Ok(outcome.value),
        // SAFETY: the accessor returns non-zero through the fixup only, which has filled `fault`.
        _ => Err(unsafe { fault.assume_init() }),
    }
}

/// Reads the 64-bit word at `address`.
///
/// # Errors
/// The fault, where the access takes one.
///
/// # Safety
/// Nothing that is mapped at `address` has side effects on reads (no device).
pub unsafe fn read_u64(address: u64) -> Result<u64, Fault> {
    // SAFETY: as the caller promises.
    unsafe { run(probe_read_u64, address, 0) }
}

/// Writes the 64-bit word at `address`: an attack, or a check that one fails.
///
/// # Errors
/// The fault, where the access takes one.
///
/// # Safety
/// Where the write goes through, nothing relies on what was at `address`.
pub unsafe fn write_u64(address: u64, value: u64) -> Result<(), Fault> {
    // SAFETY: as the caller promises.
    unsafe { run(probe_write_u64, address, value) }.map(|_| ())
}

/// Reads the byte at user address `address` as EL0 would (LDTRB). A fault goes to the user fault handler first.
///
/// # Errors
/// The fault, where the handler does not resolve it.
pub fn read_user_u8(address: u64) -> Result<u8, Fault> {
    // SAFETY: an unprivileged load reads what EL0 may read; no device is mapped for EL0.
    unsafe { run(probe_read_user_u8, address, 0) }.map(|value| value as u8)
}

/// Writes the byte at user address `address` as EL0 would (STTRB). A fault goes to the user fault handler first.
///
/// # Errors
/// The fault, where the handler does not resolve it.
pub fn write_user_u8(address: u64, value: u8) -> Result<(), Fault> {
    // SAFETY: an unprivileged store reaches only what EL0 may write, which Rust objects never are.
    unsafe { run(probe_write_user_u8, address, u64::from(value)) }.map(|_| ())
}

/// How a fault of an instruction in the exception table is recovered.
#[derive(Clone, Copy)]
pub(super) struct Fixup {
    /// Where to go on.
    pub address: u64,
    /// Whether the access was on behalf of user space.
    pub user: bool,
}

/// The recovery for a fault of the instruction at `elr`.
pub(super) fn fixup_of(elr: u64) -> Option<Fixup> {
    let (start, end) = (&raw const __extable_start, &raw const __extable_end);
    let entries = (end.addr() - start.addr()) / size_of::<Recovery>();
    // SAFETY: the linker script puts nothing but whole, constant `Recovery` entries between the two symbols.
    let table = unsafe { core::slice::from_raw_parts(start, entries) };
    let entry = table.iter().find(|entry| entry.instruction == elr)?;
    Some(Fixup { address: entry.fixup, user: entry.user != 0 })
}
