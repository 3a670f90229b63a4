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
// # What does an executor-neutral spawn cost?
//
// A library that starts tasks has to choose. It can call `tokio::spawn`, and then it is a library for
// tokio. Or it takes *something that can spawn* from its user, and runs on any executor. Such a something is
// a trait, and every layer of it does something more than the runtime's own function: it boxes the future,
// or it wraps it so that a handle can wait for it or cancel it.
//
// In 2020 the author of `async_executors` asked what these layers cost, and published an answer: boxing for
// the sake of an object-safe trait about 1.5 ns, going from the runtime's own function to a trait with
// handles 4 to 8 ns, on two runtimes with 24 threads. This notebook asks again: with today's executors, one
// switch at a time, on the processor at hand, with processor time as well as wall time.
//
// When you have read it you can decide whether your library may hide the executor behind a trait, and which
// of the four layers to hide it behind.
//
// This is no comparison of runtimes. They appear because each of them makes its handles in another way.

// %% [markdown]
// ## Compile cells as for a benchmark
//
// These settings give cells the profile of `cargo bench`. The harness looks, and refuses to measure without
// them. Building six executors takes a minute or two the first time.

// %% tags=["active-ipynb"]
// :build_env CARGO_PROFILE_DEV_OPT_LEVEL=3
// :build_env CARGO_PROFILE_DEV_DEBUG_ASSERTIONS=false
// :build_env CARGO_PROFILE_DEV_OVERFLOW_CHECKS=false
// :build_env CARGO_PROFILE_DEV_CODEGEN_UNITS=1
// :build_env CARGO_PROFILE_DEV_INCREMENTAL=false
// :dep async-global-executor = "=2.4.1"
// :dep async-std = "=1.13.2"
// :dep async_executors = { version = "=0.7.0", features = ["async_global", "async_std", "localpool", "threadpool", "tokio_ct", "tokio_tp"] }
// :dep futures = { version = "=0.3.34", features = ["thread-pool"] }
// :dep harness = { path = "../../rust-kernels/harness" }
// :dep nio = "=0.1.4"
// :dep smol = "=2.0.2"
// :dep tokio = { version = "=1.54.1", features = ["rt-multi-thread"] }

// %% [markdown]
// A word on one of them: **async-std is discontinued.** Its authors point to smol. It is here because the
// published table has it, and because its successor still runs on the same executor. Do not start anything
// new with it.

// %%
use std::collections::BTreeMap;
use std::future::{Future, ready};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::channel::mpsc::{self, Receiver, Sender};
use futures::executor::{LocalPool, LocalSpawner, ThreadPool};
use futures::future::{AbortHandle, Abortable, Aborted, RemoteHandle};
use futures::stream::StreamExt;
use futures::task::{FutureObj, LocalFutureObj, LocalSpawn, LocalSpawnExt, Spawn, SpawnExt};
use futures::{FutureExt, SinkExt};
use harness::{Bencher, Counts, Key, Study, UnequalWork, limit};
use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

// %% [markdown]
// # The ring
//
// The program is the published one. *N* nodes stand in a ring. Each holds the sending end of a channel to
// its successor and the receiving end of one from its predecessor. Each starts a message on its way, and
// passes on what it receives. A message counts its hops; after *N* hops it is back where it came from, and
// its node counts it as arrived.
//
// The point is in how a node sends: it **spawns a task** for every single message. A ring of *N* nodes
// spawns *N* tasks for the nodes, and *N·N* for the messages. With *N* = 200 that is 40,200 spawns, almost
// all of them from within other tasks.
//
// ## A witness
//
// Before anything is timed we want proof that all of this happened, exactly so and no oftener. The ring
// carries a witness. When it is timed, the witness is nobody, and each question costs a branch that always
// goes the same way. When it is proven, the witness keeps a ledger. It is the same machine code in both
// cases, which a second program for proving could not claim.

// %%
/// What happened in one iteration.
#[derive(Default)]
pub struct Ledger {
    /// Tasks that were handed to a spawn function.
    spawned: AtomicU64,
    /// Tasks whose own code has run to its end.
    ended: AtomicU64,
    /// Messages received, by node and hops: `visits[node * nodes + hops - 1]`.
    visits: Vec<AtomicU64>,
    /// Messages with hops that cannot be.
    strays: AtomicU64,
    nodes: usize,
}

impl Ledger {
    /// An empty one for a ring of so many nodes.
    pub fn of_ring(nodes: usize) -> Self {
        Self { visits: (0..nodes * nodes).map(|_| AtomicU64::new(0)).collect(), nodes, ..Self::default() }
    }
}

// %%
/// Knows what happens in an iteration, or nothing at all.
#[derive(Clone, Default)]
pub struct Witness(Option<Arc<Ledger>>);

impl Witness {
    fn spawn(&self) {
        if let Some(ledger) = &self.0 {
            ledger.spawned.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn end(&self) {
        if let Some(ledger) = &self.0 {
            ledger.ended.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn receive(&self, node: usize, hops: usize) {
        if let Some(ledger) = &self.0 {
            let possible = (1..=ledger.nodes).contains(&hops);
            let entry =
                if possible { &ledger.visits[node * ledger.nodes + hops - 1] } else { &ledger.strays };
            entry.fetch_add(1, Ordering::Relaxed);
        }
    }
}

// %% [markdown]
// Why keep an account for each node and each number of hops? Because it says more than a sum. The message
// that node *i* receives after *h* hops was started by the node *h* places before it. So if every node has
// received every number of hops from 1 to *N* exactly once, then each of the *N* messages has visited each
// node exactly once, in the right order, and came home last.
//
// ## Channels
//
// The channel is the bounded one of the futures crate, and its bound is odd: the capacity asked for, 1, plus
// one for every sender alive. Each message goes out on a *fresh clone* of the node's sender, which has its
// own place in the queue, so putting the message in always succeeds at once. What may have to wait is the
// flush after it, if the receiver is behind.

// %%
/// What a node of the ring is given.
pub struct Seat {
    /// From 0.
    number: usize,
    /// In the whole ring.
    nodes: usize,
    from: Receiver<usize>,
    to: Sender<usize>,
    /// Messages of the ring that are back at their origin.
    home: Arc<AtomicUsize>,
}

/// The seats of a ring, each with the receiving end of the channel before it and the sending end of the one after.
///
/// # Panics
/// If there are fewer than two: a node would send to itself.
pub fn seats(nodes: usize) -> impl Iterator<Item = Seat> {
    assert!(nodes >= 2, "a ring has at least two nodes");
    let (mut to, from): (Vec<_>, Vec<_>) = (0..nodes).map(|_| mpsc::channel(1)).unzip();
    // The sender that belongs to the receiver of node 0 is held by the last node.
    to.rotate_left(1);
    let home = Arc::new(AtomicUsize::new(0));
    let ends = from.into_iter().zip(to).enumerate();
    ends.map(move |(number, (from, to))| Seat { number, nodes, from, to, home: Arc::clone(&home) })
}

// %% [markdown]
// This is the task that carries one message. The sender comes first in the argument list, so it is dropped
// last: when it is gone, so is everything else that the task held. We shall lean on that in a moment.

// %%
/// Sends one message.
///
/// # Panics
/// If the node that should receive it is gone.
pub async fn deliver(mut to: Sender<usize>, hops: usize, witness: Witness) {
    to.send(hops).await.expect("a node listens for as long as somebody can send to it");
    witness.end();
}

// %% [markdown]
// ## A node, and how it ends
//
// A node does not know how tasks are spawned. It is given a function `send` that starts a delivery and
// returns something to wait for; whether there is anything to wait for is the first thing we shall vary.
//
// How does a node know that it is over? The node whose message is the last to come home leaves its loop,
// and drops its sender. That ends its successor's channel, which makes the successor leave, and so on round
// the ring: *N* wake-ups one after another.
//
// Here is the one thing that we do otherwise. In the published program that first node is gone before the
// news has come round, and on a thread pool the last deliveries may still be running when the iteration is
// over. Ours stays until its own channel ends. A channel ends when all its senders are dropped, so after
// the ring has closed, **every delivery has ended**, and nothing runs on into the next iteration. The
// price is one wake-up more, among some *N·N*.

// %%
/// Sends a message, passes on those of others, and counts its own when it comes home. Ends when all messages of the
/// ring are home and all deliveries to this node have ended.
///
/// # Panics
/// If a message has gone too far.
pub async fn node<S: Future>(seat: Seat, send: impl Fn(Sender<usize>, usize) -> S, witness: Witness) {
    let Seat { number, nodes, mut from, to, home } = seat;
    send(to.clone(), 1).await;
    while let Some(hops) = from.next().await {
        witness.receive(number, hops);
        assert!(hops <= nodes, "a message has gone past its origin");
        if hops < nodes {
            send(to.clone(), hops + 1).await;
        } else if home.fetch_add(1, Ordering::SeqCst) + 1 == nodes {
            break;
        }
    }
    drop(to);
    while from.next().await.is_some() {}
    witness.end();
}

// %% [markdown]
// # Four ways to spawn
//
// Now to the layers. From the ring's point of view they differ in one respect: what a spawn gives back. A
// task whose handle is of no further use is *let go*. That is a method of its own, because in most of these
// APIs merely dropping the handle would cancel the task.

// %%
/// What a spawn gives back.
pub trait Handle: Sized {
    /// Gives the handle up and lets the task run on.
    fn let_go(self) {}
}

/// There is no handle.
impl Handle for () {}

// %% [markdown]
// Rust cannot be generic over whether a future may move to another thread. So, as in every library of this
// kind, there are two traits that say the same: one for executors with threads, one for those that keep all
// tasks on the thread that started them.

// %%
/// Can spawn what may move between threads.
pub trait Api: Clone + Send + Sync + 'static {
    /// What a spawn gives back.
    type Handle: Handle + Send;
    /// Starts a task.
    fn start(&self, task: impl Future<Output = ()> + Send + 'static) -> Self::Handle;
}

/// Can spawn on the same thread.
pub trait LocalApi: Clone + 'static {
    /// What a spawn gives back.
    type Handle: Handle;
    /// Starts a task.
    fn start(&self, task: impl Future<Output = ()> + 'static) -> Self::Handle;
}

// %% [markdown]
// ## The published layers
//
// **native**: the runtime's own function. It has no trait; each runtime below implements `Api` by calling it.
//
// **`Spawn`**: the trait of the futures crate. It is object-safe, so it takes a boxed future, and it gives
// nothing back. `LocalSpawn` is its sister for one thread. The two wrappers below box and pass on.

// %%
/// Spawns through `Spawn` or `LocalSpawn` of the futures crate: boxed, without a handle.
#[derive(Clone)]
pub struct Detached<E>(pub E);

impl<E: Spawn + Clone + Send + Sync + 'static> Api for Detached<E> {
    type Handle = ();

    fn start(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn_obj(FutureObj::new(Box::new(task))).expect("the executor runs");
    }
}

impl<E: LocalSpawn + Clone + 'static> LocalApi for Detached<E> {
    type Handle = ();

    fn start(&self, task: impl Future<Output = ()> + 'static) {
        self.0.spawn_local_obj(LocalFutureObj::new(Box::new(task))).expect("the executor runs");
    }
}

// %% [markdown]
// **`SpawnHandle`**: gives a handle back that can be awaited and that cancels the task when it is dropped.
// The method is generic over the future, so no box is needed, and the trait is not object-safe. The crate
// dropped this layer later that year; here it is again.
//
// An executor-neutral trait needs an executor-neutral handle. It is an enum, and every poll of it is a
// branch.

// %%
/// A task started by any executor: its output can be awaited, and the task is cancelled when this is dropped.
pub struct JoinHandle<T> {
    of: JoinHandleOf<T>,
    /// Whether dropping this has to cancel the task.
    cancels: bool,
}

enum JoinHandleOf<T> {
    /// Cancelled through the wrapper around the future.
    Tokio(tokio::task::JoinHandle<Result<T, Aborted>>, AbortHandle),
    AsyncStd(async_std::task::JoinHandle<Result<T, Aborted>>, AbortHandle),
    /// Cancelled by tokio itself.
    TokioAborts(tokio::task::JoinHandle<T>),
    /// Cancels when it is dropped; `None` once it was let go.
    Remote(Option<RemoteHandle<T>>),
}

impl<T> From<JoinHandleOf<T>> for JoinHandle<T> {
    fn from(of: JoinHandleOf<T>) -> Self {
        Self { of, cancels: true }
    }
}

// %% [markdown]
// A finished task needs no cancelling, which saves the common case an atomic operation or two.

// %%
impl<T: 'static> Future for JoinHandle<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let output = match &mut self.of {
            JoinHandleOf::Tokio(task, _) => {
                Pin::new(task).poll(context).map(|done| done.expect("no panic").expect("not cancelled"))
            }
            JoinHandleOf::AsyncStd(task, _) => {
                Pin::new(task).poll(context).map(|done| done.expect("not cancelled"))
            }
            JoinHandleOf::TokioAborts(task) => {
                Pin::new(task).poll(context).map(|done| done.expect("no panic"))
            }
            JoinHandleOf::Remote(task) => task.as_mut().expect("it was not let go").poll_unpin(context),
        };
        self.cancels &= output.is_pending();
        output
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        match &self.of {
            JoinHandleOf::Tokio(_, abort) | JoinHandleOf::AsyncStd(_, abort) if self.cancels => abort.abort(),
            JoinHandleOf::TokioAborts(task) if self.cancels => task.abort(),
            _ => {}
        }
    }
}

