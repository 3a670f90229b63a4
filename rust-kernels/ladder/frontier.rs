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
// # How close can async come to a loop written by hand?
//
// [The first notebook of zero-cost](../zero-cost/measure.ipynb) compares its async servers with the best loop that we
// could write. How small can the distance be? Here are plain `async fn`s, with real `Waker`s and a sound executor, as
// close to the best loop of that notebook as we can bring them.
//
// The result is a library in one notebook: it withstands panics, wakes from other threads, foreign wakers and tasks that
// wake themselves all the time, and runs on real sockets as well. Below it lies [the ladder](measure.ipynb), which goes
// from here down to what most people would write, one decision at a time, and measures each.

// %% [markdown]
// ## Compile cells as for a benchmark

// %% tags=["active-ipynb"]
// :build_env CARGO_PROFILE_DEV_OPT_LEVEL=3
// :build_env CARGO_PROFILE_DEV_DEBUG_ASSERTIONS=false
// :build_env CARGO_PROFILE_DEV_OVERFLOW_CHECKS=false
// :build_env CARGO_PROFILE_DEV_CODEGEN_UNITS=1
// :build_env CARGO_INCREMENTAL=0
// :dep harness = { path = "../../rust-kernels/harness" }
// :dep idle = { path = "../../rust-kernels/idle" }
// :dep rustix = { version = "=1.1.6", features = ["event", "net"] }
// :dep sync = { path = "../../rust-kernels/sync" }
// :dep zero-cost-loop = { path = "../../rust-kernels/zero-cost/loop" }

// %% [markdown]
// ## A first result
//
// First, the finished crate at work: the best loop of the first notebook and, on the executor that is built below,
// plain `async fn`s serve the same 256 clients. The ratio is what is left of the cost of async. It is a glance: one
// process, a second each, no control.

// %% tags=["active-ipynb", "glance"]
// :dep frontier = { path = "../../rust-kernels/ladder/frontier" }
// zero_cost_loop::glance(zero_cost_loop::Load { syscalls: false, steps: 0 }, &[
//     ("loop", zero_cost_loop::by_hand::<zero_cost_loop::Pipeline, zero_cost_loop::NoWork, zero_cost_loop::Timed<()>>),
//     ("frontier", frontier::frontier::<zero_cost_loop::Pipeline, zero_cost_loop::NoWork, zero_cost_loop::Timed<()>>),
// ])

// %% [markdown]
// What does the executor do for them? The same code counts, with another probe. A task is polled once to begin, and
// then when something has become ready. The root is polled once for each client. No waker is cloned: the reactor notes
// which task waits. A future is its buffer of 128 bytes and some words; a connection is that, its slot and its entry in
// the reactor.

// %% tags=["active-ipynb", "glance"]
// {
//     let load = zero_cost_loop::Load { syscalls: false, steps: 0 };
//     let counts = zero_cost_loop::count(
//         frontier::frontier::<zero_cost_loop::Pipeline, zero_cost_loop::NoWork, zero_cost_loop::Counted>,
//         load,
//     );
//     println!("{} requests: {} polls, {} wakers cloned", counts["transactions"], counts["polls"], counts["waker_clones"]);
//     println!("a future {} bytes, a connection {}", counts["future_bytes"], counts["connection_bytes"]);
// };

// %% [markdown]
// The world is the one of the first notebook: its fake kernel, its ledger of operations and its probes come from there
// as a crate. Everything in that kernel is compiled out of line with opaque results, so it is the same closed door for
// every variant here.

// %%
use std::any::TypeId;
use std::cell::{Cell, UnsafeCell};
use std::collections::TryReserveError;
use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::future::{Future, poll_fn};
use std::hint::cold_path;
use std::io::{self, Read, Write};
use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::net::TcpStream;
use std::num::NonZero;
use std::ops::Deref;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker, ready};
use std::thread;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::retry_on_intr;
use rustix::net::ipproto;
use rustix::net::sockopt::socket_protocol;
use zero_cost_loop::{
    CONNECTIONS, Counter, Door, Event, FakePoll, FakeStream, Lean, Load, OpensDoors, Probe, READABLE, Repeat,
    SMALL_BUFFER, Source, Stats, TASKS, WRITABLE, Work, WouldBlock, holds_line,
};

// %% [markdown]
// Where threads meet, years of running without an error prove nothing. So whatever several threads can touch comes
// from the crate `sync`, which can turn it over to [loom](https://docs.rs/loom): a stand-in for these types that runs
// a test once for every order in which its threads could meet, and every value that an atomic could show.
// `tests/loom.rs` does that to the executor below, as it stands here.

// %%
use sync::Mutex;
use sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use sync::cell::Cell as OwnersCell;
use sync::plain_thread::{Thread, current, park};

// %% [markdown]
// # The frontier
//
// What does `async` need that the loop does not have? The reactor must remember which task waits for which object, the
// executor must find the task again, and a `Waker` must be able to reach both from any thread. The trick is to pay for
// "from any thread" only when a wake comes from another thread.
//
// ## A block for everything that wakers touch
//
// A `Waker` may be cloned, kept for years and used on any thread. The usual answer is to count clones, and counting is
// what we want to avoid: this load binds 768 wakers per run. But what *is* a waker's message? "Poll task 17 of that
// executor". If the executor's flags live at an address that is a multiple of 1024, then address plus 17 says it all:
// one word, nothing to count, so cloning and dropping do nothing.
//
// For that, the flags must outlive every waker, and
// without a count, the end of the last one is unknown. So a block of flags is never freed. It goes into a pool when its
// executor goes, and the next executor takes it out again. A program leaks as many blocks of 1 KiB as it has executors
// *at the same time*.

// %%
/// Words of 64 flags; a power of two, so that a masked index needs no check.
const WORDS: usize = 8;
/// Flags of a block. An executor with more tasks has several blocks.
const FLAGS: usize = 64 * WORDS;
/// Wakers point to a block plus a flag's number, so a block begins at a multiple of a power of two above
/// [`FLAGS`].
const FLAG_MASK: usize = 1023;

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
    /// The first block of this block's executor, whose last three fields speak for all of them.
    first: AtomicPtr<Block>,
    /// False when no block has a flag in `ready`.
    any_ready: OwnersCell<bool>,
    /// True from a wake by another thread until the owner fetches `remote`.
    any_remote: AtomicBool,
    /// Ends the owner's wait, while it runs tasks and so may wait.
    notifier: Mutex<Option<Waker>>,
}

// SAFETY: `ready`, `summary`, `cursor` and `any_ready` are used by the owner's thread only, which every way to them
// checks: wakes look at `owner`, and `OwnedBlock` cannot leave its thread. The other fields may be shared as they are.
unsafe impl Sync for Block {}

// %% [markdown]
// Threads get a number of their own, because the address of a thread-local variable, the usual choice, can
// be reused by the next thread.

// %%
/// A number that no other thread has, or ever had; not 0.
fn thread_number() -> u64 {
    // Not loom's, which may not be static: numbers need no order but their own.
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    sync::thread_local! {
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
// The flags are a bitmap with a summary word on top, so that "which is next?" is answered by two bit scans. The
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
        self.first().any_ready.set(true);
    }

    /// Where flags and wakes are announced.
    #[inline]
    fn first(&self) -> &'static Block {
        // SAFETY: set when the block was obtained, to a block, and they live for ever. A thread that sees it sees what it
        // points to.
        unsafe { &*self.first.load(Ordering::Acquire) }
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
}

// %% [markdown]
// For a rung of the ladder there is a shorter scan, which begins at the top each time and is not fair.

// %%
impl Block {
    /// Takes the flag of the highest task off. Only for the owner's thread.
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
        let first = self.first();
        // Not a store: that would hide the flag of a third thread, and with it the bit that it set before.
        first.any_remote.swap(true, Ordering::Release);
        // Flag first, notice second: the owner looks for flags before each wait.
        if let Some(notifier) = &*first.notifier.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            notifier.wake_by_ref();
        }
    }

    /// Moves the wakes of other threads to our own flags. Only for the owner's thread.
    #[cold]
    fn fetch_remote(&self) {
        for (word, remote) in self.remote.iter().enumerate() {
            // The thread that raised the flag had set its bit before, and what it wrote before that is seen.
            if remote.load(Ordering::Relaxed) != 0 {
                let flags = remote.swap(0, Ordering::Acquire);
                self.ready[word].set(self.ready[word].get() | flags);
                self.summary.set(self.summary.get() | 1 << word);
                self.first().any_ready.set(true);
            }
        }
    }
}

// %% [markdown]
// And now the waker itself. It is small because everything was prepared: `clone` and `drop` have nothing to do. A wake
// asks which thread this is, once, and takes the short way or the long way. A wake for a task that has finished flags a
// vacant slot, which the executor will pass over, or its next tenant, which is then polled once too often: every future
// must allow that.

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
        let task = data.addr() & FLAG_MASK;
        let block = data.map_addr(|address| address & !FLAG_MASK).cast::<Block>();
        // SAFETY: that is how the caller's pointer was made; blocks are aligned to FLAG_MASK + 1 and live for
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

// %% [markdown]
// A block that was given back waits here for the next executor. What loom makes lives for one of its executions, so it
// has a pool of its own.

// %%
/// Blocks without an owner.
fn pool() -> &'static Mutex<Vec<&'static Block>> {
    #[cfg(not(under_loom))]
    static POOL: Mutex<Vec<&Block>> = Mutex::new(Vec::new());
    // What loom makes lives for one of its executions.
    #[cfg(under_loom)]
    sync::loom::lazy_static! {
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
    /// A block of the executor whose first one is given, or the first one itself.
    fn obtain(first: Option<&Self>) -> Self {
        let pooled = pool().lock().unwrap_or_else(|poisoned| poisoned.into_inner()).pop();
        let block = pooled.unwrap_or_else(Self::leak);
        let first = first.map_or(block, |first| first.block);
        block.first.store(ptr::from_ref(first).cast_mut(), Ordering::Release);
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
            first: AtomicPtr::new(ptr::null_mut()),
            any_ready: OwnersCell::new(false),
            any_remote: AtomicBool::new(false),
            notifier: Mutex::new(None),
        }))
    }
}

