//! What the executor's threads share, as loom knows it. crossbeam's deques are queues under a lock here; but whether
//! one is empty is seen without the lock, and perhaps late: a lock would order what is left to the executor's fences.

#[path = "../../loom_thread.rs"]
mod loom_thread;
#[path = "../../weakened.rs"]
mod weakened;

use std::collections::VecDeque;

use loom::cell::UnsafeCell;
pub use loom::sync::{Arc, Mutex};
pub use loom::thread::{JoinHandle, yield_now};

pub use self::loom_thread::{Thread, current, park, start};
pub use self::weakened::{AtomicBool, AtomicUsize, Ordering};

/// Time stands still: a test in every order has no timers.
pub fn park_timeout(_: std::time::Duration) {
    park();
}

/// loom's cell, whose end counts as an access.
pub struct Shared<T>(UnsafeCell<T>);

impl<T> Shared<T> {
    pub fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        self.0.with(read)
    }

    pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        self.0.with_mut(write)
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        self.0.with_mut(|_| ());
    }
}

#[allow(dead_code, reason = "queues under a lock never ask to try again")]
pub enum Steal<T> {
    Empty,
    Success(T),
    Retry,
}

pub struct Injector<T>(Arc<Queue<T>>);

struct Queue<T> {
    items: Mutex<VecDeque<T>>,
    /// loom's own: its orderings are not ours to weaken.
    length: loom::sync::atomic::AtomicUsize,
}

pub type Worker<T> = Injector<T>;
pub type Stealer<T> = Injector<T>;

impl<T> Injector<T> {
    pub fn new() -> Self {
        let (items, length) = (Mutex::new(VecDeque::new()), loom::sync::atomic::AtomicUsize::new(0));
        Self(Arc::new(Queue { items, length }))
    }

    pub fn new_fifo() -> Self {
        Self::new()
    }

    pub fn stealer(&self) -> Self {
        Self(Arc::clone(&self.0))
    }

    pub fn push(&self, item: T) {
        let mut items = self.0.items.lock().unwrap();
        items.push_back(item);
        self.0.length.store(items.len(), Ordering::Release);
    }

    pub fn pop(&self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let mut items = self.0.items.lock().unwrap();
        let first = items.pop_front();
        self.0.length.store(items.len(), Ordering::Release);
        first
    }

    pub fn is_empty(&self) -> bool {
        self.0.length.load(Ordering::Relaxed) == 0
    }

    pub fn steal(&self) -> Steal<T> {
        self.pop().map_or(Steal::Empty, Steal::Success)
    }

    pub fn steal_batch(&self, into: &Self) -> Steal<()> {
        self.pop().map_or(Steal::Empty, |item| Steal::Success(into.push(item)))
    }

    pub fn steal_batch_and_pop(&self, _: &Self) -> Steal<T> {
        self.steal()
    }
}
