//! What the pools as described promise besides running jobs.

use std::sync::mpsc::channel;
use std::time::Duration;

use thread_pools_described::{DescribedCbcp, DescribedCbwp, Subject};

/// Far longer than anything here takes, but for what is lost.
const WATCHDOG: Duration = Duration::from_secs(60);

/// A pool as described goes on after jobs that panic, each of which ends its worker.
fn replaced<P: Subject>() {
    let pool = P::make(2);
    let (done, all) = channel();
    for job in 0..40 {
        let done = done.clone();
        pool.execute(move || {
            if job % 2 == 0 {
                std::panic::resume_unwind(Box::new("on purpose"));
            }
            done.send(job).unwrap();
        });
    }
    let mut seen: Vec<i32> = (0..20).map(|_| all.recv_timeout(WATCHDOG).expect("a job is lost")).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..40).filter(|job| job % 2 == 1).collect::<Vec<_>>());
    pool.end();
}

#[test]
fn pools_as_described_replace_workers_whose_job_panics() {
    replaced::<DescribedCbcp>();
    // With work stealing, what lay in the deque of such a worker is lost with it: so it is described. One job at a time
    // leaves none there.
    let pool = DescribedCbwp::<true, true>::make(1);
    let (done, ran) = channel();
    for job in 0..20 {
        let (fails, done) = (channel::<()>(), done.clone());
        pool.execute(move || {
            let _told = fails.0;
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        assert!(fails.1.recv().is_err(), "it has panicked");
        pool.execute(move || done.send(job).unwrap());
        assert_eq!(ran.recv_timeout(WATCHDOG), Ok(job));
    }
    pool.end();
}

#[test]
fn a_pinned_worker_may_run_on_one_processor_only() {
    fn allowed<P: Subject>() -> usize {
        let (pool, (sender, begun)) = (P::make(1), channel());
        pool.execute(move || sender.send(core_affinity::get_core_ids().unwrap().len()).unwrap());
        let allowed = begun.recv_timeout(WATCHDOG).unwrap();
        pool.end();
        allowed
    }
    let all = core_affinity::get_core_ids().unwrap().len();
    assert_eq!([allowed::<DescribedCbcp<true>>(), allowed::<DescribedCbwp<true, true, true>>()], [1, 1]);
    assert_eq!([allowed::<DescribedCbcp>(), allowed::<DescribedCbwp>()], [all, all]);
}
