//! What the system refuses. Each test has a process of its own, and so has this file: the stacks of threads that have
//! ended are kept, and would be taken again.

use std::time::{Duration, Instant};

use runtimes_executor::{Runtime, Settings};

const WATCHDOG: Duration = Duration::from_secs(20);

/// So many bytes of addresses for this process.
fn limit_memory(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the call reads what it is given, and nothing else.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
}

/// So many bytes more than this process has.
fn leave_memory(bytes: u64) {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("the size of this process");
    let pages: u64 = pages.split(' ').next().and_then(|size| size.parse().ok()).expect("a number of pages");
    limit_memory(4096 * pages + bytes);
}

/// So many threads has this process.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("the threads of this process").count()
}

/// With a limit on threads, in a process of its own: a call that gets no thread is cancelled, and the runtime goes on.
#[test]
fn a_call_that_gets_no_thread_is_reported_and_disturbs_no_other() {
    let outcome = harness::isolated(WATCHDOG, || {
        let runtime = Runtime::new(Settings::new(1));
        // Room for what is small, and not for the stack of another thread.
        leave_memory(1 << 20);
        let refused = runtime.block_on(runtime.spawn_blocking(|| 1)).is_err();
        limit_memory(libc::RLIM_INFINITY);
        let after = runtime.block_on(runtime.spawn_blocking(|| 2)).ok();
        let task = runtime.block_on(runtime.spawn(async { 3 })).ok();
        (refused, after, task)
    });
    assert_eq!(outcome, Ok((true, Some(2), Some(3))));
}

/// With room for some of its threads, in a process of its own.
#[test]
fn a_runtime_that_gets_too_few_threads_leaves_none() {
    let left = harness::isolated(WATCHDOG, || {
        leave_memory(100 << 20);
        let before = threads();
        assert!(std::panic::catch_unwind(|| Runtime::new(Settings::new(200))).is_err(), "it had all threads");
        // Those that were joined may still be on their way.
        let late = Instant::now() + WATCHDOG / 2;
        while threads() > before && Instant::now() < late {
            std::thread::yield_now();
        }
        threads() - before
    });
    assert_eq!(left, Ok(0));
}
