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
// # Which part of async costs what?
//
// [The first notebook of zero-cost](../zero-cost/measure.ipynb) compares bundles: its `box` differs from its `nonbox` in
// five things at once. [The frontier](frontier.ipynb) is one end of what is possible: plain `async fn`s, as close to the
// loop written by hand as we can bring them. The other end is what most people would write: a boxed future per task, an
// `Arc` waker per task, a queue behind a mutex. Between the two lie more than a dozen decisions, each of which is a step
// of this notebook. A step changes exactly one thing, so the difference between neighbours is the price of that thing.
//
// After reading it and its analysis you can decide which habits of your own executor, or of the runtime you use, are
// worth changing, and which make no difference.

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
// :dep frontier = { path = "../../rust-kernels/ladder/frontier" }
// :dep harness = { path = "../../rust-kernels/harness" }
// :dep slab = "=0.4.12"
// :dep zero-cost-loop = { path = "../../rust-kernels/zero-cost/loop" }

// %% [markdown]
// The world, the best loop and the proof of equal work come from zero-cost as a crate, the frontier from the notebook
// next to this one.

// %%
use std::cell::{Cell, RefCell, UnsafeCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::mem::{self, MaybeUninit};
use std::num::NonZero;
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker, ready};
use std::thread::{self, ThreadId};

use frontier::{
    AliasableBox, Buffer, Executor, Fake, Full, Io, Line, Listener, Owned, Reactor, Small, accept_all, echo,
    frontier,
};
use harness::{Counts, Key, Study, UnequalWork};
use slab::Slab;
use zero_cost_loop::{
    AtOnce, CONNECTIONS, Counted, Counter, Door, Event, FakeListener, FakePoll, FakeStream, LARGE_BUFFER,
    LINE, Lean, Load, NoWork, OpensDoors, Pipeline, Probe, READABLE, Repeat, SMALL_BUFFER, Source, Stats,
    Steps, TASKS, WRITABLE, Work, World, WouldBlock, bench, by_hand, holds_line, prove_both, twice,
};

// %% [markdown]
// ## The work of the fake system
//
// Part of what the loop does happens inside the fake system, in every server alike, so a ratio to the loop is also about
// the fake. To tell the two apart we need the fake alone: the same operations on as many live connections, in an order
// that is known beforehand, so that nothing has to find out which connection is next. That is not a server; the extra
// time of a variant is the server's.

// %%
/// The world without a server: the operations of the pipeline.
pub fn fake_only<P: Probe>(load: Load, repeat: Repeat<'_>) {
    let stats = Stats::new(load.syscalls);
    let poll: FakePoll<&Stats> = FakePoll::new(&stats, TASKS);
    let mut events = Vec::with_capacity(TASKS);
    let mut buffer = [0; SMALL_BUFFER];
    repeat(&stats, &mut || {
        let listener: FakeListener<&Stats> = FakeListener::new(&stats);
        poll.register(&listener, 0, READABLE);
        let _blocked = listener.accept();
        let mut live: [Option<FakeStream<&Stats>>; 4] = [const { None }; 4];
        // Between two polls a client is accepted, the one before says its line, and the one before that is answered.
        for client in 0..CONNECTIONS + 2 {
            poll.poll(&mut events);
            P::add(Counter::Events, events.len());
            if client < CONNECTIONS
                && let Ok(stream) = listener.accept()
            {
                let stream = live[client % 4].insert(stream);
                poll.register(stream, 1, READABLE | WRITABLE);
                let _blocked = stream.read(&mut buffer);
                if client + 1 < CONNECTIONS {
                    let _blocked = listener.accept();
                } else {
                    poll.unregister(&listener);
                }
            }
            if let Some(stream) = &live[(client + 3) % 4] {
                let _received = stream.read(&mut buffer);
                let _blocked = stream.write(&buffer[..LINE.len()]);
            }
            if let Some(stream) = live[(client + 2) % 4].take() {
                let _sent = stream.write(&buffer[..LINE.len()]);
                poll.unregister(&stream);
                P::add(Counter::Transactions, 1);
            }
        }
    });
}

// %% [markdown]
// # The ladder
//
// To price a decision we need a runtime in which it is a *switch*, and the first three switches are on the frontier.
//
// ## Switch 1: futures by hand
//
// How much of the price is `async fn`, and how much is the executor around it? Here are the same two tasks as
// hand-written futures: the loop's state machine, polled by the frontier.

// %%
/// The connection as a state machine of our own: where it is, it keeps in five variables.
fn echo_by_hand<'r, 's: 'r, W: Work, P: Probe>(
    mut stream: Io<'r, Fake<'s>, P>,
    work: W,
) -> impl Future<Output = ()> {
    P::add(Counter::ZeroedBytes, SMALL_BUFFER);
    let mut buffer = [0; SMALL_BUFFER];
    let (mut filled, mut sent, mut answering) = (0, 0, false);
    poll_fn(move |context| {
        while !answering {
            filled += ready!(stream.poll(context, |stream| stream.read(&mut buffer[filled..])));
            if holds_line::<Lean>(&buffer[..filled]) {
                work.perform();
                answering = true;
            }
        }
        while sent < filled {
            sent += ready!(stream.poll(context, |stream| stream.write(&buffer[sent..filled])));
        }
        P::add(Counter::Transactions, 1);
        Poll::Ready(())
    })
}

/// The root in the same way. Its listener is opened at the first poll, and closed at the last.
fn accept_by_hand<'r, 's: 'r, D: Door<&'s Stats> + 'r, P: Probe>(
    reactor: &'r Reactor<Fake<'s>, P>,
    stats: &'s Stats,
    spawn: impl Fn(Io<'r, Fake<'s>, P>) -> Result<(), Full>,
) -> impl Future<Output = ()> {
    let mut listener: Option<Listener<'r, 's, D, P>> = None;
    let mut left = CONNECTIONS;
    poll_fn(move |context| {
        let open = || Listener::owned(reactor, D::open(stats), READABLE).expect("room for the listener");
        let opened = listener.get_or_insert_with(open);
        while left > 0 {
            let stream = ready!(opened.poll(context, D::accept));
            let stream = Io::in_entry(reactor, stream, READABLE | WRITABLE);
            let stream = stream.expect("the reactor has room for all connections");
            spawn(stream).expect("the pool has room for all connections");
            left -= 1;
        }
        listener = None;
        Poll::Ready(())
    })
}

// %% [markdown]
// Executor and reactor are those of the frontier.

// %%
/// The world of the frontier with futures by hand.
pub fn frontier_by_hand<D: OpensDoors, W: Work, P: Probe>(load: Load, repeat: Repeat<'_>) {
    let stats = Stats::new(load.syscalls);
    let reactor = Reactor::<_, P>::new(Fake::new(&stats), TASKS).expect("room for all objects");
    let executor = Executor::new(&reactor, CONNECTIONS);
    let work = W::under(load);
    repeat(&stats, &mut || {
        executor.run(accept_by_hand::<D::Door<&Stats>, P>(&reactor, &stats, |stream| {
            executor.spawn(|| echo_by_hand(stream, work))
        }));
    });
}

// %% [markdown]
// ## Without wakers
//
// What does it cost that a waker may wake any task, from anywhere? Here is a runtime without wakers. Each stream belongs
// permanently to the task that was spawned with it, and its events lead straight to that task, as those of the loop lead
// to its connection. Nothing is noted when a task waits, nothing is compared, and nothing is looked up. The servers are
// the same `async fn`s, but they can wait for nothing else: not for another task, a timer, or two streams at once. The
// extra time of the frontier is the cost of wakers.
//
// A slot holds a stream and its task.

// %%
/// A stream, and the task that serves it.
struct ServingTask<'s, F> {
    /// There is one as long as there is a future, which refers to it.
    stream: UnsafeCell<Option<FakeStream<&'s Stats>>>,
    future: UnsafeCell<Option<F>>,
    /// The next slot of the list that this one is in: of vacant ones, or of those whose tasks were not polled yet.
    next: Cell<Option<u8>>,
}

/// Runs tasks each of which waits for its own stream only.
struct EventExecutor<'s, F, P> {
    poll: FakePoll<&'s Stats>,
    slots: AliasableBox<[ServingTask<'s, F>; CONNECTIONS]>,
    vacant: Cell<Option<u8>>,
    new: Cell<Option<u8>>,
    tasks: Cell<usize>,
    probe: PhantomData<P>,
}

impl<'s, F: Future<Output = ()>, P: Probe> EventExecutor<'s, F, P> {
    fn new(stats: &'s Stats) -> Self {
        let slots = std::array::from_fn(|slot| ServingTask {
            stream: UnsafeCell::new(None),
            future: UnsafeCell::new(None),
            next: Cell::new(u8::try_from(slot + 1).ok()),
        });
        Self {
            poll: FakePoll::new(stats, TASKS),
            slots: AliasableBox::from(Box::new(slots)),
            vacant: Cell::new(Some(0)),
            new: Cell::new(None),
            tasks: Cell::new(0),
            probe: PhantomData,
        }
    }
}

// %% [markdown]
// The key of an event is the number of a slot, as in the loop.

// %%
impl<'s, F: Future<Output = ()>, P: Probe> EventExecutor<'s, F, P> {
    /// Registers a stream, and makes the task that serves it.
    ///
    /// # Safety
    /// The future does not let the stream out, and has gone before the executor.
    unsafe fn spawn<'a>(
        &self,
        stream: FakeStream<&'s Stats>,
        make: impl FnOnce(&'a FakeStream<&'s Stats>) -> F,
    ) where
        's: 'a,
    {
        let number = self.vacant.get().expect("a slot for each connection");
        let slot = &self.slots[number as usize];
        // SAFETY: no reference points to what is in a vacant slot, and the stream stays where it is until its future has
        // gone, which keeps it to itself.
        let stream = unsafe { &*(*slot.stream.get()).insert(stream) };
        self.poll.register(stream, number as usize + 1, READABLE | WRITABLE);
        // SAFETY: as above.
        unsafe { slot.future.get().write(Some(make(stream))) };
        self.vacant.set(slot.next.replace(self.new.replace(Some(number))));
        self.tasks.set(self.tasks.get() + 1);
        P::add(Counter::Spawns, 1);
        P::peak(Counter::PeakTasks, self.tasks.get() + 1); // and the root
        P::peak(Counter::PeakConnections, self.tasks.get());
        P::peak(Counter::PeakRegistrations, self.tasks.get() + 1); // and the listener
        P::peak(Counter::FutureBytes, size_of::<F>());
        P::peak(Counter::ConnectionBytes, size_of::<ServingTask<F>>());
    }
}

// %% [markdown]
// A poll passes a waker that does nothing, since a future expects one.

// %%
impl<F: Future<Output = ()>, P: Probe> EventExecutor<'_, F, P> {
    /// Polls the task in this slot; vacates the slot if the task has finished.
    #[inline(always)]
    fn poll_task(&self, number: u8) {
        let slot = &self.slots[number as usize];
        // SAFETY: `run` does not nest, so there is no other reference to the future, and it never moves.
        let future = unsafe { &mut *slot.future.get() };
        let task = future.as_mut().expect("an event of a task that has finished");
        P::add(Counter::Polls, 1);
        // SAFETY: as above.
        let task = unsafe { Pin::new_unchecked(task) };
        if task.poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            *future = None;
            // SAFETY: the future that referred to it has gone.
            let stream = unsafe { (*slot.stream.get()).take() };
            self.poll.unregister(&stream.expect("a task has a stream"));
            slot.next.set(self.vacant.replace(Some(number)));
            self.tasks.set(self.tasks.get() - 1);
        }
    }
}

// %% [markdown]
// New tasks come first, then events.

// %%
impl<F: Future<Output = ()>, P: Probe> EventExecutor<'_, F, P> {
    /// Runs `root`, which waits for the object with the key 0, and all tasks.
    ///
    /// # Safety
    /// Neither polls this executor.
    unsafe fn run(&self, root: impl Future<Output = ()>, events: &mut Vec<Event>) {
        let mut root = pin!(root);
        let mut accepting = true;
        events.clear();
        events.push(Event { key: 0, ready: READABLE });
        loop {
            let mut fresh = events.iter();
            loop {
                let number = if let Some(new) = self.new.get() {
                    self.new.set(self.slots[new as usize].next.get());
                    new
                } else {
                    match fresh.next() {
                        None => break,
                        Some(Event { key: 0, .. }) => {
                            P::add(Counter::Polls, 1);
                            let mut context = Context::from_waker(Waker::noop());
                            accepting = root.as_mut().poll(&mut context).is_pending();
                            continue;
                        }
                        Some(event) => (event.key - 1) as u8,
                    }
                };
                self.poll_task(number);
            }
            if !accepting && self.tasks.get() == 0 {
                return;
            }
            self.poll.poll(events);
            P::add(Counter::Events, events.len());
        }
    }
}

