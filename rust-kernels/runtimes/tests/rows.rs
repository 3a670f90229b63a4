//! Every row does what it should on every runtime, on one worker and on too many; broken runtimes are found out, by
//! name.

use std::future::{Future, pending};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use harness::{Bencher, Key, Study};
use runtimes::{
    Iterations, LIMIT, Load, Output, Row, Runtime, Start, Task, Timer, Tokio, leak, prove, published, rows,
    spawn_many_on_one,
};

/// How long to wait for what never ends.
const SOON: Duration = Duration::from_secs(2);

#[test]
fn every_published_row_is_measured() {
    let table = include_str!("../../../data/published/runtimes.csv");
    let cells = table.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    let expected: Vec<Key> = cells.map(|cells| Key::new(cells[1], cells[2], cells[3])).collect();
    assert_eq!(expected.len(), 118);
    let keys = |row: Row| row.runtimes.iter().map(|variant| row.key(variant)).collect::<Vec<_>>();
    let measured: Vec<Key> = published().into_iter().flat_map(keys).collect();
    for key in expected {
        assert!(measured.contains(&key), "{key} is not measured");
    }
}

#[test]
fn no_row_is_there_twice() {
    let mut keys: Vec<_> = rows().iter().map(|row| row.key("").to_string()).collect();
    let all = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), all);
}

/// The study proves all rows with the workers that they are measured with.
#[test]
fn every_suite_does_equal_work_on_one_worker_and_on_many() {
    let all = published();
    let mut seen = std::collections::BTreeSet::new();
    let small = |row: &&Row| row.load.n <= 1000 && row.load.busy_us == 0;
    for row in all.iter().filter(small).filter(|row| seen.insert(row.suite().to_owned())) {
        for workers in [1, 3] {
            let mut row = row.clone();
            (row.load.workers, row.load.threads) = (workers, true);
            for variant in &row.runtimes {
                prove(&row, variant, row.start(variant), LIMIT).unwrap();
            }
        }
    }
    assert!(seen.len() >= 9, "{seen:?}");
}

/// tokio, but what a task spawns is handed to `N`.
struct Broken<N>(Tokio, std::marker::PhantomData<N>);

/// What becomes of a task that is spawned by a task.
trait Nasty: Send + Sync + 'static {
    fn spawn<T: Output>(task: impl Task<T>) -> <Tokio as Runtime>::Handle<T>;
}

impl<N: Nasty> Runtime for Broken<N> {
    type Handle<T: Output> = <Tokio as Runtime>::Handle<T>;

    fn new(load: Load) -> Self {
        Self(Tokio::new(load), std::marker::PhantomData)
    }

    fn spawn<T: Output>(task: impl Task<T>) -> Self::Handle<T> {
        N::spawn(task)
    }

    fn spawn_outside<T: Output>(&self, task: impl Task<T>) -> Self::Handle<T> {
        self.0.spawn_outside(task)
    }

    fn block_on(&self, root: impl Future<Output = ()> + Send) {
        self.0.block_on(root);
    }

    fn spawn_blocking<T: Output>(call: impl FnOnce() -> T + Send + 'static) -> Self::Handle<T> {
        Tokio::spawn_blocking(call)
    }

    fn spawn_timers(timer: Timer, times: u64) -> Self::Handle<()> {
        Tokio::spawn_timers(timer, times)
    }
}

/// Loses the seventeenth task.
struct Loses;

impl Nasty for Loses {
    fn spawn<T: Output>(task: impl Task<T>) -> <Tokio as Runtime>::Handle<T> {
        static SPAWNED: AtomicUsize = AtomicUsize::new(0);
        match SPAWNED.fetch_add(1, Ordering::Relaxed) {
            17 => Tokio::spawn(pending()),
            _ => Tokio::spawn(task),
        }
    }
}

/// Has no room for the seventeenth task.
struct Panics;

impl Nasty for Panics {
    fn spawn<T: Output>(task: impl Task<T>) -> <Tokio as Runtime>::Handle<T> {
        static SPAWNED: AtomicUsize = AtomicUsize::new(0);
        assert!(SPAWNED.fetch_add(1, Ordering::Relaxed) < 17, "no room for a task");
        Tokio::spawn(task)
    }
}

/// A suite of the study on this runtime.
fn spawns<R: Runtime>(load: Load) -> Iterations {
    spawn_many_on_one(leak(R::new(load)), load)
}

fn row() -> Row {
    published().into_iter().find(|row| row.bench == "rt_current_thread/rt_spawn_many_local").unwrap()
}

#[test]
fn a_lost_task_is_a_hang_that_is_ended_and_named() {
    let error = prove(&row(), "loses", spawns::<Broken<Loses>>, SOON).unwrap_err().to_string();
    assert!(
        error.starts_with("rt_current_thread/rt_spawn_many_local/loses: did not end within 2s"),
        "{error}"
    );
}

#[test]
fn a_panic_is_told_with_its_words() {
    let error = prove(&row(), "panics", spawns::<Broken<Panics>>, SOON).unwrap_err().to_string();
    assert!(error.starts_with("rt_current_thread/rt_spawn_many_local/panics: "), "{error}");
    assert!(error.ends_with("no room for a task"), "{error}");
}

#[test]
fn a_row_that_does_less_is_found_out() {
    let mut less = row();
    less.load.n = 999;
    let error = prove(&less, "tokio", spawns::<Tokio>, SOON).unwrap_err().to_string();
    assert!(error.contains("spawns: 1000 expected, 999 counted"), "{error}");
}

#[test]
fn a_trial_that_hangs_ends_its_row_and_not_the_run() {
    let row = row();
    let bench = |start: Start| {
        let load = row.load;
        move |bencher: &mut Bencher| bencher.iter_custom(&mut *start(load))
    };
    let study = Study::new("broken-runtimes")
        .isolated(SOON)
        .bench(row.key("loses"), bench(spawns::<Broken<Loses>>))
        .bench(row.key("tokio"), bench(spawns::<Tokio>));
    let error = study.run_once(&row.key("loses")).expect_err("it hangs").to_string();
    assert!(error.contains("loses") && error.contains("did not end within"), "{error}");
    study.run_once(&row.key("tokio")).expect("the other one is not concerned");
}
