//! Each server with a client that sends without reading. It starts threads, so what forks is tested in other programs.

mod serving;

use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use servers::{VARIANTS, request};
use serving::{client, is_answered, serving};

/// More than all buffers between a client and a server hold, once the client reads nothing.
const REQUESTS: u64 = 200_000;

#[test]
fn a_client_that_reads_late_gets_all_answers_and_delays_no_other_client() {
    for variant in VARIANTS {
        serving(variant.serve, |address| {
            let mut reader = client(address);
            let mut writer = reader.try_clone().unwrap();
            let written = AtomicUsize::new(0);
            thread::scope(|scope| {
                scope.spawn(|| {
                    for first in (0..REQUESTS).step_by(100) {
                        let some: Vec<u8> = (first..first + 100).flat_map(|n| request(1, n)).collect();
                        writer.write_all(&some).unwrap();
                        written.fetch_add(100, Ordering::Relaxed);
                    }
                });
                // Until the server cannot write any more, nor the client.
                let mut before = usize::MAX;
                while before != written.load(Ordering::Relaxed) {
                    before = written.load(Ordering::Relaxed);
                    thread::sleep(Duration::from_millis(50));
                }
                assert!(before < REQUESTS as usize, "{}: the buffers hold everything", variant.name);
                is_answered(&mut client(address), variant.name);
                for number in 0..REQUESTS {
                    let mut answer = request(0, 0);
                    reader.read_exact(&mut answer).unwrap();
                    assert_eq!(answer, request(1, number), "{}", variant.name);
                }
            });
        });
    }
}
