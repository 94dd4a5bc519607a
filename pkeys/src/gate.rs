//! Gates: what a section writes to open and close.

use crate::key::Por;
use core::marker::PhantomData;
use platform::arch::Arch;

/// A way to open and close. Implementations are types without values, so that each compiles into its own copy of the
/// code that uses it and `NoGate` compiles to nothing.
pub trait Gate: 'static {
    /// Where its instructions go.
    type Arch: Arch;
    /// Whether a write needs an ISB to be sure to hold for the accesses after it.
    const SYNCHRONISES: bool;

    /// Writes `por`, without a barrier. `por` is a constant wherever this is called.
    fn write(por: Por);

    /// Whether the register is known to hold `Por::CLOSED`; gates that can't tell say yes. For debug builds' checks.
    fn is_closed() -> bool;
}

/// POR_EL1 itself: hardware, or the EL1 vector's emulation.
pub struct PorGate<A>(PhantomData<A>);

impl<A: Arch> Gate for PorGate<A> {
    type Arch = A;
    const SYNCHRONISES: bool = true;

    #[inline(always)]
    fn write(por: Por) {
        // SAFETY: this is a gate; sections pass `Por::CLOSED` or a context's constant, all of which hold key 0 at RWX.
        unsafe { A::write_por(por.bits()) };
    }

    fn is_closed() -> bool {
        A::read_por() == Por::CLOSED.bits()
    }
}

/// CONTEXTIDR_EL1 in POR_EL1's place, with the same barriers: costs what the real gate costs, protects nothing. The
/// published figures were taken this way.
pub struct MockGate<A>(PhantomData<A>);

impl<A: Arch> Gate for MockGate<A> {
    type Arch = A;
    const SYNCHRONISES: bool = true;

    #[inline(always)]
    fn write(por: Por) {
        A::write_contextidr(por.bits());
    }

    fn is_closed() -> bool {
        true
    }
}

/// No gate: the baseline.
pub struct NoGate<A>(PhantomData<A>);

impl<A: Arch> Gate for NoGate<A> {
    type Arch = A;
    const SYNCHRONISES: bool = false;

    #[inline(always)]
    fn write(_por: Por) {}

    fn is_closed() -> bool {
        true
    }
}
