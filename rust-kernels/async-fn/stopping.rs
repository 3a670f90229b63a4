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
// # What do `select!`, `join!` and a timeout add, and what happens to a future that is dropped?
//
// A future waits for one thing. What waits for several asks all of them, or keeps a waker for each. And what waits can be
// stopped at any await: by a `select!` that another arm has won, by a timeout, by an abort. Then its destructors run:
// when, and on whose thread, is up to the runtime.
//
// [The other notebook](measure.ipynb) is about a future by itself: how large it is, who copies it, how it is called.

// %% [markdown]
// ## Compile cells as for a benchmark

// %% tags=["active-ipynb"]
// :build_env CARGO_PROFILE_DEV_OPT_LEVEL=3
// :build_env CARGO_PROFILE_DEV_DEBUG_ASSERTIONS=false
// :build_env CARGO_PROFILE_DEV_OVERFLOW_CHECKS=false
// :build_env CARGO_PROFILE_DEV_CODEGEN_UNITS=1
// :build_env CARGO_INCREMENTAL=0
// :dep frontier = { path = "../../rust-kernels/ladder/frontier" }
// :dep futures = "=0.3.34"
// :dep harness = { path = "../../rust-kernels/harness" }
// :dep nio = "=0.1.4"
// :dep runtimes-executor = { path = "../../rust-kernels/runtimes/executor" }
// :dep smol = "=2.0.2"
// :dep tokio = { version = "=1.54.1", features = ["macros", "rt-multi-thread", "sync", "time"] }
// :dep zero-cost-loop = { path = "../../rust-kernels/zero-cost/loop" }

// %%
use std::future::{pending, poll_fn, ready};
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use frontier::{Executor, Fake, Reactor};
use futures::FutureExt;
use futures::future::{abortable, join_all, select_all};
use futures::stream::{FuturesUnordered, StreamExt};
use futures::task::AtomicWaker;
use harness::{Bencher, Counts, Key, Study, UnequalWork, future_size, limit, prove, prove_isolated};
use tokio::task::JoinSet;
use zero_cost_loop::{Stats, TASKS, Timed};

// %% [markdown]
// # Events
//
// So many things happen one after the other, each to one **arm**, which waits for it. An arm is a future of two words,
// the same in all variants. The next thing happens when nobody has anything to do.

// %%
/// What happens to arms.
#[derive(Default)]
pub struct Events {
    arms: Vec<(AtomicBool, AtomicWaker)>,
    /// How many things have happened to arms that know of it.
    known: AtomicU64,
    /// How often an arm was polled.
    polls: AtomicU64,
}

impl Events {
    fn of(arms: usize) -> Arc<Self> {
        let arms = (0..arms).map(|_| Default::default()).collect();
        Arc::new(Self { arms, ..Self::default() })
    }

    /// Something happens to this arm.
    fn happen(&self, arm: usize) {
        self.arms[arm].0.store(true, Ordering::Relaxed);
        self.arms[arm].1.wake();
    }
}

/// Waits for what happens to one arm, and has its number.
pub struct Arm {
    events: Arc<Events>,
    number: usize,
}

impl Future for Arm {
    type Output = u64;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<u64> {
        let (happened, waker) = &self.events.arms[self.number];
        self.events.polls.fetch_add(1, Ordering::Relaxed);
        if happened.swap(false, Ordering::Relaxed) {
            self.events.known.fetch_add(1, Ordering::Relaxed);
            return Poll::Ready(self.number as u64);
        }
        waker.register(context.waker());
        Poll::Pending
    }
}

// %% [markdown]
// One round: a future that waits for all arms, and whoever lets things happen. An arm knows what happened before the next
// thing does. The order is that of a stride, so that it is neither the order of the arms nor its reverse.

// %%
/// A number that has no factor in common with the numbers of arms.
const STRIDE: usize = 3;

/// Waits, while things happen to one arm after the other; then all have happened.
async fn round(events: &Events, waiting: impl Future<Output = u64>) -> u64 {
    let mut waiting = pin!(waiting);
    let mut happened = 0;
    poll_fn(|context| {
        if let Poll::Ready(sum) = waiting.as_mut().poll(context) {
            return Poll::Ready(sum);
        }
        if events.known.load(Ordering::Relaxed) == happened as u64 && happened < events.arms.len() {
            events.happen(happened * STRIDE % events.arms.len());
            happened += 1;
        }
        Poll::Pending
    })
    .await
}

// %% [markdown]
// # Waiting for several
//
// By hand: all arms that are left are asked at every poll. This is also what `select!` and `join!` do.

