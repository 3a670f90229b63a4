//! Allocations of an iteration alone. One test, since the allocator counts those of all threads.
#![cfg(feature = "bench")]

use std::hint::black_box;
use std::time::Duration;

use by_turns_core::CountingAllocator;
use by_turns_core::count::allocations;
use by_turns_core::trial::bencher::{Bencher, Prepared, TrialError, Workload};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn allocate(times: u64) {
    (0..times).for_each(|_| drop(black_box(Box::new(1_u64))));
}

/// Ten allocations to prepare, three to run.
struct Costly;

impl Prepared for Costly {
    fn prepare(&mut self, iterations: u64) {
        allocate(10 * iterations);
    }

    fn run(&mut self) {
        allocate(3);
    }
}

#[test]
fn what_prepares_or_drives_an_iteration_is_not_counted() {
    let three = [("allocations".to_owned(), 3), ("allocated_bytes".to_owned(), 24)];
    let prepared = |bencher: &mut Bencher<'_>| bencher.hand_over(Workload::Prepared(&mut Costly));
    assert_eq!(allocations::count(&prepared).expect("counts"), three);
    let driven = |bencher: &mut Bencher<'_>| {
        bencher.hand_over(Workload::Driven(&mut |iterations| {
            allocate(10 + 3 * iterations);
            Duration::ZERO
        }));
    };
    assert_eq!(allocations::count(&driven).expect("counts"), three);
    // It allocates less with an iteration than without one, which is no count of 0.
    let less = |bencher: &mut Bencher<'_>| {
        bencher.hand_over(Workload::Driven(&mut |iterations| {
            allocate(10 - 3 * iterations);
            Duration::ZERO
        }));
    };
    let Err(TrialError::Failed(why)) = allocations::count(&less) else { panic!("a count") };
    assert!(why.contains("without an iteration"), "{why}");
}
