//! Sources of wakers that panic. They are safe code, so whatever they do, a future is dropped exactly once.

use std::cell::Cell;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use zero_cost_executors::{Scheduler, SpawnError, TaskTable, WakerSource};
use zero_cost_loop::{TASKS, Timed};

/// Lends the waker that does nothing, but panics the first time that it is asked the question `refuses`.
struct Unruly {
    waker: Waker,
    refuses: Question,
    refused: Cell<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Question {
    Waker,
    IsUnshared,
}

impl Unruly {
    fn asked(&self, question: Question) {
        if question == self.refuses && !self.refused.replace(true) {
            panic!("refused: {question:?}");
        }
    }
}

impl WakerSource for Unruly {
    fn waker(&self, _: usize) -> impl Deref<Target = Waker> + '_ {
        self.asked(Question::Waker);
        &self.waker
    }

    fn is_unshared(&self, _: usize) -> bool {
        self.asked(Question::IsUnshared);
        true
    }
}

/// Finishes at once. Counts how often it is dropped, and may panic then.
struct Finishes {
    drops: Rc<Cell<u32>>,
    panics: bool,
}

impl Future for Finishes {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

impl Drop for Finishes {
    fn drop(&mut self) {
        self.drops.set(self.drops.get() + 1);
        assert!(!self.panics, "dropping panics");
    }
}

type Executor = Scheduler<Rc<TaskTable>, Finishes, Unruly, Timed<()>>;

/// An executor with one task, whose wakers refuse a question; and how often that task's future was dropped.
fn executor(refuses: Question, panics: bool) -> (Executor, Rc<Cell<u32>>) {
    let wakers = Unruly { waker: Waker::noop().clone(), refuses, refused: Cell::default() };
    // SAFETY: the table is new, and there is no other reference.
    let executor = unsafe { Executor::new(Rc::default(), wakers) };
    let drops = Rc::<Cell<_>>::default();
    executor.spawn(|| Finishes { drops: Rc::clone(&drops), panics }).unwrap();
    (executor, drops)
}

/// Runs, which must panic.
fn run_into_panic(executor: &Executor) {
    catch_unwind(AssertUnwindSafe(|| executor.run(|| panic!("a task waits")))).expect_err("run must panic");
}

#[test]
fn a_future_is_dropped_once_when_the_clones_of_its_waker_are_unknown() {
    let (executor, drops) = executor(Question::IsUnshared, false);
    run_into_panic(&executor);
    assert_eq!(drops.get(), 1);
    drop(executor);
    assert_eq!(drops.get(), 1, "dropped again with the executor");
}

#[test]
fn after_such_a_panic_the_slot_is_given_up_and_the_others_work() {
    let (executor, drops) = executor(Question::IsUnshared, false);
    run_into_panic(&executor);
    let spawn = || executor.spawn(|| Finishes { drops: Rc::clone(&drops), panics: false });
    for _ in 1..TASKS {
        spawn().unwrap();
    }
    assert_eq!(spawn(), Err(SpawnError::Full));
    executor.run(|| panic!("a task waits"));
    assert_eq!(drops.get() as usize, TASKS);
}

#[test]
fn a_future_that_was_never_polled_for_want_of_a_waker_is_dropped_with_the_executor() {
    let (executor, drops) = executor(Question::Waker, false);
    run_into_panic(&executor);
    assert_eq!(drops.get(), 0);
    drop(executor);
    assert_eq!(drops.get(), 1);
}

#[test]
fn a_future_whose_drop_panics_is_not_dropped_again() {
    let (executor, drops) = executor(Question::Waker, true);
    run_into_panic(&executor);
    executor.spawn(|| Finishes { drops: Rc::default(), panics: false }).unwrap();
    catch_unwind(AssertUnwindSafe(|| drop(executor))).expect_err("dropping panics");
    assert_eq!(drops.get(), 1);
}
