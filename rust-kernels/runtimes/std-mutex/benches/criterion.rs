//! The variants one after the other, by Criterion with its arguments: `cargo bench -p runtimes-std-mutex --features
//! criterion --bench criterion`.

fn main() {
    harness::criterion::main(runtimes_std_mutex::study());
}
