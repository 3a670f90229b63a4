//! An operation that was given up leaves its socket as it was: whatever is done next is tried, and whoever waits next is
//! woken.

mod common;

use std::io::{ErrorKind, Read, Write};
use std::mem::ManuallyDrop;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};

use common::{Foreign, Task, ends, poll_once, settle};
use frontier::{Epoll, Executor, Io, Reactor, tried};
use zero_cost_loop::Timed;

/// What is done to a socket.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    Read,
    Write,
    /// A read without the reactor's knowledge of what a read leaves behind.
    Attempt,
}

/// One way to give up an operation and to begin another.
#[derive(Clone, Copy, Debug)]
struct Case {
    given_up: Act,
    next: Act,
    /// Given up by a combinator, with a waker of its own.
    foreign: bool,
    /// The reactor polls the system between the two.
    settles: bool,
    /// Another task begins the other.
    moves: bool,
    /// What is read was there before the first was given up.
    early: bool,
}

fn cases() -> impl Iterator<Item = Case> {
    let acts = [Act::Read, Act::Write, Act::Attempt];
    let pairs = acts.into_iter().flat_map(move |given_up| acts.map(|next| (given_up, next)));
    pairs.flat_map(|(given_up, next)| {
        (0..16).map(move |bits| {
            let [foreign, settles, moves, early] = [1, 2, 4, 8].map(|bit| bits & bit != 0);
            Case { given_up, next, foreign, settles, moves, early }
        })
    })
}

trait Stream: AsFd + Sized + 'static {
    fn pair() -> (Self, Self);
    fn set_nonblocking(&self);
}

impl Stream for UnixStream {
    fn pair() -> (Self, Self) {
        Self::pair().expect("two sockets")
    }

    fn set_nonblocking(&self) {
        Self::set_nonblocking(self, true).expect("a socket");
    }
}

/// A socket that stays writable makes no new event over TCP.
impl Stream for TcpStream {
    fn pair() -> (Self, Self) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let client = Self::connect(listener.local_addr().expect("an address")).expect("a client");
        (listener.accept().expect("its other end").0, client)
    }

    fn set_nonblocking(&self) {
        Self::set_nonblocking(self, true).expect("a socket");
    }
}

type Ours<'r, S> = Io<'r, Epoll<S>, Timed<()>>;

/// The other end, and how many bytes are on the way to it.
struct Peer<S>(S, usize);

impl<S> Peer<S>
where
    for<'a> &'a S: Read + Write,
{
    fn drain(&mut self) {
        (&self.0).read_exact(&mut vec![0; std::mem::take(&mut self.1)]).expect("what was sent");
    }
}

static BIG: [u8; 1 << 18] = [0; 1 << 18];

