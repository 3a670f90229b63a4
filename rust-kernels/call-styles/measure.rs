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
// # What does it cost to call something that may wait?
//
// Some code asks a cache, and once in a hundred calls the cache asks the disk. Do you call it like any
// function and wait for it? Start it, and take what it has if it has it already? Put it into a queue and look
// later? Or start it and forget it? Each of these is a *call style*, and each does other work: when the callee
// does not wait, which is the common case, and when it does.
//
// In 2017 the author of *Concurrently*, a Ruby library, asked this for its four styles and published what he
// found with a table of advice. His concurrent procedures run in **fibers**, stacks of their own that can be
// left and entered again. Rust's answer to the same wish is a **future**, a value that can be polled again.
// This notebook rebuilds his event loop in Rust with futures in the place of fibers, then does it a second
// time with real fibers, and measures both against the executors that people use.
//
// When you have read it you can decide which style to use where, and what a fiber, a boxed future and an
// inline future cost for each call.
//
// This is no race between Ruby and Rust. The published figures are there for their ratios: does the *shape* of
// the advice survive when all of its parts become a hundred times cheaper?

// %% [markdown]
// ## Compile cells as for a benchmark
//
// As always in this house: without these settings the ratios come out wrong, and the harness refuses to
// measure.

// %% tags=["active-ipynb"]
// :build_env CARGO_PROFILE_DEV_OPT_LEVEL=3
// :build_env CARGO_PROFILE_DEV_DEBUG_ASSERTIONS=false
// :build_env CARGO_PROFILE_DEV_OVERFLOW_CHECKS=false
// :build_env CARGO_PROFILE_DEV_CODEGEN_UNITS=1
// :build_env CARGO_PROFILE_DEV_INCREMENTAL=false
// :dep async-executor = "=1.14.1"
// :dep corosensei = "=0.3.4"
// :dep frontier = { path = "../../rust-kernels/ladder/frontier" }
// :dep futures = "=0.3.34"
// :dep harness = { path = "../../rust-kernels/harness" }
// :dep pin-project-lite = "=0.2.17"
// :dep polling = "=3.11.0"
// :dep rustix = { version = "=1.1.6", features = ["event", "fs", "pipe", "process"] }
// :dep slab = "=0.4.12"
// :dep tokio = { version = "=1.54.1", features = ["rt"] }
// :dep zero-cost = { path = "../../rust-kernels/zero-cost" }

// %%
use std::alloc::{self, Layout};
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::future::{Future, poll_fn};
use std::hint::black_box;
use std::io;
use std::marker::PhantomData;
use std::mem;
use std::num::NonZero;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::pin::{Pin, pin};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker, ready};
use std::time::{Duration, Instant};

use async_executor::LocalExecutor;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use futures::FutureExt;
use futures::executor::{LocalPool, LocalSpawner};
use futures::task::LocalSpawnExt;
use harness::{Bencher, Counts, Key, Study, UnequalWork};
use pin_project_lite::pin_project;
use polling::{Event, Poller};
use rustix::event::epoll;
use rustix::event::{EventfdFlags, Timespec, eventfd};
use slab::Slab;
use tokio::runtime::{Builder, Runtime};

// %% [markdown]
// # A probe for everything that the document counts
//
// Before anything is timed we want to know that it does what the original does. Its library can be read, so
// for each style we know how often the machine changes from one flow of execution to another, how often the
// clock is read, how many entries go through the run queue, and so on. All of our code takes a probe as a type
// parameter: one that does nothing, for timing, and one that keeps a tally.

// %%
/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Procedures that ran to their end.
    Executions,
    /// Changes between flows of execution: into a task or a fiber, out of it, into the loop, out of it.
    Switches,
    /// Readings of the clock.
    ClockReads,
    /// Entries made in the run queue: tasks put into the immediate track, timers into the deferred one.
    Carts,
    /// Evaluations made, the handles by which a result can be awaited.
    Handles,
    /// Turns of the loop in which it processed the run queue.
    Passes,
    /// Times that the selector was asked for events.
    Selects,
    /// Changes of what the selector watches.
    Registrations,
    /// What both of these take of the operating system.
    SystemCalls,
}

impl Counter {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Executions,
        Self::Switches,
        Self::ClockReads,
        Self::Carts,
        Self::Handles,
        Self::Passes,
        Self::Selects,
        Self::Registrations,
        Self::SystemCalls,
    ];

    /// The name in the exported counts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Executions => "executions",
            Self::Switches => "switches",
            Self::ClockReads => "clock_reads",
            Self::Carts => "carts",
            Self::Handles => "handles",
            Self::Passes => "passes",
            Self::Selects => "selects",
            Self::Registrations => "registrations",
            Self::SystemCalls => "system_calls",
        }
    }
}

// %%
/// Hears of everything that is counted.
pub trait Probe: 'static {
    /// So many more.
    fn add(counter: Counter, times: u64);
}

/// The probe of the timed code: deaf.
pub struct Timed;

impl Probe for Timed {
    #[inline(always)]
    fn add(_: Counter, _: u64) {}
}

/// The probe of the proof: one tally for each thread.
pub struct Counted;

impl Probe for Counted {
    fn add(counter: Counter, times: u64) {
        tally(|tally| tally[counter as usize].set(tally[counter as usize].get() + times));
    }
}

/// One number for each [`Counter`], of this thread.
fn tally<Out>(look: impl FnOnce(&[Cell<u64>; Counter::ALL.len()]) -> Out) -> Out {
    thread_local! {
        static TALLY: [Cell<u64>; Counter::ALL.len()] = const { [const { Cell::new(0) }; Counter::ALL.len()] };
    }
    TALLY.with(look)
}

impl Counted {
    /// What was counted on this thread since the last call.
    pub fn take() -> Counts {
        tally(|tally| Counter::ALL.map(|counter| (counter.name(), tally[counter as usize].take())).into())
    }
}

// %% [markdown]
// # The event loop
//
// The loop has one **run queue** with two tracks. The *immediate* track is first in, first out. The
// *deferred* track holds what is due at some time. And there is a **selector**, which asks the operating system
// which descriptors are ready. One turn of the loop goes like this:
//
// 1. How long may we wait? Not at all if the immediate track holds something; until the first timer is due if
//    there is one; else for ever.
// 2. If that is a time to wait, or if any descriptor is registered, ask the selector, for that long.
// 3. If there was nothing to wait for, make a *pass*: take the whole immediate track, append what is due of the
//    deferred one, and resume each in turn.
//
// The loop only runs while somebody waits. We shall meet each of its parts, as a switch with two or three
// positions: the published one, and others that you might have chosen.
//
// ## Timers
//
// The published deferred track is an array sorted by due time, **latest first**, so that the next one stands
// at the end, where an array is cheap to shorten. It is kept in order by binary search. What is cancelled is
// blanked in place. Timers with the same due time fire in the order in which they were made.

// %%
/// A place in the deferred track. Tickets are ordered by due time, then by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket {
    /// Since the loop began.
    due: Duration,
    /// Later timers have larger numbers.
    number: u64,
    /// Where a queue keeps it, for queues that need to know.
    place: usize,
}

/// A deferred track: whom to resume, and when.
pub trait Queue<R>: Default {
    /// Adds somebody; `number` is larger than all before.
    fn insert(&mut self, due: Duration, number: u64, whom: R) -> Ticket;

    /// Resumes somebody else at that time, or nobody. Returns who it was, if that is still to come.
    fn replace(&mut self, ticket: Ticket, whom: Option<R>) -> Option<R>;

    /// When the next one is due.
    fn earliest(&mut self) -> Option<Duration>;

    /// Takes the next one out, if it is due by `now`.
    fn pop_due(&mut self, now: Duration) -> Option<R>;
}

/// A kind of deferred track, whoever is in it.
pub trait TimerKind: 'static {
    /// The track.
    type Queue<R>: Queue<R>;
}

// %% [markdown]
// First the published one.

// %%
/// A vector sorted by due time, latest first.
pub struct SortedVec<R>(Vec<(Ticket, Option<R>)>);

impl<R> Default for SortedVec<R> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<R> SortedVec<R> {
    /// Where the ticket is, or would be: the number of tickets after it.
    fn position(&self, ticket: Ticket) -> usize {
        self.0.partition_point(|(other, _)| *other > ticket)
    }
}

impl<R> Queue<R> for SortedVec<R> {
    fn insert(&mut self, due: Duration, number: u64, whom: R) -> Ticket {
        let ticket = Ticket { due, number, place: 0 };
        let position = self.position(ticket);
        self.0.insert(position, (ticket, Some(whom)));
        ticket
    }

    fn replace(&mut self, ticket: Ticket, whom: Option<R>) -> Option<R> {
        let position = self.position(ticket);
        let (found, place) = self.0.get_mut(position)?;
        if *found == ticket { mem::replace(place, whom) } else { None }
    }

    fn earliest(&mut self) -> Option<Duration> {
        while self.0.pop_if(|(_, whom)| whom.is_none()).is_some() {}
        self.0.last().map(|(ticket, _)| ticket.due)
    }

    fn pop_due(&mut self, now: Duration) -> Option<R> {
        self.earliest().filter(|due| *due <= now)?;
        self.0.pop()?.1
    }
}

// %% [markdown]
// The document says of its mruby figures that the sorted insert is what makes waiting slow there. Two other
// queues tell us what there is to gain. A heap moves less when a timer is inserted in the middle; those that
// were cancelled stay in it until they would be due. A B-tree removes them at once.

// %%
/// A binary heap of tickets next to a slab of who holds them.
pub struct Heap<R> {
    tickets: BinaryHeap<Reverse<Ticket>>,
    /// The number of the ticket that has this place, and whom to resume.
    places: Slab<(u64, Option<R>)>,
}

impl<R> Default for Heap<R> {
    fn default() -> Self {
        Self { tickets: BinaryHeap::new(), places: Slab::new() }
    }
}

impl<R> Queue<R> for Heap<R> {
    fn insert(&mut self, due: Duration, number: u64, whom: R) -> Ticket {
        let ticket = Ticket { due, number, place: self.places.insert((number, Some(whom))) };
        self.tickets.push(Reverse(ticket));
        ticket
    }

    fn replace(&mut self, ticket: Ticket, whom: Option<R>) -> Option<R> {
        let (number, place) = self.places.get_mut(ticket.place)?;
        if *number == ticket.number { mem::replace(place, whom) } else { None }
    }

    fn earliest(&mut self) -> Option<Duration> {
        loop {
            let Reverse(ticket) = *self.tickets.peek()?;
            if self.places[ticket.place].1.is_some() {
                return Some(ticket.due);
            }
            self.tickets.pop();
            self.places.remove(ticket.place);
        }
    }

    fn pop_due(&mut self, now: Duration) -> Option<R> {
        self.earliest().filter(|due| *due <= now)?;
        let Reverse(ticket) = self.tickets.pop()?;
        self.places.remove(ticket.place).1
    }
}

// %%
/// A B-tree.
pub struct Tree<R>(BTreeMap<Ticket, R>);

impl<R> Default for Tree<R> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<R> Queue<R> for Tree<R> {
    fn insert(&mut self, due: Duration, number: u64, whom: R) -> Ticket {
        let ticket = Ticket { due, number, place: 0 };
        self.0.insert(ticket, whom);
        ticket
    }

    fn replace(&mut self, ticket: Ticket, whom: Option<R>) -> Option<R> {
        match whom {
            Some(whom) => self.0.get_mut(&ticket).map(|place| mem::replace(place, whom)),
            None => self.0.remove(&ticket),
        }
    }

    fn earliest(&mut self) -> Option<Duration> {
        self.0.first_key_value().map(|(ticket, _)| ticket.due)
    }

    fn pop_due(&mut self, now: Duration) -> Option<R> {
        let first = self.0.first_entry().filter(|entry| entry.key().due <= now)?;
        Some(first.remove())
    }
}

// %%
/// Names for the three tracks, as types.
pub enum InSortedVec {}
/// See [`InSortedVec`].
pub enum InHeap {}
/// See [`InSortedVec`].
pub enum InTree {}

impl TimerKind for InSortedVec {
    type Queue<R> = SortedVec<R>;
}

impl TimerKind for InHeap {
    type Queue<R> = Heap<R>;
}

impl TimerKind for InTree {
    type Queue<R> = Tree<R>;
}

// %% [markdown]
// The clock starts with the loop. Tests want one that they can set.

// %%
/// Tells the time since the loop began.
pub trait Clock: Default + 'static {
    /// Now.
    fn now(&self) -> Duration;
}

/// The monotonic clock of the operating system.
pub struct Monotonic(Instant);

impl Default for Monotonic {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for Monotonic {
    #[inline]
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// A clock that stands still until it is set.
#[derive(Default)]
pub struct Manual(Cell<Duration>);

impl Manual {
    /// Moves the clock on.
    pub fn advance(&self, by: Duration) {
        self.0.set(self.0.get() + by);
    }
}

impl Clock for Manual {
    fn now(&self) -> Duration {
        self.0.get()
    }
}

// %% [markdown]
// ## Selectors
//
// The original asks `libev` through a gem. The counterpart in Rust is the `polling` crate, under which smol
// lies as well. On Linux it makes more system calls than one would think: to wait once it sets a timer
// descriptor, re-arms it, waits, clears its notifier, and re-arms that. So there is a second selector, which does
// nothing but `epoll_ctl` and `epoll_wait`, so that we can tell the price of readiness from that of the crate.

// %%
/// What somebody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Nothing, for now.
    Nothing,
    /// That reading would not block.
    Readable,
    /// That writing would not block.
    Writable,
}

/// Asks the operating system which descriptors are ready. An interest ends when it was reported once.
pub trait Selector: Send + Sync + Sized + 'static {
    /// System calls of one wait. A registration, a change and its end are one each.
    const CALLS: u64;
    /// Memory for the answers.
    type Events;
    /// A selector that watches nothing.
    fn new() -> io::Result<Self>;
    /// Memory for so many answers at a time.
    fn events(capacity: NonZero<usize>) -> Self::Events;
    /// Watches a descriptor.
    fn add(&self, descriptor: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()>;
    /// Watches a descriptor for something else.
    fn change(&self, descriptor: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()>;
    /// Forgets a descriptor.
    fn delete(&self, descriptor: BorrowedFd<'_>) -> io::Result<()>;
    /// Waits for so long (for ever if that is `None`) and appends the keys of those that are ready.
    fn wait(
        &self,
        events: &mut Self::Events,
        timeout: Option<Duration>,
        ready: &mut Vec<u64>,
    ) -> io::Result<()>;
    /// Ends a wait, from any thread; if nobody waits, then the next one.
    fn notify(&self) -> io::Result<()>;
}

// %%
/// The `polling` crate.
pub struct Polling(Poller);

impl Polling {
    fn event(key: u64, interest: Interest) -> Event {
        let key = key as usize;
        match interest {
            Interest::Nothing => Event::none(key),
            Interest::Readable => Event::readable(key),
            Interest::Writable => Event::writable(key),
        }
    }
}

impl Selector for Polling {
    /// Set the timer descriptor, arm it, wait, clear the notifier, arm it.
    const CALLS: u64 = 5;
    type Events = polling::Events;

    fn new() -> io::Result<Self> {
        Poller::new().map(Self)
    }

    fn events(capacity: NonZero<usize>) -> Self::Events {
        polling::Events::with_capacity(capacity)
    }

    fn add(&self, descriptor: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        // SAFETY: the crate asks for this because on some systems a descriptor that is closed first leaves a dangling
        // entry behind. On Linux it leaves the epoll set when it is closed.
        unsafe { self.0.add(descriptor.as_raw_fd(), Self::event(key, interest)) }
    }

    fn change(&self, descriptor: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        self.0.modify(descriptor, Self::event(key, interest))
    }

    fn delete(&self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        self.0.delete(descriptor)
    }

    fn wait(
        &self,
        events: &mut Self::Events,
        timeout: Option<Duration>,
        ready: &mut Vec<u64>,
    ) -> io::Result<()> {
        events.clear();
        self.0.wait(events, timeout)?;
        ready.extend(events.iter().map(|event| event.key as u64));
        Ok(())
    }

    fn notify(&self) -> io::Result<()> {
        self.0.notify()
    }
}

// %%
/// Plain epoll, with an event descriptor for notifications.
pub struct Epoll {
    set: OwnedFd,
    notifier: OwnedFd,
}

impl Epoll {
    /// The key of the notifier; no other has it.
    const NOTIFIER: u64 = u64::MAX;

    fn flags(interest: Interest) -> epoll::EventFlags {
        let what = match interest {
            Interest::Nothing => epoll::EventFlags::empty(),
            Interest::Readable => epoll::EventFlags::IN,
            Interest::Writable => epoll::EventFlags::OUT,
        };
        what | epoll::EventFlags::ONESHOT
    }
}

// %%
impl Selector for Epoll {
    const CALLS: u64 = 1;
    type Events = Vec<epoll::Event>;

    fn new() -> io::Result<Self> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let notifier = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let key = epoll::EventData::new_u64(Self::NOTIFIER);
        epoll::add(&set, &notifier, key, epoll::EventFlags::IN)?;
        Ok(Self { set, notifier })
    }

    fn events(capacity: NonZero<usize>) -> Self::Events {
        Vec::with_capacity(capacity.get())
    }

    fn add(&self, descriptor: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.set, descriptor, epoll::EventData::new_u64(key), Self::flags(interest))?)
    }

