//! An allocator that counts, and what it has counted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An allocator which also counts while an iteration is counted.
///
/// A reallocation counts as one allocation of its new size; freeing is not counted.
pub struct Counting<A>(pub A);

/// The system's allocator, which also counts: not a [`Counting`], whose code each program would compile anew.
pub struct CountingAllocator;

/// True while an iteration is counted.
static COUNTING: AtomicBool = AtomicBool::new(false);
/// Allocations since the beginning of the counted iteration.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
/// Bytes asked for by these allocations.
static BYTES: AtomicU64 = AtomicU64::new(0);
/// Allocations and bytes of what surrounds the counted iteration.
static SURROUNDING: Mutex<[u64; 2]> = Mutex::new([0; 2]);
/// Allocations and bytes of each iteration that was counted to its end, and is more than what surrounds it.
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

fn note(bytes: usize) {
    // Relaxed is enough: the counts are read after the workload has returned, on the thread that called it.
    if COUNTING.load(Ordering::Relaxed) && !OURS.get() {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// What an allocator that counts does, with the one `$within` it. Not inlined: the compiler would see `malloc` and `free` at each place
/// that allocates, and remove pairs of them that stay in a program with the standard allocator.
macro_rules! counts {
    ($self:ident, $within:expr) => {
        #[inline(never)]
        unsafe fn alloc(&$self, layout: Layout) -> *mut u8 {
            note(layout.size());
            // SAFETY: the caller promises a layout of non-zero size, which is what the allocator within asks for.
            unsafe { $within.alloc(layout) }
        }

        #[inline(never)]
        unsafe fn alloc_zeroed(&$self, layout: Layout) -> *mut u8 {
            note(layout.size());
            // SAFETY: as for `alloc`.
            unsafe { $within.alloc_zeroed(layout) }
        }

        #[inline(never)]
        unsafe fn realloc(&$self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
            note(new_size);
            // SAFETY: the caller promises that `pointer` came from this allocator with this layout, hence from the one within,
            // and that `new_size` is valid.
            unsafe { $within.realloc(pointer, layout, new_size) }
        }

        #[inline(never)]
        unsafe fn dealloc(&$self, pointer: *mut u8, layout: Layout) {
            // SAFETY: the caller promises that `pointer` came from this allocator with this layout, hence from the one within.
            unsafe { $within.dealloc(pointer, layout) }
        }
    };
}

// SAFETY: every request is passed on unchanged to the allocator within, which keeps the promises of one; noting a request touches
// atomics and a thread-local variable that is made at compile time and has no destructor, so it neither allocates nor unwinds.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    counts!(self, self.0);
}

// SAFETY: as for `Counting`, of the system's allocator.
unsafe impl GlobalAlloc for CountingAllocator {
    counts!(self, System);
}

/// Whether this program uses [`CountingAllocator`] or [`Counting`]: without it, everything would seem to allocate nothing.
pub fn is_used() -> bool {
    around(&mut || drop(black_box(Box::new(1_u8))));
    ALLOCATIONS.load(Ordering::Relaxed) > 0
}

/// Runs one iteration with the allocator counting from zero.
pub fn around(run: &mut dyn FnMut()) {
    let surrounding = std::mem::take(&mut *locked(&SURROUNDING));
    let [allocations, bytes] = counts_of(run);
    let counts = allocations.checked_sub(surrounding[0]).zip(bytes.checked_sub(surrounding[1]));
    locked(&COUNTED).extend(counts.map(|(allocations, bytes)| [allocations, bytes]));
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

/// Allocations and bytes of each iteration since the last call; not of those that allocate less than what surrounds them alone.
pub fn take_counted() -> Vec<[u64; 2]> {
    std::mem::take(&mut *locked(&COUNTED))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes what reaches it.
    struct Noting(Mutex<Vec<String>>);

    impl Noting {
        fn note(&self, what: &str, bytes: usize) {
            locked(&self.0).push(format!("{what} {bytes}"));
        }
    }

    // SAFETY: every request is passed on unchanged to `System`.
    unsafe impl GlobalAlloc for Noting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            self.note("alloc", layout.size());
            // SAFETY: as the caller promises.
            unsafe { System.alloc(layout) }
        }

        unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
            self.note("alloc_zeroed", layout.size());
            // SAFETY: as the caller promises.
            unsafe { System.alloc_zeroed(layout) }
        }

        unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
            self.note("realloc", new_size);
            // SAFETY: as the caller promises.
            unsafe { System.realloc(pointer, layout, new_size) }
        }

        unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
            self.note("dealloc", layout.size());
            // SAFETY: as the caller promises.
            unsafe { System.dealloc(pointer, layout) }
        }
    }

    #[test]
    fn what_another_allocator_gives_is_counted_on_all_threads_and_given_back_to_it() {
        let counting = Counting(Noting(Mutex::new(Vec::new())));
        let layout = |bytes| Layout::from_size_align(bytes, 8).expect("sound");
        let all_kinds = || {
            // SAFETY: no layout is empty, and each block is freed once, with its layout.
            unsafe {
                let block = counting.alloc(layout(8));
                let block = counting.realloc(block, layout(8), 24);
                counting.dealloc(block, layout(24));
                let zeros = counting.alloc_zeroed(layout(16));
                assert_eq!(zeros.read(), 0);
                counting.dealloc(zeros, layout(16));
            }
        };
        let counts = counts_of(&mut || {
            all_kinds();
            std::thread::scope(|scope| _ = scope.spawn(all_kinds));
            uncounted(all_kinds);
        });
        assert_eq!(counts, [2 * 3, 2 * (8 + 24 + 16)]);
        let one = ["alloc 8", "realloc 24", "dealloc 24", "alloc_zeroed 16", "dealloc 16"];
        assert_eq!(*locked(&counting.0.0), [one, one, one].concat());
    }
}
