//! The table of a task's states and transitions, as the executor's notebook has it, beside what was seen.

use std::collections::BTreeSet;

use runtimes_executor::Step;

type Transition = (&'static str, usize, usize);

const SOURCE: &str = include_str!("../../../executor.rs");
const TASK: [(&str, usize); 6] =
    [("asleep", 0), ("queued", 1), ("running", 2), ("woken", 3), ("done", 4), ("done and woken", 5)];
const HANDLE: [(&str, usize); 4] = [("gone", 0), ("there", 8), ("awaited", 24), ("left", LEFT)];
const DONE: usize = 4;
/// Only the handle of a task that is done.
const LEFT: usize = 16;

/// The states that a cell of the table names.
fn named(cell: &str, all: &[(&str, usize)]) -> Vec<usize> {
    let is_meant = |(name, state): &&(&str, usize)| match cell {
        "any" => true,
        "any that is done" => state & DONE != 0,
        "any that is not done" => state & DONE == 0,
        _ => cell == *name,
    };
    let states: Vec<usize> = all.iter().filter(is_meant).map(|(_, state)| *state).collect();
    assert!(!states.is_empty(), "no state is called {cell}");
    states
}

/// What each row of the table allows.
fn rows() -> Vec<(&'static str, BTreeSet<Transition>)> {
    let lines = SOURCE.lines().skip_while(|line| !line.starts_with("// | step | the task")).skip(2);
    lines
        .map_while(|line| line.strip_prefix("// | "))
        .map(|row| {
            let cells: Vec<&str> = row.trim_end_matches(" |").split(" | ").collect();
            let [step, task, handle, task_then, handle_then] = cells[..] else { panic!("{row}") };
            let (_, step) = *Step::ALL.iter().find(|(_, name)| *name == step).expect(row);
            let then = |cell, before, all| if cell == "-" { before } else { named(cell, all)[0] };
            let mut allowed = BTreeSet::new();
            for before in named(task, &TASK) {
                for joined in named(handle, &HANDLE) {
                    if joined == LEFT && before & DONE == 0 {
                        continue;
                    }
                    let after = then(task_then, before, &TASK) | then(handle_then, joined, &HANDLE);
                    allowed.insert((step, before | joined, after));
                }
            }
            (row, allowed)
        })
        .collect()
}

/// What has happened in this process.
fn seen() -> BTreeSet<Transition> {
    Step::ALL
        .into_iter()
        .flat_map(|(step, name)| step.seen().map(move |(old, new)| (name, old, new)))
        .collect()
}

/// Nothing has happened that the table does not have.
pub fn assert_nothing_else_happens() {
    let allowed: BTreeSet<Transition> = rows().into_iter().flat_map(|(_, allowed)| allowed).collect();
    let seen = seen();
    let others: Vec<_> = seen.difference(&allowed).collect();
    assert!(others.is_empty(), "not in the table, by step, state before and after: {others:?}");
}

/// Something of each row of the table has happened.
#[allow(dead_code, reason = "only loom sees to that")]
pub fn assert_all_of_it_happens() {
    let seen = seen();
    let never: Vec<_> =
        rows().into_iter().filter(|(_, allowed)| allowed.is_disjoint(&seen)).map(|(row, _)| row).collect();
    assert!(never.is_empty(), "never seen: {never:#?}");
}
