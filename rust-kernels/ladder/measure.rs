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
// [The first notebook of zero-cost](../zero-cost/measure.ipynb) compares bundles. Its `box` differs from its `nonbox` in
// five things at once, and its leanest async server takes about three times the instructions of the best loop
// without telling us where they go. This notebook takes the bundle apart. It has two parts:
//
// 1. **The frontier.** How close can plain `async fn`s, with real `Waker`s and a sound executor, come to the
//    loop that you would write by hand? We build that executor.
// 2. **The ladder.** From the frontier down to boxed futures with one `Arc` per task and a mutex around the
//    queue, in steps. Each step changes exactly one thing, so the difference between neighbours is the price
//    of that thing.
//
// When you have read it you can decide which habits of your own executor, or of the runtime you use, are
// worth fighting, and which are noise. Some of the answers are surprising in both directions.

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
// :dep harness = { path = "../../rust-kernels/harness" }
// :dep slab = "=0.4.12"
// :dep zero-cost = { path = "../../rust-kernels/zero-cost" }

// %% [markdown]
// The world is the one of the first notebook: its fake kernel, its ledger of operations, its probes and its
// proof of equal work come from there as a crate. Everything in that kernel is compiled out of line with
// opaque results, so it is the same closed door for every variant here.

// %%
use std::cell::{Cell, RefCell, UnsafeCell};
use std::collections::VecDeque;
use std::future::Future;
use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::num::NonZero;
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::slice;
use std::sync::Arc;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker, ready};

use harness::{Bencher, Counts, Key, Study, UnequalWork};
use slab::Slab;
use zero_cost::{
    CONNECTIONS, Counted, Counter, Drive, Event, FakeListener, FakePoll, FakeStream, LARGE_BUFFER, LINE,
    Load, NoWork, Probe, READABLE, SMALL_BUFFER, Source, Stats, Steps, TASKS, Timed, WRITABLE, Work, World,
    WouldBlock, prove_both,
};

// %% [markdown]
// Where threads meet, being right for years of running is no proof. So whatever several threads can touch comes
// through one module, which can be turned over to [loom](https://docs.rs/loom): a stand-in for these types that
// runs a test once for every order in which its threads could meet, and every value that an atomic could show.
// `tests/loom.rs` does that to the executor below, as it stands here.

// %%
/// What threads share: of the standard library, or of loom in builds with `--cfg under_loom`.
mod threads {
    #[cfg(under_loom)]
    pub use loom::{
        cell::Cell as OwnersCell,
        sync::Mutex,
        sync::atomic::{AtomicBool, AtomicU64, Ordering},
        thread::{self, Thread, ThreadId},
    };
    #[cfg(not(under_loom))]
    pub use std::{
        cell::Cell as OwnersCell,
        sync::Mutex,
        sync::atomic::{AtomicBool, AtomicU64, Ordering},
        thread::{self, Thread, ThreadId},
    };
}

use self::threads::{AtomicBool, AtomicU64, Mutex, Ordering, OwnersCell, Thread, ThreadId, thread};

// %% [markdown]
// ## Two loads
//
// The published load is a pipeline: the listener yields one client per poll, so at most three connections
// live at once, all state stays in the first-level cache, and every table could be tiny. That flatters
// everything that walks or allocates. So there is a second load, a **crowd**: all 256 clients knock at the
// same moment, and `accept` never blocks. Then 256 connections live at once, two polls serve them all, and
// each poll reports 256 events.

// %%
/// Where clients come from.
pub trait Door<S>: Source {
    /// Opens it. `stats` is a handle to the ledger.
    fn open(stats: S) -> Self;

    /// The next client.
    ///
    /// # Errors
    /// [`WouldBlock`] if nobody waits.
    fn accept(&self) -> Result<FakeStream<S>, WouldBlock>;
}

/// One client per poll, as published: at most three connections live at once.
impl<S: Clone + Deref<Target = Stats>> Door<S> for FakeListener<S> {
    fn open(stats: S) -> Self {
        Self::new(stats)
    }

    #[inline(always)]
    fn accept(&self) -> Result<FakeStream<S>, WouldBlock> {
        FakeListener::accept(self)
    }
}

// %%
/// A listener whose clients are all there already: connections live 256 at once.
pub struct Crowd<S>(FakeListener<S>);

impl<S> Source for Crowd<S> {
    fn token(&self) -> &Cell<Option<usize>> {
        self.0.token()
    }
}

impl<S: Clone + Deref<Target = Stats>> Door<S> for Crowd<S> {
    fn open(stats: S) -> Self {
        Self(FakeListener::new(stats))
    }

    /// Never blocks. The fake listener fails every other time, so each client costs two calls, in every
    /// variant.
    #[inline(always)]
    fn accept(&self) -> Result<FakeStream<S>, WouldBlock> {
        self.0.accept().or_else(|WouldBlock| self.0.accept())
    }
}

// %% [markdown]
// All variants look for the end of the line with the same function, and zero their buffer.

// %%
/// Whether `received` holds a whole request. Looks from the end, where a line has its end.
#[inline]
fn holds_line(received: &[u8]) -> bool {
    received.iter().rev().any(|&byte| byte == b'\n')
}

// %% [markdown]
// # The loop to beat
//
// It is the best loop that I can write: the events of the poller are the work list, the connections live in a
// fixed array, and a connection that was just accepted is stepped at once. It differs from `manual (best)` of
// the first notebook in two things: it can do work per request, and its connections carry no readiness flags,
// which nobody read.

// %%
/// A connection of the hand-written server.
struct Peer<'s> {
    stream: FakeStream<&'s Stats>,
    buffer: [u8; SMALL_BUFFER],
    /// Bytes of `buffer` that were received.
    filled: usize,
    /// Bytes of `buffer` that were sent back.
    sent: usize,
    /// Whether the whole line is there, and its work done.
    answering: bool,
}

impl<'s> Peer<'s> {
    #[inline]
    fn new<P: Probe>(stream: FakeStream<&'s Stats>) -> Self {
        P::add(Counter::ZeroedBytes, SMALL_BUFFER);
        Self { stream, buffer: [0; SMALL_BUFFER], filled: 0, sent: 0, answering: false }
    }

    /// Goes as far as possible without waiting; true when all is sent.
    #[inline(always)]
    fn step<W: Work, P: Probe>(&mut self, work: W) -> bool {
        if !self.answering {
            loop {
                let Ok(length) = self.stream.read(&mut self.buffer[self.filled..]) else { return false };
                self.filled += length;
                if holds_line(&self.buffer[..self.filled]) {
                    break;
                }
            }
            work.perform();
            self.answering = true;
        }
        loop {
            let Ok(length) = self.stream.write(&self.buffer[self.sent..self.filled]) else { return false };
            self.sent += length;
            if self.sent == self.filled {
                P::add(Counter::Transactions, 1);
                return true;
            }
        }
    }
}

// %%
/// The poller key of the listener; connection `slot` has the key `slot + 1`.
const LISTENER: usize = 0;

/// Serves [`CONNECTIONS`] clients, one request each, without anything that deserves a name.
pub struct Loop<'s, D, W, P> {
    stats: &'s Stats,
    poll: FakePoll<&'s Stats>,
    peers: Box<[Option<Peer<'s>>; CONNECTIONS]>,
    /// Vacant slots of `peers`; the first `vacancies` entries count.
    vacant: [u8; CONNECTIONS],
    vacancies: usize,
    work: W,
    kind: PhantomData<(D, P)>,
}

impl<'s, D: Door<&'s Stats>, W: Work, P: Probe> Loop<'s, D, W, P> {
    pub fn new(stats: &'s Stats, work: W) -> Self {
        Self {
            stats,
            poll: FakePoll::new(stats, TASKS),
            peers: Box::new([const { None }; CONNECTIONS]),
            // There are as many slots as values of a byte, so no slot number needs a bounds check.
            vacant: std::array::from_fn(|slot| slot as u8),
            vacancies: CONNECTIONS,
            work,
            kind: PhantomData,
        }
    }
}

// %%
impl<'s, D: Door<&'s Stats>, W: Work, P: Probe> Loop<'s, D, W, P> {
    /// Puts a stream into a vacant slot and lets it try.
    fn open(&mut self, stream: FakeStream<&'s Stats>) {
        self.vacancies -= 1;
        let slot = self.vacant[self.vacancies];
        P::peak(Counter::PeakConnections, CONNECTIONS - self.vacancies);
        P::peak(Counter::PeakRegistrations, CONNECTIONS - self.vacancies + 1);
        let peer = self.peers[slot as usize].insert(Peer::new::<P>(stream));
        self.poll.register(&peer.stream, slot as usize + 1, READABLE | WRITABLE);
        self.step(slot);
    }

    /// Lets the connection in `slot` go as far as it can; vacates the slot if that is the end.
    #[inline(always)]
    fn step(&mut self, slot: u8) {
        let place = &mut self.peers[slot as usize];
        let peer = place.as_mut().expect("an event of a connection that was closed");
        if peer.step::<W, P>(self.work) {
            self.poll.unregister(&peer.stream);
            *place = None;
            self.vacant[self.vacancies] = slot;
            self.vacancies += 1;
        }
    }

    /// Accepts until that would block, or all are accepted: then nobody needs to hear of the listener again.
    fn accept(&mut self, listener: &D, left: &mut usize) {
        while *left > 0 {
            let Ok(stream) = listener.accept() else { return };
            self.open(stream);
            *left -= 1;
        }
        self.poll.unregister(listener);
    }

    /// Serves them all. `events` is memory to use.
    pub fn run(&mut self, events: &mut Vec<Event>) {
        let listener = D::open(self.stats);
        self.poll.register(&listener, LISTENER, READABLE);
        let mut left = CONNECTIONS;
        // Somebody may wait already: so begins the only place that accepts.
        events.clear();
        events.push(Event { key: LISTENER, ready: READABLE });
        loop {
            for event in events.iter() {
                match event.key {
                    LISTENER => self.accept(&listener, &mut left),
                    key => self.step((key - 1) as u8),
                }
            }
            if left == 0 && self.vacancies == CONNECTIONS {
                return;
            }
            self.poll.poll(events);
            P::add(Counter::Events, events.len());
        }
    }
}

// %%
/// The world of the hand-written loop.
pub fn by_hand<D: OpensDoors, W: Work, P: Probe>(load: Load, drive: Drive<'_>) {
    let stats = Stats::new(load.syscalls);
    let mut server = Loop::<D::Door<&Stats>, W, P>::new(&stats, W::under(load));
    let mut events = Vec::with_capacity(TASKS);
    drive(&stats, &mut || server.run(&mut events));
}

/// A kind of [`Door`], whatever the handle to the ledger.
pub trait OpensDoors: 'static {
    type Door<S: Clone + Deref<Target = Stats>>: Door<S>;
}

/// At most three connections at once.
pub enum Pipeline {}

impl OpensDoors for Pipeline {
    type Door<S: Clone + Deref<Target = Stats>> = FakeListener<S>;
}

/// All connections at once.
pub enum AtOnce {}

impl OpensDoors for AtOnce {
    type Door<S: Clone + Deref<Target = Stats>> = Crowd<S>;
}

// %% [markdown]
// ## What no server can do without
//
// Most of what the loop does is done inside the fake system, by every server alike, so a ratio to the loop says as much
// about the fake as about async. To tell the two apart we need the fake alone: the same operations on as many live
// connections, in an order that is known beforehand, so that nobody has to find out whose turn it is. That is no server, but
// what is left when it is taken off is the server.