// %%
/// Asks each arm that has nothing yet.
async fn by_hand(arms: Vec<Arm>) -> u64 {
    let mut left: Vec<Option<Arm>> = arms.into_iter().map(Some).collect();
    let (mut sum, mut missing) = (0, left.len());
    poll_fn(|context| {
        for place in &mut left {
            if let Some(arm) = place
                && let Poll::Ready(number) = Pin::new(arm).poll(context)
            {
                *place = None;
                sum += number;
                missing -= 1;
            }
        }
        if missing == 0 { Poll::Ready(sum) } else { Poll::Pending }
    })
    .await
}

/// `select_all` of those that are left, until none is.
async fn by_select_all(mut arms: Vec<Arm>) -> u64 {
    let mut sum = 0;
    while !arms.is_empty() {
        let (number, _, left) = select_all(arms).await;
        sum += number;
        arms = left;
    }
    sum
}

async fn by_join_all(arms: Vec<Arm>) -> u64 {
    join_all(arms).await.into_iter().sum()
}

// %% [markdown]
// These keep a waker for each arm, and ask the one that was woken; a `JoinSet` makes a task of each.

// %%
async fn by_unordered(arms: Vec<Arm>) -> u64 {
    arms.into_iter().collect::<FuturesUnordered<_>>().fold(0, async |sum, number| sum + number).await
}

async fn by_join_set(arms: Vec<Arm>) -> u64 {
    let mut set: JoinSet<u64> = arms.into_iter().collect();
    let mut sum = 0;
    while let Some(number) = set.join_next().await {
        sum += number.expect("an arm does not panic");
    }
    sum
}

// %% [markdown]
// The macros list their arms, so there is one function for two and one for eight.

// %%
/// Functions of arms that use the macros of futures and of tokio.
mod by_macros {
    use super::Arm;
    use futures::FutureExt;

    /// As functions of arms: `join!` and `select!` of futures and of tokio.
    macro_rules! macros {
        ($count:literal: $joined:ident $joined_tokio:ident $selected:ident $selected_tokio:ident $biased:ident; $($arm:ident)*) => {
            pub async fn $joined(arms: Vec<Arm>) -> u64 {
                let [$($arm),*]: [Arm; $count] = arms.try_into().ok().expect("so many arms");
                let ($($arm,)*) = futures::join!($($arm),*);
                0 $(+ $arm)*
            }

            pub async fn $joined_tokio(arms: Vec<Arm>) -> u64 {
                let [$($arm),*]: [Arm; $count] = arms.try_into().ok().expect("so many arms");
                let ($($arm,)*) = tokio::join!($($arm),*);
                0 $(+ $arm)*
            }

            pub async fn $selected(arms: Vec<Arm>) -> u64 {
                let arms: [Arm; $count] = arms.try_into().ok().expect("so many arms");
                let [$(mut $arm),*] = arms.map(FutureExt::fuse);
                let mut sum = 0;
                loop {
                    futures::select! {
                        $(number = $arm => sum += number,)*
                        complete => return sum,
                    }
                }
            }

            macros!(tokio $count $selected_tokio {} $($arm)*);
            macros!(tokio $count $biased {biased;} $($arm)*);
        };
        (tokio $count:literal $name:ident {$($biased:tt)*} $($arm:ident)*) => {
            pub async fn $name(arms: Vec<Arm>) -> u64 {
                let arms: [Arm; $count] = arms.try_into().ok().expect("so many arms");
                let [$(mut $arm),*] = arms.map(|arm| (arm, false));
                let mut sum = 0;
                loop {
                    tokio::select! {
                        $($biased)*
                        $(number = &mut $arm.0, if !$arm.1 => { sum += number; $arm.1 = true; })*
                        else => return sum,
                    }
                }
            }
        };
    }
    macros!(2: join2 tokio_join2 select2 tokio_select2 tokio_biased2; a b);
    macros!(8: join8 tokio_join8 select8 tokio_select8 tokio_biased8; a b c d e f g h);
}

use by_macros::{
    join2, join8, select2, select8, tokio_biased2, tokio_biased8, tokio_join2, tokio_join8, tokio_select2,
    tokio_select8,
};

// %% [markdown]
// # What is around one future
//
// A timeout that does not fire, and two ways to be cancelled by nobody: `abortable`, and a `select!` with a message that
// does not come.

// %%
async fn alone(mut arms: Vec<Arm>) -> u64 {
    arms.remove(0).await
}

async fn with_timeout(mut arms: Vec<Arm>) -> u64 {
    tokio::time::timeout(HOUR, arms.remove(0)).await.expect("an hour does not pass")
}

async fn with_abortable(mut arms: Vec<Arm>) -> u64 {
    let (future, _handle) = abortable(arms.remove(0));
    future.await.expect("nobody aborts it")
}

