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
// # Three small executors
//
// [The loop](loop.ipynb) serves its clients with a state machine written by hand. Here the compiler writes it: two
// short `async` functions, on the executors of rust-async-bench, built again from the description up. There is no
// async runtime, because the executors *are* the subject. [The next notebook](measure.ipynb) measures them; in this one
// you can look at a few, and change them.
//
// ## Compile cells as for a benchmark
//
// The cells that look at times need these settings.

// %% tags=["active-ipynb"]
// :build_env CARGO_PROFILE_DEV_OPT_LEVEL=3
// :build_env CARGO_PROFILE_DEV_DEBUG_ASSERTIONS=false
// :build_env CARGO_PROFILE_DEV_OVERFLOW_CHECKS=false
// :build_env CARGO_PROFILE_DEV_CODEGEN_UNITS=1
// :build_env CARGO_INCREMENTAL=0
// :dep harness = { path = "../../rust-kernels/harness" }
// :dep slab = "=0.4.12"
// :dep zero-cost-loop = { path = "../../rust-kernels/zero-cost/loop" }

// %% [markdown]
// The fake system, the probes, the run list and the loops come from the notebook before.

// %%
use std::cell::{Cell, RefCell, UnsafeCell};
use std::future::Future;
use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::ops::Deref;
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::thread::{self, ThreadId};

use slab::Slab;
use zero_cost_loop::{
    AsDescribed, Blocked, CONNECTIONS, Choices, Counter, Events, Failure, FakeListener, FakePoll, FakeStream,
    Load, NoWork, Node, Probe, READABLE, Repeat, RunList, SMALL_BUFFER, Source, Stats, TASKS, WRITABLE, Work,
    holds_line,
};

// %% [markdown]
// # What async needs
//
// Four parts replace the loop. **I/O objects** offer operations as futures. A **reactor** polls, and knows which tasks
// to wake. A **waker** is how it wakes them. An **executor** keeps the tasks, and polls those that were woken. None of
// them knows the server, and this separation has a price.
//
// ## The reactor
//
// It holds one entry for each I/O object: is the object ready, and which task waits for it? I/O objects register
// when they are made and unregister when they are dropped, not once per operation. That is how the async
// servers get by without a single additional system call.

// %%
/// What the reactor knows of one I/O object.
struct Readiness {
    /// False from the operation that would have blocked until the next event.
    ready: bool,
    /// Who wants to hear of that event.
    waker: Option<Waker>,
}

/// Turns events into wakes.
pub struct FakeReactor<S: Deref<Target = Stats>, P: Probe> {
    state: RefCell<ReactorState<<P::Choices as Choices>::Events>>,
    poll: FakePoll<S, P::Choices>,
    stats: S,
    probe: PhantomData<P>,
}

struct ReactorState<E> {
    objects: Slab<Readiness>,
    events: E,
}

impl<S: Clone + Deref<Target = Stats>, P: Probe> FakeReactor<S, P> {
    /// A reactor for at most [`TASKS`] objects.
    pub fn new(stats: S) -> Self {
        let state =
            ReactorState { objects: Slab::with_capacity(TASKS), events: Events::with_capacity(TASKS) };
        let poll = FakePoll::new(stats.clone(), TASKS);
        Self { state: RefCell::new(state), poll, stats, probe: PhantomData }
    }

    /// Polls, and wakes the tasks that wait for objects that are ready now.
    ///
    /// # Panics
    /// If a waker calls the reactor, which is busy.
    pub fn poll(&self) {
        let state = &mut *self.state.borrow_mut();
        self.poll.poll(&mut state.events);
        P::add(Counter::Events, state.events.count());
        for index in 0..state.events.count() {
            let object = &mut state.objects[state.events[index].key];
            object.ready = true;
            if let Some(waker) = object.waker.take() {
                P::add(Counter::Wakes, 1);
                waker.wake();
            }
        }
    }
}

// %% [markdown]
// The unboxed variants pass the reactor around as `&FakeReactor`, the boxed ones as `Rc<FakeReactor>`,
// because a `'static` future cannot borrow. One trait lets us write I/O objects and server once for both.

// %%
/// A handle to a reactor.
pub trait ReactorHandle: Clone + Deref<Target = FakeReactor<Self::Stats, Self::Probe>> {
    /// How its objects hold the ledger.
    type Stats: Clone + Deref<Target = Stats>;
    /// Who is told about events, wakes and wakers.
    type Probe: Probe;
}

impl<S: Clone + Deref<Target = Stats>, P: Probe> ReactorHandle for &FakeReactor<S, P> {
    type Stats = S;
    type Probe = P;
}

impl<S: Clone + Deref<Target = Stats>, P: Probe> ReactorHandle for Rc<FakeReactor<S, P>> {
    type Stats = S;
    type Probe = P;
}

/// What the program around a reactor looks like, and what its operations report.
type ChoicesOf<R> = <<R as ReactorHandle>::Probe as Probe>::Choices;
type ErrorOf<R> = <ChoicesOf<R> as Choices>::Error;
/// What the futures of its operations report.
type FailureOf<R> = <ChoicesOf<R> as Choices>::Failure;

/// An object's entry in the reactor, which disappears with it. Holds one waker, hence serves one operation at
/// a time.
pub struct Registration<R: ReactorHandle> {
    reactor: R,
    key: usize,
}

impl<R: ReactorHandle> Registration<R> {
    /// Enters `source` into reactor and poller. It counts as ready, so that the first operation is tried at
    /// once.
    ///
    /// # Panics
    /// If the reactor has [`TASKS`] objects already.
    pub fn new(reactor: R, source: &impl Source, interest: u8) -> Self {
        let mut state = reactor.state.borrow_mut();
        assert!(state.objects.len() < TASKS, "the reactor is full");
        let key = state.objects.insert(Readiness { ready: true, waker: None });
        R::Probe::peak(Counter::PeakRegistrations, state.objects.len());
        R::Probe::peak(Counter::PeakConnections, state.objects.len() - 1); // all but the listener
        drop(state);
        reactor.poll.register(source, key, interest);
        Self { reactor, key }
    }
}

// %% [markdown]
// ### Binding a waker
//
// Before an operation is tried, its task's waker is put where the reactor will find it. The reactor clones it, unless
// `will_wake` says that it has an equivalent one. When the operation is over, the waker is taken out again. For this
// load that makes 1536 clones per iteration, and the shortcut never once applies: every waker has either been used up by
// a wake or been dropped by its operation. The published program pays for that, and so does this one.
//
// There is room for one waker per object, as published. So an object can have **one operation at a time**. If one task
// reads from a stream and another one writes to it, the second to wait takes the place of the first, which then sleeps
// for ever. An echo server never does both at once; a general-purpose reactor keeps a waker for each direction.