// %%
/// The world without a server: the operations of the pipeline.
pub fn fake_alone<P: Probe>(load: Load, drive: Drive<'_>) {
    let stats = Stats::new(load.syscalls);
    let poll: FakePoll<&Stats> = FakePoll::new(&stats, TASKS);
    let mut events = Vec::with_capacity(TASKS);
    let mut buffer = [0; SMALL_BUFFER];
    drive(&stats, &mut || {
        let listener: FakeListener<&Stats> = FakeListener::new(&stats);
        poll.register(&listener, LISTENER, READABLE);
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
                poll.register(stream, LISTENER + 1, READABLE | WRITABLE);
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
// # The frontier
//
// What does `async` need that the loop has not? Somebody must remember which task waits for which object,
// somebody must find the task again, and a `Waker` must be able to reach both from anywhere. The trick is to
// pay for "from anywhere" only when somebody comes from anywhere.
//
// ## A block for everything that wakers touch
//
// A `Waker` may be cloned, kept for years and used on any thread. The usual answer is to count clones, and
// counting is what we want to avoid: this load binds 768 wakers per run. But what *is* a waker's message?
// "Poll task 17 of that executor". If the executor's flags live at an address that is a multiple of 1024,
// then address plus 17 says it all: one word, nothing to count, so cloning and dropping do nothing.
//
// For that, the flags must outlive every waker, and since we do not count, we cannot know when the last one
// has gone. So a block of flags is never freed. It goes into a pool when its executor goes, and the next
// executor takes it out again. A program leaks as many blocks of 1 KiB as it has executors *at the same time*.

// %%
/// Number of the task that runs the others; tasks of the pool have smaller numbers.
const ROOT: usize = CONNECTIONS;
/// Words of 64 flags, more than enough for [`TASKS`] flags; a power of two, so that a masked index needs no
/// check.
const WORDS: usize = 8;
/// Wakers point to a block plus a task number, so a block begins at a multiple of a power of two above
/// [`TASKS`].
const TASK_MASK: usize = 1023;

/// What wakers touch. Lives for ever.
#[repr(align(1024))]
struct Block {
    /// Tasks woken by the owner's thread: flag `task % 64` of word `task / 64`.
    ready: [OwnersCell<u64>; WORDS],
    /// Flag `word` says that `ready[word]` is not zero.
    summary: OwnersCell<u64>,
    /// The task whose flag was taken last. The search goes on behind it, so that each has its turn.
    cursor: OwnersCell<usize>,
    /// Number of the thread that may use the cells, 0 while the block is in the pool.
    owner: AtomicU64,
    /// Tasks woken by other threads, as in `ready`.
    remote: [AtomicU64; WORDS],
    /// True from such a wake until the owner fetches `remote`.
    any_remote: AtomicBool,
    /// The owner's thread while it runs tasks, and so may be asleep.
    sleeper: Mutex<Option<Thread>>,
}

// SAFETY: `ready`, `summary` and `cursor` are used by the owner's thread only, which every way to them checks: wakes
// look at `owner`, and `OwnedBlock` cannot leave its thread. The other fields may be shared as they are.
unsafe impl Sync for Block {}

// %% [markdown]
// Threads get a number of their own, because the address of a thread-local variable, the usual choice, can
// be reused by the next thread.

// %%
/// A number that no other thread has, or ever had; not 0.
fn thread_number() -> u64 {
    // Not loom's, which may not be static: numbers need no order but their own.
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    #[cfg(not(under_loom))]
    thread_local! {
        static MINE: Cell<u64> = const { Cell::new(0) };
    }
    #[cfg(under_loom)]
    loom::thread_local! {
        static MINE: Cell<u64> = Cell::new(0);
    }
    MINE.with(|mine| {
        if mine.get() == 0 {
            mine.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        mine.get()
    })
}

// %% [markdown]
// The flags are a bitmap with a summary word on top, so that "who is next?" is answered by two bit scans. The
// scan goes round and round. If it began at the bottom each time, a low task that always wakes itself would
// lock out the rest.

// %%
impl Block {
    /// Flags a task. Only for the owner's thread.
    #[inline]
    fn wake(&self, task: usize) {
        let word = task / 64 % WORDS;
        self.ready[word].set(self.ready[word].get() | 1 << (task % 64));
        self.summary.set(self.summary.get() | 1 << word);
    }

    /// Takes the next flag off and returns its task. Only for the owner's thread.
    #[inline]
    fn take_ready(&self) -> Option<usize> {
        if self.summary.get() == 0 { None } else { Some(self.take_next()) }
    }

    /// The same, when there is a flag.
    fn take_next(&self) -> usize {
        let start = self.cursor.get() + 1;
        let word = start / 64 % WORDS;
        let here = self.ready[word].get() & u64::MAX << (start % 64);
        let (word, flags) = if here != 0 {
            (word, here)
        } else {
            // The nearest word with flags: behind this one, or else from the beginning.
            let behind = self.summary.get() & u64::MAX << word << 1;
            let summary = if behind != 0 { behind } else { self.summary.get() };
            let word = summary.trailing_zeros() as usize % WORDS;
            (word, self.ready[word].get())
        };
        let task = word * 64 + flags.trailing_zeros() as usize;
        self.cursor.set(task);
        let rest = self.ready[word].get() & !(1 << (task % 64));
        self.ready[word].set(rest);
        if rest == 0 {
            self.summary.set(self.summary.get() & !(1 << word));
        }
        task
    }

    /// Takes the flag of the highest task off: shorter, but not fair. For the ladder, and the owner's thread.
    #[inline(always)]
    fn take_highest(&self) -> Option<usize> {
        let word = NonZero::new(self.summary.get())?.ilog2() as usize % WORDS;
        let bit = NonZero::new(self.ready[word].get())?.ilog2() as usize;
        let rest = self.ready[word].get() & !(1 << bit);
        self.ready[word].set(rest);
        if rest == 0 {
            self.summary.set(self.summary.get() & !(1 << word));
        }
        Some(word * 64 + bit)
    }
}

// %% [markdown]
// Other threads have a bitmap of their own, of atomics, and a flag over it. They set the bit, then the flag,
// and then end the owner's sleep; the owner takes the flag off first and the bits afterwards. Whichever way
// the two meet, no wake is lost.

// %%
impl Block {
    /// Flags a task, on any thread.
    #[cold]
    fn wake_remotely(&self, task: usize) {
        self.remote[task / 64 % WORDS].fetch_or(1 << (task % 64), Ordering::Release);
        // Not a store: that would hide the flag of a third thread, and with it the bit that it set before.
        self.any_remote.swap(true, Ordering::Release);
        // Flag first, unpark second: the owner looks for flags after each sleep.
        if let Some(sleeper) = &*self.sleeper.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            sleeper.unpark();
        }
    }

    /// Moves the wakes of other threads to our own flags; false if there are none. Only for the owner's
    /// thread.
    #[cold]
    fn fetch_remote(&self) -> bool {
        // A wake that comes after this line raises the flag again, so none is lost.
        let any = self.any_remote.swap(false, Ordering::Acquire);
        for (word, remote) in self.remote.iter().enumerate() {
            let flags = remote.swap(0, Ordering::Acquire);
            if flags != 0 {
                self.ready[word].set(self.ready[word].get() | flags);
                self.summary.set(self.summary.get() | 1 << word);
            }
        }
        any
    }
}

// %% [markdown]
// And now the waker itself. It is small because everything was prepared: `clone` and `drop` have nothing to
// do. A wake asks whose thread this is, once, and takes the short way or the long way. A wake for a task that
// has finished flags a vacant slot, which the executor will pass over, or its next tenant, who is then polled
// once too often: every future must bear that.

// %%
/// The functions of the frontier's wakers.
struct AddressWaker;

impl AddressWaker {
    const VTABLE: RawWakerVTable = RawWakerVTable::new(Self::clone, Self::wake, Self::wake, Self::drop);

    /// The waker of `task`.
    fn waker(block: &'static Block, task: usize) -> Waker {
        let data = ptr::from_ref(block).wrapping_byte_add(task).cast();
        // SAFETY: blocks live for ever, and task numbers are smaller than a block is long, so `data` is
        // valid, today and on whatever thread. The functions keep the contract of `Waker` on all threads.
        unsafe { Waker::new(data, &Self::VTABLE) }
    }

    fn clone(data: *const ()) -> RawWaker {
        RawWaker::new(data, &Self::VTABLE)
    }

    fn drop(_: *const ()) {}

    /// # Safety
    /// `data` points to a block plus a task number.
    unsafe fn wake(data: *const ()) {
        let task = data.addr() & TASK_MASK;
        let block = data.map_addr(|address| address & !TASK_MASK).cast::<Block>();
        // SAFETY: that is how the caller's pointer was made; blocks are aligned to TASK_MASK + 1 and live for
        // ever.
        let block = unsafe { &*block };
        // Only this thread could write its own number there, so what it reads is up to date if it matters.
        if block.owner.load(Ordering::Relaxed) == thread_number() {
            block.wake(task);
        } else {
            block.wake_remotely(task);
        }
    }
}

// %%
/// Blocks that nobody owns.
fn pool() -> &'static Mutex<Vec<&'static Block>> {
    #[cfg(not(under_loom))]
    static POOL: Mutex<Vec<&Block>> = Mutex::new(Vec::new());
    // What loom makes lives for one of its executions.
    #[cfg(under_loom)]
    loom::lazy_static! {
        static ref POOL: Mutex<Vec<&'static Block>> = Mutex::new(Vec::new());
    }
    &POOL
}

/// A block that this thread owns; goes back to the pool when dropped.
struct OwnedBlock {
    block: &'static Block,
    /// Wakes on this thread write cells, so the owner must stay here.
    not_send: PhantomData<*const ()>,
}

impl OwnedBlock {
    fn obtain() -> Self {
        let pooled = pool().lock().unwrap_or_else(|poisoned| poisoned.into_inner()).pop();
        let block = pooled.unwrap_or_else(Self::leak);
        block.owner.store(thread_number(), Ordering::Relaxed);
        Self { block, not_send: PhantomData }
    }

    /// A new block, for ever.
    fn leak() -> &'static Block {
        Box::leak(Box::new(Block {
            ready: Default::default(),
            summary: OwnersCell::new(0),
            cursor: OwnersCell::new(0),
            owner: AtomicU64::new(0),
            remote: Default::default(),
            any_remote: AtomicBool::new(false),
            sleeper: Mutex::new(None),
        }))
    }
}

impl Drop for OwnedBlock {
    fn drop(&mut self) {
        // Late wakes from other threads may still come. They flag nothing worse than a task of the next
        // owner.
        self.block.fetch_remote();
        while self.block.take_ready().is_some() {}
        self.block.owner.store(0, Ordering::Relaxed);
        pool().lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(self.block);
    }
}

// %% [markdown]
// ## Memory that is known by its address
//
// Below, wakers, events and lists refer to tasks and objects by their addresses. A `Box` would not do for what they refer to:
// who moves a box promises that nobody else knows its content.

// %%
/// A box whose content is shared by address while the box is moved.
struct AliasableBox<T>(NonNull<T>);

impl<T> AliasableBox<T> {
    fn new(value: T) -> Self {
        Self(NonNull::from(Box::leak(Box::new(value))))
    }
}

impl<T> Deref for AliasableBox<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: allocated by `new` and freed by `drop`.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Drop for AliasableBox<T> {
    fn drop(&mut self) {
        // SAFETY: it came from a box.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

// %% [markdown]
// ## What is known of a task
//
// Besides its future a task is a waker, a number, and how far it has come. The context of a poll refers to the
// waker *in this very place*, which is how the reactor will recognise it.

// %%
/// How far a task has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// There is none, or it has finished.
    Vacant,
    /// It was never polled. Until its turn comes, wakes pass it over.
    New,
    /// It was polled, or is about to be.
    Started,
    /// It is the root.
    Root,
}

/// A task without its future.
#[repr(C)]
struct Task {
    /// First, so that its address is that of the task.
    waker: ManuallyDrop<Waker>,
    stage: Cell<Stage>,
    number: u32,
}

// %% [markdown]
// ## A reactor that remembers tasks
//
// In the published design each operation puts a clone of its task's waker into the reactor, each event takes
// it out and calls it, and each finished operation looks whether there is one left to throw away. But almost
// always it is a waker of the very executor that this reactor serves, and all that it says is "poll the task that
// was being polled". So the executor leaves the address of that task with the reactor, and the reactor notes it for
// the object. Any other waker, be it one of `join!` or `select!` or a clone of our own, has another address;
// it is cloned and kept in the usual way.
//
// One word per object then holds all that there is to know.

// %%
/// The word of an object for which nobody waits: an operation may be tried.
const NOBODY: *const Task = ptr::null();
/// The word of an object for which a foreign waker waits. All larger words are addresses of tasks.
const FOREIGN: *const Task = ptr::without_provenance(1);

/// What the reactor knows of one I/O object.
pub struct Entry {
    /// [`NOBODY`], [`FOREIGN`] or the task that waits. Nobody waits for a vacant entry.
    waits: Cell<*const Task>,
    /// The waker, if it is not one of ours. One that was superseded by a task of ours stays here until another takes its place.
    foreign: Cell<Option<Waker>>,
    /// While vacant, the next vacant entry.
    next_vacant: Cell<*const Entry>,
    /// The reactor, while an object is registered. Its type is that of the object, see [`Watched`].
    reactor: Cell<*const ()>,
    /// The stream, if the object is one. Initialised while there is a `Watched<InEntry>` of this entry, which
    /// knows the true lifetime.
    stream: UnsafeCell<MaybeUninit<FakeStream<&'static Stats>>>,
}

impl Entry {
    fn new() -> Self {
        Self {
            waits: Cell::new(NOBODY),
            foreign: Cell::new(None),
            next_vacant: Cell::new(ptr::null()),
            reactor: Cell::new(ptr::null()),
            stream: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }
}

// %%
/// Knows which task waits for which object. One executor at a time can be attached to it.
pub struct Reactor<'s, P> {
    poll: FakePoll<&'s Stats>,
    stats: &'s Stats,
    /// The poller knows them by their addresses.
    entries: AliasableBox<[Entry; TASKS]>,
    first_vacant: Cell<*const Entry>,
    /// Objects registered.
    objects: Cell<usize>,
    /// The task that the attached executor is polling, or has polled last; null while it does not run.
    polled: Cell<*const Task>,
    attached: Cell<bool>,
    probe: PhantomData<P>,
}

impl<'s, P: Probe> Reactor<'s, P> {
    /// A reactor for at most [`TASKS`] objects.
    pub fn new(stats: &'s Stats) -> Self {
        let entries = AliasableBox::new(std::array::from_fn(|_| Entry::new()));
        for pair in entries.windows(2) {
            pair[0].next_vacant.set(&raw const pair[1]);
        }
        Self {
            poll: FakePoll::new(stats, TASKS),
            stats,
            first_vacant: Cell::new(&raw const entries[0]),
            entries,
            objects: Cell::new(0),
            polled: Cell::new(ptr::null()),
            attached: Cell::new(false),
            probe: PhantomData,
        }
    }

    /// The entry of the next object to be registered.
    ///
    /// # Panics
    /// If there are [`TASKS`] objects already.
    #[inline]
    fn vacant_entry(&self) -> &Entry {
        // SAFETY: the list of vacant entries has our own entries only, and ends with null.
        unsafe { self.first_vacant.get().as_ref() }.expect("the reactor is full")
    }

    /// Watches `source`.
    ///
    /// # Panics
    /// If `source` is registered already.
    #[inline]
    fn register(&self, source: &impl Source, entry: &Entry, interest: u8) {
        // Off the list first: `source` is foreign code, and may register another.
        self.first_vacant.set(entry.next_vacant.get());
        self.poll.register(source, (&raw const *entry).expose_provenance(), interest);
        entry.reactor.set(ptr::from_ref(self).cast());
        self.objects.set(self.objects.get() + 1);
        P::peak(Counter::PeakRegistrations, self.objects.get());
        P::peak(Counter::PeakConnections, self.objects.get() - 1); // all but the listener
    }

    /// The entry of the object to which an event belongs. If that was unregistered a moment ago, the entry is vacant and nobody waits, or it has
    /// a new object, whose task is polled once in vain.
    #[inline]
    fn entry(&self, event: &Event) -> &Entry {
        // SAFETY: only `register` gives keys to our poller, and entries live as long as the reactor.
        unsafe { &*ptr::with_exposed_provenance(event.key) }
    }

    /// Forgets `source`, whose entry this is. Returns the foreign waker that is kept for it: dropping it runs
    /// foreign code, which may do with this reactor what it likes, so the caller must not borrow from it any more.
    #[inline]
    #[must_use]
    fn unregister(&self, source: &impl Source, entry: &Entry) -> Option<Waker> {
        self.poll.unregister(source);
        entry.waits.set(NOBODY);
        entry.next_vacant.set(self.first_vacant.replace(entry));
        self.objects.set(self.objects.get() - 1);
        // SAFETY: the reference lives no longer than this expression.
        if unsafe { (*entry.foreign.as_ptr()).is_some() } { entry.foreign.take() } else { None }
    }

    /// The executor goes, and its tasks with it: nobody waits any more.
    fn detach(&self) {
        for entry in self.entries.iter().filter(|entry| entry.waits.get() > FOREIGN) {
            entry.waits.set(NOBODY);
        }
        self.attached.set(false);
    }
}

// %% [markdown]
// ### Waiting
//
// An operation is tried first and waits only if it must: no look-up, no binding, nothing to unbind. There is
// at most one operation per object at a time, since reading and writing borrow the stream mutably; so one
// waiting task per object is enough, and the last one to ask is the right one.

// %%
impl<P: Probe> Reactor<'_, P> {
    /// The object's next event wakes the task behind `context`.
    #[inline]
    fn wait(&self, entry: &Entry, context: &Context<'_>) {
        let task = self.polled.get();
        // A task's waker has the address of the task, and nobody else refers to it there.
        if ptr::eq(context.waker(), task.cast()) {
            entry.waits.set(task);
        } else {
            Self::wait_foreign(entry, context.waker());
        }
    }

    /// Keeps a waker that is not one of the executor's.
    #[cold]
    fn wait_foreign(entry: &Entry, waker: &Waker) {
        P::add(Counter::WakerClones, 1);
        // Foreign code runs in `clone` and `drop`, and may do with this reactor what it likes: we hold no
        // borrow.
        let clone = waker.clone();
        entry.waits.set(FOREIGN);
        drop(entry.foreign.replace(Some(clone)));
    }
}

// %% [markdown]
// ### Where the object is
//
// A file descriptor is an integer; a fake stream is 32 bytes. To hand it from `accept` to `spawn` to the
// future would mean copying it three times, once right after half of it was written, which makes the
// processor wait. So streams live in their entries, and what travels is a pointer. A listener does not travel
// and stays with its owner.

// %%
/// Where an object is that has an entry.
pub trait Place {
    type Object: Source;

    /// The object itself.
    ///
    /// # Safety
    /// `entry` is the one that was entered for this place.
    unsafe fn object<'a>(&'a self, entry: &'a Entry) -> &'a Self::Object;
}

/// With its owner.
pub struct Here<T>(T);

impl<T: Source> Place for Here<T> {
    type Object = T;

    #[inline(always)]
    unsafe fn object<'a>(&'a self, _: &'a Entry) -> &'a T {
        &self.0
    }
}

/// A stream, in its entry.
pub struct InEntry<'r>(PhantomData<&'r Stats>);

impl<'r> Place for InEntry<'r> {
    type Object = FakeStream<&'r Stats>;

    #[inline(always)]
    unsafe fn object<'a>(&'a self, entry: &'a Entry) -> &'a FakeStream<&'r Stats> {
        // SAFETY: the caller's entry was given a stream of this type before `self` was made, see
        // `Watched::in_entry`, and it is not given another one before `self` is gone.
        unsafe { &*entry.stream.get().cast() }
    }
}

