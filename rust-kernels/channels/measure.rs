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
// # What does a message from task to task cost, and what does cancelling lose?
//
// Which channel is fastest is asked often, and answered by benchmarks of the channels' own authors. Most of them receive
// in `block_on`, and then they measure how a runtime wakes its caller, too
// ([rust-channel-benchmarks 6](https://github.com/fereidani/rust-channel-benchmarks/pull/6)). Here everything happens in
// tasks, on one thread; from this base one factor is changed at a time: capacity, size of a message, number of producers,
// who waits for whom, the runtime, the driver.
//
// Speed is not all. A `select!` drops the futures that lose, and a dropped `recv` or `send` may take a message with it
// ([flume 104](https://github.com/zesterer/flume/issues/104), [kanal 24](https://github.com/fereidani/kanal/issues/24),
// [zenoh 2300](https://github.com/eclipse-zenoh/zenoh/issues/2300)). What each channel loses, in which state, is counted
// here before anything is timed.
//
// [The other notebook](threads.ipynb) is about several threads: tasks on two workers, and threads that feed tasks.

// %% [markdown]
// ## Compile cells as for a benchmark

// %% tags=["active-ipynb"]
// :build_env CARGO_PROFILE_DEV_OPT_LEVEL=3
// :build_env CARGO_PROFILE_DEV_DEBUG_ASSERTIONS=false
// :build_env CARGO_PROFILE_DEV_OVERFLOW_CHECKS=false
// :build_env CARGO_PROFILE_DEV_CODEGEN_UNITS=1
// :build_env CARGO_INCREMENTAL=0
// :dep async-channel = "=2.5.0"
// :dep crossfire = "=3.1.22"
// :dep flume = "=0.12.0"
// :dep futures = "=0.3.34"
// :dep harness = { path = "../../rust-kernels/harness" }
// :dep kanal = "=0.1.1"
// :dep smol = "=2.0.2"
// :dep tokio = { version = "=1.54.1", features = ["rt-multi-thread", "sync"] }

// %% [markdown]
// From here on each cell is also a part of the crate `channels`, except cells that only show something.

// %%
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::hint::black_box;
use std::iter::from_fn;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crossfire::{AsyncRx, MAsyncTx, MTx, mpsc as of_crossfire};
use futures::{FutureExt, SinkExt, StreamExt, channel::mpsc as of_futures, executor::block_on, future::join};
use harness::{Bencher, Counts, Key, Study, UnequalWork, Watch, limit, prove};
use tokio::runtime::Builder;
use tokio::sync::mpsc as of_tokio;

// %% [markdown]
// # One trait for all channels
//
// A channel is opened with a capacity, sends, and receives; the same generic code drives all of them. `send` says whether
// the receiver still exists, `receive` has nothing when all senders are gone.

// %%
/// What may be sent.
pub trait Item: Send + Unpin + 'static {}
impl<T: Send + Unpin + 'static> Item for T {}

/// The two ends of a channel.
pub type Ends<C, T> = (<C as Channel>::Sender<T>, <C as Channel>::Receiver<T>);

/// A channel from several senders to one receiver.
pub trait Channel: 'static {
    const NAME: &str;
    type Sender<T: Item>: Clone + Send + 'static;
    type Receiver<T: Item>: Send + 'static;
    /// With room for so many messages.
    fn open<T: Item>(capacity: usize) -> Ends<Self, T>;
    /// Sends it as soon as there is room; false if nobody can receive it.
    fn send<T: Item>(to: &mut Self::Sender<T>, message: T) -> impl Future<Output = bool> + Send;
    /// The next message; none if all senders are gone and all messages are received.
    fn receive<T: Item>(from: &mut Self::Receiver<T>) -> impl Future<Output = Option<T>> + Send;
}

/// The capacity of a channel that has room for all.
pub const UNBOUNDED: usize = usize::MAX;

// %% [markdown]
// Each library is used as its documentation shows. Three of them have other types for unbounded channels, whose `send` is
// no future. The channel of the futures crate has a place for each sender, in addition to the capacity asked for: with one
// sender, one less is asked for.

// %%
/// Channels of libraries: each with its name, the types of its ends, and how it is opened, sends and receives.
#[macro_export]
macro_rules! libraries {
    ($($channel:ident, $name:literal, $sender:ty, $receiver:ty, |$capacity:ident| $open:expr,
       |$to:ident, $message:ident| $send:expr, |$from:ident| $receive:expr;)*) => {$(
        pub struct $channel;

        impl Channel for $channel {
            const NAME: &str = $name;
            type Sender<T: Item> = $sender;
            type Receiver<T: Item> = $receiver;

            fn open<T: Item>($capacity: usize) -> Ends<Self, T> {
                $open
            }

            async fn send<T: Item>($to: &mut Self::Sender<T>, $message: T) -> bool {
                $send.is_ok()
            }

            async fn receive<T: Item>($from: &mut Self::Receiver<T>) -> Option<T> {
                $receive
            }
        }
    )*};
}

// %% [markdown]
// The libraries, in the order of the tables.

