// -*- coding: utf-8 -*-
// ---
// jupyter:
//   jupytext:
//     formats: notebooks///ipynb,rust-kernels///rs:percent
//     text_representation:
//       extension: .rs
//       format_name: percent
//       format_version: '1.3'
//       jupytext_version: 1.19.6
//   kernelspec:
//     display_name: Rust
//     language: rust
//     name: rust
// ---

// %% [markdown]
// # When should I box a future, and what does `async-trait` cost?
//
// An `async fn` returns a value: everything that lives across one of its awaits is a field of it, and so is every future
// that it awaits. Values are moved, and this one may have a hundred bytes or a hundred thousand. So people box: the
// largest futures, or all that a trait returns, or all. Here one thing about a call changes at a time: how much lives
// across its await and where, what the future is wrapped in, how the call is written.
//
// [The other notebook](stopping.ipynb) is about waiting for several things at once, and about futures that are dropped.
//
// After reading it and its analysis you can decide from what size on to box, where to keep a buffer, and which way of
// writing an asynchronous interface you can afford.

// %% [markdown]
// ## Compile cells as for a benchmark
//
// As in every measuring notebook: without these settings the ratios come out wrong, and the harness refuses to measure.

// %% tags=["active-ipynb"]
// :build_env CARGO_PROFILE_DEV_OPT_LEVEL=3
// :build_env CARGO_PROFILE_DEV_DEBUG_ASSERTIONS=false
// :build_env CARGO_PROFILE_DEV_OVERFLOW_CHECKS=false
// :build_env CARGO_PROFILE_DEV_CODEGEN_UNITS=1
// :build_env CARGO_INCREMENTAL=0
// :dep async-trait = "=0.1.89"
// :dep futures = "=0.3.34"
// :dep harness = { path = "../../rust-kernels/harness" }
// :dep smol = "=2.0.2"
// :dep tokio = { version = "=1.54.1", features = ["macros", "rt", "time"] }
// :dep tracing = { version = "=0.1.44", default-features = false, features = ["std"] }

// %% [markdown]
// From here on each cell is also a part of the crate `async-fn`, except cells that only show something.

// %%
use std::cell::RefCell;
use std::future::{poll_fn, ready};
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::FutureExt;
use futures::future::Either;
use harness::{Bencher, Counts, Key, Sample, Study, UnequalWork, copies_of, future_size, limit, prove};
use tracing::Instrument;

// %% [markdown]
// # The base
//
// A call gets a job. Whether it waits, and which word of its buffer it reads, is decided at run time, by values that are
// opaque to the compiler: otherwise it would know that some variants never wait, and compile them away.

// %%
/// What a call has to do.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// What goes in.
    pub seed: u64,
    /// At which word of its buffer it looks; beyond the end is nowhere.
    pub word: usize,
    /// How often the task calls.
    pub calls: u32,
    /// How often the innermost call is pending.
    pub waits: u32,
    /// How often each call around it is.
    pub each: u32,
}

/// Called once, and pending once.
pub const ONE_CALL: Job = Job { seed: 7, word: 0, calls: 1, waits: 1, each: 0 };

/// Is pending so many times. It wakes no task, since its caller polls again at once.
pub struct PendingTimes(pub u32);

impl Future for PendingTimes {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let left = self.0.checked_sub(1);
        self.0 = left.unwrap_or(0);
        if left.is_some() { Poll::Pending } else { Poll::Ready(()) }
    }
}

// %% [markdown]
// A future runs where it lies, without an executor: it is polled until it is ready.

// %%
/// What came of a job, and how many polls it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub value: u64,
    pub polls: u64,
}

/// Polls a future until it is ready.
fn block_on(mut future: Pin<&mut (impl Future<Output = u64> + ?Sized)>) -> Outcome {
    let context = &mut Context::from_waker(Waker::noop());
    let mut polls = 1;
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(context) {
            return Outcome { value, polls };
        }
        polls += 1;
    }
}

// %% [markdown]
// It lies in one of two places: in the frame of the function that polls it, or in a **task**. A task is what an executor
// makes of a future of unknown type: a box that is called through `dyn`, made by a function that takes the future by
// value.

// %%
/// A future of any type, in a box.
type Task = Pin<Box<dyn Future<Output = u64>>>;

/// Makes a task of a future, as a spawn does. Out of line, as a spawn is when many futures are spawned.
#[inline(never)]
fn spawn(future: impl Future<Output = u64> + 'static) -> Task {
    Box::pin(future)
}

/// One way to do a job: its timed code, and how large its future is.
#[derive(Clone)]
pub struct Way {
    pub code: Rc<dyn Fn(Job) -> Outcome>,
    pub bytes: usize,
}

/// The future lies in the frame.
pub fn in_frame<F: Future<Output = u64>>(make: impl Fn(Job) -> F + 'static) -> Way {
    let bytes = future_size!(make(ONE_CALL));
    Way { code: Rc::new(move |job| block_on(pin!(make(job)))), bytes }
}

/// The future is made a task.
pub fn in_task<F: Future<Output = u64> + 'static>(make: impl Fn(Job) -> F + 'static) -> Way {
    let bytes = future_size!(make(ONE_CALL));
    Way { code: Rc::new(move |job| block_on(spawn(make(job)).as_mut())), bytes }
}

// %% [markdown]
// # Size
//
// The callee keeps a buffer across its await. It writes one word of it before, and reads it afterwards, so only its size
// differs.

// %%
/// The words of a buffer, which hold nothing yet.
type Words = [MaybeUninit<u64>];

/// Writes a word, waits, and reads it. Of a buffer that has no such word, it keeps the word itself.
async fn use_word(words: &mut Words, job: Job) -> u64 {
    let mut own = MaybeUninit::uninit();
    let word = words.get_mut(job.word).unwrap_or(&mut own).write(job.seed);
    black_box(&mut *word);
    PendingTimes(job.waits).await;
    *word
}

// %% [markdown]
// Where the buffer is: in the future itself, or in a box, uninitialised or zeroed, or in a pool. `BYTES` are written as
// `WORDS` of eight.