impl<T> Handle for JoinHandle<T> {
    fn let_go(mut self) {
        self.cancels = false;
        if let JoinHandleOf::Remote(task) = &mut self.of {
            task.take().into_iter().for_each(RemoteHandle::forget);
        }
    }
}

// %% [markdown]
// Two traits, again, and the wrapper that the ring uses them through.

// %%
/// Spawns with a handle, without a box.
pub trait SpawnHandle {
    /// Starts a task.
    fn spawn_handle<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T>;
}

/// As [`SpawnHandle`], on the same thread.
pub trait LocalSpawnHandle {
    /// Starts a task.
    fn spawn_handle_local<T: 'static>(&self, task: impl Future<Output = T> + 'static) -> JoinHandle<T>;
}

/// Spawns through [`SpawnHandle`] or [`LocalSpawnHandle`].
#[derive(Clone)]
pub struct Handled<E>(pub E);

impl<E: SpawnHandle + Clone + Send + Sync + 'static> Api for Handled<E> {
    type Handle = JoinHandle<()>;

    fn start(&self, task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        self.0.spawn_handle(task)
    }
}

impl<E: LocalSpawnHandle + Clone + 'static> LocalApi for Handled<E> {
    type Handle = JoinHandle<()>;

    fn start(&self, task: impl Future<Output = ()> + 'static) -> JoinHandle<()> {
        self.0.spawn_handle_local(task)
    }
}

// %% [markdown]
// **`SpawnHandleOs`**: the object-safe one. The trait names the output instead of the method, the caller
// boxes the future, and what follows is exactly the layer before. So the step from `SpawnHandle` to
// `SpawnHandleOs` is one box, and nothing else.

// %%
/// Spawns with a handle, object-safe: whoever calls it boxes the future.
pub trait SpawnHandleOs<T> {
    /// Starts a task.
    fn spawn_handle_os(&self, task: Pin<Box<dyn Future<Output = T> + Send>>) -> JoinHandle<T>;
}

impl<T: Send + 'static, E: SpawnHandle> SpawnHandleOs<T> for E {
    fn spawn_handle_os(&self, task: Pin<Box<dyn Future<Output = T> + Send>>) -> JoinHandle<T> {
        self.spawn_handle(task)
    }
}

/// As [`SpawnHandleOs`], on the same thread.
pub trait LocalSpawnHandleOs<T> {
    /// Starts a task.
    fn spawn_handle_local_os(&self, task: Pin<Box<dyn Future<Output = T>>>) -> JoinHandle<T>;
}

impl<T: 'static, E: LocalSpawnHandle> LocalSpawnHandleOs<T> for E {
    fn spawn_handle_local_os(&self, task: Pin<Box<dyn Future<Output = T>>>) -> JoinHandle<T> {
        self.spawn_handle_local(task)
    }
}

// %%
/// Spawns through [`SpawnHandleOs`] or [`LocalSpawnHandleOs`].
#[derive(Clone)]
pub struct Boxed<E>(pub E);

impl<E: SpawnHandleOs<()> + Clone + Send + Sync + 'static> Api for Boxed<E> {
    type Handle = JoinHandle<()>;

    fn start(&self, task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        self.0.spawn_handle_os(Box::pin(task))
    }
}

impl<E: LocalSpawnHandleOs<()> + Clone + 'static> LocalApi for Boxed<E> {
    type Handle = JoinHandle<()>;

    fn start(&self, task: impl Future<Output = ()> + 'static) -> JoinHandle<()> {
        self.0.spawn_handle_local_os(Box::pin(task))
    }
}

// %% [markdown]
// ## Two that are not in the table
//
// Whoever has nothing but `Spawn` can still have a handle: the futures crate makes one, by wrapping the
// future so that its output travels through a one-shot channel. It is the most portable handle there is. On
// tokio it can be compared with the runtime's own, and then the difference is that wrapper (and the box of
// `Spawn`), not the executor.

// %%
/// Spawns through `Spawn` or `LocalSpawn`, with the handle that the futures crate adds to it.
#[derive(Clone)]
pub struct Remote<E>(pub E);

impl<T> Handle for RemoteHandle<T> {
    fn let_go(self) {
        self.forget();
    }
}

impl<E: Spawn + Clone + Send + Sync + 'static> Api for Remote<E> {
    type Handle = RemoteHandle<()>;

    fn start(&self, task: impl Future<Output = ()> + Send + 'static) -> RemoteHandle<()> {
        self.0.spawn_with_handle(task).expect("the executor runs")
    }
}

impl<E: LocalSpawn + Clone + 'static> LocalApi for Remote<E> {
    type Handle = RemoteHandle<()>;

    fn start(&self, task: impl Future<Output = ()> + 'static) -> RemoteHandle<()> {
        self.0.spawn_local_with_handle(task).expect("the executor runs")
    }
}

// %% [markdown]
// And there is what `async_executors` offers **today**. Its `SpawnHandle` is the heir of the object-safe
// one: it takes a boxed future. On tokio it no longer wraps that in `Abortable`, because tokio's own handle
// has learnt to cancel. Variants that go through it have `0.7` in their name.