// %%
impl<R: ReactorHandle> Registration<R> {
    /// Makes the object's next event wake the task behind `context`, and no other.
    fn bind(&self, context: &Context<'_>) {
        let mut state = self.reactor.state.borrow_mut();
        let bound = &mut state.objects[self.key].waker;
        if bound.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            R::Probe::add(Counter::WillWakeHits, 1);
            return;
        }
        R::Probe::add(Counter::WakerClones, 1);
        let outdated = bound.replace(context.waker().clone());
        // A waker of some other executor may do anything when it is dropped, even call us.
        drop(state);
        drop(outdated);
    }

    /// Drops the waker, if there is one.
    fn unbind(&self) {
        let waker = self.reactor.state.borrow_mut().objects[self.key].waker.take();
        if waker.is_some() {
            R::Probe::add(Counter::WakerDrops, 1);
        }
    }

    fn is_ready(&self) -> bool {
        self.reactor.state.borrow().objects[self.key].ready
    }

    /// Notes that an operation would have blocked.
    fn clear_ready(&self) {
        self.reactor.state.borrow_mut().objects[self.key].ready = false;
    }
}

impl<R: ReactorHandle> Drop for Registration<R> {
    fn drop(&mut self) {
        let object = self.reactor.state.borrow_mut().objects.remove(self.key);
        // The reactor is free again when the waker, if any, is dropped.
        drop(object);
    }
}

// %% [markdown]
// ### An operation is a future
//
// Accepting, reading and writing differ in the call they make and in nothing else, so there is one future for
// all three. This is the place where `async` meets readiness: bind the waker, try, and report `Pending` if
// the call would have blocked.

// %%
/// Tries an I/O call whenever its object may be ready, until it does not block. One operation at a time per
/// object: a second one takes the waker of the first.
pub struct IoOperation<'r, R: ReactorHandle, Call> {
    registration: &'r Registration<R>,
    call: Call,
}

impl<R: ReactorHandle, Call, Out> Future for IoOperation<'_, R, Call>
where
    Call: FnMut() -> Result<Out, ErrorOf<R>> + Unpin,
{
    type Output = Result<Out, FailureOf<R>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        R::Probe::add(Counter::OperationPolls, 1);
        this.registration.bind(context);
        if !this.registration.is_ready() {
            R::Probe::add(Counter::NotReadyPolls, 1);
            return Poll::Pending;
        }
        match (this.call)() {
            Ok(outcome) => Poll::Ready(Ok(outcome)),
            Err(error) if error.would_block() => {
                this.registration.clear_ready();
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(Failure::of(error))),
        }
    }
}

impl<R: ReactorHandle, Call> Drop for IoOperation<'_, R, Call> {
    fn drop(&mut self) {
        self.registration.unbind();
    }
}

// %% [markdown]
// ### Listener and stream, asynchronous
//
// With that, an I/O object is a thin wrapper. It is registered exactly as long as it lives.

// %%
/// A fake object whose operations do not block their thread, one operation at a time.
pub struct Registered<R: ReactorHandle, T: Source> {
    registration: Registration<R>,
    object: T,
}

impl<R: ReactorHandle, T: Source> Registered<R, T> {
    /// Registers `object`.
    ///
    /// # Panics
    /// As [`Registration::new`].
    pub fn new(reactor: R, object: T, interest: u8) -> Self {
        Self { registration: Registration::new(reactor, &object, interest), object }
    }
}

impl<R: ReactorHandle, T: Source> Drop for Registered<R, T> {
    fn drop(&mut self) {
        self.registration.reactor.poll.unregister(&self.object);
    }
}

// %% [markdown]
// For a stream these are reading and writing.

// %%
/// Reads and writes.
pub type AsyncStream<R> = Registered<R, FakeStream<<R as ReactorHandle>::Stats, ChoicesOf<R>>>;

impl<R: ReactorHandle> AsyncStream<R> {
    /// Reads into the start of `buffer`; the number of bytes that came.
    pub fn read<'a>(
        &'a self,
        buffer: &'a mut [u8],
    ) -> impl Future<Output = Result<usize, FailureOf<R>>> + 'a {
        IoOperation {
            registration: &self.registration,
            call: move || {
                self.object.read(buffer).inspect(|&length| R::Probe::received(buffer.as_ptr(), length))
            },
        }
    }

    /// Writes from the start of `bytes`; the number of bytes that went.
    pub fn write<'a>(&'a self, bytes: &'a [u8]) -> impl Future<Output = Result<usize, FailureOf<R>>> + 'a {
        IoOperation {
            registration: &self.registration,
            call: move || self.object.write(bytes).inspect(|&length| R::Probe::sent(bytes.as_ptr(), length)),
        }
    }
}

// %% [markdown]
// The listener is the same, except that the streams that it yields are registered at once.

// %%
/// Accepts clients.
pub type AsyncListener<R> = Registered<R, FakeListener<<R as ReactorHandle>::Stats, ChoicesOf<R>>>;

impl<R: ReactorHandle> AsyncListener<R> {
    /// Opens a listener and registers it.
    ///
    /// # Panics
    /// As [`Registration::new`].
    pub fn open(reactor: R) -> Self {
        let listener = FakeListener::new(reactor.stats.clone());
        Self::new(reactor, listener, READABLE)
    }

    /// The next client, registered already.
    ///
    /// # Panics
    /// As [`Registration::new`], when polled.
    pub fn accept(&self) -> impl Future<Output = Result<AsyncStream<R>, FailureOf<R>>> + '_ {
        let call = || {
            let stream = self.object.accept()?;
            Ok(AsyncStream::new(self.registration.reactor.clone(), stream, READABLE | WRITABLE))
        };
        IoOperation { registration: &self.registration, call }
    }
}

// %% [markdown]
// # The server, in async
//
// Here is what all the machinery is for. Compare these two functions with the state machine above: same
// logic, same buffer, but the phases, the two flags and the table of connections have gone. The compiler
// derives them from where the `await`s stand.

// %%
/// Reads one line and sends it back. `BUFFER` is the size of its buffer in bytes, zeroed at the start.
///
/// # Errors
/// Those of its operations: none.
pub async fn connection<R: ReactorHandle, W: Work, const BUFFER: usize>(
    stream: AsyncStream<R>,
    work: W,
) -> Result<(), FailureOf<R>> {
    R::Probe::add(Counter::ZeroedBytes, BUFFER);
    let mut buffer = [0; BUFFER];
    let mut filled = 0;
    while !holds_line::<ChoicesOf<R>>(&buffer[..filled]) {
        filled += stream.read(&mut buffer[filled..]).await?;
    }
    work.perform();
    let mut sent = 0;
    while sent < filled {
        sent += stream.write(&buffer[sent..filled]).await?;
    }
    R::Probe::add(Counter::Transactions, 1);
    Ok(())
}

/// Accepts [`CONNECTIONS`] clients and hands each to `spawn`.
///
/// # Errors
/// Those of its operations: none.
pub async fn accept_all<R: ReactorHandle>(
    reactor: R,
    spawn: impl Fn(AsyncStream<R>) -> Result<(), SpawnError>,
) -> Result<(), FailureOf<R>> {
    let listener = AsyncListener::open(reactor);
    for _ in 0..CONNECTIONS {
        let stream = listener.accept().await?;
        spawn(stream).expect("the executor has room for all connections");
    }
    Ok(())
}

/// Why a task was not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpawnError {
    /// All slots of the executor are taken.
    Full,
    /// The executor of this spawner is gone, or not running.
    NoExecutor,
}

