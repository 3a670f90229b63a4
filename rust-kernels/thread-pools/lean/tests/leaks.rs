//! Nothing is kept after its last use: of a job, however it ends, of a handle and of a pool.

#[path = "../../../live_allocations.rs"]
mod live_allocations;

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use live_allocations::assert_nothing_is_kept;
use thread_pools_lean::{Closed, Forking, Listed, Pool, Queue, Settings, SharedChannel, Stealing};

const WATCHDOG: Duration = Duration::from_secs(60);

/// Jobs that fit into their place and jobs in boxes: run, and all of what they hold dropped.
fn run_all<Q: Queue>(pool: &Pool<Q>, panics: bool) {
    let held = Arc::new(());
    for _ in 0..4 {
        let [small, large] = [(); 2].map(|()| (pool.clone(), Arc::clone(&held)));
        let padding = [1_u64; 8];
        pool.execute(move || {
            let (inner, held) = small;
            inner.execute(move || drop(held)).unwrap();
        })
        .unwrap();
        pool.execute(move || {
            let _held = (large, padding);
            if panics {
                std::panic::resume_unwind(Box::new(1));
            }
        })
        .unwrap();
    }
    while Arc::strong_count(&held) > 1 {
        thread::yield_now();
    }
}

fn keeps_nothing<Q: Queue>() {
    let pool = Pool::<Q>::start(Settings::new(2));
    assert_nothing_is_kept("jobs", || run_all(&pool, false));
    assert_nothing_is_kept("jobs that panic", || run_all(&pool, true));
    pool.shutdown(WATCHDOG).unwrap();
    assert_nothing_is_kept("jobs that are refused", || {
        let held = [Box::new(1), Box::new(2)];
        assert_eq!(pool.execute(move || drop(held)), Err(Closed));
    });
}

/// With the shared channel: what deques were made of, crossbeam frees late, many of them together.
fn pools_keep_nothing() {
    type Pool = thread_pools_lean::Pool<SharedChannel>;
    assert_nothing_is_kept("a pool that is dropped", || {
        let pool = Pool::start(Settings::new(2));
        let (inner, (done, ended)) = (pool.clone(), channel::<()>());
        pool.execute(move || inner.execute(move || drop(done)).unwrap()).unwrap();
        drop(pool);
        ended.recv_timeout(WATCHDOG).unwrap_err();
    });
    assert_nothing_is_kept("a pool that is shut down with queued jobs that hold it", || {
        let pool = Pool::start(Settings::new(1));
        let ((begun, begins), (go, wait)) = (channel(), channel::<()>());
        pool.execute(move || {
            begun.send(()).unwrap();
            assert!(wait.recv().is_err());
        })
        .unwrap();
        begins.recv().unwrap(); // a job that still waits in the queue would be dropped
        for _ in 0..3 {
            let held = (pool.clone(), Box::new([1_u64; 8]));
            pool.execute(move || drop(held)).unwrap();
        }
        assert!(pool.shutdown(Duration::ZERO).is_err());
        drop(go);
        pool.shutdown(WATCHDOG).unwrap();
    });
}

fn joins_keep_nothing() {
    let pool = Pool::<Forking<Listed>>::start(Settings::new(2));
    let both = |panics: bool| {
        let half = || {
            let result = pool.join(|| Box::new(1), || Box::new(2));
            if panics {
                std::panic::resume_unwind(result.0);
            }
            result
        };
        let joined = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| pool.join(half, half)));
        assert_eq!(joined.is_err(), panics);
    };
    assert_nothing_is_kept("halves", || both(false));
    assert_nothing_is_kept("halves that panic", || both(true));
    pool.shutdown(WATCHDOG).unwrap();
    assert_nothing_is_kept("halves after the end", || both(false));
}

#[test]
fn a_thousand_rounds_leave_nothing_behind() {
    keeps_nothing::<SharedChannel>();
    keeps_nothing::<Stealing>();
    joins_keep_nothing();
    pools_keep_nothing();
}
