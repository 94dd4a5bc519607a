//! From the checked blob to a [`Machine`].
//!
//! Devices are looked for among the root's children, where QEMU's virt board has them all: there, addresses need no
//! translation by `ranges`. Nodes whose `status` is neither absent nor "okay" belong to somebody else (the secure world)
//! and are passed over, except CPUs: one that is "disabled" is one that PSCI can start.

use arrayvec::ArrayVec;
use fdt::Fdt;
use fdt::helpers::UnalignedFallibleNode;
use fdt::nodes::AsNode;

use super::blob::Blob;
use super::{Conduit, Gic, MAX_BANKS, MAX_RESERVED, Machine, MachineError, Part, PhysRange, Ranges};
use crate::arch::MAX_CPUS;

type Node<'a> = UnalignedFallibleNode<'a>;

/// Interrupt specifier of a GIC: kind, number, flags.
const GIC_INTERRUPT_CELLS: usize = 3;
/// Position of the virtual timer among the timer's interrupts: secure, non-secure, virtual, hypervisor.
const VIRTUAL_TIMER: usize = 2;
/// INTIDs of private peripheral interrupts start here, those of shared ones at 32.
const PPI_START: u32 = 16;
/// PPI numbers there are.
const PPI_COUNT: u32 = 16;
/// MPIDR_EL1's affinity fields, Aff3 [39:32] and Aff2..Aff0 [23:0].
const MPIDR_AFFINITY: u64 = 0xff_00ff_ffff;

const GICV2: &[&str] = &["arm,cortex-a15-gic", "arm,gic-400", "arm,cortex-a9-gic"];
const GICV3: &[&str] = &["arm,gic-v3"];
const TIMER: &[&str] = &["arm,armv8-timer", "arm,armv7-timer"];
const PSCI: &[&str] = &["arm,psci-1.0", "arm,psci-0.2"];
const PL011: &[&str] = &["arm,pl011"];

pub(super) fn parse(blob: &[u8], address: u64) -> Result<Machine<'_>, MachineError> {
    let blob = Blob::check(blob)?;
    let tree = Fdt::new_unaligned_fallible(blob.bytes())?;
    let root = tree.root()?.as_node();
    let cells = Cells::of(root, Part::Memory)?;
    let chosen = child(root, "chosen")?;

    let mut banks = Ranges::default();
    for node in root.children()?.iter() {
        memory(node?, cells, &mut banks)?;
    }
    if banks.as_slice().is_empty() {
        return Err(MachineError::Missing(Part::Memory));
    }

    let fdt = range(Part::Fdt, address, blob.bytes().len() as u64)?;
    let initrd = match chosen {
        Some(chosen) => initrd(chosen)?,
        None => None,
    };
    let reserved = reserved(&blob, root, fdt, initrd)?;
    leave_out_unmapped(root, &mut banks)?;

    Ok(Machine {
        banks,
        reserved,
        initrd,
        fdt,
        uart: uart(root, chosen, cells)?,
        gic: gic(root, cells)?,
        timer_intid: timer(root)?,
        psci: psci(root)?,
        cpus: cpus(root)?,
        bootargs: match chosen {
            Some(chosen) => text(chosen, Part::Bootargs, "bootargs")?.unwrap_or(""),
            None => "",
        },
    })
}

/// The console of a tree that [`parse`] refuses, where it has one.
pub(super) fn console(blob: &[u8]) -> Result<PhysRange, MachineError> {
    let blob = Blob::check(blob)?;
    let tree = Fdt::new_unaligned_fallible(blob.bytes())?;
    let root = tree.root()?.as_node();
    uart(root, child(root, "chosen")?, Cells::of(root, Part::Uart)?)
}

/// `#address-cells` and `#size-cells` of a node, for its children's `reg`.
#[derive(Clone, Copy)]
struct Cells {
    address: usize,
    size: usize,
}

