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
// tokio. Or its user passes it *something that can spawn*, and it runs on any executor. That something implements
// a trait, and every layer of it does more than the runtime's own function: it boxes the future,
// or wraps it so that a handle can wait for it or cancel it.
//
// In 2020 the author of `async_executors` measured what these layers cost, and published the result: boxing for
// an object-safe trait about 1.5 ns, going from the runtime's own function to a trait with
// handles 4 to 8 ns, on two runtimes with 24 threads. This notebook asks again: with today's executors, one
// switch at a time, on the processor at hand, with processor time as well as wall time.
//
// After reading it you can decide whether your library may hide the executor behind a trait, and which
// of the four layers to hide it behind.
//
// This is not a comparison of runtimes. There are several because each makes its handles in another way.

// %% [markdown]
// ## Compile cells as for a benchmark
//
// These settings give cells the profile of `cargo bench`. Without them, the harness refuses to measure. Building six
// executors takes a minute or two the first time.

// %% tags=["active-ipynb"]
// :build_env CARGO_PROFILE_DEV_OPT_LEVEL=3
// :build_env CARGO_PROFILE_DEV_DEBUG_ASSERTIONS=false
// :build_env CARGO_PROFILE_DEV_OVERFLOW_CHECKS=false
// :build_env CARGO_PROFILE_DEV_CODEGEN_UNITS=1
// :build_env CARGO_INCREMENTAL=0
// :dep async-global-executor = "=2.4.1"
// :dep async-std = "=1.13.2"
// :dep async_executors = { version = "=0.7.0", features = ["async_global", "async_std", "localpool", "threadpool", "tokio_ct", "tokio_tp"] }
// :dep futures = { version = "=0.3.34", features = ["thread-pool"] }
// :dep harness = { path = "../../rust-kernels/harness" }
// :dep nio = "=0.1.4"
// :dep smol = "=2.0.2"
// :dep tokio = { version = "=1.54.1", features = ["rt-multi-thread"] }

// %% [markdown]
// **async-std is discontinued**; its authors recommend smol. It is measured because the published table has it,
// and because smol still runs on the same executor. Do not start anything new with it.

// %%
use std::future::{Future, ready};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use async_executors::{LocalSpawnHandleExt, SpawnHandleExt};
use futures::channel::mpsc::{self, Receiver, Sender};
pub use futures::executor::LocalPool;
use futures::executor::{LocalSpawner, ThreadPool};
use futures::future::{AbortHandle, Abortable, Aborted, RemoteHandle, join_all};
use futures::stream::StreamExt;
use futures::task::{FutureObj, LocalFutureObj, LocalSpawn, LocalSpawnExt, Spawn, SpawnError, SpawnExt};
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
// Before anything is timed, a proof shows that all of this happened, exactly once. For that the ring carries a witness.
// During the proof it keeps a ledger; during the timing it has none, and each call is a branch that always goes the same
// way. Both run the same machine code, which a second program written for the proof would not.

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
    pub fn for_ring(nodes: usize) -> Self {
        Self { visits: (0..nodes * nodes).map(|_| AtomicU64::new(0)).collect(), nodes, ..Self::default() }
    }
}

// %% [markdown]
// The program reports to a witness, which every task gets a clone of.

// %%
/// Records what happens in an iteration if it has a ledger, and nothing if it has none.
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
// Why count by node and by hops? Because that says more than a sum. The message
// that node *i* receives after *h* hops was started by the node *h* places before it. So if every node has
// received every number of hops from 1 to *N* exactly once, then each of the *N* messages has visited each
// node exactly once, in the right order, and came home last.
//
// ## Channels
//
// The channel is the bounded one of the futures crate, and its bound is odd: the capacity asked for, 1, plus one for
// every sender alive. Each message goes out on a *fresh clone* of the node's sender, which has its own place in the
// queue, so putting the message in always succeeds at once. Only the flush after it may have to wait, if the receiver is
// behind.

// %%
/// A node of the ring: the receiving end of the channel before it, and the sending end of the one after.
pub struct Node {
    /// From 0.
    number: usize,
    /// In the whole ring.
    nodes: usize,
    from: Receiver<usize>,
    to: Sender<usize>,
    /// Messages of the whole ring that have returned to their origin.
    home: Arc<AtomicUsize>,
}

/// The nodes of a ring, connected.
///
/// # Panics
/// If there are fewer than two: a node would send to itself.
pub fn ring(nodes: usize) -> impl Iterator<Item = Node> {
    assert!(nodes >= 2, "a ring has at least two nodes");
    let (mut to, from): (Vec<_>, Vec<_>) = (0..nodes).map(|_| mpsc::channel(1)).unzip();
    // The sender that belongs to the receiver of node 0 is held by the last node.
    to.rotate_left(1);
    let home = Arc::new(AtomicUsize::new(0));
    let ends = from.into_iter().zip(to).enumerate();
    ends.map(move |(number, (from, to))| Node { number, nodes, from, to, home: Arc::clone(&home) })
}

// %% [markdown]
// This task carries one message. The sender is the first argument, so it is dropped last: when it is gone, so is
// everything else that the task held. The end of the ring below relies on that.

// %%
/// Sends one message.
///
/// # Panics
/// If the node that should receive it is gone.
pub async fn deliver(mut to: Sender<usize>, hops: usize, witness: Witness) {
    to.send(hops).await.expect("a node listens as long as a sender exists");
    witness.end();
}

// %% [markdown]
// ## A node, and how it ends
//
// A node does not know how tasks are spawned. It is given a function `send` that starts a delivery and
// returns something to wait for; whether there is anything to wait for is the first thing that varies.
//
// How does a node know when to stop? The node whose message is the last to come home leaves its loop
// and drops its sender. That ends its successor's channel, so the successor leaves too, and so on round
// the ring: *N* wake-ups in sequence.
//
// One thing differs from the published program. There, the first node to leave is gone at once, and on a thread pool
// the last deliveries may still be running when the iteration is over. Ours stays until its own channel ends. A channel
// ends when all its senders are dropped, so at that point **every delivery has ended**, and nothing runs on
// into the next iteration. It takes one more wake-up, in addition to some *N·N*.

