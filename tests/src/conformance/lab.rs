//! The place where accesses are made: tables of its own below TTBR0_EL1, a page of memory, and the registers that decide.

use super::attempt::{
    Access, DATA, Outcome, Prober, Target, WNR, cause_bits, failed_translation, is_abort, is_done, permission_fault,
    read_and_write,
};
use super::cpu;
use super::rules::{Cause, Hierarchy, Kind, Leaf, Setting, Verdict, with_field};
use super::score::Score;
use core::ptr;
use mm::addr::{Frame, PAGE_SIZE};
use mm::linear;
use palisade::Boot;
use pkeys::pi::{PIR_EL1, PIRE0_EL1, PiIndex};

/// Where the lab begins: slot 1 of the root.
const BASE: u64 = 1 << 39;
/// The page with the leaf at level 3.
const PAGE: u64 = BASE;
/// The block of 2 MiB with the leaf at level 2.
const BLOCK: u64 = BASE + (2 << 20);
/// What EL0 runs.
const USER: u64 = BASE + (4 << 20);
/// The crowd: 512 pages with leaves of their own.
const CROWD: u64 = BASE + (6 << 20);
/// The block of 1 GiB with the leaf at level 1.
const HUGE: u64 = BASE + (1 << 30);

/// PIIndices that the kernel itself or EL0's code needs as they are.
const TAKEN: [u8; 4] =
    [PiIndex::KernelText as u8, PiIndex::KernelRodata as u8, PiIndex::KernelData as u8, PiIndex::UserText as u8];
/// The PIIndices that are free.
pub const FREE: [u8; 12] = free();
/// The PIIndex that tests have where it does not matter.
pub const INDEX: u8 = 3;

const fn free() -> [u8; 12] {
    let mut free = [0; 12];
    let (mut index, mut n) = (0, 0);
    while index < 16 {
        if index != TAKEN[0] && index != TAKEN[1] && index != TAKEN[2] && index != TAKEN[3] {
            free[n] = index;
            n += 1;
        }
        index += 1;
    }
    free
}

const VALID: u64 = 1 << 0;
const TABLE_OR_PAGE: u64 = 1 << 1;
const INNER_SHAREABLE: u64 = 3 << 8;
const ACCESSED: u64 = 1 << 10;
/// Fields 1 and 2 readable, as the kernel's closed keys are; 0 open.
const POR: u64 = 0x117;
/// Every key open.
pub const ALL_OPEN: u64 = 0x7777_7777;

/// What the lab needs of the CPU.
#[derive(Clone, Copy, Debug)]
pub struct Has {
    /// FEAT_S1PIE and FEAT_TCR2.
    pub pie: bool,
    /// FEAT_S1POE.
    pub poe: bool,
    /// FEAT_PAN2.
    pub pan2: bool,
    /// FEAT_PAN3: SCTLR_EL1.EPAN.
    pub pan3: bool,
    /// FEAT_UAO.
    pub uao: bool,
    /// FEAT_LSE.
    pub lse: bool,
}

impl Has {
    /// Reads the ID registers.
    pub fn read() -> Self {
        let id = |register: u64, low: u32| register >> low & 0xf;
        let mmfr3 = cpu::mmfr3::read();
        Has {
            pie: id(mmfr3, 0) >= 1 && id(mmfr3, 8) >= 1,
            poe: id(mmfr3, 0) >= 1 && id(mmfr3, 16) >= 1,
            pan2: id(cpu::mmfr1::read(), 20) >= 2,
            pan3: id(cpu::mmfr1::read(), 20) >= 3,
            uao: id(cpu::mmfr2::read(), 4) >= 1,
            lse: id(cpu::isar0::read(), 20) >= 2,
        }
    }
}

/// A table of the lab's, of which the linear map has the only writable alias.
#[derive(Clone, Copy, Debug)]
struct Table(Frame);

impl Table {
    fn set(self, index: u64, descriptor: u64) {
        // SAFETY: the frame is the lab's own, and the linear map holds it writable.
        unsafe { linear::ptr(self.0.start()).cast::<u64>().add(index as usize).write_volatile(descriptor) };
    }

    fn link(self, index: u64, to: Table, above: Hierarchy) {
        let bits = u64::from(above.ap) << 61 | u64::from(above.uxn) << 60 | u64::from(above.pxn) << 59;
        self.set(index, to.0.start().get() | VALID | TABLE_OR_PAGE | bits);
    }
}

