//! What one iteration allocates and how many instructions it takes: `cargo bench -p channels --bench counts`.

#[global_allocator]
static ALLOCATOR: harness::counting::CountingAllocator = harness::counting::CountingAllocator;

fn main() -> Result<(), harness::UnequalWork> {
    harness::counting::main(channels::study()?);
    Ok(())
}
