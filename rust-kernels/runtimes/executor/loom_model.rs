//! What the executor's threads share, as loom knows it. crossbeam's deques are queues under a lock here.

use std::collections::VecDeque;

pub use loom::cell::UnsafeCell as Shared;
pub use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
pub use loom::sync::{Arc, Mutex};
pub use loom::thread::{JoinHandle, yield_now};

/// A thread that can be woken. (loom's own `park` forgets an `unpark` that finds the thread waiting for a lock.)
#[derive(Clone)]
pub struct Thread(Arc<(Mutex<bool>, loom::sync::Condvar)>);

impl Thread {
    fn new() -> Self {
        Self(Arc::new((Mutex::new(false), loom::sync::Condvar::new())))
    }

    pub fn unpark(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_one();
    }
}

loom::thread_local! {
    static CURRENT: std::cell::RefCell<Option<Thread>> = std::cell::RefCell::new(None);
}

pub fn current() -> Thread {
    CURRENT.with(|current| current.borrow_mut().get_or_insert_with(Thread::new).clone())
}

pub fn park() {
    let thread = current();
    let mut unparked = thread.0.0.lock().unwrap();
    while !*unparked {
        unparked = thread.0.1.wait(unparked).unwrap();
    }
    *unparked = false;
}

/// Time stands still: a test in every order has no timers.
pub fn park_timeout(_: std::time::Duration) {
    park();
}

/// Starts a thread; its handle, and what wakes it.
pub fn start(work: impl FnOnce() + 'static) -> (JoinHandle<()>, Thread) {
    let thread = Thread::new();
    let own = thread.clone();
    let handle = loom::thread::spawn(move || {
        CURRENT.with(|current| *current.borrow_mut() = Some(own));
        work();
    });
    (handle, thread)
}

#[allow(dead_code, reason = "queues under a lock never ask to try again")]
pub enum Steal<T> {
    Empty,
    Success(T),
    Retry,
}

pub struct Injector<T>(Arc<Mutex<VecDeque<T>>>);
pub type Worker<T> = Injector<T>;
pub type Stealer<T> = Injector<T>;

impl<T> Injector<T> {
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(VecDeque::new())))
    }

    pub fn new_fifo() -> Self {
        Self::new()
    }

    pub fn stealer(&self) -> Self {
        Self(Arc::clone(&self.0))
    }

    pub fn push(&self, item: T) {
        self.0.lock().unwrap().push_back(item);
    }

    pub fn pop(&self) -> Option<T> {
        self.0.lock().unwrap().pop_front()
    }

    pub fn is_empty(&self) -> bool {
        self.0.lock().unwrap().is_empty()
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