    fn change(&self, descriptor: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.set, descriptor, epoll::EventData::new_u64(key), Self::flags(interest))?)
    }

    fn delete(&self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::delete(&self.set, descriptor)?)
    }

    fn wait(
        &self,
        events: &mut Self::Events,
        timeout: Option<Duration>,
        ready: &mut Vec<u64>,
    ) -> io::Result<()> {
        events.clear();
        // What is too long for the operating system is for ever.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match epoll::wait(&self.set, rustix::buffer::spare_capacity(events), timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in events.iter() {
            match event.data.u64() {
                Self::NOTIFIER => drop(rustix::io::read(&self.notifier, &mut [0; 8])),
                key => ready.push(key),
            }
        }
        Ok(())
    }

    fn notify(&self) -> io::Result<()> {
        rustix::io::write(&self.notifier, &1_u64.to_ne_bytes())?;
        Ok(())
    }
}

// %% [markdown]
// ## Whom to resume
//
// The original has no wakers. A cart holds the evaluation itself, and the loop resumes it. A Rust future does
// not know who polls it; all it has is a `Waker`, which may be cloned, kept for years, and used on another
// thread. So what a waiting future leaves behind, with a timer or a descriptor, is our next switch.
//
// Whatever is woken is a **slot** of the executor, a number. Slot 0 is the *root*: the program that calls all
// the others.

// %%
/// A slot of the executor.
type Slot = u32;
/// The slot of the program itself.
const ROOT: Slot = 0;

/// What those who wait leave behind, and the queue of those who were woken.
pub trait Wakers: Sized + 'static {
    /// Whether other threads can wake somebody.
    const FROM_ELSEWHERE: bool;
    /// What is left behind.
    type Resume;

    /// For a loop that waits in this selector.
    fn new(selector: &Arc<impl Selector>) -> Self;

    /// The waker of a new slot; slots come in the order of their numbers.
    fn waker(&self, slot: Slot) -> Waker;

    /// What somebody in slot `current`, polled with `context`, leaves behind.
    fn leave(&self, current: Slot, context: &Context<'_>) -> Self::Resume;

    /// Wakes somebody.
    fn resume(&self, whom: Self::Resume);

    /// Appends all who were woken, in that order.
    fn take(&self, woken: &mut VecDeque<Slot>);

    /// The slot is about to be polled: from now on a wake counts again.
    fn begin(&self, slot: Slot);

    /// The loop is about to wait in its selector; false if it must not, because somebody was woken already.
    fn sleep(&self) -> bool {
        true
    }

    /// The wait is over.
    fn rise(&self) {}
}

// %% [markdown]
// **None.** As in the original: who waits leaves the number of its slot. Futures are polled with a waker that
// does nothing. It is the floor, and it has a price of another kind: combinators that make wakers of their own,
// such as `join!`, have no effect, and no other thread can ever wake anybody.

// %%
/// The woken of one thread: each at most once, until it is polled.
#[derive(Default)]
struct Woken {
    order: RefCell<VecDeque<Slot>>,
    /// By slot: whether it is in `order`, or was and has not been polled since.
    queued: RefCell<Vec<bool>>,
}

impl Woken {
    fn grow(&self) {
        self.queued.borrow_mut().push(false);
    }

    fn wake(&self, slot: Slot) {
        if let Some(queued) = self.queued.borrow_mut().get_mut(slot as usize)
            && !mem::replace(queued, true)
        {
            self.order.borrow_mut().push_back(slot);
        }
    }

    fn take(&self, woken: &mut VecDeque<Slot>) {
        woken.append(&mut self.order.borrow_mut());
    }

    fn begin(&self, slot: Slot) {
        self.queued.borrow_mut()[slot as usize] = false;
    }
}

// %%
/// No wakers: the loop resumes who waits.
pub struct Direct(Woken);

impl Wakers for Direct {
    const FROM_ELSEWHERE: bool = false;
    type Resume = Slot;

    fn new(_: &Arc<impl Selector>) -> Self {
        Self(Woken::default())
    }

    fn waker(&self, _: Slot) -> Waker {
        self.0.grow();
        Waker::noop().clone()
    }

    fn leave(&self, current: Slot, _: &Context<'_>) -> Slot {
        current
    }

    fn resume(&self, slot: Slot) {
        self.0.wake(slot);
    }

    fn take(&self, woken: &mut VecDeque<Slot>) {
        self.0.take(woken);
    }

    fn begin(&self, slot: Slot) {
        self.0.begin(slot);
    }
}

// %% [markdown]
// **Arc**, the default: what `std::task::Wake` gives you. Each slot has an `Arc` of its own, made once. A wake
// goes into an inbox behind a mutex, because it may come from any thread. If the loop sleeps in its selector at
// that moment, the selector is notified; the mutex makes sure that this cannot be missed.

// %%
/// What threads share: of the standard library, or of loom in builds with `--cfg under_loom`.
mod threads {
    #[cfg(under_loom)]
    pub use loom::sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    };
    #[cfg(not(under_loom))]
    pub use std::sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    };
}

use self::threads::{AtomicBool, Mutex, MutexGuard, Ordering};

/// Where wakes of all threads arrive.
pub struct Inbox {
    state: Mutex<Arrived>,
    /// Whether `order` holds something; changes under the mutex only.
    any: AtomicBool,
    /// Ends the sleep of the loop.
    notify: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct Arrived {
    order: VecDeque<Slot>,
    /// Whether the loop waits in its selector, or is about to.
    asleep: bool,
}

// %%
impl Inbox {
    /// `notify` ends the sleep of the loop, or its next one.
    pub fn new(notify: impl Fn() + Send + Sync + 'static) -> Self {
        Self { state: Mutex::new(Arrived::default()), any: AtomicBool::new(false), notify: Box::new(notify) }
    }

    fn lock(&self) -> MutexGuard<'_, Arrived> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Wakes a slot.
    pub fn push(&self, slot: u32) {
        let mut arrived = self.lock();
        arrived.order.push_back(slot);
        self.any.store(true, Ordering::Release);
        // Taken back, so that the second wake of a sleeping loop makes no system call.
        let asleep = mem::take(&mut arrived.asleep);
        drop(arrived);
        if asleep {
            (self.notify)();
        }
    }

    /// Appends what has arrived. May miss what arrives at this very moment; [`sleep`](Self::sleep) does not.
    pub fn take(&self, woken: &mut VecDeque<u32>) {
        if self.any.load(Ordering::Acquire) {
            let mut arrived = self.lock();
            self.any.store(false, Ordering::Release);
            woken.append(&mut arrived.order);
        }
    }

    /// The loop is about to sleep; false if something has arrived, and then it must not.
    pub fn sleep(&self) -> bool {
        let mut arrived = self.lock();
        arrived.asleep = arrived.order.is_empty();
        arrived.asleep
    }

    /// The loop is awake.
    pub fn rise(&self) {
        self.lock().asleep = false;
    }
}

// %%
/// The waker of one slot.
pub struct SlotWaker {
    slot: Slot,
    /// True from a wake until the slot is about to be polled.
    queued: AtomicBool,
    inbox: Arc<Inbox>,
}

impl SlotWaker {
    /// For a slot whose wakes arrive there.
    pub fn new(slot: u32, inbox: &Arc<Inbox>) -> Self {
        Self { slot, queued: AtomicBool::new(false), inbox: Arc::clone(inbox) }
    }

    /// The slot is about to be polled. What was written before a wake that comes too late to be queued is seen by this
    /// poll.
    pub fn begin(&self) {
        self.queued.swap(false, Ordering::AcqRel);
    }
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.inbox.push(self.slot);
        }
    }
}

/// An `Arc` for each slot.
pub struct ArcWakers {
    inbox: Arc<Inbox>,
    slots: RefCell<Vec<Arc<SlotWaker>>>,
}

// %%
/// An inbox that ends the waits of this selector.
fn inbox_of<S: Selector>(selector: &Arc<S>) -> Inbox {
    let selector = Arc::clone(selector);
    Inbox::new(move || selector.notify().expect("a selector that can be notified"))
}

impl Wakers for ArcWakers {
    const FROM_ELSEWHERE: bool = true;
    type Resume = Waker;

    fn new(selector: &Arc<impl Selector>) -> Self {
        Self { inbox: Arc::new(inbox_of(selector)), slots: RefCell::default() }
    }

    fn waker(&self, slot: Slot) -> Waker {
        let waker = Arc::new(SlotWaker::new(slot, &self.inbox));
        self.slots.borrow_mut().push(Arc::clone(&waker));
        Waker::from(waker)
    }

    fn leave(&self, _: Slot, context: &Context<'_>) -> Waker {
        context.waker().clone()
    }

    fn resume(&self, waker: Waker) {
        waker.wake();
    }

    fn take(&self, woken: &mut VecDeque<Slot>) {
        self.inbox.take(woken);
    }

    fn begin(&self, slot: Slot) {
        self.slots.borrow()[slot as usize].begin();
    }

    fn sleep(&self) -> bool {
        self.inbox.sleep()
    }

    fn rise(&self) {
        self.inbox.rise();
    }
}

// %% [markdown]
// **Index.** A waker holds one word. If that word is not an address but two numbers, *which loop* and *which
// slot*, there is nothing to count: clone and drop do nothing. A wake looks whether that loop is one of this
// thread's, and if so appends to a plain queue. If not, it looks the loop up in a table of all of them, and the
// mutex is back. [The ladder](../ladder/measure.ipynb) has the same idea with an address, and prices some
// more kinds of wakers, `Rc` among them.

// %%
/// A number of this loop in the upper half of a word, the slot in the lower half.
pub struct IndexWakers {
    number: u32,
    here: Rc<Woken>,
    elsewhere: Arc<Inbox>,
}

/// Looks at the loops of this thread; `None` where the thread is about to end.
fn loops_here<Out>(look: impl FnOnce(&mut Vec<(u32, Rc<Woken>)>) -> Out) -> Option<Out> {
    thread_local! {
        static HERE: RefCell<Vec<(u32, Rc<Woken>)>> = const { RefCell::new(Vec::new()) };
    }
    HERE.try_with(|loops| look(&mut loops.borrow_mut())).ok()
}

/// All loops, by number, for the wakes of other threads.
static ELSEWHERE: std::sync::Mutex<BTreeMap<u32, Arc<Inbox>>> = std::sync::Mutex::new(BTreeMap::new());

/// The table of all loops.
fn elsewhere() -> std::sync::MutexGuard<'static, BTreeMap<u32, Arc<Inbox>>> {
    ELSEWHERE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl IndexWakers {
    /// Two numbers fit into one word.
    const FITS: () = assert!(size_of::<*const ()>() == 8);
    const VTABLE: RawWakerVTable = RawWakerVTable::new(Self::clone, Self::wake, Self::wake, Self::drop);

    fn clone(data: *const ()) -> RawWaker {
        RawWaker::new(data, &Self::VTABLE)
    }

    fn drop(_: *const ()) {}

    /// A loop that is gone wakes nobody.
    fn wake(data: *const ()) {
        let word = data.addr() as u64;
        let (number, slot) = ((word >> 32) as u32, word as u32);
        let here = loops_here(|loops| {
            loops.iter().find(|(other, _)| *other == number).map(|(_, woken)| woken.wake(slot)).is_some()
        });
        if here != Some(true) {
            let inbox = elsewhere().get(&number).map(Arc::clone);
            inbox.into_iter().for_each(|inbox| inbox.push(slot));
        }
    }
}

// %%
impl Wakers for IndexWakers {
    const FROM_ELSEWHERE: bool = true;
    type Resume = Waker;

    fn new(selector: &Arc<impl Selector>) -> Self {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(1);
        let inbox = Arc::new(inbox_of(selector));
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        elsewhere().insert(number, Arc::clone(&inbox));
        let here = Rc::<Woken>::default();
        loops_here(|loops| loops.push((number, Rc::clone(&here))));
        Self { number, here, elsewhere: inbox }
    }

    fn waker(&self, slot: Slot) -> Waker {
        let () = Self::FITS;
        self.here.grow();
        let word = u64::from(self.number) << 32 | u64::from(slot);
        let data = std::ptr::without_provenance(word as usize);
        // SAFETY: the functions of the table use the word as two numbers, which are valid for ever and on all threads.
        unsafe { Waker::new(data, &Self::VTABLE) }
    }

    fn leave(&self, _: Slot, context: &Context<'_>) -> Waker {
        context.waker().clone()
    }

    fn resume(&self, waker: Waker) {
        waker.wake();
    }

    fn take(&self, woken: &mut VecDeque<Slot>) {
        let mut arrived = VecDeque::new();
        self.elsewhere.take(&mut arrived);
        arrived.into_iter().for_each(|slot| self.here.wake(slot));
        self.here.take(woken);
    }

    fn begin(&self, slot: Slot) {
        self.here.begin(slot);
    }

    fn sleep(&self) -> bool {
        self.here.order.borrow().is_empty() && self.elsewhere.sleep()
    }

    fn rise(&self) {
        self.elsewhere.rise();
    }
}

impl Drop for IndexWakers {
    fn drop(&mut self) {
        elsewhere().remove(&self.number);
        loops_here(|loops| loops.retain(|(number, _)| *number != self.number));
    }
}

// %% [markdown]
// ## Where futures are kept
//
// One more switch belongs to the executor: what becomes of the memory of a future that has ended. It may be kept,
// and if the next future has the same layout, it moves in. The other position makes a fresh box for each call.

// %%
/// What is done with the memory of futures.
pub trait Boxes: 'static {
    /// What a vacant slot keeps.
    type Memory: Default;

    /// Boxes a future.
    fn put<F: Future<Output = ()> + 'static>(memory: &mut Self::Memory, future: F) -> Pin<Box<F>>;

    /// Drops a future.
    fn end<F: Future<Output = ()> + ?Sized>(memory: &mut Self::Memory, future: Pin<Box<F>>);
}

/// A box for each call.
pub enum Fresh {}

impl Boxes for Fresh {
    type Memory = ();

    fn put<F: Future<Output = ()> + 'static>(_: &mut (), future: F) -> Pin<Box<F>> {
        Box::pin(future)
    }

    fn end<F: Future<Output = ()> + ?Sized>(_: &mut (), future: Pin<Box<F>>) {
        drop(future);
    }
}

// %%
/// The memory of one box without its content.
#[derive(Default)]
pub struct Memory(Option<(NonNull<u8>, Layout)>);

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some((memory, layout)) = self.0.take() {
            // SAFETY: it comes from a box of this layout, see `Reused::end`, and nobody else has it.
            unsafe { alloc::dealloc(memory.as_ptr(), layout) };
        }
    }
}

/// The box of the last call, if it fits.
pub enum Reused {}

impl Boxes for Reused {
    type Memory = Memory;

    fn put<F: Future<Output = ()> + 'static>(kept: &mut Memory, future: F) -> Pin<Box<F>> {
        match kept.0.take() {
            Some((memory, layout)) if layout == Layout::new::<F>() => {
                let memory = memory.cast::<F>();
                // SAFETY: this is memory of the global allocator with the layout of F, which is not empty, and it is
                // ours alone. So once an F was written there, it is what a box of F consists of.
                Box::into_pin(unsafe {
                    memory.write(future);
                    Box::from_raw(memory.as_ptr())
                })
            }
            other => {
                drop(Memory(other));
                Box::pin(future)
            }
        }
    }

    fn end<F: Future<Output = ()> + ?Sized>(kept: &mut Memory, future: Pin<Box<F>>) {
        let layout = Layout::for_value(&*future);
        // SAFETY: the future is not moved: it is dropped where it is.
        let raw = Box::into_raw(unsafe { Pin::into_inner_unchecked(future) });
        let memory = NonNull::new(raw.cast::<u8>()).filter(|_| layout.size() > 0);
        // First, so that a destructor that panics leaks nothing.
        *kept = Memory(memory.map(|memory| (memory, layout)));
        // SAFETY: the content of a box that has just been taken apart; its memory is not used before this is over, as the
        // caller has it.
        unsafe { raw.drop_in_place() };
    }
}

// %% [markdown]
// ## A design
//
// These switches make a design. The published one, translated as directly as Rust allows, is the default of each
// parameter.

