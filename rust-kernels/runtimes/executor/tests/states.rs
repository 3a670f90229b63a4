//! A task does what the table of its states has, and nothing else. (That all of the table happens, whatever the order, is seen
//! by tests/loom.rs.)
#![cfg(debug_assertions)]

mod common;
#[path = "common/states.rs"]
mod states;

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use common::{Place, block_on, yield_now};
use runtimes_executor::{Runtime, Settings, Step, sleep, spawn, spawn_blocking, timeout};

#[test]
fn tasks_do_what_the_table_of_their_states_has() {
    let runtime = Runtime::new(Settings::new(2));
    let place: Arc<Place> = Arc::default();
    let taking = Arc::clone(&place);
    let mut task = runtime.spawn(async move { taking.take().await });
    struct Another;
    impl std::task::Wake for Another {
        fn wake(self: Arc<Self>) {}
    }
    for waker in [Waker::noop(), &Waker::from(Arc::new(Another))] {
        assert!(Pin::new(&mut task).poll(&mut Context::from_waker(waker)).is_pending());
    }
    place.put();
    block_on(task).unwrap();
    drop(runtime.spawn(pending::<()>()));
    runtime.block_on(async {
        drop(spawn(yield_now()));
        spawn_blocking(|| ()).await.unwrap();
        assert!(timeout(Duration::from_millis(1), spawn(sleep(Duration::MAX))).await.is_none());
    });
    drop(runtime);
    assert!(Step::ALL.into_iter().all(|(step, _)| step == Step::TooLate || step.seen().next().is_some()));
    states::assert_nothing_else_happens();
}