// %%
/// Sends a message, passes on those of others, and counts its own when it comes home. Ends when all messages of the
/// ring are home and all deliveries to this node have ended.
///
/// # Panics
/// If a message has gone too far.
pub async fn run_node<S: Future>(node: Node, send: impl Fn(Sender<usize>, usize) -> S, witness: Witness) {
    let Node { number, nodes, mut from, to, home } = node;
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
// For the ring, the layers differ in one respect: what a spawn returns. A
// task whose handle is no longer needed is *detached*. That is a method of its own, because in most of these
// APIs dropping the handle cancels the task.

// %%
/// What a spawn gives back.
pub trait Handle: Sized {
    /// Drops the handle without cancelling the task.
    fn detach(self) {}
}

/// There is no handle.
impl Handle for () {}

// %% [markdown]
// Rust cannot be generic over whether a future is `Send`. So, as in every library of this
// kind, there are two traits of the same shape: one for executors with threads, one for those that keep all
// tasks on the thread that started them.

// %%
/// Can spawn what may move between threads.
pub trait Api: Clone + Send + Sync + 'static {
    type Handle: Handle + Send;
    fn start(&self, task: impl Future<Output = ()> + Send + 'static) -> Self::Handle;
}

/// Can spawn on the same thread.
pub trait LocalApi: Clone + 'static {
    type Handle: Handle;
    fn start(&self, task: impl Future<Output = ()> + 'static) -> Self::Handle;
}

// %% [markdown]
// ## The published layers
//
// **native**: the runtime's own function. It has no trait; each runtime below implements `Api` by calling it.
//
// **`Spawn`**: the trait of the futures crate. It is object-safe, so it takes a boxed future, and it returns nothing.
// `LocalSpawn` is its counterpart for one thread.
//
// **`SpawnHandle`**: returns a handle that can be awaited and that cancels the task when it is dropped. The method is
// generic over the future, so no box is needed, and the trait is not object-safe. The crate dropped this layer later
// that year; it is rebuilt here.
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
// A finished task needs no cancelling, so the usual case skips an atomic operation or two.

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
    fn detach(mut self) {
        self.cancels = false;
        if let JoinHandleOf::Remote(task) = &mut self.of {
            task.take().into_iter().for_each(RemoteHandle::forget);
        }
    }
}

// %% [markdown]
// Two traits again. Their object-safe versions, **`SpawnHandleOs`**, name the output instead of the method; the caller
// boxes the future, and the rest is the layer before. So the step from `SpawnHandle` to `SpawnHandleOs` is one box and
// nothing else.

// %%
/// Spawns with a handle, without a box.
pub trait SpawnHandle {
    fn spawn_handle<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T>;
}

/// As [`SpawnHandle`], on the same thread.
pub trait LocalSpawnHandle {
    fn spawn_handle_local<T: 'static>(&self, task: impl Future<Output = T> + 'static) -> JoinHandle<T>;
}

/// Spawns with a handle, object-safe: the caller boxes the future.
pub trait SpawnHandleOs<T> {
    fn spawn_handle_os(&self, task: Pin<Box<dyn Future<Output = T> + Send>>) -> JoinHandle<T>;
}

impl<T: Send + 'static, E: SpawnHandle> SpawnHandleOs<T> for E {
    fn spawn_handle_os(&self, task: Pin<Box<dyn Future<Output = T> + Send>>) -> JoinHandle<T> {
        self.spawn_handle(task)
    }
}

/// As [`SpawnHandleOs`], on the same thread.
pub trait LocalSpawnHandleOs<T> {
    fn spawn_handle_local_os(&self, task: Pin<Box<dyn Future<Output = T>>>) -> JoinHandle<T>;
}

impl<T: 'static, E: LocalSpawnHandle> LocalSpawnHandleOs<T> for E {
    fn spawn_handle_local_os(&self, task: Pin<Box<dyn Future<Output = T>>>) -> JoinHandle<T> {
        self.spawn_handle_local(task)
    }
}

// %% [markdown]
// ## Two that are not in the table
//
// With nothing but `Spawn` one can still have a handle: the futures crate makes one, by wrapping the
// future so that its output goes through a one-shot channel. It works on any executor. On
// tokio it can be compared with the runtime's own, and then the difference is that wrapper (and the box of
// `Spawn`), not the executor.
//
// And there is what `async_executors` offers **today**. Its `SpawnHandle` descends from the object-safe
// one: it takes a boxed future. On tokio it no longer wraps that in `Abortable`, because tokio's own handle
// can cancel by now. Variants that go through it have `0.7` in their name.

// %%
impl<T> Handle for RemoteHandle<T> {
    fn detach(self) {
        self.forget();
    }
}

impl<T> Handle for async_executors::JoinHandle<T> {
    fn detach(self) {
        self.detach();
    }
}

// %% [markdown]
// ## All layers side by side
//
// Each layer wraps an executor, and spawns through one trait where tasks may move between threads, and through its
// counterpart where they stay. The macro writes both; the table below it says what each layer does.

// %%
pub mod layers {
    use super::*;

    macro_rules! layers {
        ($(#[doc = $doc:literal] $layer:ident -> $handle:ty, |$executor:ident, $task:ident|
           $moving:path => $start:expr, $local:path => $start_local:expr;)*) => {$(
            #[doc = $doc]
            #[derive(Clone)]
            pub struct $layer<E>(pub E);

            impl<E> From<E> for $layer<E> {
                fn from(executor: E) -> Self {
                    Self(executor)
                }
            }

            impl<E: $moving + Clone + Send + Sync + 'static> Api for $layer<E> {
                type Handle = $handle;
                fn start(&self, $task: impl Future<Output = ()> + Send + 'static) -> $handle {
                    let $executor = &self.0;
                    $start
                }
            }

            impl<E: $local + Clone + 'static> LocalApi for $layer<E> {
                type Handle = $handle;
                fn start(&self, $task: impl Future<Output = ()> + 'static) -> $handle {
                    let $executor = &self.0;
                    $start_local
                }
            }
        )*};
    }

    layers! {
        /// Through `Spawn` or `LocalSpawn` of the futures crate: boxed, without a handle.
        Detached -> (), |executor, task|
            Spawn => executor.spawn_obj(FutureObj::new(Box::new(task))).expect("it runs"),
            LocalSpawn => executor.spawn_local_obj(LocalFutureObj::new(Box::new(task))).expect("it runs");
        /// Through [`SpawnHandle`] or [`LocalSpawnHandle`].
        Handled -> JoinHandle<()>, |executor, task|
            SpawnHandle => executor.spawn_handle(task),
            LocalSpawnHandle => executor.spawn_handle_local(task);
        /// Through [`SpawnHandleOs`] or [`LocalSpawnHandleOs`].
        Boxed -> JoinHandle<()>, |executor, task|
            SpawnHandleOs<()> => executor.spawn_handle_os(Box::pin(task)),
            LocalSpawnHandleOs<()> => executor.spawn_handle_local_os(Box::pin(task));
        /// Through `Spawn` or `LocalSpawn`, with the handle that the futures crate adds.
        Remote -> RemoteHandle<()>, |executor, task|
            Spawn => executor.spawn_with_handle(task).expect("it runs"),
            LocalSpawn => executor.spawn_local_with_handle(task).expect("it runs");
        /// Through `SpawnHandle` or `LocalSpawnHandle` of async_executors 0.7.
        Today -> async_executors::JoinHandle<()>, |executor, task|
            async_executors::SpawnHandle<()> => SpawnHandleExt::spawn_handle(executor, task).expect("it runs"),
            async_executors::LocalSpawnHandle<()> =>
                LocalSpawnHandleExt::spawn_handle_local(executor, task).expect("it runs");
    }
}

