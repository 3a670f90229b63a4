//! The variants one after the other, by Criterion with its arguments: `cargo bench -p runtimes --features criterion
//! --bench criterion`.

fn main() {
    harness::criterion::main(runtimes::study());
}