// %%
/// What a loop and its executor are made of.
pub trait Design: 'static {
    /// Who hears of what happens.
    type Probe: Probe;
    /// What those who wait leave behind.
    type Wakers: Wakers;
    /// The deferred track.
    type Timers: TimerKind;
    /// Who asks the operating system.
    type Selector: Selector;
    /// Where futures are kept.
    type Boxes: Boxes;
    /// Who tells the time.
    type Clock: Clock;
}

/// A design, put together.
pub struct Build<P, W = ArcWakers, T = InSortedVec, S = Polling, B = Reused, C = Monotonic>(
    PhantomData<(P, W, T, S, B, C)>,
);

impl<P: Probe, W: Wakers, T: TimerKind, S: Selector, B: Boxes, C: Clock> Design for Build<P, W, T, S, B, C> {
    type Probe = P;
    type Wakers = W;
    type Timers = T;
    type Selector = S;
    type Boxes = B;
    type Clock = C;
}

/// What those who wait leave behind in this design.
type ResumeOf<D> = <<D as Design>::Wakers as Wakers>::Resume;
/// The deferred track of this design.
type QueueOf<D> = <<D as Design>::Timers as TimerKind>::Queue<ResumeOf<D>>;

// %% [markdown]
// ## Who waits for which descriptor
//
// An entry for each registered object says who waits for it, and whether it was reported since. Entries are
// used again, and the operating system may report what was forgotten a moment ago. So the key that it is given
// holds a generation besides the number of the entry.

// %%
/// A registered object.
struct Entry<R> {
    /// Tells the objects that had this entry apart.
    generation: u32,
    /// Who waits for it.
    whom: Option<R>,
    /// Whether it was reported since somebody began to wait.
    ready: bool,
}

/// Objects by number. A key is a generation above a number.
struct Registry<R> {
    entries: Slab<Entry<R>>,
    generation: u32,
}

impl<R> Default for Registry<R> {
    fn default() -> Self {
        Self { entries: Slab::new(), generation: 0 }
    }
}

impl<R> Registry<R> {
    /// A new entry for whom nobody waits; its key.
    fn insert(&mut self) -> u64 {
        // 31 bits: the key of all ones belongs to the selectors.
        self.generation = (self.generation + 1) & (u32::MAX >> 1);
        let entry = Entry { generation: self.generation, whom: None, ready: false };
        u64::from(self.generation) << 32 | self.entries.insert(entry) as u64
    }

    /// The entry, if it still belongs to the same object.
    fn get(&mut self, key: u64) -> Option<&mut Entry<R>> {
        let entry = self.entries.get_mut(key as u32 as usize)?;
        (u64::from(entry.generation) == key >> 32).then_some(entry)
    }

    fn remove(&mut self, key: u64) -> Option<Entry<R>> {
        self.get(key)?;
        Some(self.entries.remove(key as u32 as usize))
    }
}

// %% [markdown]
// ## The loop itself

// %%
/// Answers that one question to the selector can bring.
const ANSWERS: NonZero<usize> = NonZero::new(1024).unwrap();

/// Runs whoever is awake, and asks for the others.
pub struct EventLoop<D: Design> {
    /// Tells the time; tests set it.
    pub clock: D::Clock,
    wakers: D::Wakers,
    immediate: RefCell<VecDeque<Slot>>,
    deferred: RefCell<QueueOf<D>>,
    /// The number of the next timer.
    number: Cell<u64>,
    /// The time of the last pass that looked at the deferred track, and the number that the next timer had then: with
    /// both, a timer knows whether it has fired.
    fired: Cell<(Duration, u64)>,
    /// What is left of the current pass.
    pass: RefCell<VecDeque<Slot>>,
    /// The selector was asked in this turn, and the run queue was not processed yet.
    asked: Cell<bool>,
    selector: Arc<D::Selector>,
    registry: RefCell<Registry<ResumeOf<D>>>,
    answers: RefCell<(<D::Selector as Selector>::Events, Vec<u64>)>,
    /// Who is being polled.
    current: Cell<Slot>,
    /// The waker of the root.
    root: Waker,
    /// Whether the root waits.
    running: Cell<bool>,
}

impl<D: Design> EventLoop<D> {
    fn new() -> io::Result<Self> {
        let selector = Arc::new(D::Selector::new()?);
        let wakers = D::Wakers::new(&selector);
        Ok(Self {
            clock: D::Clock::default(),
            root: wakers.waker(ROOT),
            wakers,
            immediate: RefCell::default(),
            deferred: RefCell::default(),
            number: Cell::new(0),
            fired: Cell::new((Duration::ZERO, 0)),
            pass: RefCell::default(),
            asked: Cell::new(false),
            selector,
            registry: RefCell::default(),
            answers: RefCell::new((D::Selector::events(ANSWERS), Vec::new())),
            current: Cell::new(ROOT),
            running: Cell::new(false),
        })
    }

    fn now(&self) -> Duration {
        D::Probe::add(Counter::ClockReads, 1);
        self.clock.now()
    }
}

// %% [markdown]
// A pass looks at the clock only if the deferred track holds something. What is due is *woken*, in the order of
// the track, and then stands behind the immediate track, as it should.

// %%
impl<D: Design> EventLoop<D> {
    /// Puts a slot into the immediate track.
    fn schedule(&self, slot: Slot) {
        D::Probe::add(Counter::Carts, 1);
        self.immediate.borrow_mut().push_back(slot);
    }

    /// Begins a pass with the immediate track, and behind it whatever is due.
    fn process(&self) {
        D::Probe::add(Counter::Passes, 1);
        if self.deferred.borrow_mut().earliest().is_some() {
            let now = self.now();
            self.fired.set((now, self.number.get()));
            loop {
                // Waking may run code that is not ours, so nothing may be borrowed meanwhile.
                let due = self.deferred.borrow_mut().pop_due(now);
                let Some(whom) = due else { break };
                self.wakers.resume(whom);
            }
        }
        let mut pass = self.pass.borrow_mut();
        mem::swap(&mut *pass, &mut *self.immediate.borrow_mut());
        self.wakers.take(&mut pass);
    }

    /// Asks the selector, for at most so long; a pass of those that are ready begins.
    fn select(&self, timeout: Option<Duration>) {
        D::Probe::add(Counter::Selects, 1);
        D::Probe::add(Counter::SystemCalls, D::Selector::CALLS);
        let (events, ready) = &mut *self.answers.borrow_mut();
        self.selector.wait(events, timeout, ready).expect("a selector that answers");
        for key in ready.drain(..) {
            let mut registry = self.registry.borrow_mut();
            let Some(entry) = registry.get(key) else { continue };
            entry.ready = true;
            let whom = entry.whom.take();
            drop(registry);
            whom.into_iter().for_each(|whom| self.wakers.resume(whom));
        }
        self.wakers.take(&mut self.pass.borrow_mut());
    }
}

// %% [markdown]
// The root is resumed like everyone else, and when that happens the loop is *left*, in the middle of the pass.
// The rest of the pass goes on when the root waits again. That is how the original does it, and several of the
// figures depend on it.

// %%
impl<D: Design> EventLoop<D> {
    /// Runs until the root is awake. `resume` polls a slot.
    ///
    /// # Panics
    /// If nobody can ever be awake again, where wakers cannot come from elsewhere.
    fn run(&self, resume: impl Fn(Slot)) {
        D::Probe::add(Counter::Switches, 1);
        loop {
            loop {
                let next = self.pass.borrow_mut().pop_front();
                match next {
                    Some(ROOT) => {
                        self.wakers.begin(ROOT);
                        D::Probe::add(Counter::Switches, 1);
                        return;
                    }
                    Some(slot) => resume(slot),
                    None => break,
                }
            }
            self.turn();
        }
    }

    /// Finds out who is next.
    fn turn(&self) {
        if self.asked.take() {
            return self.process();
        }
        self.wakers.take(&mut self.immediate.borrow_mut());
        let registered = !self.registry.borrow().entries.is_empty();
        let timeout = if self.immediate.borrow().is_empty() {
            let earliest = self.deferred.borrow_mut().earliest();
            earliest.map(|due| due.saturating_sub(self.now()))
        } else {
            Some(Duration::ZERO)
        };
        if timeout == Some(Duration::ZERO) {
            if !registered {
                return self.process();
            }
            self.asked.set(true);
            return self.select(timeout);
        }
        let possible = registered || timeout.is_some() || D::Wakers::FROM_ELSEWHERE;
        assert!(possible, "nothing could ever happen: everybody waits for somebody else");
        if self.wakers.sleep() {
            self.select(timeout);
            self.wakers.rise();
        }
    }
}

// %%
impl<D: Design> EventLoop<D> {
    /// Polls `root`, and runs the loop for as long as it waits.
    fn block_on<F: Future>(&self, root: F, resume: impl Fn(Slot)) -> F::Output {
        assert!(!self.running.get(), "the root waits already: tasks await, they do not block");
        let _running = Reset { place: &self.running, value: self.running.replace(true) };
        let _current = Reset { place: &self.current, value: self.current.replace(ROOT) };
        let mut root = pin!(root);
        let context = &mut Context::from_waker(&self.root);
        loop {
            if let Poll::Ready(output) = root.as_mut().poll(context) {
                return output;
            }
            self.run(&resume);
        }
    }
}

/// Sets something back when dropped: also when a procedure panics.
struct Reset<'a, T: Copy> {
    place: &'a Cell<T>,
    value: T,
}

impl<T: Copy> Drop for Reset<'_, T> {
    fn drop(&mut self) {
        self.place.set(self.value);
    }
}

// %% [markdown]
// # Waiting
//
// **`wait`** is put on the deferred track when it is first polled. `wait(0)` is therefore *not* a bare yield: it
// reads the clock, makes a sorted insert, and goes through one turn of the loop, which reads the clock again. No
// system call is made unless a descriptor is registered. It is what all of the published figures for waiting
// were measured with.
//
// How does the future know that its time has come? Not by reading the clock once more. The loop remembers the
// time of its last pass and the number that the next timer had then; what was due by then and has a smaller
// number has fired.

// %%
/// A place in the deferred track, blanked when dropped.
struct Timer<D: Design> {
    of: Rc<EventLoop<D>>,
    ticket: Ticket,
}

impl<D: Design> Timer<D> {
    /// Resumes `whom` at that time.
    fn new(of: Rc<EventLoop<D>>, after: Duration, whom: ResumeOf<D>) -> Self {
        D::Probe::add(Counter::Carts, 1);
        let due = of.now().saturating_add(after);
        let number = of.number.get();
        of.number.set(number + 1);
        let ticket = of.deferred.borrow_mut().insert(due, number, whom);
        Self { of, ticket }
    }

    fn has_fired(&self) -> bool {
        let (now, number) = self.of.fired.get();
        self.ticket.due <= now && self.ticket.number < number
    }

    /// Resumes somebody else, or nobody.
    fn replace(&self, whom: Option<ResumeOf<D>>) {
        let old = self.of.deferred.borrow_mut().replace(self.ticket, whom);
        // Dropped when nothing is borrowed: it may be a waker with code of its own.
        drop(old);
    }
}

impl<D: Design> Drop for Timer<D> {
    fn drop(&mut self) {
        if !self.has_fired() {
            self.replace(None);
        }
    }
}

// %%
impl<D: Design> EventLoop<D> {
    /// What whoever is being polled with this context leaves behind.
    fn leave(&self, context: &Context<'_>) -> ResumeOf<D> {
        self.wakers.leave(self.current.get(), context)
    }
}

/// Ends after some time; see [`EventLoop::wait`].
pub struct Wait<D: Design> {
    after: Duration,
    of: Rc<EventLoop<D>>,
    timer: Option<Timer<D>>,
}

impl<D: Design> Future for Wait<D> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { after, of, timer } = self.get_mut();
        match timer {
            Some(timer) if timer.has_fired() => return Poll::Ready(()),
            // Polled before its time, perhaps by somebody else.
            Some(timer) => timer.replace(Some(of.leave(context))),
            None => *timer = Some(Timer::new(Rc::clone(of), *after, of.leave(context))),
        }
        Poll::Pending
    }
}

// %%
impl<D: Design> EventLoop<D> {
    /// Waits for so long, counted from its first poll, and in any case for one turn of the loop.
    pub fn wait(self: &Rc<Self>, time: Duration) -> Wait<D> {
        Wait { after: time, of: Rc::clone(self), timer: None }
    }
}

/// Lets everyone else have a turn, without a timer. Any executor knows what to do with it.
pub async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

// %% [markdown]
// The bare yield is the standard one: wake yourself, and be pending once. It works on every executor, and not on
// our loop without wakers.
//
// **`await_readable` and `await_writable`** register the descriptor, suspend, and deregister when they end,
// however they end: because the descriptor is ready, because the time is over, or because somebody dropped them. No
// data is read. One at a time can wait for an object.
//
// That is three changes of hands for every wait. The other position of this switch registers once and keeps
// the registration; then each wait only arms it.

// %%
/// A descriptor that stays registered until this is dropped.
pub struct Kept<D: Design, S: AsFd> {
    of: Rc<EventLoop<D>>,
    source: S,
    key: u64,
}

/// What the selector watches is about to change.
fn register<D: Design>() {
    D::Probe::add(Counter::Registrations, 1);
    D::Probe::add(Counter::SystemCalls, 1);
}

impl<D: Design, S: AsFd> Kept<D, S> {
    fn new(of: Rc<EventLoop<D>>, source: S, interest: Interest) -> io::Result<Self> {
        let key = of.registry.borrow_mut().insert();
        register::<D>();
        if let Err(error) = of.selector.add(source.as_fd(), key, interest) {
            of.registry.borrow_mut().remove(key);
            return Err(error);
        }
        Ok(Self { of, source, key })
    }

    /// Who waits from now on.
    fn leave(&self, whom: Option<ResumeOf<D>>) {
        let mut registry = self.of.registry.borrow_mut();
        let entry = registry.get(self.key).expect("the entry of an object that is registered");
        let old = mem::replace(&mut entry.whom, whom);
        drop(registry);
        drop(old);
    }

    fn is_ready(&self) -> bool {
        self.of.registry.borrow_mut().get(self.key).is_some_and(|entry| entry.ready)
    }
}

impl<D: Design, S: AsFd> Drop for Kept<D, S> {
    fn drop(&mut self) {
        let entry = self.of.registry.borrow_mut().remove(self.key);
        drop(entry);
        register::<D>();
        // A descriptor that is closed has been forgotten already.
        _ = self.of.selector.delete(self.source.as_fd());
    }
}

// %% [markdown]
// Both kinds of wait are the same future, with a registration that ends with it, or with one that is kept.

// %%
/// Ends when a registered descriptor is ready (`true`) or when time is up (`false`).
struct Ready<'a, D: Design, S: AsFd> {
    kept: &'a Kept<D, S>,
    timeout: Option<Duration>,
    timer: Option<Timer<D>>,
}

impl<D: Design, S: AsFd> Future for Ready<'_, D, S> {
    type Output = bool;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<bool> {
        let Self { kept, timeout, timer } = self.get_mut();
        let of = &kept.of;
        if kept.is_ready() {
            return Poll::Ready(true);
        }
        if timer.as_ref().is_some_and(Timer::has_fired) {
            return Poll::Ready(false);
        }
        kept.leave(Some(of.leave(context)));
        match (&timer, *timeout) {
            (Some(timer), _) => timer.replace(Some(of.leave(context))),
            (None, Some(time)) => *timer = Some(Timer::new(Rc::clone(of), time, of.leave(context))),
            (None, None) => {}
        }
        Poll::Pending
    }
}

impl<D: Design, S: AsFd> Drop for Ready<'_, D, S> {
    fn drop(&mut self) {
        self.kept.leave(None);
    }
}

// %%
impl<D: Design> EventLoop<D> {
    /// Waits until `source` can be read, at most for `timeout`: whether it can.
    ///
    /// # Errors
    /// Of the operating system, which watches neither plain files nor the same descriptor twice.
    pub async fn await_readable(
        self: &Rc<Self>,
        source: impl AsFd,
        timeout: Option<Duration>,
    ) -> io::Result<bool> {
        let kept = &Kept::new(Rc::clone(self), source, Interest::Readable)?;
        Ok(Ready { kept, timeout, timer: None }.await)
    }

    /// Waits until `source` can be written, at most for `timeout`: whether it can.
    ///
    /// # Errors
    /// As [`await_readable`](Self::await_readable).
    pub async fn await_writable(
        self: &Rc<Self>,
        source: impl AsFd,
        timeout: Option<Duration>,
    ) -> io::Result<bool> {
        let kept = &Kept::new(Rc::clone(self), source, Interest::Writable)?;
        Ok(Ready { kept, timeout, timer: None }.await)
    }

    /// Registers `source`, for any number of waits, one after the other.
    ///
    /// # Errors
    /// As [`await_readable`](Self::await_readable).
    pub fn keep<S: AsFd>(self: &Rc<Self>, source: S) -> io::Result<Kept<D, S>> {
        Kept::new(Rc::clone(self), source, Interest::Nothing)
    }
}

