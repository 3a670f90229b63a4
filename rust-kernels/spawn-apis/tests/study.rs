//! All subjects do equal work on small rings too, and what is compared with what makes sense on any number of
//! processors.

use spawn_apis::{Handles, LIMIT, Load, Work, comparisons, prove, subjects, sweep};

/// All loads of the study are proven when it is built. These are small rings, down to the smallest there is.
#[test]
fn all_subjects_do_equal_work_on_one_worker_and_on_too_many() {
    for subject in subjects() {
        let works = [Work::Ring(2), Work::Ring(3), Work::Ring(30), Work::Loop(0), Work::Loop(100)];
        for (work, workers) in works.into_iter().flat_map(|work| [1, 4].map(|workers| (work, workers))) {
            let joined = subject.code.has_handles.then_some(Handles::Joined);
            for handles in joined.into_iter().chain([Handles::Dropped]) {
                let load = Load { work, handles, workers };
                prove(&subject.key(&format!("{load:?}")), subject.code.world, load, LIMIT).unwrap();
            }
        }
    }
}

#[test]
fn whatever_the_number_of_processors_no_two_are_compared_twice() {
    for processors in [1, 2, 3, 8] {
        let mut pairs = comparisons(&subjects(), processors);
        pairs.iter_mut().for_each(|(one, other, _)| {
            if one > other {
                std::mem::swap(one, other);
            }
        });
        pairs.sort();
        let all = pairs.len();
        pairs.dedup_by(|a, b| (&a.0, &a.1) == (&b.0, &b.1));
        assert_eq!(pairs.len(), all, "with {processors} processors");
    }
}

#[test]
fn a_sweep_leaves_out_what_is_measured_anyway_and_labels_too_many() {
    let numbers =
        |processors| sweep(processors).into_iter().map(|(_, parameter)| parameter).collect::<Vec<_>>();
    assert_eq!(numbers(1), ["N=200 workers=2 oversubscribed"]);
    assert_eq!(numbers(2), ["N=200 workers=1", "N=200 workers=4 oversubscribed"]);
    assert_eq!(numbers(8), ["N=200 workers=1", "N=200 workers=2", "N=200 workers=16 oversubscribed"]);
}
