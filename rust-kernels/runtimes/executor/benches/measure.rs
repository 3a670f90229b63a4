//! The notebook's measurement without the notebook: `cargo bench -p runtimes-executor --bench measure`. After `--
//! --comparisons` it only says what is compared with what.

fn main() -> Result<(), harness::Error> {
    harness::main(runtimes_executor::study())
}
