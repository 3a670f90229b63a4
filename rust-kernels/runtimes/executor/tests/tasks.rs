//! What the executor promises about tasks: each runs to its end, or is dropped with the runtime, exactly once.

use std::future::{Future, pending, poll_fn};
use std::panic::catch_unwind;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

mod common;

use common::{Place, block_on, yield_now};
use runtimes_executor::{JoinError, Runtime, Settings, sleep, spawn, spawn_blocking, timeout};

/// All combinations of what can be switched, on one worker and on several.
fn settings() -> impl Iterator<Item = Settings> {
    [1, 2, 4].into_iter().flat_map(|workers| {
        let all = Settings::new(workers);
        [
            all,
            Settings { takes_core: false, ..all },
            Settings { lifo: false, ..all },
            Settings { searches: 0, ..all },
            Settings { awake: workers, ..all },
        ]
    })
}

/// Counts how often it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn outputs_reach_their_handles() {
    for settings in settings() {
        let runtime = Runtime::new(settings);
        let sum = runtime.block_on(async {
            let tasks: Vec<_> = (0..500_u32)
                .map(|number| {
                    spawn(async move {
                        yield_now().await;
                        spawn(async move { number }).await.unwrap()
                    })
                })
                .collect();
            let mut sum = 0;
            for task in tasks {
                sum += task.await.unwrap();
            }
            sum
        });
        assert_eq!(sum, 500 * 499 / 2, "{settings:?}");
    }
}

#[test]
fn a_task_from_outside_can_be_waited_for_from_anywhere() {
    for settings in settings() {
        let runtime = Runtime::new(settings);
        let (sender, receiver) = mpsc::channel();
        let task = runtime.spawn(async move {
            yield_now().await;
            sender.send(1).unwrap();
            2
        });
        assert_eq!(receiver.recv(), Ok(1));
        assert_eq!(runtime.block_on(task).unwrap(), 2);
    }
}

#[test]
fn a_panic_reaches_the_join_handle_alone() {
    for settings in settings() {
        let runtime = Runtime::new(settings);
        runtime.block_on(async {
            let first = spawn(async {
                yield_now().await;
                std::panic::panic_any(7_u32);
            });
            let second = spawn(async { "fine" });
            let Err(JoinError::Panicked(payload)) = first.await else { panic!("it did not panic") };
            assert_eq!(payload.downcast_ref(), Some(&7_u32));
            assert_eq!(second.await.unwrap(), "fine");
            let Err(JoinError::Panicked(_)) = spawn_blocking(|| panic!("blocking")).await else {
                panic!("it did not panic")
            };
        });
    }
}

#[test]
fn a_panic_of_the_root_leaves_the_runtime_in_order() {
    let runtime = Runtime::new(Settings::new(1));
    let root = || runtime.block_on(async { panic!("the root") });
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(root)).is_err());
    assert_eq!(runtime.block_on(async { spawn(async { 1 }).await.unwrap() }), 1);
}

#[test]
fn a_destructor_that_panics_is_an_error_of_its_task() {
    struct Unruly;
    impl Drop for Unruly {
        fn drop(&mut self) {
            panic!("unruly");
        }
    }
    let runtime = Runtime::new(Settings::new(2));
    let unruly = Unruly;
    let task = runtime.spawn(poll_fn(move |_| {
        let _held = &unruly;
        Poll::Ready(())
    }));
    assert!(matches!(runtime.block_on(task), Err(JoinError::Panicked(_))));
}

#[test]
fn a_dropped_handle_lets_the_task_run_on() {
    for settings in settings() {
        let runtime = Runtime::new(settings);
        let (sender, receiver) = mpsc::channel();
        for number in 0..100 {
            let sender = sender.clone();
            drop(runtime.spawn(async move {
                yield_now().await;
                sender.send(number).unwrap();
                Counted(Arc::default())
            }));
        }
        let mut numbers: Vec<i32> = receiver.into_iter().take(100).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..100).collect::<Vec<_>>());
    }
}

/// Tasks in every state there is: never polled, asleep, asleep and woken by one another's destructor, yielding for
/// ever, done with and without a handle, waiting for a blocking call.
#[test]
fn dropping_the_runtime_drops_every_task_exactly_once() {
    for settings in settings() {
        let drops = Arc::new(AtomicUsize::new(0));
        let counted = || Counted(Arc::clone(&drops));
        let runtime = Runtime::new(settings);
        let mut handles = vec![];
        for _ in 0..50 {
            let (asleep, restless, done, chained) = (counted(), counted(), counted(), counted());
            handles.push(runtime.spawn(async move {
                let _held = asleep;
                pending().await
            }));
            handles.push(runtime.spawn(async move {
                let _held = restless;
                loop {
                    yield_now().await;
                }
            }));
            handles.push(runtime.spawn(async move { drop(done) }));
            drop(runtime.spawn(async move {
                let _held = chained;
                // Its waker is in itself: no other place knows it.
                let mut own: Option<Waker> = None;
                poll_fn(|context| {
                    own = Some(context.waker().clone());
                    Poll::<()>::Pending
                })
                .await;
            }));
        }
        drop(runtime);
        assert_eq!(drops.load(Ordering::SeqCst), 200, "{settings:?}");
        // Handles that outlive the runtime know how it ended.
        for handle in handles {
            let ended = Pin::new(&mut { handle }).poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(ended, Poll::Ready(Ok(()) | Err(JoinError::Cancelled))));
        }
        assert_eq!(drops.load(Ordering::SeqCst), 200, "{settings:?}");
    }
}

