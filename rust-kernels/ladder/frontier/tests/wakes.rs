//! Whoever is woken is polled, at whatever moment that happens: before the executor decides to wait, while it asks
//! whether it may, in what the program does then, in the system call, and afterwards.

mod common;

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::poll_fn;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};
use std::thread;
use std::time::Duration;

use common::{Task, ends, settle, yield_now};
use frontier::{Epoll, Executor, Fake, Io, Object, Reactor, System};
use zero_cost_loop::{Stats, Timed};

/// What happens in the hook.
#[derive(Clone, Copy, Debug)]
enum News {
    /// The root is woken.
    Wake,
    /// A task that waits is woken, which wakes the root.
    WakeTask,
    /// A task is spawned, which wakes the root.
    Spawn,
    /// Another thread wakes the root before the hook returns.
    Elsewhere,
    /// The same, and the hook waits itself, so that what was to end our wait ends its.
    ElsewhereUnnoticed,
    /// The same with a task.
    TaskElsewhereUnnoticed,
    /// Another thread wakes the root at some time later.
    Later,
}

const NEWS: [News; 7] = [
    News::Wake,
    News::WakeTask,
    News::Spawn,
    News::Elsewhere,
    News::ElsewhereUnnoticed,
    News::TaskElsewhereUnnoticed,
    News::Later,
];

/// Two wakers and whether they were used for a reason.
#[derive(Default)]
struct Places {
    root: RefCell<Option<Waker>>,
    task: RefCell<Option<Waker>>,
    task_may_end: Arc<AtomicBool>,
    root_may_end: Arc<AtomicBool>,
}

/// Waits for a flag and leaves its waker.
fn wait<'a>(place: &'a RefCell<Option<Waker>>, flag: &'a AtomicBool) -> impl Future<Output = ()> + 'a {
    poll_fn(move |context| {
        *place.borrow_mut() = Some(context.waker().clone());
        if flag.swap(false, Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending }
    })
}

/// Raises a flag and wakes.
fn rouse(place: &RefCell<Option<Waker>>, flag: &AtomicBool) {
    flag.store(true, Ordering::SeqCst);
    place.borrow().as_ref().expect("it waits").wake_by_ref();
}

/// The same on another thread.
fn rouse_elsewhere(
    place: &RefCell<Option<Waker>>,
    flag: &Arc<AtomicBool>,
    after: Duration,
) -> thread::JoinHandle<()> {
    let (waker, flag) = (place.borrow().clone().expect("it waits"), Arc::clone(flag));
    thread::spawn(move || {
        thread::sleep(after);
        flag.store(true, Ordering::SeqCst);
        waker.wake();
    })
}

fn hooks<Y: System>(system: Y) {
    let reactor = Reactor::<Y, Timed<()>>::new(system, 1).expect("room");
    for news in NEWS {
        let places = Places::default();
        let executor = Executor::<_, Task<'_>, _>::new(&reactor, 2);
        let hooks = Cell::new(0);
        let relay = || async {
            wait(&places.task, &places.task_may_end).await;
            rouse(&places.root, &places.root_may_end);
        };
        if matches!(news, News::WakeTask | News::TaskElsewhereUnnoticed) {
            executor.spawn(|| Box::pin(relay())).expect("room for a task");
        }
        let hook = || {
            hooks.set(hooks.get() + 1);
            match news {
                News::Wake => rouse(&places.root, &places.root_may_end),
                News::WakeTask => rouse(&places.task, &places.task_may_end),
                News::Spawn => {
                    let task = async { rouse(&places.root, &places.root_may_end) };
                    executor.spawn(|| Box::pin(task)).expect("room for a task");
                }
                News::Elsewhere | News::ElsewhereUnnoticed => {
                    let other = rouse_elsewhere(&places.root, &places.root_may_end, Duration::ZERO);
                    other.join().expect("it wakes");
                }
                News::TaskElsewhereUnnoticed => {
                    let other = rouse_elsewhere(&places.task, &places.task_may_end, Duration::ZERO);
                    other.join().expect("it wakes");
                }
                News::Later if hooks.get() == 1 => {
                    rouse_elsewhere(&places.root, &places.root_may_end, Duration::from_millis(5));
                }
                News::Later => {}
            }
            if matches!(news, News::ElsewhereUnnoticed | News::TaskElsewhereUnnoticed) {
                thread::park_timeout(Duration::from_millis(1));
            }
        };
        executor.run_with(wait(&places.root, &places.root_may_end), hook);
        assert!(hooks.get() > 0, "{news:?}: it never waited");
    }
}

#[test]
fn whoever_is_woken_in_the_hook_is_polled_where_there_are_no_objects() {
    ends(|| hooks(()));
}

#[test]
fn whoever_is_woken_in_the_hook_is_polled_on_the_fake_system() {
    ends(|| {
        let stats = Stats::new(false);
        hooks(Fake::new(&stats));
    });
}

#[test]
fn whoever_is_woken_in_the_hook_is_polled_on_epoll() {
    ends(|| hooks(Epoll::<UnixStream>::new().expect("an epoll")));
}

/// A system that wakes its own tasks, as one with timers does.
struct Clock<'p> {
    places: &'p Places,
    /// Before it asks whether it may wait, or else after its wait.
    before: bool,
}

/// What a clock watches.
enum Nothing {}

