//! The kernel heap: a buddy system over folios that it takes from the machine's frames as it needs them, and keeps.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr;
use mm::addr::{Frame, PAGE_SIZE};
use mm::frame::{BLOCK_ORDER, Frames, MAX_ORDER};
use mm::linear;
use platform::arch::{Arch, Arm};
use spin::Mutex;

use buddy_system_allocator::Heap;

/// All frames of RAM.
pub static FRAMES: Frames = Frames::new();

/// Orders of the heap's own buddies, powers of two of bytes: up to one frame block of the largest order, 4 MiB.
const HEAP_ORDERS: usize = 23;

const _: () = assert!(1 << (HEAP_ORDERS - 1) >= PAGE_SIZE << MAX_ORDER);

struct KernelHeap(Mutex<Heap<HEAP_ORDERS>>);

#[global_allocator]
static HEAP: KernelHeap = KernelHeap(Mutex::new(Heap::new()));

// SAFETY: `Heap` hands out disjoint blocks of at least a layout's size and alignment, from memory that was given to it
// for ever; the lock, with interrupts masked, makes it one user's at a time. Null says that there is no memory.
unsafe impl GlobalAlloc for KernelHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.with(|heap| {
            let first = heap.alloc(layout).ok();
            let block = first.or_else(|| grow(heap, layout).and_then(|()| heap.alloc(layout).ok()));
            block.map_or(ptr::null_mut(), |block| block.as_ptr())
        })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if let Some(block) = ptr::NonNull::new(block) {
            // SAFETY: the caller promises that `block` came from `alloc` with this layout.
            self.with(|heap| unsafe { heap.dealloc(block, layout) });
        }
    }
}

impl KernelHeap {
    fn with<R>(&self, work: impl FnOnce(&mut Heap<HEAP_ORDERS>) -> R) -> R {
        let daif = Arm::irq_save();
        let result = work(&mut self.0.lock());
        Arm::irq_restore(daif);
        result
    }
}

/// Gives `heap` a folio that `layout` fits: 2 MiB where there is one, else the smallest that does. `None` where there
/// is none, or where `layout` asks for more than 4 MiB.
fn grow(heap: &mut Heap<HEAP_ORDERS>, layout: Layout) -> Option<()> {
    let bytes = layout.size().max(layout.align()).checked_next_power_of_two()?;
    let least = bytes.div_ceil(PAGE_SIZE as usize).next_power_of_two().trailing_zeros();
    if least > MAX_ORDER {
        return None;
    }
    let (frame, order) = [least.max(BLOCK_ORDER), least]
        .into_iter()
        .find_map(|order| FRAMES.alloc_folio(order).ok().map(|frame: Frame| (frame, order)))?;
    let start = linear::ptr(frame.start()).addr();
    // SAFETY: the folio is this heap's alone from now on, and the linear map holds it writable for ever.
    unsafe { heap.add_to_heap(start, start + ((PAGE_SIZE as usize) << order)) };
    Some(())
}
