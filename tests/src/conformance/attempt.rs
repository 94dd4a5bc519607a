//! Accesses that may fault, and what a fault has to look like.

use super::cpu::{self, Translate};
use super::rules::{Cause, Kind, Verdict};
use core::arch::global_asm;
use core::cell::UnsafeCell;
use core::fmt;

global_asm!(include_str!("vectors.S"));

/// What the vectors keep of the last exception. `vectors.S` knows the layout.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Words {
    esr: u64,
    far: u64,
    elr: u64,
    spsr: u64,
    resume: u64,
    pstate: u64,
    count: u64,
}

/// One CPU's record of exceptions, at which its TPIDRRO_EL0 points.
#[derive(Debug)]
pub struct Record(UnsafeCell<Words>);

// SAFETY: only the CPU whose TPIDRRO_EL0 points at it touches it.
unsafe impl Sync for Record {}

/// An exception as the CPU reported it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exception {
    /// ESR_EL1.
    pub esr: u64,
    /// FAR_EL1.
    pub far: u64,
    /// ELR_EL1.
    pub elr: u64,
    /// SPSR_EL1.
    pub spsr: u64,
}

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The exception, if one came.
    pub exception: Option<Exception>,
    /// The value that was read, where one was.
    pub value: u64,
}

/// PSTATE of EL1h with interrupts masked.
const EL1H: u64 = 0x3c5;
/// ESR_ELx.EC of an SVC from AArch64.
const EC_SVC: u64 = 0x15;
/// ESR_ELx.WnR of a Data Abort.
pub const WNR: u64 = 1 << 6;
/// ESR_ELx.IL.
const IL: u64 = 1 << 25;
/// ESR_ELx.ISS2.Overlay.
pub const OVERLAY: u64 = 1 << 38;
/// ESR_ELx.ISS2.DirtyBit.
pub const DIRTY: u64 = 1 << 37;

/// What EL0 runs, by its place in `conformance_user`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum UserCode {
    /// Reads the word at x0 to x1.
    Load,
    /// Writes x1 to the word at x0.
    Store,
    /// MRS x1, POR_EL0.
    ReadPor0,
    /// MSR POR_EL0, x1.
    WritePor0,
    /// MRS x1, POR_EL1.
    ReadPor1,
    /// MRS x1, PIR_EL1.
    ReadPir,
    /// MRS x1, PIRE0_EL1.
    ReadPire0,
    /// MRS x1, TCR2_EL1.
    ReadTcr2,
}

type Attempt = unsafe extern "C" fn(*mut Words, u64, u64) -> u64;

unsafe extern "C" {
    fn conformance_load(record: *mut Words, address: u64, value: u64) -> u64;
    fn conformance_store(record: *mut Words, address: u64, value: u64) -> u64;
    fn conformance_ldtr(record: *mut Words, address: u64, value: u64) -> u64;
    fn conformance_sttr(record: *mut Words, address: u64, value: u64) -> u64;
    fn conformance_swap(record: *mut Words, address: u64, value: u64) -> u64;
    fn conformance_fetch(record: *mut Words, address: u64, value: u64) -> u64;
    fn conformance_mrs_por_el1(record: *mut Words, address: u64, value: u64) -> u64;
    fn conformance_mrs_por_el0(record: *mut Words, address: u64, value: u64) -> u64;
    fn conformance_mrs_por_el2(record: *mut Words, address: u64, value: u64) -> u64;
    fn conformance_mrs_por_el3(record: *mut Words, address: u64, value: u64) -> u64;
    fn conformance_mrs_por_el12(record: *mut Words, address: u64, value: u64) -> u64;
    fn conformance_mrs_pir_el1(record: *mut Words, address: u64, value: u64) -> u64;
    fn conformance_mrs_pire0_el1(record: *mut Words, address: u64, value: u64) -> u64;
    fn conformance_mrs_tcr2_el1(record: *mut Words, address: u64, value: u64) -> u64;
    fn conformance_msr_por_el1(record: *mut Words, address: u64, value: u64) -> u64;
    fn conformance_msr_por_el0(record: *mut Words, address: u64, value: u64) -> u64;
    fn conformance_el0(record: *mut Words, pc: u64, x0: u64, x1: u64) -> u64;
    static conformance_vectors: u8;
}

