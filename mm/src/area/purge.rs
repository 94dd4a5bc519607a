//! Unmapping what was freed: many areas in one section, with one TLBI.

use super::map::{BLOCK_PAGES, Leaves, after};
use super::slots::{Content, Given, SlotId};
use super::{Areas, page_range};
use crate::addr::{Frame, PageRange, VirtAddr};
use crate::desc::{CONTIGUOUS_PAGES, Descriptor};
use crate::table::Entry;
use crate::tlb::{self, Stale};
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use pkeys::section::ArchOf;
use pkeys::{KernelTables, Policy, Section, Token};

/// How far a purge has come: the area at hand, and how many of its pages are unmapped.
struct Cursor {
    area: Option<SlotId>,
    done: u64,
}

/// What one section took out of the tables, and what has to wait until no TLB knows it any more.
struct Removed<'a> {
    /// Frames and folio heads that nobody else refers to, already without a reference.
    chain: Option<Frame>,
    /// Numbers of the frames whose reference is still to be dropped. Its capacity is never exceeded.
    shared: &'a mut Vec<u32>,
    /// Slots that nothing stands in any more.
    slots: Given,
    /// Areas that were at least begun with, and the first of them.
    areas: u64,
    first: Option<PageRange>,
    pages: u64,
}

impl<'a> Removed<'a> {
    fn new(shared: &'a mut Vec<u32>) -> Self {
        Removed { chain: None, shared, slots: Given::new(), areas: 0, first: None, pages: 0 }
    }

    fn room(&self) -> usize {
        self.shared.capacity() - self.shared.len()
    }

    /// Takes the frame or folio head of a vmalloc'ed area; false where there is no room to remember it.
    ///
    /// If its one reference is the area's, then nobody can come by another, and its link is free to use. Otherwise the
    /// area's has to stay until the flush, lest another holder's turn out to be the last before it.
    #[inline(always)]
    fn take(&mut self, head: Frame) -> bool {
        if head.meta().put_if_last() {
            head.meta().set_link(self.chain);
            self.chain = Some(head);
            return true;
        }
        let room = self.room() > 0;
        if room {
            self.shared.push(head.number() as u32);
        }
        room
    }

    /// What TLBs may still hold. That of many areas is so scattered, over arenas of their own, that one TLBI of everything
    /// is cheaper.
    fn stale(&self) -> Stale {
        self.first.filter(|_| self.areas == 1).map_or(Stale::All, Stale::Kernel)
    }
}

impl Areas {
    /// Purges what was freed so far, one CPU at a time. Returns the pages that went, or `None` where another CPU was at
    /// it.
    #[cold]
    #[inline(never)]
    pub(super) fn try_purge<P: Policy>(&self) -> Option<u64> {
        self.shared.try_lock().map(|mut shared| self.purge_freed::<P>(&mut shared))
    }

    /// Purges what was freed so far, after waiting for another CPU that is at it. Returns the pages that went.
    pub(super) fn purge_waiting<P: Policy>(&self) -> u64 {
        self.purge_freed::<P>(&mut self.shared.lock())
    }

    fn purge_freed<P: Policy>(&self, shared: &mut Vec<u32>) -> u64 {
        let mut cursor = Cursor { area: self.slots.take_freed(), done: 0 };
        let mut pages = 0;
        while cursor.area.is_some() {
            let mut removed = Removed::new(shared);
            let section = Section::<P, KernelTables>::open();
            self.clear_areas(section.token(), &mut cursor, &mut removed);
            section.end(|| tlb::flush::<ArchOf<P>>(removed.stale()));
            pages += self.give_back(removed);
        }
        self.freed_pages.fetch_sub(pages, Ordering::Relaxed);
        pages
    }

    /// Frees what no TLB knows any more. Returns how many pages were unmapped.
    fn give_back(&self, removed: Removed<'_>) -> u64 {
        let frames = self.memory.frames;
        frames.free_chain(removed.chain);
        for number in removed.shared.drain(..) {
            frames.release(Frame::from_number(number.into()), 1);
        }
        self.slots.give_all(&removed.slots);
        removed.pages
    }

