//! What one iteration allocates: `cargo bench -p call-styles --bench counts`.

#[global_allocator]
static ALLOCATOR: harness::counting::CountingAllocator = harness::counting::CountingAllocator;

fn main() {
    harness::counting::main(call_styles::study());
}