/// An instruction at EL1 that may be UNDEFINED.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// MRS, POR_EL1.
    ReadPor1,
    /// MRS, POR_EL0.
    ReadPor0,
    /// MRS, POR_EL2.
    ReadPor2,
    /// MRS, POR_EL3.
    ReadPor3,
    /// MRS, POR_EL12.
    ReadPor12,
    /// MRS, PIR_EL1.
    ReadPir,
    /// MRS, PIRE0_EL1.
    ReadPire0,
    /// MRS, TCR2_EL1.
    ReadTcr2,
    /// MSR POR_EL1.
    WritePor1,
    /// MSR POR_EL0.
    WritePor0,
}

/// An access, by who makes it and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// LDR at EL1.
    Load,
    /// STR at EL1.
    Store,
    /// SWP at EL1: read and write at once.
    Swap,
    /// A branch at EL1.
    Fetch,
    /// LDR at EL0.
    UserLoad,
    /// STR at EL0.
    UserStore,
    /// A branch at EL0.
    UserFetch,
    /// LDTR at EL1.
    Ldtr,
    /// STTR at EL1.
    Sttr,
    /// An address translation instruction at EL1.
    At(Translate),
}

impl Record {
    /// Without exceptions so far.
    pub const fn new() -> Self {
        Record(UnsafeCell::new(Words { esr: 0, far: 0, elr: 0, spsr: 0, resume: 0, pstate: EL1H, count: 0 }))
    }

    /// Its address.
    pub const fn address(&'static self) -> *const Record {
        self
    }
}

impl Access {
    /// Every data access and fetch but SWP.
    pub const ALL: [Access; 8] = [
        Access::Load,
        Access::Store,
        Access::Fetch,
        Access::UserLoad,
        Access::UserStore,
        Access::UserFetch,
        Access::Ldtr,
        Access::Sttr,
    ];
    /// Every address translation instruction.
    pub const TRANSLATIONS: [Access; 6] = [
        Access::At(Translate::S1E1R),
        Access::At(Translate::S1E1W),
        Access::At(Translate::S1E0R),
        Access::At(Translate::S1E0W),
        Access::At(Translate::S1E1RP),
        Access::At(Translate::S1E1WP),
    ];

    /// Its direction; SWP, which has two, counts as a write.
    pub const fn kind(self) -> Kind {
        match self {
            Access::Fetch | Access::UserFetch => Kind::Fetch,
            Access::Load | Access::UserLoad | Access::Ldtr => Kind::Read,
            Access::At(Translate::S1E1R | Translate::S1E0R | Translate::S1E1RP) => Kind::Read,
            Access::Store | Access::Swap | Access::UserStore | Access::Sttr | Access::At(_) => Kind::Write,
        }
    }

    /// Whether the permissions for privileged accesses are the ones that count. With PSTATE.UAO they are for LDTR and STTR too.
    pub const fn privileged(self, uao: bool) -> bool {
        match self {
            Access::Ldtr | Access::Sttr => uao,
            Access::At(translate) => !matches!(translate, Translate::S1E0R | Translate::S1E0W),
            Access::Load | Access::Store | Access::Swap | Access::Fetch => true,
            Access::UserLoad | Access::UserStore | Access::UserFetch => false,
        }
    }

    /// Whether PSTATE.PAN counts for it (C5.5 for the translations).
    pub const fn heeds_pan(self) -> bool {
        !matches!(self, Access::At(Translate::S1E1R | Translate::S1E1W | Translate::S1E0R | Translate::S1E0W))
    }

    const fn is_el0(self) -> bool {
        matches!(self, Access::UserLoad | Access::UserStore | Access::UserFetch)
    }

    /// ESR_EL1 of the abort with fault status `status` (D24.2 "ESR_EL1", ISS encodings of Instruction and Data Aborts). ISV is 0
    /// for a stage 1 fault, and so is all that it validates.
    pub fn syndrome(self, status: u64, bits: u64) -> u64 {
        let class = match (self.kind(), self.is_el0()) {
            (Kind::Fetch, true) => 0x20,
            (Kind::Fetch, false) => 0x21,
            (_, true) => 0x24,
            (_, false) => 0x25,
        };
        let wnr = if self.kind() == Kind::Write { WNR } else { 0 };
        class << 26 | IL | wnr | status | bits
    }
}

/// Fault status of a Permission fault at `level`.
pub const fn permission_fault(level: u8) -> u64 {
    0b001100 | level as u64
}

