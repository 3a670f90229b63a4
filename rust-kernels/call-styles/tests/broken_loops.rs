//! Loops that are broken on purpose: each is found out by the proof, by name, before anything could be timed.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use call_styles::{Kind, LIMIT, Load, Repeat, Style, Subject, Workload, expected, prove};
use call_styles_event_loop::{
    Counted, Counter, Design, Direct, Parts, Probe, Probed, Selector, Wakers, yield_now,
};
use call_styles_executors::{CallStyles, Executor, Futures};

/// How long to wait for what never ends.
const SOON: Duration = Duration::from_secs(2);

/// Why a workload under the published load of `waiting call` is refused.
fn refused(workload: Workload, limit: Duration) -> String {
    let load = Load::published(Style::Call, Kind::Due);
    let (bench, variant, parameter) = ("a broken loop", "event loop", "batch=100".to_owned());
    let subject =
        Subject { bench, variant, parameter, load, workloads: [workload; 2], expected: expected(load) };
    let broken = prove(&subject, limit).expect_err("a broken loop is found out").to_string();
    assert!(broken.starts_with(&subject.key().to_string()), "{broken} does not say whose it is");
    broken
}

/// Calls a procedure that waits `waits` times, and does so `times` times for each call of the batch.
fn called<D: Design>(load: Load, waits: usize, times: usize, repeat: Repeat<'_>) {
    let executor = Futures::<D>::new().unwrap();
    let procedure = |argument| {
        let event_loop = Rc::clone(executor.event_loop());
        async move {
            for _ in 0..waits {
                event_loop.wait(Duration::ZERO).await;
            }
            Counted::add(Counter::Executions, 1);
            argument
        }
    };
    let once = |argument| (0..times).map(|_| executor.call(procedure(argument))).last().unwrap();
    repeat(&mut || (0..load.batch as u64).map(once).sum());
}

type Sound = Probed<Counted, Parts<Direct>>;

#[test]
fn the_same_world_without_a_fault_is_accepted() {
    let load = Load::published(Style::Call, Kind::Due);
    let workload: Workload = |load, repeat| called::<Sound>(load, 1, 1, repeat);
    let parameter = "batch=100".to_owned();
    let (bench, variant, expected) = ("a sound loop", "event loop", expected(load));
    prove(&Subject { bench, variant, parameter, load, workloads: [workload; 2], expected }, LIMIT).unwrap();
}

#[test]
fn a_second_call_of_the_same_procedure_is_found_out() {
    let broken = refused(|load, repeat| called::<Sound>(load, 1, 2, repeat), LIMIT);
    for wrong in ["executions: 100 expected, 200 counted", "handles: 100 expected, 200 counted"] {
        assert!(broken.contains(wrong), "{broken}");
    }
}

#[test]
fn a_wait_too_many_or_too_few_is_found_out() {
    let broken = refused(|load, repeat| called::<Sound>(load, 2, 1, repeat), LIMIT);
    assert!(broken.contains("clock_reads: 300 expected, 600 counted"), "{broken}");
    let broken = refused(|load, repeat| called::<Sound>(load, 0, 1, repeat), LIMIT);
    assert!(broken.contains("switches: 600 expected, 200 counted"), "{broken}");
}

#[test]
fn a_result_that_is_wrong_is_found_out() {
    let broken = refused(
        |load, repeat| {
            let mut wrong = |iterate: &mut dyn FnMut() -> u64| repeat(&mut || iterate() + 1);
            called::<Sound>(load, 1, 1, &mut wrong);
        },
        LIMIT,
    );
    assert!(broken.contains("sum: 4950 expected, 4951 counted"), "{broken}");
}

/// Wakers that lose the seventeenth wake. `SLEEPS` says whether the loop hopes for wakes from other threads.
struct Losing<const SLEEPS: bool> {
    sound: Direct,
    wakes: Cell<u32>,
}

impl<const SLEEPS: bool> Wakers for Losing<SLEEPS> {
    const FROM_OTHER_THREADS: bool = SLEEPS;
    type Waiter = u32;

    fn new(selector: &Arc<impl Selector>) -> Self {
        Self { sound: Direct::new(selector), wakes: Cell::new(0) }
    }

    fn waker(&self, slot: u32) -> Waker {
        self.sound.waker(slot)
    }

    fn waiter(&self, current: u32, context: &Context<'_>) -> u32 {
        self.sound.waiter(current, context)
    }

    fn wake(&self, slot: u32) {
        self.wakes.set(self.wakes.get() + 1);
        if self.wakes.get() != 17 {
            self.sound.wake(slot);
        }
    }

    fn take(&self, woken: &mut VecDeque<u32>) {
        self.sound.take(woken);
    }

    fn begin(&self, slot: u32) {
        self.sound.begin(slot);
    }
}

#[test]
fn a_lost_wake_is_an_error_where_no_other_wake_can_come() {
    let broken =
        refused(|load, repeat| called::<Probed<Counted, Parts<Losing<false>>>>(load, 1, 1, repeat), LIMIT);
    assert!(broken.contains("nothing could ever happen"), "{broken}");
}

#[test]
fn a_lost_wake_is_a_named_hang_where_another_wake_may_come() {
    let broken =
        refused(|load, repeat| called::<Probed<Counted, Parts<Losing<true>>>>(load, 1, 1, repeat), SOON);
    assert!(broken.contains("did not end within 2s"), "{broken}");
}

#[test]
fn a_yield_is_no_timer() {
    let broken = refused(
        |load, repeat| {
            let executor = Futures::<Probed<Counted>>::new().unwrap();
            let procedure = |argument| async move {
                yield_now().await;
                Counted::add(Counter::Executions, 1);
                argument
            };
            repeat(&mut || (0..load.batch as u64).map(|n| executor.call(procedure(n))).sum());
        },
        LIMIT,
    );
    assert!(broken.contains("clock_reads: 300 expected, 0 counted"), "{broken}");
}
