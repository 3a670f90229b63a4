//! What a run allocates once it is warm: a box for each task, or nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use zero_cost::{Style, TASKS, variants};

thread_local! {
    /// Allocations on this thread.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, which counts.
struct Counting;

// SAFETY: all memory comes from the system's allocator, and counting neither allocates nor panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn only_boxed_variants_allocate_and_once_for_each_task() {
    for variant in variants() {
        for &load in variant.loads {
            let mut allocations = None;
            (variant.timed)(load, &mut |_, run| {
                run();
                let before = ALLOCATIONS.get();
                run();
                allocations = Some(ALLOCATIONS.get() - before);
            });
            let wanted = if variant.style == Style::Boxed { TASKS } else { 0 };
            assert_eq!(allocations, Some(wanted), "{}", variant.key(load));
        }
    }
}
