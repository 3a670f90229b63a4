//! The first sides as the program before a change, and the second ones as the program after it.

use tango_bench::{Benchmark, benchmark_fn, tango_benchmarks};

fn sides() -> Vec<Benchmark> {
    let benchmark = |side: crates::Side| {
        benchmark_fn(format!("{}/{}", side.side, side.pair), move |bencher| bencher.iter(move || side.run()))
    };
    crates::pairs().concat().into_iter().map(benchmark).collect()
}

tango_benchmarks!(sides());
