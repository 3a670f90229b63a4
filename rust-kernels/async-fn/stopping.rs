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
// A future waits for one thing. To wait for several, a future asks all of them, or keeps a waker for each. And a waiting
// future can be stopped at any await: by a `select!` that another arm has won, by a timeout, by an abort. Then its
// destructors run: when, and on whose thread, is up to the runtime.
//
// [The other notebook](measure.ipynb) is about a single future: its size, its copies, how it is called.

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
// :dep tokio = { version = "=1.54.1", features = ["macros", "net", "rt-multi-thread", "sync", "time"] }
// :dep zero-cost-loop = { path = "../../rust-kernels/zero-cost/loop" }

// %% [markdown]
// From here on each cell is also a part of the crate `async-fn-stopping`, except cells that only show something.

// %%
use std::future::{pending, poll_fn, ready};
use std::hint::black_box;
use std::io::Read;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use frontier::{Epoll, Executor, Io, Reactor};
use futures::FutureExt;
use futures::future::{abortable, join_all, select_all};
use futures::stream::{FuturesUnordered, StreamExt};
use futures::task::AtomicWaker;
use harness::{Bencher, Counts, Key, Study, UnequalWork, future_size, limit, prove, prove_isolated};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use zero_cost_loop::{TASKS, Timed};