// %% [markdown]
// # What all executors share
//
// The published program has three executors with one skeleton. Here the skeleton exists once, with two holes
// in it: the type of future that a slot holds, and where wakers come from. Each executor below fills them
// differently, so that each differs from the one before in one respect that you can name.
//
// ## Which tasks are awake
//
// A task may be woken twice before it is polled. If both wakes queued it, it would be polled in vain, and that would be
// timed; hence the flag. It is cleared *before* the poll, so a task that is woken while it runs (perhaps by itself) is
// queued again rather than forgotten.

// %%
/// Which slots hold a task, and which of these tasks want to be polled, in the order in which they were
/// woken.
pub struct TaskTable<C = AsDescribed> {
    state: RefCell<TableState<C>>,
}

struct TableState<C> {
    tasks: Slab<Node<Task>>,
    run_list: RunList<C>,
    /// Slots given up for good, because a waker may still point at them.
    abandoned: usize,
}

struct Task {
    /// True from the wake until the poll that follows: the time during which the task is in the run list.
    awake: bool,
    /// The task has finished, but its slot was given up.
    abandoned: bool,
}

// %% [markdown]
// Everything else is made of two moves: waking a task and taking the next one. Both take constant time, and neither
// calls foreign code while the table is borrowed.

// %%
impl<C> Default for TaskTable<C> {
    fn default() -> Self {
        let tasks = Slab::with_capacity(TASKS);
        Self { state: RefCell::new(TableState { tasks, run_list: RunList::default(), abandoned: 0 }) }
    }
}

impl<C: Choices> TaskTable<C> {
    /// Queues the task in `slot` unless it is queued already. A vacant slot, left by a task that has
    /// finished, is ignored.
    #[inline]
    pub fn wake(&self, slot: usize) {
        let TableState { tasks, run_list, .. } = &mut *self.state.borrow_mut();
        let Some(Node { value: task, .. }) = tasks.get_mut(slot) else {
            return;
        };
        if !mem::replace(&mut task.awake, true) {
            run_list.remove(tasks, slot);
            run_list.push_back(tasks, slot);
        }
    }

    /// Takes the first task off the run list; a wake from now on queues it again.
    fn next_awake(&self) -> Option<usize> {
        let TableState { tasks, run_list, .. } = &mut *self.state.borrow_mut();
        let slot = run_list.pop_front(tasks)?;
        tasks[slot].value.awake = false;
        Some(slot)
    }

    /// Unfinished tasks.
    fn len(&self) -> usize {
        let state = self.state.borrow();
        state.tasks.len() - state.abandoned
    }
}

// %% [markdown]
// A finished task gives its slot back. If a clone of its waker still exists, no other task may have the slot, since a
// late wake would reach the wrong task. Then the slot is given up for good, and the executor panics.

// %%
impl<C: Choices> TaskTable<C> {
    /// Makes `slot` vacant.
    fn release(&self, slot: usize) {
        let TableState { tasks, run_list, .. } = &mut *self.state.borrow_mut();
        run_list.remove(tasks, slot);
        tasks.remove(slot);
    }

    /// Keeps `slot` occupied for ever, by a task that counts as finished and as awake, so that wakes change
    /// nothing.
    fn abandon(&self, slot: usize) {
        let TableState { tasks, run_list, abandoned } = &mut *self.state.borrow_mut();
        run_list.remove(tasks, slot);
        tasks[slot].value = Task { awake: true, abandoned: true };
        *abandoned += 1;
    }

    /// The slots of all unfinished tasks.
    fn unfinished(&self) -> Vec<usize> {
        let state = self.state.borrow();
        let unfinished = state.tasks.iter().filter(|(_, node)| !node.value.abandoned);
        unfinished.map(|(slot, _)| slot).collect()
    }
}

// %% [markdown]
// ## Polling them
//
// Now the skeleton itself. Futures live in a vector of slots that never grows, so they never move, which is
// what `Pin` asks for. The table says which slots are in use, and there is one rule to keep: *only the owner
// of a slot touches its future*. `run` polls a slot that it has just taken off the run list, and cannot be
// entered a second time; `spawn` writes only to vacant slots, and does so while it has the table to itself.
//
// Panics need thought, because a benchmark is a program too. When a task panics, its future is dropped and
// its slot freed on the way out, and the executor can be run again.

// %%
/// Where an executor gets the wakers of its tasks.
pub trait WakerSource {
    /// The waker of the task in `slot`, for one poll.
    fn waker(&self, slot: usize) -> impl Deref<Target = Waker> + '_;

    /// Whether no clone of that waker exists.
    fn is_unshared(&self, slot: usize) -> bool;
}

/// Tasks with futures of type `F`, woken by wakers from `W`. Holds its table by a reference or by `Rc`.
pub struct Scheduler<T: Deref<Target = TaskTable<P::Choices>>, F, W: WakerSource, P: Probe> {
    table: T,
    /// The future of each task. Initialised where `table` has an unfinished task, and only there.
    slots: ManuallyDrop<Vec<UnsafeCell<MaybeUninit<F>>>>,
    wakers: W,
    running: Cell<bool>,
    probe: PhantomData<P>,
}

/// Acts when it is dropped, so on the way out of its scope, also if that way is a panic. Those who want the
/// panic only, forget it when all went well.
struct OnDrop<Action: FnMut()>(Action);

impl<Action: FnMut()> Drop for OnDrop<Action> {
    fn drop(&mut self) {
        (self.0)();
    }
}

// %% [markdown]
// All memory is reserved here, before any run.

// %%
impl<T: Deref<Target = TaskTable<P::Choices>>, F: Future<Output = ()>, W: WakerSource, P: Probe>
    Scheduler<T, F, W, P>
{
    /// A scheduler for the [`TASKS`] slots of `table`.
    ///
    /// # Safety
    /// `table` is new, derefs to the same table always, and serves this scheduler and its wakers only.
    pub unsafe fn new(table: T, wakers: W) -> Self {
        let slots = (0..TASKS).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
        Self { table, slots: ManuallyDrop::new(slots), wakers, running: Cell::new(false), probe: PhantomData }
    }
}

// %% [markdown]
// It is built from the end of a task backwards. A task ends when its future is dropped and its slot is vacant again. If
// the first half panics, the second must happen all the same, or the future would be dropped once more with the
// executor. The second half calls the source of the wakers, which may be foreign code and panic as well. Then the slot
// is given up, since a wake may still come.

// %%
impl<T: Deref<Target = TaskTable<P::Choices>>, F, W: WakerSource, P: Probe> Scheduler<T, F, W, P> {
    /// Drops the future in `slot`, whose task is unfinished, and ends the task.
    ///
    /// # Panics
    /// If a clone of its waker remains; if dropping panics. The task has ended then, too.
    #[inline]
    fn retire(&self, slot: usize) {
        let vacate = OnDrop(|| _ = self.vacate(slot));
        // SAFETY: the task is unfinished, so its slot holds a future. `vacate` comes next, whether or not
        // dropping panics, and ends the task whatever happens in it; and before that no caller can ask for the
        // slot's content, because `spawn` leaves occupied slots alone and `run` does not nest. The caller has
        // no reference to the future any more.
        unsafe { (*self.slots[slot].get()).assume_init_drop() };
        mem::forget(vacate);
        let vacated = self.vacate(slot);
        assert!(vacated || thread::panicking(), "a waker outlived its task, the one in slot {slot}");
    }

