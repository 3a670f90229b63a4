//! Servers that wait for events ask for equally many at once, as `strace` sees it, where there is one that may trace.

mod serving;

use std::process::Command;
use std::{env, fs};

use frontier::EVENTS;
use servers::VARIANTS;
use serving::{client, is_answered, serving};

/// Set when this program runs under `strace`.
const TRACED: &str = "ASYNC_COST_TRACED";
/// A file that does not exist; looking for it marks the end of a server.
const MARK: &str = "/servers/mark";

#[test]
fn a_wait_brings_equally_many_events_to_each_server() {
    if env::var_os(TRACED).is_some() {
        return VARIANTS.iter().for_each(|variant| {
            serving(variant.serve, |address| is_answered(&mut client(address), variant.name));
            _ = fs::metadata(MARK);
        });
    }
    let log = env::temp_dir().join(format!("servers-{}.strace", std::process::id()));
    let outcome = Command::new("strace")
        .args(["-f", "-o"])
        .arg(&log)
        .arg(env::current_exe().unwrap())
        .args(["--test-threads=1", "--exact", "a_wait_brings_equally_many_events_to_each_server"])
        .env(TRACED, "1")
        .output();
    let trace = fs::read_to_string(&log).unwrap_or_default();
    _ = fs::remove_file(&log);
    if !outcome.is_ok_and(|outcome| outcome.status.success()) || !trace.contains(MARK) {
        return eprintln!("skipped: no strace that may trace (for example `apt install strace`)");
    }
    let lines: Vec<&str> = trace.lines().collect();
    let parts: Vec<_> = lines.split(|line| line.contains(MARK)).take(VARIANTS.len()).collect();
    assert_eq!(parts.len(), VARIANTS.len());
    let waiting = VARIANTS.iter().zip(parts).filter(|(variant, waits)| {
        let most: Vec<usize> = waits.iter().filter_map(|line| max_events(line)).collect();
        assert!(most.iter().all(|most| *most == EVENTS), "{}: {most:?}", variant.name);
        !most.is_empty()
    });
    assert_eq!(waiting.count(), VARIANTS.len() - 1, "all but the threads wait for events");
}

/// For how many events a call has room, if it waits for them.
fn max_events(line: &str) -> Option<usize> {
    let (_, rest) = line.split_once("epoll_").filter(|(_, call)| call.contains("wait"))?;
    let (_, rest) = rest.rsplit_once("], ")?;
    rest.split(',').next()?.parse().ok()
}
