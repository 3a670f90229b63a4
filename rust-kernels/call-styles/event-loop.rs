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
// # An event loop with timers, descriptors and wakers
//
// In 2017 the author of *Concurrently*, a Ruby library, published what its four ways of calling a procedure cost.
// [The measuring notebook](measure.ipynb) asks the same in Rust, and this one builds what it runs on: the library's
// event loop, rebuilt from its source, with the choices that one might make otherwise as type parameters. The loop
// resumes *slots*; what is in a slot is up to [the executors](executors.ipynb): a future, or a fiber.
//
// After reading it you know what an event loop consists of, and what its parts cost on your machine.
//
// The library has words of its own. We keep them where they name something that is counted:
//
// | word | meaning |
// |---|---|
// | run queue | what runs next; its *immediate track* is first in, first out, its *deferred track* holds timers |
// | cart | an entry in the run queue |
// | pass | processing the run queue once |
// | turn | one round of the loop: it asks the operating system if need be, or makes a pass |
// | evaluation | the handle of a call, by which its result can be awaited |
// | slot | our word: the number by which the loop knows what to resume; slot 0, the *root*, is the program itself |
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
// :dep idle = { path = "../../rust-kernels/idle" }
// :dep polling = "=3.11.0"
// :dep rustix = { version = "=1.1.6", features = ["event", "process"] }
// :dep scopeguard = "=1.2.0"
// :dep slab = "=0.4.12"
// :dep sync = { path = "../../rust-kernels/sync" }

// %% [markdown]
// The loop uses two crates that ask the operating system, and a slab.

// %%
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque, btree_map};
use std::future::{Future, poll_fn};
use std::io;
use std::marker::PhantomData;
use std::mem;
use std::num::NonZero;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::time::{Duration, Instant};

use harness::{Bencher, Counts};
use idle::shielded;
use polling::{Event, Poller};
use rustix::event::epoll;
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::process::{Resource, getrlimit, setrlimit};
use slab::Slab;

// %% [markdown]
// # A probe
//
// Before anything is timed, its work must be that of the original. Its source says how often each style
// changes from one flow of execution to another, reads the clock, makes an entry in the run queue, and so on. All of
// our code takes a probe as a type parameter: one that does nothing, for timing, and one that counts.

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
    QueueEntries,
    /// Evaluations made, the handles by which a result can be awaited.
    Handles,
    /// Turns of the loop in which it processed the run queue.
    Passes,
    /// Times that the selector was polled for events.
    Selects,
    /// Changes of what the selector watches.
    Registrations,
    /// What both of these take of the operating system.
    SystemCalls,
}

impl Counter {
    /// The names in the exported counts, in the order of the counters.
    pub const NAMES: [&str; 9] = [
        "executions",
        "switches",
        "clock_reads",
        "carts",
        "handles",
        "passes",
        "selects",
        "registrations",
        "system_calls",
    ];
}

// %% [markdown]
// A probe is a type, so the one that does nothing costs nothing. It also reads the clock, which a test may set.

// %%
/// Counts what is to be counted, and reads the clock.
pub trait Probe: 'static {
    /// So many more.
    fn add(counter: Counter, times: u64);

    /// The time since a loop began; a test may set it.
    fn now(began: Instant) -> Duration {
        began.elapsed()
    }
}

/// The probe of the timed code: it counts nothing.
pub struct Timed;

impl Probe for Timed {
    #[inline(always)]
    fn add(_: Counter, _: u64) {}
}

// %% [markdown]
// The counting probe keeps its numbers per thread.

// %%
/// The probe of the proof.
pub struct Counted;

impl Counted {
    /// One number for each counter, of this thread.
    fn counts<Out>(read: impl FnOnce(&[Cell<u64>; Counter::NAMES.len()]) -> Out) -> Out {
        thread_local! {
            static COUNTS: [Cell<u64>; Counter::NAMES.len()] =
                const { [const { Cell::new(0) }; Counter::NAMES.len()] };
        }
        COUNTS.with(read)
    }

    /// What was counted on this thread since the last call.
    pub fn take() -> Counts {
        let taken = |(name, count): (_, &Cell<u64>)| (name, count.take());
        Self::counts(|counts| Counter::NAMES.into_iter().zip(counts).map(taken).collect())
    }
}

impl Probe for Counted {
    fn add(counter: Counter, times: u64) {
        Self::counts(|counts| counts[counter as usize].update(|count| count + times));
    }
}

// %% [markdown]
// # Timers
//
// The published deferred track is an array sorted by due time, **latest first**, so that the next timer stands at the
// end, where an array is shortened without moving anything. It is kept in order by binary search. A timer that is
// cancelled is blanked in place. Timers with the same due time fire in the order in which they were made.

// %%
/// A timer in its queue. Timers are ordered by due time, then by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket {
    /// Since the loop began.
    due: Duration,
    /// Later timers have larger numbers.
    number: u64,
    /// The entry of the timer, in a queue that keeps entries elsewhere.
    entry: usize,
}

/// A deferred track: what to wake, and when.
pub trait TimerQueue<W>: Default {
    /// Adds a timer; `number` is larger than all before.
    fn insert(&mut self, due: Duration, number: u64, waiter: W) -> Ticket;

    /// Another waiter, or none, for that time. Returns the old one, if the time is still to come.
    fn replace(&mut self, ticket: Ticket, waiter: Option<W>) -> Option<W>;

    /// When the next timer is due.
    fn earliest(&mut self) -> Option<Duration>;

    /// Takes the next timer out, if it is due by `now`.
    fn pop_due(&mut self, now: Duration) -> Option<W>;
}

/// A kind of deferred track, for every kind of waiter.
pub trait Timers: 'static {
    /// The track.
    type Queue<W>: TimerQueue<W>;
}

// %% [markdown]
// First the published queue.

// %%
/// A vector sorted by due time, latest first.
pub struct SortedVec<W = ()>(Vec<(Ticket, Option<W>)>);

impl Timers for SortedVec {
    type Queue<W> = SortedVec<W>;
}

impl<W> Default for SortedVec<W> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<W> SortedVec<W> {
    /// Where the timer is, or would be: the number of timers after it.
    fn position(&self, ticket: Ticket) -> usize {
        self.0.partition_point(|(other, _)| *other > ticket)
    }

