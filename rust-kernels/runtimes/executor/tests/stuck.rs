//! A thread that blocks keeps nothing from the others: a root or a caller may wait for what it has spawned, and a
//! task if another worker is free.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use common::{Place, block_on, in_time, yield_now};
use runtimes_executor::{Runtime, Settings, sleep, spawn, timeout};

/// With so many workers at least: all awake, one of them, and without each decision that concerns what is spawned.
fn settings(least: usize) -> impl Iterator<Item = Settings> {
    [1, 2, 4].into_iter().filter(move |workers| *workers >= least).flat_map(|workers| {
        let all = Settings { awake: workers, ..Settings::new(workers) };
        [
            all,
            Settings { awake: 1, ..all },
            Settings { awake: 1, lifo: false, ..all },
            Settings { takes_core: false, ..all },
        ]
    })
}

/// With each of these settings, in time.
fn with_all(least: usize, test: impl Fn(&Arc<Runtime>) + Copy + Send + 'static) {
    for settings in settings(least) {
        in_time(&format!("{settings:?}"), move || test(&Arc::new(Runtime::new(settings))));
    }
}

fn pair() -> (Sender<u32>, Receiver<u32>) {
    channel()
}

#[test]
fn a_root_may_block_on_one_task_after_the_other() {
    with_all(1, |runtime| {
        runtime.block_on(async {
            for number in 0..5 {
                let (sender, receiver) = pair();
                drop(spawn(async move { sender.send(number).unwrap() }));
                assert_eq!(receiver.recv(), Ok(number));
            }
        });
    });
}

#[test]
fn a_root_may_block_on_tasks_that_wake_one_another() {
    with_all(1, |runtime| {
        runtime.block_on(async {
            let (sender, receiver) = pair();
            for number in 0..10 {
                let sender = sender.clone();
                drop(spawn(async move {
                    yield_now().await;
                    let inner = spawn(async move {
                        yield_now().await;
                        number
                    });
                    sender.send(inner.await.unwrap()).unwrap();
                }));
            }
            let mut received: Vec<u32> = receiver.iter().take(10).collect();
            received.sort_unstable();
            assert_eq!(received, (0..10).collect::<Vec<_>>());
        });
    });
}

#[test]
fn a_root_may_block_on_a_task_whose_timer_it_has_armed() {
    with_all(1, |runtime| {
        let (sender, receiver) = pair();
        runtime.block_on(async move {
            let slow = spawn(async move {
                sleep(Duration::from_millis(5)).await;
                sender.send(1).unwrap();
            });
            // The root's thread runs it, and so its timer is here.
            spawn(yield_now()).await.unwrap();
            assert_eq!(receiver.recv(), Ok(1));
            slow.await.unwrap();
        });
    });
}

/// By then its worker's thread has come back, found nothing, and sleeps without a timer. (Found by random programs, seed
/// 1795665020584623172.)
#[test]
fn a_root_that_has_blocked_may_sleep() {
    with_all(1, |runtime| {
        runtime.block_on(async {
            thread::sleep(Duration::from_millis(50));
            sleep(Duration::from_millis(5)).await;
        });
    });
}

#[test]
fn a_root_may_block_on_a_task_from_outside() {
    with_all(1, |runtime| {
        let (sender, receiver) = pair();
        let (request, requested) = channel();
        thread::scope(|scope| {
            scope.spawn(move || {
                requested.recv().unwrap();
                runtime.spawn(async move { sender.send(1).unwrap() });
            });
            runtime.block_on(async {
                request.send(()).unwrap();
                assert_eq!(receiver.recv(), Ok(1));
            });
        });
    });
}