// %% [markdown]
// An operation that would block is pending, and nothing else happens. The server is the frontier's.

// %%
/// A stream that belongs to its task.
struct OwnStream<'a, 's, P>(&'a FakeStream<&'s Stats>, PhantomData<P>);

/// An operation that is tried at each poll.
fn retried_each_poll<T, P: Probe>(
    mut operation: impl FnMut() -> Result<T, WouldBlock>,
) -> impl Future<Output = T> {
    poll_fn(move |_| {
        P::add(Counter::OperationPolls, 1);
        operation().map_or(Poll::Pending, Poll::Ready)
    })
}

impl<P: Probe> Line for OwnStream<'_, '_, P> {
    #[inline]
    fn read<'a>(&'a mut self, buffer: &'a mut [u8]) -> impl Future<Output = usize> + 'a {
        let stream = self.0;
        retried_each_poll::<_, P>(move || stream.read(buffer))
    }

    #[inline]
    fn write<'a>(&'a mut self, bytes: &'a [u8]) -> impl Future<Output = usize> + 'a {
        let stream = self.0;
        retried_each_poll::<_, P>(move || stream.write(bytes))
    }
}

/// The world of that executor.
pub fn without_wakers<D: OpensDoors, W: Work, P: Probe>(load: Load, repeat: Repeat<'_>) {
    let stats = Stats::new(load.syscalls);
    let executor = EventExecutor::<_, P>::new(&stats);
    let work = W::under(load);
    let mut events = Vec::with_capacity(TASKS);
    repeat(&stats, &mut || {
        let accept = async {
            let door = D::Door::<&Stats>::open(&stats);
            executor.poll.register(&door, 0, READABLE);
            for _ in 0..CONNECTIONS {
                let stream = retried_each_poll::<_, P>(|| door.accept()).await;
                let serve = |stream| echo::<_, W, P, Small>(OwnStream(stream, PhantomData::<P>), work);
                // SAFETY: `echo` keeps its stream to itself, and `run` returns when no task is left.
                unsafe { executor.spawn(stream, serve) };
            }
            executor.poll.unregister(&door);
        };
        // SAFETY: neither `accept` nor `echo` does.
        unsafe { executor.run(accept, &mut events) };
    });
}

// %% [markdown]
// ## Out of line
//
// Nothing in the text of a server says whether the compiler inlines the poll of a request into the loop of the executor.
// In the frontier it does, as there is one place that polls them, in a function that all `run`s of one type of task share.
// With a second place that polls, it is a function of its own, with registers to save, arguments in memory and a jump
// through a table. What does that cost? Here is the same server, with the request kept out of line.

// %%
/// A future whose poll is a function of its own.
struct OutOfLine<F>(F);

impl<F: Future> Future for OutOfLine<F> {
    type Output = F::Output;

    #[inline(never)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: what is in it is pinned with it, and has no other owner.
        unsafe { self.map_unchecked_mut(|out| &mut out.0) }.poll(context)
    }
}

/// The world of the frontier, whose requests are polled out of line.
pub fn frontier_out_of_line<D: OpensDoors, W: Work, P: Probe>(load: Load, repeat: Repeat<'_>) {
    let stats = Stats::new(load.syscalls);
    let reactor = Reactor::<_, P>::new(Fake::new(&stats), TASKS).expect("room for all objects");
    let executor = Executor::new(&reactor, CONNECTIONS);
    let work = W::under(load);
    repeat(&stats, &mut || {
        executor.run(accept_all::<D::Door<&Stats>, P>(&reactor, &stats, |stream| {
            executor.spawn(|| OutOfLine(echo::<_, W, P, Small>(stream, work)))
        }));
    });
}

// %% [markdown]
// ## Switch 2: a queue
//
// The frontier polls a task as soon as its event is seen. A conventional reactor only *wakes*, and the
// executor finds out later. The constant `QUEUED` of our executor turns that on: events and spawns set a
// flag, flags are served afterwards. (Within a block of flags the search begins at the top each time, which is shorter
// than going round. No task in this load wakes itself, so the search need not be fair.)
//
// The queue is the frontier's own for wakes from elsewhere: bitmaps of one or several blocks, and a limit on how many
// woken tasks are polled before the reactor is. So this step is the price of a general queue in an executor that was
// made to do without one. The price of a bare bitmap shows in the runtime of the rungs below.

// %%
/// The world of the frontier with a ready queue.
pub fn frontier_queued<D: OpensDoors, W: Work, P: Probe>(load: Load, repeat: Repeat<'_>) {
    let stats = Stats::new(load.syscalls);
    let reactor = Reactor::<_, P>::new(Fake::new(&stats), TASKS).expect("room for all objects");
    let executor = Executor::queued(&reactor, CONNECTIONS);
    let work = W::under(load);
    repeat(&stats, &mut || {
        executor.run(accept_all::<D::Door<&Stats>, P>(&reactor, &stats, |stream| {
            executor.spawn(|| echo::<_, W, P, Small>(stream, work))
        }));
    });
}

// %% [markdown]
// ## Switch 3: where a stream lives
//
// The usual place for a stream is the future that uses it, not its reactor's table. The price is some copies on
// the way there; in return the reactor need not know the type of its objects. `Io` can do both.

// %%
/// A stream in its future.
type OwnedStream<'r, 's, P> = Io<'r, Fake<'s>, P, Owned<FakeStream<&'s Stats>>>;

/// As [`accept_all`], with such streams.
async fn accept_owned<'r, 's, D: Door<&'s Stats>, P: Probe>(
    reactor: &'r Reactor<Fake<'s>, P>,
    stats: &'s Stats,
    spawn: impl Fn(OwnedStream<'r, 's, P>) -> Result<(), Full>,
) {
    let mut listener = Listener::owned(reactor, D::open(stats), READABLE).expect("room for the listener");
    let accept = |door: &D| Ok(Io::owned(reactor, door.accept()?, READABLE | WRITABLE));
    for _ in 0..CONNECTIONS {
        let stream = listener.attempt(accept).await.expect("the reactor has room for all connections");
        spawn(stream).expect("the pool has room for all connections");
    }
}

/// The world of the frontier with a ready queue, and streams in their futures.
pub fn frontier_owning<D: OpensDoors, W: Work, P: Probe>(load: Load, repeat: Repeat<'_>) {
    let stats = Stats::new(load.syscalls);
    let reactor = Reactor::<_, P>::new(Fake::new(&stats), TASKS).expect("room for all objects");
    let executor = Executor::queued(&reactor, CONNECTIONS);
    let work = W::under(load);
    repeat(&stats, &mut || {
        executor.run(accept_owned::<D::Door<&Stats>, P>(&reactor, &stats, |stream| {
            executor.spawn(|| echo::<_, W, P, Small>(stream, work))
        }));
    });
}

// %% [markdown]
// How do these switches, and wakers, change the time of a request?

// %% tags=["active-ipynb", "glance"]
// zero_cost_loop::glance(Load { syscalls: false, steps: 0 }, &[
//     ("loop", by_hand::<Pipeline, NoWork, zero_cost_loop::Timed<()>>),
//     ("split", frontier_by_hand::<Pipeline, NoWork, zero_cost_loop::Timed<()>>),
//     ("no wakers", without_wakers::<Pipeline, NoWork, zero_cost_loop::Timed<()>>),
//     ("frontier", frontier::<Pipeline, NoWork, zero_cost_loop::Timed<()>>),
//     ("out of line", frontier_out_of_line::<Pipeline, NoWork, zero_cost_loop::Timed<()>>),
//     ("ready queue", frontier_queued::<Pipeline, NoWork, zero_cost_loop::Timed<()>>),
//     ("stream in future", frontier_owning::<Pipeline, NoWork, zero_cost_loop::Timed<()>>),
// ])

// %% [markdown]
// ## The buffer
//
// A future is as large as what it keeps across an `await`, and that includes the buffer. Two questions hide in "avoid
// large futures": is it the size, or the zeroing? A buffer of 16 KiB of which only the first 128 bytes are initialised
// answers that: the future is large, the zeroing small.

// %%
/// The buffer of the published variants called `large+…`.
type Large = [u8; LARGE_BUFFER];

/// As large as the large one, of which only as much is zeroed and used as of the small one.
struct Unzeroed {
    front: [u8; SMALL_BUFFER],
    _rest: MaybeUninit<[u8; LARGE_BUFFER - SMALL_BUFFER]>,
}

impl Buffer for Unzeroed {
    const ZEROED: usize = SMALL_BUFFER;

    #[inline(always)]
    fn new() -> Self {
        Self { front: [0; SMALL_BUFFER], _rest: MaybeUninit::uninit() }
    }

    #[inline(always)]
    fn bytes(&mut self) -> &mut [u8] {
        &mut self.front
    }
}

/// The name of a buffer among the switches.
fn size_and_zeroing<B: Buffer>() -> &'static str {
    match (size_of::<B>(), B::ZEROED) {
        (SMALL_BUFFER, _) => "128",
        (_, SMALL_BUFFER) => "16 KiB, uninitialised",
        _ => "16 KiB, zeroed",
    }
}

// %% [markdown]
// ## Everything else: one runtime, one switch per factor
//
// The other factors reach deep into reactor and executor, so they get a runtime of their own, generic over a
// **rung**: a type that sets each factor. A factor that changes types is an associated
// type, one that only changes a branch is a constant. And each rung can be asked for its switches as plain
// data, so that a test can verify that neighbours on the ladder differ in exactly one.
//
// Changing the runtime is a step of its own, at which all other switches stay where the frontier has them. The frontier
// is a library that one could use: it withstands panics, wakes from other threads, foreign wakers and tasks that wake
// themselves all the time. The runtime of the rungs trusts its two tasks and leaves all that out, but it keeps more
// state for each object, because some rung needs it. All differences between the two are in that one step, and in none
// below it.

// %%
/// All factors; what a rung, or a variant above it, has chosen for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switches {
    /// "loop", or "split" into futures, executor and reactor; "none" for the fake alone.
    pub structure: &'static str,
    /// Futures "by hand" or by "async fn".
    pub task: &'static str,
    /// A request's poll is "inlined" into the executor's loop where the compiler does so, or "out of line".
    pub request: &'static str,
    /// Polled "at once" after the event, or "queued".
    pub dispatch: &'static str,
    /// A stream is in its reactor's "entry", or in its "future".
    pub placement: &'static str,
    /// The "frontier" itself, or the "generic" one of the rungs.
    pub runtime: &'static str,
    /// State of objects and tasks by "reference" to stable cells, or by "index" into slabs.
    pub lookup: &'static str,
    /// The reactor keeps the "number" of a task (of the frontier its address, which the step to "generic" changes),
    /// its "waker", or "nothing".
    pub keeps: &'static str,
    /// Bound when "pending" and kept, or anew for each "operation".
    pub binding: &'static str,
    pub waker: &'static str,
    pub queue: &'static str,
    pub storage: &'static str,
    pub handles: &'static str,
    pub cells: &'static str,
    pub buffer: &'static str,
}

impl Switches {
    /// The names of the fields in which two variants differ.
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        macro_rules! differing {
            ($($field:ident)*) => { [$((stringify!($field), self.$field != other.$field)),*] };
        }
        let all = differing!(
            structure task request dispatch placement runtime lookup keeps binding waker queue storage handles cells buffer
        );
        all.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }
}

// %% [markdown]
// ### Factor: how state is guarded
//
// The published reactor and task table sit in a `RefCell` each. If no two borrows can overlap, the check can be left
// out; state that threads share needs a lock. We compare the first two.

// %%
/// How mutable state is guarded.
trait Cells: 'static {
    const NAME: &'static str;
    type Of<T>: Mutable<T>;
}

