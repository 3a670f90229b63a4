//! Two ways to add up, as an example of a bench.

use by_turns::Bench;

by_turns::count_allocations!();

fn main() {
    let items: Vec<u64> = (0..1000).collect();
    Bench::new("sum")
        .unit("item", 1000)
        .variant("index", |turn| turn.iter(|| (0..items.len()).map(|at| items[at]).sum::<u64>()))
        .variant("iterator", |turn| turn.iter(|| items.iter().sum()))
        .variant("boxed", |turn| turn.iter(|| items.iter().map(|item| *Box::new(*item)).sum()))
        .main();
}
