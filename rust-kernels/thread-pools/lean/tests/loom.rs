//! Parking and waking of workers, with the real workers and handles, in every order in which threads can meet.
//!
//! `RUSTFLAGS="--cfg under_loom" cargo test -p thread-pools-lean --test loom --release`; without `--cfg under_loom` there is
//! nothing here. The queue is a stand-in, as loom cannot look into crossbeam's. A lost wake shows as a deadlock, a job
//! that is neither run nor dropped as a leak.
#![cfg(under_loom)]

use std::cell::Cell;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::time::Duration;

use sync::cell::Shared;
use sync::loom;
use sync::loom::sync::atomic::{AtomicUsize, Ordering};
use sync::loom::sync::{Arc, Condvar, Mutex};
use sync::loom::thread;
use thread_pools_lean::{Forking, Halves, Idle, Job, Notify, Pool, Queue, Settings, Sleep, Wakes};

/// Jobs in one list behind a mutex. Whether it is empty is seen without that, and perhaps late: the mutex would order
/// what is left to the pools' fences.
struct Plain {
    jobs: Mutex<VecDeque<Job>>,
    length: AtomicUsize,
}

impl Queue for Plain {
    type Local = ();

    fn new(settings: &Settings) -> (Self, Vec<()>) {
        (Self { jobs: Mutex::new(VecDeque::new()), length: AtomicUsize::new(0) }, vec![(); settings.workers])
    }

    fn push(&self, job: Job) {
        let mut jobs = self.jobs.lock().unwrap();
        jobs.push_back(job);
        self.length.store(jobs.len(), Ordering::Release);
    }

    fn push_local(&self, (): &(), job: Job) -> Notify {
        self.push(job);
        Notify::Sleepers
    }

    fn next(&self, (): &()) -> Option<Job> {
        self.find(&())
    }

    fn find(&self, (): &()) -> Option<Job> {
        if self.is_empty() {
            return None;
        }
        let mut jobs = self.jobs.lock().unwrap();
        let first = jobs.pop_front();
        self.length.store(jobs.len(), Ordering::Release);
        first
    }

    fn is_empty(&self) -> bool {
        self.length.load(Ordering::Relaxed) == 0
    }

    fn take(&self) -> Option<Job> {
        self.find(&())
    }
}

/// Runs `test` in every order with at most so many preemptions.
fn in_every_order(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(test);
}

/// A number of jobs that have run, and a place to wait for it.
#[derive(Clone)]
struct Done(Arc<(Mutex<usize>, Condvar)>);

impl Done {
    fn new() -> Self {
        Self(Arc::new((Mutex::new(0), Condvar::new())))
    }

    fn one(&self) {
        *self.0.0.lock().unwrap() += 1;
        self.0.1.notify_all();
    }

    fn wait_for(&self, number: usize) {
        let mut ran = self.0.0.lock().unwrap();
        while *ran < number {
            ran = self.0.1.wait(ran).unwrap();
        }
    }
}

fn pool(workers: usize) -> Pool<Plain> {
    Pool::start(Settings::new(workers))
}

#[test]
fn a_job_wakes_a_worker_that_is_about_to_sleep() {
    in_every_order(3, || {
        let (pool, done) = (pool(1), Done::new());
        for number in 1..=2 {
            let job = done.clone();
            pool.execute(move || job.one()).unwrap();
            done.wait_for(number);
        }
    });
}

#[test]
fn jobs_of_two_threads_are_both_run_by_two_workers() {
    in_every_order(1, || {
        let (pool, done) = (pool(2), Done::new());
        let (other, job) = (pool.clone(), done.clone());
        let submits = thread::spawn(move || other.execute(move || job.one()).unwrap());
        let job = done.clone();
        pool.execute(move || job.one()).unwrap();
        done.wait_for(2);
        submits.join().unwrap();
    });
}

#[test]
fn a_job_of_a_job_is_run_and_the_last_handle_ends_the_workers() {
    in_every_order(2, || {
        let (pool, done) = (pool(2), Done::new());
        let (inner, job) = (pool.clone(), done.clone());
        pool.execute(move || inner.execute(move || job.one()).unwrap()).unwrap();
        drop(pool);
        done.wait_for(1);
    });
}

#[test]
fn what_is_submitted_before_the_last_handle_goes_is_run() {
    for idle in [Idle::Park, Idle::NeverPark] {
        in_every_order(if idle == Idle::Park { 3 } else { 1 }, move || {
            let (pool, done) = (Pool::<Plain>::start(Settings { idle, ..Settings::new(1) }), Done::new());
            let job = done.clone();
            pool.execute(move || job.one()).unwrap();
            drop(pool);
            done.wait_for(1);
        });
    }
}

