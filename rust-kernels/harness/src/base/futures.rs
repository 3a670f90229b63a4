//! How large a future is, and how often it is copied.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

/// Bytes of the future that an expression makes, without making it: the expression is compiled and not evaluated, so an
/// argument that is not at hand may be `todo!()`. What the expression would move is moved.
///
/// ```
/// # use harness::future_size;
/// async fn fill(length: usize) -> u8 {
///     let buffer = [1_u8; 4096];
///     std::future::ready(()).await;
///     buffer[length]
/// }
/// assert!(future_size!(fill(todo!())) > 4096);
/// assert_eq!(future_size!(Box::pin(fill(7))), size_of::<usize>());
/// ```
#[macro_export]
macro_rules! future_size {
    ($future:expr) => {{
        fn bytes<F: ::core::future::Future>(_make: impl FnOnce() -> F) -> usize {
            ::core::mem::size_of::<F>()
        }
        bytes(
            #[allow(unreachable_code, clippy::diverging_sub_expression)]
            || $future,
        )
    }};
}

/// Hands a future to `run`, and says afterwards where it has been.
///
/// A copy leaves no trace, but its outcome does: a future that lies elsewhere than before was copied in between. So the
/// number is the least that it can be. A spawn that hands a future from function to function may copy it more often
/// than its address tells; count instructions to see that (`cargo bench --bench counts`).
///
/// ```
/// # use harness::copies_of;
/// # use std::task::{Context, Waker};
/// #[inline(never)]
/// fn boxed<F: Future>(future: F) {
///     let _ = Box::pin(future).as_mut().poll(&mut Context::from_waker(Waker::noop()));
/// }
/// let (_, copies) = copies_of(async { [0_u8; 100] }, boxed);
/// assert_eq!((copies.before_poll, copies.after_poll), (1, 0));
/// assert!(copies.to_string().ends_with("bytes, copied at least 1 time before its first poll"));
/// ```
pub fn copies_of<F: Future, T>(future: F, run: impl FnOnce(Followed<F>) -> T) -> (T, Copies) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let followed = Followed { seen: Arc::clone(&seen), future };
    followed.note(false);
    let output = run(followed);
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    let moved =
        |polled: bool| seen.windows(2).filter(|pair| pair[0].0 != pair[1].0 && pair[0].1 == polled).count();
    (output, Copies { bytes: size_of::<F>(), before_poll: moved(false), after_poll: moved(true) })
}

/// A future that notes where it lies.
#[must_use]
pub struct Followed<F> {
    /// Where it lay when it was made and whenever it was polled, and whether that was a poll.
    seen: Arc<Mutex<Vec<(usize, bool)>>>,
    future: F,
}

impl<F> Followed<F> {
    fn note(&self, polled: bool) {
        let address = (&raw const self.future).addr();
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).push((address, polled));
    }
}

impl<F: Future> Future for Followed<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.note(true);
        // SAFETY: the field is pinned as the whole is: nothing here moves it, and the whole is not `Unpin` unless the
        // field is.
        unsafe { self.map_unchecked_mut(|whole| &mut whole.future) }.poll(context)
    }
}

/// How often a future was copied, at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Copies {
    /// How large it is.
    pub bytes: usize,
    /// Since it was made, until it was first polled.
    pub before_poll: usize,
    /// Since then: 0, unless its type allows that (`Unpin`).
    pub after_poll: usize,
}

impl fmt::Display for Copies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = if self.before_poll == 1 { "time" } else { "times" };
        write!(
            f,
            "{} bytes, copied at least {} {times} before its first poll",
            self.bytes, self.before_poll
        )?;
        if self.after_poll > 0 { write!(f, " and {} after it", self.after_poll) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Waker;

    use super::*;

    #[inline(never)]
    fn passed<F>(future: F) -> Vec<F> {
        vec![future]
    }

    fn poll(future: Pin<&mut impl Future>) {
        assert!(future.poll(&mut Context::from_waker(Waker::noop())).is_ready());
    }

    #[test]
    fn a_future_that_is_polled_where_it_was_pinned_is_seen_in_one_place_at_least() {
        let (_, copies) = copies_of(async {}, |future| poll(pin!(future)));
        assert!(copies.before_poll <= 1 && copies.after_poll == 0, "{copies}");
    }

    #[test]
    fn each_place_on_the_way_is_a_copy() {
        let (_, copies) = copies_of(std::future::ready(7), |future| {
            let mut there = passed(future);
            poll(Pin::new(&mut there[0]));
            let mut elsewhere = passed(there.remove(0));
            poll_again(Pin::new(&mut elsewhere[0]));
        });
        assert_eq!((copies.bytes, copies.before_poll, copies.after_poll), (size_of::<Option<i32>>(), 1, 1));
        assert!(copies.to_string().ends_with("and 1 after it"));
    }

    /// Notes a second poll of a future that is done, without polling that.
    fn poll_again<F>(future: Pin<&mut Followed<F>>) {
        future.note(true);
    }

    #[test]
    fn a_size_is_known_without_the_future() {
        async fn wait(_bytes: [u8; 100]) {
            std::future::ready(()).await;
        }
        assert!(future_size!(wait(todo!())) >= 100);
    }
}
