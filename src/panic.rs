//! The end of the kernel when something is wrong: message, registers, backtrace, exit code 101.

use crate::backtrace;
use crate::console::{self, Out};
use crate::exception::ExceptionFrame;
use crate::percpu::PerCpu;
use crate::stack;
use crate::symbols;
use core::fmt;
use core::ops::Range;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicU32, Ordering};
use pkeys::Por;
use platform::arch::{Arch, Arm};

/// Exit code of a kernel that panicked.
pub const EXIT_PANIC: u32 = 101;

static EXIT_CODE: AtomicU32 = AtomicU32::new(EXIT_PANIC);

/// Makes panics end the kernel with another code.
pub(crate) fn set_exit_code(code: u32) {
    EXIT_CODE.store(code, Ordering::Relaxed);
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    begin();
    crate::println!("PANIC on CPU {}: {}", PerCpu::current().index(), info.message());
    if let Some(location) = info.location() {
        crate::println!("  at {location}");
    }
    crate::println!("por {}", Por::from_bits(Arm::read_por()));
    let fp = backtrace::frame_pointer();
    trace(None, fp, &stacks(fp, None));
    end()
}

/// Ends the kernel over the exception in `frame`.
pub(crate) fn fatal(frame: &ExceptionFrame, message: fmt::Arguments<'_>) -> ! {
    begin();
    crate::println!("PANIC on CPU {}: {message}", PerCpu::current().index());
    crate::print!("{frame}");
    // A function without calls of its own has no frame record: only x30 knows its caller.
    if let Some((name, offset)) = symbols::table().and_then(|table| table.lookup(frame.x[30])) {
        crate::println!("x30 is {name}+{offset:#x}");
    }
    let [fp, _] = frame.record;
    trace(Some(frame.elr), fp, &stacks(fp, Some(frame)));
    end()
}

/// Gets ready to report. A panic inside a panic's report is reported briefly, and one inside that not at all.
fn begin() {
    let _ = Arm::irq_save();
    let cpu = PerCpu::current();
    // SAFETY: no panic returns, and this CPU is the only one that runs.
    unsafe { console::break_lock() };
    match cpu.panics.fetch_add(1, Ordering::Relaxed) {
        0 => (),
        1 => {
            crate::println!("\nPANIC on CPU {}: another panic while reporting one", cpu.index());
            end()
        }
        _ => crate::power::off(EXIT_PANIC),
    }
}

fn end() -> ! {
    crate::exit(EXIT_CODE.load(Ordering::Relaxed))
}

/// The stack that `fp` lies on, then that of the interrupted code.
fn stacks(fp: u64, frame: Option<&ExceptionFrame>) -> [Range<u64>; 2] {
    let known = |address| stack::containing(address).unwrap_or(0..0);
    [known(fp), frame.map_or(0..0, |frame| known(frame.sp))]
}

fn trace(pc: Option<u64>, fp: u64, stacks: &[Range<u64>]) {
    crate::println!("backtrace:");
    // SAFETY: `stack::containing` gives ranges that are mapped for ever.
    let printed = unsafe { backtrace::print(&mut Out, pc, fp, stacks) };
    // `Out` never fails.
    let _ = printed;
}
