//! The frontier on real sockets: streams that end, writes that wait, wakes from other threads, and files that are all
//! closed.

mod common;

use std::cell::Cell;
use std::future::poll_fn;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use common::Task;
use frontier::{Epoll, Executor, Io, Reactor};
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
