//! What the system refuses. The only test of its process: the stacks of threads that have ended are kept, and would be
//! taken again.

use std::time::{Duration, Instant};

use thread_pools_lean::{Cbcp, Cbwp, Settings};

const WATCHDOG: Duration = Duration::from_secs(60);

/// So many threads has this process.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("the threads of this process").count()
}

/// With room for some threads, in a process of its own.
#[test]
fn a_pool_that_gets_too_few_threads_leaves_none() {
    let starts: [fn(); 2] =
        [|| drop(Cbcp::start(Settings::new(200))), || drop(Cbwp::start(Settings::new(200)))];
    for start in starts {
        let left = harness::isolated(WATCHDOG, || {
            let pages = std::fs::read_to_string("/proc/self/statm").expect("the size of this process");
            let pages: u64 =
                pages.split(' ').next().and_then(|size| size.parse().ok()).expect("a number of pages");
            let limit = libc::rlimit { rlim_cur: 4096 * pages + (100 << 20), rlim_max: libc::RLIM_INFINITY };
            // SAFETY: the call reads what it is given, and nothing else.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
            let before = threads();
            assert!(std::panic::catch_unwind(start).is_err(), "it had all threads");
            // Those that have said that they are done may still be on their way.
            let late = Instant::now() + WATCHDOG / 2;
            while threads() > before && Instant::now() < late {
                std::thread::yield_now();
            }
            threads() - before
        });
        assert_eq!(left, Ok(0));
    }
}
