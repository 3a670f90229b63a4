//! What several tests use.
#![allow(dead_code, reason = "each of them uses some of it")]

use std::future::{Future, poll_fn};
use std::sync::Mutex;
use std::task::{Poll, Waker};

/// Receives what another thread or task has put there, and leaves its waker.
#[derive(Default)]
pub struct Place {
    state: Mutex<(usize, Option<Waker>)>,
}

impl Place {
    pub fn put(&self) {
        let waker = {
            let mut state = self.state.lock().unwrap();
            state.0 += 1;
            state.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// Waits until something was put there, and takes one.
    pub async fn take(&self) {
        poll_fn(|context| {
            let mut state = self.state.lock().unwrap();
            if state.0 > 0 {
                state.0 -= 1;
                return Poll::Ready(());
            }
            state.1 = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// Lets others run, once.
pub fn yield_now() -> impl Future<Output = ()> {
    let mut yielded = false;
    poll_fn(move |context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
}
