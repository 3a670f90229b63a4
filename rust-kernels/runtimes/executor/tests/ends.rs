//! How things end: what panics, what is shut down, and what hangs on one another.

mod common;

use std::any::Any;
use std::cell::RefCell;
use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use common::{block_on, in_time, yield_now};
use runtimes_executor::{
    JoinError, JoinHandle, Runtime, Settings, Sleep, sleep, spawn, spawn_blocking, timeout,
};

/// Panics when it is dropped, with something that does the same, so many times.
struct Unruly(u32);

impl Drop for Unruly {
    fn drop(&mut self) {
        match self.0 {
            0 => {}
            left => panic_any(Unruly(left - 1)),
        }
    }
}

/// Is ready at once, or panics, and holds something.
struct Holding<T>(T, fn() -> Poll<Unruly>);

impl<T: Unpin> Future for Holding<T> {
    type Output = Unruly;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Unruly> {
        self.1()
    }
}

/// The worker of this runtime still runs tasks.
fn is_well(runtime: &Runtime) {
    assert_eq!(block_on(runtime.spawn(async { 8 })).unwrap(), 8);
    assert_eq!(runtime.block_on(async { spawn(async { 7 }).await.unwrap() }), 7);
    assert_eq!(block_on(runtime.spawn_blocking(|| 6)).unwrap(), 6);
}

/// A wake that panics, and a waker that does so when it is dropped.
struct Hostile;

impl Wake for Hostile {
    fn wake(self: Arc<Self>) {
        panic!("in a wake");
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        panic!("in the destructor of a waker");
    }
}

#[test]
fn whatever_panics_ends_its_task_and_no_thread() {
    in_time("a runtime after panics", || {
        let runtime = Runtime::new(Settings::new(1));
        for depth in 1..5 {
            for ends in
                [|| Poll::Ready(Unruly(3)), || panic!("in a poll"), || panic_any(Unruly(3)), || Poll::Pending]
            {
                // With a handle that waits, with one that does not, and with none.
                let mut handle = runtime.spawn(Holding(Unruly(depth), ends));
                // What it may be ready with already would panic here.
                std::mem::forget(Pin::new(&mut handle).poll(&mut Context::from_waker(Waker::noop())));
                drop(runtime.spawn(Holding(Unruly(depth), ends)));
                is_well(&runtime);
                drop(handle);
                let call = runtime.spawn_blocking(ends);
                is_well(&runtime);
                drop(call);
            }
        }
        is_well(&runtime);
    });
}

#[test]
fn a_waker_that_panics_ends_no_thread() {
    in_time("a runtime with hostile wakers", || {
        let runtime = Runtime::new(Settings::new(1));
        let hostile = || Waker::from(Arc::new(Hostile));
        let poll = |future: Pin<&mut JoinHandle<()>>| {
            let waker = std::mem::ManuallyDrop::new(hostile());
            assert!(future.poll(&mut Context::from_waker(&waker)).is_pending());
            waker
        };
        // Of a handle: woken at the end of the task, or dropped with the handle.
        for stays in [true, false] {
            let (free, freed) = sync_channel::<()>(0);
            let mut handle = runtime.spawn_blocking(move || _ = freed.recv());
            let waker = poll(Pin::new(&mut handle));
            let handle = stays.then_some(handle);
            free.send(()).unwrap();
            is_well(&runtime);
            drop((handle, waker));
        }
        // Of two timers, between them one that is well.
        let (sender, receiver) = channel();
        runtime.block_on(async {
            let mut naps: Vec<_> = (1..=2).map(|number| sleep(Duration::from_millis(number))).collect();
            let waker = std::mem::ManuallyDrop::new(hostile());
            for nap in &mut naps {
                assert!(Pin::new(nap).poll(&mut Context::from_waker(&waker)).is_pending());
            }
            spawn(async move {
                sleep(Duration::from_millis(1)).await;
                sender.send(()).unwrap();
            })
            .await
            .unwrap();
            sleep(Duration::from_millis(10)).await;
        });
        receiver.recv().unwrap();
        is_well(&runtime);
        // Replaced by others, which are given up.
        let (free, freed) = sync_channel::<()>(0);
        let mut handle = runtime.spawn_blocking(move || _ = freed.recv());
        runtime.block_on(async {
            let mut nap = sleep(Duration::from_secs(1000));
            for _ in 0..2 {
                let waker = hostile();
                let context = &mut Context::from_waker(&waker);
                assert!(Pin::new(&mut nap).poll(context).is_pending());
                assert!(Pin::new(&mut handle).poll(context).is_pending());
                drop(waker);
            }
        });
        drop(handle);
        free.send(()).unwrap();
        is_well(&runtime);
    });
}