// %%
/// Where a buffer comes from; it goes back there when it is dropped.
pub trait Buffer {
    fn obtain() -> Self;
    fn words(&mut self) -> &mut Words;
}

/// In the future, full of zeroes or not.
pub struct InFuture<const WORDS: usize, const ZEROED: bool = false>([MaybeUninit<u64>; WORDS]);

impl<const WORDS: usize, const ZEROED: bool> Buffer for InFuture<WORDS, ZEROED> {
    #[inline(always)]
    fn obtain() -> Self {
        Self(if ZEROED { [MaybeUninit::new(0); WORDS] } else { [MaybeUninit::uninit(); WORDS] })
    }

    fn words(&mut self) -> &mut Words {
        &mut self.0
    }
}

// %% [markdown]
// The box is one of the buffer alone; the future that holds it stays small.

// %%
/// In a box, full of zeroes or not.
pub struct Boxed<const WORDS: usize, const ZEROED: bool>(Box<Words>);

impl<const WORDS: usize, const ZEROED: bool> Buffer for Boxed<WORDS, ZEROED> {
    fn obtain() -> Self {
        Self(if ZEROED { Box::new_zeroed_slice(WORDS) } else { Box::new_uninit_slice(WORDS) })
    }

    fn words(&mut self) -> &mut Words {
        &mut self.0
    }
}

/// Uses the buffers of this thread that are not in use.
fn with_pool<T>(use_it: impl FnOnce(&mut Vec<Box<Words>>) -> T) -> T {
    thread_local! {
        static POOL: RefCell<Vec<Box<Words>>> = const { RefCell::new(Vec::new()) };
    }
    POOL.with_borrow_mut(use_it)
}

/// From a pool of this thread.
pub struct Pooled<const WORDS: usize>(Box<Words>);

impl<const WORDS: usize> Buffer for Pooled<WORDS> {
    fn obtain() -> Self {
        let pooled = with_pool(Vec::pop).filter(|words| words.len() == WORDS);
        Self(pooled.unwrap_or_else(|| Box::new_uninit_slice(WORDS)))
    }

    fn words(&mut self) -> &mut Words {
        &mut self.0
    }
}

impl<const WORDS: usize> Drop for Pooled<WORDS> {
    fn drop(&mut self) {
        let words = std::mem::take(&mut self.0);
        with_pool(|pool| pool.push(words));
    }
}

// %% [markdown]
// A call with a buffer of its own, the same call behind a box, and a task that calls so many times.

// %%
/// A call with a buffer of its own.
async fn call<B: Buffer>(job: Job) -> u64 {
    let mut buffer = B::obtain();
    use_word(buffer.words(), job).await
}

/// A task whose calls are part of it.
async fn calls_inline<B: Buffer>(job: Job) -> u64 {
    let mut sum = job.seed;
    for _ in 0..job.calls {
        sum = sum.wrapping_add(call::<B>(job).await);
    }
    sum
}

/// A task whose calls are boxed.
async fn calls_boxed<B: Buffer>(job: Job) -> u64 {
    let mut sum = job.seed;
    for _ in 0..job.calls {
        sum = sum.wrapping_add(Box::pin(call::<B>(job)).await);
    }
    sum
}

/// A task whose calls use one buffer, which is made when it begins.
async fn calls_sharing_buffer<B: Buffer>(job: Job) -> u64 {
    let mut buffer = B::obtain();
    let mut sum = job.seed;
    for _ in 0..job.calls {
        sum = sum.wrapping_add(use_word(buffer.words(), job).await);
    }
    sum
}

// %% [markdown]
// How large is such a task? `harness::future_size!` gives the size of any call, without making it, in your own cells,
// too. Two sizes of the callee show best what lies where.

// %% tags=["active-ipynb"]
// println!("inline: {} and {} bytes", future_size!(calls_inline::<InFuture<8>>(ONE_CALL)), future_size!(calls_inline::<InFuture<512>>(ONE_CALL)));
// println!("boxed: {} and {} bytes", future_size!(calls_boxed::<InFuture<8>>(ONE_CALL)), future_size!(calls_boxed::<InFuture<512>>(ONE_CALL)));

// %% [markdown]
// And how often is it copied? `harness::copies_of` passes a future on, and compares its address when it was made with
// that when it was polled. A copy to the same address is not seen, so this is a lower bound.

// %%
/// How often a future is copied, at least, when it is spawned here, on tokio and on smol.
pub fn copies_by_spawns() -> [(&'static str, harness::Copies); 3] {
    let future = || calls_inline::<InFuture<512>>(ONE_CALL);
    let (_, here) = copies_of(future(), |future| block_on(spawn(future).as_mut()));
    let runtime = current_thread();
    let ready = || call::<InFuture<512>>(Job { waits: 0, ..ONE_CALL });
    let (_, tokio) = copies_of(ready(), |future| runtime.block_on(runtime.spawn(future)));
    let executor = smol::LocalExecutor::new();
    let (_, smol) = copies_of(ready(), |future| smol::future::block_on(executor.run(executor.spawn(future))));
    [("spawn", here), ("tokio", tokio), ("smol", smol)]
}

/// tokio on this thread, with its timers.
fn current_thread() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("no thread is needed")
}

// %% [markdown]
// A future of 4 KiB, which has to get from the stack to the heap:

// %% tags=["active-ipynb"]
// for (who, copies) in copies_by_spawns() {
//     println!("{who}: {copies}");
// }

// %% [markdown]
// ## The rows
//
// A row is a way under a key, the job, and the expected result. A table of ways lists the sizes once: ten of them, a
// factor of two to four apart.

// %%
/// What is measured: a way, its key, its job, what must come of it, and what of the same bench it is compared with.
pub struct Row {
    pub key: Key,
    pub job: Job,
    pub way: Way,
    pub expected: Outcome,
    /// How many calls that is.
    pub units: u64,
    /// Variant and parameter of what it is compared with, and what changes.
    pub compared: Vec<(String, String, String)>,
}

