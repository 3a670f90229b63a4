//! The variants one after the other, by Criterion with its arguments: `cargo bench -p channels-threads --features
//! criterion --bench criterion`.

fn main() {
    harness::criterion::main(channels_threads::study());
}
