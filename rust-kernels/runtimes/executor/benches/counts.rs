//! What one iteration allocates: `cargo bench -p runtimes-executor --bench counts`.

#[global_allocator]
static ALLOCATOR: harness::counting::CountingAllocator = harness::counting::CountingAllocator;

fn main() {
    harness::counting::main(runtimes_executor::study());
}
