//! A destructor of a user's value may do what other code may, in whichever moment it runs: of a root, of a task's future, of
//! an output, of a waker, of a thread's own values, and at the end of a runtime.

mod common;

use std::cell::RefCell;
use std::future::{Future, pending};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use common::{block_on, in_time, yield_now};
use runtimes_executor::{JoinError, JoinHandle, Runtime, Settings, sleep, spawn, spawn_blocking};

/// Calls this when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        self.0();
    }
}

/// Is ready at once, or panics; and has something to do when it is dropped.
struct Root<F: FnMut()>(bool, #[allow(dead_code, reason = "dropped")] OnDrop<F>);

impl<F: FnMut() + Unpin> Future for Root<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        assert!(!self.0, "on purpose");
        Poll::Ready(())
    }
}

fn settings() -> [Settings; 2] {
    [true, false].map(|takes_core| Settings { takes_core, ..Settings::new(1) })
}

#[test]
fn a_root_spawns_when_it_is_dropped_also_after_a_panic() {
    for settings in settings() {
        for panics in [true, false] {
            in_time("a root", move || {
                let runtime = Runtime::new(settings);
                let (sender, receiver) = channel();
                let spawns = OnDrop(move || {
                    let sender = sender.clone();
                    drop(spawn(async move { sender.send(1).unwrap() }));
                });
                let ended = catch_unwind(AssertUnwindSafe(|| runtime.block_on(Root(panics, spawns))));
                assert_eq!(ended.is_err(), panics);
                assert_eq!(receiver.recv(), Ok(1));
            });
        }
    }
}

/// Within a root of another runtime, and that within a task of the first: what is spawned belongs to the innermost.
#[test]
fn what_a_root_spawns_when_it_is_dropped_belongs_to_its_own_runtime() {
    in_time("roots within one another", || {
        let [outer, inner] = [(); 2].map(|()| Arc::new(Runtime::new(Settings::new(1))));
        let (sender, receiver) = channel();
        let again = Arc::clone(&outer);
        let task = outer.spawn(async move {
            inner.block_on(async {
                let spawns = OnDrop(|| {
                    let sender = sender.clone();
                    drop(spawn(async move {
                        yield_now().await;
                        sender.send(thread::current().id()).unwrap();
                    }));
                });
                again.block_on(Root(false, spawns));
            });
            drop(inner);
        });
        let ran = receiver.recv().unwrap();
        assert_ne!(Ok(ran), outer.block_on(async { Ok::<_, ()>(thread::current().id()) }));
        block_on(task).unwrap();
    });
}

/// Feeds a thread by a task, which hands the sender over when it is done; joins that thread when it is dropped.
struct Service {
    feeder: Option<JoinHandle<Sender<u8>>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.feeder.take());
        self.thread.take().unwrap().join().unwrap();
    }
}

async fn service() -> Service {
    let (give, take): (Sender<u8>, Receiver<u8>) = channel();
    let thread = thread::spawn(move || take.iter().for_each(drop));
    let feeder = spawn(async move {
        give.send(1).unwrap();
        give
    });
    sleep(Duration::from_millis(20)).await;
    Service { feeder: Some(feeder), thread: Some(thread) }
}

#[test]
fn an_output_waits_for_the_end_of_another_when_it_is_dropped() {
    in_time("an output that is dropped by its task", || {
        let runtime = Runtime::new(Settings::new(2));
        drop(runtime.spawn(service()));
        runtime.block_on(sleep(Duration::from_millis(50)));
    });
    in_time("an output that is dropped with its handle", || {
        let runtime = Runtime::new(Settings::new(2));
        let task = runtime.spawn(service());
        runtime.block_on(sleep(Duration::from_millis(50)));
        drop(task);
    });
    in_time("an output that is taken", || {
        let runtime = Runtime::new(Settings::new(2));
        drop(runtime.block_on(runtime.spawn(service())));
    });
}

#[test]
fn an_output_blocks_on_its_runtime_when_it_is_dropped() {
    in_time("an output that blocks", || {
        let runtime = Arc::new(Runtime::new(Settings::new(2)));
        let own = Arc::clone(&runtime);
        let blocks = OnDrop(move || {
            own.block_on(async {
                let (give, take) = channel::<()>();
                let done = spawn(async move { give });
                sleep(Duration::from_millis(20)).await;
                drop(done);
                assert!(take.recv().is_err());
            });
        });
        let task = runtime.spawn(async move { blocks });
        runtime.block_on(sleep(Duration::from_millis(20)));
        drop(task);
    });
}

