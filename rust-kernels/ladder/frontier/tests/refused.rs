//! What there is no room for, and what the operating system does not do, is an error and leaves no trace; settings at
//! both ends are refused or work.

mod common;

use std::cell::Cell;
use std::fs::File;
use std::future::poll_fn;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use common::{Task, poll_once, settle};
use frontier::{Epoll, Executor, Full, Io, Object, Reactor, Sockets, System};
use rustix::io::Errno;
use zero_cost_loop::Timed;

type Watching<S> = Reactor<Epoll<S>, Timed<()>>;

fn reactor<S: AsFd>(room: usize) -> Watching<S> {
    Reactor::new(Epoll::new().expect("an epoll"), room).expect("room")
}

fn pair() -> (UnixStream, UnixStream) {
    let (ours, theirs) = UnixStream::pair().expect("two sockets");
    ours.set_nonblocking(true).expect("a socket");
    (ours, theirs)
}

/// The error instead of something that is watched.
fn error<T>(outcome: io::Result<T>) -> io::Error {
    outcome.err().expect("it is refused")
}

fn is_full<T>(outcome: io::Result<T>) -> bool {
    error(outcome).downcast::<Full>().is_ok()
}

#[test]
fn a_full_reactor_refuses_and_closes_what_it_was_given() {
    for room in 0..3 {
        let reactor = reactor(room);
        let mut registered: Vec<_> =
            (0..room).map(|_| Io::in_entry(&reactor, pair().0, ()).expect("room")).collect();
        let (ours, mut theirs) = pair();
        assert!(is_full(Io::in_entry(&reactor, ours, ())));
        assert_eq!(theirs.read(&mut [0]).expect("its end"), 0);
        let (ours, mut theirs) = pair();
        assert!(is_full(Io::owned(&reactor, ours, ())));
        assert_eq!(theirs.read(&mut [0]).expect("its end"), 0);
        if registered.pop().is_some() {
            drop(Io::owned(&reactor, pair().0, ()).expect("one place is vacant"));
            drop(Io::in_entry(&reactor, pair().0, ()).expect("one place is vacant"));
        }
    }
}

/// The kernel does not watch files, nor one file twice.
#[test]
fn what_the_kernel_does_not_watch_is_refused_and_takes_no_place() {
    let file = || {
        File::open("/proc/self/status").and_then(|_| File::open(std::env::current_exe()?)).expect("a file")
    };
    let reactor = reactor::<File>(1);
    for _ in 0..3 {
        assert_eq!(
            error(Io::in_entry(&reactor, file(), ())).raw_os_error(),
            Some(Errno::PERM.raw_os_error())
        );
        assert_eq!(error(Io::owned(&reactor, file(), ())).raw_os_error(), Some(Errno::PERM.raw_os_error()));
    }
    drop(Io::owned(&reactor, pair().0, ()).expect("its place is vacant"));
    let reactor = self::reactor::<File>(2);
    let (ours, _theirs) = pair();
    let first = Io::owned(&reactor, &ours, ()).expect("room");
    let second = error(Io::owned(&reactor, &ours, ()));
    assert_eq!(second.raw_os_error(), Some(Errno::EXIST.raw_os_error()));
    drop(first);
    drop(Io::owned(&reactor, &ours, ()).expect("it is not watched any more"));
}

/// A socket whose place another one takes once it is watched, as if it had been closed behind our back.
struct Exchanged {
    watched: UnixStream,
    other: UnixStream,
    borrowed: Cell<bool>,
}

impl AsFd for Exchanged {
    fn as_fd(&self) -> BorrowedFd<'_> {
        if self.borrowed.replace(true) { self.other.as_fd() } else { self.watched.as_fd() }
    }
}

impl Read for &Exchanged {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.watched).read(buffer)
    }
}

impl io::Write for &Exchanged {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_write_that_cannot_be_waited_for_is_an_error() {
    let reactor = reactor(1);
    let executor = Executor::<_, Task<'_>, _>::new(&reactor, 0);
    let (ours, _theirs) = pair();
    let exchanged = Exchanged { watched: ours, other: pair().0, borrowed: Cell::new(false) };
    let mut stream = Io::in_entry(&reactor, exchanged, ()).expect("room");
    executor.run(async {
        for _ in 0..3 {
            let outcome = stream.write(b"x").await;
            assert_eq!(error(outcome).raw_os_error(), Some(Errno::NOENT.raw_os_error()));
            assert!(poll_once(stream.read(&mut [0]), None).await.is_pending());
        }
        settle().await;
    });
    drop(stream); // nor is it watched
    drop(Io::owned(&reactor, pair().0, ()).expect("its place is vacant"));
}

/// A system that watches nothing.
struct Closed;

// SAFETY: it does nothing.
unsafe impl System for Closed {
    type Event = ();
    type Interest = ();
    type Stream = ();

