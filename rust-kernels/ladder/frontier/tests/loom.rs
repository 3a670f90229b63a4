//! The frontier's executor, with its real wakers, in every order in which threads can meet.
//!
//! `RUSTFLAGS="--cfg under_loom" cargo test -p frontier --test loom --release`; without `--cfg under_loom` there is
//! nothing here. A lost wake shows as a deadlock, because the executor sleeps for ever; a missing order shows as a race
//! for the cells.
#![cfg(under_loom)]

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Poll, Waker};

use frontier::{Executor, Reactor};
use sync::loom;
use sync::loom::cell::UnsafeCell;
use sync::loom::sync::Arc;
use sync::loom::thread::{self, JoinHandle};
use zero_cost_loop::Timed;

type Task<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// A number that one thread writes before it wakes another, which reads it afterwards. Loom fails if nothing orders the
/// two.
struct Message(UnsafeCell<u32>);

// SAFETY: that is what the tests are about, and loom checks it in each execution.
unsafe impl Sync for Message {}

impl Message {
    fn new() -> Arc<Self> {
        Arc::new(Self(UnsafeCell::new(0)))
    }

    fn write(&self) {
        // SAFETY: loom checks that nobody else is there.
        self.0.with_mut(|number| unsafe { *number = 1 });
    }

    fn read(&self) -> u32 {
        // SAFETY: as above.
        self.0.with(|number| unsafe { *number })
    }
}

/// Waits until the waker that it hands to `start` is used. Wakes of others must not poll it.
fn wait_for(start: impl FnOnce(Waker)) -> impl Future<Output = ()> {
    let mut start = Some(start);
    poll_fn(move |context| match start.take() {
        Some(start) => {
            start(context.waker().clone());
            Poll::Pending
        }
        None => Poll::Ready(()),
    })
}

/// A thread that leaves a message and wakes.
fn wake_elsewhere(message: &Arc<Message>) -> impl FnOnce(Waker) + use<> {
    let message = Arc::clone(message);
    |waker| {
        thread::spawn(move || {
            message.write();
            waker.wake();
        });
    }
}

/// Waits for such a thread, and reads its message at once: whatever comes later could have ordered the two as well.
fn read_when_woken(message: &Arc<Message>) -> impl Future<Output = ()> + use<> {
    let message = Arc::clone(message);
    async move {
        wait_for(wake_elsewhere(&message)).await;
        assert_eq!(message.read(), 1);
    }
}

/// Calls `test` with an executor that has no objects: it must sleep when nobody is awake.
fn on_frontier(test: impl for<'r> FnOnce(&Executor<'r, (), Task<'r>, Timed<()>>)) {
    with_room_for(1, test);
}

/// The same for so many tasks; the root's flag is behind theirs.
fn with_room_for(tasks: usize, test: impl for<'r> FnOnce(&Executor<'r, (), Task<'r>, Timed<()>>)) {
    let reactor = Reactor::<_, Timed<()>>::new((), 0).expect("room for nothing");
    test(&Executor::new(&reactor, tasks));
}

/// Runs `test` on a thread of its own, with a stack that has room for an executor.
fn on_thread(test: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    thread::Builder::new().stack_size(1 << 18).spawn(test).expect("a thread")
}

/// Runs `test` in every order.
fn in_every_order(test: fn()) {
    loom::model(move || on_thread(test).join().expect("no panic"));
}

#[test]
fn a_wake_from_another_thread_is_not_lost_and_shows_what_came_before_it() {
    in_every_order(|| {
        let message = Message::new();
        on_frontier(|executor| {
            executor.run(read_when_woken(&message));
        });
    });
}

#[test]
fn wakes_of_two_threads_are_both_served() {
    in_every_order(|| {
        let messages = [Message::new(), Message::new()];
        on_frontier(|executor| {
            let [first, second] = &messages;
            let first = read_when_woken(first);
            executor.spawn(|| Box::pin(first)).expect("room for a task");
            executor.run(read_when_woken(second));
        });
    });
}

/// The root's flag is in a block of its own.
#[test]
fn wakes_of_two_threads_to_two_blocks_are_both_served() {
    in_every_order(|| {
        let messages = [Message::new(), Message::new()];
        with_room_for(512, |executor| {
            let [first, second] = &messages;
            let first = read_when_woken(first);
            executor.spawn(|| Box::pin(first)).expect("room for a task");
            executor.run(read_when_woken(second));
        });
    });
}

#[test]
fn two_wakes_of_one_thread_are_both_served() {
    in_every_order(|| {
        let message = Message::new();
        on_frontier(|executor| {
            // The new task is polled first and leaves its waker; the root sends both.
            let place = Rc::new(RefCell::new(None));
            let left = Rc::clone(&place);
            let task = wait_for(move |waker| *left.borrow_mut() = Some(waker));
            executor.spawn(|| Box::pin(task)).expect("room for a task");
            let written = Arc::clone(&message);
            let wait = wait_for(move |mine| {
                let other = place.take().expect("its waker");
                thread::spawn(move || {
                    written.write();
                    other.wake();
                    mine.wake();
                });
            });
            executor.run(async {
                wait.await;
                assert_eq!(message.read(), 1);
            });
        });
    });
}

/// The waker outlives its executor, whose block goes through the pool to another thread's executor meanwhile.
#[test]
fn a_late_wake_disturbs_nobody() {
    in_every_order(|| {
        let mut stored = None;
        on_frontier(|executor| {
            executor.run(poll_fn(|context| {
                stored = Some(context.waker().clone());
                Poll::Ready(())
            }));
        });
        let late = stored.expect("the root was polled");
        let next = on_thread(|| on_frontier(|executor| executor.run(wait_for(Waker::wake))));
        late.wake();
        next.join().expect("no panic");
    });
}

/// A wake of a task in the second block meets the end of its executor, whose first block goes to another thread's
/// executor.
#[test]
fn a_late_wake_of_another_block_disturbs_nobody() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2); // the blocks have many flags, and three threads meet
    model.check(|| {
        let mut others = Vec::new();
        with_room_for(512, |executor| {
            executor.run(poll_fn(|context| {
                let late = context.waker().clone();
                others.push(thread::spawn(move || late.wake()));
                Poll::Ready(())
            }));
            others.push(on_thread(|| on_frontier(|executor| executor.run(wait_for(Waker::wake)))));
        });
        for other in others {
            other.join().expect("no panic");
        }
    });
}
