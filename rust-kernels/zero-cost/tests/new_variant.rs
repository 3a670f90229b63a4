//! The variant that CONTRIBUTING.md adds, and the mistake that it makes first.

use std::rc::Rc;

use zero_cost::Style::Unboxed;
use zero_cost::{PUBLISHED, Variant, prove};
use zero_cost_executors::{ArgExecutor, ArgSpawner, FakeReactor, Job, Spawn, TaskTable, serve};
use zero_cost_loop::{Counted, Load, NoWork, Probe, Repeat, SMALL_BUFFER, Stats, Timed, World, twice};

/// As `nonbox`, but reactor and ledger are held by `Rc`.
pub fn nonbox_rc<P: Probe>(load: Load, repeat: Repeat<'_>) {
    let stats = Rc::new(Stats::new(load.syscalls));
    let (table, spawner) = (TaskTable::default(), ArgSpawner::default());
    let reactor = Rc::new(FakeReactor::<_, P>::new(Rc::clone(&stats)));
    let make = |job| serve::<_, _, SMALL_BUFFER>(job, Rc::clone(&reactor), &spawner, NoWork);
    // SAFETY: as for `nonbox`.
    let executor = unsafe { ArgExecutor::<_, _, _, P>::new(&table, &spawner, make) };
    repeat(&stats, &mut || {
        executor.spawn(Job::Listen).expect("a vacant slot");
        executor.run(|| reactor.poll());
    });
}

/// The same with the mistake: polls the reactor before any task runs.
fn hasty<P: Probe>(load: Load, repeat: Repeat<'_>) {
    let stats = Rc::new(Stats::new(load.syscalls));
    let (table, spawner) = (TaskTable::default(), ArgSpawner::default());
    let reactor = Rc::new(FakeReactor::<_, P>::new(Rc::clone(&stats)));
    let make = |job| serve::<_, _, SMALL_BUFFER>(job, Rc::clone(&reactor), &spawner, NoWork);
    // SAFETY: as for `nonbox`.
    let executor = unsafe { ArgExecutor::<_, _, _, P>::new(&table, &spawner, make) };
    repeat(&stats, &mut || {
        executor.spawn(Job::Listen).expect("a vacant slot");
        reactor.poll();
        executor.run(|| reactor.poll());
    });
}

const CONTRIBUTING: &str = include_str!("../../../CONTRIBUTING.md");

/// The lines of this text without their indentation, so that lists and functions may indent them further.
fn unindented(text: &str) -> String {
    text.lines().map(|line| line.trim_start().to_owned() + "\n").collect()
}

#[test]
fn the_example_does_equal_work() {
    let new = Variant::new;
    let variants = [new("nonbox+rc", Unboxed, twice!(P => nonbox_rc::<P>)).bare()];
    for variant in variants {
        assert!(prove(&variant, PUBLISHED[0]).is_ok());
    }
}

#[test]
fn its_mistake_is_caught_in_the_words_that_are_shown() {
    let mistaken = Variant::new("nonbox+rc", Unboxed, twice!(P => hasty::<P>));
    let wrong = prove(&mistaken, PUBLISHED[0]).unwrap_err().to_string();
    assert!(
        unindented(CONTRIBUTING).contains(&unindented(&wrong)),
        "CONTRIBUTING.md does not show:\n{wrong}"
    );
}

#[test]
fn a_mistake_in_the_timed_code_only_is_caught_too() {
    let code: [World; 2] = [hasty::<Timed<()>>, nonbox_rc::<Counted>];
    let mistaken = Variant::new("nonbox+rc", Unboxed, code);
    let wrong = prove(&mistaken, PUBLISHED[0]).unwrap_err().to_string();
    assert!(wrong.ends_with("poll: 258 expected, 259 counted"), "{wrong}");
}

#[test]
fn the_code_that_is_shown_is_the_code_above() {
    let here = unindented(include_str!("new_variant.rs"));
    let section = CONTRIBUTING.split("\n## ").find(|section| section.starts_with("Add a variant"));
    let shown: Vec<_> = section
        .expect("a section of this name")
        .split("```rust\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert!(!shown.is_empty(), "CONTRIBUTING.md shows no code");
    for code in shown {
        // A comma at the end is for the next line of a list.
        let code = unindented(code.trim_end().trim_end_matches(','));
        assert!(
            here.contains(code.trim_end()),
            "this code of CONTRIBUTING.md is not in tests/new_variant.rs:\n{code}"
        );
    }
}
