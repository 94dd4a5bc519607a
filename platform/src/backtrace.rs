//! Walking the chain of frame records, and printing it with names.
//!
//! A function built with frame pointers keeps in x29 the address of its *frame record*: two 64-bit words, the
//! caller's x29 and the return address (AAPCS64, "The Frame Pointer"). Exception entry stores such a record too, of
//! the interrupted x29 and ELR_EL1, so that a chain runs on through it. The walk runs in a kernel that may be broken:
//! it reads only inside the stacks it was given, only moves outwards, and ends after [`MAX_DEPTH`] frames.

use core::fmt::{self, Write};
use core::ops::Range;

use crate::symbols::SymbolTable;

/// Most frames that one walk yields.
pub const MAX_DEPTH: usize = 32;

/// Length in bytes of a frame record.
const RECORD_LEN: u64 = 16;

/// Length in bytes of an A64 instruction.
const INSTRUCTION_LEN: u64 = 4;

/// Why a walk yielded no further frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The chain ended as entry code made it end: a null frame pointer or a null return address.
    Outermost,
    /// This frame pointer is not a multiple of eight.
    Misaligned(u64),
    /// The record at this frame pointer does not lie in a stack the walk may still enter.
    OutOfRange(u64),
    /// This frame pointer does not lie above its callee's, on the same stack.
    NotIncreasing(u64),
    /// The record at this frame pointer could not be read.
    Unreadable(u64),
    /// [`MAX_DEPTH`] frames were yielded and the chain goes on.
    TooDeep,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outermost => write!(f, "outermost frame"),
            Self::Misaligned(fp) => write!(f, "frame pointer {fp:#x} is misaligned"),
            Self::OutOfRange(fp) => write!(f, "frame pointer {fp:#x} is on no known stack"),
            Self::NotIncreasing(fp) => write!(f, "frame pointer {fp:#x} does not lie above its callee's"),
            Self::Unreadable(fp) => write!(f, "frame record at {fp:#x} cannot be read"),
            Self::TooDeep => write!(f, "more than {MAX_DEPTH} frames"),
        }
    }
}

/// A walk outwards along frame records; an iterator over return addresses.
pub struct Walk<'s, R> {
    /// Frame pointer of the next record to read.
    fp: u64,
    /// Frame pointer of the record read last, if that lies in the first of `stacks`.
    callee: Option<u64>,
    /// Stacks that records may lie in: the current one, then those the chain may go on to.
    stacks: &'s [Range<u64>],
    depth: usize,
    end: Option<End>,
    read: R,
}

impl<'s, R: FnMut(u64) -> Option<u64>> Walk<'s, R> {
    /// Starts a walk at the record at `fp`, a value of x29.
    ///
    /// `stacks` are the address ranges of the stacks that the chain may lie on, innermost first: for a chain that
    /// starts on an interrupt's stack and goes on to the interrupted thread's, in that order. A chain that has left
    /// a stack may not come back to it. `read` gives the aligned 64-bit word at an address, or `None` where it
    /// cannot be read; it is called only for addresses inside `stacks`.
    pub fn new(fp: u64, stacks: &'s [Range<u64>], read: R) -> Self {
        Self { fp, callee: None, stacks, depth: 0, end: None, read }
    }

    /// Why the walk ended, or `None` as long as it has not.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Reads the record at `self.fp` and moves on to its caller's.
    fn step(&mut self) -> Result<u64, End> {
        let fp = self.fp;
        if fp == 0 {
            return Err(End::Outermost);
        }
        if !fp.is_multiple_of(8) {
            return Err(End::Misaligned(fp));
        }
        let record_end = fp.checked_add(RECORD_LEN).ok_or(End::OutOfRange(fp))?;
        let holds = |stack: &Range<u64>| stack.start <= fp && record_end <= stack.end;
        match self.stacks.iter().position(holds).ok_or(End::OutOfRange(fp))? {
            0 if self.callee.is_some_and(|callee| fp <= callee) => return Err(End::NotIncreasing(fp)),
            left => self.stacks = &self.stacks[left..],
        }
        if self.depth == MAX_DEPTH {
            return Err(End::TooDeep);
        }
        let caller = (self.read)(fp).ok_or(End::Unreadable(fp))?;
        let return_address = (self.read)(fp + 8).ok_or(End::Unreadable(fp))?;
        if return_address == 0 {
            return Err(End::Outermost);
        }
        self.callee = Some(fp);
        self.fp = caller;
        self.depth += 1;
        Ok(return_address)
    }
}

impl<R: FnMut(u64) -> Option<u64>> Iterator for Walk<'_, R> {
    /// A return address: the address of the instruction after the call.
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if self.end.is_some() {
            return None;
        }
        match self.step() {
            Ok(return_address) => Some(return_address),
            Err(end) => {
                self.end = Some(end);
                None
            }
        }
    }
}