#[test]
fn a_future_that_panics_is_dropped_while_its_thread_panics() {
    struct RecordsPanicking(Arc<Mutex<Option<bool>>>);
    impl Drop for RecordsPanicking {
        fn drop(&mut self) {
            *self.0.lock().unwrap() = Some(thread::panicking());
        }
    }
    let runtime = Runtime::new(Settings::new(1));
    for panics in [true, false] {
        let seen: Arc<Mutex<Option<bool>>> = Arc::default();
        let held = RecordsPanicking(Arc::clone(&seen));
        let task = runtime.spawn(poll_fn(move |_| {
            let _held = &held;
            assert!(!panics, "on purpose");
            Poll::Ready(())
        }));
        assert_eq!(block_on(task).is_err(), panics);
        assert_eq!(*seen.lock().unwrap(), Some(panics));
    }
}

#[test]
fn a_call_may_wait_for_what_the_end_of_a_task_brings() {
    in_time("the end of a runtime", || {
        let runtime = Runtime::new(Settings::new(2));
        let (feed, food) = channel::<()>();
        let (here, there) = sync_channel(0);
        let call = runtime.spawn_blocking(move || {
            here.send(()).unwrap();
            food.iter().count()
        });
        there.recv().unwrap();
        drop(runtime.spawn(async move {
            pending::<()>().await;
            drop(feed);
        }));
        drop(runtime);
        assert_eq!(block_on(call).unwrap(), 0);
    });
}

/// Of one that sleeps, and of one that was spawned afterwards; their worker has other tasks in its slot and its deque.
#[test]
fn a_poll_may_wait_for_what_the_end_of_another_task_brings() {
    for workers in [1, 2] {
        for spawned in [true, false] {
            in_time("the end of a runtime", move || {
                let runtime = Runtime::new(Settings::new(workers));
                let (feed, food) = channel::<()>();
                let holds = async move {
                    pending::<()>().await;
                    drop(feed);
                };
                let mut holds = Some(holds);
                if !spawned {
                    drop(runtime.spawn(holds.take().unwrap()));
                }
                runtime.block_on(yield_now());
                let (here, there) = sync_channel(0);
                let waits = runtime.spawn(async move {
                    (0..3).for_each(|_| drop(spawn(yield_now())));
                    holds.into_iter().for_each(|holds| drop(spawn(holds)));
                    here.send(()).unwrap();
                    food.iter().count()
                });
                there.recv().unwrap();
                drop(runtime);
                assert!(matches!(block_on(waits), Ok(0)));
            });
        }
    }
}

#[test]
fn what_is_begun_during_the_end_is_over_with_it() {
    in_time("the end of a runtime", || {
        // On a busy machine tasks are cancelled while workers still run: what is begun then may complete.
        assert!(
            (0..100).any(|_| cancelled_during_the_end() == (true, true)),
            "a task or a call was done each time"
        );
    });
}

