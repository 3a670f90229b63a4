//! The notebook's measurement without the notebook: `cargo bench -p channels-threads --bench measure`. After `--
//! --comparisons` it only says what is compared with what.

fn main() -> Result<(), harness::Error> {
    harness::main(channels_threads::study())
}
