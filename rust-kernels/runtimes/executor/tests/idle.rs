//! No task waits for a thread that does something else while another one is free.

mod common;

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use common::yield_now;
use runtimes_executor::{Runtime, Settings, sleep, spawn};

/// Far longer than anything here takes, but for what is lost.
const WATCHDOG: Duration = Duration::from_secs(20);

/// A thread outside spawns a task and then wakes the root, at a moment that differs from round to round; the root, once
/// it is polled, blocks until that task has run. Who looked for work for the root's seat meanwhile, and stops for its
/// wake, must not leave the task where it is.
#[test]
fn a_task_from_outside_does_not_wait_for_the_poll_of_the_root() {
    const ROUNDS: usize = if cfg!(debug_assertions) { 5_000 } else { 50_000 };
    for workers in [2, 4] {
        let runtime = Arc::new(Runtime::new(Settings::new(workers)));
        let root: Arc<Mutex<Option<Waker>>> = Arc::default();
        let (begun, end) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (ran, seen) = channel();
        let outside = thread::spawn({
            let (runtime, root, begun, end) = (runtime.clone(), root.clone(), begun.clone(), end.clone());
            move || {
                let mut round = 0;
                while !end.load(Ordering::SeqCst) {
                    let Some(waker) = root.lock().unwrap().take() else {
                        thread::yield_now();
                        continue;
                    };
                    round += 1;
                    (0..round * 7 % 400).for_each(|_| std::hint::spin_loop());
                    let ran = ran.clone();
                    drop(runtime.spawn(async move { ran.send(round).unwrap() }));
                    begun.store(round, Ordering::SeqCst);
                    waker.wake();
                }
            }
        });
        runtime.block_on(async {
            for round in 1..=ROUNDS {
                poll_fn(|context| {
                    if begun.load(Ordering::SeqCst) < round {
                        *root.lock().unwrap() = Some(context.waker().clone());
                    }
                    if begun.load(Ordering::SeqCst) < round { Poll::Pending } else { Poll::Ready(()) }
                })
                .await;
                let task = seen.recv_timeout(WATCHDOG);
                assert_eq!(task, Ok(round), "with {workers} workers the task waited for the root");
            }
        });
        end.store(true, Ordering::SeqCst);
        outside.join().unwrap();
    }
}

/// A worker whose tasks never end hands its seat, the only one, over to the caller, who from then on runs what it
/// awaits without another thread.
#[test]
fn a_busy_worker_hands_its_seat_over() {
    let runtime = Runtime::new(Settings::new(1));
    let (begun, end) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let busy = runtime.spawn({
        let (begun, end) = (begun.clone(), end.clone());
        async move {
            while !end.load(Ordering::SeqCst) {
                begun.store(true, Ordering::SeqCst);
                yield_now().await;
            }
        }
    });
    while !begun.load(Ordering::SeqCst) {
        thread::yield_now();
    }
    let caller = thread::current().id();
    let since = Instant::now();
    runtime.block_on(async {
        while spawn(async { thread::current().id() }).await.unwrap() != caller {
            assert!(since.elapsed() < WATCHDOG, "the worker kept its seat");
        }
    });
    // And the worker takes it again when the caller has left.
    end.store(true, Ordering::SeqCst);
    runtime.block_on(busy).unwrap();
}

/// A search may be set to last for minutes, in order not to rest. It is over when there is something to do.
#[test]
fn timers_fire_although_their_worker_searches() {
    for takes_core in [true, false] {
        common::in_time("a sleep", move || {
            let runtime = Runtime::new(Settings { searches: u32::MAX, takes_core, ..Settings::new(2) });
            for _ in 0..3 {
                runtime.block_on(async { spawn(sleep(Duration::from_millis(5))).await.unwrap() });
                runtime.block_on(sleep(Duration::from_millis(5)));
            }
        });
    }
}

/// A sleep may be moved after it was polled: it is `Unpin`.
#[test]
fn a_sleep_that_was_moved_is_forgotten_when_it_is_dropped() {
    let runtime = Runtime::new(Settings::new(1));
    runtime.block_on(async {
        let woken = Arc::new(Count::default());
        let waker = Waker::from(woken.clone());
        let mut first = sleep(Duration::from_millis(20));
        assert!(std::pin::Pin::new(&mut first).poll(&mut Context::from_waker(&waker)).is_pending());
        let moved = Box::new(first);
        drop(moved);
        // The place of the first one, with another waker: what it enters is its own.
        let mut second = sleep(Duration::from_millis(20));
        assert!(std::pin::Pin::new(&mut second).poll(&mut Context::from_waker(&waker)).is_pending());
        let third = second;
        sleep(Duration::from_millis(60)).await;
        assert_eq!(woken.0.load(Ordering::SeqCst), 1, "the first is forgotten, the second is not");
        drop(third);
    });
}

#[derive(Default)]
struct Count(AtomicUsize);

impl std::task::Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}
