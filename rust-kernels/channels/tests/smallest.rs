//! The smallest channel: messages keep their order, cancelling loses nothing, and both ends tell when the other is gone.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use channels::{Channel, Small};

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn messages_keep_their_order() {
    let (mut to, mut from) = Small::open(2);
    let receiver = async {
        let mut received = vec![];
        while let Some(message) = Small::receive(&mut from).await {
            received.push(message);
        }
        received
    };
    let sender = async move {
        for number in 0..100 {
            assert!(Small::send(&mut to, number).await);
        }
    };
    let (received, ()) = futures::executor::block_on(async { futures::join!(receiver, sender) });
    assert_eq!(received, Vec::from_iter(0..100));
}

#[test]
fn senders_that_wait_are_served_in_their_order_and_a_cancelled_one_is_passed_over() {
    let (mut to, mut from) = Small::open(1);
    assert!(poll_once(pin!(Small::send(&mut to, 0))).is_ready());
    let mut others = [to.clone(), to.clone(), to.clone()];
    let [one, two, three] = &mut others;
    let mut one = Box::pin(Small::send(one, 1));
    let (mut two, mut three) = (pin!(Small::send(two, 2)), pin!(Small::send(three, 3)));
    for waits in [one.as_mut(), two.as_mut(), three.as_mut()] {
        assert!(poll_once(waits).is_pending());
    }
    assert_eq!(poll_once(pin!(Small::receive(&mut from))), Poll::Ready(Some(0)));
    // It was woken, and passes that on.
    drop(one);
    assert_eq!(poll_once(two.as_mut()), Poll::Ready(true));
    assert!(poll_once(three.as_mut()).is_pending());
    assert_eq!(poll_once(pin!(Small::receive(&mut from))), Poll::Ready(Some(2)));
    assert_eq!(poll_once(three.as_mut()), Poll::Ready(true));
    assert_eq!(poll_once(pin!(Small::receive(&mut from))), Poll::Ready(Some(3)));
}

#[test]
fn a_sender_that_lost_its_place_to_another_keeps_its_turn() {
    let (mut to, mut from) = Small::open(1);
    assert!(poll_once(pin!(Small::send(&mut to, 0))).is_ready());
    let (mut one, mut other) = (to.clone(), to.clone());
    let (mut first, mut second) = (pin!(Small::send(&mut one, 1)), pin!(Small::send(&mut other, 2)));
    assert!(poll_once(first.as_mut()).is_pending() && poll_once(second.as_mut()).is_pending());
    assert_eq!(poll_once(pin!(Small::receive(&mut from))), Poll::Ready(Some(0)));
    assert!(poll_once(pin!(Small::send(&mut to, 9))).is_ready(), "there is room");
    assert!(poll_once(first.as_mut()).is_pending(), "somebody was faster");
    assert_eq!(poll_once(pin!(Small::receive(&mut from))), Poll::Ready(Some(9)));
    assert_eq!(poll_once(first.as_mut()), Poll::Ready(true));
    assert!(poll_once(second.as_mut()).is_pending());
}

#[test]
fn each_end_tells_when_the_other_is_gone() {
    let (mut to, mut from) = Small::open(1);
    assert!(poll_once(pin!(Small::send(&mut to, 1))).is_ready());
    let mut other = to.clone();
    let mut waits = Box::pin(Small::send(&mut other, 2));
    assert!(poll_once(waits.as_mut()).is_pending());
    drop(waits);
    drop((to, other));
    assert_eq!(poll_once(pin!(Small::receive(&mut from))), Poll::Ready(Some(1)));
    assert_eq!(poll_once(pin!(Small::receive(&mut from))), Poll::Ready(None));
    let (mut to, from) = Small::open(1);
    assert!(poll_once(pin!(Small::send(&mut to, 1))).is_ready());
    let mut second = to.clone();
    let mut waits = pin!(Small::send(&mut second, 2));
    assert!(poll_once(waits.as_mut()).is_pending());
    drop(from);
    assert_eq!(poll_once(waits), Poll::Ready(false));
    assert_eq!(poll_once(pin!(Small::send(&mut to, 3))), Poll::Ready(false));
}

#[test]
fn threads_share_it() {
    let (mut to, mut from) = Small::open(1);
    let sender = std::thread::spawn(move || {
        (0..100).for_each(|number| assert!(futures::executor::block_on(Small::send(&mut to, number))));
    });
    let sum: i32 = std::iter::from_fn(|| futures::executor::block_on(Small::receive(&mut from))).sum();
    sender.join().expect("all is sent");
    assert_eq!(sum, 4950);
}
