//! The ledger agrees with `strace`, where there is one that may trace: system calls of one run, name by name.

#[allow(dead_code, reason = "only a part of it is needed here")]
mod common;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::process::Command;
use std::rc::Rc;

use common::watched;
use harness::{Counts, Key};
use zero_cost_sockets::{Clients, Listener, Variant, variants};

/// Set when this program runs under `strace`.
const TRACED: &str = "ASYNC_COST_TRACED";
/// A file that does not exist; looking for it marks the beginning and the end of what is counted.
const MARK: &str = "/zero-cost-sockets/mark";

#[test]
fn the_ledger_counts_what_strace_counts() {
    if env::var_os(TRACED).is_some() {
        return run_marked();
    }
    let log = env::temp_dir().join(format!("zero-cost-sockets-{}.strace", std::process::id()));
    let outcome = Command::new("strace")
        .args(["-f", "-o"])
        .arg(&log)
        .arg(env::current_exe().unwrap())
        .args(["--test-threads=1", "--exact", "the_ledger_counts_what_strace_counts"])
        .env(TRACED, "1")
        .output();
    let trace = fs::read_to_string(&log).unwrap_or_default();
    _ = fs::remove_file(&log);
    if !outcome.is_ok_and(|outcome| outcome.status.success()) || !trace.contains(MARK) {
        return eprintln!("skipped: no strace that may trace (for example `apt install strace`)");
    }
    compare_with_ledger(&trace);
}

/// Makes one run of each variant under each load, between two marks, after one that warms up.
fn run_marked() {
    watched(|| {
        for variant in variants() {
            for &load in variant.loads {
                let listener = Listener::open(usize::MAX).unwrap();
                let mut clients = Clients::new(Rc::clone(&listener), load.live, load.asks);
                (variant.timed)(0, &listener, &mut |serve| {
                    clients.visit(load.connections(), serve);
                    _ = fs::metadata(MARK);
                    clients.visit(load.connections(), serve);
                    _ = fs::metadata(MARK);
                });
            }
        }
    });
}

/// System calls by name between one mark and the next, on the thread that made the marks.
fn between_marks(trace: &str) -> Vec<BTreeMap<&str, u64>> {
    let thread = |line: &str| line.split_whitespace().next().map(str::to_owned);
    let marking = trace.lines().find(|line| line.contains(MARK)).and_then(thread);
    let lines = trace.lines().filter(|line| thread(line) == marking);
    let mut runs = vec![];
    let mut run = None::<BTreeMap<&str, u64>>;
    for line in lines {
        let call = line.split_whitespace().nth(1).unwrap_or("");
        let (name, _) = call.split_once('(').unwrap_or((call, ""));
        match (&mut run, line.contains(MARK)) {
            (None, true) => run = Some(BTreeMap::new()),
            (Some(_), true) => runs.extend(run.take()),
            (Some(counts), false) if !name.starts_with("<...") => *counts.entry(name).or_default() += 1,
            _ => {}
        }
    }
    runs
}

/// A runtime makes the calls that the ledger knows. tokio makes no other one for a connection, and looks at its poller more
/// often than it waits; smol also reads in vain before each request, and tells its poller of it.
fn assert_runtime(key: &Key, variant: &Variant, traced: &BTreeMap<&str, u64>, counted: &Counts) {
    let sum = |names: &[&str]| names.iter().map(|name| counted[name]).sum::<u64>();
    assert_eq!(traced["sendto"], sum(&["write", "client_send", "client_announce"]), "{key}: {traced:?}");
    // The C library may open a file to make room for another thread's memory, and close it.
    let closed = traced["close"] - traced.get("openat").unwrap_or(&0);
    assert_eq!(closed, sum(&["close", "client_hang_up"]), "{key}: {traced:?}");
    let (registered, requests) = (sum(&["register", "unregister"]), counted["transactions"]);
    if variant.name == "smol" {
        assert!(traced["epoll_ctl"] >= registered + requests, "{key}: {traced:?}");
        let least = sum(&["spawns", "read"]) + 2 * requests;
        assert!(traced["recvfrom"] >= least, "{key}: {traced:?}");
    } else {
        assert_eq!(traced["epoll_ctl"], registered, "{key}: {traced:?}");
        assert_eq!(traced["recvfrom"], sum(&["accept", "read", "client_receive"]), "{key}: {traced:?}");
        assert!(traced["epoll_wait"] >= counted["poll"], "{key}: {traced:?}");
    }
}

fn compare_with_ledger(trace: &str) {
    let mut runs = between_marks(trace).into_iter();
    for variant in variants() {
        for &load in variant.loads {
            let key = variant.key(load);
            let counted = zero_cost_sockets::count(variant.counted, load);
            let traced = runs.next().unwrap_or_else(|| panic!("{key} was not traced"));
            if variant.is_on_runtime() {
                assert_runtime(&key, &variant, &traced, &counted);
                continue;
            }
            // Without optimisation, the standard library asks whether a file is open before it closes it.
            let checks = if cfg!(debug_assertions) { traced["close"] } else { 0 };
            assert_eq!(traced.get("fcntl").copied().unwrap_or(0), checks, "{key}: fcntl");
            let total = traced.values().sum::<u64>() - checks;
            assert_eq!(total, counted["syscalls"], "{key}: {traced:?}");
            let epoll = traced.get("epoll_ctl").copied().unwrap_or(0);
            let changes = counted["register"] + counted["unregister"];
            assert_eq!(epoll, changes, "{key}: epoll_ctl");
            assert_eq!(traced["socketpair"], counted["client_open"], "{key}");
            assert_eq!(traced["close"], counted["close"] + counted["client_hang_up"], "{key}");
        }
    }
    assert_eq!(runs.next(), None, "all runs are compared");
}