    /// Ends the task in `slot`, whose future is dropped; false if its waker has clones. Ends it also when the
    /// question about clones panics.
    fn vacate(&self, slot: usize) -> bool {
        let abandon = OnDrop(|| self.table.abandon(slot));
        let unshared = self.wakers.is_unshared(slot);
        mem::forget(abandon);
        if unshared {
            self.table.release(slot)
        } else {
            self.table.abandon(slot)
        }
        unshared
    }
}

impl<T: Deref<Target = TaskTable<P::Choices>>, F, W: WakerSource, P: Probe> Drop for Scheduler<T, F, W, P> {
    fn drop(&mut self) {
        for slot in self.table.unfinished() {
            self.retire(slot);
        }
        // SAFETY: this is the end of `self`, and no slot holds a future. If dropping one has panicked we do
        // not get here and the slots are leaked, for pinned futures must not lose their memory before they
        // are dropped.
        unsafe { ManuallyDrop::drop(&mut self.slots) };
    }
}

// %% [markdown]
// Polling is what comes before that. This is the only place where the contents of a slot are borrowed.

// %%
impl<T: Deref<Target = TaskTable<P::Choices>>, F: Future<Output = ()>, W: WakerSource, P: Probe>
    Scheduler<T, F, W, P>
{
    /// Polls the task in `slot`, which was just taken off the run list.
    #[inline]
    fn poll_task(&self, slot: usize) {
        P::add(Counter::Polls, 1);
        let waker = self.wakers.waker(slot);
        // SAFETY: slots in the run list hold a future. It is never moved out of its slot; and no other code
        // refers to it, because only `run` does so and `run` does not nest.
        let future = unsafe { Pin::new_unchecked((*self.slots[slot].get()).assume_init_mut()) };
        let retire = OnDrop(|| self.retire(slot));
        let outcome = future.poll(&mut Context::from_waker(&waker));
        mem::forget(retire);
        if outcome.is_ready() {
            self.retire(slot);
        }
    }
}

// %% [markdown]
// Two functions remain, those that callers see.

// %%
impl<T: Deref<Target = TaskTable<P::Choices>>, F: Future<Output = ()>, W: WakerSource, P: Probe>
    Scheduler<T, F, W, P>
{
    /// Writes the future that `make` returns into a vacant slot and queues it.
    ///
    /// # Errors
    /// [`SpawnError::Full`] if there is none.
    ///
    /// # Panics
    /// If `make` uses this scheduler or its wakers.
    #[inline]
    pub fn spawn(&self, make: impl FnOnce() -> F) -> Result<(), SpawnError> {
        let TableState { tasks, run_list, .. } = &mut *self.table.state.borrow_mut();
        if tasks.len() == TASKS {
            return Err(SpawnError::Full);
        }
        let entry = tasks.vacant_entry();
        let slot = entry.key();
        // SAFETY: the slot is vacant, hence no reference points to its content, and as long as we borrow the table
        // no caller can make it otherwise. If `make` panics the slot just stays vacant.
        unsafe { (*self.slots[slot].get()).write(make()) };
        entry.insert(Node::new(Task { awake: true, abandoned: false }));
        run_list.push_back(tasks, slot);
        P::add(Counter::Spawns, 1);
        P::peak(Counter::PeakTasks, tasks.len());
        P::peak(Counter::FutureBytes, size_of::<F>());
        Ok(())
    }

    /// Polls tasks until all have finished, and calls `park` whenever none is awake.
    ///
    /// # Panics
    /// If a task panics; if a task calls `run`; if a task finishes and a clone of its waker remains.
    #[inline]
    pub fn run(&self, mut park: impl FnMut()) {
        assert!(!self.running.replace(true), "the executor is running already");
        let _running = OnDrop(|| self.running.set(false));
        loop {
            while let Some(slot) = self.table.next_awake() {
                self.poll_task(slot);
            }
            if self.table.len() == 0 {
                return;
            }
            park();
        }
    }
}

// %% [markdown]
// # Executor 1: one future type, no boxes
//
// ## A waker inside the executor
//
// A waker must know two things: which executor, and which task. If a struct with both lives at an address
// that never changes, its address alone can be the waker. Nothing is allocated per task, and no thread-local
// variable says where the executor is. The price is a rule: no clone may outlive its task, since the next
// task in that slot would get its wakes. A count of clones lets the executor check the rule when a task ends.
//
// Rust's `Waker` may be sent to any thread, and this one must not be. The published program does not check
// that, so neither do we; but the constructor is `unsafe`: it is a promise that the compiler cannot check.

// %%
/// The waker of one slot. [`Waker`]s point at it.
struct EmbeddedWaker<'t, C> {
    /// Wakers that point here: clones, and one for the executor itself. Has 64 bits on every machine, for a
    /// clone can be forgotten without being dropped, and in 32 bits one could count until the count is 1
    /// again. In 64 bits that would take centuries.
    references: Cell<u64>,
    table: &'t TaskTable<C>,
    slot: usize,
}

impl<C: Choices> EmbeddedWaker<'_, C> {
    const VTABLE: RawWakerVTable =
        RawWakerVTable::new(Self::clone_raw, Self::wake_raw, Self::wake_by_ref_raw, Self::drop_raw);

    /// # Safety
    /// As for all functions of the table: `data` points at a live `EmbeddedWaker` of this thread.
    unsafe fn clone_raw(data: *const ()) -> RawWaker {
        // SAFETY: promised by the caller.
        let this = unsafe { &*data.cast::<Self>() };
        this.references.set(this.references.get() + 1);
        RawWaker::new(data, &Self::VTABLE)
    }

    /// # Safety
    /// See [`clone_raw`](Self::clone_raw).
    unsafe fn wake_raw(data: *const ()) {
        // SAFETY: promised by the caller.
        unsafe {
            Self::wake_by_ref_raw(data);
            Self::drop_raw(data);
        }
    }

    /// # Safety
    /// See [`clone_raw`](Self::clone_raw).
    unsafe fn wake_by_ref_raw(data: *const ()) {
        // SAFETY: promised by the caller.
        let this = unsafe { &*data.cast::<Self>() };
        this.table.wake(this.slot);
    }

    /// # Safety
    /// See [`clone_raw`](Self::clone_raw).
    unsafe fn drop_raw(data: *const ()) {
        // SAFETY: promised by the caller.
        let this = unsafe { &*data.cast::<Self>() };
        assert!(this.references.get() > 1, "the executor's own waker was dropped");
        this.references.set(this.references.get() - 1);
    }
}

// %% [markdown]
// Lending such a waker for a poll means forming a `Waker` from its address, on the stack, and never dropping it. If a
// clone outlives even the executor, what it points at is leaked, so that a late wake still reaches the table, which
// ignores it. The table is only borrowed, and no `Rc` is needed: the compiler sees to it that the table outlives the
// executor, and that no waker is used after it is the caller's promise.

// %%
/// One [`EmbeddedWaker`] for each slot. [`Waker`]s point into it, so it is not held as a `Box`, which may not be moved
/// while they do.
pub struct EmbeddedWakers<'t, C>(NonNull<[EmbeddedWaker<'t, C>]>);

