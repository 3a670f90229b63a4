//! Measures variants in interleaved rounds and exports raw samples with their provenance.
//!
//! A [`Study`] names variants by [`Key`]; each is a function that sets itself up and hands its workload to a
//! [`Bencher`]. [`Study::measure`] runs every variant once per round, in a fresh random order of what is compared with
//! each other, because a machine drifts: only times of the same round can be compared. Statistics are left to the
//! analysis; this crate keeps every sample.
//!
//! # What is measured
//! One trial of [`Bencher::iter`] or [`Bencher::iter_custom`] is two samples with equal numbers of iterations, after a
//! warm-up that doubles its iterations from call to call and is not recorded. [`Profile`] sets the times,
//! [`Study::samples`] another number of samples.
//! [`Study::isolated`] gives each trial a process of its own, so that a hang or a crash fails its variant only.
//!
//! # Where a run goes
//! A run is measured in a hidden folder, `data/runs/.partial/<machine>-<utc>-<pid>`, and appears as
//! `data/runs/<machine>/<utc>` by one rename when it is complete. It holds `run.json` (machine, toolchain,
//! code generation, crates, revision, seed, load) and per study:
//!
//! | file | columns |
//! |---|---|
//! | `<study>.time.csv` | study, bench, variant, parameter, round, position, sample (all three from 0), iterations, elapsed_ns (of all iterations) |
//! | `<study>.metrics.csv` | study, bench, variant, parameter, round, position, sample, metric, value (only there when a sample has metrics) |
//! | `<study>.counts.csv` | study, bench, variant, parameter, counter, value (exact, per iteration) |
//!
//! # Settings from the environment
//! - `ASYNC_COST_PROFILE`: see [`Profile::from_env`].
//! - `ASYNC_COST_PARTIAL`: an existing folder to measure into, relative to the root of the repository. It
//!   stays where it is, so that an outer program can collect several studies and rename it. A measurement
//!   that was interrupted there goes on at its first round that is not whole, in the order it would have had;
//!   a complete one is not measured again.
//! - `ASYNC_COST_EPISODE`: up to which round this process measures, after which it ends; `prepare` writes
//!   `<study>.episode.json` instead, which tells an outer program how to start such a process. Without it the process
//!   starts them itself.
//! - `ASYNC_COST_VARIANTS`: the variants to be measured, and counted, with semicolons between their names: see
//!   [`Study::only`].
//! - `ASYNC_COST_COMMAND`, `ASYNC_COST_SERIES`, `ASYNC_COST_CLAIMS`, `ASYNC_COST_FINDINGS`, `ASYNC_COST_PROGRAM`: noted
//!   in run.json as the command that made the run, as the first run of its series, and as the hashes of the claims and
//!   of the findings that it will judge, and of all that is measured.
//! - `ASYNC_COST_PROGRESS`: `json` prints progress as one JSON object a line, for a program; `measure::progress` says
//!   which.
//!
//! # What is refused
//! A build is only measured when the compiler was given what `cargo bench` gives it in this repository: a dev build, which
//! all cells of a notebook are, must be told to, and a user's own configuration of cargo must not change it.
//! [`Error::Gate`] says how to set it right, before anything is measured.
//!
//! What a trial is, the order of a round, the machine and counting stand in the crate [`by_turns_core`], for benches of
//! any repository; here is what belongs to this one: studies, proofs, runs, and how notebooks measure them. The source is built in
//! layers, each of which uses itself and those before it, file by file without circles:
//!
//! | layer | files |
//! |---|---|
//! | `base` | errors, profiles, `proof`, `tally` and `watch`, `isolation`, `resources`; `declared` is what layers hand to each other |
//! | `provenance` | what a run was made from: `codegen`, `kernel`, `repository`; `gate` refuses other builds |
//! | `store` | the run: `run` (its folder), `info` (run.json), `timings`, `metrics` and `counts` (its tables), `table` |
//! | `study` | `builder`, `checks` (what it amounts to), `part` (some of it), `running` (its variants) |
//! | `measure` | `measurement` with `episode`, `outcome` and `progress`; `counting`; `criterion`; `glance`; `program` |
//!
//! Read `study::builder`, `measure::measurement` and, in `by_turns_core`, `trial::bencher` and `trial::sampling` first, then
//! `store`.

#![warn(missing_docs)]

mod base;
mod measure;
mod provenance;
mod store;
mod study;

pub use by_turns_core::{Bencher, Glance, InvalidKey, Key, Sample, Seen, tolerance as limit};

pub use base::declared::{Comparison, Failure};
pub use base::error::Error;
pub use base::futures::{Copies, Followed, copies_of};
pub use base::isolation::{in_processes, isolated, prove_isolated};
pub use base::profile::Profile;
pub use base::proof::{Counts, UnequalWork, prove, prove_both, stop};
pub use base::tally;
pub use base::watch::Watch;
pub use measure::counting;
#[cfg(feature = "criterion")]
pub use measure::criterion;
pub use measure::outcome::Outcome;
pub use measure::program::main;
pub use provenance::repository::root;
pub use study::builder::Study;