pub use self::layers::{Boxed, Detached, Handled, Remote, Today};

// %% [markdown]
// # One program, two ways to wait
//
// The published comparison mixed two programs. With handles, a node waited for each delivery before it received
// again, and the caller for all nodes. Without handles neither was possible: tasks
// counted down, and the last one sent a message. So `Spawn` against native compared not only two ways to
// spawn but also two programs, one of which waits less.
//
// We keep both programs, and keep them apart. In the **joined** one every handle is awaited. In the other
// every handle is **dropped** (detached, to be exact). A layer without handles can only do the second; every
// other layer does both. Within one program, only the spawn API differs.
//
// And there is a floor. The cost of channels and wake-ups may hide a difference between layers. So there is also a loop:
// one task that spawns *M* tasks that do nothing.

// %% [markdown]
// Two choices make a program: what is spawned, and what happens to the handles.

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
// Every spawn function is called through this wrapper, which reports each spawn to the witness.

// %%
/// A spawn function and the witness that it reports to.
#[derive(Clone)]
pub struct Recorded<A> {
    api: A,
    witness: Witness,
}

impl<A: Clone> Recorded<A> {
    /// This spawn function, with this witness.
    pub fn new(api: &A, witness: &Witness) -> Self {
        Self { api: api.clone(), witness: witness.clone() }
    }
}

impl<A: Api> Api for Recorded<A> {
    type Handle = A::Handle;

    fn start(&self, task: impl Future<Output = ()> + Send + 'static) -> A::Handle {
        self.witness.spawn();
        self.api.start(task)
    }
}

impl<A: LocalApi> LocalApi for Recorded<A> {
    type Handle = A::Handle;

    fn start(&self, task: impl Future<Output = ()> + 'static) -> A::Handle {
        self.witness.spawn();
        self.api.start(task)
    }
}

// %% [markdown]
// First the parts of the joined program that do not depend on whether tasks may move between threads.

// %%
/// The task of the loop that does nothing.
async fn empty(witness: Witness) {
    witness.end();
}

/// The task of the loop that starts the others, and awaits them in order.
async fn start_and_join<T: Future<Output = ()>>(tasks: usize, start: impl Fn() -> T, witness: Witness) {
    let started: Vec<T> = (0..tasks).map(|_| start()).collect();
    for task in started {
        task.await;
    }
    witness.end();
}

// %% [markdown]
// Then the program, compiled for executors with threads, and for those without. The caller awaits all nodes together, by
// `join_all` as published, so that each node that ends wakes it.

// %%
pub mod joining {
    use super::*;

    macro_rules! joined {
        ($api:ident, $joined:ident) => {
            /// Runs the program in which every handle is awaited.
            pub async fn $joined<A: $api<Handle: Future<Output = ()> + 'static>>(
                work: Work,
                api: Recorded<A>,
            ) {
                let (inner, witness) = (api.clone(), api.witness.clone());
                match work {
                    Work::Ring(nodes) => {
                        let start_node = |node| {
                            let inner = inner.clone();
                            let send = move |to, hops| inner.start(deliver(to, hops, inner.witness.clone()));
                            api.start(run_node(node, send, witness.clone()))
                        };
                        join_all(ring(nodes).map(start_node).collect::<Vec<_>>()).await;
                    }
                    Work::Loop(tasks) => {
                        let start = move || inner.start(empty(inner.witness.clone()));
                        api.start(start_and_join(tasks, start, witness)).await;
                    }
                }
            }
        };
    }

    joined!(Api, joined);
    joined!(LocalApi, joined_locally);
}

pub use self::joining::{joined, joined_locally};

// %% [markdown]
// The program with dropped handles needs another way to notice its end. The published one counts down, and so
// do we: nodes in the ring, all tasks in the loop. All tasks of the loop share the counter, in every layer.

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

// %% [markdown]
// This program, too, is compiled twice.

// %%
pub mod dropping {
    use super::*;

    macro_rules! dropped {
        ($api:ident, $dropped:ident) => {
            /// Runs the program in which every handle is dropped.
            pub async fn $dropped<A: $api>(work: Work, api: Recorded<A>) {
                let (inner, witness) = (api.clone(), api.witness.clone());
                let (Work::Ring(counted) | Work::Loop(counted)) = work;
                let root = usize::from(matches!(work, Work::Loop(_)));
                let (countdown, mut reported) = Countdown::new(counted + root);
                match work {
                    Work::Ring(nodes) => {
                        for node in ring(nodes) {
                            let inner = inner.clone();
                            let send = move |to, hops| {
                                inner.start(deliver(to, hops, inner.witness.clone())).detach();
                                ready(())
                            };
                            api.start(countdown.clone().after(run_node(node, send, witness.clone())))
                                .detach();
                        }
                        drop(countdown);
                    }
                    Work::Loop(tasks) => {
                        let each = countdown.clone();
                        let start =
                            move || inner.start(each.clone().after(empty(inner.witness.clone()))).detach();
                        api.start(countdown.after(start_all(tasks, start, witness))).detach();
                    }
                }
                reported.next().await;
            }
        };
    }

    dropped!(Api, dropped);
    dropped!(LocalApi, dropped_locally);
}

