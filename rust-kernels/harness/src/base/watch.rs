//! How often tasks are polled and woken.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Wake, Waker};

/// Counts polls and wakes, for proofs: the future that is timed is followed in place of being run as it is.
///
/// ```
/// # use std::sync::Arc;
/// # use std::task::{Context, Poll, Waker};
/// # use harness::Watch;
/// let watch = Arc::new(Watch::default());
/// let mut yielded = false;
/// let task = std::future::poll_fn(move |context| {
///     context.waker().wake_by_ref();
///     if std::mem::replace(&mut yielded, true) { Poll::Ready(7) } else { Poll::Pending }
/// });
/// let mut task = Box::pin(watch.follow(task));
/// let mut poll = || task.as_mut().poll(&mut Context::from_waker(Waker::noop()));
/// assert_eq!([poll(), poll()], [Poll::Pending, Poll::Ready(7)]);
/// assert_eq!(watch.take(), [2, 2]);
/// assert_eq!(watch.take(), [0, 0]);
/// ```
#[derive(Debug, Default)]
pub struct Watch {
    polls: AtomicU64,
    wakes: AtomicU64,
}

impl Watch {
    /// Polls, and wakes, since they were last taken.
    pub fn take(&self) -> [u64; 2] {
        [&self.polls, &self.wakes].map(|count| count.swap(0, Ordering::Relaxed))
    }

    /// Counts how often it is woken, and wakes `waker`.
    pub fn waker(self: &Arc<Self>, waker: Waker) -> Waker {
        Waker::from(Arc::new(Watched { watch: Arc::clone(self), waker }))
    }

    /// The same future, counted. It is to be polled by one task.
    pub fn follow<F: Future>(self: &Arc<Self>, future: F) -> impl Future<Output = F::Output> + use<F> {
        let (watch, mut future, mut waker) = (Arc::clone(self), Box::pin(future), None);
        poll_fn(move |context| {
            watch.polls.fetch_add(1, Ordering::Relaxed);
            let waker = waker.get_or_insert_with(|| watch.waker(context.waker().clone()));
            future.as_mut().poll(&mut Context::from_waker(waker))
        })
    }
}

struct Watched {
    watch: Arc<Watch>,
    waker: Waker,
}

impl Wake for Watched {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.watch.wakes.fetch_add(1, Ordering::Relaxed);
        self.waker.wake_by_ref();
    }
}
