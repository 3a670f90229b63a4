//! What one iteration allocates: `cargo bench -p thread-pools --bench counts`.

#[global_allocator]
static ALLOCATOR: harness::counting::CountingAllocator = harness::counting::CountingAllocator;

fn main() {
    harness::counting::main(thread_pools::study().unwrap_or_else(harness::stop));
}
