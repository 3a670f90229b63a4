//! The notebook's measurement without the notebook: `cargo bench -p zero-cost-sockets --bench measure`.

fn main() -> Result<(), harness::Error> {
    let outcome = zero_cost_sockets::study().measure(&harness::Profile::from_env()?)?;
    println!("{outcome}");
    Ok(())
}
