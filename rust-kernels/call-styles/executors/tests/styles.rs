//! What the four styles promise, one promise a test.

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use call_styles_event_loop::{
    ArcWakers, Design, Direct, Epoll, Heap, IndexWakers, Interest, Parts, Polling, Probed, SortedVec, Tree,
    yield_now,
};
use call_styles_executors::{
    Boxes, CallState, CallStyles, Cancelled, Evaluation, Executor, FiberProc, Fibers, Fresh, Futures, Inside,
};

mod common;
use common::{Still, advance};

type Arcs = Probed<Still, Parts<ArcWakers, SortedVec, Polling>>;
type Indices = Probed<Still, Parts<IndexWakers, Heap, Epoll>>;
type Directly = Probed<Still, Parts<Direct, Tree, Polling>>;

const ZERO: Duration = Duration::ZERO;
const LONG: usize = if cfg!(debug_assertions) { 20_000 } else { 100_000 };

/// Runs a test with each of the designs, whose clocks stand still.
macro_rules! with_all_designs {
    ($($name:ident: $test:ident;)*) => {$(
        #[test]
        fn $name() {
            $test(&Futures::<Arcs>::new().unwrap());
            $test(&Futures::<Indices, Fresh>::new().unwrap());
            $test(&Futures::<Directly>::new().unwrap());
        }
    )*};
}

with_all_designs! {
    a_call_that_does_not_wait_never_enters_the_loop: concluded_at_once;
    detached_calls_begin_when_the_root_waits_in_order: in_order;
    timers_fire_by_due_time_and_then_in_the_order_in_which_they_were_made: by_due_time;
    the_root_leaves_the_loop_in_the_middle_of_a_pass: middle_of_a_pass;
    a_wait_that_is_dropped_leaves_no_timer_behind: dropped_wait;
    a_call_can_be_cancelled_once_and_wherever_it_is: cancelled;
    a_task_may_call_others_and_cancel_itself: from_within;
    a_panic_ends_its_task_and_nobody_else: panicking;
    whatever_ends_a_call_concludes_its_evaluation: concluded_without_result;
    a_waker_that_panics_keeps_nobody_waiting: hostile_wakers;
    a_long_chain_of_results_that_hold_evaluations_is_dropped: long_chain;
    a_long_chain_of_calls_that_wait_for_one_another_ends_with_the_executor: long_chain_of_calls;
    slots_are_used_again_last_in_first_out_by_futures_of_any_size: used_again;
    whoever_is_left_is_dropped_with_the_executor: dropped_with_the_executor;
    a_descriptor_is_awaited_by_one_at_a_time_with_a_timeout: readiness;
}

fn concluded_at_once<D: Design, B: Boxes>(executor: &Futures<D, B>) {
    assert_eq!(executor.call(async { 7 }), 7);
    assert!(matches!(executor.call_nonblock(async { 7 }), CallState::Concluded(7)));
    assert_eq!(executor.waiting(), 0);
    let evaluation = executor.call_nonblock_eagerly(async { 7 });
    assert!(evaluation.is_concluded());
    assert_eq!(executor.block_on(evaluation), Ok(7));
}

fn in_order<D: Design, B: Boxes>(executor: &Futures<D, B>) {
    let order = Rc::new(RefCell::new(vec![]));
    let note = |number| {
        let order = Rc::clone(&order);
        async move { order.borrow_mut().push(number) }
    };
    executor.call_and_forget(note(1));
    let second = executor.call_detached(note(2));
    executor.call_and_forget(note(3));
    assert!(order.borrow().is_empty() && !second.is_concluded());
    executor.block_on(second).unwrap();
    assert_eq!(
        *order.borrow(),
        [1, 2, 3],
        "a pass goes to its end before the root, who was woken by it, is resumed"
    );
}

fn by_due_time<D: Design, B: Boxes>(executor: &Futures<D, B>) {
    let event_loop = executor.event_loop();
    let order = Rc::new(RefCell::new(vec![]));
    for (number, after) in [(1, 30), (2, 10), (3, 20), (4, 10), (5, 0), (6, 30)] {
        let (event_loop, order) = (Rc::clone(event_loop), Rc::clone(&order));
        executor.call_nonblock(async move {
            event_loop.wait(Duration::from_millis(after)).await;
            order.borrow_mut().push(number);
        });
    }
    executor.block_on(event_loop.wait(ZERO));
    assert_eq!(order.take(), [5]);
    advance(Duration::from_millis(25));
    executor.block_on(event_loop.wait(ZERO));
    assert_eq!(order.take(), [2, 4, 3]);
    advance(Duration::from_secs(1));
    executor.block_on(event_loop.wait(ZERO));
    assert_eq!(order.take(), [1, 6]);
}

