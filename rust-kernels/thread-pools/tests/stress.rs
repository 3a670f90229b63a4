//! Ten million jobs, each exactly once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use thread_pools::{
    Blocking, Futures, OriginalCbcp, OriginalCbwp, OriginalCounting, OriginalNeverParking,
    OriginalPinnedCbcp, OriginalPinnedCbwp, OriginalTp, Rayon,
};
use thread_pools_described::{DescribedCbcp, DescribedCbwp, Subject, Tp};
use thread_pools_lean::{Ours, SharedChannel, Stealing};

/// Far longer than anything here takes, but for what is lost.
const WATCHDOG: Duration = Duration::from_secs(120);

/// Jobs of a pool of ours; of one of others a tenth.
const JOBS: usize = 10_000_000;

/// Of every eight jobs one comes from outside and submits the other seven, one by one.
const CHAIN: usize = 8;

/// Runs `jobs` jobs and looks how often each of them was run.
fn each_once<P: Subject + Sync>(name: &str, jobs: usize) {
    let pool = P::make(4);
    let observed: Arc<Vec<AtomicU8>> = Arc::new((0..jobs).map(|_| AtomicU8::new(0)).collect());
    let missing = Arc::new(AtomicU64::new(jobs as u64));
    let (done, ended) = channel();
    std::thread::scope(|scope| {
        for half in 0..2 {
            let (pool, observed, missing, done) = (pool.clone(), &observed, &missing, done.clone());
            scope.spawn(move || {
                for first in (half * CHAIN..jobs).step_by(2 * CHAIN) {
                    let link = Link {
                        pool: pool.clone(),
                        observed: observed.clone(),
                        missing: missing.clone(),
                        done: done.clone(),
                    };
                    pool.execute(move || link.run(first, first + CHAIN));
                }
            });
        }
    });
    let end = ended.recv_timeout(WATCHDOG);
    assert!(end.is_ok(), "{name}: {} of {jobs} jobs were lost", missing.load(Ordering::SeqCst));
    let wrong = observed.iter().filter(|times| times.load(Ordering::SeqCst) != 1).count();
    assert_eq!(wrong, 0, "{name}: so many jobs were not run exactly once");
    pool.end();
}

struct Link<P> {
    pool: P,
    observed: Arc<Vec<AtomicU8>>,
    missing: Arc<AtomicU64>,
    done: std::sync::mpsc::Sender<()>,
}

impl<P: Subject> Link<P> {
    fn run(self, job: usize, end: usize) {
        self.observed[job].fetch_add(1, Ordering::Relaxed);
        if self.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.done.send(()).unwrap();
        }
        if job + 1 < end {
            self.pool.clone().execute(move || self.run(job + 1, end));
        }
    }
}

#[test]
fn ten_million_jobs_are_each_run_once_by_the_shared_channel() {
    each_once::<Ours<SharedChannel>>("lean CBCP", JOBS);
    each_once::<DescribedCbcp>("CBCP", JOBS / 2);
}

#[test]
fn ten_million_jobs_are_each_run_once_by_work_stealing() {
    each_once::<Ours<Stealing>>("lean CBWP", JOBS);
    each_once::<Ours<Stealing, false>>("lean CBWP (ws-no-park)", JOBS);
    each_once::<Ours<Stealing, true, false>>("lean CBWP, counting", JOBS);
    each_once::<DescribedCbwp>("CBWP", JOBS / 2);
    each_once::<DescribedCbwp<false>>("CBWP (ws-no-park)", JOBS / 2);
    each_once::<DescribedCbwp<true, false>>("CBWP (no ws-timed-fairness)", JOBS / 2);
}

#[test]
fn ten_million_jobs_are_each_run_once_by_the_plain_pool() {
    each_once::<Tp>("TP", JOBS);
}

#[test]
fn the_others_run_each_job_once_too() {
    each_once::<OriginalTp>("executors TP", JOBS / 10);
    each_once::<OriginalCbcp>("executors CBCP", JOBS / 10);
    each_once::<OriginalCbwp>("executors CBWP", JOBS / 10);
    each_once::<OriginalNeverParking>("executors CBWP (ws-no-park)", JOBS / 10);
    each_once::<OriginalCounting>("executors CBWP (no ws-timed-fairness)", JOBS / 10);
    each_once::<OriginalPinnedCbcp>("executors CBCP (pinned)", JOBS / 10);
    each_once::<OriginalPinnedCbwp>("executors CBWP (pinned)", JOBS / 10);
    each_once::<Rayon>("rayon", JOBS / 10);
    each_once::<Futures>("futures", JOBS / 10);
    each_once::<Blocking>("tokio", JOBS / 10);
}
