//! Rewriting the memory banks of a device tree, so that a kernel can be booted on memory with a hole in it.

use std::fmt;
use std::str::FromStr;

use dtoolkit::fdt::Fdt;
use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};
use dtoolkit::{Node, Property};
use thiserror::Error;

/// A range of physical memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bank {
    /// Its first address.
    pub base: u64,
    /// Its length in bytes, at least one.
    pub size: u64,
}

/// How the banks are told apart in the tree; both forms are legal and a kernel has to read either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One memory node whose `reg` has an entry for each bank.
    OneNode,
    /// A memory node for each bank.
    NodePerBank,
}

/// Why memory banks cannot be set.
#[derive(Debug, Error)]
pub enum DtbError {
    /// The input is no device tree blob, or a damaged one.
    #[error("not a readable device tree blob: {0}")]
    Fdt(#[from] dtoolkit::error::FdtParseError),
    /// A bank is not written as `BASE:SIZE`.
    #[error(
        "{0:?} is not BASE:SIZE, two numbers (0x for hexadecimal), the size not zero and with an optional K, M or G"
    )]
    BankSyntax(String),
    /// No bank was given.
    #[error("no memory bank given")]
    NoBank,
    /// Two banks share addresses, or one ends past the end of the address space.
    #[error("the bank {0} overlaps another one or the end of the address space")]
    Overlap(Bank),
    /// The tree's root counts addresses or sizes in a number of cells that is neither 1 nor 2.
    #[error("the root node's {property} is {cells}, not 1 or 2")]
    Cells {
        /// The property's name.
        property: &'static str,
        /// Its value.
        cells: u32,
    },
    /// A bank's address or size does not fit the tree's cells.
    #[error("{0:#x} does not fit the single 32-bit cell that the root node allots")]
    TooLarge(u64),
}

impl fmt::Display for Bank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}:{:#x}", self.base, self.size)
    }
}

impl FromStr for Bank {
    type Err = DtbError;

    fn from_str(text: &str) -> Result<Self, DtbError> {
        let bank = text.split_once(':').and_then(|(base, size)| {
            let digits = size.trim_end_matches(['K', 'M', 'G']);
            let shift = match &size[digits.len()..] {
                "" => 0,
                "K" => 10,
                "M" => 20,
                "G" => 30,
                _ => return None,
            };
            let size = number(digits)?.checked_mul(1 << shift).filter(|size| *size > 0)?;
            Some(Self { base: number(base)?, size })
        });
        bank.ok_or_else(|| DtbError::BankSyntax(text.to_owned()))
    }
}

/// Reads a number, decimal or with `0x` before it hexadecimal.
pub fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Gives the device tree blob `dtb` with `banks` as its memory instead of what it had.
///
/// The memory reservations and every other node stay as they are.
///
/// # Errors
/// See [`DtbError`].
pub fn set_memory(dtb: &[u8], banks: &[Bank], layout: Layout) -> Result<Vec<u8>, DtbError> {
    check_banks(banks)?;
    let mut tree = DeviceTree::from_fdt(&Fdt::new(dtb)?);
    let address_cells = cells(&tree.root, "#address-cells", 2)?;
    let size_cells = cells(&tree.root, "#size-cells", 1)?;
    let old: Vec<_> = tree.root.children().filter(|node| is_memory(node)).map(|node| node.name().to_owned()).collect();
    for name in old {
        tree.root.remove_child(&name);
    }
    let groups: Vec<_> = match layout {
        Layout::OneNode => vec![banks],
        Layout::NodePerBank => banks.chunks(1).collect(),
    };
    for group in groups {
        let mut reg = Vec::new();
        for bank in group {
            reg.extend(cell_bytes(bank.base, address_cells)?);
            reg.extend(cell_bytes(bank.size, size_cells)?);
        }
        let mut node = DeviceTreeNode::new_unchecked(format!("memory@{:x}", group[0].base));
        node.add_property(DeviceTreeProperty::new_unchecked("device_type", "memory"));
        node.add_property(DeviceTreeProperty::new_unchecked("reg", reg));
        tree.root.add_child(node);
    }
    Ok(tree.to_dtb())
}

/// Checks that there is a bank and that no two share addresses.
fn check_banks(banks: &[Bank]) -> Result<(), DtbError> {
    if banks.is_empty() {
        return Err(DtbError::NoBank);
    }
    let mut sorted = banks.to_vec();
    sorted.sort_by_key(|bank| bank.base);
    let mut free_from = 0;
    for bank in sorted {
        if bank.base < free_from {
            return Err(DtbError::Overlap(bank));
        }
        free_from = bank.base.checked_add(bank.size).ok_or(DtbError::Overlap(bank))?;
    }
    Ok(())
}

/// Whether a child of the root describes memory (Devicetree Specification, "/memory node").
fn is_memory(node: &DeviceTreeNode) -> bool {
    node.property("device_type").is_some_and(|property| property.value() == b"memory\0")
}