    /// Before the vector grows, the cancelled timers go: a task that sets and cancels timers for ever has a vector that ends.
    #[cold]
    fn make_room(&mut self) {
        self.0.retain(|(_, waiter)| waiter.is_some());
        self.0.reserve(self.0.len().max(4));
    }
}

// %% [markdown]
// To insert or to cancel is to search. Timers that were cancelled go when they come to the end, or when the vector is
// full.

// %%
impl<W> TimerQueue<W> for SortedVec<W> {
    fn insert(&mut self, due: Duration, number: u64, waiter: W) -> Ticket {
        if self.0.len() == self.0.capacity() {
            self.make_room();
        }
        let ticket = Ticket { due, number, entry: 0 };
        let position = self.position(ticket);
        self.0.insert(position, (ticket, Some(waiter)));
        ticket
    }

    fn replace(&mut self, ticket: Ticket, waiter: Option<W>) -> Option<W> {
        let position = self.position(ticket);
        let (found, entry) = self.0.get_mut(position)?;
        if *found == ticket { mem::replace(entry, waiter) } else { None }
    }

    fn earliest(&mut self) -> Option<Duration> {
        while self.0.pop_if(|(_, waiter)| waiter.is_none()).is_some() {}
        self.0.last().map(|(ticket, _)| ticket.due)
    }

    fn pop_due(&mut self, now: Duration) -> Option<W> {
        self.earliest().filter(|due| *due <= now)?;
        self.0.pop()?.1
    }
}

// %% [markdown]
// The document says of its mruby figures that the sorted insert is what makes waiting slow there. Two other
// queues tell what there is to gain. A heap moves less when a timer is inserted in the middle; cancelled timers
// stay in it until they would be due, or until it is full.

// %%
/// A binary heap of timers next to a slab of their waiters.
pub struct Heap<W = ()> {
    tickets: BinaryHeap<Reverse<Ticket>>,
    /// The number of the timer that has this entry, and its waiter.
    entries: Slab<(u64, Option<W>)>,
}

impl Timers for Heap {
    type Queue<W> = Heap<W>;
}

impl<W> Default for Heap<W> {
    fn default() -> Self {
        Self { tickets: BinaryHeap::new(), entries: Slab::new() }
    }
}

impl<W> Heap<W> {
    /// As in the sorted vector.
    #[cold]
    fn make_room(&mut self) {
        let Self { tickets, entries } = self;
        tickets.retain(|Reverse(ticket)| {
            let waits = entries[ticket.entry].1.is_some();
            if !waits {
                entries.remove(ticket.entry);
            }
            waits
        });
        tickets.reserve(tickets.len().max(4));
    }
}

// %% [markdown]
// An entry is found by its number in the slab, which the next timer may have by then: so it says whose it is.

// %%
impl<W> TimerQueue<W> for Heap<W> {
    fn insert(&mut self, due: Duration, number: u64, waiter: W) -> Ticket {
        if self.tickets.len() == self.tickets.capacity() {
            self.make_room();
        }
        let ticket = Ticket { due, number, entry: self.entries.insert((number, Some(waiter))) };
        self.tickets.push(Reverse(ticket));
        ticket
    }

    fn replace(&mut self, ticket: Ticket, waiter: Option<W>) -> Option<W> {
        let (number, entry) = self.entries.get_mut(ticket.entry)?;
        if *number == ticket.number { mem::replace(entry, waiter) } else { None }
    }

    fn earliest(&mut self) -> Option<Duration> {
        loop {
            let Reverse(ticket) = *self.tickets.peek()?;
            if self.entries[ticket.entry].1.is_some() {
                return Some(ticket.due);
            }
            self.tickets.pop();
            self.entries.remove(ticket.entry);
        }
    }

    fn pop_due(&mut self, now: Duration) -> Option<W> {
        self.earliest().filter(|due| *due <= now)?;
        let Reverse(ticket) = self.tickets.pop()?;
        self.entries.remove(ticket.entry).1
    }
}

// %% [markdown]
// A B-tree removes a cancelled timer at once.

// %%
/// A B-tree.
pub struct Tree<W = ()>(BTreeMap<Ticket, W>);

impl Timers for Tree {
    type Queue<W> = Tree<W>;
}

impl<W> Default for Tree<W> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<W> TimerQueue<W> for Tree<W> {
    fn insert(&mut self, due: Duration, number: u64, waiter: W) -> Ticket {
        let ticket = Ticket { due, number, entry: 0 };
        self.0.insert(ticket, waiter);
        ticket
    }

    fn replace(&mut self, ticket: Ticket, waiter: Option<W>) -> Option<W> {
        match waiter {
            Some(waiter) => self.0.get_mut(&ticket).map(|entry| mem::replace(entry, waiter)),
            None => self.0.remove(&ticket),
        }
    }

    fn earliest(&mut self) -> Option<Duration> {
        self.0.first_key_value().map(|(ticket, _)| ticket.due)
    }

    fn pop_due(&mut self, now: Duration) -> Option<W> {
        let first = self.0.first_entry().filter(|entry| entry.key().due <= now)?;
        Some(first.remove())
    }
}

// %% [markdown]
// **A glance.** A timer that is due is inserted before ten thousand others, and taken out again.

// %%
/// Inserts a timer that is due before so many others, and takes it out.
pub fn insert_and_pop<T: Timers>(others: u64) -> impl Fn(&mut Bencher<'_>) {
    move |bencher| {
        let mut queue = T::Queue::<u64>::default();
        for number in 0..others {
            queue.insert(Duration::from_secs(1) + Duration::from_nanos(number), number, number);
        }
        let mut number = others;
        bencher.iter(&mut || {
            number += 1;
            queue.insert(Duration::ZERO, number, number);
            assert_eq!(queue.pop_due(Duration::ZERO), Some(number));
        });
    }
}

// %% [markdown]
// Each queue holds ten thousand timers. Try fewer.

// %% tags=["active-ipynb", "glance"]
// harness::Glance::at("timer")
//     .look("sorted vector", insert_and_pop::<SortedVec>(10_000))
//     .look("heap", insert_and_pop::<Heap>(10_000))
//     .look("tree", insert_and_pop::<Tree>(10_000))
//     .show()

// %% [markdown]
// # Selectors
//
// The original asks `libev` through a gem. The counterpart in Rust is the `polling` crate, on which smol is
// built. On Linux it makes several system calls for one wait: it sets a timer
// descriptor, arms it, waits, clears its notifier, and arms that. So there is a second selector, which does
// nothing but `epoll_ctl` and `epoll_wait`: it tells the price of readiness from that of the crate.

