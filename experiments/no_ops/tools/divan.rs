#[path = "../benches/work.rs"]
mod work;

fn main() {
    divan::main();
}

#[divan::bench]
fn work(bencher: divan::Bencher) {
    let items = work::items();
    bencher.bench(|| work::all(&items));
}
