//! A set for Miri (`make test-miri`), which interprets and so needs few and small tests: wakers that are two numbers, and
//! those of other threads, timers, descriptors.

#[path = "common/parked.rs"]
mod parked;

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use call_styles_event_loop::{
    ArcWakers, Design, Direct, EventLoop, Heap, IndexWakers, Parts, SortedVec, Tree, wait_for_descriptor,
    yield_now,
};

use parked::Parked;

fn run<D: Design>(root: impl AsyncFnOnce(&Rc<EventLoop<D>>)) {
    let event_loop = Rc::new(EventLoop::<D>::new().unwrap());
    event_loop.block_on(root(&event_loop), |slot| panic!("nobody lives in slot {slot}"));
}

/// A waker that another thread uses while the loop waits, and one that outlives the loop.
fn woken<D: Design>() {
    let (mut thread, mut kept) = (None, None::<Waker>);
    run::<D>(async |_| {
        poll_fn(|context| {
            if thread.is_some() {
                return Poll::Ready(());
            }
            kept = Some(context.waker().clone());
            let waker = context.waker().clone();
            thread = Some(thread::spawn(move || waker.wake()));
            Poll::Pending
        })
        .await;
        yield_now().await;
    });
    thread.unwrap().join().unwrap();
    let kept = kept.unwrap();
    kept.wake_by_ref();
    thread::spawn(move || kept.wake()).join().unwrap();
}

#[test]
fn wakers_behind_an_arc() {
    woken::<Parts<ArcWakers, SortedVec, Parked>>();
}

#[test]
fn wakers_that_are_two_numbers() {
    woken::<Parts<IndexWakers, Heap, Parked>>();
}

/// Timers that fire, and one that is given up.
fn timers<D: Design>() {
    run::<D>(async |event_loop| {
        let mut given_up = Box::pin(event_loop.wait(Duration::from_secs(1_000)));
        poll_fn(|context| {
            assert!(given_up.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
        event_loop.wait(Duration::ZERO).await;
        drop(given_up);
        event_loop.wait(Duration::from_micros(10)).await;
    });
}

#[test]
fn timers_in_each_queue() {
    timers::<Parts<ArcWakers, SortedVec, Parked>>();
    timers::<Parts<IndexWakers, Heap, Parked>>();
    timers::<Parts<Direct, Tree, Parked>>();
}

#[test]
fn a_descriptor_is_registered_reported_and_forgotten() {
    run::<Parts<ArcWakers, SortedVec, Parked>>(async |event_loop| wait_for_descriptor(event_loop).await);
}

#[test]
fn loops_within_loops_have_their_own_wakers() {
    run::<Parts<IndexWakers, Heap, Parked>>(async |_| {
        run::<Parts<IndexWakers, Heap, Parked>>(async |_| yield_now().await);
        yield_now().await;
    });
}
