//! What threads share: of the standard library, except in builds with `RUSTFLAGS="--cfg under_loom"`.
//!
//! There it is of [loom](https://docs.rs/loom), which runs a test once for every order in which threads can meet, and
//! every value that an atomic could show. A test can also weaken one place at a time, to see whether it is needed:
//! weakened.rs says how.

#[cfg(under_loom)]
mod loom_thread;
#[cfg(under_loom)]
mod weakened;

#[cfg(under_loom)]
pub use loom;

#[cfg(under_loom)]
pub use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
#[cfg(not(under_loom))]
pub use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// Atomics and fences.
pub mod atomic {
    #[cfg(under_loom)]
    pub use crate::weakened::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};
    #[cfg(not(under_loom))]
    pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};
}

/// Starting, parking and waking threads.
pub mod thread {
    #[cfg(under_loom)]
    pub use crate::loom_thread::{Thread, current, is_current, is_finished, park, park_timeout, start};
    #[cfg(under_loom)]
    pub use loom::thread::{Builder, JoinHandle, yield_now};
    #[cfg(not(under_loom))]
    pub use std::thread::{Builder, JoinHandle, Thread, current, park, park_timeout, yield_now};

    /// Whether a thread has ended.
    #[cfg(not(under_loom))]
    pub fn is_finished(thread: &JoinHandle<()>) -> bool {
        thread.is_finished()
    }

    /// Whether it is the thread that calls.
    #[cfg(not(under_loom))]
    pub fn is_current(thread: &JoinHandle<()>) -> bool {
        thread.thread().id() == current().id()
    }

    /// Starts a thread; its handle, and what wakes it.
    ///
    /// # Errors
    /// If the system refuses it.
    #[cfg(not(under_loom))]
    pub fn start(work: impl FnOnce() + Send + 'static) -> std::io::Result<(JoinHandle<()>, Thread)> {
        let handle = std::thread::Builder::new().spawn(work)?;
        let thread = handle.thread().clone();
        Ok((handle, thread))
    }
}

/// Threads that are not woken while they wait for a lock: loom's own parking will do for them, and has far fewer orders
/// than that of [`thread`].
pub mod plain_thread {
    #[cfg(under_loom)]
    pub use loom::thread::{Thread, current, park};
    #[cfg(not(under_loom))]
    pub use std::thread::{Thread, current, park};
}

/// Cells, of which loom sees whether two threads use one at once.
pub mod cell {
    #[cfg(under_loom)]
    pub use loom::cell::Cell;
    #[cfg(not(under_loom))]
    pub use std::cell::Cell;

    #[cfg(under_loom)]
    use loom::cell::UnsafeCell;
    #[cfg(not(under_loom))]
    use std::cell::UnsafeCell;

    /// A cell whose users agree among themselves on when each may touch it. Its end counts as an access.
    pub struct Shared<T>(UnsafeCell<T>);

    impl<T> Shared<T> {
        /// A cell with this value.
        #[inline]
        pub fn new(value: T) -> Self {
            Self(UnsafeCell::new(value))
        }
    }

    #[cfg(not(under_loom))]
    impl<T> Shared<T> {
        /// What `read` makes of a pointer that may be read from.
        #[inline]
        pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            read(self.0.get())
        }

        /// What `write` makes of a pointer that may be written to.
        #[inline]
        pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            write(self.0.get())
        }
    }

    #[cfg(under_loom)]
    impl<T> Shared<T> {
        /// What `read` makes of a pointer that may be read from.
        pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            self.0.with(read)
        }

        /// What `write` makes of a pointer that may be written to.
        pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            self.0.with_mut(write)
        }
    }

    #[cfg(under_loom)]
    impl<T> Drop for Shared<T> {
        fn drop(&mut self) {
            self.0.with_mut(|_| ());
        }
    }
}

/// A value for each thread: `sync::thread_local! { static NAME: Type = constant; }`.
#[cfg(not(under_loom))]
#[macro_export]
macro_rules! thread_local {
    (static $name:ident: $type:ty = $value:expr;) => {
        std::thread_local! {
            static $name: $type = const { $value };
        }
    };
}

/// A value for each thread, of loom.
#[cfg(under_loom)]
#[macro_export]
macro_rules! thread_local {
    (static $name:ident: $type:ty = $value:expr;) => {
        $crate::loom::thread_local! {
            static $name: $type = $value;
        }
    };
}