/// A task, a call and a sleep, begun during the end by a call that is under way: whether the first two are cancelled.
fn cancelled_during_the_end() -> (bool, bool) {
    /// Its destructor runs when tasks are cancelled.
    struct SendsOnDrop(Sender<()>);
    impl Drop for SendsOnDrop {
        fn drop(&mut self) {
            self.0.send(()).unwrap();
        }
    }
    let runtime = Runtime::new(Settings::new(2));
    let (begun, begins) = channel();
    let sends = SendsOnDrop(begun);
    drop(runtime.spawn(async move {
        let _sends = sends;
        pending::<()>().await;
    }));
    let (here, there) = sync_channel(0);
    let call = runtime.spawn_blocking(move || {
        here.send(()).unwrap();
        begins.recv().unwrap();
        let task = block_on(spawn(async {}));
        let call = block_on(spawn_blocking(|| ()));
        assert!(std::panic::catch_unwind(|| block_on(sleep(Duration::from_secs(1000)))).is_err());
        (task.is_err(), call.is_err())
    });
    there.recv().unwrap();
    drop(runtime);
    block_on(call).unwrap()
}

#[test]
fn a_sleep_goes_over_to_another_runtime_when_its_own_is_gone() {
    in_time("a sleep", || {
        let (one, other) = (Runtime::new(Settings::new(1)), Runtime::new(Settings::new(1)));
        let mut nap = sleep(Duration::from_millis(50));
        one.block_on(poll_fn(|context| {
            assert!(Pin::new(&mut nap).poll(context).is_pending());
            Poll::Ready(())
        }));
        // It is awaited when the runtime goes, and so has to be woken.
        let sleeper = other.spawn(nap);
        drop(one);
        block_on(sleeper).unwrap();
    });
}

#[test]
fn a_duration_without_end_is_far_away_and_none_is_over_at_once() {
    let runtime = Runtime::new(Settings::new(1));
    runtime.block_on(async {
        assert_eq!(timeout(Duration::ZERO, sleep(Duration::MAX)).await, None);
        assert_eq!(timeout(Duration::MAX, sleep(Duration::ZERO)).await, Some(()));
        let for_ever = spawn(sleep(Duration::MAX));
        assert!(timeout(Duration::from_millis(1), for_ever).await.is_none());
    });
}

/// By a task that runs, by the destructor of one that sleeps in another runtime, and by a call.
#[test]
fn a_task_that_drops_its_own_runtime_ends_it() {
    for by in ["task", "call", "cancelled task"] {
        in_time(by, move || {
            let runtime = Arc::new(Runtime::new(Settings::new(2)));
            let (held, dropped) = sync_channel::<()>(0);
            drop(runtime.spawn(async move {
                let _held = held;
                pending::<()>().await;
            }));
            let (give, given) = channel::<Arc<Runtime>>();
            let last = match by {
                "task" => runtime.spawn(async move { drop(given.recv().unwrap()) }),
                "call" => runtime.spawn_blocking(move || drop(given.recv().unwrap())),
                _ => runtime.spawn(async move {
                    let runtime = given.recv().unwrap();
                    let other = Runtime::new(Settings::new(1));
                    let task = other.spawn(async move {
                        let _held = runtime;
                        pending::<()>().await;
                    });
                    other.block_on(yield_now());
                    drop(other);
                    assert!(matches!(task.await, Err(JoinError::Cancelled)));
                }),
            };
            let runtime = give.send(runtime).map_err(|_| ());
            assert_eq!(runtime, Ok(()));
            block_on(last).unwrap();
            assert!(dropped.recv().is_err(), "the other task is dropped");
        });
    }
}

const LONG: usize = if cfg!(debug_assertions) { 20_000 } else { 100_000 };