// %%
/// Spawns through `SpawnHandle` or `LocalSpawnHandle` of async_executors 0.7.
#[derive(Clone)]
pub struct Today<E>(pub E);

impl<T> Handle for async_executors::JoinHandle<T> {
    fn let_go(self) {
        self.detach();
    }
}

impl<E: async_executors::SpawnHandle<()> + Clone + Send + Sync + 'static> Api for Today<E> {
    type Handle = async_executors::JoinHandle<()>;

    fn start(&self, task: impl Future<Output = ()> + Send + 'static) -> Self::Handle {
        async_executors::SpawnHandleExt::spawn_handle(&self.0, task).expect("the executor runs")
    }
}

impl<E: async_executors::LocalSpawnHandle<()> + Clone + 'static> LocalApi for Today<E> {
    type Handle = async_executors::JoinHandle<()>;

    fn start(&self, task: impl Future<Output = ()> + 'static) -> Self::Handle {
        async_executors::LocalSpawnHandleExt::spawn_handle_local(&self.0, task).expect("the executor runs")
    }
}

// %% [markdown]
// # One program, two ways to wait
//
// Here the published comparison went astray. Programs with handles waited for each delivery before their
// node received again, and for all nodes in the end. Programs without handles could do neither: they
// counted down, and the last one sent a message. So `Spawn` against native compared not only two ways to
// spawn but two programs, and the one with less waiting won: on tokio, spawning *with* a box came out
// faster than without.
//
// We keep both programs, and keep them apart. In the **joined** one every handle is awaited. In the other
// every handle is **dropped** (let go, to be exact). A layer without handles can only do the second; every
// other layer does both. Within one program, only the spawn API differs.
//
// And we add a floor. A channel and its wake-ups cost far more than a box; a difference may drown in it.
// So, besides the ring, there is a loop: one task that spawns *M* tasks that do nothing.

// %%
/// What is spawned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A ring of so many nodes.
    Ring(usize),
    /// A task that spawns so many empty ones.
    Loop(usize),
}

/// What becomes of the handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handles {
    /// Every task is awaited: a delivery by its node before it receives again, everything else at the end.
    Joined,
    /// No task is awaited; the last to end reports.
    Dropped,
}

impl Work {
    /// Tasks of one iteration.
    pub fn spawns(self) -> usize {
        match self {
            Self::Ring(nodes) => nodes * nodes + nodes,
            Self::Loop(tasks) => tasks + 1,
        }
    }

    /// Messages of one iteration.
    pub fn messages(self) -> usize {
        if let Self::Ring(nodes) = self { nodes * nodes } else { 0 }
    }
}

// %% [markdown]
// Every spawn function is used through this wrapper, which tells the witness of each spawn.

// %%
/// A spawn function under the eyes of a witness.
#[derive(Clone)]
pub struct Watched<A> {
    api: A,
    witness: Witness,
}

impl<A: Clone> Watched<A> {
    /// This spawn function, under the eyes of this witness.
    pub fn new(api: &A, witness: &Witness) -> Self {
        Self { api: api.clone(), witness: witness.clone() }
    }
}

impl<A: Api> Api for Watched<A> {
    type Handle = A::Handle;

    fn start(&self, task: impl Future<Output = ()> + Send + 'static) -> A::Handle {
        self.witness.spawn();
        self.api.start(task)
    }
}

impl<A: LocalApi> LocalApi for Watched<A> {
    type Handle = A::Handle;

    fn start(&self, task: impl Future<Output = ()> + 'static) -> A::Handle {
        self.witness.spawn();
        self.api.start(task)
    }
}

// %% [markdown]
// First the joined program. What it is made of knows nothing of threads.

// %%
async fn join_all<T: Future<Output = ()>>(tasks: Vec<T>) {
    for task in tasks {
        task.await;
    }
}

/// The task of the loop that does nothing.
async fn empty(witness: Witness) {
    witness.end();
}

/// The task of the loop that starts the others, and awaits them.
async fn start_and_join<T: Future<Output = ()>>(tasks: usize, start: impl Fn() -> T, witness: Witness) {
    join_all((0..tasks).map(|_| start()).collect()).await;
    witness.end();
}

// %% [markdown]
// Then twice the same text: for executors with threads, and for those without.

// %%
/// Runs the program in which every handle is awaited.
pub async fn joined<A: Api<Handle: Future<Output = ()> + 'static>>(work: Work, api: Watched<A>) {
    let inner = api.clone();
    let witness = api.witness.clone();
    match work {
        Work::Ring(nodes) => {
            let start_node = |seat| {
                let inner = inner.clone();
                let send = move |to, hops| inner.start(deliver(to, hops, inner.witness.clone()));
                api.start(node(seat, send, witness.clone()))
            };
            join_all(seats(nodes).map(start_node).collect()).await;
        }
        Work::Loop(tasks) => {
            let start = move || inner.start(empty(inner.witness.clone()));
            api.start(start_and_join(tasks, start, witness)).await;
        }
    }
}

// %%
/// As [`joined`], on the same thread.
pub async fn joined_locally<A: LocalApi<Handle: Future<Output = ()>>>(work: Work, api: Watched<A>) {
    let inner = api.clone();
    let witness = api.witness.clone();
    match work {
        Work::Ring(nodes) => {
            let start_node = |seat| {
                let inner = inner.clone();
                let send = move |to, hops| inner.start(deliver(to, hops, inner.witness.clone()));
                api.start(node(seat, send, witness.clone()))
            };
            join_all(seats(nodes).map(start_node).collect()).await;
        }
        Work::Loop(tasks) => {
            let start = move || inner.start(empty(inner.witness.clone()));
            api.start(start_and_join(tasks, start, witness)).await;
        }
    }
}

// %% [markdown]
// In the program with dropped handles somebody has to notice the end. The published one counts down, and so
// do we: nodes in the ring, all tasks in the loop. The loop's counter is shared by all its tasks, and on
// several threads they will feel that; but they all have it.

// %%
/// Knows how many tasks are left, and reports when there is none.
#[derive(Clone)]
pub struct Countdown(Arc<(AtomicUsize, Sender<()>)>);

impl Countdown {
    /// A countdown from so many, and where it reports.
    fn new(tasks: usize) -> (Self, Receiver<()>) {
        let (report, reported) = mpsc::channel(0);
        (Self(Arc::new((AtomicUsize::new(tasks), report))), reported)
    }

    /// Does the task, and then counts it.
    async fn after(self, task: impl Future<Output = ()>) {
        task.await;
        let (left, report) = &*self.0;
        if left.fetch_sub(1, Ordering::SeqCst) == 1 {
            report.clone().send(()).await.expect("the program waits for the report");
        }
    }
}

/// The task of the loop that starts the others.
async fn start_all(tasks: usize, start: impl Fn(), witness: Witness) {
    (0..tasks).for_each(|_| start());
    witness.end();
}

// %%
/// Runs the program in which every handle is dropped.
pub async fn dropped<A: Api>(work: Work, api: Watched<A>) {
    let inner = api.clone();
    let witness = api.witness.clone();
    let mut reported = match work {
        Work::Ring(nodes) => {
            let (countdown, reported) = Countdown::new(nodes);
            for seat in seats(nodes) {
                let inner = inner.clone();
                let send = move |to, hops| {
                    inner.start(deliver(to, hops, inner.witness.clone())).let_go();
                    ready(())
                };
                api.start(countdown.clone().after(node(seat, send, witness.clone()))).let_go();
            }
            reported
        }
        Work::Loop(tasks) => {
            let (countdown, reported) = Countdown::new(tasks + 1);
            let each = countdown.clone();
            let start = move || inner.start(each.clone().after(empty(inner.witness.clone()))).let_go();
            api.start(countdown.after(start_all(tasks, start, witness))).let_go();
            reported
        }
    };
    reported.next().await;
}

// %%
/// As [`dropped`], on the same thread.
pub async fn dropped_locally<A: LocalApi>(work: Work, api: Watched<A>) {
    let inner = api.clone();
    let witness = api.witness.clone();
    let mut reported = match work {
        Work::Ring(nodes) => {
            let (countdown, reported) = Countdown::new(nodes);
            for seat in seats(nodes) {
                let inner = inner.clone();
                let send = move |to, hops| {
                    inner.start(deliver(to, hops, inner.witness.clone())).let_go();
                    ready(())
                };
                api.start(countdown.clone().after(node(seat, send, witness.clone()))).let_go();
            }
            reported
        }
        Work::Loop(tasks) => {
            let (countdown, reported) = Countdown::new(tasks + 1);
            let each = countdown.clone();
            let start = move || inner.start(each.clone().after(empty(inner.witness.clone()))).let_go();
            api.start(countdown.after(start_all(tasks, start, witness))).let_go();
            reported
        }
    };
    reported.next().await;
}

// %% [markdown]
// # Executors
//
// An executor is set up outside the timed region, with so many worker threads, and then runs one iteration
// after another. The main future of an iteration is polled on the calling thread; while the workers are at
// it, that thread mostly sleeps.

// %%
/// An executor, set up.
pub trait Host {
    /// What tasks are spawned with.
    type Spawner: Clone + 'static;
    /// Sets it up with so many worker threads, if it has any.
    fn new(workers: usize) -> Self;
    /// What tasks are spawned with.
    fn spawner(&self) -> Self::Spawner;
    /// Runs the future, and the tasks, until the future is ready.
    fn block_on(&mut self, future: impl Future<Output = ()>);
}

