//! Where the contents and the metadata of frames are reached.
//!
//! In the kernel both are constants: the linear map holds all of RAM at [`LINEAR_BASE`] + physical address, and the
//! metadata is an array at [`VMEMMAP_BASE`] indexed by frame number. On the host a [`host::Arena`] stands in for
//! physical memory, one per test thread.

use crate::addr::PhysAddr;
use crate::frame::FrameMeta;

/// Where the linear map begins: physical address 0 (docs/architecture.md).
pub const LINEAR_BASE: u64 = 0xffff_0000_0000_0000;
/// Where the metadata array begins: that of frame 0 (docs/architecture.md).
pub const VMEMMAP_BASE: u64 = 0xffff_e000_0000_0000;

/// Pointer to the byte at `pa` in the linear map. Making it is safe; whether it may be used is the caller's to prove.
#[cfg(target_os = "none")]
#[inline(always)]
pub const fn ptr(pa: PhysAddr) -> *mut u8 {
    core::ptr::with_exposed_provenance_mut((LINEAR_BASE + pa.get()) as usize)
}

/// Pointer to the metadata of frame 0, of which that of frame `n` is the `n`th element.
#[cfg(target_os = "none")]
#[inline(always)]
pub const fn meta_base() -> *mut FrameMeta {
    core::ptr::with_exposed_provenance_mut(VMEMMAP_BASE as usize)
}

#[cfg(not(target_os = "none"))]
pub use host::{meta_base, ptr};

/// Simulated physical memory for tests on the host.
#[cfg(not(target_os = "none"))]
pub mod host {
    use core::cell::Cell;
    use core::marker::PhantomData;
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::thread_local;

    use super::{FrameMeta, PhysAddr};
    use crate::addr::{Frame, FrameRange, PAGE_SIZE};

    /// Alignment of the arena in host memory, so that block alignments agree in both address spaces.
    const ALIGN: usize = 2 << 20;
    /// Metadata is allocated for whole blocks of the buddy's largest order (4 MiB), as the kernel maps it.
    const META_BLOCK: usize = 1024;

    #[derive(Clone, Copy)]
    struct Bases {
        memory: *mut u8,
        bytes: u64,
        meta: *mut FrameMeta,
    }

    const NOTHING: Bases = Bases { memory: core::ptr::null_mut(), bytes: 0, meta: core::ptr::null_mut() };

    thread_local! {
        static CURRENT: Cell<Bases> = const { Cell::new(NOTHING) };
        static CPU: Cell<usize> = const { Cell::new(0) };
    }

    /// Pointer to the simulated byte at `pa`.
    ///
    /// # Panics
    /// Where `pa` lies outside the arena of this thread.
    pub fn ptr(pa: PhysAddr) -> *mut u8 {
        let now = CURRENT.get();
        assert!(pa.get() < now.bytes, "{pa} is outside the arena's {} bytes", now.bytes);
        now.memory.wrapping_add(pa.get() as usize)
    }

    /// Pointer to the metadata of frame 0 of the arena of this thread.
    ///
    /// # Panics
    /// Where this thread has no arena.
    pub fn meta_base() -> *mut FrameMeta {
        let now = CURRENT.get();
        assert!(!now.meta.is_null(), "no arena on this thread");
        now.meta
    }

    /// Index of the CPU that this thread plays: 0, or what [`Arena::share`] was told.
    pub fn cpu() -> usize {
        CPU.get()
    }

    /// Physical memory `[0, frames * 4 KiB)` with metadata, all zero, 2 MiB-aligned in host memory.
    ///
    /// It is what [`ptr`] and [`meta_base`] reach on the thread that made it, until it is dropped. Untouched memory
    /// costs nothing (the host's kernel maps it when written), so an arena may be large. The metadata is never given
    /// back, which is what makes `Frame::meta`'s `'static` true on the host too.
    #[derive(Debug)]
    pub struct Arena {
        /// What the host's allocator handed out; `memory` lies within.
        raw: *mut u8,
        layout: Layout,
        memory: *mut u8,
        meta: *mut FrameMeta,
        frames: u64,
    }

    impl Arena {
        /// An arena of `frames` frames, made this thread's own.
        ///
        /// # Panics
        /// Where the thread has an arena already, `frames` is zero, or the host has no memory.
        pub fn new(frames: u64) -> Self {
            assert!(frames > 0 && CURRENT.get().meta.is_null(), "one arena per thread, and not an empty one");
            let bytes = (frames * PAGE_SIZE) as usize;
            // An alignment above the allocator's natural one would make it write every byte to zero it.
            let layout = Layout::from_size_align(bytes + ALIGN, 16).expect("arena too large");
            let metas = (frames as usize).next_multiple_of(META_BLOCK);
            let meta_layout = Layout::array::<FrameMeta>(metas).expect("arena too large");
            // SAFETY: both layouts have a size above zero.
            let (raw, meta) = unsafe { (alloc_zeroed(layout), alloc_zeroed(meta_layout)) };
            assert!(!raw.is_null() && !meta.is_null(), "host out of memory");
            let memory = raw.wrapping_add(raw.align_offset(ALIGN));
            let arena = Self { raw, layout, memory, meta: meta.cast(), frames };
            CURRENT.set(arena.bases());
            arena
        }

        fn bases(&self) -> Bases {
            Bases { memory: self.memory, bytes: self.frames * PAGE_SIZE, meta: self.meta }
        }

        /// All frames of the arena.
        pub fn range(&self) -> FrameRange {
            FrameRange::new(Frame::from_number(0), self.frames).expect("an arena is smaller than physical memory")
        }

        /// Makes this arena the calling thread's too, until the guard is dropped, and the thread play CPU `cpu`: for
        /// tests with several threads. Two threads of one arena must not play one CPU.
        ///
        /// # Panics
        /// Where the thread has an arena already.
        pub fn share(&self, cpu: usize) -> Shared<'_> {
            assert!(CURRENT.get().meta.is_null(), "one arena per thread");
            CURRENT.set(self.bases());
            CPU.set(cpu);
            Shared { _arena: PhantomData }
        }
    }

    // SAFETY: an `Arena` reference gives out addresses only; what is done with them is the user's to synchronise.
    unsafe impl Sync for Arena {}

    impl Drop for Arena {
        fn drop(&mut self) {
            CURRENT.set(NOTHING);
            // SAFETY: `raw` came from `alloc_zeroed` with this very layout and is freed once, here.
            unsafe { dealloc(self.raw, self.layout) };
        }
    }

    /// An arena made another thread's own; dropping it ends that.
    #[derive(Debug)]
    pub struct Shared<'a> {
        /// A raw pointer, so that the guard stays on its thread.
        _arena: PhantomData<(&'a Arena, *mut u8)>,
    }

    impl Drop for Shared<'_> {
        fn drop(&mut self) {
            CPU.set(0);
            CURRENT.set(NOTHING);
        }
    }
}