impl<D: Design, S: AsFd> Kept<D, S> {
    /// Waits until the object has what is of interest, at most for `timeout`: whether it has.
    ///
    /// # Errors
    /// Of the operating system.
    pub async fn ready(&mut self, interest: Interest, timeout: Option<Duration>) -> io::Result<bool> {
        if let Some(entry) = self.of.registry.borrow_mut().get(self.key) {
            entry.ready = false;
        }
        register::<D>();
        self.of.selector.change(self.source.as_fd(), self.key, interest)?;
        Ok(Ready { kept: self, timeout, timer: None }.await)
    }
}

// %% [markdown]
// # Evaluations
//
// An **evaluation** is what you hold of a call that is not over: its result, once there is one, and whoever waits
// for it. Here it is one reference-counted cell. It can be awaited, or cancelled, or dropped, which lets the call
// run on.

// %%
/// A slot and which of its tenants, so that nobody cancels the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Task {
    slot: Slot,
    tenant: u32,
}

/// The call was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled;

/// The result of a call, and who waits for it.
pub struct Conclusion<T, D: Design> {
    task: Task,
    event_loop: Rc<EventLoop<D>>,
    concluded: Cell<bool>,
    /// Present from the conclusion until somebody takes it.
    result: Cell<Option<Result<T, Cancelled>>>,
    whom: Cell<Option<ResumeOf<D>>>,
}

impl<T, D: Design> Conclusion<T, D> {
    fn new(task: Task, event_loop: &Rc<EventLoop<D>>) -> Rc<Self> {
        D::Probe::add(Counter::Handles, 1);
        let event_loop = Rc::clone(event_loop);
        let (concluded, result, whom) = Default::default();
        Rc::new(Self { task, event_loop, concluded, result, whom })
    }

    /// Gives it its result, unless it has one, and schedules whoever waits for it into the next pass.
    fn conclude(&self, result: Result<T, Cancelled>) {
        if self.concluded.replace(true) {
            return;
        }
        self.result.set(Some(result));
        if let Some(whom) = self.whom.take() {
            D::Probe::add(Counter::Carts, 1);
            self.event_loop.wakers.resume(whom);
        }
    }
}

// %%
/// A call that is not over, or whose result was not taken yet.
pub struct Evaluation<T, D: Design>(Rc<Conclusion<T, D>>);

impl<T, D: Design> Evaluation<T, D> {
    /// Whether the call is over.
    pub fn is_concluded(&self) -> bool {
        self.0.concluded.get()
    }
}

/// Awaits the result: at once if it is there.
impl<T, D: Design> Future for Evaluation<T, D> {
    type Output = Result<T, Cancelled>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self(of) = &*self;
        if let Some(result) = of.result.take() {
            return Poll::Ready(result);
        }
        drop(of.whom.replace(Some(of.event_loop.leave(context))));
        Poll::Pending
    }
}

impl<T, D: Design> Drop for Evaluation<T, D> {
    fn drop(&mut self) {
        drop(self.0.whom.take());
    }
}

// %% [markdown]
// When is that cell made? `call_detached` needs it before the call begins: **eagerly**. `call_nonblock` needs it
// only if the callee waits: **lazily**. So a future that is called carries a place for it, empty at first. In the
// original that place is a one-element array, called the bucket.

// %%
/// A future that is called.
mod called {
    use super::{Conclusion, Design, Future, Rc, pin_project};

    pin_project! {
        /// A future that is called, and the evaluation that wants its result.
        pub struct Called<F: Future, D: Design> {
            #[pin]
            pub future: F,
            pub bucket: Option<Rc<Conclusion<F::Output, D>>>,
        }
    }
}

use self::called::Called;

impl<F: Future, D: Design> Called<F, D> {
    fn new(future: F) -> Self {
        Self { future, bucket: None }
    }
}

impl<F: Future, D: Design> Future for Called<F, D> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let result = ready!(this.future.poll(context));
        if let Some(of) = this.bucket.take() {
            of.conclude(Ok(result));
        }
        Poll::Ready(())
    }
}

// %% [markdown]
// # Slots, in the place of the fiber pool
//
// The original never frees a fiber. One that has concluded goes back to a pool, last in first out, and waits for the
// next procedure. Ours is a table of slots with a list of vacant ones, and what is kept is the *memory* of the
// future.

// %% [markdown]
// A tenant is taken out of its slot while it is polled, and its slot's waker and memory with it. So whatever it
// does meanwhile, call others, cancel them or itself, finds a table that nobody borrows.

// %%
/// A future of any type.
type Boxed = Pin<Box<dyn Future<Output = ()>>>;

/// What belongs to a slot, tenant or no tenant.
struct Fixtures<D: Design> {
    waker: Waker,
    memory: <D::Boxes as Boxes>::Memory,
}

/// A slot.
struct Place<D: Design> {
    /// Away while the tenant is polled.
    fixtures: Option<Fixtures<D>>,
    future: Option<Boxed>,
    /// Which tenant this is.
    tenant: u32,
    /// Cancelled while it is polled: ends after that poll.
    cancelled: bool,
}

/// Calls procedures, by four styles.
pub struct Executor<D: Design> {
    event_loop: Rc<EventLoop<D>>,
    /// Slot 0 is the root's, and empty.
    places: RefCell<Vec<Place<D>>>,
    /// Vacant slots; the last one is used next.
    vacant: RefCell<Vec<Slot>>,
}

// %%
/// A slot that has been taken out of the table. Dropped, it is vacant: also when a procedure panics.
struct Occupied<'a, D: Design> {
    executor: &'a Executor<D>,
    task: Task,
    /// Present until this is dropped.
    fixtures: Option<Fixtures<D>>,
}

impl<D: Design> Occupied<'_, D> {
    fn fixtures(&mut self) -> &mut Fixtures<D> {
        self.fixtures.as_mut().expect("they are there until the end")
    }

    /// Polls in the name of this slot.
    fn poll<T>(&mut self, poll: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        let current = &self.executor.event_loop.current;
        let _current = Reset { place: current, value: current.replace(self.task.slot) };
        D::Probe::add(Counter::Switches, 2);
        poll(&mut Context::from_waker(&self.fixtures().waker))
    }

    /// Puts the slot back with a tenant; a tenant who was cancelled meanwhile is dropped instead.
    fn settle(mut self, future: Boxed) {
        let mut places = self.executor.places.borrow_mut();
        let place = &mut places[self.task.slot as usize];
        if place.cancelled {
            drop(places);
            return D::Boxes::end(&mut self.fixtures().memory, future);
        }
        place.future = Some(future);
        place.fixtures = self.fixtures.take();
    }
}

impl<D: Design> Drop for Occupied<'_, D> {
    fn drop(&mut self) {
        let Some(fixtures) = self.fixtures.take() else { return };
        let mut places = self.executor.places.borrow_mut();
        let place = &mut places[self.task.slot as usize];
        place.fixtures = Some(fixtures);
        place.tenant = place.tenant.wrapping_add(1);
        place.cancelled = false;
        self.executor.vacant.borrow_mut().push(self.task.slot);
    }
}

// %%
impl<D: Design> Executor<D> {
    /// An executor with a loop of its own.
    ///
    /// # Errors
    /// If the operating system refuses a selector.
    pub fn new() -> io::Result<Self> {
        let event_loop = Rc::new(EventLoop::new()?);
        let nobody = Place { fixtures: None, future: None, tenant: 0, cancelled: false };
        Ok(Self { event_loop, places: RefCell::new(vec![nobody]), vacant: RefCell::default() })
    }

    /// Its loop, with which procedures wait.
    pub fn event_loop(&self) -> &Rc<EventLoop<D>> {
        &self.event_loop
    }

    /// Slots that have a tenant.
    pub fn tenants(&self) -> usize {
        self.places.borrow().len() - 1 - self.vacant.borrow().len()
    }

    /// Takes a vacant slot, or makes one.
    fn occupy(&self) -> Occupied<'_, D> {
        let vacant = self.vacant.borrow_mut().pop();
        let mut places = self.places.borrow_mut();
        let slot = vacant.unwrap_or_else(|| {
            let slot = Slot::try_from(places.len()).expect("fewer than 2^32 slots");
            let waker = self.event_loop.wakers.waker(slot);
            let fixtures = Some(Fixtures { waker, memory: Default::default() });
            places.push(Place { fixtures, future: None, tenant: 0, cancelled: false });
            slot
        });
        let place = &mut places[slot as usize];
        let fixtures = place.fixtures.take().expect("the fixtures of a vacant slot");
        Occupied { executor: self, task: Task { slot, tenant: place.tenant }, fixtures: Some(fixtures) }
    }
}

// %% [markdown]
// What the loop needs of the executor: how a slot is resumed, how a call is cancelled, and how the root waits.

// %%
impl<D: Design> Executor<D> {
    /// Polls whoever lives in `slot`.
    fn resume(&self, slot: Slot) {
        let (mut occupied, mut future) = {
            let mut places = self.places.borrow_mut();
            let place = &mut places[slot as usize];
            // Nobody: it has ended since it was woken.
            let Some(future) = place.future.take() else { return };
            let task = Task { slot, tenant: place.tenant };
            (Occupied { executor: self, task, fixtures: place.fixtures.take() }, future)
        };
        self.event_loop.wakers.begin(slot);
        match occupied.poll(|context| future.as_mut().poll(context)) {
            Poll::Ready(()) => D::Boxes::end(&mut occupied.fixtures().memory, future),
            Poll::Pending => occupied.settle(future),
        }
    }

    /// Ends a call that is not over: drops it where it waits, or after its poll if it is the one that cancels
    /// itself. Whether it was not over.
    pub fn cancel<T>(&self, evaluation: &Evaluation<T, D>) -> bool {
        let Evaluation(of) = evaluation;
        let Task { slot, tenant } = of.task;
        let mut places = self.places.borrow_mut();
        let place = &mut places[slot as usize];
        if place.tenant != tenant || place.cancelled || evaluation.is_concluded() {
            return false;
        }
        if let Some(future) = place.future.take() {
            let fixtures = place.fixtures.take();
            drop(places);
            let mut occupied = Occupied { executor: self, task: of.task, fixtures };
            D::Boxes::end(&mut occupied.fixtures().memory, future);
        } else {
            place.cancelled = true;
            drop(places);
        }
        of.conclude(Err(Cancelled));
        true
    }
}

// %%
impl<D: Design> Executor<D> {
    /// Polls `future` as the root, and runs the loop for as long as it waits. It runs no loop if it does not wait.
    ///
    /// # Panics
    /// If the loop is running already, or if nothing could ever happen again.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.event_loop.block_on(future, |slot| self.resume(slot))
    }
}

impl<D: Design> Drop for Executor<D> {
    fn drop(&mut self) {
        // One after the other, with nothing borrowed: destructors may call and cancel.
        for slot in 1.. {
            let mut places = self.places.borrow_mut();
            let Some(place) = places.get_mut(slot) else { break };
            let future = place.future.take();
            drop(places);
            drop(future);
        }
    }
}

// %% [markdown]
// # The four styles
//
// And now the subject itself, in a few lines each.
//
// - **`call_nonblock`** polls the callee once, at once. If that was enough you get the result. If not, what is left
//   becomes a task, and you get its evaluation, made now.
// - **`call`** is the same, and waits for the evaluation.
// - **`call_detached`** makes an evaluation and puts the callee into the run queue. Nothing is polled before
//   somebody waits.
// - **`call_and_forget`** only puts it into the run queue.

// %%
/// What is there after the first poll.
pub enum Begun<T, D: Design> {
    /// It did not wait; this is its result.
    Concluded(T),
    /// It waits.
    Waiting(Evaluation<T, D>),
}

impl<D: Design> Executor<D> {
    /// Begins `future` at once, until it waits for the first time.
    pub fn call_nonblock<F: Future + 'static>(&self, future: F) -> Begun<F::Output, D> {
        let mut occupied = self.occupy();
        let mut called = D::Boxes::put(&mut occupied.fixtures().memory, Called::<F, D>::new(future));
        match occupied.poll(|context| called.as_mut().project().future.poll(context)) {
            Poll::Ready(result) => {
                D::Boxes::end(&mut occupied.fixtures().memory, called);
                Begun::Concluded(result)
            }
            Poll::Pending => {
                let conclusion = Conclusion::new(occupied.task, &self.event_loop);
                *called.as_mut().project().bucket = Some(Rc::clone(&conclusion));
                occupied.settle(called);
                Begun::Waiting(Evaluation(conclusion))
            }
        }
    }

    /// Begins `future` at once and waits until it ends. For the root; others await what `call_nonblock` gives them.
    ///
    /// # Panics
    /// If the loop is running already.
    pub fn call<F: Future + 'static>(&self, future: F) -> F::Output {
        match self.call_nonblock(future) {
            Begun::Concluded(result) => result,
            Begun::Waiting(evaluation) => {
                self.block_on(evaluation).unwrap_or_else(|Cancelled| unreachable!("nobody else has it"))
            }
        }
    }
}

// %%
impl<D: Design> Executor<D> {
    /// Begins `future` in the next pass of the loop.
    pub fn call_detached<F: Future + 'static>(&self, future: F) -> Evaluation<F::Output, D> {
        let occupied = self.occupy();
        let conclusion = Conclusion::new(occupied.task, &self.event_loop);
        self.begin_later(occupied, Called { future, bucket: Some(Rc::clone(&conclusion)) });
        Evaluation(conclusion)
    }

    /// Begins `future` in the next pass of the loop, and has no use for its result.
    pub fn call_and_forget<F: Future + 'static>(&self, future: F) {
        self.begin_later(self.occupy(), Called::new(future));
    }

    fn begin_later<F: Future + 'static>(&self, mut occupied: Occupied<'_, D>, called: Called<F, D>) {
        let called = D::Boxes::put(&mut occupied.fixtures().memory, called);
        self.event_loop.schedule(occupied.task.slot);
        occupied.settle(called);
    }

    /// `call_nonblock` with an evaluation that is made in any case, as a switch.
    pub fn call_nonblock_eagerly<F: Future + 'static>(&self, future: F) -> Evaluation<F::Output, D> {
        let mut occupied = self.occupy();
        let conclusion = Conclusion::new(occupied.task, &self.event_loop);
        let called = Called { future, bucket: Some(Rc::clone(&conclusion)) };
        let mut called = D::Boxes::put(&mut occupied.fixtures().memory, called);
        match occupied.poll(|context| called.as_mut().poll(context)) {
            Poll::Ready(()) => D::Boxes::end(&mut occupied.fixtures().memory, called),
            Poll::Pending => occupied.settle(called),
        }
        Evaluation(conclusion)
    }
}

// %% [markdown]
// # True fibers
//
// The same loop once more, and in the slots there are fibers, from the `corosensei` crate: stacks of their own, left
// and entered by exchanging registers. A procedure is then a plain function. It may wait anywhere, at any
// depth, and nobody has to write `async`. Nobody needs a waker either, so who waits is resumed directly, as in the
// original.
//
// A fiber is entered with something to do, or to go on. It is left because it waits, or because its procedure has
// concluded, and then it is ready for the next one.

// %%
/// What a fiber is entered with.
enum Enter<D: Design> {
    Begin(FiberProc<D>, u64),
    GoOn,
}

/// Why a fiber is left.
enum Leave {
    Waits,
    Concluded(u64),
}

/// A fiber. One that is not used again ends with the result of its procedure.
type Fiber<D> = Coroutine<Enter<D>, Leave, u64>;

/// A procedure that runs in a fiber.
pub type FiberProc<D> = Rc<dyn Fn(&Inside<'_, D>, u64) -> u64>;

/// What a procedure can do that runs in a fiber.
pub struct Inside<'a, D: Design> {
    event_loop: &'a Rc<EventLoop<D>>,
    slot: Slot,
    yielder: &'a Yielder<Enter<D>, Leave>,
}

impl<D: Design<Wakers = Direct>> Inside<'_, D> {
    /// Leaves the fiber until somebody resumes it.
    fn suspend(&self) {
        self.yielder.suspend(Leave::Waits);
    }

    /// Waits for so long.
    pub fn wait(&self, time: Duration) {
        let timer = Timer::new(Rc::clone(self.event_loop), time, self.slot);
        while !timer.has_fired() {
            self.suspend();
        }
    }

    /// Lets everyone else have a turn.
    pub fn yield_now(&self) {
        self.event_loop.wakers.resume(self.slot);
        self.suspend();
    }

    /// Waits until `source` can be read.
    ///
    /// # Errors
    /// As [`EventLoop::await_readable`].
    pub fn await_readable(&self, source: impl AsFd) -> io::Result<()> {
        let kept = Kept::new(Rc::clone(self.event_loop), source, Interest::Readable)?;
        kept.leave(Some(self.slot));
        while !kept.is_ready() {
            self.suspend();
        }
        Ok(())
    }
}

