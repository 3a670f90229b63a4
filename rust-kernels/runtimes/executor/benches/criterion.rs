//! The variants one after the other, by Criterion with its arguments: `cargo bench -p runtimes-executor --features
//! criterion --bench criterion`.

fn main() {
    harness::criterion::main(runtimes_executor::study());
}
