//! The frontier on real sockets: streams that end, writes that wait, wakes from other threads, and files that are all
//! closed.

mod common;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use common::Task;
use frontier::{Epoll, Executor, Io, Reactor};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, send,
    sendmsg, socketpair,
};
use zero_cost_loop::Timed;

type Sockets = Reactor<Epoll<UnixStream>, Timed<()>>;

fn reactor(streams: usize) -> Sockets {
    Reactor::new(Epoll::new().expect("an epoll"), streams).expect("room for the streams")
}

/// A stream that the reactor watches, and its other end.
fn pair(reactor: &Sockets) -> (Io<'_, Epoll<UnixStream>, Timed<()>>, UnixStream) {
    let (ours, theirs) = UnixStream::pair().expect("two sockets");
    ours.set_nonblocking(true).expect("a socket");
    (Io::in_entry(reactor, ours, ()).expect("it can be watched"), theirs)
}

#[test]
fn what_comes_in_pieces_is_read_to_its_end() {
    let reactor = reactor(1);
    let executor = Executor::<_, Task<'_>, _>::new(&reactor, 1);
    let (mut stream, mut client) = pair(&reactor);
    let client = thread::spawn(move || {
        for piece in ["he", "l", "lo"] {
            client.write_all(piece.as_bytes()).unwrap();
            thread::sleep(Duration::from_millis(5));
        }
    });
    let received = executor.run(async {
        let (mut received, mut buffer) = (Vec::new(), [0; 16]);
        loop {
            match stream.read(&mut buffer).await.unwrap() {
                0 => return received,
                length => received.extend_from_slice(&buffer[..length]),
            }
        }
    });
    assert_eq!(received, b"hello");
    client.join().unwrap();
}

