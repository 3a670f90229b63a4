//! All pairs in turns, each as a load of its own.

fn main() {
    let mut bench = by_turns::Bench::new("pairs");
    for [a, b] in crates::pairs() {
        let load = bench.load(a.pair).variant("a", move |turn| turn.iter(|| a.run()));
        bench = load.variant("b", move |turn| turn.iter(|| b.run()));
    }
    bench.main();
}