async fn with_message(mut arms: Vec<Arm>) -> u64 {
    let (_sender, mut message) = tokio::sync::oneshot::channel::<()>();
    tokio::select! {
        number = arms.remove(0) => number,
        _ = &mut message => unreachable!("nobody sends"),
    }
}

/// Far longer than a sample.
const HOUR: Duration = Duration::from_secs(3600);

// %% [markdown]
// ## The rows
//
// All of it runs in `block_on` of a tokio on the calling thread, since a `JoinSet` can run nowhere else. Each event wakes
// that, so what a wake of `block_on` takes is in every figure, and ratios are nearer to one than without it. Arms are made anew
// in every round. Before anything is timed, a round must end with the sum of all numbers, and each arm must know what
// happened to it.

// %%
/// One round: its sum.
type Round = Rc<dyn Fn() -> u64>;

/// A way to wait: a round of so many arms, its events, and how large its future is.
pub struct Waiting {
    variant: &'static str,
    arms: usize,
    events: Arc<Events>,
    round: Round,
    bytes: usize,
}

/// tokio on this thread, with its timers.
fn current_thread() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("no thread is needed")
}

/// So many arms waited for like this.
fn waiting<F>(variant: &'static str, arms: usize, wait: impl Fn(Vec<Arm>) -> F + 'static) -> Waiting
where
    F: Future<Output = u64>,
{
    let (events, runtime) = (Events::of(arms), current_thread());
    let bytes = future_size!(wait(Vec::new()));
    let of_round = Arc::clone(&events);
    let round = move || {
        of_round.known.store(0, Ordering::Relaxed);
        let arm = |number| Arm { events: Arc::clone(&of_round), number };
        let arms: Vec<Arm> = (0..arms).map(arm).collect();
        runtime.block_on(round(&of_round, wait(black_box(arms))))
    };
    Waiting { variant, arms, events, round: Rc::new(round), bytes }
}

// %% [markdown]
// The table: what is around one arm, what takes any number of them, and the macros, for two and for eight.

// %%
/// What several arms are compared with.
const BY_HAND: &str = "by hand";

/// All of them; the first of each number of arms is what the others are compared with.
pub fn waitings() -> Vec<Waiting> {
    let mut all = vec![
        waiting("alone", 1, alone),
        waiting("timeout", 1, with_timeout),
        waiting("abortable", 1, with_abortable),
        waiting("select! with a message", 1, with_message),
    ];
    for arms in [2, 8, 64, 256] {
        all.push(waiting(BY_HAND, arms, by_hand));
        all.push(waiting("select_all", arms, by_select_all));
        all.push(waiting("join_all", arms, by_join_all));
        all.push(waiting("FuturesUnordered", arms, by_unordered));
        all.push(waiting("JoinSet", arms, by_join_set));
    }
    macro_rules! macros {
        ($($arms:literal: $($variant:literal $wait:ident),*;)*) => {
            $($(all.push(waiting($variant, $arms, $wait));)*)*
        };
    }
    macros! {
        2: "futures::join!" join2, "tokio::join!" tokio_join2, "futures::select!" select2,
           "tokio::select!" tokio_select2, "tokio::select!, biased" tokio_biased2;
        8: "futures::join!" join8, "tokio::join!" tokio_join8, "futures::select!" select8,
           "tokio::select!" tokio_select8, "tokio::select!, biased" tokio_biased8;
    }
    all
}

// %% [markdown]
// A round is proved by what it has done: the sum of all numbers, and arms that know of everything.

// %%
impl Waiting {
    fn key(&self) -> Key {
        Key::new("events", self.variant, format!("arms={}", self.arms))
    }

    /// What a round counts, in the code that is timed.
    ///
    /// # Errors
    /// If not every arm is heard once.
    pub fn proven(&self) -> Result<Counts, UnequalWork> {
        let arms = self.arms as u64;
        let before = self.events.polls.load(Ordering::Relaxed);
        let sum = (self.round)();
        let polls = self.events.polls.load(Ordering::Relaxed) - before;
        let known = self.events.known.load(Ordering::Relaxed);
        let expected = Counts::from([("sum", arms * (arms - 1) / 2), ("known", arms)]);
        prove(self.key(), &expected, &Counts::from([("sum", sum), ("known", known)]))?;
        let mut counts = Counts::from([("units", arms), ("future_bytes", self.bytes as u64)]);
        // In the order of a lot, the number of polls is another each time.
        if self.variant != "tokio::select!" {
            counts.insert("arm_polls", polls);
        }
        Ok(counts)
    }
}