// %%
/// A slot with a fiber.
struct FiberPlace<D: Design> {
    /// Away while it runs; none where a fiber is not used again.
    fiber: Option<Fiber<D>>,
    /// What a detached call begins with.
    begin: Option<(FiberProc<D>, u64)>,
    /// Whether the fiber has left its procedure in order to wait.
    waits: bool,
    /// The evaluation of the procedure, if anybody wants its result.
    bucket: Option<Rc<Conclusion<u64, D>>>,
}

/// Calls procedures in fibers, by the four styles.
pub struct Fibers<D: Design> {
    event_loop: Rc<EventLoop<D>>,
    /// Slot 0 is the root's, and empty.
    places: RefCell<Vec<FiberPlace<D>>>,
    vacant: RefCell<Vec<Slot>>,
    /// Whether fibers are used again.
    pooled: bool,
}

impl<D: Design<Wakers = Direct>> Fibers<D> {
    /// Fibers with a loop of their own, from a pool or a fresh one for each call.
    ///
    /// # Errors
    /// If the operating system refuses a selector.
    pub fn new(pooled: bool) -> io::Result<Self> {
        let event_loop = Rc::new(EventLoop::new()?);
        let nobody = FiberPlace { fiber: None, begin: None, waits: false, bucket: None };
        let (places, vacant) = (RefCell::new(vec![nobody]), RefCell::default());
        Ok(Self { event_loop, places, vacant, pooled })
    }

    /// The loop.
    pub fn event_loop(&self) -> &Rc<EventLoop<D>> {
        &self.event_loop
    }
}

// %% [markdown]
// The body of a pooled fiber is a loop, and so never ends. It is unwound when the pool is dropped, so that
// whatever lives on its stack is dropped as well.

// %%
impl<D: Design<Wakers = Direct>> Fibers<D> {
    /// A new fiber for this slot.
    fn fiber(&self, slot: Slot) -> Fiber<D> {
        let (event_loop, pooled) = (Rc::clone(&self.event_loop), self.pooled);
        Coroutine::new(move |yielder: &Yielder<Enter<D>, Leave>, mut enter| {
            let inside = Inside { event_loop: &event_loop, slot, yielder };
            loop {
                let Enter::Begin(procedure, argument) = enter else { unreachable!("a fiber is begun first") };
                let result = procedure(&inside, argument);
                if !pooled {
                    return result;
                }
                enter = yielder.suspend(Leave::Concluded(result));
            }
        })
    }

    /// A slot with a fiber that does nothing yet.
    fn occupy(&self) -> Slot {
        let vacant = self.vacant.borrow_mut().pop();
        let slot = vacant.unwrap_or_else(|| {
            let mut places = self.places.borrow_mut();
            let slot = Slot::try_from(places.len()).expect("fewer than 2^32 slots");
            self.event_loop.wakers.waker(slot);
            places.push(FiberPlace { fiber: None, begin: None, waits: false, bucket: None });
            slot
        });
        self.places.borrow_mut()[slot as usize].fiber.get_or_insert_with(|| self.fiber(slot));
        slot
    }

    /// Enters a fiber until it waits or concludes; then its slot is vacant.
    fn enter(&self, slot: Slot, enter: Enter<D>) -> Option<u64> {
        let fiber = self.places.borrow_mut()[slot as usize].fiber.take();
        let mut fiber = fiber.expect("a fiber that does not run");
        let current = &self.event_loop.current;
        let reset = Reset { place: current, value: current.replace(slot) };
        D::Probe::add(Counter::Switches, 2);
        let left = fiber.resume(enter);
        drop(reset);
        let (result, fiber) = match left {
            CoroutineResult::Yield(Leave::Waits) => (None, Some(fiber)),
            CoroutineResult::Yield(Leave::Concluded(result)) => (Some(result), Some(fiber)),
            CoroutineResult::Return(result) => (Some(result), None),
        };
        let mut places = self.places.borrow_mut();
        let place = &mut places[slot as usize];
        (place.fiber, place.waits) = (fiber, result.is_none());
        drop(places);
        if result.is_some() {
            self.vacant.borrow_mut().push(slot);
        }
        result
    }
}

// %% [markdown]
// How a fiber is begun later, how it is resumed, and how the root waits.

// %%
impl<D: Design<Wakers = Direct>> Fibers<D> {
    fn begin_later(&self, procedure: &FiberProc<D>, argument: u64) -> Slot {
        let slot = self.occupy();
        self.places.borrow_mut()[slot as usize].begin = Some((Rc::clone(procedure), argument));
        self.event_loop.schedule(slot);
        slot
    }

    fn resume(&self, slot: Slot) {
        self.event_loop.wakers.begin(slot);
        let mut places = self.places.borrow_mut();
        let place = &mut places[slot as usize];
        let enter = match place.begin.take() {
            Some((procedure, argument)) => Enter::Begin(procedure, argument),
            None if place.waits => Enter::GoOn,
            None => return,
        };
        drop(places);
        let Some(result) = self.enter(slot, enter) else { return };
        let bucket = self.places.borrow_mut()[slot as usize].bucket.take();
        bucket.into_iter().for_each(|of| of.conclude(Ok(result)));
    }

    /// Polls `future` as the root, and runs the loop for as long as it waits.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.event_loop.block_on(future, |slot| self.resume(slot))
    }
}

// %% [markdown]
// The four styles are as above, line for line.

// %%
impl<D: Design<Wakers = Direct>> Fibers<D> {
    /// Begins at once, until the procedure waits for the first time.
    pub fn call_nonblock(&self, procedure: &FiberProc<D>, argument: u64) -> Begun<u64, D> {
        let slot = self.occupy();
        if let Some(result) = self.enter(slot, Enter::Begin(Rc::clone(procedure), argument)) {
            return Begun::Concluded(result);
        }
        Begun::Waiting(self.evaluation(slot))
    }

    /// The evaluation of the procedure in this slot.
    fn evaluation(&self, slot: Slot) -> Evaluation<u64, D> {
        let conclusion = Conclusion::new(Task { slot, tenant: 0 }, &self.event_loop);
        self.places.borrow_mut()[slot as usize].bucket = Some(Rc::clone(&conclusion));
        Evaluation(conclusion)
    }

    /// Begins at once and waits until the procedure ends.
    pub fn call(&self, procedure: &FiberProc<D>, argument: u64) -> u64 {
        match self.call_nonblock(procedure, argument) {
            Begun::Concluded(result) => result,
            Begun::Waiting(evaluation) => self.block_on(evaluation).expect("fibers are not cancelled"),
        }
    }

    /// Begins in the next pass of the loop.
    pub fn call_detached(&self, procedure: &FiberProc<D>, argument: u64) -> Evaluation<u64, D> {
        self.evaluation(self.begin_later(procedure, argument))
    }

    /// Begins in the next pass of the loop, and has no use for the result.
    pub fn call_and_forget(&self, procedure: &FiberProc<D>, argument: u64) {
        self.begin_later(procedure, argument);
    }
}

// %% [markdown]
// # What is called
//
// The published procedure is empty, or waits once. Ours takes a number and gives it back, through the closed door
// of `black_box`: so that no compiler can do in one variant without what it does in another, and so that we can
// check the sum.

// %% [markdown]
// The pipes of the benches on readiness hold one byte each, which nobody reads, or nothing.

// %%
/// A pipe of which nobody reads.
struct Pipe {
    reading_end: OwnedFd,
    writing_end: OwnedFd,
}

impl Pipe {
    /// So many, with a byte in each or not.
    fn several(number: usize, filled: bool) -> Vec<Self> {
        let pipe = |_| {
            let flags = rustix::pipe::PipeFlags::CLOEXEC | rustix::pipe::PipeFlags::NONBLOCK;
            let (reading_end, writing_end) = rustix::pipe::pipe_with(flags).expect("a pipe");
            if filled {
                rustix::io::write(&writing_end, b".").expect("room for one byte");
            }
            Self { reading_end, writing_end }
        };
        (0..number).map(pipe).collect()
    }
}

// %%
/// What every procedure does in the end.
#[inline(always)]
fn work<P: Probe>(argument: u64) -> u64 {
    P::add(Counter::Executions, 1);
    black_box(argument)
}

/// The procedure that does not wait.
async fn empty<P: Probe>(argument: u64) -> u64 {
    work::<P>(argument)
}

/// Waits on the deferred track for a time that has come already, so many times.
async fn waiting_due<D: Design>(event_loop: Rc<EventLoop<D>>, waits: usize, argument: u64) -> u64 {
    for _ in 0..waits {
        event_loop.wait(Duration::ZERO).await;
    }
    work::<D::Probe>(argument)
}

/// Yields, so many times.
async fn yielding<P: Probe>(waits: usize, argument: u64) -> u64 {
    for _ in 0..waits {
        yield_now().await;
    }
    work::<P>(argument)
}

/// Waits for a descriptor that is ready, so many times.
async fn reading<D: Design>(
    event_loop: Rc<EventLoop<D>>,
    pipes: Rc<Vec<Pipe>>,
    waits: usize,
    argument: u64,
) -> u64 {
    for _ in 0..waits {
        let reading_end = &pipes[argument as usize].reading_end;
        event_loop.await_readable(reading_end, None).await.expect("a pipe can be watched");
    }
    work::<D::Probe>(argument)
}

// %% [markdown]
// # How it is called
//
// A *load* says what one iteration does. The batch is the published one: a hundred calls, then settling. It decides how
// often the loop is entered, so it is a factor of its own.

// %%
/// How a procedure is called, and how the batch is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Call each and wait for it.
    Call,
    /// Begin each; await those that wait, in order.
    Nonblock,
    /// The same with an evaluation for each, made before it begins.
    NonblockEagerly,
    /// Schedule each; the root waits once, for the time that it is.
    DetachedSettled,
    /// Schedule each; await them in order.
    Detached,
    /// Schedule each; the root waits once, as above.
    Forget,
}

/// How a procedure waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Not at all.
    Empty,
    /// On the deferred track, for a time that has come.
    Due,
    /// It only lets others have a turn.
    Yield,
    /// For a descriptor that is ready.
    Readable,
}

// %%
/// What the root waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootWait {
    /// A time that has come.
    Due,
    /// Its turn.
    Yield,
    /// That a pipe can be read, or written.
    Ready(Interest),
    /// The same with registrations that are kept.
    Kept(Interest),
}

/// What one iteration does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// How.
    pub style: Style,
    /// What is called.
    pub kind: Kind,
    /// Calls.
    pub batch: usize,
    /// Waits of each call.
    pub waits: usize,
    /// Timers that are not due for a long time, or descriptors that never get ready, in addition to all this.
    pub beside: usize,
    /// What the root itself waits for, in benches that call nothing.
    pub root: RootWait,
}

/// Sets itself up under a load, and hands over one iteration, which returns the sum of all results that it got.
pub type World = fn(Load, &mut dyn FnMut(&mut dyn FnMut() -> u64));

// %% [markdown]
// One function makes the batch for our executor and for the fibers. It is generic over what can be called, and
// follows the published scripts line by line; where those map an array to an array, it collects a vector.

// %%
/// Can be called by all styles.
trait Callable {
    type Probe: Probe;
    /// What is left of a call that is not over.
    type Handle;

    fn call(&self, argument: u64) -> u64;
    /// The result, or what is left.
    fn nonblock(&self, argument: u64) -> Result<u64, Self::Handle>;
    fn nonblock_eagerly(&self, argument: u64) -> Self::Handle;
    fn detached(&self, argument: u64) -> Self::Handle;
    fn forget(&self, argument: u64);
    fn join(&self, handle: Self::Handle) -> u64;
    /// The root waits for the time that it is.
    fn settle(&self);
}

/// One iteration.
fn batch(on: &impl Callable, load: Load) -> u64 {
    let arguments = 0..black_box(load.batch) as u64;
    match load.style {
        Style::Call => arguments.map(|argument| on.call(argument)).sum(),
        Style::Nonblock if load.waits == 0 => arguments
            .map(|argument| on.nonblock(argument).unwrap_or_else(|_| unreachable!("it does not wait")))
            .sum(),
        Style::Nonblock => {
            let begun: Vec<_> = arguments.map(|argument| on.nonblock(argument)).collect();
            begun.into_iter().map(|begun| begun.unwrap_or_else(|handle| on.join(handle))).sum()
        }
        Style::NonblockEagerly => {
            let begun: Vec<_> = arguments.map(|argument| on.nonblock_eagerly(argument)).collect();
            begun.into_iter().map(|handle| on.join(handle)).sum()
        }
        Style::Detached => {
            let begun: Vec<_> = arguments.map(|argument| on.detached(argument)).collect();
            begun.into_iter().map(|handle| on.join(handle)).sum()
        }
        Style::DetachedSettled => {
            arguments.for_each(|argument| drop(on.detached(argument)));
            on.settle();
            0
        }
        Style::Forget => {
            arguments.for_each(|argument| on.forget(argument));
            on.settle();
            0
        }
    }
}

// %%
/// Futures on our executor.
struct OnLoop<'a, D: Design, M> {
    executor: &'a Executor<D>,
    make: M,
}

impl<D: Design, F: Future<Output = u64> + 'static, M: Fn(u64) -> F> Callable for OnLoop<'_, D, M> {
    type Probe = D::Probe;
    type Handle = Evaluation<u64, D>;

    fn call(&self, argument: u64) -> u64 {
        self.executor.call((self.make)(argument))
    }

    fn nonblock(&self, argument: u64) -> Result<u64, Evaluation<u64, D>> {
        match self.executor.call_nonblock((self.make)(argument)) {
            Begun::Concluded(result) => Ok(result),
            Begun::Waiting(evaluation) => Err(evaluation),
        }
    }

    fn nonblock_eagerly(&self, argument: u64) -> Evaluation<u64, D> {
        self.executor.call_nonblock_eagerly((self.make)(argument))
    }

    fn detached(&self, argument: u64) -> Evaluation<u64, D> {
        self.executor.call_detached((self.make)(argument))
    }

    fn forget(&self, argument: u64) {
        self.executor.call_and_forget((self.make)(argument));
    }

    fn join(&self, evaluation: Evaluation<u64, D>) -> u64 {
        self.executor.block_on(evaluation).expect("nobody cancels it")
    }

    fn settle(&self) {
        self.executor.block_on(self.executor.event_loop().wait(Duration::ZERO));
    }
}

// %%
/// Procedures in fibers.
struct OnFibers<'a, D: Design> {
    fibers: &'a Fibers<D>,
    procedure: FiberProc<D>,
}

impl<D: Design<Wakers = Direct>> Callable for OnFibers<'_, D> {
    type Probe = D::Probe;
    type Handle = Evaluation<u64, D>;

    fn call(&self, argument: u64) -> u64 {
        self.fibers.call(&self.procedure, argument)
    }

    fn nonblock(&self, argument: u64) -> Result<u64, Evaluation<u64, D>> {
        match self.fibers.call_nonblock(&self.procedure, argument) {
            Begun::Concluded(result) => Ok(result),
            Begun::Waiting(evaluation) => Err(evaluation),
        }
    }

    fn nonblock_eagerly(&self, _: u64) -> Evaluation<u64, D> {
        unimplemented!("measured with futures only")
    }

    fn detached(&self, argument: u64) -> Evaluation<u64, D> {
        self.fibers.call_detached(&self.procedure, argument)
    }

    fn forget(&self, argument: u64) {
        self.fibers.call_and_forget(&self.procedure, argument);
    }

    fn join(&self, evaluation: Evaluation<u64, D>) -> u64 {
        self.fibers.block_on(evaluation).expect("nobody cancels it")
    }

    fn settle(&self) {
        self.fibers.block_on(self.fibers.event_loop().wait(Duration::ZERO));
    }
}

// %% [markdown]
// And their worlds.

// %%
/// All styles, futures on our executor.
fn with_futures<D: Design>(load: Load, drive: &mut dyn FnMut(&mut dyn FnMut() -> u64)) {
    let executor = &Executor::<D>::new().expect("a selector");
    let (event_loop, waits) = (executor.event_loop(), load.waits);
    match load.kind {
        Kind::Empty => {
            let on = OnLoop { executor, make: empty::<D::Probe> };
            drive(&mut || batch(&on, load));
        }
        Kind::Due => {
            let on = OnLoop { executor, make: |n| waiting_due(Rc::clone(event_loop), waits, n) };
            drive(&mut || batch(&on, load));
        }
        Kind::Yield => {
            let on = OnLoop { executor, make: |n| yielding::<D::Probe>(waits, n) };
            drive(&mut || batch(&on, load));
        }
        Kind::Readable => {
            let pipes = &Rc::new(Pipe::several(load.batch, true));
            let make = |n| reading(Rc::clone(event_loop), Rc::clone(pipes), waits, n);
            drive(&mut || batch(&OnLoop { executor, make }, load));
        }
    }
}

