//! A set for Miri (`make test-miri`), which interprets and so needs few and small tests: jobs in place and in boxes, run,
//! refused and swept, handles counted here and there, workers that sleep and end.

use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use thread_pools_lean::{Closed, Forking, Job, Listed, Pool, Settings, SharedChannel, Stealing};

const WATCHDOG: Duration = Duration::from_secs(60);

#[test]
fn a_job_is_run_or_dropped_in_place_or_in_its_box() {
    let held = Arc::new(());
    let [one, two, three, four] = [(); 4].map(|()| Arc::clone(&held));
    let large = [1_u64; 16];
    Job::new(move || drop(one)).run();
    drop(Job::new(move || drop(two)));
    Job::new(move || drop((three, large.len()))).run();
    drop(Job::new(move || drop((four, large.len()))));
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
fn jobs_submit_jobs_and_the_last_handle_ends_the_workers() {
    let (pool, (done, all)) = (Pool::<Stealing>::start(Settings::new(2)), channel());
    for _ in 0..4 {
        let (inner, done) = (pool.clone(), done.clone());
        pool.execute(move || inner.execute(move || done.send(()).unwrap()).unwrap()).unwrap();
    }
    drop((pool, done));
    assert_eq!(all.iter().count(), 4);
}

#[test]
fn handles_go_from_worker_to_thread() {
    let (pool, (given, take)) = (Pool::<SharedChannel>::start(Settings::new(1)), channel());
    let inner = pool.clone();
    pool.execute(move || given.send((inner.clone(), inner)).unwrap()).unwrap();
    drop(pool);
    let (one, other) = take.recv().unwrap();
    thread::spawn(move || drop(one)).join().unwrap();
    other.execute(|| ()).unwrap();
}

#[test]
fn two_jobs_shut_their_pool_down() {
    let (pool, meet) = (Pool::<Stealing>::start(Settings::new(2)), Arc::new(Barrier::new(2)));
    for _ in 0..2 {
        let (inner, meet) = (pool.clone(), Arc::clone(&meet));
        pool.execute(move || {
            meet.wait();
            inner.shutdown(WATCHDOG).unwrap();
        })
        .unwrap();
    }
    pool.shutdown(WATCHDOG).unwrap_or(());
}

fn sum(pool: &Pool<Forking<Listed>>, numbers: &[u32]) -> Box<u32> {
    if let [number] = numbers {
        return Box::new(*number);
    }
    let (left, right) = numbers.split_at(numbers.len() / 2);
    let (left, right) = pool.join(|| sum(pool, left), || sum(pool, right));
    Box::new(*left + *right)
}

#[test]
fn halves_are_taken_back_stolen_and_given_back() {
    let pool = Pool::<Forking<Listed>>::start(Settings::new(2));
    let (numbers, meet) = ([1; 12], Barrier::new(2));
    for _ in 0..3 {
        let half = || {
            meet.wait();
            sum(&pool, &numbers)
        };
        assert_eq!(pool.join(half, half), (Box::new(12), Box::new(12)));
    }
    let panics = |half: usize| {
        meet.wait();
        std::panic::resume_unwind(Box::new(half))
    };
    let joined = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| -> ((), ()) {
        pool.join(|| panics(1), || panics(2))
    }));
    assert_eq!(*joined.unwrap_err().downcast::<usize>().unwrap(), 1);
    pool.shutdown(WATCHDOG).unwrap();
    assert_eq!(*sum(&pool, &numbers), 12);
}

/// Submits the next one when it is dropped.
struct Chain(Pool<SharedChannel>, u32);

impl Drop for Chain {
    fn drop(&mut self) {
        if let Some(left) = self.1.checked_sub(1) {
            let next = Self(self.0.clone(), left);
            assert_eq!(self.0.execute(move || drop(next)), Err(Closed));
        }
    }
}

#[test]
fn refused_jobs_submit_the_next_one() {
    let pool = Pool::<SharedChannel>::start(Settings::new(1));
    pool.shutdown(WATCHDOG).unwrap();
    drop(Chain(pool, 70));
}
