//! What `join` promises: both halves, at once if there are workers, whatever they do.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use thread_pools_lean::{Busy, Forking, Idle, Listed, Pool, Queue, Settings, Stealing};

const WATCHDOG: Duration = Duration::from_secs(60);

type Joining<Q> = Pool<Forking<Q>>;

/// Calls a generic test with pools of one to four workers, which park or not.
macro_rules! for_all_pools {
    ($($name:ident = $test:ident;)*) => {$(
        #[test]
        fn $name() {
            for workers in 1..=4 {
                for idle in [Idle::Park, Idle::NeverPark] {
                    let settings = Settings { idle, ..Settings::new(workers) };
                    $test(&Joining::<Listed>::start(settings), workers);
                    $test(&Joining::<Stealing>::start(settings), workers);
                }
            }
        }
    )*};
}

for_all_pools! {
    halves_use_what_the_caller_has_borrowed_and_give_it_back = borrowed;
    more_halves_than_there_is_room_for_are_all_run = deep;
    both_halves_have_ended_when_one_of_them_panics = panics;
    a_join_may_be_called_from_any_thread_and_among_jobs = among_jobs;
    a_join_of_a_pool_that_is_shut_down_meanwhile_still_returns = shut_down_meanwhile;
}

/// Sorts by merging, the longer halves by `join`.
fn sort<Q: Queue>(pool: &Joining<Q>, numbers: &mut [u64]) {
    if numbers.len() < 2 {
        return;
    }
    let (left, right) = numbers.split_at_mut(numbers.len() / 2);
    pool.join(|| sort(pool, left), || sort(pool, right));
    let (mut left, mut right) = (left.iter().copied().peekable(), right.iter().copied().peekable());
    let merged = std::iter::from_fn(|| match (left.peek(), right.peek()) {
        (Some(one), Some(other)) if other < one => right.next(),
        (Some(_), _) => left.next(),
        _ => right.next(),
    });
    let merged: Vec<u64> = merged.collect();
    numbers.copy_from_slice(&merged);
}

fn borrowed<Q: Queue>(pool: &Joining<Q>, _workers: usize) {
    for round in 0..20 {
        let mut numbers: Vec<u64> = (0..500).map(|number| (number + round) * 7919 % 500).collect();
        sort(pool, &mut numbers);
        assert_eq!(numbers, (0..500).collect::<Vec<u64>>());
        let results = pool.join(|| vec![round; 3], || format!("{round}"));
        assert_eq!(results, (vec![round; 3], round.to_string()));
    }
}

fn deep<Q: Queue>(pool: &Joining<Q>, _workers: usize) {
    fn open<Q: Queue>(pool: &Joining<Q>, left: usize, ran: &AtomicUsize) {
        if left > 0 {
            pool.join(|| open(pool, left - 1, ran), || ran.fetch_add(1, Ordering::Relaxed));
        }
    }
    let ran = AtomicUsize::new(0);
    open(pool, 1_000, &ran);
    open(pool, 1_000, &ran);
    assert_eq!(ran.load(Ordering::Relaxed), 2_000);
}

/// Counts when it is dropped.
struct Counts<'a>(&'a AtomicUsize);

impl Drop for Counts<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Panics once more when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("on purpose, while a payload is dropped");
    }
}

fn panics<Q: Queue>(pool: &Joining<Q>, workers: usize) {
    // What is printed about panics on purpose would hide others.
    std::panic::set_hook(Box::new(|_| {}));
    for round in 0..300 {
        let (panics, bomb, stolen) = (round % 4, round % 3 == 0, round % 5 == 0 && workers > 1);
        let (dropped, meet) = (AtomicUsize::new(0), Barrier::new(if stolen { 2 } else { 1 }));
        let ends = |half: usize| {
            let _result = Counts(&dropped);
            // Where both wait for each other, two workers run them.
            meet.wait();
            pool.join(thread::yield_now, || ());
            match panics & half {
                0 => Box::new(Counts(&dropped)),
                _ if half == 2 && bomb => panic_any(Bomb),
                _ => panic_any(half),
            }
        };
        let joined = catch_unwind(AssertUnwindSafe(|| pool.join(|| ends(1), || ends(2))));
        match joined {
            Ok(both) => {
                assert_eq!((panics, dropped.load(Ordering::Relaxed)), (0, 2));
                drop(both);
            }
            Err(payload) if panics == 2 && bomb => std::mem::forget(payload),
            Err(payload) => assert_eq!(*payload.downcast::<usize>().unwrap(), panics & panics.wrapping_neg()),
        }
        assert_eq!(dropped.load(Ordering::Relaxed), 4 - panics.count_ones() as usize, "{panics}");
    }
}

#[test]
fn a_sleeping_worker_is_woken_for_a_half_and_for_the_end_of_one() {
    let pool = Joining::<Stealing>::start(Settings::new(2));
    for round in 0..2_000 {
        while round % 20 == 0 && pool.sleeping() < 2 {
            thread::yield_now();
        }
        let meet = Barrier::new(2);
        // The caller of the join sleeps before the other half has ended, now and then.
        let rests = |half: u32| {
            meet.wait();
            if round % 20 == half {
                while pool.sleeping() == 0 {
                    thread::yield_now();
                }
            }
        };
        pool.join(|| rests(0), || rests(1));
    }
}

