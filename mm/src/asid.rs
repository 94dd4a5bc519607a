//! Address-space identifiers, handed out in generations (as in Linux's arch/arm64/mm/context.c).
//!
//! When the numbers run out a new generation begins: every TLB is emptied once, and spaces get a new number when they
//! are next activated. A number that a CPU is running on carries over. ASID 0 is no space's: the empty root runs on it.

use platform::arch::{Arch, Asid, MAX_CPUS};
use spin::Mutex;

use alloc::vec::Vec;

use crate::frame::OutOfMemory;

/// A generation (high 48 bits) and a number in it (low 16); 0 is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Tagged(u64);

impl Tagged {
    /// No number was ever handed out: no TLB can hold an entry.
    pub const NONE: Tagged = Tagged(0);

    fn new(generation: u64, asid: u16) -> Self {
        Tagged(generation << 16 | u64::from(asid))
    }

    fn generation(self) -> u64 {
        self.0 >> 16
    }

    /// The number as registers and TLBIs take it.
    pub const fn asid(self) -> Asid {
        Asid(self.0 as u16)
    }
}

#[derive(Debug)]
struct State {
    generation: u64,
    /// One bit a number, set where it is in use in this generation.
    used: Vec<u64>,
    /// Where the search for a clear bit goes on.
    next: usize,
    /// What each CPU activated in this generation.
    active: [Tagged; MAX_CPUS],
    /// What each CPU was running on when the generation began, for as long as it has not activated anything since. Its space
    /// keeps the number.
    reserved: [Tagged; MAX_CPUS],
}

/// The allocator.
#[derive(Debug)]
pub struct Asids {
    state: Mutex<State>,
}

impl Asids {
    /// For identifiers of `bits` bits: 8 or 16 on hardware (ID_AA64MMFR0_EL1.ASIDBits), from 7 up in tests.
    ///
    /// # Errors
    /// Out of memory where the heap has no room for the bitmap (8 KiB for 16 bits).
    pub fn new(bits: u32) -> Result<Self, OutOfMemory> {
        assert!((7..=16).contains(&bits), "{bits} bits of ASID");
        let words = (1 << bits) / 64;
        let mut used = Vec::new();
        used.try_reserve_exact(words).map_err(|_| OutOfMemory { order: 0 })?;
        used.resize(words, 0);
        used[0] = 1;
        let state = State {
            generation: 1,
            used,
            next: 0,
            active: [Tagged::NONE; MAX_CPUS],
            reserved: [Tagged::NONE; MAX_CPUS],
        };
        Ok(Asids { state: Mutex::new(state) })
    }

    /// A number of the current generation for a space that had `current`, noted as what this CPU runs on.
    pub fn activate<A: Arch>(&self, current: Tagged) -> Tagged {
        let mut state = self.state.lock();
        let tagged = if current.generation() == state.generation { current } else { state.hand_out::<A>(current) };
        state.runs(A::cpu(), tagged);
        tagged
    }

    /// Notes that this CPU runs on no space.
    pub fn deactivate<A: Arch>(&self) {
        self.state.lock().runs(A::cpu(), Tagged::NONE);
    }

    /// Whether TLBs may hold entries under `tagged`. Those of older generations have all been emptied; but a number that a
    /// CPU was running on then, and runs on still, fills that CPU's TLB again.
    pub fn is_current(&self, tagged: Tagged) -> bool {
        let state = self.state.lock();
        tagged.generation() == state.generation || tagged != Tagged::NONE && state.reserved.contains(&tagged)
    }

    /// Whether this CPU runs on `tagged`.
    pub fn is_active<A: Arch>(&self, tagged: Tagged) -> bool {
        let state = self.state.lock();
        tagged != Tagged::NONE && [state.active[A::cpu()], state.reserved[A::cpu()]].contains(&tagged)
    }

    /// Gives a number back whose entries have left every TLB.
    pub fn release(&self, tagged: Tagged) {
        let mut state = self.state.lock();
        if tagged.generation() == state.generation {
            let asid = usize::from(tagged.asid().0);
            state.used[asid / 64] &= !(1 << (asid % 64));
        }
    }
}

