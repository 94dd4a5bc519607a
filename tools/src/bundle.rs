//! A kernel Image with a device tree of its own choice, as one arm64 Image.
//!
//! A boot loader passes its own device tree: QEMU's `-kernel` rewrites the memory nodes even of a tree given with
//! `-dtb`, so that a kernel cannot be shown memory with a hole in that way. The bundle's first instructions put the
//! address of the bundled tree into x0, as the boot protocol wants it, and go on to the kernel behind it.

use dtoolkit::error::FdtParseError;
use dtoolkit::fdt::Fdt;
use thiserror::Error;

use crate::header::{self, Header};

/// Where in the bundle the device tree lies; the stub's `ADR` counts on it.
const DTB_OFFSET: usize = 0x1000;

/// Where in the bundle the kernel lies: it has to be aligned to 2 MiB, as the bundle is. The stub's `ADRP` counts on it.
const KERNEL_OFFSET: usize = 0x20_0000;

/// First instruction of the bundle: `b` to the stub, which follows the header.
const BRANCH_OVER_HEADER: u32 = 0x1400_0000 | (header::LEN / 4) as u32;

/// What the bundle executes after its first instruction.
const STUB: [u32; 6] = [
    0x1000_7e00, // adr x0, DTB_OFFSET
    0x9000_1004, // adrp x4, KERNEL_OFFSET
    0xaa1f_03e1, // mov x1, xzr
    0xaa1f_03e2, // mov x2, xzr
    0xaa1f_03e3, // mov x3, xzr
    0xd61f_0080, // br x4
];

/// Why there is no bundle.
#[derive(Debug, Error)]
pub enum BundleError {
    /// The kernel is not an arm64 Image.
    #[error("the kernel has no arm64 Image header")]
    NoHeader,
    /// The kernel wants to lie off a 2 MiB boundary.
    #[error("the kernel's text_offset is {0:#x}, not 0")]
    TextOffset(u64),
    /// The device tree is damaged.
    #[error("not a readable device tree blob: {0}")]
    Dtb(FdtParseError),
    /// The device tree does not fit before the kernel.
    #[error("the device tree has {0} bytes, more than the {max} that fit before the kernel", max = KERNEL_OFFSET - DTB_OFFSET)]
    DtbTooLarge(usize),
}

/// Makes one Image of the Image `kernel` and the device tree blob `dtb` that it is to be given.
///
/// # Errors
/// See [`BundleError`].
pub fn bundle(kernel: &[u8], dtb: &[u8]) -> Result<Vec<u8>, BundleError> {
    let inner = Header::parse(kernel).ok_or(BundleError::NoHeader)?;
    if inner.text_offset != 0 {
        return Err(BundleError::TextOffset(inner.text_offset));
    }
    Fdt::new(dtb).map_err(BundleError::Dtb)?;
    if dtb.len() > KERNEL_OFFSET - DTB_OFFSET {
        return Err(BundleError::DtbTooLarge(dtb.len()));
    }
    let image_size = inner.image_size.saturating_add(KERNEL_OFFSET as u64);
    let outer = Header { code0: BRANCH_OVER_HEADER, image_size, ..inner };
    let mut bundle = Vec::with_capacity(KERNEL_OFFSET + kernel.len());
    bundle.extend(outer.to_bytes());
    bundle.extend(STUB.iter().flat_map(|word| word.to_le_bytes()));
    bundle.resize(DTB_OFFSET, 0);
    bundle.extend(dtb);
    bundle.resize(KERNEL_OFFSET, 0);
    bundle.extend(kernel);
    Ok(bundle)
}

#[cfg(test)]
mod tests {
    use dtoolkit::model::DeviceTree;

    use super::*;

    fn kernel(text_offset: u64) -> Vec<u8> {
        let header = Header { code0: 0xd503_201f, text_offset, image_size: 0x5000, flags: 0xa };
        let mut kernel = header.to_bytes().to_vec();
        kernel.extend(b"the kernel's code");
        kernel
    }

    #[test]
    fn kernel_and_tree_lie_where_the_stub_points() {
        let (kernel, dtb) = (kernel(0), DeviceTree::new().to_dtb());
        let bundle = bundle(&kernel, &dtb).unwrap();
        let header = Header::parse(&bundle).unwrap();
        assert_eq!((header.image_size, header.text_offset, header.flags), (0x20_5000, 0, 0xa));
        assert_eq!(bundle[DTB_OFFSET..][..dtb.len()], dtb);
        assert_eq!(bundle[KERNEL_OFFSET..], kernel);
        // ADR's and ADRP's immediates, decoded (Arm ARM C6.2: immhi is bits 23:5, immlo bits 30:29).
        let immediate = |word: u32| (word >> 5 & 0x7_ffff) << 2 | word >> 29 & 3;
        assert_eq!(immediate(STUB[0]) as usize + header::LEN, DTB_OFFSET);
        assert_eq!(immediate(STUB[1]) as usize * 4096, KERNEL_OFFSET);
        assert_eq!(header.code0, 0x1400_0010);
    }

    #[test]
    fn wrong_parts_are_refused() {
        let dtb = DeviceTree::new().to_dtb();
        assert!(matches!(bundle(b"no image", &dtb), Err(BundleError::NoHeader)));
        assert!(matches!(bundle(&kernel(0x8_0000), &dtb), Err(BundleError::TextOffset(0x8_0000))));
        assert!(matches!(bundle(&kernel(0), b"no tree"), Err(BundleError::Dtb(_))));
        let mut large = dtb.clone();
        large.resize(KERNEL_OFFSET, 0);
        large[4..8].copy_from_slice(&(KERNEL_OFFSET as u32).to_be_bytes());
        assert!(matches!(bundle(&kernel(0), &large), Err(BundleError::DtbTooLarge(KERNEL_OFFSET))));
    }
}