/// The same for each size of a buffer.
#[macro_export]
macro_rules! sizes {
    ($words:ident => $way:expr) => {
        sizes!($words => $way; 0 8 32 128 256 512 1024 2048 4096 8192)
    };
    ($words:ident => $way:expr; $($each:literal)*) => {
        [$({
            const $words: usize = $each;
            (8 * $words, $way)
        }),*]
    };
}

/// A row of calls with a buffer: `calls` times a word, and a poll more than it waits.
fn buffer_row(bench: &str, variant: &str, (bytes, way): (usize, Way), calls: u32) -> Row {
    let job = Job { calls, word: bytes / 16, ..ONE_CALL };
    let times = 1 + u64::from(calls);
    Row {
        key: Key::new(bench, variant, format!("bytes={bytes} calls={calls}")),
        job,
        way,
        expected: Outcome { value: times * job.seed, polls: times },
        units: u64::from(calls.max(1)),
        compared: Vec::new(),
    }
}

impl Row {
    /// Compares it with another variant under the same parameter.
    fn compared_with(self, variant: &str, change: &str) -> Self {
        let parameter = self.key.parameter.clone();
        self.compared_across(variant, parameter, change)
    }

    /// Compares it with another variant under another parameter.
    fn compared_across(mut self, variant: &str, parameter: String, change: &str) -> Self {
        self.compared.push((variant.to_owned(), parameter, change.to_owned()));
        self
    }
}

// %% [markdown]
// Inline or boxed: a task made for one call, one that calls a thousand times, and one that could call but does not.

// %%
/// How often a task calls.
const CALLS: [u32; 3] = [0, 1, 1000];

fn inline_or_boxed() -> Vec<Row> {
    let mut rows = Vec::new();
    for calls in CALLS {
        for sized in sizes!(WORDS => in_task(calls_inline::<InFuture<WORDS>>)) {
            rows.push(buffer_row("call", "inline", sized, calls));
        }
        for sized in sizes!(WORDS => in_task(calls_boxed::<InFuture<WORDS>>)) {
            rows.push(
                buffer_row("call", "boxed", sized, calls).compared_with("inline", "a box for each call"),
            );
        }
    }
    rows
}

// %% [markdown]
// Where the buffer is, of a task that calls a hundred times.

// %%
fn places() -> Vec<Row> {
    const HUNDRED: u32 = 100;
    const CHANGES: [(&str, &str, &str); 6] = [
        ("in the future", "one for all calls", "a buffer in each call's future"),
        ("in the future, zeroed", "in the future", "zeroes in the buffer"),
        ("in a box", "in the future", "the buffer in a box"),
        ("in a box, zeroed", "in a box", "zeroes in the box"),
        ("from a pool", "in a box", "a pool of boxes"),
        ("in the future, zeroed", "one for all calls", "a buffer of zeroes for each call"),
    ];
    let all = [
        ("one for all calls", sizes!(WORDS => in_task(calls_sharing_buffer::<InFuture<WORDS>>))),
        ("in the future", sizes!(WORDS => in_task(calls_inline::<InFuture<WORDS>>))),
        ("in the future, zeroed", sizes!(WORDS => in_task(calls_inline::<InFuture<WORDS, true>>))),
        ("in a box", sizes!(WORDS => in_task(calls_inline::<Boxed<WORDS, false>>))),
        ("in a box, zeroed", sizes!(WORDS => in_task(calls_inline::<Boxed<WORDS, true>>))),
        ("from a pool", sizes!(WORDS => in_task(calls_inline::<Pooled<WORDS>>))),
    ];
    let mut rows = Vec::new();
    for (variant, ways) in all {
        for sized in ways {
            let row = buffer_row("buffer", variant, sized, HUNDRED);
            let changes = CHANGES.iter().filter(|change| change.0 == variant);
            rows.push(changes.fold(row, |row, (_, base, change)| row.compared_with(base, change)));
        }
    }
    rows
}

// %% [markdown]
// A spawn takes the future by value, and each runtime has its own way from there. On tokio a future above a certain size
// is boxed first. smol's `LocalExecutor` is driven as in [its documentation](https://docs.rs/smol/2.0.2/smol/struct.LocalExecutor.html),
// by the `block_on` of futures. (That of smol would start a thread for I/O, which everything below would be measured beside.)