pub use self::dropping::{dropped, dropped_locally};

// %% [markdown]
// # Executors
//
// An executor is set up outside the timed region, with so many worker threads, and then runs one iteration
// after another. The main future of an iteration is polled on the calling thread; while the workers are at
// it, that thread mostly sleeps.

// %%
/// An executor, set up.
pub trait Host: Sized {
    /// What tasks are spawned with.
    type Spawner: Clone + 'static;
    /// Sets it up with so many worker threads, if it has any.
    fn set_up(workers: usize) -> (Self, Self::Spawner);
    /// Runs the future, and the tasks, until the future is ready.
    fn block_on(&mut self, future: impl Future<Output = ()>);
}

// %% [markdown]
// A *subject* of the study is an executor together with a way to spawn on it. Its code, a *world*, sets the executor up
// and passes one iteration, as a function, to `repeat`, which calls it for the proof or for the clock.

// %%
/// What an iteration does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    pub work: Work,
    pub handles: Handles,
    /// Worker threads, where the executor has any.
    pub workers: usize,
}

/// Receives one iteration as a function, after the set-up.
pub type Repeat<'a> = &'a mut dyn FnMut(&mut dyn FnMut(&Witness));

/// Sets an executor up for a load, and passes one iteration to `repeat`.
pub type World = fn(Load, Repeat<'_>);

/// A subject's code.
#[derive(Clone, Copy)]
pub struct Code {
    pub world: World,
    /// Whether a spawn gives something back that can be awaited.
    pub has_handles: bool,
}

// %% [markdown]
// Four functions make the code of all subjects: with threads and without, with handles and without. A way to spawn
// without handles cannot be joined, and the compiler checks that.

// %%
pub mod worlds {
    use super::*;

    macro_rules! worlds {
        ($api:ident, $with:ident, $without:ident, $joined:ident, $dropped:ident) => {
            /// The code of a way to spawn whose handles can be awaited.
            pub fn $with<H: Host, A>() -> Code
            where
                A: $api<Handle: Future<Output = ()> + 'static> + From<H::Spawner>,
            {
                let world: World = |load, repeat| {
                    let (mut host, spawner) = H::set_up(load.workers);
                    let api = A::from(spawner);
                    repeat(&mut |witness| match load.handles {
                        Handles::Joined => host.block_on($joined(load.work, Recorded::new(&api, witness))),
                        Handles::Dropped => host.block_on($dropped(load.work, Recorded::new(&api, witness))),
                    });
                };
                Code { world, has_handles: true }
            }

            /// The code of a way to spawn without handles.
            pub fn $without<H: Host, A: $api + From<H::Spawner>>() -> Code {
                let world: World = |load, repeat| {
                    assert_eq!(load.handles, Handles::Dropped, "there are no handles to await");
                    let (mut host, spawner) = H::set_up(load.workers);
                    let api = A::from(spawner);
                    repeat(&mut |witness| host.block_on($dropped(load.work, Recorded::new(&api, witness))));
                };
                Code { world, has_handles: false }
            }
        };
    }

    worlds!(Api, with_handles, without_handles, joined, dropped);
    worlds!(LocalApi, with_handles_locally, without_handles_locally, joined_locally, dropped_locally);
}

pub use self::worlds::{with_handles, with_handles_locally, without_handles, without_handles_locally};

// %% [markdown]
// This function times some ways to spawn in turns, each trial in a process of its own. Cells below call it; change what
// they name and run them again.

// %%
/// How long one trial may take before it counts as hanging: far longer than any of them takes.
pub const LIMIT: Duration = Duration::from_secs(30);

/// Times the iterations of a world.
pub fn bench(world: World, load: Load) -> impl Fn(&mut Bencher) {
    move |bencher| {
        let witness = Witness::default();
        world(load, &mut |iterate| bencher.iter(&mut || iterate(&witness)));
    }
}

/// Some ways to spawn at a glance, in rings of 100 nodes with two workers; the first is what the others are compared
/// with.
pub fn glance(codes: &[(&str, Code)]) -> harness::Seen {
    let load = Load { work: Work::Ring(100), handles: Handles::Dropped, workers: 2 };
    let study =
        codes.iter().fold(Study::new("spawn-apis").unit("spawn").isolated(LIMIT), |study, (name, code)| {
            let key = Key::new("glance", *name, "");
            study.bench(key.clone(), bench(code.world, load)).count(key, "units", load.work.spawns() as u64)
        });
    study.glance(|_| true).unwrap_or_else(harness::stop)
}

// %% [markdown]
// ## The futures crate: LocalPool and ThreadPool
//
// These two have nothing below `Spawn`. Their own spawn functions take a boxed future and return nothing, so `Spawn`
// *is* native here, and the row that all others of these executors are compared with. A handle can only be made with the
// one-shot channel: two more allocations, and the output is caught if it panics.

// %%
impl Host for LocalPool {
    type Spawner = LocalSpawner;

    fn set_up(_: usize) -> (Self, LocalSpawner) {
        let pool = LocalPool::new();
        let spawner = pool.spawner();
        (pool, spawner)
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

// %% [markdown]
// Its pool with threads, the same way.

// %%
impl Host for ThreadPool {
    type Spawner = ThreadPool;

    fn set_up(workers: usize) -> (Self, Self) {
        let pool = ThreadPool::builder().pool_size(workers).create().expect("threads for the pool");
        (pool.clone(), pool)
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
// At a glance, on one thread: the time per spawn without a handle, with one, and with one and a second box.

// %% tags=["active-ipynb", "glance"]
// glance(&[
//     ("LocalSpawn", without_handles_locally::<LocalPool, Detached<_>>()),
//     ("LocalSpawnHandle", with_handles_locally::<LocalPool, Handled<_>>()),
//     ("LocalSpawnHandleOs", with_handles_locally::<LocalPool, Boxed<_>>()),
// ])

// %% [markdown]
// ## tokio with threads
//
// Native is `Handle::spawn`. The handle that comes back gives a `Result`, since a task may have panicked or
// been cancelled; the wrapper unpacks it and is nothing else.

// %%
/// A task that neither panics nor is cancelled, of a runtime whose handle says so.
pub struct Unwrapped<H>(H);

impl<H: Future<Output = Result<(), E>> + Unpin, E: std::fmt::Debug> Future for Unwrapped<H> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.poll_unpin(context).map(|done| done.expect("no panic"))
    }
}

/// Without their handles, tasks of these runtimes run on.
impl<H> Handle for Unwrapped<H> {}

/// A task of tokio.
pub type TokioTask = Unwrapped<tokio::task::JoinHandle<()>>;

/// Spawns on a runtime of tokio.
#[derive(Clone)]
pub struct TokioTp(tokio::runtime::Handle);

impl Api for TokioTp {
    type Handle = TokioTask;

    fn start(&self, task: impl Future<Output = ()> + Send + 'static) -> TokioTask {
        Unwrapped(self.0.spawn(task))
    }
}

impl Spawn for TokioTp {
    fn spawn_obj(&self, task: FutureObj<'static, ()>) -> Result<(), SpawnError> {
        drop(self.0.spawn(task));
        Ok(())
    }
}

// %% [markdown]
// In the published layer, a handle cancels through the futures crate's `Abortable`, a flag and a waker in
// an allocation of their own, read at every poll. Today a handle would use `abort` of tokio. We have
// both, the second as a variant of its own, which separates the cost of `Abortable` from that of the layer.

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

// %% [markdown]
// tokio has two schedulers: with threads, and on the calling thread. The published table has the second natively as
// well, spawning through the runtime's handle. That handle belongs to any thread, so each spawn goes through it as if
// it came from another one; it is the same function as above, on another runtime.

// %%
/// A runtime of tokio, with threads or on the calling thread.
pub struct TokioHost<const THREADS: bool>(Runtime);
pub type TokioThreads = TokioHost<true>;
pub type TokioOneThread = TokioHost<false>;

impl<const THREADS: bool> Host for TokioHost<THREADS> {
    type Spawner = TokioTp;

    fn set_up(workers: usize) -> (Self, TokioTp) {
        let mut builder = if THREADS { Builder::new_multi_thread() } else { Builder::new_current_thread() };
        let runtime = builder.worker_threads(workers).build().expect("a runtime");
        let spawner = TokioTp(runtime.handle().clone());
        (Self(runtime), spawner)
    }

    fn block_on(&mut self, future: impl Future<Output = ()>) {
        self.0.block_on(future);
    }
}

// %% [markdown]
// The layers on tokio's threads:

// %% tags=["active-ipynb", "glance"]
// glance(&[
//     ("native", with_handles::<TokioThreads, TokioTp>()),
//     ("Spawn", without_handles::<TokioThreads, Detached<_>>()),
//     ("SpawnHandle", with_handles::<TokioThreads, Handled<_>>()),
//     ("native abort", with_handles::<TokioThreads, NativeAbort<_>>()),
// ])

// %% [markdown]
// ## tokio's `LocalSet`
//
// `TokioCt`, the wrapper of the table, has to take futures that stay on their thread. In its first version it
// forced them through that same handle; since then, it spawns on a `LocalSet`. We do what it does today, so
// its rows have a native counterpart that the table lacks: `LocalSet` itself.

// %%
/// Spawns on the local set of tokio that runs on this thread.
#[derive(Clone)]
pub struct TokioCt(Rc<LocalSet>);

impl LocalApi for TokioCt {
    type Handle = TokioTask;

    fn start(&self, task: impl Future<Output = ()> + 'static) -> TokioTask {
        Unwrapped(self.0.spawn_local(task))
    }
}

impl LocalSpawn for TokioCt {
    fn spawn_local_obj(&self, task: LocalFutureObj<'static, ()>) -> Result<(), SpawnError> {
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

// %% [markdown]
// The set runs where the main future is polled.

// %%
/// tokio on the calling thread, with a set of tasks that never leave it.
pub struct TokioLocal(Runtime, TokioCt);

impl Host for TokioLocal {
    type Spawner = TokioCt;

    fn set_up(_: usize) -> (Self, TokioCt) {
        let spawner = TokioCt(Rc::new(LocalSet::new()));
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        (Self(runtime, spawner.clone()), spawner)
    }

    fn block_on(&mut self, future: impl Future<Output = ()>) {
        let Self(runtime, TokioCt(tasks)) = self;
        runtime.block_on(tasks.run_until(future));
    }
}

// %% [markdown]
// The layers on a `LocalSet`:

// %% tags=["active-ipynb", "glance"]
// glance(&[
//     ("native", with_handles_locally::<TokioLocal, TokioCt>()),
//     ("LocalSpawn", without_handles_locally::<TokioLocal, Detached<_>>()),
//     ("LocalSpawnHandle", with_handles_locally::<TokioLocal, Handled<_>>()),
//     ("native abort", with_handles_locally::<TokioLocal, NativeAbort<_>>()),
// ])

// %% [markdown]
// ## async-std, and the executor below it
//
// async-std has one executor for the whole process, which it shares with all other users of `async-global-executor`. The
// first user decides the number of its threads; here that is this notebook. Its own handle cannot cancel when it is
// dropped, so the layer with handles wraps the future in `Abortable`, to this day.

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

    fn set_up(workers: usize) -> (Self, Self) {
        start_global_executor(workers);
        (Self, Self)
    }

    fn block_on(&mut self, future: impl Future<Output = ()>) {
        async_std::task::block_on(future);
    }
}

// %% [markdown]
// The three layers on it: native, `Spawn`, and the one with handles.

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
    fn spawn_obj(&self, task: FutureObj<'static, ()>) -> Result<(), SpawnError> {
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

    fn set_up(workers: usize) -> (Self, Self) {
        start_global_executor(workers);
        (Self, Self)
    }

    fn block_on(&mut self, future: impl Future<Output = ()>) {
        async_global_executor::block_on(future);
    }
}

/// The task of the executors that smol, async-std and others are built on.
impl Handle for smol::Task<()> {
    fn detach(self) {
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
// async-std, and the executor below it:

// %% tags=["active-ipynb", "glance"]
// glance(&[
//     ("async-std", with_handles::<AsyncStd, AsyncStd>()),
//     ("SpawnHandle", with_handles::<AsyncStd, Handled<_>>()),
//     ("async-global-executor", with_handles::<Global, Global>()),
// ])

// %% [markdown]
// ## What `async_executors` has today
//
// Its executors are set up as its documentation says. On the futures crate's pools it implements its traits
// for the pools themselves.

// %%
impl Host for async_executors::TokioTp {
    type Spawner = Self;

    fn set_up(workers: usize) -> (Self, Self) {
        let (TokioHost(runtime), _) = TokioThreads::set_up(workers);
        let executor = Self::try_from(runtime).expect("a runtime with threads");
        (executor.clone(), executor)
    }

    fn block_on(&mut self, future: impl Future<Output = ()>) {
        async_executors::TokioTp::block_on(self, future);
    }
}

impl Host for async_executors::TokioCt {
    type Spawner = Self;

    fn set_up(_: usize) -> (Self, Self) {
        let executor = Self::new().expect("a runtime");
        (executor.clone(), executor)
    }

    fn block_on(&mut self, future: impl Future<Output = ()>) {
        async_executors::TokioCt::block_on(self, future);
    }
}

// %% [markdown]
// Those on the process-wide executor are empty structs.

// %%
impl Host for async_executors::AsyncStd {
    type Spawner = Self;

    fn set_up(workers: usize) -> (Self, Self) {
        start_global_executor(workers);
        (Self, Self)
    }

    fn block_on(&mut self, future: impl Future<Output = ()>) {
        Self::block_on(future);
    }
}

impl Host for async_executors::AsyncGlobal {
    type Spawner = Self;

    fn set_up(workers: usize) -> (Self, Self) {
        start_global_executor(workers);
        (Self, Self)
    }

    fn block_on(&mut self, future: impl Future<Output = ()>) {
        Self::block_on(future);
    }
}

// %% [markdown]
// ## smol
//
// smol's executors have no threads of their own: any thread can run one. There is one for a single
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

    fn set_up(_: usize) -> (Self, Self) {
        let executor = Self(Rc::default());
        (executor.clone(), executor)
    }

    fn block_on(&mut self, future: impl Future<Output = ()>) {
        smol::block_on(self.0.run(future));
    }
}

// %% [markdown]
// With threads: each worker runs the executor until the channel that it waits on is closed.

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

/// smol's executor with threads, which leave when this is dropped.
pub struct SmolThreads {
    _open: smol::channel::Sender<()>,
}

impl Host for SmolThreads {
    type Spawner = Smol;

    fn set_up(workers: usize) -> (Self, Smol) {
        let spawner = Smol(Arc::default());
        let (open, end) = smol::channel::unbounded::<()>();
        for _ in 0..workers {
            let (Smol(executor), end) = (spawner.clone(), end.clone());
            std::thread::spawn(move || smol::block_on(executor.run(end.recv())));
        }
        (Self { _open: open }, spawner)
    }

    fn block_on(&mut self, future: impl Future<Output = ()>) {
        smol::block_on(future);
    }
}

// %% [markdown]
// And the one for the whole process, which is there already.

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

    fn set_up(_: usize) -> (Self, Self) {
        (Self, Self)
    }

    fn block_on(&mut self, future: impl Future<Output = ()>) {
        smol::block_on(future);
    }
}

// %% [markdown]
// smol on one thread, and tokio:

// %% tags=["active-ipynb", "glance"]
// glance(&[
//     ("tokio", with_handles_locally::<TokioLocal, TokioCt>()),
//     ("smol", with_handles_locally::<SmolLocal, SmolLocal>()),
// ])

// %% [markdown]
// ## nio
//
// The youngest runtime here. It has no work stealing: each spawn, and each wake, picks the worker with the least to
// do. The calling thread is one of its workers.

// %%
/// Spawns on the runtime of nio that this thread works for.
#[derive(Clone)]
pub struct NioSpawner;

impl Api for NioSpawner {
    type Handle = Unwrapped<nio::JoinHandle<()>>;

    fn start(&self, task: impl Future<Output = ()> + Send + 'static) -> Self::Handle {
        Unwrapped(nio::spawn(task))
    }
}

/// nio.
pub struct Nio(nio::LocalRuntime);

impl Host for Nio {
    type Spawner = NioSpawner;

    fn set_up(workers: usize) -> (Self, NioSpawner) {
        let workers = workers.try_into().expect("at most 255 workers");
        let runtime = nio::RuntimeBuilder::new().worker_threads(workers).build();
        (Self(runtime.expect("threads for nio")), NioSpawner)
    }

    fn block_on(&mut self, future: impl Future<Output = ()>) {
        self.0.block_on(future);
    }
}

// %% [markdown]
// nio with two workers, and smol:

// %% tags=["active-ipynb", "glance"]
// glance(&[
//     ("smol", with_handles::<SmolThreads, Smol>()),
//     ("nio", with_handles::<Nio, NioSpawner>()),
// ])

// %% [markdown]
// ## What is not measured
//
// The executor that [the ladder](../ladder/measure.ipynb) arrives at cannot run this program. It keeps the futures of
// its pool in 256 slots, all of *one* type, and only the root future can spawn on it. In the ring, nodes spawn; so its
// type would have to contain a reference to an executor of that very type, and 200 nodes with their deliveries need
// more slots. Solving that takes a box for each task or a table of jobs, and then it is one of the executors above.
//
// # All subjects
//
// The names are those of the published table, as far as it has them: the executor's row, and the way to spawn. Each
// subject also names what it is compared with, and what changes from there. That is the native row of its executor.
// Native rows are compared with tokio's because the published text does so; this is not a contest of runtimes.

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

/// An executor, by its row in the published table, and a way to spawn on it.
#[derive(Clone)]
pub struct Subject {
    pub bench: &'static str,
    pub variant: &'static str,
    /// Bench and variant that it is compared with.
    pub native: Row,
    pub change: &'static str,
    pub threads: Threads,
    pub code: Code,
}

/// Bench and variant.
type Row = (&'static str, &'static str);

// %% [markdown]
// Subjects of one executor share all but the way to spawn.

// %%

/// The subjects of one executor.
fn rows<const N: usize>(
    threads: Threads,
    bench: &'static str,
    native: Row,
    all: [(&'static str, &'static str, Code); N],
) -> Vec<Subject> {
    all.map(|(variant, change, code)| Subject { bench, variant, native, change, threads, code }).to_vec()
}

/// The executor's own way to spawn.
fn native(
    threads: Threads,
    bench: &'static str,
    other: Row,
    change: &'static str,
    code: Code,
) -> Vec<Subject> {
    rows(threads, bench, other, [("native", change, code)])
}

// %% [markdown]
// What changes from a native row is one of these, in most rows.

// %%
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
const BOX_VERSION_0_7: &str = "a box, by `async_executors` 0.7";
const VERSION_0_7: &str = "a handle by `async_executors` 0.7";

// %% [markdown]
// First the subjects that stay on the calling thread. The functions that list subjects are marked `inline`: they are
// compiled where they are called, and a cell that calls none of them does not compile all these executors once more. (As
// a program, which has the feature `program`, all of them are compiled once.)

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
        ("LocalSpawnHandle 0.7", VERSION_0_7, with_handles_locally::<LocalPool, Today<_>>()),
    ];
    let tokio = [
        ("LocalSpawn", BOX, without_handles_locally::<TokioLocal, Detached<_>>()),
        ("LocalSpawnHandle", BOXED_REMOTE, with_handles_locally::<TokioLocal, Handled<_>>()),
        ("LocalSpawnHandleOs", TWICE_BOXED_REMOTE, with_handles_locally::<TokioLocal, Boxed<_>>()),
        ("LocalSpawnHandle, native abort", ABORT, with_handles_locally::<TokioLocal, NativeAbort<_>>()),
        ("LocalSpawn 0.7", BOX_VERSION_0_7, without_handles_locally::<Ct, Detached<_>>()),
        ("LocalSpawnHandle 0.7", VERSION_0_7, with_handles_locally::<Ct, Today<_>>()),
    ];
    let (basic, set) =
        (with_handles::<TokioOneThread, TokioTp>(), with_handles_locally::<TokioLocal, TokioCt>());
    let smol = with_handles_locally::<SmolLocal, SmolLocal>();
    let caller = Threads::Caller;
    [
        rows(caller, "LocalPool", LOCAL_POOL, pool),
        native(caller, BASIC.0, BASIC, "", basic),
        native(caller, LOCAL_SET.0, BASIC, "a `LocalSet` on the runtime", set),
        rows(caller, "TokioCt", LOCAL_SET, tokio),
        native(caller, "smol::LocalExecutor", BASIC, "smol instead of tokio", smol),
    ]
    .concat()
}

// %% [markdown]
// Then those with worker threads: on tokio, every layer that there is.

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
        ("Spawn 0.7", BOX_VERSION_0_7, without_handles::<Tp, Detached<_>>()),
        ("SpawnHandle 0.7", VERSION_0_7, with_handles::<Tp, Today<_>>()),
    ];
    let (workers, own) = (Threads::Workers, with_handles::<TokioThreads, TokioTp>());
    [native(workers, TOKIO.0, TOKIO, "", own), rows(workers, "TokioTp", TOKIO, apis)].concat()
}

