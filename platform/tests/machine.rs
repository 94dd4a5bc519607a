//! Device trees as QEMU writes them and ones built by hand, read into [`Machine`]s.
//!
//! `dtb/make.sh` makes the samples.

mod support;

use platform::machine::{BlobError, Conduit, Gic, Machine, MachineError, Part, PhysRange, blob_at, blob_size};
use support::Tree;

const GICV2_1CPU: &[u8] = include_bytes!("dtb/virt-gicv2-1cpu.dtb");
const GICV3_4CPU: &[u8] = include_bytes!("dtb/virt-gicv3-4cpu.dtb");
const EL2_64G: &[u8] = include_bytes!("dtb/virt-64g-el2.dtb");
const NUMA: &[u8] = include_bytes!("dtb/virt-numa.dtb");
const SECURE: &[u8] = include_bytes!("dtb/virt-secure.dtb");
const TWO_BANKS: &[u8] = include_bytes!("dtb/virt-two-banks.dtb");
const INITRD: &[u8] = include_bytes!("dtb/virt-initrd.dtb");

/// Where the tests say that the blob lies.
const AT: u64 = 0x4400_0000;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn range(start: u64, size: u64) -> PhysRange {
    PhysRange::new(start, size).unwrap()
}

/// The start of a tree that lacks only its memory; two cells each at the root. The root is left open.
fn board() -> Tree {
    let mut t = Tree::default();
    t.begin("").cells("#address-cells", &[2]).cells("#size-cells", &[2]);
    t.begin("uart@9000000").text("compatible", "arm,pl011\0arm,primecell");
    t.cells("reg", &[0, 0x900_0000, 0, 0x1000]).end();
    t.begin("intc@8000000").text("compatible", "arm,gic-v3");
    t.cells("reg", &[0, 0x800_0000, 0, 0x1_0000, 0, 0x80a_0000, 0, 0xf6_0000]).end();
    t.begin("timer").text("compatible", "arm,armv8-timer");
    t.cells("interrupts", &[1, 13, 4, 1, 14, 4, 1, 11, 4, 1, 10, 4]).end();
    t.begin("cpus").cells("#address-cells", &[1]).cells("#size-cells", &[0]);
    t.begin("cpu@0").text("device_type", "cpu").cells("reg", &[0]).end();
    t.end();
    t
}

/// `board`, with one bank.
fn board_with_memory() -> Tree {
    let mut t = board();
    memory(&mut t, &[0, 0x4000_0000, 0, 0x1000_0000]);
    t
}

fn memory<'t>(t: &'t mut Tree, reg: &[u32]) -> &'t mut Tree {
    t.begin("memory@40000000").text("device_type", "memory").cells("reg", reg).end()
}

fn error(t: &mut Tree) -> MachineError {
    let blob = t.end().blob();
    Machine::parse(&blob, AT).unwrap_err()
}

#[test]
fn one_cpu_gicv2() {
    let m = Machine::parse(GICV2_1CPU, AT).unwrap();
    assert_eq!(m.banks.as_slice(), [range(GIB, 128 * MIB)]);
    assert_eq!(m.fdt, range(AT, GICV2_1CPU.len() as u64));
    assert_eq!(m.reserved.as_slice(), [m.fdt]);
    assert_eq!(m.uart, range(0x900_0000, 0x1000));
    assert_eq!(m.gic, Gic::V2 { distributor: range(0x800_0000, 0x1_0000), cpu: range(0x801_0000, 0x1_0000) });
    assert_eq!(m.timer_intid, 27);
    assert_eq!(m.psci, Some(Conduit::Hvc));
    assert_eq!(m.cpus.as_slice(), [0]);
    assert_eq!(m.bootargs, "");
    assert_eq!(m.initrd, None);
}

