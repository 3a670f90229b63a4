//! The variants one after the other, by Criterion with its arguments: `cargo bench -p zero-cost-ladder --bench criterion`.

fn main() -> Result<(), harness::UnequalWork> {
    harness::criterion::main(zero_cost_ladder::study()?);
    Ok(())
}
