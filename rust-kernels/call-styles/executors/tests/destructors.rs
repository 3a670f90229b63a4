//! Destructors do what other code may: they call, cancel, wait and block, at any depth, and in whichever moment they run.

use std::cell::{Cell, RefCell};
use std::future::{Future, pending};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use call_styles_event_loop::{Direct, Parts, yield_now};
use call_styles_executors::{
    CallState, CallStyles, Cancelled, Evaluation, Executor, Fibers, Fresh, Futures, Inside,
};

/// Longer than any test takes.
const FOR_EVER: Duration = Duration::from_secs(100_000);
const SHORT: Duration = Duration::from_millis(2);

/// Calls this when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

type OfFibers = Parts<Direct>;

/// Calls a procedure that has no argument and no result.
fn procedure(work: impl Fn(&Inside<'_, OfFibers>) + 'static) -> call_styles_executors::FiberCall<OfFibers> {
    (Rc::new(move |inside, argument| (work(inside), argument).1), 0)
}

// -- owners --------------------------------------------------------------------------------------------------

#[test]
fn only_its_own_executor_cancels_a_call() {
    let ours = Futures::<Parts>::new().unwrap();
    let calls: Vec<_> = (0..3).map(|_| ours.call_detached(pending::<()>())).collect();
    let others = Futures::<Parts>::new().unwrap();
    let same_slot = others.call_detached(pending::<()>());
    for call in &calls {
        assert!(!others.cancel(call));
        assert!(!call.is_concluded());
    }
    assert!(!same_slot.is_concluded());
    assert_eq!((ours.waiting(), others.waiting()), (3, 1));
    for call in &calls {
        assert!(ours.cancel(call) && call.is_concluded() && !ours.cancel(call));
    }
}

#[test]
fn a_slot_that_there_is_not_is_passed_over() {
    let futures = Futures::<Parts>::new().unwrap();
    let fibers = Fibers::<OfFibers>::new(true).unwrap();
    for slot in [0, 1, 1_000, u32::MAX] {
        futures.resume(slot);
        fibers.resume(slot);
        futures.event_loop().schedule(slot.max(1));
        fibers.event_loop().schedule(slot.max(1));
    }
    assert_eq!(futures.call(async { yield_now().await }), ());
    fibers.call(procedure(|inside| inside.yield_now()));
}

// -- stacks --------------------------------------------------------------------------------------------------

#[test]
fn calls_that_cancel_the_next_one_when_dropped_need_no_stack_for_each() {
    const LONG: usize = 20_000;
    let executor = Rc::new(Futures::<Parts, Fresh>::new().unwrap());
    let dropped = Rc::new(Cell::new(0));
    let mut next: Option<Evaluation<(), Parts>> = None;
    for _ in 0..LONG {
        let (cancels, counts, of) = (Rc::downgrade(&executor), Rc::clone(&dropped), next.take());
        let guard = OnDrop(move || {
            counts.set(counts.get() + 1);
            if let (Some(executor), Some(next)) = (cancels.upgrade(), &of) {
                let before = counts.get();
                assert!(executor.cancel(next));
                assert!(counts.get() > before, "it is dropped when `cancel` returns");
            }
        });
        next = Some(executor.call_detached(async move {
            let _guard = guard;
            pending().await
        }));
    }
    assert!(executor.cancel(&next.unwrap()));
    assert_eq!((dropped.get(), executor.waiting()), (LONG, 0));
}

// -- blocking and waiting ------------------------------------------------------------------------------------

/// Holds a guard, and ends by its result or a panic.
struct Ends<F: FnMut()>(bool, #[allow(dead_code, reason = "dropped")] OnDrop<F>);

impl<F: FnMut() + Unpin> Future for Ends<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.0 {
            panic!("on purpose");
        }
        Poll::Ready(())
    }
}

#[test]
fn destructors_of_the_root_may_block_although_it_has_panicked() {
    let executor = Futures::<Parts>::new().unwrap();
    for panics in [false, true] {
        let waited = Cell::new(0);
        let root = Ends(
            panics,
            OnDrop(|| {
                executor.block_on(executor.event_loop().wait(SHORT));
                waited.set(
                    waited.get()
                        + executor.call(async {
                            yield_now().await;
                            1
                        }),
                );
            }),
        );
        let outcome = catch_unwind(AssertUnwindSafe(|| executor.block_on(root)));
        assert_eq!((outcome.is_err(), waited.get()), (panics, 1));
    }
}

#[test]
fn a_destructor_may_wait_in_a_fiber_that_goes_on() {
    let fibers = Fibers::<OfFibers>::new(true).unwrap();
    let began = Instant::now();
    fibers.call(procedure(|inside| {
        let _waits = OnDrop(|| inside.wait(SHORT));
        inside.yield_now();
    }));
    assert!(began.elapsed() >= SHORT);
}

#[test]
fn waits_end_at_once_in_a_fiber_that_panics() {
    for pooled in [true, false] {
        let fibers = Fibers::<OfFibers>::new(pooled).unwrap();
        let ended = Rc::new(Cell::new(0));
        let counts = Rc::clone(&ended);
        let evaluation = fibers.call_detached(procedure(move |inside| {
            let _waits = OnDrop(|| {
                inside.wait(FOR_EVER);
                inside.yield_now();
                counts.set(counts.get() + 1);
            });
            inside.wait(SHORT);
            panic!("on purpose");
        }));
        let outcome = catch_unwind(AssertUnwindSafe(|| fibers.block_on(evaluation)));
        assert!(outcome.is_err());
        assert_eq!(ended.get(), 1);
        fibers.call(procedure(|inside| inside.wait(SHORT)));
    }
}