/// The registers as they were before, to go back to.
#[derive(Clone, Copy, Debug)]
pub struct Saved {
    ttbr0: u64,
    tcr: u64,
    tcr2: u64,
    pir: u64,
    pire0: u64,
    sctlr: u64,
    vbar: u64,
}

/// The lab.
#[derive(Debug)]
pub struct Lab {
    /// What the CPU has.
    pub has: Has,
    /// The results.
    pub score: Score,
    /// The CPU's record of exceptions.
    pub prober: Prober,
    saved: Saved,
    /// The setting in force.
    now: Setting,
    root: Table,
    l1: Table,
    l2: Table,
    l3: Table,
    l3_user: Table,
    crowd: Table,
    /// The page that is accessed.
    page: Frame,
    /// What EL0 runs.
    user: Frame,
    /// The last value stored.
    last: u64,
}

/// Everything open, to begin with.
const START: Setting = Setting {
    leaf: Leaf { level: 3, pi_index: INDEX, bit7: false, po_index: 3 },
    above: Hierarchy { ap: 0, uxn: false, pxn: false },
    hpd: true,
    pie: false,
    poe: false,
    e0poe: false,
    wxn: false,
    pan: false,
    uao: false,
    epan: false,
    pir: PIR_EL1,
    pire0: PIRE0_EL1,
    por: ALL_OPEN,
    por0: ALL_OPEN,
};

unsafe extern "C" {
    static conformance_page: [u8; 16];
    static conformance_user: u8;
    static conformance_user_end: u8;
}

impl Lab {
    /// Takes frames, builds the tables and puts them into force. The CPU is the lab's from here on.
    ///
    /// # Panics
    /// Where memory is out.
    pub fn new(boot: &Boot, record: &'static super::attempt::Record) -> Self {
        let frame = || zeroed(boot);
        let table = || Table(frame());
        let (root, l1, l2, l3, l3_user, crowd) = (table(), table(), table(), table(), table(), table());
        let (page, user) = (frame(), frame());
        let saved = Saved {
            ttbr0: cpu::ttbr0::read(),
            tcr: cpu::tcr::read(),
            tcr2: if Has::read().pie { cpu::tcr2::read() } else { 0 },
            pir: if Has::read().pie { cpu::pir::read() } else { 0 },
            pire0: if Has::read().pie { cpu::pire0::read() } else { 0 },
            sctlr: cpu::sctlr::read(),
            vbar: cpu::vbar::read(),
        };
        let prober = Prober::install(record);
        let has = Has::read();
        let score = Score::default();
        let mut lab =
            Lab { has, score, prober, saved, now: START, root, l1, l2, l3, l3_user, crowd, page, user, last: 0x5eed };
        lab.fill();
        lab.link();
        lab.force();
        lab
    }

    /// Puts the code into the frames.
    fn fill(&self) {
        let page = linear::ptr(self.page.start());
        let user = linear::ptr(self.user.start());
        let from = (&raw const conformance_user).cast::<u8>();
        let bytes = (&raw const conformance_user_end).addr() - from.addr();
        // SAFETY: the frames are the lab's, a page each, and the code is shorter.
        unsafe {
            ptr::copy_nonoverlapping((&raw const conformance_page).cast::<u8>(), page, 16);
            ptr::copy_nonoverlapping(from, user, bytes);
            page.add(DATA as usize).cast::<u64>().write_volatile(self.last);
        }
        for code in [page, user] {
            // SAFETY: cleans the line (of 64 bytes at least) to where instructions are fetched.
            unsafe { core::arch::asm!("dc cvau, {}", in(reg) code, options(nostack, preserves_flags)) };
            // SAFETY: the second line of EL0's code, if lines are that short.
            unsafe { core::arch::asm!("dc cvau, {}", in(reg) code.add(64), options(nostack, preserves_flags)) };
        }
        // SAFETY: drops the instruction cache.
        unsafe { core::arch::asm!("dsb ish", "ic iallu", "dsb ish", "isb", options(nostack, preserves_flags)) };
    }

