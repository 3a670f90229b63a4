//! What each layer adds to a spawn in allocations, on executors whose own are always the same.
#![allow(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use futures::executor::LocalPool;
use spawn_apis::{
    Boxed, Code, Detached, Handled, Handles, Load, NativeAbort, Remote, TokioCt, TokioLocal, TokioOneThread,
    TokioTp, Witness, Work, with_handles, with_handles_locally, without_handles, without_handles_locally,
};

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

/// Allocations of one spawn of an empty task, rounded: queues grow a few times, which 1000 tasks share.
fn per_spawn(code: Code) -> usize {
    const TASKS: usize = 1000;
    let load = Load { work: Work::Loop(TASKS), handles: Handles::Dropped, workers: 1 };
    let mut allocations = 0;
    (code.world)(load, &mut |iterate| {
        iterate(&Witness::default());
        let before = ALLOCATIONS.get();
        iterate(&Witness::default());
        allocations = ALLOCATIONS.get() - before;
    });
    (allocations + TASKS / 2) / TASKS
}

#[test]
fn layers_allocate_what_they_are_made_of() {
    // tokio: its own task.
    let native = per_spawn(with_handles::<TokioOneThread, TokioTp>());
    let over_native = |code| per_spawn(code) - native;
    assert_eq!(over_native(without_handles::<TokioOneThread, Detached<_>>()), 1, "a box");
    assert_eq!(over_native(with_handles::<TokioOneThread, NativeAbort<_>>()), 0, "a flag in the handle");
    assert_eq!(over_native(with_handles::<TokioOneThread, Handled<_>>()), 1, "the state of Abortable");
    assert_eq!(over_native(with_handles::<TokioOneThread, Boxed<_>>()), 2, "that and a box");
    assert_eq!(over_native(with_handles::<TokioOneThread, Remote<_>>()), 3, "a channel, a flag and a box");
}

#[test]
fn local_layers_allocate_what_they_are_made_of() {
    let native = per_spawn(with_handles_locally::<TokioLocal, TokioCt>());
    let over_native = |code| per_spawn(code) - native;
    assert_eq!(over_native(without_handles_locally::<TokioLocal, Detached<_>>()), 1, "a box");
    assert_eq!(over_native(with_handles_locally::<TokioLocal, NativeAbort<_>>()), 0, "a flag in the handle");
    assert_eq!(
        over_native(with_handles_locally::<TokioLocal, Handled<_>>()),
        3,
        "a channel, a flag and a box"
    );
    assert_eq!(over_native(with_handles_locally::<TokioLocal, Boxed<_>>()), 4, "that and a box");
    let pool = per_spawn(without_handles_locally::<LocalPool, Detached<_>>());
    assert_eq!(per_spawn(with_handles_locally::<LocalPool, Handled<_>>()) - pool, 2, "a channel and a flag");
    assert_eq!(per_spawn(with_handles_locally::<LocalPool, Boxed<_>>()) - pool, 3, "that and a box");
}