// %%
fn spawns() -> Vec<Row> {
    let tokio = Rc::new(current_thread());
    let smol = Rc::new(smol::LocalExecutor::<'static>::new());
    let mut rows = Vec::new();
    macro_rules! on {
        ($words:ident, $runtime:ident, $job:ident => $joined:expr) => {{
            let $runtime = Rc::clone(&$runtime);
            let code = move |$job: Job| Outcome { value: $joined, polls: 1 };
            Way { code: Rc::new(code), bytes: future_size!(call::<InFuture<$words>>(ONE_CALL)) }
        }};
    }
    let here = sizes!(WORDS => in_task(call::<InFuture<WORDS>>));
    let on_tokio = sizes!(WORDS => on!(WORDS, tokio, job => {
        tokio.block_on(async { tokio.spawn(call::<InFuture<WORDS>>(job)).await.expect("it ends") })
    }));
    let on_smol = sizes!(WORDS => on!(WORDS, smol, job => {
        smol::future::block_on(smol.run(smol.spawn(call::<InFuture<WORDS>>(job))))
    }));
    for (variant, ways) in [("a box alone", here), ("tokio", on_tokio), ("smol", on_smol)] {
        let smallest = ways[0].0;
        for sized in ways {
            let bytes = sized.0;
            let mut row = buffer_row("spawn", variant, sized, 1);
            (row.job.waits, row.expected) = (0, Outcome { value: row.job.seed, polls: 1 });
            if bytes > smallest {
                row = row.compared_across(
                    variant,
                    format!("bytes={smallest} calls=1"),
                    "a larger buffer in the future",
                );
            }
            rows.push(row);
        }
    }
    rows
}

// %% [markdown]
// ## Where it is made, and what wraps it
//
// The same buffer of 1 KiB, or of 4 KiB, as a local, as an argument, as an argument that is passed on, and borrowed from
// the caller.

// %%
/// As [`call`], but its caller makes the buffer.
async fn call_with<B: Buffer>(mut buffer: B, job: Job) -> u64 {
    use_word(buffer.words(), job).await
}

/// Hands its buffer on.
async fn pass_buffer_on<B: Buffer>(buffer: B, job: Job) -> u64 {
    call_with(buffer, job).await
}

/// A row of a future that calls once and has the output of that call.
fn single_call(bench: &str, variant: &str, parameter: String, way: Way) -> Row {
    let expected = Outcome { value: ONE_CALL.seed, polls: 1 + u64::from(ONE_CALL.waits) };
    Row {
        key: Key::new(bench, variant, parameter),
        job: ONE_CALL,
        way,
        expected,
        units: 1,
        compared: Vec::new(),
    }
}

fn buffer_arguments() -> Vec<Row> {
    type Large = InFuture<512>;
    let row = |variant, way| single_call("made", variant, "bytes=4096".to_owned(), way);
    vec![
        row("local", in_task(call::<Large>)),
        row("argument", in_task(|job| call_with(Large::obtain(), job)))
            .compared_with("local", "an argument instead of a local"),
        row("argument, handed on", in_task(|job| pass_buffer_on(Large::obtain(), job)))
            .compared_with("argument", "one more call that takes it"),
    ]
}

// %% [markdown]
// Wrapped in an `async` block, in a combinator, in a timeout that does not fire, in a span without a subscriber; and two
// of them, one after the other or joined.

// %%
/// Far longer than a sample.
const HOUR: Duration = Duration::from_secs(3600);

/// What is wrapped.
type Some = InFuture<128>;

#[expect(clippy::redundant_async_block, reason = "it is what is measured")]
fn block_of_variable(job: Job) -> impl Future<Output = u64> {
    let future = call::<Some>(job);
    async move { future.await }
}

async fn within_hour(job: Job) -> u64 {
    tokio::time::timeout(HOUR, call::<Some>(job)).await.expect("an hour does not pass")
}

async fn in_sequence(job: Job) -> u64 {
    call::<Some>(job).await + call::<Some>(job).await
}

async fn joined_by_futures(job: Job) -> u64 {
    let (one, other) = futures::join!(call::<Some>(job), call::<Some>(job));
    one + other
}

async fn joined_by_tokio(job: Job) -> u64 {
    let (one, other) = tokio::join!(call::<Some>(job), call::<Some>(job));
    one + other
}

// %% [markdown]
// The timeout needs a runtime around it, though no task runs there.

// %%
fn wrapped() -> Vec<Row> {
    let row = |variant, way| single_call("wrapped", variant, "bytes=1024".to_owned(), way);
    let (runtime, timed) = (current_thread(), in_task(within_hour));
    let code = Rc::clone(&timed.code);
    let entered = move |job| {
        let _entered = runtime.enter();
        code(job)
    };
    let (alone, turn) = ("alone", "two in turn");
    let both = |variant, way, polls| {
        let expected = Outcome { value: 2 * ONE_CALL.seed, polls };
        Row { expected, ..row(variant, way) }
    };
    let instrumented = |job| call::<Some>(job).instrument(tracing::debug_span!("call"));
    vec![
        row(alone, in_task(call::<Some>)),
        row("async block", in_task(|job| async move { call::<Some>(job).await }))
            .compared_with(alone, "an `async` block"),
        row("async block of a variable", in_task(block_of_variable))
            .compared_with(alone, "an `async` block that awaits a future made before it"),
        row("map", in_task(|job| call::<Some>(job).map(|value| value)))
            .compared_with(alone, "`FutureExt::map`"),
        row("instrument", in_task(instrumented)).compared_with(alone, "`instrument` without a subscriber"),
        row("timeout", Way { code: Rc::new(entered), ..timed }).compared_with(alone, "tokio's `timeout`"),
        both(turn, in_task(in_sequence), 3),
        both("join! of futures", in_task(joined_by_futures), 2)
            .compared_with(turn, "both at once, by `futures::join!`"),
        both("join! of tokio", in_task(joined_by_tokio), 2)
            .compared_with(turn, "both at once, by `tokio::join!`"),
    ]
}

// %% [markdown]
// ## Depth
//
// A call within a call, up to sixteen: either each function calls the next, or each takes a future and awaits it. The
// buffer is one of 64 bytes.

// %%
/// Takes a future and awaits it.
async fn awaits<F: Future>(future: F) -> F::Output {
    future.await
}

/// Takes what makes a future, makes it and awaits it.
async fn makes<F: Future>(make: impl FnOnce(Job) -> F, job: Job) -> F::Output {
    make(job).await
}

/// A future inside of as many others as there are dots.
#[macro_export]
macro_rules! within {
    (awaits $inner:expr, $job:ident;) => { $inner };
    (awaits $inner:expr, $job:ident; . $($rest:tt)*) => { within!(awaits awaits($inner), $job; $($rest)*) };
    (makes $inner:expr, $job:ident;) => { makes($inner, $job) };
    (makes $inner:expr, $job:ident; . $($rest:tt)*) => { within!(makes |$job| makes($inner, $job), $job; $($rest)*) };
}

fn nested() -> Vec<Row> {
    type Small = InFuture<8>;
    let row = |variant, depth, way| {
        let row = single_call("nested", variant, format!("depth={depth}"), way);
        if depth == 1 {
            row
        } else {
            row.compared_across(variant, "depth=1".to_owned(), "more calls around it")
        }
    };
    let mut rows = Vec::new();
    macro_rules! at {
        ($depth:literal: $($dots:tt)*) => {
            rows.push(row("calls", $depth, in_task(|job| within!(makes call::<Small>, job; $($dots)*))));
            rows.push(row("taken", $depth, in_task(|job| within!(awaits awaits(call::<Small>(job)), job; $($dots)*)))
                .compared_with("calls", "functions that take a future instead of calling"));
        };
    }
    at!(1: );
    at!(2: .);
    at!(4: . . .);
    at!(8: . . . . . . .);
    rows.push(row(
        "calls",
        16,
        in_task(|job| within!(makes call::<Small>, job; . . . . . . . . . . . . . . .)),
    ));
    rows
}

// %% [markdown]
// ## With a wake
//
// The calls above wake no task: they are polled again at once. A call that really waits is woken, and its task is polled
// because of that. So some of them are measured once more, with a wake before each poll but the first, by reference. Does
// that change what a box or a timeout adds?

// %%
/// As [`PendingTimes`], but wakes its task each time.
struct WokenTimes(PendingTimes);

impl Future for WokenTimes {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let outcome = Pin::new(&mut self.0).poll(context);
        if outcome.is_pending() {
            context.waker().wake_by_ref();
        }
        outcome
    }
}