    /// Clears entries from the cursor on until the list ends or no room is left for frames.
    fn clear_areas<P: Policy>(
        &self,
        token: Token<'_, P, KernelTables>,
        cursor: &mut Cursor,
        removed: &mut Removed<'_>,
    ) {
        let mut leaves = Leaves::new(&self.memory.kernel);
        while let Some(id) = cursor.area {
            let record = self.slots.record(id);
            let content = record.content();
            let start = id.start(content);
            removed.areas += 1;
            if removed.areas == 1 {
                removed.first = Some(page_range(start, content.pages()));
            }
            while cursor.done < content.pages() {
                let at = after(start, cursor.done);
                let cleared = self.clear_some(token, at, content, content.pages() - cursor.done, &mut leaves, removed);
                if cleared == 0 {
                    return;
                }
                removed.pages += cleared;
                cursor.done += cleared;
            }
            *cursor = Cursor { area: record.next(), done: 0 };
            record.set_content(Content::NOTHING);
            removed.slots.push(id, record);
        }
    }

    /// Clears entries of one table, of at most `pages` pages from `at` on. Returns how many pages they mapped: none where no
    /// room is left.
    #[inline(always)]
    fn clear_some<P: Policy>(
        &self,
        token: Token<'_, P, KernelTables>,
        at: VirtAddr,
        content: Content,
        pages: u64,
        leaves: &mut Leaves,
        removed: &mut Removed<'_>,
    ) -> u64 {
        let Some(entries) = leaves.entries(at) else {
            let entry = leaves.block_entry(at);
            return if clear_head(token, core::slice::from_ref(entry), removed) { BLOCK_PAGES } else { 0 };
        };
        let entries = &entries[..entries.len().min(pages as usize)];
        let cleared =
            if content.is_ram() { clear_ram(token, entries, removed) } else { clear_owned(token, entries, removed) };
        cleared as u64
    }
}

/// Clears entries of frames that others own; as many as there is room for.
#[inline(always)]
fn clear_ram<P: Policy>(
    token: Token<'_, P, KernelTables>,
    entries: &[Entry<KernelTables>],
    removed: &mut Removed<'_>,
) -> usize {
    let count = entries.len().min(removed.room());
    removed.shared.extend(entries[..count].iter().map(|entry| {
        let number = entry.get().frame().number() as u32;
        entry.set(token, Descriptor::ABSENT);
        number
    }));
    count
}

/// Clears entries of frames that the area owns. Returns how many.
#[inline(always)]
fn clear_owned<P: Policy>(
    token: Token<'_, P, KernelTables>,
    entries: &[Entry<KernelTables>],
    removed: &mut Removed<'_>,
) -> usize {
    let mut done = 0;
    loop {
        done += clear_singles(token, &entries[done..], &mut removed.chain);
        let Some(entry) = entries.get(done) else { return done };
        let length = if entry.get().is_contiguous() { CONTIGUOUS_PAGES as usize } else { 1 };
        if !clear_head(token, &entries[done..done + length], removed) {
            return done;
        }
        done += length;
    }
}

/// Clears entries of single frames that nobody else refers to, up to the first other one. Returns how many.
#[inline(always)]
fn clear_singles<P: Policy>(
    token: Token<'_, P, KernelTables>,
    entries: &[Entry<KernelTables>],
    chain: &mut Option<Frame>,
) -> usize {
    let mut last = *chain;
    let mut done = 0;
    for entry in entries {
        let descriptor = entry.get();
        let frame = descriptor.frame();
        if descriptor.is_contiguous() || !frame.meta().put_if_last() {
            break;
        }
        entry.set(token, Descriptor::ABSENT);
        frame.meta().set_link(last);
        last = Some(frame);
        done += 1;
    }
    *chain = last;
    done
}

/// Clears the entries of one frame or folio, whose head the first one names; false where there is no room for it.
#[inline(always)]
fn clear_head<P: Policy>(
    token: Token<'_, P, KernelTables>,
    entries: &[Entry<KernelTables>],
    removed: &mut Removed<'_>,
) -> bool {
    let taken = entries.first().is_some_and(|entry| removed.take(entry.get().frame()));
    if taken {
        entries.iter().for_each(|entry| entry.set(token, Descriptor::ABSENT));
    }
    taken
}