// %% [markdown]
// # Who runs the destructor?
//
// A task has a witness, whose destructor notes when it runs, and on which thread. It is stopped in one of four states.

// %%
/// Tells of its destructor.
pub struct Witness(Sender<(Instant, ThreadId)>);

impl Drop for Witness {
    fn drop(&mut self) {
        // Whoever asked may have gone.
        _ = self.0.send((Instant::now(), thread::current().id()));
    }
}

/// What a task is doing when it is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It was not polled yet.
    New,
    /// It waits for a message that does not come.
    Message,
    /// It waits for a timer of its runtime.
    Timer,
    /// It waits for a message and holds a permit of a semaphore.
    Permit,
}

pub const STATES: [State; 4] = [State::New, State::Message, State::Timer, State::Permit];

/// One permit, the message that does not come, and whoever is told that a task has begun.
pub struct Begun {
    permit: Arc<tokio::sync::Semaphore>,
    message: tokio::sync::oneshot::Receiver<()>,
    told: Sender<()>,
}

/// A task in that state.
async fn in_state(state: State, begun: Begun, witness: Witness, timer: impl Future) {
    // Locals are dropped in the reverse order: the permit before the witness tells.
    let _witness = witness;
    let _permit = match state {
        State::Permit => Some(begun.permit.acquire_owned().await.expect("it is not closed")),
        _ => None,
    };
    _ = begun.told.send(());
    match state {
        State::Timer => drop(timer.await),
        // Nobody sends, and nobody goes before the task.
        _ => drop(begun.message.await),
    }
}

// %% [markdown]
// Runtimes differ in how a task is stopped. What some lack is not here: no task of [the frontier](../ladder/frontier.ipynb)
// or of [ours](../runtimes/executor.ipynb) can be stopped by itself, so they end with their executor.

// %%
/// How a task is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// By a call: `abort`, or what drops a `Task` of smol.
    Abort,
    /// Its handle is dropped, or detached where dropping it stops the task.
    Handle,
    /// The runtime is dropped.
    Runtime,
    /// The future is dropped where it lies.
    InPlace,
    /// Another arm of a `select!` is ready.
    Select,
    /// A timeout fires.
    Timeout,
}

/// A runtime whose tasks are stopped.
pub trait Stops: Sized {
    const NAME: &str;
    /// Whether tasks run on threads of its own.
    const THREADS: bool = true;
    type Handle;
    fn new() -> Self;
    /// Starts a task in this state.
    fn start(&self, state: State, begun: Begun, witness: Witness) -> Self::Handle;
    /// Lets tasks run on the calling thread, where they do.
    fn turn(&self) {}
    /// Stops it; false if there is no such call.
    fn abort(handle: Self::Handle) -> bool;
    /// Lets it run on.
    fn let_go(handle: Self::Handle) {
        drop(handle);
    }
    /// Ends the runtime; false if that cannot be done.
    fn end(self) -> bool {
        drop(self);
        true
    }
}

// %% [markdown]
// tokio has two runtimes, and says by a method how a task is aborted.

// %%
/// tokio, on so many threads of its own; none: on the caller's.
pub struct Tokio<const THREADS: usize>(tokio::runtime::Runtime);

impl<const THREADS: usize> Stops for Tokio<THREADS> {
    const NAME: &str = if THREADS == 0 { "tokio current_thread" } else { "tokio multi_thread" };
    const THREADS: bool = THREADS > 0;
    type Handle = tokio::task::JoinHandle<()>;

    fn new() -> Self {
        let mut threads = tokio::runtime::Builder::new_multi_thread();
        threads.worker_threads(THREADS.max(1)).enable_time();
        Self(if THREADS == 0 { current_thread() } else { threads.build().expect("threads for tokio") })
    }

    fn start(&self, state: State, begun: Begun, witness: Witness) -> Self::Handle {
        self.0.spawn(async move { in_state(state, begun, witness, tokio::time::sleep(HOUR)).await })
    }

    fn turn(&self) {
        if THREADS == 0 {
            self.0.block_on(tokio::task::yield_now());
        }
    }

    fn abort(handle: Self::Handle) -> bool {
        handle.abort();
        true
    }
}

// %% [markdown]
// smol's executor lives as long as the process here, as in most programs. nio's timers stay with their thread, so its task
// is pinned.

// %%
/// Threads of those that have some.
const WORKERS: usize = 2;

/// smol, with two threads that run its executor.
pub struct Smol;

static SMOL: smol::Executor<'static> = smol::Executor::new();

impl Stops for Smol {
    const NAME: &str = "smol";
    type Handle = smol::Task<()>;

    fn new() -> Self {
        for _ in 0..WORKERS {
            thread::spawn(|| smol::block_on(SMOL.run(pending::<()>())));
        }
        Self
    }