    fn poll(&self, _: &mut Vec<()>, _: impl FnOnce() -> bool) {}

    fn key((): &()) -> usize {
        unreachable!("there are no events")
    }

    fn is_end((): &()) -> bool {
        false
    }

    unsafe fn notifier(&self, _: usize) -> io::Result<Waker> {
        Err(Errno::NOSPC.into())
    }
}

// SAFETY: it registers nothing.
unsafe impl Object<Closed> for () {
    unsafe fn register(&self, _: &Closed, _: usize, (): ()) -> io::Result<()> {
        Err(Errno::NOSPC.into())
    }

    fn unregister(&self, _: &Closed) {}
}

#[test]
fn a_reactor_whose_notifier_is_refused_or_which_is_too_large_is_not_made() {
    let refused = Reactor::<_, Timed<()>>::new(Closed, 1);
    assert_eq!(error(refused).raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
    for room in [usize::MAX, usize::MAX - 1, usize::MAX / 64] {
        let endless = Reactor::<Epoll<UnixStream>, Timed<()>>::new(Epoll::new().expect("an epoll"), room);
        assert_eq!(error(endless).kind(), io::ErrorKind::OutOfMemory);
    }
}

#[test]
fn an_executor_has_room_for_none_or_many_and_refuses_more() {
    let reactor = reactor::<UnixStream>(0);
    for room in [0, 1, 511, 512, 513] {
        let done = Cell::new(0);
        let executor = Executor::<_, Task<'_>, _>::new(&reactor, room);
        executor.run(async {
            let done = &done;
            for _ in 0..room {
                executor.spawn(|| Box::pin(async { done.set(done.get() + 1) })).expect("room");
            }
            assert_eq!(executor.spawn(|| unreachable!()), Err(Full));
            settle().await;
        });
        assert_eq!(done.get(), room);
    }
    for room in [usize::MAX, u32::MAX as usize + 1] {
        let endless = || drop(Executor::<_, Task<'_>, _>::new(&reactor, room));
        catch_unwind(AssertUnwindSafe(endless)).expect_err("too many");
    }
    Executor::<_, Task<'_>, _>::new(&reactor, 1).run(async {});
}

#[test]
fn the_poller_waits_for_any_time_and_into_any_memory() {
    let epoll = Epoll::<UnixStream>::new().expect("an epoll");
    let mut events = Vec::new();
    let began = Instant::now();
    for time in [Duration::ZERO, Duration::from_nanos(1), Duration::from_millis(1)] {
        epoll.wait(&mut events, Some(time));
        assert!(events.is_empty() && began.elapsed() >= time);
    }
    // SAFETY: no reactor is given these events.
    let notifier = unsafe { epoll.notifier(7) }.expect("room");
    let long = [
        Duration::MAX,
        Duration::from_secs(u64::MAX),
        Duration::from_secs(1 << 40),
        Duration::from_secs(1 << 22),
    ];
    for time in long.map(Some).into_iter().chain([None]) {
        notifier.wake_by_ref();
        events = Vec::new();
        epoll.wait(&mut events, time);
        assert_eq!(events.iter().map(Epoll::<UnixStream>::key).collect::<Vec<_>>(), [7]);
    }
    let (ours, _theirs) = pair();
    // SAFETY: as above.
    unsafe { ours.register(&epoll, 8, ()) }.expect("it can be watched");
    // SAFETY: as above.
    let watch_writes = || unsafe { epoll.watch_writes(&ours, 8) };
    watch_writes().expect("it is watched");
    ours.unregister(&epoll);
    ours.unregister(&epoll);
    assert_eq!(error(watch_writes()).raw_os_error(), Some(Errno::NOENT.raw_os_error()));
}

/// Not even the last places of a reactor are lost to a stream whose executor ends first.
#[test]
fn all_places_are_vacant_again_in_the_end() {
    let reactor = reactor(3);
    for _ in 0..100 {
        let executor = Executor::<_, Task<'_>, _>::new(&reactor, 3);
        let peers: Vec<_> = (0..3)
            .map(|_| {
                let (ours, theirs) = pair();
                let mut stream = Io::in_entry(&reactor, ours, ()).expect("room");
                let task = async move { drop(stream.read(&mut [0]).await) };
                executor.spawn(|| Box::pin(task)).expect("room");
                theirs
            })
            .collect();
        let mut polls = 0;
        let enough = poll_fn(|context| {
            context.waker().wake_by_ref();
            polls += 1;
            assert!(polls < 300, "enough");
            Poll::<()>::Pending
        });
        catch_unwind(AssertUnwindSafe(|| executor.run(enough))).expect_err("it panics");
        drop(executor);
        assert!(peers.into_iter().all(|mut peer| peer.read(&mut [0]).expect("its end") == 0));
    }
}