    /// Links the tables. The leaves come with the first setting.
    fn link(&self) {
        let none = Hierarchy::default();
        self.root.link(BASE >> 39, self.l1, none);
        self.l1.link(0, self.l2, none);
        self.l2.link(0, self.l3, none);
        self.l2.link(USER >> 21 & 511, self.l3_user, none);
    }

    /// The descriptor of EL0's code, which has a key that the tested leaf has not.
    fn user_leaf(&self, po_index: u8) -> u64 {
        let leaf = Leaf { level: 3, pi_index: PiIndex::UserText as u8, bit7: true, po_index: user_key(po_index) };
        descriptor(leaf, self.user)
    }

    /// The physical address of the root.
    pub const fn root(&self) -> u64 {
        self.root.0.start().get()
    }

    /// Maps the 1 GiB of physical memory with `physical` at its own address, for EL1 to execute.
    pub fn map_identity(&self, boot: &Boot, physical: u64) {
        let table = Table(zeroed(boot));
        let leaf = Leaf { level: 1, pi_index: PiIndex::KernelText as u8, bit7: true, po_index: 0 };
        let first = Frame::from_number(physical >> 30 << 18);
        table.set(physical >> 30 & 511, descriptor(leaf, first));
        self.root.link(physical >> 39, table, Hierarchy::default());
        cpu::flush_tlb();
    }

    /// Links the crowd's table.
    pub fn link_crowd(&self) {
        self.l2.link(CROWD >> 21 & 511, self.crowd, Hierarchy::default());
        cpu::flush_tlb();
    }

    /// Gives page `i` of the crowd, 0 to 511, the leaf `leaf`, break before make; the memory behind is every page's.
    pub fn map_crowd(&self, i: u64, leaf: Leaf) {
        let page = Lab::crowd(i).page;
        self.crowd.set(i, 0);
        cpu::flush_page(page);
        self.crowd.set(i, descriptor(leaf, self.page));
        cpu::flush_page(page);
    }

    /// Where page `i` of the crowd is.
    pub const fn crowd(i: u64) -> Target {
        Target { page: CROWD + i * PAGE_SIZE, user: USER }
    }

    /// Where the leaf of the setting in force is.
    pub fn target(&self) -> Target {
        let within = |mask: u64| self.page.start().get() & mask;
        let page = match self.now.leaf.level {
            1 => HUGE + within((1 << 30) - 1),
            2 => BLOCK + within((2 << 20) - 1),
            _ => PAGE,
        };
        Target { page, user: USER }
    }

    /// A setting to begin with: everything open, by direct permissions or indirect ones.
    pub fn base(&self, pie: bool) -> Setting {
        Setting { pie, ..START }
    }

    /// Puts `setting` into force. What may be held in a TLB is flushed; a change of POR_EL1, POR_EL0, POE or E0POE gets an ISB alone
    /// (I_SKPNZ, I_KPGBV, I_SDBKH), but where TCR_EL1.HPD0 is 0 (I_VCQZV).
    pub fn set(&mut self, setting: Setting) {
        if setting == self.now {
            return;
        }
        let before = self.now;
        self.now = setting;
        if setting.leaf != before.leaf || setting.above != before.above {
            self.remap(before.leaf.level);
        }
        let cached = |s: &Setting| (s.pie, s.wxn, s.epan, s.hpd, (!s.hpd).then_some((s.poe, s.e0poe)));
        if cached(&setting) != cached(&before) {
            self.force();
            return;
        }
        if (setting.pir, setting.pire0) != (before.pir, before.pire0) {
            self.write_pir();
            match setting.leaf.level {
                3 => cpu::flush_page(PAGE),
                _ => cpu::flush_tlb(),
            }
        }
        self.write_overlays(Some(before));
    }

    /// Notes that `setting`, of which POR_EL0 alone is new, is in force already.
    pub fn assume(&mut self, setting: Setting) {
        self.now = setting;
    }

    /// Puts the setting into force anew, after registers were written past it.
    pub fn renew(&mut self) {
        self.force();
    }

