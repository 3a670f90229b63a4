//! Every variant does its work, and differs in one switch from the one that it is built on.

use harness::UnequalWork;
use ladder::{Variant, branches, ladder, study};

fn all() -> Vec<Variant> {
    ladder().into_iter().chain(branches()).collect()
}

#[test]
fn all_variants_do_equal_work() -> Result<(), UnequalWork> {
    study().map(drop)
}

#[test]
fn neighbours_differ_in_one_switch() {
    for pair in ladder().windows(2) {
        assert_eq!(pair[1].base, Some(pair[0].name), "the ladder has a gap");
    }
    for variant in all() {
        let Some(base) = variant.base else { continue };
        let base = all().into_iter().find(|other| other.name == base).expect("a base that is measured");
        let differences = variant.switches.differences(&base.switches);
        assert_eq!(differences.len(), 1, "{} against {}: {differences:?}", variant.name, base.name);
    }
}

#[test]
fn no_two_variants_have_the_same_switches() {
    let all = all();
    for (index, variant) in all.iter().enumerate() {
        let same = all[..index].iter().find(|other| other.switches == variant.switches);
        assert!(same.is_none(), "{} is {}", variant.name, same.map_or("", |same| same.name));
    }
}
