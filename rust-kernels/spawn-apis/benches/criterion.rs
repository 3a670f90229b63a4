//! The variants one after the other, by Criterion with its arguments: `cargo bench -p spawn-apis --features criterion
//! --bench criterion`.

fn main() {
    harness::criterion::main(spawn_apis::study());
}