/// Each awaits the next one's handle, the last waits for ever. Whatever waits for the first goes on.
#[test]
fn a_long_chain_of_tasks_that_await_one_another_ends_with_the_runtime() {
    fn link(left: usize, whole: std::sync::mpsc::Sender<()>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            if left == 0 {
                whole.send(()).unwrap();
                pending::<()>().await;
            }
            spawn(link(left - 1, whole)).await.unwrap();
        })
    }
    let runtime = Runtime::new(Settings::new(1));
    let (whole, built) = channel();
    let first = runtime.spawn(link(LONG, whole));
    built.recv().unwrap();
    runtime.block_on(yield_now());
    drop(runtime);
    assert!(block_on(first).is_err());
}

/// The output of each is the handle of the next, and of some others.
#[test]
fn a_long_chain_of_outputs_that_hold_handles_is_dropped() {
    #[derive(Default)]
    struct Counts {
        made: AtomicUsize,
        dropped: AtomicUsize,
    }
    struct Chain(#[allow(dead_code, reason = "held")] Vec<JoinHandle<Chain>>, Arc<Counts>);
    impl Chain {
        fn new(held: Vec<JoinHandle<Self>>, counts: Arc<Counts>) -> Self {
            counts.made.fetch_add(1, Ordering::SeqCst);
            Self(held, counts)
        }
    }
    impl Drop for Chain {
        fn drop(&mut self) {
            self.1.dropped.fetch_add(1, Ordering::SeqCst);
        }
    }
    let runtime = Runtime::new(Settings::new(1));
    let counts = Arc::new(Counts::default());
    let whole = runtime.block_on(async {
        let mut whole = spawn({
            let counts = Arc::clone(&counts);
            async move { Chain::new(vec![], counts) }
        });
        for _ in 0..LONG {
            let [leaf, link] = [(); 2].map(|()| Arc::clone(&counts));
            let leaf = spawn(async move { Chain::new(vec![], leaf) });
            whole = spawn(async move { Chain::new(vec![leaf, whole], link) });
        }
        // A task that never runs makes no output.
        while counts.made.load(Ordering::SeqCst) < 2 * LONG + 1 {
            yield_now().await;
        }
        [whole]
    });
    drop(whole);
    drop(runtime);
    assert_eq!(counts.dropped.load(Ordering::SeqCst), 2 * LONG + 1);
}

/// Each task holds the waker of the one before it, and nothing else does.
#[test]
fn a_long_chain_of_wakers_in_tasks_is_dropped() {
    let runtime = Runtime::new(Settings::new(1));
    let last: Arc<Mutex<Option<Waker>>> = Arc::default();
    runtime.block_on(async {
        for _ in 0..LONG {
            let (last, mut before) = (Arc::clone(&last), vec![]);
            drop(spawn(poll_fn(move |context| {
                before.push(last.lock().unwrap().replace(context.waker().clone()));
                Poll::<()>::Pending
            })));
        }
        spawn(async {}).await.unwrap();
    });
    drop(runtime);
    drop(last.lock().unwrap().take());
}

#[test]
fn settings_that_could_run_nothing_are_refused() {
    let all = Settings::new(1);
    for settings in [
        Settings { workers: 0, ..all },
        Settings { awake: 0, ..all },
        Settings { workers: 1 << 16, ..all },
        Settings { workers: usize::MAX, ..all },
    ] {
        assert!(std::panic::catch_unwind(|| Runtime::new(settings)).is_err(), "{settings:?}");
    }
    for settings in [Settings { awake: usize::MAX, ..all }, Settings { searches: u32::MAX, ..all }] {
        in_time(&format!("{settings:?}"), move || is_well(&Runtime::new(settings)));
    }
}

/// A worker's own thread that was away ends with its poll.
#[test]
fn a_thread_local_of_a_thread_of_the_runtime_drops_it() {
    /// Tells when it has dropped the runtime.
    struct Last(Option<Arc<Runtime>>, Sender<()>);
    impl Drop for Last {
        fn drop(&mut self) {
            drop(self.0.take());
            self.1.send(()).unwrap();
        }
    }
    thread_local! {
        static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
    }
    let runtime = Arc::new(Runtime::new(Settings { takes_core: false, ..Settings::new(1) }));
    let own = Arc::clone(&runtime);
    let ((tells, told), (away, is_away), (go, wait)) = (channel(), channel(), channel::<()>());
    drop(runtime.spawn(async move {
        // Another thread comes for this: the task that it waits for.
        own.block_on(async { spawn(async { thread::sleep(Duration::from_millis(100)) }).await.unwrap() });
        LAST.set(Some(Last(Some(own), tells)));
        away.send(()).unwrap();
        let _ = wait.recv();
    }));
    is_away.recv().unwrap();
    drop(runtime);
    drop(go);
    told.recv_timeout(Duration::from_secs(60)).expect("the runtime does not end");
}

#[test]
fn thread_locals_of_threads_for_calls_may_outlive_the_runtime() {
    /// Waits for the end of the runtime when its thread ends.
    struct Late(Receiver<()>, Sender<()>);
    impl Drop for Late {
        fn drop(&mut self) {
            self.0.recv_timeout(Duration::from_secs(60)).unwrap();
            self.1.send(()).unwrap();
        }
    }
    thread_local! {
        static LATE: RefCell<Option<Late>> = const { RefCell::new(None) };
    }
    let ((ended, end), (tells, told)) = (channel(), channel());
    let runtime = Runtime::new(Settings::new(1));
    block_on(runtime.spawn_blocking(move || LATE.set(Some(Late(end, tells))))).unwrap();
    drop(runtime);
    ended.send(()).unwrap();
    told.recv_timeout(Duration::from_secs(60)).unwrap();
}

#[test]
fn an_output_that_holds_its_own_handle_is_never_dropped() {
    let runtime = Runtime::new(Settings::new(1));
    let ((give, given), (held, gone)) = (channel::<JoinHandle<Box<dyn Any + Send>>>(), channel::<()>());
    let task = runtime.spawn(async move { Box::new((given.recv().unwrap(), held)) as Box<dyn Any + Send> });
    give.send(task).unwrap();
    runtime.block_on(sleep(Duration::from_millis(10)));
    drop(runtime);
    assert_eq!(gone.try_recv(), Err(TryRecvError::Empty));
}

/// Whether the end is the first thing that happens to it, or it had begun to wait before; beside a poll that takes long.
#[test]
fn a_sleep_at_the_end_of_its_runtime_does_not_wait() {
    /// Waits for its sleep when it is dropped, and tells what became of it.
    struct Waits(Option<Pin<Box<Sleep>>>, Sender<bool>);
    impl Drop for Waits {
        fn drop(&mut self) {
            let sleep = self.0.take().unwrap_or_else(|| Box::pin(sleep(Duration::from_millis(1))));
            let outcome = catch_unwind(AssertUnwindSafe(|| block_on(sleep)));
            self.1.send(outcome.is_err()).unwrap();
        }
    }
    for has_begun in [false, true] {
        let runtime = Runtime::new(Settings::new(2));
        let ((tells, told), (begins, began), (go, wait)) = (channel(), channel(), channel::<()>());
        let (begins_too, forever) = (begins.clone(), Duration::from_secs(100_000));
        drop(runtime.spawn(async move {
            let mut waits = Waits(has_begun.then(|| Box::pin(sleep(forever))), tells);
            begins.send(()).unwrap();
            poll_fn(|context| {
                let _pending = waits.0.as_mut().map(|sleep| sleep.as_mut().poll(context));
                Poll::<()>::Pending
            })
            .await;
        }));
        began.recv().unwrap();
        drop(runtime.spawn(async move {
            begins_too.send(()).unwrap();
            let _ended = wait.recv();
        }));
        began.recv().unwrap();
        let ends = thread::spawn(move || drop(runtime));
        assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok(true), "has begun: {has_begun}");
        drop(go);
        ends.join().unwrap();
    }
}