// %% [markdown]
// On the other executors, the layers of the table.

// %%
/// The other subjects with worker threads.
#[inline]
fn on_other_threads() -> Vec<Subject> {
    let pool = [
        ("Spawn", "", without_handles::<ThreadPool, Detached<_>>()),
        ("SpawnHandle", REMOTE, with_handles::<ThreadPool, Handled<_>>()),
        ("SpawnHandleOs", SECOND_REMOTE, with_handles::<ThreadPool, Boxed<_>>()),
        ("SpawnHandle 0.7", VERSION_0_7, with_handles::<ThreadPool, Today<_>>()),
    ];
    let async_std = [
        ("Spawn", BOX, without_handles::<AsyncStd, Detached<_>>()),
        ("SpawnHandle", ABORTABLE, with_handles::<AsyncStd, Handled<_>>()),
        ("SpawnHandleOs", BOXED_ABORTABLE, with_handles::<AsyncStd, Boxed<_>>()),
        ("SpawnHandle 0.7", VERSION_0_7, with_handles::<async_executors::AsyncStd, Today<_>>()),
    ];
    let global = [("SpawnHandle 0.7", VERSION_0_7, with_handles::<async_executors::AsyncGlobal, Today<_>>())];
    let standard = with_handles::<AsyncStd, AsyncStd>();
    let below = with_handles::<Global, Global>();
    let smol = with_handles::<SmolThreads, Smol>();
    let smol_global = with_handles::<SmolGlobal, SmolGlobal>();
    let nio = with_handles::<Nio, NioSpawner>();
    let without_tasks = "the executor of async-std without its tasks";
    let whole_process = "smol's executor for the whole process instead of tokio";
    let workers = Threads::Workers;
    [
        rows(workers, "ThreadPool", THREAD_POOL, pool),
        native(workers, ASYNC_STD.0, TOKIO, "async-std instead of tokio", standard),
        rows(workers, "AsyncStd", ASYNC_STD, async_std),
        native(workers, GLOBAL.0, ASYNC_STD, without_tasks, below),
        rows(workers, "AsyncGlobal", GLOBAL, global),
        native(workers, "smol::Executor", TOKIO, "smol instead of tokio", smol),
        native(Threads::OneWorker, "smol::spawn", TOKIO, whole_process, smol_global),
        native(workers, "nio", TOKIO, "nio instead of tokio", nio),
    ]
    .concat()
}

