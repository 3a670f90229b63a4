//! The variants one after the other, by Criterion with its arguments: `cargo bench -p channels --features criterion
//! --bench criterion`.

fn main() -> Result<(), harness::UnequalWork> {
    harness::criterion::main(channels::study()?);
    Ok(())
}
