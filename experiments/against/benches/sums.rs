//! The same sum twice: each is a side for `--against`, and both are compared in one process.

fn main() {
    by_turns::Bench::new("sums")
        .loads("kib", [4, 256, 8192], |bench, kib| {
            let items: Vec<u64> = (0..128 * kib).collect();
            let same = items.clone();
            bench
                .unit("item", 128 * kib)
                .variant("sum", move |turn| turn.iter(|| against::sum(&items)))
                .variant("again", move |turn| turn.iter(|| against::sum(&same)))
        })
        .main();
}
