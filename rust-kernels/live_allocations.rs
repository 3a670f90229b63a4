//! For tests: whether something is kept after its last use. A module of a test that has no other allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};
use std::time::Duration;

/// Allocations that were not freed, and their bytes.
static LIVE: [AtomicIsize; 2] = [const { AtomicIsize::new(0) }; 2];

fn note(allocations: isize, bytes: usize) {
    LIVE[0].fetch_add(allocations, Ordering::Relaxed);
    LIVE[1].fetch_add(allocations * bytes.cast_signed(), Ordering::Relaxed);
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every request is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(1, layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note(-1, layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Bytes that queues keep for later, a block or two each.
const SPARE: isize = 8 << 10;

/// Panics if a thousand rounds leave something behind: an allocation each or every second, or 16 bytes each in a
/// place that grows.
pub fn assert_nothing_is_kept(name: &str, mut round: impl FnMut()) {
    const ROUNDS: isize = if cfg!(debug_assertions) { 400 } else { 1000 };
    const KEPT: [isize; 2] = [ROUNDS / 2, ROUNDS * 16 + SPARE];
    let live = || [0, 1].map(|what: usize| LIVE[what].load(Ordering::SeqCst));
    (0..50).for_each(|_| round());
    let before = live();
    (0..ROUNDS).for_each(|_| round());
    let more = || {
        let now = live();
        [0, 1].map(|what: usize| now[what] - before[what])
    };
    // What ends on another thread may be on its way.
    for _ in 0..1000 {
        if more().iter().zip(KEPT).all(|(more, kept)| *more < kept) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{name}: {:?} allocations and bytes are kept after {ROUNDS} rounds", more());
}
