//! A panic, in whatever code that is not the frontier's, ends what it must end and nothing else: no other task, no
//! event, no place, not the process. And everything is dropped once.

mod common;

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use common::{Ends, Foreign, Task, ends, poll_once, settle, word, yield_now};
use frontier::{Epoll, Executor, Io, Reactor};
use zero_cost_loop::Timed;

type Sockets<S = UnixStream> = Reactor<Epoll<S>, Timed<()>>;

fn sockets<S: AsFd>(room: usize) -> Sockets<S> {
    Reactor::new(Epoll::new().expect("an epoll"), room).expect("room")
}

fn without_objects() -> Reactor<(), Timed<()>> {
    Reactor::new((), 0).expect("room for nothing")
}

fn pair() -> (UnixStream, UnixStream) {
    let (ours, theirs) = UnixStream::pair().expect("two sockets");
    ours.set_nonblocking(true).expect("a socket");
    (ours, theirs)
}

/// What a panic within `work` has thrown.
fn thrown_by<T>(work: impl FnOnce() -> T) -> &'static str {
    word(catch_unwind(AssertUnwindSafe(work)).err().expect("it panics"))
}

fn throw(word: &'static str) -> ! {
    resume_unwind(Box::new(word))
}

/// A future that owns something until it is dropped, whatever its poll does.
fn holding<T>(held: impl Sized, poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> impl Future<Output = T> {
    let mut state = (held, poll);
    poll_fn(move |context| {
        let state = &mut state; // all of it
        state.1(context)
    })
}

#[test]
fn events_that_a_panic_left_behind_are_seen_to_by_the_next_run() {
    const STREAMS: usize = 8;
    ends(|| {
        for faulty in 0..STREAMS {
            let reactor = sockets(STREAMS);
            let read = Cell::new(0);
            let (mine, mut peers): (Vec<_>, Vec<_>) = (0..STREAMS).map(|_| pair()).unzip();
            let executor = Executor::<_, Task<'_>, _>::new(&reactor, STREAMS);
            for (number, socket) in mine.into_iter().enumerate() {
                let mut stream = Io::in_entry(&reactor, socket, ()).expect("room");
                let read = &read;
                let task = async move {
                    stream.read(&mut [0; 8]).await.expect("a byte");
                    if number == faulty {
                        throw("faulty");
                    }
                    read.set(read.get() + 1);
                };
                executor.spawn(|| Box::pin(task)).expect("room");
            }
            let root = async {
                settle().await;
                peers.iter_mut().for_each(|peer| peer.write_all(b"x").expect("room"));
                pending::<()>().await
            };
            assert_eq!(thrown_by(|| executor.run(root)), "faulty");
            executor.run(async {});
            assert_eq!(read.get(), STREAMS - 1);
        }
    });
}

/// They belong to the sockets, which may have another executor by then.
#[test]
fn events_that_a_panic_left_behind_outlive_their_executor() {
    ends(|| {
        let reactor = sockets(2);
        let ((one, mut its_peer), (two, mut another)) = (pair(), pair());
        let mut faulty = Io::in_entry(&reactor, one, ()).expect("room");
        let mut drained = Io::in_entry(&reactor, two, ()).expect("room");
        let executor = Executor::<_, Task<'_>, _>::new(&reactor, 1);
        executor
            .spawn(|| {
                Box::pin(async {
                    faulty.read(&mut [0; 8]).await.expect("a byte");
                    throw("faulty")
                })
            })
            .expect("room");
        let root = async {
            another.write_all(b"x").expect("room");
            assert_eq!(drained.read(&mut [0; 8]).await.expect("a byte"), 1);
            settle().await;
            // It is known to be empty, until its event is seen.
            its_peer.write_all(b"x").expect("room");
            another.write_all(b"yz").expect("room");
            pending::<()>().await
        };
        assert_eq!(thrown_by(|| executor.run(root)), "faulty");
        drop(executor);
        let executor = Executor::<_, Task<'_>, _>::new(&reactor, 0);
        let length = executor.run(async { drained.read(&mut [0; 8]).await.expect("two bytes") });
        assert_eq!(length, 2);
    });
}

#[test]
fn a_task_that_panics_again_when_it_is_dropped_ends_alone() {
    let (ended, finished) = (AtomicUsize::new(0), Cell::new(0));
    let reactor = without_objects();
    let executor = Executor::<_, Task<'_>, _>::new(&reactor, 3);
    for number in 0..3 {
        let (held, finished) = (Ends { ended: &ended, panics: number == 1 }, &finished);
        let task = holding(held, move |_| {
            if number == 1 {
                throw("polled");
            }
            finished.set(finished.get() + 1);
            Poll::Ready(())
        });
        executor.spawn(|| Box::pin(task)).expect("room");
    }
    assert_eq!(thrown_by(|| executor.run(async {})), "polled");
    assert_eq!((executor.len(), finished.get(), ended.load(Ordering::SeqCst)), (1, 1, 2));
    executor.run(async {});
    assert_eq!((executor.len(), finished.get(), ended.load(Ordering::SeqCst)), (0, 2, 3));
}

#[test]
fn a_task_that_panics_when_it_is_dropped_at_its_end_leaves_the_others() {
    let ended = AtomicUsize::new(0);
    let reactor = without_objects();
    let executor = Executor::<_, Task<'_>, _>::new(&reactor, 3);
    for number in 0..3 {
        let held = Ends { ended: &ended, panics: number == 1 };
        executor.spawn(|| Box::pin(holding(held, |_| Poll::Ready(())))).expect("room");
    }
    assert_eq!(thrown_by(|| executor.run(async {})), "dropped");
    executor.run(async {});
    assert_eq!((executor.len(), ended.load(Ordering::SeqCst)), (0, 3));
}

/// The root and what it has returned go with a task that panics.
#[test]
fn a_root_and_an_output_that_panic_when_they_are_dropped_do_not_end_the_process() {
    let ended = AtomicUsize::new(0);
    let reactor = without_objects();
    let executor = Executor::<_, Task<'_>, _>::new(&reactor, 1);
    let faulty = || {
        let task = async {
            settle().await;
            throw("task")
        };
        executor.spawn(|| Box::pin(task)).expect("room");
    };
    faulty();
    let root = holding(Ends::loudly(&ended), |_| Poll::<()>::Pending);
    assert_eq!(thrown_by(|| executor.run(root)), "task");
    assert_eq!(ended.load(Ordering::SeqCst), 1, "a root that waits");
    faulty();
    assert_eq!(thrown_by(|| executor.run(async { Ends::loudly(&ended) })), "task");
    assert_eq!(ended.load(Ordering::SeqCst), 2, "an output");
    let both = holding(Ends::loudly(&ended), |_| Poll::Ready(Ends::loudly(&ended)));
    assert_eq!(thrown_by(|| executor.run(both)), "dropped");
    assert_eq!(ended.load(Ordering::SeqCst), 4, "a root at its end, and its output");
    let polled = holding(Ends::loudly(&ended), |_| -> Poll<()> { throw("root") });
    assert_eq!(thrown_by(|| executor.run(polled)), "root");
    assert_eq!(ended.load(Ordering::SeqCst), 5, "a root that panics");
    executor.run(async {});
}

/// A task may wait for the end of what the root holds, for example of the last sender of a channel.
#[test]
fn a_root_is_dropped_as_soon_as_it_has_finished() {
    ends(|| {
        let reactor = without_objects();
        let executor = Executor::<_, Task<'_>, _>::new(&reactor, 1);
        let (sender, receiver) = async_channel::bounded::<()>(1);
        let task = async move {
            receiver.recv().await.expect_err("the root ends, and with it the sender");
        };
        executor.spawn(|| Box::pin(task)).expect("room");
        executor.run(holding(sender, |_| Poll::Ready(())));
    });
}

#[test]
fn tasks_that_panic_when_their_executor_is_dropped_do_not_keep_the_others() {
    for panicking in [false, true] {
        let ended = AtomicUsize::new(0);
        let reactor = without_objects();
        let executor = Executor::<_, Task<'_>, _>::new(&reactor, 6);
        for number in 0..6 {
            let held = Ends { ended: &ended, panics: number % 2 == 1 };
            executor.spawn(|| Box::pin(holding(held, |_| Poll::Pending))).expect("room");
        }
        let thrown = thrown_by(|| {
            let executor = executor;
            if panicking {
                throw("another");
            }
            drop(executor);
        });
        assert_eq!(
            (thrown, ended.load(Ordering::SeqCst)),
            (if panicking { "another" } else { "dropped" }, 6)
        );
        // The reactor is free again.
        Executor::<_, Task<'_>, _>::new(&reactor, 1).run(settle());
    }
}

/// Something that panics when it is dropped, which throws something that panics when it is dropped, and so on.
struct Grudge;

impl Drop for Grudge {
    fn drop(&mut self) {
        resume_unwind(Box::new(Self));
    }
}

#[test]
fn what_was_thrown_may_panic_when_it_is_dropped() {
    let reactor = without_objects();
    let executor = Executor::<_, Task<'_>, _>::new(&reactor, 2);
    for _ in 0..2 {
        executor.spawn(|| Box::pin(holding(Grudge, |_| throw("task")))).expect("room");
    }
    assert_eq!(thrown_by(|| executor.run(async {})), "task");
    let thrown = catch_unwind(AssertUnwindSafe(|| drop(executor))).expect_err("the other");
    assert!(thrown.is::<Grudge>());
    std::mem::forget(thrown);
}

/// A waker that panics on each of its occasions but its clone, which cannot be written with `Wake`.
struct Faulty;

impl Wake for Faulty {
    fn wake(self: Arc<Self>) {
        throw("wake");
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        throw("drop");
    }
}

#[test]
fn a_foreign_waker_that_panics_ends_the_root_and_loses_nothing() {
    ends(|| {
        let reactor = sockets(2);
        let ((one, mut its_peer), (two, mut another)) = (pair(), pair());
        let read = Cell::new(0);
        let mut faulty = Io::in_entry(&reactor, one, ()).expect("room");
        let mut other = Io::in_entry(&reactor, two, ()).expect("room");
        let executor = Executor::<_, Task<'_>, _>::new(&reactor, 1);
        executor
            .spawn(|| Box::pin(async { read.set(other.read(&mut [0; 8]).await.expect("a byte")) }))
            .expect("room");
        let root = async {
            settle().await;
            let waker = Waker::from(Arc::new(Faulty));
            let mut buffer = [0; 8];
            let mut waits = Box::pin(faulty.read(&mut buffer));
            assert!(poll_once(waits.as_mut(), Some(&waker)).await.is_pending());
            std::mem::forget(waker); // the reactor's is the only one that is dropped, and that is not at its last
            its_peer.write_all(b"x").expect("room");
            another.write_all(b"x").expect("room");
            pending::<()>().await
        };
        assert_eq!(thrown_by(|| executor.run(root)), "wake");
        executor.run(async {});
        assert_eq!(read.get(), 1);
    });
}

/// Dropped with its operation, when it is superseded, and with its object: in each case while a panic is on its way,
/// too.
#[test]
fn a_foreign_waker_that_panics_when_it_is_dropped_concerns_nobody() {
    let reactor = sockets(1);
    for panicking in [false, true] {
        let executor = Executor::<_, Task<'_>, _>::new(&reactor, 0);
        let run = || {
            executor.run(async {
                let (ours, _theirs) = pair();
                let mut stream = Io::in_entry(&reactor, ours, ()).expect("room");
                let mut buffer = [0; 8];
                let faulty = || Waker::from(Arc::new(Faulty));
                let give_away = |waker: Waker| {
                    // The reactor's clone is the last.
                    let _thrown = catch_unwind(AssertUnwindSafe(|| drop(waker)));
                };
                let waker = faulty();
                assert!(
                    stream
                        .poll(&Context::from_waker(&waker), |_| Err::<(), _>(zero_cost_loop::WouldBlock))
                        .is_pending()
                );
                give_away(waker);
                let waker = faulty();
                let mut read = Box::pin(stream.read(&mut buffer));
                assert!(poll_once(read.as_mut(), Some(&waker)).await.is_pending());
                give_away(waker);
                if panicking {
                    throw("task");
                }
            })
        };
        assert_eq!(catch_unwind(AssertUnwindSafe(run)).is_err(), panicking);
        executor.run(settle());
        // Its place is vacant.
        drop(Io::in_entry(&reactor, pair().0, ()).expect("room"));
    }
}

/// A socket that panics when it is closed.
struct Touchy<'c>(UnixStream, #[expect(dead_code, reason = "for its end")] Ends<'c>);