#[test]
fn waits_end_at_once_in_fibers_whose_executor_is_dropped_although_the_thread_panics() {
    for (pooled, panics) in [(true, false), (true, true), (false, false), (false, true)] {
        let fibers = Fibers::<OfFibers>::new(pooled).unwrap();
        let ended = Rc::new(Cell::new(0));
        for _ in 0..3 {
            let counts = Rc::clone(&ended);
            fibers.call_nonblock(procedure(move |inside| {
                let _waits = OnDrop(|| {
                    inside.yield_now();
                    inside.wait(FOR_EVER);
                    counts.set(counts.get() + 1);
                });
                loop {
                    inside.yield_now();
                }
            }));
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let fibers = fibers;
            // Runs them while the thread panics, so that they are entered then.
            let _turn = OnDrop(|| assert_eq!(fibers.call(procedure(|inside| inside.wait(SHORT))), 0));
            if panics {
                panic!("on purpose");
            }
        }));
        assert_eq!((outcome.is_err(), ended.get()), (panics, 3));
    }
}

#[test]
fn a_fiber_that_is_called_while_the_thread_panics_waits() {
    let fibers = Fibers::<OfFibers>::new(true).unwrap();
    let waited = Cell::new(Duration::ZERO);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let _calls = OnDrop(|| {
            let began = Instant::now();
            fibers.call(procedure(|inside| inside.wait(SHORT)));
            waited.set(began.elapsed());
        });
        panic!("on purpose");
    }));
    assert!(outcome.is_err() && waited.get() >= SHORT);
}

/// The one thing that a destructor must not do: Rust has no way on from a panic within a panic.
#[test]
fn a_panic_on_a_stack_that_is_unwound_ends_the_process() {
    let ended = harness::isolated(Duration::from_secs(60), || {
        let fibers = Fibers::<OfFibers>::new(true).unwrap();
        fibers.call_nonblock(procedure(|inside| {
            let _panics = OnDrop(|| panic!("on purpose"));
            inside.wait(FOR_EVER);
        }));
        drop(fibers);
    });
    assert!(ended.unwrap_err().contains("signal"));
}

// -- memory and ends -----------------------------------------------------------------------------------------

#[test]
fn a_vacant_fiber_keeps_nothing_of_its_last_procedure() {
    for pooled in [true, false] {
        let fibers = Fibers::<OfFibers>::new(pooled).unwrap();
        let held = Rc::new(());
        for waits in [false, true] {
            let holds = Rc::clone(&held);
            fibers.call(procedure(move |inside| {
                let _holds = &holds;
                if waits {
                    inside.yield_now();
                }
            }));
            assert_eq!(Rc::strong_count(&held), 1);
        }
    }
}

thread_local! {
    static FIRST: RefCell<Option<Evaluation<Loud, Parts>>> = const { RefCell::new(None) };
    static LAST: RefCell<Option<Kept>> = const { RefCell::new(None) };
}

/// A call and its executor.
type Kept = (Evaluation<Loud, Parts>, Futures<Parts>);

/// A result that tells when it is dropped.
struct Loud(std::sync::mpsc::Sender<()>);

impl Drop for Loud {
    fn drop(&mut self) {
        self.0.send(()).unwrap();
    }
}

/// Thread-locals end in an order that nobody chooses.
#[test]
fn results_and_executors_may_be_kept_until_their_thread_ends() {
    let (tells, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let executor = Futures::<Parts>::new().unwrap();
        let call = |waits: bool| {
            let loud = Loud(tells.clone());
            executor.call_nonblock_eagerly(async move {
                if waits {
                    pending::<()>().await;
                }
                loud
            })
        };
        FIRST.set(Some(call(false)));
        drop(call(false));
        let waits = call(true);
        LAST.set(Some((waits, executor)));
    })
    .join()
    .unwrap();
    assert_eq!(told.iter().count(), 3, "one at once, one result, one call that waits");
}

#[test]
fn evaluations_outlive_their_executor() {
    let executor = Futures::<Parts>::new().unwrap();
    let CallState::Waiting(call) = executor.call_nonblock(pending::<()>()) else { panic!("it waits") };
    drop(executor);
    let other = Futures::<Parts>::new().unwrap();
    assert!(!other.cancel(&call));
    assert_eq!(other.block_on(call), Err(Cancelled));
}

#[test]
fn results_within_a_result_are_dropped_after_it() {
    let executor = Rc::new(Futures::<Parts>::new().unwrap());
    let (gone, seen) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(None)));
    let (runs, is_gone, sees) = (Rc::clone(&executor), Rc::clone(&gone), Rc::clone(&seen));
    let outer = OnDrop(move || {
        let sets = Rc::clone(&is_gone);
        let inner = OnDrop(move || sets.set(true));
        drop(runs.call_nonblock_eagerly(async move { inner }));
        sees.set(Some(is_gone.get()));
    });
    drop(executor.call_nonblock_eagerly(async move { outer }));
    assert_eq!((seen.get(), gone.get()), (Some(false), true));
}