/// Of outputs, of payloads of panics, and of calls that are made by destructors of calls when their runtime ends.
#[test]
fn no_depth_of_destructors_uses_up_the_stack() {
    const LONG: usize = if cfg!(debug_assertions) { 5_000 } else { 100_000 };
    struct Link(#[allow(dead_code, reason = "dropped")] JoinHandle<()>);
    in_time("payloads in payloads", || {
        let runtime = Runtime::new(Settings::new(1));
        std::panic::set_hook(Box::new(|panic| {
            if !panic.payload().is::<Link>() {
                eprintln!("{panic}");
            }
        }));
        let last = runtime.block_on(async {
            let mut last = spawn(async {});
            for _ in 0..LONG {
                let held = Link(last);
                last = spawn(async move { std::panic::panic_any(held) });
                // Done, with its payload, before the next one.
                yield_now().await;
            }
            [last]
        });
        drop(last);
    });
    fn calls(left: usize) -> OnDrop<impl FnMut()> {
        OnDrop(move || {
            if left > 0 {
                let next: Box<dyn std::any::Any + Send> = Box::new(calls_in_a_box(left - 1));
                drop(spawn_blocking(move || drop(next)));
            }
        })
    }
    fn calls_in_a_box(left: usize) -> Box<dyn std::any::Any + Send> {
        Box::new(calls(left))
    }
    in_time("calls of calls", || {
        let runtime = Runtime::new(Settings::new(1));
        let held = calls(LONG);
        drop(runtime.spawn(async move {
            let _held = held;
            pending::<()>().await;
        }));
        runtime.block_on(yield_now());
        drop(runtime);
    });
}

/// The limit of it: an output that is 64 deep in others is dropped before those that hang on it.
#[test]
fn what_hangs_on_the_64th_output_is_dropped_after_it() {
    type Nested = Option<(JoinHandle<Chain>, Receiver<()>)>;
    /// Drops the next, and sees whether that is gone.
    struct Chain(Nested, #[allow(dead_code, reason = "seen when it goes")] Sender<()>, Sender<bool>);
    impl Drop for Chain {
        fn drop(&mut self) {
            if let Some((next, goes)) = self.0.take() {
                drop(next);
                let gone = goes.recv_timeout(Duration::ZERO) == Err(RecvTimeoutError::Disconnected);
                self.2.send(gone).unwrap();
            }
        }
    }
    let runtime = Runtime::new(Settings::new(1));
    let (report, reports) = channel();
    let whole = runtime.block_on(async {
        let mut whole: Nested = None;
        for _ in 0..=70 {
            let (held, goes) = channel();
            let link = Chain(whole.take(), held, report.clone());
            let task = spawn(async move { link });
            yield_now().await;
            whole = Some((task, goes));
        }
        whole
    });
    drop(whole);
    drop(report);
    // Those that were put off are dropped first; then the others, from within.
    let late = reports.iter().filter(|gone| !gone).count();
    assert_eq!(late, 7, "the 64th, and each that hangs on it but for the last");
}

#[test]
fn what_a_destructor_spawns_at_the_end_is_cancelled_and_its_handle_says_so() {
    for settings in settings() {
        in_time("the end", move || {
            let (sender, receiver) = channel();
            let runtime = Runtime::new(settings);
            let spawns = OnDrop(move || {
                let (task, call) = (spawn(async { 1 }), spawn_blocking(|| 2));
                let ended = (block_on(task), block_on(call));
                sender.send(matches!(ended, (Err(JoinError::Cancelled), Err(JoinError::Cancelled)))).unwrap();
            });
            drop(runtime.spawn(async move {
                let _spawns = spawns;
                pending::<()>().await;
            }));
            runtime.block_on(yield_now());
            drop(runtime);
            assert_eq!(receiver.recv(), Ok(true));
        });
    }
}

/// They end in any order, after the thread's work.
#[test]
fn a_value_of_a_thread_uses_a_runtime_when_the_thread_ends() {
    thread_local! {
        static LAST: RefCell<Option<Box<dyn std::any::Any>>> = const { RefCell::new(None) };
    }
    in_time("a thread", || {
        let runtime = Arc::new(Runtime::new(Settings::new(1)));
        let (sender, receiver) = channel();
        let own = Arc::clone(&runtime);
        thread::spawn(move || {
            let again = Arc::clone(&own);
            let last = OnDrop(move || {
                let output = again.block_on(async { spawn(async { 7 }).await.unwrap() });
                drop(again.spawn(async {}));
                sender.send(output).unwrap();
            });
            LAST.with(|kept| *kept.borrow_mut() = Some(Box::new(last)));
            own.block_on(yield_now());
        })
        .join()
        .unwrap();
        assert_eq!(receiver.recv(), Ok(7));
    });
}
