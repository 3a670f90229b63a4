//! What a run allocates once it is warm: a box for each task of the boxed server, and nothing else.

#[allow(dead_code, reason = "only a part of it is needed here")]
mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::rc::Rc;

use common::{subjects, watched};
use zero_cost::CONNECTIONS;
use zero_cost_sockets::{BARE, Clients, Door};

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
fn only_the_boxed_server_allocates_and_once_for_each_task() {
    watched(|| {
        for (name, world) in subjects() {
            for load in BARE {
                let door = Door::open(usize::MAX).unwrap();
                let mut clients = Clients::new(Rc::clone(&door), load.live);
                let mut allocations = 0;
                world(0, &door, &mut |serve| {
                    clients.visit(CONNECTIONS, serve);
                    let before = ALLOCATIONS.get();
                    clients.visit(CONNECTIONS, serve);
                    allocations = ALLOCATIONS.get() - before;
                });
                let wanted = if name == "async+box" { CONNECTIONS + 1 } else { 0 };
                assert_eq!(allocations, wanted, "{name}, {load:?}");
            }
        }
    });
}