impl Drop for OwnedBlock {
    fn drop(&mut self) {
        // Wakes that came are for tasks that have gone. They are not announced: the first block may have another owner
        // by now. Late ones may still come; they flag nothing worse than a task of the next owner.
        for remote in &self.block.remote {
            remote.swap(0, Ordering::Relaxed); // what was written before the wake does not matter
        }
        while self.block.take_ready().is_some() {}
        self.block.any_ready.set(false);
        self.block.owner.store(0, Ordering::Relaxed);
        pool().lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(self.block);
    }
}

// %% [markdown]
// **Three wakes.** Tasks 3, 70 and 5 of a block are woken on its owner's thread. Each wake sets a bit in a word of 64 and one
// in the summary. They are taken off in another order: the search goes up from the task that was taken last.

// %% tags=["active-ipynb", "glance"]
// {
//     let owned = OwnedBlock::obtain(None);
//     for task in [3, 70, 5] {
//         AddressWaker::waker(owned.block, task).wake();
//     }
//     let [first, second, ..] = owned.block.ready.each_ref().map(|word| word.get());
//     println!("summary {:b}, first word {first:b}, second word {second:b}", owned.block.summary.get());
//     while let Some(task) = owned.block.take_ready() {
//         println!("next is task {task}");
//     }
// };

// %% [markdown]
// ## Foreign code
//
// Futures, their destructors and foreign wakers may panic, and a second panic on the way of a first one would end the
// whole process. So whatever is dropped on that way is shielded, each for itself.

// %%
/// Runs code that is not ours, whose panic stays here. Out of the way: no request comes here.
#[cold]
fn shielded(work: impl FnOnce()) {
    idle::shielded(work);
}

/// Acts when it is dropped. Forgotten where it is for panics only.
struct OnDrop<Action: FnMut()>(Action);

impl<Action: FnMut()> Drop for OnDrop<Action> {
    fn drop(&mut self) {
        (self.0)();
    }
}

// %% [markdown]
// ## Memory that is known by its address
//
// Below, wakers, events and lists refer to tasks and objects by their addresses. They cannot refer into a `Box`: moving
// a box asserts that no other pointer to its content exists.

// %%
/// A box whose content is shared by address while the box is moved.
pub struct AliasableBox<T: ?Sized>(NonNull<T>);

impl<T: ?Sized> From<Box<T>> for AliasableBox<T> {
    fn from(boxed: Box<T>) -> Self {
        Self(NonNull::from(Box::leak(boxed)))
    }
}

impl<T: ?Sized> AliasableBox<T> {
    /// The address of the content.
    pub fn as_ptr(&self) -> *mut T {
        self.0.as_ptr()
    }
}

impl<T: ?Sized> Deref for AliasableBox<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: it came from a box, and is freed by `drop`.
        unsafe { self.0.as_ref() }
    }
}

impl<T: ?Sized> Drop for AliasableBox<T> {
    fn drop(&mut self) {
        // SAFETY: it came from a box.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

// %% [markdown]
// Tables hold whatever tasks and objects there are. They have room for the most of them from the start, so nothing in
// them is ever moved, and memory that was never needed is not touched.

// %%
/// A table that grows up to its capacity and never shrinks.
struct Table<T> {
    places: AliasableBox<[MaybeUninit<T>]>,
    /// How many of the places are initialised, from the first on.
    length: Cell<usize>,
}

impl<T> Table<T> {
    fn with_capacity(capacity: usize) -> Result<Self, TryReserveError> {
        let mut places = Vec::new();
        places.try_reserve_exact(capacity)?;
        // SAFETY: there is room for so many, and they need not be initialised.
        unsafe { places.set_len(capacity) };
        Ok(Self { places: AliasableBox::from(places.into_boxed_slice()), length: Cell::new(0) })
    }

    fn get(&self, number: usize) -> Option<&T> {
        let initialised = self.places.get(number).filter(|_| number < self.length.get());
        // SAFETY: it is one of the first `length`.
        initialised.map(|place| unsafe { place.assume_init_ref() })
    }

    /// Puts the value for the next place there; `None` if the table is full.
    #[cold]
    fn push(&self, value: impl FnOnce(usize) -> T) -> Option<&T> {
        let number = self.length.get();
        if number == self.places.len() {
            return None;
        }
        // SAFETY: the place exists, and no reference to it: it is not initialised.
        unsafe { self.places.as_ptr().cast::<T>().add(number).write(value(number)) };
        self.length.set(number + 1);
        self.get(number)
    }

    fn iter(&self) -> impl Iterator<Item = &T> {
        (0..).map_while(|number| self.get(number))
    }
}

impl<T> Drop for Table<T> {
    fn drop(&mut self) {
        let first = self.places.as_ptr().cast::<T>();
        for number in 0..if mem::needs_drop::<T>() { self.length.get() } else { 0 } {
            // SAFETY: so many are initialised, and no reference to them is left.
            shielded(|| unsafe { first.add(number).drop_in_place() });
        }
    }
}

// %% [markdown]
// ## The state of a task
//
// Besides its future a task is a waker and a number. The context of a poll refers to the waker *in this very place*,
// which is how the reactor will recognise it.

// %%
/// A task without its future.
#[repr(C)]
struct Task {
    /// First, so that its address is that of the task.
    waker: ManuallyDrop<Waker>,
    number: u32,
}

// %% [markdown]
// ## What the executor needs from an operating system
//
// Three things: to watch objects, to wait until one of them is ready, and a way to end that wait from another thread.
// The fake system of this notebook is one, `epoll` further down another.

// %%
/// An operating system, as far as a server waits for it.
///
/// # Safety
/// [`key`](Self::key) returns what an object of this system, or its notifier, was given as its key, and nothing else.
pub unsafe trait System: Sized {
    /// Says that an object is ready.
    type Event;
    /// What an object is watched for.
    type Interest;
    /// The streams that a reactor keeps in its table.
    type Stream: Object<Self>;

    /// Replaces the content of `events` by what is ready. If that is nothing and it `may_wait`, it waits, until
    /// something is or the notifier is woken. Whether it may is the last thing that it asks: no caller looks for tasks that
    /// are woken on this thread between that and the wait.
    fn poll(&self, events: &mut Vec<Self::Event>, may_wait: impl FnOnce() -> bool);

    /// The key under which the object of this event was registered.
    fn key(event: &Self::Event) -> usize;

    /// Whether nothing more will come from the object, or there is a mark in it where each read stops.
    fn is_end(event: &Self::Event) -> bool;

    /// Ends a wait in [`poll`](Self::poll), on any thread. An event that this takes has the key `key`.
    ///
    /// # Errors
    /// The system's error, when it cannot watch one thing more.
    ///
    /// # Safety
    /// `key` is good for every caller that is given the events of this system, for as long as there is a system. A [`Reactor`]
    /// takes it for the address of one of its entries.
    unsafe fn notifier(&self, key: usize) -> io::Result<Waker>;
}

/// What a system can watch.
///
/// # Safety
/// It registers itself, under the key that it is given, and nothing else.
pub unsafe trait Object<Y: System> {
    /// Watches it from now on; its events carry `key`.
    ///
    /// # Errors
    /// The system's error, when it refuses; the object is not watched then.
    ///
    /// # Safety
    /// As for [`System::notifier`]: an event may be on its way when the object is unregistered, or closed.
    unsafe fn register(&self, system: &Y, key: usize, interest: Y::Interest) -> io::Result<()>;

    /// Forgets it.
    fn unregister(&self, system: &Y);
}

// %% [markdown]
// The smallest system has no objects at all. Then only another thread can have news, and to wait is to park.

// %%
/// Unparks a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

// SAFETY: there are no events.
unsafe impl System for () {
    type Event = Infallible;
    type Interest = Infallible;
    type Stream = Infallible;

    #[inline(always)]
    fn poll(&self, _: &mut Vec<Infallible>, may_wait: impl FnOnce() -> bool) {
        if may_wait() {
            park();
        }
    }

    fn key(event: &Infallible) -> usize {
        match *event {}
    }

    fn is_end(event: &Infallible) -> bool {
        match *event {}
    }

    unsafe fn notifier(&self, _: usize) -> io::Result<Waker> {
        Ok(Waker::from(Arc::new(Unpark(current()))))
    }
}

// SAFETY: there are none.
unsafe impl Object<()> for Infallible {
    unsafe fn register(&self, (): &(), _: usize, _: Infallible) -> io::Result<()> {
        match *self {}
    }

    fn unregister(&self, (): &()) {
        match *self {}
    }
}

// %% [markdown]
// The fake system never waits itself: when nothing is ready, it is as if there were no objects. Its poller takes any
// key, so no other object may have it.

// %%
/// The fake system of the first notebook.
pub struct Fake<'s>(FakePoll<&'s Stats>);

impl<'s> Fake<'s> {
    /// One with room for all of a server's objects.
    pub fn new(stats: &'s Stats) -> Self {
        Self(FakePoll::new(stats, TASKS))
    }
}

// SAFETY: the fake poller hands out the keys that it was given.
unsafe impl<'s> System for Fake<'s> {
    type Event = Event;
    type Interest = u8;
    type Stream = FakeStream<&'s Stats>;

    #[inline(always)]
    fn poll(&self, events: &mut Vec<Event>, may_wait: impl FnOnce() -> bool) {
        self.0.poll(events);
        if events.is_empty() {
            ().poll(&mut Vec::new(), may_wait);
        }
    }

    #[inline(always)]
    fn key(event: &Event) -> usize {
        event.key
    }

    #[inline(always)]
    fn is_end(_: &Event) -> bool {
        false
    }

    unsafe fn notifier(&self, key: usize) -> io::Result<Waker> {
        // SAFETY: no event has it.
        unsafe { ().notifier(key) }
    }
}

// SAFETY: as it says.
unsafe impl<'s, T: Source> Object<Fake<'s>> for T {
    #[inline(always)]
    unsafe fn register(&self, system: &Fake<'s>, key: usize, interest: u8) -> io::Result<()> {
        system.0.register(self, key, interest);
        Ok(())
    }

