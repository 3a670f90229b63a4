//! A set for Miri (`make test-miri`), which interprets and so needs few and small tests: all unsafe code of the executor is
//! on their way.

mod common;

use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use common::{Place, block_on, yield_now};
use runtimes_executor::{JoinError, JoinHandle, Runtime, Settings, sleep, spawn, spawn_blocking, timeout};

fn runtime(workers: usize) -> Runtime {
    Runtime::new(Settings { awake: workers, searches: 2, ..Settings::new(workers) })
}

#[test]
fn outputs_and_panics_reach_their_handles() {
    let runtime = runtime(2);
    runtime.block_on(async {
        let tasks: Vec<_> = (0..4)
            .map(|number| {
                spawn(async move {
                    yield_now().await;
                    Box::new(number)
                })
            })
            .collect();
        for (number, task) in tasks.into_iter().enumerate() {
            assert_eq!(*task.await.unwrap(), number);
        }
        let bad = spawn(async { std::panic::panic_any(Box::new(5)) });
        assert!(matches!(bad.await, Err(JoinError::Panicked(_))));
        assert_eq!(spawn_blocking(|| 6).await.unwrap(), 6);
    });
    assert_eq!(block_on(runtime.spawn(async { 7 })).unwrap(), 7);
}

/// Awaited with several wakers, dropped while awaited, woken after the end, and longer than the runtime.
#[test]
fn handles_and_wakers_go_in_any_order() {
    let runtime = runtime(1);
    let (place, kept): (Arc<Place>, Arc<Mutex<Vec<Waker>>>) = Default::default();
    let task = |runtime: &Runtime| {
        let (taking, keeping) = (Arc::clone(&place), Arc::clone(&kept));
        runtime.spawn(async move {
            poll_fn(|context| {
                keeping.lock().unwrap().extend([context.waker().clone(), context.waker().clone()]);
                Poll::Ready(())
            })
            .await;
            taking.take().await;
            Box::new(1)
        })
    };
    let mut first = task(&runtime);
    for _ in 0..2 {
        let mut context = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut first).poll(&mut context).is_pending());
    }
    place.put();
    assert_eq!(*runtime.block_on(first).unwrap(), 1);
    let mut second = task(&runtime);
    runtime.block_on(poll_fn(|context| {
        let _waits = Pin::new(&mut second).poll(context);
        Poll::Ready(())
    }));
    drop(second);
    drop(runtime);
    kept.lock().unwrap().drain(..).for_each(Waker::wake);
}

#[test]
fn sleeps_are_over_too_late_or_dropped() {
    let runtime = runtime(1);
    runtime.block_on(async {
        sleep(Duration::from_millis(1)).await;
        let late = timeout(Duration::from_millis(1), spawn(sleep(Duration::MAX)));
        assert!(late.await.is_none());
        let mut early = sleep(Duration::from_millis(1));
        poll_fn(|context| Poll::Ready(Pin::new(&mut early).poll(context).is_ready())).await;
        let moved = Box::new(early);
        moved.await;
    });
}

/// The core goes to another thread, which runs what the task waits for.
#[test]
fn a_task_calls_block_on() {
    let runtime = Arc::new(runtime(1));
    let inner = Arc::clone(&runtime);
    let task = runtime.spawn(async move {
        let output = inner.block_on(async {
            sleep(Duration::from_millis(1)).await;
            spawn(async { 1 }).await.unwrap()
        });
        output + inner.block_on(async { 1 }) + spawn(async { 1 }).await.unwrap()
    });
    assert_eq!(runtime.block_on(task).unwrap(), 3);
}

/// Destructors spawn, at the end and before; outputs hold handles of one another; tasks sleep, wait and await each other.
#[test]
fn destructors_and_the_end() {
    struct Spawns(#[allow(dead_code, reason = "dropped")] Option<JoinHandle<Spawns>>);
    impl Drop for Spawns {
        fn drop(&mut self) {
            drop(spawn(async { Box::new(1) }));
        }
    }
    let runtime = runtime(1);
    runtime.block_on(async {
        let mut last = None;
        for _ in 0..70 {
            let held = Spawns(last.take());
            last = Some(spawn(async move { held }));
            yield_now().await;
        }
        drop(last);
        for _ in 0..3 {
            drop(spawn(async {
                let _spawns = Spawns(None);
                pending::<()>().await;
            }));
        }
        yield_now().await;
        drop(spawn(async { Spawns(None) }));
        let _root = Spawns(None);
    });
}
