//! The entry code's assembly, with the constants that it needs.

use super::image::{self, BLOCK, Placement};
use core::arch::{asm, global_asm};
use mm::addr::Frame;
use mm::desc::{Attr, Descriptor, Format, LeafBits, Level};
use pkeys::Por;
use pkeys::pi::{PIR_EL1, PIRE0_EL1, pir_under};

/// Pages of the `tables` block that the boot tables take: TTBR0's three, TTBR1's root, level 1 table, two level 2
/// tables (image; windows), the early device page's level 3 table, and two for the linear address of the block itself.
pub const BOOT_TABLES: u64 = 10;
/// Which of them is the level 3 table of the early device page; its entry 0 is the page.
pub const EARLY_DEVICE_TABLE: u64 = 7;

/// Two blocks through which the kernel reads the FDT before it has a map of its own.
pub const FDT_WINDOW: u64 = 0xffff_ffff_f000_0000;
/// The page through which the kernel reaches its UART before it has a map of its own.
pub const EARLY_DEVICE: u64 = FDT_WINDOW + 2 * BLOCK;

/// Where QEMU puts the FDT when it loads an ELF file: the start of virt's RAM.
const QEMU_ELF_FDT: u64 = 0x4000_0000;

/// The bits of a 2 MiB block with these attributes. Those of ungated mappings are the same in both formats.
const fn block(attr: Attr) -> u64 {
    let bits: LeafBits = attr.leaf_bits(Format::Direct);
    Descriptor::leaf(Frame::from_number(0), bits, Level::L2).bits()
}

/// SCTLR_EL1 with the MMU off: nothing but RES1 bits (Arm ARM D24.2 "SCTLR_EL1"; LSMAOE, nTLSMD, SPAN, EIS, TSCXT,
/// EOS).
const SCTLR_MMU_OFF: u64 = 1 << 29 | 1 << 28 | 1 << 23 | 1 << 22 | 1 << 20 | 1 << 11;
/// The same of SCTLR_EL2 (bits 29, 28, 23, 22, 18, 16, 11, 5 and 4).
const SCTLR_EL2_MMU_OFF: u64 = 0x30c5_0830;
/// With the MMU on: M, C, SA, SA0, SED, I, DZE, UCT, nTWI, nTWE, UCI. The entry code clears SPAN where there is PAN.
const SCTLR_MMU_ON: u64 = SCTLR_MMU_OFF
    | 1 << 0
    | 1 << 2
    | 1 << 3
    | 1 << 4
    | 1 << 8
    | 1 << 12
    | 1 << 14
    | 1 << 15
    | 1 << 16
    | 1 << 18
    | 1 << 26;
/// TCR_EL1: T0SZ and T1SZ 16 (48 bits), walks write-back and inner shareable, 4 KiB granules. The entry code adds IPS,
/// AS, HPD and E0PD.
const TCR: u64 = 16 | 1 << 8 | 1 << 10 | 3 << 12 | 16 << 16 | 1 << 24 | 1 << 26 | 3 << 28 | 2 << 30;
/// MAIR_EL1: 0 normal write-back, 1 Device-nGnRE.
const MAIR: u64 = 0xff | 0x04 << 8;

global_asm!(
    include_str!("entry.S"),
    BLOCK = const BLOCK,
    BOOT_TABLES_BYTES = const BOOT_TABLES * 0x1000,
    QEMU_ELF_FDT = const QEMU_ELF_FDT,
    FDT_INDEX = const FDT_WINDOW >> 21 & 511,
    EARLY_DEVICE_INDEX = const EARLY_DEVICE >> 21 & 511,
    TEXT = const block(Attr::KernelText),
    RODATA = const block(Attr::KernelRodata),
    DATA = const block(Attr::KernelData),
    SCTLR_MMU_OFF = const SCTLR_MMU_OFF,
    SCTLR_MMU_ON = const SCTLR_MMU_ON,
    SCTLR_EL2_MMU_OFF = const SCTLR_EL2_MMU_OFF,
    TCR = const TCR,
    MAIR = const MAIR,
    POR_CLOSED = const Por::CLOSED.bits(),
    PIR_CLOSED = const pir_under(Por::CLOSED),
    PIR_OPEN = const PIR_EL1,
    PIRE0 = const PIRE0_EL1,
);

/// Makes `root` TTBR1's root in place of the boot tables', and `empty`, a table without entries, TTBR0's.
///
/// # Safety
/// 1. The boot tables are live, interrupts are masked, and `image` says where the image is.
/// 2. `root` maps the image and the stack in use as the boot tables do, and both tables are visible to the walker.
pub unsafe fn replace_root(image: Placement, root: Frame, empty: Frame) {
    let linked = (&raw const replace_root_code).addr() as u64;
    let address = linked - image::start() + image.all().start;
    // SAFETY: by (1) TTBR0 maps the block with this code at its physical address, and no exception comes between; the
    // code uses no stack and goes on, by (2), where it left.
    unsafe {
        asm!(
            "blr {}",
            in(reg) address,
            in("x0") root.start().get(),
            in("x1") empty.start().get(),
            out("x2") _,
            out("x30") _,
            options(nostack),
        )
    };
}

// SAFETY: `entry.S` defines it; only its address is used.
unsafe extern "C" {
    #[link_name = "replace_root"]
    static replace_root_code: u8;
}