    #[inline(always)]
    fn unregister(&self, system: &Fake<'s>) {
        system.0.unregister(self);
    }
}

// %% [markdown]
// ## A reactor that remembers tasks
//
// In the published design each operation puts a clone of its task's waker into the reactor, each event takes it out and
// calls it, and each finished operation looks whether there is one left to throw away. But almost always it is a waker
// of the very executor that this reactor serves, in its task: its address says whose it is, and that address is all
// that the reactor notes. Any other waker, be it one of `join!` or `select!` or a clone of our own, has another
// address; it is cloned and kept in the usual way.
//
// Whether an address is that of a task is known at a glance for the task that waited for this object before. For any
// other, the executor has said where its tasks are.

// %%
/// The addresses of an executor's tasks, each of which begins with its waker.
#[derive(Clone, Copy)]
struct Tasks {
    root: usize,
    /// The first of the pool.
    first: usize,
    /// How many bytes lie from one to the next, and from the first to the end.
    stride: usize,
    length: usize,
}

impl Tasks {
    /// Whether one is there.
    fn contain(&self, address: usize) -> bool {
        let distance = address.wrapping_sub(self.first);
        address == self.root || distance < self.length && distance.is_multiple_of(self.stride)
    }
}

// %% [markdown]
// Reactor and executor have room for so many objects and tasks, and refuse more.

// %%
/// Why a task was not started, or an object not watched: all places are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("all places are taken")
    }
}

impl Error for Full {}

impl From<Full> for io::Error {
    #[cold]
    fn from(full: Full) -> Self {
        Self::other(full)
    }
}

// %% [markdown]
// The word of an object says which task waits for it. Three small numbers have a meaning of their own; every other word
// is the address of a task.

// %%
/// The word of an object for which no task waits: an operation may be tried.
const NO_TASK: usize = 0;
/// The word of an object for which no task waits, but which a read has just emptied: another read would block.
const DRAINED: usize = 1;
/// The word of an object for which a foreign waker waits. All larger words are addresses of tasks.
const FOREIGN: usize = 2;

/// What the reactor knows of one I/O object.
pub struct Entry<Y: System, P> {
    /// [`NO_TASK`], [`DRAINED`], [`FOREIGN`] or the task that waits. No task waits for a vacant entry.
    waits: Cell<usize>,
    /// The address of the task that waited here last, or 0 if that was a foreign waker. A waker at that address is the
    /// task's own.
    owner: Cell<usize>,
    /// The waker, while a foreign one waits.
    foreign: Cell<Option<Waker>>,
    /// Whether a read that does not fill its buffer has emptied the object; `None` where that was not asked yet.
    empties: Cell<Option<bool>>,
    /// Whether the object is watched for writing, too.
    watches_writes: Cell<bool>,
    /// While vacant, the next vacant entry.
    next_vacant: Cell<*const Self>,
    /// The reactor, while an object is registered.
    reactor: Cell<*const Reactor<Y, P>>,
    /// The stream, if the object is one. Initialised while there is an `Io` of this entry and of [`InEntry`].
    stream: UnsafeCell<MaybeUninit<Y::Stream>>,
}

/// Knows which task waits for which object. One executor at a time can be attached to it.
pub struct Reactor<Y: System, P> {
    system: Y,
    /// The system knows them by their addresses. The first one is the notifier's.
    entries: Table<Entry<Y, P>>,
    /// Vacant entries: those that had an object with its owner, and those that had a stream. Kept apart, the entry of a
    /// stream and the slot of its task become vacant together and are taken together, so that the one knows the other.
    first_vacant: [Cell<*const Entry<Y, P>>; 2],
    /// Objects registered; kept for probes that count.
    objects: Cell<usize>,
    /// Where the tasks of the attached executor are.
    tasks: Cell<Option<Tasks>>,
    /// Ends a wait of the system, on any thread.
    notifier: Waker,
    /// Memory for the events of one poll. Events are left here by a panic, which may come before they are seen to.
    events: Cell<Vec<Y::Event>>,
}

// %% [markdown]
// An entry begins without a waiting task.

// %%
impl<Y: System, P> Entry<Y, P> {
    fn new() -> Self {
        Self {
            waits: Cell::new(NO_TASK),
            owner: Cell::new(0),
            foreign: Cell::new(None),
            empties: Cell::new(None),
            watches_writes: Cell::new(false),
            next_vacant: Cell::new(ptr::null()),
            reactor: Cell::new(ptr::null()),
            stream: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }
}

/// Events that a wait brings at most: as many as with `polling` and tokio, so that servers can be compared.
pub const EVENTS: usize = 1024;

impl<Y: System, P: Probe> Reactor<Y, P> {
    /// A reactor for at most so many objects of this system.
    ///
    /// # Errors
    /// If there is no memory for so many, or the system has no room for its notifier.
    pub fn new(system: Y, capacity: usize) -> io::Result<Self> {
        let places = capacity.saturating_add(1); // and the notifier
        let entries = Table::with_capacity(places)?;
        let mut events = Vec::new();
        events.try_reserve_exact(places.min(EVENTS))?;
        let notice: &Entry<Y, P> = entries.push(|_| Entry::new()).expect("room for one");
        Ok(Self {
            // SAFETY: the entry lives as long as the reactor, to which the system belongs.
            notifier: unsafe { system.notifier(ptr::from_ref(notice).expose_provenance()) }?,
            system,
            first_vacant: [const { Cell::new(ptr::null()) }; 2],
            entries,
            objects: Cell::new(0),
            tasks: Cell::new(None),
            events: Cell::new(events),
        })
    }
}

// %% [markdown]
// Entries are handed out from lists of vacant ones, and made where there is none.

// %%
impl<Y: System, P: Probe> Reactor<Y, P> {
    /// An entry for an object, of that list if it has any.
    #[inline]
    fn take_entry(&self, list: usize) -> Result<&Entry<Y, P>, Full> {
        self.take_vacant(list).or_else(|| self.another_entry(list)).ok_or(Full)
    }

    #[inline(always)]
    fn take_vacant(&self, list: usize) -> Option<&Entry<Y, P>> {
        // SAFETY: the lists of vacant entries have our own entries only, and end with null.
        let vacant = unsafe { self.first_vacant[list].get().as_ref() }?;
        self.first_vacant[list].set(vacant.next_vacant.get());
        Some(vacant)
    }

    /// An entry when that list has none.
    #[cold]
    fn another_entry(&self, list: usize) -> Option<&Entry<Y, P>> {
        self.entries.push(|_| Entry::new()).or_else(|| self.take_vacant(1 - list))
    }

    /// Watches `object`.
    #[inline]
    fn register(
        &self,
        object: &impl Object<Y>,
        entry: &Entry<Y, P>,
        interest: Y::Interest,
    ) -> io::Result<()> {
        // SAFETY: `entry` is one of ours, and they live as long as our system.
        unsafe { object.register(&self.system, ptr::from_ref(entry).expose_provenance(), interest) }?;
        entry.reactor.set(self);
        entry.empties.set(None);
        entry.watches_writes.set(false);
        if P::COUNTS {
            self.objects.set(self.objects.get() + 1);
            P::peak(Counter::PeakRegistrations, self.objects.get());
            P::peak(Counter::PeakConnections, self.objects.get() - 1); // all but the listener
        }
        Ok(())
    }
}

// %% [markdown]
// When an object or an operation goes, so does the foreign waker that was kept for it, which may hold what it is to
// wake, and with it the object.

// %%
/// Drops a foreign waker. Its panic stays here: with a way to let it through, a future would take some 20 instructions
/// more to be dropped, which is what `extern` is for.
#[cold]
#[inline(never)]
extern "C" fn drop_foreign(foreign: &Cell<Option<Waker>>) {
    shielded(|| drop(foreign.take()));
}

// %% [markdown]
// Events come back with the key that was given out, which is an entry's address.

// %%
impl<Y: System, P: Probe> Reactor<Y, P> {
    /// The entry of the object to which an event belongs. If that was unregistered a moment ago, the entry is vacant
    /// and no task waits, or it has a new object, whose task is polled once without need.
    #[inline]
    fn entry(&self, event: &Y::Event) -> &Entry<Y, P> {
        // SAFETY: each caller that gives the system a key promises that it is the address of one of our entries, as `new` and
        // `register` do; these live as long as the reactor.
        unsafe { &*ptr::with_exposed_provenance(Y::key(event)) }
    }

    /// Makes an entry vacant.
    #[inline]
    fn vacate(&self, entry: &Entry<Y, P>, list: usize) {
        entry.waits.set(NO_TASK);
        entry.next_vacant.set(self.first_vacant[list].replace(entry));
        // SAFETY: nothing changes it while it is looked at.
        if unsafe { (*entry.foreign.as_ptr()).is_some() } {
            // The last thing here, since it runs foreign code, which may do with this reactor what it likes.
            drop_foreign(&entry.foreign);
        }
    }

    /// The executor goes, and its tasks with it: none waits any more.
    fn detach(&self) {
        for entry in self.entries.iter() {
            entry.owner.set(0);
            if entry.waits.get() > FOREIGN {
                entry.waits.set(NO_TASK);
            }
        }
        self.tasks.set(None);
    }
}

// %% [markdown]
// ### Waiting
//
// An operation is tried first and waits only if it must: no look-up, no binding, nothing to unbind. There is
// at most one operation per object at a time, since each borrows the object mutably; so one
// waiting task per object is enough, and the last one to ask is the right one.
//
// An operation may be given up, as `select!` does with a read when it is time for a heartbeat, or be forgotten. The word
// of its object still says that its task waits. So a new operation begins by clearing the word. From then on the word
// also says whether the operation was tried: it is not tried again before its object's next event, which clears the
// word, too.

// %%
impl<Y: System, P: Probe> Entry<Y, P> {
    /// The reactor that watches its object.
    ///
    /// # Safety
    /// There is an `Io` of this entry, which borrows the reactor for `'r` or longer.
    #[inline(always)]
    unsafe fn reactor<'r>(&self) -> &'r Reactor<Y, P> {
        // SAFETY: it was given to `register` when the `Io` was made.
        unsafe { &*self.reactor.get() }
    }

