//! The variants of a study under Criterion as its users know it, with its report, its filters and its saved baselines.
//!
//! Criterion measures one variant after the other, so a drift of the machine looks like a difference between them. That
//! is why a study has a loop and an order of its own. Criterion is for a quick look at one variant, and for before and
//! after:
//! ```text
//! cargo bench -p zero-cost --features criterion --bench criterion -- --save-baseline before nonbox
//! cargo bench -p zero-cost --features criterion --bench criterion -- --baseline before nonbox
//! ```
//! A benchmark is called `<study>/<variant>/<parameter>`, or `<study>/<bench>/<variant>/<parameter>` where bench and
//! variant differ. (This module is there with the feature `criterion` of the crate.) Its elements are units of work:
//! see [`Study::unit`].
//!
//! A variant is set up once for each benchmark, and Criterion repeats its workload. In a study that is
//! [isolated](Study::isolated), each sample has a process of its own, is set up there and warmed up by one iteration.
//! Of a workload of fixed size, one call counts as one iteration, and the time is that of one job.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

pub use ::criterion::Criterion;
use ::criterion::measurement::{Measurement, ValueFormatter, WallTime};
use ::criterion::{BenchmarkGroup, BenchmarkId, Throughput};

use crate::base::declared::Failure;
use crate::base::error::Error;
use crate::study::builder::Study;
use crate::study::checks::Variant;
use by_turns_core::base::key::Key;
use by_turns_core::base::panics;
use by_turns_core::trial::bencher::{self, TrialError, Workload};
use by_turns_core::trial::sampling::{timed, timed_batches};