    /// Writes every register, and drops the TLB.
    fn force(&mut self) {
        let s = self.now;
        let sctlr = self.saved.sctlr & !(cpu::SCTLR_WXN | cpu::SCTLR_EPAN);
        let sctlr = sctlr | flag(s.wxn, cpu::SCTLR_WXN) | flag(s.epan, cpu::SCTLR_EPAN);
        let tcr = self.saved.tcr & !cpu::TCR_HPD0 | flag(s.hpd, cpu::TCR_HPD0);
        self.remap(s.leaf.level);
        self.write_pir();
        self.write_overlays(None);
        // SAFETY: the kernel's own mappings are in TTBR1's half, mean the same by direct and by indirect permissions, and none of them is
        // writable and executable.
        unsafe {
            cpu::sctlr::write(sctlr);
            cpu::tcr::write(tcr);
            cpu::ttbr0::write(self.root());
        }
        cpu::isb();
        cpu::flush_tlb();
    }

    /// Rewrites the leaf, break before make.
    fn remap(&self, before: u8) {
        let slot = |level: u8| match level {
            1 => (self.l1, 1),
            2 => (self.l2, 1),
            _ => (self.l3, 0),
        };
        let (table, index) = slot(before);
        table.set(index, 0);
        self.l3_user.set(0, 0);
        self.l2.set(0, 0);
        cpu::flush_tlb();
        let leaf = self.now.leaf;
        let (table, index) = slot(leaf.level);
        table.set(index, descriptor(leaf, self.page));
        self.l3_user.set(0, self.user_leaf(leaf.po_index));
        self.l2.link(0, self.l3, self.now.above);
        cpu::flush_tlb();
    }

    fn write_pir(&self) {
        if self.has.pie {
            // SAFETY: the fields of the kernel's own indices stay as they are.
            unsafe {
                cpu::pir::write(keep(self.now.pir, PIR_EL1));
                cpu::pire0::write(keep(self.now.pire0, PIRE0_EL1));
            }
        }
    }

    /// Writes what differs from `before`, and no more: whatever else is written might flush the TLB in passing.
    fn write_overlays(&self, before: Option<Setting>) {
        let now = self.now;
        let has = self.has;
        let differs = |value: fn(&Setting) -> u64| before.is_none_or(|before| value(&before) != value(&now));
        self.prober.set_pstate(pstate(&now));
        // SAFETY: (1) key 0, the kernel's own, stays open in POR_EL1, and EL0's code has a key that is open in POR_EL0; (2) the kernel's
        // mappings mean the same by direct and by indirect permissions; (3) PAN and UAO concern user memory alone.
        unsafe {
            if has.poe && differs(por) {
                cpu::por::write(por(&now));
            }
            if has.poe && differs(por0) {
                cpu::por0::write(por0(&now));
            }
            if (has.pie || has.poe) && differs(tcr2) {
                cpu::tcr2::write(tcr2(&now));
            }
            if has.pan2 && differs(pstate) {
                cpu::pan::write(pstate(&now) & cpu::PAN);
            }
            if has.uao && differs(pstate) {
                cpu::uao::write(pstate(&now) & cpu::UAO);
            }
        }
        cpu::isb();
    }

    /// Goes back to how the registers were.
    pub fn leave(self) -> Score {
        let saved = self.saved;
        // SAFETY: the values are those of the kernel.
        unsafe {
            if self.has.poe {
                cpu::por::write(POR);
            }
            if self.has.pie {
                cpu::pir::write(saved.pir);
                cpu::pire0::write(saved.pire0);
                cpu::tcr2::write(saved.tcr2);
            }
            cpu::sctlr::write(saved.sctlr);
            cpu::tcr::write(saved.tcr);
            cpu::ttbr0::write(saved.ttbr0);
            cpu::vbar::write(saved.vbar);
        }
        cpu::isb();
        cpu::flush_tlb();
        self.score
    }

    /// Whether the CPU can be put into `setting`, and make `access`.
    pub fn possible(&self, setting: &Setting, access: Access) -> bool {
        let has = self.has;
        (has.pie || !setting.pie)
            && (has.poe || !setting.poe && !setting.e0poe)
            && (has.pan2 || !setting.pan && !Access::TRANSLATIONS[4..].contains(&access))
            && (has.pan3 || !setting.epan)
            && (has.uao || !setting.uao)
            && (has.lse || access != Access::Swap)
    }

    /// Judges `access` in `setting`.
    pub fn check(&mut self, setting: Setting, access: Access) {
        if self.possible(&setting, access) {
            self.set(setting);
            self.make(setting, access, self.target());
        }
    }

