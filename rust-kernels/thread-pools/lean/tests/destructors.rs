//! Destructors of jobs do what jobs may: they submit, wait, shut pools down and drop handles, at any depth.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use thread_pools_lean::{Busy, Closed, Idle, Pool, Queue, Settings, SharedChannel, Stealing};

/// Far longer than anything here takes, but for what is lost.
const WATCHDOG: Duration = Duration::from_secs(60);
/// More than a stack has room for.
const MANY: usize = 30_000;

/// Calls a generic test with both queues.
macro_rules! with_both_queues {
    ($($name:ident = $test:ident;)*) => {$(
        #[test]
        fn $name() {
            $test::<SharedChannel>();
            $test::<Stealing>();
        }
    )*};
}

with_both_queues! {
    queued_jobs_may_shut_the_pool_down_when_dropped = shut_down_again;
    queued_jobs_may_wait_for_what_they_submit_when_dropped = wait_for_refused;
    refused_jobs_may_submit_the_next_one_when_dropped = refused_chain;
    a_worker_may_shut_its_pool_down_while_it_drops_jobs = worker_shuts_down;
    jobs_that_shut_their_pool_down_together_wait_only_for_others = together;
    jobs_may_shut_the_pools_of_each_other_down = each_other;
    a_job_that_was_taken_is_never_refused = not_refused;
    idle_workers_end_beside_a_busy_one = beside_a_busy_one;
    a_job_that_drops_the_last_handle_ends_idle_workers_when_it_has_ended = dropped_in_a_job;
    handles_that_come_and_go_beside_busy_workers_keep_the_pool_alive = come_and_go;
    a_large_job_is_dropped_where_it_is = large_job;
    a_large_job_is_run_where_it_is = large_job_that_runs;
    thread_locals_of_workers_may_outlive_the_pool = late_thread_locals;
}

/// Calls this when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A pool of one worker, which is in a job until the result is dropped.
fn occupied<Q: Queue>() -> (Pool<Q>, Sender<()>) {
    let (pool, (go, wait), (begins, began)) =
        (Pool::<Q>::start(Settings::new(1)), channel::<()>(), channel());
    pool.execute(move || {
        begins.send(()).unwrap();
        let _ended = wait.recv();
    })
    .unwrap();
    began.recv_timeout(WATCHDOG).expect("it begins");
    (pool, go)
}

/// Queues a job that calls this when it is dropped.
fn queue<Q: Queue>(pool: &Pool<Q>, work: impl FnMut() + Send + 'static) {
    let guard = OnDrop(work);
    pool.execute(move || drop(guard)).unwrap();
}

fn shut_down_again<Q: Queue>() {
    for (jobs, limit) in [(MANY, Duration::ZERO), (MANY / 10, WATCHDOG)] {
        let ((pool, go), (dropped, all)) = (occupied::<Q>(), channel());
        for _ in 0..jobs {
            let (own, dropped) = (pool.clone(), dropped.clone());
            queue(&pool, move || {
                dropped.send(()).unwrap();
                let _busy = own.shutdown(limit);
            });
        }
        // Those that wait for the worker leave the others to other threads.
        let goes = thread::spawn(move || {
            (0..jobs).for_each(|_| all.recv_timeout(WATCHDOG).expect("all are dropped"));
            drop(go);
        });
        let _busy = pool.shutdown(limit);
        pool.shutdown(WATCHDOG).unwrap();
        goes.join().unwrap();
    }
}

fn wait_for_refused<Q: Queue>() {
    let (pool, go) = occupied::<Q>();
    let (done, all) = channel();
    for _ in 0..1_000 {
        let (own, done) = (pool.clone(), done.clone());
        queue(&pool, move || {
            let (holds, gone) = channel::<()>();
            assert_eq!(own.execute(move || drop(holds)), Err(Closed));
            gone.recv_timeout(WATCHDOG).unwrap_err();
            done.send(()).unwrap();
        });
    }
    assert_eq!(pool.shutdown(Duration::ZERO), Err(Busy(1)));
    drop((go, done));
    assert_eq!(all.iter().count(), 1_000);
    pool.shutdown(WATCHDOG).unwrap();
}