/// State that is changed through a shared reference.
trait Mutable<T> {
    fn new(value: T) -> Self;
    /// Calls `change` with the state. `change` must not come back to the same state.
    fn with<Out>(&self, change: impl FnOnce(&mut T) -> Out) -> Out;
}

/// Unguarded: a promise of the runtime below, whose closures are short and call no other code.
enum Unchecked {}

impl Cells for Unchecked {
    const NAME: &'static str = "unchecked";
    type Of<T> = UnsafeCell<T>;
}

impl<T> Mutable<T> for UnsafeCell<T> {
    fn new(value: T) -> Self {
        Self::new(value)
    }

    #[inline(always)]
    fn with<Out>(&self, change: impl FnOnce(&mut T) -> Out) -> Out {
        // SAFETY: not sound in general, hence used by `RungReactor` and `RungExecutor` only, which are unsafe
        // to make. Their closures touch the state and nothing that leads back to it.
        change(unsafe { &mut *self.get() })
    }
}

/// `RefCell`.
enum Checked {}

impl Cells for Checked {
    const NAME: &'static str = "checked";
    type Of<T> = RefCell<T>;
}

impl<T> Mutable<T> for RefCell<T> {
    fn new(value: T) -> Self {
        Self::new(value)
    }

    #[inline(always)]
    fn with<Out>(&self, change: impl FnOnce(&mut T) -> Out) -> Out {
        change(&mut self.borrow_mut())
    }
}

// %% [markdown]
// ### Factor: how state is found
//
// The frontier's objects hold a reference to their entry. In a slab they hold an index, which is checked at each
// use. Everything else is alike: both are tables with a list of vacant rows, made beforehand.

// %%
/// How the state of an object or a task is found.
trait Lookup: 'static {
    const NAME: &'static str;
    type Table<C: Cells, T>: Table<T>;
}

/// Rows with state, each found by the key that it was given, or by its number.
trait Table<T> {
    type Key: Copy;

    fn with_capacity(capacity: usize) -> Self;
    fn insert(&self, state: T) -> Self::Key;
    /// Takes the state out. As for `with` and `number`, the key must not be used after that.
    fn remove(&self, key: Self::Key) -> T;
    /// Calls `change` with the state, see [`Mutable::with`].
    fn with<Out>(&self, key: Self::Key, change: impl FnOnce(&mut T) -> Out) -> Out;
    fn number(&self, key: Self::Key) -> usize;
    /// The key of a row in use.
    fn key(&self, number: usize) -> Option<Self::Key>;
    /// Rows in use.
    fn len(&self) -> usize;
}

// %% [markdown]
// With an index, the table is a slab in a cell.

// %%
/// By index into a slab.
enum Indexed {}

impl Lookup for Indexed {
    const NAME: &'static str = "index";
    type Table<C: Cells, T> = Indices<C, T>;
}

struct Indices<C: Cells, T>(C::Of<Slab<T>>);

impl<C: Cells, T> Table<T> for Indices<C, T> {
    type Key = usize;

    fn with_capacity(capacity: usize) -> Self {
        Self(Mutable::new(Slab::with_capacity(capacity)))
    }

    #[inline(always)]
    fn insert(&self, state: T) -> usize {
        self.0.with(|slab| slab.insert(state))
    }

    #[inline(always)]
    fn remove(&self, key: usize) -> T {
        self.0.with(|slab| slab.remove(key))
    }

    #[inline(always)]
    fn with<Out>(&self, key: usize, change: impl FnOnce(&mut T) -> Out) -> Out {
        self.0.with(|slab| change(&mut slab[key]))
    }

    #[inline(always)]
    fn number(&self, key: usize) -> usize {
        key
    }

    #[inline(always)]
    fn key(&self, number: usize) -> Option<usize> {
        self.0.with(|slab| slab.contains(number)).then_some(number)
    }

    #[inline(always)]
    fn len(&self) -> usize {
        self.0.with(|slab| slab.len())
    }
}

// %% [markdown]
// By reference, nothing is looked up, and nothing is checked: a key is a row.

// %%
/// Rows that never move, so that their addresses are their keys.
struct References<C: Cells, T> {
    rows: Box<[Row<C, T>]>,
    first_vacant: Cell<usize>,
    /// Rows in use.
    used: Cell<usize>,
}

struct Row<C: Cells, T> {
    number: usize,
    in_use: Cell<bool>,
    /// While vacant, the number of the next vacant row.
    next_vacant: Cell<usize>,
    /// Initialised while in use.
    state: C::Of<MaybeUninit<T>>,
}

impl<C: Cells, T> References<C, T> {
    #[inline(always)]
    fn row(&self, key: *const Row<C, T>) -> &Row<C, T> {
        // SAFETY: as with unchecked cells, a promise of the runtime: keys come from this table, whose rows stay
        // where they are.
        unsafe { &*key }
    }
}

// %% [markdown]
// A vacant row is the head of a list, and goes back there.

// %%
impl<C: Cells, T> Table<T> for References<C, T> {
    type Key = *const Row<C, T>;

    fn with_capacity(capacity: usize) -> Self {
        let row = |number| Row {
            number,
            in_use: Cell::new(false),
            next_vacant: Cell::new(number + 1),
            state: Mutable::new(MaybeUninit::uninit()),
        };
        Self { rows: (0..capacity).map(row).collect(), first_vacant: Cell::new(0), used: Cell::new(0) }
    }

    #[inline(always)]
    fn insert(&self, state: T) -> *const Row<C, T> {
        let row = &self.rows[self.first_vacant.get()];
        self.first_vacant.set(row.next_vacant.get());
        row.in_use.set(true);
        row.state.with(|place| *place = MaybeUninit::new(state));
        self.used.set(self.used.get() + 1);
        row
    }

    #[inline(always)]
    fn remove(&self, key: *const Row<C, T>) -> T {
        let row = self.row(key);
        row.next_vacant.set(self.first_vacant.replace(row.number));
        row.in_use.set(false);
        self.used.set(self.used.get() - 1);
        // SAFETY: the row was in use, and is not any more.
        row.state.with(|state| unsafe { state.assume_init_read() })
    }

    #[inline(always)]
    fn with<Out>(&self, key: *const Row<C, T>, change: impl FnOnce(&mut T) -> Out) -> Out {
        // SAFETY: the row is in use as long as the key is used.
        self.row(key).state.with(|state| change(unsafe { state.assume_init_mut() }))
    }

    #[inline(always)]
    fn number(&self, key: *const Row<C, T>) -> usize {
        self.row(key).number
    }

    #[inline(always)]
    fn key(&self, number: usize) -> Option<*const Row<C, T>> {
        self.rows.get(number).filter(|row| row.in_use.get()).map(ptr::from_ref)
    }

    #[inline(always)]
    fn len(&self) -> usize {
        self.used.get()
    }
}

// %% [markdown]
// With its table complete, the second way gets its name.

// %%
/// By reference to a cell that never moves.
enum Direct {}

impl Lookup for Direct {
    const NAME: &'static str = "reference";
    type Table<C: Cells, T> = References<C, T>;
}

// %% [markdown]
// ### Factor: who owns
//
// A future that borrows its reactor is not `'static`. The usual way out is `Rc`: a count for each object.

// %%
/// How the reactor and the counters of the fake (`Stats`, the ledger) are shared.
trait Share: 'static {
    const NAME: &'static str;
    /// Where the value lives.
    type Own<T>;
    /// What objects and tasks hold.
    type Handle<'r, T: 'r>: Clone + Deref<Target = T>;

    fn own<T>(value: T) -> Self::Own<T>;
    fn lend<T>(own: &Self::Own<T>) -> Self::Handle<'_, T>;
}

enum ByReference {}

impl Share for ByReference {
    const NAME: &'static str = "reference";
    type Own<T> = T;
    type Handle<'r, T: 'r> = &'r T;

    fn own<T>(value: T) -> T {
        value
    }

    fn lend<T>(own: &T) -> &T {
        own
    }
}

enum ByRc {}

impl Share for ByRc {
    const NAME: &'static str = "Rc";
    type Own<T> = Rc<T>;
    type Handle<'r, T: 'r> = Rc<T>;

    fn own<T>(value: T) -> Rc<T> {
        Rc::new(value)
    }

    fn lend<T>(own: &Rc<T>) -> Rc<T> {
        Rc::clone(own)
    }
}

// %% [markdown]
// ### Factor: where futures live

// %%
/// How the executor keeps a future.
trait Storage: 'static {
    const NAME: &'static str;
    /// What a slot holds for a future `F`: itself, or a box of it.
    type Stored<'f, F: Future<Output = ()> + 'f>: Future<Output = ()>;

    /// Writes the future that `make` returns into a vacant slot.
    fn put<'f, F: Future<Output = ()> + 'f>(
        slot: &mut MaybeUninit<Self::Stored<'f, F>>,
        make: impl FnOnce() -> F,
    );
}

/// In the slot itself.
enum InSlot {}

impl Storage for InSlot {
    const NAME: &'static str = "slot";
    type Stored<'f, F: Future<Output = ()> + 'f> = F;

    #[inline(always)]
    fn put<'f, F: Future<Output = ()> + 'f>(slot: &mut MaybeUninit<F>, make: impl FnOnce() -> F) {
        slot.write(make());
    }
}

/// In a box of its own type: an allocation, but no virtual call.
enum InBox {}

impl Storage for InBox {
    const NAME: &'static str = "Box";
    type Stored<'f, F: Future<Output = ()> + 'f> = Pin<Box<F>>;

    #[inline(always)]
    fn put<'f, F: Future<Output = ()> + 'f>(slot: &mut MaybeUninit<Pin<Box<F>>>, make: impl FnOnce() -> F) {
        slot.write(Box::pin(make()));
    }
}

// %% [markdown]
// Behind `dyn` we look at three ways to fill the box. The executor may be given the future and box it; the caller may
// box it, which should cost the same and so checks everything else; and the future may be built in the box, which few
// programs do, but which saves copying a large future. (Since Rust 1.87 `Box::write` does it without `unsafe`; whether
// the copy disappears is up to the optimiser either way.)

// %%
/// A boxed future of any type.
type Dyn<'f> = Pin<Box<dyn Future<Output = ()> + 'f>>;

/// In a box of `dyn Future`, made by the executor, by its caller, or before the future is.
struct AsDyn<const MADE: u8>;
type InDyn = AsDyn<0>;
type CallerDyn = AsDyn<1>;
type DynInPlace = AsDyn<2>;

impl<const MADE: u8> Storage for AsDyn<MADE> {
    const NAME: &'static str = ["Box<dyn>", "Box<dyn> by the caller", "Box<dyn> in place"][MADE as usize];
    type Stored<'f, F: Future<Output = ()> + 'f> = Dyn<'f>;

    #[inline(always)]
    fn put<'f, F: Future<Output = ()> + 'f>(slot: &mut MaybeUninit<Dyn<'f>>, make: impl FnOnce() -> F) {
        match MADE {
            0 => slot.write(Box::pin(make())),
            1 => {
                let boxed_by_caller = || -> Dyn<'f> { Box::pin(make()) };
                slot.write(boxed_by_caller())
            }
            _ => {
                let mut place = Box::<F>::new_uninit();
                place.write(make());
                // SAFETY: written with the line above.
                slot.write(Box::into_pin(unsafe { place.assume_init() }))
            }
        };
    }
}

// %% [markdown]
// ### Factor: the queue
//
// A bitmap for one thread; a bitmap of atomics, which other threads may write to; and the textbook's mutex
// around a `VecDeque`.

// %%
/// Tasks that want to be polled, each at most once.
trait Queue: 'static {
    const NAME: &'static str;

    fn new() -> Self;
    /// Queues a task, unless it is queued.
    fn push(&self, task: usize);
    /// Takes a task out.
    fn pop(&self) -> Option<usize>;
}

/// A word of flags.
trait Flags: Default {
    const NAME: &'static str;
    fn get(&self) -> u64;
    fn set(&self, flags: u64);
    /// Returns what is left.
    fn clear(&self, flags: u64) -> u64;
}

impl Flags for Cell<u64> {
    const NAME: &'static str = "bitmap";

    #[inline(always)]
    fn get(&self) -> u64 {
        self.get()
    }

    #[inline(always)]
    fn set(&self, flags: u64) {
        Cell::set(self, self.get() | flags);
    }

