//! The notebook's measurement without the notebook: `cargo bench -p spawn-apis --bench measure`.

fn main() -> Result<(), harness::Error> {
    let outcome = spawn_apis::study().measure(&harness::Profile::from_env()?)?;
    println!("{outcome}");
    Ok(())
}