#[test]
fn what_another_handle_submitted_before_the_last_one_goes_is_run() {
    in_every_order(2, || {
        let (pool, done) = (pool(1), Done::new());
        let (other, job) = (pool.clone(), done.clone());
        let submits = thread::spawn(move || other.execute(move || job.one()).unwrap());
        drop(pool);
        done.wait_for(1);
        submits.join().unwrap();
    });
}

/// Before the pool is gone, with which what is in its queue would go. How handles are counted is the matter of other tests:
/// here none is dropped before the race is over, which leaves some thousand orders of many millions.
#[test]
fn a_job_that_races_with_the_end_is_run_or_dropped() {
    for idle in [Idle::Park, Idle::NeverPark] {
        in_every_order(if idle == Idle::Park { 3 } else { 2 }, move || {
            let pool = Pool::<Plain>::start(Settings { idle, ..Settings::new(1) });
            let (other, held) = (pool.clone(), Arc::new(()));
            let job = Arc::clone(&held);
            let submits = thread::spawn(move || {
                let _ = other.execute(move || drop(job));
                other
            });
            pool.shutdown(Duration::MAX / 4).unwrap();
            let _other = submits.join().unwrap();
            assert_eq!(Arc::strong_count(&held), 1, "a job was forgotten");
        });
    }
}

/// A handle that a worker has cloned and another thread drops is the last one, or not: until then jobs are taken.
#[test]
fn a_handle_that_leaves_a_job_keeps_the_pool_alive() {
    in_every_order(2, || {
        let (pool, done, left) = (pool(1), Done::new(), Arc::new(Mutex::new(None)));
        let (inner, job, leaves) = (pool.clone(), done.clone(), Arc::clone(&left));
        pool.execute(move || {
            *leaves.lock().unwrap() = Some(inner.clone());
            drop(inner);
            job.one();
        })
        .unwrap();
        drop(pool);
        done.wait_for(1);
        let last = left.lock().unwrap().take().unwrap();
        let job = done.clone();
        last.execute(move || job.one()).unwrap();
        drop(last);
        done.wait_for(2);
    });
}

/// A thread that sees the credit into which a handle went has to see the clone that was made of it before.
#[test]
fn a_clone_of_a_handle_that_became_credit_keeps_the_pool_alive() {
    in_every_order(1, || {
        let (pool, done) = (pool(1), Done::new());
        let other = pool.clone();
        let leaves = thread::spawn(move || drop(other));
        let (last, job) = (pool.clone(), done.clone());
        last.execute(move || {
            drop(pool);
            job.one();
        })
        .unwrap();
        done.wait_for(1);
        let job = done.clone();
        last.execute(move || job.one()).unwrap();
        drop(last);
        done.wait_for(2);
        leaves.join().unwrap();
    });
}

loom::lazy_static! {
    static ref ENDED: Done = Done::new();
}

/// The same queue; its workers tell when they end.
struct Watched(Plain);

struct Ends;

impl Drop for Ends {
    fn drop(&mut self) {
        ENDED.one();
    }
}

impl Queue for Watched {
    type Local = Ends;

    fn new(settings: &Settings) -> (Self, Vec<Ends>) {
        (Self(Plain::new(settings).0), (0..settings.workers).map(|_| Ends).collect())
    }

    fn push(&self, job: Job) {
        self.0.push(job);
    }

    fn push_local(&self, _: &Ends, job: Job) -> Notify {
        self.0.push_local(&(), job)
    }

    fn next(&self, _: &Ends) -> Option<Job> {
        self.0.take()
    }

    fn find(&self, _: &Ends) -> Option<Job> {
        self.0.take()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&self) -> Option<Job> {
        self.0.take()
    }
}

/// The worker in the job waits for the end of the other one.
#[test]
fn the_last_handle_ends_idle_workers_beside_a_busy_one() {
    in_every_order(1, || {
        let (pool, begun) = (Pool::<Watched>::start(Settings::new(2)), Done::new());
        let (inner, begins) = (pool.clone(), begun.clone());
        pool.execute(move || {
            drop((inner.clone(), inner));
            begins.one();
            ENDED.wait_for(1);
        })
        .unwrap();
        begun.wait_for(1);
        drop(pool);
        ENDED.wait_for(2);
    });
}

#[test]
fn jobs_that_shut_their_pool_down_together_end() {
    in_every_order(1, || {
        let pool = pool(2);
        for _ in 0..2 {
            let inner = pool.clone();
            let _ = pool.execute(move || inner.shutdown(Duration::MAX / 4).unwrap());
        }
        pool.shutdown(Duration::MAX / 4).unwrap();
    });
}

