//! The checked waker, on a thread where it must not be.

#[allow(dead_code, reason = "only a part of it is needed here")]
mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::task::Waker;
use std::thread;

use common::{Silent, WakerSlot, wait_once};
use zero_cost_executors::{BoxRcExecutor, CheckedRcWaker};

/// Hands the waker of a waiting task to `misuse` on another thread, which must panic.
fn misuse_elsewhere(misuse: fn(Waker) -> Option<Waker>) {
    let executor = BoxRcExecutor::<CheckedRcWaker, Silent>::checked();
    let (slot, polls) = (WakerSlot::default(), Rc::default());
    executor.spawn(wait_once(&slot, &polls)).unwrap();
    let run = AssertUnwindSafe(|| {
        executor.run(|| {
            let waker = slot.take().expect("the task waits");
            let message = thread::spawn(move || misuse(waker)).join().expect_err("the waker must panic");
            let message = message.downcast_ref::<String>().expect("a message");
            assert!(message.contains("must stay on the thread that made it"), "{message}");
            panic!("seen");
        })
    });
    let message = catch_unwind(run).unwrap_err();
    assert_eq!(message.downcast_ref(), Some(&"seen"));
    assert_eq!(polls.get(), 1, "the wake must not come through");
    // The misused waker was leaked rather than freed, which the executor notices when it drops the task.
    catch_unwind(AssertUnwindSafe(|| drop(executor))).unwrap_err();
}

#[test]
fn waking_by_value_panics_elsewhere() {
    misuse_elsewhere(|waker| {
        waker.wake();
        None
    });
}

#[test]
fn dropping_panics_elsewhere() {
    misuse_elsewhere(|waker| {
        drop(waker);
        None
    });
}

#[test]
fn waking_by_reference_panics_elsewhere() {
    misuse_elsewhere(|waker| {
        let waker = std::mem::ManuallyDrop::new(waker);
        waker.wake_by_ref();
        None
    });
}

#[test]
fn cloning_panics_elsewhere() {
    misuse_elsewhere(|waker| {
        let waker = std::mem::ManuallyDrop::new(waker);
        Some((*waker).clone())
    });
}
