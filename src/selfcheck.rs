//! The self-check: before anything is measured, an unguarded store is tried on tables of every kind and level, through every
//! mapping that their frames have.
//!
//! With protection on each has to fault and leave the entry as it was. The very same stores with protection off have to land, else
//! the check itself has failed: one that can't fail proves nothing.

use crate::boot::Boot;
use crate::exception::{Fault, Kind, probe};
use crate::protection::Protection;
use crate::window::with_protection_off;
use alloc::vec::Vec;
use core::fmt;
use mm::addr::{Frame, FrameRange, Page, PageRange, PhysAddr, VirtAddr};
use mm::area::{AreaError, Areas, VmFlags};
use mm::audit;
use mm::desc::{Descriptor, Level};
use mm::frame::OutOfMemory;
use mm::linear::LINEAR_BASE;
use mm::space::{self, AddressSpace, SpaceError};
use mm::table::{Table, leaves_of};
use pkeys::{Batched, Context, PorGate};
use platform::arch::Arm;

/// A bit of a descriptor that the CPU ignores in both table and leaf entries (Arm ARM D8.3: bits 58:55 of a leaf, 58:51 of a
/// table descriptor): flipping it changes memory but no translation.
const IGNORED_BIT: u64 = 1 << 55;

/// The first page that the checks' own spaces map.
const USER_PAGE: u64 = 0x7f_1234_5000;

/// One entry of one table.
#[derive(Clone, Copy, Debug)]
struct Target {
    what: &'static str,
    /// Unknown of boot tables.
    level: Option<Level>,
    table: Frame,
    index: usize,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} table", self.what)?;
        if let Some(level) = self.level {
            write!(f, " of {level}")?;
        }
        write!(f, " in {}, entry {}", self.table, self.index)
    }
}

/// What came of a self-check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Entries attacked.
    pub entries: u32,
    /// Stores tried with protection on: one for each entry and mapping.
    pub stores: u32,
    /// Of those, stores that faulted as they should.
    pub refused: u32,
    /// The same stores with protection off that landed.
    pub landed: u32,
}

impl Outcome {
    /// Whether every store was refused with protection on, and landed with it off.
    pub fn passed(&self) -> bool {
        self.stores > 0 && self.refused == self.stores && self.landed == self.stores
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { entries, stores, refused, landed } = self;
        let verdict = if self.passed() { "passed" } else { "FAILED" };
        write!(
            f,
            "{verdict}: {stores} unguarded stores to {entries} table entries through every mapping of theirs; \
             {refused} refused with protection on, {landed} landed with it off"
        )
    }
}

/// Why the self-check could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckError {
    /// The space to attack could not be made.
    Space(SpaceError),
    /// The area to attack could not be made.
    Area(AreaError),
}

impl From<SpaceError> for CheckError {
    fn from(error: SpaceError) -> Self {
        CheckError::Space(error)
    }
}

impl From<OutOfMemory> for CheckError {
    fn from(error: OutOfMemory) -> Self {
        CheckError::Space(SpaceError::OutOfMemory(error))
    }
}

impl From<AreaError> for CheckError {
    fn from(error: AreaError) -> Self {
        CheckError::Area(error)
    }
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CheckError::Space(error) => write!(f, "no address space to attack: {error}"),
            CheckError::Area(error) => write!(f, "no kernel area to attack: {error}"),
        }
    }
}

impl core::error::Error for CheckError {}

/// The policy of what the self-check makes, and of all that the kernel itself does.
type Protected = Batched<PorGate<Arm>>;

/// Attacks every kind of table that there is, and prints each store that did not end as it should.
///
/// # Errors
/// Where memory for something to attack is missing.
pub fn run(boot: &Boot, areas: &Areas) -> Result<Outcome, CheckError> {
    let page = VirtAddr::new(USER_PAGE).map(Page::containing).expect("a user address");
    let mut space = populated(boot, page, 1)?;
    space.activate();
    let area = areas.vmalloc::<Protected>(1, VmFlags::default())?;

    let mut outcome = Outcome::default();
    attack_path(boot, "user", space.root(), page.start(), &mut outcome);
    attack_path(boot, "kernel", boot.memory.kernel.table(), area, &mut outcome);
    for table in boot.image.boot_tables() {
        attack(boot, Target { what: "boot", level: None, table, index: 0 }, &mut outcome);
    }
    areas.vfree::<Protected>(area)?;
    Ok(outcome)
}