impl<'t, C: Choices> EmbeddedWakers<'t, C> {
    /// Wakers for all slots of `table`.
    ///
    /// # Safety
    /// The wakers, and their clones, must stay on this thread, and not wake when `table` is gone.
    pub unsafe fn new(table: &'t TaskTable<C>) -> Self {
        let waker = |slot| EmbeddedWaker { references: Cell::new(1), table, slot };
        let wakers: Box<[_]> = (0..TASKS).map(waker).collect();
        Self(NonNull::from(Box::leak(wakers)))
    }

    fn get(&self, slot: usize) -> &EmbeddedWaker<'t, C> {
        // SAFETY: they live until `drop`, at least, and there is no unique reference.
        unsafe { &self.0.as_ref()[slot] }
    }
}

impl<C: Choices> WakerSource for EmbeddedWakers<'_, C> {
    #[inline]
    fn waker(&self, slot: usize) -> impl Deref<Target = Waker> + '_ {
        let data = ptr::from_ref(self.get(slot)).cast();
        // SAFETY: `data` points at a waker of this thread, which lives as long as `self`, and longer if there are
        // clones (see drop). The functions keep `Waker`'s contract as long as no waker leaves the thread or wakes without
        // a table, which `new` was promised, and as long as the count does not overflow, for which there is no time.
        // The waker stands for the count of one that is there from the beginning, hence it is never dropped.
        ManuallyDrop::new(unsafe { Waker::new(data, &EmbeddedWaker::<C>::VTABLE) })
    }

    #[inline]
    fn is_unshared(&self, slot: usize) -> bool {
        self.get(slot).references.get() == 1
    }
}

impl<C> Drop for EmbeddedWakers<'_, C> {
    /// Leaks what clones still point at; the executor has complained about them already.
    fn drop(&mut self) {
        // SAFETY: as in `get`.
        let shared = unsafe { self.0.as_ref() }.iter().any(|waker| waker.references.get() > 1);
        if !shared {
            // SAFETY: it was a box, this is its end, and no waker points into it.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        }
    }
}

// %% [markdown]
// ## A spawner that breaks the cycle of types
//
// The accept task spawns connections, so its future mentions the executor; and the executor holds that future, so its
// type mentions the future's. Such a cycle of types cannot be written down. The spawner breaks it: it knows the executor
// only as an untyped pointer, together with a function that knows the type. The pointer is set while the executor runs
// and at no other time, so there is no way to use it when the executor has moved or is gone.

// %%
/// Starts a task for an argument.
pub trait Spawn<A> {
    /// # Errors
    /// [`SpawnError::Full`] if the executor has no vacant slot.
    fn spawn(&self, argument: A) -> Result<(), SpawnError>;
}

/// An executor whose type is forgotten, and a function that must only be called with it, while it is alive.
type Target<A> = (NonNull<()>, unsafe fn(NonNull<()>, A) -> Result<(), SpawnError>);

/// Reaches the executor that is running, from inside its tasks.
pub struct ArgSpawner<A> {
    target: Cell<Option<Target<A>>>,
}

impl<A> Default for ArgSpawner<A> {
    fn default() -> Self {
        Self { target: Cell::new(None) }
    }
}

// %% [markdown]
// `with` is the only way to set the target, and resets it however `run` ends. So the one unsafe call below is sound
// whenever there is a target.

// %%
impl<A> ArgSpawner<A> {
    /// Starts a task on the executor that is running.
    ///
    /// # Errors
    /// [`SpawnError::NoExecutor`] if there is none, [`SpawnError::Full`] if it has no vacant slot.
    #[inline]
    pub fn spawn(&self, argument: A) -> Result<(), SpawnError> {
        let (executor, spawn) = self.target.get().ok_or(SpawnError::NoExecutor)?;
        // SAFETY: `target` is set only inside `with`, which borrows the executor and stores it with the
        // function of its type.
        unsafe { spawn(executor, argument) }
    }

    /// Calls `run`, during which [`spawn`](Self::spawn) reaches `executor`.
    #[inline]
    fn with<E: Spawn<A>>(&self, executor: &E, run: impl FnOnce()) {
        /// # Safety
        /// `executor` points at a live `E`.
        unsafe fn spawn_on<A, E: Spawn<A>>(executor: NonNull<()>, argument: A) -> Result<(), SpawnError> {
            // SAFETY: promised by the caller.
            unsafe { executor.cast::<E>().as_ref() }.spawn(argument)
        }
        let target: Target<A> = (NonNull::from(executor).cast(), spawn_on::<A, E>);
        let previous = self.target.replace(Some(target));
        let _restore = OnDrop(|| self.target.set(previous));
        run();
    }
}

// %% [markdown]
// ## `ArgExecutor`
//
// All slots hold the same type of future, by value. What differs between tasks must therefore be an argument,
// and the executor is made with the function that turns an argument into a future.

// %%
/// Runs futures of one type, made by `make` from arguments of type `A`.
pub struct ArgExecutor<'s, A, F, Make, P: Probe> {
    scheduler: Scheduler<&'s TaskTable<P::Choices>, F, EmbeddedWakers<'s, P::Choices>, P>,
    make: Make,
    spawner: &'s ArgSpawner<A>,
}

impl<'s, A, F: Future<Output = ()>, Make: Fn(A) -> F, P: Probe> ArgExecutor<'s, A, F, Make, P> {
    /// An executor that `spawner` will reach while it runs.
    ///
    /// # Safety
    /// `table` is new, and serves this executor only. The futures must keep their wakers, and all clones of them, on
    /// this thread, and use none when `table` is gone.
    pub unsafe fn new(table: &'s TaskTable<P::Choices>, spawner: &'s ArgSpawner<A>, make: Make) -> Self {
        // SAFETY: promised by the caller.
        let scheduler = unsafe { Scheduler::new(table, EmbeddedWakers::new(table)) };
        Self { scheduler, make, spawner }
    }

    /// Runs all tasks to their end; `park` is called when all of them wait.
    ///
    /// # Panics
    /// As [`Scheduler::run`].
    #[inline]
    pub fn run(&self, park: impl FnMut()) {
        self.spawner.with(self, || self.scheduler.run(park));
    }
}

impl<A, F: Future<Output = ()>, Make: Fn(A) -> F, P: Probe> Spawn<A> for ArgExecutor<'_, A, F, Make, P> {
    #[inline]
    fn spawn(&self, argument: A) -> Result<(), SpawnError> {
        self.scheduler.spawn(|| (self.make)(argument))
    }
}

// %% [markdown]
// ## The variants without `dyn`: `nonbox`, `large+nonbox`, `callerbox`
//
// There are two kinds of task and room for one type, so one more async function awaits either. Its future is as large as
// the larger of the two; the space that an unboxed accept task wastes is the price of having no boxes.

// %%
/// What a task of the [`ArgExecutor`] is for.
pub enum Job<R: ReactorHandle> {
    /// Accept connections.
    Listen,
    /// Serve this one.
    Connection(AsyncStream<R>),
}

