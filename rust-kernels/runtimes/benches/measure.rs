//! The notebook's measurement without the notebook: `cargo bench -p runtimes --bench measure`.

fn main() -> Result<(), harness::Error> {
    let outcome = runtimes::study().measure(&harness::Profile::from_env()?)?;
    println!("{outcome}");
    Ok(())
}
