//! A thread that can be woken, for tests under loom: its own `unpark` confuses a thread that it finds waiting for a
//! lock.

use loom::sync::{Arc, Condvar, Mutex};

/// A thread that can be woken.
#[derive(Clone)]
pub struct Thread(Arc<(Mutex<bool>, Condvar)>);

impl Thread {
    fn new() -> Self {
        Self(Arc::new((Mutex::new(false), Condvar::new())))
    }

    /// Ends the thread's wait, or its next one.
    pub fn unpark(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_one();
    }
}

loom::thread_local! {
    static CURRENT: std::cell::RefCell<Option<Thread>> = std::cell::RefCell::new(None);
}

/// What wakes the thread that calls.
pub fn current() -> Thread {
    CURRENT.with(|current| current.borrow_mut().get_or_insert_with(Thread::new).clone())
}

/// Waits until another thread wakes this one.
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

/// As if it had ended: to join it waits, too.
pub fn is_finished(_: &loom::thread::JoinHandle<()>) -> bool {
    true
}

/// No thread of these tests ends its own pool.
pub fn is_current(_: &loom::thread::JoinHandle<()>) -> bool {
    false
}

/// Starts a thread; its handle, and what wakes it.
pub fn start(work: impl FnOnce() + 'static) -> std::io::Result<(loom::thread::JoinHandle<()>, Thread)> {
    let thread = Thread::new();
    let own = thread.clone();
    let handle = loom::thread::spawn(move || {
        CURRENT.with(|current| *current.borrow_mut() = Some(own));
        work();
    });
    Ok((handle, thread))
}