/// One event says both that there are bytes and that they are the last: it does not come again.
#[test]
fn an_end_that_came_with_the_last_bytes_is_not_missed() {
    let reactor = reactor(1);
    let executor = Executor::<_, Task<'_>, _>::new(&reactor, 1);
    let (mut stream, mut client) = pair(&reactor);
    let lengths = executor.run(async {
        let mut buffer = [0; 16];
        // Asks first, so that the event ends a wait.
        let mut first = Box::pin(stream.read(&mut buffer));
        poll_fn(|context| {
            assert!(first.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
        client.write_all(b"bye").unwrap();
        drop(client);
        let first = first.await.unwrap();
        (first, stream.read(&mut buffer).await.unwrap())
    });
    assert_eq!(lengths, (3, 0));
}

#[test]
fn a_write_that_has_to_wait_goes_on_when_there_is_room() {
    const BYTES: usize = 1 << 22;
    let reactor = reactor(1);
    let executor = Executor::<_, Task<'_>, _>::new(&reactor, 1);
    let (mut stream, mut client) = pair(&reactor);
    let client = thread::spawn(move || {
        let mut received = Vec::new();
        client.read_to_end(&mut received).unwrap();
        received
    });
    let bytes: Vec<u8> = (0..BYTES).map(|index| (index % 251) as u8).collect();
    executor.run(async {
        let mut sent = 0;
        while sent < BYTES {
            sent += stream.write(&bytes[sent..]).await.unwrap();
        }
        drop(stream);
    });
    assert_eq!(client.join().unwrap(), bytes);
}

/// The poller would wait for ever: nothing comes over its only socket.
#[test]
fn a_wake_from_another_thread_ends_the_wait_of_the_poller() {
    let reactor = reactor(1);
    let executor = Executor::<_, Task<'_>, _>::new(&reactor, 1);
    let (mut stream, client) = pair(&reactor);
    let woken = Arc::new(AtomicBool::new(false));
    let polls = Cell::new(0);
    executor.run(async {
        let mut never = [0; 1];
        let mut read = Box::pin(stream.read(&mut never));
        let mut started = false;
        poll_fn(|context| {
            polls.set(polls.get() + 1);
            assert!(read.as_mut().poll(context).is_pending());
            if !std::mem::replace(&mut started, true) {
                let (waker, woken) = (context.waker().clone(), Arc::clone(&woken));
                thread::spawn(move || {
                    thread::sleep(Duration::from_millis(20));
                    woken.store(true, Ordering::SeqCst);
                    waker.wake();
                });
            }
            if woken.load(Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    });
    assert!(polls.get() < 5, "it polled {} times in place of waiting", polls.get());
    drop(client);
}

#[test]
fn without_any_socket_a_wake_ends_the_wait_too() {
    let reactor = reactor(0);
    let executor = Executor::<_, Task<'_>, _>::new(&reactor, 0);
    let mut sent = false;
    executor.run(poll_fn(|context| {
        if std::mem::replace(&mut sent, true) {
            return Poll::Ready(());
        }
        let waker: Waker = context.waker().clone();
        thread::spawn(move || waker.wake());
        Poll::Pending
    }));
}

/// Each answers its own client, whoever is ready first.
#[test]
fn hundreds_of_streams_are_served_and_closed() {
    const STREAMS: usize = 400;
    let reactor = reactor(STREAMS);
    let executor = Executor::<_, Task<'_>, _>::new(&reactor, STREAMS);
    let (streams, clients): (Vec<_>, Vec<_>) = (0..STREAMS).map(|_| pair(&reactor)).unzip();
    let clients = thread::spawn(move || {
        for round in 0..3_u8 {
            for (number, mut client) in clients.iter().enumerate().rev() {
                client.write_all(&[round, number as u8]).unwrap();
            }
            for (number, mut client) in clients.iter().enumerate() {
                let mut answer = [0; 2];
                client.read_exact(&mut answer).unwrap();
                assert_eq!(answer, [round, number as u8]);
            }
        }
        // Ours hang up first; then the server's ends are closed, which is seen here.
        for mut client in clients {
            client.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
        }
    });
    executor.run(async {
        for mut stream in streams {
            let serve = async move {
                let mut buffer = [0; 8];
                while let Ok(length @ 1..) = stream.read(&mut buffer).await {
                    assert_eq!(stream.write(&buffer[..length]).await.unwrap(), length);
                }
            };
            executor.spawn(|| Box::pin(serve)).unwrap();
        }
    });
    clients.join().unwrap();
}

/// Streams that the root of an executor reads, and what comes of it.
fn reads<S: AsFd>(stream: S, work: impl AsyncFnOnce(Io<'_, Epoll<S>, Timed<()>>)) {
    let reactor = Reactor::new(Epoll::<S>::new().expect("an epoll"), 1).expect("room for one");
    let executor = Executor::<_, Task<'_>, _>::new(&reactor, 1);
    executor.run(async { work(Io::in_entry(&reactor, stream, ()).expect("it can be watched")).await });
}

/// Two connected sockets of this kind; the first one does not block.
fn sockets(kind: SocketType) -> [OwnedFd; 2] {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, kind, SocketFlags::empty(), None).expect("two");
    rustix::io::ioctl_fionbio(&ours, true).expect("a socket");
    [ours, theirs]
}

/// Whatever it is made of, each read takes one packet.
#[test]
fn packets_that_are_there_are_read_one_by_one() {
    for kind in [SocketType::DGRAM, SocketType::SEQPACKET] {
        let [ours, theirs] = sockets(kind);
        reads(TcpStream::from(ours), async |mut stream| {
            let mut buffer = [0; 16];
            for round in 1..4 {
                (0..round).for_each(|_| assert_eq!(send(&theirs, b"one", SendFlags::empty()), Ok(3)));
                for _ in 0..round {
                    assert_eq!(stream.read(&mut buffer).await.unwrap(), 3);
                }
            }
        });
    }
}

/// A read stops behind a byte with which a file comes along.
#[test]
fn bytes_behind_a_file_that_was_sent_along_are_read() {
    let [ours, theirs] = sockets(SocketType::STREAM);
    reads(UnixStream::from(ours), async |mut stream| {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut file = SendAncillaryBuffer::new(&mut space);
        let files = [theirs.as_fd()];
        assert!(file.push(SendAncillaryMessage::ScmRights(&files)));
        sendmsg(&theirs, &[IoSlice::new(b"one")], &mut file, SendFlags::empty()).unwrap();
        send(&theirs, b"two", SendFlags::empty()).unwrap();
        let (mut received, mut buffer) = (0, [0; 16]);
        while received < 6 {
            received += stream.read(&mut buffer).await.unwrap();
        }
    });
}

/// Two connected streams; the first one does not block.
fn connection() -> [TcpStream; 2] {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (ours, _) = listener.accept().unwrap();
    ours.set_nonblocking(true).unwrap();
    [ours, theirs]
}

/// A read stops before a byte that is urgent.
#[test]
fn bytes_behind_an_urgent_one_are_read() {
    let [ours, theirs] = connection();
    reads(ours, async |mut stream| {
        for (bytes, how) in
            [(b"one", SendFlags::empty()), (b"two", SendFlags::OOB), (b"six", SendFlags::empty())]
        {
            assert_eq!(send(&theirs, bytes, how), Ok(3));
        }
        let (mut received, mut buffer) = (0, [0; 16]);
        while received < 8 {
            received += stream.read(&mut buffer).await.unwrap();
        }
    });
}

/// A stream of a user's own, which has read more than it gives away.
struct Buffered(TcpStream, RefCell<VecDeque<u8>>);

impl AsFd for Buffered {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Read for &Buffered {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (mut kept, mut bytes) = (self.1.borrow_mut(), [0; 64]);
        if kept.is_empty() {
            let length = (&self.0).read(&mut bytes)?;
            kept.extend(&bytes[..length]);
        }
        let length = buffer.len().min(2);
        kept.read(&mut buffer[..length])
    }
}

impl Write for &Buffered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_a_stream_has_kept_itself_is_read() {
    let [ours, mut theirs] = connection();
    theirs.write_all(b"hello").unwrap();
    reads(Buffered(ours, RefCell::default()), async |mut stream| {
        let (mut received, mut buffer) = (0, [0; 16]);
        while received < 5 {
            received += stream.read(&mut buffer).await.unwrap();
        }
    });
}
