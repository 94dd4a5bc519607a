//! Policies, sections and tokens.
//!
//! A [`Section`] is one stretch of table writes; a [`Token`] borrowed from it is what `mm` asks for at every store. The
//! [`Policy`] decides at compile time what the two do:
//!
//! | policy | section opens | each write | section ends |
//! |---|---|---|---|
//! | [`Off`] | - | bare store | caller's barrier |
//! | [`PerWrite`] | - | POR open, ISB, store, POR closed, ISB | caller's barrier |
//! | [`Batched`] | POR open, ISB | bare store | POR closed, caller's barrier |
//!
//! A token can't be made, and can't outlive its section:
//! ```compile_fail,E0451
//! use pkeys::{Batched, MockGate, Token, UserTables};
//! use platform::arch::Recorder;
//! let forged = Token::<Batched<MockGate<Recorder>>, UserTables> { section: core::marker::PhantomData };
//! ```
//! ```compile_fail,E0505
//! use pkeys::{Batched, MockGate, Section, UserTables};
//! use platform::arch::{Arch, Recorder};
//! let section = Section::<Batched<MockGate<Recorder>>, UserTables>::open();
//! let token = section.token();
//! section.end(|| Recorder::isb());
//! token.write(|| ()); // error: the section is over
//! ```
//! Nor does either leave its CPU, whose register it opened:
//! ```compile_fail,E0277
//! use pkeys::{Batched, MockGate, Section, UserTables};
//! use platform::arch::Recorder;
//! fn elsewhere<T: Send>(_: T) {}
//! elsewhere(Section::<Batched<MockGate<Recorder>>, UserTables>::open());
//! ```

use crate::context::Context;
use crate::gate::{Gate, NoGate};
use crate::key::Por;
use core::marker::PhantomData;
use core::mem;
use platform::arch::{Arch, Synced};

/// How table writes are gated.
pub trait Policy: 'static {
    /// The gate.
    type Gate: Gate;
    /// Whether every write opens and closes by itself, instead of the section.
    const PER_WRITE: bool;
}

/// Where a policy's instructions go.
pub type ArchOf<P> = <<P as Policy>::Gate as Gate>::Arch;

/// No protection: the baseline, which compiles to no gate at all.
pub struct Off<A>(PhantomData<A>);

impl<A: Arch> Policy for Off<A> {
    type Gate = NoGate<A>;
    const PER_WRITE: bool = false;
}

/// Every write by itself: the published scheme without lazy-MMU batching.
pub struct PerWrite<G>(PhantomData<G>);

impl<G: Gate> Policy for PerWrite<G> {
    type Gate = G;
    const PER_WRITE: bool = true;
}

/// One opening and one closing a section.
pub struct Batched<G>(PhantomData<G>);

impl<G: Gate> Policy for Batched<G> {
    type Gate = G;
    const PER_WRITE: bool = false;
}

/// A stretch in which `C`'s tables may be written. Dropping it closes it with an ISB of its own: the way out on errors. Work
/// that goes well ends it with [`Section::end`].
#[must_use]
pub struct Section<P: Policy, C: Context> {
    /// A raw pointer, so that the section stays on its CPU.
    policy: PhantomData<(P, C, *const ())>,
}

impl<P: Policy, C: Context> Section<P, C> {
    /// Opens. Not to be called where a section is open already: pass its token along, or use [`Token::nested`]. A debug
    /// build checks that (on the gate that can tell).
    #[inline(always)]
    pub fn open() -> Self {
        debug_assert!(P::Gate::is_closed(), "a section was opened inside another: pass the token instead");
        if !P::PER_WRITE {
            set::<P::Gate>(C::OPEN);
        }
        Section { policy: PhantomData }
    }

    /// The permission to write, for as long as the section lives.
    #[inline(always)]
    pub fn token(&self) -> Token<'_, P, C> {
        Token { section: PhantomData }
    }

    /// Closes and then runs `barrier`, which has to end in an ISB that the work needs anyway, so that closing adds none.
    /// Stores before the closing write keep their permission: a register write is not seen by instructions before it in
    /// program order (Arm ARM D24.1.2.2).
    #[inline(always)]
    pub fn end(self, barrier: impl FnOnce() -> Synced) {
        mem::forget(self);
        if !P::PER_WRITE {
            P::Gate::write(Por::CLOSED);
        }
        let _: Synced = barrier();
    }
}

impl<P: Policy, C: Context> Drop for Section<P, C> {
    fn drop(&mut self) {
        if !P::PER_WRITE {
            set::<P::Gate>(Por::CLOSED);
        }
    }
}

