//! From the entry code to the kernel's main function.

mod entry;
pub mod image;
mod memory;

use crate::bootargs::{Args, Usage};
use crate::console;
use crate::power;
use crate::protection::Protection;
use crate::stack::{self, Stacks};
use core::arch::asm;
use core::fmt;
use core::ptr::{self, NonNull};
use core::slice;
use image::{BLOCK, Part, Placement};
use mm::addr::{Frame, PAGE_SIZE, PhysAddr};
use mm::desc::{Attr, Descriptor, Format};
use mm::memory::Memory;
use mm::{linear, tlb};
use platform::arch::Arm;
use platform::features::Features;
use platform::machine::{self, Machine, MachineError};
use spin::Once;

use memory::MemoryError;
pub use memory::device_address;

/// Exit code for boot arguments that are wrong.
pub const EXIT_USAGE: u32 = 2;
/// Exit code for a CPU that lacks what protection needs.
pub const EXIT_UNSUPPORTED: u32 = 3;
/// Exit code for too little memory.
pub const EXIT_MEMORY: u32 = 4;

/// Bytes of an FDT that tell its size.
const FDT_HEAD: usize = 8;

/// What the kernel's main function gets to know.
#[derive(Debug)]
pub struct Boot {
    /// What the device tree says.
    pub machine: Machine<'static>,
    /// What the CPU can do.
    pub features: Features,
    /// The boot arguments.
    pub args: Args<'static>,
    /// How the tables are protected.
    pub protection: Protection,
    /// Where the image lies.
    pub image: Placement,
    /// Frames, tables, address-space identifiers and the kernel's root.
    pub memory: &'static Memory,
}

static BOOT: Once<Boot> = Once::new();

unsafe extern "Rust" {
    /// The program that this library is linked into; see [`crate::kernel_main`].
    fn palisade_main(boot: &Boot) -> u32;
}

/// Where the entry code comes to: in the upper half, on the boot stack, with the boot tables. `fdt` is the FDT's
/// physical address (0: none found), `image` that of the image.
#[unsafe(no_mangle)]
extern "C" fn boot_start(fdt: u64, image: u64) -> ! {
    let image = Placement::new(image);
    let machine = read_machine(fdt, image);
    if let Some(conduit) = machine.psci {
        power::set_conduit(conduit);
    }
    let args =
        Args::parse(machine.bootargs).unwrap_or_else(|error| give_up(format_args!("{error}\n{Usage}"), EXIT_USAGE));
    console::start_log(args.log);
    let features = Features::read();
    let protection = Protection::choose(&features, args.gate)
        .unwrap_or_else(|error| give_up(format_args!("{error}"), EXIT_UNSUPPORTED));
    log::debug!("CPU: {features}");
    log::info!("protection: {protection}");
    protection.enforce(&features);
    let (memory, stacks) =
        take_memory(&machine, image, &features).unwrap_or_else(|error| give_up(format_args!("{error}"), EXIT_MEMORY));
    BOOT.call_once(|| Boot { machine, features, args, protection, image, memory });
    stack::leave_boot_stack(stacks, run)
}

/// Puts the kernel's own root into force, and all that it needs into service.
fn take_memory(
    machine: &Machine<'_>,
    image: Placement,
    features: &Features,
) -> Result<(&'static Memory, Stacks), MemoryError> {
    let built = memory::build_root(machine, image, features)?;
    // SAFETY: the entry code has left the boot tables live and interrupts masked.
    unsafe { built.enter(image) };
    let uart = NonNull::new(ptr::with_exposed_provenance_mut(memory::device_address(machine.uart.start()) as usize))
        .expect("devices are not mapped at 0");
    // SAFETY: the new root maps the PL011 there as Device memory; the early console goes, with the page that it used.
    unsafe { console::attach(uart) };
    let stacks = built.stacks();
    Ok((built.populate(image)?, stacks))
}

/// Runs the program that this library is linked into, on the guarded stack.
extern "C" fn run() -> ! {
    let boot = BOOT.get().expect("boot is complete");
    // SAFETY: unmasks SErrors, which the vectors report; interrupts stay masked.
    unsafe { asm!("msr daifclr, #4", options(nostack, preserves_flags)) };
    // SAFETY: `kernel_main!` defines it with this signature.
    let code = unsafe { palisade_main(boot) };
    crate::exit(code)
}

/// Says in a line or two why the kernel can't run, and ends it.
fn give_up(reason: fmt::Arguments<'_>, code: u32) -> ! {
    crate::println!("{reason}");
    crate::exit(code)
}

/// Reads the device tree through its window, and takes the UART that it names as console.
fn read_machine(fdt: u64, image: Placement) -> Machine<'static> {
    assert!(fdt != 0, "the boot loader passed no device tree");
    let within = fdt % BLOCK;
    let base = ptr::with_exposed_provenance::<u8>((entry::FDT_WINDOW + within) as usize);
    // SAFETY: the entry code has mapped the block that holds the FDT and the one after it, read-only, and has found an
    // FDT's magic there; nothing writes it.
    let head = unsafe { slice::from_raw_parts(base, FDT_HEAD) };
    let size = machine::blob_size(head).unwrap_or_else(|error| panic!("{error}"));
    assert!(size as u64 <= BLOCK, "a device tree of {size} bytes; the boot protocol allows 2 MiB");
    // SAFETY: as above; that much from within the first block ends within the second.
    let blob = unsafe { slice::from_raw_parts(base, size) };
    // A tree that makes no machine may still name the UART to complain on.
    let machine = Machine::parse(blob, fdt);
    if let Ok(uart) = machine.as_ref().map_or_else(|_| Machine::console(blob), |machine| Ok(machine.uart)) {
        map_early_uart(uart.start(), image);
    }
    machine.unwrap_or_else(|error| match error {
        MachineError::BadProperty { part: machine::Part::Bootargs, .. } => {
            give_up(format_args!("{error}: boot arguments have to be UTF-8\n{Usage}"), EXIT_USAGE)
        }
        _ => panic!("{error}"),
    })
}

/// Maps the UART at physical address `uart` into the page that the boot tables keep for it, so that whatever goes wrong from here
/// on can be told.
fn map_early_uart(uart: u64, image: Placement) {
    let tables = image.start(Part::Tables);
    let table = tables.checked_add(entry::EARLY_DEVICE_TABLE * PAGE_SIZE).expect("the boot tables lie in the image");
    let page = PhysAddr::new(uart).map(Frame::containing).expect("the UART lies in physical memory");
    let descriptor = Descriptor::page(page, Attr::Device.leaf_bits(Format::Direct));
    // SAFETY: the boot tables map their own block writable at its linear address; this entry of theirs is kept for
    // this page, is empty, and protection is not in force yet.
    unsafe { linear::ptr(table).cast::<u64>().write_volatile(descriptor.bits()) };
    let _ = tlb::publish::<Arm>();
    let base = ptr::with_exposed_provenance_mut::<u8>((entry::EARLY_DEVICE + uart % PAGE_SIZE) as usize);
    let base = NonNull::new(base).expect("the early device page is not at 0");
    // SAFETY: the page is mapped as Device memory to the PL011's registers, and there has been no console before.
    unsafe { console::attach(base) };
}