impl Cells {
    /// The node's own values; where they are absent, the specification's 2 and 1 (section 2.3.5).
    fn of(node: Node<'_>, part: Part) -> Result<Self, MachineError> {
        let read = |property, default| -> Result<usize, MachineError> {
            let Some(value) = value(node, property)? else { return Ok(default) };
            match number(value) {
                Some(cells @ 0..=2) if value.len() == 4 => Ok(cells as usize),
                Some(cells) if value.len() == 4 => Err(MachineError::BadCells { part, cells: cells as u32 }),
                _ => Err(MachineError::BadProperty { part, property, len: value.len() }),
            }
        };
        Ok(Cells { address: read("#address-cells", 2)?, size: read("#size-cells", 1)? })
    }

    /// The entries of a `reg` property: address and size.
    fn entries<'a>(
        self,
        node: Node<'a>,
        part: Part,
    ) -> Result<impl Iterator<Item = (u64, u64)> + use<'a>, MachineError> {
        let reg = value(node, "reg")?.unwrap_or_default();
        let (address, len) = (self.address * 4, (self.address + self.size) * 4);
        if reg.is_empty() || !reg.len().is_multiple_of(len) {
            return Err(MachineError::BadProperty { part, property: "reg", len: reg.len() });
        }
        Ok(reg.chunks_exact(len).map(move |entry| {
            let (start, size) = entry.split_at(address);
            (number(start).unwrap_or(0), number(size).unwrap_or(0))
        }))
    }

    /// Entry `index` of `reg` as the range of a device's registers.
    fn registers(self, node: Node<'_>, part: Part, index: usize) -> Result<PhysRange, MachineError> {
        let (start, size) =
            self.entries(node, part)?.nth(index).ok_or(MachineError::BadProperty { part, property: "reg", len: 0 })?;
        range(part, start, size)
    }
}

fn range(part: Part, start: u64, size: u64) -> Result<PhysRange, MachineError> {
    PhysRange::new(start, size).ok_or(MachineError::BadRange { part, start, size })
}

/// A big-endian number of at most eight bytes.
fn number(bytes: &[u8]) -> Option<u64> {
    (bytes.len() <= 8).then(|| bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

/// A property's value.
fn value<'a>(node: Node<'a>, name: &str) -> Result<Option<&'a [u8]>, MachineError> {
    Ok(node.raw_property(name)?.map(|property| property.value))
}

/// A property whose value is one NUL-terminated string.
fn text<'a>(node: Node<'a>, part: Part, property: &'static str) -> Result<Option<&'a str>, MachineError> {
    let Some(bytes) = value(node, property)? else { return Ok(None) };
    let bad = MachineError::BadProperty { part, property, len: bytes.len() };
    let string = core::ffi::CStr::from_bytes_until_nul(bytes).map_err(|_| bad)?;
    Ok(Some(string.to_str().map_err(|_| bad)?))
}

/// Whether one of the strings of `compatible` is among `names`.
fn compatible(node: Node<'_>, names: &[&str]) -> Result<bool, MachineError> {
    let list = value(node, "compatible")?.unwrap_or_default();
    Ok(list.split(|&byte| byte == 0).any(|string| names.iter().any(|name| name.as_bytes() == string)))
}

/// Whether the device is there for us to use (section 2.3.4).
fn available(node: Node<'_>) -> Result<bool, MachineError> {
    Ok(matches!(value(node, "status")?, None | Some(b"okay\0" | b"ok\0")))
}

/// The root's child of this name, unit address included.
fn child<'a>(root: Node<'a>, name: &str) -> Result<Option<Node<'a>>, MachineError> {
    for node in root.children()?.iter() {
        let node = node?;
        let found = node.name()?;
        let matches = match name.split_once('@') {
            Some((base, unit)) => found.name == base && found.unit_address == Some(unit),
            None => found.name == name,
        };
        if matches {
            return Ok(Some(node));
        }
    }
    Ok(None)
}

/// The root's first available child that is compatible with one of `names`.
fn device<'a>(root: Node<'a>, names: &[&str]) -> Result<Option<Node<'a>>, MachineError> {
    for node in root.children()?.iter() {
        let node = node?;
        if compatible(node, names)? && available(node)? {
            return Ok(Some(node));
        }
    }
    Ok(None)
}

