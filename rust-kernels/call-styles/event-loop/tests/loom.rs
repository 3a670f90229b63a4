//! The inbox of the `Arc` wakers in every order in which threads can meet.
//!
//! `RUSTFLAGS="--cfg under_loom" cargo test -p call-styles-event-loop --test loom --release`; without that there is
//! nothing here. A lost wake shows as a deadlock, because the loop sleeps for ever.
#![cfg(under_loom)]

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Wake;

use call_styles_event_loop::{Inbox, SlotWaker};
use sync::loom;
use sync::loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use sync::loom::thread;

/// The loop as `EventLoop` runs it: takes what has arrived, polls it, and sleeps when that was nothing. Ends when a
/// poll says so; returns how often it polled.
fn run(inbox: &Inbox, slot: &SlotWaker, mut poll: impl FnMut() -> bool) -> usize {
    for polls in 1.. {
        let mut woken = VecDeque::new();
        loop {
            inbox.take(&mut woken);
            if !woken.is_empty() {
                break;
            }
            if inbox.sleep() {
                thread::park();
                inbox.awake();
            }
        }
        assert_eq!(woken, [1], "a slot is queued once, however often it was woken");
        slot.begin();
        if poll() {
            return polls;
        }
    }
    unreachable!("the range has no end")
}

/// An inbox whose notifications end the sleep of this thread, and a slot whose wakes arrive there.
fn here() -> (Arc<Inbox>, Arc<SlotWaker>) {
    let sleeper = thread::current();
    let inbox = Arc::new(Inbox::new(move || sleeper.unpark()));
    let slot = Arc::new(SlotWaker::new(1, &inbox));
    (inbox, slot)
}

#[test]
fn no_wake_of_two_threads_is_lost() {
    loom::model(|| {
        let (inbox, slot) = here();
        let done = [0, 1].map(|_| Arc::new(AtomicBool::new(false)));
        let threads = done.each_ref().map(|done| {
            let (done, slot) = (Arc::clone(done), Arc::clone(&slot));
            thread::spawn(move || {
                // Relaxed: it is the wake that has to order this before the poll.
                done.store(true, Ordering::Relaxed);
                slot.wake_by_ref();
            })
        });
        let polls = run(&inbox, &slot, || done.iter().all(|done| done.load(Ordering::Relaxed)));
        assert!(polls <= 2, "no more polls than wakes");
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_wake_that_comes_during_a_poll_leads_to_another() {
    loom::model(|| {
        let (inbox, slot) = here();
        let number = Arc::new(AtomicUsize::new(0));
        let thread = {
            let (number, slot) = (Arc::clone(&number), Arc::clone(&slot));
            thread::spawn(move || {
                for value in 1..=2 {
                    number.store(value, Ordering::Relaxed);
                    slot.wake_by_ref();
                }
            })
        };
        run(&inbox, &slot, || number.load(Ordering::Relaxed) == 2);
        thread.join().unwrap();
    });
}