/// Does either job.
pub async fn serve<R: ReactorHandle, W: Work, const BUFFER: usize>(
    job: Job<R>,
    reactor: R,
    spawner: &ArgSpawner<Job<R>>,
    work: W,
) {
    match job {
        Job::Listen => accept_all(reactor, |stream| spawner.spawn(Job::Connection(stream))).await.unwrap(),
        Job::Connection(stream) => connection::<R, W, BUFFER>(stream, work).await.unwrap(),
    }
}

// %% [markdown]
// Every variant of this executor does the same: make the table, the spawner and the fake reactor, spawn the task that
// accepts, and run until all tasks have ended.

// %%
/// Futures by value in the slots of the executor. With a `BUFFER` of 16 KiB this is `large+nonbox`.
pub fn nonbox<W: Work, P: Probe, const BUFFER: usize>(load: Load, repeat: Repeat<'_>) {
    let stats = Stats::new(load.syscalls);
    let (table, spawner) = (TaskTable::default(), ArgSpawner::default());
    let reactor = FakeReactor::<_, P>::new(&stats);
    let work = W::under(load);
    let make = |job| serve::<_, W, BUFFER>(job, &reactor, &spawner, work);
    // SAFETY: `table` is new and this executor's alone. It outlives the reactor, which keeps the wakers; that cannot be
    // sent to another thread, and there is none.
    let executor = unsafe { ArgExecutor::<_, _, _, P>::new(&table, &spawner, make) };
    repeat(&stats, &mut || {
        executor.spawn(Job::Listen).expect("a vacant slot");
        executor.run(|| reactor.poll());
    });
}

// %% [markdown]
// `callerbox` changes a single thing: the function that makes the future also boxes it. The box holds a
// *concrete* type; there is no `dyn` and no virtual call. So `callerbox` against `nonbox` is the cleanest
// measure in the published program of what an allocation per task costs. (`box` against `nonbox`, which the
// text uses, changes five things at once.) It was published without system calls only; we measure it with them
// as well.

// %%
/// Boxes a future and takes its size down.
fn boxed<P: Probe, F: Future>(future: F) -> Pin<Box<F>> {
    P::peak(Counter::FutureBytes, size_of::<F>());
    if P::Choices::COPIED { copied(future) } else { Box::pin(future) }
}

/// Out of line, so that the future is there before its box, into which it is copied once.
#[inline(never)]
fn copied<F>(future: F) -> Pin<Box<F>> {
    Box::into_pin(Box::write(Box::new_uninit(), future))
}

/// Pointers to futures of one type in the slots of the executor.
pub fn callerbox<P: Probe>(load: Load, repeat: Repeat<'_>) {
    let stats = Stats::new(load.syscalls);
    let (table, spawner) = (TaskTable::default(), ArgSpawner::default());
    let reactor = FakeReactor::<_, P>::new(&stats);
    let make = |job| boxed::<P, _>(serve::<_, _, SMALL_BUFFER>(job, &reactor, &spawner, NoWork));
    // SAFETY: as for `nonbox`.
    let executor = unsafe { ArgExecutor::<_, _, _, P>::new(&table, &spawner, make) };
    repeat(&stats, &mut || {
        executor.spawn(Job::Listen).expect("a vacant slot");
        executor.run(|| reactor.poll());
    });
}

// %% [markdown]
// The loop, and the two executors without `dyn`:

// %% tags=["active-ipynb", "glance"]
// zero_cost_loop::glance(Load { syscalls: false, steps: 0 }, &[
//     ("manual", zero_cost_loop::manual::<NoWork, zero_cost_loop::Timed<()>>),
//     ("nonbox", nonbox::<NoWork, zero_cost_loop::Timed<()>, SMALL_BUFFER>),
//     ("callerbox", callerbox::<zero_cost_loop::Timed<()>>),
// ])

// %% [markdown]
// # Executor 2: boxes
//
// With every future behind a `Box<dyn Future>`, tasks of all types fit into one executor, each takes only the memory it
// needs, and the enum disappears. The price is an allocation per spawn and a virtual call per poll. The type of the
// slots is now known in advance, so the cycle of types is gone, but another one takes its place: futures that borrow
// their own executor. The same spawner breaks that, too.

// %%
/// A future of any type, which may borrow what lives for `'a`.
pub type BoxedFuture<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Reaches the [`BoxExecutor`] that is running, from inside its tasks.
pub struct BoxSpawner<'a, P> {
    inner: ArgSpawner<BoxedFuture<'a>>,
    probe: PhantomData<P>,
}

impl<P> Default for BoxSpawner<'_, P> {
    fn default() -> Self {
        Self { inner: ArgSpawner::default(), probe: PhantomData }
    }
}

impl<'a, P: Probe> BoxSpawner<'a, P> {
    /// Boxes `future` and starts a task with it.
    ///
    /// # Errors
    /// As [`ArgSpawner::spawn`], here and below.
    #[inline]
    pub fn spawn(&self, future: impl Future<Output = ()> + 'a) -> Result<(), SpawnError> {
        self.spawn_boxed(boxed::<P, _>(future))
    }

    /// Starts a task with a future that is boxed already.
    #[inline]
    pub fn spawn_boxed(&self, future: BoxedFuture<'a>) -> Result<(), SpawnError> {
        self.inner.spawn(future)
    }
}

/// Runs futures of any type, boxed, with embedded wakers.
pub struct BoxExecutor<'s, 'a, P: Probe> {
    scheduler: Scheduler<&'s TaskTable<P::Choices>, BoxedFuture<'a>, EmbeddedWakers<'s, P::Choices>, P>,
    spawner: &'s BoxSpawner<'a, P>,
}

// %% [markdown]
// Of the executor itself there is little left to write. It is the scheduler, with a box in every slot.

// %%
impl<'s, 'a, P: Probe> BoxExecutor<'s, 'a, P> {
    /// As [`ArgExecutor::new`].
    ///
    /// # Safety
    /// As there.
    pub unsafe fn new(table: &'s TaskTable<P::Choices>, spawner: &'s BoxSpawner<'a, P>) -> Self {
        // SAFETY: promised by the caller.
        let scheduler = unsafe { Scheduler::new(table, EmbeddedWakers::new(table)) };
        Self { scheduler, spawner }
    }

    /// Runs all tasks to their end; `park` is called when all of them wait.
    ///
    /// # Panics
    /// As [`Scheduler::run`].
    #[inline]
    pub fn run(&self, park: impl FnMut()) {
        self.spawner.inner.with(self, || self.scheduler.run(park));
    }
}

impl<'a, P: Probe> Spawn<BoxedFuture<'a>> for BoxExecutor<'_, 'a, P> {
    #[inline]
    fn spawn(&self, future: BoxedFuture<'a>) -> Result<(), SpawnError> {
        self.scheduler.spawn(|| future)
    }
}

// %% [markdown]
// ## The variants `box`, `large+box` and `box+callerbox`
//
// From here on the reactor and the ledger are shared by `Rc`, as published. `box+callerbox` does what `box`
// does, with the box made one function further out. It should cost the same, and so checks everything else.
//
// As published, the future in a box is one more `async` block, which awaits the connection and unwraps its result; and it
// is copied into the box once it is there.

