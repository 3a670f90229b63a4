//! Memory follows what is alive, not what once was.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::yield_now;
use runtimes_executor::{Runtime, Settings, sleep, spawn_blocking};

/// The system's allocator, and how many bytes it has given.
struct Counting;

static BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: it does what the system's allocator does.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const MANY: usize = 300_000;
/// A byte for each would be more.
const LITTLE: usize = 250_000;

/// Tasks that sleep, tasks that wait in a queue, and calls that do.
#[test]
fn of_a_burst_nothing_is_kept_while_the_runtime_lives() {
    let runtime = Runtime::new(Settings::new(2));
    let burst = |number: usize| {
        runtime.block_on(async {
            let tasks: Vec<_> =
                (0..number).map(|_| runtime.spawn(sleep(Duration::from_millis(50)))).collect();
            for task in tasks {
                task.await.unwrap();
            }
            let tasks: Vec<_> = (0..number).map(|_| runtimes_executor::spawn(yield_now())).collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
        // All threads for calls are busy until the burst is there.
        let barrier: &Barrier = Box::leak(Box::new(Barrier::new(512)));
        runtime.block_on(async {
            let waits: Vec<_> = (0..511).map(|_| spawn_blocking(|| _ = barrier.wait())).collect();
            let calls: Vec<_> = (0..number).map(|_| spawn_blocking(|| ())).collect();
            barrier.wait();
            for call in waits.into_iter().chain(calls) {
                call.await.unwrap();
            }
        });
    };
    burst(10);
    let before = BYTES.load(Ordering::Relaxed);
    burst(MANY);
    // Blocks of queues are freed some rounds later, and the later the busier the machine is.
    let kept = || BYTES.load(Ordering::Relaxed).saturating_sub(before);
    for _ in 0..20 {
        burst(10);
        if kept() < LITTLE {
            return;
        }
    }
    panic!("{} bytes are kept", kept());
}