/// `call` without a slot: the root polls the future where it stands, on its own stack.
fn inline<D: Design>(load: Load, drive: &mut dyn FnMut(&mut dyn FnMut() -> u64)) {
    let executor = &Executor::<D>::new().expect("a selector");
    let (event_loop, waits) = (executor.event_loop(), load.waits);
    assert_eq!(load.style, Style::Call, "a future on the stack cannot be left there");
    let arguments = || 0..black_box(load.batch) as u64;
    match load.kind {
        Kind::Empty => {
            drive(&mut || arguments().map(|n| executor.block_on(empty::<D::Probe>(n))).sum());
        }
        Kind::Due => drive(&mut || {
            arguments().map(|n| executor.block_on(waiting_due(Rc::clone(event_loop), waits, n))).sum()
        }),
        Kind::Yield | Kind::Readable => unimplemented!("measured in slots only"),
    }
}

// %%
/// All styles, procedures in fibers.
fn with_fibers<D: Design<Wakers = Direct>>(
    load: Load,
    pooled: bool,
    drive: &mut dyn FnMut(&mut dyn FnMut() -> u64),
) {
    let fibers = &Fibers::<D>::new(pooled).expect("a selector");
    let waits = load.waits;
    let procedure: FiberProc<D> = match load.kind {
        Kind::Empty => Rc::new(|_, n| work::<D::Probe>(n)),
        Kind::Due => Rc::new(move |inside, n| {
            (0..waits).for_each(|_| inside.wait(Duration::ZERO));
            work::<D::Probe>(n)
        }),
        Kind::Yield => Rc::new(move |inside, n| {
            (0..waits).for_each(|_| inside.yield_now());
            work::<D::Probe>(n)
        }),
        Kind::Readable => {
            let pipes = Pipe::several(load.batch, true);
            Rc::new(move |inside, n| {
                let reading_end = &pipes[n as usize].reading_end;
                (0..waits).for_each(|_| inside.await_readable(reading_end).expect("a pipe can be watched"));
                work::<D::Probe>(n)
            })
        }
    };
    let on = OnFibers { fibers, procedure };
    drive(&mut || batch(&on, load));
}

/// Fibers from a pool.
fn pooled_fibers<D: Design<Wakers = Direct>>(load: Load, drive: &mut dyn FnMut(&mut dyn FnMut() -> u64)) {
    with_fibers::<D>(load, true, drive);
}

/// A fresh fiber for each call.
fn fresh_fibers<D: Design<Wakers = Direct>>(load: Load, drive: &mut dyn FnMut(&mut dyn FnMut() -> u64)) {
    with_fibers::<D>(load, false, drive);
}

// %% [markdown]
// ## A regular procedure
//
// The floor is a function call. In Rust there are two: a closure whose type the compiler knows, which it would put
// in place of the call; and one behind a pointer, as all procedures are in Ruby. `black_box` keeps the first from
// disappearing altogether.

// %%
/// A closure.
fn closure<P: Probe>(load: Load, drive: &mut dyn FnMut(&mut dyn FnMut() -> u64)) {
    let procedure = |argument| work::<P>(argument);
    drive(&mut || (0..black_box(load.batch) as u64).map(|argument| black_box(&procedure)(argument)).sum());
}

/// A closure of any type.
fn boxed_closure<P: Probe>(load: Load, drive: &mut dyn FnMut(&mut dyn FnMut() -> u64)) {
    let procedure: Box<dyn Fn(u64) -> u64> = Box::new(|argument| work::<P>(argument));
    drive(&mut || (0..black_box(load.batch) as u64).map(|argument| black_box(&procedure)(argument)).sum());
}

// %% [markdown]
// ## Waiting, and nothing else
//
// In the published table of "mere waiting" the root itself waits, a hundred times. At any time one descriptor is
// registered, and it is ready. That is the price of registering, asking and deregistering more than it is the
// price of waiting; others may be registered next to it.

// %%
/// Timers that are not due for a long time.
fn idle_timers<D: Design>(event_loop: &Rc<EventLoop<D>>, number: usize) -> Vec<Wait<D>> {
    let idle = |number: usize| {
        let mut wait = event_loop.wait(Duration::from_secs(100_000) + Duration::from_millis(number as u64));
        assert!(Pin::new(&mut wait).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        wait
    };
    (0..number).map(idle).collect()
}

/// Registered descriptors that never get ready.
fn idle_descriptors<D: Design>(event_loop: &Rc<EventLoop<D>>, number: usize) -> Vec<Kept<D, OwnedFd>> {
    allow_descriptors(number + 1_000);
    let idle = |_| {
        let descriptor = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("a descriptor");
        Kept::new(Rc::clone(event_loop), descriptor, Interest::Readable).expect("it can be watched")
    };
    (0..number).map(idle).collect()
}

/// Lets this process open so many descriptors.
///
/// # Panics
/// If it may not.
pub fn allow_descriptors(number: usize) {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let (number, mut limit) = (number as u64, getrlimit(Resource::Nofile));
    if limit.current.is_some_and(|current| current < number) {
        limit.current = limit.maximum.map_or(Some(number), |maximum| Some(number.min(maximum)));
        setrlimit(Resource::Nofile, limit).expect("the limit may be raised up to its maximum");
    }
    let allowed = getrlimit(Resource::Nofile).current;
    assert!(allowed.is_none_or(|allowed| allowed >= number), "only {allowed:?} open files are allowed");
}

// %%
/// The end of which one can be interested so.
fn end_of(pipe: &Pipe, interest: Interest) -> &OwnedFd {
    if interest == Interest::Writable { &pipe.writing_end } else { &pipe.reading_end }
}

/// The root waits for one end of a pipe.
#[inline]
fn root_awaits<D: Design>(executor: &Executor<D>, pipe: &Pipe, interest: Interest, argument: u64) -> u64 {
    let (event_loop, end) = (executor.event_loop(), end_of(pipe, interest));
    let ready = match interest {
        Interest::Writable => executor.block_on(event_loop.await_writable(end, None)),
        _ => executor.block_on(event_loop.await_readable(end, None)),
    };
    assert!(ready.expect("a pipe can be watched"));
    work::<D::Probe>(argument)
}

// %%
/// The root waits, again and again.
fn root_waits<D: Design>(load: Load, drive: &mut dyn FnMut(&mut dyn FnMut() -> u64)) {
    let executor = Executor::<D>::new().expect("a selector");
    let event_loop = executor.event_loop();
    let arguments = || 0..black_box(load.batch) as u64;
    match load.root {
        RootWait::Due => {
            let _timers = idle_timers(event_loop, load.beside);
            drive(&mut || {
                let once = |n| {
                    executor.block_on(event_loop.wait(Duration::ZERO));
                    work::<D::Probe>(n)
                };
                arguments().map(once).sum()
            });
        }
        RootWait::Yield => drive(&mut || {
            let once = |n| {
                executor.block_on(yield_now());
                work::<D::Probe>(n)
            };
            arguments().map(once).sum()
        }),
        RootWait::Ready(interest) => {
            let _descriptors = idle_descriptors(event_loop, load.beside);
            let pipes = Pipe::several(load.batch, interest == Interest::Readable);
            drive(&mut || arguments().map(|n| root_awaits(&executor, &pipes[n as usize], interest, n)).sum());
        }
        RootWait::Kept(interest) => {
            let _descriptors = idle_descriptors(event_loop, load.beside);
            root_waits_with_kept(&executor, interest, load, drive);
        }
    }
}

/// The same with descriptors that stay registered.
fn root_waits_with_kept<D: Design>(
    executor: &Executor<D>,
    interest: Interest,
    load: Load,
    drive: &mut dyn FnMut(&mut dyn FnMut() -> u64),
) {
    let pipes = Pipe::several(load.batch, interest == Interest::Readable);
    let keep = |pipe| executor.event_loop().keep(end_of(pipe, interest)).expect("a pipe can be watched");
    let mut kept: Vec<_> = pipes.iter().map(keep).collect();
    drive(&mut || {
        let mut once = |n| {
            let ready = executor.block_on(kept[n as usize].ready(interest, None));
            assert!(ready.expect("a pipe can be watched"));
            work::<D::Probe>(n)
        };
        (0..black_box(load.batch) as u64).map(&mut once).sum()
    });
}

// %% [markdown]
// # The same on other executors
//
// Nobody needs our loop in order to call something. The same four styles can be had from tokio on one thread, from
// smol's executor, and from the `LocalPool` of the futures crate, in the way in which their users would write them.
//
// - `call` is a spawn that is awaited at once; and, since nobody would write that where an `.await` does, the same without a
//   task: `tokio + await` and so on.
// - `call_nonblock` boxes the future and polls it once in place. If it is pending, the box is spawned.
// - `call_detached` is a spawn; `call_and_forget` one whose handle is let go.
//
// Two things are different and have to be said. These executors begin nothing at once: what is spawned is
// polled when the caller waits. And their timers cannot stand in for `wait(0)`; tokio's, for instance, has
// ticks of a millisecond. So here everybody *yields*, and our loop and the fibers do so, too.

// %%
/// An executor of others.
trait Opponent: Sized {
    /// The handle of a task.
    type Handle;

    fn new() -> Self;
    /// Runs a root.
    fn run<F: Future>(&self, root: F) -> F::Output;
    fn spawn(&self, future: impl Future<Output = u64> + Send + 'static) -> Self::Handle;
    async fn join(handle: Self::Handle) -> u64;
    fn forget(&self, future: impl Future<Output = u64> + Send + 'static);
    /// Runs until there is no task.
    fn settle(&self);
}

/// What `call_nonblock` comes to there.
async fn begin_and_join<O: Opponent, F: Future<Output = u64> + Send + 'static>(
    on: &O,
    make: impl Fn(u64) -> F,
    arguments: std::ops::Range<u64>,
) -> u64 {
    let (mut sum, mut begun) = (0, Vec::new());
    for argument in arguments {
        let mut future = Box::pin(make(argument));
        match futures::poll!(&mut future) {
            Poll::Ready(result) => sum += result,
            Poll::Pending => begun.push(on.spawn(future)),
        }
    }
    for handle in begun {
        sum += O::join(handle).await;
    }
    sum
}

// %%
/// One iteration on an executor of others.
fn batch_of_others<O: Opponent, F: Future<Output = u64> + Send + 'static>(
    on: &O,
    make: impl Fn(u64) -> F,
    load: Load,
) -> u64 {
    let arguments = 0..black_box(load.batch) as u64;
    match load.style {
        Style::Call => on.run(async {
            let mut sum = 0;
            for argument in arguments {
                sum += O::join(on.spawn(make(argument))).await;
            }
            sum
        }),
        Style::Nonblock => on.run(begin_and_join(on, make, arguments)),
        Style::Detached => on.run(async {
            let begun: Vec<_> = arguments.map(|argument| on.spawn(make(argument))).collect();
            let mut sum = 0;
            for handle in begun {
                sum += O::join(handle).await;
            }
            sum
        }),
        Style::Forget => {
            arguments.for_each(|argument| on.forget(make(argument)));
            on.settle();
            0
        }
        Style::NonblockEagerly | Style::DetachedSettled => unimplemented!("measured on our loop only"),
    }
}

/// All styles on an executor of others.
fn elsewhere_called<O: Opponent, P: Probe>(load: Load, drive: &mut dyn FnMut(&mut dyn FnMut() -> u64)) {
    let on = O::new();
    match load.kind {
        Kind::Empty => drive(&mut || batch_of_others(&on, empty::<P>, load)),
        Kind::Yield => drive(&mut || batch_of_others(&on, |n| yielding::<P>(load.waits, n), load)),
        Kind::Due | Kind::Readable => unimplemented!("measured on our loop only"),
    }
}

/// `call` without a task: the callee becomes a part of the root.
fn awaited<O: Opponent, F: Future<Output = u64>>(on: &O, make: impl Fn(u64) -> F, load: Load) -> u64 {
    let arguments = 0..black_box(load.batch) as u64;
    on.run(async {
        let mut sum = 0;
        for argument in arguments {
            sum += make(argument).await;
        }
        sum
    })
}

/// The same under a load.
fn elsewhere_awaited<O: Opponent, P: Probe>(load: Load, drive: &mut dyn FnMut(&mut dyn FnMut() -> u64)) {
    let on = O::new();
    match load.kind {
        Kind::Empty => drive(&mut || awaited(&on, empty::<P>, load)),
        Kind::Yield => drive(&mut || awaited(&on, |n| yielding::<P>(load.waits, n), load)),
        Kind::Due | Kind::Readable => unimplemented!("measured on our loop only"),
    }
}

// %% [markdown]
// tokio on one thread. It can say how many of its tasks are alive.

// %%
/// tokio, on the calling thread.
struct Tokio(Runtime);

impl Opponent for Tokio {
    type Handle = tokio::task::JoinHandle<u64>;

    fn new() -> Self {
        Self(Builder::new_current_thread().build().expect("a runtime"))
    }

    fn run<F: Future>(&self, root: F) -> F::Output {
        self.0.block_on(root)
    }

    fn spawn(&self, future: impl Future<Output = u64> + Send + 'static) -> Self::Handle {
        self.0.spawn(future)
    }

    async fn join(handle: Self::Handle) -> u64 {
        handle.await.expect("no panic")
    }

    fn forget(&self, future: impl Future<Output = u64> + Send + 'static) {
        self.0.spawn(future);
    }

    fn settle(&self) {
        self.0.block_on(async {
            while self.0.metrics().num_alive_tasks() > 0 {
                yield_now().await;
            }
        });
    }
}

// %%
/// The executor of smol.
struct Smol(LocalExecutor<'static>);

impl Opponent for Smol {
    type Handle = async_executor::Task<u64>;

    fn new() -> Self {
        Self(LocalExecutor::new())
    }

    fn run<F: Future>(&self, root: F) -> F::Output {
        futures::executor::block_on(self.0.run(root))
    }

    fn spawn(&self, future: impl Future<Output = u64> + Send + 'static) -> Self::Handle {
        self.0.spawn(future)
    }

    async fn join(handle: Self::Handle) -> u64 {
        handle.await
    }

    fn forget(&self, future: impl Future<Output = u64> + Send + 'static) {
        self.0.spawn(future).detach();
    }

    fn settle(&self) {
        self.run(async {
            while !self.0.is_empty() {
                yield_now().await;
            }
        });
    }
}

// %%
/// The local pool of the futures crate.
struct Pool {
    pool: RefCell<LocalPool>,
    spawner: LocalSpawner,
}

impl Opponent for Pool {
    type Handle = futures::future::RemoteHandle<u64>;

    fn new() -> Self {
        let pool = LocalPool::new();
        let spawner = pool.spawner();
        Self { pool: RefCell::new(pool), spawner }
    }

    fn run<F: Future>(&self, root: F) -> F::Output {
        self.pool.borrow_mut().run_until(root)
    }

    fn spawn(&self, future: impl Future<Output = u64> + Send + 'static) -> Self::Handle {
        self.spawner.spawn_local_with_handle(future).expect("the pool is there")
    }

    async fn join(handle: Self::Handle) -> u64 {
        handle.await
    }

    fn forget(&self, future: impl Future<Output = u64> + Send + 'static) {
        self.spawner.spawn_local(future.map(drop)).expect("the pool is there");
    }

    fn settle(&self) {
        self.pool.borrow_mut().run();
    }
}

// %% [markdown]
// # The frontier
//
// And what does a call that may wait cost at best? [The frontier](../ladder/frontier.ipynb) is the leanest
// executor that we know how to write with real wakers. Its tasks are all of one type and live by value in slots
// that were allocated once. We take it from there as it is.
//
// On it, `call` is nothing but an `.await`: the callee becomes a part of the caller. `call_nonblock` polls it in
// place; a future that lives there by value cannot be left waiting in a task, so there is no waiting
// `call_nonblock`. `call_detached` spawns, and the result arrives in a cell that the caller has provided.

// %%
/// A result, and who waits for it, in memory of the caller's.
#[derive(Default)]
struct Answer {
    result: Cell<Option<u64>>,
    whom: Cell<Option<Waker>>,
}

impl Answer {
    fn conclude(&self, result: u64) {
        self.result.set(Some(result));
        self.whom.take().into_iter().for_each(Waker::wake);
    }

    async fn result(&self) -> u64 {
        poll_fn(|context| match self.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                self.whom.set(Some(context.waker().clone()));
                Poll::Pending
            }
        })
        .await
    }
}

// %%
/// Keeps the frontier's probe silent; ours looks on from the procedures.
type Silent = zero_cost::Timed<Answer>;