    #[inline(always)]
    fn clear(&self, flags: u64) -> u64 {
        Cell::set(self, self.get() & !flags);
        self.get()
    }
}

impl Flags for AtomicU64 {
    const NAME: &'static str = "atomic bitmap";

    #[inline(always)]
    fn get(&self) -> u64 {
        self.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn set(&self, flags: u64) {
        self.fetch_or(flags, Ordering::AcqRel);
    }

    #[inline(always)]
    fn clear(&self, flags: u64) -> u64 {
        self.fetch_and(!flags, Ordering::AcqRel) & !flags
    }
}

// %% [markdown]
// How many tasks there are is known beforehand, and fits into the spare bits of an address.

// %%
/// Number of the task that accepts; the others have smaller numbers.
const ROOT: usize = CONNECTIONS;
/// Words of 64 flags, more than enough for [`TASKS`] flags; a power of two, so that a masked index needs no check.
const WORDS: usize = 8;
/// A queue begins at a multiple of a power of two above [`TASKS`]: its address plus a task's number is one word.
const TASK_MASK: usize = 1023;

// %% [markdown]
// A bitmap has a flag for each task, and a summary of its words.

// %%
/// A bitmap with a summary. The highest number comes first, as in the rung before, so the root accepts before
/// its connections go on, as in the loop.
#[repr(align(1024))]
struct Bitmap<F> {
    words: [F; WORDS],
    /// Flag `word` is set when `words[word]` has flags.
    summary: F,
}

impl<F: Flags + 'static> Queue for Bitmap<F> {
    const NAME: &'static str = F::NAME;

    fn new() -> Self {
        Self { words: Default::default(), summary: F::default() }
    }

    #[inline(always)]
    fn push(&self, task: usize) {
        let word = task / 64 % WORDS;
        self.words[word].set(1 << (task % 64));
        // Also if the word had flags already: an atomic `or` that returns what was there is a loop around
        // `compare_exchange`.
        self.summary.set(1 << word);
    }

    #[inline(always)]
    fn pop(&self) -> Option<usize> {
        let word = NonZero::new(self.summary.get())?.ilog2() as usize % WORDS;
        let Some(flags) = NonZero::new(self.words[word].get()) else { return self.pop_elsewhere(word) };
        let bit = flags.ilog2() as usize;
        if self.words[word].clear(1 << bit) == 0 {
            self.emptied(word);
        }
        Some(word * 64 + bit)
    }
}

impl<F: Flags + 'static> Bitmap<F> {
    #[inline(always)]
    fn emptied(&self, word: usize) {
        self.summary.clear(1 << word);
        // A wake on another thread may have come in between, and its summary flag may just have been cleared.
        if self.words[word].get() != 0 {
            self.summary.set(1 << word);
        }
    }

    /// When the flag was taken between the two writes of a wake on another thread, the word is empty after
    /// all.
    #[cold]
    fn pop_elsewhere(&self, word: usize) -> Option<usize> {
        self.emptied(word);
        self.pop()
    }
}

// %% [markdown]
// And the textbook's queue.

// %%
/// Numbers in the order of their wakes, behind a mutex.
#[repr(align(1024))]
struct Locked(Mutex<LockedState>);

struct LockedState {
    order: VecDeque<usize>,
    /// Whether a task is in `order`.
    queued: [bool; TASKS],
}

impl Queue for Locked {
    const NAME: &'static str = "Mutex<VecDeque>";

    fn new() -> Self {
        Self(Mutex::new(LockedState { order: VecDeque::with_capacity(TASKS), queued: [false; TASKS] }))
    }

    #[inline(always)]
    fn push(&self, task: usize) {
        let mut state = self.0.lock().expect("no panic while the queue is locked");
        if !mem::replace(&mut state.queued[task], true) {
            state.order.push_back(task);
        }
    }

    #[inline(always)]
    fn pop(&self) -> Option<usize> {
        let mut state = self.0.lock().expect("no panic while the queue is locked");
        let task = state.order.pop_front()?;
        state.queued[task] = false;
        Some(task)
    }
}

// %% [markdown]
// ### Factor: what a waker is
//
// Five kinds of pointer to "this task of that queue", of which `Rc` comes with three checks as well. All share one table
// of functions, and differ in what cloning and dropping do to a count. For comparison there is the waker of the standard
// library that does nothing. It is still cloned, called and dropped through its table, while the reactor tells the queue
// by number: it saves nothing, and adds that second way.

// %%
/// What a waker points at, unless its address says it all.
struct Target {
    /// Wakers that point here, for the kind that counts here.
    count: Cell<usize>,
    queue: *const (),
    task: usize,
    /// Whose thread this is, for the kinds that check.
    owner: Owner,
}

/// One thread, as each check knows it.
#[derive(Clone, Copy)]
struct Owner {
    id: ThreadId,
    /// Of a thread-local variable.
    address: usize,
}

/// A kind of waker.
trait WakerKind: 'static {
    const NAME: &'static str;
    /// False for the one that does nothing: the reactor queues the task itself.
    const WAKES: bool = true;
    /// Whether each task gets a waker of its own when it is spawned, rather than its slot beforehand.
    const PER_TASK: bool = false;

    /// A waker that queues `target.task`.
    ///
    /// # Safety
    /// `target.queue` is a `Q` that outlives the waker and all its clones. They stay on this thread. The same
    /// holds for `place`, which is the target of all wakers of this slot.
    unsafe fn waker<Q: Queue>(target: Target, place: *const Target) -> Waker;
}

// %% [markdown]
// A kind that counts says how, and where its target is.

// %%
/// How a counted waker holds its target.
trait Pointer: 'static {
    /// Counts one more.
    ///
    /// # Safety
    /// As for all functions here: `data` came from a waker of this kind that still counts.
    unsafe fn retain(data: *const ());

    /// Counts one less.
    ///
    /// # Safety
    /// See [`retain`](Self::retain); it does not count any more.
    unsafe fn release(data: *const ());

    /// Panics if this is the wrong thread.
    ///
    /// # Safety
    /// See [`retain`](Self::retain).
    #[inline(always)]
    unsafe fn check(_: *const ()) {}

    /// Queue and task.
    ///
    /// # Safety
    /// See [`retain`](Self::retain).
    #[inline(always)]
    unsafe fn target(data: *const ()) -> (*const (), usize) {
        // SAFETY: promised by the caller; all kinds but [`Address`] point at a target.
        let target = unsafe { &*data.cast::<Target>() };
        (target.queue, target.task)
    }
}

// %% [markdown]
// These four answers give the table of functions.

// %%
/// The functions of wakers of the kind `K` for the queue `Q`.
struct Functions<K, Q>(PhantomData<(K, Q)>);

impl<K: Pointer, Q: Queue> Functions<K, Q> {
    const VTABLE: RawWakerVTable =
        RawWakerVTable::new(Self::clone, Self::wake, Self::wake_by_ref, Self::drop);

    /// # Safety
    /// As for all functions of the table: `data` is that of a waker made for `K` and `Q`, see
    /// [`WakerKind::waker`].
    unsafe fn clone(data: *const ()) -> RawWaker {
        // SAFETY: promised by the caller.
        unsafe {
            K::check(data);
            K::retain(data);
        }
        RawWaker::new(data, &Self::VTABLE)
    }

    /// # Safety
    /// See [`clone`](Self::clone).
    unsafe fn wake(data: *const ()) {
        // SAFETY: promised by the caller.
        unsafe {
            Self::wake_by_ref(data);
            K::release(data);
        }
    }

    /// # Safety
    /// See [`clone`](Self::clone).
    unsafe fn wake_by_ref(data: *const ()) {
        // SAFETY: promised by the caller; the queue outlives the waker.
        unsafe {
            K::check(data);
            let (queue, task) = K::target(data);
            (*queue.cast::<Q>()).push(task);
        }
    }

    /// # Safety
    /// See [`clone`](Self::clone).
    unsafe fn drop(data: *const ()) {
        // SAFETY: promised by the caller.
        unsafe {
            K::check(data);
            K::release(data);
        }
    }
}

// %% [markdown]
// First those that allocate nothing: the one that does nothing, the frontier's address, and the count
// embedded in the executor.

// %%
/// `Waker::noop`.
enum Noop {}

impl WakerKind for Noop {
    const NAME: &'static str = "noop";
    const WAKES: bool = false;

    unsafe fn waker<Q: Queue>(_: Target, _: *const Target) -> Waker {
        Waker::noop().clone()
    }
}

/// The queue's address plus the number of the task, as in the frontier.
enum Address {}

impl Pointer for Address {
    #[inline(always)]
    unsafe fn retain(_: *const ()) {}

    #[inline(always)]
    unsafe fn release(_: *const ()) {}

    #[inline(always)]
    unsafe fn target(data: *const ()) -> (*const (), usize) {
        (data.map_addr(|address| address & !TASK_MASK), data.addr() & TASK_MASK)
    }
}

impl WakerKind for Address {
    const NAME: &'static str = "address";

    unsafe fn waker<Q: Queue>(target: Target, _: *const Target) -> Waker {
        let data = target.queue.wrapping_byte_add(target.task);
        // SAFETY: the functions find queue and task again, since queues are aligned; the caller promises the
        // rest.
        unsafe { Waker::new(data, &Functions::<Self, Q>::VTABLE) }
    }
}

// %% [markdown]
// The embedded count needs the target's own cell.

// %%
/// A count in the executor.
enum Embedded {}

impl Pointer for Embedded {
    #[inline(always)]
    unsafe fn retain(data: *const ()) {
        // SAFETY: promised by the caller.
        let count = unsafe { &(*data.cast::<Target>()).count };
        count.set(count.get() + 1);
    }

    #[inline(always)]
    unsafe fn release(data: *const ()) {
        // SAFETY: promised by the caller.
        let count = unsafe { &(*data.cast::<Target>()).count };
        count.set(count.get() - 1);
    }
}

impl WakerKind for Embedded {
    const NAME: &'static str = "embedded";

    unsafe fn waker<Q: Queue>(_: Target, place: *const Target) -> Waker {
        // SAFETY: the caller promises that `place` is the target and outlives the waker.
        unsafe { Waker::new(place.cast(), &Functions::<Self, Q>::VTABLE) }
    }
}

// %% [markdown]
// There are three common ways to ask "which thread is this?", besides not asking: a waker behind an `Rc` must stay on
// its thread. The published program caches the id in a lazily filled `RefCell`. One may ask the standard library each
// time. Or one may take the address of a thread-local variable.

// %%
/// A way to find out whether this is the owner's thread.
trait ThreadCheck: 'static {
    const NAME: &'static str;
    fn is_here(owner: &Owner) -> bool;
}

/// No check.
enum NoCheck {}

impl ThreadCheck for NoCheck {
    const NAME: &'static str = "Rc";

    #[inline(always)]
    fn is_here(_: &Owner) -> bool {
        true
    }
}

/// A thread-local cache, filled on first use.
enum Cached {}

impl ThreadCheck for Cached {
    const NAME: &'static str = "Rc, checked by a cached id";

    #[inline(always)]
    fn is_here(owner: &Owner) -> bool {
        thread_local! {
            static CURRENT: RefCell<Option<ThreadId>> = const { RefCell::new(None) };
        }
        owner.id == CURRENT.with_borrow_mut(|id| *id.get_or_insert_with(|| thread::current().id()))
    }
}

// %% [markdown]
// The other two ask anew each time.

// %%
/// The standard library's answer.
enum StdThread {}

impl ThreadCheck for StdThread {
    const NAME: &'static str = "Rc, checked by thread::current";

    #[inline(always)]
    fn is_here(owner: &Owner) -> bool {
        owner.id == thread::current().id()
    }
}

/// The address of a thread-local variable. (A later thread may get the same; the frontier does not rely on
/// it.)
enum ByAddress {}

impl ByAddress {
    #[inline(always)]
    fn here() -> usize {
        thread_local! {
            static HERE: Cell<u8> = const { Cell::new(0) };
        }
        HERE.with(|here| ptr::from_ref(here).addr())
    }
}

impl ThreadCheck for ByAddress {
    const NAME: &'static str = "Rc, checked by an address";

    #[inline(always)]
    fn is_here(owner: &Owner) -> bool {
        owner.address == Self::here()
    }
}

// %% [markdown]
// Then the counted pointers of the standard library, made beforehand or for each task. With `Rc`, each function first
// compares threads, in one of these ways or not at all.

