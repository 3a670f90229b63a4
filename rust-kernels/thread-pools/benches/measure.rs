//! The notebook's measurement without the notebook: `cargo bench -p thread-pools --bench measure`.

fn main() -> Result<(), harness::Error> {
    let study = thread_pools::study().unwrap_or_else(harness::stop);
    let outcome = study.measure(&harness::Profile::from_env()?)?;
    println!("{outcome}");
    Ok(())
}
