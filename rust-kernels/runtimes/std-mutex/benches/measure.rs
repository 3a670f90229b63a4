//! The notebook's measurement without the notebook: `cargo bench -p runtimes-std-mutex --bench measure`. After
//! `-- --comparisons` it only says what is compared with what.

fn main() -> Result<(), harness::Error> {
    harness::main(runtimes_std_mutex::study())
}
