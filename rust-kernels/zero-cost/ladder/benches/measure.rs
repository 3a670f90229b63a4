//! The notebook's measurement without the notebook: `cargo bench -p zero-cost-ladder --bench measure`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let outcome = zero_cost_ladder::study()?.measure(&harness::Profile::from_env()?)?;
    println!("{outcome}");
    Ok(())
}