// %% [markdown]
// # Events
//
// A number of events happen one after the other, each to one **arm**, which waits for it. An arm is a future of two
// words, the same in all variants. The next event happens when no task has anything to do.

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
    fn fire(&self, arm: usize) {
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
// One round: a future that waits for all arms, and the code that makes events happen. An arm knows of its event before
// the next one happens. The order is that of a stride, so that it is neither the order of the arms nor its reverse.

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
            events.fire(happened * STRIDE % events.arms.len());
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
    let mut remaining: Vec<Option<Arm>> = arms.into_iter().map(Some).collect();
    let (mut sum, mut missing) = (0, remaining.len());
    poll_fn(|context| {
        for place in &mut remaining {
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
        let (number, _, remaining) = select_all(arms).await;
        sum += number;
        arms = remaining;
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
// # What is around one future
//
// A timeout that does not fire, and two unused ways to be cancelled: `abortable`, and a `select!` with a message that
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
    future.await.expect("it is not aborted")
}

async fn with_message(mut arms: Vec<Arm>) -> u64 {
    let (_sender, mut message) = tokio::sync::oneshot::channel::<()>();
    tokio::select! {
        number = arms.remove(0) => number,
        _ = &mut message => unreachable!("no message is sent"),
    }
}

/// Far longer than a sample.
const HOUR: Duration = Duration::from_secs(3600);

// %% [markdown]
// ## The rows
//
// All of it runs in `block_on` of a tokio on the calling thread, since a `JoinSet` can run nowhere else. Each event
// wakes `block_on`, so the time of that wake is in every figure, and ratios are nearer to one than without it. Arms are
// made anew in every round. Before a round is timed, it must end with the sum of all numbers, and each arm must know of
// its event.

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
    Builder::new_current_thread().enable_time().build().expect("no thread is needed")
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
// The macros list their arms, so there is one function of each for two and one for eight.

// %%
/// `join!` and `select!` of futures and of tokio, of so many arms.
#[macro_export]
macro_rules! by_macros {
    ($count:literal: $($arm:ident)*) => {{
        async fn joined(arms: Vec<Arm>) -> u64 {
            let [$($arm),*]: [Arm; $count] = arms.try_into().ok().expect("so many arms");
            let ($($arm,)*) = futures::join!($($arm),*);
            0 $(+ $arm)*
        }
        async fn joined_by_tokio(arms: Vec<Arm>) -> u64 {
            let [$($arm),*]: [Arm; $count] = arms.try_into().ok().expect("so many arms");
            let ($($arm,)*) = tokio::join!($($arm),*);
            0 $(+ $arm)*
        }
        async fn selected(arms: Vec<Arm>) -> u64 {
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
        by_macros!(selected_by_tokio $count {} $($arm)*);
        by_macros!(biased $count {biased;} $($arm)*);
        [
            waiting("futures::join!", $count, joined),
            waiting("tokio::join!", $count, joined_by_tokio),
            waiting("futures::select!", $count, selected),
            waiting("tokio::select!", $count, selected_by_tokio),
            waiting("tokio::select!, biased", $count, biased),
        ]
    }};
    ($name:ident $count:literal {$($biased:tt)*} $($arm:ident)*) => {
        async fn $name(arms: Vec<Arm>) -> u64 {
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

// %% [markdown]
// The table: wrappers of one arm, ways that take any number of arms, and the macros, for two and for eight.

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
    all.extend(by_macros!(2: a b));
    all.extend(by_macros!(8: a b c d e f g h));
    all
}

// %% [markdown]
// A round is proved by its result: the sum of all numbers, and arms that know of every event.

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
        if !matches!(self.variant, "futures::select!" | "tokio::select!") {
            counts.insert("arm_polls", polls);
        }
        Ok(counts)
    }
}

// %% [markdown]
// How often is each of eight arms asked?

// %% tags=["active-ipynb"]
// for waiting in waitings().iter().filter(|waiting| waiting.arms == 8) {
//     println!("{}: {:?}", waiting.variant, waiting.proven().map(|counts| counts.get("arm_polls").copied()));
// }

// %% [markdown]
// With a waker for each arm, an arm is asked at most twice: to leave the waker there, and after that was called.
// Without, all remaining arms are asked at every event, so the number grows with the square of the arms. A `select!`
// that is not biased begins at a random arm: its number differs each time, so none is shown.
//
// # Who runs the destructor?
//
// A task has a witness, whose destructor notes when it runs, and on which thread. The task is stopped in one of five
// states, which differ in who knows of it. A new one is known only to a queue. One that waits for a message has left a
// waker with the sender; one that waits for a timer, or for a socket, has left it with its runtime, and has to be taken
// out there. One that holds a permit blocks others until it is dropped.

// %%
/// Tells of its destructor.
pub struct Witness(Sender<(Instant, ThreadId)>);

impl Drop for Witness {
    fn drop(&mut self) {
        // The receiver may be gone.
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
    /// It waits in a reactor, until it can read from a socket whose other end says nothing.
    Socket,
}

/// The states in which a task may be on every runtime.
pub const STATES: &[State] = &[State::New, State::Message, State::Timer, State::Permit];
/// And where there is a reactor.
pub const SOCKET: &[State] = &[State::Socket];

// %% [markdown]
// A task gets what its state needs, and says when it waits.

// %%
/// One permit, the message that does not come, a socket if one is waited for, and the channel on which the task says that it waits.
pub struct TaskInputs {
    permit: Arc<tokio::sync::Semaphore>,
    message: tokio::sync::oneshot::Receiver<()>,
    socket: Option<UnixStream>,
    started: Sender<()>,
}

/// A task in that state, which waits for a timer of its runtime, or a socket, like this.
async fn in_state(
    state: State,
    inputs: TaskInputs,
    witness: Witness,
    wait: impl AsyncFnOnce(Option<UnixStream>),
) {
    // Locals are dropped in the reverse order: socket and permit before the witness tells.
    let _witness = witness;
    let _permit = match state {
        State::Permit => Some(inputs.permit.acquire_owned().await.expect("it is not closed")),
        _ => None,
    };
    let mut waiting = pin!(async {
        match state {
            State::Timer | State::Socket => wait(inputs.socket).await,
            // No message is sent, and the sender outlives the task.
            _ => drop(inputs.message.await),
        }
    });
    poll_fn(|context| {
        let polled = waiting.as_mut().poll(context);
        _ = inputs.started.send(());
        polled
    })
    .await;
}

// %% [markdown]
// Runtimes differ in how a task is stopped. Two are left out: no task of [the frontier](../ladder/frontier.ipynb)
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
pub trait StoppableRuntime: Sized {
    const NAME: &str;
    /// Whether tasks run on threads of its own.
    const THREADS: bool = true;
    /// Whether it ends when it is dropped.
    const ENDS: bool = true;
    type Handle;
    /// One for tasks in this state.
    fn new(state: State) -> Self;
    /// Waits until something comes from the socket; without one, for a timer.
    fn wait(socket: Option<UnixStream>) -> impl Future<Output = ()>;
    /// Starts a task in this state.
    fn start(&self, state: State, inputs: TaskInputs, witness: Witness) -> Self::Handle;
    /// Lets tasks run on the calling thread, where they do.
    fn turn(&self) {}
    /// Stops it; false if there is no such call.
    fn abort(handle: Self::Handle) -> bool {
        drop(handle);
        false
    }
    /// Lets it run on.
    fn detach(handle: Self::Handle) {
        drop(handle);
    }
}

// %% [markdown]
// tokio has two runtimes, and a method that aborts a task. A runtime that watches sockets asks the system for them at
// each turn, so only tasks that wait for one get such a runtime.

// %%
/// What is expected of a reactor.
const CAN_WATCH: &str = "a socket can be watched";

/// tokio, on so many threads of its own; none: on the caller's.
pub struct Tokio<const THREADS: usize>(tokio::runtime::Runtime);

impl<const THREADS: usize> StoppableRuntime for Tokio<THREADS> {
    const NAME: &str = if THREADS == 0 { "tokio current_thread" } else { "tokio multi_thread" };
    const THREADS: bool = THREADS > 0;
    type Handle = tokio::task::JoinHandle<()>;

    fn new(state: State) -> Self {
        let mut builder =
            if THREADS == 0 { Builder::new_current_thread() } else { Builder::new_multi_thread() };
        if state == State::Socket {
            builder.enable_io();
        }
        Self(builder.worker_threads(THREADS.max(1)).enable_time().build().expect("threads for tokio"))
    }

    async fn wait(socket: Option<UnixStream>) {
        match socket {
            None => tokio::time::sleep(HOUR).await,
            Some(socket) => drop(tokio::net::UnixStream::from_std(socket).expect(CAN_WATCH).readable().await),
        }
    }

    fn start(&self, state: State, inputs: TaskInputs, witness: Witness) -> Self::Handle {
        self.0.spawn(in_state(state, inputs, witness, Self::wait))
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
// smol's executor lives as long as the process here, as in most programs, and one thread of its own watches sockets and
// timers for all.

// %%
/// Threads of those that have some.
const WORKERS: usize = 2;

/// smol, with two threads that run its executor.
pub struct Smol;

static SMOL: smol::Executor<'static> = smol::Executor::new();

impl StoppableRuntime for Smol {
    const NAME: &str = "smol";
    const ENDS: bool = false;
    type Handle = smol::Task<()>;

    fn new(_: State) -> Self {
        for _ in 0..WORKERS {
            thread::spawn(|| smol::block_on(SMOL.run(pending::<()>())));
        }
        Self
    }

    async fn wait(socket: Option<UnixStream>) {
        match socket {
            None => drop(smol::Timer::after(HOUR).await),
            Some(socket) => drop(smol::Async::new(socket).expect(CAN_WATCH).readable().await),
        }
    }

    fn start(&self, state: State, inputs: TaskInputs, witness: Witness) -> Self::Handle {
        SMOL.spawn(in_state(state, inputs, witness, Self::wait))
    }

    fn abort(handle: Self::Handle) -> bool {
        drop(handle);
        true
    }

    fn detach(handle: Self::Handle) {
        handle.detach();
    }
}

// %% [markdown]
// nio's timers and sockets stay with their thread, so its task is pinned. It supports only TCP, and the sockets here are
// not TCP; but to its reactor all sockets are alike.

// %%
/// nio.
pub struct Nio(nio::Runtime);

impl StoppableRuntime for Nio {
    const NAME: &str = "nio";
    type Handle = nio::JoinHandle<()>;

    fn new(_: State) -> Self {
        Self(nio::RuntimeBuilder::new().worker_threads(WORKERS as u8).rt().expect("threads for nio"))
    }

    async fn wait(socket: Option<UnixStream>) {
        let Some(socket) = socket else { return nio::sleep(HOUR).await };
        let socket = TcpStream::from(OwnedFd::from(socket));
        _ = nio::net::TcpStream::try_from(socket).expect(CAN_WATCH).read(&mut [0]).await;
    }

    fn start(&self, state: State, inputs: TaskInputs, witness: Witness) -> Self::Handle {
        if !matches!(state, State::Timer | State::Socket) {
            return self.0.spawn(in_state(state, inputs, witness, async |_| ()));
        }
        let task = move || in_state(state, inputs, witness, Self::wait);
        self.0.block_on(|| ready(task).map(nio::spawn_pinned))
    }

    fn abort(handle: Self::Handle) -> bool {
        handle.abort();
        true
    }
}

/// Ours, which has no reactor.
pub struct Ours(runtimes_executor::Runtime);

impl StoppableRuntime for Ours {
    const NAME: &str = "ours";
    type Handle = runtimes_executor::JoinHandle<()>;

    fn new(_: State) -> Self {
        Self(runtimes_executor::Runtime::new(runtimes_executor::Settings::new(WORKERS)))
    }

    async fn wait(_: Option<UnixStream>) {
        runtimes_executor::sleep(HOUR).await;
    }

    fn start(&self, state: State, inputs: TaskInputs, witness: Witness) -> Self::Handle {
        self.0.spawn(in_state(state, inputs, witness, Self::wait))
    }
}

// %% [markdown]
// Now a task is stopped. It is dropped by the caller, before the call returns; by the caller, when it lets tasks run
// again; by another thread; or not at all, as long as the runtime exists.

// %%
/// Who runs the destructor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dropper {
    Caller,
    CallerLater,
    Worker,
    Never,
}

impl Dropper {
    /// Under which name it is counted; `otherwise` stands for what no runtime does.
    fn counter(self, stop: Stop) -> &'static str {
        match (stop, self) {
            (Stop::Abort, Self::CallerLater) => "abort_by_caller_later",
            (Stop::Abort, Self::Worker) => "abort_by_worker",
            (Stop::Handle, Self::Never) => "handle_by_nobody",
            (Stop::Runtime, Self::Caller) => "runtime_by_caller",
            (Stop::Runtime, Self::Worker) => "runtime_by_worker",
            (Stop::Runtime, Self::Never) => "runtime_by_nobody",
            (Stop::InPlace | Stop::Select | Stop::Timeout, Self::Caller) => "in_place_by_caller",
            _ => "otherwise",
        }
    }
}

// %% [markdown]
// A trial that hangs must end, too.

// %%
/// How long anything here may take before it counts as hanging.
pub const LIMIT: Duration = Duration::from_secs(30);

/// How long a destructor is waited for: of a task that is stopped, far longer than any runtime takes, and of one that runs on,
/// long enough to see one that was not expected.
fn patience(stop: Stop) -> Duration {
    if stop == Stop::Handle { Duration::from_millis(50) } else { LIMIT / 2 }
}

// %% [markdown]
// A task is given two things that it may leave behind: a permit, and a socket. The test can see later whether they came
// back: by the number of permits, and by whether the other end of the socket is told that nothing more will come.

// %%
/// A task that is about to be stopped, and what tells of its end.
struct Stopping<H> {
    handle: H,
    dropped: Receiver<(Instant, ThreadId)>,
    resources: LentResources,
}

/// What a task was given: a permit, and the other ends of its message and of its socket.
struct LentResources {
    permit: Arc<tokio::sync::Semaphore>,
    _sender: tokio::sync::oneshot::Sender<()>,
    peer: Option<UnixStream>,
}

impl LentResources {
    /// How many permits are missing, and sockets still open: a read from one that is closed ends at once.
    fn leaked(&self) -> usize {
        let open = self.peer.as_ref().is_some_and(|mut peer| peer.read(&mut [0]).is_err());
        1 - self.permit.available_permits() + usize::from(open)
    }
}

/// A socket that does not block, and its other end.
fn sockets() -> (UnixStream, UnixStream) {
    let pair = UnixStream::pair().expect("two sockets");
    for socket in [&pair.0, &pair.1] {
        socket.set_nonblocking(true).expect("a socket");
    }
    pair
}

// %% [markdown]
// A task is stopped once it is known to wait. The witness has noted on which thread its destructor ran.

// %%
/// Starts a task, and waits until it waits.
fn begin<H>(state: State, start: impl FnOnce(TaskInputs, Witness) -> H, turn: impl FnOnce()) -> Stopping<H> {
    let (started, has_started) = channel();
    let (witness, dropped) = channel();
    let (_sender, message) = tokio::sync::oneshot::channel();
    let permit = Arc::new(tokio::sync::Semaphore::new(1));
    let (socket, peer) = (state == State::Socket).then(sockets).unzip();
    let handle =
        start(TaskInputs { permit: Arc::clone(&permit), message, socket, started }, Witness(witness));
    if state != State::New {
        turn();
        has_started.recv_timeout(LIMIT / 2).expect("the task begins");
    }
    Stopping { handle, dropped, resources: LentResources { permit, _sender, peer } }
}

fn begin_on<R: StoppableRuntime>(runtime: &R, state: State) -> Stopping<R::Handle> {
    begin(state, |inputs, witness| runtime.start(state, inputs, witness), || runtime.turn())
}

/// When and on which thread a destructor ran, if it did.
type Dropped = Option<(Instant, ThreadId)>;
/// When a task was stopped, what its destructor told, and what is left.
type DropOutcome = (Instant, Dropped, usize);

/// Whose thread it was.
fn dropper_of(dropped: Dropped) -> Dropper {
    match dropped {
        None => Dropper::Never,
        Some((_, thread)) if thread == thread::current().id() => Dropper::Caller,
        Some(_) => Dropper::Worker,
    }
}

// %% [markdown]
// What is left behind is counted, too: a permit that was not returned, a socket that was not closed.

// %%
/// Who dropped a task of this state that was stopped like this, and what is left afterwards. None where it cannot be
/// stopped like this, or where a worker may poll it before.
pub fn dropped_by<R: StoppableRuntime>(state: State, stop: Stop) -> Option<(Dropper, usize)> {
    if state == State::New && R::THREADS || stop == Stop::Runtime && !R::ENDS {
        return None;
    }
    let runtime = R::new(state);
    let Stopping { handle, dropped, resources } = begin_on(&runtime, state);
    if stop == Stop::Runtime {
        drop(runtime);
        return Some((dropper_of(dropped.try_recv().ok()), resources.leaked()));
    }
    if stop == Stop::Handle {
        R::detach(handle);
    } else if !R::abort(handle) {
        return None;
    }
    let at_once = dropped.try_recv().ok();
    let dropper = if at_once.is_some() {
        dropper_of(at_once)
    } else {
        runtime.turn();
        match dropper_of(dropped.recv_timeout(patience(stop)).ok()) {
            Dropper::Caller => Dropper::CallerLater,
            dropper => dropper,
        }
    };
    let leaked = resources.leaked();
    std::mem::forget(runtime);
    Some((dropper, leaked))
}

// %% [markdown]
// The frontier has no handles. So the executor is dropped, with its task in it. It has no timers either: a task that
// waits for one waits for ever.

// %%
/// Lets others run, and breaks off: the frontier's `run` ends when all tasks have, or when its root panics.
async fn panic_after_yields() {
    for _ in 0..10 {
        smol::future::yield_now().await;
    }
    resume_unwind(Box::new(()));
}

/// Drops the frontier's executor with a task in this state.
fn end_frontier(state: State) -> DropOutcome {
    let reactor = Reactor::<_, Timed<()>>::new(Epoll::new().expect("an epoll"), TASKS).expect("room");
    let executor = Executor::new(&reactor, TASKS);
    let wait = async |socket| match socket {
        None => pending().await,
        Some(socket) => drop(Io::in_entry(&reactor, socket, ()).expect(CAN_WATCH).read(&mut [0]).await),
    };
    let start = |inputs, witness| executor.spawn(|| in_state(state, inputs, witness, wait)).expect("room");
    let Stopping { dropped, resources, .. } = begin(state, start, || {
        catch_unwind(AssertUnwindSafe(|| executor.run(panic_after_yields()))).expect_err("it breaks off");
    });
    let start = Instant::now();
    drop(executor);
    (start, dropped.try_recv().ok(), resources.leaked())
}

// %% [markdown]
// And without a runtime's help: a future that is dropped in place, one that loses in a `select!`, one whose timeout fires.

// %%
/// Drops a future in this state.
fn drop_future(stop: Stop, state: State) -> DropOutcome {
    let Tokio(runtime) = Tokio::<0>::new(state);
    let start = |inputs, witness| {
        let mut future = Box::pin(in_state(state, inputs, witness, Tokio::<0>::wait));
        if state != State::New {
            let waits = runtime.block_on(async { futures::poll!(&mut future) });
            assert!(waits.is_pending(), "it waits for ever");
        }
        future
    };
    let Stopping { handle: future, dropped, resources } = begin(state, start, || {});
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
    (start, dropped.try_recv().ok(), resources.leaked())
}

// %% [markdown]
// In how many of the states, and what is left afterwards: this is counted for every runtime, and must be as it was when
// this was written, before anything is timed.

// %%
/// What of a state may be left behind.
fn leak_counter(state: State) -> &'static str {
    if state == State::Socket { "sockets_open" } else { "permits_missing" }
}

/// Sums up who dropped a task, and what is left.
fn table_of(
    states: &[State],
    stops: &[Stop],
    dropped_by: impl Fn(State, Stop) -> Option<(Dropper, usize)>,
) -> Counts {
    let mut counts = Counts::new();
    for (&state, &stop) in states.iter().flat_map(|state| stops.iter().map(move |stop| (state, stop))) {
        if let Some((dropper, leaked)) = dropped_by(state, stop) {
            *counts.entry(dropper.counter(stop)).or_default() += 1;
            *counts.entry(leak_counter(state)).or_default() += leaked as u64;
        }
    }
    counts
}

/// As [`dropped_by`].
#[expect(clippy::unnecessary_wraps, reason = "as of a runtime, some of which cannot do it")]
fn outcome((_, dropped, leaked): DropOutcome) -> Option<(Dropper, usize)> {
    Some((dropper_of(dropped), leaked))
}

/// Counts of these states.
pub type Table = fn(&[State]) -> Counts;

/// What a runtime does.
pub fn table<R: StoppableRuntime>(states: &[State]) -> Counts {
    table_of(states, &[Stop::Abort, Stop::Handle, Stop::Runtime], dropped_by::<R>)
}

/// What the frontier does.
pub fn table_of_frontier(states: &[State]) -> Counts {
    table_of(states, &[Stop::Runtime], |state, _| outcome(end_frontier(state)))
}

/// What futures do to futures.
pub fn table_in_place(states: &[State]) -> Counts {
    let stops = [Stop::InPlace, Stop::Select, Stop::Timeout];
    table_of(states, &stops, |state, stop| outcome(drop_future(stop, state)))
}

// %% [markdown]
// The results, in short. A task whose handle is dropped runs on, so nothing drops it.

// %%
/// Under these names.
const IN_PLACE: &str = "in place";
const FRONTIER: &str = "frontier";

/// What the table of each must be, of these states: each way to stop a task counts in each of them, but for new tasks
/// where there are workers, and a task that is not dropped leaves behind what it holds.
pub fn expected(name: &str, states: &[State]) -> Counts {
    let (workers, counters): (bool, &[&'static str]) = match name {
        IN_PLACE => (false, &["in_place_by_caller"; 3]),
        FRONTIER => (false, &["runtime_by_caller"]),
        "tokio current_thread" => {
            (false, &["abort_by_caller_later", "handle_by_nobody", "runtime_by_caller"])
        }
        "tokio multi_thread" => (true, &["abort_by_worker", "handle_by_nobody", "runtime_by_worker"]),
        "smol" => (true, &["abort_by_worker", "handle_by_nobody"]),
        "nio" => (true, &["abort_by_worker", "handle_by_nobody", "runtime_by_nobody"]),
        _ => (true, &["handle_by_nobody", "runtime_by_caller"]),
    };
    let times = states.iter().filter(|state| !workers || **state != State::New).count();
    let mut counts = Counts::new();
    for counter in counters {
        *counts.entry(counter).or_default() += times as u64;
        *counts.entry(leak_counter(states[0])).or_default() += u64::from(counter.ends_with("nobody"));
    }
    counts
}

// %% [markdown]
// And the results here, each counted in a process of its own.

// %% tags=["active-ipynb"]
// for (name, table) in [
//     (IN_PLACE, table_in_place as Table), (FRONTIER, table_of_frontier), (<Tokio<0>>::NAME, table::<Tokio<0>>),
//     (<Tokio<WORKERS>>::NAME, table::<Tokio<WORKERS>>), (Smol::NAME, table::<Smol>), (Nio::NAME, table::<Nio>),
//     (Ours::NAME, table::<Ours>),
// ] {
//     println!("{name}: {:?}", harness::isolated(LIMIT, move || format!("{:?}", table(STATES))));
//     if name != Ours::NAME {
//         println!("- in a socket: {:?}", harness::isolated(LIMIT, move || format!("{:?}", table(SOCKET))));
//     }
// }

// %% [markdown]
// Only a drop in place is over when the call returns, in every state: `otherwise` does not occur. After an abort a
// worker has to get to the task first, or the caller when it runs tasks again, and until then permit and socket are
// taken. Those that are never returned belong to tasks that run on, and to those that outlive nio's runtime.
//
// # How long until it has run?
//
// From the call that stops a task to the clock that its destructor reads. Starting the task, and getting it to wait, is
// not timed. A task of tokio's current_thread is dropped when the runtime runs again, so that is part of its time.

// %%
/// Drops so many tasks one after the other, and adds up how long their destructors took to come.
fn until_dropped(iterations: u64, end: impl Fn() -> DropOutcome) -> Duration {
    let each = |_| {
        let (start, dropped, _) = end();
        dropped.expect("it is dropped").0 - start
    };
    (0..iterations).map(each).sum()
}

/// Stops tasks of one runtime.
fn time_aborts<R: StoppableRuntime>(state: State, iterations: u64) -> Duration {
    let runtime = std::mem::ManuallyDrop::new(R::new(state));
    until_dropped(iterations, || {
        let Stopping { handle, dropped, resources } = begin_on(&*runtime, state);
        let start = Instant::now();
        R::abort(handle);
        runtime.turn();
        (start, dropped.recv().ok(), resources.leaked())
    })
}

/// Drops runtimes with one task each.
fn time_shutdowns<R: StoppableRuntime>(state: State, iterations: u64) -> Duration {
    until_dropped(iterations, || {
        let runtime = R::new(state);
        let Stopping { handle: _handle, dropped, resources } = begin_on(&runtime, state);
        let start = Instant::now();
        drop(runtime);
        (start, dropped.recv().ok(), resources.leaked())
    })
}

// %% [markdown]
// # The study
//
// Each trial has a process of its own, since most runtimes have threads. Waiting for events and stopping are groups of
// their own.

// %%
/// On what tasks are stopped, its table, how they are stopped, the code, and in which states that is timed.
type StopVariant = (&'static str, Table, &'static str, fn(State, u64) -> Duration, &'static [State]);

fn by_abort<R: StoppableRuntime>() -> StopVariant {
    (R::NAME, table::<R>, "abort", time_aborts::<R>, &[State::Message, State::Timer, State::Socket])
}

fn by_end<R: StoppableRuntime>() -> StopVariant {
    (R::NAME, table::<R>, "runtime", time_shutdowns::<R>, &[State::Message])
}

/// All of it; the first is what the others are compared with.
fn stop_variants() -> [StopVariant; 9] {
    const TIMED_STATES: &[State] = &[State::Message, State::Socket];
    let in_place = |state, n| until_dropped(n, || drop_future(Stop::InPlace, state));
    let frontier = |state, n| until_dropped(n, || end_frontier(state));
    [
        (IN_PLACE, table_in_place, "abort", in_place, TIMED_STATES),
        by_abort::<Tokio<0>>(),
        by_abort::<Tokio<WORKERS>>(),
        by_abort::<Smol>(),
        by_abort::<Nio>(),
        by_end::<Tokio<0>>(),
        by_end::<Tokio<WORKERS>>(),
        by_end::<Ours>(),
        (FRONTIER, table_of_frontier, "runtime", frontier, TIMED_STATES),
    ]
}

// %% [markdown]
// A row is timed after its table, or its round, has been proved.

// %%
fn stop_in_state(stop: &str, state: State) -> String {
    format!("stop={stop} state={}", format!("{state:?}").to_lowercase())
}

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
    let in_place = |state| Key::new("stop", IN_PLACE, stop_in_state("abort", state));
    for (name, table, stop, time, states) in stop_variants() {
        for &state in states {
            let key = Key::new("stop", name, stop_in_state(stop, state));
            let all = if state == State::Socket { SOCKET } else { STATES };
            let proof = prove_isolated(&key, LIMIT, &expected(name, all), || [table(all)]);
            study = study.counts(&key, proof.clone().unwrap_or_default()).count(key.clone(), "units", 1);
            study = study.proven(key.clone(), proof, move |bencher: &mut Bencher<'_>| {
                bencher.iter_custom(&mut |iterations| time(state, iterations));
            });
            let (base, change) = match (name, state) {
                (IN_PLACE, State::Message) => continue,
                (IN_PLACE, _) => (State::Message, "a socket to be closed"),
                (_, State::Socket) => (State::Socket, "a runtime, instead of a drop in place"),
                _ => (State::Message, "a runtime, instead of a drop in place"),
            };
            study = study.compare(key, in_place(base), change);
        }
    }
    Ok(study.control_of(in_place(State::Message)))
}

// %% [markdown]
// # A glance
//
// Eight arms, a second each: with so few, asking all of them and keeping a waker for each can be compared at a glance. Choose `bench == "stop"`, and see how long a destructor takes to come.

// %% tags=["active-ipynb", "glance"]
// study().unwrap_or_else(harness::stop).glance(|key| {
//     key.bench == "events" && key.parameter == "arms=8"
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
// An arm is as small as a future can be, and events happen one at a time; with arms that are ready together, another way
// may be best. Nothing waits for a socket when it is stopped. A destructor that has to wait itself, such as one that
// sends a last message, cannot be written as one.