/// Begins what will have to wait, and gives it up.
async fn give_up<S: AsFd>(case: Case, stream: &mut Ours<'_, S>, peer: &mut Peer<S>)
where
    for<'a> &'a S: Read + Write,
{
    let waker = case.foreign.then(|| Waker::from(Foreign::new(None)));
    let mut buffer = [0; 16];
    match case.given_up {
        Act::Read => assert!(poll_once(stream.read(&mut buffer), waker.as_ref()).await.is_pending()),
        Act::Attempt => {
            let read = stream.attempt(|mut stream| tried(stream.read(&mut buffer)));
            assert!(poll_once(read, waker.as_ref()).await.is_pending());
        }
        Act::Write => {
            while let Poll::Ready(length) = poll_once(stream.write(&BIG), waker.as_ref()).await {
                peer.1 += length.expect("room");
            }
        }
    }
}

/// Does what can be done, and looks whether it happens.
async fn proceed<S: AsFd>(case: Case, stream: &mut Ours<'_, S>, peer: &mut Peer<S>)
where
    for<'a> &'a S: Read + Write,
{
    let mut buffer = [0; 16];
    match case.next {
        Act::Read | Act::Attempt => {
            if !case.early {
                (&peer.0).write_all(b"word").expect("room");
            }
            let length = if case.next == Act::Read {
                stream.read(&mut buffer).await
            } else {
                stream.attempt(|mut stream| tried(stream.read(&mut buffer))).await
            };
            assert_eq!((length.expect("a word"), &buffer[..4]), (4, &b"word"[..]));
        }
        Act::Write => {
            peer.drain();
            peer.1 += stream.write(b"answer").await.expect("room");
            peer.drain();
        }
    }
}

fn every_pair<S: Stream>()
where
    for<'a> &'a S: Read + Write,
{
    for case in cases() {
        // Nothing that is there already can be given up.
        let reads = matches!(case.next, Act::Read | Act::Attempt);
        if case.early && !(reads && case.given_up == Act::Write) {
            continue;
        }
        let reactor = Reactor::<Epoll<S>, Timed<()>>::new(Epoll::new().expect("an epoll"), 1).expect("room");
        let executor = Executor::<_, Task<'_>, _>::new(&reactor, 1);
        let (ours, theirs) = S::pair();
        ours.set_nonblocking();
        let mut stream = Io::in_entry(&reactor, ours, ()).expect("it can be watched");
        let mut peer = Peer(theirs, 0);
        executor.run(async {
            for _ in 0..if case.moves { 1 } else { 3 } {
                if case.early {
                    (&peer.0).write_all(b"word").expect("room");
                }
                give_up(case, &mut stream, &mut peer).await;
                if case.settles {
                    settle().await;
                }
                if !case.moves {
                    proceed(case, &mut stream, &mut peer).await;
                }
            }
            if case.moves {
                let task = async move { proceed(case, &mut stream, &mut peer).await };
                executor.spawn(|| Box::pin(task)).expect("room for a task");
            }
        });
    }
}

#[test]
fn every_operation_is_tried_after_any_other_was_given_up_over_unix_sockets() {
    ends(every_pair::<UnixStream>);
}

#[test]
fn every_operation_is_tried_after_any_other_was_given_up_over_tcp() {
    ends(every_pair::<TcpStream>);
}

/// That is what the waiting operation is spared: only an event of the socket makes it call again.
#[test]
fn a_wake_from_elsewhere_does_not_try_an_operation_that_waits() {
    let reactor =
        Reactor::<Epoll<UnixStream>, Timed<()>>::new(Epoll::new().expect("an epoll"), 1).expect("room");
    let executor = Executor::<_, Task<'_>, _>::new(&reactor, 0);
    let (ours, _theirs) = <UnixStream as Stream>::pair();
    ours.set_nonblocking(true).expect("a socket");
    let mut stream = Io::in_entry(&reactor, ours, ()).expect("it can be watched");
    let mut calls = 0;
    executor.run(async {
        let mut read = pin!(stream.attempt(|mut stream| {
            calls += 1;
            tried(stream.read(&mut [0; 1]))
        }));
        for _ in 0..5 {
            assert!(poll_once(read.as_mut(), None).await.is_pending());
            settle().await;
        }
    });
    // The first event of a socket says that it can be written to.
    assert!(calls <= 2, "{calls} calls");
}

/// A combinator's waker may hold what it is to wake, and with it the socket.
#[test]
fn an_operation_takes_a_foreign_waker_along_when_it_is_given_up() {
    let reactor =
        Reactor::<Epoll<UnixStream>, Timed<()>>::new(Epoll::new().expect("an epoll"), 1).expect("room");
    let executor = Executor::<_, Task<'_>, _>::new(&reactor, 0);
    let (ours, _theirs) = <UnixStream as Stream>::pair();
    ours.set_nonblocking(true).expect("a socket");
    let mut stream = Io::in_entry(&reactor, ours, ()).expect("it can be watched");
    let foreign = Foreign::new(None);
    let waker = Waker::from(Arc::clone(&foreign));
    let mut buffer = [0; 16];
    executor.run(async {
        assert!(poll_once(stream.read(&mut buffer), None).await.is_pending());
        assert!(poll_once(stream.read(&mut buffer), Some(&waker)).await.is_pending());
        assert_eq!(Arc::strong_count(&foreign), 2, "given up");
        assert!(poll_once(stream.attempt(|mut s| tried(s.read(&mut [0]))), Some(&waker)).await.is_pending());
        assert_eq!(Arc::strong_count(&foreign), 2, "given up");
        // A future may be forgotten, and with it what it would have done at its end.
        let mut read = ManuallyDrop::new(stream.read(&mut buffer));
        assert!(poll_once(&mut *read, Some(&waker)).await.is_pending());
        assert_eq!(Arc::strong_count(&foreign), 3, "it waits");
        assert!(poll_once(&mut *read, None).await.is_pending());
        assert_eq!(Arc::strong_count(&foreign), 2, "superseded by a task");
        assert!(poll_once(&mut *read, Some(&waker)).await.is_pending());
    });
    assert_eq!(Arc::strong_count(&foreign), 3);
    drop(stream);
    assert_eq!(Arc::strong_count(&foreign), 2, "the socket is closed");
}

/// Even one that was forgotten without being dropped does not stand in the way of the next.
#[test]
fn a_forgotten_operation_does_not_hold_up_the_next() {
    ends(|| {
        let reactor =
            Reactor::<Epoll<UnixStream>, Timed<()>>::new(Epoll::new().expect("an epoll"), 1).expect("room");
        let executor = Executor::<_, Task<'_>, _>::new(&reactor, 0);
        let (ours, mut theirs) = <UnixStream as Stream>::pair();
        ours.set_nonblocking(true).expect("a socket");
        let mut stream = Io::in_entry(&reactor, ours, ()).expect("it can be watched");
        executor.run(async {
            let mut buffer = [0; 1];
            let mut read = ManuallyDrop::new(stream.read(&mut buffer));
            assert!(poll_once(&mut *read, None).await.is_pending());
            settle().await;
            assert_eq!(stream.write(b"x").await.expect("room"), 1);
        });
        theirs.read_exact(&mut [0]).expect("what was written");
    });
}

/// The kernel would wait for bytes even then.
#[test]
fn an_empty_buffer_is_read_into_at_once() {
    ends(|| {
        let reactor =
            Reactor::<Epoll<UnixStream>, Timed<()>>::new(Epoll::new().expect("an epoll"), 1).expect("room");
        let executor = Executor::<_, Task<'_>, _>::new(&reactor, 0);
        let (ours, mut theirs) = <UnixStream as Stream>::pair();
        ours.set_nonblocking(true).expect("a socket");
        let mut stream = Io::in_entry(&reactor, ours, ()).expect("it can be watched");
        theirs.write_all(b"abc").expect("room");
        executor.run(async {
            assert_eq!(stream.read(&mut [0; 8]).await.expect("bytes"), 3);
            // It is known to be empty now.
            assert_eq!(stream.read(&mut []).await.expect("no bytes"), 0);
            assert_eq!(stream.write(&[]).await.expect("no bytes"), 0);
            assert!(poll_once(stream.read(&mut [0; 8]), None).await.is_pending());
            assert_eq!(stream.read(&mut []).await.expect("no bytes"), 0);
        });
        let blocks = theirs.set_nonblocking(true).and_then(|()| theirs.read(&mut [0; 8]));
        assert_eq!(blocks.expect_err("nothing was written").kind(), ErrorKind::WouldBlock);
    });
}