/// As [`call`], but woken.
async fn call_woken<B: Buffer>(job: Job) -> u64 {
    let mut buffer = B::obtain();
    let mut own = MaybeUninit::uninit();
    let word = buffer.words().get_mut(job.word).unwrap_or(&mut own).write(job.seed);
    black_box(&mut *word);
    WokenTimes(PendingTimes(job.waits)).await;
    *word
}

/// As [`calls_inline`], but woken.
async fn calls_woken_inline<B: Buffer>(job: Job) -> u64 {
    let mut sum = job.seed;
    for _ in 0..job.calls {
        sum = sum.wrapping_add(call_woken::<B>(job).await);
    }
    sum
}

/// As [`calls_boxed`], but woken.
async fn calls_woken_boxed<B: Buffer>(job: Job) -> u64 {
    let mut sum = job.seed;
    for _ in 0..job.calls {
        sum = sum.wrapping_add(Box::pin(call_woken::<B>(job)).await);
    }
    sum
}

/// As [`within_hour`], but woken.
async fn woken_within_hour(job: Job) -> u64 {
    tokio::time::timeout(HOUR, call_woken::<Some>(job)).await.expect("an hour does not pass")
}

// %% [markdown]
// Its task is polled only after it was woken.

// %%
/// Whether a task was woken.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// As [`in_task`], but polled only when woken.
fn in_woken_task<F: Future<Output = u64> + 'static>(make: impl Fn(Job) -> F + 'static) -> Way {
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let bytes = future_size!(make(ONE_CALL));
    let code = move |job| {
        let (context, mut task, mut polls) = (&mut Context::from_waker(&waker), spawn(make(job)), 1);
        loop {
            if let Poll::Ready(value) = task.as_mut().poll(context) {
                return Outcome { value, polls };
            }
            assert!(woken.0.swap(false, Ordering::Acquire), "nothing has woken it");
            polls += 1;
        }
    };
    Way { code: Rc::new(code), bytes }
}

fn woken() -> Vec<Row> {
    let thousand = |variant: &str, way| buffer_row("woken", variant, (4096, way), 1000);
    let row = |variant, way| single_call("woken", variant, "bytes=1024".to_owned(), way);
    let (runtime, timed) = (current_thread(), in_woken_task(woken_within_hour));
    let code = Rc::clone(&timed.code);
    let entered = move |job| {
        let _entered = runtime.enter();
        code(job)
    };
    vec![
        thousand("inline", in_woken_task(calls_woken_inline::<InFuture<512>>)),
        thousand("boxed", in_woken_task(calls_woken_boxed::<InFuture<512>>))
            .compared_with("inline", "a box for each call"),
        row("alone", in_woken_task(call_woken::<Some>)),
        row("timeout", Way { code: Rc::new(entered), ..timed }).compared_with("alone", "tokio's `timeout`"),
    ]
}

// %% [markdown]
// ## Beside a second thread
//
// Until a process starts its second thread, the C library's allocator need not lock. So the call of 4 KiB is also measured
// in a process that has one more thread, which does nothing.

// %%
/// The bench of what is measured in such a process.
const BESIDE_THREAD: &str = "beside a thread";

fn beside_thread() -> Vec<Row> {
    let row = |variant, way| buffer_row(BESIDE_THREAD, variant, (4096, way), 1000);
    vec![
        row("inline", in_task(calls_inline::<InFuture<512>>)),
        row("boxed", in_task(calls_boxed::<InFuture<512>>)).compared_with("inline", "a box for each call"),
    ]
}

/// A sample of this code in a process of its own that has a second thread.
fn sample_beside_thread(code: &dyn Fn(Job) -> Outcome, job: Job) -> Sample {
    const TIMES: u64 = 40;
    let time = harness::isolated(Duration::from_secs(60), || {
        std::thread::spawn(|| {
            loop {
                std::thread::park();
            }
        });
        let run = || (0..TIMES).for_each(|_| _ = black_box(code(black_box(job))));
        run();
        let start = Instant::now();
        run();
        start.elapsed()
    });
    Sample::new(TIMES, time.unwrap_or_else(|end| panic!("{end}")))
}

// %% [markdown]
// # The shape of a call
//
// The same small work, in nested calls that differ in how they are written, how deep they are, and how often they wait.
// Every call waits at its own gate, and changes the value that it returns.

// %%
/// What each call does with a value.
fn mix(value: u64) -> u64 {
    value.wrapping_mul(6_364_136_223_846_793_005).rotate_left(17) ^ 1
}

/// What the innermost call does.
#[macro_export]
macro_rules! innermost_call {
    ($job:expr) => {{
        PendingTimes($job.waits).await;
        mix($job.seed)
    }};
}

/// What a call around another does.
#[macro_export]
macro_rules! around_call {
    ($call:expr, $job:expr) => {{
        let value = $call;
        PendingTimes($job.each).await;
        mix(value)
    }};
}

// %% [markdown]
// Types say how deep a call is: [`Innermost`] is one call, and each [`Around`] one more. Most shapes are functions
// of a trait. The first is no future at all, and cannot wait: it may be inlined, or each call is a call of the machine.
// The language turns an `async fn` in a trait into `-> impl Future`.

// %%
/// One call.
#[derive(Default)]
pub struct Innermost;
/// One more.
#[derive(Default)]
pub struct Around<C>(C);