    /// The object's next event wakes the task behind `context`.
    ///
    /// # Safety
    /// There is an `Io` of this entry.
    #[inline]
    unsafe fn wait(&self, context: &Context<'_>) {
        let address = ptr::from_ref(context.waker()).addr();
        if self.owner.get() == address {
            self.waits.set(address);
        } else {
            // SAFETY: by the caller.
            unsafe { self.wait_anew(context.waker()) };
        }
    }

    /// The same for a waker that is not the owner's: another task becomes the owner, or a foreign waker is kept.
    ///
    /// # Safety
    /// As for [`wait`](Self::wait).
    #[cold]
    unsafe fn wait_anew(&self, waker: &Waker) {
        // SAFETY: by the caller.
        let tasks = unsafe { self.reactor() }.tasks.get();
        let address = ptr::from_ref(waker).addr();
        // Foreign code runs in `clone` and `drop`, and may do with this reactor what it likes: we hold no
        // borrow.
        let foreign = if tasks.is_some_and(|tasks| tasks.contain(address)) {
            self.owner.set(address);
            self.waits.set(address);
            None
        } else {
            P::add(Counter::WakerClones, 1);
            let clone = waker.clone();
            self.owner.set(0); // so that the next task comes this way, too
            self.waits.set(FOREIGN);
            Some(clone)
        };
        let superseded = self.foreign.replace(foreign);
        shielded(|| drop(superseded));
    }
}

// %% [markdown]
// ### Where the object is
//
// A fake stream is 32 bytes. To hand it from `accept` to `spawn` to the future would mean copying it three times, once
// right after half of it was written, which makes the processor wait. So streams live in their entries, and what
// travels is a pointer. A listener does not travel and stays with its owner.

// %%
/// Where an object is that has an entry.
pub trait Place<Y: System> {
    type Object: Object<Y>;

    /// What must be known besides the entry.
    type Known<'a>: Copy
    where
        Self: 'a;

    /// Which of a reactor's two lists has such entries when they are vacant.
    const LIST: usize;

    /// What must be known.
    fn known(&self) -> Self::Known<'_>;

    /// The object itself.
    ///
    /// # Safety
    /// `entry` is the one that was entered for this place.
    unsafe fn object<'a, P>(known: Self::Known<'a>, entry: &'a Entry<Y, P>) -> &'a Self::Object
    where
        Self: 'a;

    /// Drops the object if it is in its entry.
    ///
    /// # Safety
    /// As for [`object`](Self::object), which is not asked for again.
    unsafe fn end<P>(entry: &Entry<Y, P>);
}

// %% [markdown]
// First the usual place: the future owns the object.

// %%
/// With its owner.
pub struct Owned<T>(T);

impl<Y: System, T: Object<Y>> Place<Y> for Owned<T> {
    type Object = T;
    type Known<'a>
        = &'a T
    where
        T: 'a;

    const LIST: usize = 0;

    #[inline(always)]
    fn known(&self) -> &T {
        &self.0
    }

    #[inline(always)]
    unsafe fn object<'a, P>(object: &'a T, _: &'a Entry<Y, P>) -> &'a T
    where
        T: 'a,
    {
        object
    }

    #[inline(always)]
    unsafe fn end<P>(_: &Entry<Y, P>) {}
}

// %% [markdown]
// Then the place of the loop by hand: the object lives in the entry that its events lead to.

// %%
/// A stream, in its entry.
pub struct InEntry(());

impl<Y: System> Place<Y> for InEntry {
    type Object = Y::Stream;
    type Known<'a> = ();

    const LIST: usize = 1;

    #[inline(always)]
    fn known(&self) {}

    #[inline(always)]
    unsafe fn object<'a, P>((): (), entry: &'a Entry<Y, P>) -> &'a Y::Stream
    where
        Self: 'a,
    {
        // SAFETY: the caller's entry was given a stream before the place was made, see `Io::in_entry`, and keeps it
        // until that is gone.
        unsafe { (*entry.stream.get()).assume_init_ref() }
    }

    #[inline(always)]
    unsafe fn end<P>(entry: &Entry<Y, P>) {
        // SAFETY: as above; and the caller does not refer to it any more.
        unsafe { (*entry.stream.get()).assume_init_drop() };
    }
}

// %% [markdown]
// Wherever an object was, its entry is vacant when it is gone, whatever its destructor does.

// %%
impl<Y: System, P: Probe> Reactor<Y, P> {
    /// Drops an object if it is in its entry, which is vacant then.
    ///
    /// # Safety
    /// The object is there, and no reference to it is left.
    #[inline]
    unsafe fn end<L: Place<Y>>(&self, entry: &Entry<Y, P>) {
        let _vacant = OnDrop(|| self.vacate(entry, L::LIST));
        // SAFETY: by the caller.
        unsafe { L::end(entry) };
    }
}

// %% [markdown]
// An object with its entry can be made in those two ways. From then on they are alike.

// %%
/// An I/O object with its entry in the reactor. Unregisters when dropped.
pub struct Io<'r, Y: System, P: Probe, L: Place<Y> = InEntry> {
    entry: &'r Entry<Y, P>,
    place: L,
}

impl<'r, Y: System, P: Probe, T: Object<Y>> Io<'r, Y, P, Owned<T>> {
    /// An object that stays with its owner.
    ///
    /// # Errors
    /// [`Full`] if the reactor is, or the system's error; `object` is dropped then.
    pub fn owned(reactor: &'r Reactor<Y, P>, object: T, interest: Y::Interest) -> io::Result<Self> {
        let entry = reactor.take_entry(<Owned<T> as Place<Y>>::LIST)?;
        let give_back = OnDrop(|| reactor.vacate(entry, <Owned<T> as Place<Y>>::LIST));
        reactor.register(&object, entry, interest)?;
        mem::forget(give_back);
        Ok(Self { entry, place: Owned(object) })
    }
}

impl<'r, Y: System, P: Probe> Io<'r, Y, P> {
    /// A stream, in the reactor's table.
    ///
    /// # Errors
    /// [`Full`] if the reactor is, or the system's error; `stream` is dropped then.
    #[inline]
    pub fn in_entry(
        reactor: &'r Reactor<Y, P>,
        stream: Y::Stream,
        interest: Y::Interest,
    ) -> io::Result<Self> {
        let entry = reactor.take_entry(<InEntry as Place<Y>>::LIST)?;
        // SAFETY: there is no reference to the content of a vacant entry.
        let stream = unsafe { (*entry.stream.get()).write(stream) };
        // SAFETY: the stream is there, and there is no `Io` that refers to it.
        let give_back = OnDrop(|| unsafe { reactor.end::<InEntry>(entry) });
        reactor.register(stream, entry, interest)?;
        mem::forget(give_back);
        Ok(Self { entry, place: InEntry(()) })
    }
}

// %% [markdown]
// An operation reaches the reactor and the object through the entry.

// %%
impl<'r, Y: System, P: Probe, L: Place<Y>> Io<'r, Y, P, L> {
    /// The reactor that watches it.
    #[inline(always)]
    pub fn reactor(&self) -> &'r Reactor<Y, P> {
        // SAFETY: here is one, and what it borrows is borrowed for `'r`.
        unsafe { self.entry.reactor() }
    }

    #[inline(always)]
    fn object(&self) -> &L::Object {
        // SAFETY: both were made together.
        unsafe { L::object(self.place.known(), self.entry) }
    }
}

// %% [markdown]
// ### An operation
//
// An operation is one call, tried when it may succeed. Waiting for it is all that its future is for. What is kept across
// the wait is what the `Io` consists of: the `Io` itself would be one look-up more at each poll.

// %%
/// A call that may have to wait. While a task or a foreign waker waits for its object, it would block.
struct Operation<'a, Y: System, P, L: Place<Y> + 'a> {
    entry: &'a Entry<Y, P>,
    known: L::Known<'a>,
    /// Whether it has succeeded: then no task or foreign waker waits, and its end need not look.
    done: bool,
}

impl<Y: System, P: Probe, L: Place<Y>> Io<'_, Y, P, L> {
    /// An operation that was not tried. Its stream is no longer known to be drained.
    #[inline(always)]
    fn operation(&mut self) -> Operation<'_, Y, P, L> {
        self.entry.waits.set(NO_TASK);
        Operation { entry: self.entry, known: self.place.known(), done: false }
    }

    /// Tries `call`; if it would block, the object's next event wakes the task behind `context`.
    #[inline(always)]
    pub fn poll<Out>(
        &mut self,
        context: &Context<'_>,
        call: impl FnOnce(&L::Object) -> Result<Out, WouldBlock>,
    ) -> Poll<Out> {
        P::add(Counter::OperationPolls, 1);
        if let Ok(outcome) = call(self.object()) {
            return Poll::Ready(outcome);
        }
        // SAFETY: there is an `Io` of this entry.
        unsafe { self.entry.wait(context) };
        Poll::Pending
    }

    /// Tries `call` whenever the object may be ready, until it does not block.
    #[inline]
    pub fn attempt<Out>(
        &mut self,
        mut call: impl FnMut(&L::Object) -> Result<Out, WouldBlock>,
    ) -> impl Future<Output = Out> {
        let mut operation = self.operation();
        poll_fn(move |context| operation.poll(context, &mut call))
    }
}

// %% [markdown]
// An operation is tried when it is first polled. Once it would have blocked, it is tried again only after its
// object was reported ready.