// %%
/// Channels of libraries. A later cell sees what a macro makes if it is in a module.
pub mod of_libraries {
    use super::*;

    libraries! {
        TokioChannel, "tokio", of_tokio::Sender<T>, of_tokio::Receiver<T>,
            |capacity| of_tokio::channel(capacity), |to, message| to.send(message).await, |from| from.recv().await;
        TokioUnbounded, "tokio", of_tokio::UnboundedSender<T>, of_tokio::UnboundedReceiver<T>,
            |_capacity| of_tokio::unbounded_channel(), |to, message| to.send(message), |from| from.recv().await;
        AsyncChannel, "async-channel", async_channel::Sender<T>, async_channel::Receiver<T>,
            |capacity| if capacity == UNBOUNDED { async_channel::unbounded() } else { async_channel::bounded(capacity) },
            |to, message| to.send(message).await, |from| from.recv().await.ok();
        Flume, "flume", flume::Sender<T>, flume::Receiver<T>,
            |capacity| if capacity == UNBOUNDED { flume::unbounded() } else { flume::bounded(capacity) },
            |to, message| to.send_async(message).await, |from| from.recv_async().await.ok();
        Kanal, "kanal", kanal::AsyncSender<T>, kanal::AsyncReceiver<T>,
            |capacity| if capacity == UNBOUNDED { kanal::unbounded_async() } else { kanal::bounded_async(capacity) },
            |to, message| to.send(message).await, |from| from.recv().await.ok();
        Crossfire, "crossfire", MAsyncTx<of_crossfire::Array<T>>, AsyncRx<of_crossfire::Array<T>>,
            |capacity| of_crossfire::bounded_async(capacity), |to, message| to.send(message).await,
            |from| from.recv().await.ok();
        CrossfireUnbounded, "crossfire", MTx<of_crossfire::List<T>>, AsyncRx<of_crossfire::List<T>>,
            |_capacity| of_crossfire::unbounded_async(), |to, message| to.send(message), |from| from.recv().await.ok();
        Futures, "futures", of_futures::Sender<T>, of_futures::Receiver<T>,
            |capacity| of_futures::channel(capacity - 1), |to, message| to.send(message).await, |from| from.next().await;
        FuturesUnbounded, "futures", of_futures::UnboundedSender<T>, of_futures::UnboundedReceiver<T>,
            |_capacity| of_futures::unbounded(), |to, message| to.unbounded_send(message), |from| from.next().await;
    }
}

pub use of_libraries::*;

// %% [markdown]
// # The smallest bounded channel
//
// How little does a bounded channel need? A queue, the waker of the receiver, and the wakers of senders that wait, in
// their order. It is in no library, and shows what is left to gain. All of its state is changed at once, under a mutex.
// Wakers are called when it is free again.

// %%
/// What the ends of a channel share.
pub struct State<T> {
    queue: VecDeque<T>,
    capacity: usize,
    /// Of the receiver, if it waits.
    receiver: Option<Waker>,
    /// Senders that wait for room, by the number under which they came.
    waiting: VecDeque<(u64, Waker)>,
    /// The number of the next that comes.
    number: u64,
    senders: usize,
    /// Whether the receiver exists.
    received: bool,
}

/// Changes it as nobody else does meanwhile.
fn change<T, R>(state: &Mutex<State<T>>, change: impl FnOnce(&mut State<T>) -> R) -> R {
    change(&mut state.lock().expect("no panic inside"))
}

/// Sends into the smallest channel.
pub struct SmallSender<T: Item>(Arc<Mutex<State<T>>>);

/// Receives from the smallest channel.
pub struct SmallReceiver<T: Item>(Arc<Mutex<State<T>>>);

/// One message, until there is room for it.
pub struct Sending<'a, T: Item> {
    channel: &'a Mutex<State<T>>,
    message: Option<T>,
    /// The number under which it waits, or has been woken.
    number: Option<u64>,
}

// %% [markdown]
// A sender that waits is woken by the receiver, when a message has left. If somebody else has taken the place by then, it
// waits again where it stood. If it was dropped instead, it passes the wake on: **this is what makes `send` safe to
// cancel**.

// %%
impl<T: Item> Future for Sending<'_, T> {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<bool> {
        let Self { channel, message, number } = &mut *self;
        let (polled, woken) = change(channel, |state| {
            let found = |number| state.waiting.binary_search_by_key(&number, |(number, _)| *number);
            let place = number.map(found);
            if state.received && state.queue.len() == state.capacity {
                let own = *number.get_or_insert(state.number);
                state.number = state.number.max(own + 1);
                match place.unwrap_or(Err(state.waiting.len())) {
                    Ok(place) => state.waiting[place].1.clone_from(context.waker()),
                    Err(place) => state.waiting.insert(place, (own, context.waker().clone())),
                }
                return (Poll::Pending, None);
            }
            if let Some(Ok(place)) = place {
                state.waiting.remove(place);
            }
            *number = None;
            let Some(message) = message.take().filter(|_| state.received) else {
                return (Poll::Ready(false), None);
            };
            state.queue.push_back(message);
            (Poll::Ready(true), state.receiver.take())
        });
        woken.into_iter().for_each(Waker::wake);
        polled
    }
}

