//! What a measured stretch cost.

use platform::arch::Events;
use platform::pmu::InstructionCounter;
use platform::timer::Timer;

/// Where costs are read: the instruction counter and the clock of this CPU.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    counter: InstructionCounter,
    timer: Timer,
    /// Instructions that reading the counter twice in a row counts.
    overhead: u64,
}

impl Clock {
    /// Reads the clock's own cost once, to take it off every stretch.
    pub fn new(counter: InstructionCounter, timer: Timer) -> Self {
        let first = counter.read();
        let overhead = counter.read().wrapping_sub(first);
        Clock { counter, timer, overhead }
    }

    /// Whether what it gives as instructions is instructions.
    pub fn counts_instructions(self) -> bool {
        self.counter.counts_instructions()
    }
}

/// Costs of all stretches measured so far.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    clock: Clock,
    /// Operations.
    pub ops: u64,
    /// Instructions, where the machine counts them (QEMU's -icount, or a PMU).
    pub instructions: u64,
    /// Nanoseconds: virtual under -icount, else the host's.
    pub nanos: u64,
    /// Events, where the measured code counts them ([`platform::arch::Counted`]).
    pub events: Events,
}

impl Meter {
    /// Nothing measured yet.
    pub fn new(clock: Clock) -> Self {
        Meter { clock, ops: 0, instructions: 0, nanos: 0, events: Events::default() }
    }

    /// Measures `work`, which is `ops` operations.
    #[inline(always)]
    pub fn measure<R>(&mut self, ops: u64, work: impl FnOnce() -> R) -> R {
        let Clock { counter, timer, overhead } = self.clock;
        let events = Events::now();
        let time = timer.now();
        let start = counter.read();
        let result = work();
        let instructions = counter.read().wrapping_sub(start);
        let ticks = timer.now().wrapping_sub(time);
        self.ops += ops;
        self.instructions += instructions.saturating_sub(overhead);
        self.nanos += timer.rate().nanos(ticks);
        self.events = self.events.plus(Events::now().since(events));
        result
    }

    /// Nanoseconds per operation.
    pub fn nanos_per_op(&self) -> f64 {
        self.nanos as f64 / self.ops.max(1) as f64
    }
}