/// PAR_EL1 after a translation that failed with `status` (D24.2 "PAR_EL1", F is 1).
pub const fn failed_translation(status: u64, cause: Option<Cause>) -> u64 {
    let flags = match cause {
        Some(Cause::Overlay) => 1 << 14,
        Some(Cause::Dirty) => 1 << 15,
        Some(Cause::Base) | None => 0,
    };
    1 | status << 1 | 1 << 11 | flags
}

/// ESR_EL1's bits beside the status, for a Permission fault.
pub const fn cause_bits(cause: Cause) -> u64 {
    match cause {
        Cause::Overlay => OVERLAY,
        Cause::Base => 0,
        Cause::Dirty => DIRTY,
    }
}

/// The CPU that runs this, with its record.
#[derive(Clone, Copy, Debug)]
pub struct Prober {
    record: &'static Record,
}

/// Where code and data of an attempt are.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Address of the leaf's page.
    pub page: u64,
    /// Address of the code that EL0 runs.
    pub user: u64,
}

/// Where in the page the data is.
pub const DATA: u64 = 0x800;
/// Where in the page EL0's code is; EL1's is at its start.
const USER_CODE: u64 = 8;

impl Prober {
    /// Points this CPU's TPIDRRO_EL0 at `record`, and VBAR_EL1 at the vectors of this kernel.
    pub fn install(record: &'static Record) -> Self {
        // SAFETY: (1) the vectors are code of this kernel that goes on after every exception which is expected, and reports every
        // other; (2) nothing else uses TPIDRRO_EL0; (3) interrupts are masked.
        unsafe {
            cpu::tpidrro::write(record.0.get().addr() as u64);
            cpu::vbar::write(vectors());
        }
        cpu::isb();
        Prober { record }
    }

    /// The record of the CPU that runs this, which [`Prober::install`] has set up or a start-up code in its place.
    pub const fn on(record: &'static Record) -> Self {
        Prober { record }
    }

    fn words(&self) -> Words {
        // SAFETY: no exception comes here, and no other CPU touches the record.
        unsafe { self.record.0.get().read_volatile() }
    }

    /// Says which PSTATE.PAN and UAO there are, so that coming back from EL0 brings them back.
    pub fn set_pstate(&self, bits: u64) {
        // SAFETY: as in `words`.
        unsafe { (&raw mut (*self.record.0.get()).pstate).write_volatile(EL1H | bits) };
    }

    fn attempt(&self, before: u64, value: u64) -> Outcome {
        let words = self.words();
        let Words { esr, far, elr, spsr, .. } = words;
        let exception = (words.count != before).then_some(Exception { esr, far, elr, spsr });
        Outcome { exception, value }
    }

    fn call(&self, attempt: Attempt, address: u64, value: u64) -> Outcome {
        let before = self.words().count;
        // SAFETY: it accesses test memory or registers by one instruction, behind which it goes on in any case.
        let value = unsafe { attempt(self.record.0.get(), address, value) };
        self.attempt(before, value)
    }

    fn at_el0(&self, pc: u64, x0: u64, x1: u64) -> Outcome {
        let before = self.words().count;
        // SAFETY: EL0 reaches nothing but the test page and its own code, and comes back by an exception.
        let value = unsafe { conformance_el0(self.record.0.get(), pc, x0, x1) };
        self.attempt(before, value)
    }

    /// Runs one of EL0's pieces of code on `x0` and `x1`.
    pub fn user(&self, target: Target, code: UserCode, x0: u64, x1: u64) -> Outcome {
        self.at_el0(target.user + code as u64 * 8, x0, x1)
    }

    /// Executes `instruction` with `value` in its register.
    pub fn instruction(&self, instruction: Instruction, value: u64) -> Outcome {
        let attempt: Attempt = match instruction {
            Instruction::ReadPor1 => conformance_mrs_por_el1,
            Instruction::ReadPor0 => conformance_mrs_por_el0,
            Instruction::ReadPor2 => conformance_mrs_por_el2,
            Instruction::ReadPor3 => conformance_mrs_por_el3,
            Instruction::ReadPor12 => conformance_mrs_por_el12,
            Instruction::ReadPir => conformance_mrs_pir_el1,
            Instruction::ReadPire0 => conformance_mrs_pire0_el1,
            Instruction::ReadTcr2 => conformance_mrs_tcr2_el1,
            Instruction::WritePor1 => conformance_msr_por_el1,
            Instruction::WritePor0 => conformance_msr_por_el0,
        };
        self.call(attempt, 0, value)
    }