/// Reads one of the root's cell counts; `default` is what the Devicetree Specification says where it is missing.
fn cells(root: &DeviceTreeNode, property: &'static str, default: u32) -> Result<u32, DtbError> {
    let value = root.property(property).and_then(|found| found.value().try_into().ok()).map(u32::from_be_bytes);
    match value.unwrap_or(default) {
        cells @ (1 | 2) => Ok(cells),
        cells => Err(DtbError::Cells { property, cells }),
    }
}

/// `value` as so many 32-bit big-endian cells.
fn cell_bytes(value: u64, cells: u32) -> Result<Vec<u8>, DtbError> {
    match cells {
        1 => Ok(u32::try_from(value).map_err(|_| DtbError::TooLarge(value))?.to_be_bytes().to_vec()),
        _ => Ok(value.to_be_bytes().to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: [Bank; 2] =
        [Bank { base: 0x4000_0000, size: 0x800_0000 }, Bank { base: 0x8000_0000, size: 0x1000_0000 }];

    /// A blob like QEMU's: a root with cell counts, memory, and a node that has to survive.
    fn blob(cells: u32) -> Vec<u8> {
        let mut tree = DeviceTree::new();
        tree.memory_reservations.push(dtoolkit::memreserve::MemoryReservation::new(0x4800_0000, 0x1000));
        for name in ["#address-cells", "#size-cells"] {
            tree.root.add_property(DeviceTreeProperty::new(name, cells).unwrap());
        }
        for name in ["memory@40000000", "memory@50000000", "cpus"] {
            let mut node = DeviceTreeNode::new(name).unwrap();
            if name != "cpus" {
                node.add_property(DeviceTreeProperty::new("device_type", "memory").unwrap());
            }
            node.add_property(DeviceTreeProperty::new("reg", vec![0_u8; 16]).unwrap());
            tree.root.add_child(node);
        }
        tree.to_dtb()
    }

    /// The `reg` values of the memory nodes of `dtb`, and how many other nodes it has.
    fn memory(dtb: &[u8]) -> (Vec<Vec<u8>>, usize) {
        let tree = DeviceTree::from_fdt(&Fdt::new(dtb).unwrap());
        assert_eq!(tree.memory_reservations.len(), 1);
        let regs = tree.root.children().filter(|node| is_memory(node));
        let regs: Vec<_> = regs.map(|node| node.property("reg").unwrap().value().to_vec()).collect();
        let others = tree.root.children().count() - regs.len();
        (regs, others)
    }

    #[test]
    fn one_node_lists_every_bank() {
        let (regs, others) = memory(&set_memory(&blob(2), &TWO, Layout::OneNode).unwrap());
        let expected: Vec<u8> = TWO.iter().flat_map(|bank| [bank.base, bank.size]).flat_map(u64::to_be_bytes).collect();
        assert_eq!(regs, [expected]);
        assert_eq!(others, 1);
    }

    #[test]
    fn a_node_per_bank_in_32_bit_cells() {
        let (regs, others) = memory(&set_memory(&blob(1), &TWO, Layout::NodePerBank).unwrap());
        assert_eq!(regs, [vec![0x40, 0, 0, 0, 8, 0, 0, 0], vec![0x80, 0, 0, 0, 0x10, 0, 0, 0]]);
        assert_eq!(others, 1);
    }

    #[test]
    fn banks_are_read_with_their_units() {
        let read = |text: &str| text.parse::<Bank>().ok().map(|bank| (bank.base, bank.size));
        assert_eq!(read("0x40000000:128M"), Some((0x4000_0000, 128 << 20)));
        assert_eq!(read("4096:0x10K"), Some((4096, 16 << 10)));
        assert_eq!(read("0:1G"), Some((0, 1 << 30)));
        assert_eq!(read("0:77"), Some((0, 77)));
        for wrong in ["", ":", "1", "1:", ":1", "1:0", "1:1KM", "1:M", "1:1T", "-1:1", "1:0x10000000000G"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn banks_that_cannot_be_are_refused() {
        let refuse = |banks: &[Bank], cells| set_memory(&blob(cells), banks, Layout::OneNode).unwrap_err();
        assert!(matches!(refuse(&[], 2), DtbError::NoBank));
        let inside = Bank { base: 0x4100_0000, size: 0x1000 };
        assert!(matches!(refuse(&[inside, TWO[0]], 2), DtbError::Overlap(bank) if bank == inside));
        let at_end = Bank { base: u64::MAX, size: 2 };
        assert!(matches!(refuse(&[at_end], 2), DtbError::Overlap(bank) if bank == at_end));
        let high = Bank { base: 1 << 32, size: 0x1000 };
        assert!(matches!(refuse(&[high], 1), DtbError::TooLarge(value) if value == 1 << 32));
        assert!(matches!(refuse(&TWO, 3), DtbError::Cells { cells: 3, .. }));
    }

    #[test]
    fn what_is_no_blob_is_refused() {
        assert!(matches!(set_memory(b"not a blob", &TWO, Layout::OneNode), Err(DtbError::Fdt(_))));
    }
}
