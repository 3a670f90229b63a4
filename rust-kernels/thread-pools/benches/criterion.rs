//! The variants one after the other, by Criterion with its arguments: `cargo bench -p thread-pools --features criterion
//! --bench criterion`.

fn main() {
    harness::criterion::main(thread_pools::study().unwrap_or_else(harness::stop));
}
