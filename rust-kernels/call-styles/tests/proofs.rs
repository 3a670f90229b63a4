//! Every subject does what the document's library does, or what it must instead.

use call_styles::{INTERPRETED, INTERPRETERS, LIMIT, prove, study, subjects};

#[test]
fn every_subject_does_its_work() {
    for subject in subjects() {
        prove(&subject, LIMIT).unwrap();
    }
}

/// Skips where one of them is not installed, unless ASYNC_COST_REQUIRE_RUBY=1.
#[test]
fn interpreters_do_their_work() {
    let study = study();
    let keys: Vec<_> = study.keys().into_iter().filter(|key| INTERPRETERS.contains(&&*key.variant)).collect();
    if keys.is_empty() && std::env::var("ASYNC_COST_REQUIRE_RUBY").is_err() {
        return eprintln!("skipped: ruby and mruby are not both installed");
    }
    assert_eq!(keys.len(), INTERPRETERS.len() * INTERPRETED.len());
    for key in keys {
        study.run_once(&key).unwrap();
    }
}
