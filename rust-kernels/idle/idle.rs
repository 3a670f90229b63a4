//! Which workers of a pool search for work, which rest, and which one has to be woken. The executor and the thread pools
//! share it.
//!
//! A worker without work *searches* for a while and then *rests*. Waking a thread is the most expensive thing that a
//! scheduler does, so a thread that queues a task wakes no worker if one searches: the searcher will find it. In return, the
//! last searcher that finds something, or gives up, looks whether there is more, and wakes the next. So a burst wakes
//! as many workers as are of use, one after the other, and a trickle keeps one awake. The schedulers of Go and tokio do
//! the same.
//!
//! # The invariant
//!
//! While a task is queued and a worker rests that may be woken, a thread that is awake has still to look at that queue:
//! a searcher, or the thread that queued the task and has not returned from [`offer`](Idle::offer) yet. It holds
//! because each side takes two steps, with a fence in between:
//!
//! - a thread that queues a task first queues it, and **then** looks how many search and rest (`offer`);
//! - a worker that stops searching first says so (`found`, `rest`), and **then** looks into all queues once more.
//!
//! Whatever the order, one of the two sees the other. A worker that will look into the queue again itself needs no
//! fence (`hint`). Besides the fences nothing has to be ordered: the state is one number, and the list of workers at rest is
//! changed together with it under a lock. `tests/test_loom.py` leaves out each fence in turn, and some test fails.
//!
//! This crate knows only numbers: it names the worker to be woken, and its owner wakes that thread. A worker that is
//! named is at rest no longer, and is counted as searching from that moment on.
//!
//! What both do besides is to run what others have written, [`shielded`].

mod shield;

use crossbeam_utils::CachePadded;
pub use shield::shielded;
use sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use sync::{Mutex, MutexGuard};

/// Which workers search and which rest. They are numbered from 0.
pub struct Idle {
    /// Searching workers, plus [`RESTING`] for each that rests.
    state: CachePadded<AtomicUsize>,
    /// Workers at rest, the latest last: what it used may still be in a cache.
    resting: CachePadded<Mutex<Vec<usize>>>,
    workers: usize,
    /// So many may be awake; the others are left at rest, although there is work.
    awake: AtomicUsize,
    /// All rest, and no thread watches them; written under the lock of the list.
    unwatched: AtomicBool,
}

/// One resting worker in the state; below it is room for those that search.
const RESTING: usize = 1 << 16;

fn searching(state: usize) -> usize {
    state % RESTING
}

fn resting(state: usize) -> usize {
    state / RESTING
}

impl Idle {
    /// For so many workers, all at rest, worker 0 to be named first. `awake`: while so many are awake, none is named.
    ///
    /// # Panics
    /// If there are no workers, or 65,536 and more, or none may be awake.
    pub fn new(workers: usize, awake: usize) -> Self {
        assert!((1..RESTING).contains(&workers), "a pool has at least one worker, and less than {RESTING}");
        assert!(awake > 0, "of the workers of a pool at least one may be awake");
        Self {
            state: CachePadded::new(AtomicUsize::new(workers * RESTING)),
            resting: CachePadded::new(Mutex::new((0..workers).rev().collect())),
            workers,
            awake: AtomicUsize::new(awake),
            unwatched: AtomicBool::new(false),
        }
    }

    /// How many workers rest.
    pub fn resting(&self) -> usize {
        resting(self.state.load(Ordering::Relaxed))
    }

    /// Whether any worker searches.
    pub fn is_searched(&self) -> bool {
        searching(self.state.load(Ordering::Relaxed)) > 0
    }

    /// Whether at least half of the workers that are awake search.
    pub fn is_crowded(&self) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        2 * searching(state) >= self.workers - resting(state)
    }

    /// Whether a new task is a reason to wake a worker: none searches, and not all that may be awake are.
    fn is_wanted(&self, state: usize) -> bool {
        searching(state) == 0
            && self.workers - resting(state) < self.awake.load(Ordering::Relaxed)
            && resting(state) > 0
    }

    fn list(&self) -> MutexGuard<'_, Vec<usize>> {
        self.resting.lock().expect("no thread panics with the list")
    }

    /// The worker that came to rest last is awake again, and counts as so many searchers.
    fn pop(&self, mut resting: MutexGuard<'_, Vec<usize>>, searchers: usize) -> Option<usize> {
        let worker = resting.pop()?;
        self.state.fetch_sub(RESTING - searchers, Ordering::Relaxed);
        Some(worker)
    }
}

