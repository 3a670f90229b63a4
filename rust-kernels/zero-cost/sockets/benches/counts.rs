//! What one run allocates and how many instructions it takes: `cargo bench -p zero-cost-sockets --bench counts`.

#[global_allocator]
static ALLOCATOR: harness::counting::CountingAllocator = harness::counting::CountingAllocator;

fn main() -> Result<(), harness::UnequalWork> {
    harness::counting::main(zero_cost_sockets::study()?);
    Ok(())
}
