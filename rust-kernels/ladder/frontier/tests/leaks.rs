//! Nothing is kept after its last use: after a thousand rounds of whatever shape, as much memory is in use as after the
//! first ones.

mod common;

use std::alloc::{GlobalAlloc, Layout, System as Memory};
use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use common::{Foreign, Task, poll_once, settle, yield_now};
use frontier::{Epoll, Executor, Io, Reactor, tried};
use zero_cost_loop::Timed;

type Sockets = Reactor<Epoll<UnixStream>, Timed<()>>;

/// Counts what was allocated and not freed.
struct Live;

thread_local! {
    static BYTES: Cell<isize> = const { Cell::new(0) };
}

fn note(bytes: isize) {
    BYTES.set(BYTES.get() + bytes);
}

// SAFETY: every request is passed on unchanged.
unsafe impl GlobalAlloc for Live {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size().cast_signed());
        // SAFETY: by the caller.
        unsafe { Memory.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        note(-layout.size().cast_signed());
        // SAFETY: by the caller.
        unsafe { Memory.dealloc(place, layout) }
    }
}

#[global_allocator]
static LIVE: Live = Live;

/// Held by each test: blocks of wakers are pooled by the process, so that an executor of one test would take what another
/// test's executor gave back, and that one would make another block.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes that this thread has in use more after a thousand rounds than after three.
fn growth(mut round: impl FnMut()) -> isize {
    (0..3).for_each(|_| round());
    let before = BYTES.get();
    (0..1000).for_each(|_| round());
    BYTES.get() - before
}

fn sockets(room: usize) -> Sockets {
    Reactor::new(Epoll::new().expect("an epoll"), room).expect("room")
}

fn pair() -> (UnixStream, UnixStream) {
    let (ours, theirs) = UnixStream::pair().expect("two sockets");
    ours.set_nonblocking(true).expect("a socket");
    (ours, theirs)
}

fn panics(work: impl FnOnce()) {
    catch_unwind(AssertUnwindSafe(work)).expect_err("it panics");
}

fn throw() -> ! {
    resume_unwind(Box::new("as planned"))
}

/// One executor for all rounds.
#[test]
fn tasks_that_end_panic_or_are_woken_leave_nothing() {
    let _alone = alone();
    let place = RefCell::new(None::<Waker>);
    let reactor = sockets(1);
    let executor = Executor::<_, Task<'_>, _>::new(&reactor, 600);
    let growth = growth(|| {
        for number in 0..600 {
            let held = Box::new([number; 10]);
            let task = async move {
                yield_now(held.len() % 3).await;
                if number == 7 {
                    throw();
                }
            };
            executor.spawn(|| Box::pin(task)).expect("room");
        }
        executor.spawn(|| unreachable!()).expect_err("it is full");
        panics(|| executor.run(async { pending().await }));
        let waiting = poll_fn(|context| {
            let first = place.borrow_mut().replace(context.waker().clone()).is_none();
            if first { Poll::Pending } else { Poll::Ready(Box::new(1)) }
        });
        executor.run(async {
            settle().await;
            place.take();
        });
        executor.run_with(waiting, || place.borrow().as_ref().expect("it waits").wake_by_ref());
        place.take();
        panics(|| executor.spawn(|| throw()).expect("room"));
    });
    assert_eq!(growth, 0);
}

/// One reactor for all rounds.
#[test]
fn executors_that_end_with_or_without_a_panic_leave_nothing() {
    let _alone = alone();
    let reactor = sockets(1);
    let growth = growth(|| {
        for panic in [false, true] {
            let executor = Executor::<_, Task<'_>, _>::new(&reactor, 700);
            for number in 0..5 {
                let held = Held(vec![number; 100], panic);
                let task = async move {
                    let _held = held;
                    pending().await
                };
                executor.spawn(|| Box::pin(task)).expect("room");
            }
            panics(|| {
                executor.run(async {
                    yield_now(3).await;
                    throw()
                })
            });
            if panic {
                panics(|| drop(executor));
            }
        }
    });
    assert_eq!(growth, 0);
}

