//! The study holds all variants, each proven to do equal work, and nothing else.

use harness::{Key, UnequalWork};
use zero_cost::{PUBLISHED, study, variants};

#[test]
fn the_study_measures_the_proven_variants_their_controls_and_nothing_else() -> Result<(), UnequalWork> {
    let mut proven: Vec<_> =
        variants().iter().flat_map(|variant| variant.loads.iter().map(|&load| variant.key(load))).collect();
    let manual = variants()[0];
    proven.extend(PUBLISHED.map(|load| Key { variant: "manual (A/A)".to_owned(), ..manual.key(load) }));
    assert_eq!(study()?.keys(), proven);
    Ok(())
}
