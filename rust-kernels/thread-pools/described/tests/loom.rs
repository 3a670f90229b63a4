//! The parking of workers as it is described, in every order in which threads can meet.
//!
//! `RUSTFLAGS="--cfg under_loom" cargo test -p thread-pools-described --test loom --release`; without `--cfg under_loom`
//! there is nothing here. A lost wake shows as a deadlock.
#![cfg(under_loom)]

use sync::loom;
use sync::loom::sync::Arc;
use sync::loom::sync::atomic::{AtomicUsize, Ordering};
use sync::loom::thread;
use thread_pools_described::{Parked, Parker};

#[test]
fn a_worker_that_parks_as_described_sleeps_through_no_job() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let (parker, job) = (Arc::new(Parker::new(1)), Arc::new(AtomicUsize::new(0)));
        let worker = {
            let (parker, job) = (parker.clone(), job.clone());
            thread::spawn(move || {
                loop {
                    if job.load(Ordering::Relaxed) > 0 {
                        return;
                    }
                    parker.prepare_park(0);
                    if job.load(Ordering::Relaxed) > 0 {
                        return parker.abort_park(0);
                    }
                    while parker.park(0) == Parked::Retry {
                        thread::yield_now();
                    }
                }
            })
        };
        job.store(1, Ordering::Relaxed);
        parker.unpark_one();
        worker.join().unwrap();
    });
}
