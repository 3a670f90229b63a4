//! What the system refuses. The only test of its process: the stacks of threads that have ended are kept, and would be
//! taken again.

use std::time::Duration;

use runtimes_executor::{Runtime, Settings};

const WATCHDOG: Duration = Duration::from_secs(20);

/// So many bytes of addresses for this process.
fn limit_memory(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the call reads what it is given, and nothing else.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
}

/// With a limit on threads, in a process of its own: a call that gets no thread is cancelled, and the runtime goes on.
#[test]
fn a_call_that_gets_no_thread_is_reported_and_disturbs_nobody() {
    let outcome = harness::isolated(WATCHDOG, || {
        let runtime = Runtime::new(Settings::new(1));
        let pages = std::fs::read_to_string("/proc/self/statm").expect("the size of this process");
        let pages: u64 =
            pages.split(' ').next().and_then(|size| size.parse().ok()).expect("a number of pages");
        // Room for what is small, and not for the stack of another thread.
        limit_memory(4096 * pages + (1 << 20));
        let refused = runtime.block_on(runtime.spawn_blocking(|| 1)).is_err();
        limit_memory(libc::RLIM_INFINITY);
        let after = runtime.block_on(runtime.spawn_blocking(|| 2)).ok();
        let task = runtime.block_on(runtime.spawn(async { 3 })).ok();
        (refused, after, task)
    });
    assert_eq!(outcome, Ok((true, Some(2), Some(3))));
}