// %% [markdown]
// A *subject* of the study is an executor together with a way to spawn on it. Here is how one is driven.
// `drive` gets one iteration as a function, and calls it as often as it likes.

// %%
/// What an iteration does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// What is spawned.
    pub work: Work,
    /// What becomes of the handles.
    pub handles: Handles,
    /// Worker threads, where the executor has any.
    pub workers: usize,
}

/// Is handed one iteration as a function, after the set-up.
pub type Drive<'a> = &'a mut dyn FnMut(&mut dyn FnMut(&Witness));

/// Sets an executor up for a load, and hands one iteration to the drive.
pub type World = fn(Load, Drive<'_>);

// %%
/// A subject's code.
#[derive(Clone, Copy)]
pub struct Code {
    /// Sets it up, and runs it.
    pub world: World,
    /// Whether a spawn gives something back that can be awaited.
    pub has_handles: bool,
}

// %% [markdown]
// Four functions make the code of all subjects: with threads and without, with handles and without. What has
// no handles cannot be joined, and the compiler knows.

// %%
/// Tasks may move between threads, and their handles can be awaited.
pub fn with_handles<H: Host, A>() -> Code
where
    A: Api<Handle: Future<Output = ()> + 'static> + From<H::Spawner>,
{
    let world: World = |load, drive| {
        let mut host = H::new(load.workers);
        let api = A::from(host.spawner());
        drive(&mut |witness| match load.handles {
            Handles::Joined => host.block_on(joined(load.work, Watched::new(&api, witness))),
            Handles::Dropped => host.block_on(dropped(load.work, Watched::new(&api, witness))),
        });
    };
    Code { world, has_handles: true }
}

/// As [`with_handles`], on one thread.
pub fn with_handles_locally<H: Host, A>() -> Code
where
    A: LocalApi<Handle: Future<Output = ()>> + From<H::Spawner>,
{
    let world: World = |load, drive| {
        let mut host = H::new(load.workers);
        let api = A::from(host.spawner());
        drive(&mut |witness| match load.handles {
            Handles::Joined => host.block_on(joined_locally(load.work, Watched::new(&api, witness))),
            Handles::Dropped => host.block_on(dropped_locally(load.work, Watched::new(&api, witness))),
        });
    };
    Code { world, has_handles: true }
}

// %%
/// Tasks may move between threads, and have no handles.
pub fn without_handles<H: Host, A: Api + From<H::Spawner>>() -> Code {
    let world: World = |load, drive| {
        assert_eq!(load.handles, Handles::Dropped, "there are no handles to await");
        let mut host = H::new(load.workers);
        let api = A::from(host.spawner());
        drive(&mut |witness| host.block_on(dropped(load.work, Watched::new(&api, witness))));
    };
    Code { world, has_handles: false }
}

/// As [`without_handles`], on one thread.
pub fn without_handles_locally<H: Host, A: LocalApi + From<H::Spawner>>() -> Code {
    let world: World = |load, drive| {
        assert_eq!(load.handles, Handles::Dropped, "there are no handles to await");
        let mut host = H::new(load.workers);
        let api = A::from(host.spawner());
        drive(&mut |witness| host.block_on(dropped_locally(load.work, Watched::new(&api, witness))));
    };
    Code { world, has_handles: false }
}

// %% [markdown]
// The wrappers above are made from whatever spawns.

// %%
impl<E> From<E> for Detached<E> {
    fn from(spawner: E) -> Self {
        Self(spawner)
    }
}

impl<E> From<E> for Handled<E> {
    fn from(spawner: E) -> Self {
        Self(spawner)
    }
}

impl<E> From<E> for Boxed<E> {
    fn from(spawner: E) -> Self {
        Self(spawner)
    }
}

impl<E> From<E> for Remote<E> {
    fn from(spawner: E) -> Self {
        Self(spawner)
    }
}

impl<E> From<E> for Today<E> {
    fn from(spawner: E) -> Self {
        Self(spawner)
    }
}

// %% [markdown]
// ## The futures crate: LocalPool and ThreadPool
//
// These two have nothing below `Spawn`. Their own spawn functions take a boxed future and give nothing back,
// so `Spawn` *is* native here, and the row that all others of these executors are compared with. A handle
// can only be made with the one-shot channel: two more allocations, and the output is caught if it panics.

// %%
impl Host for LocalPool {
    type Spawner = LocalSpawner;

    fn new(_: usize) -> Self {
        LocalPool::new()
    }

    fn spawner(&self) -> LocalSpawner {
        LocalPool::spawner(self)
    }

    fn block_on(&mut self, future: impl Future<Output = ()>) {
        self.run_until(future);
    }
}

impl LocalSpawnHandle for LocalSpawner {
    fn spawn_handle_local<T: 'static>(&self, task: impl Future<Output = T> + 'static) -> JoinHandle<T> {
        let handle = self.spawn_local_with_handle(task).expect("the pool is there");
        JoinHandleOf::Remote(Some(handle)).into()
    }
}

// %%
impl Host for ThreadPool {
    type Spawner = ThreadPool;

    fn new(workers: usize) -> Self {
        ThreadPool::builder().pool_size(workers).create().expect("threads for the pool")
    }

    fn spawner(&self) -> ThreadPool {
        self.clone()
    }

    fn block_on(&mut self, future: impl Future<Output = ()>) {
        futures::executor::block_on(future);
    }
}

impl SpawnHandle for ThreadPool {
    fn spawn_handle<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        JoinHandleOf::Remote(Some(self.spawn_with_handle(task).expect("the pool is there"))).into()
    }
}

// %% [markdown]
// ## tokio with threads
//
// Native is `Handle::spawn`. The handle that comes back gives a `Result`, since a task may have panicked or
// been cancelled; the wrapper unpacks it and is nothing else.

// %%
/// A task of tokio that neither panics nor is cancelled.
pub struct Unwrapped(tokio::task::JoinHandle<()>);

impl Future for Unwrapped {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.poll_unpin(context).map(|done| done.expect("no panic"))
    }
}

/// Without its handle, a task of tokio runs on.
impl Handle for Unwrapped {}

/// Spawns on a runtime of tokio.
#[derive(Clone)]
pub struct TokioTp(tokio::runtime::Handle);

impl Api for TokioTp {
    type Handle = Unwrapped;

    fn start(&self, task: impl Future<Output = ()> + Send + 'static) -> Unwrapped {
        Unwrapped(self.0.spawn(task))
    }
}

impl Spawn for TokioTp {
    fn spawn_obj(&self, task: FutureObj<'static, ()>) -> Result<(), futures::task::SpawnError> {
        drop(self.0.spawn(task));
        Ok(())
    }
}

// %% [markdown]
// In the published layer, a handle cancels through the futures crate's `Abortable`, a flag and a waker in
// an allocation of their own, looked at on every poll. Today a handle would use `abort` of tokio. We have
// both, the second as a variant of its own, so that the price of `Abortable` can be told from the price of
// the layer.

// %%
impl SpawnHandle for TokioTp {
    fn spawn_handle<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        let (abort, registration) = AbortHandle::new_pair();
        JoinHandleOf::Tokio(self.0.spawn(Abortable::new(task, registration)), abort).into()
    }
}

/// Spawns with a handle, cancelled by the runtime itself.
#[derive(Clone)]
pub struct NativeAbort<E>(pub E);

impl<E> From<E> for NativeAbort<E> {
    fn from(spawner: E) -> Self {
        Self(spawner)
    }
}

impl Api for NativeAbort<TokioTp> {
    type Handle = JoinHandle<()>;

    fn start(&self, task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        JoinHandleOf::TokioAborts(self.0.0.spawn(task)).into()
    }
}

// %%
/// tokio's scheduler with threads.
pub struct TokioThreads(Runtime);

impl Host for TokioThreads {
    type Spawner = TokioTp;

    fn new(workers: usize) -> Self {
        Self(Builder::new_multi_thread().worker_threads(workers).build().expect("threads for tokio"))
    }

    fn spawner(&self) -> TokioTp {
        TokioTp(self.0.handle().clone())
    }

    fn block_on(&mut self, future: impl Future<Output = ()>) {
        self.0.block_on(future);
    }
}

// %% [markdown]
// ## tokio on one thread, twice
//
// The published table has tokio's single-threaded scheduler natively, spawning through the runtime's
// handle. That handle belongs to any thread, so each spawn goes through it as if it came from another one;
// it is the same function as above, on another runtime.

// %%
/// tokio's scheduler on the calling thread.
pub struct TokioOneThread(Runtime);

impl Host for TokioOneThread {
    type Spawner = TokioTp;

    fn new(_: usize) -> Self {
        Self(Builder::new_current_thread().build().expect("a runtime"))
    }

    fn spawner(&self) -> TokioTp {
        TokioTp(self.0.handle().clone())
    }

    fn block_on(&mut self, future: impl Future<Output = ()>) {
        self.0.block_on(future);
    }
}

// %% [markdown]
// `TokioCt`, the wrapper of the table, has to take futures that stay on their thread. In its first version it
// forced them through that same handle; ever since, it spawns on a `LocalSet`. We do what it does today, and
// so its rows have a native counterpart that the table lacks: `LocalSet` itself.

// %%
/// Spawns on the local set of tokio that runs on this thread.
#[derive(Clone)]
pub struct TokioCt(Rc<LocalSet>);

