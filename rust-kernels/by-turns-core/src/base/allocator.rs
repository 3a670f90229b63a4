//! An allocator that counts, and what it has counted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The system's allocator, which also counts while an iteration is counted.
///
/// A reallocation counts as one allocation of its new size; freeing is not counted.
pub struct CountingAllocator;

/// True while an iteration is counted.
static COUNTING: AtomicBool = AtomicBool::new(false);
/// Allocations since the beginning of the counted iteration.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
/// Bytes asked for by these allocations.
static BYTES: AtomicU64 = AtomicU64::new(0);
/// Allocations and bytes of what surrounds the counted iteration.
static SURROUNDING: Mutex<[u64; 2]> = Mutex::new([0; 2]);
/// Allocations and bytes of each iteration that was counted to its end.
static COUNTED: Mutex<Vec<[u64; 2]>> = Mutex::new(Vec::new());

thread_local! {
    /// True while this thread allocates for this crate, within an iteration. Made at compile time, so that it can be
    /// read by an allocator.
    static OURS: Cell<bool> = const { Cell::new(false) };
}

/// Does something for this crate whose allocations are not the variant's.
pub fn uncounted<T>(work: impl FnOnce() -> T) -> T {
    let before = OURS.replace(true);
    let result = work();
    OURS.set(before);
    result
}

impl CountingAllocator {
    fn note(bytes: usize) {
        // Relaxed is enough: the counts are read after the workload has returned, on the thread that called
        // it.
        if COUNTING.load(Ordering::Relaxed) && !OURS.get() {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
            BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }
}

// SAFETY: every request is passed on unchanged to `System`, which keeps the promises of an allocator; noting
// a request touches atomics only, so it neither allocates nor unwinds.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::note(layout.size());
        // SAFETY: the caller promises a layout of non-zero size, which is what `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Self::note(layout.size());
        // SAFETY: as for `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        Self::note(new_size);
        // SAFETY: the caller promises that `pointer` came from this allocator with this layout, hence from
        // `System`, and that `new_size` is valid.
        unsafe { System.realloc(pointer, layout, new_size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller promises that `pointer` came from this allocator with this layout, hence from
        // `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Whether this program uses [`CountingAllocator`]: without it, everything would seem to allocate nothing.
pub fn is_used() -> bool {
    around(&mut || drop(black_box(Box::new(1_u8))));
    ALLOCATIONS.load(Ordering::Relaxed) > 0
}

/// Runs one iteration with the allocator counting from zero.
pub fn around(run: &mut dyn FnMut()) {
    let surrounding = std::mem::take(&mut *locked(&SURROUNDING));
    let [allocations, bytes] = counts_of(run);
    let counts = [allocations.saturating_sub(surrounding[0]), bytes.saturating_sub(surrounding[1])];
    locked(&COUNTED).push(counts);
}

/// Runs what surrounds the next iteration, whose counts are without what this allocates.
pub fn around_nothing(run: &mut dyn FnMut()) {
    *locked(&SURROUNDING) = counts_of(run);
}

fn counts_of(run: &mut dyn FnMut()) -> [u64; 2] {
    /// Stops counting even if the iteration panics.
    struct Stop;
    impl Drop for Stop {
        fn drop(&mut self) {
            COUNTING.store(false, Ordering::SeqCst);
        }
    }
    ALLOCATIONS.store(0, Ordering::SeqCst);
    BYTES.store(0, Ordering::SeqCst);
    let stop = Stop;
    COUNTING.store(true, Ordering::SeqCst);
    run();
    drop(stop);
    [&ALLOCATIONS, &BYTES].map(|count| count.load(Ordering::SeqCst))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Allocations and bytes of each iteration since the last call.
pub fn take_counted() -> Vec<[u64; 2]> {
    std::mem::take(&mut *locked(&COUNTED))
}
