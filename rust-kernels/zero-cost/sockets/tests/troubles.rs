//! A client in trouble, or one that makes it, ends its own connection and no other.

#[allow(dead_code, reason = "only a part of it is needed here")]
mod common;

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use common::{servers, watched};
use harness::Counts;
use zero_cost_sockets::{Clients, LINE, Listener, World};

/// Serves one troubled client between two good ones. `trouble` is called before each wait, with the number of
/// the call; the troubled client is connected before the first.
fn beside_good_clients(
    world: World,
    listener: &Rc<Listener>,
    trouble: impl FnMut(usize, &mut Option<UnixStream>),
) {
    beside_good_clients_with(|| listener.connect().unwrap(), world, listener, trouble);
}

/// As [`beside_good_clients`]; `connect` makes the troubled client.
fn beside_good_clients_with(
    connect: impl Fn() -> UnixStream,
    world: World,
    listener: &Rc<Listener>,
    mut trouble: impl FnMut(usize, &mut Option<UnixStream>),
) {
    let good = |line| GoodClient { stream: listener.connect().unwrap(), line, asked: false };
    let (mut first, mut last) = (None, None);
    let mut troubled = None;
    let mut turn = 0;
    world(0, listener, &mut |serve| {
        serve(3, &mut || {
            if turn == 0 {
                first = Some(good(b"first\n"));
                troubled = Some(connect());
                last = Some(good(b"last!\n"));
                listener.announce(3).unwrap();
            }
            trouble(turn, &mut troubled);
            turn += 1;
            // The last good client asks when the trouble is over.
            if turn == 1 {
                first.as_mut().unwrap().ask();
            } else if troubled.is_none() || turn > 4 {
                last.as_mut().unwrap().ask();
            }
        });
    });
    first.unwrap().assert_answered();
    last.unwrap().assert_answered();
}

/// A client that asks once.
struct GoodClient {
    stream: UnixStream,
    line: &'static [u8; 6],
    asked: bool,
}

impl GoodClient {
    fn ask(&mut self) {
        if !self.asked {
            self.stream.write_all(self.line).unwrap();
            self.asked = true;
        }
    }

    fn assert_answered(mut self) {
        let mut answer = Vec::new();
        self.stream.read_to_end(&mut answer).expect("an answer, then the end");
        assert_eq!(answer, self.line);
    }
}

/// What the server wrote to the two good clients and nobody else.
const GOOD_BYTES: u64 = 12;

fn on_each_server(test: impl Fn(World) -> Counts) {
    watched(|| {
        for (name, world) in servers() {
            let counts = test(world);
            assert_eq!(counts["close"], 3, "{name}: all connections are closed");
            assert_eq!(counts["register"], counts["unregister"], "{name}: all are unregistered");
        }
    });
}

#[test]
fn a_client_that_hangs_up_without_a_word_ends_its_connection_only() {
    on_each_server(|world| {
        let listener = Listener::open(usize::MAX).unwrap();
        beside_good_clients(world, &listener, |_, client| drop(client.take()));
        assert_eq!(listener.ledger.counts()["written_bytes"], GOOD_BYTES);
        listener.ledger.counts()
    });
}

#[test]
fn a_client_that_hangs_up_within_its_line_ends_its_connection_only() {
    on_each_server(|world| {
        let listener = Listener::open(usize::MAX).unwrap();
        beside_good_clients(world, &listener, |turn, client| match turn {
            1 => client.as_mut().unwrap().write_all(b"hel").unwrap(),
            2 => drop(client.take()),
            _ => {}
        });
        assert_eq!(listener.ledger.counts()["written_bytes"], GOOD_BYTES);
        listener.ledger.counts()
    });
}

#[test]
fn a_client_that_hangs_up_before_its_answer_ends_its_connection_only() {
    on_each_server(|world| {
        let listener = Listener::open(usize::MAX).unwrap();
        beside_good_clients(world, &listener, |turn, client| {
            if turn == 1 {
                client.take().unwrap().write_all(b"hello\n").unwrap();
            }
        });
        assert_eq!(listener.ledger.counts()["written_bytes"], GOOD_BYTES, "writing to nobody fails");
        listener.ledger.counts()
    });
}

#[test]
fn a_line_longer_than_the_buffer_ends_its_connection_only() {
    on_each_server(|world| {
        let listener = Listener::open(usize::MAX).unwrap();
        beside_good_clients(world, &listener, |turn, client| {
            if turn == 1 {
                client.take().unwrap().write_all(&[b'x'; 1000]).unwrap();
            }
        });
        assert_eq!(listener.ledger.counts()["written_bytes"], GOOD_BYTES);
        listener.ledger.counts()
    });
}

#[test]
fn a_line_that_comes_byte_by_byte_is_answered_when_it_is_whole() {
    on_each_server(|world| {
        let listener = Listener::open(usize::MAX).unwrap();
        let mut kept = None;
        beside_good_clients(world, &listener, |turn, client| {
            if let (Some(byte), Some(stream)) = (b"hello\n".get(turn.wrapping_sub(1)), client) {
                stream.write_all(&[*byte]).unwrap();
                kept = Some(stream.try_clone().unwrap());
            }
        });
        let mut answer = String::new();
        kept.unwrap().read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "hello\n");
        listener.ledger.counts()
    });
}

#[test]
fn an_answer_waits_for_a_client_that_does_not_read() {
    on_each_server(|world| {
        let listener = Listener::open(usize::MAX).unwrap();
        let mut kept = None;
        let connect_full = || {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            theirs.set_nonblocking(true).unwrap();
            while theirs.write(&[b'-'; 1000]).is_ok() {}
            listener.hand_over(theirs);
            ours
        };
        beside_good_clients_with(connect_full, world, &listener, |turn, client| match turn {
            1 => client.as_mut().unwrap().write_all(b"hello\n").unwrap(),
            2 => {
                let mut client = client.take().unwrap();
                let error = client.read_to_end(&mut Vec::new()).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::WouldBlock, "all that was in the way is read");
                kept = Some(client);
            }
            _ => {}
        });
        let mut answer = String::new();
        kept.unwrap().read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "hello\n");
        assert_eq!(listener.ledger.counts()["reregister"], 1, "watched for writing once");
        listener.ledger.counts()
    });
}

#[test]
fn a_forgotten_client_is_reported() {
    watched(|| {
        for (name, world) in servers() {
            let listener = Listener::open(usize::MAX).unwrap();
            let mut clients = Clients::new(Rc::clone(&listener), 2, 1);
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                // One connection more than there will be clients.
                world(0, &listener, &mut |serve| clients.visit(2, &mut |count, turn| serve(count + 1, turn)));
            }));
            let message = *outcome.unwrap_err().downcast::<String>().unwrap();
            assert!(message.contains("has one been forgotten?"), "{name}: {message}");
        }
    });
}

#[test]
#[should_panic(expected = "was answered")]
fn a_wrong_answer_is_noticed() {
    let listener = Listener::open(usize::MAX).unwrap();
    Clients::new(Rc::clone(&listener), 1, 1).visit(1, &mut |_, turn| {
        turn();
        let server = listener.accept().unwrap();
        turn();
        (&server).write_all(b"hello 00009\n").unwrap();
    });
}

#[test]
#[should_panic(expected = "hung up on")]
fn a_missing_answer_is_noticed() {
    let listener = Listener::open(usize::MAX).unwrap();
    Clients::new(Rc::clone(&listener), 1, 1).visit(1, &mut |_, turn| {
        turn();
        let server = listener.accept().unwrap();
        turn();
        (&server).read_exact(&mut [0; LINE]).unwrap();
    });
}
