//! References of a task are counted, and the count has an end. On 32 bits it can be seen:
//! `cargo test -p runtimes-executor --test overflow --release --target i686-unknown-linux-musl`.
#![cfg(target_pointer_width = "32")]

use std::future::poll_fn;
use std::mem::forget;
use std::sync::mpsc::channel;
use std::task::Poll;
use std::time::Duration;

use runtimes_executor::{Runtime, Settings};

#[test]
fn wakers_that_are_forgotten_end_the_process_and_no_task() {
    let outcome = harness::isolated(Duration::from_secs(60), || {
        let runtime = Runtime::new(Settings::new(1));
        let (sender, receiver) = channel();
        let handle = runtime.spawn(poll_fn(move |context| {
            sender.send(context.waker().clone()).unwrap();
            Poll::<()>::Pending
        }));
        let waker = receiver.recv().unwrap();
        for _ in 0..=u32::MAX / 64 {
            forget(waker.clone());
        }
        forget((handle, runtime));
    });
    assert!(outcome.as_ref().is_err_and(|ended| ended.contains("signal 6")), "{outcome:?}");
}