    fn start(&self, state: State, begun: Begun, witness: Witness) -> Self::Handle {
        SMOL.spawn(in_state(state, begun, witness, smol::Timer::after(HOUR)))
    }

    fn abort(handle: Self::Handle) -> bool {
        drop(handle);
        true
    }

    fn let_go(handle: Self::Handle) {
        handle.detach();
    }

    fn end(self) -> bool {
        false
    }
}

// %% [markdown]
// nio and our executor always have threads of their own.

// %%
/// nio.
pub struct Nio(nio::Runtime);

impl Stops for Nio {
    const NAME: &str = "nio";
    type Handle = nio::JoinHandle<()>;

    fn new() -> Self {
        Self(nio::RuntimeBuilder::new().worker_threads(WORKERS as u8).rt().expect("threads for nio"))
    }

    fn start(&self, state: State, begun: Begun, witness: Witness) -> Self::Handle {
        if state != State::Timer {
            return self.0.spawn(in_state(state, begun, witness, pending::<()>()));
        }
        let task = move || async move { in_state(state, begun, witness, nio::sleep(HOUR)).await };
        self.0.block_on(|| ready(task).map(nio::spawn_pinned))
    }

    fn abort(handle: Self::Handle) -> bool {
        handle.abort();
        true
    }
}

/// Ours.
pub struct Ours(runtimes_executor::Runtime);

impl Stops for Ours {
    const NAME: &str = "ours";
    type Handle = runtimes_executor::JoinHandle<()>;

    fn new() -> Self {
        Self(runtimes_executor::Runtime::new(runtimes_executor::Settings::new(WORKERS)))
    }

    fn start(&self, state: State, begun: Begun, witness: Witness) -> Self::Handle {
        self.0.spawn(async move { in_state(state, begun, witness, runtimes_executor::sleep(HOUR)).await })
    }

    fn abort(handle: Self::Handle) -> bool {
        drop(handle);
        false
    }
}

// %% [markdown]
// Now a task is stopped, and who drops it is one of four: the caller, before the call returns; the caller, when it lets
// tasks run again; another thread; or nobody, as long as the runtime is there.

// %%
/// Who runs the destructor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    Caller,
    CallerLater,
    Worker,
    Nobody,
}

impl Who {
    /// Under which name it is counted; `otherwise` is what nobody was seen to do.
    fn counter(self, stop: Stop) -> &'static str {
        match (stop, self) {
            (Stop::Abort, Self::CallerLater) => "abort_by_caller_later",
            (Stop::Abort, Self::Worker) => "abort_by_worker",
            (Stop::Handle, Self::Nobody) => "handle_by_nobody",
            (Stop::Runtime, Self::Caller) => "runtime_by_caller",
            (Stop::Runtime, Self::Worker) => "runtime_by_worker",
            (Stop::Runtime, Self::Nobody) => "runtime_by_nobody",
            (Stop::InPlace | Stop::Select | Stop::Timeout, Self::Caller) => "in_place_by_caller",
            _ => "otherwise",
        }
    }
}

// %% [markdown]
// What hangs must end, too. A task is stopped once it is known to wait.

// %%
/// How long anything here may take before it counts as hanging.
pub const LIMIT: Duration = Duration::from_secs(30);

/// How long a destructor is waited for: of a task that is stopped, far longer than anybody takes, and of one that runs on,
/// long enough to see one that was not expected.
fn patience(stop: Stop) -> Duration {
    if stop == Stop::Handle { Duration::from_millis(50) } else { LIMIT / 2 }
}

/// A task that is about to be stopped, and what tells of its end.
struct Stopping<H> {
    handle: H,
    permit: Arc<tokio::sync::Semaphore>,
    dropped: Receiver<(Instant, ThreadId)>,
    /// Whoever could send the message.
    sender: tokio::sync::oneshot::Sender<()>,
}

/// Starts a task, and waits until it waits.
fn begin<H>(state: State, start: impl FnOnce(Begun, Witness) -> H, turn: impl FnOnce()) -> Stopping<H> {
    let (told, begun) = channel();
    let (witness, dropped) = channel();
    let (sender, message) = tokio::sync::oneshot::channel();
    let permit = Arc::new(tokio::sync::Semaphore::new(1));
    let handle = start(Begun { permit: Arc::clone(&permit), message, told }, Witness(witness));
    if state != State::New {
        turn();
        begun.recv_timeout(LIMIT / 2).expect("the task begins");
    }
    Stopping { handle, permit, dropped, sender }
}