/// All subjects.
#[cfg_attr(not(feature = "program"), inline)]
pub fn subjects() -> Vec<Subject> {
    [on_one_thread(), on_tokio(), on_other_threads()].concat()
}

// %% [markdown]
// `Spawn` of `async_executors` 0.7 is the same three lines as ours on all its executors. We measure it on
// tokio only, where the two show how much two builds of one thing differ.
//
// ## Under which loads
//
// - `N=10`, `N=100`, `N=200`: the published table. Handles are joined where there are some. As many
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

// %% [markdown]
// Not every subject can do all of these: the loads of each, and what they are called in the data.

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
    fn observed(&self) -> Counts {
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
// Two iterations are witnessed, one after the other, each by a witness of its own. Both must have seen the same, and
// the first must not have seen anything more when the second is over.
//
// All of it happens in a process of its own. Executors start threads, and this process must not have any, because each
// trial of the study is a fork of it, and a fork has one thread only. If an executor loses a task, its ring never ends;
// the child process is then killed at the time limit, and the error names the subject.

// %%
/// The counts of one iteration, proven.
///
/// # Errors
/// If the subject does other work than it should, or none: says which subject, and what is wrong.
pub fn prove(key: &Key, world: World, load: Load, limit: Duration) -> Result<Counts, UnequalWork> {
    let two_iterations = || {
        let nodes = if let Work::Ring(nodes) = load.work { nodes } else { 0 };
        let ledgers = [0, 1].map(|_| Arc::new(Ledger::for_ring(nodes)));
        let mut observed = vec![];
        world(load, &mut |iterate| {
            for ledger in &ledgers {
                iterate(&Witness(Some(Arc::clone(ledger))));
                observed.push(ledger.observed());
            }
        });
        observed.push(ledgers[0].observed());
        observed
    };
    let counts = expected(load.work);
    harness::prove_isolated(key, limit, &counts, two_iterations).map(|_| counts)
}

// %% [markdown]
// A first look: one load of each subject, proven.

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
// Which differences are large enough to matter? On one thread a ring is a computation, with up to three allocations for
// each spawn; the limit is 2 %. On several threads, how many wake-ups find the other thread asleep depends on
// what the operating system does at that moment, which differs from trial to trial; the limit is 5 %.
// Each load is a group with a control of its own.
//
// Each trial has a runtime of its own, so trials differ more than samples within a trial. A trial therefore has one or
// two samples, which leaves time for more rounds. Processor time is taken as well as wall time.

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
// Everything is compared with the native row of its executor, under the same load; then ways to spawn that differ in one
// thing, and executors that the published text compares. Where one of two joins its tasks and the other has no handles,
// these are two programs, and the data says so.

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
    (("ThreadPool", "SpawnHandle 0.7"), ("ThreadPool", "SpawnHandle"), &["M=1000"], VERSION_0_7),
    (("LocalPool", "LocalSpawnHandle 0.7"), ("LocalPool", "LocalSpawnHandle"), &["M=1000"], VERSION_0_7),
    (("TokioTp", "SpawnHandle"), ("AsyncStd", "SpawnHandle"), &["N=200"], "tokio instead of async-std"),
    (("TokioCt", "LocalSpawn"), LOCAL_POOL, &["N=200"], "a `LocalSet` of tokio instead of a `LocalPool`"),
];

