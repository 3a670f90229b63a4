//! The notebook's measurement without the notebook: `cargo bench -p runtimes-executor --bench measure`.

fn main() -> Result<(), harness::Error> {
    let outcome = runtimes_executor::study().measure(&harness::Profile::from_env()?)?;
    println!("{outcome}");
    Ok(())
}