// %% [markdown]
// An object with its entry can be made in those two ways. From then on they are alike.

// %%
/// An I/O object with its entry in the reactor. Unregisters when dropped.
struct Watched<'r, L: Place, P: Probe> {
    entry: &'r Entry,
    place: L,
    reactor: PhantomData<&'r Reactor<'r, P>>,
}

impl<'r, T: Source, P: Probe> Watched<'r, Here<T>, P> {
    fn here(reactor: &'r Reactor<'r, P>, object: T, interest: u8) -> Self {
        let entry = reactor.vacant_entry();
        reactor.register(&object, entry, interest);
        Self { entry, place: Here(object), reactor: PhantomData }
    }
}

impl<'r, P: Probe> Watched<'r, InEntry<'r>, P> {
    #[inline]
    fn in_entry(reactor: &'r Reactor<'r, P>, stream: FakeStream<&'r Stats>, interest: u8) -> Self {
        let entry = reactor.vacant_entry();
        // SAFETY: nobody refers to the content of a vacant entry. The type differs in the lifetime only, and
        // the place that we return remembers the true one.
        let stream = unsafe {
            let place = entry.stream.get().cast::<FakeStream<&'r Stats>>();
            place.write(stream);
            &*place
        };
        reactor.register(stream, entry, interest);
        Self { entry, place: InEntry(PhantomData), reactor: PhantomData }
    }
}

impl<'r, L: Place, P: Probe> Watched<'r, L, P> {
    #[inline(always)]
    fn reactor(&self) -> &'r Reactor<'r, P> {
        // SAFETY: it was given to `register` when `self` was made, and is borrowed as long as there is `self`.
        unsafe { &*self.entry.reactor.get().cast() }
    }

    #[inline(always)]
    fn object(&self) -> &L::Object {
        // SAFETY: both were made together.
        unsafe { self.place.object(self.entry) }
    }
}

impl<L: Place, P: Probe> Drop for Watched<'_, L, P> {
    #[inline]
    fn drop(&mut self) {
        drop(self.reactor().unregister(self.object(), self.entry));
    }
}

// %% [markdown]
// ### An operation
//
// An operation is one call, tried when it may succeed. Waiting for it is all that its future is for.

// %%
impl<L: Place, P: Probe> Watched<'_, L, P> {
    /// Tries `call`, unless somebody waits for the object already; if it would block, its next event wakes the task behind `context`.
    #[inline(always)]
    fn poll<Out>(
        &self,
        context: &Context<'_>,
        call: impl FnOnce(&L::Object) -> Result<Out, WouldBlock>,
    ) -> Poll<Out> {
        P::add(Counter::OperationPolls, 1);
        if self.entry.waits.get() != NOBODY {
            P::add(Counter::NotReadyPolls, 1);
        } else if let Ok(outcome) = call(self.object()) {
            return Poll::Ready(outcome);
        }
        self.reactor().wait(self.entry, context);
        Poll::Pending
    }
}