/// Audits every table of the machine while a user space, a fork of it and a kernel area are there.
///
/// # Errors
/// Where memory for these is missing.
pub fn audit(
    boot: &Boot,
    areas: &Areas,
    report: &mut dyn FnMut(audit::Violation),
) -> Result<audit::Summary, CheckError> {
    let page = VirtAddr::new(USER_PAGE).map(Page::containing).expect("a user address");
    let mut parent = populated(boot, page, 600)?;
    let child = parent.fork()?;
    let area = areas.vmalloc::<Protected>(20, VmFlags { huge: true, ..VmFlags::default() })?;
    let mut ram = Vec::new();
    ram.try_reserve(boot.machine.banks.as_slice().len()).map_err(|_| OutOfMemory { order: 0 })?;
    for bank in boot.machine.banks.as_slice() {
        let start = PhysAddr::new(bank.start()).expect("RAM lies in physical memory");
        ram.push(FrameRange::within(start, bank.size()));
    }
    let spaces = [parent.root(), child.root()].into_iter();
    let summary = audit::Scope { memory: boot.memory, ram: &ram, spaces }.audit(report);
    areas.vfree::<Protected>(area)?;
    Ok(summary)
}

/// A space with `pages` populated pages from `page` on.
fn populated(boot: &Boot, page: Page, pages: u64) -> Result<AddressSpace<Protected>, CheckError> {
    let range = PageRange::new(page, pages).expect("the range lies in the user's half");
    let mut space = AddressSpace::new(boot.memory)?;
    space.map(range, space::Protection::ReadWrite, 0)?;
    space.populate(range)?;
    Ok(space)
}

/// Attacks each entry that translates `va`, from the root down.
fn attack_path<C: Context>(boot: &Boot, what: &'static str, root: Table<C>, va: VirtAddr, outcome: &mut Outcome) {
    let mut table = Some(root);
    for level in Level::ALL {
        let Some(at) = table else { break };
        let target = Target { what, level: Some(level), table: at.frame(), index: level.index(va) };
        attack(boot, target, outcome);
        table = at.next(level, va);
    }
}

/// Attacks one entry through every mapping of its table's frame.
fn attack(boot: &Boot, target: Target, outcome: &mut Outcome) {
    outcome.entries += 1;
    let mut tried = 0;
    let base = VirtAddr::new(LINEAR_BASE).expect("the linear map begins the upper half");
    leaves_of(boot.memory.kernel.table(), base, &mut |va, level, leaf| {
        if let Some(alias) = alias_of(target.table, va, level, leaf) {
            tried += 1;
            attack_at(boot.protection, target, alias.get() + target.index as u64 * 8, outcome);
        }
    });
    if tried == 0 {
        crate::println!("self-check: {target} is mapped nowhere, so it was not attacked");
    }
}

/// Where a leaf maps `frame`, if it does.
fn alias_of(frame: Frame, va: VirtAddr, level: Level, leaf: Descriptor) -> Option<VirtAddr> {
    let offset = frame.number().checked_sub(leaf.frame().number())?;
    if offset < level.pages() { va.checked_add(frame.start().get() - leaf.frame().start().get()) } else { None }
}

fn attack_at(protection: Protection, target: Target, address: u64, outcome: &mut Outcome) {
    outcome.stores += 1;
    let before = read(address);
    let forged = before ^ IGNORED_BIT;
    // SAFETY: where the store lands, it flips a bit that the CPU ignores, and is undone below.
    let result = unsafe { probe::write_u64(address, forged) };
    let after = read(address);
    match result {
        Err(fault) if is_refusal(&fault, protection, address) && after == before => outcome.refused += 1,
        Err(fault) => crate::println!("self-check FAILED: {target} at {address:#x}: wrong fault {fault:?}"),
        Ok(()) => crate::println!("self-check FAILED: {target} at {address:#x}: the store landed"),
    }
    let landed = with_protection_off(|| {
        // SAFETY: as above; what was there is put back at once.
        let forged_result = unsafe { probe::write_u64(address, forged) };
        let seen = read(address);
        // SAFETY: writes what was there before.
        let restored = unsafe { probe::write_u64(address, before) };
        forged_result.is_ok() && seen == forged && restored.is_ok()
    });
    if landed {
        outcome.landed += 1;
    } else {
        crate::println!("self-check FAILED: {target} at {address:#x}: refused with protection off too");
    }
}

/// Whether `fault` is what an unguarded store to a table has to end in.
fn is_refusal(fault: &Fault, protection: Protection, address: u64) -> bool {
    let overlay = fault.is_overlay() == (protection == Protection::Hardware);
    matches!(fault.kind(), Kind::Permission(_)) && fault.far == address && overlay
}

fn read(address: u64) -> u64 {
    // SAFETY: tables are ordinary memory, readable at all times.
    unsafe { probe::read_u64(address) }.unwrap_or_else(|fault| panic!("a table is not readable: {fault:?}"))
}
