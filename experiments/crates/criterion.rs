//! One side after the other, and the second compared with the first as a saved baseline: at once, so that little time lies
//! between them.

use std::time::Duration;

fn main() {
    let time = Duration::from_secs_f64(crates::setting("SECONDS") / 2.0);
    for [a, b] in crates::pairs() {
        for side in [a, b] {
            let criterion = criterion::Criterion::default().without_plots();
            // Of the time, as by default: 3 of 8 seconds.
            let criterion = criterion.warm_up_time(time * 3 / 8).measurement_time(time * 5 / 8);
            let mut criterion = match side.side {
                "a" => criterion.save_baseline("a".to_owned()),
                _ => criterion.retain_baseline("a".to_owned(), true),
            };
            criterion.bench_function(side.pair, |bencher| bencher.iter(|| side.run()));
        }
    }
}