/// Proof that a section for `C`'s tables is open. Zero-sized, free to copy.
pub struct Token<'s, P: Policy, C: Context> {
    section: PhantomData<(&'s Section<P, C>, *const ())>,
}

impl<P: Policy, C: Context> Clone for Token<'_, P, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Policy, C: Context> Copy for Token<'_, P, C> {}

impl<P: Policy, C: Context> Token<'_, P, C> {
    /// Runs `store`, the writing of one entry, with the gate open.
    #[inline(always)]
    pub fn write<R>(self, store: impl FnOnce() -> R) -> R {
        if !P::PER_WRITE {
            return store();
        }
        set::<P::Gate>(C::OPEN);
        let result = store();
        set::<P::Gate>(Por::CLOSED);
        result
    }

    /// Runs `work` with `D`'s tables open as well, for the rare step that edits another kind of table in the middle of a
    /// section (the pool growing). `work` ends in an ISB for its own sake, which the return to `C` alone is merged into.
    #[inline(always)]
    pub fn nested<D: Context, R>(self, work: impl FnOnce(Token<'_, P, D>) -> R, barrier: impl FnOnce() -> Synced) -> R {
        if !P::PER_WRITE {
            set::<P::Gate>(C::OPEN.union(D::OPEN));
        }
        let result = work(Token { section: PhantomData });
        if !P::PER_WRITE {
            P::Gate::write(C::OPEN);
        }
        let _: Synced = barrier();
        result
    }
}

/// Writes `por` and synchronises.
#[inline(always)]
fn set<G: Gate>(por: Por) {
    G::write(por);
    if G::SYNCHRONISES {
        let _: Synced = G::Arch::isb();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{KernelTables, UserTables};
    use crate::gate::{MockGate, PorGate};
    use platform::arch::{Op, Recorder};
    extern crate std;
    use std::vec;

    type Real = PorGate<Recorder>;

    fn two_writes<P: Policy>() {
        let section = Section::<P, UserTables>::open();
        for address in [8, 16] {
            section.token().write(|| Recorder::push(Op::Store { address, value: 1 }));
        }
        section.end(Recorder::isb);
    }

    fn start() {
        Recorder::preset_por(Por::CLOSED.bits());
        Recorder::take();
    }

    const ONE: Op = Op::Store { address: 8, value: 1 };
    const TWO: Op = Op::Store { address: 16, value: 1 };
    const OPEN: Op = Op::Por(0x157);
    const CLOSE: Op = Op::Por(0x117);

    #[test]
    fn off_is_bare() {
        start();
        two_writes::<Off<Recorder>>();
        assert_eq!(Recorder::take(), [ONE, TWO, Op::Isb]);
    }

    #[test]
    fn batched_opens_once_and_closes_into_the_barrier() {
        start();
        two_writes::<Batched<Real>>();
        assert_eq!(Recorder::take(), [OPEN, Op::Isb, ONE, TWO, CLOSE, Op::Isb]);
    }

    #[test]
    fn per_write_opens_for_each() {
        start();
        two_writes::<PerWrite<Real>>();
        let one = |store| [OPEN, Op::Isb, store, CLOSE, Op::Isb];
        let mut expected = vec![];
        expected.extend(one(ONE));
        expected.extend(one(TWO));
        expected.push(Op::Isb);
        assert_eq!(Recorder::take(), expected);
    }

    #[test]
    fn the_mock_gate_writes_contextidr_alike() {
        start();
        two_writes::<Batched<MockGate<Recorder>>>();
        assert_eq!(Recorder::take(), [Op::Contextidr(0x157), Op::Isb, ONE, TWO, Op::Contextidr(0x117), Op::Isb]);
    }

    #[test]
    fn dropping_closes_by_itself() {
        start();
        drop(Section::<Batched<Real>, UserTables>::open());
        assert_eq!(Recorder::take(), [OPEN, Op::Isb, CLOSE, Op::Isb]);
    }

    #[test]
    fn nesting_adds_the_other_key_and_returns_to_the_first() {
        start();
        let section = Section::<Batched<Real>, UserTables>::open();
        section.token().nested::<KernelTables, _>(|token| token.write(|| Recorder::push(ONE)), Recorder::isb);
        section.token().write(|| Recorder::push(TWO));
        section.end(Recorder::isb);
        assert_eq!(Recorder::take(), [OPEN, Op::Isb, Op::Por(0x557), Op::Isb, ONE, OPEN, Op::Isb, TWO, CLOSE, Op::Isb]);
    }

    #[test]
    #[should_panic(expected = "inside another")]
    fn a_section_inside_a_section_is_caught() {
        start();
        let _outer = Section::<Batched<Real>, UserTables>::open();
        let _inner = Section::<Batched<Real>, KernelTables>::open();
    }
}
