//! Exact counts of one iteration: allocations and instructions. Native programs only.

use std::alloc::{GlobalAlloc, Layout, System};

use crate::Study;

/// Counts what one iteration allocates.
pub struct CountingAllocator;

// SAFETY: passes on to the system allocator.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Counts every variant of a study.
pub fn main(_study: Study) {
    unimplemented!()
}
