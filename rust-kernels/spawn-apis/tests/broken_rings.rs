//! Rings that are broken on purpose: each is found out, by name, and the others go on.

use std::future::{Future, pending};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::executor::LocalPool;
use harness::{Bencher, Key, Study};
use spawn_apis::{
    Api, Detached, Handles, Host, LIMIT, Load, Recorded, TokioOneThread, TokioThreads, TokioTp, Witness,
    Work, World, dropped_locally, joined, prove, with_handles,
};

/// Nodes of the rings here.
const NODES: usize = 10;
const LOAD: Load = Load { work: Work::Ring(NODES), handles: Handles::Joined, workers: 2 };
/// How long to wait for what never ends.
const SOON: Duration = Duration::from_secs(2);

fn key() -> Key {
    Key::new("a broken executor", "native", "N=10")
}

/// Why this world is refused.
fn refused(world: World, limit: Duration) -> String {
    let broken = prove(&key(), world, LOAD, limit).expect_err("a broken ring is found out").to_string();
    assert!(broken.starts_with(&key().to_string()), "{broken} does not say whose it is");
    broken
}

/// A spawn function of tokio that loses the seventeenth task: it is never polled.
#[derive(Clone)]
struct Losing {
    api: TokioTp,
    started: Arc<AtomicUsize>,
}

impl From<TokioTp> for Losing {
    fn from(api: TokioTp) -> Self {
        Self { api, started: Arc::default() }
    }
}

impl Api for Losing {
    type Handle = <TokioTp as Api>::Handle;

    fn start(&self, task: impl Future<Output = ()> + Send + 'static) -> Self::Handle {
        match self.started.fetch_add(1, Ordering::Relaxed) {
            // Kept, since a node that is dropped would make those that send to it panic.
            17 => self.api.start(async move {
                pending::<()>().await;
                task.await;
            }),
            _ => self.api.start(task),
        }
    }
}

#[test]
fn a_lost_message_is_a_hang_that_is_ended_and_named() {
    for world in
        [with_handles::<TokioThreads, Losing>().world, with_handles::<TokioOneThread, Losing>().world]
    {
        let broken = refused(world, SOON);
        assert!(broken.contains("did not end within 2s"), "{broken}");
    }
}

#[test]
fn a_hanging_trial_fails_alone() {
    let bench = |world: World| {
        move |bencher: &mut Bencher| {
            world(LOAD, &mut |iterate| bencher.iter(&mut || iterate(&Witness::default())));
        }
    };
    let sound = Key::new("a sound executor", "native", "N=10");
    let study = Study::new("broken-rings")
        .isolated(SOON)
        .bench(key(), bench(with_handles::<TokioThreads, Losing>().world))
        .bench(sound.clone(), bench(with_handles::<TokioThreads, TokioTp>().world));
    let error = study.run_once(&key()).expect_err("it hangs").to_string();
    assert!(error.contains(&key().to_string()) && error.contains("did not end within"), "{error}");
    study.run_once(&sound).expect("the other one is not concerned");
}

#[test]
fn a_ring_with_a_node_too_few_is_found_out() {
    let smaller: World = |load, repeat| {
        let (mut host, api) = TokioOneThread::set_up(load.workers);
        let work = Work::Ring(NODES - 1);
        repeat(&mut |witness| host.block_on(joined(work, Recorded::new(&api, witness))));
    };
    let broken = refused(smaller, LIMIT);
    for wrong in [
        "spawns: 110 expected, 90 counted",
        "messages: 100 expected, 81 counted",
        "home: 10 expected, 0 counted",
    ] {
        assert!(broken.contains(wrong), "{broken}");
    }
}

#[test]
fn a_second_ring_in_the_same_iteration_is_found_out() {
    let twice: World = |load, repeat| {
        let (mut host, api) = TokioOneThread::set_up(load.workers);
        repeat(&mut |witness| {
            for _ in 0..2 {
                host.block_on(joined(load.work, Recorded::new(&api, witness)));
            }
        });
    };
    let broken = refused(twice, LIMIT);
    assert!(broken.contains("messages: 100 expected, 200 counted"), "{broken}");
}

#[test]
fn tasks_that_run_on_into_the_next_iteration_are_found_out() {
    let hasty: World = |load, repeat| {
        let mut pool = LocalPool::new();
        let api = Detached(LocalPool::spawner(&pool));
        repeat(&mut |witness| {
            let program = Box::pin(dropped_locally(load.work, Recorded::new(&api, witness)));
            // Starts the nodes, and returns without having run them.
            pool.run_until(futures::future::select(program, std::future::ready(())));
        });
    };
    let broken = refused(hasty, LIMIT);
    assert!(broken.contains("ends: 110 expected"), "{broken}");
}

#[test]
fn a_panic_is_told_with_its_words() {
    let refusing: World = |load, _| panic!("no pool of {} workers", load.workers);
    assert!(refused(refusing, LIMIT).ends_with("no pool of 2 workers"));
}