/// Threads that have queued a task.
impl Idle {
    /// After a task was queued: names the worker to be woken, if there has to be one.
    #[inline]
    #[must_use = "the worker has to be woken"]
    pub fn offer(&self) -> Option<usize> {
        fence(Ordering::SeqCst);
        self.hint()
    }

    /// `offer` by a worker that will look into the queue again itself, or has a fence behind it.
    #[inline]
    #[must_use = "the worker has to be woken"]
    pub fn hint(&self) -> Option<usize> {
        if self.is_wanted(self.state.load(Ordering::Relaxed)) { self.name_one() } else { None }
    }

    #[cold]
    fn name_one(&self) -> Option<usize> {
        let resting = self.list();
        // Two may have come here for one worker; the first has made a searcher of it, which finds the tasks of both.
        if self.is_wanted(self.state.load(Ordering::Relaxed)) { self.pop(resting, 1) } else { None }
    }

    /// Names a worker to be woken whatever there is to do; `None` when none rests.
    #[must_use = "the worker has to be woken"]
    pub fn name_any(&self) -> Option<usize> {
        self.pop(self.list(), 1)
    }
}

/// The workers.
impl Idle {
    /// A worker that is awake begins to search. Says how many do, with it.
    pub fn search(&self) -> usize {
        searching(self.state.fetch_add(1, Ordering::Relaxed)) + 1
    }

    /// A searcher stops, because it has found a task or will rest. Says whether it was the last, and there is a worker
    /// to be woken: then it has to look into all queues, and to `hint` at what is there.
    pub fn found(&self) -> bool {
        let left = self.state.fetch_sub(1, Ordering::Relaxed) - 1;
        fence(Ordering::SeqCst);
        self.is_wanted(left)
    }

    /// A worker that does not search is at rest from here on, and may be named. It has to look into all queues once
    /// more, and to `hint` at what is there.
    pub fn rest(&self, worker: usize) {
        let mut resting = self.list();
        resting.push(worker);
        self.state.fetch_add(RESTING, Ordering::Relaxed);
        drop(resting);
        fence(Ordering::SeqCst);
    }

    /// This worker is awake again, if it was still at rest; otherwise a thread has named it, and is about to wake it.
    pub fn take_back(&self, worker: usize) -> bool {
        let mut resting = self.list();
        let Some(place) = resting.iter().position(|number| *number == worker) else { return false };
        resting.remove(place);
        self.state.fetch_sub(RESTING, Ordering::Relaxed);
        true
    }

    /// Some worker that rested is awake, and the caller in its place; it does not search. `None` when none rests.
    pub fn take(&self) -> Option<usize> {
        self.pop(self.list(), 0)
    }
}

/// A thread that watches whether the workers get on.
impl Idle {
    /// So many may be awake from here on. A thread that lets more be awake has to `offer` what waits.
    pub fn permit(&self, awake: usize) {
        self.awake.store(awake, Ordering::Relaxed);
    }

    /// If all workers rest: the thread that watches may sleep until `is_unwatched` has said so.
    pub fn leave_unwatched(&self) -> bool {
        let resting = self.list();
        let all = resting.len() == self.workers;
        self.unwatched.store(all, Ordering::Relaxed);
        drop(resting);
        all
    }

    /// Whether the thread that watches has to be woken: once, to be asked after a worker was named or taken.
    #[inline]
    #[must_use = "the thread that watches has to be woken"]
    pub fn is_unwatched(&self) -> bool {
        self.unwatched.load(Ordering::Relaxed) && self.unwatched.swap(false, Ordering::Relaxed)
    }
}
