//! Every subject does what the document's library does, or what it must instead.

use call_styles::{LIMIT, prove, subjects};

#[test]
fn every_subject_does_its_work() {
    for subject in subjects() {
        prove(&subject, LIMIT).unwrap();
    }
}
