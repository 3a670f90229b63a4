//! What one iteration allocates: `cargo bench -p runtimes --bench counts`.

#[global_allocator]
static ALLOCATOR: harness::counting::CountingAllocator = harness::counting::CountingAllocator;

fn main() {
    harness::counting::main(runtimes::study());
}
