//! Each pair as a group, whose sides take turns.

use std::time::Duration;

fn main() {
    let time = Duration::from_secs_f64(crates::setting("SECONDS"));
    let result = zenbench::run(|suite| {
        for [a, b] in crates::pairs() {
            suite.group(a.pair, |group| {
                // All of the time, as the others: by default, 30 rounds of some 10 ms.
                group.config().auto_rounds(false).max_rounds(10_000).max_wall_time(time);
                group.bench("a", move |bencher| bencher.iter(|| a.run()));
                group.bench("b", move |bencher| bencher.iter(|| b.run()));
            });
        }
    });
    zenbench::postprocess_result(&result);
}
