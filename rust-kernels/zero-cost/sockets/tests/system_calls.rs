//! The ledger agrees with `strace`, where there is one that may trace: system calls of one run, name by name.

#[allow(dead_code, reason = "only a part of it is needed here")]
mod common;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::process::Command;
use std::rc::Rc;

use common::{subjects, watched};
use zero_cost::CONNECTIONS;
use zero_cost_sockets::{BARE, Clients, Door};

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

/// Makes one run of each subject under each load, between two marks, after one that warms up.
fn run_marked() {
    watched(|| {
        for (_, world) in subjects() {
            for load in BARE {
                let door = Door::open(usize::MAX).unwrap();
                let mut clients = Clients::new(Rc::clone(&door), load.live);
                world(0, &door, &mut |serve| {
                    clients.visit(CONNECTIONS, serve);
                    _ = fs::metadata(MARK);
                    clients.visit(CONNECTIONS, serve);
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

fn compare_with_ledger(trace: &str) {
    let mut runs = between_marks(trace).into_iter();
    for (name, world) in subjects() {
        for load in BARE {
            let counted = zero_cost_sockets::count(world, load);
            let traced = runs.next().unwrap_or_else(|| panic!("{name} was not traced"));
            // Without optimisation, the standard library asks whether a file is open before it closes it.
            let checks = if cfg!(debug_assertions) { traced["close"] } else { 0 };
            assert_eq!(traced.get("fcntl").copied().unwrap_or(0), checks, "{name}, {load:?}: fcntl");
            let total = traced.values().sum::<u64>() - checks;
            assert_eq!(total, counted["syscalls"], "{name}, {load:?}: {traced:?}");
            let epoll = traced.get("epoll_ctl").copied().unwrap_or(0);
            let changes = counted["register"] + counted["unregister"];
            assert_eq!(epoll, changes, "{name}, {load:?}: epoll_ctl");
            assert_eq!(traced["socketpair"], counted["client_open"], "{name}, {load:?}");
            assert_eq!(traced["close"], counted["close"] + counted["client_hang_up"], "{name}, {load:?}");
        }
    }
    assert_eq!(runs.next(), None, "all runs are compared");
}
