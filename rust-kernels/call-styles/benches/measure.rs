//! The notebook's measurement without the notebook: `cargo bench -p call-styles --bench measure`. After `--
//! --comparisons` it only says what is compared with what.

fn main() -> Result<(), harness::Error> {
    harness::main(call_styles::study())
}