/// Submits the next one when it is dropped, and may wait until that is gone.
struct Chain<Q: Queue> {
    pool: Pool<Q>,
    left: usize,
    waits: bool,
    /// Ends with the last of them.
    #[allow(dead_code, reason = "dropped")]
    done: Sender<()>,
}

impl<Q: Queue> Drop for Chain<Q> {
    fn drop(&mut self) {
        let Some(left) = self.left.checked_sub(1) else { return };
        let next = Self { pool: self.pool.clone(), left, waits: self.waits, done: self.done.clone() };
        let (holds, gone) = channel::<()>();
        assert_eq!(self.pool.execute(move || drop((next, holds))), Err(Closed));
        if self.waits {
            gone.recv_timeout(WATCHDOG).unwrap_err();
        }
    }
}

fn refused_chain<Q: Queue>() {
    for (left, waits) in [(MANY, false), (1_000, true)] {
        let pool = Pool::<Q>::start(Settings::new(1));
        pool.shutdown(WATCHDOG).unwrap();
        let (done, ended): (_, Receiver<()>) = channel();
        drop(Chain { pool, left, waits, done });
        assert_eq!(ended.iter().count(), 0);
    }
}

/// Whoever comes to them first drops the jobs of a worker: another thread, or it itself when its job has ended.
fn worker_shuts_down<Q: Queue>() {
    for _ in 0..50 {
        let (pool, (begins, began)) = (Pool::<Q>::start(Settings::new(1)), channel());
        let inner = pool.clone();
        pool.execute(move || {
            begins.send(()).unwrap();
            loop {
                let own = inner.clone();
                let guard = OnDrop(move || own.shutdown(WATCHDOG).unwrap());
                if inner.execute(move || drop(guard)) == Err(Closed) {
                    break;
                }
                thread::yield_now();
            }
        })
        .unwrap();
        began.recv_timeout(WATCHDOG).expect("it begins");
        pool.shutdown(WATCHDOG).unwrap();
    }
}

fn together<Q: Queue>() {
    for limit in [WATCHDOG, Duration::MAX] {
        let pool = Pool::<Q>::start(Settings::new(3));
        let (meet, (done, ended)) = (Arc::new(Barrier::new(4)), channel());
        let (go, wait) = channel::<()>();
        let mut wait = Some(wait);
        for job in 0..3 {
            let (own, meet, done, wait) = (pool.clone(), Arc::clone(&meet), done.clone(), wait.take());
            pool.execute(move || {
                meet.wait();
                match wait {
                    Some(wait) => assert!(wait.recv().is_err()),
                    None => done.send((job, own.shutdown(limit))).unwrap(),
                }
            })
            .unwrap();
        }
        meet.wait();
        assert!(ended.recv_timeout(Duration::from_millis(50)).is_err(), "they wait for the third");
        drop(go);
        for _ in 0..2 {
            assert_eq!(ended.recv_timeout(WATCHDOG).expect("they wait for each other").1, Ok(()));
        }
        pool.shutdown(limit).unwrap();
    }
}

fn each_other<Q: Queue>() {
    let pools = [(); 3].map(|()| Pool::<Q>::start(Settings::new(1)));
    let (meet, (done, ended)) = (Arc::new(Barrier::new(3)), channel());
    for (number, pool) in pools.iter().enumerate() {
        let (next, meet, done) = (pools[(number + 1) % 3].clone(), Arc::clone(&meet), done.clone());
        pool.execute(move || {
            meet.wait();
            done.send(next.shutdown(Duration::MAX)).unwrap();
        })
        .unwrap();
    }
    for _ in 0..3 {
        assert_eq!(ended.recv_timeout(WATCHDOG).expect("they wait for each other"), Ok(()));
    }
    pools.iter().for_each(|pool| pool.shutdown(WATCHDOG).unwrap());
}