impl<T: Item> Drop for Sending<'_, T> {
    fn drop(&mut self) {
        let Some(own) = self.number else { return };
        let woken = change(self.channel, |state| {
            match state.waiting.binary_search_by_key(&own, |(number, _)| *number) {
                Ok(place) => state.waiting.remove(place).and(None),
                Err(_) => state.waiting.pop_front().map(|(_, next)| next),
            }
        });
        woken.into_iter().for_each(Waker::wake);
    }
}

// %% [markdown]
// The receiver leaves nothing behind but its waker. So nothing is lost when it is cancelled.

// %%
impl<T: Item> SmallReceiver<T> {
    fn poll_receive(&self, context: &Context<'_>) -> Poll<Option<T>> {
        let (polled, woken) = change(&self.0, |state| {
            if let Some(message) = state.queue.pop_front() {
                return (Poll::Ready(Some(message)), state.waiting.pop_front().map(|(_, next)| next));
            }
            if state.senders == 0 {
                return (Poll::Ready(None), None);
            }
            state.receiver = Some(context.waker().clone());
            (Poll::Pending, None)
        });
        woken.into_iter().for_each(Waker::wake);
        polled
    }
}

impl<T: Item> Drop for SmallReceiver<T> {
    fn drop(&mut self) {
        let (unread, woken) = change(&self.0, |state| {
            state.received = false;
            (std::mem::take(&mut state.queue), std::mem::take(&mut state.waiting))
        });
        drop(unread);
        woken.into_iter().for_each(|(_, waiting)| waiting.wake());
    }
}

impl<T: Item> Clone for SmallSender<T> {
    fn clone(&self) -> Self {
        change(&self.0, |state| state.senders += 1);
        Self(Arc::clone(&self.0))
    }
}

impl<T: Item> Drop for SmallSender<T> {
    fn drop(&mut self) {
        let woken = change(&self.0, |state| {
            state.senders -= 1;
            state.receiver.take_if(|_| state.senders == 0)
        });
        woken.into_iter().for_each(Waker::wake);
    }
}

// %% [markdown]
// That is the whole channel, in some hundred lines.

// %%
/// The smallest bounded channel.
pub struct Small;

impl Channel for Small {
    const NAME: &str = "ours";
    type Sender<T: Item> = SmallSender<T>;
    type Receiver<T: Item> = SmallReceiver<T>;

    fn open<T: Item>(capacity: usize) -> Ends<Self, T> {
        let (queue, waiting) = (VecDeque::with_capacity(capacity), VecDeque::new());
        let state = State { queue, capacity, receiver: None, waiting, number: 0, senders: 1, received: true };
        let channel = Arc::new(Mutex::new(state));
        (SmallSender(Arc::clone(&channel)), SmallReceiver(channel))
    }

    fn send<T: Item>(to: &mut Self::Sender<T>, message: T) -> impl Future<Output = bool> + Send {
        Sending { channel: &to.0, message: Some(message), number: None }
    }

    async fn receive<T: Item>(from: &mut Self::Receiver<T>) -> Option<T> {
        poll_fn(|context| from.poll_receive(context)).await
    }
}

// %% [markdown]
// # What cancelling loses
//
// A future is polled once, is pending, and is dropped, as by a `select!` that another arm has won. What can be lost then?
// A message; a place in the channel; the wake of whoever waits next. Each state is set up anew, in a channel with room for
// two, or for three where none must wait.
//
// - *receive, empty*: a `recv` waits and is dropped; then messages are sent.
// - *receive, handed*: as before, but a message is sent between the last poll and the drop. A channel that hands messages to
//   a waiting receiver has to take it back.
// - *receive, ready*: a message is there, and the `recv` is dropped before its first poll.
// - *send, full*: a `send` waits for room, and is dropped. Its message was given away with the call; it can be dropped with
//   the future, or arrive all the same.
// - *send, freed*: as before, but a message is received between the last poll and the drop.
// - *send, next*: as before, but another sender waits as well, in a channel with room for one.

// %%
/// Sends these numbers as long as none has to wait, which is cancelled; how many are sent.
fn fill<C: Channel>(to: &mut C::Sender<u64>, numbers: Range<u64>) -> u64 {
    numbers.take_while(|number| C::send(to, *number).now_or_never().is_some()).count() as u64
}

/// All that can be received; counts if it is in another order than it was sent in.
fn drain<C: Channel>(first: Option<u64>, from: &mut C::Receiver<u64>, counts: &mut Counts) -> Vec<u64> {
    let remaining = from_fn(|| C::receive(from).now_or_never().flatten());
    let received: Vec<u64> = first.into_iter().chain(remaining).collect();
    *counts.entry("reordered").or_default() += u64::from(!received.is_sorted());
    received
}

// %% [markdown]
// The states, each with what is lost in it. `slots_lost`: how many messages fewer fit into the channel afterwards.
// `next_stuck`: a sender waits although the channel is empty, and was not woken. `reordered`: states in which a message
// overtook another.

