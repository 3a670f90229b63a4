//! What the loop promises, one promise a test.

use std::cell::Cell;
use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use call_styles_event_loop::{
    ArcWakers, Design, Direct, Epoll, EventLoop, Heap, IndexWakers, Parts, Polling, SortedVec, TimerQueue,
    Timers, Tree, yield_now,
};
use futures::future::{join, select};

const ZERO: Duration = Duration::ZERO;

/// A loop with no slot but the root's.
struct Alone<D: Design>(Rc<EventLoop<D>>);

impl<D: Design> Alone<D> {
    fn new() -> Self {
        Self(Rc::new(EventLoop::new().unwrap()))
    }

    fn block_on<F: Future>(&self, root: F) -> F::Output {
        self.0.block_on(root, |slot| panic!("nobody lives in slot {slot}"))
    }
}

/// Wakes from other threads end the sleep of the loop, however they meet it.
fn woken_from_elsewhere<D: Design>() {
    let alone = Alone::<D>::new();
    for round in 0..300_u64 {
        let (mut thread, mut polls) = (None, 0);
        let task = poll_fn(|context| {
            polls += 1;
            if polls == 1 {
                let waker = context.waker().clone();
                thread = Some(thread::spawn(move || {
                    thread::sleep(Duration::from_micros(round % 7 * 10));
                    waker.wake_by_ref();
                    waker.wake();
                }));
                return Poll::Pending;
            }
            Poll::Ready(())
        });
        alone.block_on(task);
        thread.unwrap().join().unwrap();
    }
}

#[test]
fn wakes_of_other_threads_end_the_sleep_of_the_loop() {
    woken_from_elsewhere::<Parts<ArcWakers, SortedVec, Polling>>();
    woken_from_elsewhere::<Parts<ArcWakers, SortedVec, Epoll>>();
    woken_from_elsewhere::<Parts<IndexWakers, SortedVec, Polling>>();
    woken_from_elsewhere::<Parts<IndexWakers, SortedVec, Epoll>>();
}

/// Wakers that outlive their loop wake nobody, here and on other threads.
fn late_wakes<D: Design>() {
    let alone = Alone::<D>::new();
    let waker = alone.block_on(poll_fn(|context| Poll::Ready(context.waker().clone())));
    drop(alone);
    let next = Alone::<D>::new();
    let clone: Waker = waker.clone();
    thread::spawn(move || clone.wake()).join().unwrap();
    waker.wake();
    let mut polls = 0;
    let mut wait = pin!(next.0.wait(Duration::from_millis(1)));
    next.block_on(poll_fn(|context| {
        polls += 1;
        wait.as_mut().poll(context)
    }));
    assert_eq!(polls, 2, "the timer woke it, and nobody else");
}

#[test]
fn a_waker_may_outlive_its_loop() {
    late_wakes::<Parts<ArcWakers>>();
    late_wakes::<Parts<IndexWakers>>();
}

/// Two waits in one task, each by a waker of the combinator's own or of the loop's.
fn combined<D: Design>() {
    let alone = Alone::<D>::new();
    alone.block_on(join(alone.0.wait(ZERO), alone.0.wait(ZERO)));
    let slow = pin!(alone.0.wait(Duration::from_secs(1_000)));
    alone.block_on(select(slow, pin!(alone.0.wait(ZERO))));
    alone.block_on(join(yield_now(), yield_now()));
}

#[test]
fn real_wakers_bear_combinators() {
    combined::<Parts<ArcWakers>>();
    combined::<Parts<IndexWakers, Heap, Epoll>>();
}

#[test]
fn without_wakers_a_wait_for_nothing_is_refused() {
    let alone = Alone::<Parts<Direct>>::new();
    let outcome = catch_unwind(AssertUnwindSafe(|| alone.block_on(pending::<()>())));
    let message = outcome.unwrap_err();
    assert!(message.downcast_ref::<&str>().unwrap().contains("nothing could ever happen"));
}

/// It leaves the number of its slot, which is that of another task there.
#[test]
fn without_wakers_a_wait_with_another_loop_is_refused() {
    let (alone, other) = (Alone::<Parts<Direct>>::new(), Alone::<Parts<Direct>>::new());
    let outcome = catch_unwind(AssertUnwindSafe(|| alone.block_on(other.0.wait(ZERO))));
    assert!(outcome.is_err());
}