fn begin_on<R: Stops>(runtime: &R, state: State) -> Stopping<R::Handle> {
    begin(state, |begun, witness| runtime.start(state, begun, witness), || runtime.turn())
}

/// When and on which thread a destructor ran, if it did.
type Dropped = Option<(Instant, ThreadId)>;
/// When a task was stopped, what its destructor told, and how many permits there are.
type Ended = (Instant, Dropped, usize);

/// Whose thread it was.
fn of_thread(dropped: Dropped) -> Who {
    match dropped {
        None => Who::Nobody,
        Some((_, thread)) if thread == thread::current().id() => Who::Caller,
        Some(_) => Who::Worker,
    }
}

// %% [markdown]
// What is left behind is counted, too: permits that nobody has, of one.

// %%
/// Who dropped a task of this state that was stopped like this, and how many permits there are afterwards. None where
/// it cannot be stopped like this, or where a worker may poll it before.
pub fn who<R: Stops>(state: State, stop: Stop) -> Option<(Who, usize)> {
    if state == State::New && R::THREADS {
        return None;
    }
    let runtime = R::new();
    let Stopping { handle, permit, dropped, sender: _sender } = begin_on(&runtime, state);
    match stop {
        Stop::Abort => {
            if !R::abort(handle) {
                return None;
            }
        }
        Stop::Handle => R::let_go(handle),
        _ => {
            let ended = runtime.end();
            return ended.then(|| (of_thread(dropped.try_recv().ok()), permit.available_permits()));
        }
    }
    let at_once = dropped.try_recv().ok();
    let who = if at_once.is_some() {
        of_thread(at_once)
    } else {
        runtime.turn();
        match of_thread(dropped.recv_timeout(patience(stop)).ok()) {
            Who::Caller => Who::CallerLater,
            who => who,
        }
    };
    let permits = permit.available_permits();
    std::mem::forget(runtime);
    Some((who, permits))
}

// %% [markdown]
// The frontier has no handles. What is dropped is the executor, with its task in it.

// %%
/// Lets others run, and breaks off: the frontier's `run` ends when all tasks have, or when its root panics.
async fn breaks_off() {
    for _ in 0..10 {
        smol::future::yield_now().await;
    }
    resume_unwind(Box::new(()));
}

/// Drops the frontier's executor with a task in this state.
fn end_frontier(state: State) -> Ended {
    let stats = Stats::new(false);
    let reactor = Reactor::<_, Timed<()>>::new(Fake::new(&stats), TASKS).expect("room for all objects");
    let executor = Executor::new(&reactor, TASKS);
    let start =
        |begun, witness| executor.spawn(|| in_state(state, begun, witness, pending::<()>())).expect("room");
    let Stopping { permit, dropped, sender: _sender, .. } = begin(state, start, || {
        catch_unwind(AssertUnwindSafe(|| executor.run(breaks_off()))).expect_err("it breaks off");
    });
    let start = Instant::now();
    drop(executor);
    (start, dropped.try_recv().ok(), permit.available_permits())
}

/// As [`who`], when the frontier's executor is dropped.
pub fn who_on_frontier(state: State) -> (Who, usize) {
    let (_, dropped, permits) = end_frontier(state);
    (of_thread(dropped), permits)
}

// %% [markdown]
// And without a runtime's help: a future that is dropped where it lies, one that loses in a `select!`, one around which a
// timeout fires.

// %%
/// Drops a future in this state.
fn drop_future(stop: Stop, state: State) -> Ended {
    let runtime = current_thread();
    let start = |begun, witness| {
        let mut future = Box::pin(in_state(state, begun, witness, pending::<()>()));
        if state != State::New {
            let waits = runtime.block_on(async { futures::poll!(&mut future) });
            assert!(waits.is_pending(), "it waits for ever");
        }
        future
    };
    let Stopping { handle: future, permit, dropped, sender: _sender } = begin(state, start, || {});
    let start = runtime.block_on(async {
        let start = Instant::now();
        match stop {
            Stop::Select => tokio::select! {
                () = future => unreachable!("it waits for ever"),
                () = tokio::task::yield_now() => {}
            },
            Stop::Timeout => drop(tokio::time::timeout(Duration::from_millis(1), future).await),
            _ => drop(future),
        }
        start
    });
    (start, dropped.try_recv().ok(), permit.available_permits())
}

/// As [`who`], for futures that another one drops.
pub fn who_in_place(stop: Stop, state: State) -> (Who, usize) {
    let (_, dropped, permits) = drop_future(stop, state);
    (of_thread(dropped), permits)
}

// %% [markdown]
// In how many of the states, and how many permits are missing afterwards: this is counted of every runtime, and must be
// what was found when this was written, before any of it is timed.

