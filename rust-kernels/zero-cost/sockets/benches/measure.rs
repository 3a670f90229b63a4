//! The notebook's measurement without the notebook: `cargo bench -p zero-cost-sockets --bench measure`. After `--
//! --comparisons` it only says what is compared with what.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    Ok(harness::main(zero_cost_sockets::study()?)?)
}