fn among_jobs<Q: Queue>(pool: &Joining<Q>, _workers: usize) {
    const JOBS: usize = 100;
    let (other, ran) = (Joining::<Q>::start(Settings::new(1)), Arc::new(AtomicUsize::new(0)));
    let (done, all) = channel();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let count = || ran.fetch_add(1, Ordering::Relaxed);
                for _ in 0..JOBS {
                    let (inner, ran, done) = (pool.clone(), Arc::clone(&ran), done.clone());
                    let job = move || {
                        let count = || ran.fetch_add(1, Ordering::Relaxed);
                        inner.join(|| inner.join(count, count), count);
                        done.send(()).unwrap();
                    };
                    pool.execute(job).unwrap();
                    // A worker of another pool is none of this one.
                    other.join(|| pool.join(count, count), || pool.join(count, thread::yield_now));
                }
            });
        }
    });
    (0..2 * JOBS).for_each(|_| all.recv_timeout(WATCHDOG).expect("a job was lost"));
    assert_eq!(ran.load(Ordering::Relaxed), 12 * JOBS);
}

fn shut_down_meanwhile<Q: Queue>(pool: &Joining<Q>, workers: usize) {
    fn tree<Q: Queue>(pool: &Joining<Q>, levels: u32, ran: &AtomicUsize) {
        ran.fetch_add(1, Ordering::Relaxed);
        if levels > 0 {
            pool.join(|| tree(pool, levels - 1, ran), || tree(pool, levels - 1, ran));
        }
    }
    let settings = Settings::new(workers);
    for round in 0..20 {
        let (pool, ran) = (Joining::<Q>::start(settings), AtomicUsize::new(0));
        thread::scope(|scope| {
            scope.spawn(|| (0..4).for_each(|_| tree(&pool, 8, &ran)));
            scope.spawn(|| {
                (0..20 * round).for_each(|_| std::hint::spin_loop());
                pool.shutdown(WATCHDOG).unwrap();
            });
        });
        tree(&pool, 8, &ran);
        assert_eq!(ran.load(Ordering::Relaxed), 5 * 511);
    }
    // So does one that is shut down already.
    pool.shutdown(WATCHDOG).unwrap();
    assert_eq!(pool.join(|| 1, || pool.join(|| 2, || 3)), (1, (2, 3)));
}

#[test]
fn a_worker_that_waits_for_a_half_runs_jobs() {
    let pool = &Joining::<Stealing>::start(Settings::new(2));
    let (ask, asked) = channel::<Sender<()>>();
    let meet = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            for answer in asked {
                let (answers, inner) = (answer.clone(), pool.clone());
                pool.execute(move || {
                    // The one that it submits is its worker's own.
                    inner.execute(move || answer.send(()).unwrap()).unwrap();
                    answers.send(()).unwrap();
                })
                .unwrap();
            }
        });
        for round in 0..200 {
            let waits = || {
                meet.wait();
                let (answer, answers) = channel();
                ask.send(answer).unwrap();
                for _ in 0..2 {
                    answers.recv_timeout(WATCHDOG).expect("both workers are in this join");
                }
            };
            let meets = || _ = meet.wait();
            if round % 2 == 0 { _ = pool.join(meets, waits) } else { _ = pool.join(waits, meets) }
        }
        drop(ask);
    });
}

#[test]
fn a_half_that_shuts_its_pool_down_waits_for_its_join_until_the_time_is_up() {
    let pool = Joining::<Stealing>::start(Settings::new(2));
    let meet = Barrier::new(2);
    let meets = || _ = meet.wait();
    let (_, busy) = pool.join(meets, || {
        meets();
        pool.shutdown(Duration::from_millis(10))
    });
    assert_eq!(busy, Err(Busy(1)));
    pool.shutdown(WATCHDOG).unwrap();
}

/// Joins when it is dropped.
struct Late(Joining<Stealing>, Arc<AtomicBool>);

impl Drop for Late {
    fn drop(&mut self) {
        let (one, other) = self.0.join(|| 1, || 2);
        self.1.store(one + other == 3, Ordering::Release);
    }
}

#[test]
fn destructors_of_jobs_and_of_thread_locals_may_join() {
    thread_local! {
        static LATE: std::cell::RefCell<Option<Late>> = const { std::cell::RefCell::new(None) };
    }
    let pool = Joining::<Stealing>::start(Settings::new(1));
    let joined = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
    let [ran, queued, local] = [0, 1, 2].map(|at| Late(pool.clone(), Arc::clone(&joined[at])));
    let (begun, begins) = channel();
    let (go, wait) = channel::<()>();
    pool.execute(move || {
        LATE.set(Some(local));
        drop(ran);
        begun.send(()).unwrap();
        assert!(wait.recv().is_err());
    })
    .unwrap();
    begins.recv_timeout(WATCHDOG).unwrap();
    pool.execute(move || drop(queued)).unwrap();
    assert_eq!(pool.shutdown(Duration::ZERO), Err(Busy(1)));
    drop(go);
    pool.shutdown(WATCHDOG).unwrap();
    let late = std::time::Instant::now() + WATCHDOG;
    while !joined.iter().all(|one| one.load(Ordering::Acquire)) {
        assert!(std::time::Instant::now() < late, "{joined:?}");
        thread::yield_now();
    }
}
