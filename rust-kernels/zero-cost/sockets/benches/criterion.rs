//! The variants one after the other, by Criterion with its arguments: `cargo bench -p zero-cost-sockets --features
//! criterion --bench criterion`.

fn main() -> Result<(), harness::UnequalWork> {
    harness::criterion::main(zero_cost_sockets::study()?);
    Ok(())
}