#[test]
fn four_cpus_gicv3_bootargs() {
    let m = Machine::parse(GICV3_4CPU, AT).unwrap();
    assert_eq!(m.cpus.as_slice(), [0, 1, 2, 3]);
    assert_eq!(m.banks.total(), 2 * GIB);
    let redistributors = range(0x80a_0000, 0xf6_0000);
    assert_eq!(m.gic, Gic::V3 { distributor: range(0x800_0000, 0x1_0000), redistributors });
    assert_eq!(m.bootargs, "gate=por log=debug");
}

#[test]
fn big_memory_and_smc_at_el2() {
    let m = Machine::parse(EL2_64G, AT).unwrap();
    assert_eq!(m.banks.as_slice(), [range(GIB, 64 * GIB)]);
    assert_eq!(m.psci, Some(Conduit::Smc));
    assert_eq!(m.timer_intid, 27);
}

#[test]
fn numa_banks_are_sorted_and_merged() {
    let m = Machine::parse(NUMA, AT).unwrap();
    assert_eq!(m.banks.as_slice(), [range(GIB, 2 * GIB)]);
    assert_eq!(m.cpus.as_slice(), [0, 1]);
}

#[test]
fn two_banks_with_a_hole() {
    let m = Machine::parse(TWO_BANKS, AT).unwrap();
    assert_eq!(m.banks.as_slice(), [range(GIB, 768 * MIB), range(2 * GIB, GIB)]);
}

#[test]
fn secure_devices_are_left_alone() {
    let m = Machine::parse(SECURE, AT).unwrap();
    assert_eq!(m.banks.as_slice(), [range(GIB, GIB)], "secram is not ours");
    assert_eq!(m.uart, range(0x900_0000, 0x1000));
    assert_eq!(m.psci, None, "with EL3 there, QEMU does not answer PSCI");
}

#[test]
fn initrd_is_reserved() {
    let m = Machine::parse(INITRD, AT).unwrap();
    assert_eq!(m.initrd, Some(range(0x4800_0000, 3_000_000)));
    assert_eq!(m.reserved.as_slice(), [m.fdt, range(0x4800_0000, 3_000_000)]);
}

#[test]
fn banks_in_any_order_with_holes_and_empty_slots() {
    let mut t = board();
    memory(&mut t, &[0x8, 0, 0x1, 0, 0, 0, 0, 0]);
    t.nop();
    memory(&mut t, &[0, 0x4000_0000, 0, 0x1000_0000]);
    memory(&mut t, &[0, 0x4800_0000, 0, 0x1000_0000]);
    let blob = t.nop().end().nop().blob();
    let m = Machine::parse(&blob, AT).unwrap();
    assert_eq!(m.banks.as_slice(), [range(GIB, 0x1800_0000), range(32 * GIB, 4 * GIB)]);
}

#[test]
fn one_cell_at_the_root() {
    let mut t = Tree::default();
    t.begin("").cells("#address-cells", &[1]).cells("#size-cells", &[1]);
    t.begin("memory").text("device_type", "memory").cells("reg", &[0x4000_0000, 0x800_0000]).end();
    t.begin("uart").text("compatible", "arm,pl011").cells("reg", &[0x900_0000, 0x1000]).end();
    t.begin("gic").text("compatible", "arm,gic-400").cells("reg", &[1, 2, 3, 4]).end();
    t.begin("timer").text("compatible", "arm,armv8-timer").cells("interrupts", &[1, 0, 0, 1, 1, 0, 1, 2, 0]).end();
    t.begin("psci").text("compatible", "arm,psci-0.2").text("method", "smc").end();
    t.begin("cpus").cells("#address-cells", &[2]).cells("#size-cells", &[0]);
    t.begin("cpu@0").text("device_type", "cpu").cells("reg", &[0xff, 0x8001_0203]).end();
    let blob = t.end().end().blob();
    let m = Machine::parse(&blob, AT).unwrap();
    assert_eq!(m.banks.as_slice(), [range(GIB, 128 * MIB)]);
    assert_eq!(m.gic, Gic::V2 { distributor: range(1, 2), cpu: range(3, 4) });
    assert_eq!(m.timer_intid, 18);
    assert_eq!(m.psci, Some(Conduit::Smc));
    assert_eq!(m.cpus.as_slice(), [0xff_0001_0203], "bit 31 is no affinity");
}