    /// Makes `access` at `target`; stores write `value`. Translations put PAR_EL1 into the outcome's value.
    pub fn run(&self, access: Access, target: Target, value: u64) -> Outcome {
        let data = target.page + DATA;
        match access {
            Access::Load => self.call(conformance_load, data, 0),
            Access::Store => self.call(conformance_store, data, value),
            Access::Swap => self.call(conformance_swap, data, value),
            Access::Fetch => self.call(conformance_fetch, target.page, 0),
            Access::Ldtr => self.call(conformance_ldtr, data, 0),
            Access::Sttr => self.call(conformance_sttr, data, value),
            Access::UserLoad => self.user(target, UserCode::Load, data, 0),
            Access::UserStore => self.user(target, UserCode::Store, data, value),
            Access::UserFetch => self.at_el0(target.page + USER_CODE, 0, 0),
            Access::At(translate) => Outcome { exception: None, value: translate.run(data) },
        }
    }
}

/// Address of the vectors.
pub fn vectors() -> u64 {
    (&raw const conformance_vectors).addr() as u64
}

/// Whether `outcome` is that of an access which is done. Code at EL0 that is done ends in an SVC.
pub fn is_done(access: Access, outcome: &Outcome, target: Target) -> bool {
    let Some(exception) = outcome.exception else { return !access.is_el0() };
    let (immediate, pc) = match access {
        Access::UserLoad => (0x50, target.user + 8),
        Access::UserStore => (0x50, target.user + 16),
        Access::UserFetch => (0x51, target.page + USER_CODE + 4),
        _ => return false,
    };
    exception.esr == EC_SVC << 26 | IL | immediate && exception.elr == pc && exception.spsr & 0xf == 0
}

/// Whether `outcome` is the abort `syndrome`, with its address, and where from. SPSR_EL1.PAN and UAO are `pstate`'s where it came from EL1.
pub fn is_abort(access: Access, outcome: &Outcome, target: Target, syndrome: u64, pstate: u64) -> bool {
    let Some(exception) = outcome.exception else { return false };
    let (far, elr) = match access {
        Access::Fetch => (target.page, Some(target.page)),
        Access::UserFetch => (target.page + USER_CODE, Some(target.page + USER_CODE)),
        Access::UserLoad => (target.page + DATA, Some(target.user)),
        Access::UserStore => (target.page + DATA, Some(target.user + 8)),
        _ => (target.page + DATA, None),
    };
    let mode = if access.is_el0() { 0 } else { 5 | pstate };
    let mask = if access.is_el0() { 0xf } else { 0xf | cpu::PAN | cpu::UAO };
    exception.esr == syndrome
        && exception.far == far
        && elr.is_none_or(|elr| exception.elr == elr)
        && exception.spsr & mask == mode
}

/// The verdict on a read-modify-write: read and write permission are evaluated together at each step of the priority (D8.15.5.1), and
/// ESR_ELx.WnR is 0 where the read alone would have had the fault. Also returns whether WnR is 1.
pub fn read_and_write(read: Verdict, write: Verdict) -> (Verdict, bool) {
    for cause in [Cause::Overlay, Cause::Base, Cause::Dirty] {
        if read == Verdict::Denied(cause) {
            return (read, false);
        }
        if write == Verdict::Denied(cause) {
            return (write, true);
        }
    }
    (if read == Verdict::Open || write == Verdict::Open { Verdict::Open } else { Verdict::Allowed }, true)
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.exception {
            None => write!(f, "no exception, value {:#x}", self.value),
            Some(Exception { esr, far, elr, spsr }) => {
                write!(f, "ESR {esr:#x} FAR {far:#x} ELR {elr:#x} SPSR {spsr:#x}")
            }
        }
    }
}

/// Where the vectors go with an exception that nothing expects: says what it was, and ends the kernel.
#[unsafe(no_mangle)]
extern "C" fn conformance_unexpected(record: &Record) -> ! {
    let Words { esr, far, elr, spsr, .. } = Prober { record: leak(record) }.words();
    let index = palisade::percpu::PerCpu::current().index();
    palisade::println!(
        "conformance: unexpected exception on CPU {index}: ESR {esr:#x} FAR {far:#x} ELR {elr:#x} SPSR {spsr:#x}"
    );
    palisade::exit(1)
}

/// The record, which lives for ever.
fn leak(record: &Record) -> &'static Record {
    // SAFETY: `Prober::install` takes no other.
    unsafe { &*core::ptr::from_ref(record) }
}
