//! The notebook's measurement without the notebook: `cargo bench -p zero-cost-sockets --bench measure`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let outcome = zero_cost_sockets::study()?.measure(&harness::Profile::from_env()?)?;
    println!("{outcome}");
    Ok(())
}