    /// Makes `access` at `target`, whose leaf and all else that decides is `setting`, and judges it.
    pub fn make(&mut self, setting: Setting, access: Access, target: Target) {
        self.last = self.last.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let held = self.held();
        let outcome = self.prober.run(access, target, self.last);
        let privileged = access.privileged(setting.uao);
        let of = |kind| setting.verdict(privileged, kind, access.heeds_pan());
        let (verdict, wnr) = match access {
            Access::Swap => read_and_write(of(Kind::Read), of(Kind::Write)),
            _ => (of(access.kind()), true),
        };
        let made = Made { setting, access, target, outcome };
        let right = self.is_right(&made, verdict, wnr, held);
        if !right && self.is_known(&made, verdict, [of(Kind::Read), of(Kind::Write)]) {
            self.score.excuse();
            return;
        }
        self.score.judge(right, format_args!("{access:?} with {setting}: {verdict} expected; {outcome}"));
    }

    /// What QEMU is known to do wrong, and is not about overlays:
    /// 1. Without FEAT_S1POE, that is the released ones up to 11.1: nDirty counts only where a store walks the tables, neither behind a TLB
    ///    entry that a load has left nor for AT.
    /// 2. A read-modify-write is checked as a load and a store one after the other, and the first of them that faults is reported: not the
    ///    one that D8.15.5.1 puts first.
    /// 3. What PSTATE.PAN takes from data accesses is no longer writable to SCTLR_EL1.WXN, though PAN is not about fetches.
    fn is_known(&self, made: &Made, verdict: Verdict, halves: [Verdict; 2]) -> bool {
        let Made { setting, access, .. } = *made;
        let denied = |half: Verdict, bits: u64| {
            let Verdict::Denied(cause) = half else { return false };
            made.is_abort(made.syndrome(cause) & !WNR | bits)
        };
        match (access, verdict) {
            (Access::Swap, Verdict::Denied(_)) => denied(halves[0], 0) || denied(halves[1], WNR),
            (Access::Fetch, Verdict::Denied(Cause::Base)) => {
                !setting.pie && setting.wxn && setting.pan && setting.epan && made.is_done()
            }
            (Access::At(_), Verdict::Denied(Cause::Dirty)) => !self.has.poe && made.outcome.value & 1 == 0,
            (_, Verdict::Denied(Cause::Dirty)) => !self.has.poe && made.is_done(),
            _ => false,
        }
    }

    /// Judges every access of `accesses` in `setting`.
    pub fn check_all(&mut self, setting: Setting, accesses: &[Access]) {
        for access in accesses {
            self.check(setting, *access);
        }
    }

    /// The word that accesses reach, by way of the linear map.
    fn held(&self) -> u64 {
        // SAFETY: the page is the lab's, and readable there.
        unsafe { linear::ptr(self.page.start()).add(DATA as usize).cast::<u64>().read_volatile() }
    }

    fn is_right(&self, made: &Made, verdict: Verdict, wnr: bool, before: u64) -> bool {
        let Made { setting, access, outcome, .. } = *made;
        let expected = match (access.kind(), verdict) {
            (Kind::Write, Verdict::Allowed) if !matches!(access, Access::At(_)) => self.last,
            _ => before,
        };
        let memory = verdict == Verdict::Open || self.held() == expected;
        let reads = access.kind() == Kind::Read || access == Access::Swap;
        let answer = match (access, verdict) {
            (_, Verdict::Open) => true,
            (Access::At(_), Verdict::Allowed) => {
                outcome.value & 1 == 0 && outcome.value & 0x0000_ffff_ffff_f000 == self.page.start().get()
            }
            (Access::At(_), Verdict::Denied(cause)) => {
                let failed = failed_translation(permission_fault(setting.leaf.level), Some(cause));
                outcome.value & 0x0000_ffff_ffff_ffff == failed
            }
            (_, Verdict::Allowed) => made.is_done() && (!reads || outcome.value == before),
            (_, Verdict::Denied(cause)) => made.is_abort(made.syndrome(cause) & if wnr { !0 } else { !WNR }),
        };
        memory && answer
    }

    /// PSTATE.PAN and UAO in force.
    pub fn pstate(&self) -> u64 {
        pstate(&self.now)
    }