// %%
/// What cancelling loses, by state: of a receiver here, of a sender below.
pub fn cancelling<C: Channel>() -> Counts {
    let mut counts = Counts::new();
    for (state, waits, early) in
        [("receive_empty_lost", true, 0), ("receive_handed_lost", true, 1), ("receive_ready_lost", false, 1)]
    {
        let (mut to, mut from) = C::open(3);
        let mut receive = Box::pin(C::receive(&mut from));
        assert!(!waits || receive.as_mut().now_or_never().is_none(), "nothing was sent");
        let mut sent = fill::<C>(&mut to, 0..early);
        drop(receive);
        sent += fill::<C>(&mut to, early..2);
        let received = drain::<C>(None, &mut from, &mut counts);
        counts.insert(state, sent - received.len() as u64);
    }
    cancelled_sends::<C>(&mut counts);
    counts
}

/// What is lost in the three states of a sender.
fn cancelled_sends<C: Channel>(counts: &mut Counts) {
    for (state, capacity, frees, rival) in [
        ("send_full_lost", 2, false, false),
        ("send_freed_lost", 2, true, false),
        ("send_next_lost", 1, true, true),
    ] {
        let room = fill::<C>(&mut C::open(capacity).0, 0..u64::MAX);
        let (mut to, mut from) = C::open(capacity);
        let mut other = to.clone();
        fill::<C>(&mut to, 0..room);
        let (mut own, mut next) = (Box::pin(C::send(&mut to, room)), Box::pin(C::send(&mut other, room + 1)));
        assert!(own.as_mut().now_or_never().is_none(), "it is full");
        let watch = Arc::new(Watch::default());
        let waker = watch.waker(Waker::noop().clone());
        assert!(!rival || next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending(), "it is full");
        let first = if frees { C::receive(&mut from).now_or_never().flatten() } else { None };
        drop(own);
        let received = drain::<C>(first, &mut from, counts);
        let [_, wakes] = watch.take();
        drop(next);
        counts.insert(state, u64::from(!received.contains(&room)));
        *counts.entry("next_stuck").or_default() += u64::from(rival && wakes == 0);
        *counts.entry("slots_lost").or_default() += room - fill::<C>(&mut to, 0..room);
    }
}

// %% [markdown]
// The results:

// %% tags=["active-ipynb"]
// for (name, cancelling) in [
//     (TokioChannel::NAME, cancelling::<TokioChannel> as fn() -> Counts), (AsyncChannel::NAME, cancelling::<AsyncChannel>),
//     (Flume::NAME, cancelling::<Flume>), (Kanal::NAME, cancelling::<Kanal>), (Crossfire::NAME, cancelling::<Crossfire>),
//     (Futures::NAME, cancelling::<Futures>), (Small::NAME, cancelling::<Small>),
// ] {
//     println!("{name}: {:?}", cancelling());
// }

// %% [markdown]
// # Runtimes
//
// tokio on the calling thread, tokio with workers, and smol's executor on the calling thread. A root is run in a task, or
// by `block_on`; that is the only difference between the two. smol's executor is driven by the `block_on` of futures, since
// smol's own would start a thread.

// %%
/// Something that runs tasks.
pub trait Runtime: 'static {
    fn start() -> Self;
    /// Starts a task that nobody waits for, called by a task or by the root.
    fn spawn(task: impl Future<Output = ()> + Send + 'static);
    /// Runs the root in a task, and waits until it is ready.
    fn run<T: Send + 'static>(&self, root: impl Future<Output = T> + Send + 'static) -> T;
    /// Runs the root by the runtime's own `block_on`.
    fn block_on<T: Send>(&self, root: impl Future<Output = T> + Send) -> T;
}

/// tokio with so many workers; none: on the calling thread.
pub struct Tokio<const WORKERS: usize>(pub tokio::runtime::Runtime);

impl<const WORKERS: usize> Runtime for Tokio<WORKERS> {
    fn start() -> Self {
        let mut builder =
            if WORKERS == 0 { Builder::new_current_thread() } else { Builder::new_multi_thread() };
        Self(builder.worker_threads(WORKERS.max(1)).build().expect("threads for tokio"))
    }

    fn spawn(task: impl Future<Output = ()> + Send + 'static) {
        drop(tokio::spawn(task));
    }

    fn run<T: Send + 'static>(&self, root: impl Future<Output = T> + Send + 'static) -> T {
        self.0.block_on(self.0.spawn(root)).expect("the root does not panic")
    }

    fn block_on<T: Send>(&self, root: impl Future<Output = T> + Send) -> T {
        self.0.block_on(root)
    }
}

/// smol's executor.
pub struct Smol;

static SMOL: smol::Executor<'static> = smol::Executor::new();

impl Runtime for Smol {
    fn start() -> Self {
        Self
    }

    fn spawn(task: impl Future<Output = ()> + Send + 'static) {
        SMOL.spawn(task).detach();
    }