impl LocalApi for TokioCt {
    type Handle = Unwrapped;

    fn start(&self, task: impl Future<Output = ()> + 'static) -> Unwrapped {
        Unwrapped(self.0.spawn_local(task))
    }
}

impl LocalSpawn for TokioCt {
    fn spawn_local_obj(&self, task: LocalFutureObj<'static, ()>) -> Result<(), futures::task::SpawnError> {
        drop(self.0.spawn_local(task));
        Ok(())
    }
}

/// As published: tokio's handle demanded an output that may move between threads, so it could not be used.
impl LocalSpawnHandle for TokioCt {
    fn spawn_handle_local<T: 'static>(&self, task: impl Future<Output = T> + 'static) -> JoinHandle<T> {
        let handle = self.spawn_local_with_handle(task).expect("the local set is there");
        JoinHandleOf::Remote(Some(handle)).into()
    }
}

impl LocalApi for NativeAbort<TokioCt> {
    type Handle = JoinHandle<()>;

    fn start(&self, task: impl Future<Output = ()> + 'static) -> JoinHandle<()> {
        JoinHandleOf::TokioAborts(self.0.0.spawn_local(task)).into()
    }
}

// %%
/// tokio on the calling thread, with a set of tasks that never leave it.
pub struct TokioLocal {
    runtime: Runtime,
    tasks: Rc<LocalSet>,
}

impl Host for TokioLocal {
    type Spawner = TokioCt;

    fn new(_: usize) -> Self {
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        Self { runtime, tasks: Rc::new(LocalSet::new()) }
    }

    fn spawner(&self) -> TokioCt {
        TokioCt(Rc::clone(&self.tasks))
    }

    fn block_on(&mut self, future: impl Future<Output = ()>) {
        self.runtime.block_on(self.tasks.run_until(future));
    }
}

// %% [markdown]
// ## async-std, and the executor below it
//
// async-std has one executor for the whole process, which it shares with whoever else uses
// `async-global-executor`. The number of its threads is settled by the first who asks; here that is us.
// Its own handle cannot cancel when it is dropped, so the layer with handles wraps the future in
// `Abortable`, to this day.

// %%
/// Starts the process-wide executor with so many threads, unless it runs already.
fn start_global_executor(workers: usize) {
    let config = async_global_executor::GlobalExecutorConfig::default();
    async_global_executor::init_with_config(config.with_min_threads(workers).with_max_threads(workers));
}

/// async-std.
#[derive(Clone)]
pub struct AsyncStd;

impl Host for AsyncStd {
    type Spawner = Self;

    fn new(workers: usize) -> Self {
        start_global_executor(workers);
        Self
    }

    fn spawner(&self) -> Self {
        Self
    }

    fn block_on(&mut self, future: impl Future<Output = ()>) {
        async_std::task::block_on(future);
    }
}

// %%
/// Without its handle, a task of async-std runs on.
impl Handle for async_std::task::JoinHandle<()> {}

impl Api for AsyncStd {
    type Handle = async_std::task::JoinHandle<()>;

    fn start(&self, task: impl Future<Output = ()> + Send + 'static) -> Self::Handle {
        async_std::task::spawn(task)
    }
}

impl Spawn for AsyncStd {
    fn spawn_obj(&self, task: FutureObj<'static, ()>) -> Result<(), futures::task::SpawnError> {
        drop(async_std::task::spawn(task));
        Ok(())
    }
}

impl SpawnHandle for AsyncStd {
    fn spawn_handle<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        let (abort, registration) = AbortHandle::new_pair();
        JoinHandleOf::AsyncStd(async_std::task::spawn(Abortable::new(task, registration)), abort).into()
    }
}

// %% [markdown]
// The executor below can be used without async-std, and `async_executors` does, under the name of
// `AsyncGlobal`. What async-std adds to a spawn is a record of task-locals.

// %%
/// The process-wide executor of async-global-executor.
#[derive(Clone)]
pub struct Global;

impl Host for Global {
    type Spawner = Self;

    fn new(workers: usize) -> Self {
        start_global_executor(workers);
        Self
    }

    fn spawner(&self) -> Self {
        Self
    }

    fn block_on(&mut self, future: impl Future<Output = ()>) {
        async_global_executor::block_on(future);
    }
}

/// The task of the executors that smol, async-std and others are built on.
impl Handle for smol::Task<()> {
    fn let_go(self) {
        self.detach();
    }
}

impl Api for Global {
    type Handle = smol::Task<()>;

    fn start(&self, task: impl Future<Output = ()> + Send + 'static) -> smol::Task<()> {
        async_global_executor::spawn(task)
    }
}

// %% [markdown]
// ## What `async_executors` has today
//
// Its executors are set up as its documentation says. On the futures crate's pools it implements its traits
// for the pools themselves.

// %%
impl Host for async_executors::TokioTp {
    type Spawner = Self;

    fn new(workers: usize) -> Self {
        TokioThreads::new(workers).0.try_into().expect("a runtime with threads")
    }

    fn spawner(&self) -> Self {
        self.clone()
    }

    fn block_on(&mut self, future: impl Future<Output = ()>) {
        async_executors::TokioTp::block_on(self, future);
    }
}

impl Host for async_executors::TokioCt {
    type Spawner = Self;

    fn new(_: usize) -> Self {
        Self::new().expect("a runtime")
    }

    fn spawner(&self) -> Self {
        self.clone()
    }

    fn block_on(&mut self, future: impl Future<Output = ()>) {
        async_executors::TokioCt::block_on(self, future);
    }
}

// %%
impl Host for async_executors::AsyncStd {
    type Spawner = Self;

    fn new(workers: usize) -> Self {
        start_global_executor(workers);
        Self
    }

    fn spawner(&self) -> Self {
        *self
    }

    fn block_on(&mut self, future: impl Future<Output = ()>) {
        Self::block_on(future);
    }
}

impl Host for async_executors::AsyncGlobal {
    type Spawner = Self;

    fn new(workers: usize) -> Self {
        start_global_executor(workers);
        Self
    }

    fn spawner(&self) -> Self {
        *self
    }

    fn block_on(&mut self, future: impl Future<Output = ()>) {
        Self::block_on(future);
    }
}

// %% [markdown]
// ## smol
//
// smol's executors come without threads: a thread that wants to work for one runs it. They come for one
// thread, too. And `smol::spawn` is an executor for the whole process, with one thread unless an environment
// variable says otherwise.

// %%
/// smol's executor on one thread.
#[derive(Clone)]
pub struct SmolLocal(Rc<smol::LocalExecutor<'static>>);

impl LocalApi for SmolLocal {
    type Handle = smol::Task<()>;

    fn start(&self, task: impl Future<Output = ()> + 'static) -> smol::Task<()> {
        self.0.spawn(task)
    }
}

impl Host for SmolLocal {
    type Spawner = Self;

    fn new(_: usize) -> Self {
        Self(Rc::default())
    }

    fn spawner(&self) -> Self {
        self.clone()
    }

    fn block_on(&mut self, future: impl Future<Output = ()>) {
        smol::block_on(self.0.run(future));
    }
}

// %%
/// Spawns on an executor of smol.
#[derive(Clone)]
pub struct Smol(Arc<smol::Executor<'static>>);

impl Api for Smol {
    type Handle = smol::Task<()>;

    fn start(&self, task: impl Future<Output = ()> + Send + 'static) -> smol::Task<()> {
        self.0.spawn(task)
    }
}

/// smol's executor with threads.
pub struct SmolThreads {
    spawner: Smol,
    /// The threads leave when this is dropped.
    _work: smol::channel::Sender<()>,
}

impl Host for SmolThreads {
    type Spawner = Smol;

    fn new(workers: usize) -> Self {
        let spawner = Smol(Arc::default());
        let (work, end) = smol::channel::unbounded::<()>();
        for _ in 0..workers {
            let (Smol(executor), end) = (spawner.clone(), end.clone());
            std::thread::spawn(move || smol::block_on(executor.run(end.recv())));
        }
        Self { spawner, _work: work }
    }

    fn spawner(&self) -> Smol {
        self.spawner.clone()
    }

    fn block_on(&mut self, future: impl Future<Output = ()>) {
        smol::block_on(future);
    }
}

// %%
/// smol's executor for the whole process.
#[derive(Clone)]
pub struct SmolGlobal;

impl Api for SmolGlobal {
    type Handle = smol::Task<()>;

    fn start(&self, task: impl Future<Output = ()> + Send + 'static) -> smol::Task<()> {
        smol::spawn(task)
    }
}

impl Host for SmolGlobal {
    type Spawner = Self;

    fn new(_: usize) -> Self {
        Self
    }

    fn spawner(&self) -> Self {
        Self
    }

    fn block_on(&mut self, future: impl Future<Output = ()>) {
        smol::block_on(future);
    }
}

// %% [markdown]
// ## nio
//
// The youngest here. It has no work stealing: each spawn, and each wake, picks the worker with the least to
// do. The calling thread is one of its workers.

// %%
/// A task of nio that neither panics nor is cancelled.
pub struct NioTask(nio::JoinHandle<()>);

impl Future for NioTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.poll_unpin(context).map(|done| done.expect("no panic"))
    }
}

/// Without its handle, a task of nio runs on.
impl Handle for NioTask {}

/// Spawns on the runtime of nio that this thread works for.
#[derive(Clone)]
pub struct NioSpawner;