// %%
/// Tries an I/O call whenever its object may be ready, until it does not block.
struct Attempt<'a, 'r, L: Place, P: Probe, Call> {
    watched: &'a Watched<'r, L, P>,
    call: Call,
}

impl<L: Place, P: Probe, Call, Out> Future for Attempt<'_, '_, L, P, Call>
where
    Call: FnMut(&L::Object) -> Result<Out, WouldBlock> + Unpin,
{
    type Output = Out;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Out> {
        let Self { watched, call } = self.get_mut();
        watched.poll(context, call)
    }
}

// %% [markdown]
// ### Listener and stream
//
// Their shape is the usual one. The server below is written against a trait, so that its text is the same for
// every runtime of this notebook.

// %%
/// A stream of lines, as the server sees it.
pub trait Line {
    /// Reads into the start of `buffer`; the number of bytes that came.
    fn read<'a>(&'a mut self, buffer: &'a mut [u8]) -> impl Future<Output = usize> + 'a;

    /// Writes from the start of `bytes`; the number of bytes that went.
    fn write<'a>(&'a mut self, bytes: &'a [u8]) -> impl Future<Output = usize> + 'a;
}

/// A registered stream; unregisters when dropped. Where it is, is a switch of the ladder.
pub struct Stream<'r, P: Probe, L: Place = InEntry<'r>>(Watched<'r, L, P>);

impl<'r, P: Probe, L: Place<Object = FakeStream<&'r Stats>>> Line for Stream<'r, P, L> {
    #[inline]
    fn read<'a>(&'a mut self, buffer: &'a mut [u8]) -> impl Future<Output = usize> + 'a {
        Attempt { watched: &self.0, call: |stream: &FakeStream<_>| stream.read(buffer) }
    }

    #[inline]
    fn write<'a>(&'a mut self, bytes: &'a [u8]) -> impl Future<Output = usize> + 'a {
        Attempt { watched: &self.0, call: |stream: &FakeStream<_>| stream.write(bytes) }
    }
}

// %%
/// A registered listener; unregisters when dropped.
pub struct Listener<'r, D: Door<&'r Stats>, P: Probe>(Watched<'r, Here<D>, P>);

impl<'r, D: Door<&'r Stats>, P: Probe> Listener<'r, D, P> {
    /// Opens a door.
    ///
    /// # Panics
    /// If the reactor has [`TASKS`] objects already.
    pub fn new(reactor: &'r Reactor<'r, P>) -> Self {
        Self(Watched::here(reactor, D::open(reactor.stats), READABLE))
    }

    /// The next client, registered already.
    ///
    /// # Panics
    /// As [`new`](Self::new), when polled.
    #[inline]
    pub fn accept(&mut self) -> impl Future<Output = Stream<'r, P>> {
        let reactor = self.0.reactor();
        let call =
            move |door: &D| Ok(Stream(Watched::in_entry(reactor, door.accept()?, READABLE | WRITABLE)));
        Attempt { watched: &self.0, call }
    }
}

// %% [markdown]
// ## An executor for one kind of task, and a root
//
// A server has one task that accepts and many that serve. The published executor puts both into one
// enum-driven future, so each poll asks twice what it is polling. Here the future of every *served*
// connection has one type and lives in the pool; the accepting task is the **root**, which lives on the stack
// of `run` and may be of any type. That also unties the published program's knot: the root knows the
// executor, but is not stored in it.
//
// (When tasks must be of many types, let the pool's type be `Pin<Box<dyn Future>>`. That price is on the
// ladder.)

// %%
/// A place for a task of the pool.
#[repr(C)]
struct Slot<F> {
    /// First, so that its address is that of the slot.
    task: Task,
    /// The next slot in the list of vacant ones, or of those whose tasks are new.
    next: Cell<*const Slot<F>>,
    /// Initialised while the task is new or started.
    future: UnsafeCell<MaybeUninit<F>>,
}

// %% [markdown]
// The executor allocates its slots once, and neither a spawn nor a poll nor an end allocates again. They are never
// moved, for a task's address is what reactor and lists know of it.

// %%
/// Runs one root future and up to [`CONNECTIONS`] futures of type `F`. `QUEUED` is a switch of the ladder.
pub struct Frontier<'r, F, P: Probe, const QUEUED: bool = false> {
    reactor: &'r Reactor<'r, P>,
    block: OwnedBlock,
    /// One for each task. The last one is the root's, never holds a future, and is the head of the list of new tasks.
    slots: ManuallyDrop<AliasableBox<[Slot<F>; TASKS]>>,
    first_vacant: Cell<*const Slot<F>>,
    /// The youngest task that was not polled yet, or else the root.
    last_new: Cell<*const Slot<F>>,
    /// Unfinished tasks of the pool.
    tasks: Cell<usize>,
    /// How many tasks may be polled, for another reason than an event, before the reactor polls.
    patience: Cell<usize>,
    running: Cell<bool>,
    /// Memory for the events of one poll, between runs.
    events: Cell<Vec<Event>>,
}

impl<'r, F: Future<Output = ()>, P: Probe, const QUEUED: bool> Frontier<'r, F, P, QUEUED> {
    fn attach(reactor: &'r Reactor<'r, P>) -> Self {
        assert!(!reactor.attached.replace(true), "this reactor has an executor");
        let block = OwnedBlock::obtain();
        let vacant = |number| Slot {
            task: Task {
                waker: ManuallyDrop::new(AddressWaker::waker(block.block, number)),
                stage: Cell::new(Stage::Vacant),
                number: number as u32,
            },
            next: Cell::new(ptr::null()),
            future: UnsafeCell::new(MaybeUninit::uninit()),
        };
        let slots: AliasableBox<[Slot<F>; TASKS]> = AliasableBox::new(std::array::from_fn(vacant));
        for pair in slots[..ROOT].windows(2) {
            pair[0].next.set(&raw const pair[1]);
        }
        Self {
            reactor,
            block,
            first_vacant: Cell::new(&raw const slots[0]),
            last_new: Cell::new(&raw const slots[ROOT]),
            slots: ManuallyDrop::new(slots),
            tasks: Cell::new(0),
            patience: Cell::new(0),
            running: Cell::new(false),
            events: Cell::new(Vec::with_capacity(TASKS)),
        }
    }
}

impl<'r, F: Future<Output = ()>, P: Probe> Frontier<'r, F, P> {
    /// An executor whose tasks use `reactor`.
    ///
    /// # Panics
    /// If an executor uses it already.
    pub fn new(reactor: &'r Reactor<'r, P>) -> Self {
        Self::attach(reactor)
    }
}

impl<F, P: Probe, const QUEUED: bool> Frontier<'_, F, P, QUEUED> {
    /// Unfinished tasks of the pool.
    pub fn len(&self) -> usize {
        self.tasks.get()
    }

    /// Whether the pool has no unfinished task.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The slot that a list refers to.
    #[inline(always)]
    fn slot(&self, listed: *const Slot<F>) -> Option<&Slot<F>> {
        // SAFETY: all lists are of our slots, and end with null.
        unsafe { listed.as_ref() }
    }
}

// %% [markdown]
// Tasks come and go. Both directions run code that is not ours (the function that makes the future, the
// future's destructor), which may spawn, wake and panic, so each leaves the executor consistent before it
// lets go.

// %%
/// Acts when it is dropped. Forgotten where it is for panics only.
struct OnDrop<Action: FnMut()>(Action);

impl<Action: FnMut()> Drop for OnDrop<Action> {
    fn drop(&mut self) {
        (self.0)();
    }
}

// %%
/// Why a task was not started: all slots of the pool are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl<F, P: Probe, const QUEUED: bool> Frontier<'_, F, P, QUEUED> {
    /// Builds a future in a vacant slot. It is polled after the events at hand, and before tasks that were woken otherwise; of several
    /// new tasks, the oldest first.
    ///
    /// # Errors
    /// [`Full`] if [`CONNECTIONS`] tasks live; `make` is not called then.
    #[inline]
    pub fn spawn(&self, make: impl FnOnce() -> F) -> Result<(), Full> {
        let slot = self.slot(self.first_vacant.get()).ok_or(Full)?;
        // Off the list first: `make` may spawn. If it panics the slot goes back.
        self.first_vacant.set(slot.next.get());
        let give_back = OnDrop(|| self.vacate(slot));
        // SAFETY: the slot is vacant and not in the list, so nobody else refers to its content.
        unsafe { (*slot.future.get()).write(make()) };
        mem::forget(give_back);
        if QUEUED {
            slot.task.stage.set(Stage::Started);
            self.block.block.wake(slot.task.number as usize);
        } else {
            slot.task.stage.set(Stage::New);
            slot.next.set(ptr::null());
            // SAFETY: the list of new tasks is of our slots.
            unsafe { &*self.last_new.replace(slot) }.next.set(slot);
        }
        self.tasks.set(self.tasks.get() + 1);
        P::add(Counter::Spawns, 1);
        P::peak(Counter::PeakTasks, self.tasks.get() + 1); // and the root
        P::peak(Counter::FutureBytes, size_of::<F>());
        Ok(())
    }

    /// The oldest new task, which is about to be polled for the first time.
    #[inline(always)]
    fn take_new(&self) -> Option<&Slot<F>> {
        let head = &self.slots[ROOT];
        let slot = self.slot(head.next.get())?;
        // The rest is for tasks that were woken.
        self.patience.set(self.patience.get().checked_sub(1).filter(|&left| left >= TASKS)?);
        let next = slot.next.get();
        head.next.set(next);
        if next.is_null() {
            self.last_new.set(head);
        }
        slot.task.stage.set(Stage::Started);
        Some(slot)
    }

    /// Ends a task that is new or started: drops its future, then vacates its slot.
    #[inline(always)]
    fn retire(&self, slot: &Slot<F>) {
        let _end = OnDrop(|| {
            self.tasks.set(self.tasks.get() - 1);
            self.vacate(slot);
        });
        // SAFETY: the slot holds a future, which will not be used as one again: the caller does not refer to it, and
        // nobody polls while its destructor runs.
        unsafe { (*slot.future.get()).assume_init_drop() };
    }

    #[inline]
    fn vacate(&self, slot: &Slot<F>) {
        slot.task.stage.set(Stage::Vacant);
        slot.next.set(self.first_vacant.replace(slot));
    }
}

// %% [markdown]
// The end of the executor is the end of all its tasks.

// %%
impl<F, P: Probe, const QUEUED: bool> Drop for Frontier<'_, F, P, QUEUED> {
    fn drop(&mut self) {
        // First of all, for the reactor must not know tasks whose slots are gone.
        self.reactor.detach();
        for slot in self.slots.iter() {
            if matches!(slot.task.stage.get(), Stage::New | Stage::Started) {
                self.retire(slot);
            }
        }
        // SAFETY: this is the end of `self`, and no slot holds a future. If dropping one has panicked we do not get here, and
        // the slots are leaked, for pinned futures must not lose their memory before they are dropped.
        unsafe { ManuallyDrop::drop(&mut self.slots) };
    }
}

