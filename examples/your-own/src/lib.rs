//! What is to be measured. Yours stands here instead.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

/// Adds one, as code that might wait.
pub async fn next(number: u64) -> u64 {
    number + 1
}

/// The same behind a box, as a trait that is used through `dyn` makes it.
pub fn boxed(number: u64) -> Pin<Box<dyn Future<Output = u64>>> {
    Box::pin(next(number))
}

/// Polls a future that never waits.
///
/// # Panics
/// If it waits.
pub fn finish<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("it waits, and no wake would come"),
    }
}