fn middle_of_a_pass<D: Design, B: Boxes>(executor: &Futures<D, B>) {
    let event_loop = executor.event_loop();
    let after = Rc::new(Cell::new(0));
    let mut root = Box::pin(event_loop.wait(ZERO));
    executor.block_on(poll_fn(|context| {
        // The root's timer first, then one of a task that is due as well.
        let polled = root.as_mut().poll(context);
        if polled.is_pending() {
            let (event_loop, after) = (Rc::clone(event_loop), Rc::clone(&after));
            executor.call_nonblock(async move {
                event_loop.wait(ZERO).await;
                after.set(after.get() + 1);
            });
        }
        polled
    }));
    assert_eq!(after.get(), 0, "the root left before it");
    executor.block_on(yield_or_wait(executor));
    assert_eq!(after.get(), 1, "the rest of the pass went on");
}

/// Lets the loop make a turn, whatever wakers it has.
async fn yield_or_wait<D: Design, B: Boxes>(executor: &Futures<D, B>) {
    executor.event_loop().wait(ZERO).await;
}

fn dropped_wait<D: Design, B: Boxes>(executor: &Futures<D, B>) {
    let event_loop = executor.event_loop();
    let mut polled = false;
    let mut wait = Some(Box::pin(event_loop.wait(Duration::from_millis(5))));
    executor.block_on(poll_fn(|context| {
        if let Some(mut wait) = wait.take() {
            assert!(wait.as_mut().poll(context).is_pending());
        }
        polled = true;
        Poll::Ready(())
    }));
    advance(Duration::from_secs(1));
    let times = Cell::new(0);
    executor.block_on(async {
        let mut inner = pin!(event_loop.wait(ZERO));
        poll_fn(|context| {
            times.set(times.get() + 1);
            inner.as_mut().poll(context)
        })
        .await;
    });
    assert!(polled);
    assert_eq!(times.get(), 2, "the timer that was dropped woke nobody");
}

fn cancelled<D: Design, B: Boxes>(executor: &Futures<D, B>) {
    let alive = Rc::new(());
    let task = || {
        let alive = Rc::clone(&alive);
        async move {
            let _alive = alive;
            pending::<()>().await;
        }
    };
    let CallState::Waiting(waiting) = executor.call_nonblock(task()) else { panic!("it waits") };
    let scheduled = executor.call_detached(task());
    assert_eq!(Rc::strong_count(&alive), 3);
    assert!(executor.cancel(&waiting) && executor.cancel(&scheduled));
    assert!(!executor.cancel(&waiting) && !executor.cancel(&scheduled));
    assert_eq!((Rc::strong_count(&alive), executor.waiting()), (1, 0));
    assert_eq!(executor.block_on(waiting), Err(Cancelled));
    // A new tenant of the same slot is not concerned.
    let next = executor.call_detached(async { 1 });
    assert!(!executor.cancel(&scheduled));
    assert_eq!(executor.block_on(next), Ok(1));
    assert_eq!(executor.block_on(scheduled), Err(Cancelled));
}

fn from_within<D: Design, B: Boxes>(_: &Futures<D, B>) {
    let shared = Rc::new(Futures::<D, B>::new().unwrap());
    let inner = Rc::clone(&shared);
    let sum = shared.call_detached(async move {
        let CallState::Waiting(first) = inner.call_nonblock({
            let event_loop = Rc::clone(inner.event_loop());
            async move {
                event_loop.wait(ZERO).await;
                1
            }
        }) else {
            panic!("it waits")
        };
        let second = inner.call_detached(async { 2 });
        first.await.unwrap() + second.await.unwrap() + inner.call_nonblock_eagerly(async { 4 }).await.unwrap()
    });
    assert_eq!(shared.block_on(sum), Ok(7));
    let own = Rc::new(RefCell::new(None));
    let (mine, canceller) = (Rc::clone(&own), Rc::clone(&shared));
    let evaluation = shared.call_detached(async move {
        let evaluation = mine.take().expect("it was put there");
        assert!(canceller.cancel(&evaluation));
        pending::<()>().await;
    });
    own.replace(Some(evaluation));
    shared.block_on(yield_or_wait(&shared));
    assert_eq!(shared.waiting(), 0, "it ended after the poll in which it cancelled itself");
}

