//! The variants one after the other, by Criterion with its arguments: `cargo bench -p call-styles --features criterion
//! --bench criterion`.

fn main() {
    harness::criterion::main(call_styles::study());
}
