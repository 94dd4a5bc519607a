//! The serial console behind a lock, and the `log` crate's output on it.

use core::fmt::{self, Write};
use core::ptr::NonNull;
use log::{LevelFilter, Log, Metadata, Record};
use platform::arch::{Arch, Arm};
use platform::pl011::Console;
use platform::semihosting;
use spin::Mutex;

static CONSOLE: Mutex<Option<Console>> = Mutex::new(None);

/// Makes the PL011 at `base` the console, in place of what was it before.
///
/// # Safety
/// As [`Console::new`]; only while one CPU runs.
pub unsafe fn attach(base: NonNull<u8>) {
    // SAFETY: the caller promises a mapped PL011 that nothing else uses.
    let console = unsafe { Console::new(base) };
    with(|slot| *slot = Some(console));
}

/// Prints to the console; before there is one, by semihosting, so that a panic so early has its message. The `print!`
/// and `println!` macros of this crate come here.
pub fn print(arguments: fmt::Arguments<'_>) {
    with(|slot| {
        // Neither fails itself; a value's own `Display` may, and then the rest is left out.
        let _ = match slot {
            Some(console) => console.write_fmt(arguments),
            None => Early.write_fmt(arguments),
        };
    });
}

/// The console before there is a UART.
struct Early;

impl Write for Early {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(semihosting::put);
        Ok(())
    }
}

/// The console as a place to write to, for code that takes one.
pub struct Out;

impl Write for Out {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        print(format_args!("{text}"));
        Ok(())
    }
}

/// Interrupts are masked while the lock is held, so that a handler may print too.
fn with(work: impl FnOnce(&mut Option<Console>)) {
    let daif = Arm::irq_save();
    work(&mut CONSOLE.lock());
    Arm::irq_restore(daif);
}

/// Breaks the lock, for a panic that may have come from inside it.
///
/// # Safety
/// The caller never returns to the code that may hold the lock, and no other CPU prints.
pub unsafe fn break_lock() {
    // SAFETY: the caller promises that no holder goes on.
    unsafe { CONSOLE.force_unlock() };
}

struct Logger;

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let level = record.level().as_str();
            print(format_args!("[{level:5} {}] {}\n", record.target(), record.args()));
        }
    }

    fn flush(&self) {}
}

/// Sends what the `log` macros say to the console, from `level` up.
pub fn start_log(level: LevelFilter) {
    // An error says only that a logger is set already, which is this one.
    let _ = log::set_logger(&Logger);
    log::set_max_level(level);
}

/// Prints to the console.
#[macro_export]
macro_rules! print {
    ($($arguments:tt)*) => { $crate::console::print(format_args!($($arguments)*)) };
}

/// Prints to the console, and ends the line.
#[macro_export]
macro_rules! println {
    () => { $crate::console::print(format_args!("\n")) };
    ($($arguments:tt)*) => { $crate::console::print(format_args!("{}\n", format_args!($($arguments)*))) };
}
