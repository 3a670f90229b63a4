//! One side after the other.

fn main() {
    divan::main();
}

#[divan::bench(args = crates::pairs().concat())]
fn side(bencher: divan::Bencher, side: &crates::Side) {
    bencher.bench(|| side.run());
}