// %%
/// Sums up who dropped a task, and permits that are missing.
fn table_of(all: impl IntoIterator<Item = (Stop, (Who, usize))>) -> Counts {
    let mut counts = Counts::new();
    for (stop, (who, permits)) in all {
        *counts.entry(who.counter(stop)).or_default() += 1;
        *counts.entry("permits_missing").or_default() += 1 - permits as u64;
    }
    counts
}

/// What a runtime does.
pub fn table<R: Stops>() -> Counts {
    let pairs = [Stop::Abort, Stop::Handle, Stop::Runtime]
        .into_iter()
        .flat_map(|stop| STATES.map(|state| (stop, state)));
    table_of(pairs.filter_map(|(stop, state)| Some((stop, who::<R>(state, stop)?))))
}

/// What the frontier does.
pub fn table_of_frontier() -> Counts {
    table_of(STATES.map(|state| (Stop::Runtime, who_on_frontier(state))))
}

/// What futures do to futures.
pub fn table_in_place() -> Counts {
    let stops = [Stop::InPlace, Stop::Select, Stop::Timeout];
    table_of(stops.into_iter().flat_map(|stop| STATES.map(|state| (stop, who_in_place(stop, state)))))
}

/// Under these names.
const IN_PLACE: &str = "in place";
const FRONTIER: &str = "frontier";

