//! The notebook's measurement without the notebook: `cargo bench -p call-styles --bench measure`.

fn main() -> Result<(), harness::Error> {
    let outcome = call_styles::study().measure(&harness::Profile::from_env()?)?;
    println!("{outcome}");
    Ok(())
}