/// Polls once; `None` if the future waits.
async fn begin_in_place<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// The styles that need no task.
fn in_the_root<F: Future<Output = u64>>(
    make: impl Fn(u64) -> F + Copy,
    load: Load,
    drive: &mut dyn FnMut(&mut dyn FnMut() -> u64),
) {
    let reactor = frontier::Reactor::<_, Silent>::new((), 0);
    let executor = frontier::Executor::<_, std::future::Ready<()>, _>::new(&reactor, 0);
    let arguments = || 0..black_box(load.batch) as u64;
    if load.style == Style::Call {
        return drive(&mut || {
            executor.run(async {
                let mut sum = 0;
                for argument in arguments() {
                    sum += make(argument).await;
                }
                sum
            })
        });
    }
    drive(&mut || {
        executor.run(async {
            let mut sum = 0;
            for argument in arguments() {
                sum += begin_in_place(make(argument)).await.expect("it does not wait");
            }
            sum
        })
    });
}

// %%
/// The styles that make tasks, for procedures of one type.
fn in_tasks<F: Future<Output = u64>>(
    make: impl Fn(u64) -> F + Copy,
    load: Load,
    drive: &mut dyn FnMut(&mut dyn FnMut() -> u64),
) {
    let reactor = frontier::Reactor::<_, Silent>::new((), 0);
    let arguments = || 0..black_box(load.batch) as u64;
    if load.style == Style::Forget {
        let executor = frontier::Executor::new(&reactor, load.batch);
        return drive(&mut || {
            executor.run(async {
                for argument in arguments() {
                    executor.spawn(|| make(argument).map(drop)).expect("a vacant slot");
                }
            });
            0
        });
    }
    let answers: Vec<Answer> = (0..load.batch).map(|_| Answer::default()).collect();
    let answers = &answers[..];
    let answer = async move |argument: u64| answers[argument as usize].conclude(make(argument).await);
    let executor = frontier::Executor::new(&reactor, load.batch);
    drive(&mut || {
        executor.run(async {
            for argument in arguments() {
                executor.spawn(|| answer(argument)).expect("a vacant slot");
            }
            let mut sum = 0;
            for answer in answers {
                sum += answer.result().await;
            }
            sum
        })
    });
}

// %%
/// All styles on the frontier.
fn frontier<P: Probe>(load: Load, drive: &mut dyn FnMut(&mut dyn FnMut() -> u64)) {
    let tasks = matches!(load.style, Style::Detached | Style::Forget);
    match load.kind {
        Kind::Empty if tasks => in_tasks(empty::<P>, load, drive),
        Kind::Empty => in_the_root(empty::<P>, load, drive),
        Kind::Yield if tasks => in_tasks(|n| yielding::<P>(load.waits, n), load, drive),
        Kind::Yield => in_the_root(|n| yielding::<P>(load.waits, n), load, drive),
        Kind::Due | Kind::Readable => unimplemented!("the frontier has no clock and no descriptors"),
    }
}

// %% [markdown]
// # Subjects
//
// A subject is one bench by one variant under one load, each twice: for the clock and for the count.

// %%
/// What is measured.
#[derive(Clone)]
pub struct Subject {
    /// As published, the table and the name in it.
    pub bench: &'static str,
    /// Who does it.
    pub variant: &'static str,
    /// Under what.
    pub parameter: String,
    /// The load.
    pub load: Load,
    /// The code that is timed, and the same code with the probe that counts.
    pub worlds: [World; 2],
    /// What one iteration must count, besides executions.
    pub expected: Option<Counts>,
}

impl Subject {
    /// Its name in the data.
    pub fn key(&self) -> Key {
        Key::new(self.bench, self.variant, self.parameter.clone())
    }
}

/// A design without its probe.
pub trait Kit {
    /// The design with this probe.
    type With<P: Probe>: Design<Probe = P>;
}

impl<W: Wakers, T: TimerKind, S: Selector, B: Boxes, C: Clock> Kit for Build<(), W, T, S, B, C> {
    type With<P: Probe> = Build<P, W, T, S, B, C>;
}

/// The design of the document, translated; and one change to it each.
type Published = Build<()>;
type WithHeap = Build<(), ArcWakers, InHeap>;
type WithTree = Build<(), ArcWakers, InTree>;
type WithEpoll = Build<(), ArcWakers, InSortedVec, Epoll>;
type WithFreshBoxes = Build<(), ArcWakers, InSortedVec, Polling, Fresh>;
type WithIndexWakers = Build<(), IndexWakers>;
type WithoutWakers = Build<(), Direct>;

// %% [markdown]
// Both worlds of each kind of subject, for the clock and for the count:

// %%
/// Futures on our executor.
#[inline]
fn on_loop<K: Kit>() -> [World; 2] {
    [with_futures::<K::With<Timed>>, with_futures::<K::With<Counted>>]
}

/// Futures on the stack of the root.
#[inline]
fn inlined<K: Kit>() -> [World; 2] {
    [inline::<K::With<Timed>>, inline::<K::With<Counted>>]
}

/// Waits of the root.
#[inline]
fn waits_of_root<K: Kit>() -> [World; 2] {
    [root_waits::<K::With<Timed>>, root_waits::<K::With<Counted>>]
}

/// Fibers from a pool.
#[inline]
fn in_fibers() -> [World; 2] {
    [pooled_fibers::<Build<Timed, Direct>>, pooled_fibers::<Build<Counted, Direct>>]
}

/// Fibers that are not used again.
#[inline]
fn in_fresh_fibers() -> [World; 2] {
    [fresh_fibers::<Build<Timed, Direct>>, fresh_fibers::<Build<Counted, Direct>>]
}

/// Tasks on an executor of others.
#[inline]
fn tasks_of<O: Opponent>() -> [World; 2] {
    [elsewhere_called::<O, Timed>, elsewhere_called::<O, Counted>]
}

fn awaits_of<O: Opponent>() -> [World; 2] {
    [elsewhere_awaited::<O, Timed>, elsewhere_awaited::<O, Counted>]
}

// %% [markdown]
// ## What each must count
//
// Here is what the original does in one iteration of *n* calls, read from its source. A call into a task and out of
// it is two switches, the loop entered and left is two more. `waiting call`, in full: into the callee; out again
// at its wait; into the loop; into the callee; out at its end; out of the loop. Six switches, three readings of
// the clock, two carts, one evaluation, two passes. The other waiting styles share their passes among the batch.
//
// There is one deviation. In the original a call that was forgotten needs an evaluation all the same, as soon as
// it waits, for that is what its timer holds. Our timer holds a waker, so it needs none.

// %%
/// Counts of one iteration, in the order in which the document's table is laid out here.
fn counts(
    [switches, clock_reads, carts, handles, passes]: [usize; 5],
    [selects, registrations, system_calls]: [usize; 3],
) -> Counts {
    let named = [
        ("switches", switches),
        ("clock_reads", clock_reads),
        ("carts", carts),
        ("handles", handles),
        ("passes", passes),
        ("selects", selects),
        ("registrations", registrations),
        ("system_calls", system_calls),
    ];
    named.map(|(name, count)| (name, count as u64)).into()
}

/// What the document's library does with a batch of `n`, where it has this style and this kind of wait.
pub fn expected(load: Load) -> Option<Counts> {
    let n = load.batch;
    let waits = match load.kind {
        Kind::Empty => 0,
        Kind::Due if load.waits == 1 => 1,
        _ => return None,
    };
    let of_library = match (load.style, waits) {
        (Style::Call | Style::Nonblock, 0) => [2 * n, 0, 0, 0, 0],
        (Style::NonblockEagerly, 0) => [2 * n, 0, 0, n, 0],
        (Style::DetachedSettled, 0) => [2 * n + 2, 2, n + 1, n, 1],
        (Style::Detached, 0) => [2 * n + 2, 0, n + 1, n, 2],
        (Style::Forget, 0) => [2 * n + 2, 2, n + 1, 0, 1],
        (Style::Call, _) => [6 * n, 3 * n, 2 * n, n, 2 * n],
        (Style::Nonblock | Style::NonblockEagerly, _) => [4 * n + 2, n + 2, n + 1, n, 2],
        (Style::Detached, _) => [4 * n + 2, n + 2, 2 * n + 1, n, 3],
        (Style::Forget, _) => [4 * n + 2, n + 2, 2 * n + 1, 0, 1],
        (Style::DetachedSettled, _) => return None,
    };
    Some(counts(of_library, [0; 3]))
}

/// The same for the root's own waits, with a selector that makes so many system calls to wait once.
fn expected_of_root(wait: RootWait, calls: u64, n: usize) -> Option<Counts> {
    let asked = |changes: usize| [n, changes * n, (changes + calls as usize) * n];
    Some(match wait {
        RootWait::Due => counts([2 * n, 3 * n, n, 0, n], [0; 3]),
        RootWait::Ready(_) => counts([2 * n, 0, 0, 0, 0], asked(2)),
        RootWait::Kept(_) => counts([2 * n, 0, 0, 0, 0], asked(1)),
        RootWait::Yield => return None,
    })
}

// %% [markdown]
// ## The tables
//
// Now everything has a name. The design of the document, translated, is called `event loop`; what is different is added to
// its name. First the table of mere invocation.

// %%
/// The published batch.
const BATCH: usize = 100;
/// The translated design, with which all others are compared.
const EVENT_LOOP: &str = "event loop";
/// A regular procedure.
const PROCEDURE: &str = "call_methods/proc.call";
/// Styles of the first table.
const INVOCATIONS: [(&str, Style); 4] = [
    ("call_methods/conproc.call", Style::Call),
    ("call_methods/conproc.call_nonblock", Style::Nonblock),
    ("call_methods/conproc.call_detached", Style::DetachedSettled),
    ("call_methods/conproc.call_and_forget", Style::Forget),
];

impl Load {
    /// The published load of this style and kind.
    pub fn published(style: Style, kind: Kind) -> Self {
        let waits = usize::from(kind != Kind::Empty);
        Self { style, kind, batch: BATCH, waits, beside: 0, root: RootWait::Due }
    }

    /// How this load is called in the data.
    fn parameter(&self) -> String {
        let mut parameter = format!("batch={}", self.batch);
        match self.kind {
            Kind::Yield => parameter += " wait=yield",
            Kind::Readable => parameter += " wait=readable",
            Kind::Empty | Kind::Due => {}
        }
        if self.waits > 1 {
            parameter += &format!(" waits={}", self.waits);
        }
        parameter
    }
}

fn subject(bench: &'static str, variant: &'static str, load: Load, worlds: [World; 2]) -> Subject {
    let (parameter, expected) = (load.parameter(), expected(load));
    Subject { bench, variant, parameter, load, worlds, expected }
}

/// A subject that does less than the document's library, or something else: so many things, or nobody knows.
fn unlike(subject: Subject, expected: Option<Counts>) -> Subject {
    Subject { expected, ..subject }
}

// %%
/// Mere invocation.
#[inline]
fn invocations() -> Vec<Subject> {
    let mut all = vec![];
    for (bench, style) in INVOCATIONS {
        let load = Load::published(style, Kind::Empty);
        all.extend([
            subject(bench, EVENT_LOOP, load, on_loop::<Published>()),
            subject(bench, "event loop + fresh boxes", load, on_loop::<WithFreshBoxes>()),
            subject(bench, "event loop + index wakers", load, on_loop::<WithIndexWakers>()),
            subject(bench, "event loop + no wakers", load, on_loop::<WithoutWakers>()),
            subject(bench, "fibers", load, in_fibers()),
            subject(bench, "fibers + fresh stacks", load, in_fresh_fibers()),
        ]);
    }
    let call = Load::published(Style::Call, Kind::Empty);
    let nothing = Some(counts([0; 5], [0; 3]));
    let inline = subject(INVOCATIONS[0].0, "event loop + inline", call, inlined::<Published>());
    all.push(unlike(inline, nothing.clone()));
    let eager = Load::published(Style::NonblockEagerly, Kind::Empty);
    all.push(subject(INVOCATIONS[1].0, "event loop + eager handles", eager, on_loop::<Published>()));
    for (variant, worlds) in [
        ("closure", [closure::<Timed> as World, closure::<Counted>]),
        ("boxed closure", [boxed_closure::<Timed>, boxed_closure::<Counted>]),
    ] {
        all.push(unlike(subject(PROCEDURE, variant, call, worlds), nothing.clone()));
    }
    all
}

// %% [markdown]
// Mere waiting. The timer queues also have 10,000 other timers to keep, the selectors 99 and 9,999 other
// descriptors.

// %%
/// The number of idle timers, and of registered descriptors, in the larger loads.
const MANY: usize = 10_000;
const WAIT: &str = "wait_methods/wait";
const READINESS: [(&str, Interest); 2] = [
    ("wait_methods/await_readable", Interest::Readable),
    ("wait_methods/await_writable", Interest::Writable),
];

fn root_subject(
    (bench, variant): (&'static str, &'static str),
    (name, beside): (&str, usize),
    wait: RootWait,
    worlds: [World; 2],
) -> Subject {
    let load = Load { beside, root: wait, ..Load::published(Style::Call, Kind::Due) };
    let parameter = format!("batch={BATCH}{name}");
    let calls = if variant.contains("epoll") { Epoll::CALLS } else { Polling::CALLS };
    Subject { bench, variant, parameter, load, worlds, expected: expected_of_root(wait, calls, BATCH) }
}

