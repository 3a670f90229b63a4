// -*- coding: utf-8 -*-
// ---
// jupyter:
//   jupytext:
//     formats: notebooks///ipynb,rust-kernels///rs:percent
//     text_representation:
//       extension: .rs
//       format_name: percent
//       format_version: '1.3'
//       jupytext_version: 1.19.6
//   kernelspec:
//     display_name: Rust
//     language: rust
//     name: rust
// ---

// %% [markdown]
// # What do the mutexes of parking_lot alone do to tokio?
//
// tokio uses mutexes inside: around the queue of blocking calls, around the waiters of a `Notify`, around the queue for
// tasks from outside. They are those of the standard library, unless the feature `parking_lot` is on, and `full` turns
// it on. nio's document was measured with `full`, and so is [its repetition](measure.ipynb). A library that names only
// the features that it needs gets the standard mutexes, until another crate of the same program asks for `full`:
// features unify.
//
// So a line of Cargo.toml that has nothing to do with the code may change the comparison of two runtimes. Here is the
// same source without this one feature. Since features unify over a program, it needs a crate and a program of its own.

// %% tags=["active-ipynb"]
// :build_env CARGO_PROFILE_DEV_OPT_LEVEL=3
// :build_env CARGO_PROFILE_DEV_DEBUG_ASSERTIONS=false
// :build_env CARGO_PROFILE_DEV_OVERFLOW_CHECKS=false
// :build_env CARGO_PROFILE_DEV_CODEGEN_UNITS=1
// :build_env CARGO_INCREMENTAL=0
// :dep harness = { path = "../../rust-kernels/harness" }
// :dep runtimes-suites = { path = "../../rust-kernels/runtimes/std-mutex/suites" }

// %% [markdown]
// The crate `runtimes-suites` has the source of [the other notebook](measure.ipynb), and its Cargo.toml names all
// features of `full` but `parking_lot`.

// %%
use harness::Study;
use runtimes_suites::{
    NIO, Nio, Row, Runtime, Start, TOKIO, Tokio, leak, notify_one, notify_waiters, published, spawn_blocking,
    spawn_many_local, spawn_many_remote, study_of,
};

// %% [markdown]
// # The rows
//
// Published rows, under their names: those whose tasks or callers meet at one lock of tokio's, and
// `spawn_many_remote`, whose tasks go through the workers' own queues, which have none. They run on tokio and on nio.
// nio has no such feature, but what it waits on in `sync_notify` is tokio's.

// %%
/// The rows, and the table that they are from where the document has two.
const ROWS: [(&str, &str); 7] = [
    ("spawn_blocking/spawn_blocking/concurrency/1", ""),
    ("spawn_blocking/spawn_blocking/concurrency/2", ""),
    ("rt_multi_threaded/spawn_many_local", ""),
    ("rt_multi_threaded/spawn_many_remote", ""),
    ("sync_notify/notify_one/100", "table: min_tasks_per_worker=3"),
    ("sync_notify/notify_waiters/10", "table: min_tasks_per_worker=3"),
    ("sync_notify/notify_waiters/500", "table: min_tasks_per_worker=3"),
];

/// These rows, on tokio and nio alone.
pub fn rows() -> Vec<Row> {
    let mut rows = published();
    rows.retain(|row| ROWS.contains(&(&row.bench, &row.parameter)));
    for row in &mut rows {
        row.runtimes = vec![TOKIO, NIO];
    }
    rows
}

// %% [markdown]
// Only what these rows need is compiled.

// %%
/// The suite of a row on one of the two.
fn start(row: &Row, runtime: &str) -> Start {
    macro_rules! on_both {
        ($($suite:ident)*) => {
            match (row.program, runtime) {
                $(
                    (stringify!($suite), TOKIO) => |load| $suite(leak(Tokio::new(load)), load),
                    (stringify!($suite), _) => |load| $suite(leak(Nio::new(load)), load),
                )*
                (other, _) => unreachable!("{other} is no suite here"),
            }
        };
    }
    on_both! { spawn_blocking spawn_many_local spawn_many_remote notify_one notify_waiters }
}

// %% [markdown]
// # The study
//
// Everything else is as in the other notebook: proofs, groups, controls, and tokio as the baseline of nio.

// %%
/// The rows, proven.
pub fn study() -> Study {
    study_of("runtimes-std-mutex", &rows(), start)
}

// %% [markdown]
// # A glance
//
// One blocking call after the other, sixteen at a time. Run this cell in the other notebook as well, and compare.

// %% tags=["active-ipynb", "glance"]
// study().glance(|key| {
//     key.bench == "spawn_blocking/spawn_blocking/concurrency/1"
// }).unwrap_or_else(harness::stop)

// %% [markdown]
// # Measurement
//
// `quick` takes some seconds once it is compiled, and is no evidence. For evidence, set the environment variable `ASYNC_COST_PROFILE` to
// `standard` or `thorough` before you start the kernel.

// %% tags=["active-ipynb"]
// {
//     let profile = harness::Profile::from_env().unwrap_or_else(harness::stop);
//     let outcome = study().measure(&profile).unwrap_or_else(harness::stop);
//     println!("{outcome}");
// };

// %% [markdown]
// The [analysis](analysis.ipynb) compares the ratio of tokio to nio with the one that the other notebook measures.
//
// # What this does not say
//
// The two programs were compiled separately, so they differ in the order of functions as well as in the lock.