impl AsFd for Touchy<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[test]
fn a_stream_that_panics_when_it_is_dropped_leaves_its_place() {
    let ended = AtomicUsize::new(0);
    let reactor = sockets(1);
    for round in 1..4 {
        let stream = Io::in_entry(&reactor, Touchy(pair().0, Ends::loudly(&ended)), ()).expect("room");
        assert_eq!(thrown_by(|| drop(stream)), "dropped");
        let owned = Io::owned(&reactor, Touchy(pair().0, Ends::loudly(&ended)), ()).expect("room");
        assert_eq!(thrown_by(|| drop(owned)), "dropped");
        assert_eq!(ended.load(Ordering::SeqCst), 2 * round);
    }
}

#[test]
fn a_hook_that_panics_ends_the_root_only() {
    let (place, ready) = (RefCell::new(None::<Waker>), Cell::new(false));
    let reactor = without_objects();
    let executor = Executor::<_, Task<'_>, _>::new(&reactor, 1);
    let task = poll_fn(|context| {
        *place.borrow_mut() = Some(context.waker().clone());
        if ready.get() { Poll::Ready(()) } else { Poll::Pending }
    });
    executor.spawn(|| Box::pin(task)).expect("room");
    assert_eq!(thrown_by(|| executor.run_with(pending::<()>(), || throw("hook"))), "hook");
    ready.set(true);
    place.borrow().as_ref().expect("it waits").wake_by_ref();
    executor.run(yield_now(1));
    assert!(executor.is_empty());
}

/// Foreign wakers of two operations, of which one is given up by a panic of the other.
#[test]
fn a_panic_takes_the_wakers_of_given_up_operations_along() {
    let reactor = sockets(1);
    let (ours, mut theirs) = pair();
    let mut stream = Io::in_entry(&reactor, ours, ()).expect("room");
    let executor = Executor::<_, Task<'_>, _>::new(&reactor, 0);
    let foreign = Foreign::new(None);
    let root = async {
        let waker = Waker::from(Arc::clone(&foreign));
        let mut buffer = [0; 8];
        let mut read = Box::pin(stream.read(&mut buffer));
        assert!(poll_once(read.as_mut(), Some(&waker)).await.is_pending());
        throw("root")
    };
    assert_eq!(thrown_by(|| executor.run(root)), "root");
    assert_eq!(Arc::strong_count(&foreign), 1);
    theirs.write_all(b"x").expect("room");
    executor.run(settle());
    assert_eq!(foreign.wakes.load(Ordering::SeqCst), 0);
    drop(stream);
    assert_eq!(theirs.read(&mut [0; 1]).map_err(|error| error.kind()).unwrap_or(0), 0);
}
