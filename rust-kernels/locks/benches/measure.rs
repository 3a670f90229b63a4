//! The notebook's measurement without the notebook: `cargo bench -p locks --bench measure`. After `--
//! --comparisons` it only says what is compared with what.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    Ok(harness::main(locks::study()?)?)
}
