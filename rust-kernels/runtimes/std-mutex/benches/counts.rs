//! What one iteration allocates: `cargo bench -p runtimes-std-mutex --bench counts`.

#[global_allocator]
static ALLOCATOR: harness::counting::CountingAllocator = harness::counting::CountingAllocator;

fn main() {
    harness::counting::main(runtimes_std_mutex::study());
}
