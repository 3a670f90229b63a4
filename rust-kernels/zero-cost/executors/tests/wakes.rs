//! When tasks are polled: once for any number of wakes, and never too seldom.

mod common;

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use common::{WakerSlot, on_each_executor, wait_once};

#[test]
fn two_wakes_before_a_poll_make_one_poll() {
    on_each_executor(|executor| {
        let (slot, polls) = (WakerSlot::default(), Rc::default());
        executor.start(wait_once(&slot, &polls));
        let mut parked = 0;
        executor.run_with(&mut || {
            parked += 1;
            let waker = slot.take().expect("the task waits");
            waker.wake_by_ref();
            waker.wake();
        });
        assert_eq!((polls.get(), parked), (2, 1));
    });
}

#[test]
fn a_wake_during_the_poll_makes_another_poll() {
    on_each_executor(|executor| {
        let polls = Rc::new(Cell::new(0));
        let counter = Rc::clone(&polls);
        executor.start(poll_fn(move |context| {
            counter.set(counter.get() + 1);
            context.waker().wake_by_ref();
            if counter.get() < 3 { Poll::Pending } else { Poll::Ready(()) }
        }));
        executor.run();
        assert_eq!(polls.get(), 3);
    });
}

#[test]
fn a_wake_during_the_last_poll_does_not_reach_the_next_task_in_the_slot() {
    on_each_executor(|executor| {
        executor.start(poll_fn(|context| {
            context.waker().wake_by_ref();
            Poll::Ready(())
        }));
        executor.run();
        let (slot, polls) = (WakerSlot::default(), Rc::default());
        executor.start(wait_once(&slot, &polls));
        executor.run_with(&mut || {
            assert_eq!(polls.get(), 1, "polled without a wake");
            slot.take().expect("the task waits").wake();
        });
    });
}

#[test]
fn tasks_run_in_the_order_of_their_wakes() {
    on_each_executor(|executor| {
        let order = Rc::new(std::cell::RefCell::new(Vec::new()));
        let slots: [WakerSlot; 3] = Default::default();
        for (number, slot) in slots.iter().enumerate() {
            let (order, wait) = (Rc::clone(&order), wait_once(slot, &Rc::default()));
            executor.start(async move {
                wait.await;
                order.borrow_mut().push(number);
            });
        }
        executor.run_with(&mut || {
            for number in [2, 0, 1] {
                slots[number].take().expect("the task waits").wake();
            }
        });
        assert_eq!(*order.borrow(), [2, 0, 1]);
    });
}
