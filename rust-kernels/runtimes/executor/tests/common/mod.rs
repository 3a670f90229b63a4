//! What several tests use.
#![allow(dead_code, reason = "each of them uses some of it")]

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

/// Receives what another thread or task has put there, and leaves its waker.
#[derive(Default)]
pub struct Place {
    state: Mutex<(usize, Option<Waker>)>,
}

impl Place {
    pub fn put(&self) {
        let waker = {
            let mut state = self.state.lock().unwrap();
            state.0 += 1;
            state.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// Waits until something was put there, and takes one.
    pub async fn take(&self) {
        poll_fn(|context| {
            let mut state = self.state.lock().unwrap();
            if state.0 > 0 {
                state.0 -= 1;
                return Poll::Ready(());
            }
            state.1 = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// Lets others run, once.
pub fn yield_now() -> impl Future<Output = ()> {
    let mut yielded = false;
    poll_fn(move |context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
}

/// Awaits a future on a thread that belongs to no runtime, as other libraries do.
pub fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}

/// Does `work` on a thread of its own, and fails if that hangs.
pub fn in_time<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = mpsc::sync_channel(1);
    let thread = thread::spawn(move || {
        let output = work();
        let _ = done.send(());
        output
    });
    if wait.recv_timeout(Duration::from_secs(60)) == Err(mpsc::RecvTimeoutError::Timeout) {
        panic!("{what} hangs");
    }
    thread.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
}