    /// Makes `access` in `setting` with the descriptor at `level` changed by `change` for as long; the caller judges.
    pub fn with_descriptor(
        &mut self,
        setting: Setting,
        level: u8,
        change: impl Fn(u64) -> u64,
        access: Access,
    ) -> Outcome {
        self.set(setting);
        let target = self.target();
        let (table, index) = match level {
            0 => (self.root, BASE >> 39),
            1 => (self.l1, target.page >> 30 & 511),
            2 => (self.l2, target.page >> 21 & 511),
            _ => (self.l3, 0),
        };
        // SAFETY: the table is the lab's own, and the linear map holds it.
        let slot = unsafe { linear::ptr(table.0.start()).cast::<u64>().add(index as usize) };
        // SAFETY: as above.
        let before = unsafe { slot.read_volatile() };
        // SAFETY: as above; the walker gets to see it only after the flush.
        unsafe { slot.write_volatile(0) };
        cpu::flush_tlb();
        table.set(index, change(before));
        cpu::flush_tlb();
        let outcome = self.prober.run(access, target, self.last);
        table.set(index, 0);
        cpu::flush_tlb();
        table.set(index, before);
        cpu::flush_tlb();
        outcome
    }
}

/// A frame for the lab alone.
fn zeroed(boot: &Boot) -> Frame {
    let frame = boot.memory.frames.alloc().expect("memory for the lab");
    // SAFETY: the frame is free for the lab alone, and in the linear map.
    unsafe { linear::ptr(frame.start()).write_bytes(0, PAGE_SIZE as usize) };
    frame
}

/// An access that has been made.
struct Made {
    setting: Setting,
    access: Access,
    target: Target,
    outcome: Outcome,
}

impl Made {
    fn is_done(&self) -> bool {
        is_done(self.access, &self.outcome, self.target)
    }

    fn is_abort(&self, syndrome: u64) -> bool {
        is_abort(self.access, &self.outcome, self.target, syndrome, pstate(&self.setting))
    }

    /// ESR_EL1 of the Permission fault.
    fn syndrome(&self, cause: Cause) -> u64 {
        self.access.syndrome(permission_fault(self.setting.leaf.level), cause_bits(cause))
    }
}

/// PSTATE.PAN and UAO.
fn pstate(setting: &Setting) -> u64 {
    flag(setting.pan, cpu::PAN) | flag(setting.uao, cpu::UAO)
}

/// POR_EL1 as it is written.
fn por(setting: &Setting) -> u64 {
    with_field(setting.por, 0, 7)
}

/// POR_EL0 as it is written.
fn por0(setting: &Setting) -> u64 {
    with_field(setting.por0, user_key(setting.leaf.po_index), 7)
}

/// TCR2_EL1.
fn tcr2(setting: &Setting) -> u64 {
    flag(setting.pie, cpu::TCR2_PIE) | flag(setting.poe, cpu::TCR2_POE) | flag(setting.e0poe, cpu::TCR2_E0POE)
}

/// `bit` where `on`.
const fn flag(on: bool, bit: u64) -> u64 {
    if on { bit } else { 0 }
}

/// `wanted` with the fields of the kernel's own indices as `kernel` has them.
const fn keep(wanted: u64, kernel: u64) -> u64 {
    let mut value = wanted;
    let mut i = 0;
    while i < TAKEN.len() {
        value = with_field(value, TAKEN[i], super::rules::field(kernel, TAKEN[i]));
        i += 1;
    }
    value
}

/// The key of EL0's code beside a leaf with `po_index`.
const fn user_key(po_index: u8) -> u8 {
    if po_index == 7 { 6 } else { 7 }
}

/// The descriptor of `leaf` for the page `frame`, or for the block that holds it.
fn descriptor(leaf: Leaf, frame: Frame) -> u64 {
    let shift = 12 + 9 * (3 - u32::from(leaf.level));
    let index = u64::from(leaf.pi_index);
    let permissions = (index >> 3 & 1) << 54 | (index >> 2 & 1) << 53 | (index >> 1 & 1) << 51 | (index & 1) << 6;
    let bits = permissions | u64::from(leaf.bit7) << 7 | u64::from(leaf.po_index) << 60;
    let page = if leaf.level == 3 { TABLE_OR_PAGE } else { 0 };
    frame.start().get() >> shift << shift | bits | VALID | ACCESSED | INNER_SHAREABLE | page
}