// %%
/// `Rc`, with a check of the thread, or without one.
struct RcPointer<C = NoCheck>(PhantomData<C>);

impl<C: ThreadCheck> Pointer for RcPointer<C> {
    #[inline(always)]
    unsafe fn retain(data: *const ()) {
        // SAFETY: promised by the caller.
        unsafe { Rc::increment_strong_count(data.cast::<Target>()) };
    }

    #[inline(always)]
    unsafe fn release(data: *const ()) {
        // SAFETY: promised by the caller.
        unsafe { Rc::decrement_strong_count(data.cast::<Target>()) };
    }

    #[inline(always)]
    unsafe fn check(data: *const ()) {
        // SAFETY: counted, hence alive; and the owner never changes, so any thread may read it.
        let owner = unsafe { &(*data.cast::<Target>()).owner };
        assert!(C::is_here(owner), "this waker must stay on the thread that made it");
    }
}

impl<C: ThreadCheck> WakerKind for RcPointer<C> {
    const NAME: &'static str = C::NAME;

    unsafe fn waker<Q: Queue>(target: Target, _: *const Target) -> Waker {
        // SAFETY: the pointer counts; the caller promises the rest.
        unsafe { Waker::new(Rc::into_raw(Rc::new(target)).cast(), &Functions::<Self, Q>::VTABLE) }
    }
}

// %% [markdown]
// `Arc` differs in what it counts with, and in one variant in when it is made.

// %%
/// `Arc`. With `PER_TASK`, one for each task, allocated when it is spawned and freed when it ends.
struct ArcPointer<const PER_TASK: bool>;

impl<const PER_TASK: bool> Pointer for ArcPointer<PER_TASK> {
    #[inline(always)]
    unsafe fn retain(data: *const ()) {
        // SAFETY: promised by the caller.
        unsafe { Arc::increment_strong_count(data.cast::<Target>()) };
    }

    #[inline(always)]
    unsafe fn release(data: *const ()) {
        // SAFETY: promised by the caller.
        unsafe { Arc::decrement_strong_count(data.cast::<Target>()) };
    }
}

impl<const PER_TASK: bool> WakerKind for ArcPointer<PER_TASK> {
    const NAME: &'static str = if PER_TASK { "Arc per task" } else { "Arc" };
    const PER_TASK: bool = PER_TASK;

    #[allow(
        clippy::arc_with_non_send_sync,
        reason = "the price of the atomic count is the question; it stays on its thread"
    )]
    unsafe fn waker<Q: Queue>(target: Target, _: *const Target) -> Waker {
        // SAFETY: the pointer counts; the caller promises the rest.
        unsafe { Waker::new(Arc::into_raw(Arc::new(target)).cast(), &Functions::<Self, Q>::VTABLE) }
    }
}

// %% [markdown]
// ### A rung
//
// With all factors defined, a rung states its choice for each.

// %%
/// One way to set all switches of the generic runtime.
trait Rung: 'static {
    type Probe: Probe;
    /// The same with another probe.
    type With<P: Probe>: Rung;
    type Lookup: Lookup;
    type Waker: WakerKind;
    type Queue: Queue;
    type Storage: Storage;
    type Share: Share;
    type Cells: Cells;
    type Buffer: Buffer;
    /// Whether the reactor keeps a clone of the waker, rather than the number of the task.
    const KEEPS_WAKER: bool;
    /// Whether each operation binds a waker before it tries and unbinds it when it is over.
    const BINDS_EACH_OPERATION: bool;

    /// What was chosen, as data.
    fn switches() -> Switches {
        Switches {
            structure: "split",
            task: "async fn",
            request: "inlined",
            dispatch: "queued",
            placement: "future",
            runtime: "generic",
            lookup: Self::Lookup::NAME,
            keeps: if Self::KEEPS_WAKER { "waker" } else { "number" },
            binding: if Self::BINDS_EACH_OPERATION { "operation" } else { "pending" },
            waker: Self::Waker::NAME,
            queue: Self::Queue::NAME,
            storage: Self::Storage::NAME,
            handles: Self::Share::NAME,
            cells: Self::Cells::NAME,
            buffer: size_and_zeroing::<Self::Buffer>(),
        }
    }
}

// %% [markdown]
// ### The reactor of the rungs
//
// One function for each moment in the life of a registration, with the switches inside. In the code compiled for a
// rung, the branches not taken are gone.

// %%
/// What all tasks of one executor share: the queue, and the wakers of its slots.
struct Wakers<R: Rung> {
    /// The waker of each slot; with wakers per task, of each live task. First, in order to be dropped before
    /// what they point at.
    wakers: Vec<UnsafeCell<Waker>>,
    targets: Vec<Target>,
    queue: R::Queue,
}

impl<R: Rung> Wakers<R> {
    /// Wakers for all slots, which point at the result.
    ///
    /// # Safety
    /// The wakers and their clones must stay on this thread and be dropped before the result.
    unsafe fn new() -> AliasableBox<Self> {
        let this = AliasableBox::from(Box::new(Self {
            wakers: Vec::new(),
            targets: Vec::new(),
            queue: R::Queue::new(),
        }));
        let place = this.as_ptr();
        // SAFETY: no reference points to the two vectors yet. They are written one by one, since the second refers to what
        // comes before it. For the wakers the caller promises the rest.
        unsafe {
            (*place).targets = (0..TASKS).map(|task| Self::target(&raw const this.queue, task)).collect();
            (*place).wakers = (0..TASKS).map(|task| UnsafeCell::new(this.waker(task))).collect();
        }
        this
    }

    fn target(queue: *const R::Queue, task: usize) -> Target {
        let owner = Owner { id: thread::current().id(), address: ByAddress::here() };
        // The wakers of the slots themselves are counted from the beginning.
        Target { count: Cell::new(1), queue: queue.cast(), task, owner }
    }

    /// # Safety
    /// As [`new`](Self::new).
    #[inline(always)]
    unsafe fn waker(&self, task: usize) -> Waker {
        let target = Self::target(&raw const self.queue, task);
        // SAFETY: promised by the caller.
        unsafe { R::Waker::waker::<R::Queue>(target, &raw const self.targets[task]) }
    }

    /// The task whose waker that is.
    #[inline(always)]
    fn task_of(&self, waker: &Waker) -> usize {
        (ptr::from_ref(waker).addr() - self.wakers.as_ptr().addr()) / size_of::<Waker>()
    }
}

// %% [markdown]
// What it keeps for each object is what the published reactor keeps, plus the number.

// %%
/// No task.
const NO_TASK: usize = usize::MAX;

/// What the reactor knows of one I/O object.
struct Interest {
    ready: bool,
    /// The task that waits, or [`NO_TASK`].
    task: usize,
    waker: Option<Waker>,
}

/// A table of the rung's kind.
type TableOf<R, T> = <<R as Rung>::Lookup as Lookup>::Table<<R as Rung>::Cells, T>;
/// The key of an object.
type ObjectKey<R> = <TableOf<R, Interest> as Table<Interest>>::Key;
/// A handle of the rung's kind.
type Handle<'r, R, T> = <<R as Rung>::Share as Share>::Handle<'r, T>;

/// Turns events into wakes, as the rung says.
struct RungReactor<'s, R: Rung> {
    poll: FakePoll<Handle<'s, R, Stats>>,
    stats: Handle<'s, R, Stats>,
    objects: TableOf<R, Interest>,
    events: <R::Cells as Cells>::Of<Vec<Event>>,
    wakers: AliasableBox<Wakers<R>>,
}

impl<'s, R: Rung> RungReactor<'s, R> {
    /// # Safety
    /// As [`Wakers::new`]; and its methods must not be called from a waker's or a future's `drop` while
    /// another method of it runs.
    unsafe fn new(stats: Handle<'s, R, Stats>) -> Self {
        Self {
            poll: FakePoll::new(stats.clone(), TASKS),
            stats,
            objects: Table::with_capacity(TASKS),
            events: Mutable::new(Vec::with_capacity(TASKS)),
            // SAFETY: promised by the caller.
            wakers: unsafe { Wakers::new() },
        }
    }
}

// %% [markdown]
// An event makes its object ready. Then comes the first of the switches.

// %%
impl<'s, R: Rung> RungReactor<'s, R> {
    /// Polls, and wakes the tasks that wait for objects that are ready now.
    #[inline(always)]
    fn poll(&self) {
        self.events.with(|events| {
            self.poll.poll(events);
            R::Probe::add(Counter::Events, events.len());
            for event in events.iter() {
                if let Some(key) = self.objects.key(event.key) {
                    self.objects.with(key, |object| self.ready(object));
                }
            }
        });
    }

    #[inline(always)]
    fn ready(&self, object: &mut Interest) {
        object.ready = true;
        if !R::KEEPS_WAKER || !R::Waker::WAKES {
            let task = mem::replace(&mut object.task, NO_TASK);
            if task != NO_TASK {
                self.wakers.queue.push(task);
            }
        }
        if R::KEEPS_WAKER && R::BINDS_EACH_OPERATION {
            if let Some(waker) = object.waker.take() {
                R::Probe::add(Counter::Wakes, 1);
                waker.wake();
            }
        } else if R::KEEPS_WAKER
            && let Some(waker) = &object.waker
        {
            R::Probe::add(Counter::Wakes, 1);
            waker.wake_by_ref();
        }
    }
}

// %% [markdown]
// Objects come and go, and operations bind and unbind their wakers.

// %%
impl<R: Rung> RungReactor<'_, R> {
    #[inline(always)]
    fn register(&self, source: &impl Source, interest: u8) -> ObjectKey<R> {
        let key = self.objects.insert(Interest { ready: true, task: NO_TASK, waker: None });
        R::Probe::peak(Counter::PeakRegistrations, self.objects.len());
        R::Probe::peak(Counter::PeakConnections, self.objects.len() - 1); // all but the listener
        self.poll.register(source, self.objects.number(key), interest);
        key
    }

    #[inline(always)]
    fn unregister(&self, source: &impl Source, key: ObjectKey<R>) {
        self.poll.unregister(source);
        drop(self.objects.remove(key));
    }

    /// The object's next event wakes the task behind `context`.
    #[inline(always)]
    fn bind(&self, object: &mut Interest, context: &Context<'_>) {
        if !R::KEEPS_WAKER || !R::Waker::WAKES {
            object.task = self.wakers.task_of(context.waker());
        }
        if R::KEEPS_WAKER {
            if object.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                R::Probe::add(Counter::WillWakeHits, 1);
            } else {
                R::Probe::add(Counter::WakerClones, 1);
                object.waker = Some(context.waker().clone());
            }
        }
    }

    /// An operation on the object is over.
    #[inline(always)]
    fn unbind(&self, key: ObjectKey<R>) {
        if R::KEEPS_WAKER && R::BINDS_EACH_OPERATION {
            let waker = self.objects.with(key, |object| object.waker.take());
            if waker.is_some() {
                R::Probe::add(Counter::WakerDrops, 1);
            }
        }
    }
}

// %% [markdown]
// Objects and operations look as in the frontier, with a key in place of a reference.

// %%
/// An I/O object with its key.
struct RungObject<'r, 's: 'r, R: Rung, T: Source> {
    reactor: Handle<'r, R, RungReactor<'s, R>>,
    key: ObjectKey<R>,
    object: T,
}

impl<'r, 's, R: Rung, T: Source> RungObject<'r, 's, R, T> {
    #[inline(always)]
    fn new(reactor: Handle<'r, R, RungReactor<'s, R>>, object: T, interest: u8) -> Self {
        let key = reactor.register(&object, interest);
        Self { reactor, key, object }
    }
}

impl<R: Rung, T: Source> Drop for RungObject<'_, '_, R, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.reactor.unregister(&self.object, self.key);
    }
}

// %% [markdown]
// An operation binds and unbinds its waker, as the rung says.

// %%
/// Tries an I/O call whenever its object may be ready, until it does not block.
struct RungOperation<'a, 'r, 's, R: Rung, T: Source, Call> {
    object: &'a RungObject<'r, 's, R, T>,
    call: Call,
}