// %% [markdown]
// ## Who is next?
//
// The loop by hand has no queue: it walks the events. So does this one. An event whose task is known is
// followed by that task's poll at once. When the events of one poll are through, the new tasks come, which have a list. Flags are
// for everyone else: tasks woken by other tasks, and by other threads.
//
// One limit keeps tasks that forever wake themselves, or spawn, from locking out the objects: after so many polls the reactor has its
// turn, whoever is still awake. Half of them are kept for tasks that were woken, so that endless new ones do not lock those out.

// %% [markdown]
// First what happens when there is nobody: the reactor polls. The same place looks for wakes from other
// threads, and sleeps when nobody else could have anything to do.

// %%
impl<F, P: Probe, const QUEUED: bool> Frontier<'_, F, P, QUEUED> {
    /// Polls the reactor, or sleeps if it has no objects. Then only another thread could wake us.
    #[inline(always)]
    fn refill(&self, events: &mut Vec<Event>) {
        let block = self.block.block;
        if block.any_remote.load(Ordering::Relaxed) {
            block.fetch_remote();
        }
        if self.reactor.objects.get() > 0 {
            self.reactor.poll.poll(events);
            P::add(Counter::Events, events.len());
        } else {
            events.clear();
            if block.summary.get() == 0 && self.slots[ROOT].next.get().is_null() {
                thread::park();
            }
        }
    }
}

/// Wakes whoever waits, in his own way.
#[cold]
fn wake_foreign(entry: &Entry) {
    if let Some(waker) = entry.foreign.take() {
        waker.wake();
    }
}

// %% [markdown]
// And this is the choice itself, for every poll of every task.

// %%
/// Tasks that are polled for another reason than an event between two polls of the reactor: each may be woken twice.
const PATIENCE: usize = 2 * TASKS;

impl<F, P: Probe, const QUEUED: bool> Frontier<'_, F, P, QUEUED> {
    /// The next task to poll, which may have finished; `None` when the reactor must poll, because nobody is awake or `patience` is at its
    /// end.
    #[inline(always)]
    fn next(&self, events: &mut slice::Iter<'_, Event>) -> Option<&Slot<F>> {
        for event in events {
            let entry = self.reactor.entry(event);
            let waits = entry.waits.replace(NOBODY);
            if waits > FOREIGN {
                // SAFETY: the reactor knows the tasks of one executor at a time, as long as that lives; and a task has
                // the address of its slot.
                let slot = unsafe { &*waits.cast::<Slot<F>>() };
                if !QUEUED {
                    return Some(slot);
                }
                self.block.block.wake(slot.task.number as usize);
            } else if waits == FOREIGN {
                wake_foreign(entry);
            }
        }
        let new = self.take_new();
        if new.is_some() {
            return new;
        }
        let block = self.block.block;
        if block.summary.get() == 0 {
            return None;
        }
        self.patience.set(self.patience.get().checked_sub(1)?);
        let woken = if QUEUED { block.take_highest() } else { block.take_ready() };
        woken.map(|task| &self.slots[task])
    }
}

// %% [markdown]
// ## Run
//
// A single poll is short, because all the care is in `retire`.

// %%
impl<F: Future<Output = ()>, P: Probe, const QUEUED: bool> Frontier<'_, F, P, QUEUED> {
    #[inline(always)]
    fn poll_task<T: Future>(&self, slot: &Slot<F>, future: Pin<&mut T>) -> Poll<T::Output> {
        P::add(Counter::Polls, 1);
        self.reactor.polled.set(ptr::from_ref(slot).cast());
        future.poll(&mut Context::from_waker(&slot.task.waker))
    }

    #[inline(always)]
    fn poll_pooled(&self, slot: &Slot<F>) {
        // SAFETY: a started task holds a future. It is never moved out of its slot; and nobody else refers to
        // it, because only `run` does so and `run` does not nest.
        let future = unsafe { Pin::new_unchecked((*slot.future.get()).assume_init_mut()) };
        let retire = OnDrop(|| self.retire(slot));
        let outcome = self.poll_task(slot, future);
        mem::forget(retire);
        if outcome.is_ready() {
            self.retire(slot);
        }
    }

    /// Tells other threads whom to wake from sleep.
    fn sleeper(&self, thread: Option<Thread>) {
        let mut sleeper = self.block.block.sleeper.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *sleeper = thread;
    }
}

// %%
/// Out of line, so that the place is memory, and takes no register from the loop that is below.
#[cold]
#[inline(never)]
fn keep<T>(place: &mut Option<T>, value: T) {
    *place = Some(value);
}

// %% [markdown]
// One loop, with one place that polls the pool and one that polls the root: with two, the compiler would
// inline the server into neither.

// %%
impl<F: Future<Output = ()>, P: Probe, const QUEUED: bool> Frontier<'_, F, P, QUEUED> {
    /// Runs `root` and all tasks to their end.
    ///
    /// # Panics
    /// If a task panics, which ends that task and `root`, while all others stay for the next `run`; if a task
    /// calls `run`.
    #[inline]
    pub fn run<R: Future>(&self, root: R) -> R::Output {
        assert!(!self.running.replace(true), "the executor is running already");
        let place = &self.slots[ROOT];
        let _running = OnDrop(|| {
            place.task.stage.set(Stage::Vacant);
            self.reactor.polled.set(ptr::null());
            self.sleeper(None);
            self.running.set(false);
        });
        self.sleeper(Some(thread::current()));
        let mut root = pin!(root);
        let mut outcome = None;
        place.task.stage.set(Stage::Root);
        self.block.block.wake(ROOT);
        let mut events = self.events.take();
        events.clear();
        loop {
            let mut fresh = events.iter();
            self.patience.set(PATIENCE);
            while let Some(slot) = self.next(&mut fresh) {
                if slot.task.stage.get() == Stage::Started {
                    self.poll_pooled(slot);
                } else if slot.task.stage.get() == Stage::Root
                    && let Poll::Ready(output) = self.poll_task(place, root.as_mut())
                {
                    place.task.stage.set(Stage::Vacant);
                    keep(&mut outcome, output);
                }
            }
            if self.is_empty() && place.task.stage.get() == Stage::Vacant {
                self.events.set(events);
                return outcome.expect("the root has finished");
            }
            self.refill(&mut events);
        }
    }
}

// %% [markdown]
// ## The buffer
//
// A future is as large as what it keeps across an `await`, and the buffer is most of that. Two questions hide
// in "large futures are expensive": is it the size, or the zeroing? A buffer of 16 KiB of which only the
// first 128 bytes are initialised answers it: the future is as large, the zeroing as small.

// %%
/// A connection's buffer.
pub trait Buffer: 'static {
    const NAME: &'static str;
    /// Bytes that are set to zero.
    const ZEROED: usize;

    fn new() -> Self;
    fn bytes(&mut self) -> &mut [u8];
}

/// The buffer of all variants but three.
pub type Small = [u8; SMALL_BUFFER];

impl Buffer for Small {
    const NAME: &'static str = "128";
    const ZEROED: usize = SMALL_BUFFER;

    #[inline(always)]
    fn new() -> Self {
        [0; SMALL_BUFFER]
    }

    #[inline(always)]
    fn bytes(&mut self) -> &mut [u8] {
        self
    }
}

/// The buffer of the published variants called `large+…`.
pub type Large = [u8; LARGE_BUFFER];

impl Buffer for Large {
    const NAME: &'static str = "16 KiB, zeroed";
    const ZEROED: usize = LARGE_BUFFER;

    #[inline(always)]
    fn new() -> Self {
        [0; LARGE_BUFFER]
    }

    #[inline(always)]
    fn bytes(&mut self) -> &mut [u8] {
        self
    }
}

// %% [markdown]
// And the one that tells size from zeroing.

// %%
/// As large as the large one, of which only as much is zeroed and used as of the small one.
pub struct Unzeroed {
    front: [u8; SMALL_BUFFER],
    _rest: MaybeUninit<[u8; LARGE_BUFFER - SMALL_BUFFER]>,
}

impl Buffer for Unzeroed {
    const NAME: &'static str = "16 KiB, uninitialised";
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

// %% [markdown]
// ## The server
//
// After all that, the part that its users write. Two plain async functions.

// %%
/// Reads one line and sends it back.
pub async fn echo<L: Line, W: Work, P: Probe, B: Buffer>(mut stream: L, work: W) {
    P::add(Counter::ZeroedBytes, B::ZEROED);
    let mut buffer = B::new();
    let mut filled = 0;
    loop {
        filled += stream.read(&mut buffer.bytes()[filled..]).await;
        if holds_line(&buffer.bytes()[..filled]) {
            break;
        }
    }
    work.perform();
    let mut sent = 0;
    loop {
        sent += stream.write(&buffer.bytes()[sent..filled]).await;
        if sent == filled {
            break;
        }
    }
    P::add(Counter::Transactions, 1);
}

/// Accepts [`CONNECTIONS`] clients and hands each to `spawn`.
pub async fn accept_all<'r, D: Door<&'r Stats>, P: Probe>(
    reactor: &'r Reactor<'r, P>,
    spawn: impl Fn(Stream<'r, P>) -> Result<(), Full>,
) {
    let mut listener = Listener::<D, P>::new(reactor);
    for _ in 0..CONNECTIONS {
        let stream = listener.accept().await;
        spawn(stream).expect("the pool has room for all connections");
    }
}

/// The world of the frontier.
pub fn frontier<D: OpensDoors, W: Work, P: Probe>(load: Load, drive: Drive<'_>) {
    let stats = Stats::new(load.syscalls);
    let reactor = Reactor::<P>::new(&stats);
    let executor = Frontier::new(&reactor);
    let work = W::under(load);
    drive(&stats, &mut || {
        executor.run(accept_all::<D::Door<&Stats>, P>(&reactor, |stream| {
            executor.spawn(|| echo::<_, W, P, Small>(stream, work))
        }));
    });
}

// %% [markdown]
// What does a request take? Both in turns, a second each, and the ratio to the first. It is a glance: one process, no proof, no control. Change the load, or a cell above, and look again.

// %% tags=["active-ipynb", "glance"]
// zero_cost::glance(Load { syscalls: false, steps: 0 }, &[
//     ("loop", by_hand::<Pipeline, NoWork, Timed<()>>),
//     ("frontier", frontier::<Pipeline, NoWork, Timed<()>>),
// ])

// %% [markdown]
// # The ladder
//
// The frontier is one end. The other end is what most people would write: a boxed future per task, an `Arc`
// waker per task, a queue behind a mutex. Between the two lie more than a dozen decisions. To price each of
// them we need a runtime in which it is a *switch*, and the first three switches are on what we have already.
//
// ## Switch 1: futures by hand
//
// How much of the price is `async fn`, and how much is the executor around it? Here are the same two tasks as
// hand-written futures: the loop's state machine, polled by the frontier.

// %%
/// The connection as a state machine of our own.
struct EchoByHand<'r, W, P: Probe> {
    stream: Stream<'r, P>,
    buffer: [u8; SMALL_BUFFER],
    filled: usize,
    sent: usize,
    answering: bool,
    work: W,
}

impl<'r, W: Work, P: Probe> EchoByHand<'r, W, P> {
    fn new(stream: Stream<'r, P>, work: W) -> Self {
        P::add(Counter::ZeroedBytes, SMALL_BUFFER);
        Self { stream, buffer: [0; SMALL_BUFFER], filled: 0, sent: 0, answering: false, work }
    }
}

impl<W: Work + Unpin, P: Probe> Future for EchoByHand<'_, W, P> {
    type Output = ();

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { stream: Stream(stream), buffer, filled, sent, answering, work } = self.get_mut();
        if !*answering {
            loop {
                *filled += ready!(stream.poll(context, |stream| stream.read(&mut buffer[*filled..])));
                if holds_line(&buffer[..*filled]) {
                    break;
                }
            }
            work.perform();
            *answering = true;
        }
        loop {
            *sent += ready!(stream.poll(context, |stream| stream.write(&buffer[*sent..*filled])));
            if *sent == *filled {
                P::add(Counter::Transactions, 1);
                return Poll::Ready(());
            }
        }
    }
}

