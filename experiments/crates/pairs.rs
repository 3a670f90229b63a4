//! Pairs of functions whose true ratio is known: copies of one function, of which the second does as much work as the first
//! in some pairs, and 2 % or 10 % more in others.

use std::env;
use std::fmt;
use std::future::{Future, poll_fn};
use std::hint::black_box;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Work of about a microsecond, so many times a hundredth of it.
type Work = fn(u64) -> u64;

/// What the first side of each pair does.
const HUNDREDTHS: u64 = 100;

/// Makes copies differ for the compiler, which merges equal functions, but not for the processor: it is a comment.
macro_rules! mark {
    ($copy:expr) => {
        // SAFETY: a comment does nothing.
        unsafe { std::arch::asm!("/* copy {} */", const $copy, options(nomem, nostack, preserves_flags)) }
    };
}

/// A chain of steps, each of which needs the one before.
#[inline(never)]
fn chain<const COPY: usize>(hundredths: u64) -> u64 {
    mark!(COPY);
    (0..7 * hundredths).fold(hundredths, |sum, step| (sum ^ step).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// A future that waits once.
async fn read<const COPY: usize>(byte: u64) -> u64 {
    mark!(COPY);
    let mut ready = false;
    poll_fn(|_| if std::mem::replace(&mut ready, true) { Poll::Ready(()) } else { Poll::Pending }).await;
    black_box(byte)
}

/// A boxed future for every two hundredths, polled until it is ready.
#[inline(never)]
fn boxes<const COPY: usize>(hundredths: u64) -> u64 {
    mark!(COPY);
    let mut context = Context::from_waker(Waker::noop());
    let finish = |byte| {
        let mut future: Pin<Box<dyn Future<Output = u64>>> = black_box(Box::pin(read::<COPY>(byte)));
        loop {
            if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
                return done;
            }
        }
    };
    (0..hundredths / 2).map(finish).sum()
}

/// One of two functions that are compared.
#[derive(Clone, Copy)]
pub struct Side {
    work: Work,
    hundredths: u64,
    /// Of its pair.
    pub pair: &'static str,
    /// `a` or `b`.
    pub side: &'static str,
}

impl Side {
    /// Does its work. It returns the same on both sides, because by-turns demands that.
    #[inline(always)]
    pub fn run(self) -> u64 {
        black_box((self.work)(black_box(self.hundredths)));
        1
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.pair, self.side)
    }
}

macro_rules! pairs {
    ($($work:ident $more:literal: $($number:literal)*;)*) => {
        [$($({
            let pair = concat!(stringify!($work), "-", $more, "-", $number);
            [
                Side { work: $work::<{ 2 * $number }>, hundredths: HUNDREDTHS, pair, side: "a" },
                Side { work: $work::<{ 2 * $number + 1 }>, hundredths: HUNDREDTHS + $more, pair, side: "b" },
            ]
        },)*)*]
    };
}

/// The pairs that the variable `PAIRS` names, in that order, with commas between them; all without it. A name says the work, by how
/// many per cent the second side does more, and a number.
pub fn pairs() -> Vec<[Side; 2]> {
    let all = pairs! {
        chain 0: 0 1 2 3 4 5 6 7 8 9;
        chain 2: 10 11;
        chain 10: 12 13;
        boxes 0: 0 1 2 3 4 5 6 7 8 9;
        boxes 2: 10 11;
        boxes 10: 12 13;
    };
    match env::var("PAIRS") {
        Err(_) => all.to_vec(),
        Ok(names) => {
            let named = |name| *all.iter().find(|[a, _]| a.pair == name).expect("a pair's name");
            names.split(',').map(named).collect()
        }
    }
}

/// A number that the driver sets.
pub fn setting(name: &str) -> f64 {
    env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{name} is no number"))
}