fn is_type(node: Node<'_>, name: &[u8]) -> Result<bool, MachineError> {
    Ok(value(node, "device_type")? == Some(name))
}

/// Adds the ranges of `node` if it is a memory node. Empty ones mean nothing (an empty slot).
fn memory<const N: usize>(node: Node<'_>, cells: Cells, banks: &mut Ranges<N>) -> Result<(), MachineError> {
    let part = Part::Memory;
    if !is_type(node, b"memory\0")? || !available(node)? {
        return Ok(());
    }
    for (start, size) in cells.entries(node, part)? {
        if size > 0 {
            banks.insert(range(part, start, size)?).map_err(|_| MachineError::TooMany { part, limit: N })?;
        }
    }
    Ok(())
}

fn initrd(chosen: Node<'_>) -> Result<Option<PhysRange>, MachineError> {
    let part = Part::Initrd;
    let read = |property| -> Result<Option<u64>, MachineError> {
        let Some(value) = value(chosen, property)? else { return Ok(None) };
        match (value.len(), number(value)) {
            (4 | 8, Some(number)) => Ok(Some(number)),
            (len, _) => Err(MachineError::BadProperty { part, property, len }),
        }
    };
    match (read("linux,initrd-start")?, read("linux,initrd-end")?) {
        (None, None) => Ok(None),
        (Some(start), Some(end)) => Ok(Some(range(part, start, end.saturating_sub(start))?)),
        (None, _) => Err(MachineError::BadProperty { part, property: "linux,initrd-start", len: 0 }),
        (_, None) => Err(MachineError::BadProperty { part, property: "linux,initrd-end", len: 0 }),
    }
}

fn reserved(
    blob: &Blob<'_>,
    root: Node<'_>,
    fdt: PhysRange,
    initrd: Option<PhysRange>,
) -> Result<Ranges<MAX_RESERVED>, MachineError> {
    let part = Part::Reserved;
    let mut list = Ranges::default();
    let mut add = |range| list.insert(range).map_err(|_| MachineError::TooMany { part, limit: MAX_RESERVED });
    add(fdt)?;
    if let Some(initrd) = initrd {
        add(initrd)?;
    }
    for (start, size) in blob.reservations() {
        if size > 0 {
            add(range(part, start, size)?)?;
        }
    }
    let Some(parent) = child(root, "reserved-memory")? else { return Ok(list) };
    let cells = Cells::of(parent, part)?;
    for node in parent.children()?.iter() {
        let node = node?;
        // Without `reg` it is a wish for a place of our choice, for a driver that we do not have.
        if value(node, "reg")?.is_none() || !available(node)? {
            continue;
        }
        for (start, size) in cells.entries(node, part)? {
            if size > 0 {
                add(range(part, start, size)?)?;
            }
        }
    }
    Ok(list)
}

/// Takes out of `banks` what /reserved-memory says must not even be mapped (`no-map`): a CPU may read ahead wherever there is
/// a mapping, and what lies there (another world's memory, a device) may answer with an error.
fn leave_out_unmapped(root: Node<'_>, banks: &mut Ranges<MAX_BANKS>) -> Result<(), MachineError> {
    let part = Part::Reserved;
    let Some(parent) = child(root, "reserved-memory")? else { return Ok(()) };
    let cells = Cells::of(parent, part)?;
    for node in parent.children()?.iter() {
        let node = node?;
        if value(node, "no-map")?.is_none() || value(node, "reg")?.is_none() || !available(node)? {
            continue;
        }
        for (start, size) in cells.entries(node, part)? {
            if size > 0 {
                let full = |_| MachineError::TooMany { part: Part::Memory, limit: MAX_BANKS };
                banks.remove(range(part, start, size)?).map_err(full)?;
            }
        }
    }
    Ok(())
}

/// The PL011 that `stdout-path` names, if it names one; else the first there is.
fn uart<'a>(root: Node<'a>, chosen: Option<Node<'a>>, cells: Cells) -> Result<PhysRange, MachineError> {
    let part = Part::Uart;
    let node = match stdout(root, chosen)? {
        Some(node) if compatible(node, PL011)? => Some(node),
        _ => device(root, PL011)?,
    };
    cells.registers(node.ok_or(MachineError::Missing(part))?, part, 0)
}