// %%
/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Nothing, for now.
    Nothing,
    /// That reading would not block.
    Readable,
    /// That writing would not block.
    Writable,
}

// %% [markdown]
// A selector watches descriptors under keys. What it reports, and how, is its own.

// %%
/// Events that one question to the selector can bring.
const EVENTS: NonZero<usize> = NonZero::new(1024).unwrap();

/// Asks the operating system which descriptors are ready. An interest ends when it was reported once.
pub trait Selector: Send + Sync + Sized + 'static {
    /// System calls of one wait. A registration, a change and its end are one each.
    const CALLS: u64;
    /// Memory for what is reported.
    type Events;
    /// A selector that watches nothing.
    fn new() -> io::Result<Self>;
    /// Memory for a report.
    fn events() -> Self::Events;
    /// Watches a descriptor.
    fn add(&self, descriptor: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()>;
    /// Watches a descriptor for something else.
    fn change(&self, descriptor: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()>;
    /// Forgets a descriptor.
    fn delete(&self, descriptor: BorrowedFd<'_>) -> io::Result<()>;
    /// Waits for so long (for ever if that is `None`) and appends the keys of those that are ready.
    fn wait(&self, events: &mut Self::Events, time: Option<Duration>, keys: &mut Vec<u64>) -> io::Result<()>;
    /// Ends a wait, from any thread; if no thread waits, then the next one.
    fn notify(&self) -> io::Result<()>;
}

// %% [markdown]
// The crate has events of its own, in which an interest is part of what is registered.

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

// %% [markdown]
// Its poller does what the trait asks for.

// %%
impl Selector for Polling {
    /// Set the timer descriptor, arm it, wait, clear the notifier, arm it.
    const CALLS: u64 = 5;
    type Events = polling::Events;

    fn new() -> io::Result<Self> {
        Poller::new().map(Self)
    }

    fn events() -> Self::Events {
        polling::Events::with_capacity(EVENTS)
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

    fn wait(&self, events: &mut Self::Events, time: Option<Duration>, keys: &mut Vec<u64>) -> io::Result<()> {
        events.clear();
        self.0.wait(events, time)?;
        keys.extend(events.iter().map(|event| event.key as u64));
        Ok(())
    }

    fn notify(&self) -> io::Result<()> {
        self.0.notify()
    }
}

// %% [markdown]
// Plain epoll needs a descriptor of its own by which it can be notified.

// %%
/// All that an older kernel can wait for. The loop does not mind to be awake too early.
const LONGEST: Duration = Duration::from_millis(i32::MAX as u64);

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

// %% [markdown]
// A notification is a report like others, and is read so that it ends.

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

    fn events() -> Self::Events {
        Vec::with_capacity(EVENTS.get())
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

    fn wait(&self, events: &mut Self::Events, time: Option<Duration>, keys: &mut Vec<u64>) -> io::Result<()> {
        events.clear();
        let time = time.map(|time| Timespec::try_from(time.min(LONGEST)).expect("it is short"));
        match epoll::wait(&self.set, rustix::buffer::spare_capacity(events), time.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in events.iter() {
            match event.data.u64() {
                Self::NOTIFIER => drop(rustix::io::read(&self.notifier, &mut [0; 8])),
                key => keys.push(key),
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
// **A glance.** One wait for a descriptor that is ready: it is registered, reported and forgotten.

// %%
/// Registers a descriptor that is ready, has it reported, and forgets it.
pub fn one_report<S: Selector>(bencher: &mut Bencher<'_>) {
    let descriptor = eventfd(1, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("a descriptor");
    let (selector, mut events, mut ready) = (S::new().expect("a selector"), S::events(), Vec::new());
    bencher.iter(&mut || {
        selector.add(descriptor.as_fd(), 7, Interest::Readable).expect("it can be watched");
        selector.wait(&mut events, None, &mut ready).expect("a selector that answers");
        assert_eq!(ready.pop(), Some(7));
        selector.delete(descriptor.as_fd()).expect("it was watched");
    });
}

// %% [markdown]
// The same descriptor with both.

// %% tags=["active-ipynb", "glance"]
// harness::Glance::at("report")
//     .look("polling", one_report::<Polling>)
//     .look("epoll", one_report::<Epoll>)
//     .show()

// %% [markdown]
// # Wakers
//
// The original has no wakers. A cart holds the evaluation itself, and the loop resumes it. A Rust future does
// not know what polls it; all it has is a `Waker`, which may be cloned, kept for years, and used on another
// thread. So what a waiting future leaves with a timer or a descriptor is the next choice. We call that its *waiter*.
// Whatever is woken is a slot.

// %%
/// The number of a task, or of the root: of what the loop resumes.
pub type Slot = u32;

/// Drops a waiter whose task waits no longer. To be called when nothing is borrowed: it may be a waker with code of its
/// own, which may panic.
fn drop_waiter<W>(waiter: Option<W>) {
    if mem::needs_drop::<W>() && waiter.is_some() {
        shielded(|| drop(waiter));
    }
}
/// The slot of the program itself.
pub const ROOT: Slot = 0;

/// What waiting tasks leave behind, and the queue of the woken ones.
pub trait Wakers: Sized + 'static {
    /// Whether other threads can wake a task.
    const FROM_OTHER_THREADS: bool;
    /// What is left behind.
    type Waiter;

    /// For a loop that waits in this selector.
    fn new(selector: &Arc<impl Selector>) -> Self;

    /// The waker of a new slot; slots come in the order of their numbers.
    fn waker(&self, slot: Slot) -> Waker;

    /// What the task in slot `current`, polled with `context`, leaves behind.
    fn waiter(&self, current: Slot, context: &Context<'_>) -> Self::Waiter;

    /// Wakes a task. A waker of another executor may panic, which is kept from the caller.
    fn wake(&self, waiter: Self::Waiter);

    /// Appends all that were woken, in that order.
    fn take(&self, woken: &mut VecDeque<Slot>);

    /// The slot is about to be polled: from now on a wake counts again.
    fn begin(&self, slot: Slot);

    /// The loop is about to wait in its selector; false if it must not, because a task was woken already.
    fn sleep(&self) -> bool {
        true
    }

    /// The wait is over.
    fn awake(&self) {}
}

// %% [markdown]
// **None.** As in the original: a waiting future leaves the number of its slot. Futures are polled with a waker that
// does nothing. This has a price of another kind: combinators that make wakers of their own,
// such as `join!`, do not work, and no other thread can ever wake a slot.

// %%
/// No wakers: a waiting task leaves its slot, and is queued at most once until it is polled.
#[derive(Default)]
pub struct Direct {
    order: RefCell<VecDeque<Slot>>,
    /// By slot: whether it is in `order`, or was and has not been polled since.
    queued: RefCell<Vec<bool>>,
}

// %% [markdown]
// A wake is an index into a vector, and an entry in a queue.

// %%
impl Wakers for Direct {
    const FROM_OTHER_THREADS: bool = false;
    type Waiter = Slot;

    fn new(_: &Arc<impl Selector>) -> Self {
        Self::default()
    }

    fn waker(&self, _: Slot) -> Waker {
        self.queued.borrow_mut().push(false);
        Waker::noop().clone()
    }

    fn waiter(&self, current: Slot, _: &Context<'_>) -> Slot {
        current
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

// %% [markdown]
// **Arc**, the default: what `std::task::Wake` gives you. Each slot has an `Arc` of its own, made once. A wake
// goes into an inbox behind a mutex, because it may come from any thread. If the loop sleeps in its selector at
// that moment, the selector is notified; the mutex makes sure that this cannot be missed. So that
// [loom](https://docs.rs/loom) can try all orders in which threads meet, what they share comes from the crate `sync`.

// %%
use sync::atomic::{AtomicBool, Ordering};
use sync::{Mutex, MutexGuard};

/// Where wakes of all threads arrive.
pub struct Inbox {
    state: Mutex<Arrived>,
    /// Whether `order` holds something; changes under the mutex only. A hint: what it stands for is read under the mutex.
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

// %% [markdown]
// To wake is to append, and to end the sleep if there is one. The flag `asleep` and the queue change under one mutex,
// so either the loop sees the slot before it sleeps, or the waking thread sees that it sleeps.

// %%
impl Inbox {
    /// `notify` ends the sleep of the loop, or its next one.
    pub fn new(notify: impl Fn() + Send + Sync + 'static) -> Self {
        Self { state: Mutex::new(Arrived::default()), any: AtomicBool::new(false), notify: Box::new(notify) }
    }

    /// Ends the waits of this selector.
    fn of<S: Selector>(selector: &Arc<S>) -> Self {
        let selector = Arc::clone(selector);
        Self::new(move || selector.notify().expect("a selector that can be notified"))
    }

    fn lock(&self) -> MutexGuard<'_, Arrived> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Wakes a slot.
    pub fn push(&self, slot: Slot) {
        let mut arrived = self.lock();
        arrived.order.push_back(slot);
        self.any.store(true, Ordering::Relaxed);
        // Taken back, so that the second wake of a sleeping loop makes no system call.
        let asleep = mem::take(&mut arrived.asleep);
        drop(arrived);
        if asleep {
            (self.notify)();
        }
    }

    /// Appends what has arrived. May miss what arrives at this very moment; [`sleep`](Self::sleep) does not.
    pub fn take(&self, woken: &mut VecDeque<Slot>) {
        if self.any.load(Ordering::Relaxed) {
            let mut arrived = self.lock();
            self.any.store(false, Ordering::Relaxed);
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
    pub fn awake(&self) {
        self.lock().asleep = false;
    }
}

// %% [markdown]
// A slot is appended at most once until it is polled.

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
    pub fn new(slot: Slot, inbox: &Arc<Inbox>) -> Self {
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

// %% [markdown]
// The loop keeps the other reference to each waker, to tell it when its slot is polled.

// %%
/// An `Arc` for each slot.
pub struct ArcWakers {
    inbox: Arc<Inbox>,
    slots: RefCell<Vec<Arc<SlotWaker>>>,
}

// %% [markdown]
// A waiting future leaves a clone of the waker that it was polled with.

// %%
impl Wakers for ArcWakers {
    const FROM_OTHER_THREADS: bool = true;
    type Waiter = Waker;

    fn new(selector: &Arc<impl Selector>) -> Self {
        Self { inbox: Arc::new(Inbox::of(selector)), slots: RefCell::default() }
    }

    fn waker(&self, slot: Slot) -> Waker {
        let waker = Arc::new(SlotWaker::new(slot, &self.inbox));
        self.slots.borrow_mut().push(Arc::clone(&waker));
        Waker::from(waker)
    }

    fn waiter(&self, _: Slot, context: &Context<'_>) -> Waker {
        context.waker().clone()
    }

    fn wake(&self, waker: Waker) {
        shielded(|| waker.wake());
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

    fn awake(&self) {
        self.inbox.awake();
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
    local: Rc<Direct>,
    remote: Arc<Inbox>,
}

/// Looks at the loops of this thread; `None` where the thread is about to end.
fn loops_of_thread<Out>(change: impl FnOnce(&mut Vec<(u32, Rc<Direct>)>) -> Out) -> Option<Out> {
    thread_local! {
        static LOOPS: RefCell<Vec<(u32, Rc<Direct>)>> = const { RefCell::new(Vec::new()) };
    }
    LOOPS.try_with(|loops| change(&mut loops.borrow_mut())).ok()
}

/// All loops, by number, for the wakes of other threads.
fn all_loops() -> std::sync::MutexGuard<'static, BTreeMap<u32, Arc<Inbox>>> {
    static LOOPS: std::sync::Mutex<BTreeMap<u32, Arc<Inbox>>> = std::sync::Mutex::new(BTreeMap::new());
    LOOPS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

// %% [markdown]
// The functions of the waker see one word. A wake of this thread never takes the mutex.

// %%
impl IndexWakers {
    /// Two numbers fit into one word.
    const FITS: () = assert!(size_of::<*const ()>() == 8);
    const VTABLE: RawWakerVTable = RawWakerVTable::new(Self::clone, Self::wake, Self::wake, Self::drop);

    fn clone(data: *const ()) -> RawWaker {
        RawWaker::new(data, &Self::VTABLE)
    }

    fn drop(_: *const ()) {}

    /// Does nothing if the loop is gone.
    fn wake(data: *const ()) {
        let word = data.addr() as u64;
        let (number, slot) = ((word >> 32) as u32, word as u32);
        let local = loops_of_thread(|loops| {
            loops.iter().find(|(other, _)| *other == number).map(|(_, woken)| woken.wake(slot)).is_some()
        });
        if local != Some(true) {
            let inbox = all_loops().get(&number).map(Arc::clone);
            inbox.into_iter().for_each(|inbox| inbox.push(slot));
        }
    }
}

// %% [markdown]
// The local queue is that of the loop without wakers. What comes from other threads goes through it, too, so that no
// slot is queued twice.

// %%
impl Wakers for IndexWakers {
    const FROM_OTHER_THREADS: bool = true;
    type Waiter = Waker;

    fn new(selector: &Arc<impl Selector>) -> Self {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(1);
        let remote = Arc::new(Inbox::of(selector));
        let mut loops = all_loops();
        // After 2^32 loops numbers begin anew, and some may live still.
        let number = loop {
            let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if let btree_map::Entry::Vacant(place) = loops.entry(number) {
                place.insert(Arc::clone(&remote));
                break number;
            }
        };
        drop(loops);
        let local = Rc::<Direct>::default();
        loops_of_thread(|loops| loops.push((number, Rc::clone(&local))));
        Self { number, local, remote }
    }

    fn waker(&self, slot: Slot) -> Waker {
        let () = Self::FITS;
        self.local.waker(slot);
        let word = u64::from(self.number) << 32 | u64::from(slot);
        let data = std::ptr::without_provenance(word as usize);
        // SAFETY: the functions of the table use the word as two numbers, which are valid for ever and on all threads.
        unsafe { Waker::new(data, &Self::VTABLE) }
    }

    fn waiter(&self, _: Slot, context: &Context<'_>) -> Waker {
        context.waker().clone()
    }

    fn wake(&self, waker: Waker) {
        shielded(|| waker.wake());
    }

    fn take(&self, woken: &mut VecDeque<Slot>) {
        let mut arrived = VecDeque::new();
        self.remote.take(&mut arrived);
        arrived.into_iter().for_each(|slot| self.local.wake(slot));
        self.local.take(woken);
    }

    fn begin(&self, slot: Slot) {
        self.local.begin(slot);
    }

    fn sleep(&self) -> bool {
        self.local.order.borrow().is_empty() && self.remote.sleep()
    }

    fn awake(&self) {
        self.remote.awake();
    }
}

// %% [markdown]
// A loop that is gone leaves both tables.

// %%
impl Drop for IndexWakers {
    fn drop(&mut self) {
        all_loops().remove(&self.number);
        loops_of_thread(|loops| loops.retain(|(number, _)| *number != self.number));
    }
}

// %% [markdown]
// **A glance.** A waiter is left behind and woken, and the loop finds the slot in its queue.

// %%
/// Leaves a waiter behind, wakes it, and takes the slot out of the queue.
pub fn one_wake<W: Wakers>(bencher: &mut Bencher<'_>) {
    let wakers = W::new(&Arc::new(Epoll::new().expect("a selector")));
    let (waker, mut woken) = (wakers.waker(ROOT), VecDeque::new());
    bencher.iter(&mut || {
        wakers.wake(wakers.waiter(ROOT, &Context::from_waker(&waker)));
        wakers.take(&mut woken);
        assert_eq!(woken.pop_front(), Some(ROOT));
        wakers.begin(ROOT);
    });
}

// %% [markdown]
// All three on the thread of the loop.

// %% tags=["active-ipynb", "glance"]
// harness::Glance::at("wake")
//     .look("Arc", one_wake::<ArcWakers>)
//     .look("index", one_wake::<IndexWakers>)
//     .look("none", one_wake::<Direct>)
//     .show()

// %% [markdown]
// # A design
//
// A probe and these three choices make a design. The published one, translated as directly as Rust allows, is the
// default of each parameter.

// %%
/// What a loop is made of.
pub trait Design: 'static {
    /// What counts.
    type Probe: Probe;
    /// What waiting tasks leave behind.
    type Wakers: Wakers;
    /// The deferred track.
    type Timers: Timers;
    /// What asks the operating system.
    type Selector: Selector;
}

/// A design to be timed.
pub struct Parts<W = ArcWakers, T = SortedVec, S = Polling>(PhantomData<(W, T, S)>);

impl<W: Wakers, T: Timers, S: Selector> Design for Parts<W, T, S> {
    type Probe = Timed;
    type Wakers = W;
    type Timers = T;
    type Selector = S;
}

// %% [markdown]
// Any design can be counted.

// %%
/// The design `D` with another probe.
pub struct Probed<P, D = Parts>(PhantomData<(P, D)>);

impl<P: Probe, D: Design> Design for Probed<P, D> {
    type Probe = P;
    type Wakers = D::Wakers;
    type Timers = D::Timers;
    type Selector = D::Selector;
}

/// What waiting tasks leave behind in this design.
pub type WaiterOf<D> = <<D as Design>::Wakers as Wakers>::Waiter;
/// The deferred track of this design.
type QueueOf<D> = <<D as Design>::Timers as Timers>::Queue<WaiterOf<D>>;

// %% [markdown]
// # The loop
//
// A run queue with two tracks, and a selector. One turn of the loop goes like this:
//
// 1. How long may we wait? Not at all if the immediate track holds something; until the first timer is due if
//    there is one; else for ever.
// 2. If that is a time to wait, or if any descriptor is registered, ask the selector, for that long.
// 3. If there was nothing to wait for, make a *pass*: take the whole immediate track, append what is due of the
//    deferred one, and resume each in turn.
//
// The loop only runs while some slot waits.
//
// First, which slot waits for which descriptor? An entry for each registered
// object says which slot waits for it, and whether it was reported since. Entries are used again, and the operating
// system may report what was forgotten a moment ago. So the key that it is given is the number of the entry and a
// generation.

// %%
/// A registered object.
struct Entry<W> {
    /// Tells the objects that had this entry apart.
    generation: u32,
    /// What waits for it.
    waiter: Option<W>,
    /// Whether it was reported since its waiter began to wait.
    ready: bool,
}

/// Objects by number. A key is a generation above a number.
struct Registry<W> {
    entries: Slab<Entry<W>>,
    generation: u32,
}

impl<W> Registry<W> {
    /// A new entry without a waiter; its key.
    fn insert(&mut self) -> u64 {
        // 31 bits: the key of all ones belongs to the selectors.
        self.generation = (self.generation + 1) & (u32::MAX >> 1);
        let entry = Entry { generation: self.generation, waiter: None, ready: false };
        u64::from(self.generation) << 32 | self.entries.insert(entry) as u64
    }

    /// The entry, if it still belongs to the same object.
    fn get(&mut self, key: u64) -> Option<&mut Entry<W>> {
        let entry = self.entries.get_mut(key as u32 as usize)?;
        (u64::from(entry.generation) == key >> 32).then_some(entry)
    }

    fn remove(&mut self, key: u64) -> Option<Entry<W>> {
        self.get(key)?;
        Some(self.entries.remove(key as u32 as usize))
    }
}

// %% [markdown]
// And the loop itself.

// %%
/// Runs the tasks that are awake, and asks the system for the others.
pub struct EventLoop<D: Design> {
    began: Instant,
    /// The queue of the woken tasks.
    pub wakers: D::Wakers,
    immediate: RefCell<VecDeque<Slot>>,
    deferred: RefCell<QueueOf<D>>,
    /// The number of the next timer.
    number: Cell<u64>,
    /// The time of the last pass that looked at the deferred track, and the number that the next timer had then: with
    /// both, a timer knows whether it has fired.
    fired: Cell<(Duration, u64)>,
    /// What is left of the current pass.
    pass: RefCell<VecDeque<Slot>>,
    /// The selector was polled in this turn, and the run queue was not processed yet.
    polled: Cell<bool>,
    selector: Arc<D::Selector>,
    registry: RefCell<Registry<WaiterOf<D>>>,
    events: RefCell<(<D::Selector as Selector>::Events, Vec<u64>)>,
    /// The task that is being polled.
    current: Cell<Slot>,
    /// The waker of the root.
    root: Waker,
    /// Whether the root waits.
    running: Cell<bool>,
}

// %% [markdown]
// A new loop has one slot, the root's. A polled future can ask for its slot.

// %%
impl<D: Design> EventLoop<D> {
    /// A loop whose only slot is the root's.
    ///
    /// # Errors
    /// If the operating system refuses a selector.
    pub fn new() -> io::Result<Self> {
        let selector = Arc::new(D::Selector::new()?);
        let wakers = D::Wakers::new(&selector);
        Ok(Self {
            began: Instant::now(),
            root: wakers.waker(ROOT),
            wakers,
            immediate: RefCell::default(),
            deferred: RefCell::default(),
            number: Cell::new(0),
            fired: Cell::new((Duration::ZERO, 0)),
            pass: RefCell::default(),
            polled: Cell::new(false),
            selector,
            registry: RefCell::new(Registry { entries: Slab::new(), generation: 0 }),
            events: RefCell::new((D::Selector::events(), Vec::new())),
            current: Cell::new(ROOT),
            running: Cell::new(false),
        })
    }

    /// The time since the loop began.
    fn now(&self) -> Duration {
        D::Probe::add(Counter::ClockReads, 1);
        D::Probe::now(self.began)
    }

    /// Puts a slot into the immediate track.
    pub fn schedule(&self, slot: Slot) {
        D::Probe::add(Counter::QueueEntries, 1);
        self.immediate.borrow_mut().push_back(slot);
    }

    /// What is polled before the result is dropped is in that slot: also when it panics.
    pub fn enter(&self, slot: Slot) -> impl Sized {
        scopeguard::guard(self.current.replace(slot), |before| self.current.set(before))
    }

    /// What the task that is being polled with this context leaves behind.
    pub fn waiter(&self, context: &Context<'_>) -> WaiterOf<D> {
        self.wakers.waiter(self.current.get(), context)
    }
}

// %% [markdown]
// A pass looks at the clock only if the deferred track holds something. What is due is *woken*, in the order of
// the track, and then stands behind the immediate track, as it should.

// %%
impl<D: Design> EventLoop<D> {
    /// Begins a pass with the immediate track, and behind it whatever is due.
    fn process(&self) {
        D::Probe::add(Counter::Passes, 1);
        if self.deferred.borrow_mut().earliest().is_some() {
            let now = self.now();
            self.fired.set((now, self.number.get()));
            loop {
                // Waking may run code that is not ours, so nothing may be borrowed meanwhile.
                let due = self.deferred.borrow_mut().pop_due(now);
                let Some(waiter) = due else { break };
                self.wakers.wake(waiter);
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
        let (events, ready) = &mut *self.events.borrow_mut();
        self.selector.wait(events, timeout, ready).expect("a selector that answers");
        for key in ready.drain(..) {
            let mut registry = self.registry.borrow_mut();
            let Some(entry) = registry.get(key) else { continue };
            entry.ready = true;
            let waiter = entry.waiter.take();
            drop(registry);
            waiter.into_iter().for_each(|waiter| self.wakers.wake(waiter));
        }
        self.wakers.take(&mut self.pass.borrow_mut());
    }
}

// %% [markdown]
// The root is resumed like every other slot, and when that happens the loop is *left*, in the middle of the pass.
// The rest of the pass goes on when the root waits again. That is how the original does it, and several of the
// figures depend on it.

// %%
impl<D: Design> EventLoop<D> {
    /// Finds out what is next.
    ///
    /// # Panics
    /// If no task can ever be awake again, where wakes cannot come from other threads.
    fn turn(&self) {
        if self.polled.take() {
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
            self.polled.set(true);
            return self.select(timeout);
        }
        let possible = registered || timeout.is_some() || D::Wakers::FROM_OTHER_THREADS;
        assert!(possible, "nothing could ever happen: each task waits for another one");
        if self.wakers.sleep() {
            self.select(timeout);
            self.wakers.awake();
        }
    }
}

// %% [markdown]
// `block_on` polls the root, and runs the loop whenever it waits.

// %%
impl<D: Design> EventLoop<D> {
    /// Runs until the root is awake. `resume` polls a slot.
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

    /// Polls `root`, and runs the loop for as long as it waits. `resume` polls a slot.
    ///
    /// # Panics
    /// If the root waits already, or if nothing could ever happen again.
    pub fn block_on<F: Future>(&self, root: F, resume: impl Fn(Slot)) -> F::Output {
        assert!(!self.running.get(), "the root waits already: tasks await, they do not block");
        // Dropped last, when the loop is not running any more: its destructors may block.
        let mut root = pin!(root);
        let _running = scopeguard::guard(self.running.replace(true), |before| self.running.set(before));
        let _entered = self.enter(ROOT);
        let context = &mut Context::from_waker(&self.root);
        loop {
            if let Poll::Ready(output) = root.as_mut().poll(context) {
                return output;
            }
            self.run(&resume);
        }
    }
}

// %% [markdown]
// # Waiting for a time
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
pub struct Timer<D: Design> {
    event_loop: Rc<EventLoop<D>>,
    ticket: Ticket,
}

impl<D: Design> Timer<D> {
    /// Wakes `waiter` after that time.
    pub fn new(event_loop: &Rc<EventLoop<D>>, after: Duration, waiter: WaiterOf<D>) -> Self {
        D::Probe::add(Counter::QueueEntries, 1);
        let due = event_loop.now().saturating_add(after);
        let number = event_loop.number.replace(event_loop.number.get() + 1);
        let ticket = event_loop.deferred.borrow_mut().insert(due, number, waiter);
        Self { event_loop: Rc::clone(event_loop), ticket }
    }

    /// Whether its time has come.
    pub fn has_fired(&self) -> bool {
        let (now, number) = self.event_loop.fired.get();
        self.ticket.due <= now && self.ticket.number < number
    }

    /// From now on for this waiter, or none.
    fn replace(&self, waiter: Option<WaiterOf<D>>) {
        let old = self.event_loop.deferred.borrow_mut().replace(self.ticket, waiter);
        drop_waiter(old);
    }
}

// %% [markdown]
// A timer that is dropped before its time is blanked.

// %%
impl<D: Design> Drop for Timer<D> {
    fn drop(&mut self) {
        if !self.has_fired() {
            self.replace(None);
        }
    }
}

// %% [markdown]
// The future makes its timer when it is first polled.

// %%
/// Ends after some time; see [`EventLoop::wait`].
pub struct Wait<D: Design> {
    after: Duration,
    event_loop: Rc<EventLoop<D>>,
    timer: Option<Timer<D>>,
}

impl<D: Design> Future for Wait<D> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { after, event_loop, timer } = self.get_mut();
        match timer {
            Some(timer) if timer.has_fired() => return Poll::Ready(()),
            // Polled before its time, perhaps by another task.
            Some(timer) => timer.replace(Some(event_loop.waiter(context))),
            None => *timer = Some(Timer::new(event_loop, *after, event_loop.waiter(context))),
        }
        Poll::Pending
    }
}

impl<D: Design> EventLoop<D> {
    /// Waits for so long, counted from its first poll, and in any case for one turn of the loop.
    pub fn wait(self: &Rc<Self>, time: Duration) -> Wait<D> {
        Wait { after: time, event_loop: Rc::clone(self), timer: None }
    }
}

// %% [markdown]
// The bare yield is the standard one: wake yourself, and be pending once. It works on every executor, and not on
// our loop without wakers.

// %%
/// Lets the other tasks have a turn, without a timer. Any executor knows what to do with it.
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
// # Waiting for a descriptor
//
// `await_readable` and `await_writable` of the original are **`await_ready`** here. It registers the descriptor,
// suspends, and deregisters when it ends: because the descriptor is ready, because the time is over, or because it was
// dropped. No data is read. One at a time can wait for an object.
//
// The other choice registers once and keeps the registration; then each wait only arms it.

// %%
/// A descriptor that is registered until this is dropped.
pub struct Registration<D: Design, S: AsFd> {
    event_loop: Rc<EventLoop<D>>,
    source: S,
    key: u64,
}

/// What the selector watches is about to change.
fn count_change<D: Design>() {
    D::Probe::add(Counter::Registrations, 1);
    D::Probe::add(Counter::SystemCalls, 1);
}

impl<D: Design, S: AsFd> Registration<D, S> {
    fn new(event_loop: &Rc<EventLoop<D>>, source: S, interest: Interest) -> io::Result<Self> {
        let key = event_loop.registry.borrow_mut().insert();
        count_change::<D>();
        if let Err(error) = event_loop.selector.add(source.as_fd(), key, interest) {
            event_loop.registry.borrow_mut().remove(key);
            return Err(error);
        }
        Ok(Self { event_loop: Rc::clone(event_loop), source, key })
    }

    /// What waits from now on.
    fn set_waiter(&self, waiter: Option<WaiterOf<D>>) {
        let mut registry = self.event_loop.registry.borrow_mut();
        let entry = registry.get(self.key).expect("the entry of an object that is registered");
        let old = mem::replace(&mut entry.waiter, waiter);
        drop(registry);
        drop_waiter(old);
    }

    /// Whether it was reported since its waiter began to wait.
    fn is_ready(&self) -> bool {
        self.event_loop.registry.borrow_mut().get(self.key).is_some_and(|entry| entry.ready)
    }
}

// %% [markdown]
// What was registered is forgotten with it.

// %%
impl<D: Design, S: AsFd> Drop for Registration<D, S> {
    fn drop(&mut self) {
        let entry = self.event_loop.registry.borrow_mut().remove(self.key);
        drop_waiter(entry.and_then(|entry| entry.waiter));
        count_change::<D>();
        // A descriptor that is closed has been forgotten already.
        _ = self.event_loop.selector.delete(self.source.as_fd());
    }
}

// %% [markdown]
// Both kinds of wait are the same future, with a registration that ends with it, or with one that is kept.

// %%
/// Ends when a registered descriptor is ready (`true`) or when time is up (`false`).
struct Readiness<'a, D: Design, S: AsFd> {
    of: &'a Registration<D, S>,
    timeout: Option<Duration>,
    timer: Option<Timer<D>>,
}

impl<D: Design, S: AsFd> Future for Readiness<'_, D, S> {
    type Output = bool;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<bool> {
        let Self { of, timeout, timer } = self.get_mut();
        let event_loop = &of.event_loop;
        if of.is_ready() {
            return Poll::Ready(true);
        }
        if timer.as_ref().is_some_and(Timer::has_fired) {
            return Poll::Ready(false);
        }
        of.set_waiter(Some(event_loop.waiter(context)));
        match (&timer, *timeout) {
            (Some(timer), _) => timer.replace(Some(event_loop.waiter(context))),
            (None, Some(time)) => *timer = Some(Timer::new(event_loop, time, event_loop.waiter(context))),
            (None, None) => {}
        }
        Poll::Pending
    }
}

// %% [markdown]
// A wait that is dropped leaves no slot to be woken. One with a registration that is kept arms it first.

// %%
impl<D: Design, S: AsFd> Drop for Readiness<'_, D, S> {
    fn drop(&mut self) {
        self.of.set_waiter(None);
    }
}

impl<D: Design, S: AsFd> Registration<D, S> {
    /// Waits until the object has what is of interest, at most for `timeout`: whether it has.
    ///
    /// # Errors
    /// Of the operating system.
    pub async fn ready(&mut self, interest: Interest, timeout: Option<Duration>) -> io::Result<bool> {
        if let Some(entry) = self.event_loop.registry.borrow_mut().get(self.key) {
            entry.ready = false;
        }
        count_change::<D>();
        self.event_loop.selector.change(self.source.as_fd(), self.key, interest)?;
        Ok(Readiness { of: self, timeout, timer: None }.await)
    }
}

// %% [markdown]
// So `await_ready` is a registration and one wait.

// %%
impl<D: Design> EventLoop<D> {
    /// Waits until `source` has what is of interest, at most for `timeout`: whether it has.
    ///
    /// # Errors
    /// Of the operating system, which watches neither plain files nor the same descriptor twice.
    pub async fn await_ready(
        self: &Rc<Self>,
        source: impl AsFd,
        interest: Interest,
        timeout: Option<Duration>,
    ) -> io::Result<bool> {
        let of = &Registration::new(self, source, interest)?;
        Ok(Readiness { of, timeout, timer: None }.await)
    }

    /// Registers `source`, for any number of waits, one after the other.
    ///
    /// # Errors
    /// As [`await_ready`](Self::await_ready).
    pub fn register<S: AsFd>(self: &Rc<Self>, source: S) -> io::Result<Registration<D, S>> {
        Registration::new(self, source, Interest::Nothing)
    }
}

// %% [markdown]
// # Among others that wait
//
// What a wait costs may depend on how many others wait that are never woken. Ten thousand descriptors are more than
// many systems allow at first.

// %%
/// Lets this process open so many descriptors.
///
/// # Panics
/// If it may not.
pub fn allow_descriptors(number: usize) {
    let (number, mut limit) = (number as u64, getrlimit(Resource::Nofile));
    if limit.current.is_some_and(|current| current < number) {
        limit.current = limit.maximum.map_or(Some(number), |maximum| Some(number.min(maximum)));
        setrlimit(Resource::Nofile, limit).expect("the limit may be raised up to its maximum");
    }
    let allowed = getrlimit(Resource::Nofile).current;
    assert!(allowed.is_none_or(|allowed| allowed >= number), "only {allowed:?} open files are allowed");
}

// %% [markdown]
// They are timers, or descriptors.

// %%
/// Timers that are not due for a long time.
pub fn idle_timers<D: Design>(event_loop: &Rc<EventLoop<D>>, number: usize) -> Vec<Wait<D>> {
    let idle = |number: usize| {
        let mut wait = event_loop.wait(Duration::from_secs(100_000) + Duration::from_millis(number as u64));
        assert!(Pin::new(&mut wait).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        wait
    };
    (0..number).map(idle).collect()
}

/// Registered descriptors that never get ready.
pub fn idle_descriptors<D: Design>(
    event_loop: &Rc<EventLoop<D>>,
    number: usize,
) -> Vec<Registration<D, OwnedFd>> {
    allow_descriptors(number + 1_000);
    let idle = |_| {
        let descriptor = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("a descriptor");
        Registration::new(event_loop, descriptor, Interest::Readable).expect("it can be watched")
    };
    (0..number).map(idle).collect()
}

// %% [markdown]
// # A glance
//
// Only the root waits: for a time that has come, for its turn, and for a descriptor that is ready. Choose
// other designs, or write a timer queue of your own, and run the cell again.

// %%
/// Waits for a descriptor that is made, and is ready.
pub async fn wait_for_descriptor<D: Design>(event_loop: &Rc<EventLoop<D>>) {
    let ready = eventfd(1, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("a descriptor");
    assert!(event_loop.await_ready(ready, Interest::Readable, None).await.expect("it can be watched"));
}

/// The root waits for what `wait` makes of its loop, next to so many timers that are not due.
pub fn root_waits<D: Design>(
    timers: usize,
    wait: impl AsyncFn(&Rc<EventLoop<D>>),
) -> impl Fn(&mut Bencher<'_>) {
    move |bencher| {
        let event_loop = Rc::new(EventLoop::<D>::new().expect("a selector"));
        let _timers = idle_timers(&event_loop, timers);
        bencher.iter(&mut || event_loop.block_on(wait(&event_loop), |_| unreachable!("no other slot")));
    }
}

// %% [markdown]
// Five waits of the root:

// %% tags=["active-ipynb", "glance"]
// harness::Glance::at("wait")
//     .look("for a time", root_waits::<Parts>(0, async |event_loop| event_loop.wait(Duration::ZERO).await))
//     .look("... next to 10,000 others", root_waits::<Parts>(10_000, async |event_loop| event_loop.wait(Duration::ZERO).await))
//     .look("... in a heap", root_waits::<Parts<ArcWakers, Heap>>(10_000, async |event_loop| event_loop.wait(Duration::ZERO).await))
//     .look("for its turn", root_waits::<Parts>(0, async |_| yield_now().await))
//     .look("for a descriptor", root_waits::<Parts>(0, wait_for_descriptor))
//     .show()

// %% [markdown]
// # What is promised
//
// Each promise, and each limit, has a test in [`tests`](../../rust-kernels/call-styles/event-loop/tests).
//
// | of | promise | test |
// |---|---|---|
// | `block_on` | the root is dropped when the loop runs no longer: its destructors may block | `the_root_is_dropped_when_the_loop_runs_no_longer` |
// | `Wakers` | wakes of other threads end the sleep of the loop | `wakes_of_other_threads_end_the_sleep_of_the_loop`, `no_wake_of_two_threads_is_lost` |
// | | a waker outlives its loop and does nothing then | `a_waker_may_outlive_its_loop` |
// | `Direct` | *limit:* a task that waits with another loop panics, and may wake a task there | `without_wakers_a_wait_with_another_loop_is_refused` |

// %% [markdown]
// # What next
//
// - [Two executors](executors.ipynb) put futures and fibers into the slots.
// - [Call styles](measure.ipynb) measures what a call costs on them.
