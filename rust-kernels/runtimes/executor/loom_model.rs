//! crossbeam's injector, as loom knows it: a queue under a lock here; but whether
//! it is empty is seen without the lock, and perhaps late: a lock would order what is left to the executor's fences.

use std::collections::VecDeque;

use sync::atomic::Ordering;
use sync::{Arc, Mutex, loom};

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

pub type Batch<T> = Injector<T>;

impl<T> Injector<T> {
    pub fn new() -> Self {
        let (items, length) = (Mutex::new(VecDeque::new()), loom::sync::atomic::AtomicUsize::new(0));
        Self(Arc::new(Queue { items, length }))
    }

    pub fn new_fifo() -> Self {
        Self::new()
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
        self.len() == 0
    }

    pub fn len(&self) -> usize {
        self.0.length.load(Ordering::Relaxed)
    }

    pub fn steal(&self) -> Steal<T> {
        self.pop().map_or(Steal::Empty, Steal::Success)
    }

    pub fn steal_batch_with_limit(&self, into: &Self, _: usize) -> Steal<()> {
        self.pop().map_or(Steal::Empty, |item| Steal::Success(into.push(item)))
    }

    pub fn steal_batch_with_limit_and_pop(&self, _: &Self, _: usize) -> Steal<T> {
        self.steal()
    }
}