// %%
impl<Y: System, P: Probe, L: Place<Y>> Operation<'_, Y, P, L> {
    /// Tries `call`, unless it would block.
    #[inline(always)]
    fn poll<Out>(
        &mut self,
        context: &Context<'_>,
        call: impl FnOnce(&L::Object) -> Result<Out, WouldBlock>,
    ) -> Poll<Out> {
        P::add(Counter::OperationPolls, 1);
        if self.entry.waits.get() > DRAINED {
            P::add(Counter::NotReadyPolls, 1);
        } else {
            // SAFETY: they are those of an `Io`, which made us and is borrowed mutably.
            if let Ok(outcome) = call(unsafe { L::object(self.known, self.entry) }) {
                self.done = true;
                return Poll::Ready(outcome);
            }
        }
        self.wait(context)
    }

    #[inline(always)]
    fn wait<Out>(&self, context: &Context<'_>) -> Poll<Out> {
        // SAFETY: there is an `Io` of this entry, see above.
        unsafe { self.entry.wait(context) };
        Poll::Pending
    }
}

impl<'a, Y: System, P, L: Place<Y> + 'a> Drop for Operation<'a, Y, P, L> {
    /// Given up, it takes its foreign waker along.
    #[inline(always)]
    fn drop(&mut self) {
        if !self.done && self.entry.waits.get() == FOREIGN {
            self.entry.waits.set(NO_TASK);
            drop_foreign(&self.entry.foreign);
        }
    }
}

// %% [markdown]
// When it is dropped, the object is unregistered, and its entry is vacant again.

// %%
impl<Y: System, P: Probe, L: Place<Y>> Drop for Io<'_, Y, P, L> {
    #[inline]
    fn drop(&mut self) {
        let reactor = self.reactor();
        if P::COUNTS {
            reactor.objects.set(reactor.objects.get() - 1);
        }
        // SAFETY: it was there as long as we were, and it is not referred to any more.
        let _end = OnDrop(|| unsafe { reactor.end::<L>(self.entry) });
        self.object().unregister(&reactor.system);
    }
}

// %% [markdown]
// ### Listener and stream
//
// Their shape is the usual one. The server below is written against a trait, so that its text is the same for
// every runtime that serves it.

// %%
/// A stream of lines, as the server sees it.
pub trait Line {
    /// Reads into the start of `buffer`; the number of bytes that came.
    fn read<'a>(&'a mut self, buffer: &'a mut [u8]) -> impl Future<Output = usize> + 'a;

    /// Writes from the start of `bytes`; the number of bytes that went.
    fn write<'a>(&'a mut self, bytes: &'a [u8]) -> impl Future<Output = usize> + 'a;
}

impl<'s, P: Probe, L> Line for Io<'_, Fake<'s>, P, L>
where
    L: Place<Fake<'s>, Object = FakeStream<&'s Stats>>,
{
    #[inline]
    fn read<'a>(&'a mut self, buffer: &'a mut [u8]) -> impl Future<Output = usize> + 'a {
        self.attempt(|stream| stream.read(buffer))
    }

    #[inline]
    fn write<'a>(&'a mut self, bytes: &'a [u8]) -> impl Future<Output = usize> + 'a {
        self.attempt(|stream| stream.write(bytes))
    }
}

// %% [markdown]
// A listener is an object that its future owns; it hands out streams that are registered.

// %%
/// A registered listener of the fake system; unregisters when dropped.
pub type Listener<'r, 's, D, P> = Io<'r, Fake<'s>, P, Owned<D>>;

impl<'r, 's, D: Door<&'s Stats>, P: Probe> Io<'r, Fake<'s>, P, Owned<D>> {
    /// The next client, registered already.
    ///
    /// # Errors
    /// As [`Io::in_entry`].
    #[inline]
    pub fn accept(&mut self) -> impl Future<Output = io::Result<Io<'r, Fake<'s>, P>>> {
        let mut operation = self.operation();
        poll_fn(move |context| {
            let entry = operation.entry;
            operation.poll(context, |door| {
                let stream = door.accept()?;
                // SAFETY: there is an `Io` of this entry, which is borrowed, and borrows the reactor for `'r`.
                Ok(Io::in_entry(unsafe { entry.reactor() }, stream, READABLE | WRITABLE))
            })
        })
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
// (When tasks must be of many types, let the pool's type be `Pin<Box<dyn Future>>`. That price is on
// [the ladder](measure.ipynb).)

// %%
/// A place for a task of the pool.
#[repr(C)]
struct Slot<F> {
    /// First, so that its address is that of the slot.
    task: Task,
    /// [`STARTED`](Self::STARTED), or the next slot in one of two lists, whose slots are passed over by wakes: of those
    /// that are vacant, and of those whose tasks are new, which were never polled.
    next: Cell<*const Slot<F>>,
    /// Initialised while the task is new or started.
    future: UnsafeCell<MaybeUninit<F>>,
}

impl<F> Slot<F> {
    /// What `next` is in no list: the task was polled, or is about to be.
    const STARTED: *const Self = ptr::without_provenance(1);

    fn vacant(blocks: &[OwnedBlock], number: usize) -> Self {
        let waker = AddressWaker::waker(blocks[number / FLAGS].block, number % FLAGS);
        Self {
            task: Task {
                waker: ManuallyDrop::new(waker),
                number: u32::try_from(number).expect("the number of a task"),
            },
            next: Cell::new(ptr::null()),
            future: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }
}

// %% [markdown]
// The executor allocates its slots once, and neither a spawn nor a poll nor an end allocates again.

// %%
/// Runs one root future and a limited number of futures of type `F`. `QUEUED` is a switch of the ladder.
pub struct Executor<'r, Y: System, F, P: Probe, const QUEUED: bool = false> {
    reactor: &'r Reactor<Y, P>,
    /// For so many tasks each; the first one speaks for all.
    blocks: Box<[OwnedBlock]>,
    first_block: &'static Block,
    /// Number of the block whose flags are looked at next.
    turn: Cell<usize>,
    /// One for each task of the pool.
    slots: Table<Slot<F>>,
    /// The root's, which never holds a future.
    root: AliasableBox<Slot<F>>,
    first_vacant: Cell<*const Slot<F>>,
    /// The oldest task that was not polled yet, or null.
    first_new: Cell<*const Slot<F>>,
    /// The youngest, if there is any.
    last_new: Cell<*const Slot<F>>,
    /// Unfinished tasks of the pool.
    tasks: Cell<usize>,
    /// How many tasks may still be polled before the reactor has a turn: new ones, and those that were woken, but not by
    /// an event.
    patience_with_new: Cell<i32>,
    patience_with_woken: Cell<i32>,
    running: Cell<bool>,
}

impl<'r, Y: System, F: Future<Output = ()>, P: Probe, const QUEUED: bool> Executor<'r, Y, F, P, QUEUED> {
    fn attach(reactor: &'r Reactor<Y, P>, capacity: usize) -> Self {
        assert!(reactor.tasks.get().is_none(), "this reactor has an executor");
        assert!(u32::try_from(capacity).is_ok(), "the number of a task has 32 bits");
        // Before the blocks, which stay for ever.
        let slots = Table::<Slot<F>>::with_capacity(capacity).expect("memory for so many tasks");
        let mut blocks = vec![OwnedBlock::obtain(None)];
        for _ in 0..capacity / FLAGS {
            blocks.push(OwnedBlock::obtain(blocks.first()));
        }
        let root = AliasableBox::from(Box::new(Slot::vacant(&blocks, capacity)));
        reactor.tasks.set(Some(Tasks {
            root: root.as_ptr().expose_provenance(),
            first: slots.places.as_ptr().cast::<Slot<F>>().expose_provenance(),
            stride: size_of::<Slot<F>>(),
            length: slots.places.len() * size_of::<Slot<F>>(),
        }));
        Self {
            reactor,
            first_block: blocks[0].block,
            blocks: blocks.into(),
            turn: Cell::new(0),
            first_vacant: Cell::new(ptr::null()),
            first_new: Cell::new(ptr::null()),
            last_new: Cell::new(ptr::null()),
            slots,
            root,
            tasks: Cell::new(0),
            patience_with_new: Cell::new(0),
            patience_with_woken: Cell::new(0),
            running: Cell::new(false),
        }
    }
}

// %% [markdown]
// An executor is attached to one reactor, whose events name its tasks.

// %%
impl<'r, Y: System, F: Future<Output = ()>, P: Probe> Executor<'r, Y, F, P> {
    /// An executor of up to `capacity` tasks that use `reactor`.
    ///
    /// # Panics
    /// If an executor uses it already, or there is no memory for so many tasks.
    pub fn new(reactor: &'r Reactor<Y, P>, capacity: usize) -> Self {
        Self::attach(reactor, capacity)
    }
}

impl<'r, Y: System, F: Future<Output = ()>, P: Probe> Executor<'r, Y, F, P, true> {
    /// The same with everything through its flags, for the ladder: events and spawns set one, flags are served
    /// afterwards.
    ///
    /// # Panics
    /// As [`new`](Executor::new).
    pub fn queued(reactor: &'r Reactor<Y, P>, capacity: usize) -> Self {
        Self::attach(reactor, capacity)
    }
}

impl<Y: System, F, P: Probe, const QUEUED: bool> Executor<'_, Y, F, P, QUEUED> {
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

    /// Flags a task.
    #[inline(always)]
    fn flag(&self, task: &Task) {
        let number = task.number as usize;
        self.blocks[number / FLAGS].block.wake(number % FLAGS);
    }
}

// %% [markdown]
// Tasks come and go. Both directions run code that is not ours (the function that makes the future, the
// future's destructor), which may spawn, wake and panic, so each leaves the executor consistent before it
// lets go.

// %% [markdown]
// Patience is counted down, and spent when it is below zero: one test instead of two. It is reset once spent; for woken
// tasks, also when none is left.

// %%
/// Tasks of each kind, new ones and woken ones, that are polled before the reactor has a turn.
const PATIENCE: i32 = TASKS as i32;

/// One poll less; whether there was one left.
#[inline(always)]
fn spend(patience: &Cell<i32>) -> bool {
    patience.set(patience.get() - 1);
    patience.get() >= 0
}