/// What the table of each must be.
pub fn expected(name: &str) -> Counts {
    let (whos, missing): (&[(&'static str, u64)], u64) = match name {
        IN_PLACE => (&[("in_place_by_caller", 12)], 0),
        FRONTIER => (&[("runtime_by_caller", 4)], 0),
        "tokio current_thread" => {
            (&[("abort_by_caller_later", 4), ("handle_by_nobody", 4), ("runtime_by_caller", 4)], 1)
        }
        "tokio multi_thread" => {
            (&[("abort_by_worker", 3), ("handle_by_nobody", 3), ("runtime_by_worker", 3)], 1)
        }
        "smol" => (&[("abort_by_worker", 3), ("handle_by_nobody", 3)], 1),
        "nio" => (&[("abort_by_worker", 3), ("handle_by_nobody", 3), ("runtime_by_nobody", 3)], 2),
        _ => (&[("handle_by_nobody", 3), ("runtime_by_caller", 3)], 1),
    };
    whos.iter().copied().chain([("permits_missing", missing)]).collect()
}

// %% tags=["active-ipynb"]
// for (name, table) in [
//     (IN_PLACE, table_in_place as fn() -> _), (FRONTIER, table_of_frontier), (<Tokio<0>>::NAME, table::<Tokio<0>>),
//     (<Tokio<WORKERS>>::NAME, table::<Tokio<WORKERS>>), (Smol::NAME, table::<Smol>), (Nio::NAME, table::<Nio>),
//     (Ours::NAME, table::<Ours>),
// ] {
//     println!("{name}: {:?}", harness::isolated(LIMIT, move || format!("{:?}", table())));
// }

// %% [markdown]
// # How long until it has run?
//
// From the call that stops a task to the clock that its destructor reads. Starting the task, and waiting until it waits,
// is not timed. A task of tokio's current_thread is dropped when the runtime runs again, so that is part of its time.

// %%
/// Drops so many tasks one after the other, and adds up how long their destructors took to come.
fn until_dropped(iterations: u64, end: impl Fn() -> Ended) -> Duration {
    let each = |_| {
        let (start, dropped, _) = end();
        dropped.expect("it is dropped").0 - start
    };
    (0..iterations).map(each).sum()
}

/// Stops tasks of one runtime.
fn stopped<R: Stops>(state: State, iterations: u64) -> Duration {
    let runtime = std::mem::ManuallyDrop::new(R::new());
    until_dropped(iterations, || {
        let Stopping { handle, permit, dropped, sender: _sender } = begin_on(&*runtime, state);
        let start = Instant::now();
        R::abort(handle);
        runtime.turn();
        (start, dropped.recv().ok(), permit.available_permits())
    })
}

/// Drops runtimes with one task each.
fn ended<R: Stops>(iterations: u64) -> Duration {
    until_dropped(iterations, || {
        let runtime = R::new();
        let Stopping { handle: _handle, permit, dropped, sender: _sender } =
            begin_on(&runtime, State::Message);
        let start = Instant::now();
        runtime.end();
        (start, dropped.recv().ok(), permit.available_permits())
    })
}

// %% [markdown]
// # The study
//
// Each trial has a process of its own, since most runtimes have threads. Waiting for events and stopping are groups of
// their own.

// %%
/// Stops so many tasks.
type Stopped = fn(u64) -> Duration;

/// What is stopped: on what, its parameter, its table and its code.
type OfRuntime = (&'static str, &'static str, fn() -> Counts, Stopped);

/// All of it; the first is what the others are compared with.
fn stops() -> Vec<OfRuntime> {
    const MESSAGE: &str = "stop=abort state=message";
    const TIMER: &str = "stop=abort state=timer";
    const END: &str = "stop=runtime state=message";
    macro_rules! aborted {
        ($($runtime:ty),*) => {
            [$((<$runtime>::NAME, MESSAGE, table::<$runtime> as fn() -> Counts, (|n| stopped::<$runtime>(State::Message, n)) as Stopped),
               (<$runtime>::NAME, TIMER, table::<$runtime>, |n| stopped::<$runtime>(State::Timer, n))),*]
        };
    }
    let dropped: Stopped = |n| until_dropped(n, || drop_future(Stop::InPlace, State::Message));
    let mut all = vec![(IN_PLACE, MESSAGE, table_in_place as fn() -> Counts, dropped)];
    all.extend(aborted!(Tokio<0>, Tokio<WORKERS>, Smol, Nio));
    all.push((<Tokio<0>>::NAME, END, table::<Tokio<0>>, ended::<Tokio<0>>));
    all.push((<Tokio<WORKERS>>::NAME, END, table::<Tokio<WORKERS>>, ended::<Tokio<WORKERS>>));
    all.push((Ours::NAME, END, table::<Ours>, ended::<Ours>));
    all.push((FRONTIER, END, table_of_frontier, |n| until_dropped(n, || end_frontier(State::Message))));
    all
}

// %% [markdown]
// A row is timed after its table, or its round, has been proved.

// %%
/// All of it, proven.
///
/// # Errors
/// If a way to wait does not hear each arm once. A runtime that does not do what it must is left out and named.
pub fn study() -> Result<Study, UnequalWork> {
    let mut study = Study::new("async-fn-stopping").rounds(2, 24).isolated(LIMIT).instructions(false);
    study = study.group("events", limit::CALLS).unit("event");
    for waiting in waitings() {
        let (key, round) = (waiting.key(), Rc::clone(&waiting.round));
        study = study.counts(&key, waiting.proven()?).bench(key.clone(), move |bencher: &mut Bencher<'_>| {
            bencher.iter(&mut || {
                black_box(round());
            });
        });
        let base = if waiting.arms == 1 { "alone" } else { BY_HAND };
        if waiting.variant == base {
            study = study.control_of(key);
        } else {
            let change = format!("`{}` instead of `{base}`", waiting.variant);
            study = study.compare(key.clone(), Key { variant: base.to_owned(), ..key }, change);
        }
    }
    study = study.group("stops", limit::CROWDS).unit("task");
    let stops = stops();
    let in_place = Key::new("stop", IN_PLACE, stops[0].1);
    for (name, parameter, table, stopped) in stops {
        let key = Key::new("stop", name, parameter);
        let proof = prove_isolated(&key, LIMIT, &expected(name), || [table()]);
        study = study.counts(&key, proof.clone().unwrap_or_default()).count(key.clone(), "units", 1);
        study = study.proven(key.clone(), proof, move |bencher: &mut Bencher<'_>| {
            bencher.iter_custom(&mut |iterations| stopped(iterations));
        });
        if key != in_place {
            study = study.compare(key.clone(), in_place.clone(), "a runtime, instead of a drop in place");
        }
    }
    Ok(study.control_of(in_place))
}

// %% [markdown]
// # A glance
//
// Eight arms, a second each. Choose `bench == "stop"`, and see how long a destructor takes to come.

// %% tags=["active-ipynb", "glance"]
// study().unwrap_or_else(harness::stop).glance(|key| {
//     key.bench == "events" && key.parameter == "arms=8"
// }).unwrap_or_else(harness::stop)

// %% [markdown]
// # Measurement
//
// `quick` takes some seconds and is not evidence. For that, set the environment variable `ASYNC_COST_PROFILE` to
// `standard` or `thorough` before you start the kernel.

// %% tags=["active-ipynb"]
// {
//     let profile = harness::Profile::from_env().unwrap_or_else(harness::stop);
//     let outcome = study().unwrap_or_else(harness::stop).measure(&profile).unwrap_or_else(harness::stop);
//     println!("{outcome}");
// };

// %% [markdown]
// The [analysis](analysis.ipynb) says what came of it.
//
// # What this does not say
//
// An arm is as small as a future can be, and things happen one at a time; what waits for arms that are ready together may
// be another. Nothing waits for a socket when it is stopped. A destructor that has to wait itself, such as one that sends
// a last message, cannot be written as one.
