//! Access to system registers that `aarch64-cpu` does not name, by their generic S3_... encoding.

/// Reads a system register; `$name` is a name that the assembler knows. Only for registers whose read has no side effect.
macro_rules! mrs {
    ($name:literal) => {{
        let value: u64;
        // SAFETY: reading this register has no side effect (that is this macro's contract), and where the register
        // does not exist the instruction traps.
        unsafe {
            core::arch::asm!(concat!("mrs {}, ", $name), out(reg) value, options(nomem, nostack, preserves_flags));
        }
        value
    }};
}

/// Writes a system register that controls a counter or a timer and thereby touches no memory.
macro_rules! msr {
    ($name:literal, $value:expr) => {{
        let value: u64 = $value;
        // SAFETY: the registers this crate uses it for (PMU) change what is counted, not memory or control flow.
        unsafe {
            core::arch::asm!(concat!("msr ", $name, ", {}"), in(reg) value, options(nostack, preserves_flags));
        }
    }};
}

pub(crate) use {mrs, msr};