#[test]
fn the_root_is_dropped_when_the_loop_runs_no_longer() {
    /// Waits on a loop when it is dropped.
    struct Waits<'a, D: Design>(&'a Alone<D>, &'a Cell<u32>);
    impl<D: Design> Drop for Waits<'_, D> {
        fn drop(&mut self) {
            self.0.block_on(self.0.0.wait(ZERO));
            self.1.set(self.1.get() + 1);
        }
    }
    fn waits<D: Design>() {
        let (alone, waited) = (Alone::<D>::new(), Cell::new(0));
        for panics in [false, true] {
            let waits = Waits(&alone, &waited);
            let root = poll_fn(move |_| {
                let _waits = &waits;
                assert!(!panics, "on purpose");
                Poll::Ready(())
            });
            let outcome = catch_unwind(AssertUnwindSafe(|| alone.block_on(root)));
            assert_eq!(outcome.is_err(), panics);
        }
        assert_eq!(waited.get(), 2);
    }
    waits::<Parts>();
    waits::<Parts<Direct, Tree, Epoll>>();
}

/// A time beyond what some systems can wait for: another thread ends the wait.
fn endless<D: Design>() {
    for time in [Duration::from_secs(100 * 24 * 3600), Duration::MAX] {
        let alone = Alone::<D>::new();
        let mut wait = pin!(alone.0.wait(time));
        let mut thread = None;
        alone.block_on(poll_fn(|context| {
            assert!(wait.as_mut().poll(context).is_pending());
            if thread.is_some() {
                return Poll::Ready(());
            }
            let waker = context.waker().clone();
            thread = Some(thread::spawn(move || {
                thread::sleep(Duration::from_millis(5));
                waker.wake();
            }));
            Poll::Pending
        }));
        thread.unwrap().join().unwrap();
    }
}

#[test]
fn a_time_without_end_can_be_waited_for() {
    endless::<Parts<ArcWakers, SortedVec, Polling>>();
    endless::<Parts<IndexWakers, Tree, Epoll>>();
}

#[test]
fn the_loop_sleeps_until_a_timer_is_due() {
    fn sleeps<D: Design>() {
        let alone = Alone::<D>::new();
        let (before, time) = (Instant::now(), Duration::from_millis(20));
        alone.block_on(alone.0.wait(time));
        assert!(before.elapsed() >= time, "no timer fires early");
    }
    sleeps::<Parts>();
    sleeps::<Parts<Direct, Heap, Epoll>>();
}

/// Random insertions, cancellations and expiries against a list.
fn random_timers<T: Timers>() {
    let mut dice = fastrand::Rng::with_seed(3);
    let mut queue = T::Queue::<u64>::default();
    let mut model: Vec<(Duration, u64)> = vec![];
    let mut tickets = vec![];
    let mut now = Duration::ZERO;
    for number in 0..5_000 {
        match dice.usize(0..4) {
            0 | 1 => {
                let due = now + Duration::from_nanos(dice.u64(0..50));
                tickets.push(queue.insert(due, number, number));
                model.push((due, number));
            }
            2 if !tickets.is_empty() => {
                let ticket = tickets.swap_remove(dice.usize(0..tickets.len()));
                let cancelled = queue.replace(ticket, None);
                let known = model.iter().position(|(_, number)| Some(*number) == cancelled);
                assert_eq!(cancelled.is_some(), known.is_some());
                known.map(|place| model.remove(place));
                assert_eq!(queue.replace(ticket, None), None, "nobody is cancelled twice");
            }
            _ => {
                now += Duration::from_nanos(dice.u64(0..40));
                model.sort();
                let due = model.iter().take_while(|(due, _)| *due <= now).count();
                let expected: Vec<u64> = model.drain(..due).map(|(_, number)| number).collect();
                let found: Vec<u64> = std::iter::from_fn(|| queue.pop_due(now)).collect();
                assert_eq!(found, expected);
            }
        }
        assert_eq!(queue.earliest(), model.iter().map(|(due, _)| *due).min());
    }
}

#[test]
fn all_timer_queues_fire_like_a_sorted_list() {
    random_timers::<SortedVec>();
    random_timers::<Heap>();
    random_timers::<Tree>();
}
