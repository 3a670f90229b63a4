//! What one iteration allocates: `cargo bench -p channels-threads --bench counts`.

#[global_allocator]
static ALLOCATOR: harness::counting::CountingAllocator = harness::counting::CountingAllocator;

fn main() {
    harness::counting::main(channels_threads::study());
}