impl<Y: System, F, P: Probe, const QUEUED: bool> Executor<'_, Y, F, P, QUEUED> {
    /// Builds a future in a vacant slot. It is polled after the events at hand, and before tasks that were woken
    /// otherwise; of several new tasks, the oldest first.
    ///
    /// # Errors
    /// [`Full`] if as many tasks live as it has room for; `make` is not called then.
    #[inline]
    pub fn spawn(&self, make: impl FnOnce() -> F) -> Result<(), Full> {
        let vacant = self.slot(self.first_vacant.get());
        let slot =
            vacant.or_else(|| self.slots.push(|number| Slot::vacant(&self.blocks, number))).ok_or(Full)?;
        // Off the list first: `make` may spawn. If it panics the slot goes back.
        self.first_vacant.set(slot.next.get());
        let give_back = OnDrop(|| self.vacate(slot));
        // SAFETY: the slot is vacant and not in the list, so there is no other reference to its content.
        unsafe { (*slot.future.get()).write(make()) };
        mem::forget(give_back);
        if QUEUED {
            slot.next.set(Slot::STARTED);
            self.flag(&slot.task);
        } else {
            slot.next.set(ptr::null());
            let last = self.last_new.replace(slot);
            match self.slot(self.first_new.get()) {
                None => self.first_new.set(slot),
                // SAFETY: the list of new tasks is of our slots, and not empty.
                Some(_) => unsafe { (*last).next.set(slot) },
            }
        }
        self.tasks.set(self.tasks.get() + 1);
        P::add(Counter::Spawns, 1);
        P::peak(Counter::PeakTasks, self.tasks.get() + 1); // and the root
        P::peak(Counter::FutureBytes, size_of::<F>());
        P::peak(Counter::ConnectionBytes, size_of::<Slot<F>>() + size_of::<Entry<Y, P>>());
        Ok(())
    }
}

// %% [markdown]
// New tasks come in the order in which they were spawned.

// %%
impl<Y: System, F, P: Probe, const QUEUED: bool> Executor<'_, Y, F, P, QUEUED> {
    /// Ends a task that is new or started: drops its future, then vacates its slot.
    #[inline(always)]
    fn retire(&self, slot: &Slot<F>) {
        let _end = OnDrop(|| {
            self.tasks.set(self.tasks.get() - 1);
            self.vacate(slot);
        });
        // SAFETY: the slot holds a future, which will not be used as one again: the caller does not refer to it, and
        // nothing polls it while its destructor runs.
        unsafe { (*slot.future.get()).assume_init_drop() };
    }

    #[inline]
    fn vacate(&self, slot: &Slot<F>) {
        slot.next.set(self.first_vacant.replace(slot));
    }
}

// %% [markdown]
// The end of the executor is the end of all its tasks, even if some of them panic then.

// %%
impl<Y: System, F, P: Probe, const QUEUED: bool> Drop for Executor<'_, Y, F, P, QUEUED> {
    fn drop(&mut self) {
        // First of all, for the reactor must not know tasks whose slots are gone.
        self.reactor.detach();
        // New tasks end as the others do.
        while let Some(slot) = self.slot(self.first_new.get()) {
            self.first_new.set(slot.next.replace(Slot::STARTED));
        }
        let mut thrown = None;
        for slot in self.slots.iter() {
            if slot.next.get() == Slot::STARTED
                && let Err(payload) = catch_unwind(AssertUnwindSafe(|| self.retire(slot)))
            {
                match thrown {
                    None => thrown = Some(payload),
                    Some(_) => shielded(|| drop(payload)),
                }
            }
        }
        match thrown {
            Some(payload) if thread::panicking() => shielded(|| drop(payload)),
            Some(payload) => resume_unwind(payload),
            None => {}
        }
    }
}

// %% [markdown]
// ## Which task is next?
//
// The loop by hand has no queue: it walks the events. So does this one. An event whose task is known is followed by
// that task's poll at once. When the events of one poll are through, the new tasks come, which have a list. Flags are
// for all others: tasks woken by other tasks, and by other threads.
//
// A limit keeps tasks that forever wake themselves, or spawn, from locking out the objects: after so many polls the
// reactor has its turn, even if tasks are still awake. New tasks and woken ones have each their own, so that endless new
// ones do not lock out those that were woken.

// %% [markdown]
// First what happens when no task is left: the reactor polls. The same place looks for wakes from other threads. If
// there is no task to poll, the system may wait, until an object is ready or another thread wakes one of our tasks.

// %%
impl<Y: System, F, P: Probe, const QUEUED: bool> Executor<'_, Y, F, P, QUEUED> {
    /// Polls the system.
    #[inline(always)]
    fn refill(&self, events: &mut Vec<Y::Event>, before_wait: &mut impl FnMut()) {
        let none_is_awake = || self.first_new.get().is_null() && !self.first_block.any_ready.get();
        if none_is_awake() {
            before_wait();
        }
        // Afterwards, for it may have waited itself, and so have taken a wake of another thread for its own.
        if self.first_block.any_remote.load(Ordering::Relaxed) {
            self.fetch_remote();
        }
        self.reactor.system.poll(events, none_is_awake);
        P::add(Counter::Events, events.len());
    }

    /// Sees to the wakes of other threads.
    #[cold]
    fn fetch_remote(&self) {
        // A wake that comes after this line raises the flag again, so none is lost.
        self.first_block.any_remote.swap(false, Ordering::Acquire);
        for owned in &self.blocks {
            owned.block.fetch_remote();
        }
    }

    /// Takes the next flag off and returns its task. The blocks have their turns.
    #[inline(always)]
    fn take_flagged(&self) -> Option<&Slot<F>> {
        let number = if self.blocks.len() == 1 { 0 } else { self.next_block() };
        let block = self.blocks[number].block;
        let flag = if QUEUED { block.take_highest() } else { block.take_ready() };
        if flag.is_none() {
            self.first_block.any_ready.set(false);
        }
        flag.map(|flag| self.slots.get(number * FLAGS + flag).unwrap_or(&self.root))
    }

    /// The next of several blocks that has a flag, or any when none has.
    #[cold]
    fn next_block(&self) -> usize {
        let turn = self.turn.get();
        let mut numbers = (turn..self.blocks.len()).chain(0..turn);
        let number = numbers.find(|&number| self.blocks[number].block.summary.get() != 0).unwrap_or(turn);
        self.turn.set((number + 1) % self.blocks.len());
        number
    }
}

/// Wakes a task of another executor, by its own waker.
#[cold]
fn wake_foreign<Y: System, P>(entry: &Entry<Y, P>) {
    if let Some(waker) = entry.foreign.take() {
        waker.wake();
    }
}

// %% [markdown]
// A task that was woken by another may have finished since, or be new.

// %%
/// What is next.
enum Next<'e, F> {
    Pooled(&'e Slot<F>),
    Root,
    /// The reactor, because no task is awake, or enough were polled since.
    Reactor,
}

impl<Y: System, F, P: Probe, const QUEUED: bool> Executor<'_, Y, F, P, QUEUED> {
    /// The task of this slot, which was woken, unless it is new or has finished.
    #[inline(always)]
    fn turn<'e>(&'e self, slot: &'e Slot<F>) -> Option<Next<'e, F>> {
        if slot.next.get() == Slot::STARTED {
            return Some(Next::Pooled(slot));
        }
        cold_path(); // as the root of a server, compared with its tasks
        ptr::eq(slot, &*self.root).then_some(Next::Root)
    }

    /// The next one that was woken, or the reactor.
    #[inline(always)]
    fn next_woken(&self) -> Next<'_, F> {
        while self.first_block.any_ready.get() {
            if !QUEUED {
                cold_path(); // in a server, almost all are woken by events
            }
            if spend(&self.patience_with_woken)
                && let Some(slot) = self.take_flagged()
            {
                if let Some(next) = self.turn(slot) {
                    return next;
                }
            } else {
                self.patience_with_woken.set(PATIENCE);
                break;
            }
        }
        Next::Reactor
    }

    /// The same, while there are more new tasks than patience.
    #[cold]
    #[inline(never)]
    fn pass_new(&self) -> Next<'_, F> {
        let next = self.next_woken();
        if let Next::Reactor = next {
            self.patience_with_new.set(PATIENCE);
        }
        next
    }
}

// %% [markdown]
// And this is the choice itself, for every poll of every task.

// %%
impl<Y: System, F, P: Probe, const QUEUED: bool> Executor<'_, Y, F, P, QUEUED> {
    /// The next task to poll.
    #[inline(always)]
    fn next(&self, events: &mut slice::Iter<'_, Y::Event>) -> Next<'_, F> {
        for event in events {
            let entry = self.reactor.entry(event);
            if Y::is_end(event) {
                entry.empties.set(Some(false));
            }
            let waits = entry.waits.replace(NO_TASK);
            if waits > FOREIGN {
                // SAFETY: the reactor knows the tasks of one executor at a time, as long as that lives; and a task has
                // the address of its slot.
                let slot = unsafe { &*ptr::with_exposed_provenance::<Slot<F>>(waits) };
                if QUEUED {
                    self.flag(&slot.task);
                } else if let Some(next) = self.turn(slot) {
                    return next;
                }
            } else if waits == FOREIGN {
                wake_foreign(entry);
            }
        }
        match self.slot(self.first_new.get()) {
            Some(_) if !spend(&self.patience_with_new) => self.pass_new(),
            Some(slot) => {
                self.first_new.set(slot.next.replace(Slot::STARTED));
                Next::Pooled(slot)
            }
            None => self.next_woken(),
        }
    }
}

// %% [markdown]
// ## Run
//
// A single poll is short, because all the care is in `retire`.

