//! Allocations and instructions of one run: `cargo bench -p zero-cost-sockets --bench counts`.

#[global_allocator]
static ALLOCATOR: harness::counting::CountingAllocator = harness::counting::CountingAllocator;

fn main() {
    harness::counting::main(zero_cost_sockets::study());
}
