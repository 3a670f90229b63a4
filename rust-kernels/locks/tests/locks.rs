//! Every lock lets one in at a time and loses nothing, whoever gives up; one that does not is found out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use locks::{
    ACROSS, Actor, Channel, Elsewhere, Load, Lock, NoLock, SHORT, SmolMutex, SmolPermits, StdMutex,
    TokioMutex, TokioPermits, TokioRead, Yielding, bystander, counted, driven, give_up, given_up, rows,
};

/// Two threads, so often that they meet.
const MEETING: Load = Load { tasks: 2, threads: 2, times: 20_000 };

#[test]
fn two_threads_never_have_a_lock_at_once() {
    fn meet<L: Lock>() {
        driven::<L>(&MEETING.runtime(), MEETING, 1, None);
    }
    meet::<StdMutex>();
    meet::<TokioMutex>();
    meet::<Yielding<TokioMutex>>();
    meet::<SmolMutex>();
    meet::<Yielding<SmolMutex>>();
    meet::<Yielding<Channel>>();
    meet::<Yielding<Actor>>();
    meet::<TokioRead>();
    meet::<Yielding<TokioPermits>>();
    meet::<Yielding<SmolPermits>>();
    meet::<Elsewhere>();
}

/// Reads and writes without a lock.
struct Broken(AtomicU64);

impl Lock for Broken {
    const NAME: &'static str = "broken";

    fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    async fn add(&self) -> u64 {
        let seen = self.0.load(Ordering::Relaxed) + 1;
        tokio::task::yield_now().await;
        self.0.store(seen, Ordering::Relaxed);
        seen
    }
}

#[test]
fn a_lock_that_lets_two_in_is_found_out() {
    let load = Load { threads: 1, ..MEETING };
    let broken = || driven::<Broken>(&load.runtime(), load, 1, None);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(broken)).is_err());
    let alone = Load { tasks: 1, ..load };
    driven::<Broken>(&alone.runtime(), alone, 1, None);
}

#[test]
fn who_waits_for_a_tokio_mutex_is_polled_once_in_vain_and_woken_once() {
    let load = Load { times: 100, ..Load::new(2, 1) };
    let [alone, both] = [Load { tasks: 1, ..load }, load].map(counted::<Yielding<TokioMutex>>);
    // A yield each, and the poll that begins.
    assert_eq!((alone["polls"], alone["wakes"]), (101, 100));
    assert!((both["polls"]).abs_diff(4 * 100) <= 4 && both["polls"] - 2 == both["wakes"], "{both:?}");
}

#[test]
fn a_task_whose_budget_is_used_up_yields_with_a_tokio_mutex_in_its_hand_and_the_others_queue() {
    let polls = |times| counted::<TokioMutex>(Load { times, ..Load::new(100, 1) })["polls"];
    assert_eq!(polls(128), 100);
    assert!(polls(129) > 100 * 128);
    assert_eq!(counted::<SmolMutex>(Load { times: 129, ..Load::new(100, 1) })["polls"], 100);
}

#[test]
fn nothing_is_lost_by_who_gives_up_and_the_order_is_kept() {
    // Three ask again or wait; the first of them has given up.
    for woken in [false, true] {
        assert_eq!(give_up::<TokioMutex>(woken), [3, 3, 0, 1]);
    }
    assert_eq!(give_up::<SmolMutex>(false), [3, 3, 0, 1]);
    assert_eq!(give_up::<SmolMutex>(true), [3, 2, 1, 1]);
    for (name, count, expected) in given_up() {
        assert_eq!(count(), expected, "{name}");
    }
}

#[test]
fn a_blocking_lock_keeps_the_bystander_waiting_and_an_async_one_does_not() {
    let hold = Duration::from_millis(50);
    assert!(bystander::<StdMutex>(hold).1);
    assert!(!bystander::<TokioMutex>(hold).1 && !bystander::<Elsewhere>(hold).1);
}

#[test]
fn what_is_guarded_is_shared_by_all_tasks() {
    let (runtime, lock) = (Load::new(1, 1).runtime(), Arc::new(NoLock::new()));
    let seen = runtime.block_on(async { [lock.add().await, lock.add().await] });
    assert_eq!(seen, [1, 2]);
    let benches: Vec<_> = rows().iter().map(|row| row.key.bench.clone()).collect();
    assert!([SHORT, ACROSS].iter().all(|bench| benches.iter().any(|of| of == bench)));
}