// %%
impl<Y: System, F: Future<Output = ()>, P: Probe, const QUEUED: bool> Executor<'_, Y, F, P, QUEUED> {
    #[inline(always)]
    fn poll_task<T: Future>(&self, slot: &Slot<F>, future: Pin<&mut T>) -> Poll<T::Output> {
        P::add(Counter::Polls, 1);
        future.poll(&mut Context::from_waker(&slot.task.waker))
    }

    #[inline(always)]
    fn poll_pooled(&self, slot: &Slot<F>) {
        // SAFETY: a started task holds a future. It is never moved out of its slot; and there is no other reference to
        // it, because only `run` does so and `run` does not nest.
        let future = unsafe { Pin::new_unchecked((*slot.future.get()).assume_init_mut()) };
        let retire = OnDrop(|| shielded(|| self.retire(slot)));
        let outcome = self.poll_task(slot, future);
        mem::forget(retire);
        if outcome.is_ready() {
            self.retire(slot);
        }
    }

    /// Polls tasks of the pool until it is the root's turn, and returns the other events, or until it is the reactor's.
    ///
    /// A program with several `run`s has this function once, so that they all poll the pool in one place.
    fn serve<'e>(&self, mut events: slice::Iter<'e, Y::Event>) -> Option<slice::Iter<'e, Y::Event>> {
        loop {
            match self.next(&mut events) {
                Next::Pooled(slot) => self.poll_pooled(slot),
                Next::Root => return Some(events),
                Next::Reactor => return None,
            }
        }
    }

    /// Tells other threads how to end our wait.
    fn notify(&self, notifier: Option<&Waker>) {
        let mut place = self.first_block.notifier.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *place = notifier.cloned();
    }
}

// %% [markdown]
// The root is dropped when it has finished, since tasks may wait for what it holds. Its output stays until they have
// finished, too.

// %%
/// The root's future, then its output.
struct Root<R: Future> {
    future: Option<R>,
    output: Option<R::Output>,
}

impl<R: Future> Root<R> {
    /// Out of line, so that the output is memory, and takes no register from the loop that is below.
    #[cold]
    #[inline(never)]
    fn finish(self: Pin<&mut Self>, output: R::Output) {
        // SAFETY: the future is not moved, but dropped where it is.
        let root = unsafe { self.get_unchecked_mut() };
        root.output = Some(output);
        root.future = None;
    }
}

impl<R: Future> Drop for Root<R> {
    /// Only a panic has left something.
    #[inline]
    fn drop(&mut self) {
        if self.future.is_some() {
            shielded(|| self.future = None);
        }
        if self.output.is_some() {
            shielded(|| self.output = None);
        }
    }
}

// %% [markdown]
// A panic also leaves unhandled events, and the system does not report them again. They go back to the
// reactor, all of them: an event that is seen twice makes a task try what would block.

// %%
/// The events of one poll; the reactor has them at other times.
struct Events<'r, Y: System, P> {
    reactor: &'r Reactor<Y, P>,
    events: Vec<Y::Event>,
}

impl<Y: System, P> Drop for Events<'_, Y, P> {
    fn drop(&mut self) {
        self.reactor.events.set(mem::take(&mut self.events));
    }
}

// %% [markdown]
// One loop, with one place that polls the root and one that polls the pool: with two, the compiler would inline the
// server into neither. So the pool is polled by `serve`, which does not depend on the root's type. A program with one `run`
// has it inlined; where several `run`s share a type of tasks, they share it, with the server inlined in it.

// %%
impl<Y: System, F: Future<Output = ()>, P: Probe, const QUEUED: bool> Executor<'_, Y, F, P, QUEUED> {
    /// Runs `root` and all tasks to their end.
    ///
    /// # Panics
    /// If a task panics, which ends that task and `root`, while all others stay for the next `run`; if a foreign waker
    /// panics, which ends `root`; if a task calls `run`.
    #[inline]
    pub fn run<R: Future>(&self, root: R) -> R::Output {
        self.run_with(root, || ())
    }

    /// The same; calls `before_wait` whenever no task is awake, before it asks the system, which may wait then.
    ///
    /// # Panics
    /// As [`run`](Self::run), and if `before_wait` does.
    #[inline]
    pub fn run_with<R: Future>(&self, root: R, mut before_wait: impl FnMut()) -> R::Output {
        assert!(!self.running.replace(true), "the executor is running already");
        let place = &self.root;
        let _running = OnDrop(|| {
            self.notify(None);
            self.running.set(false);
        });
        self.notify(Some(&self.reactor.notifier));
        let mut root = pin!(Root { future: Some(root), output: None });
        self.flag(&place.task);
        let mut batch = Events { reactor: self.reactor, events: self.reactor.events.take() };
        self.patience_with_new.set(PATIENCE);
        self.patience_with_woken.set(PATIENCE);
        loop {
            let mut fresh = batch.events.iter();
            while let Some(rest) = self.serve(fresh) {
                fresh = rest;
                // SAFETY: it is a place of what is pinned, and not moved before it is dropped.
                let future = unsafe { root.as_mut().map_unchecked_mut(|root| &mut root.future) };
                // It may have finished, and be woken once more.
                if let Some(future) = future.as_pin_mut()
                    && let Poll::Ready(output) = self.poll_task(place, future)
                {
                    root.as_mut().finish(output);
                }
            }
            if root.future.is_none() && self.is_empty() {
                batch.events.clear();
                // SAFETY: the output is not pinned.
                let output = unsafe { root.get_unchecked_mut().output.take() };
                return output.expect("the root has finished");
            }
            self.refill(&mut batch.events, &mut before_wait);
        }
    }
}

// %% [markdown]
// ## The server
//
// After all that, the part that its users write. Two plain async functions. The buffer is a parameter, because the
// ladder asks what a large one costs.

// %%
/// A connection's buffer.
pub trait Buffer: 'static {
    /// Bytes that are set to zero.
    const ZEROED: usize;

    fn new() -> Self;
    fn bytes(&mut self) -> &mut [u8];
}

impl<const LENGTH: usize> Buffer for [u8; LENGTH] {
    const ZEROED: usize = LENGTH;

    #[inline(always)]
    fn new() -> Self {
        [0; LENGTH]
    }

    #[inline(always)]
    fn bytes(&mut self) -> &mut [u8] {
        self
    }
}

/// The buffer that the loop has, too.
pub type Small = [u8; SMALL_BUFFER];

// %% [markdown]
// The server itself: it reads until a line is whole, does its work, and sends the line back.

// %%
/// Reads one line and sends it back.
pub async fn echo<L: Line, W: Work, P: Probe, B: Buffer>(mut stream: L, work: W) {
    P::add(Counter::ZeroedBytes, B::ZEROED);
    let mut buffer = B::new();
    let mut filled = 0;
    loop {
        filled += stream.read(&mut buffer.bytes()[filled..]).await;
        if holds_line::<Lean>(&buffer.bytes()[..filled]) {
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
pub async fn accept_all<'r, 's, D: Door<&'s Stats>, P: Probe>(
    reactor: &'r Reactor<Fake<'s>, P>,
    stats: &'s Stats,
    spawn: impl Fn(Io<'r, Fake<'s>, P>) -> Result<(), Full>,
) {
    let mut listener = Listener::owned(reactor, D::open(stats), READABLE).expect("room for the listener");
    for _ in 0..CONNECTIONS {
        let stream = listener.accept().await.expect("the reactor has room for all connections");
        spawn(stream).expect("the pool has room for all connections");
    }
}

/// The world of the frontier.
pub fn frontier<D: OpensDoors, W: Work, P: Probe>(load: Load, repeat: Repeat<'_>) {
    let stats = Stats::new(load.syscalls);
    let reactor = Reactor::<_, P>::new(Fake::new(&stats), TASKS).expect("room for all objects");
    let executor = Executor::new(&reactor, CONNECTIONS);
    let work = W::under(load);
    repeat(&stats, &mut || {
        executor.run(accept_all::<D::Door<&Stats>, P>(&reactor, &stats, |stream| {
            executor.spawn(|| echo::<_, W, P, Small>(stream, work))
        }));
    });
}

// %% [markdown]
// What does a request take? Both in turns, a second each, and the ratio to the first. It is a glance: one process, no
// proof, no control. Change the load, or a cell above, and look again.

// %% tags=["active-ipynb", "glance"]
// zero_cost_loop::glance(Load { syscalls: false, steps: 0 }, &[
//     ("loop", zero_cost_loop::by_hand::<zero_cost_loop::Pipeline, zero_cost_loop::NoWork, zero_cost_loop::Timed<()>>),
//     ("frontier", frontier::<zero_cost_loop::Pipeline, zero_cost_loop::NoWork, zero_cost_loop::Timed<()>>),
// ])

// %% [markdown]
// # On a real kernel
//
// The same executor serves sockets when `epoll` takes the place of the fake system. Sockets are registered once and
// *edge-triggered*: the kernel says when something has changed. That is enough, for an operation is tried before it
// waits. A wake from another thread ends the wait by an `eventfd`, which is one more file to watch; it need not be read,
// since each write to it is a change.

// %%
/// Linux's `epoll`, for non-blocking streams of one type.
pub struct Epoll<S> {
    epoll: OwnedFd,
    notice: Arc<Notice>,
    streams: PhantomData<S>,
}

/// An `eventfd`.
struct Notice(OwnedFd);

impl Wake for Notice {
    fn wake(self: Arc<Self>) {
        // The only thing that can go wrong is a counter at its end, after 2^64 wakes.
        let _written = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl<S> Epoll<S> {
    /// Watches nothing yet.
    ///
    /// # Errors
    /// The operating system's error, for example when too many files are open.
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let notice = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { epoll, notice: Arc::new(Notice(notice)), streams: PhantomData })
    }
}

// %% [markdown]
// Waiting and watching take a system call each.

// %%
impl<S> Epoll<S> {
    /// Replaces the content of `events` by what is ready, when something is, or after so much time; of a time beyond
    /// [`LONGEST`](Self::LONGEST), after that. As many events as `events` has room for, but at least one.
    #[inline]
    pub fn wait(&self, events: &mut Vec<epoll::Event>, at_most: Option<Duration>) {
        let at_most = at_most.map(|time| Timespec::try_from(time.min(Self::LONGEST)).expect("it is short"));
        events.clear();
        if events.capacity() == 0 {
            events.reserve(1);
        }
        let outcome = retry_on_intr(|| epoll::wait(&self.epoll, spare_capacity(events), at_most.as_ref()));
        outcome.expect("this can be waited for");
    }

    /// All that an older kernel can wait for.
    pub const LONGEST: Duration = Duration::from_millis(i32::MAX as u64);

    fn watch(&self, object: impl AsFd, key: usize, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, object, EventData::new_u64(key as u64), flags)?)
    }
}