fn panicking<D: Design, B: Boxes>(executor: &Futures<D, B>) {
    let event_loop = executor.event_loop();
    let outcome = catch_unwind(AssertUnwindSafe(|| executor.call(async { panic!("at once") })));
    assert!(outcome.is_err());
    executor.call_and_forget(async { panic!("in the loop") });
    let survivor = executor.call_detached(async { 3 });
    let outcome = catch_unwind(AssertUnwindSafe(|| executor.block_on(event_loop.wait(ZERO))));
    assert!(outcome.is_err());
    assert_eq!(executor.waiting(), 1);
    assert_eq!(executor.block_on(survivor), Ok(3), "the rest of the pass goes on");
    assert_eq!(executor.call(async { 4 }), 4);
}

/// Panics when it is dropped.
struct Unruly;

impl Drop for Unruly {
    fn drop(&mut self) {
        panic!("in a destructor");
    }
}

/// By a panic, by a destructor that panics when it is cancelled or dropped with the executor, and each of several.
fn concluded_without_result<D: Design, B: Boxes>(executor: &Futures<D, B>) {
    let unruly = || {
        let unruly = Unruly;
        async move {
            let _unruly = unruly;
            pending::<()>().await;
        }
    };
    let panics = executor.call_detached(async { panic!("in a poll") });
    // Whoever awaits it is woken in the pass that goes on after the panic.
    let awaits = executor.call_detached(async move { panics.await == Err::<(), _>(Cancelled) });
    assert!(catch_unwind(AssertUnwindSafe(|| executor.block_on(executor.event_loop().wait(ZERO)))).is_err());
    assert_eq!(executor.block_on(awaits), Ok(true));
    // Whoever cancels does not learn what a destructor does.
    let cancelled = executor.call_detached(unruly());
    assert!(executor.cancel(&cancelled));
    assert_eq!(executor.waiting(), 0);
    assert_eq!(executor.block_on(cancelled), Err(Cancelled));
    // In a poll, and then in the destructor.
    for begins in 0..3 {
        let waits = || executor.block_on(executor.event_loop().wait(ZERO));
        let doubly = Doubly(Unruly);
        let evaluation = match begins {
            0 => Err(catch_unwind(AssertUnwindSafe(|| executor.call_nonblock(doubly))).map(|_| ())),
            1 => Err(catch_unwind(AssertUnwindSafe(|| executor.call_nonblock_eagerly(doubly))).map(|_| ())),
            _ => Ok(executor.call_detached(doubly)),
        };
        match evaluation {
            Err(outcome) => assert!(outcome.is_err()),
            Ok(evaluation) => {
                assert!(catch_unwind(AssertUnwindSafe(waits)).is_err());
                assert_eq!(executor.block_on(evaluation), Err(Cancelled));
            }
        }
        assert_eq!(executor.waiting(), 0);
    }
    // In the destructors of a future that is done and of its result.
    let both = catch_unwind(AssertUnwindSafe(|| drop(executor.call_nonblock(Done(Some(Unruly), Unruly)))));
    assert!(both.is_err() && executor.waiting() == 0);
    // A result that nobody takes, or that nobody will.
    for early in [true, false] {
        let mut evaluation = Some(executor.call_detached(async { Unruly }));
        drop(evaluation.take_if(|_| early));
        executor.block_on(executor.event_loop().wait(ZERO));
        assert_eq!(executor.waiting(), 0);
        drop(evaluation);
    }
    let gone = Futures::<D, B>::new().unwrap();
    let evaluations = [(); 3].map(|()| gone.call_detached(unruly()));
    drop(gone);
    for evaluation in evaluations {
        assert_eq!(executor.block_on(evaluation), Err(Cancelled));
    }
}

/// Panics in its poll, and when that drops it.
struct Doubly(#[allow(dead_code, reason = "dropped")] Unruly);

impl Future for Doubly {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        panic!("in a poll");
    }
}