impl Api for NioSpawner {
    type Handle = NioTask;

    fn start(&self, task: impl Future<Output = ()> + Send + 'static) -> NioTask {
        NioTask(nio::spawn(task))
    }
}

// %%
/// nio.
pub struct Nio(nio::LocalRuntime);

impl Host for Nio {
    type Spawner = NioSpawner;

    fn new(workers: usize) -> Self {
        let workers = workers.try_into().expect("at most 255 workers");
        Self(nio::RuntimeBuilder::new().worker_threads(workers).build().expect("threads for nio"))
    }

    fn spawner(&self) -> NioSpawner {
        NioSpawner
    }

    fn block_on(&mut self, future: impl Future<Output = ()>) {
        self.0.block_on(future);
    }
}

// %% [markdown]
// ## Who is not here
//
// The executor that [the ladder](../ladder/measure.ipynb) arrives at, which needs a fraction of what these
// need for a task, cannot run this program. It keeps the futures of its pool in 256 slots, all of *one* type,
// and lends itself to the root future only. In the ring, nodes spawn; so its type would have to contain a
// reference to an executor of that very type, and 200 nodes with their deliveries need more slots. Untying
// that takes a box for each task or a table of jobs, and then it is one of the executors above.
//
// # All subjects
//
// The names are those of the published table, as far as it has them: the executor's row, and the way to spawn.
// Each subject also names what it is compared with, and what changes from there. That is the native row of its executor; and
// native rows are compared with tokio's, not to crown a runtime, but because the published text does so.
//
// The functions that list them are marked `inline`. So they are compiled where they are called, and a cell that
// calls none of them does not have to compile all these executors once more.

// %%
/// Which threads run a subject's tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// The calling one.
    Caller,
    /// As many workers as one likes.
    Workers,
    /// One worker, whatever one likes.
    OneWorker,
}

/// An executor and a way to spawn on it.
#[derive(Clone)]
pub struct Subject {
    /// The executor's row in the published table.
    pub bench: &'static str,
    /// The way to spawn.
    pub variant: &'static str,
    /// Bench and variant that it is compared with.
    pub native: Row,
    /// What changes from there.
    pub change: &'static str,
    /// Which threads run its tasks.
    pub threads: Threads,
    /// What it does.
    pub code: Code,
}

/// Bench and variant.
type Row = (&'static str, &'static str);

/// The subjects of one executor.
fn rows<const N: usize>(
    threads: Threads,
    bench: &'static str,
    native: Row,
    all: [(&'static str, &'static str, Code); N],
) -> Vec<Subject> {
    all.map(|(variant, change, code)| Subject { bench, variant, native, change, threads, code }).to_vec()
}

/// What changes in more than one place.
const BOX: &str = "a box";
const ABORTABLE: &str = "a handle by `Abortable`";
const BOXED_ABORTABLE: &str = "a handle by `Abortable`, and a box";
const ABORT: &str = "a handle by the runtime's own abort";
const REMOTE: &str = "a handle by `remote_handle`";
const BOXED_REMOTE: &str = "a handle by `remote_handle`, and a box";
/// On what is boxed already.
const SECOND: &str = "a second box";
const SECOND_REMOTE: &str = "a handle by `remote_handle`, and a second box";
const TWICE_BOXED_REMOTE: &str = "a handle by `remote_handle`, and two boxes";
const BOX_TODAY: &str = "a box, by `async_executors` 0.7";
const TODAY: &str = "a handle by `async_executors` 0.7";

// %%
const BASIC: Row = ("tokio::Runtime (basic_scheduler)", "native");
const LOCAL_SET: Row = ("tokio::LocalSet", "native");
const LOCAL_POOL: Row = ("LocalPool", "LocalSpawn");

/// The subjects that stay on the calling thread.
#[inline]
pub fn on_one_thread() -> Vec<Subject> {
    type Ct = async_executors::TokioCt;
    let pool = [
        ("LocalSpawn", "", without_handles_locally::<LocalPool, Detached<_>>()),
        ("LocalSpawnHandle", REMOTE, with_handles_locally::<LocalPool, Handled<_>>()),
        ("LocalSpawnHandleOs", SECOND_REMOTE, with_handles_locally::<LocalPool, Boxed<_>>()),
        ("LocalSpawnHandle 0.7", TODAY, with_handles_locally::<LocalPool, Today<_>>()),
    ];
    let tokio = [
        ("LocalSpawn", BOX, without_handles_locally::<TokioLocal, Detached<_>>()),
        ("LocalSpawnHandle", BOXED_REMOTE, with_handles_locally::<TokioLocal, Handled<_>>()),
        ("LocalSpawnHandleOs", TWICE_BOXED_REMOTE, with_handles_locally::<TokioLocal, Boxed<_>>()),
        ("LocalSpawnHandle, native abort", ABORT, with_handles_locally::<TokioLocal, NativeAbort<_>>()),
        ("LocalSpawn 0.7", BOX_TODAY, without_handles_locally::<Ct, Detached<_>>()),
        ("LocalSpawnHandle 0.7", TODAY, with_handles_locally::<Ct, Today<_>>()),
    ];
    let native = |change, code| [("native", change, code)];
    let caller = Threads::Caller;
    [
        rows(caller, "LocalPool", LOCAL_POOL, pool),
        rows(
            caller,
            "tokio::Runtime (basic_scheduler)",
            BASIC,
            native("", with_handles::<TokioOneThread, TokioTp>()),
        ),
        rows(
            caller,
            "tokio::LocalSet",
            BASIC,
            native("a `LocalSet` on the runtime", with_handles_locally::<TokioLocal, TokioCt>()),
        ),
        rows(caller, "TokioCt", LOCAL_SET, tokio),
        rows(
            caller,
            "smol::LocalExecutor",
            BASIC,
            native("smol instead of tokio", with_handles_locally::<SmolLocal, SmolLocal>()),
        ),
    ]
    .concat()
}

// %%
const TOKIO: Row = ("tokio::Runtime", "native");
const ASYNC_STD: Row = ("async_std::task", "native");
const GLOBAL: Row = ("async_global_executor", "native");
const THREAD_POOL: Row = ("ThreadPool", "Spawn");

/// The ways to spawn on tokio, all compared with its own.
#[inline]
fn on_tokio() -> Vec<Subject> {
    type Tp = async_executors::TokioTp;
    let apis = [
        ("Spawn", BOX, without_handles::<TokioThreads, Detached<_>>()),
        ("SpawnHandle", ABORTABLE, with_handles::<TokioThreads, Handled<_>>()),
        ("SpawnHandleOs", BOXED_ABORTABLE, with_handles::<TokioThreads, Boxed<_>>()),
        ("SpawnHandle, native abort", ABORT, with_handles::<TokioThreads, NativeAbort<_>>()),
        ("Spawn with remote_handle", BOXED_REMOTE, with_handles::<TokioThreads, Remote<_>>()),
        ("Spawn 0.7", BOX_TODAY, without_handles::<Tp, Detached<_>>()),
        ("SpawnHandle 0.7", TODAY, with_handles::<Tp, Today<_>>()),
    ];
    let native = [("native", "", with_handles::<TokioThreads, TokioTp>())];
    let workers = Threads::Workers;
    [rows(workers, "tokio::Runtime", TOKIO, native), rows(workers, "TokioTp", TOKIO, apis)].concat()
}

// %%
/// The other subjects with worker threads.
#[inline]
fn on_others() -> Vec<Subject> {
    let pool = [
        ("Spawn", "", without_handles::<ThreadPool, Detached<_>>()),
        ("SpawnHandle", REMOTE, with_handles::<ThreadPool, Handled<_>>()),
        ("SpawnHandleOs", SECOND_REMOTE, with_handles::<ThreadPool, Boxed<_>>()),
        ("SpawnHandle 0.7", TODAY, with_handles::<ThreadPool, Today<_>>()),
    ];
    let async_std = [
        ("Spawn", BOX, without_handles::<AsyncStd, Detached<_>>()),
        ("SpawnHandle", ABORTABLE, with_handles::<AsyncStd, Handled<_>>()),
        ("SpawnHandleOs", BOXED_ABORTABLE, with_handles::<AsyncStd, Boxed<_>>()),
        ("SpawnHandle 0.7", TODAY, with_handles::<async_executors::AsyncStd, Today<_>>()),
    ];
    let global = [("SpawnHandle 0.7", TODAY, with_handles::<async_executors::AsyncGlobal, Today<_>>())];
    let native = |change, code| [("native", change, code)];
    let workers = Threads::Workers;
    [
        rows(workers, "ThreadPool", THREAD_POOL, pool),
        rows(
            workers,
            "async_std::task",
            TOKIO,
            native("async-std instead of tokio", with_handles::<AsyncStd, AsyncStd>()),
        ),
        rows(workers, "AsyncStd", ASYNC_STD, async_std),
        rows(
            workers,
            "async_global_executor",
            ASYNC_STD,
            native("the executor of async-std without its tasks", with_handles::<Global, Global>()),
        ),
        rows(workers, "AsyncGlobal", GLOBAL, global),
        rows(
            workers,
            "smol::Executor",
            TOKIO,
            native("smol instead of tokio", with_handles::<SmolThreads, Smol>()),
        ),
        rows(
            Threads::OneWorker,
            "smol::spawn",
            TOKIO,
            native(
                "smol's executor for the whole process instead of tokio",
                with_handles::<SmolGlobal, SmolGlobal>(),
            ),
        ),
        rows(workers, "nio", TOKIO, native("nio instead of tokio", with_handles::<Nio, NioSpawner>())),
    ]
    .concat()
}

