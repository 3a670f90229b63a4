//! Each server with clients as they come: requests in pieces, several at once, and clients that go away.

mod serving;

use std::io::{Read, Write};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use servers::{LENGTH, VARIANTS, request};
use serving::{client, is_answered, serving};

#[test]
fn requests_in_pieces_are_answered_when_they_are_whole() {
    for variant in VARIANTS {
        serving(variant.serve, |address| {
            let mut stream = client(address);
            let wanted = request(1, 2);
            for piece in wanted.chunks(LENGTH / 3) {
                stream.write_all(piece).unwrap();
                // Another connection is served meanwhile, so the piece was read.
                is_answered(&mut client(address), variant.name);
            }
            let mut answer = [0; LENGTH];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(answer, wanted, "{}", variant.name);
        });
    }
}

#[test]
fn several_requests_at_once_are_answered_in_their_order() {
    for variant in VARIANTS {
        serving(variant.serve, |address| {
            let mut stream = client(address);
            // With half a request at the end, which comes to its end later.
            let all: Vec<u8> = (0..8).flat_map(|number| request(7, number)).collect();
            let (first, rest) = all.split_at(5 * LENGTH / 2);
            stream.write_all(first).unwrap();
            stream.write_all(rest).unwrap();
            let mut answers = vec![0; all.len()];
            stream.read_exact(&mut answers).unwrap();
            assert_eq!(answers, all, "{}", variant.name);
        });
    }
}

#[test]
fn a_client_that_goes_away_ends_its_connection_and_no_other() {
    for variant in VARIANTS {
        serving(variant.serve, |address| {
            let mut other = client(address);
            is_answered(&mut other, variant.name);
            // In the middle of a request, before any, and with an answer that is not read: in good order and by a
            // reset.
            for length in [LENGTH / 2, 0, LENGTH] {
                for linger in [None, Some(Duration::ZERO)] {
                    let mut stream = client(address);
                    stream.write_all(&request(3, 4)[..length]).unwrap();
                    set_socket_linger(&stream, linger).unwrap();
                    drop(stream);
                    is_answered(&mut other, variant.name);
                }
            }
            is_answered(&mut client(address), variant.name);
        });
    }
}

#[test]
fn the_last_requests_of_a_client_that_sends_no_more_are_answered() {
    for variant in VARIANTS {
        serving(variant.serve, |address| {
            let mut stream = client(address);
            let all: Vec<u8> = (0..5).flat_map(|number| request(7, number)).collect();
            stream.write_all(&all).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut answers = vec![];
            // To the end: the server closes its side.
            stream.read_to_end(&mut answers).unwrap();
            assert_eq!(answers, all, "{}", variant.name);
        });
    }
}