impl<R: Rung, T: Source, Call, Out> Future for RungOperation<'_, '_, '_, R, T, Call>
where
    Call: FnMut(&T) -> Result<Out, WouldBlock> + Unpin,
{
    type Output = Out;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Out> {
        let Self { object: RungObject { reactor, key, object }, call } = self.get_mut();
        R::Probe::add(Counter::OperationPolls, 1);
        let ready = reactor.objects.with(*key, |state| {
            if R::BINDS_EACH_OPERATION {
                reactor.bind(state, context);
            }
            state.ready
        });
        if !ready {
            R::Probe::add(Counter::NotReadyPolls, 1);
        } else if let Ok(outcome) = call(object) {
            return Poll::Ready(outcome);
        }
        reactor.objects.with(*key, |state| {
            state.ready = false;
            if !R::BINDS_EACH_OPERATION {
                reactor.bind(state, context);
            }
        });
        Poll::Pending
    }
}

impl<R: Rung, T: Source, Call> Drop for RungOperation<'_, '_, '_, R, T, Call> {
    #[inline(always)]
    fn drop(&mut self) {
        self.object.reactor.unbind(self.object.key);
    }
}

// %% [markdown]
// A stream and the task that accepts are written as on the frontier.

// %%
/// A registered stream.
type RungStream<'r, 's, R> = RungObject<'r, 's, R, FakeStream<Handle<'s, R, Stats>>>;

impl<'s, R: Rung> Line for RungStream<'_, 's, R> {
    #[inline(always)]
    fn read<'a>(&'a mut self, buffer: &'a mut [u8]) -> impl Future<Output = usize> + 'a {
        RungOperation { object: self, call: |stream: &FakeStream<_>| stream.read(buffer) }
    }

    #[inline(always)]
    fn write<'a>(&'a mut self, bytes: &'a [u8]) -> impl Future<Output = usize> + 'a {
        RungOperation { object: self, call: |stream: &FakeStream<_>| stream.write(bytes) }
    }
}

/// Accepts [`CONNECTIONS`] clients and hands each to `spawn`.
async fn accept_rung<'r, 's, R: Rung, D: OpensDoors>(
    reactor: Handle<'r, R, RungReactor<'s, R>>,
    spawn: impl Fn(RungStream<'r, 's, R>),
) {
    let door = D::Door::open(reactor.stats.clone());
    let listener = RungObject::<R, _>::new(reactor, door, READABLE);
    for _ in 0..CONNECTIONS {
        let call = |door: &D::Door<_>| {
            Ok(RungObject::new(listener.reactor.clone(), door.accept()?, READABLE | WRITABLE))
        };
        spawn(RungOperation { object: &listener, call }.await);
    }
}

// %% [markdown]
// ### The executor of the rungs

// %%
/// A place for what the rung keeps of a future.
type RungSlot<'r, R, F> = UnsafeCell<MaybeUninit<<<R as Rung>::Storage as Storage>::Stored<'r, F>>>;

/// Runs a root and futures of type `F`, as the rung says.
struct RungExecutor<'r, 's: 'r, R: Rung, F: Future<Output = ()> + 'r> {
    reactor: Handle<'r, R, RungReactor<'s, R>>,
    /// Which slots hold a task.
    tasks: TableOf<R, ()>,
    slots: Vec<RungSlot<'r, R, F>>,
}

impl<'r, 's, R: Rung, F: Future<Output = ()> + 'r> RungExecutor<'r, 's, R, F> {
    /// # Safety
    /// The futures must not panic, nor use the executor when they are made or dropped; `run` must not be
    /// nested, and must have returned before the executor is dropped. Wakers: see [`Wakers::new`].
    unsafe fn new(reactor: Handle<'r, R, RungReactor<'s, R>>) -> Self {
        let slots = (0..CONNECTIONS).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
        Self { reactor, tasks: Table::with_capacity(CONNECTIONS), slots }
    }

    #[inline(always)]
    fn spawn(&self, make: impl FnOnce() -> F) {
        let task = self.tasks.number(self.tasks.insert(()));
        // SAFETY: the slot was vacant, so no reference points to its content.
        R::Storage::put(unsafe { &mut *self.slots[task].get() }, make);
        let wakers = &self.reactor.wakers;
        if R::Waker::PER_TASK {
            // SAFETY: the task that had this waker has ended; `new` was promised the rest.
            unsafe { *wakers.wakers[task].get() = wakers.waker(task) };
        }
        wakers.queue.push(task);
        R::Probe::add(Counter::Spawns, 1);
        R::Probe::peak(Counter::PeakTasks, self.tasks.len() + 1); // and the root
        R::Probe::peak(Counter::FutureBytes, size_of::<F>());
    }
}

// %% [markdown]
// Polling and running are the frontier's, without its precautions.

// %%
impl<'r, 's, R: Rung, F: Future<Output = ()> + 'r> RungExecutor<'r, 's, R, F> {
    /// Polls a task of the pool, unless it has finished.
    #[inline(always)]
    fn poll_pooled(&self, task: usize) {
        let Some(key) = self.tasks.key(task) else { return };
        // SAFETY: the slot holds a future, which is never moved out of it; there is no other reference, as `run`
        // does not nest.
        let future = unsafe { Pin::new_unchecked((*self.slots[task].get()).assume_init_mut()) };
        if future.poll(&mut self.context(task)).is_ready() {
            // SAFETY: it is not used again, since the task ends with the next lines.
            unsafe { (*self.slots[task].get()).assume_init_drop() };
            if R::Waker::PER_TASK {
                // SAFETY: the waker is not borrowed outside of a poll.
                unsafe { *self.reactor.wakers.wakers[task].get() = Waker::noop().clone() };
            }
            self.tasks.remove(key);
        }
    }

    #[inline(always)]
    fn context(&self, task: usize) -> Context<'_> {
        R::Probe::add(Counter::Polls, 1);
        // SAFETY: it is replaced only when its task is not being polled.
        Context::from_waker(unsafe { &*self.reactor.wakers.wakers[task].get() })
    }

    /// Runs `root` and all tasks to their end.
    #[inline(always)]
    fn run(&self, root: impl Future<Output = ()>) {
        let mut root = pin!(root);
        let mut accepting = true;
        self.reactor.wakers.queue.push(ROOT);
        loop {
            while let Some(task) = self.reactor.wakers.queue.pop() {
                if task != ROOT {
                    self.poll_pooled(task);
                } else if accepting {
                    accepting = root.as_mut().poll(&mut self.context(ROOT)).is_pending();
                }
            }
            if !accepting && self.tasks.len() == 0 {
                return;
            }
            self.reactor.poll();
        }
    }
}

// %% [markdown]
// A world of a rung puts reactor and executor together; the rung says whether they are shared by reference or by `Rc`.

// %%
/// The world of a rung.
fn rung<R: Rung, D: OpensDoors>(load: Load, repeat: Repeat<'_>) {
    let stats = R::Share::own(Stats::new(load.syscalls));
    // SAFETY: nothing here has a second thread. Objects, executor and reactor are dropped in that order, and
    // wakers with them; our two kinds of task neither panic nor use the executor in a destructor.
    let reactor = R::Share::own(unsafe { RungReactor::<R>::new(R::Share::lend(&stats)) });
    // SAFETY: as above.
    let executor = unsafe { RungExecutor::<R, _>::new(R::Share::lend(&reactor)) };
    let stats = R::Share::lend(&stats);
    repeat(&stats, &mut || {
        let spawn = |stream| {
            executor.spawn(|| echo::<RungStream<'_, '_, R>, NoWork, R::Probe, R::Buffer>(stream, NoWork))
        };
        executor.run(accept_rung::<R, D>(R::Share::lend(&reactor), spawn));
    });
}

// %% [markdown]
// ## The rungs
//
// Now the ladder can be read as a table: one line per rung, one column per factor. Each line of the first block differs
// from the line above in one place. Below it are branches: the same factor changed at another rung, or in another way.
// They answer the questions of the published program one by one. Is it the box or the `dyn`? Who boxes? Is it the size
// or the zeroing? Which check?

// %%
/// The queues and wakers of the table, in short.
type Plain = Bitmap<Cell<u64>>;
type Atomic = Bitmap<AtomicU64>;
type SharedArc = ArcPointer<false>;
type OwnArc = ArcPointer<true>;

// %% [markdown]
// A rung is a line of the table: a type that names its parts, for any probe.

// %%
/// Declares rungs: one type per line, generic over its probe.
#[macro_export]
macro_rules! declare_rungs {
    ($($name:ident: $keeps:literal $binds:literal $lookup:ty, $waker:ty, $queue:ty, $storage:ty, $share:ty, $cells:ty, $buffer:ty;)*) => { $(
        #[expect(missing_docs, reason = "the table below says what they are")]
        pub struct $name<P = Counted>(PhantomData<P>);

        impl<P: Probe> Rung for $name<P> {
            type Probe = P;
            type With<Q: Probe> = $name<Q>;
            type Lookup = $lookup;
            type Waker = $waker;
            type Queue = $queue;
            type Storage = $storage;
            type Share = $share;
            type Cells = $cells;
            type Buffer = $buffer;
            const KEEPS_WAKER: bool = $keeps;
            const BINDS_EACH_OPERATION: bool = $binds;
        }
    )* };
}

// %% [markdown]
// In the table, the columns are: keeps a waker, binds each operation, lookup, waker, queue, storage, handles, cells,
// buffer.

// %%
/// The rungs, each for any probe.
pub mod rungs {
    use super::*;

    declare_rungs! {
        // The ladder.
        GenericRuntime:  false false Direct,  Address,              Plain,  InSlot,     ByReference, Unchecked, Small;
        SlabIndex:       false false Indexed, Address,              Plain,  InSlot,     ByReference, Unchecked, Small;
        ClonedWaker:     true  false Indexed, Address,              Plain,  InSlot,     ByReference, Unchecked, Small;
        PerOperation:    true  true  Indexed, Address,              Plain,  InSlot,     ByReference, Unchecked, Small;
        EmbeddedWaker:   true  true  Indexed, Embedded,             Plain,  InSlot,     ByReference, Unchecked, Small;
        RcWaker:         true  true  Indexed, RcPointer,            Plain,  InSlot,     ByReference, Unchecked, Small;
        ArcWaker:        true  true  Indexed, SharedArc,            Plain,  InSlot,     ByReference, Unchecked, Small;
        AtomicQueue:     true  true  Indexed, SharedArc,            Atomic, InSlot,     ByReference, Unchecked, Small;
        ArcPerTask:      true  true  Indexed, OwnArc,               Atomic, InSlot,     ByReference, Unchecked, Small;
        BoxedDyn:        true  true  Indexed, OwnArc,               Atomic, InDyn,      ByReference, Unchecked, Small;
        RcHandles:       true  true  Indexed, OwnArc,               Atomic, InDyn,      ByRc,        Unchecked, Small;
        CheckedCells:    true  true  Indexed, OwnArc,               Atomic, InDyn,      ByRc,        Checked,   Small;
        MutexQueue:      true  true  Indexed, OwnArc,               Locked, InDyn,      ByRc,        Checked,   Small;
        // From the leanest rung.
        LeanRcHandles:   false false Indexed, Address,              Plain,  InSlot,     ByRc,        Unchecked, Small;
        LeanChecked:     false false Indexed, Address,              Plain,  InSlot,     ByReference, Checked,   Small;
        LeanAtomic:      false false Indexed, Address,              Atomic, InSlot,     ByReference, Unchecked, Small;
        LeanMutex:       false false Indexed, Address,              Locked, InSlot,     ByReference, Unchecked, Small;
        LeanBox:         false false Indexed, Address,              Plain,  InBox,      ByReference, Unchecked, Small;
        LeanDyn:         false false Indexed, Address,              Plain,  InDyn,      ByReference, Unchecked, Small;
        LeanCallerDyn:   false false Indexed, Address,              Plain,  CallerDyn,  ByReference, Unchecked, Small;
        LeanDynInPlace:  false false Indexed, Address,              Plain,  DynInPlace, ByReference, Unchecked, Small;
        // Large buffers.
        LargeZeroed:     false false Indexed, Address,              Plain,  InSlot,     ByReference, Unchecked, Large;
        LargeUnzeroed:   false false Indexed, Address,              Plain,  InSlot,     ByReference, Unchecked, Unzeroed;
        LargeDyn:        false false Indexed, Address,              Plain,  InDyn,      ByReference, Unchecked, Unzeroed;
        LargeDynInPlace: false false Indexed, Address,              Plain,  DynInPlace, ByReference, Unchecked, Unzeroed;
        // Wakers, where they are cloned for each operation.
        NoopWaker:       true  true  Indexed, Noop,                 Plain,  InSlot,     ByReference, Unchecked, Small;
        CachedCheck:     true  true  Indexed, RcPointer<Cached>,    Plain,  InSlot,     ByReference, Unchecked, Small;
        StdCheck:        true  true  Indexed, RcPointer<StdThread>, Plain,  InSlot,     ByReference, Unchecked, Small;
        AddressCheck:    true  true  Indexed, RcPointer<ByAddress>, Plain,  InSlot,     ByReference, Unchecked, Small;
        ArcKept:         true  false Indexed, SharedArc,            Plain,  InSlot,     ByReference, Unchecked, Small;
    }
}

