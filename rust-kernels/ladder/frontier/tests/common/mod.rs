//! What several tests of the frontier need.
#![allow(dead_code)] // each needs a part

use std::future::poll_fn;
use std::panic::resume_unwind;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

/// A task of any kind.
pub type Task<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Seeds of random programs: the first of them, or those of `ASYNC_COST_SOAK_S` seconds from `ASYNC_COST_SOAK_SEED` on.
pub fn seeds(programs: u64) -> impl Iterator<Item = u64> + Send {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
    let time = number("ASYNC_COST_SOAK_S").map(Duration::from_secs);
    let first = number("ASYNC_COST_SOAK_SEED").unwrap_or(1);
    let end = Instant::now() + time.unwrap_or_default();
    (first..)
        .take_while(move |&seed| if time.is_some() { Instant::now() < end } else { seed < first + programs })
}

/// Runs `work` on a thread of its own. A wake that is lost, and so a wait that never ends, is a failure.
pub fn ends(work: impl FnOnce() + Send + 'static) {
    let (done, wait) = channel();
    let thread = thread::spawn(move || {
        work();
        let _received = done.send(());
    });
    match wait.recv_timeout(Duration::from_secs(120)) {
        Ok(()) => {}
        Err(RecvTimeoutError::Timeout) => panic!("it waits for ever"),
        Err(RecvTimeoutError::Disconnected) => resume_unwind(thread.join().expect_err("it has panicked")),
    }
}

/// Wakes itself and waits, `times` times.
pub async fn yield_now(times: usize) {
    for _ in 0..times {
        let mut yielded = false;
        poll_fn(|context| {
            context.waker().wake_by_ref();
            if std::mem::replace(&mut yielded, true) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Waits until the system was polled for events several times.
pub async fn settle() {
    yield_now(1000).await;
}

/// Polls `future` once, and gives it up if it waits; `foreign` hands it another waker than that of the task.
pub async fn poll_once<F: Future>(future: F, foreign: Option<&Waker>) -> Poll<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| {
        Poll::Ready(match foreign {
            Some(waker) => future.as_mut().poll(&mut Context::from_waker(waker)),
            None => future.as_mut().poll(context),
        })
    })
    .await
}

/// A waker that counts, and passes its wakes on.
pub struct Foreign {
    pub wakes: AtomicUsize,
    pub inner: Mutex<Option<Waker>>,
}

impl Foreign {
    pub fn new(inner: Option<Waker>) -> Arc<Self> {
        Arc::new(Self { wakes: AtomicUsize::new(0), inner: Mutex::new(inner) })
    }
}

impl Wake for Foreign {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, Ordering::SeqCst);
        if let Some(inner) = &*self.inner.lock().expect("the waker") {
            inner.wake_by_ref();
        }
    }
}

/// Counts its end, and may panic then.
pub struct Ends<'c> {
    pub ended: &'c AtomicUsize,
    pub panics: bool,
}

impl<'c> Ends<'c> {
    pub fn quietly(ended: &'c AtomicUsize) -> Self {
        Self { ended, panics: false }
    }

    pub fn loudly(ended: &'c AtomicUsize) -> Self {
        Self { ended, panics: true }
    }
}

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.ended.fetch_add(1, Ordering::SeqCst);
        if self.panics {
            resume_unwind(Box::new("dropped"));
        }
    }
}

/// What a panic has thrown, if it is a word.
pub fn word(thrown: Box<dyn std::any::Any + Send>) -> &'static str {
    thrown.downcast_ref::<&str>().copied().expect("a word")
}