struct Held(#[expect(dead_code, reason = "it takes memory")] Vec<usize>, bool);

impl Drop for Held {
    fn drop(&mut self) {
        if self.1 {
            throw();
        }
    }
}

/// Everything, and its wakers kept for ever.
#[test]
fn reactors_leave_nothing() {
    let _alone = alone();
    let wakers = RefCell::new(Vec::with_capacity(5000));
    let growth = growth(|| {
        let reactor = sockets(100);
        let executor = Executor::<_, Task<'_>, _>::new(&reactor, 100);
        executor.run(poll_fn(|context| {
            wakers.borrow_mut().push(context.waker().clone());
            Poll::Ready(())
        }));
        drop(executor);
        drop(reactor);
        wakers.borrow().iter().for_each(Waker::wake_by_ref);
    });
    assert_eq!(growth, 0);
}

#[test]
fn operations_given_up_ended_and_superseded_leave_no_waker() {
    let _alone = alone();
    let reactor = sockets(2);
    let executor = Executor::<_, Task<'_>, _>::new(&reactor, 1);
    let (ours, mut theirs) = pair();
    let mut stream = Io::in_entry(&reactor, ours, ()).expect("room");
    let growth = growth(|| {
        let foreign = Foreign::new(None);
        let waker = Waker::from(Arc::clone(&foreign));
        executor.run(async {
            let mut buffer = [0; 8];
            for _ in 0..2 {
                assert!(poll_once(stream.read(&mut buffer), Some(&waker)).await.is_pending());
                let attempt =
                    stream.attempt(|mut stream| tried(std::io::Read::read(&mut stream, &mut [0; 8])));
                assert!(poll_once(attempt, Some(&waker)).await.is_pending());
            }
            let mut read = Box::pin(stream.read(&mut buffer));
            assert!(poll_once(read.as_mut(), Some(&waker)).await.is_pending());
            theirs.write_all(b"x").expect("room");
            assert_eq!(read.await.expect("a byte"), 1);
            // Registered, and ended while it waits.
            let mut another = Io::in_entry(&reactor, pair().0, ()).expect("room");
            let _pending = poll_once(another.write(&[0; 1 << 20]), Some(&waker)).await;
        });
        assert_eq!(Arc::strong_count(&foreign), 2);
    });
    assert_eq!(growth, 0);
}

/// A task of another executor: it holds its future, and its wakers hold it.
struct Elsewhere(Mutex<Option<Task<'static>>>);

// SAFETY: it stays on the thread of its test.
unsafe impl Send for Elsewhere {}
// SAFETY: as above.
unsafe impl Sync for Elsewhere {}

impl Wake for Elsewhere {
    fn wake(self: Arc<Self>) {}
}

/// The waker that a socket keeps holds the task that holds the socket.
#[test]
fn a_cycle_of_a_socket_and_a_foreign_waker_goes_with_the_operation() {
    let _alone = alone();
    let place = Box::into_raw(Box::new(sockets(1)));
    // SAFETY: it is freed below, when nobody refers to it.
    let reactor: &'static Sockets = unsafe { &*place };
    let growth = growth(|| {
        let (ours, _theirs) = pair();
        let mut stream = Io::in_entry(reactor, ours, ()).expect("the last round has left its place");
        let task = Arc::new(Elsewhere(Mutex::new(None)));
        let waker = Waker::from(Arc::clone(&task));
        let mut future: Task<'_> = Box::pin(async move {
            assert!(poll_once(stream.read(&mut [0]), None).await.is_pending());
            pending::<()>().await;
            drop(stream);
        });
        assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        *task.0.lock().expect("the task") = Some(future);
    });
    assert_eq!(growth, 0);
    // SAFETY: it came from a box, and there is no task.
    drop(unsafe { Box::from_raw(place) });
}

/// Tasks that hold each other's handles are the program's, but those that hold their executor's wakers are not.
#[test]
fn tasks_in_a_chain_of_wakers_leave_nothing() {
    let _alone = alone();
    let reactor = sockets(1);
    let growth = growth(|| {
        let places: Rc<Vec<RefCell<Option<Waker>>>> = Rc::new((0..50).map(|_| RefCell::new(None)).collect());
        let executor = Executor::<_, Task<'_>, _>::new(&reactor, 50);
        for number in 0..50 {
            let places = Rc::clone(&places);
            let mut started = false;
            let task = poll_fn(move |context| {
                if number > 0 && std::mem::replace(&mut started, true) {
                    places[number - 1].take().expect("it waits").wake();
                    return Poll::Ready(());
                }
                started = true;
                *places[number].borrow_mut() = Some(context.waker().clone());
                Poll::Pending
            });
            executor.spawn(|| Box::pin(task)).expect("room");
        }
        let last = Rc::clone(&places);
        panics(|| {
            executor.run(async {
                yield_now(1).await;
                last[49].take().expect("it waits").wake();
                settle().await;
                throw()
            });
        });
        assert_eq!(executor.len(), 1);
    });
    assert_eq!(growth, 0);
}