// %%
/// The root as a state machine of our own.
struct AcceptByHand<'r, D: Door<&'r Stats>, P: Probe, Spawn> {
    reactor: &'r Reactor<'r, P>,
    /// Opened at the first poll, closed at the last.
    listener: Option<Listener<'r, D, P>>,
    left: usize,
    spawn: Spawn,
}

impl<'r, D, P: Probe, Spawn> Future for AcceptByHand<'r, D, P, Spawn>
where
    D: Door<&'r Stats> + Unpin,
    Spawn: Fn(Stream<'r, P>) -> Result<(), Full> + Unpin,
{
    type Output = ();

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { reactor, listener, left, spawn } = self.get_mut();
        let Listener(watched) = listener.get_or_insert_with(|| Listener::new(reactor));
        while *left > 0 {
            let stream = ready!(watched.poll(context, D::accept));
            let stream = Stream(Watched::in_entry(reactor, stream, READABLE | WRITABLE));
            spawn(stream).expect("the pool has room for all connections");
            *left -= 1;
        }
        *listener = None;
        Poll::Ready(())
    }
}

/// The world of the frontier with futures by hand.
pub fn frontier_by_hand<D: OpensDoors, W: Work + Unpin, P: Probe>(load: Load, drive: Drive<'_>)
where
    for<'s> D::Door<&'s Stats>: Unpin,
{
    let stats = Stats::new(load.syscalls);
    let reactor = Reactor::<P>::new(&stats);
    let executor = Frontier::new(&reactor);
    let work = W::under(load);
    drive(&stats, &mut || {
        let spawn = |stream| executor.spawn(|| EchoByHand::new(stream, work));
        executor.run(AcceptByHand::<D::Door<&Stats>, P, _> {
            reactor: &reactor,
            listener: None,
            left: CONNECTIONS,
            spawn,
        });
    });
}

// %% [markdown]
// ## Switch 2: a queue
//
// The frontier polls a task as soon as its event is seen. A conventional reactor only *wakes*, and the
// executor finds out later. The constant `QUEUED` of our executor turns that on: events and spawns set a
// flag, flags are served afterwards. (The search begins at the top each time, which is shorter than going
// round. Nobody in this load wakes himself, so it need not be fair.)

// %%
impl<'r, F: Future<Output = ()>, P: Probe> Frontier<'r, F, P, true> {
    /// The same executor with everything through its flags.
    ///
    /// # Panics
    /// If an executor uses the reactor already.
    pub fn queued(reactor: &'r Reactor<'r, P>) -> Self {
        Self::attach(reactor)
    }
}

/// The world of the frontier with a ready queue.
pub fn frontier_queued<D: OpensDoors, W: Work, P: Probe>(load: Load, drive: Drive<'_>) {
    let stats = Stats::new(load.syscalls);
    let reactor = Reactor::<P>::new(&stats);
    let executor = Frontier::queued(&reactor);
    let work = W::under(load);
    drive(&stats, &mut || {
        executor.run(accept_all::<D::Door<&Stats>, P>(&reactor, |stream| {
            executor.spawn(|| echo::<_, W, P, Small>(stream, work))
        }));
    });
}

// %% [markdown]
// ## Switch 3: where a stream lives
//
// The usual place for a stream is the future that uses it, not its reactor's table. The price is some copies on
// the way there; in return the reactor need not know the type of its objects. `Watched` can do both.

// %%
impl<'r, D: Door<&'r Stats>, P: Probe> Listener<'r, D, P> {
    /// The next client, registered already, with its stream on its own.
    #[inline]
    fn accept_stream(&mut self) -> impl Future<Output = Stream<'r, P, Here<FakeStream<&'r Stats>>>> {
        let reactor = self.0.reactor();
        let call = move |door: &D| Ok(Stream(Watched::here(reactor, door.accept()?, READABLE | WRITABLE)));
        Attempt { watched: &self.0, call }
    }
}

/// As [`accept_all`], with such streams.
async fn accept_here<'r, D: Door<&'r Stats>, P: Probe>(
    reactor: &'r Reactor<'r, P>,
    spawn: impl Fn(Stream<'r, P, Here<FakeStream<&'r Stats>>>) -> Result<(), Full>,
) {
    let mut listener = Listener::<D, P>::new(reactor);
    for _ in 0..CONNECTIONS {
        let stream = listener.accept_stream().await;
        spawn(stream).expect("the pool has room for all connections");
    }
}

/// The world of the frontier with a ready queue, and streams in their futures.
pub fn frontier_owning<D: OpensDoors, W: Work, P: Probe>(load: Load, drive: Drive<'_>) {
    let stats = Stats::new(load.syscalls);
    let reactor = Reactor::<P>::new(&stats);
    let executor = Frontier::queued(&reactor);
    let work = W::under(load);
    drive(&stats, &mut || {
        executor.run(accept_here::<D::Door<&Stats>, P>(&reactor, |stream| {
            executor.spawn(|| echo::<_, W, P, Small>(stream, work))
        }));
    });
}

// %% tags=["active-ipynb", "glance"]
// zero_cost::glance(Load { syscalls: false, steps: 0 }, &[
//     ("loop", by_hand::<Pipeline, NoWork, Timed<()>>),
//     ("split", frontier_by_hand::<Pipeline, NoWork, Timed<()>>),
//     ("frontier", frontier::<Pipeline, NoWork, Timed<()>>),
//     ("ready queue", frontier_queued::<Pipeline, NoWork, Timed<()>>),
//     ("stream in future", frontier_owning::<Pipeline, NoWork, Timed<()>>),
// ])

// %% [markdown]
// ## Everything else: one runtime, one switch per factor
//
// The other factors reach deep into reactor and executor, so they get a runtime of their own, generic over a
// **rung**: a type that says for each factor which way it is. A factor that changes types is an associated
// type, one that only changes a branch is a constant. And each rung can be asked for its switches as plain
// data, so that a test can verify that neighbours on the ladder differ in exactly one.
//
// Changing the runtime is a step of its own, at which all other switches stay where the frontier has them. The
// frontier is a library that one could use: it bears panics, wakes from other threads, foreign wakers and
// selfish tasks. The runtime of the rungs trusts its two tasks and leaves all that out, but it keeps a little
// more for each object, because some rung needs it. What the two differ in, for better or worse, is in that one
// step, and in none below it.

// %%
/// All factors; what a rung, or a variant above it, has chosen for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switches {
    /// "loop", or "split" into futures, executor and reactor; "none" for the fake alone.
    pub structure: &'static str,
    /// Futures "by hand" or by "async fn".
    pub task: &'static str,
    /// Polled "at once" after the event, or "queued".
    pub dispatch: &'static str,
    /// A stream is in its reactor's "entry", or in its "future".
    pub placement: &'static str,
    /// The "frontier" itself, or the "generic" one of the rungs.
    pub runtime: &'static str,
    /// State of objects and tasks by "reference" to stable cells, or by "index" into slabs.
    pub lookup: &'static str,
    /// The reactor keeps the "number" of a task (of the frontier its address, which the step to "generic" changes), or its "waker".
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
        let fields = |switches: &Self| {
            let Self { structure, task, dispatch, placement, runtime, lookup, keeps, .. } = *switches;
            let Self { binding, waker, queue, storage, handles, cells, buffer, .. } = *switches;
            [
                ("structure", structure),
                ("task", task),
                ("dispatch", dispatch),
                ("placement", placement),
                ("runtime", runtime),
                ("lookup", lookup),
                ("keeps", keeps),
                ("binding", binding),
                ("waker", waker),
                ("queue", queue),
                ("storage", storage),
                ("handles", handles),
                ("cells", cells),
                ("buffer", buffer),
            ]
        };
        let pairs = fields(self).into_iter().zip(fields(other));
        pairs.filter(|(mine, theirs)| mine != theirs).map(|((name, _), _)| name).collect()
    }
}

// %% [markdown]
// ### Factor: who may look inside
//
// The published reactor and task table sit in a `RefCell` each. Whoever is certain that no two borrows meet
// may leave out the check; whoever wants to share them between threads needs more. We compare the first two.

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

/// Unguarded: a promise of the runtime below, whose closures are short and call nobody.
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
// By reference, nothing is looked up, and nothing is checked: who has a key has a row.

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
// With its table complete, the second way can be named.

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
/// How reactor and ledger are shared.
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
    type Kept<'f, F: Future<Output = ()> + 'f>: Future<Output = ()>;

    /// Writes the future that `make` returns into a vacant slot.
    fn put<'f, F: Future<Output = ()> + 'f>(
        slot: &mut MaybeUninit<Self::Kept<'f, F>>,
        make: impl FnOnce() -> F,
    );
}

/// In the slot itself.
enum InSlot {}

impl Storage for InSlot {
    const NAME: &'static str = "slot";
    type Kept<'f, F: Future<Output = ()> + 'f> = F;

    #[inline(always)]
    fn put<'f, F: Future<Output = ()> + 'f>(slot: &mut MaybeUninit<F>, make: impl FnOnce() -> F) {
        slot.write(make());
    }
}

/// In a box of its own type: an allocation, but no virtual call.
enum InBox {}

impl Storage for InBox {
    const NAME: &'static str = "Box";
    type Kept<'f, F: Future<Output = ()> + 'f> = Pin<Box<F>>;

    #[inline(always)]
    fn put<'f, F: Future<Output = ()> + 'f>(slot: &mut MaybeUninit<Pin<Box<F>>>, make: impl FnOnce() -> F) {
        slot.write(Box::pin(make()));
    }
}

// %% [markdown]
// Behind `dyn` we look at three ways to fill the box. The executor may be given the future and box it; the
// caller may box it; and the future may be built in the box, which nobody does, because it takes `unsafe` or
// luck with the optimiser, but which saves copying a large future.

// %%
/// A boxed future of any type.
type Dyn<'f> = Pin<Box<dyn Future<Output = ()> + 'f>>;

/// Takes a future and boxes it.
enum InDyn {}

impl Storage for InDyn {
    const NAME: &'static str = "Box<dyn>";
    type Kept<'f, F: Future<Output = ()> + 'f> = Dyn<'f>;

    #[inline(always)]
    fn put<'f, F: Future<Output = ()> + 'f>(slot: &mut MaybeUninit<Dyn<'f>>, make: impl FnOnce() -> F) {
        slot.write(Box::pin(make()));
    }
}

// %% [markdown]
// The second ought to cost what the first does. It is there as a check on everything else.

// %%
/// Is handed a box.
enum CallerDyn {}

impl Storage for CallerDyn {
    const NAME: &'static str = "Box<dyn> by the caller";
    type Kept<'f, F: Future<Output = ()> + 'f> = Dyn<'f>;