/// More of them than workers, and none goes on before all are there.
#[test]
fn many_callers_may_block_at_once() {
    with_all(1, |runtime| {
        const CALLERS: usize = 6;
        let barrier = Arc::new(Barrier::new(CALLERS));
        thread::scope(|scope| {
            for _ in 0..CALLERS {
                let barrier = Arc::clone(&barrier);
                scope.spawn(move || {
                    runtime.block_on(async {
                        let (sender, receiver) = pair();
                        barrier.wait();
                        drop(spawn(async move { sender.send(1).unwrap() }));
                        assert_eq!(receiver.recv(), Ok(1));
                        barrier.wait();
                        assert_eq!(spawn(async { 2 }).await.unwrap(), 2);
                    });
                });
            }
        });
        assert_eq!(runtime.block_on(runtime.spawn(async { 3 })).unwrap(), 3);
    });
}

#[test]
fn a_task_may_block_on_what_it_spawned_while_another_worker_is_free() {
    with_all(2, |runtime| {
        let task = runtime.spawn(async {
            let (sender, receiver) = pair();
            drop(spawn(async move { sender.send(1).unwrap() }));
            receiver.recv().unwrap()
        });
        assert_eq!(block_on(task).unwrap(), 1);
    });
}

#[test]
fn a_timer_fires_although_its_worker_is_blocked() {
    with_all(2, |runtime| {
        let (sender, receiver) = pair();
        let task = runtime.spawn(async move {
            drop(spawn(async move {
                let _late = timeout(Duration::from_millis(5), std::future::pending::<()>()).await;
                sender.send(1).unwrap();
            }));
            yield_now().await;
            receiver.recv().unwrap()
        });
        assert_eq!(block_on(task).unwrap(), 1);
    });
}

/// What they wait for is spawned, slept for, and sent from outside; the only worker is at it.
#[test]
fn a_task_may_call_block_on() {
    with_all(1, |runtime| {
        let (inner, (sender, receiver)) = (Arc::clone(runtime), channel());
        let task = runtime.spawn(async move {
            let output = inner.block_on(async {
                sleep(Duration::from_millis(5)).await;
                spawn(async { 1 }).await.unwrap()
            });
            let place: Arc<Place> = Arc::default();
            sender.send(Arc::clone(&place)).unwrap();
            inner.block_on(place.take());
            output
        });
        let place = receiver.recv().unwrap();
        block_on(runtime.spawn(async move { place.put() })).unwrap();
        assert_eq!(block_on(task).unwrap(), 1);
    });
}

/// None of them runs on top of another, or they would use up the stack; and each has a buffer on it.
#[test]
fn thousands_of_tasks_may_call_block_on_at_once() {
    for workers in [1, 2] {
        in_time("tasks that call block_on", move || {
            let runtime = Arc::new(Runtime::new(Settings::new(workers)));
            let tasks: Vec<_> = (0..5_000_u32)
                .map(|number| {
                    let inner = Arc::clone(&runtime);
                    runtime.spawn(async move {
                        let buffer = std::hint::black_box([number as u8; 16 << 10]);
                        inner.block_on(sleep(Duration::from_millis(1)));
                        u32::from(std::hint::black_box(&buffer)[5])
                    })
                })
                .collect();
            runtime.block_on(async {
                for (number, task) in tasks.into_iter().enumerate() {
                    assert_eq!(task.await.unwrap(), number as u32 % 256);
                }
            });
        });
    }
}

/// The second waits for the first, which is in `block_on` until then.
#[test]
fn a_task_in_block_on_does_not_wait_for_the_one_that_waits_for_it() {
    with_all(1, |runtime| {
        let (inner, places) = (Arc::clone(runtime), [(); 2].map(|()| Arc::new(Place::default())));
        let [first, second] = places.clone();
        let task = runtime.spawn(async move {
            let spawned = Arc::clone(&first);
            inner.block_on(async {
                drop(spawn(async move {
                    spawned.put();
                    second.take().await;
                }));
                first.take().await;
            });
            places[1].put();
        });
        block_on(task).unwrap();
    });
}

