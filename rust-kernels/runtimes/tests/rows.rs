//! Every row does what it should on every runtime, on one worker and on too many; broken runtimes are found out, by
//! name.

use std::collections::BTreeSet;
use std::future::{Future, pending, poll_fn, ready};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use harness::{Bencher, Key, Study};
use runtimes::{
    BUDGET, Iterations, LIMIT, Load, Output, Row, Runtime, Served, Services, Smol, Start, Taking, Task,
    Timer, Tokio, leak, prove, published, rows, spawn_many_on_one, task_id,
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

#[test]
fn what_block_on_waits_for_has_a_twin_with_a_task_on_smol_too() {
    let rows = rows();
    let twins = |row: &Row| {
        let words = format!("driver=task {}", row.parameter);
        rows.iter().find(|twin| twin.bench == row.bench && twin.parameter == words.trim()).cloned()
    };
    let of_block_on = rows.iter().filter(|row| row.runtimes.contains(&"smol (run)"));
    assert!(of_block_on.clone().count() > 20);
    for row in of_block_on {
        let twin = twins(row).unwrap_or_else(|| panic!("{} has no twin", row.bench));
        assert!(twin.runtimes.contains(&"smol") && !twin.runtimes.contains(&"smol (run)"), "{}", row.bench);
    }
}

#[test]
fn every_row_with_more_workers_than_two_has_ours_with_all_awake() {
    for row in published().iter().filter(|row| [4, 6].contains(&row.load.workers) && row.load.n < 500) {
        let second = row.parameter.ends_with("=10") || row.suite() == "spawn_blocking";
        assert_eq!(row.runtimes.contains(&"ours (all awake)"), !second, "{} {}", row.bench, row.parameter);
    }
}

/// Whether the caller of `block_on` runs a task that the root spawns, on one worker.
fn is_run_by_caller<R: Runtime>() -> bool {
    harness::isolated(SOON, || {
        let (caller, (sender, receiver)) = (thread::current().id(), std::sync::mpsc::channel());
        R::new(Load::new(1, 1)).block_on(async move {
            let task = R::spawn(async move { sender.send(thread::current().id()).expect("the test waits") });
            task.await;
        });
        receiver.recv().expect("the task has run") == caller
    })
    .expect("it ends")
}

#[test]
fn a_single_worker_of_smol_is_the_caller_where_the_executor_runs_the_root() {
    assert!(is_run_by_caller::<Smol<true>>() && is_run_by_caller::<Tokio>());
    assert!(!is_run_by_caller::<Smol<false>>());
}

/// The study proves all rows with the workers that they are measured with.
#[test]
fn every_suite_does_equal_work_on_one_worker_and_on_many() {
    let all = published();
    let mut seen = BTreeSet::new();
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

/// Polls once, with a waker that does nothing.
fn polled<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// How many of a thousand handles that are ready one poll takes.
fn taken<const BUDGETED: bool>() -> usize {
    let mut taken = 0;
    let task = poll_fn(|context| {
        while taken < 1000 && pin!(Taking::<_, BUDGETED>(ready(()))).poll(context).is_ready() {
            taken += 1;
        }
        Poll::Ready(())
    });
    assert!(polled(Served::<_, Services<0, BUDGETED>>::new(task)).is_ready());
    taken
}

#[test]
fn a_poll_takes_as_many_handles_as_its_budget_has_and_the_next_poll_has_another() {
    assert_eq!(taken::<true>(), usize::from(BUDGET));
    assert_eq!(taken::<true>(), usize::from(BUDGET));
    assert_eq!(taken::<false>(), 1000);
    assert!(polled(Taking::<_, true>(ready(()))).is_ready(), "outside of tasks there is no budget");
}

#[test]
fn a_task_has_a_number_of_its_own_while_it_is_polled() {
    let id = || polled(Served::<_, Services<1, false>>::new(async { task_id() }));
    let (Poll::Ready(Some(first)), Poll::Ready(Some(second))) = (id(), id()) else { panic!("no number") };
    assert_ne!(first, second);
    assert_eq!(task_id(), None);
    assert_eq!(polled(Served::<_, Services<0, true>>::new(async { task_id() })), Poll::Ready(None));
    let size = size_of::<Served<(), Services<1, true>>>() - size_of::<Served<(), Services<0, true>>>();
    assert_eq!(size, size_of::<u64>(), "what has no number has no room for it");
}