#[test]
fn a_waker_may_outlive_the_runtime() {
    let stored = Arc::new(Mutex::new(None));
    let runtime = Runtime::new(Settings::new(2));
    let keep = Arc::clone(&stored);
    let task = runtime.spawn(poll_fn(move |context| {
        *keep.lock().unwrap() = Some(context.waker().clone());
        Poll::<()>::Pending
    }));
    while stored.lock().unwrap().is_none() {
        thread::yield_now();
    }
    drop(runtime);
    let waker = stored.lock().unwrap().take().unwrap();
    waker.wake_by_ref();
    drop(waker.clone());
    waker.wake();
    drop(task);
}

#[test]
fn wakes_from_outside_during_the_shutdown_do_no_harm() {
    for _ in 0..50 {
        let drops = Arc::new(AtomicUsize::new(0));
        let wakers: Arc<Mutex<Vec<Waker>>> = Arc::default();
        let runtime = Runtime::new(Settings::new(2));
        for _ in 0..20 {
            let (held, wakers) = (Counted(Arc::clone(&drops)), Arc::clone(&wakers));
            runtime.spawn(poll_fn(move |context| {
                let _held = &held;
                wakers.lock().unwrap().push(context.waker().clone());
                Poll::<()>::Pending
            }));
        }
        let waking = thread::spawn(move || {
            for _ in 0..200 {
                let all = std::mem::take(&mut *wakers.lock().unwrap());
                all.into_iter().for_each(Waker::wake);
            }
        });
        drop(runtime);
        waking.join().unwrap();
        assert_eq!(drops.load(Ordering::SeqCst), 20);
    }
}

#[test]
fn all_blocking_calls_block_at_once() {
    const CALLS: usize = 50;
    for settings in settings() {
        let runtime = Runtime::new(settings);
        let barrier = Arc::new(std::sync::Barrier::new(CALLS));
        let call = |_| {
            let barrier = Arc::clone(&barrier);
            runtime.spawn_blocking(move || barrier.wait().is_leader())
        };
        let calls: Vec<_> = (0..CALLS).map(call).collect();
        runtime.block_on(async {
            for call in calls {
                call.await.unwrap();
            }
        });
    }
}

#[test]
fn blocking_calls_that_have_not_begun_are_dropped_with_the_runtime() {
    let drops = Arc::new(AtomicUsize::new(0));
    let runtime = Runtime::new(Settings::new(1));
    for _ in 0..1000 {
        let held = Counted(Arc::clone(&drops));
        runtime.spawn_blocking(move || drop(held));
    }
    drop(runtime);
    assert_eq!(drops.load(Ordering::SeqCst), 1000);
}

#[test]
fn a_blocking_call_may_spawn() {
    let runtime = Runtime::new(Settings::new(1));
    let task = runtime.block_on(runtime.spawn_blocking(|| spawn(async { 3 }))).unwrap();
    assert_eq!(runtime.block_on(task).unwrap(), 3);
}

#[test]
fn timers_fire_and_never_early() {
    for settings in settings() {
        let runtime = Runtime::new(settings);
        let order = Arc::new(Mutex::new(vec![]));
        let nap = |milliseconds: u64| {
            let order = Arc::clone(&order);
            async move {
                let (start, length) = (Instant::now(), Duration::from_millis(milliseconds));
                sleep(length).await;
                assert!(start.elapsed() >= length);
                order.lock().unwrap().push(milliseconds);
            }
        };
        let tasks: Vec<_> = [60, 20, 40].into_iter().map(|length| runtime.spawn(nap(length))).collect();
        runtime.block_on(async {
            for task in tasks {
                task.await.unwrap();
            }
            nap(5).await;
        });
        let mut fired = order.lock().unwrap().clone();
        assert_eq!(fired.pop(), Some(5), "the last one to begin");
        fired.sort_unstable();
        assert_eq!(fired, [20, 40, 60], "{settings:?}");
    }
}

#[test]
fn timers_fire_although_the_seat_changes_hands_and_others_keep_it_busy() {
    let runtime = Runtime::new(Settings::new(1));
    let busy = runtime.spawn(async {
        loop {
            yield_now().await;
        }
    });
    let nap = runtime.spawn(async { sleep(Duration::from_millis(10)).await });
    for _ in 0..20 {
        runtime.block_on(async { sleep(Duration::from_millis(1)).await });
    }
    runtime.block_on(nap).unwrap();
    drop(runtime);
    drop(busy);
}

