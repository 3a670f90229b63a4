//! Nothing is kept after its last use: what was allocated for a thing is freed when it is over, not with the runtime.

mod common;
#[path = "../../../live_allocations.rs"]
mod live_allocations;

use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use common::{block_on, yield_now};
use live_allocations::assert_nothing_is_kept;
use runtimes_executor::{JoinHandle, Runtime, Settings, sleep, spawn, spawn_blocking, timeout};

/// A waker that is one allocation.
struct Idle;

impl Wake for Idle {
    fn wake(self: Arc<Self>) {}
}

/// One round of everything that is over when it returns.
type Shape = (&'static str, fn(&Runtime));

const SHAPES: [Shape; 9] = [
    ("a task", |runtime| runtime.block_on(async { spawn(yield_now()).await.unwrap() })),
    ("a task from outside", |runtime| block_on(runtime.spawn(yield_now())).unwrap()),
    ("a call", |runtime| block_on(runtime.spawn_blocking(|| ())).unwrap()),
    ("a panic", |runtime| drop(block_on(runtime.spawn(async { std::panic::panic_any(1) })))),
    ("sleeps that end, and one that is dropped", |runtime| {
        runtime.block_on(async {
            let late = timeout(Duration::from_micros(1), sleep(Duration::MAX));
            assert!(spawn(late).await.unwrap().is_none());
        });
    }),
    ("a handle that was awaited and is dropped before its task ends", |runtime| {
        let place: Arc<common::Place> = Arc::default();
        let taking = Arc::clone(&place);
        let mut handle = runtime.spawn(async move { taking.take().await });
        let waker = Waker::from(Arc::new(Idle));
        assert!(Pin::new(&mut handle).poll(&mut Context::from_waker(&waker)).is_pending());
        let weak = std::sync::Arc::downgrade(&place);
        drop(handle);
        place.put();
        drop(place);
        while weak.strong_count() > 0 {
            std::thread::yield_now();
        }
        block_on(runtime.spawn(async {})).unwrap();
    }),
    ("outputs in outputs", |runtime| {
        struct Holds(#[allow(dead_code, reason = "held")] JoinHandle<Box<i32>>);
        let outer = runtime.spawn(async { Holds(spawn(async { Box::new(1) })) });
        drop(block_on(outer).unwrap());
        drop(runtime.spawn(async { Holds(spawn(async { Box::new(1) })) }));
        block_on(runtime.spawn(async {})).unwrap();
        runtime.block_on(async { spawn_blocking(|| ()).await.unwrap() });
    }),
    ("a runtime, with tasks that await each other and themselves, wakers and timers", |_| {
        let runtime = Runtime::new(Settings::new(1));
        let handles: Arc<Mutex<Vec<JoinHandle<()>>>> = Arc::default();
        let tasks: Vec<_> = (0..3)
            .map(|_| {
                let handles = Arc::clone(&handles);
                runtime.spawn(async move {
                    let mut own = None;
                    poll_fn(|context| {
                        let polled = own.replace(context.waker().clone()).is_some();
                        context.waker().wake_by_ref();
                        if polled { Poll::Ready(()) } else { Poll::Pending }
                    })
                    .await;
                    let other = handles.lock().unwrap().pop();
                    let nap = sleep(Duration::MAX);
                    if let Some(other) = other {
                        other.await.unwrap();
                    }
                    nap.await;
                    drop(own);
                })
            })
            .collect();
        *handles.lock().unwrap() = tasks;
        runtime.block_on(yield_now());
        drop(runtime);
        handles.lock().unwrap().clear();
    }),
    ("a runtime that goes with its own task", |_| {
        let runtime = Arc::new(Runtime::new(Settings::new(1)));
        let (give, given) = std::sync::mpsc::channel::<Arc<Runtime>>();
        let task = runtime.spawn(async move { drop(given.recv().unwrap()) });
        let (held, dropped) = std::sync::mpsc::channel::<()>();
        drop(runtime.spawn(async move {
            let _held = held;
            pending::<()>().await;
        }));
        give.send(runtime).map_err(|_| ()).unwrap();
        block_on(task).unwrap();
        assert!(dropped.recv().is_err());
    }),
];

#[test]
fn a_thousand_rounds_leave_nothing_behind() {
    std::panic::set_hook(Box::new(|panic| {
        if !panic.payload().is::<i32>() {
            eprintln!("{panic}");
        }
    }));
    let runtime = Runtime::new(Settings::new(2));
    for (name, round) in SHAPES {
        assert_nothing_is_kept(name, || round(&runtime));
    }
}
