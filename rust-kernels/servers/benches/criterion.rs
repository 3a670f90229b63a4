//! The variants one after the other, by Criterion with its arguments: `cargo bench -p servers --features criterion
//! --bench criterion`.

fn main() {
    harness::criterion::main(servers::study().unwrap_or_else(harness::stop));
}