/// Polls out of line.
#[inline(never)]
fn poll_apart<F: Future>(future: Pin<&mut F>, context: &mut Context<'_>) -> Poll<F::Output> {
    future.poll(context)
}

/// Calls that call each other, in several shapes.
trait Shape {
    /// A function, which cannot wait.
    fn plain(job: Job) -> u64;
    /// The same, not inlined.
    fn plain_apart(job: Job) -> u64;
    /// An `async fn` of a trait.
    async fn in_trait(job: Job) -> u64;
    /// The same, each polled out of line.
    async fn apart(job: Job) -> u64;
    /// A future in a box.
    fn in_box(job: Job) -> Task;
    /// A future in an enum, of which the other variant is not used.
    async fn in_enum(job: Job) -> u64;
}

impl Shape for Innermost {
    fn plain(job: Job) -> u64 {
        assert_eq!(job.waits, 0, "a function cannot wait");
        mix(job.seed)
    }

    #[inline(never)]
    fn plain_apart(job: Job) -> u64 {
        Self::plain(job)
    }

    async fn in_trait(job: Job) -> u64 {
        innermost_call!(job)
    }

    async fn apart(job: Job) -> u64 {
        innermost_call!(job)
    }

    fn in_box(job: Job) -> Task {
        Box::pin(async move { innermost_call!(job) })
    }

    async fn in_enum(job: Job) -> u64 {
        innermost_call!(job)
    }
}

// %% [markdown]
// And around it.

// %%
impl<C: Shape> Shape for Around<C> {
    fn plain(job: Job) -> u64 {
        let value = C::plain(job);
        assert_eq!(job.each, 0, "a function cannot wait");
        mix(value)
    }

    #[inline(never)]
    fn plain_apart(job: Job) -> u64 {
        let value = C::plain_apart(job);
        assert_eq!(job.each, 0, "a function cannot wait");
        mix(value)
    }

    async fn in_trait(job: Job) -> u64 {
        around_call!(C::in_trait(job).await, job)
    }

    async fn apart(job: Job) -> u64 {
        let mut inner = pin!(C::apart(job));
        around_call!(poll_fn(|context| poll_apart(inner.as_mut(), context)).await, job)
    }

    fn in_box(job: Job) -> Task {
        Box::pin(async move { around_call!(C::in_box(job).await, job) })
    }

    async fn in_enum(job: Job) -> u64 {
        let inner = if job.calls == 0 { Either::Left(ready(0)) } else { Either::Right(C::in_enum(job)) };
        around_call!(inner.await, job)
    }
}

// %% [markdown]
// The same as functions of a module, without a trait.

// %%
/// Functions that call each other, up to 32.
mod functions {
    use super::{Job, PendingTimes, mix};

    /// So many functions, each of which calls the next.
    macro_rules! functions {
        ($last:ident) => {
            pub async fn $last(job: Job) -> u64 {
                PendingTimes(job.waits).await;
                mix(job.seed)
            }
        };
        ($first:ident $next:ident $($rest:ident)*) => {
            pub async fn $first(job: Job) -> u64 {
                let value = $next(job).await;
                PendingTimes(job.each).await;
                mix(value)
            }
            functions!($next $($rest)*);
        };
    }
    functions!(f32 f31 f30 f29 f28 f27 f26 f25 f24 f23 f22 f21 f20 f19 f18 f17 f16 f15 f14 f13 f12 f11 f10 f9 f8 f7 f6 f5 f4 f3 f2 f1);
}

use functions::{f1, f4, f16, f32};

// %% [markdown]
// By hand: a struct for each call, with its state in an enum.

// %%
/// A future written by hand.
trait ByHand: Future<Output = u64> + Unpin {
    fn call(job: Job) -> Self;
}

/// The innermost call: its gate, and what goes in.
struct InnermostByHand(PendingTimes, u64);

impl ByHand for InnermostByHand {
    fn call(job: Job) -> Self {
        Self(PendingTimes(job.waits), job.seed)
    }
}

impl Future for InnermostByHand {
    type Output = u64;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<u64> {
        Pin::new(&mut self.0).poll(context).map(|()| mix(self.1))
    }
}

/// A call around another: first that, then its own gate.
enum AroundByHand<F> {
    Calls(F, u32),
    Waits(PendingTimes, u64),
}

impl<F: ByHand> ByHand for AroundByHand<F> {
    fn call(job: Job) -> Self {
        Self::Calls(F::call(job), job.each)
    }
}

impl<F: ByHand> Future for AroundByHand<F> {
    type Output = u64;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<u64> {
        if let Self::Calls(future, each) = &mut *self {
            let each = *each;
            match Pin::new(future).poll(context) {
                Poll::Ready(value) => *self = Self::Waits(PendingTimes(each), value),
                Poll::Pending => return Poll::Pending,
            }
        }
        let Self::Waits(gate, value) = &mut *self else { unreachable!("it has just been set") };
        Pin::new(gate).poll(context).map(|()| mix(*value))
    }
}

// %% [markdown]
// A box for each call by `#[async_trait]`; and the same behind `dyn`, as for objects of unknown type.

// %%
/// By the macro.
#[async_trait]
trait ByMacro: Sync {
    async fn call(&self, job: Job) -> u64;
}

#[async_trait]
impl ByMacro for Innermost {
    async fn call(&self, job: Job) -> u64 {
        innermost_call!(job)
    }
}

#[async_trait]
impl<C: ByMacro + Send> ByMacro for Around<C> {
    async fn call(&self, job: Job) -> u64 {
        around_call!(self.0.call(job).await, job)
    }
}

/// A call around one whose type is not known.
struct AroundDyn(Box<dyn ByMacro + Send>);

#[async_trait]
impl ByMacro for AroundDyn {
    async fn call(&self, job: Job) -> u64 {
        around_call!(self.0.call(job).await, job)
    }
}

/// So many calls, each of which knows the next by `dyn` alone.
fn of_dyn(depth: usize) -> Box<dyn ByMacro + Send> {
    (1..depth).fold(Box::new(Innermost), |inner, _| Box::new(AroundDyn(inner)))
}

// %% [markdown]
// Without a box for each call: an object behind `dyn` that keeps the place for its future, and uses it again.