/// `Closed` means that it was not run.
fn not_refused<Q: Queue>() {
    for _ in 0..200 {
        let (pool, ran) = (Pool::<Q>::start(Settings::new(1)), Arc::new(AtomicUsize::new(0)));
        let (closes, counts) = (pool.clone(), Arc::clone(&ran));
        let taken = pool.execute(move || {
            counts.fetch_add(1, Ordering::Relaxed);
            closes.shutdown(WATCHDOG).unwrap();
        });
        pool.shutdown(WATCHDOG).unwrap();
        assert!(taken.is_ok() || ran.load(Ordering::Relaxed) == 0);
    }
}

thread_local! {
    static ON_EXIT: std::cell::RefCell<Option<Sender<()>>> = const { std::cell::RefCell::new(None) };
}

/// Each worker keeps a sender until its thread ends.
fn watch<Q: Queue>(pool: &Pool<Q>, workers: usize) -> Receiver<()> {
    let (meet, (exits, exited)) = (Arc::new(Barrier::new(workers + 1)), channel());
    for _ in 0..workers {
        let (meet, exits) = (Arc::clone(&meet), exits.clone());
        pool.execute(move || {
            ON_EXIT.set(Some(exits));
            meet.wait();
        })
        .unwrap();
    }
    meet.wait();
    exited
}

/// A pool of three with a worker that has handled handles, and goes on until the sender is dropped.
fn with_a_busy_worker<Q: Queue>(
    idle: Idle,
    last: impl FnOnce(Pool<Q>) + Send + 'static,
) -> (Pool<Q>, Receiver<()>, Sender<()>, Receiver<()>) {
    let pool = Pool::<Q>::start(Settings { idle, ..Settings::new(3) });
    let exited = watch(&pool, 3);
    let ((go, wait), (begins, began), own) = (channel::<()>(), channel(), pool.clone());
    pool.execute(move || {
        // The two that are not busy are kept from it.
        ON_EXIT.take();
        drop((own.clone(), own.clone()));
        begins.send(()).unwrap();
        last(own);
        let _ended = wait.recv();
    })
    .unwrap();
    (pool, exited, go, began)
}

fn beside_a_busy_one<Q: Queue>() {
    for idle in [Idle::Park, Idle::NeverPark] {
        let (dropped, is_dropped) = channel::<()>();
        let (pool, exited, go, began) = with_a_busy_worker::<Q>(idle, move |own| drop((own, dropped)));
        began.recv_timeout(WATCHDOG).expect("it begins");
        is_dropped.recv_timeout(WATCHDOG).unwrap_err();
        // Another thread's handle is not the last one.
        let other = pool.clone();
        thread::spawn(move || drop(other)).join().unwrap();
        assert_eq!(
            exited.recv_timeout(Duration::from_millis(20)),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout)
        );
        drop(pool);
        let ended = exited.recv_timeout(WATCHDOG);
        assert_eq!(
            ended,
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected),
            "they stay beside a busy one"
        );
        drop(go);
    }
}

/// Nobody looks at what a busy worker does.
fn dropped_in_a_job<Q: Queue>() {
    let ((drops, wait), (dropped, is_dropped)) = (channel::<()>(), channel::<()>());
    let (pool, exited, go, began) = with_a_busy_worker::<Q>(Idle::Park, move |own| {
        wait.recv().unwrap_err();
        drop((own, dropped));
    });
    began.recv_timeout(WATCHDOG).expect("it begins");
    drop(pool);
    drop(drops);
    is_dropped.recv_timeout(WATCHDOG).unwrap_err();
    let stay = exited.recv_timeout(Duration::from_millis(20));
    assert_eq!(stay, Err(std::sync::mpsc::RecvTimeoutError::Timeout));
    drop(go);
    let ended = exited.recv_timeout(WATCHDOG);
    assert_eq!(ended, Err(std::sync::mpsc::RecvTimeoutError::Disconnected));
}

