//! Connections that stay open: one request after the other, whatever the client does meanwhile.

#[allow(dead_code, reason = "only a part of it is needed here")]
mod common;

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use common::{kept_servers, watched};
use zero_cost_loop::SMALL_BUFFER;
use zero_cost_sockets::Listener;

/// Serves one client, who acts before each wait and sees the number of the wait: it connects at the first. Returns what
/// it was sent until the server hung up. `before` is written to it before it connects.
fn served(before: &[u8], mut client: impl FnMut(usize, &mut UnixStream, &mut Vec<u8>)) -> Vec<Vec<u8>> {
    let mut all = vec![];
    watched(|| {
        for (_, world) in kept_servers() {
            let listener = Listener::open(usize::MAX).unwrap();
            let (mut ours, mut theirs) = UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            theirs.set_nonblocking(true).unwrap();
            while !before.is_empty() && theirs.write(before).is_ok() {}
            listener.hand_over(theirs);
            let (mut received, mut wait) = (vec![], 0);
            world(0, &listener, &mut |serve| {
                serve(1, &mut || {
                    match wait {
                        0 => listener.announce(1).unwrap(),
                        wait => client(wait, &mut ours, &mut received),
                    }
                    wait += 1;
                });
            });
            ours.read_to_end(&mut received).expect("an end");
            all.push(received);
        }
    });
    assert_eq!(all.len(), 4, "the loop, the async server and tokio's two");
    all
}

/// Reads what is there.
fn read_available(stream: &mut UnixStream, received: &mut Vec<u8>) {
    let error = stream.read_to_end(received).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
}

#[test]
fn a_request_that_comes_together_with_the_end_is_answered() {
    let received = served(b"", |wait, client, _| {
        client.write_all(b"hello\n").unwrap();
        if wait == 2 {
            client.shutdown(Shutdown::Write).unwrap();
        }
    });
    assert!(received.iter().all(|bytes| bytes == b"hello\nhello\n"), "{received:?}");
}

#[test]
fn a_line_in_pieces_is_answered_when_it_is_whole_and_so_is_the_next() {
    let received = served(b"", |wait, client, _| match b"he\nllo\n".get(wait - 1) {
        Some(byte) => client.write_all(&[*byte]).unwrap(),
        None => client.shutdown(Shutdown::Write).unwrap(),
    });
    assert!(received.iter().all(|bytes| bytes == b"he\nllo\n"), "{received:?}");
}

#[test]
fn a_request_that_comes_while_the_last_answer_waits_for_room_is_answered() {
    let full = [b'-'; 1000];
    let received = served(&full, |wait, client, received| match wait {
        1 => client.write_all(b"first\n").unwrap(),
        2 => client.write_all(b"second\n").unwrap(),
        3 => read_available(client, received),
        _ => {
            read_available(client, received);
            client.shutdown(Shutdown::Write).unwrap();
        }
    });
    assert!(received.iter().all(|bytes| bytes.ends_with(b"-first\nsecond\n")), "{received:?}");
}

#[test]
fn a_line_that_fills_the_buffer_is_answered_and_so_is_the_next() {
    let mut line = [b'x'; SMALL_BUFFER];
    line[SMALL_BUFFER - 1] = b'\n';
    let received = served(b"", |wait, client, _| match wait {
        1 => client.write_all(&line).unwrap(),
        2 => client.write_all(b"next\n").unwrap(),
        _ => client.shutdown(Shutdown::Write).unwrap(),
    });
    let expected = [&line[..], b"next\n"].concat();
    assert!(received.iter().all(|bytes| *bytes == expected), "{received:?}");
}
