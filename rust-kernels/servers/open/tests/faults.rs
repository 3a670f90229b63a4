//! The proof and the clock, put to the proof: servers with one fault each, and one that stalls once.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use servers::{Echo, Ended, LIMIT, Protocol, Tally, on_tokio_alone};
use servers_open::{BASE, CONNECTIONS, HTTP, Http, Part, Server, Wire};
use zero_cost_loop::Steps;

/// An echo, with a fault at the tenth request of all.
struct Faulty<const FAULT: u8> {
    echo: Echo,
    answer: Vec<u8>,
}

const WRONG: u8 = 0;
const STALLS: u8 = 1;
static TAKEN: AtomicU64 = AtomicU64::new(0);
const STALL: Duration = Duration::from_millis(60);

impl<const FAULT: u8> Protocol for Faulty<FAULT> {
    fn new(work: Steps, tally: &Arc<Tally>) -> Self {
        Self { echo: Echo::new(work, tally), answer: vec![] }
    }

    fn spare_capacity(&mut self) -> &mut [u8] {
        self.echo.spare_capacity()
    }

    fn take(&mut self, length: usize) {
        self.echo.take(length);
        self.answer = self.echo.answers().to_vec();
        // Each connection was served once before.
        if TAKEN.fetch_add(1, Ordering::Relaxed) == CONNECTIONS + 10 {
            match FAULT {
                WRONG => self.answer[63] ^= 1,
                _ => thread::sleep(STALL),
            }
        }
    }

    fn answers(&self) -> &[u8] {
        &self.answer
    }

    fn mark_written(&mut self, length: usize) {
        self.answer.drain(..length);
        self.echo.mark_written(length);
    }
}

fn faulty<const FAULT: u8>(listener: TcpListener, work: Steps, tally: &Arc<Tally>) -> Ended {
    on_tokio_alone::<Faulty<FAULT>>(listener, work, tally)
}

#[test]
fn a_wrong_answer_is_found_out() {
    for part in [BASE, Part { depth: 16, ..BASE }] {
        let wrong = part.prove(Server { name: "wrong", serve: faulty::<WRONG> }).unwrap_err().to_string();
        assert!(wrong.contains("was given another answer"), "{wrong}");
    }
}

#[test]
fn an_answer_of_another_length_is_found_out() {
    let part = Part { wire: Wire::Http { body: 1_024 }, ..HTTP };
    let server = Server { name: "short", serve: on_tokio_alone::<Http<64>> };
    let wrong = part.prove(server).unwrap_err().to_string();
    assert!(wrong.contains("request 0 of connection 0 was given another answer"), "{wrong}");
}

/// In a closed loop one request for each connection would meet the stall. Those that arrive meanwhile do not wait for
/// it to begin.
#[test]
fn requests_that_arrive_during_a_stall_count_from_when_they_were_to_be_sent() {
    let stalling = Server { name: "stalling", serve: faulty::<STALLS> };
    let said = harness::isolated(LIMIT, || {
        let mut session = BASE.open(stalling, 1)?;
        // In the time of the stall, on average.
        let asked = session.ask::<2, 10>(300, [5_000, 1]).map_err(|error| error.to_string())?;
        Ok::<_, String>(asked.0)
    });
    let [_, p50, ..] = said.flatten().unwrap();
    // Of 300 that arrive in 60 ms, 100 are under way when the server goes on; half of all have waited for a third of it.
    assert!(u128::from(p50) > STALL.as_nanos() / 3, "{p50}");
}