impl State {
    fn runs(&mut self, cpu: usize, tagged: Tagged) {
        self.active[cpu] = tagged;
        self.reserved[cpu] = Tagged::NONE;
    }

    fn hand_out<A: Arch>(&mut self, current: Tagged) -> Tagged {
        if current != Tagged::NONE && self.reserved.contains(&current) {
            return self.renew(current);
        }
        let asid = self.find_free().unwrap_or_else(|| {
            self.roll_over::<A>();
            self.find_free().expect("more identifiers than CPUs")
        });
        self.mark(asid as u16);
        self.next = asid / 64;
        Tagged::new(self.generation, asid as u16)
    }

    /// Carries a reserved number over into this generation, for every CPU that runs on it.
    fn renew(&mut self, current: Tagged) -> Tagged {
        let renewed = Tagged::new(self.generation, current.asid().0);
        self.reserved.iter_mut().filter(|tagged| **tagged == current).for_each(|tagged| *tagged = renewed);
        renewed
    }

    fn mark(&mut self, asid: u16) {
        self.used[usize::from(asid) / 64] |= 1 << (asid % 64);
    }

    fn find_free(&self) -> Option<usize> {
        let words = self.used.len();
        (0..words)
            .map(|i| (self.next + i) % words)
            .find(|&word| self.used[word] != u64::MAX)
            .map(|word| word * 64 + self.used[word].trailing_ones() as usize)
    }

    fn roll_over<A: Arch>(&mut self) {
        self.generation += 1;
        self.used.fill(0);
        self.next = 0;
        self.mark(0);
        for cpu in 0..MAX_CPUS {
            let active = core::mem::take(&mut self.active[cpu]);
            if active != Tagged::NONE {
                self.reserved[cpu] = active;
            }
            if self.reserved[cpu] != Tagged::NONE {
                self.mark(self.reserved[cpu].asid().0);
            }
        }
        let _ = crate::tlb::flush::<A>(crate::tlb::Stale::All);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::arch::{Op, Recorder};
    use std::collections::HashSet;

    #[test]
    fn numbers_are_unique_within_a_generation_and_never_zero() {
        let asids = Asids::new(7).unwrap();
        let handed: HashSet<u16> = (0..127).map(|_| asids.activate::<Recorder>(Tagged::NONE).asid().0).collect();
        assert_eq!(handed.len(), 127);
        assert!(!handed.contains(&0));
    }

    #[test]
    fn running_out_empties_every_tlb_once_and_spares_the_running_number() {
        let asids = Asids::new(7).unwrap();
        let mut last = Tagged::NONE;
        for _ in 0..127 {
            last = asids.activate::<Recorder>(Tagged::NONE);
        }
        let running = asids.activate::<Recorder>(last);
        assert_eq!(running, last);
        Recorder::take();
        let fresh = asids.activate::<Recorder>(Tagged::NONE);
        assert_eq!(Recorder::take(), [Op::DsbIshst, Op::TlbiAll, Op::DsbIsh, Op::Isb]);
        assert_ne!(fresh.asid(), last.asid());
        assert!(!asids.is_current(last));
        assert!(asids.is_current(fresh));
    }

    #[test]
    fn a_space_that_another_cpu_runs_keeps_its_number_over_rollovers() {
        let asids = Asids::new(7).unwrap();
        let running = asids.activate::<Recorder>(Tagged::NONE);
        let mut state = asids.state.lock();
        state.runs(1, running);
        state.active[0] = Tagged::NONE;
        state.roll_over::<Recorder>();
        state.roll_over::<Recorder>();
        drop(state);
        assert!(asids.is_current(running), "CPU 1 fills its TLB under it");
        let renewed = asids.activate::<Recorder>(running);
        assert_eq!(renewed.asid(), running.asid());
        assert!(asids.is_current(renewed));
        assert_eq!(asids.activate::<Recorder>(renewed), renewed);
    }

    #[test]
    fn a_released_number_is_used_again() {
        let asids = Asids::new(7).unwrap();
        for _ in 0..1000 {
            let tagged = asids.activate::<Recorder>(Tagged::NONE);
            asids.deactivate::<Recorder>();
            asids.release(tagged);
            assert!(asids.is_current(tagged), "no rollover was needed");
        }
    }
}
