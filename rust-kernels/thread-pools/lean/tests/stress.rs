//! A hundred thousand jobs for workers that sleep.

use std::sync::mpsc::channel;
use std::time::Duration;

use thread_pools_lean::{Idle, Pool, Queue, Settings, SharedChannel, Stealing};

/// Far longer than anything here takes, but for what is lost.
const WATCHDOG: Duration = Duration::from_secs(120);

/// Single submissions.
const SINGLE: usize = 100_000;

/// Submits one job after another; `before` says when, given the pool and the number of the job.
fn one_by_one<Q: Queue>(settings: Settings, before: impl Fn(&Pool<Q>, usize)) {
    let pool = Pool::<Q>::start(settings);
    let (done, ran) = channel();
    for job in 0..SINGLE {
        before(&pool, job);
        let done = done.clone();
        pool.execute(move || done.send(job).unwrap()).unwrap();
        assert_eq!(ran.recv_timeout(WATCHDOG), Ok(job), "the wake for this job was lost");
    }
    pool.shutdown(WATCHDOG).unwrap();
}

fn all_asleep<Q: Queue>(pool: &Pool<Q>, workers: usize) {
    while pool.sleeping() < workers {
        std::thread::yield_now();
    }
}

#[test]
fn a_pool_that_sleeps_wakes_for_every_job() {
    one_by_one::<SharedChannel>(Settings::new(2), |pool, _| all_asleep(pool, 2));
    one_by_one::<Stealing>(Settings::new(2), |pool, _| all_asleep(pool, 2));
}

/// The moments between are where a wake could be lost, so each job comes a little later than the one before.
#[test]
fn a_pool_that_is_about_to_sleep_wakes_for_every_job() {
    let a_little_later = |job: usize| (0..job % 2_000).for_each(|_| std::hint::spin_loop());
    for idle in [Idle::Park, Idle::NeverPark] {
        let settings = Settings { idle, ..Settings::new(2) };
        one_by_one::<SharedChannel>(settings, |_, job| a_little_later(job));
        one_by_one::<Stealing>(settings, |_, job| a_little_later(job));
    }
}