    fn run<T: Send + 'static>(&self, root: impl Future<Output = T> + Send + 'static) -> T {
        self.block_on(SMOL.spawn(root))
    }

    fn block_on<T: Send>(&self, root: impl Future<Output = T> + Send) -> T {
        block_on(SMOL.run(root))
    }
}

// %% [markdown]
// # The programs
//
// In a *stream*, each producer sends its part of the messages, and the root receives all of them. In an *exchange*, the root
// sends some messages to another task, which answers when it has got them: with one message, that is ping-pong, with more it
// is a burst. A message carries its number, and is as large as asked for.
//
// The same code is timed and proved. In a proof, tasks are watched: their wakers are wrapped in one that counts. Otherwise
// that is one branch at the start of a task.

// %%
/// How a program is set up.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub capacity: usize,
    pub producers: u64,
    /// Messages of a burst; none: a stream.
    pub burst: u64,
    /// Whether the root runs in `block_on`, not in a task.
    pub by_block_on: bool,
    /// Messages in all.
    pub messages: u64,
    /// Whether wakes are counted.
    pub watched: bool,
}

/// Messages of an iteration.
pub const MESSAGES: u64 = 800;

/// The base: the load from which one factor is changed.
pub const BASE: Load =
    Load { capacity: 64, producers: 1, burst: 0, by_block_on: false, messages: MESSAGES, watched: false };

/// How long it took, how many messages arrived, and the sum of the numbers that were sent.
pub type Outcome = (Duration, [u64; 2]);

/// How often tasks that are watched were woken.
static SEEN: LazyLock<Arc<Watch>> = LazyLock::new(Arc::default);

/// A task whose wakes are counted, if it is watched.
async fn watch<F: Future>(watched: bool, task: F) -> F::Output {
    if watched { SEEN.follow(task).await } else { task.await }
}

// %% [markdown]
// What is sent: by value, or in a box, which is moved as a pointer and has to be allocated and freed.

// %%
/// What is sent: a number, as often as there is room for it.
pub trait Message: Item {
    fn of(number: u64) -> Self;
    fn number(&self) -> u64;
}

impl<const WORDS: usize> Message for [u64; WORDS] {
    fn of(number: u64) -> Self {
        [number; WORDS]
    }

    fn number(&self) -> u64 {
        self[WORDS - 1]
    }
}

/// Filled where it stays: what is moved is a pointer.
impl<const WORDS: usize> Message for Box<[u64; WORDS]> {
    fn of(number: u64) -> Self {
        vec![number; WORDS].try_into().expect("so many words")
    }

    fn number(&self) -> u64 {
        self[WORDS - 1]
    }
}

// %% [markdown]
// Who sends, and who receives? In a stream the one sends and the other receives; in an exchange both do both.

// %%
/// Sends messages of these numbers.
///
/// # Panics
/// If the receiver is gone.
pub async fn produce<C: Channel, M: Message>(mut to: C::Sender<M>, numbers: Range<u64>) {
    for number in numbers {
        assert!(C::send(&mut to, black_box(M::of(number))).await, "the receiver waits for all");
    }
}

/// Receives messages until there are no more: how many, and the sum of their numbers.
pub async fn consume<C: Channel, M: Message>(from: &mut C::Receiver<M>) -> [u64; 2] {
    let (mut received, mut sum) = (0, 0);
    while let Some(message) = C::receive(from).await {
        received += 1;
        sum += black_box(message).number();
    }
    [received, sum]
}

/// Answers each burst with the sum of its numbers.
pub async fn answer<C: Channel, M: Message>((mut to, mut from): Ends<C, M>, burst: u64) {
    loop {
        let mut sum = 0;
        for _ in 0..burst {
            let Some(message) = C::receive(&mut from).await else { return };
            sum += black_box(message).number();
        }
        C::send(&mut to, black_box(M::of(sum))).await;
    }
}

/// Sends bursts to a task that answers each: how many messages there were, and the sum of the numbers that were sent.
///
/// # Panics
/// If there is no answer.
pub async fn ask<C: Channel, M: Message>(
    (mut to, mut from): Ends<C, M>,
    Load { burst, messages, .. }: Load,
) -> [u64; 2] {
    let (mut received, mut sum) = (0, 0);
    for exchange in 0..messages / (burst + 1) {
        for number in exchange * burst..(exchange + 1) * burst {
            assert!(C::send(&mut to, black_box(M::of(number))).await, "the other end waits for all");
        }
        let answer = C::receive(&mut from).await.expect("an answer");
        received += burst + 1;
        sum += black_box(answer).number();
    }
    [received, sum]
}

// %% [markdown]
// The clock starts when the channels are there, and stops when all is received.

