//! The vmalloc benchmarks, as Linux's lib/test_vmalloc.c has them.
//!
//! Each loop ends in a purge that is measured too, so that no lazily freed area's cost is left out.

use super::meter::Meter;
use super::{BenchError, Env};
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::ptr;
use mm::addr::{Frame, PAGE_SIZE, VirtAddr};
use mm::area::VmFlags;
use mm::frame::OutOfMemory;
use pkeys::Policy;

/// Pages that one loop allocates in all; fewer loops for larger areas.
const PAGES_A_RUN: u64 = 1 << 16;
/// Most operations of one loop.
const MOST_OPS: u64 = 1 << 13;
/// Pages of fix_align's areas.
pub const ALIGNED_PAGES: u32 = 5;
/// Pages of the larger area that long_busy_list makes in each round.
pub const BUSY_PAGES: u32 = 100;
/// Live single-page areas of long_busy_list, where memory has room.
const BUSY_AREAS: u64 = 15_000;
/// Live single-page areas of full_fit, with as many holes between: 32 MiB of each, where memory has room.
const FIT_AREAS: u64 = 8192;

fn ops(pages: u32) -> u64 {
    (PAGES_A_RUN / u64::from(pages)).min(MOST_OPS)
}

/// vmalloc of `pages` pages, one byte written, vfree.
pub fn fix_size<P: Policy>(env: &Env<'_>, pages: u32, huge: bool, meter: &mut Meter) -> Result<(), BenchError> {
    let flags = VmFlags { huge, ..VmFlags::default() };
    rounds::<P>(env, ops(pages), meter, |_| round::<P>(env, u64::from(pages), flags))
}

/// The same with five pages at an alignment of 2 to 256 pages, one after the other (Linux: at that of a kernel stack).
pub fn fix_align<P: Policy>(env: &Env<'_>, meter: &mut Meter) -> Result<(), BenchError> {
    rounds::<P>(env, MOST_OPS, meter, |i| {
        let flags = VmFlags { align: PAGE_SIZE << (1 + i % 8), ..VmFlags::default() };
        round::<P>(env, u64::from(ALIGNED_PAGES), flags)
    })
}

/// The same with 1 to 100 pages, at random from a fixed seed.
pub fn random_size<P: Policy>(env: &Env<'_>, meter: &mut Meter) -> Result<(), BenchError> {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    rounds::<P>(env, PAGES_A_RUN / 50, meter, |_| round::<P>(env, random.up_to(100), VmFlags::default()))
}

/// One page, among many live areas with holes of one page between them.
pub fn full_fit<P: Policy>(env: &Env<'_>, meter: &mut Meter) -> Result<(), BenchError> {
    let live = Live::<P>::new(env, room(env, FIT_AREAS, 2), true)?;
    let result = rounds::<P>(env, MOST_OPS, meter, |_| round::<P>(env, 1, VmFlags::default()));
    drop(live);
    result
}

/// 100 pages and one page, among many live areas.
pub fn long_busy_list<P: Policy>(env: &Env<'_>, meter: &mut Meter) -> Result<(), BenchError> {
    let live = Live::<P>::new(env, room(env, BUSY_AREAS, 1), false)?;
    let result = rounds::<P>(env, ops(BUSY_PAGES), meter, |_| {
        let large = env.areas.vmalloc::<P>(u64::from(BUSY_PAGES), VmFlags::default())?;
        let small = env.areas.vmalloc::<P>(1, VmFlags::default())?;
        write_byte(large);
        write_byte(small);
        env.areas.vfree::<P>(large)?;
        Ok(env.areas.vfree::<P>(small)?)
    });
    drop(live);
    result
}

/// vm_map_ram of pages that exist, one byte written, vm_unmap_ram.
pub fn vm_map_ram<P: Policy>(env: &Env<'_>, pages: u32, meter: &mut Meter) -> Result<(), BenchError> {
    let mut frames: Vec<Frame> = Vec::new();
    frames.try_reserve(pages as usize).map_err(|_| OutOfMemory { order: 0 })?;
    let mut result = Ok(());
    for _ in 0..pages {
        match env.memory.frames.alloc() {
            Ok(frame) => frames.push(frame),
            Err(error) => result = Err(error.into()),
        }
    }
    if result.is_ok() {
        result = rounds::<P>(env, ops(pages), meter, |_| {
            let area = env.areas.vm_map_ram::<P>(&frames)?;
            write_byte(area);
            Ok(env.areas.vm_unmap_ram::<P>(area, u64::from(pages))?)
        });
    }
    env.areas.purge::<P>();
    frames.into_iter().for_each(|frame| env.memory.frames.release(frame, 1));
    result
}

/// Runs `round` `count` times from a purged state and purges, all measured as `count` operations.
#[inline(always)]
fn rounds<P: Policy>(
    env: &Env<'_>,
    count: u64,
    meter: &mut Meter,
    mut round: impl FnMut(u64) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    env.areas.purge::<P>();
    // Else what the run before has left in this CPU's front decides how the first blocks are split.
    env.memory.frames.drain();
    meter.measure(count, || {
        for i in 0..count {
            round(i)?;
        }
        env.areas.purge::<P>();
        Ok(())
    })
}

#[inline(always)]
fn round<P: Policy>(env: &Env<'_>, pages: u64, flags: VmFlags) -> Result<(), BenchError> {
    let area = env.areas.vmalloc::<P>(pages, flags)?;
    write_byte(area);
    Ok(env.areas.vfree::<P>(area)?)
}

/// Writes the area's first byte, so that its translation is used.
#[inline(always)]
fn write_byte(area: VirtAddr) {
    // SAFETY: the address begins an area that was just mapped, readable and writable, and that only this benchmark knows.
    unsafe { ptr::write_volatile(area.as_mut_ptr::<u8>(), 1) };
}

/// How many areas of `pages` pages may live without taking more than a quarter of what is free; at most `wanted`.
fn room(env: &Env<'_>, wanted: u64, pages: u64) -> u64 {
    wanted.min(env.memory.frames.stats().free() / 4 / pages)
}

/// Single-page areas that live until this is dropped.
struct Live<'a, P: Policy> {
    env: &'a Env<'a>,
    areas: Vec<VirtAddr>,
    policy: PhantomData<P>,
}

impl<'a, P: Policy> Live<'a, P> {
    /// `count` areas; with `holes` as many others between them, which are free again.
    fn new(env: &'a Env<'a>, count: u64, holes: bool) -> Result<Self, BenchError> {
        let mut live = Live { env, areas: Vec::new(), policy: PhantomData };
        let mut between = Live { env, areas: Vec::new(), policy: PhantomData::<P> };
        for list in [&mut live.areas, &mut between.areas] {
            list.try_reserve(count as usize).map_err(|_| OutOfMemory { order: 0 })?;
        }
        for _ in 0..count {
            live.areas.push(env.areas.vmalloc::<P>(1, VmFlags::default())?);
            if holes {
                between.areas.push(env.areas.vmalloc::<P>(1, VmFlags::default())?);
            }
        }
        Ok(live)
    }
}

impl<P: Policy> Drop for Live<'_, P> {
    fn drop(&mut self) {
        for area in self.areas.drain(..) {
            // Freed once each, so no error can come.
            let _ = self.env.areas.vfree::<P>(area);
        }
        self.env.areas.purge::<P>();
    }
}

/// Marsaglia's xorshift64: the same sequence in every run.
struct Random(u64);

impl Random {
    /// From 1 to `limit`.
    fn up_to(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        1 + self.0 % limit
    }
}
