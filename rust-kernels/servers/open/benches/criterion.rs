//! The variants one after the other, by Criterion with its arguments: `cargo bench -p servers-open --features criterion
//! --bench criterion`.

fn main() {
    harness::criterion::main(servers_open::study().unwrap_or_else(harness::stop));
}