// %%
/// A stream or an exchange, as the load says.
async fn program<C: Channel, R: Runtime, M: Message>(load: Load) -> Outcome {
    let (to, mut from) = C::open(load.capacity);
    let for_answers = (load.burst > 0).then(|| C::open(load.capacity));
    let start = Instant::now();
    let arrived = if let Some((answers, replies)) = for_answers {
        R::spawn(watch(load.watched, answer::<C, M>((answers, from), load.burst)));
        ask::<C, M>((to, replies), load).await
    } else {
        let each = load.messages / load.producers;
        let start_producer = |to, number| {
            let numbers = number * each..(number + 1) * each;
            R::spawn(watch(load.watched, produce::<C, M>(to, numbers)));
        };
        (1..load.producers).for_each(|number| start_producer(to.clone(), number));
        start_producer(to, 0);
        consume::<C, M>(&mut from).await
    };
    (start.elapsed(), arrived)
}

// %% [markdown]
// The third program asks who is served: sixteen producers send without end, until the root has received a thousand
// messages for each of them. If the channel is fair, each has sent a thousand.

// %%
/// Producers of which each wants to send all messages.
pub const RIVALS: usize = 16;
/// Messages for each of them.
pub const FOR_EACH: u64 = 1_000;

/// How many of the messages are from the producer that sent the fewest.
pub async fn least_served<C: Channel, R: Runtime>() -> u64 {
    let (to, mut from) = C::open(BASE.capacity);
    for producer in 0..RIVALS {
        let mut to = to.clone();
        R::spawn(async move { while C::send(&mut to, producer).await {} });
    }
    let mut received = [0; RIVALS];
    for _ in 0..FOR_EACH * RIVALS as u64 {
        received[C::receive(&mut from).await.expect("they send without end")] += 1;
    }
    received.into_iter().min().unwrap_or(0)
}

// %% [markdown]
// # The rows
//
// A program is compiled for a channel, a runtime and a size of message, and started once for each trial.

// %%
/// A program that was started, and runs under a load.
pub type Started = Box<dyn Fn(Load) -> Outcome>;

/// Starts a program.
pub fn start<C: Channel, R: Runtime, M: Message>() -> Started {
    let runtime = R::start();
    Box::new(move |load| {
        let root = watch(load.watched, program::<C, R, M>(load));
        if load.by_block_on { runtime.block_on(root) } else { runtime.run(root) }
    })
}

// %% [markdown]
// The base, and each factor by itself, for every channel.

