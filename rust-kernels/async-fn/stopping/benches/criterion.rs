//! The variants one after the other, by Criterion with its arguments: `cargo bench -p async-fn-stopping --features criterion
//! --bench criterion`.

fn main() -> Result<(), harness::UnequalWork> {
    harness::criterion::main(async_fn_stopping::study()?);
    Ok(())
}
