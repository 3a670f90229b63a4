//! What one run allocates and how many instructions it takes: `cargo bench -p ladder --bench counts`.

#[global_allocator]
static ALLOCATOR: harness::counting::CountingAllocator = harness::counting::CountingAllocator;

fn main() -> Result<(), harness::UnequalWork> {
    harness::counting::main(ladder::study()?);
    Ok(())
}
