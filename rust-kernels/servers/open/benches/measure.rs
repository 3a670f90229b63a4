//! The notebook's measurement without the notebook: `cargo bench -p servers-open --bench measure`. After `-- --comparisons`
//! it only says what is compared with what.

fn main() -> Result<(), harness::Error> {
    harness::main(servers_open::study()?)
}
