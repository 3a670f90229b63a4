//! The notebook's measurement without the notebook: `cargo bench -p zero-cost --bench measure`.

fn main() -> Result<(), harness::Error> {
    let outcome = zero_cost::study().measure(&harness::Profile::from_env()?)?;
    println!("{outcome}");
    Ok(())
}
