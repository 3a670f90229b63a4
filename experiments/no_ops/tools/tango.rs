#[path = "../benches/work.rs"]
mod work;

use tango_bench::{Benchmark, benchmark_fn, tango_benchmarks};

fn benchmarks() -> Vec<Benchmark> {
    let work = benchmark_fn("work", |bencher| {
        let items = work::items();
        bencher.iter(move || work::all(&items))
    });
    vec![work]
}

tango_benchmarks!(benchmarks());
