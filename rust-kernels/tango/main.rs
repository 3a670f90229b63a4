//! The hand-written loop of zero-cost for [tango-bench](https://docs.rs/tango-bench), which compares a program with
//! itself in two processes that run side by side. `python -m experiments` starts it: `tango compare
//! --time SECONDS --dump FOLDER`.

use tango_bench::{benchmark_fn, tango_benchmarks};
use zero_cost_loop::{ManualServer, Load, NoWork, Stats, Timed, Work};

const LOAD: Load = Load { syscalls: false, steps: 0 };

tango_benchmarks!([benchmark_fn("manual", |bencher| {
    // What is measured must live as long as the program, which ends soon.
    let stats: &'static Stats = Box::leak(Box::new(Stats::new(LOAD.syscalls)));
    let mut server = ManualServer::<_, Timed<()>>::new(stats, NoWork::under(LOAD));
    bencher.iter(move || server.run())
})]);