// %%
/// What is measured of every channel: the parameter, the number of the program (see `row`), the load, the parameter of what
/// it is compared with, and what changes.
type Factor = (&'static str, usize, Load, &'static str, &'static str);

/// The name of the base.
pub const BASE_NAME: &str = "driver=task";
/// That of ping-pong.
pub const PING_PONG: &str = "burst=1";

const BY_BLOCK_ON: Load = Load { by_block_on: true, ..BASE };

/// All factors of bounded channels, the base first.
const FACTORS: [Factor; 15] = [
    (BASE_NAME, 0, BASE, "", ""),
    ("capacity=1", 0, Load { capacity: 1, ..BASE }, BASE_NAME, "a capacity of 1 instead of 64"),
    ("capacity=16", 0, Load { capacity: 16, ..BASE }, BASE_NAME, "a capacity of 16 instead of 64"),
    ("capacity=1024", 0, Load { capacity: 1024, ..BASE }, BASE_NAME, "a capacity of 1,024 instead of 64"),
    ("bytes=256", 1, BASE, BASE_NAME, "messages of 256 bytes instead of 8"),
    ("bytes=4096", 2, BASE, BASE_NAME, "messages of 4,096 bytes instead of 8"),
    ("bytes=4096 boxed", 3, BASE, "bytes=4096", "messages in a box instead of by value"),
    ("producers=4", 0, Load { producers: 4, ..BASE }, BASE_NAME, "four producers instead of one"),
    ("producers=16", 0, Load { producers: 16, ..BASE }, BASE_NAME, "sixteen producers instead of one"),
    ("producers=100", 0, Load { producers: 100, ..BASE }, BASE_NAME, "a hundred producers instead of one"),
    ("runtime=smol", 4, BASE, BASE_NAME, "smol instead of tokio"),
    ("driver=block_on", 0, BY_BLOCK_ON, BASE_NAME, "the receiver in `block_on`"),
    (PING_PONG, 0, Load { burst: 1, ..BASE }, BASE_NAME, "ping-pong instead of a stream"),
    ("burst=31", 0, Load { burst: 31, ..BASE }, BASE_NAME, "bursts of 31 and an answer instead of a stream"),
    ("burst=1 driver=block_on", 0, Load { burst: 1, ..BY_BLOCK_ON }, PING_PONG, "who asks is in `block_on`"),
];

/// The only one of unbounded channels.
const WITHOUT_BOUND: Factor =
    ("capacity=unbounded", 0, Load { capacity: UNBOUNDED, ..BASE }, BASE_NAME, "no bound instead of 64");

// %% [markdown]
// A row is a channel under one of these loads.

// %%
/// What is measured.
pub struct Row {
    pub key: Key,
    pub program: fn() -> Started,
    pub load: Load,
    /// What it is compared with besides tokio, and what changes.
    from: Option<(Key, &'static str)>,
}

/// A channel under a load: on tokio with messages of 8, 256 and 4,096 bytes and with a box of 4,096, and on smol with 8.
fn row<C: Channel>((parameter, program, load, base, change): Factor) -> Row {
    let key = |parameter: &str| {
        let bench = if parameter.starts_with("burst") { "exchange" } else { "stream" };
        Key::new(bench, C::NAME, parameter)
    };
    let programs: [fn() -> Started; 5] = [
        start::<C, Tokio<0>, [u64; 1]>,
        start::<C, Tokio<0>, [u64; 32]>,
        start::<C, Tokio<0>, [u64; 512]>,
        start::<C, Tokio<0>, Box<[u64; 512]>>,
        start::<C, Smol, [u64; 1]>,
    ];
    let from = (!base.is_empty()).then(|| (key(base), change));
    Row { key: key(parameter), program: programs[program], load, from }
}

/// A bounded channel under all loads.
pub fn rows<C: Channel>() -> [Row; FACTORS.len()] {
    FACTORS.map(row::<C>)
}

// %% [markdown]
// # Proof of equal work
//
// All messages arrive, once: their number, and the sum of their numbers. The program that is timed counts both, in every
// trial; in the proof its tasks are watched as well, so that wakes are known.

// %%
/// What must arrive.
pub fn expected(load: Load) -> Counts {
    let sent = if load.burst == 0 { load.messages } else { load.messages / (load.burst + 1) * load.burst };
    Counts::from([("received", load.messages), ("sum", sent * (sent - 1) / 2)])
}

/// What has arrived.
pub fn counted([received, sum]: [u64; 2]) -> Counts {
    Counts::from([("received", received), ("sum", sum)])
}

/// What one iteration did.
///
/// # Errors
/// If other messages arrive than were sent.
pub fn proven(key: &Key, program: fn() -> Started, load: Load) -> Result<Counts, UnequalWork> {
    let started = program();
    for watched in [false, true] {
        SEEN.take();
        prove(key, &expected(load), &counted(started(Load { watched, ..load }).1))?;
    }
    let [_, wakes] = SEEN.take();
    Ok(Counts::from([("units", load.messages), ("wakes", wakes)]))
}

/// Times a program; in every trial, all messages must arrive.
pub fn time(program: fn() -> Started, load: Load) -> impl Fn(&mut Bencher<'_>) {
    move |bencher| {
        let started = program();
        bencher.iter_custom(&mut |iterations| {
            let load = Load { messages: iterations * load.messages, ..load };
            let (elapsed, arrived) = started(load);
            assert_eq!(counted(arrived), expected(load), "other work");
            elapsed
        });
    }
}

// %% [markdown]
// Cancelling is proved, too: what is lost must be what was lost when this was written.

// %%
/// What cancelling loses, of this channel.
pub fn losses(name: &str) -> Counts {
    let (handed, arrives) = match name {
        "kanal" => (1, true),
        "flume" | "futures" => (0, true),
        _ => (0, false),
    };
    let full = u64::from(name != "futures");
    Counts::from([
        ("receive_empty_lost", 0),
        ("receive_handed_lost", handed),
        ("receive_ready_lost", 0),
        ("send_full_lost", full),
        ("send_freed_lost", u64::from(!arrives)),
        ("send_next_lost", u64::from(!arrives)),
        ("slots_lost", 0),
        ("next_stuck", 0),
        ("reordered", 0),
    ])
}

// %% [markdown]
// # The study
//
// One thread calls the allocator and copies messages, so differences of 2 % count. Besides, a channel is opened and
// dropped, and a sender is cloned and dropped: that counts what an idle channel and a handle allocate.

// %%
/// What the others are compared with.
pub const TOKIO: &str = "tokio";
/// The parameter of channels that nobody uses.
const IDLE: &str = "capacity=64";

/// Adds a channel under these loads.
fn add<C: Channel>(mut study: Study, rows: impl IntoIterator<Item = Row>) -> Result<Study, UnequalWork> {
    study = study.group("messages", limit::CALLS).unit("message");
    for Row { key, program, load, from } in rows {
        let counts = proven(&key, program, load)?;
        study = study.counts(&key, counts).bench(key.clone(), time(program, load));
        if let Some((base, change)) = from {
            study = study.also_compare(key.clone(), base, change);
        }
        if [BASE_NAME, PING_PONG].contains(&&*key.parameter) && ![TOKIO, Small::NAME].contains(&C::NAME) {
            let ours = Key { variant: Small::NAME.to_owned(), ..key.clone() };
            study = study.also_compare(key, ours, format!("`{}` instead of ours", C::NAME));
        }
    }
    Ok(study)
}

/// Adds one of this capacity that nobody uses.
fn add_idle<C: Channel>(study: Study, capacity: usize) -> Study {
    let parameter = if capacity == UNBOUNDED { WITHOUT_BOUND.0 } else { IDLE };
    let study = study.group("idle", limit::CALLS).unit("channel");
    let study = study.bench(Key::new("open", C::NAME, parameter), move |bencher: &mut Bencher<'_>| {
        bencher.iter(&mut || drop(black_box(C::open::<u64>(black_box(capacity)))));
    });
    study.unit("handle").bench(Key::new("clone", C::NAME, parameter), move |bencher: &mut Bencher<'_>| {
        let (to, _from) = C::open::<u64>(capacity);
        bencher.iter(&mut || drop(black_box(to.clone())));
    })
}