#[test]
fn on_a_thread_without_a_runtime_nothing_is_spawned_and_no_sleep_waits() {
    let panics = |work: fn()| catch_unwind(work).is_err();
    assert!(panics(|| drop(spawn(async {}))));
    assert!(panics(|| drop(spawn_blocking(|| ()))));
    assert!(panics(|| block_on(sleep(Duration::from_secs(1)))));
    block_on(sleep(Duration::ZERO));
}

#[test]
fn a_timeout_is_what_comes_first() {
    let runtime = Runtime::new(Settings::new(2));
    runtime.block_on(async {
        assert_eq!(timeout(Duration::from_secs(60), async { 1 }).await, Some(1));
        assert_eq!(timeout(Duration::from_millis(1), pending::<()>()).await, None);
        let slow = timeout(Duration::from_millis(1), sleep(Duration::from_secs(60)));
        assert_eq!(spawn(slow).await.unwrap(), None);
    });
}

#[test]
fn a_task_that_spawns_its_successor_for_ever_keeps_no_other_waiting() {
    fn again() {
        spawn(async { again() });
    }
    for settings in settings() {
        let runtime = Runtime::new(settings);
        runtime.spawn(async { again() });
        for _ in 0..10 {
            runtime.block_on(async { spawn(yield_now()).await.unwrap() });
            let (sender, receiver) = mpsc::channel();
            runtime.spawn(async move { sender.send(()).unwrap() });
            receiver.recv().unwrap();
        }
    }
}

#[test]
fn two_tasks_that_wake_each_other_for_ever_keep_no_other_waiting() {
    let runtime = Runtime::new(Settings { awake: 1, ..Settings::new(1) });
    let places: [Arc<Place>; 2] = Default::default();
    for mine in 0..2 {
        let [mine, other] = [mine, 1 - mine].map(|index| Arc::clone(&places[index]));
        runtime.spawn(async move {
            loop {
                other.put();
                mine.take().await;
            }
        });
    }
    for _ in 0..10 {
        let (sender, receiver) = mpsc::channel();
        runtime.spawn(async move { sender.send(()).unwrap() });
        receiver.recv().unwrap();
    }
}

/// It is woken by each of them.
#[test]
fn a_root_that_joins_a_thousand_tasks_is_not_polled_for_each() {
    let runtime = Runtime::new(Settings::new(1));
    let mut polls = 0;
    let mut root = Box::pin(async {
        let tasks: Vec<_> = (0..1000).map(|_| spawn(async {})).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    runtime.block_on(poll_fn(|context| {
        polls += 1;
        root.as_mut().poll(context)
    }));
    assert!(polls < 100, "{polls}");
}

/// Its tasks always have something to do.
#[test]
fn a_root_has_its_turn_beside_tasks_that_never_end() {
    for settings in settings() {
        let runtime = Runtime::new(settings);
        runtime.block_on(async {
            for _ in 0..10 {
                drop(spawn(async {
                    loop {
                        yield_now().await;
                    }
                }));
            }
            for _ in 0..100 {
                yield_now().await;
            }
        });
    }
}

#[test]
fn a_task_from_outside_has_its_turn_beside_more_than_a_deque_has_room_for() {
    // Of batches of the injector, which have 32 tasks or 31, the same ones could come back for ever.
    for others in [5000, 5040] {
        let runtime = Runtime::new(Settings::new(1));
        for _ in 0..others {
            drop(runtime.spawn(async {
                loop {
                    yield_now().await;
                }
            }));
        }
        let (sender, receiver) = mpsc::channel();
        drop(runtime.spawn(async move { sender.send(()).unwrap() }));
        assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok(()));
    }
}

/// The tasks of a caller who has left are not left behind.
#[test]
fn what_the_root_leaves_behind_is_run() {
    for settings in settings() {
        let runtime = Runtime::new(settings);
        let (sender, receiver) = mpsc::channel();
        runtime.block_on(async {
            for _ in 0..10 {
                let sender = sender.clone();
                spawn(async move { sender.send(()).unwrap() });
            }
        });
        for _ in 0..10 {
            receiver.recv().unwrap();
        }
    }
}

/// More callers than seats, and a caller within a task.
#[test]
fn many_may_call_block_on_at_once() {
    for settings in settings() {
        let runtime = Runtime::new(settings);
        thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    for number in 0..50 {
                        let task = async move {
                            yield_now().await;
                            number
                        };
                        assert_eq!(runtime.block_on(async { spawn(task).await.unwrap() }), number);
                    }
                });
            }
        });
        let task = runtime.spawn(async { 1 });
        assert_eq!(runtime.block_on(async { runtime.block_on(task).unwrap() }), 1);
    }
}