/// Runs a study with the arguments of the command line, which are Criterion's: the whole of `benches/criterion.rs`. An
/// argument that stands in the name of a benchmark as it is, such as `box+arc`, is no regular expression. Ends the
/// process with status 1 when a variant failed.
pub fn main(study: Study) {
    let mut criterion = Criterion::default().configure_from_args();
    let arguments = std::env::args().skip(1);
    let mut literal =
        arguments.filter(|text| escaped(text) != *text && ids(&study).any(|id| id.contains(text)));
    if let Some(name) = literal.next() {
        criterion = criterion.with_filter(escaped(&name));
    }
    match bench(&study, criterion) {
        Ok(failed) if failed.is_empty() => {}
        Ok(_) => std::process::exit(1),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}

/// Runs a study with these settings. A variant that fails is named, and the others go on; all that failed are returned.
///
/// # Errors
/// [`Error::Key`] and [`Error::Study`] for mistakes in the study.
pub fn bench(study: &Study, criterion: Criterion) -> Result<Vec<Failure>, Error> {
    let variants = study.variants()?;
    study.check_threads()?;
    let mut criterion = criterion.with_measurement(Nanoseconds);
    let mut failed = Vec::new();
    let mut names: Vec<String> = variants.iter().map(|variant| group_name(study, &variant.key)).collect();
    let mut seen = HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    for name in names {
        let mut group = criterion.benchmark_group(&name);
        for variant in variants.iter().filter(|variant| group_name(study, &variant.key) == name) {
            match bench_variant(study, variant, &mut group) {
                Ok(()) => {}
                Err(TrialError::Misused(reason)) => return Err(study.misuse_error(&variant.key, &reason)),
                Err(TrialError::Failed(error)) => {
                    println!("not measured: {}: {error}", variant.key);
                    failed.push(Failure { key: variant.key.clone(), error });
                }
            }
        }
    }
    criterion.final_summary();
    Ok(failed)
}

/// Runs one variant.
fn bench_variant(
    study: &Study,
    variant: &Variant,
    group: &mut BenchmarkGroup<'_, Nanoseconds>,
) -> Result<(), TrialError> {
    let Key { variant: name, parameter, .. } = &variant.key;
    let id = || match parameter.as_str() {
        "" => BenchmarkId::from_parameter(name),
        _ => BenchmarkId::new(name, parameter),
    };
    group.throughput(Throughput::Elements(variant.units));
    if !study.is_isolated() {
        return bencher::call(&*variant.function, &mut |mut workload| {
            group.bench_function(id(), |bencher| match &mut workload {
                Workload::Repeated(run) => bencher.iter(run),
                other => bencher.iter_custom(|iterations| time(other, iterations)),
            });
        });
    }
    let sample = |iterations| {
        let mut taken = 0.0;
        bencher::call(&*variant.function, &mut |mut workload| {
            workload.single(|run| run());
            taken = time(&mut workload, iterations);
        })?;
        Ok(taken)
    };
    // Unwinding is the only way out of a benchmark.
    let run = || {
        group.bench_function(id(), |bencher| {
            bencher.iter_custom(|iterations| {
                study
                    .run_isolated(|| sample(iterations))
                    .unwrap_or_else(|variant_error| resume_unwind(Box::new(variant_error)))
            });
        });
    };
    let _silenced = panics::SilencedPanics::begin();
    catch_unwind(AssertUnwindSafe(run)).map_err(|payload| match payload.downcast::<TrialError>() {
        Ok(variant_error) => *variant_error,
        Err(payload) => TrialError::Failed(panics::message(payload.as_ref())),
    })
}

/// Nanoseconds that so many iterations take.
fn time(workload: &mut Workload<'_>, iterations: u64) -> f64 {
    let nanoseconds = |time: Duration| time.as_nanos() as f64;
    match workload {
        Workload::Repeated(run) => nanoseconds(timed(*run, iterations)),
        Workload::Clocked(run) | Workload::Driven(run) => nanoseconds(run(iterations)),
        Workload::Prepared(prepared) => nanoseconds(timed_batches(*prepared, iterations)),
        Workload::Fixed(run) => {
            let samples = (0..iterations).map(|_| run());
            samples.map(|sample| nanoseconds(sample.elapsed) / sample.iterations as f64).sum()
        }
    }
}

fn group_name(study: &Study, Key { bench, variant, .. }: &Key) -> String {
    if bench == variant { study.name().to_owned() } else { format!("{}/{bench}", study.name()) }
}

/// The names of all benchmarks, as Criterion puts them together.
fn ids(study: &Study) -> impl Iterator<Item = String> {
    study.keys().into_iter().map(|key| {
        let id = format!("{}/{}", group_name(study, &key), key.variant);
        if key.parameter.is_empty() { id } else { format!("{id}/{}", key.parameter) }
    })
}

/// A regular expression for this text.
fn escaped(text: &str) -> String {
    let special = |c| r"\.+*?()|[]{}^$".contains(c);
    text.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

/// Wall time, as Criterion measures it by itself, but in fractions of a nanosecond: a workload of fixed size has its
/// time divided by its jobs.
struct Nanoseconds;

impl Measurement for Nanoseconds {
    type Intermediate = Instant;
    type Value = f64;

    fn start(&self) -> Instant {
        Instant::now()
    }

    fn end(&self, start: Instant) -> f64 {
        start.elapsed().as_nanos() as f64
    }

    fn add(&self, first: &f64, second: &f64) -> f64 {
        first + second
    }

    fn zero(&self) -> f64 {
        0.0
    }

    fn to_f64(&self, value: &f64) -> f64 {
        *value
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        static WALL_TIME: WallTime = WallTime;
        WALL_TIME.formatter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use by_turns_core::base::sample::Sample;
    use by_turns_core::trial::bencher::Bencher;

    #[test]
    fn benchmarks_are_called_by_their_keys() {
        let nothing = |bencher: &mut Bencher| bencher.iter(&mut || ());
        let study = Study::new("s")
            .baseline("manual (best)")
            .bench(Key::new("box+arc", "box+arc", ""), nothing)
            .bench(Key::new("box", "manual (best)", "n=1"), nothing)
            .control("n=1");
        let names = ["s/box+arc", "s/box/manual (best)/n=1", "s/box/manual (best) (A/A)/n=1"];
        assert_eq!(ids(&study).collect::<Vec<_>>(), names);
        assert_eq!(escaped("box+arc (A/A)"), r"box\+arc \(A/A\)");
    }

    #[test]
    fn a_call_of_fixed_size_is_told_by_its_jobs() {
        let mut calls = 0;
        let mut run = || {
            calls += 1;
            Sample::new(1_000, Duration::from_nanos(1_500))
        };
        assert_eq!(time(&mut Workload::Fixed(&mut run), 4), 6.0);
        assert_eq!(calls, 4);
    }
}
