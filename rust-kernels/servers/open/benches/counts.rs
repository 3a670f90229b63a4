//! What one iteration allocates: `cargo bench -p servers-open --bench counts`.

#[global_allocator]
static ALLOCATOR: harness::counting::CountingAllocator = harness::counting::CountingAllocator;

fn main() {
    harness::counting::main(servers_open::study().unwrap_or_else(harness::stop));
}