// %%
/// Futures in boxes, which the executor makes. With a `BUFFER` of 16 KiB this is `large+box`.
pub fn boxes<P: Probe, const BUFFER: usize>(load: Load, repeat: Repeat<'_>) {
    let stats = Rc::new(Stats::new(load.syscalls));
    let (table, spawner) = (TaskTable::default(), BoxSpawner::<P>::default());
    let reactor = Rc::new(FakeReactor::<_, P>::new(Rc::clone(&stats)));
    // SAFETY: as for `nonbox`.
    let executor = unsafe { BoxExecutor::new(&table, &spawner) };
    let spawner = &spawner;
    repeat(&stats, &mut || {
        let spawn =
            |stream| spawner.spawn(async move { connection::<_, _, BUFFER>(stream, NoWork).await.unwrap() });
        let handle = Rc::clone(&reactor);
        let listen = async move { accept_all(handle, spawn).await.unwrap() };
        executor.spawn(boxed::<P, _>(listen)).expect("a vacant slot");
        executor.run(|| reactor.poll());
    });
}

/// Futures in boxes, made by the caller that spawns.
pub fn box_callerbox<P: Probe>(load: Load, repeat: Repeat<'_>) {
    let stats = Rc::new(Stats::new(load.syscalls));
    let (table, spawner) = (TaskTable::default(), BoxSpawner::<P>::default());
    let reactor = Rc::new(FakeReactor::<_, P>::new(Rc::clone(&stats)));
    // SAFETY: as for `boxes`.
    let executor = unsafe { BoxExecutor::new(&table, &spawner) };
    let spawner = &spawner;
    repeat(&stats, &mut || {
        let spawn = |stream| {
            let serve = async move { connection::<_, _, SMALL_BUFFER>(stream, NoWork).await.unwrap() };
            spawner.spawn_boxed(boxed::<P, _>(serve))
        };
        let handle = Rc::clone(&reactor);
        let listen = async move { accept_all(handle, spawn).await.unwrap() };
        executor.spawn(boxed::<P, _>(listen)).expect("a vacant slot");
        executor.run(|| reactor.poll());
    });
}

// %% [markdown]
// The same future without a box, in a box, and in a box of `dyn`:

// %% tags=["active-ipynb", "glance"]
// zero_cost_loop::glance(Load { syscalls: false, steps: 0 }, &[
//     ("nonbox", nonbox::<NoWork, zero_cost_loop::Timed<()>, SMALL_BUFFER>),
//     ("callerbox", callerbox::<zero_cost_loop::Timed<()>>),
//     ("box", boxes::<zero_cost_loop::Timed<()>, SMALL_BUFFER>),
// ])

// %% [markdown]
// # Executor 3: wakers that are counted
//
// A conventional waker owns what it points at, so it may outlive its task and its executor. Here each points at a
// [`WakeTarget`]: a weak link to the task table, a slot, and the thread that made it. There is one for each slot, made
// along with the executor and cloned ever after. It follows that **no variant allocates a waker during an iteration**.
// The comparison is one of 1536 clones and 1536 drops.

// %%
/// What a counted waker knows.
pub struct WakeTarget {
    /// Weak, and not atomic: `Weak` from `std::rc`, even below an `Arc`.
    table: std::rc::Weak<TaskTable>,
    slot: usize,
    thread: ThreadId,
}

impl WakeTarget {
    #[inline]
    fn wake(&self) {
        if let Some(table) = self.table.upgrade() {
            table.wake(self.slot);
        }
    }
}

/// A kind of pointer from a [`Waker`] to a [`WakeTarget`].
pub trait WakerKind {
    /// Looks at the number of wakers without being one.
    type Observer;

    /// # Safety
    /// If the kind does not check threads, the waker and all its clones must stay on this thread.
    unsafe fn waker(target: WakeTarget) -> (Waker, Self::Observer);

    /// Wakers in existence, the first included.
    fn count(observer: &Self::Observer) -> usize;
}

// %% [markdown]
// The executor keeps one waker per slot and lends it out, poll after poll.

// %%
/// One waker for each slot, of the kind `K`.
pub struct CountedWakers<K: WakerKind> {
    wakers: Vec<Waker>,
    observers: Vec<K::Observer>,
}

impl<K: WakerKind> CountedWakers<K> {
    /// # Safety
    /// As [`WakerKind::waker`].
    unsafe fn new(table: &Rc<TaskTable>) -> Self {
        let (thread, table) = (thread::current().id(), Rc::downgrade(table));
        // SAFETY: promised by the caller.
        let waker = |slot| unsafe { K::waker(WakeTarget { table: table.clone(), slot, thread }) };
        let (wakers, observers) = (0..TASKS).map(waker).unzip();
        Self { wakers, observers }
    }
}

impl<K: WakerKind> WakerSource for CountedWakers<K> {
    #[inline]
    fn waker(&self, slot: usize) -> impl Deref<Target = Waker> + '_ {
        &self.wakers[slot]
    }

    #[inline]
    fn is_unshared(&self, slot: usize) -> bool {
        K::count(&self.observers[slot]) == 1
    }
}

// %% [markdown]
// ## `Rc`, with a check or without
//
// The standard library turns an `Arc` into a `Waker` for you. With `Rc` you write the table of functions yourself, and
// the result is unsound in any program that sends a waker to another thread.
//
// The safe form compares threads in each of the four functions and panics on the wrong one. It looks up the current
// thread in a thread-local variable that is filled on first use. That is one way to write the check, the published one;
// its cost says nothing about other ways.

// %%
/// The variant `box+rc`: reference counts that are not atomic.
pub type RcWaker = LocalWaker<false>;
/// The variant `box+chkrc`: the same, but each use from a foreign thread panics.
pub type CheckedRcWaker = LocalWaker<true>;

/// Wakers behind an `Rc`.
pub struct LocalWaker<const CHECKED: bool>;

impl<const CHECKED: bool> LocalWaker<CHECKED> {
    /// Borrows the count that `data` stands for.
    ///
    /// # Panics
    /// If checked, on every thread but the one that made the waker.
    ///
    /// # Safety
    /// As for all functions of the table: `data` came from `Rc::into_raw` and is still counted; unless checked, on this
    /// thread.
    unsafe fn borrow(data: *const ()) -> ManuallyDrop<Rc<WakeTarget>> {
        let target = data.cast::<WakeTarget>();
        if CHECKED {
            // SAFETY: counted, hence alive; and `thread` never changes, so any thread may read it.
            let owner = unsafe { (*target).thread };
            assert_eq!(owner, current_thread(), "this waker must stay on the thread that made it");
        }
        // SAFETY: counted, and we are on the thread whose counts these are.
        ManuallyDrop::new(unsafe { Rc::from_raw(target) })
    }
}

/// This thread's id, cached.
fn current_thread() -> ThreadId {
    thread_local! {
        static CURRENT: RefCell<Option<ThreadId>> = const { RefCell::new(None) };
    }
    CURRENT.with_borrow_mut(|id| *id.get_or_insert_with(|| thread::current().id()))
}

// %% [markdown]
// The four functions are those of an `Rc`.

// %%
impl<const CHECKED: bool> LocalWaker<CHECKED> {
    const VTABLE: RawWakerVTable =
        RawWakerVTable::new(Self::clone_raw, Self::wake_raw, Self::wake_by_ref_raw, Self::drop_raw);