// %%
/// Starts a call and polls it, in one place.
trait Reusing {
    fn start(&mut self, job: Job);
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<u64>;
}

/// The place, and what makes a future for it.
struct Reused<M, F> {
    make: M,
    place: Pin<Box<Option<F>>>,
}

impl<F: Future<Output = u64>, M: Fn(Job) -> F> Reusing for Reused<M, F> {
    fn start(&mut self, job: Job) {
        self.place.set(Some((self.make)(job)));
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<u64> {
        self.place.as_mut().as_pin_mut().expect("it was started").poll(context)
    }
}

/// A call of such an object.
async fn call_reusing(object: &mut dyn Reusing, job: Job) -> u64 {
    object.start(job);
    poll_fn(|context| object.poll(context)).await
}

// %% [markdown]
// An asynchronous closure around another one; and recursion, which needs a box for each call, since a future cannot
// contain itself.

// %%
/// A closure around a closure.
fn around_closure(inner: impl AsyncFn(Job) -> u64) -> impl AsyncFn(Job) -> u64 {
    async move |job: Job| around_call!(inner(job).await, job)
}

/// So many calls.
async fn recursed(depth: usize, job: Job) -> u64 {
    if depth == 1 {
        innermost_call!(job)
    } else {
        around_call!(Box::pin(recursed(depth - 1, job)).await, job)
    }
}

// %% [markdown]
// The base is a function of a module that calls three others and does not wait. From there one thing changes at a time:
// the shape, the depth, how often it waits; and, beyond that, 32 calls each of which waits.

// %%
/// Depth, and how often the innermost call and each other one wait.
const POINTS: [(usize, &str); 7] =
    [(4, "never"), (1, "never"), (16, "never"), (32, "never"), (4, "once"), (4, "each"), (32, "each")];

/// What a shape is measured for.
fn shape_row(variant: &str, depth: usize, waits: &str, way: Way) -> Row {
    let (once, each) = (u32::from(waits != "never"), u32::from(waits == "each"));
    let polls = 1 + u64::from(once) + u64::from(each) * (depth as u64 - 1);
    Row {
        key: Key::new("shape", variant, format!("depth={depth} waits={waits}")),
        job: Job { waits: once, each, ..ONE_CALL },
        way,
        expected: Outcome { value: (0..depth).fold(ONE_CALL.seed, |value, _| mix(value)), polls },
        units: depth as u64,
        compared: Vec::new(),
    }
}

/// A function that returns at once, as a way. Like a future, it is of a type of its own and may be inlined: called
/// through a pointer, it would take longer than an `async fn`.
fn plain(code: impl Fn(Job) -> u64 + 'static) -> Way {
    Way { code: Rc::new(move |job| Outcome { value: code(job), polls: 1 }), bytes: 0 }
}

/// Polls a future until it is ready, out of line like those within it: as many calls of the machine as there are
/// functions in `fn, out of line`.
fn block_on_apart(mut future: Pin<&mut impl Future<Output = u64>>) -> Outcome {
    block_on(pin!(poll_fn(|context| poll_apart(future.as_mut(), context))))
}

/// `in_frame` for it.
fn polled_apart<F: Future<Output = u64>>(make: impl Fn(Job) -> F + 'static) -> Way {
    let bytes = future_size!(make(ONE_CALL));
    Way { code: Rc::new(move |job| block_on_apart(pin!(make(job)))), bytes }
}

/// Three more calls.
type More<C> = Around<Around<Around<C>>>;
type MoreByHand<F> = AroundByHand<AroundByHand<AroundByHand<F>>>;
type D4 = More<Innermost>;
type D16 = More<More<More<More<D4>>>>;
type D32 = Around<More<More<More<More<More<D16>>>>>>;
type H4 = MoreByHand<InnermostByHand>;
type H16 = MoreByHand<MoreByHand<MoreByHand<MoreByHand<H4>>>>;
type H32 = AroundByHand<MoreByHand<MoreByHand<MoreByHand<MoreByHand<MoreByHand<H16>>>>>>;

/// So many closures, one around the other.
#[macro_export]
macro_rules! closures {
    ($inner:expr;) => {{
        let closure: &'static _ = Box::leak(Box::new($inner));
        in_frame(move |job| closure(job))
    }};
    ($inner:expr; . $($rest:tt)*) => { closures!(around_closure($inner); $($rest)*) };
}

// %% [markdown]
// All shapes at one depth. Objects and closures have no bytes of their own, so nothing is leaked. Closures are nested at
// most sixteen deep: for 32 the compiler asks for a larger `recursion_limit`.

// %%
/// Every shape at this depth, of these types and functions.
#[macro_export]
macro_rules! all_shapes {
    ($depth:literal, $types:ty, $hand:ty, $function:ident) => {{
        let of_macro: &'static $types = Box::leak(Box::default());
        let object = of_dyn($depth);
        let bytes = future_size!(object.call(ONE_CALL));
        vec![
            ("async fn", in_frame($function)),
            ("fn", plain(<$types as Shape>::plain)),
            ("fn, out of line", plain(<$types as Shape>::plain_apart)),
            ("async fn, out of line", polled_apart(<$types as Shape>::apart)),
            ("async fn in a trait", in_frame(<$types as Shape>::in_trait)),
            ("by hand", in_frame(<$hand as ByHand>::call)),
            ("Box dyn Future", in_frame(<$types as Shape>::in_box)),
            ("async_trait", in_frame(|job| ByMacro::call(of_macro, job))),
            (
                "async_trait, dyn",
                Way { code: Rc::new(move |job| block_on(object.call(job).as_mut())), bytes },
            ),
            ("enum", in_frame(<$types as Shape>::in_enum)),
            ("recursion", in_frame(|job| recursed($depth, job))),
        ]
    }};
}

/// What a shape changes, against which other one.
const SHAPES: [(&str, &str, &str); 13] = [
    ("async fn", "fn", "`async fn`s instead of functions"),
    ("fn, out of line", "fn", "calls that are not inlined"),
    ("async fn, out of line", "async fn in a trait", "polls that are not inlined"),
    ("async fn, out of line", "fn, out of line", "`async fn`s instead of functions, neither inlined"),
    ("async fn in a trait", "async fn", "functions of a trait"),
    ("by hand", "async fn", "futures written by hand"),
    ("Box dyn Future", "async fn", "a box for each call"),
    ("async_trait", "Box dyn Future", "`#[async_trait]` instead of boxes by hand"),
    ("async_trait", "async fn", "`#[async_trait]` instead of no box"),
    ("async_trait, dyn", "async_trait", "objects behind `dyn`"),
    ("enum", "async fn", "an enum around each future"),
    ("AsyncFn", "async fn", "closures instead of functions"),
    ("recursion", "async fn", "recursion, with a box for each call"),
];

// %% [markdown]
// And the points at which they are measured.

// %%
fn shapes() -> Vec<Row> {
    let mut rows = Vec::new();
    for (depth, waits) in POINTS {
        let mut ways = match depth {
            1 => all_shapes!(1, Innermost, InnermostByHand, f1),
            4 => all_shapes!(4, D4, H4, f4),
            16 => all_shapes!(16, D16, H16, f16),
            _ => all_shapes!(32, D32, H32, f32),
        };
        ways.extend(match depth {
            1 => Some(("AsyncFn", closures!(async |job: Job| innermost_call!(job);))),
            4 => Some(("AsyncFn", closures!(async |job: Job| innermost_call!(job); . . .))),
            16 => Some((
                "AsyncFn",
                closures!(async |job: Job| innermost_call!(job); . . . . . . . . . . . . . . .),
            )),
            _ => None,
        });
        let waiting = waits != "never";
        let of_functions = |name: &str| waiting && name.starts_with("fn");
        for (variant, way) in ways {
            if !of_functions(variant) {
                let row = shape_row(variant, depth, waits, way);
                let changes = SHAPES.iter().filter(|shape| shape.0 == variant && !of_functions(shape.1));
                let row = changes.fold(row, |row, (_, base, change)| row.compared_with(base, change));
                let deep = depth == 32 && waits == "each";
                let shallow = || "depth=4 waits=each".to_owned();
                rows.push(if deep {
                    row.compared_across(variant, shallow(), "32 calls instead of four")
                } else {
                    row
                });
            }
        }
    }
    let object = RefCell::new(Reused { make: f1, place: Box::pin(None) });
    let bytes = future_size!(f1(ONE_CALL));
    let code = move |job| block_on(pin!(call_reusing(black_box(&mut *object.borrow_mut()), job)));
    let reusing = shape_row("dyn, one place", 1, "never", Way { code: Rc::new(code), bytes });
    rows.push(reusing.compared_with("async_trait, dyn", "a place that is used again instead of a box"));
    rows
}

// %% [markdown]
// # The study
//
// Proof first: each way does its job once, in the code that is timed, and must produce the output and the number of
// polls that the job demands. The size of its future is noted.

// %%
/// Every row.
pub fn rows() -> Vec<Row> {
    [
        inline_or_boxed(),
        places(),
        spawns(),
        buffer_arguments(),
        wrapped(),
        nested(),
        woken(),
        shapes(),
        beside_thread(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What a row counts.
///
/// # Errors
/// If it does not come to what it must.
pub fn proven(row: &Row) -> Result<Counts, UnequalWork> {
    let count = |done: Outcome| Counts::from([("value", done.value), ("polls", done.polls)]);
    prove(&row.key, &count(row.expected), &count((row.way.code)(row.job)))?;
    let bytes = row.way.bytes as u64;
    Ok(Counts::from([("units", row.units), ("polls", row.expected.polls), ("future_bytes", bytes)]))
}

// %% [markdown]
// Each kind of row is a group, with a control.

// %%
/// All rows, proven.
///
/// # Errors
/// As [`proven`].
pub fn study() -> Result<Study, UnequalWork> {
    let mut study = Study::new("async-fn").unit("call").rounds(12, 120);
    let mut group = String::new();
    for row in rows() {
        let Row { key, job, way, .. } = &row;
        if group != key.bench {
            group.clone_from(&key.bench);
            study = study.group(&group, limit::CALLS).control_of(key.clone());
        }
        let (code, job) = (Rc::clone(&way.code), *job);
        let is_apart = key.bench == BESIDE_THREAD;
        study = if is_apart { study.uncounted() } else { study };
        study = study.counts(key, proven(&row)?).bench(key.clone(), move |bencher: &mut Bencher<'_>| {
            if is_apart {
                return bencher.samples(&mut || sample_beside_thread(&*code, job));
            }
            bencher.iter(&mut || {
                black_box(code(black_box(job)));
            });
        });
        for (variant, parameter, change) in &row.compared {
            study = study.compare(key.clone(), Key::new(&key.bench, variant, parameter), change);
        }
    }
    Ok(study)
}

// %% [markdown]
// # A glance
//
// A call of 4 KiB in a task, inline and boxed, a second each. Choose another size, or `calls=1000`.

// %% tags=["active-ipynb", "glance"]
// study().unwrap_or_else(harness::stop).glance(|key| {
//     key.bench == "call" && key.parameter == "bytes=4096 calls=1"
// }).unwrap_or_else(harness::stop)

// %% [markdown]
// # Measurement
//
// `quick` takes some seconds once it is compiled, and is no evidence. For evidence, set the environment variable `ASYNC_COST_PROFILE` to
// `standard` or `thorough` before you start the kernel.

// %% tags=["active-ipynb"]
// {
//     let profile = harness::Profile::from_env().unwrap_or_else(harness::stop);
//     let outcome = study().unwrap_or_else(harness::stop).measure(&profile).unwrap_or_else(harness::stop);
//     println!("{outcome}");
// };

// %% [markdown]
// The [analysis](analysis.ipynb) has the results.
//
// # What this does not say
//
// Futures are polled where they lie, by a loop; a runtime adds its own. One thread, the allocator of the system, and
// what a task touches fits into a cache. A call here does next to nothing: compare the differences with the time of your
// own calls.