// %% [markdown]
// Now each factor can be looked at: a second for each rung, once the cell is compiled.

// %%
/// The timed code of a rung.
#[expect(private_bounds, reason = "what a rung is made of is a matter of this notebook")]
pub fn timed<R: Rung>() -> World {
    rung::<R::With<zero_cost_loop::Timed<()>>, Pipeline>
}

// %% [markdown]
// **A glance: finding and binding.** Objects found by address or by index, a number or a `Waker` kept, once for each
// wait or for each operation.

// %% tags=["active-ipynb", "glance"]
// zero_cost_loop::glance(Load { syscalls: false, steps: 0 }, &[
//     ("by address", timed::<rungs::GenericRuntime>()),
//     ("slab index", timed::<rungs::SlabIndex>()),
//     ("cloned waker", timed::<rungs::ClonedWaker>()),
//     ("bound per operation", timed::<rungs::PerOperation>()),
// ])

// %% [markdown]
// **A glance: what a waker is.** The same rung with four kinds of waker, and with the one that does nothing.

// %% tags=["active-ipynb", "glance"]
// zero_cost_loop::glance(Load { syscalls: false, steps: 0 }, &[
//     ("by address", timed::<rungs::PerOperation>()),
//     ("embedded", timed::<rungs::EmbeddedWaker>()),
//     ("Rc", timed::<rungs::RcWaker>()),
//     ("Arc", timed::<rungs::ArcWaker>()),
//     ("does nothing", timed::<rungs::NoopWaker>()),
// ])

// %% [markdown]
// **A glance: the queue.** From the lean rung: flags, atomic flags, and a list behind a `Mutex`.

// %% tags=["active-ipynb", "glance"]
// zero_cost_loop::glance(Load { syscalls: false, steps: 0 }, &[
//     ("flags", timed::<rungs::SlabIndex>()),
//     ("atomic flags", timed::<rungs::LeanAtomic>()),
//     ("mutex", timed::<rungs::LeanMutex>()),
// ])

// %% [markdown]
// **A glance: where futures live.** In the executor's slots, in a box of their own type, or in a box of `dyn Future`.

// %% tags=["active-ipynb", "glance"]
// zero_cost_loop::glance(Load { syscalls: false, steps: 0 }, &[
//     ("slot", timed::<rungs::SlabIndex>()),
//     ("box", timed::<rungs::LeanBox>()),
//     ("dyn", timed::<rungs::LeanDyn>()),
//     ("dyn, built in place", timed::<rungs::LeanDynInPlace>()),
// ])

// %% [markdown]
// **A glance: handles and cells.** References, `Rc`, and `RefCell`.

// %% tags=["active-ipynb", "glance"]
// zero_cost_loop::glance(Load { syscalls: false, steps: 0 }, &[
//     ("references", timed::<rungs::SlabIndex>()),
//     ("Rc", timed::<rungs::LeanRcHandles>()),
//     ("RefCell", timed::<rungs::LeanChecked>()),
// ])

// %% [markdown]
// **A glance: the buffer.** 128 bytes, and 16 KiB as they are or set to zero.

// %% tags=["active-ipynb", "glance"]
// zero_cost_loop::glance(Load { syscalls: false, steps: 0 }, &[
//     ("128 bytes", timed::<rungs::SlabIndex>()),
//     ("16 KiB uninitialised", timed::<rungs::LargeUnzeroed>()),
//     ("16 KiB zeroed", timed::<rungs::LargeZeroed>()),
// ])

// %% [markdown]
// # All variants
//
// A variant has a name, the variant that it is built on and what it changes there, its switches, and its code: once
// timed, once counting. The change is described in a few words, which the analysis repeats.

// %%
/// One way to serve.
#[derive(Clone, Copy)]
pub struct Variant {
    /// The word for it in the data.
    pub name: &'static str,
    /// The variant from which it differs in one switch; `None` for the loop.
    pub base: Option<&'static str>,
    /// What changes from there, in a few words.
    pub change: &'static str,
    pub switches: Switches,
    /// Its timed code.
    pub timed: World,
    /// The same code, counting.
    pub counted: World,
}

impl Variant {
    const fn new(
        name: &'static str,
        (base, change): (&'static str, &'static str),
        switches: Switches,
        [timed, counted]: [World; 2],
    ) -> Self {
        Self { name, base: Some(base), change, switches, timed, counted }
    }
}

/// The variant that is a rung.
fn on_rung<R: Rung>(name: &'static str, base: &'static str, change: &'static str) -> Variant {
    Variant::new(name, (base, change), R::switches(), twice!(P => rung::<R::With<P>, Pipeline>))
}

/// Names of the variants that more than one function mentions.
const MANUAL: &str = "manual (best)";
const FRONTIER: &str = "frontier";

/// The fake without a server, which no variant is built on.
fn fake_variant() -> Variant {
    let switches = Switches { structure: "none", ..rungs::GenericRuntime::<Counted>::switches() };
    Variant { base: None, ..Variant::new("fake alone", ("", ""), switches, twice!(P => fake_only::<P>)) }
}

// %% [markdown]
// The main ladder first. A switch that a loop has no use for counts as set as in `split`.

// %% [markdown]
// Those above the rungs are declared by hand, each with its one switch.

// %%
/// The ladder, from the loop down: each variant is compared with the one before.
pub fn ladder() -> Vec<Variant> {
    use rungs::*;
    let generic = GenericRuntime::<Counted>::switches();
    let owning = Switches { runtime: "frontier", ..generic };
    let queued = Switches { placement: "entry", ..owning };
    let at_once = Switches { dispatch: "at once", ..queued };
    let split = Switches { task: "by hand", ..at_once };
    let manual = Switches { structure: "loop", ..split };
    let new = Variant::new;
    let by_hand = twice!(P => by_hand::<Pipeline, NoWork, P>);
    let split_code = twice!(P => frontier_by_hand::<Pipeline, NoWork, P>);
    let frontier = twice!(P => frontier::<Pipeline, NoWork, P>);
    let in_queue = twice!(P => frontier_queued::<Pipeline, NoWork, P>);
    let in_future = twice!(P => frontier_owning::<Pipeline, NoWork, P>);
    vec![
        Variant { base: None, ..new(MANUAL, ("", ""), manual, by_hand) },
        new("split", (MANUAL, "futures, reactor and executor instead of one loop"), split, split_code),
        new(FRONTIER, ("split", "`async fn` instead of futures by hand"), at_once, frontier),
        new("ready queue", (FRONTIER, "events wake, tasks are polled from a queue"), queued, in_queue),
        new(
            "stream in future",
            ("ready queue", "a stream lives in its future, not in the reactor's table"),
            owning,
            in_future,
        ),
        on_rung::<GenericRuntime>(
            "generic runtime",
            "stream in future",
            "the runtime of the rungs below, which trusts its tasks",
        ),
        on_rung::<SlabIndex>("slab index", "generic runtime", "objects and tasks found by index in slabs"),
        on_rung::<ClonedWaker>("cloned waker", "slab index", "the reactor keeps a `Waker`, no number"),
        on_rung::<PerOperation>(
            "bound per operation",
            "cloned waker",
            "each operation binds and unbinds its waker",
        ),
        on_rung::<EmbeddedWaker>(
            "embedded waker",
            "bound per operation",
            "a waker in its task that counts its owners",
        ),
        on_rung::<RcWaker>("Rc waker", "embedded waker", "wakers behind an `Rc`"),
        on_rung::<ArcWaker>("Arc waker", "Rc waker", "wakers behind an `Arc`: atomic counting"),
        on_rung::<AtomicQueue>("atomic queue", "Arc waker", "a ready queue of atomic flags"),
        on_rung::<ArcPerTask>("Arc per task", "atomic queue", "an `Arc` allocated for each task"),
        on_rung::<BoxedDyn>("boxed dyn", "Arc per task", "futures in a `Box` of `dyn Future`"),
        on_rung::<RcHandles>("Rc handles", "boxed dyn", "`Rc` handles to reactor and ledger"),
        on_rung::<CheckedCells>("checked cells", "Rc handles", "`RefCell` around shared state"),
        on_rung::<MutexQueue>("mutex queue", "checked cells", "a ready queue behind a `Mutex`"),
    ]
}

// %% [markdown]
// The branches name the rung that they differ from.

// %%
/// The branches off the ladder, and the fake alone.
pub fn branches() -> Vec<Variant> {
    use rungs::*;
    const LEAN: &str = "slab index";
    const BOUND: &str = "bound per operation";
    let frontier =
        ladder().into_iter().find(|variant| variant.name == FRONTIER).expect("a rung of this name");
    let without_wakers_switches = Switches { keeps: "nothing", ..frontier.switches };
    let no_wakers = twice!(P => without_wakers::<Pipeline, NoWork, P>);
    let called = Switches { request: "out of line", ..frontier.switches };
    let out_of_line = twice!(P => frontier_out_of_line::<Pipeline, NoWork, P>);
    vec![
        fake_variant(),
        Variant::new(
            "no wakers",
            (FRONTIER, "an object belongs to one task for good"),
            without_wakers_switches,
            no_wakers,
        ),
        Variant::new("out of line", (FRONTIER, "a request is polled out of line"), called, out_of_line),
        on_rung::<LeanRcHandles>("lean + Rc handles", LEAN, "`Rc` handles to reactor and ledger"),
        on_rung::<LeanChecked>("lean + checked cells", LEAN, "`RefCell` around shared state"),
        on_rung::<LeanAtomic>("lean + atomic queue", LEAN, "a ready queue of atomic flags"),
        on_rung::<LeanMutex>("lean + mutex queue", LEAN, "a ready queue behind a `Mutex`"),
        on_rung::<LeanBox>("lean + box", LEAN, "futures in a `Box` of their own type"),
        on_rung::<LeanDyn>("lean + dyn", LEAN, "futures in a `Box` of `dyn Future`"),
        on_rung::<LeanCallerDyn>("lean + dyn by caller", "lean + dyn", "the caller makes the box"),
        on_rung::<LeanDynInPlace>("lean + dyn in place", "lean + dyn", "the future is built in its box"),
        on_rung::<LargeZeroed>("16 KiB zeroed", LEAN, "a large buffer, set to zero"),
        on_rung::<LargeUnzeroed>("16 KiB uninitialised", LEAN, "a large buffer, left as it is"),
        on_rung::<LargeDyn>(
            "16 KiB uninitialised + dyn",
            "16 KiB uninitialised",
            "a large future in a `Box` of `dyn Future`",
        ),
        on_rung::<LargeDynInPlace>(
            "16 KiB uninitialised + dyn in place",
            "16 KiB uninitialised + dyn",
            "the large future is built in its box",
        ),
        on_rung::<NoopWaker>("noop waker", BOUND, "a waker that does nothing"),
        on_rung::<CachedCheck>("Rc waker, cached check", "Rc waker", "thread checked by a cached id"),
        on_rung::<StdCheck>("Rc waker, asked check", "Rc waker", "thread asked of the standard library"),
        on_rung::<AddressCheck>("Rc waker, address check", "Rc waker", "thread checked by an address"),
        on_rung::<ArcKept>("Arc waker, kept", "Arc waker", "bound when pending, and kept"),
    ]
}

// %% [markdown]
// # Proof of equal work
//
// The counts of the first notebook hold here too, with three exceptions that are the very subject of a
// switch. A reactor that keeps numbers clones no wakers. One that keeps wakers, and binds when pending,
// clones one for each object and finds it again each time after that: 257 clones, 511 hits. And one that
// binds for each operation clones 1536 times, as published. The root is no spawned task here, hence 256
// spawns.
//
// In the crowd, all connections are accepted before the first poll. Each is reported twice, so there are two
// polls of 256 events each, and the root is polled once.