#[test]
fn cells_not_stated_are_two_and_one() {
    let mut t = Tree::default();
    t.begin("");
    memory(&mut t, &[1, 0x4000_0000, 0x1000]);
    t.begin("uart").text("compatible", "arm,pl011").cells("reg", &[0, 0x900_0000, 0x1000]).end();
    t.begin("gic").text("compatible", "arm,gic-v3").cells("reg", &[0, 1, 2, 0, 3, 4]).end();
    t.begin("timer").text("compatible", "arm,armv8-timer").cells("interrupts", &[1, 0, 0, 1, 1, 0, 1, 15, 0]).end();
    t.begin("cpus");
    t.begin("cpu@0").text("device_type", "cpu").cells("reg", &[1, 2, 0]).end();
    let blob = t.end().end().blob();
    let m = Machine::parse(&blob, AT).unwrap();
    assert_eq!(m.banks.as_slice(), [range(0x1_4000_0000, 0x1000)]);
    assert_eq!(m.timer_intid, 31, "the last PPI");
    assert_eq!(m.cpus.as_slice(), [1 << 32 | 2]);
    assert_eq!(m.psci, None);
}

#[test]
fn devices_of_others_are_passed_over() {
    let mut t = Tree::default();
    t.begin("").cells("#address-cells", &[2]).cells("#size-cells", &[2]);
    for (name, status, at) in [("a", "disabled", 1), ("b", "reserved", 2), ("c", "ok", 3), ("d", "okay", 4)] {
        t.begin(name).text("compatible", "arm,pl011").text("status", status).cells("reg", &[0, at, 0, 0x1000]).end();
    }
    t.begin("gic").text("compatible", "arm,gic-v3").cells("reg", &[0, 1, 0, 1, 0, 2, 0, 1]).end();
    t.begin("timer").text("compatible", "arm,armv8-timer").cells("interrupts", &[1, 0, 0, 1, 1, 0, 1, 2, 0]).end();
    t.begin("cpus").cells("#address-cells", &[1]).cells("#size-cells", &[0]);
    t.begin("cpu@1").text("device_type", "cpu").text("status", "disabled").cells("reg", &[1]).end();
    t.begin("cpu-map").end().end();
    memory(&mut t, &[0, 0x4000_0000, 0, 0x1000]);
    let blob = t.end().blob();
    let m = Machine::parse(&blob, AT).unwrap();
    assert_eq!(m.uart.start(), 3);
    assert_eq!(m.cpus.as_slice(), [1], "a disabled CPU is one to be started");
}

#[test]
fn everything_reserved_is_listed() {
    let mut t = board_with_memory();
    t.reservations = vec![(0x4000_0000, 0x1000), (0x5000_0000, 0), (0x4000_1000, 0x1000)];
    t.begin("reserved-memory").cells("#address-cells", &[1]).cells("#size-cells", &[1]).prop("ranges", &[]);
    t.begin("a@41000000").cells("reg", &[0x4100_0000, 0x2000, 0x4200_0000, 0x1000, 0x4300_0000, 0]).end();
    t.begin("wish").cells("size", &[0x10_0000]).end();
    t.begin("off").text("status", "disabled").cells("reg", &[0x4300_0000, 0x1000]).end();
    let blob = t.end().end().blob();
    let m = Machine::parse(&blob, AT).unwrap();
    let want = [range(0x4000_0000, 0x2000), range(0x4100_0000, 0x2000), range(0x4200_0000, 0x1000), m.fdt];
    assert_eq!(m.reserved.as_slice(), want);
}