/// The node that /chosen's `stdout-path` leads to: a path or an alias, without what follows a colon (baud rate). A node
/// deeper than the root's children is not ours to use.
fn stdout<'a>(root: Node<'a>, chosen: Option<Node<'a>>) -> Result<Option<Node<'a>>, MachineError> {
    let part = Part::Uart;
    let Some(chosen) = chosen else { return Ok(None) };
    let Some(target) = text(chosen, part, "stdout-path")? else { return Ok(None) };
    let target = target.split(':').next().unwrap_or(target);
    let path = if target.starts_with('/') {
        Some(target)
    } else {
        match child(root, "aliases")? {
            Some(aliases) => match value(aliases, target)? {
                Some(value) => core::ffi::CStr::from_bytes_until_nul(value).ok().and_then(|path| path.to_str().ok()),
                None => None,
            },
            None => None,
        }
    };
    match path.and_then(|path| path.strip_prefix('/')) {
        Some(name) => child(root, name),
        None => Ok(None),
    }
}

fn gic(root: Node<'_>, cells: Cells) -> Result<Gic, MachineError> {
    let part = Part::Gic;
    if let Some(node) = device(root, GICV3)? {
        let distributor = cells.registers(node, part, 0)?;
        return Ok(Gic::V3 { distributor, redistributors: cells.registers(node, part, 1)? });
    }
    let node = device(root, GICV2)?.ok_or(MachineError::Missing(part))?;
    Ok(Gic::V2 { distributor: cells.registers(node, part, 0)?, cpu: cells.registers(node, part, 1)? })
}

/// INTID of the virtual timer.
fn timer(root: Node<'_>) -> Result<u32, MachineError> {
    let (part, property) = (Part::Timer, "interrupts");
    let node = device(root, TIMER)?.ok_or(MachineError::Missing(part))?;
    let interrupts = value(node, property)?.unwrap_or_default();
    let bad = MachineError::BadProperty { part, property, len: interrupts.len() };
    let specifier = interrupts.chunks_exact(GIC_INTERRUPT_CELLS * 4).nth(VIRTUAL_TIMER).ok_or(bad)?;
    let (kind, rest) = specifier.split_at(4);
    // Kind 1 is a PPI; the architecture has the timer on nothing else.
    match (number(kind), number(&rest[..4])) {
        (Some(1), Some(ppi)) if ppi < u64::from(PPI_COUNT) => Ok(PPI_START + ppi as u32),
        _ => Err(bad),
    }
}

fn psci(root: Node<'_>) -> Result<Option<Conduit>, MachineError> {
    let (part, property) = (Part::Psci, "method");
    let Some(node) = device(root, PSCI)? else { return Ok(None) };
    match value(node, property)? {
        Some(b"hvc\0") => Ok(Some(Conduit::Hvc)),
        Some(b"smc\0") => Ok(Some(Conduit::Smc)),
        other => Err(MachineError::BadProperty { part, property, len: other.map_or(0, <[u8]>::len) }),
    }
}

/// Affinities of the nodes under /cpus that are CPUs: the first [`MAX_CPUS`].
fn cpus(root: Node<'_>) -> Result<ArrayVec<u64, MAX_CPUS>, MachineError> {
    let part = Part::Cpus;
    let parent = child(root, "cpus")?.ok_or(MachineError::Missing(part))?;
    let cells = Cells::of(parent, part)?;
    let mut list = ArrayVec::new();
    for node in parent.children()?.iter() {
        let node = node?;
        if !is_type(node, b"cpu\0")? {
            continue;
        }
        if list.is_full() {
            break;
        }
        list.extend(cells.entries(node, part)?.take(1).map(|(affinity, _)| affinity & MPIDR_AFFINITY));
    }
    if list.is_empty() { Err(MachineError::Missing(part)) } else { Ok(list) }
}