/// The deque by itself: each half is taken once, by the worker the youngest one first, and with what was written to it.
#[test]
fn each_half_is_taken_back_or_stolen() {
    for (most, steals, preemptions) in [(1, [2, 0], 3), (2, [2, 0], 3), (2, [1, 1], 2)] {
        in_every_order(preemptions, move || {
            let halves = Arc::new((Halves::<Place>::default(), [(); 3].map(|()| Place::new())));
            let thieves = steals.map(|steals| {
                let halves = Arc::clone(&halves);
                // SAFETY: the test keeps them alive.
                let steal = move || halves.0.steal().map_or(0, |half| unsafe { half.as_ref() }.take());
                thread::spawn(move || (0..steals).map(|_| steal()).sum::<usize>())
            });
            let (next, mut own) = (Cell::new(0), 0);
            let push = |at: usize| {
                let half = &halves.1[at];
                half.write(1 << at);
                halves.0.push(&next, NonNull::from(half), most).expect("there is room for two");
            };
            let mut take_back = |at: usize| {
                if halves.0.take_back(&next) {
                    own += halves.1[at].take();
                }
            };
            push(0);
            push(1);
            take_back(1);
            push(2);
            take_back(2);
            take_back(0);
            assert!(halves.0.is_empty());
            let stolen: usize = thieves.into_iter().map(|thief| thief.join().unwrap()).sum();
            assert_eq!(own + stolen, 0b111);
        });
    }
}

/// Both halves write to what the caller has, which reads it.
#[test]
fn a_join_returns_when_both_halves_have_ended() {
    in_every_order(1, || {
        let (pool, places) =
            (Pool::<Forking<Plain>>::start(Settings::new(2)), [(); 2].map(|()| Place::new()));
        pool.join(|| places[0].write(1), || places[1].write(2));
        assert_eq!((places[0].read(), places[1].read()), (1, 2));
    });
}

/// Used by one thread at a time; loom sees whether that is so.
struct Place(Shared<usize>);

// SAFETY: as is said.
unsafe impl Sync for Place {}

impl Place {
    fn new() -> Self {
        Self(Shared::new(0))
    }

    fn write(&self, number: usize) {
        // SAFETY: as is said.
        self.0.with_mut(|place| unsafe { place.write(number) });
    }

    fn read(&self) -> usize {
        // SAFETY: as is said.
        self.0.with(|place| unsafe { place.read() })
    }

    /// What was written, of which nothing is left.
    fn take(&self) -> usize {
        let number = self.read();
        self.write(0);
        number
    }
}

#[test]
fn a_join_that_races_with_the_end_returns() {
    in_every_order(1, || {
        let pool = Pool::<Forking<Plain>>::start(Settings::new(2));
        let other = pool.clone();
        let ends = thread::spawn(move || other.shutdown(Duration::MAX / 4).unwrap());
        assert_eq!(pool.join(|| 1, || 2), (1, 2));
        ends.join().unwrap();
    });
}

/// The half waits for a job that only the worker that waits for the half can run.
#[test]
fn a_worker_that_waits_for_a_half_is_woken_for_a_job() {
    in_every_order(1, || {
        let (pool, begun, done) = (Pool::<Forking<Plain>>::start(Settings::new(2)), Done::new(), Done::new());
        let (other, job, both) = (pool.clone(), done.clone(), begun.clone());
        let submits = thread::spawn(move || {
            both.wait_for(2);
            other.execute(move || job.one()).unwrap();
        });
        let begins = |half: bool| {
            begun.one();
            begun.wait_for(2);
            if half {
                done.wait_for(1);
            }
        };
        pool.join(|| begins(false), || begins(true));
        submits.join().unwrap();
    });
}

/// The protocol by itself: more searchers and sleepers than whole pools have room for.
#[test]
fn no_worker_sleeps_beside_a_job() {
    in_every_order(3, || {
        let shared = Arc::new((Sleep::new(2), AtomicUsize::new(0)));
        let worker = |number: usize| {
            let shared = Arc::clone(&shared);
            move || {
                let (sleep, jobs) = &*shared;
                sleep.begin(number);
                let take =
                    || jobs.fetch_update(Ordering::AcqRel, Ordering::Acquire, |jobs| jobs.checked_sub(1));
                loop {
                    if take().is_ok() {
                        if sleep.found() && jobs.load(Ordering::Acquire) > 0 {
                            sleep.offer(Wakes::OneAtATime);
                        }
                        return;
                    }
                    sleep.announce(number);
                    if jobs.load(Ordering::Acquire) > 0 { sleep.stay(number) } else { sleep.sleep(number) }
                }
            }
        };
        let workers = [0, 1].map(|number| thread::spawn(worker(number)));
        for _ in 0..2 {
            shared.1.fetch_add(1, Ordering::AcqRel);
            shared.0.offer(Wakes::OneAtATime);
        }
        for worker in workers {
            worker.join().unwrap();
        }
    });
}