// %%
/// No system calls, no work.
pub const BARE: Load = Load { syscalls: false, steps: 0 };

/// Connections that are alive at once in the pipeline.
pub const PIPELINE: u64 = 3;
/// The same in the crowd.
pub const CROWD: u64 = CONNECTIONS as u64;

// %% [markdown]
// As code:

// %%
/// What one run of a variant must count. How large futures are is for the compiler to say.
pub fn expected(switches: &Switches, live: u64, syscalls: bool) -> Counts {
    let all = CONNECTIONS as u64;
    let pipeline = live == PIPELINE;
    let if_pipeline = |count| if pipeline { count } else { 0 };
    let if_async = |count| if switches.structure == "split" { count } else { 0 };
    let if_server = |count| if switches.structure == "none" { 0 } else { count };
    let polls = if pipeline { all + 2 } else { 2 };
    let keeps = switches.keeps == "waker";
    let waits = 2 * all + if_pipeline(all);
    let (clones, hits, drops) = match switches.binding {
        _ if !keeps => (0, 0, 0),
        "pending" => (all + 1, waits - (all + 1), 0),
        _ => (2 * waits, 0, waits),
    };
    let zeroed = if switches.buffer == size_and_zeroing::<Large>() { LARGE_BUFFER } else { SMALL_BUFFER };
    let operations = 2 * (all + 1) + polls + 6 * all;
    Counts::from([
        ("register", all + 1),
        ("unregister", all + 1),
        ("poll", polls),
        ("accept", 2 * all),
        ("read", 2 * all),
        ("write", 2 * all),
        ("syscalls", if syscalls { operations } else { 0 }),
        ("events", waits),
        ("spawns", if_async(all)),
        ("polls", if_async(3 * all + 1 + if_pipeline(all))),
        ("operation_polls", if_async(5 * all + if_pipeline(all))),
        ("not_ready_polls", 0),
        ("waker_clones", clones),
        ("will_wake_hits", hits),
        ("waker_drops", drops),
        ("wakes", if keeps { waits } else { 0 }),
        ("transactions", all),
        ("zeroed_bytes", if_server(all * zeroed as u64)),
        ("peak_connections", if_server(live)),
        ("peak_tasks", if_async(live + 1)),
        ("peak_registrations", if_server(live + 1)),
    ])
}

impl Variant {
    /// The counts of the variant.
    ///
    /// # Errors
    /// If it does not do the work that it should, or its timed code not the same operations: the counts that are wrong.
    pub fn prove(&self, load: Load, live: u64) -> Result<Counts, UnequalWork> {
        let expected = expected(&self.switches, live, load.syscalls);
        prove_both(&self.name, [self.timed, self.counted], load, &expected)
    }
}

// %% [markdown]
// Here is what each counts:

// %% tags=["active-ipynb"]
// for variant in ladder().into_iter().chain(branches()) {
//     let counts = variant.prove(BARE, PIPELINE).unwrap_or_else(harness::stop);
//     let [polls, clones, size] = ["polls", "waker_clones", "future_bytes"].map(|name| counts[name]);
//     println!("{:>35}: {polls:>4} task polls, {clones:>4} waker clones, futures of {size:>5} bytes", variant.name);
// }

// %% [markdown]
// # The study
//
// All rungs and branches run under the published load. The two ends of the first question, the loop and the
// frontier, also serve the crowd, and the pipeline with one and with ten microseconds of work per request (a
// thousand steps of a xorshift chain take about a microsecond). One rung serves the crowd with and without a box,
// since an allocator is at its best where it can hand out the same block again and again. The loop takes part
// twice in each family, as its own control.

// %%
/// Steps of work per request; a step takes about a nanosecond.
pub const WORK: [u32; 2] = [1_000, 10_000];

/// A variant under a load, with so many live connections.
struct Measured {
    variant: Variant,
    load: Load,
    live: u64,
}

impl Measured {
    /// The key of a variant of this name under the same load.
    fn key_of(&self, name: &str) -> Key {
        let Load { steps, .. } = self.load;
        let (work, suffix) =
            if steps > 0 { (format!(" work={steps}"), "+work") } else { (String::new(), "") };
        Key::new(format!("{name}{suffix}"), name, format!("live={}{work}", self.live))
    }
}

// %% [markdown]
// Under the other loads, each has code of its own, as always once for the clock and once for the count.

// %%
/// Everything that is measured.
fn measured() -> Vec<Measured> {
    use rungs::{LeanDyn, SlabIndex};
    let variants: Vec<Variant> = ladder().into_iter().chain(branches()).collect();
    let under = |load, live, name, [timed, counted]: [World; 2]| {
        let variant = variants.iter().find(|variant| variant.name == name).expect("a name of the ladder");
        Measured { variant: Variant { timed, counted, ..*variant }, load, live }
    };
    let at_bare_load = |&variant| Measured { variant, load: BARE, live: PIPELINE };
    let mut all: Vec<Measured> = variants.iter().map(at_bare_load).collect();
    let crowd = |name, code| under(BARE, CROWD, name, code);
    all.extend([
        crowd(MANUAL, twice!(P => by_hand::<AtOnce, NoWork, P>)),
        crowd(FRONTIER, twice!(P => frontier::<AtOnce, NoWork, P>)),
        crowd("slab index", twice!(P => rung::<SlabIndex<P>, AtOnce>)),
        crowd("lean + dyn", twice!(P => rung::<LeanDyn<P>, AtOnce>)),
    ]);
    for steps in WORK {
        let work = |name, code| under(Load { steps, ..BARE }, PIPELINE, name, code);
        all.push(work(MANUAL, twice!(P => by_hand::<Pipeline, Steps, P>)));
        all.push(work(FRONTIER, twice!(P => frontier::<Pipeline, Steps, P>)));
    }
    all
}

// %% [markdown]
// Every variant is compared with the loop, and with the variant that it is built on. A few more pairs are not on the
// ladder: what a `dyn` adds to a box, what a box costs if the future is built in it, and a counter against a check.

// %%
/// Further pairs, under the published load: the first, what it is compared with, and what changes.
const PAIRS: [(&str, &str, &str); 6] = [
    ("lean + dyn", "lean + box", "`dyn Future` instead of the future's own type"),
    ("lean + dyn in place", "slab index", "futures built in a `Box` of `dyn Future`"),
    (
        "16 KiB uninitialised + dyn in place",
        "16 KiB uninitialised",
        "a large future built in a `Box` of `dyn Future`",
    ),
    ("Arc waker", "Rc waker, cached check", "atomic counting instead of a check by a cached id"),
    ("Arc waker", "Rc waker, asked check", "atomic counting instead of asking the standard library"),
    ("Arc waker", "Rc waker, address check", "atomic counting instead of a check by an address"),
];

// %% [markdown]
// The study proves each of them before it adds it.

// %%
/// All variants under all their loads, proven to do the work that they should.
///
/// # Errors
/// If one of them does not.
pub fn study() -> Result<Study, UnequalWork> {
    let mut study =
        Study::new("ladder").baseline(MANUAL).unit("request").simulated("zero_cost_loop::calls::");
    let all = measured();
    let keys: Vec<Key> = all.iter().map(|entry| entry.key_of(entry.variant.name)).collect();
    for (entry, key) in all.iter().zip(&keys) {
        let counts = entry.variant.prove(entry.load, entry.live)?;
        study = study.bench(key.clone(), bench(entry.variant.timed, entry.load)).counts(key, counts);
        // With the variant that it is built on, where that is measured under the same load.
        let Some(base) = entry.variant.base.map(|base| entry.key_of(base)) else {
            continue;
        };
        study = match (keys.contains(&base), &*base.variant) {
            (false, _) => study,
            // The loop is what all are compared with, so this replaces that comparison.
            (true, MANUAL) => study.compare(key.clone(), base, entry.variant.change),
            (true, _) => study.also_compare(key.clone(), base, entry.variant.change),
        };
    }
    for (name, other, change) in PAIRS {
        let [key, other] = [name, other].map(|name| Key::new(name, name, "live=3"));
        study = study.also_compare(key, other, change);
    }
    Ok(study.control("live=3").control("live=256"))
}

// %% [markdown]
// # A glance
//
// Some rungs in turn, a second each: the time of a request, and its ratio to the first. Nothing is stored, and nothing
// is concluded. Choose others, or one of your own, and run the cell again.

// %% tags=["active-ipynb", "glance"]
// study().unwrap_or_else(harness::stop).glance(|key| {
//     key.parameter == "live=3" && matches!(&*key.variant, "manual (best)" | "split" | "frontier" | "generic runtime")
// }).unwrap_or_else(harness::stop)

// %% [markdown]
// # Measurement
//
// Everything so far was preparation; this is the run. In the quick profile it takes some minutes and is good for a first
// look. The analysis says what the figures mean.

// %% tags=["active-ipynb"]
// {
//     let profile = harness::Profile::from_env().unwrap_or_else(harness::stop);
//     let outcome = study().unwrap_or_else(harness::stop).measure(&profile).unwrap_or_else(harness::stop);
//     println!("{outcome}");
// };

// %% [markdown]
// # What limits the frontier
//
// Why does the frontier need more than the loop? Read the ladder's first steps again, with the machine code of
// both side by side. What the loop does not have is this, for each request:
//
// - **Who waits.** An operation looks whether a task waits for its object already. When it has to wait, it compares
//   the waker with that of the task that waited there before, and notes the task. An event takes the note off.
// - **Is it still there.** A waker may outlive its task, and an object may be waited for by a task that has finished
//   since. So an event also looks how far the task has come; and there are two kinds of task, the root and those of the
//   pool.
// - **Three lists.** Objects and tasks come and go independently of each other, so vacant entries and vacant slots have
//   a list each; new tasks have a third one.
// - **Everyone else.** Before each poll of the reactor, the executor looks for wakes by tasks of its own thread and of
//   others.
// - **The keyword.** An `async fn` finds its place by a jump through a table, moves its arguments once, and stores what
//   an operation needs in the future, where the loop has it in registers.
//
// Part of it is there because a waker says "this task" and nothing about what the task waits for. `no wakers` does
// without: there each object belongs for ever to the task that registered it, so the key of an event is the task.
// Nothing is noted, nothing is compared, and there is one list instead of two. It cannot hand a connection to another
// task, nor wait for two at once, nor for anything that is not an object. What it still takes beyond the loop is left to
// tasks that are polled one by one.
//
// How the difference divides between separation and keyword, and what of it wakers take, is computed by the analysis, in
// instructions and in time, which need not agree.
//
// Some other ways were tried and not kept. Polling a new task while it is spawned, as the loop does, needs a second
// place that polls, and then the compiler inlines the server into neither. Waiting for readiness and then trying,
// instead of waiting for the outcome, keeps no slice across the wait, but makes a new one each time. Without jump
// tables, comparisons take the place of the jump. In instructions of a request (Rust 1.95), compared with what was kept:
//
// - A flag in each operation says whether it was tried, where the word of its object says it now: 22 more. The way of a
//   panic then needs the addresses of its fields, which are stored before each call.
// - The compiler is told that nobody waits for an operation that has succeeded, where a flag says it: 5 more. It
//   forgets what it is told before it could use it.
// - Places are made out of line when no vacant one is left: 5 more. An operation that has to wait is said to be rare: 2
//   more. The server that accepts counts down, as the loop does: 1 fewer.
// - The function that `run`s share polls the reactor, too: 21 more for a program with one `run`, and no less time for one
//   with two. What helped there was to keep the place in the list of events in a register, and not in memory.
//
// Fewer instructions are not less time. Of the 120 that the frontier added, 30 are gone, and with them one to three per
// cent of the time: at a glance, no evidence.
//
// # From here
//
// - `cargo bench -p ladder --bench counts` counts instructions and allocations. Look at both
//   lenses. Instructions see no difference between `Rc` and `Arc`, and clearing 16 KiB with one string
//   instruction counts once per byte; time sees both.
// - Small differences are code layout; the analysis says which are that small. Do not rely on them.
// - Add a rung: one line in a table of rungs, one in `branches`. The tests tell you whether it changes one thing.