// %% [markdown]
// And a ring with itself: with fewer nodes, for one way to spawn on each executor, and with other numbers of workers.

// %%
/// Subjects that are compared with themselves in a larger ring.
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

// %% [markdown]
// All pairs that both are measured:

// %%
/// Everything that is compared: the first, what it is compared with, and what changes.
pub fn comparisons(subjects: &[Subject], processors: usize) -> Vec<(Key, Key, String)> {
    let measured = |subject: &Subject| subject.loads(processors).into_iter().map(|(_, parameter)| parameter);
    let keys: Vec<Key> = subjects
        .iter()
        .flat_map(|subject| measured(subject).map(|parameter| subject.key(&parameter)))
        .collect();
    let mut all = vec![];
    let mut compare = |one: Row, other: Row, parameter: &str, change: &str| {
        let subject = |row| subjects.iter().find(|subject| subject.row() == row).expect("a subject");
        let (one, other) = (subject(one), subject(other));
        let handles_differ = one.code.has_handles != other.code.has_handles;
        let two_programs = handles_differ && !parameter.ends_with("handles=dropped");
        let programs = if two_programs { "; two programs, as published" } else { "" };
        all.push((one.key(parameter), other.key(parameter), format!("{change}{programs}")));
    };
    for subject in subjects {
        for parameter in measured(subject) {
            compare(subject.row(), subject.native, &parameter, subject.change);
        }
    }
    for (one, other, parameters, change) in STEPS {
        parameters.iter().for_each(|parameter| compare(one, other, parameter, change));
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

// %% [markdown]
// tokio's native rows are the controls, one for each load: measured twice under two names.

// %%
/// All subjects under all their loads, proven. One whose proof fails is left out, and named.
#[inline]
pub fn study() -> Study {
    let subjects = subjects();
    let mut study = Study::new("spawn-apis").unit("spawn").rounds(3, 24);
    study = study.isolated(LIMIT).resources().instructions(false);
    for subject in &subjects {
        for (load, parameter) in subject.loads(processors()) {
            let (key, world) = (subject.key(&parameter), subject.code.world);
            let proof = prove(&key, world, load, LIMIT);
            let (spawns, messages) = (load.work.spawns() as u64, load.work.messages() as u64);
            let (group, limit) = group(subject, &parameter);
            study = study.group(group, limit).samples(samples(load.work));
            study = study.proven(key.clone(), proof, bench(world, load));
            study = study.counts(&key, [("units", spawns), ("spawns", spawns), ("messages", messages)]);
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
// # A glance
//
// The ways to spawn on one executor, interleaved, for a second each: the time per spawn, and its ratio to the first.
// Nothing is stored. Choose others, or add one of your own, and run the cell again.

// %% tags=["active-ipynb", "glance"]
// study().glance(|key| {
//     key.bench == "LocalPool" && key.parameter == "N=100"
// }).unwrap_or_else(harness::stop)

// %% [markdown]
// # Measurement
//
// Rounds follow one another; each runs everything above, load after load, in random order, each trial
// in a process of its own.
//
// `quick` takes less than half a minute and shows that everything works; it is not evidence. For evidence, set the
// environment variable `ASYNC_COST_PROFILE` to `standard` or `thorough` before you start the kernel.

// %% tags=["active-ipynb"]
// {
//     let profile = harness::Profile::from_env().unwrap_or_else(harness::stop);
//     let outcome = study().measure(&profile).unwrap_or_else(harness::stop);
//     println!("{outcome}");
// };

// %% [markdown]
// The [analysis](analysis.ipynb) takes ratios in the same round and under the same load, divides differences by the
// number of spawns, checks the published claims, and looks at processor time. Before you read a ratio, look at the
// controls of its load, `native (A/A)`: a difference that does not exceed theirs is indistinguishable from noise.
//
// # What this does not say
//
// - The tasks do next to nothing, and each sends through a channel. The more a task does, the smaller is the share of
//   its layer.
// - `Spawn` under plain `N=…` is another program than native under plain `N=…`, as it was in the published
//   table. Only `handles=dropped` compares them.
// - Every box here comes from the hottest free block of the allocator, on one machine with one allocator.
// - The calling thread counts as a worker for nio, and for no other executor. With `workers=1`, the others have one
//   thread that works and one that waits.
// - `TokioCt` is not the one of 2020, as said above: its published rows include another way to spawn.
//
// # What next
//
// - Give `deliver` something to do, or the ring a channel of another kind, and see which differences stay.
// - `cargo bench -p spawn-apis --bench counts` counts the allocations of all of it; divide by `units`.