#[test]
fn what_must_not_be_mapped_is_no_ram() {
    let mut t = board_with_memory();
    t.begin("reserved-memory").cells("#address-cells", &[1]).cells("#size-cells", &[1]).prop("ranges", &[]);
    t.begin("firmware@41000000").prop("no-map", &[]).cells("reg", &[0x4100_0000, 0x2000]).end();
    t.begin("off").prop("no-map", &[]).text("status", "disabled").cells("reg", &[0x4300_0000, 0x1000]).end();
    t.begin("mapped").cells("reg", &[0x4400_0000, 0x1000]).end();
    let blob = t.end().end().blob();
    let plain = Machine::parse(&board_with_memory().end().blob(), AT).unwrap().banks;
    let mut want = plain.clone();
    want.remove(range(0x4100_0000, 0x2000)).unwrap();
    assert_eq!(want.total(), plain.total() - 0x2000);
    let m = Machine::parse(&blob, AT).unwrap();
    assert_eq!(m.banks, want);
    assert!(m.reserved.as_slice().contains(&range(0x4100_0000, 0x2000)));
}

#[test]
fn console_is_the_one_that_stdout_names() {
    for (stdout, want) in [
        ("/serial@a000000", 0xa00_0000),
        ("/serial@a000000:115200n8", 0xa00_0000),
        ("console0:115200", 0xa00_0000),
        ("/uart@9000000", 0x900_0000),
        // Nothing that we can use: the first PL011 it is.
        ("/virtio@b000000", 0x900_0000),
        ("/nowhere", 0x900_0000),
        ("no-alias", 0x900_0000),
        ("", 0x900_0000),
    ] {
        let mut t = board_with_memory();
        t.begin("serial@a000000").text("compatible", "arm,pl011").cells("reg", &[0, 0xa00_0000, 0, 0x1000]).end();
        t.begin("virtio@b000000").text("compatible", "virtio,mmio").cells("reg", &[0, 0xb00_0000, 0, 0x200]).end();
        t.begin("aliases").text("console0", "/serial@a000000").end();
        t.begin("chosen").text("stdout-path", stdout).end();
        let blob = t.end().blob();
        let m = Machine::parse(&blob, AT).unwrap();
        assert_eq!(m.uart.start(), want, "{stdout}");
    }
}

#[test]
fn a_refused_tree_still_names_its_console() {
    let blob = board().end().blob();
    assert!(Machine::parse(&blob, AT).is_err(), "no memory");
    assert_eq!(Machine::console(&blob).unwrap(), range(0x900_0000, 0x1000));
    assert!(matches!(Machine::console(&blob[..100]), Err(MachineError::Blob(BlobError::TooShort { .. }))));
    let mut t = Tree::default();
    t.begin("").cells("#address-cells", &[2]).cells("#size-cells", &[2]);
    assert!(matches!(Machine::console(&t.end().blob()), Err(MachineError::Missing(Part::Uart))));
}

#[test]
fn what_is_missing_is_named() {
    assert!(matches!(error(&mut board()), MachineError::Missing(Part::Memory)));
    let mut t = board();
    assert!(matches!(error(memory(&mut t, &[0, 0, 0, 0])), MachineError::Missing(Part::Memory)), "only empty slots");
    let mut t = Tree::default();
    t.begin("").cells("#address-cells", &[2]).cells("#size-cells", &[2]);
    assert!(matches!(error(memory(&mut t, &[0, 0x4000_0000, 0, 4096])), MachineError::Missing(Part::Uart)));
    assert_eq!(MachineError::Missing(Part::Gic).to_string(), "the device tree does not name a GICv2 or GICv3");
}