// %% [markdown]
// A bounded channel has more: what cancelling loses, and whom it serves.

// %%
/// Adds a bounded channel under all loads, with what cancelling loses, and whom it serves.
fn add_bounded<C: Channel>(study: Study) -> Result<Study, UnequalWork> {
    let study = add_idle::<C>(add::<C>(study, rows::<C>())?, BASE.capacity);
    let (lost, key) = (cancelling::<C>(), |parameter| Key::new("stream", C::NAME, parameter));
    prove(format!("cancelling in {}", C::NAME), &losses(C::NAME), &lost)?;
    let least = Tokio::<0>::start().run(least_served::<C, Tokio<0>>());
    Ok(study.counts(&key(BASE_NAME), lost).count(key("producers=16"), "least_served_of_1000", least))
}

/// Adds one without a bound.
fn add_unbounded<C: Channel>(study: Study) -> Result<Study, UnequalWork> {
    Ok(add_idle::<C>(add::<C>(study, [row::<C>(WITHOUT_BOUND)])?, UNBOUNDED))
}

// %% [markdown]
// Two of the libraries have channels without any room, of capacity 0: a message goes from hand to hand. What is allocated for
// it must be the channel's alone, so here both ends wait in one task, and the channel is opened before.

// %%
/// Messages that are handed over.
const HANDED: u64 = 64;

/// The key of a channel without room.
fn handing<C: Channel>() -> Key {
    Key::new("hand over", C::NAME, "capacity=0")
}

/// Adds one without room.
fn add_handing<C: Channel>(study: Study) -> Study {
    let study = study.group("hand over", limit::CALLS).unit("message").count(handing::<C>(), "units", HANDED);
    study.bench(handing::<C>(), |bencher: &mut Bencher<'_>| {
        let (mut to, mut from) = C::open(0);
        bencher.iter(&mut || {
            let sent = async {
                for number in 0..HANDED {
                    assert!(C::send(&mut to, black_box(number)).await, "the receiver is there");
                }
            };
            let received = async {
                let mut sum = 0;
                for _ in 0..HANDED {
                    sum += black_box(C::receive(&mut from).await.expect("the sender is there"));
                }
                sum
            };
            assert_eq!(block_on(join(sent, received)).1, HANDED * (HANDED - 1) / 2, "other work");
        });
    })
}

// %% [markdown]
// Everything is compared with tokio under the same load, and with its own base; at the base and in ping-pong also with the
// smallest channel.

// %%
/// All of it, proven.
///
/// # Errors
/// If a message is lost that should not be, or cancelling loses something else than it did.
pub fn study() -> Result<Study, UnequalWork> {
    let channels: [fn(Study) -> Result<Study, UnequalWork>; 13] = [
        add_bounded::<TokioChannel>,
        add_bounded::<AsyncChannel>,
        add_bounded::<Flume>,
        add_bounded::<Kanal>,
        add_bounded::<Crossfire>,
        add_bounded::<Futures>,
        add_bounded::<Small>,
        add_unbounded::<TokioUnbounded>,
        add_unbounded::<AsyncChannel>,
        add_unbounded::<Flume>,
        add_unbounded::<Kanal>,
        add_unbounded::<CrossfireUnbounded>,
        add_unbounded::<FuturesUnbounded>,
    ];
    let study = Study::new("channels").baseline(TOKIO).rounds(4, 96);
    let study = channels.into_iter().try_fold(study, |study, add| add(study))?;
    let study = add_handing::<Flume>(add_handing::<Kanal>(study)).control_of(handing::<Flume>());
    let study = study.compare(handing::<Kanal>(), handing::<Flume>(), "`kanal` instead of `flume`");
    let controls =
        [("stream", BASE_NAME), ("stream", "producers=16"), ("exchange", PING_PONG), ("open", IDLE)];
    let control = |study: Study, (bench, parameter)| study.control_of(Key::new(bench, TOKIO, parameter));
    Ok(controls.into_iter().fold(study, control))
}

// %% [markdown]
// # A glance
//
// The base: a second for each channel, once the cell is compiled, which takes about a minute. Nothing is stored. Choose another load and run the cell again.

// %% tags=["active-ipynb", "glance"]
// study().unwrap_or_else(harness::stop).glance(|key| {
//     key.bench == "stream" && key.parameter == BASE_NAME
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
// - Messages wait for nothing, and nothing is done with them. The more a program does with each, the smaller the share of
//   its channel.
// - On one thread no two ends are used at the same time, so locks are free when they are taken.
//   [Several threads](threads.ipynb) are measured apart.
// - The futures crate gives each sender a place of its own: with a hundred producers its channel has room for 163 messages.
// - tokio's ends take part in tokio's budget: after 128 messages a task lets others run. Those of other crates do not.
// - Receivers that are shared are not measured.
// - A box of 4 KiB is allocated and freed on the same thread: the allocator has its block at hand.