    /// # Safety
    /// See [`borrow`](Self::borrow).
    unsafe fn clone_raw(data: *const ()) -> RawWaker {
        // SAFETY: promised by the caller.
        let clone = Rc::clone(&*unsafe { Self::borrow(data) });
        RawWaker::new(Rc::into_raw(clone).cast(), &Self::VTABLE)
    }

    /// # Safety
    /// See [`borrow`](Self::borrow); the count is handed over.
    unsafe fn wake_raw(data: *const ()) {
        // SAFETY: promised by the caller.
        ManuallyDrop::into_inner(unsafe { Self::borrow(data) }).wake();
    }

    /// # Safety
    /// See [`borrow`](Self::borrow).
    unsafe fn wake_by_ref_raw(data: *const ()) {
        // SAFETY: promised by the caller.
        unsafe { Self::borrow(data) }.wake();
    }

    /// # Safety
    /// See [`borrow`](Self::borrow); the count is handed over.
    unsafe fn drop_raw(data: *const ()) {
        // SAFETY: promised by the caller.
        drop(ManuallyDrop::into_inner(unsafe { Self::borrow(data) }));
    }
}

// %% [markdown]
// An observer next to the first waker lets the executor look at the count: a `Weak`, which keeps the memory
// but is no waker.

// %%
impl<const CHECKED: bool> WakerKind for LocalWaker<CHECKED> {
    type Observer = std::rc::Weak<WakeTarget>;

    unsafe fn waker(target: WakeTarget) -> (Waker, Self::Observer) {
        let target = Rc::new(target);
        let observer = Rc::downgrade(&target);
        // SAFETY: the functions keep `Waker`'s contract on this thread, where the caller keeps the waker unless they
        // check it: then they panic on all others, before they touch a count.
        (unsafe { Waker::new(Rc::into_raw(target).cast(), &Self::VTABLE) }, observer)
    }

    fn count(observer: &Self::Observer) -> usize {
        observer.strong_count()
    }
}

// %% [markdown]
// ## `Arc`, by the book
//
// The `Wake` trait of the standard library does the rest. Only the waker's own count is atomic; the weak link below it
// is not, as it would be in a proper `Arc` waker. So even here the wakers must not leave their thread. This is as
// published.

// %%
/// The variant `box+arc`: reference counts that are atomic.
pub struct ArcWaker(WakeTarget);

// SAFETY: not true of `WakeTarget` as such. Those who make such wakers promise to keep them on one thread.
unsafe impl Send for ArcWaker {}
// SAFETY: as for `Send`.
unsafe impl Sync for ArcWaker {}

impl Wake for ArcWaker {
    fn wake(self: Arc<Self>) {
        self.0.wake();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.wake();
    }
}

impl WakerKind for ArcWaker {
    type Observer = std::sync::Weak<Self>;

    unsafe fn waker(target: WakeTarget) -> (Waker, Self::Observer) {
        let target = Arc::new(Self(target));
        let observer = Arc::downgrade(&target);
        (Waker::from(target), observer)
    }

    fn count(observer: &Self::Observer) -> usize {
        observer.strong_count()
    }
}

// %% [markdown]
// ## `BoxRcExecutor`
//
// The executor lives in an `Rc` and is its own spawner: the accept task simply holds on to it. Hence its
// futures are `'static`. A task that holds its executor is a cycle, which ends when the task does. If an
// iteration panics while that task still listens, the cycle stays, and executor, reactor and tasks are
// leaked; a `Weak` would prevent it, but the published design, which we time, holds an `Rc`.

// %%
/// Runs futures of any type, boxed, with counted wakers of the kind `K`.
pub struct BoxRcExecutor<K: WakerKind, P: Probe<Choices = AsDescribed>> {
    scheduler: Scheduler<Rc<TaskTable>, BoxedFuture<'static>, CountedWakers<K>, P>,
}

impl<K: WakerKind, P: Probe<Choices = AsDescribed>> BoxRcExecutor<K, P> {
    /// An executor whose wakers must stay on this thread.
    ///
    /// # Safety
    /// Unless `K` checks threads, the futures must keep their wakers, and all clones of them, on this thread.
    pub unsafe fn new() -> Rc<Self> {
        let table = Rc::default();
        // SAFETY: the table is new and stays here; the rest is promised by the caller.
        let scheduler = unsafe { Scheduler::new(Rc::clone(&table), CountedWakers::new(&table)) };
        Rc::new(Self { scheduler })
    }

    /// Boxes `future` and starts a task with it.
    ///
    /// # Errors
    /// [`SpawnError::Full`] if there is no vacant slot.
    #[inline]
    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) -> Result<(), SpawnError> {
        let future: BoxedFuture<'static> = boxed::<P, _>(future);
        self.scheduler.spawn(|| future)
    }

    /// Runs all tasks to their end; `park` is called when all of them wait.
    ///
    /// # Panics
    /// As [`Scheduler::run`].
    #[inline]
    pub fn run(&self, park: impl FnMut()) {
        self.scheduler.run(park);
    }
}

// %% [markdown]
// One of the three kinds of waker is safe by itself. Its executor is the only one here that safe code can make.

// %%
impl<P: Probe<Choices = AsDescribed>> BoxRcExecutor<CheckedRcWaker, P> {
    /// An executor that can be used without care: its wakers look after themselves.
    pub fn checked() -> Rc<Self> {
        // SAFETY: this kind checks threads.
        unsafe { Self::new() }
    }
}

// %% [markdown]
// ## The variants `box+rc`, `box+chkrc` and `box+arc`
//
// One function makes all three. They differ in the kind of waker and in nothing else.

// %%
/// Futures in boxes, woken by counted wakers: `box+rc`, `box+chkrc`, `box+arc`.
pub fn box_counted<K: WakerKind + 'static, P: Probe<Choices = AsDescribed>>(load: Load, repeat: Repeat<'_>) {
    let stats = Rc::new(Stats::new(load.syscalls));
    let reactor = Rc::new(FakeReactor::<_, P>::new(Rc::clone(&stats)));
    // SAFETY: nothing here has a second thread, and the reactor, which keeps the wakers, cannot be sent to
    // one.
    let executor = unsafe { BoxRcExecutor::<K, P>::new() };
    repeat(&stats, &mut || {
        let spawner = Rc::clone(&executor);
        let spawn = move |stream| {
            spawner.spawn(async move { connection::<_, _, SMALL_BUFFER>(stream, NoWork).await.unwrap() })
        };
        let handle = Rc::clone(&reactor);
        executor.spawn(async move { accept_all(handle, spawn).await.unwrap() }).expect("a vacant slot");
        executor.run(|| reactor.poll());
    });
}

// %% [markdown]
// And the kinds of counted waker, compared with the embedded one:

// %% tags=["active-ipynb", "glance"]
// zero_cost_loop::glance(Load { syscalls: false, steps: 0 }, &[
//     ("box", boxes::<zero_cost_loop::Timed<()>, SMALL_BUFFER>),
//     ("box+rc", box_counted::<RcWaker, zero_cost_loop::Timed<()>>),
//     ("box+chkrc", box_counted::<CheckedRcWaker, zero_cost_loop::Timed<()>>),
//     ("box+arc", box_counted::<ArcWaker, zero_cost_loop::Timed<()>>),
// ])