/// All subjects.
#[inline]
pub fn subjects() -> Vec<Subject> {
    [on_one_thread(), on_tokio(), on_others()].concat()
}

// %% [markdown]
// `Spawn` of `async_executors` 0.7 is the same three lines as ours on all its executors. We measure it on
// tokio, where the two together show how far apart two builds of one thing come out, and leave out the
// others.
//
// ## Under which loads
//
// - `N=10`, `N=100`, `N=200`: the published table. Who has handles joins them; who has none cannot. As many
//   workers as the machine has processors.
// - `N=200 handles=dropped`: the ring once more, and now it is one program for all. Compare `Spawn` with native
//   here.
// - `M=1000` and `M=1000 handles=dropped`: the floor, without channels.
// - `N=200 workers=…`: the ring on one worker and on two, for the published ways to spawn, and on
//   twice as many as there are processors, which carries the word `oversubscribed`. The number that the plain
//   `N=200` has already is left out.

// %%
/// Sizes of the published rings.
const NODES: [usize; 3] = [10, 100, 200];
/// Size of every other ring.
const LARGEST: usize = 200;
/// Size of the loop: enough to make starting and ending it disappear.
const TASKS: usize = 1000;

/// Processors that this process may use.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Numbers of workers besides `processors`, each with its parameter.
pub fn sweep(processors: usize) -> Vec<(usize, String)> {
    let mut numbers = vec![1, 2, 2 * processors];
    numbers.dedup();
    numbers.retain(|workers| *workers != processors);
    let word = |workers| if workers > processors { " oversubscribed" } else { "" };
    numbers
        .into_iter()
        .map(|workers| (workers, format!("N={LARGEST} workers={workers}{}", word(workers))))
        .collect()
}

// %%
impl Subject {
    /// All loads of this subject, each with its parameter.
    pub fn loads(&self, processors: usize) -> Vec<(Load, String)> {
        let usual = if self.code.has_handles { Handles::Joined } else { Handles::Dropped };
        let load = |work, handles| Load { work, handles, workers: processors };
        let mut loads = vec![];
        if self.threads != Threads::OneWorker {
            loads.extend(NODES.map(|nodes| (load(Work::Ring(nodes), usual), format!("N={nodes}"))));
            let dropped = |work| load(work, Handles::Dropped);
            loads.push((dropped(Work::Ring(LARGEST)), format!("N={LARGEST} handles=dropped")));
            loads.push((dropped(Work::Loop(TASKS)), format!("M={TASKS} handles=dropped")));
            if self.code.has_handles {
                loads.push((load(Work::Loop(TASKS), usual), format!("M={TASKS}")));
            }
        }
        let is_plain = ["native", "Spawn", "SpawnHandle", "SpawnHandleOs"].contains(&self.variant);
        let swept = self.threads == Threads::Workers && is_plain;
        for (workers, parameter) in sweep(processors) {
            if swept || self.threads == Threads::OneWorker && workers == 1 {
                loads.push((Load { workers, ..load(Work::Ring(LARGEST), usual) }, parameter));
            }
        }
        loads
    }

    /// The executor's row in the published table, and the way to spawn.
    fn row(&self) -> Row {
        (self.bench, self.variant)
    }

    /// How this subject is called under the load of this parameter.
    pub fn key(&self, parameter: &str) -> Key {
        Key::new(self.bench, self.variant, parameter)
    }
}

// %% [markdown]
// # Proof of equal work
//
// For a ring of *N* nodes the witness must have seen *N·N* + *N* spawns, as many ends, *N·N* messages, *N* of
// them home, and every node visited exactly once by every message. It is asked **at the moment the iteration
// returns**, so an end that is missing is a task that runs on into the next one.

// %%
impl Ledger {
    /// What has been seen so far.
    fn seen(&self) -> Counts {
        let get = |count: &AtomicU64| count.load(Ordering::SeqCst);
        let of_nodes = self.visits.chunks(self.nodes.max(1));
        Counts::from([
            ("spawns", get(&self.spawned)),
            ("ends", get(&self.ended)),
            ("messages", self.visits.iter().map(get).sum()),
            ("visits", self.visits.iter().filter(|count| get(count) > 0).count() as u64),
            ("home", of_nodes.filter_map(|of_node| of_node.last()).map(get).sum()),
            ("strays", get(&self.strays)),
        ])
    }
}

/// What a witness must see in one iteration.
pub fn expected(work: Work) -> Counts {
    let (spawns, messages) = (work.spawns() as u64, work.messages() as u64);
    let home = if let Work::Ring(nodes) = work { nodes as u64 } else { 0 };
    let tasks = [("spawns", spawns), ("ends", spawns)];
    let ring = [("messages", messages), ("visits", messages), ("home", home), ("strays", 0)];
    tasks.into_iter().chain(ring).collect()
}

// %% [markdown]
// Two iterations are witnessed, one after the other, by one witness each. Both must have seen the same, and
// the first must not have seen anything more when the second is over.
//
// All of it happens in a process of its own. Executors start threads, and this process must not have any:
// each trial of the study will be a copy of it, and a copied process has one thread. It also deals with an
// executor that loses a task. Such a ring never ends; the copy is killed after a while, and the error says
// whose it was.

// %%
/// How long one trial may take before it counts as hanging: far longer than any of them takes.
pub const LIMIT: Duration = Duration::from_secs(30);

/// The counts of one iteration, proven.
///
/// # Errors
/// If the subject does other work than it should, or none: says which subject, and what is wrong.
pub fn prove(key: &Key, world: World, load: Load, limit: Duration) -> Result<Counts, UnequalWork> {
    let witnessed = harness::isolated(limit, || {
        let nodes = if let Work::Ring(nodes) = load.work { nodes } else { 0 };
        let ledgers = [0, 1].map(|_| Arc::new(Ledger::of_ring(nodes)));
        let mut seen = vec![];
        world(load, &mut |iterate| {
            for ledger in &ledgers {
                iterate(&Witness(Some(Arc::clone(ledger))));
                seen.push(ledger.seen());
            }
        });
        seen.push(ledgers[0].seen());
        let named =
            |counts: Counts| counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
        seen.into_iter().map(named).collect::<Vec<BTreeMap<String, u64>>>()
    });
    let counts = expected(load.work);
    for seen in witnessed.map_err(|reason| format!("{key}: {reason}"))? {
        harness::prove(key, &counts, &seen)?;
    }
    Ok(counts)
}

// %% tags=["active-ipynb"]
// for subject in subjects() {
//     let Some((load, parameter)) = subject.loads(processors()).into_iter().next() else { continue };
//     let key = subject.key(&parameter);
//     let counts = prove(&key, subject.code.world, load, LIMIT).unwrap_or_else(harness::stop);
//     let [spawns, messages, home] = ["spawns", "messages", "home"].map(|name| counts[name]);
//     println!("{:<55} {spawns:>4} spawns {messages:>4} messages {home:>3} home", key.to_string());
// }

// %% [markdown]
// # The study
//
// Which differences are large enough to matter? On one thread a ring is a computation, with an allocation or three for
// each spawn; there 2 % count. Several threads meet by chance. How many wake-ups find the other thread asleep depends on
// what the operating system does at that moment, and it does something else in each round: from one trial to the next
// the same ring differs by 10 to 30 %. There we ask for 5 %. Each load is a group with a control of its own.
//
// Trials differ from each other by far more than samples of one trial, for each trial has a runtime of its
// own. So a trial has one sample or two where others have ten, and there is time for more rounds. Processor time
// is taken besides wall time: on several threads a spawn that costs 2 ns of wall time may cost several times
// that in processor time.

// %%
/// The group of comparisons under this load, and the half-width of what counts as equal there.
fn group(subject: &Subject, parameter: &str) -> (String, f64) {
    let (threads, limit) = if subject.threads == Threads::Caller {
        ("one thread", limit::CALLS)
    } else {
        ("threads", limit::THREADS)
    };
    (format!("{threads}, {parameter}"), limit)
}

/// Samples in a trial of this work.
fn samples(work: Work) -> u32 {
    match work {
        Work::Ring(nodes) if nodes < NODES[1] => 2,
        Work::Ring(_) => 1,
        Work::Loop(_) => 2,
    }
}

// %% [markdown]
// What is compared with what? Everything with the native row of its executor, under the same load; then ways to spawn that
// differ in one thing, and executors that the published text compares. Where one of two joins its tasks and the other has
// no handles, these are two programs.
//
// And a ring with itself: with fewer nodes, for one way to spawn on each executor, and with other numbers of workers.