/// Handles go in circles: from thread to thread, cloned by workers, dropped by others.
fn come_and_go<Q: Queue>() {
    const ROUNDS: usize = if cfg!(debug_assertions) { 2_000 } else { 20_000 };
    let pool = Pool::<Q>::start(Settings::new(2));
    let (done, all) = channel();
    thread::scope(|scope| {
        for _ in 0..2 {
            let (mut pool, done) = (pool.clone(), done.clone());
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    let (own, done, (back, given)) = (pool.clone(), done.clone(), channel());
                    let job = move || {
                        back.send(own.clone()).unwrap();
                        drop(own);
                        done.send(()).unwrap();
                    };
                    pool.execute(job).unwrap();
                    pool = given.recv_timeout(WATCHDOG).expect("the pool has ended with a handle left");
                }
            });
        }
        drop((pool, done));
    });
    assert_eq!(all.iter().count(), 2 * ROUNDS);
}

fn large_job<Q: Queue>() {
    let (pool, go) = occupied::<Q>();
    let inner = pool.clone();
    // It comes from a large stack, and is dropped on one that has no room for it.
    let submits = move || {
        let bytes = [0_u8; 4 << 20];
        let held = OnDrop(move || assert_eq!(bytes[1 << 19], 0));
        inner.execute(move || drop(held)).unwrap();
    };
    thread::Builder::new().stack_size(64 << 20).spawn(submits).unwrap().join().unwrap();
    assert_eq!(pool.shutdown(Duration::ZERO), Err(Busy(1)));
    drop(go);
    pool.shutdown(WATCHDOG).unwrap();
}

fn large_job_that_runs<Q: Queue>() {
    let pool = Pool::<Q>::start(Settings::new(1));
    let (inner, (tells, told)) = (pool.clone(), channel());
    let submits = move || {
        let bytes = [0_u8; 4 << 20];
        inner.execute(move || tells.send(std::hint::black_box(&bytes)[1 << 19]).unwrap()).unwrap();
    };
    thread::Builder::new().stack_size(64 << 20).spawn(submits).unwrap().join().unwrap();
    assert_eq!(told.recv_timeout(WATCHDOG), Ok(0));
    pool.shutdown(WATCHDOG).unwrap();
}

/// Holds a handle, and waits when it is dropped: on a worker whose thread ends.
struct Late<Q: Queue>(Pool<Q>, Receiver<()>, Sender<Result<(), Closed>>);

impl<Q: Queue> Drop for Late<Q> {
    fn drop(&mut self) {
        self.1.recv_timeout(WATCHDOG).unwrap_err();
        self.2.send(self.0.execute(|| ())).unwrap();
    }
}

thread_local! {
    static LATE: std::cell::RefCell<Option<Box<dyn std::any::Any>>> = const { std::cell::RefCell::new(None) };
}

fn late_thread_locals<Q: Queue>() {
    let pool = Pool::<Q>::start(Settings::new(1));
    let ((go, wait), (done, ended), own) = (channel(), channel(), pool.clone());
    let late = Late(own, wait, done);
    let (kept, is_kept) = channel::<()>();
    pool.execute(move || {
        LATE.set(Some(Box::new(late)));
        drop(kept);
    })
    .unwrap();
    is_kept.recv_timeout(WATCHDOG).unwrap_err();
    pool.shutdown(WATCHDOG).unwrap();
    drop((pool, go));
    assert_eq!(ended.recv_timeout(WATCHDOG), Ok(Err(Closed)));
}

/// Where that can be tried: two thousand million forgotten handles, and the next clone would free what is in use.
#[cfg(all(target_pointer_width = "32", not(debug_assertions)))]
#[test]
fn more_handles_than_can_be_counted_end_the_process() {
    let ended = harness::isolated(10 * WATCHDOG, || {
        let pool = Pool::<SharedChannel>::start(Settings::new(1));
        for _ in 0..=u32::MAX / 2 + 1 {
            std::mem::forget(pool.clone());
        }
    });
    assert!(ended.unwrap_err().contains("signal"));
}
