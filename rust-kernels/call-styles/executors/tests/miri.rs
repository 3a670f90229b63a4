//! A set for Miri (`make test-miri`), which interprets and so needs few and small tests: futures whose memory is used
//! again, cancelled from outside, from within and by destructors. Fibers change stacks, which it cannot follow.

#[path = "../../event-loop/tests/common/parked.rs"]
mod parked;

use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use call_styles_event_loop::{ArcWakers, Parts, SortedVec, yield_now};
use call_styles_executors::{CallStyles, Cancelled, Evaluation, Executor, Futures};
use parked::Parked;

type Published = Futures<Parts<ArcWakers, SortedVec, Parked>>;

#[test]
fn memory_is_used_again_by_futures_of_the_same_layout() {
    let executor = Published::new().unwrap();
    for round in 0..3_u8 {
        let bytes = [round; 40];
        assert_eq!(executor.call(async move { bytes }), bytes);
        assert_eq!(
            executor.call(async move {
                yield_now().await;
                bytes
            }),
            bytes
        );
        executor.call(async {});
    }
}

#[test]
fn calls_are_cancelled_where_they_wait_and_by_themselves() {
    let executor = Rc::new(Published::new().unwrap());
    let waits = executor.call_detached(pending::<()>());
    assert!(executor.cancel(&waits) && !executor.cancel(&waits));
    let (inner, place) = (Rc::clone(&executor), Rc::new(std::cell::RefCell::new(None)));
    let of = Rc::clone(&place);
    *place.borrow_mut() = Some(executor.call_detached(async move {
        yield_now().await;
        let own: Option<Evaluation<(), _>> = of.borrow_mut().take();
        assert!(inner.cancel(&own.unwrap()));
    }));
    executor.block_on(async {
        yield_now().await;
        yield_now().await;
        yield_now().await
    });
    assert_eq!(executor.waiting(), 0);
}

/// Cancels another call when it is dropped.
struct Cancels(Rc<Published>, Evaluation<(), Parts<ArcWakers, SortedVec, Parked>>);

impl Drop for Cancels {
    fn drop(&mut self) {
        self.0.cancel(&self.1);
    }
}

#[test]
fn destructors_cancel_the_next_call() {
    let executor = Rc::new(Published::new().unwrap());
    let mut next = executor.call_detached(pending::<()>());
    for _ in 0..3 {
        let cancels = Cancels(Rc::clone(&executor), next);
        next = executor.call_detached(async move {
            let _cancels = cancels;
            pending().await
        });
    }
    executor.cancel(&next);
    assert_eq!(executor.waiting(), 0);
}

#[test]
fn a_panic_ends_its_call() {
    let executor = Published::new().unwrap();
    let panics = executor.call_detached(async { panic!("on purpose") });
    assert!(catch_unwind(AssertUnwindSafe(|| executor.block_on(yield_now()))).is_err());
    assert_eq!(executor.block_on(panics), Err::<(), _>(Cancelled));
}

#[test]
fn results_that_hold_evaluations_are_dropped_one_after_the_other() {
    struct Link(
        #[allow(dead_code, reason = "dropped")] Option<Evaluation<Link, Parts<ArcWakers, SortedVec, Parked>>>,
    );
    let executor = Published::new().unwrap();
    let mut last = None;
    for _ in 0..3 {
        last = Some(executor.call_nonblock_eagerly(async move { Link(last) }));
    }
    drop(last);
}
