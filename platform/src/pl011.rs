//! The serial console: QEMU's PL011 (Arm DDI 0183), over the `arm_pl011` crate.

use core::fmt;
use core::ptr::NonNull;

use arm_pl011::Pl011Uart;

/// Offset of UARTIMSC, the interrupt mask (DDI 0183, table 3-1).
const UARTIMSC: usize = 0x38;

/// A PL011 as a place to print to. `\n` becomes `\r\n`. Locking is the caller's business.
pub struct Console {
    uart: Pl011Uart,
}

impl Console {
    /// Takes over the UART whose registers start at `base`: enabled, all its interrupts masked.
    ///
    /// # Safety
    /// For as long as the console lives, (1) the 4 KiB from `base` are a PL011's registers, mapped readable and writable
    /// as Device memory, and (2) nothing else accesses them, except a panic path that no longer cares for order.
    pub unsafe fn new(base: NonNull<u8>) -> Self {
        let mut uart = Pl011Uart::new(base.as_ptr());
        uart.init();
        // `init` unmasks the receive interrupt, which nobody here serves.
        // SAFETY: by (1) this is the interrupt mask register, 4-byte aligned, and by (2) nobody else writes it.
        unsafe { base.byte_add(UARTIMSC).cast::<u32>().write_volatile(0) };
        Console { uart }
    }

    /// Sends one byte as it is, waiting for room in the transmit FIFO.
    pub fn put(&mut self, byte: u8) {
        self.uart.putchar(byte);
    }

    /// The next byte received, if there is one.
    pub fn get(&mut self) -> Option<u8> {
        self.uart.getchar()
    }
}

impl fmt::Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if byte == b'\n' {
                self.put(b'\r');
            }
            self.put(byte);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::fmt::Write;

    /// Registers in plain memory: the flag register reads 0 (FIFO never full), the data register keeps the last byte.
    #[repr(align(4096))]
    struct Fake([u32; 1024]);

    #[test]
    fn masks_interrupts_enables_and_prints() {
        let mut fake = std::boxed::Box::new(Fake([0; 1024]));
        fake.0[UARTIMSC / 4] = 0x7ff;
        let base = NonNull::from(&mut *fake).cast::<u8>();
        // SAFETY: `fake` is 4 KiB of memory that outlives the console, and nothing else touches it meanwhile.
        let mut console = unsafe { Console::new(base) };
        console.write_str("ab\n").unwrap();
        // SAFETY: `fake` is alive, and the console is not in use at this moment.
        let regs = unsafe { base.cast::<[u32; 1024]>().read_volatile() };
        assert_eq!(regs[0], u32::from(b'\n'), "last byte sent");
        assert_eq!(regs[0x30 / 4], 0x301, "UARTCR: enable, transmit, receive");
        assert_eq!(regs[UARTIMSC / 4], 0, "all interrupts masked");
    }
}