/// Writes a backtrace, one frame a line: `  #0 ffffffff80012345 palisade::mm::foo+0x24`.
///
/// `pc`, where given, is printed first and names the instruction itself, as ELR_EL1 does after a fault. Then follow the
/// return addresses of `walk`, each named after the function that its call lies in: a call that never returns may be
/// its function's last instruction. An address without a symbol is printed without a name. Where the chain breaks
/// off before its outermost frame, a last line says why.
///
/// # Errors
/// Only those of `out`.
pub fn write<W, R>(out: &mut W, symbols: Option<SymbolTable<'_>>, pc: Option<u64>, mut walk: Walk<'_, R>) -> fmt::Result
where
    W: Write + ?Sized,
    R: FnMut(u64) -> Option<u64>,
{
    let mut number = 0;
    if let Some(pc) = pc {
        write_frame(out, symbols, number, pc, 0)?;
        number += 1;
    }
    for return_address in walk.by_ref() {
        write_frame(out, symbols, number, return_address, INSTRUCTION_LEN)?;
        number += 1;
    }
    match walk.end() {
        None | Some(End::Outermost) => Ok(()),
        Some(end) => writeln!(out, "  (backtrace ends: {end})"),
    }
}

/// Writes one line; the symbol is that of `back` bytes before `address`.
fn write_frame<W: Write + ?Sized>(
    out: &mut W,
    symbols: Option<SymbolTable<'_>>,
    number: usize,
    address: u64,
    back: u64,
) -> fmt::Result {
    write!(out, "  #{number} {address:016x}")?;
    if let Some((name, offset)) = symbols.and_then(|table| table.lookup(address.checked_sub(back)?)) {
        write!(out, " {name}+{:#x}", offset + back)?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use std::string::String;
    use std::vec;
    use std::vec::Vec;

    use super::*;

    /// A stack of 64-bit words that starts at `base`.
    struct Stack {
        base: u64,
        words: Vec<u64>,
    }

    impl Stack {
        fn new(base: u64, words: usize) -> Self {
            Self { base, words: vec![0; words] }
        }

        fn range(&self) -> Range<u64> {
            self.base..self.base + 8 * self.words.len() as u64
        }

        fn record(&mut self, fp: u64, caller: u64, return_address: u64) {
            let index = ((fp - self.base) / 8) as usize;
            self.words[index] = caller;
            self.words[index + 1] = return_address;
        }

        fn read(&self, addr: u64) -> Option<u64> {
            let index = addr.checked_sub(self.base)? / 8;
            self.words.get(index as usize).copied()
        }
    }

    /// Walks from `fp` over `stacks`, innermost first; panics on a read outside them.
    fn walk(fp: u64, stacks: &[&Stack]) -> (Vec<u64>, End) {
        let ranges: Vec<_> = stacks.iter().map(|stack| stack.range()).collect();
        let read = |addr| Some(stacks.iter().find_map(|stack| stack.read(addr)).expect("read outside the stacks"));
        let mut walk = Walk::new(fp, &ranges, read);
        let found: Vec<_> = walk.by_ref().collect();
        (found, walk.end().unwrap())
    }

    #[test]
    fn follows_the_chain_to_its_null_record() {
        let mut stack = Stack::new(0x1000, 64);
        stack.record(0x1010, 0x1040, 0xa0);
        stack.record(0x1040, 0x1100, 0xb0);
        stack.record(0x1100, 0, 0xc0);
        assert_eq!(walk(0x1010, &[&stack]), (vec![0xa0, 0xb0, 0xc0], End::Outermost));
        stack.record(0x1100, 0, 0);
        assert_eq!(walk(0x1010, &[&stack]), (vec![0xa0, 0xb0], End::Outermost));
        assert_eq!(walk(0, &[&stack]), (vec![], End::Outermost));
    }

    #[test]
    fn a_record_may_end_at_the_stack_top_but_not_beyond() {
        let mut stack = Stack::new(0x1000, 4);
        stack.record(0x1000, 0x1010, 0xa0);
        stack.record(0x1010, 0, 0xb0);
        assert_eq!(walk(0x1000, &[&stack]), (vec![0xa0, 0xb0], End::Outermost));
        for fp in [0x0ff8, 0x1018, 0x1020, 0x2000, u64::MAX - 7] {
            assert_eq!(walk(fp, &[&stack]), (vec![], End::OutOfRange(fp)));
        }
    }

    #[test]
    fn stops_at_a_misaligned_frame() {
        let mut stack = Stack::new(0x1000, 64);
        stack.record(0x1010, 0x1044, 0xa0);
        assert_eq!(walk(0x1010, &[&stack]), (vec![0xa0], End::Misaligned(0x1044)));
    }

    #[test]
    fn stops_at_a_loop() {
        let mut stack = Stack::new(0x1000, 64);
        stack.record(0x1010, 0x1040, 0xa0);
        stack.record(0x1040, 0x1010, 0xb0);
        assert_eq!(walk(0x1010, &[&stack]), (vec![0xa0, 0xb0], End::NotIncreasing(0x1010)));
        stack.record(0x1040, 0x1040, 0xb0);
        assert_eq!(walk(0x1010, &[&stack]), (vec![0xa0, 0xb0], End::NotIncreasing(0x1040)));
    }

    #[test]
    fn stops_at_a_record_that_cannot_be_read() {
        let ranges = [Range { start: 0x1000, end: 0x2000 }];
        for readable in [None, Some(0x1010)] {
            let mut walk = Walk::new(0x1010, &ranges, |addr| (Some(addr) == readable).then_some(0));
            assert_eq!(walk.next(), None);
            assert_eq!(walk.end(), Some(End::Unreadable(0x1010)));
            assert_eq!(walk.next(), None);
        }
    }

    #[test]
    fn goes_on_to_an_outer_stack_at_any_address_but_never_back() {
        let mut inner = Stack::new(0x9000, 16);
        let mut outer = Stack::new(0x1000, 64);
        inner.record(0x9010, 0x9020, 0xa0);
        inner.record(0x9020, 0x1010, 0xb0);
        outer.record(0x1010, 0x1040, 0xc0);
        outer.record(0x1040, 0, 0xd0);
        assert_eq!(walk(0x9010, &[&inner, &outer]), (vec![0xa0, 0xb0, 0xc0, 0xd0], End::Outermost));
        assert_eq!(walk(0x1010, &[&inner, &outer]), (vec![0xc0, 0xd0], End::Outermost));
        outer.record(0x1040, 0x9040, 0xd0);
        assert_eq!(walk(0x9010, &[&inner, &outer]).1, End::OutOfRange(0x9040));
    }

    #[test]
    fn yields_no_more_than_the_limit() {
        for frames in [MAX_DEPTH as u64, MAX_DEPTH as u64 + 1] {
            let mut stack = Stack::new(0x1000, 128);
            for i in 0..frames {
                let fp = 0x1000 + 16 * i;
                stack.record(fp, if i + 1 == frames { 0 } else { fp + 16 }, 0xa0 + i);
            }
            let (found, end) = walk(0x1000, &[&stack]);
            assert_eq!(found.len(), MAX_DEPTH);
            assert_eq!(end, if frames as usize == MAX_DEPTH { End::Outermost } else { End::TooDeep });
        }
    }

    #[test]
    fn any_start_over_any_memory_ends_within_the_stack() {
        let mut stack = Stack::new(0x1000, 64);
        let mut seed = 1_u64;
        for _ in 0..2000 {
            for word in &mut stack.words {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                *word = 0x1000 + (seed >> 55);
            }
            let (found, _) = walk(0x1000 + (seed >> 56), &[&stack]);
            assert!(found.len() <= MAX_DEPTH);
        }
    }

    /// A table at base 0x8000 with `first` at 0x8000..0x8010 and `second` at 0x8010..0x8020.
    fn symbol_bytes() -> Vec<u8> {
        let mut bytes = Vec::from(crate::symbols::MAGIC);
        bytes.extend(0x8000_u64.to_le_bytes());
        for word in [2_u32, 11, 0, 0x10, 0, 5, 0x10, 0x10, 5, 6] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(b"firstsecond");
        bytes
    }

    #[test]
    fn prints_the_exact_pc_and_calls_with_names() {
        let bytes = symbol_bytes();
        let mut stack = Stack::new(0x1000, 16);
        // The first return address is the byte after a call that ends `first`.
        stack.record(0x1010, 0x1020, 0x8010);
        stack.record(0x1020, 0, 0x4000);
        let ranges = [stack.range()];
        let mut text = String::new();
        let walk = Walk::new(0x1010, &ranges, |addr| stack.read(addr));
        write(&mut text, SymbolTable::parse(&bytes), Some(0x8010), walk).unwrap();
        assert_eq!(text, "  #0 0000000000008010 second+0x0\n  #1 0000000000008010 first+0x10\n  #2 0000000000004000\n");
    }

    #[test]
    fn says_why_a_chain_broke_off() {
        let mut text = String::new();
        write(&mut text, None, None, Walk::new(0x30, &[], |_| None)).unwrap();
        assert_eq!(text, "  (backtrace ends: frame pointer 0x30 is on no known stack)\n");
    }
}
