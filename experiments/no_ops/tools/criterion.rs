#[path = "../benches/work.rs"]
mod work;

fn main() {
    let items = work::items();
    let mut criterion = criterion::Criterion::default().without_plots().configure_from_args();
    criterion.bench_function("work", |bencher| bencher.iter(|| work::all(&items)));
}
