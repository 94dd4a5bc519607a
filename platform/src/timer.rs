//! The generic timer's virtual timer (Arm ARM DDI 0487, D12): reading time and asking for one interrupt.

use core::num::NonZeroU32;
use core::time::Duration;

/// Nanoseconds per second.
const NANOS: u64 = 1_000_000_000;

/// Counter ticks per second, CNTFRQ_EL0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(NonZeroU32);

impl Rate {
    /// `hz` ticks per second; `None` for 0, which a firmware that never set CNTFRQ_EL0 leaves there.
    pub const fn new(hz: u32) -> Option<Self> {
        match NonZeroU32::new(hz) {
            Some(hz) => Some(Rate(hz)),
            None => None,
        }
    }

    /// Ticks per second.
    pub const fn hz(self) -> u32 {
        self.0.get()
    }

    /// The ticks that cover `time`: rounded up, so that a wait is never too short; at most `u64::MAX`.
    pub fn ticks(self, time: Duration) -> u64 {
        let ticks = (time.as_nanos() * u128::from(self.hz())).div_ceil(u128::from(NANOS));
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    /// The whole nanoseconds in `ticks`; at most `u64::MAX`.
    ///
    /// At QEMU's rates (1 GHz, 62.5 MHz) this is a fixed sequence of few instructions, so that it does not blur what
    /// is measured by it; a division of 128 bits would.
    #[inline]
    pub fn nanos(self, ticks: u64) -> u64 {
        let hz = u64::from(self.hz());
        if NANOS.is_multiple_of(hz) {
            return ticks.saturating_mul(NANOS / hz);
        }
        let nanos = u128::from(ticks) * u128::from(NANOS) / u128::from(hz);
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }
}

#[cfg(target_os = "none")]
pub use device::{Deadline, Timer};

#[cfg(target_os = "none")]
mod device {
    use super::Rate;
    use aarch64_cpu::asm::barrier;
    use aarch64_cpu::registers::{CNTFRQ_EL0, CNTV_CTL_EL0, CNTV_CVAL_EL0, CNTVCT_EL0, Readable, Writeable};
    use core::time::Duration;

    /// The running CPU's virtual timer. Every CPU has its own; the value only carries the rate, which they share.
    #[derive(Clone, Copy, Debug)]
    pub struct Timer {
        rate: Rate,
    }

    /// A moment, in ticks of CNTVCT_EL0.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Deadline(u64);

    impl Timer {
        /// The timer at the rate that CNTFRQ_EL0 states; `None` where the firmware left that at 0.
        pub fn new() -> Option<Self> {
            let rate = Rate::new(CNTFRQ_EL0.get() as u32)?;
            Some(Timer { rate })
        }

        /// Ticks per second.
        pub fn rate(self) -> Rate {
            self.rate
        }

        /// Ticks since some moment before boot. Instructions before it in program order are done (an ISB precedes).
        pub fn now(self) -> u64 {
            barrier::isb(barrier::SY);
            CNTVCT_EL0.get()
        }

        /// The moment `time` from now.
        pub fn after(self, time: Duration) -> Deadline {
            Deadline(self.now().saturating_add(self.rate.ticks(time)))
        }

        /// Whether `deadline` has come.
        pub fn passed(self, deadline: Deadline) -> bool {
            self.now() >= deadline.0
        }

        /// Asks for one interrupt at `deadline` (at once, if it has passed). It stays asserted until [`Timer::cancel`]
        /// or the next `arm`. Takes the place of an earlier one.
        pub fn arm(self, deadline: Deadline) {
            CNTV_CVAL_EL0.set(deadline.0);
            CNTV_CTL_EL0.write(CNTV_CTL_EL0::ENABLE::SET + CNTV_CTL_EL0::IMASK::CLEAR);
            barrier::isb(barrier::SY);
        }

        /// Takes the interrupt back, before or after it came.
        pub fn cancel(self) {
            CNTV_CTL_EL0.write(CNTV_CTL_EL0::ENABLE::CLEAR);
            barrier::isb(barrier::SY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_rounded_up_and_spans_down() {
        let rate = Rate::new(62_500_000).unwrap();
        assert_eq!(rate.ticks(Duration::from_nanos(16)), 1);
        assert_eq!(rate.ticks(Duration::from_nanos(17)), 2);
        assert_eq!(rate.ticks(Duration::from_secs(1)), 62_500_000);
        assert_eq!(rate.ticks(Duration::ZERO), 0);
        assert_eq!(rate.nanos(3), 48);
        let odd = Rate::new(3).unwrap();
        assert_eq!(odd.nanos(1), 333_333_333);
        assert_eq!(Rate::new(1_050_000_000).unwrap().nanos(u64::MAX / 2), 8_784_163_844_623_596_006);
        assert_eq!(odd.ticks(Duration::from_nanos(333_333_334)), 2);
    }

    #[test]
    fn extremes_saturate() {
        let rate = Rate::new(u32::MAX).unwrap();
        assert_eq!(rate.ticks(Duration::MAX), u64::MAX);
        assert_eq!(Rate::new(1).unwrap().nanos(u64::MAX), u64::MAX);
        assert_eq!(Rate::new(3).unwrap().nanos(u64::MAX), u64::MAX);
        assert_eq!(Rate::new(0), None);
    }
}