#[test]
fn bad_values_are_named() {
    let bad = |t: &mut Tree, want: &str| assert_eq!(error(t).to_string(), want);
    let mut t = board();
    memory(&mut t, &[0, 0x4000_0000, 0]);
    bad(&mut t, "device tree: bad or missing `reg` (12 bytes) for memory");
    let mut t = board();
    memory(&mut t, &[0xffff_ffff, 0xffff_f000, 0, 0x2000]);
    bad(&mut t, "device tree: bad range for memory: 0x2000 bytes at 0xfffffffffffff000");
    let mut t = board();
    for bank in 0..17 {
        memory(&mut t, &[bank, 0, 0, 0x1000]);
    }
    bad(&mut t, "device tree: more than 16 for memory");
    for (kind, number, len) in [(0, 11, 36), (1, 16, 36), (1, 11, 35)] {
        let mut t = Tree::default();
        t.begin("").cells("#address-cells", &[2]).cells("#size-cells", &[2]);
        memory(&mut t, &[0, 0x4000_0000, 0, 0x1000]);
        t.begin("uart").text("compatible", "arm,pl011").cells("reg", &[0, 0x900_0000, 0, 0x1000]).end();
        t.begin("gic").text("compatible", "arm,gic-v3").cells("reg", &[0, 1, 0, 1, 0, 2, 0, 1]).end();
        let cells: Vec<u8> = [1, 13, 4, 1, 14, 4, kind, number, 4u32].iter().flat_map(|c| c.to_be_bytes()).collect();
        t.begin("timer").text("compatible", "arm,armv8-timer").prop("interrupts", &cells[..len]).end();
        bad(&mut t, &format!("device tree: bad or missing `interrupts` ({len} bytes) for the generic timer"));
    }
    let mut t = board_with_memory();
    t.begin("psci").text("compatible", "arm,psci-1.0").text("method", "svc").end();
    bad(&mut t, "device tree: bad or missing `method` (4 bytes) for PSCI");
    let mut t = board_with_memory();
    t.begin("chosen").prop("bootargs", b"no end").end();
    bad(&mut t, "device tree: bad or missing `bootargs` (6 bytes) for bootargs");
    let mut t = board_with_memory();
    t.begin("chosen").prop("bootargs", b"").end();
    bad(&mut t, "device tree: bad or missing `bootargs` (0 bytes) for bootargs");
    let mut t = board_with_memory();
    t.begin("chosen").cells("linux,initrd-start", &[0x4000_0000]).end();
    bad(&mut t, "device tree: bad or missing `linux,initrd-end` (0 bytes) for the initrd");
    let mut t = board_with_memory();
    t.begin("chosen").cells("linux,initrd-start", &[9]).cells("linux,initrd-end", &[8]).end();
    bad(&mut t, "device tree: bad range for the initrd: 0x0 bytes at 0x9");
    let mut t = board_with_memory();
    t.begin("reserved-memory").cells("#address-cells", &[3]).end();
    bad(&mut t, "device tree: 3 address or size cells for reserved memory, at most 2 are supported");
}

#[test]
fn cpus_beyond_the_64th_are_left_alone() {
    let mut t = board_with_memory();
    t.begin("cpus");
    t.end();
    let blob = t.blob();
    assert!(Machine::parse(&blob, AT).is_err(), "root left open");

    let mut t = Tree::default();
    t.begin("").cells("#address-cells", &[2]).cells("#size-cells", &[2]);
    t.begin("cpus").cells("#address-cells", &[1]).cells("#size-cells", &[0]);
    for cpu in 0..65 {
        t.begin(&format!("cpu@{cpu:x}")).text("device_type", "cpu").cells("reg", &[cpu]).end();
    }
    t.end();
    t.begin("uart").text("compatible", "arm,pl011").cells("reg", &[0, 0x900_0000, 0, 0x1000]).end();
    t.begin("gic").text("compatible", "arm,gic-v3").cells("reg", &[0, 1, 0, 1, 0, 2, 0, 1]).end();
    t.begin("timer").text("compatible", "arm,armv8-timer").cells("interrupts", &[1, 0, 0, 1, 1, 0, 1, 2, 0]).end();
    memory(&mut t, &[0, 0x4000_0000, 0, 4096]);
    let blob = t.end().blob();
    let m = Machine::parse(&blob, AT).unwrap();
    assert_eq!(m.cpus.as_slice(), (0..64).collect::<Vec<u64>>());
}

