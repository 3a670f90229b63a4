//! The measuring program itself: equal work, bursts that end by their error, jobs without a box, comparisons.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use harness::Key;
use thread_pools::{
    BLOCKING, CBCP, CBWP, CHILI, COUNTING, Chain, Counters, DEFAULT, FORTE, FUTURES, Folded, IDLE, Jobs,
    Kind, LEAN_CBCP, LEAN_CBWP, LEAN_JOIN, LEAN_NEVER_PARK, LIMIT, Latch, Load, NEVER_PARK, NO_POOL,
    ONE_UNIT, Observer, Opaque, PINNED_CBCP, PINNED_CBWP, RAYON, RAYON_FIFO, RAYON_JOIN, RAYON_SCOPE, Row,
    SIZES, Scale, TP, Variant, Work, X_CBCP, X_CBWP, X_COUNTING, X_NEVER_PARK, X_PINNED_CBCP, X_PINNED_CBWP,
    X_TP, burst, cells, comparisons, dependent_steps, distribution, has_sizes, original, prove, prove_tree,
    study_of, until_precise,
};
use thread_pools_described::Subject;
use thread_pools_lean::{Job, Ours, Stealing, Storage};

fn load(workers: usize, producers: u64, messages: u64, amplification: u32) -> Load {
    Load { workers, producers, messages, amplification }
}

const ALL: [Variant; 24] = [
    ONE_UNIT,
    PINNED_CBCP,
    PINNED_CBWP,
    X_PINNED_CBCP,
    X_PINNED_CBWP,
    X_TP,
    RAYON_FIFO,
    LEAN_CBCP,
    LEAN_CBWP,
    LEAN_NEVER_PARK,
    TP,
    CBCP,
    DEFAULT,
    NEVER_PARK,
    COUNTING,
    CBWP,
    X_CBCP,
    X_CBWP,
    X_NEVER_PARK,
    X_COUNTING,
    RAYON,
    FUTURES,
    BLOCKING,
    NO_POOL,
];

#[test]
fn all_pools_do_equal_work_under_small_and_crowded_loads() {
    for variant in ALL {
        for load in [load(1, 1, 1, 0), load(1, 2, 100, 3), load(4, 3, 50, 1), load(9, 1, 7, 100)] {
            let key = Key::new("test", variant.name, format!("{load:?}"));
            let carrying = SIZES.map(Jobs::Carrying).into_iter().filter(|_| load.amplification == 0);
            let working = [IDLE, Opaque { before: 10, after: 3 }].map(Jobs::Working);
            for jobs in working.into_iter().chain([Jobs::Published]).chain(carrying) {
                prove(&key, variant.world, &load, jobs, LIMIT).unwrap();
            }
        }
    }
}

/// Counts what has ended beside the counters of each worker.
#[derive(Clone, Copy)]
struct Beside(&'static Counters, &'static AtomicU64);

impl Observer for Beside {
    fn end(self) {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.end();
    }
}

#[test]
fn counters_of_each_worker_end_a_burst_when_all_of_it_has_ended() {
    static ENDED: AtomicU64 = AtomicU64::new(0);
    let pool = Ours::<Stealing>::make(3);
    for round in 1..=200 {
        let counters = Counters::none();
        let load = load(3, 2, 50, 0);
        burst(&pool, &load, IDLE, |_| Beside(counters, &ENDED), || counters.wait(load.chains()));
        assert_eq!(ENDED.load(Ordering::SeqCst), round * load.chains());
    }
}

#[test]
fn everyone_goes_through_all_nodes_of_a_tree_once() {
    let joins = [RAYON_JOIN, RAYON_SCOPE, CHILI, FORTE, LEAN_JOIN];
    for variant in [CBCP, CBWP, LEAN_CBCP, LEAN_CBWP, RAYON].into_iter().chain(joins) {
        for workers in [1, 3] {
            prove_tree(&Key::new("tree", variant.name, ""), variant.tree_world, workers, 10).unwrap();
        }
    }
}