// SAFETY: there is none.
unsafe impl Object<Clock<'_>> for Nothing {
    unsafe fn register(&self, _: &Clock<'_>, _: usize, _: Infallible) -> io::Result<()> {
        match *self {}
    }

    fn unregister(&self, _: &Clock<'_>) {
        match *self {}
    }
}

// SAFETY: there are no events.
unsafe impl System for Clock<'_> {
    type Event = Infallible;
    type Interest = Infallible;
    type Stream = Nothing;

    fn poll(&self, _: &mut Vec<Infallible>, may_wait: impl FnOnce() -> bool) {
        if self.before {
            rouse(&self.places.root, &self.places.root_may_end);
            assert!(!may_wait(), "somebody is awake");
        } else {
            may_wait();
            rouse(&self.places.root, &self.places.root_may_end);
        }
    }

    fn key(event: &Infallible) -> usize {
        match *event {}
    }

    fn is_end(event: &Infallible) -> bool {
        match *event {}
    }

    unsafe fn notifier(&self, _: usize) -> io::Result<Waker> {
        Ok(Waker::noop().clone())
    }
}

#[test]
fn whoever_is_woken_in_the_system_is_polled() {
    ends(|| {
        for before in [true, false] {
            let places = Places::default();
            let reactor = Reactor::<_, Timed<()>>::new(Clock { places: &places, before }, 0).expect("room");
            let executor = Executor::<_, Task<'_>, _>::new(&reactor, 0);
            executor.run(wait(&places.root, &places.root_may_end));
        }
    });
}

/// Before a run, between two, and at the end of a task and of the root.
#[test]
fn whoever_is_woken_outside_of_polls_is_polled() {
    struct AtEnd<'p>(&'p Places);
    impl Drop for AtEnd<'_> {
        fn drop(&mut self) {
            rouse(&self.0.task, &self.0.task_may_end);
        }
    }
    ends(|| {
        let places = Places::default();
        let reactor = Reactor::<_, Timed<()>>::new((), 0).expect("room");
        let executor = Executor::<_, Task<'_>, _>::new(&reactor, 2);
        let waits = || executor.spawn(|| Box::pin(wait(&places.task, &places.task_may_end))).expect("room");
        let gives_up = || {
            let root = async {
                settle().await;
                std::panic::resume_unwind(Box::new("enough"))
            };
            let run = std::panic::AssertUnwindSafe(|| executor.run(root));
            std::panic::catch_unwind(run).expect_err("it panics")
        };
        waits();
        gives_up();
        rouse(&places.task, &places.task_may_end);
        executor.run(async {});
        waits();
        gives_up();
        rouse_elsewhere(&places.task, &places.task_may_end, Duration::ZERO).join().expect("it wakes");
        executor.run(async {});
        waits();
        let end = AtEnd(&places);
        executor.spawn(|| Box::pin(async move { drop(end) })).expect("room");
        executor.run(async {});
        waits();
        let end = AtEnd(&places);
        let mut polls = 0;
        executor.run(poll_fn(move |context| {
            let _held = &end;
            polls += 1;
            context.waker().wake_by_ref();
            if polls > 500 { Poll::Ready(()) } else { Poll::Pending }
        }));
    });
}

thread_local! {
    /// What the foreign waker below does on its three occasions.
    static ON: RefCell<Option<(&'static str, Waker)>> = const { RefCell::new(None) };
}

fn occasion(name: &str) {
    let waker = ON.with_borrow(|on| on.as_ref().filter(|on| on.0 == name).map(|on| on.1.clone()));
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// A foreign waker that wakes a task whatever is done to it.
fn talkative() -> Waker {
    const TABLE: RawWakerVTable = RawWakerVTable::new(
        |data| {
            occasion("clone");
            RawWaker::new(data, &TABLE)
        },
        |_| occasion("wake"),
        |_| occasion("wake"),
        |_| occasion("drop"),
    );
    // SAFETY: there is no data, and the functions may be called anywhere.
    unsafe { Waker::new(std::ptr::null(), &TABLE) }
}

#[test]
fn whoever_is_woken_by_a_foreign_waker_is_polled() {
    ends(|| {
        for name in ["clone", "wake", "drop"] {
            let (places, woken) = (Places::default(), Cell::new(false));
            let reactor = Reactor::<Epoll<UnixStream>, Timed<()>>::new(Epoll::new().expect("an epoll"), 1)
                .expect("room");
            let executor = Executor::<_, Task<'_>, _>::new(&reactor, 1);
            let (ours, theirs) = UnixStream::pair().expect("two sockets");
            ours.set_nonblocking(true).expect("a socket");
            let mut stream = Io::in_entry(&reactor, ours, ()).expect("it can be watched");
            executor
                .spawn(|| {
                    Box::pin(async {
                        wait(&places.task, &places.task_may_end).await;
                        woken.set(true);
                    })
                })
                .expect("room for a task");
            executor.run(async {
                yield_now(1).await;
                ON.set(places.task.borrow().clone().map(|waker| (name, waker)));
                places.task_may_end.store(true, Ordering::SeqCst);
                let mut buffer = [0; 1];
                let mut read = Box::pin(stream.read(&mut buffer));
                poll_fn(|_| {
                    assert!(read.as_mut().poll(&mut Context::from_waker(&talkative())).is_pending());
                    Poll::Ready(())
                })
                .await;
                (&theirs).write_all(b"x").expect("room");
                settle().await;
                drop(read);
                ON.set(None);
            });
            assert!(woken.get());
        }
    });
}