#[test]
fn headers_that_lie() {
    let blob_error = |blob: &[u8]| match Machine::parse(blob, AT) {
        Err(MachineError::Blob(error)) => error,
        other => panic!("{other:?}"),
    };
    let word = |index: usize, value: u32| {
        let mut blob = GICV2_1CPU.to_vec();
        blob[index * 4..][..4].copy_from_slice(&value.to_be_bytes());
        blob
    };
    let len = GICV2_1CPU.len();
    assert_eq!(blob_error(&[]), BlobError::TooShort { have: 0, need: 8 });
    assert_eq!(blob_error(&word(0, 7)), BlobError::BadMagic(7));
    assert_eq!(blob_error(&word(1, u32::MAX)), BlobError::TooShort { have: len, need: u32::MAX as usize });
    assert_eq!(blob_error(&word(5, 16)), BlobError::BadVersion { version: 16, compatible: 16 });
    assert_eq!(blob_error(&word(6, 18)), BlobError::BadVersion { version: 17, compatible: 18 });
    for (index, block) in
        [(2, "structure"), (3, "strings"), (4, "memory reservation"), (8, "strings"), (9, "structure")]
    {
        for value in [u32::MAX, u32::MAX - 3, len as u32 + 4, 0x8000_0000] {
            let error = blob_error(&word(index, value));
            assert!(matches!(error, BlobError::BadBlock { block: b, .. } if b == block), "{index} {value:#x}");
        }
    }
    assert!(matches!(blob_error(&word(2, 0x42)), BlobError::BadBlock { block: "structure", offset: 0x42, .. }));
    assert!(matches!(blob_error(&word(9, 0)), BlobError::NoEnd { block: "structure" }));
    assert!(matches!(blob_error(&word(8, 0)), BlobError::Cut { .. }));
}

#[test]
fn structures_that_are_no_tree() {
    let check = |t: &Tree, want: &str| {
        let error = Machine::parse(&t.blob(), AT).unwrap_err().to_string();
        assert_eq!(error, want);
    };
    check(&Tree::default(), "device tree: unexpected token 0x9 at 0x38");
    check(Tree::default().begin(""), "device tree: unexpected token 0x9 at 0x40");
    check(Tree::default().begin("").end().end(), "device tree: unexpected token 0x2 at 0x44");
    check(Tree::default().begin("").end().begin(""), "device tree: unexpected token 0x1 at 0x44");
    check(Tree::default().prop("x", b""), "device tree: unexpected token 0x3 at 0x38");
    check(Tree::default().begin("").word(5), "device tree: unexpected token 0x5 at 0x40");
    check(Tree::default().begin("").end().word(9), "device tree: unexpected token 0x9 at 0x44");
    check(Tree::default().begin("").word(9), "device tree: unexpected token 0x9 at 0x40");
    check(
        Tree::default().begin("").begin("a").end().prop("late", b"").end(),
        "device tree: unexpected token 0x3 at 0x4c",
    );
    check(Tree::default().begin("").word(3).word(100).word(0).end(), "device tree: name or value at 0x40 is cut off");
    let mut deep = Tree::default();
    for _ in 0..33 {
        deep.begin("");
    }
    check(&deep, "device tree: more than 32 nodes inside each other at 0x138");
}

#[test]
fn finding_the_blob_in_memory() {
    assert_eq!(blob_size(GICV2_1CPU), Ok(GICV2_1CPU.len()));
    assert_eq!(blob_size(&GICV2_1CPU[..8]), Ok(GICV2_1CPU.len()));
    assert_eq!(blob_size(&GICV2_1CPU[..7]), Err(BlobError::TooShort { have: 7, need: 8 }));
    let mut window = GICV2_1CPU.to_vec();
    window.extend([0xaa; 100]);
    // SAFETY: `window` is that long and outlives the slice.
    assert_eq!(unsafe { blob_at(window.as_ptr(), window.len()) }, Ok(GICV2_1CPU));
    let limit = GICV2_1CPU.len() - 1;
    // SAFETY: as above, with one byte less than the blob.
    let short = unsafe { blob_at(window.as_ptr(), limit) };
    assert_eq!(short, Err(BlobError::TooShort { have: limit, need: GICV2_1CPU.len() }));
}