    #[inline(always)]
    fn put<'f, F: Future<Output = ()> + 'f>(slot: &mut MaybeUninit<Dyn<'f>>, make: impl FnOnce() -> F) {
        let boxed_by_caller = || -> Dyn<'f> { Box::pin(make()) };
        slot.write(boxed_by_caller());
    }
}

/// Builds the future in its box.
enum DynInPlace {}

impl Storage for DynInPlace {
    const NAME: &'static str = "Box<dyn> in place";
    type Kept<'f, F: Future<Output = ()> + 'f> = Dyn<'f>;

    #[inline(always)]
    fn put<'f, F: Future<Output = ()> + 'f>(slot: &mut MaybeUninit<Dyn<'f>>, make: impl FnOnce() -> F) {
        let mut place = Box::<F>::new_uninit();
        place.write(make());
        // SAFETY: written with the line above.
        slot.write(Box::into_pin(unsafe { place.assume_init() }));
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
// Six kinds of pointer to "this task of that queue". All share one table of functions, and differ in what
// cloning and dropping do to a count. As a floor there is the waker that does nothing at all: then the
// reactor itself must tell the queue, so what it saves is exactly the clones, drops and indirect calls.

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
// From these four answers follows the table of functions.

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
// Then the counted pointers of the standard library, made beforehand or for each task.

// %%
/// `Rc`, with nothing to keep it on its thread.
enum RcPointer {}

impl Pointer for RcPointer {
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
}

impl WakerKind for RcPointer {
    const NAME: &'static str = "Rc";

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
// And `Rc` with its danger taken away: each function first compares threads. There are three common ways to
// ask "which thread is this?". The published program caches the id in a lazily filled `RefCell`. One may ask
// the standard library each time. Or one may take the address of a thread-local variable, which costs a
// single instruction.

// %%
/// A way to tell whether this is the owner's thread.
trait ThreadCheck: 'static {
    const NAME: &'static str;
    fn is_here(owner: &Owner) -> bool;
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

/// The standard library's answer.
enum Asked {}

impl ThreadCheck for Asked {
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
// The checked kind asks before it does anything else.

// %%
/// [`RcPointer`], checked.
struct CheckedRc<C>(PhantomData<C>);

impl<C: ThreadCheck> Pointer for CheckedRc<C> {
    #[inline(always)]
    unsafe fn retain(data: *const ()) {
        // SAFETY: promised by the caller.
        unsafe { RcPointer::retain(data) };
    }

    #[inline(always)]
    unsafe fn release(data: *const ()) {
        // SAFETY: promised by the caller.
        unsafe { RcPointer::release(data) };
    }

    #[inline(always)]
    unsafe fn check(data: *const ()) {
        // SAFETY: counted, hence alive; and the owner never changes, so any thread may read it.
        let owner = unsafe { &(*data.cast::<Target>()).owner };
        assert!(C::is_here(owner), "this waker must stay on the thread that made it");
    }
}

impl<C: ThreadCheck> WakerKind for CheckedRc<C> {
    const NAME: &'static str = C::NAME;

    unsafe fn waker<Q: Queue>(target: Target, _: *const Target) -> Waker {
        // SAFETY: the pointer counts; the caller promises the rest.
        unsafe { Waker::new(Rc::into_raw(Rc::new(target)).cast(), &Functions::<Self, Q>::VTABLE) }
    }
}

// %% [markdown]
// ### A rung
//
// All factors are there now, and a rung can say which way each of them is.

// %%
/// One way to set all switches of the generic runtime.
trait Rung: 'static {
    type Probe: Probe;
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
            buffer: Self::Buffer::NAME,
        }
    }
}

// %% [markdown]
// ### The reactor of the rungs
//
// One function for each moment in the life of a registration, with the switches inside. When the code is
// compiled for a rung, the branches not taken are gone.

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
        let this =
            AliasableBox::new(Self { wakers: Vec::new(), targets: Vec::new(), queue: R::Queue::new() });
        let place = this.0.as_ptr();
        // SAFETY: nobody refers to the two vectors yet. They are written one by one, since the second refers to what comes before
        // it. For the wakers the caller promises the rest.
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

/// Turns events into wakes, in the way of the rung.
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
    /// Polls, and wakes whoever waits for an object that is ready now.
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
// The operation is where waiting is bound and unbound, in the way of the rung.

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

// %%
/// A registered stream.
struct RungStream<'r, 's, R: Rung>(RungObject<'r, 's, R, FakeStream<Handle<'s, R, Stats>>>);

impl<R: Rung> Line for RungStream<'_, '_, R> {
    #[inline(always)]
    fn read<'a>(&'a mut self, buffer: &'a mut [u8]) -> impl Future<Output = usize> + 'a {
        RungOperation { object: &self.0, call: |stream: &FakeStream<_>| stream.read(buffer) }
    }

    #[inline(always)]
    fn write<'a>(&'a mut self, bytes: &'a [u8]) -> impl Future<Output = usize> + 'a {
        RungOperation { object: &self.0, call: |stream: &FakeStream<_>| stream.write(bytes) }
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
            let stream = door.accept()?;
            Ok(RungStream(RungObject::new(listener.reactor.clone(), stream, READABLE | WRITABLE)))
        };
        spawn(RungOperation { object: &listener, call }.await);
    }
}

// %% [markdown]
// ### The executor of the rungs

// %%
/// A place for what the rung keeps of a future.
type RungSlot<'r, R, F> = UnsafeCell<MaybeUninit<<<R as Rung>::Storage as Storage>::Kept<'r, F>>>;

/// Runs a root and futures of type `F`, in the way of the rung.
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
        // SAFETY: the slot was vacant, so nobody refers to its content.
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
        // SAFETY: the slot holds a future, which is never moved out of it; nobody else refers to it, as `run`
        // does not nest.
        let kept = unsafe { Pin::new_unchecked((*self.slots[task].get()).assume_init_mut()) };
        if kept.poll(&mut self.context(task)).is_ready() {
            // SAFETY: it is not used again, since the task ends with the next lines.
            unsafe { (*self.slots[task].get()).assume_init_drop() };
            if R::Waker::PER_TASK {
                // SAFETY: nobody borrows the waker outside of a poll.
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

// %%
/// The world of a rung.
fn rung<R: Rung, D: OpensDoors>(load: Load, drive: Drive<'_>) {
    let stats = R::Share::own(Stats::new(load.syscalls));
    // SAFETY: nothing here has a second thread. Objects, executor and reactor are dropped in that order, and
    // wakers with them; our two kinds of task neither panic nor use the executor in a destructor.
    let reactor = R::Share::own(unsafe { RungReactor::<R>::new(R::Share::lend(&stats)) });
    // SAFETY: as above.
    let executor = unsafe { RungExecutor::<R, _>::new(R::Share::lend(&reactor)) };
    let stats = R::Share::lend(&stats);
    drive(&stats, &mut || {
        let spawn = |stream| {
            executor.spawn(|| echo::<RungStream<'_, '_, R>, NoWork, R::Probe, R::Buffer>(stream, NoWork))
        };
        executor.run(accept_rung::<R, D>(R::Share::lend(&reactor), spawn));
    });
}

// %% [markdown]
// ## The rungs
//
// Now the ladder can be read as a table: one line per rung, one column per factor. Each line of the first
// block differs from the line above in one place. Below it are branches: the same factor turned at another
// rung, or turned another way. They answer the questions of the published program one at a time. Is it the
// box or the `dyn`? Who boxes? Is it the size or the zeroing? Which check?

// %%
/// The rungs, each once for the clock and once for the count.
mod rungs {
    use super::*;

    /// A rung with two probes.
    pub trait Twin {
        type Timed: Rung;
        type Counted: Rung;
    }

    /// Declares rungs: one type per line, generic over its probe.
    macro_rules! rungs {
        ($($name:ident: $keeps:literal $binds:literal $lookup:ty, $waker:ty, $queue:ty, $storage:ty, $share:ty, $cells:ty, $buffer:ty;)*) => { $(
            pub struct $name<P = ()>(PhantomData<P>);

            impl<P: Probe> Rung for $name<P> {
                type Probe = P;
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

            impl Twin for $name {
                type Timed = $name<Timed<$name>>;
                type Counted = $name<Counted>;
            }
        )* };
    }

    // Flags for one thread, and for many; wakers made beforehand, and made for each task.
    type Plain = Bitmap<Cell<u64>>;
    type Atomic = Bitmap<AtomicU64>;
    type SharedArc = ArcPointer<false>;
    type OwnArc = ArcPointer<true>;

    rungs! {
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
        CachedCheck:     true  true  Indexed, CheckedRc<Cached>,    Plain,  InSlot,     ByReference, Unchecked, Small;
        AskedCheck:      true  true  Indexed, CheckedRc<Asked>,     Plain,  InSlot,     ByReference, Unchecked, Small;
        AddressCheck:    true  true  Indexed, CheckedRc<ByAddress>, Plain,  InSlot,     ByReference, Unchecked, Small;
        ArcKept:         true  false Indexed, SharedArc,            Plain,  InSlot,     ByReference, Unchecked, Small;
    }
}

// %% [markdown]
// # All variants
//
// A variant has a name, the variant that it is built on and what it changes there, its switches, and its code: once
// timed, once counting. What it changes is said in a few words, which the analysis repeats.

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
fn on_rung<R: rungs::Twin>(name: &'static str, base: &'static str, change: &'static str) -> Variant {
    let code: [World; 2] = [rung::<R::Timed, Pipeline>, rung::<R::Counted, Pipeline>];
    Variant::new(name, (base, change), R::Counted::switches(), code)
}

/// Names of the variants that more than one function mentions.
const MANUAL: &str = "manual (best)";
const FRONTIER: &str = "frontier";

/// The fake without a server, which no variant is built on.
fn alone() -> Variant {
    let switches = Switches { structure: "none", ..rungs::GenericRuntime::<Counted>::switches() };
    let code: [World; 2] = [fake_alone::<Timed<label::Fake>>, fake_alone::<Counted>];
    Variant { base: None, ..Variant::new("fake alone", ("", ""), switches, code) }
}

// %% [markdown]
// The main ladder first. What a loop has no use for counts as set in the cheapest way.

// %%
/// Labels of the variants that are no rungs, for [`Timed`].
pub mod label {
    pub enum Fake {}
    pub enum Manual {}
    pub enum Split {}
    pub enum Frontier {}
    pub enum ReadyQueue {}
    pub enum StreamInFuture {}
    pub enum Work {}
}

// %% [markdown]
// Those above the rungs are declared by hand, each with its one switch.

// %%
/// The ladder, from the loop down: each variant is compared with the one before.
pub fn ladder() -> Vec<Variant> {
    use rungs::*;
    let generic = <GenericRuntime as Twin>::Counted::switches();
    let owning = Switches { runtime: "frontier", ..generic };
    let queued = Switches { placement: "entry", ..owning };
    let frontier_switches = Switches { dispatch: "at once", ..queued };
    let split = Switches { task: "by hand", ..frontier_switches };
    let manual = Switches { structure: "loop", ..split };
    type ForLoop = Timed<(label::Manual, Pipeline)>;
    type ForSplit = Timed<label::Split>;
    type ForFrontier = Timed<(label::Frontier, Pipeline)>;
    type ForQueue = Timed<label::ReadyQueue>;
    type ForOwning = Timed<label::StreamInFuture>;
    type No = NoWork;
    let by_hand: [World; 2] = [by_hand::<Pipeline, No, ForLoop>, by_hand::<Pipeline, No, Counted>];
    let new = Variant::new;
    vec![
        Variant { base: None, ..new(MANUAL, ("", ""), manual, by_hand) },
        new(
            "split",
            (MANUAL, "futures, reactor and executor instead of one loop"),
            split,
            [frontier_by_hand::<Pipeline, No, ForSplit>, frontier_by_hand::<Pipeline, No, Counted>],
        ),
        new(
            FRONTIER,
            ("split", "`async fn` instead of futures by hand"),
            frontier_switches,
            [frontier::<Pipeline, No, ForFrontier>, frontier::<Pipeline, No, Counted>],
        ),
        new(
            "ready queue",
            (FRONTIER, "events wake, tasks are polled from a queue"),
            queued,
            [frontier_queued::<Pipeline, No, ForQueue>, frontier_queued::<Pipeline, No, Counted>],
        ),
        new(
            "stream in future",
            ("ready queue", "a stream lives in its future, not in the reactor's table"),
            owning,
            [frontier_owning::<Pipeline, No, ForOwning>, frontier_owning::<Pipeline, No, Counted>],
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

// %%
/// The branches off the ladder, and the fake alone.
pub fn branches() -> Vec<Variant> {
    use rungs::*;
    const LEAN: &str = "slab index";
    const BOUND: &str = "bound per operation";
    vec![
        alone(),
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
        on_rung::<AskedCheck>("Rc waker, asked check", "Rc waker", "thread asked of the standard library"),
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
pub const QUIET: Load = Load { syscalls: false, steps: 0 };

/// How the clients arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// `live=3`
    Pipeline,
    /// `live=256`
    AtOnce,
}

// %% [markdown]
// As code:

// %%
/// What one run of a variant must count. How large futures are is for the compiler to say.
pub fn expected(switches: &Switches, arrival: Arrival, syscalls: bool) -> Counts {
    let all = CONNECTIONS as u64;
    let pipeline = arrival == Arrival::Pipeline;
    let if_pipeline = |count| if pipeline { count } else { 0 };
    let if_async = |count| if switches.structure == "split" { count } else { 0 };
    let if_server = |count| if switches.structure == "none" { 0 } else { count };
    let polls = if pipeline { all + 2 } else { 2 };
    let live = if pipeline { 3 } else { all };
    let keeps = switches.keeps == "waker";
    let waits = 2 * all + if_pipeline(all);
    let (clones, hits, drops) = match switches.binding {
        _ if !keeps => (0, 0, 0),
        "pending" => (all + 1, waits - (all + 1), 0),
        _ => (2 * waits, 0, waits),
    };
    let zeroed = if switches.buffer == Large::NAME { LARGE_BUFFER } else { SMALL_BUFFER };
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
    pub fn prove(&self, load: Load, arrival: Arrival) -> Result<Counts, UnequalWork> {
        let expected = expected(&self.switches, arrival, load.syscalls);
        prove_both(&self.name, [self.timed, self.counted], load, &expected)
    }
}

// %% tags=["active-ipynb"]
// for variant in ladder().into_iter().chain(branches()) {
//     let counts = variant.prove(QUIET, Arrival::Pipeline).unwrap_or_else(harness::stop);
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

/// A variant under a load.
struct Measured {
    variant: Variant,
    load: Load,
    arrival: Arrival,
    parameter: String,
}

impl Measured {
    fn key(&self) -> Key {
        let work = if self.load.steps > 0 { "+work" } else { "" };
        Key::new(format!("{}{work}", self.variant.name), self.variant.name, self.parameter.clone())
    }
}

/// Variants of the ladder and its branches, by name, under one more load: each with its code for that load.
fn under(parameter: &str, load: Load, arrival: Arrival, code: &[(&str, [World; 2])]) -> Vec<Measured> {
    let all: Vec<Variant> = ladder().into_iter().chain(branches()).collect();
    let measured = |&(name, [timed, counted]): &(&str, [World; 2])| {
        let variant = *all.iter().find(|variant| variant.name == name).expect("a name of the ladder");
        let variant = Variant { timed, counted, ..variant };
        Measured { variant, load, arrival, parameter: parameter.to_owned() }
    };
    code.iter().map(measured).collect()
}

// %% [markdown]
// Each has code of its own for its load, as always once for the clock and once for the count.

// %%
/// Who serves the crowd.
fn in_the_crowd() -> [(&'static str, [World; 2]); 4] {
    use rungs::{LeanDyn, SlabIndex};
    type ForLoop = Timed<(label::Manual, AtOnce)>;
    type ForFrontier = Timed<(label::Frontier, AtOnce)>;
    type ForLean = Timed<(SlabIndex, AtOnce)>;
    type ForDyn = Timed<(LeanDyn, AtOnce)>;
    [
        (MANUAL, [by_hand::<AtOnce, NoWork, ForLoop>, by_hand::<AtOnce, NoWork, Counted>]),
        (FRONTIER, [frontier::<AtOnce, NoWork, ForFrontier>, frontier::<AtOnce, NoWork, Counted>]),
        ("slab index", [rung::<SlabIndex<ForLean>, AtOnce>, rung::<SlabIndex<Counted>, AtOnce>]),
        ("lean + dyn", [rung::<LeanDyn<ForDyn>, AtOnce>, rung::<LeanDyn<Counted>, AtOnce>]),
    ]
}

/// Who works between reading and writing.
fn at_work() -> [(&'static str, [World; 2]); 2] {
    type ForLoop = Timed<(label::Manual, label::Work)>;
    type ForFrontier = Timed<(label::Frontier, label::Work)>;
    [
        (MANUAL, [by_hand::<Pipeline, Steps, ForLoop>, by_hand::<Pipeline, Steps, Counted>]),
        (FRONTIER, [frontier::<Pipeline, Steps, ForFrontier>, frontier::<Pipeline, Steps, Counted>]),
    ]
}

// %% [markdown]
// With that, the list of everything that is measured.

// %%
/// Everything that is measured.
fn measured() -> Vec<Measured> {
    let quiet = |variant| Measured {
        variant,
        load: QUIET,
        arrival: Arrival::Pipeline,
        parameter: "live=3".to_owned(),
    };
    let mut all: Vec<Measured> = ladder().into_iter().chain(branches()).map(quiet).collect();
    all.extend(under("live=256", QUIET, Arrival::AtOnce, &in_the_crowd()));
    for steps in WORK {
        let load = Load { steps, ..QUIET };
        all.extend(under(&format!("live=3 work={steps}"), load, Arrival::Pipeline, &at_work()));
    }
    all
}

// %% [markdown]
// What is compared with what? Every variant with the loop, and with the variant that it is built on. A few pairs more do not
// lie on the ladder: what a `dyn` adds to a box, what a box costs that a future is built in, and whether a counter may be
// cheaper than a check.

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

/// Compares a variant with the one that it is built on, where that is measured under the same load.
fn beside_its_base(study: Study, measured: &Measured, keys: &[Key]) -> Study {
    let Variant { base: Some(base), change, .. } = measured.variant else { return study };
    let base = Key::new(base, base, &measured.parameter);
    match measured.key() {
        _ if !keys.contains(&base) => study,
        // The loop is what all are compared with, so this replaces that comparison.
        key if base.variant == MANUAL => study.compare(key, base, change),
        key => study.also_compare(key, base, change),
    }
}

// %%
/// All variants under all their loads, proven to do the work that they should.
///
/// # Errors
/// If one of them does not.
pub fn study() -> Result<Study, UnequalWork> {
    let mut study = Study::new("ladder").baseline(MANUAL).unit("request");
    let all = measured();
    let keys: Vec<Key> = all.iter().map(Measured::key).collect();
    for measured in all {
        let (key, load, timed) = (measured.key(), measured.load, measured.variant.timed);
        study = study
            .bench(key.clone(), move |bencher: &mut Bencher| timed(load, &mut |_, run| bencher.iter(run)));
        for (counter, value) in measured.variant.prove(load, measured.arrival)? {
            study = study.count(key.clone(), counter, value);
        }
        study = beside_its_base(study, &measured, &keys);
    }
    for (one, other, change) in PAIRS {
        let [one, other] = [one, other].map(|name| Key::new(name, name, "live=3"));
        study = study.also_compare(one, other, change);
    }
    Ok(study.control("live=3").control("live=256"))
}

// %%
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_variants_do_equal_work() -> Result<(), UnequalWork> {
        for measured in measured() {
            measured.variant.prove(measured.load, measured.arrival)?;
        }
        Ok(())
    }

    #[test]
    fn neighbours_differ_in_one_switch() {
        let ladder = ladder();
        for pair in ladder.windows(2) {
            assert_eq!(pair[1].base, Some(pair[0].name), "the ladder has a gap");
        }
        let all: Vec<Variant> = ladder.into_iter().chain(branches()).collect();
        for variant in &all {
            let Some(base) = variant.base else { continue };
            let base = all.iter().find(|other| other.name == base).expect("a base that is measured");
            let differences = variant.switches.differences(&base.switches);
            assert_eq!(differences.len(), 1, "{} against {}: {differences:?}", variant.name, base.name);
        }
    }

    #[test]
    fn no_two_variants_have_the_same_switches() {
        let all: Vec<Variant> = ladder().into_iter().chain(branches()).collect();
        for (index, variant) in all.iter().enumerate() {
            let twin = all[..index].iter().find(|other| other.switches == variant.switches);
            assert!(twin.is_none(), "{} is {}", variant.name, twin.map_or("", |twin| twin.name));
        }
    }
}

// %% [markdown]
// # A glance
//
// Some rungs in turns, a second each: the time of a request, and how many times that of the first. Nothing is kept, and nothing is concluded. Choose others, or one of your own, and run the cell again.

// %% tags=["active-ipynb", "glance"]
// study().unwrap_or_else(harness::stop).glance(|key| {
//     key.parameter == "live=3" && matches!(&*key.variant, "manual (best)" | "split" | "frontier" | "generic runtime")
// }).unwrap_or_else(harness::stop)

// %% [markdown]
// # Measurement
//
// Everything so far was preparation; this is the run. In the quick profile it takes some minutes and is good
// for a first look; what the figures mean is said by the analysis, not here.

// %% tags=["active-ipynb"]
// {
//     let profile = harness::Profile::from_env().unwrap_or_else(harness::stop);
//     let outcome = study().unwrap_or_else(harness::stop).measure(&profile).unwrap_or_else(harness::stop);
//     println!("{outcome}");
// };

// %% [markdown]
// # What limits the frontier
//
// Where does what the frontier needs beyond the loop go? Read the ladder's first steps again. From the loop to `split` it is the separation into futures, reactor
// and executor: an event must be traced to its task, the task to its future, the future must find its object, and note who waits. From there to the frontier it is the keyword:
// an `async fn` moves its arguments once, and stores an operation's arguments in the future, where the loop has them in registers. How the difference divides
// between the two is computed by the analysis, in instructions and in time, which need not agree.
//
// A loop that had a table of connections, readiness and handlers of several kinds would pay for the separation, too.
//
// # From here
//
// - `cargo bench -p ladder --bench counts` counts instructions and allocations. Look at both
//   lenses. Instructions see no difference between `Rc` and `Arc`, and clearing 16 KiB with one string
//   instruction counts once per byte; time sees both.
// - Small differences are code layout; the analysis says which are that small. Do not build on them.
// - Add a rung: one line in a table of rungs, one in `branches`. The tests will tell you whether it changes
//   one thing.