/// It is ready, or panics, before it would have to wait.
#[test]
fn a_task_that_calls_block_on_for_what_is_ready_keeps_its_worker() {
    in_time("block_on within a task", || {
        std::panic::set_hook(Box::new(|panic| {
            if !panic.payload().is::<u8>() {
                eprintln!("{panic}");
            }
        }));
        let runtime = Arc::new(Runtime::new(Settings::new(1)));
        let inner = Arc::clone(&runtime);
        let task = runtime.spawn(async move {
            let own = thread::current().id();
            for _ in 0..100 {
                assert_eq!(inner.block_on(async { 1 }), 1);
                let panics =
                    std::panic::AssertUnwindSafe(|| inner.block_on(async { std::panic::panic_any(1_u8) }));
                assert!(std::panic::catch_unwind(panics).is_err());
                assert_eq!(spawn(async { thread::current().id() }).await.unwrap(), own);
            }
        });
        block_on(task).unwrap();
    });
}

/// What comes from elsewhere may take long, and may want more stack than the caller has.
#[test]
fn a_caller_runs_no_task_from_elsewhere() {
    in_time("a caller beside tasks from outside", || {
        for workers in [2, 4] {
            let runtime = Runtime::new(Settings { awake: workers, ..Settings::new(workers) });
            thread::scope(|scope| {
                let (free, freed) = channel::<()>();
                let (runtime, caller) = (&runtime, thread::current().id());
                scope.spawn(move || {
                    thread::sleep(Duration::from_millis(5));
                    drop(runtime.spawn(async move {
                        assert_ne!(thread::current().id(), caller);
                        // Until the root has ended.
                        freed.recv().unwrap_err();
                    }));
                });
                runtime.block_on(async {
                    for _ in 0..20 {
                        sleep(Duration::from_millis(1)).await;
                        yield_now().await;
                    }
                });
                drop(free);
            });
        }
    });
}

/// The limit of it: the root has spawned that one itself, and waits for its poll. Without a core it would not.
#[test]
fn a_root_waits_for_a_poll_of_what_it_has_spawned_unless_it_takes_no_core() {
    for takes_core in [true, false] {
        let runtime = Runtime::new(Settings { takes_core, ..Settings::new(1) });
        let caller = thread::current().id();
        let ran_by = runtime.block_on(async { spawn(async { thread::current().id() }).await.unwrap() });
        assert_eq!(ran_by == caller, takes_core);
    }
}

/// The limit: there is no thread for it, as in tokio. `spawn_blocking` is for that.
#[test]
fn while_the_tasks_of_all_workers_block_no_other_task_runs() {
    let runtime = Runtime::new(Settings::new(1));
    let (free, freed) = channel::<()>();
    let blocked = runtime.spawn(async move { freed.recv().is_ok() });
    let (sender, receiver) = pair();
    let other = runtime.spawn(async move { sender.send(1).unwrap() });
    assert!(
        receiver.recv_timeout(Duration::from_millis(200)).is_err(),
        "it ran: then the limits say too much"
    );
    free.send(()).unwrap();
    assert_eq!(receiver.recv(), Ok(1));
    runtime.block_on(async { (blocked.await.unwrap(), other.await.unwrap()) });
}

#[test]
fn tasks_of_a_place_that_was_handed_over_are_run_although_every_thread_is_busy() {
    in_time("a caller beside tasks that never rest", || {
        let runtime = Runtime::new(Settings::new(2));
        let stop = Arc::new(AtomicBool::new(false));
        for _ in 0..8 {
            let stop = Arc::clone(&stop);
            drop(runtime.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    yield_now().await;
                }
            }));
        }
        for _ in 0..100 {
            runtime.block_on(async {
                let spawned: Vec<_> = (0..100).map(|_| spawn(async {})).collect();
                for task in spawned {
                    task.await.unwrap();
                }
            });
        }
        stop.store(true, Ordering::Relaxed);
    });
}