/// Is ready at once; both it and its result panic when they are dropped.
struct Done(Option<Unruly>, #[allow(dead_code, reason = "dropped")] Unruly);

impl Future for Done {
    type Output = Unruly;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Unruly> {
        Poll::Ready(self.0.take().expect("it is polled once"))
    }
}

/// A waker that panics when it wakes, or when it is dropped: with both at once it would end the process itself.
struct Hostile {
    dropped: bool,
}

impl Wake for Hostile {
    fn wake(self: Arc<Self>) {
        panic!("in a wake");
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        assert!(!self.dropped, "in the destructor of a waker");
    }
}

/// Of an evaluation, of a timer and of a descriptor: woken, replaced or given up.
fn hostile_wakers<D: Design, B: Boxes>(executor: &Futures<D, B>) {
    let event_loop = executor.event_loop();
    let (reading, writing) = rustix::pipe::pipe().unwrap();
    rustix::io::write(&writing, b".").unwrap();
    let well = [(); 3].map(|()| {
        let event_loop = Rc::clone(event_loop);
        executor.call_detached(async move { event_loop.wait(ZERO).await })
    });
    for given_up in [true, false] {
        let mut evaluation = executor.call_detached(async { 7 });
        let mut nap = Box::pin(event_loop.wait(ZERO));
        let mut ready = Box::pin(event_loop.await_ready(&reading, Interest::Readable, Some(ZERO)));
        for replaced in [true, false] {
            let hostile = Waker::from(Arc::new(Hostile { dropped: replaced || given_up }));
            let mut context = Context::from_waker(&hostile);
            assert!(Pin::new(&mut evaluation).poll(&mut context).is_pending());
            assert!(nap.as_mut().poll(&mut context).is_pending());
            assert!(ready.as_mut().poll(&mut context).is_pending());
            // With the designs that keep no waker this is the last one.
            let _ours = catch_unwind(AssertUnwindSafe(|| drop(hostile)));
        }
        if given_up {
            drop((evaluation, nap, ready));
        } else {
            executor.block_on(event_loop.wait(ZERO));
            assert_eq!(executor.block_on(evaluation), Ok(7));
            executor.block_on(nap);
            assert!(executor.block_on(ready).unwrap());
        }
    }
    for evaluation in well {
        assert_eq!(executor.block_on(evaluation), Ok(()));
    }
}

/// The result of each call is the evaluation of the one before, which nobody takes.
fn long_chain<D: Design, B: Boxes>(executor: &Futures<D, B>) {
    #[allow(dead_code, reason = "dropped")]
    struct Link<D: Design>(Option<Evaluation<Self, D>>, Rc<()>);
    let alive = Rc::new(());
    for taken in [true, false] {
        let mut whole = None;
        for _ in 0..LONG {
            let (before, alive) = (whole.take(), Rc::clone(&alive));
            whole = Some(executor.call_nonblock_eagerly(async { Link(before, alive) }));
        }
        let whole = whole.unwrap();
        match taken {
            true => drop(executor.block_on(whole).unwrap()),
            false => drop(whole),
        }
        assert_eq!(Rc::strong_count(&alive), 1);
    }
}

/// Each call awaits the evaluation of the one before, the first for ever; then the executor goes.
fn long_chain_of_calls<D: Design, B: Boxes>(_: &Futures<D, B>) {
    let executor = Futures::<D, B>::new().unwrap();
    let mut last = executor.call_nonblock_eagerly(pending::<()>());
    for _ in 0..LONG {
        last = executor.call_nonblock_eagerly(async { last.await.unwrap() });
    }
    drop(executor);
    assert!(last.is_concluded());
}

fn used_again<D: Design, B: Boxes>(executor: &Futures<D, B>) {
    for round in 0..3 {
        for size in [1_usize, 100, 1] {
            let large = async move {
                let bytes = vec![round; size];
                let array = [round; 64];
                yield_now_once().await;
                bytes.len() + array.len()
            };
            let CallState::Waiting(first) = executor.call_nonblock(large) else { panic!("it waits") };
            let CallState::Waiting(second) = executor.call_nonblock(async move {
                yield_now_once().await;
                size
            }) else {
                panic!("it waits")
            };
            assert_eq!(executor.waiting(), 2);
            assert!(executor.cancel(&first) && executor.cancel(&second));
            assert_eq!(executor.call(async move { size }), size);
            executor.call(async {});
        }
    }
    assert_eq!(executor.waiting(), 0);
}

/// Pending for ever after the first poll, without a waker: what is tested cancels it.
async fn yield_now_once() {
    pending::<()>().await;
}

fn dropped_with_the_executor<D: Design, B: Boxes>(_: &Futures<D, B>) {
    let executor = Futures::<D, B>::new().unwrap();
    let alive = Rc::new(());
    for _ in 0..3 {
        let (held, event_loop) = (Rc::clone(&alive), Rc::clone(executor.event_loop()));
        executor.call_nonblock(async move {
            let _held = held;
            event_loop.wait(Duration::from_secs(1_000)).await;
        });
    }
    drop(executor);
    assert_eq!(Rc::strong_count(&alive), 1);
}

fn readiness<D: Design, B: Boxes>(executor: &Futures<D, B>) {
    let event_loop = executor.event_loop();
    let (reading, writing) = rustix::pipe::pipe().unwrap();
    let now = Some(ZERO);
    assert!(!executor.block_on(event_loop.await_ready(&reading, Interest::Readable, now)).unwrap());
    assert!(executor.block_on(event_loop.await_ready(&writing, Interest::Writable, None)).unwrap());
    let mut registered = event_loop.register(&reading).unwrap();
    let twice = executor.block_on(event_loop.await_ready(&reading, Interest::Readable, now));
    assert_eq!(twice.unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
    assert!(!executor.block_on(registered.ready(Interest::Readable, now)).unwrap());
    rustix::io::write(&writing, b".").unwrap();
    for _ in 0..2 {
        assert!(executor.block_on(registered.ready(Interest::Readable, None)).unwrap());
    }
    drop(registered);
    assert!(executor.block_on(event_loop.await_ready(&reading, Interest::Readable, None)).unwrap());
    let file = std::fs::File::open("Cargo.toml").unwrap();
    assert!(
        executor.block_on(event_loop.await_ready(&file, Interest::Readable, None)).is_err(),
        "plain files are always ready"
    );
}

#[test]
fn the_root_does_not_wait_within_itself() {
    let executor = Rc::new(Futures::<Parts>::new().unwrap());
    let inner = Rc::clone(&executor);
    executor.call_and_forget(async move { inner.block_on(yield_now()) });
    let outcome = catch_unwind(AssertUnwindSafe(|| executor.block_on(yield_now())));
    assert!(outcome.unwrap_err().downcast_ref::<&str>().unwrap().contains("tasks await"));
}

// -- fibers --------------------------------------------------------------------------------------------------

#[test]
fn a_fiber_waits_at_any_depth_and_its_stack_is_unwound_with_the_pool() {
    for pooled in [true, false] {
        let fibers = Fibers::<Parts<Direct>>::new(pooled).unwrap();
        let alive = Rc::new(());
        let held = Rc::clone(&alive);
        let sum: FiberProc<_> = Rc::new(move |inside, depth| {
            fn dig(inside: &Inside<'_, Parts<Direct>>, depth: u64) -> u64 {
                if depth == 0 {
                    inside.wait(ZERO);
                    inside.yield_now();
                    return 0;
                }
                depth + dig(inside, depth - 1)
            }
            let _held = Rc::clone(&held);
            dig(inside, depth)
        });
        assert_eq!(fibers.call((Rc::clone(&sum), 10)), 55);
        let detached = fibers.call_detached((Rc::clone(&sum), 3));
        assert_eq!(fibers.block_on(detached), Ok(6));
        let eager = fibers.call_nonblock_eagerly((Rc::clone(&sum), 4));
        assert!(!eager.is_concluded());
        assert_eq!(fibers.block_on(eager), Ok(10));
        let at_once: FiberProc<_> = Rc::new(|_, argument| argument);
        assert!(fibers.call_nonblock_eagerly((at_once, 1)).is_concluded());
        fibers.call_and_forget((Rc::clone(&sum), 2));
        let CallState::Waiting(waiting) = fibers.call_nonblock((Rc::clone(&sum), 1)) else {
            panic!("it waits")
        };
        assert_eq!(Rc::strong_count(&alive), 3, "on the stack of one fiber; the other has not begun");
        drop((waiting, fibers, sum));
        assert_eq!(Rc::strong_count(&alive), 1);
    }
}

#[test]
fn whatever_ends_a_fiber_concludes_its_evaluation() {
    for pooled in [true, false] {
        let [fibers, other] = [(); 2].map(|()| Fibers::<Parts<Direct>>::new(pooled).unwrap());
        let panics: FiberProc<_> = Rc::new(|inside, waits| {
            if waits == 1 {
                inside.yield_now();
            }
            panic!("in a fiber")
        });
        for waits in 0..2 {
            let evaluation = fibers.call_detached((Rc::clone(&panics), waits));
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                fibers.block_on(fibers.event_loop().wait(Duration::from_millis(20)))
            }));
            assert!(outcome.is_err());
            assert_eq!(other.block_on(evaluation), Err(Cancelled));
        }
        // Its slot is vacant again.
        let fine: FiberProc<_> = Rc::new(|inside, argument| {
            inside.yield_now();
            argument
        });
        assert_eq!(fibers.call((Rc::clone(&fine), 5)), 5);
        // What procedures hold that never began goes with the last of them, and may panic.
        let unruly = || {
            let unruly = Unruly;
            let holds: FiberProc<_> = Rc::new(move |_, argument| {
                let _held = &unruly;
                argument
            });
            fibers.call_detached((holds, 3))
        };
        let left = [
            unruly(),
            fibers.call_detached((Rc::clone(&fine), 1)),
            fibers.call_nonblock_eagerly((fine, 2)),
            unruly(),
        ];
        drop(fibers);
        for evaluation in left {
            assert_eq!(other.block_on(evaluation), Err(Cancelled));
        }
    }
}