/// Waiting of the root for a time.
#[inline]
fn root_timers() -> Vec<Subject> {
    let due = RootWait::Due;
    let queues: [(&'static str, [World; 2]); 3] = [
        (EVENT_LOOP, waits_of_root::<Published>()),
        ("event loop + heap", waits_of_root::<WithHeap>()),
        ("event loop + tree", waits_of_root::<WithTree>()),
    ];
    let wakers: [(&'static str, [World; 2]); 2] = [
        ("event loop + index wakers", waits_of_root::<WithIndexWakers>()),
        ("event loop + no wakers", waits_of_root::<WithoutWakers>()),
    ];
    let mut all = vec![];
    for (variant, worlds) in queues.into_iter().chain(wakers) {
        all.push(root_subject((WAIT, variant), ("", 0), due, worlds));
    }
    for (variant, worlds) in queues {
        let pending = format!(" pending={MANY}");
        all.push(root_subject((WAIT, variant), (&pending, MANY), due, worlds));
    }
    let yields: [World; 2] = waits_of_root::<Published>();
    all.push(root_subject((WAIT, EVENT_LOOP), (" wait=yield", 0), RootWait::Yield, yields));
    all
}

// %%
/// Waiting of the root for readiness: with each selector, registered per wait or kept, alone or among others.
#[inline]
fn root_readiness() -> Vec<Subject> {
    use RootWait::{Kept, Ready};
    const SELECTORS: [&str; 4] =
        [EVENT_LOOP, "event loop + kept", "event loop + epoll", "event loop + epoll + kept"];
    let by_crate = waits_of_root::<Published>();
    let by_epoll = waits_of_root::<WithEpoll>();
    let mut all = vec![];
    for (bench, interest) in READINESS {
        for variant in SELECTORS {
            let worlds = if variant.contains("epoll") { by_epoll } else { by_crate };
            let wait = if variant.ends_with("kept") { Kept(interest) } else { Ready(interest) };
            let mut add = |name: &str, beside| {
                all.push(root_subject((bench, variant), (name, beside), wait, worlds));
            };
            add("", 0);
            if wait == Ready(Interest::Readable) {
                add(" registered=100", 99);
                add(&format!(" registered={MANY}"), MANY - 1);
            }
        }
    }
    all
}

// %% [markdown]
// The third table: calls that do not wait, settled otherwise than in the first, and calls that wait once.

// %%
/// Styles of the third table, for a procedure that does not wait and for one that does.
const CALLS: [(&str, &str, Style); 4] = [
    ("call_methods_waiting/call", "call_methods_waiting/waiting call", Style::Call),
    ("call_methods_waiting/call_nonblock", "call_methods_waiting/waiting call_nonblock", Style::Nonblock),
    ("call_methods_waiting/call_detached", "call_methods_waiting/waiting call_detached", Style::Detached),
    ("call_methods_waiting/call_and_forget", "call_methods_waiting/waiting call_and_forget", Style::Forget),
];

/// Calls that do not wait: ours, and those of others.
#[inline]
fn empty_calls() -> Vec<Subject> {
    let mut all = vec![];
    for (bench, _, style) in CALLS {
        let load = Load::published(style, Kind::Empty);
        all.extend([
            subject(bench, EVENT_LOOP, load, on_loop::<Published>()),
            subject(bench, "fibers", load, in_fibers()),
        ]);
        all.extend(others(bench, load));
        for batch in [1, 10, 1000] {
            let load = Load { batch, ..load };
            all.push(subject(bench, EVENT_LOOP, load, on_loop::<Published>()));
            all.push(subject(bench, "fibers", load, in_fibers()));
        }
    }
    all
}

/// The executors of others under a load, and the frontier, where it has this style.
#[inline]
fn others(bench: &'static str, load: Load) -> Vec<Subject> {
    let frontier_has = load.style != Style::Nonblock || load.kind == Kind::Empty;
    let frontier = subject(bench, "frontier", load, [frontier::<Timed>, frontier::<Counted>]);
    let mut all = vec![
        subject(bench, "tokio", load, tasks_of::<Tokio>()),
        subject(bench, "smol", load, tasks_of::<Smol>()),
        subject(bench, "LocalPool", load, tasks_of::<Pool>()),
    ];
    if load.style == Style::Call {
        all.extend([
            subject(bench, "tokio + await", load, awaits_of::<Tokio>()),
            subject(bench, "smol + await", load, awaits_of::<Smol>()),
            subject(bench, "LocalPool + await", load, awaits_of::<Pool>()),
        ]);
    }
    all.extend(frontier_has.then_some(frontier));
    all.into_iter().map(|subject| unlike(subject, None)).collect()
}

// %%
/// Calls that wait.
#[inline]
fn waiting_calls() -> Vec<Subject> {
    let mut all = vec![];
    for (_, bench, style) in CALLS {
        let load = Load::published(style, Kind::Due);
        let futures = on_loop::<Published>();
        let fibers: [World; 2] = in_fibers();
        all.extend([
            subject(bench, EVENT_LOOP, load, futures),
            subject(bench, "event loop + heap", load, on_loop::<WithHeap>()),
            subject(bench, "event loop + tree", load, on_loop::<WithTree>()),
            subject(bench, "event loop + fresh boxes", load, on_loop::<WithFreshBoxes>()),
            subject(bench, "event loop + index wakers", load, on_loop::<WithIndexWakers>()),
            subject(bench, "event loop + no wakers", load, on_loop::<WithoutWakers>()),
            subject(bench, "fibers", load, fibers),
        ]);
        let of_ten = Load { waits: 10, ..load };
        let batches = [1, 10, 1000].map(|batch| Load { batch, ..load });
        let yielding = Load::published(style, Kind::Yield);
        for load in batches.into_iter().chain([of_ten]) {
            all.push(subject(bench, EVENT_LOOP, load, futures));
            all.push(subject(bench, "fibers", load, fibers));
        }
        all.push(subject(bench, EVENT_LOOP, yielding, futures));
        all.push(subject(bench, "fibers", yielding, fibers));
        all.extend(others(bench, yielding));
        let readable = Load::published(style, Kind::Readable);
        all.push(subject(bench, EVENT_LOOP, readable, futures));
        all.push(subject(bench, "event loop + epoll", readable, on_loop::<WithEpoll>()));
    }
    let [(_, call, _), (_, nonblock, _), ..] = CALLS;
    let load = Load::published(Style::Call, Kind::Due);
    let alone = expected_of_root(RootWait::Due, Polling::CALLS, BATCH);
    all.push(unlike(subject(call, "event loop + inline", load, inlined::<Published>()), alone));
    let load = Load::published(Style::NonblockEagerly, Kind::Due);
    all.push(subject(nonblock, "event loop + eager handles", load, on_loop::<Published>()));
    all
}

// %%
/// All subjects.
#[inline]
pub fn subjects() -> Vec<Subject> {
    [invocations(), root_timers(), root_readiness(), empty_calls(), waiting_calls()].concat()
}

// %% [markdown]
// # Proof
//
// Each subject runs some iterations in a process of its own, with the probe that counts. All but the last two warm
// up: calls that were forgotten and wait end in a *later* iteration, since the root's own wait is due before
// theirs, so that it takes as many iterations as they have waits until each ends as many as it begins. The last two
// must both count what the library does, execute as many procedures as were called, and return the sum of their
// results.

// %%
/// How long one trial may take before it counts as hanging: far longer than any of them takes.
pub const LIMIT: Duration = Duration::from_secs(20);

/// The counts of one iteration, proven.
///
/// # Errors
/// If the subject does other work than it should, or none: says which subject, and what is wrong.
pub fn prove(subject: &Subject, limit: Duration) -> Result<Counts, UnequalWork> {
    let (key, load, world) = (subject.key(), subject.load, subject.worlds[1]);
    let seen = harness::isolated(limit, || {
        let mut seen = vec![];
        world(load, &mut |iterate| {
            for _ in 0..load.waits + 3 {
                drop(Counted::take());
                let sum = iterate();
                let mut counts = Counted::take();
                counts.insert("sum", sum);
                seen.push(counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect());
            }
        });
        seen
    });
    let seen: Vec<BTreeMap<String, u64>> = seen.map_err(|reason| format!("{key}: {reason}"))?;
    let n = load.batch as u64;
    let results = !matches!(load.style, Style::DetachedSettled | Style::Forget);
    let mut counts = subject.expected.clone().unwrap_or_default();
    counts.extend([("executions", n), ("sum", if results { n * (n - 1) / 2 } else { 0 })]);
    let [.., before, last] = &seen[..] else { return Err(format!("{key} was not iterated").into()) };
    harness::prove(&key, &counts, before)?;
    harness::prove(&key, &counts, last)?;
    let known = |name| (name, last.get(name).copied().unwrap_or_default());
    Ok(Counter::ALL.map(Counter::name).map(known).into())
}

// %% tags=["active-ipynb"]
// for subject in subjects().into_iter().filter(|subject| subject.variant == EVENT_LOOP && subject.parameter == "batch=100") {
//     let counts = prove(&subject, LIMIT).unwrap_or_else(harness::stop);
//     let per_call = |name: &str| counts[name] as f64 / BATCH as f64;
//     let [switches, clock, carts, handles, passes, calls] =
//         ["switches", "clock_reads", "carts", "handles", "passes", "system_calls"].map(per_call);
//     println!("{:<45} {switches:>4.2} switches {clock:>4.2} clock {carts:>4.2} carts {handles:>4.2} handles {passes:>4.2} passes {calls:>4.2} system calls", subject.bench);
// }

// %% [markdown]
// # The study
//
// Differences of less than 2 % do not matter: nobody chooses a style for them. Each family of subjects is a group with a control: the translated design, measured a second time.

// %%
/// The group of comparisons that a subject belongs to.
fn group(subject: &Subject) -> &'static str {
    match subject.bench {
        WAIT => "waits",
        bench if bench.starts_with("wait_methods") => "readiness",
        _ if subject.load.kind == Kind::Empty => "calls",
        _ => "waiting calls",
    }
}

/// The subjects that are measured a second time, one for each group.
const CONTROLLED: [&str; 4] = [INVOCATIONS[0].0, WAIT, READINESS[0].0, CALLS[1].1];

// %% [markdown]
// What is compared with what? First each variant with the translated design, in the same bench under the same load. Fibers differ
// from it in their wakers, too, so they are also compared with the design that has none.

// %%
/// The first, what it is compared with, and what changes.
type Compared = (Key, Key, String);

/// What a variant changes in the translated design.
fn change(variant: &str) -> String {
    let told = match variant {
        "event loop + fresh boxes" => "a fresh box in the place of a pooled slot",
        "event loop + index wakers" => "index wakers in the place of `Arc` wakers",
        "event loop + no wakers" => "no wakers in the place of `Arc` wakers",
        "event loop + inline" => "no slot: the future is polled where it stands",
        "event loop + eager handles" => "an eager handle in the place of a lazy one",
        "event loop + heap" => "a heap in the place of a sorted vector",
        "event loop + tree" => "a tree in the place of a sorted vector",
        "event loop + kept" => "registrations that are kept",
        "event loop + epoll" => "plain epoll in the place of the `polling` crate",
        "event loop + epoll + kept" => "plain epoll, and registrations that are kept",
        "fibers" => "fibers without wakers in the place of futures",
        "fibers + fresh stacks" => "fibers without wakers, on fresh stacks, in the place of futures",
        "closure" => "a regular procedure that the compiler knows",
        "boxed closure" => "a regular procedure behind a pointer",
        other => return format!("{other} in the place of the translated loop"),
    };
    told.to_owned()
}

/// A variant compared with the design, or with another that is nearer to it.
fn beside_the_design(subject: &Subject) -> Vec<Compared> {
    // A regular procedure is in a bench of its own.
    let bench = if subject.bench == PROCEDURE { INVOCATIONS[0].0 } else { subject.bench };
    let beside = |variant: &str, change: &str| {
        (subject.key(), Key::new(bench, variant, subject.parameter.as_str()), change.to_owned())
    };
    let mut all = vec![beside(EVENT_LOOP, &change(subject.variant))];
    all.extend(match subject.variant {
        "fibers" => Some(beside("event loop + no wakers", "a fiber in the place of a boxed future")),
        "fibers + fresh stacks" => Some(beside("fibers", "a fresh stack in the place of a pooled fiber")),
        "boxed closure" => Some(beside("fibers", "a regular procedure behind a pointer")),
        variant => variant
            .strip_suffix(" + await")
            .map(|executor| beside(executor, "an `.await` in the place of a task")),
    });
    all
}

// %% [markdown]
// Then style with style. The others of a published table are told by one of its styles, `call` in the first and `call_nonblock` in
// the third. Advice needs every style against every other, for a callee that waits once and for one that does not, on
// every executor.

// %%
/// The styles of a table, the one first that others are told by.
const TABLES: [[&str; 4]; 3] = [
    [INVOCATIONS[0].0, INVOCATIONS[1].0, INVOCATIONS[2].0, INVOCATIONS[3].0],
    [CALLS[1].0, CALLS[0].0, CALLS[2].0, CALLS[3].0],
    [CALLS[1].1, CALLS[0].1, CALLS[2].1, CALLS[3].1],
];

/// A style compared with others of its table, with the same executor under the same load.
fn beside_other_styles(subject: &Subject) -> Vec<Compared> {
    let place_in = |table: &[&str; 4]| table.iter().position(|bench| *bench == subject.bench);
    let Some((number, place)) =
        TABLES.iter().enumerate().find_map(|(number, table)| Some((number, place_in(table)?)))
    else {
        return vec![];
    };
    let Load { kind, batch, waits, .. } = subject.load;
    let to_choose = batch == BATCH && waits <= 1 && kind != Kind::Readable;
    let others = match subject.variant {
        variant if variant.contains(" + ") => 0,
        _ if number > 0 && to_choose => place,
        EVENT_LOOP => place.min(1),
        "fibers" if number == 0 => place.min(1),
        _ => 0,
    };
    let style = |bench: &'static str| bench.rsplit(['/', '.', ' ']).next().unwrap_or(bench);
    let beside = |other: &'static str| {
        let told = format!("`{}` instead of `{}`", style(subject.bench), style(other));
        (subject.key(), Key::new(other, subject.variant, subject.parameter.as_str()), told)
    };
    TABLES[number][..others].iter().copied().map(beside).collect()
}

// %% [markdown]
// And load with load: kinds of waits with the wait for a time, waiting among others with waiting alone, batches of other sizes
// with the published one, a callee that waits ten times with one that waits once.

// %%
/// A load compared with the published one, or a wait compared with the wait for a time.
fn beside_the_published_load(subject: &Subject) -> Option<Compared> {
    let Subject { bench, variant, load, .. } = subject;
    let published = format!("batch={BATCH}");
    let itself = |told: String| Some((subject.key(), Key::new(*bench, *variant, published.as_str()), told));
    let ours = *variant == EVENT_LOOP;
    match load.root {
        RootWait::Due if load.beside > 0 => itself(format!("among {} other timers", load.beside)),
        _ if load.beside > 0 => itself(format!("among {} other descriptors", load.beside)),
        RootWait::Yield => itself("a bare yield instead of a timer".to_owned()),
        RootWait::Ready(_) | RootWait::Kept(_) => {
            let way = variant.strip_prefix("event loop + ").map_or(String::new(), |way| format!(" ({way})"));
            let kind = bench.trim_start_matches("wait_methods/");
            let told = format!("`{kind}`{way} instead of a timer");
            Some((subject.key(), Key::new(WAIT, EVENT_LOOP, published.as_str()), told))
        }
        RootWait::Due if load.waits > 1 => itself(format!("{} waits instead of 1", load.waits)),
        RootWait::Due if ours && load.batch != BATCH => {
            itself(format!("batches of {} instead of {BATCH}", load.batch))
        }
        RootWait::Due if ours && *bench == CALLS[1].1 && load.kind != Kind::Due => {
            let kind = if load.kind == Kind::Yield { "a yield" } else { "a descriptor that is ready" };
            itself(format!("{kind} instead of a timer"))
        }
        RootWait::Due => None,
    }
}

// %% [markdown]
// A few claims compare something else.

// %%
/// Variant, benches that the document compares with each other, besides, and what changes.
const CLAIMED: [(&str, &str, &str, &str); 5] = [
    (EVENT_LOOP, INVOCATIONS[3].0, INVOCATIONS[2].0, "`call_and_forget` instead of `call_detached`"),
    (EVENT_LOOP, INVOCATIONS[3].0, INVOCATIONS[1].0, "`call_and_forget` instead of `call_nonblock`"),
    (EVENT_LOOP, READINESS[0].0, READINESS[1].0, "`await_readable` instead of `await_writable`"),
    (
        "event loop + epoll",
        READINESS[0].0,
        READINESS[1].0,
        "`await_readable` instead of `await_writable` (epoll)",
    ),
    (EVENT_LOOP, CALLS[1].1, CALLS[1].0, "a callee that waits"),
];

/// Everything that is compared.
fn comparisons(subjects: &[Subject]) -> Vec<Compared> {
    let mut all = vec![];
    for subject in subjects {
        all.extend(beside_the_design(subject));
        all.extend(beside_other_styles(subject));
        all.extend(beside_the_published_load(subject));
    }
    all.extend(CLAIMED.map(|(variant, one, other, told)| {
        let published = |bench| Key::new(bench, variant, format!("batch={BATCH}"));
        (published(one), published(other), told.to_owned())
    }));
    let keys: Vec<Key> = subjects.iter().map(Subject::key).collect();
    all.retain(|(one, other, _)| one != other && keys.contains(other));
    all
}

// %%
/// All subjects, proven. One whose proof fails is left out, and named.
#[inline]
pub fn study() -> Study {
    let subjects = subjects();
    let mut study = Study::new("call-styles").rounds(6, 96, 240).episodes(2, 24, 60).isolated(LIMIT);
    for subject in &subjects {
        let (key, load, world) = (subject.key(), subject.load, subject.worlds[0]);
        let proof = prove(subject, LIMIT);
        let counts = proof.clone().unwrap_or_default();
        let unit = if subject.bench.starts_with("wait_methods") { "wait" } else { "call" };
        study = study.group(group(subject), harness::limit::CALLS).unit(unit).proven(
            key.clone(),
            proof,
            move |bencher: &mut Bencher| {
                world(load, &mut |iterate| {
                    bencher.iter(&mut || {
                        black_box(iterate());
                    });
                });
            },
        );
        study = study.count(key.clone(), "units", load.batch as u64);
        for (counter, value) in counts {
            // The executors of others are silent about everything but the procedures.
            if subject.expected.is_some()
                || subject.variant.starts_with(EVENT_LOOP)
                || counter == "executions"
            {
                study = study.count(key.clone(), counter, value);
            }
        }
        if subject.variant == EVENT_LOOP
            && subject.parameter == format!("batch={BATCH}")
            && CONTROLLED.contains(&subject.bench)
        {
            study = study.control_of(key);
        }
    }
    for (one, other, change) in comparisons(&subjects) {
        study = study.compare(one, other, change);
    }
    study
}

// %%
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subject_does_its_work() {
        for subject in subjects() {
            prove(&subject, LIMIT).unwrap();
        }
    }
}

// %% [markdown]
// # A glance
//
// One way to call, in all styles, in turns, a second each: the time of a call, and how many times that of the first. Nothing is kept, and nothing is concluded. Choose others, or one of your own, and run the cell again.

// %% tags=["active-ipynb", "glance"]
// study().glance(|key| {
//     key.bench == "call_methods/conproc.call" && key.parameter == "batch=100"
// }).unwrap_or_else(harness::stop)

// %% [markdown]
// # Measurement
//
// Rounds follow one another; each runs everything above in an order drawn by lot, each trial in a process of its own.
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
// The [analysis](analysis.ipynb) derives the table of advice anew from this run, and puts the published claims next to it. Before you read a ratio, look at the control of its group, `event loop (A/A)`.
//
// # What this does not say
//
// - The procedures are empty, so every call costs what the style costs. Next to a procedure that does something, all
//   of this weighs less.
// - Foreground styles use one slot over and over, background styles a hundred of them. That is part of the style, and it
//   is why a batch of one and of a thousand are measured too.
// - A descriptor that is ready all the time measures what it costs to register, to ask and to deregister. Waiting
//   for a peer costs what the peer takes.
// - Fibers are measured with a stack that is hot. Their price in memory, a stack each, is in no figure of time.
// - Executors of others yield where ours has a timer, so only `wait=yield` compares them.
//
// # What next
//
// - Give the procedures something to do, and see from which size on the style stops mattering.
// - `cargo bench -p call-styles --bench counts` counts the allocations and instructions of all of it; divide by
//   `units`.