// %% [markdown]
// An event may say that the other side has finished, or has sent a byte that is urgent, where reads stop. That must be
// kept: it is a change like any other and is said once.

// %%
/// What every object is watched for. Writing is added when a write had to wait for the first time.
const READS: EventFlags =
    EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::PRI).union(EventFlags::ET);

// SAFETY: the kernel hands out the keys that it was given.
unsafe impl<S: AsFd> System for Epoll<S> {
    type Event = epoll::Event;
    type Interest = ();
    type Stream = S;

    #[inline]
    fn poll(&self, events: &mut Vec<epoll::Event>, may_wait: impl FnOnce() -> bool) {
        self.wait(events, (!may_wait()).then_some(Duration::ZERO));
    }

    #[inline(always)]
    fn key(event: &epoll::Event) -> usize {
        event.data.u64() as usize
    }

    #[inline(always)]
    fn is_end(event: &epoll::Event) -> bool {
        let flags = event.flags; // a copy: the structure is packed
        flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR | EventFlags::PRI)
    }

    unsafe fn notifier(&self, key: usize) -> io::Result<Waker> {
        self.watch(&self.notice.0, key, READS)?;
        Ok(Waker::from(Arc::clone(&self.notice)))
    }
}

// SAFETY: as it says.
unsafe impl<S: AsFd, T: AsFd> Object<Epoll<S>> for T {
    #[inline]
    unsafe fn register(&self, system: &Epoll<S>, key: usize, (): ()) -> io::Result<()> {
        system.watch(self, key, READS)
    }

    #[inline]
    fn unregister(&self, system: &Epoll<S>) {
        // The only thing that can go wrong is that it is not watched: it was closed, or is another file by now.
        let _forgotten = epoll::delete(&system.epoll, self);
    }
}

// %% [markdown]
// A read that does not fill its buffer has emptied a TCP socket. The next read would block, and is not tried: a request
// on a connection that stays open takes one read and one write. Of others that is not so: a read takes one packet of
// those that are there, or the bytes up to the next file that was sent along, or what a stream of a user's own has in a
// buffer. So it has to be a `TcpStream`; and since that can be made of any descriptor, the kernel is asked once for each.

// %%
/// What came of a call that does not block.
///
/// # Errors
/// [`WouldBlock`] if it would have; any other error is an outcome.
pub fn tried<T>(outcome: io::Result<T>) -> Result<io::Result<T>, WouldBlock> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(WouldBlock),
        outcome => Ok(outcome),
    }
}

/// A system whose streams are sockets.
pub trait Sockets: System {
    /// Whether a read from `stream` that does not fill its buffer has emptied it, unless an event says otherwise.
    fn empties(_stream: &Self::Stream) -> bool {
        false
    }

    /// Tells of writes to `stream` as well, from now on.
    ///
    /// # Errors
    /// The operating system's error.
    ///
    /// # Safety
    /// As for [`Object::register`].
    unsafe fn watch_writes(&self, stream: &Self::Stream, key: usize) -> io::Result<()>;
}

/// Whether a type is `TcpStream`.
trait IsTcp {
    fn is_tcp(&self) -> bool
    where
        Self: 'static;
}

impl<S> IsTcp for PhantomData<S> {
    fn is_tcp(&self) -> bool
    where
        Self: 'static,
    {
        TypeId::of::<S>() == TypeId::of::<TcpStream>()
    }
}

impl<S: AsFd> Sockets for Epoll<S> {
    #[cold]
    fn empties(stream: &S) -> bool {
        let of: &dyn IsTcp = &PhantomData::<S>;
        // SAFETY: only a lifetime changes, of what holds nothing and says nothing but which type it is.
        let of: &(dyn IsTcp + 'static) = unsafe { mem::transmute(of) };
        of.is_tcp() && socket_protocol(stream) == Ok(Some(ipproto::TCP))
    }

    #[cold]
    unsafe fn watch_writes(&self, stream: &S, key: usize) -> io::Result<()> {
        let flags = READS | EventFlags::OUT;
        Ok(epoll::modify(&self.epoll, stream, EventData::new_u64(key as u64), flags)?)
    }
}

// %% [markdown]
// That a stream is drained stays known after the operation, and so does whether a short read drains it.

// %%
impl<Y: Sockets, P: Probe, L: Place<Y, Object = Y::Stream>> Operation<'_, Y, P, L> {
    /// Whether a read that does not fill its buffer has emptied the stream.
    #[cold]
    fn empties(&self) -> bool {
        // SAFETY: they are those of an `Io`, which made us and is borrowed mutably.
        let ask = || Y::empties(unsafe { L::object(self.known, self.entry) });
        let empties = self.entry.empties.get().unwrap_or_else(ask);
        self.entry.empties.set(Some(empties));
        empties
    }
}

impl<Y: Sockets, P: Probe, L: Place<Y>> Io<'_, Y, P, L> {
    /// An operation that was not tried, on a stream that is still known to be drained if it was.
    #[inline(always)]
    fn operation_on_stream(&mut self) -> Operation<'_, Y, P, L> {
        let was_drained = self.entry.waits.get() == DRAINED;
        let operation = self.operation();
        if was_drained {
            operation.entry.waits.set(DRAINED);
        }
        operation
    }
}

// %% [markdown]
// Reading and writing are attempts, repeated when the object is ready.

// %%
impl<Y: Sockets, P: Probe, L> Io<'_, Y, P, L>
where
    L: Place<Y, Object = Y::Stream>,
    for<'a> &'a Y::Stream: Read + Write,
{
    /// Reads into the start of `buffer`; 0 if nothing more will come, or the buffer is empty.
    #[inline]
    pub fn read(&mut self, buffer: &mut [u8]) -> impl Future<Output = io::Result<usize>> {
        let mut operation = self.operation_on_stream();
        poll_fn(move |context| {
            let entry = operation.entry;
            if buffer.is_empty() {
                return Poll::Ready(Ok(0)); // the kernel would wait for bytes
            }
            if entry.waits.get() == DRAINED {
                return operation.wait(context);
            }
            let outcome = ready!(operation.poll(context, |mut stream| tried(stream.read(buffer))));
            let is_short = outcome.as_ref().is_ok_and(|length| (1..buffer.len()).contains(length));
            if is_short && (entry.empties.get() == Some(true) || operation.empties()) {
                entry.waits.set(DRAINED);
            }
            Poll::Ready(outcome)
        })
    }

    /// Writes from the start of `bytes`; the number of bytes that were taken.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> impl Future<Output = io::Result<usize>> {
        let reactor = self.reactor();
        let mut operation = self.operation_on_stream();
        poll_fn(move |context| {
            let Operation { entry, known, .. } = operation;
            let outcome = operation.poll(context, |mut stream| tried(stream.write(bytes)));
            if outcome.is_pending() && !entry.watches_writes.get() {
                // SAFETY: they are those of the `Io` that we borrow.
                let stream = unsafe { L::object(known, entry) };
                // SAFETY: it is the key under which the stream is registered.
                unsafe { reactor.system.watch_writes(stream, ptr::from_ref(entry).addr()) }?;
                entry.watches_writes.set(true);
            }
            outcome
        })
    }
}

// %% [markdown]
// # What is promised
//
// Futures, streams and wakers are written by users, and so are their destructors. Each promise, and each limit, has a test
// in [`tests`](../../rust-kernels/ladder/frontier/tests).
//
// | of | promise | test |
// |---|---|---|
// | `run` | it returns when the root and all tasks have ended | `run_returns_what_the_root_returns_when_all_tasks_are_done` |
// | | a panic ends its task and the root, and no other task | `a_panic_ends_its_task_and_the_root_and_no_other` |
// | | a destructor that panics ends neither the process nor another task | `a_task_that_panics_again_when_it_is_dropped_ends_alone`, `a_root_and_an_output_that_panic_when_they_are_dropped_do_not_end_the_process` |
// | | a task that wakes itself for ever starves no other, and no object | `a_task_that_always_wakes_itself_starves_neither_tasks_nor_objects` |
// | | *limit:* it does not nest | `run_does_not_nest` |
// | `spawn` | a full executor refuses, and makes no future; one that is being made may spawn, or panic | `an_executor_has_room_for_none_or_many_and_refuses_more`, `a_maker_may_spawn`, `a_panicking_maker_gives_its_slot_back` |
// | `Executor` | its futures are dropped with it, each although others panic | `futures_are_dropped_with_their_executor`, `tasks_that_panic_when_their_executor_is_dropped_do_not_keep_the_others` |
// | | wakers work on any thread, and after it | `wakers_work_on_any_thread_after_their_executor` |
// | | *limit:* slots are as many as its capacity, from the start to the end | `an_executor_has_room_for_none_or_many_and_refuses_more` |
// | `Reactor` | *limit:* it has one executor at a time | `a_reactor_has_one_executor` |
// | | a full one refuses, and drops what it was given | `a_full_reactor_refuses_and_closes_what_it_was_given` |
// | `Io` | an operation that is given up leaves its object usable, and no waker | `an_abandoned_operation_leaves_its_object_usable`, `operations_given_up_ended_and_superseded_leave_no_waker` |
// | | a stream that panics when it is dropped leaves its place | `a_stream_that_panics_when_it_is_dropped_leaves_its_place` |
// | `read` | what is there is read: packets, bytes behind a file or an urgent one, what a stream has in a buffer | `packets_that_are_there_are_read_one_by_one`, `bytes_behind_a_file_that_was_sent_along_are_read`, `bytes_behind_an_urgent_one_are_read`, `what_a_stream_has_kept_itself_is_read` |
// | memory | what ends leaves nothing, with or without a panic | `tasks_that_end_panic_or_are_woken_leave_nothing`, `executors_that_end_with_or_without_a_panic_leave_nothing`, `reactors_leave_nothing` |