#[test]
fn a_message_is_one_job_more_than_its_amplification() {
    let low = load(1, 2, 10_000_000, 1);
    assert_eq!((low.chains(), low.jobs()), (20_000_000, 40_000_000));
    let high = load(1, 2, 1_000, 50_000);
    assert_eq!((high.chains(), high.jobs()), (2_000, 100_002_000));
}

#[test]
fn bursts_end_by_the_error_of_their_mean_or_by_their_number() {
    let taken = |bursts, times: &[u64]| {
        let mut times = times.iter().cycle();
        until_precise(bursts, || Duration::from_nanos(*times.next().unwrap())).len()
    };
    assert_eq!(taken((3, 100), &[50]), 3);
    assert_eq!(taken((1, 7), &[1, 1_000]), 1, "one time has no error");
    assert_eq!(taken((2, 7), &[1, 1_000]), 7);
    // A relative standard deviation of one half, nearly: 25 times for a tenth.
    assert_eq!(taken((2, 100), &[150, 50]), 25);
}

#[test]
fn what_our_pools_are_measured_with_fits_into_a_job_without_a_box() {
    type Awaited = Option<&'static Latch>;
    assert!(size_of::<Chain<Ours<Stealing>, Opaque, Awaited>>() <= size_of::<Storage>());
    // Of the closures that are compared, all but the last.
    let fit = SIZES.map(|bytes| bytes <= size_of::<Storage>());
    assert_eq!((fit, size_of::<Job>()), ([true, true, true, false], 64), "a job is a cache line");
    // What a node of a tree submits: the pool, two numbers, and who waits.
    assert!(size_of::<(Ours<Stealing>, u32, u32, Awaited)>() <= size_of::<Storage>());
}

#[test]
fn the_published_work_is_folded_and_ours_is_not() {
    let time = |work: &dyn Fn()| {
        let start = Instant::now();
        (0..100).for_each(|_| work());
        start.elapsed()
    };
    // Ten thousand times as much of the one takes no longer; the other does.
    let folded = time(&|| Folded(100_000_000).before());
    let opaque = time(&|| dependent_steps(10_000));
    assert!(cfg!(debug_assertions) || folded < opaque, "{folded:?} for a sum, {opaque:?} for steps");
}

#[test]
fn its_comparisons_make_sense() {
    study_of(Scale::of("standard")).comparisons().unwrap();
}

#[test]
fn every_pool_of_the_table_has_its_original_in_each_of_its_cells() {
    let rows = cells(Scale::of("standard"));
    let compared = comparisons(&rows);
    let beside_its_original = |row: &Row| {
        let of =
            |(key, other): (&Key, &Key)| *key == row.key && original(&key.variant) == Some(&other.variant);
        compared.iter().any(|(key, other, _)| of((key, other)))
    };
    let as_published =
        |row: &&Row| matches!(row.kind, Kind::Published | Kind::LastOfBurst(_)) && !has_sizes(row);
    let described = rows
        .iter()
        .filter(as_published)
        .filter(|row| row.key.variant.starts_with("CB") && row.key.variant != ONE_UNIT.name);
    let missing: Vec<&Key> = described.filter(|row| !beside_its_original(row)).map(|row| &row.key).collect();
    assert_eq!(missing, [] as [&Key; 0]);
}

#[test]
fn a_distribution_of_times_has_their_quantiles() {
    const MS: u64 = 1_000_000;
    let known = distribution((1..=1_000).map(|ms| ms * MS));
    assert_eq!(known.len(), 1_000);
    for (share, ms) in [(0.5, 500), (0.9, 900), (0.99, 990), (1.0, 1_000)] {
        assert!(known.value_at_quantile(share).abs_diff(ms * MS) <= ms * MS / 1_000, "{share}");
    }
    assert!(known.max().abs_diff(1_000 * MS) <= MS);
    let mut both = distribution([MS]);
    both.add(known).expect("it grows");
    assert_eq!(both.len(), 1_001);
}
