//! What one iteration allocates: `cargo bench -p spawn-apis --bench counts`.

#[global_allocator]
static ALLOCATOR: harness::counting::CountingAllocator = harness::counting::CountingAllocator;

fn main() {
    harness::counting::main(spawn_apis::study());
}