// %%
/// Ways to spawn that are compared with each other, under which loads, and what changes.
const STEPS: [(Row, Row, &[&str], &str); 11] = [
    (("TokioTp", "SpawnHandleOs"), ("TokioTp", "SpawnHandle"), &["N=100", "N=200", "N=200 workers=1"], BOX),
    (("AsyncStd", "SpawnHandleOs"), ("AsyncStd", "SpawnHandle"), &["N=200", "N=200 workers=1"], BOX),
    (
        ("ThreadPool", "SpawnHandleOs"),
        ("ThreadPool", "SpawnHandle"),
        &["N=200", "M=1000", "N=200 workers=1"],
        SECOND,
    ),
    (("LocalPool", "LocalSpawnHandleOs"), ("LocalPool", "LocalSpawnHandle"), &["N=200", "M=1000"], SECOND),
    (("TokioCt", "LocalSpawnHandleOs"), ("TokioCt", "LocalSpawnHandle"), &["N=200"], SECOND),
    (("TokioCt", "LocalSpawnHandle"), ("TokioCt", "LocalSpawn"), &["N=200", "N=200 handles=dropped"], REMOTE),
    (("TokioTp", "Spawn with remote_handle"), ("TokioTp", "Spawn"), &["N=200 handles=dropped"], REMOTE),
    (("ThreadPool", "SpawnHandle 0.7"), ("ThreadPool", "SpawnHandle"), &["M=1000"], TODAY),
    (("LocalPool", "LocalSpawnHandle 0.7"), ("LocalPool", "LocalSpawnHandle"), &["M=1000"], TODAY),
    (("TokioTp", "SpawnHandle"), ("AsyncStd", "SpawnHandle"), &["N=200"], "tokio instead of async-std"),
    (("TokioCt", "LocalSpawn"), LOCAL_POOL, &["N=200"], "a `LocalSet` of tokio instead of a `LocalPool`"),
];

/// Who is compared with itself in a larger ring.
const IN_SMALL_RINGS: [Row; 8] = [
    TOKIO,
    LOCAL_SET,
    LOCAL_POOL,
    THREAD_POOL,
    ASYNC_STD,
    ("nio", "native"),
    ("smol::Executor", "native"),
    ("smol::LocalExecutor", "native"),
];

// %%
/// Everything that is compared: the first, what it is compared with, and what changes.
fn comparisons(subjects: &[Subject], processors: usize) -> Vec<(Key, Key, String)> {
    let measured = |subject: &Subject| subject.loads(processors).into_iter().map(|(_, parameter)| parameter);
    let keys: Vec<Key> = subjects
        .iter()
        .flat_map(|subject| measured(subject).map(|parameter| subject.key(&parameter)))
        .collect();
    let mut all = vec![];
    let mut beside = |one: Row, other: Row, parameter: &str, change: &str| {
        let subject = |row| subjects.iter().find(|subject| subject.row() == row).expect("a subject");
        let (one, other) = (subject(one), subject(other));
        let handles_differ = one.code.has_handles != other.code.has_handles;
        let two_programs = handles_differ && !parameter.ends_with("handles=dropped");
        let programs = if two_programs { "; two programs, as published" } else { "" };
        all.push((one.key(parameter), other.key(parameter), format!("{change}{programs}")));
    };
    for subject in subjects {
        for parameter in measured(subject) {
            beside(subject.row(), subject.native, &parameter, subject.change);
        }
    }
    for (one, other, parameters, change) in STEPS {
        parameters.iter().for_each(|parameter| beside(one, other, parameter, change));
    }
    for subject in subjects {
        for (load, parameter) in subject.loads(processors) {
            let change = match load.work {
                Work::Ring(LARGEST) if load.workers != processors => {
                    format!("`workers={}` instead of one for each processor", load.workers)
                }
                Work::Ring(nodes) if nodes < LARGEST && IN_SMALL_RINGS.contains(&subject.row()) => {
                    format!("{nodes} nodes instead of {LARGEST}")
                }
                _ => continue,
            };
            all.push((subject.key(&parameter), subject.key(&format!("N={LARGEST}")), change));
        }
    }
    all.retain(|(one, other, _)| one != other && keys.contains(one) && keys.contains(other));
    all
}

// %%
/// All subjects under all their loads, proven. One whose proof fails is left out, and named.
#[inline]
pub fn study() -> Study {
    let subjects = subjects();
    let mut study = Study::new("spawn-apis").unit("spawn").rounds(3, 60, 240).episodes(2, 12, 24);
    study = study.isolated(LIMIT).resources().instructions(false);
    for subject in &subjects {
        for (load, parameter) in subject.loads(processors()) {
            let (key, world) = (subject.key(&parameter), subject.code.world);
            let proof = prove(&key, world, load, LIMIT);
            let counts = expected(load.work);
            let (group, limit) = group(subject, &parameter);
            study = study.group(group, limit).samples(samples(load.work));
            study = study.proven(key.clone(), proof, move |bencher: &mut Bencher| {
                let nobody = Witness::default();
                world(load, &mut |iterate| bencher.iter(&mut || iterate(&nobody)));
            });
            for (counter, value) in [("units", "spawns"), ("spawns", "spawns"), ("messages", "messages")] {
                study = study.count(key.clone(), counter, counts[value]);
            }
            if subject.threads != Threads::Caller {
                study = study.count(key.clone(), "workers", load.workers as u64);
            }
            if [BASIC, TOKIO].contains(&subject.row()) {
                study = study.control_of(key);
            }
        }
    }
    for (one, other, change) in comparisons(&subjects, processors()) {
        study = study.compare(one, other, change);
    }
    study
}

// %% [markdown]
// tokio's native rows are the controls, one for each load: measured twice under two names.
//
// For those who read this as a crate: the proof as a test. Rings that are broken on purpose, and the
// allocations of each layer, are tested in files of their own.

// %%
#[cfg(test)]
mod tests {
    use super::*;

    /// All loads of the study are proven when it is built. Here are small rings, down to the smallest there is.
    #[test]
    fn all_subjects_do_equal_work_on_one_worker_and_on_too_many() {
        for subject in subjects() {
            let works = [Work::Ring(2), Work::Ring(3), Work::Ring(30), Work::Loop(0), Work::Loop(100)];
            for (work, workers) in works.into_iter().flat_map(|work| [1, 4].map(|workers| (work, workers))) {
                let joined = subject.code.has_handles.then_some(Handles::Joined);
                for handles in joined.into_iter().chain([Handles::Dropped]) {
                    let load = Load { work, handles, workers };
                    prove(&subject.key(&format!("{load:?}")), subject.code.world, load, LIMIT).unwrap();
                }
            }
        }
    }

    #[test]
    fn whatever_the_number_of_processors_no_two_are_compared_twice() {
        for processors in [1, 2, 3, 8] {
            let mut pairs = comparisons(&subjects(), processors);
            pairs.iter_mut().for_each(|(one, other, _)| {
                if one > other {
                    std::mem::swap(one, other);
                }
            });
            pairs.sort();
            let all = pairs.len();
            pairs.dedup_by(|a, b| (&a.0, &a.1) == (&b.0, &b.1));
            assert_eq!(pairs.len(), all, "with {processors} processors");
        }
    }

    #[test]
    fn a_sweep_leaves_out_what_is_measured_anyway_and_labels_too_many() {
        let numbers =
            |processors| sweep(processors).into_iter().map(|(_, parameter)| parameter).collect::<Vec<_>>();
        assert_eq!(numbers(1), ["N=200 workers=2 oversubscribed"]);
        assert_eq!(numbers(2), ["N=200 workers=1", "N=200 workers=4 oversubscribed"]);
        assert_eq!(numbers(8), ["N=200 workers=1", "N=200 workers=2", "N=200 workers=16 oversubscribed"]);
    }
}

// %% [markdown]
// # A glance
//
// The ways to spawn on one executor in turns, a second each: the time of a spawn, and how many times that of the first. Nothing is kept, and nothing is concluded. Choose others, or one of your own, and run the cell again.

// %% tags=["active-ipynb", "glance"]
// study().glance(|key| {
//     key.bench == "LocalPool" && key.parameter == "N=100"
// }).unwrap_or_else(harness::stop)

// %% [markdown]
// # Measurement
//
// Rounds follow one another; each runs everything above, load after load, in an order drawn by lot, each trial
// in a process of its own.
//
// `quick` takes less than half a minute and shows that everything works; it is not evidence. For that, set the
// environment variable `ASYNC_COST_PROFILE` to `standard` or `thorough` before you start the kernel.

// %% tags=["active-ipynb"]
// {
//     let profile = harness::Profile::from_env().unwrap_or_else(harness::stop);
//     let outcome = study().measure(&profile).unwrap_or_else(harness::stop);
//     println!("{outcome}");
// };

// %% [markdown]
// The [analysis](analysis.ipynb) takes ratios in the same round and under the same load, divides differences by
// the number of spawns, puts the published claims next to them, and looks at processor time. Before you read a ratio, look at the controls of its load,
// `native (A/A)`. A difference that is not clearly larger than theirs has not been seen.
//
// # What this does not say
//
// - The tasks are tiny, and the channel is most of what a spawn costs here. Next to a task that does something,
//   all of these layers weigh less.
// - `Spawn` under plain `N=…` is another program than native under plain `N=…`, as it was in the published
//   table. Only `handles=dropped` compares them.
// - Every box here comes from the hottest free block of the allocator, on one machine with one allocator.
// - The calling thread counts as a worker for nio, and for nobody else. With `workers=1`, the others have one
//   thread that works and one that waits.
// - `TokioCt` is not the one of 2020, as said above: its published rows measured a slow way to spawn more than
//   a layer.
//
// # What next
//
// - Give `deliver` something to do, or the ring a channel of another kind, and see which differences stay.
// - `cargo bench -p spawn-apis --bench counts` counts the allocations of all of it; divide by `units`.
