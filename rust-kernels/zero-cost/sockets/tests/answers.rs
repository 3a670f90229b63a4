//! Every request is answered, byte for byte; the clients panic at the first wrong byte.

#[allow(dead_code, reason = "only a part of it is needed here")]
mod common;

use std::rc::Rc;

use common::{servers, subjects, visit, watched};
use harness::Counts;
use zero_cost_sockets::{Clients, LINE, Listener, World, line};

/// Visits and returns what the ledger says.
fn counts(world: World, connections: usize, live: usize) -> Counts {
    let listener = Listener::open(usize::MAX).unwrap();
    visit(world, &listener, connections, live);
    listener.ledger.counts()
}

fn assert_all_answered(name: &str, counts: &Counts, connections: u64) {
    assert_eq!(counts["client_hang_up"], connections, "{name}: clients that left with an answer");
    assert_eq!(counts["close"], connections, "{name}: connections closed by the server");
    assert_eq!(counts["written_bytes"], connections * LINE as u64, "{name}: bytes answered");
}

#[test]
fn ten_thousand_connections_in_sequence_are_answered() {
    watched(|| {
        for (name, world) in subjects() {
            assert_all_answered(name, &counts(world, 10_000, 1), 10_000);
        }
    });
}

#[test]
fn two_hundred_and_fifty_six_connections_at_once_are_answered() {
    watched(|| {
        for (name, world) in subjects() {
            assert_all_answered(name, &counts(world, 256, 256), 256);
        }
    });
}

#[test]
fn crowds_of_any_size_are_answered() {
    watched(|| {
        for (name, world) in subjects() {
            for live in [2, 3, 17, 255, 256] {
                assert_all_answered(name, &counts(world, 1_000, live), 1_000);
            }
        }
    });
}

#[test]
fn one_server_serves_run_after_run() {
    watched(|| {
        for (name, world) in subjects() {
            let listener = Listener::open(usize::MAX).unwrap();
            let mut clients = Clients::new(Rc::clone(&listener), 7, 1);
            world(10, &listener, &mut |serve| (0..20).for_each(|_| clients.visit(100, serve)));
            assert_all_answered(name, &listener.ledger.counts(), 2000);
        }
    });
}

#[test]
fn answers_in_pieces_arrive_whole() {
    watched(|| {
        for (name, world) in servers() {
            for most in 1..=LINE + 1 {
                let listener = Listener::open(most).unwrap();
                visit(world, &listener, 300, 100);
                let counts = listener.ledger.counts();
                assert_all_answered(name, &counts, 300);
                let pieces = 300 * LINE.div_ceil(most) as u64;
                assert_eq!(counts["write"], pieces, "{name}: writes of {most} bytes");
            }
        }
    });
}

#[test]
fn lines_differ_from_client_to_client() {
    assert_eq!(&line(0), b"hello 00000\n");
    assert_eq!(&line(12_345), b"hello 12345\n");
    assert_eq!(&line(100_001), b"hello 00001\n", "the number wraps");
}
