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
// # Is async a zero-cost abstraction?
//
// One thread. 256 clients connect, each sends a line, each gets the line back. You can serve them with a loop
// around a poller, written by hand, with every connection's state in a struct of your own. Or you can write
// two short `async` functions and let the compiler build those structs. **What do you pay for the second
// way?**
//
// Justin Karneges put that question to himself in
// [rust-async-bench](https://github.com/jkarneges/rust-async-bench/tree/818a146) and published an answer in
// September 2022: for all 256 requests a bare loop takes 24.5 µs, the leanest of his async executors 90.7 µs,
// and with a system call behind every I/O operation the two come within ten per cent. This notebook builds
// his ten servers again, from the description up, adds a better hand-written loop to compare them with, and
// measures all of them on *your* machine.
//
// So the answer here is what the published minimal executors cost, not the least that any could. `manual (best)` below
// is the best loop that I can write. Async has no such champion here: how far it can be pushed is the question of [the
// frontier](../ladder/frontier.ipynb).
//
// All 256 requests together are one **iteration**, and every figure is the cost of an iteration unless it
// says otherwise. A **run** is what is kept in `data/runs`: one measurement of everything, from start to end.
// (In the code, `run` is the function that makes one iteration.)
//
// After reading it you can decide three things about a single-threaded program of your own:
//
// 1. whether the cost of `async` is anywhere near the cost of the work it schedules;
// 2. whether you need to avoid boxing futures, or may stop thinking about it;
// 3. whether an `Rc` waker is worth its danger, or `Arc` will do.
//
// The notebook is also a Rust crate (`rust-kernels/zero-cost`, the same text), so everything you read here is
// tested, linted and run under sanitizers. Nothing below is pseudo-code.

// %% [markdown]
// ## Compile cells as for a benchmark
//
// A notebook kernel normally compiles in Cargo's development profile, with overflow checks and debug
// assertions. Those cost each server a different share of its time, so every ratio would come out wrong. The
// first thing we do is switch all of that off. The harness checks, and refuses to measure if we forget.

// %% tags=["active-ipynb"]
// :build_env CARGO_PROFILE_DEV_OPT_LEVEL=3
// :build_env CARGO_PROFILE_DEV_DEBUG_ASSERTIONS=false
// :build_env CARGO_PROFILE_DEV_OVERFLOW_CHECKS=false
// :build_env CARGO_PROFILE_DEV_CODEGEN_UNITS=1
// :build_env CARGO_INCREMENTAL=0
// :dep harness = { path = "../../rust-kernels/harness" }
// :dep libc = "=0.2.189"
// :dep slab = "=0.4.12"

// %% [markdown]
// Two crates besides our harness: `slab`, a vector with reusable slots, which the event loop and every table
// below are made of, and `libc` for the system call. There is no async runtime, because the executors *are*
// the subject.

// %%
use std::cell::{Cell, RefCell, UnsafeCell};
use std::fmt;
use std::future::Future;
use std::hint::black_box;
use std::io;
use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::ops::Deref;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::thread::{self, ThreadId};

use harness::{Bencher, Counts, Key, Study, UnequalWork};
use slab::Slab;

// %% [markdown]
// ## The load
//
// The sizes are the published ones. 128 bytes is plenty for a line; the 16 KiB buffer exists only to make
// futures big. Every table is sized for all connections at once plus the task that accepts them.

// %%
/// Requests, and connections, in one iteration.
pub const CONNECTIONS: usize = 256;
/// Slots in every table of tasks: one for each connection and one for the task that accepts them.
pub const TASKS: usize = CONNECTIONS + 1;
/// Bytes of a connection's buffer, zeroed anew for every connection.
pub const SMALL_BUFFER: usize = 128;
/// Bytes of the buffer in the variants called `large+…`.
pub const LARGE_BUFFER: usize = 16 * 1024;
/// What every client says, and is told.
pub const LINE: &[u8; 12] = b"hello world\n";

// %% [markdown]
// # A kernel made of counters
//
// Real sockets would drown the question in noise, so the operating system is a fake: a listener that always
// has another client, streams that always have a line to read and room to write, a poller that finds
// everything ready. Two properties make it a fair fake.
//
// **Each operation fails first.** Every odd call returns `WouldBlock`, so each variant must wait for
// readiness and come back, just as with sockets.
//
// **All variants call the same opaque functions.** The operations are compiled once for each kind of error, out of
// line, and their results pass through `black_box`. Otherwise the optimiser would look into the fake, notice that
// `read` always yields 12 bytes, and fold half of a server away; and it would do so in the simple loop sooner than in
// the executors.
//
// The ledger comes first. It counts six kinds of operation, and can put a system call behind each.

// %%
/// An operation that a real program would ask its operating system for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Register,
    Unregister,
    Poll,
    Accept,
    Read,
    Write,
}

impl Operation {
    /// All of them, in the order of declaration.
    pub const ALL: [Self; 6] =
        [Self::Register, Self::Unregister, Self::Poll, Self::Accept, Self::Read, Self::Write];

    /// The counter's name in the data.
    pub fn name(self) -> &'static str {
        ["register", "unregister", "poll", "accept", "read", "write"][self as usize]
    }
}

// %% [markdown]
// The system call is a `read` of one byte from a pipe into which nobody ever writes. It goes through the
// file layer, always fails in the same way, and the variants called `+syscalls` make it with *every* operation:
// with `register` and `poll` too, as the published program does.

// %%
/// A pipe without content, whose read end does not block.
pub struct EmptyPipe {
    /// Reading end, then writing end. Plain numbers, because the test for "no pipe", which every operation
    /// makes, takes an instruction more when it has to look for an invalid descriptor.
    ends: [RawFd; 2],
}

impl EmptyPipe {
    /// Opens the pipe.
    ///
    /// # Errors
    /// The operating system's error, for example when there are too many open files.
    pub fn open() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let pipe = Self { ends: [reader.into_raw_fd(), writer.into_raw_fd()] };
        // SAFETY: the descriptor is open, and `F_GETFL` takes no argument.
        let flags = unsafe { libc::fcntl(pipe.ends[0], libc::F_GETFL) };
        // SAFETY: the descriptor is open, and `F_SETFL` takes an `int`.
        if flags == -1 || unsafe { libc::fcntl(pipe.ends[0], libc::F_SETFL, flags | libc::O_NONBLOCK) } == -1
        {
            return Err(io::Error::last_os_error());
        }
        Ok(pipe)
    }

    /// One system call that fails.
    ///
    /// # Panics
    /// If it does not fail with `EAGAIN`: then it did other work than we believe.
    #[inline(never)]
    fn read_in_vain(&self) {
        let mut byte = 0_u8;
        // SAFETY: the descriptor is open until `self` is dropped, and `byte` has room for the one byte asked
        // for.
        let outcome = unsafe { libc::read(self.ends[0], (&raw mut byte).cast(), 1) };
        assert_eq!(outcome, -1, "the empty pipe had something to read");
        assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::EAGAIN));
    }
}

impl Drop for EmptyPipe {
    fn drop(&mut self) {
        for end in self.ends {
            // SAFETY: `end` is ours alone and open; `OwnedFd` closes it.
            drop(unsafe { OwnedFd::from_raw_fd(end) });
        }
    }
}

// %% [markdown]
// The ledger itself is six cells and, perhaps, the pipe. `enter` is inlined into the operations, so that
// without the pipe an operation pays one comparison and one increment for being counted.

// %%
/// Counts the operations of one world and, if wanted, makes a system call for each.
#[derive(Default)]
pub struct Stats {
    counts: [Cell<u32>; 6],
    pipe: Option<EmptyPipe>,
}

impl Stats {
    /// A ledger of zeros.
    ///
    /// # Panics
    /// If `syscalls` are wanted and the operating system refuses the pipe.
    pub fn new(syscalls: bool) -> Self {
        let pipe = syscalls.then(|| EmptyPipe::open().expect("a pipe for the system calls"));
        Self { counts: Default::default(), pipe }
    }

    /// How often `operation` was asked for.
    pub fn count(&self, operation: Operation) -> u64 {
        self.counts[operation as usize].get().into()
    }

    /// The same of all operations, by their names, and the `syscalls`: one for each operation, or none.
    pub fn counts(&self) -> Counts {
        let mut counts =
            Counts::from(Operation::ALL.map(|operation| (operation.name(), self.count(operation))));
        let syscalls = if self.pipe.is_some() { counts.values().sum() } else { 0 };
        counts.insert("syscalls", syscalls);
        counts
    }

    /// Enters the fake operating system. Every operation begins here.
    #[inline(always)]
    fn enter(&self, operation: Operation) {
        if let Some(pipe) = &self.pipe {
            pipe.read_in_vain();
        }
        let count = &self.counts[operation as usize];
        count.set(count.get().wrapping_add(1));
    }
}

// %% [markdown]
// ### Details that are not async
//
// Some details of the published program have nothing to do with async, and may still cost the loop and the executors
// unequally: what an operation that would block reports, where the poller leaves its events, whether a newline is
// searched from the front or the back, what a list does when it is asked to remove what it does not hold, and whether
// the optimiser may look into the fake. Each of them is a *choice*, made when the code is compiled. The published
// variants make the choices of the document, except that the fake stays opaque; `manual (best)` and the ladder make the
// others. A table of the analysis says what each choice does.

// %%
/// What an operation that would block reports.
pub trait Blocked: fmt::Debug {
    /// It would block now.
    fn new() -> Self;
    /// Whether that is what is reported.
    fn would_block(&self) -> bool;
}

/// The smallest error: it holds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WouldBlock;

impl Blocked for WouldBlock {
    #[inline(always)]
    fn new() -> Self {
        Self
    }

    #[inline(always)]
    fn would_block(&self) -> bool {
        true
    }
}

/// As sockets report it, and the published program.
impl Blocked for io::Error {
    #[inline(always)]
    fn new() -> Self {
        io::ErrorKind::WouldBlock.into()
    }

    #[inline(always)]
    fn would_block(&self) -> bool {
        self.kind() == io::ErrorKind::WouldBlock
    }
}

// %% [markdown]
// The poller leaves its events in a plain vector or, as published, in a slab.

// %%
/// "The object that was registered with `key` is `ready` now."
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whatever the owner chose at registration.
    pub key: usize,
    /// [`READABLE`], [`WRITABLE`] or both.
    pub ready: u8,
}

/// Where a poller leaves its events; the first is number 0.
pub trait Events: std::ops::Index<usize, Output = Event> {
    /// Without events, and with room for so many.
    fn with_room(capacity: usize) -> Self;
    /// Holds these instead.
    fn refill(&mut self, events: impl Iterator<Item = Event>);
    /// How many there are.
    fn count(&self) -> usize;
}

impl Events for Vec<Event> {
    fn with_room(capacity: usize) -> Self {
        Self::with_capacity(capacity)
    }

    #[inline(always)]
    fn refill(&mut self, events: impl Iterator<Item = Event>) {
        self.clear();
        self.extend(events);
    }

    #[inline(always)]
    fn count(&self) -> usize {
        self.len()
    }
}

/// As published.
impl Events for Slab<Event> {
    fn with_room(capacity: usize) -> Self {
        Self::with_capacity(capacity)
    }

    #[inline(always)]
    fn refill(&mut self, events: impl Iterator<Item = Event>) {
        self.clear();
        for event in events {
            self.insert(event);
        }
    }

    #[inline(always)]
    fn count(&self) -> usize {
        self.len()
    }
}

// %% [markdown]
// A program is generic over its set of choices. One set is a type, so that none of them is looked up while the program
// runs.

// %%
/// [`Choices::CALLS`]: the optimiser may look into them, and make them part of their callers.
pub const INLINED: u8 = 0;
/// They are out of line and opaque.
pub const OPAQUE: u8 = 1;
/// As opaque ones, and called by one more function that is out of line.
pub const NESTED: u8 = 2;

/// Details of the program that are not async.
pub trait Choices: 'static {
    /// What an operation that would block reports.
    type Error: Blocked;
    /// Where the poller leaves its events.
    type Events: Events;
    /// Whether a newline is searched from the back, where it is.
    const FROM_THE_BACK: bool;
    /// Whether a list that is to remove what it does not hold returns early.
    const EARLY_RETURN: bool;
    /// How the operations of the fake are called.
    const CALLS: u8;
    /// Whether a future is made first and then copied into its box. Otherwise that is up to the compiler.
    const COPIED: bool;
}

/// A set of choices, in the order of [`Choices`].
pub struct Set<E, V, const BACK: bool, const EARLY: bool, const CALLS: u8, const COPIED: bool>(
    PhantomData<(E, V)>,
);

impl<E, V, const BACK: bool, const EARLY: bool, const CALLS: u8, const COPIED: bool> Choices
    for Set<E, V, BACK, EARLY, CALLS, COPIED>
where
    E: Blocked + 'static,
    V: Events + 'static,
{
    type Error = E;
    type Events = V;
    const FROM_THE_BACK: bool = BACK;
    const EARLY_RETURN: bool = EARLY;
    const CALLS: u8 = CALLS;
    const COPIED: bool = COPIED;
}

// %% [markdown]
// These are the sets that are measured.

// %%
/// The document's, except for opaque calls. The others differ from it in one choice.
pub type AsDescribed = Set<io::Error, Slab<Event>, false, false, OPAQUE, false>;
pub type SmallError = Set<WouldBlock, Slab<Event>, false, false, OPAQUE, false>;
pub type EventsInVec = Set<io::Error, Vec<Event>, false, false, OPAQUE, false>;
pub type FromTheBack = Set<io::Error, Slab<Event>, true, false, OPAQUE, false>;
pub type EarlyReturn = Set<io::Error, Slab<Event>, false, true, OPAQUE, false>;
pub type Inlined = Set<io::Error, Slab<Event>, false, false, INLINED, false>;
pub type Nested = Set<io::Error, Slab<Event>, false, false, NESTED, false>;
pub type Copied = Set<io::Error, Slab<Event>, false, false, OPAQUE, true>;
/// All of the others.
pub type Lean = Set<WouldBlock, Vec<Event>, true, true, OPAQUE, false>;

// %% [markdown]
// ### Listener and stream
//
// Both fail on odd calls and succeed on even ones. A stream counts its reads and writes with *one* counter,
// so the life of a connection is always the same: a read fails, a read brings the line, a write fails, a
// write takes the line. Objects come in two flavours, because the published variants do: they hold the ledger
// by reference or by `Rc`. The part that does the work does not know which.
//
// The poller is level-triggered, like `poll(2)`: whatever is registered is reported each time, with all that it is
// interested in, because in this world everything is always ready. Nothing ever sleeps.

// %%
/// Counts a call; odd calls would block.
///
/// # Errors
/// On calls 1, 3, 5 and so on.
#[inline(always)]
fn fail_first<E: Blocked>(calls: &Cell<u32>) -> Result<(), E> {
    let number = calls.get().wrapping_add(1);
    calls.set(number);
    if number % 2 == 1 { Err(E::new()) } else { Ok(()) }
}

/// Hides a value from the optimiser, where the operation is opaque.
#[inline(always)]
fn seal<const SEALED: bool, T>(value: T) -> T {
    if SEALED { black_box(value) } else { value }
}

/// Interest in, and readiness for, reading.
pub const READABLE: u8 = 1;
/// Interest in, and readiness for, writing.
pub const WRITABLE: u8 = 2;

/// What the poller remembers in an object: the slot of its registration, while it is registered.
type Token = Cell<Option<usize>>;
/// Registered objects: for each, the event that every poll will report.
type Registry = RefCell<Slab<Event>>;

// %% [markdown]
// Here is what each operation does, once. It is compiled in the three ways of [`Choices::CALLS`], of which the caller
// names one. Functions that are out of line take what they need one by one, in registers; a tuple would go through
// memory.

// %%
/// The operations of the fake.
mod calls {
    use super::*;

    macro_rules! operation {
        ($name:ident$(<$E:ident: $bound:ident>)?($($argument:ident: $type:ty),*) -> $out:ty $body:block) => {
            #[inline(always)]
            pub fn $name$(<$E: $bound>)?(how: u8, $($argument: $type),*) -> $out {
                #[inline(always)]
                fn body<$($E: $bound,)? const SEALED: bool>($($argument: $type),*) -> $out $body
                #[inline(never)]
                fn opaque$(<$E: $bound>)?($($argument: $type),*) -> $out {
                    body::<$($E,)? true>($($argument),*)
                }
                #[inline(never)]
                fn nested$(<$E: $bound>)?($($argument: $type),*) -> $out {
                    let out = opaque$(::<$E>)?($($argument),*);
                    black_box(()); // keeps the call from becoming a jump
                    out
                }
                match how {
                    INLINED => body::<$($E,)? false>($($argument),*),
                    OPAQUE => opaque$(::<$E>)?($($argument),*),
                    _ => nested$(::<$E>)?($($argument),*),
                }
            }
        };
    }

    operation!(accept<E: Blocked>(stats: &Stats, calls: &Cell<u32>) -> Result<(), E> {
        let calls = seal::<SEALED, _>(calls);
        stats.enter(Operation::Accept);
        fail_first(calls)
    });
    operation!(read<E: Blocked>(stats: &Stats, calls: &Cell<u32>, buffer: &mut [u8]) -> Result<usize, E> {
        stats.enter(Operation::Read);
        fail_first(calls)?;
        buffer[..LINE.len()].copy_from_slice(LINE);
        Ok(seal::<SEALED, _>(LINE.len()))
    });
    operation!(write<E: Blocked>(stats: &Stats, calls: &Cell<u32>, bytes: &[u8]) -> Result<usize, E> {
        let bytes = seal::<SEALED, _>(bytes);
        stats.enter(Operation::Write);
        fail_first(calls)?;
        Ok(bytes.len())
    });
    operation!(register(stats: &Stats, registry: &Registry, token: &Token, event: Event) -> () {
        stats.enter(Operation::Register);
        assert!(token.get().is_none(), "registered twice");
        token.set(Some(registry.borrow_mut().insert(event)));
    });
    operation!(unregister(stats: &Stats, registry: &Registry, token: &Token) -> () {
        stats.enter(Operation::Unregister);
        let slot = token.take().expect("not registered");
        registry.borrow_mut().remove(slot);
    });
    operation!(poll<E: Events>(stats: &Stats, registry: &Registry, events: &mut E) -> () {
        let events = seal::<SEALED, _>(events);
        stats.enter(Operation::Poll);
        events.refill(registry.borrow().iter().map(|(_, &event)| event));
    });
}

// %% [markdown]
// The objects themselves are wrappers that know their ledger and carry two things of their own: how often
// they were called, and where the poller has filed them.

// %%
/// Something that the poller can watch.
pub trait Source {
    /// Where the poller notes the registration.
    fn token(&self) -> &Token;
}

/// An object of the fake: one end of a connection, or a listener, as its `Kind` says.
pub struct Object<S, C, Kind> {
    stats: S,
    calls: Cell<u32>,
    token: Token,
    kind: PhantomData<(C, Kind)>,
}

impl<S, C, Kind> Object<S, C, Kind> {
    pub fn new(stats: S) -> Self {
        Self { stats, calls: Cell::new(0), token: Cell::new(None), kind: PhantomData }
    }
}

impl<S, C, Kind> Source for Object<S, C, Kind> {
    fn token(&self) -> &Token {
        &self.token
    }
}

// %% [markdown]
// A stream is such an object.

// %%
/// A client that sends [`LINE`] and takes whatever it is sent.
pub type FakeStream<S, C = Lean> = Object<S, C, Sends>;
/// Of an [`Object`] that is a client.
pub enum Sends {}

impl<S: Deref<Target = Stats>, C: Choices> FakeStream<S, C> {
    /// Reads the line into the start of `buffer` and returns its length in bytes.
    ///
    /// # Errors
    /// It would block, on every odd call, counted together with writes.
    ///
    /// # Panics
    /// If `buffer` is too short for the line.
    #[inline(always)]
    pub fn read(&self, buffer: &mut [u8]) -> Result<usize, C::Error> {
        calls::read(C::CALLS, &self.stats, &self.calls, buffer)
    }

    /// Writes all of `bytes` and returns their number.
    ///
    /// # Errors
    /// It would block, on every odd call, counted together with reads.
    #[inline(always)]
    pub fn write(&self, bytes: &[u8]) -> Result<usize, C::Error> {
        calls::write(C::CALLS, &self.stats, &self.calls, bytes)
    }
}

// %% [markdown]
// The listener never runs dry. The server stops by itself after 256 clients.

// %%
/// A listening socket with an endless queue of clients.
pub type FakeListener<S, C = Lean> = Object<S, C, Listens>;
/// Of an [`Object`] that is a listener.
pub enum Listens {}

impl<S: Clone + Deref<Target = Stats>, C: Choices> FakeListener<S, C> {
    /// The next client.
    ///
    /// # Errors
    /// It would block, on every odd call.
    #[inline(always)]
    pub fn accept(&self) -> Result<FakeStream<S, C>, C::Error> {
        calls::accept(C::CALLS, &self.stats, &self.calls)?;
        Ok(FakeStream::new(self.stats.clone()))
    }
}

// %% [markdown]
// ### Poller
//
// `accept` succeeds once per poll, and a connection is done two polls later, so **at most three connections are
// alive at once**. This load is a pipeline, not a crowd; that matters for every statement about memory further down.
//
// The poller insists that everything is unregistered in the end. A variant that leaks a connection does not
// get away with it.

// %%
/// Tells which registered objects are ready: all of them.
pub struct FakePoll<S: Deref<Target = Stats>, C: Choices = Lean> {
    stats: S,
    registry: Registry,
    choices: PhantomData<C>,
}

impl<S: Deref<Target = Stats>, C: Choices> FakePoll<S, C> {
    /// A poller with room for `capacity` objects.
    pub fn new(stats: S, capacity: usize) -> Self {
        Self { stats, registry: RefCell::new(Slab::with_capacity(capacity)), choices: PhantomData }
    }

    /// Watches `source` from now on; its events carry `key`.
    ///
    /// # Panics
    /// If it is registered already.
    #[inline(always)]
    pub fn register(&self, source: &impl Source, key: usize, interest: u8) {
        let event = Event { key, ready: interest };
        calls::register(C::CALLS, &self.stats, &self.registry, source.token(), event)
    }

    /// Forgets `source`.
    ///
    /// # Panics
    /// If it is not registered.
    #[inline(always)]
    pub fn unregister(&self, source: &impl Source) {
        calls::unregister(C::CALLS, &self.stats, &self.registry, source.token())
    }

    /// Replaces the content of `events` by what is ready now. Does not wait.
    #[inline(always)]
    pub fn poll(&self, events: &mut C::Events) {
        calls::poll(C::CALLS, &self.stats, &self.registry, events);
    }
}

impl<S: Deref<Target = Stats>, C: Choices> Drop for FakePoll<S, C> {
    /// # Panics
    /// If an object is still registered: some variant forgot to clean up, and its figures would be too low.
    fn drop(&mut self) {
        assert!(self.registry.get_mut().is_empty() || thread::panicking(), "objects are still registered");
    }
}

// %% [markdown]
// # Counting without touching what is timed
//
// Before we time anything we want proof that all variants do the same work: as many spawns, polls, wakes and
// clones of wakers as the algorithm calls for, not one more. Counting that in the timed code would slow down
// precisely what we look at. So the machinery below is generic over a *probe*. `Counted` counts; `Timed` does
// nothing, and vanishes when compiled.
//
// `Timed` has a second job, hidden in its parameter. Two variants that share a generic instance also share
// its code, which the optimiser may then inline in neither; and a variant would be timed differently for
// having a neighbour. With a label of its own, each variant gets its own copy of everything between the
// server and the fake kernel.

// %%
/// What a probe can count, besides the six operations in [`Stats`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Events handed out by the poller.
    Events,
    /// Tasks started.
    Spawns,
    /// Polls of a task by an executor.
    Polls,
    /// Polls of an accept, read or write future by its task.
    OperationPolls,
    /// Operation polls that returned at once because the object was known not to be ready.
    NotReadyPolls,
    /// Wakers cloned by the reactor in order to keep them.
    WakerClones,
    /// Clones avoided because the reactor held an equivalent waker.
    WillWakeHits,
    /// Kept wakers that were dropped because their operation had ended.
    WakerDrops,
    /// Kept wakers that were called, by value.
    Wakes,
    /// Requests answered.
    Transactions,
    /// Bytes of connection buffers set to zero.
    ZeroedBytes,
    /// Size in bytes of the largest future that was spawned.
    FutureBytes,
    /// Bytes that a server has in its tables for each connection, where it says so.
    ConnectionBytes,
    /// Largest number of connections at one time.
    PeakConnections,
    /// Largest number of unfinished tasks at one time.
    PeakTasks,
    /// Largest number of objects registered at one time.
    PeakRegistrations,
}

impl Counter {
    /// Their names in the data, in the order of declaration.
    #[rustfmt::skip]
    pub const NAMES: [&str; 16] = [
        "events", "spawns", "polls", "operation_polls", "not_ready_polls",
        "waker_clones", "will_wake_hits", "waker_drops", "wakes",
        "transactions", "zeroed_bytes", "future_bytes", "connection_bytes",
        "peak_connections", "peak_tasks", "peak_registrations",
    ];
}

// %% [markdown]
// A probe is told of each of these.

// %%
/// Is told what happens; may ignore it.
pub trait Probe: 'static {
    /// What the program of this probe looks like.
    type Choices: Choices;
    /// Whether it counts.
    const COUNTS: bool;
    /// `times` more of it happened.
    fn add(counter: Counter, times: usize);
    /// It is this large now; the largest value counts.
    fn peak(counter: Counter, now: usize);
}

// %% [markdown]
// Here are both probes. Note that neither has a value anywhere: they act through their type alone, so the
// structs that are timed have not one byte more than they need.

// %%
/// The probe of the timed code: ignores everything. `Label` tells the code of one variant from that of the
/// next.
pub struct Timed<Label, C = AsDescribed>(PhantomData<(Label, C)>);

impl<Label: 'static, C: Choices> Probe for Timed<Label, C> {
    type Choices = C;
    const COUNTS: bool = false;

    #[inline(always)]
    fn add(_: Counter, _: usize) {}

    #[inline(always)]
    fn peak(_: Counter, _: usize) {}
}

/// The probe of the proof: keeps one tally per thread.
pub struct Counted<C = AsDescribed>(PhantomData<C>);

impl Counted {
    /// Forgets what was counted on this thread.
    pub fn reset() {
        tally(|values| values.fill(0));
    }

    /// What was counted on this thread since [`reset`](Self::reset).
    pub fn value(counter: Counter) -> u64 {
        tally(|values| values[counter as usize] as u64)
    }
}

impl<C: Choices> Probe for Counted<C> {
    type Choices = C;
    const COUNTS: bool = true;

    fn add(counter: Counter, times: usize) {
        tally(|values| values[counter as usize] += times);
    }

    fn peak(counter: Counter, now: usize) {
        tally(|values| values[counter as usize] = values[counter as usize].max(now));
    }
}

/// One number for each [`Counter`], of this thread.
fn tally<Out>(use_it: impl FnOnce(&mut [usize; Counter::NAMES.len()]) -> Out) -> Out {
    thread_local! {
        static TALLY: RefCell<[usize; Counter::NAMES.len()]> = const { RefCell::new([0; _]) };
    }
    TALLY.with_borrow_mut(|values| use_it(values))
}

// %% [markdown]
// ## What a server does with a request
//
// Nothing, in the published program: it looks for the end of the line and sends the line back. That makes the
// cost of the scheduling as visible as it can be, and as irrelevant as it can be. So we add a knob, a chain
// of xorshift steps, each of which needs the result of the one before. The published text *computes* what ten
// microseconds of work per request would do to its ratio; we will run the work.

// %%
/// What a world is put under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Whether each operation makes a system call.
    pub syscalls: bool,
    /// Steps of work per request; 0 in the published variants.
    pub steps: u32,
}

/// The work that a request causes, between reading it and answering it.
pub trait Work: Copy {
    /// The work of a request under this load.
    fn under(load: Load) -> Self;

    /// Does it.
    fn perform(self);
}

/// Echo at once.
#[derive(Clone, Copy)]
pub struct NoWork;

impl Work for NoWork {
    fn under(_: Load) -> Self {
        Self
    }

    #[inline(always)]
    fn perform(self) {}
}

// %% [markdown]
// The steps run on a number that the compiler cannot know, and their result goes where it cannot look, so
// they are really done. The function that looks for the end of a line belongs here as well: it is all the
// work that the published server has.

// %%
/// So many steps of a xorshift generator.
#[derive(Clone, Copy)]
pub struct Steps(pub u32);

impl Work for Steps {
    fn under(load: Load) -> Self {
        Self(load.steps)
    }

    #[inline(never)]
    fn perform(self) {
        // Any number but zero will do, as long as the compiler does not know it.
        let mut state = black_box(0x9E37_79B9_7F4A_7C15_u64);
        for _ in 0..self.0 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
        }
        black_box(state);
    }
}

/// Whether `received` holds a whole request.
#[inline(always)]
pub fn holds_line<C: Choices>(received: &[u8]) -> bool {
    let ends = |&byte: &u8| byte == b'\n';
    if C::FROM_THE_BACK { received.iter().rev().any(ends) } else { received.iter().any(ends) }
}

// %% [markdown]
// # By hand
//
// ## A list without allocations
//
// The published loop keeps a list of the connections that have something to do, and so do all its executors
// with their tasks. It must offer constant-time removal from the middle, in order that a second event for the
// same connection does not queue it twice. Hence a doubly linked list; and since the nodes live in a slab,
// the links are slot numbers, not pointers, and the borrow checker has nothing to object to.

// %%
/// A slab entry that can be linked into a [`RunList`].
pub struct Node<T> {
    prev: Option<usize>,
    next: Option<usize>,
    pub value: T,
}

impl<T> Node<T> {
    /// A node that is in no list.
    pub fn new(value: T) -> Self {
        Self { prev: None, next: None, value }
    }
}

/// A doubly linked list of the slots of a slab. All operations take constant time.
///
/// A node must be in one list at most, and there once. Who breaks that rule gets a wrong order, a panic, or a
/// list without an end: link the same slot in twice, and it may be its own successor. Memory is safe anyhow.
pub struct RunList<C> {
    head: Option<usize>,
    tail: Option<usize>,
    choices: PhantomData<C>,
}

impl<C> Default for RunList<C> {
    fn default() -> Self {
        Self { head: None, tail: None, choices: PhantomData }
    }
}

// %% [markdown]
// Linking and unlinking touch the neighbours on both sides, or the ends of the list where there is no
// neighbour.

// %%
impl<C: Choices> RunList<C> {
    /// The slot that comes first.
    pub fn head(&self) -> Option<usize> {
        self.head
    }

    /// Links `slot` in behind `after`, or at the front if that is `None`.
    ///
    /// # Panics
    /// If one of the slots is vacant.
    pub fn insert_after<T>(&mut self, nodes: &mut Slab<Node<T>>, after: Option<usize>, slot: usize) {
        let next = match after {
            Some(after) => nodes[after].next.replace(slot),
            None => self.head.replace(slot),
        };
        let node = &mut nodes[slot];
        (node.prev, node.next) = (after, next);
        match next {
            Some(next) => nodes[next].prev = Some(slot),
            None => self.tail = Some(slot),
        }
    }

    /// Links `slot` in at the end.
    pub fn push_back<T>(&mut self, nodes: &mut Slab<Node<T>>, slot: usize) {
        self.insert_after(nodes, self.tail, slot);
    }
}

// %% [markdown]
// Unlinking joins the neighbours. A slot that is in no list has none, so the function may return early; whether it does
// is one of the choices.

// %%
impl<C: Choices> RunList<C> {
    /// Unlinks `slot`. Does nothing if it is not linked, in which case it may return early.
    #[inline]
    pub fn remove<T>(&mut self, nodes: &mut Slab<Node<T>>, slot: usize) {
        let node = &mut nodes[slot];
        let (prev, next) = (node.prev.take(), node.next.take());
        if C::EARLY_RETURN && prev.is_none() && self.head != Some(slot) {
            return;
        }
        if let Some(prev) = prev {
            nodes[prev].next = next;
        }
        if let Some(next) = next {
            nodes[next].prev = prev;
        }
        if self.head == Some(slot) {
            self.head = next;
        }
        if self.tail == Some(slot) {
            self.tail = prev;
        }
    }

    /// Unlinks the slot that comes first, and returns it.
    pub fn pop_front<T>(&mut self, nodes: &mut Slab<Node<T>>) -> Option<usize> {
        let slot = self.head?;
        self.remove(nodes, slot);
        Some(slot)
    }
}

// %% [markdown]
// ## One connection
//
// The state machine that everyone writes: where am I, how much have I read, how much have I sent. `step` goes
// on until the connection would block or is finished. `can_read` and `can_write` are kept up to date but
// never asked, as in the original: the phase alone decides what is tried.

// %%
/// What a connection is waiting for.
enum Phase {
    Receiving,
    Sending,
}

/// A connection of the hand-written servers.
pub struct Connection<'s, C = Lean> {
    stream: FakeStream<&'s Stats, C>,
    /// False since a read would have blocked, until the next event.
    pub can_read: bool,
    /// False since a write would have blocked, until the next event.
    pub can_write: bool,
    phase: Phase,
    buffer: [u8; SMALL_BUFFER],
    /// Bytes of `buffer` that were received.
    filled: usize,
    /// Bytes of `buffer` that were sent back.
    sent: usize,
}

// %% [markdown]
// Both loops below use this `step`. It is inlined in each.

// %%
impl<'s, C: Choices> Connection<'s, C> {
    fn new<P: Probe>(stream: FakeStream<&'s Stats, C>) -> Self {
        P::add(Counter::ZeroedBytes, SMALL_BUFFER);
        let buffer = [0; SMALL_BUFFER];
        Self { stream, can_read: true, can_write: true, phase: Phase::Receiving, buffer, filled: 0, sent: 0 }
    }

    /// Goes as far as possible without waiting; true when all is sent.
    #[inline(always)]
    fn step<W: Work, P: Probe>(&mut self, work: W) -> bool {
        if let Phase::Receiving = self.phase {
            loop {
                let length = match self.stream.read(&mut self.buffer[self.filled..]) {
                    Ok(length) => length,
                    Err(error) => {
                        assert!(error.would_block(), "{error:?}");
                        self.can_read = false;
                        return false;
                    }
                };
                self.filled += length;
                if holds_line::<C>(&self.buffer[..self.filled]) {
                    break;
                }
            }
            work.perform();
            self.phase = Phase::Sending;
        }
        loop {
            let length = match self.stream.write(&self.buffer[self.sent..self.filled]) {
                Ok(length) => length,
                Err(error) => {
                    assert!(error.would_block(), "{error:?}");
                    self.can_write = false;
                    return false;
                }
            };
            self.sent += length;
            if self.sent == self.filled {
                P::add(Counter::Transactions, 1);
                return true;
            }
        }
    }
}

// %% [markdown]
// ## The loop
//
// Accept what can be accepted, step what has something to do, poll, repeat. Everything that needs memory is
// made once and kept from one iteration to the next, so an iteration allocates nothing.

// %%
/// The poller key of the listener; connection `slot` has the key `slot + 1`.
const LISTENER: usize = 0;

/// The published event loop.
pub struct ManualServer<'s, W, P: Probe> {
    stats: &'s Stats,
    poll: FakePoll<&'s Stats, P::Choices>,
    events: <P::Choices as Choices>::Events,
    connections: Slab<Node<Connection<'s, P::Choices>>>,
    work: W,
    probe: PhantomData<P>,
}

impl<'s, W: Work, P: Probe> ManualServer<'s, W, P> {
    pub fn new(stats: &'s Stats, work: W) -> Self {
        Self {
            stats,
            poll: FakePoll::new(stats, TASKS),
            events: Events::with_room(TASKS),
            connections: Slab::with_capacity(CONNECTIONS),
            work,
            probe: PhantomData,
        }
    }

    /// Registers a stream and queues it, because it may be readable already.
    fn open(&mut self, stream: FakeStream<&'s Stats, P::Choices>, ready: &mut RunList<P::Choices>) {
        let slot = self.connections.insert(Node::new(Connection::new::<P>(stream)));
        P::peak(Counter::PeakConnections, self.connections.len());
        P::peak(Counter::PeakRegistrations, self.connections.len() + 1);
        let stream = &self.connections[slot].value.stream;
        self.poll.register(stream, slot + 1, READABLE | WRITABLE);
        ready.push_back(&mut self.connections, slot);
    }

    /// Takes an event down: from now on the connection is worth a step.
    fn note(&mut self, event: Event, ready: &mut RunList<P::Choices>) {
        let slot = event.key - 1;
        let connection = &mut self.connections[slot].value;
        connection.can_read |= event.ready & READABLE != 0;
        connection.can_write |= event.ready & WRITABLE != 0;
        ready.remove(&mut self.connections, slot);
        ready.push_back(&mut self.connections, slot);
    }
}

// %% [markdown]
// The loop is the published one, line for line in its logic. It leaves when all clients have been accepted
// and none is left.

// %%
impl<W: Work, P: Probe> ManualServer<'_, W, P> {
    /// Serves [`CONNECTIONS`] clients, one request each: one iteration.
    pub fn run(&mut self) {
        let listener = FakeListener::new(self.stats);
        self.poll.register(&listener, LISTENER, READABLE);
        let mut ready = RunList::default();
        let mut can_accept = true;
        let mut left = CONNECTIONS;
        loop {
            while left > 0 && can_accept {
                match listener.accept() {
                    Ok(stream) => {
                        left -= 1;
                        self.open(stream, &mut ready);
                    }
                    Err(error) => {
                        assert!(error.would_block(), "{error:?}");
                        can_accept = false;
                    }
                }
            }
            while let Some(slot) = ready.pop_front(&mut self.connections) {
                if self.connections[slot].value.step::<W, P>(self.work) {
                    self.poll.unregister(&self.connections[slot].value.stream);
                    self.connections.remove(slot);
                }
            }
            if left == 0 && self.connections.is_empty() {
                break;
            }
            self.poll.poll(&mut self.events);
            P::add(Counter::Events, self.events.count());
            for index in 0..self.events.count() {
                match self.events[index] {
                    Event { key: LISTENER, .. } => can_accept = true,
                    event => self.note(event, &mut ready),
                }
            }
        }
        self.poll.unregister(&listener);
    }
}

// %% [markdown]
// ## As good as I can make it
//
// "What you do use, you couldn't hand code any better", says the definition of a zero-cost abstraction. The
// published loop *can* be hand-coded better. It queues connections in a list, only to walk the list at once;
// but the events that the poller delivered are that list already. And with at most 256 connections, a fixed
// array will do for a slab. What remains is this: for each event, step its connection. The buffer is as large
// and as zeroed as everywhere else, and the fake kernel sees the same 2308 operations. One difference is
// visible from outside: the listener is unregistered after the last accept, as the async servers do it, so
// two events fewer are delivered than in the published loop, 768 for 770.
//
// All ratios in the tables use the *published* loop as their baseline. Look at both before you judge the abstraction.

// %% [markdown]
// ### Two loads
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
// ### The loop
//
// An event means one of two things: accept, or step. A connection that was just accepted is stepped at once.

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
                if holds_line::<Lean>(&self.buffer[..self.filled]) {
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
        P::peak(Counter::ConnectionBytes, size_of::<Option<Peer>>() + size_of_val(&slot));
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

// %% [markdown]
// # What async needs
//
// Four parts replace the loop. **I/O objects** offer operations as futures. A **reactor** polls, and knows
// whom to wake. A **waker** is how it tells them. An **executor** keeps the tasks, and polls those that were
// woken. None of them knows the server, and that separation is what we shall be paying for.
//
// ## The reactor
//
// It holds one entry for each I/O object: is the object ready, and who waits for it? I/O objects register
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
        let state = ReactorState { objects: Slab::with_capacity(TASKS), events: Events::with_room(TASKS) };
        let poll = FakePoll::new(stats.clone(), TASKS);
        Self { state: RefCell::new(state), poll, stats, probe: PhantomData }
    }

    /// Polls, and wakes whoever waits for an object that is ready now.
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
// Before an operation is tried, its task's waker is put where the reactor will find it. The reactor clones
// it, unless `will_wake` says that it has an equivalent one. When the operation is over, the waker is taken
// out again. For this load that makes 1536 clones per iteration, and the shortcut never once applies: every
// waker has either been used up by a wake or been thrown away by its operation. The published program pays
// for that, so here we do too.
//
// There is room for one waker per object, as published. So an object can have **one operation at a time**. Of
// two tasks, one reading from a stream and one writing to it, the second to wait would take the place of the
// first, which then sleeps for ever. An echo server never does both at once; a reactor for general use keeps
// a waker for each direction.

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
    type Output = Out;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        R::Probe::add(Counter::OperationPolls, 1);
        this.registration.bind(context);
        if !this.registration.is_ready() {
            R::Probe::add(Counter::NotReadyPolls, 1);
            return Poll::Pending;
        }
        match (this.call)() {
            Ok(outcome) => Poll::Ready(outcome),
            Err(error) => {
                assert!(error.would_block(), "{error:?}");
                this.registration.clear_ready();
                Poll::Pending
            }
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
    pub fn read<'a>(&'a self, buffer: &'a mut [u8]) -> impl Future<Output = usize> + 'a {
        IoOperation { registration: &self.registration, call: move || self.object.read(buffer) }
    }

    /// Writes from the start of `bytes`; the number of bytes that went.
    pub fn write<'a>(&'a self, bytes: &'a [u8]) -> impl Future<Output = usize> + 'a {
        IoOperation { registration: &self.registration, call: move || self.object.write(bytes) }
    }
}

// %% [markdown]
// The listener is the same, except that what it yields is registered at once.

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
    pub fn accept(&self) -> impl Future<Output = AsyncStream<R>> + '_ {
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
pub async fn connection<R: ReactorHandle, W: Work, const BUFFER: usize>(stream: AsyncStream<R>, work: W) {
    R::Probe::add(Counter::ZeroedBytes, BUFFER);
    let mut buffer = [0; BUFFER];
    let mut filled = 0;
    while !holds_line::<ChoicesOf<R>>(&buffer[..filled]) {
        filled += stream.read(&mut buffer[filled..]).await;
    }
    work.perform();
    let mut sent = 0;
    while sent < filled {
        sent += stream.write(&buffer[sent..filled]).await;
    }
    R::Probe::add(Counter::Transactions, 1);
}

/// Accepts [`CONNECTIONS`] clients and hands each to `spawn`.
pub async fn accept_all<R: ReactorHandle>(
    reactor: R,
    spawn: impl Fn(AsyncStream<R>) -> Result<(), SpawnError>,
) {
    let listener = AsyncListener::open(reactor);
    for _ in 0..CONNECTIONS {
        let stream = listener.accept().await;
        spawn(stream).expect("the executor has room for all connections");
    }
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
// ## Who is awake
//
// A task may be woken twice before it is polled. If both wakes queued it, it would be polled in vain and we
// would time our own mistake; hence the flag. It is cleared *before* the poll, so a task that is woken while
// it runs (perhaps by itself) is queued again rather than forgotten.

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
// Waking and taking the next are the two moves that everything else is made of. Both take constant time, and
// neither calls anybody else's code while the table is borrowed.

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
// A finished task gives its slot back. Should a clone of its waker still be around, though, nobody else may
// have the slot: a late wake would reach a stranger. Then the slot is given up for good, and the executor
// panics to tell us.

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
// We build it from the end of a task backwards. A task ends when its future is dropped and its slot is vacant
// again. If the first half panics, the second must happen all the same, or the future would be dropped once
// more with the executor. The second half asks the source of the wakers a question, which may be anybody's
// code and panic as well. Then the slot is given up: nobody knows who may still wake it.

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
        // dropping panics, and ends the task whatever happens in it; and before that nobody can ask for the
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
        // SAFETY: slots in the run list hold a future. It is never moved out of its slot; and nobody else
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
        // SAFETY: the slot is vacant, hence nobody refers to its content, and as long as we borrow the table
        // nobody can make it otherwise. If `make` panics the slot just stays vacant.
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
// that, so neither do we; but our constructor is `unsafe`, for it is a promise that the compiler cannot keep
// for us.

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
        // SAFETY: they live until `drop`, at least, and nobody has a reference that is unique.
        unsafe { &self.0.as_ref()[slot] }
    }
}

impl<C: Choices> WakerSource for EmbeddedWakers<'_, C> {
    #[inline]
    fn waker(&self, slot: usize) -> impl Deref<Target = Waker> + '_ {
        let data = ptr::from_ref(self.get(slot)).cast();
        // SAFETY: `data` points at a waker of this thread, which lives as long as `self`, and longer if there are
        // clones (see drop). The functions keep `Waker`'s contract as long as nobody leaves the thread or wakes without
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
// ## A spawner that breaks the knot
//
// The accept task spawns connections, so its future mentions the executor; and the executor holds that future, so its
// type mentions the future's. Such a knot cannot be written down. The spawner cuts it: it knows the executor only as an
// untyped pointer, together with a function that knows the type. The pointer is set while the executor runs and at no
// other time, so there is no way to use it when the executor has moved or is gone.

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
// `with` is the only way to set the target, and it takes it back however `run` ends. So the one unsafe call
// below is right whenever there is a target.

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
// We have two kinds of task and room for one type, so one more async function awaits either. Its future is as
// large as the larger of the two; what an unboxed accept task wastes is the price of having no boxes.

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
        Job::Listen => accept_all(reactor, |stream| spawner.spawn(Job::Connection(stream))).await,
        Job::Connection(stream) => connection::<R, W, BUFFER>(stream, work).await,
    }
}

// %% [markdown]
// Now the first async variant can be put together. All variants have this form: make a world, then hand one
// iteration of it to `drive`, which calls it as often as it likes, to time it or to count. All set-up happens
// before.

// %%
/// Is given a world's ledger and a function that makes one iteration in that world.
pub type Drive<'d> = &'d mut dyn FnMut(&Stats, &mut dyn FnMut());

/// Makes a world for this load and hands its iteration to a [`Drive`].
pub type World = fn(Load, Drive<'_>);

/// The published hand-written loop.
pub fn manual<W: Work, P: Probe>(load: Load, drive: Drive<'_>) {
    let stats = Stats::new(load.syscalls);
    let mut server = ManualServer::<W, P>::new(&stats, W::under(load));
    drive(&stats, &mut || server.run());
}

// %%
/// The world of the best loop.
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
// The first async world has a reactor, a table, a spawner and an executor, all on the stack.

// %%
/// Futures by value in the slots of the executor. With a `BUFFER` of 16 KiB this is `large+nonbox`.
pub fn nonbox<W: Work, P: Probe, const BUFFER: usize>(load: Load, drive: Drive<'_>) {
    let stats = Stats::new(load.syscalls);
    let (table, spawner) = (TaskTable::default(), ArgSpawner::default());
    let reactor = FakeReactor::<_, P>::new(&stats);
    let work = W::under(load);
    let make = |job| serve::<_, W, BUFFER>(job, &reactor, &spawner, work);
    // SAFETY: `table` is new and this executor's alone. It outlives the reactor, which keeps the wakers; that cannot be
    // sent to another thread, and there is none.
    let executor = unsafe { ArgExecutor::<_, _, _, P>::new(&table, &spawner, make) };
    drive(&stats, &mut || {
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
pub fn callerbox<P: Probe>(load: Load, drive: Drive<'_>) {
    let stats = Stats::new(load.syscalls);
    let (table, spawner) = (TaskTable::default(), ArgSpawner::default());
    let reactor = FakeReactor::<_, P>::new(&stats);
    let make = |job| boxed::<P, _>(serve::<_, _, SMALL_BUFFER>(job, &reactor, &spawner, NoWork));
    // SAFETY: as for `nonbox`.
    let executor = unsafe { ArgExecutor::<_, _, _, P>::new(&table, &spawner, make) };
    drive(&stats, &mut || {
        executor.spawn(Job::Listen).expect("a vacant slot");
        executor.run(|| reactor.poll());
    });
}

// %% [markdown]
// How long does a request take? The cell below runs some servers in turn, a second each, and compares them with the
// first. It is a glance: one process, no proof, no control. Change the load, or a cell above, and look again.

// %%
/// Times the iterations of a world.
pub fn bench(world: World, load: Load) -> impl Fn(&mut Bencher) {
    move |bencher| world(load, &mut |_, run| bencher.iter(run))
}

/// Some worlds at a glance; the first is what the others are compared with.
pub fn glance(load: Load, worlds: &[(&str, World)]) -> harness::Seen {
    let glance = harness::Glance::at("request").each_of(CONNECTIONS as u64);
    worlds.iter().fold(glance, |glance, &(name, world)| glance.look(name, bench(world, load))).show()
}

// %% [markdown]
// The loops, and the two executors without `dyn`:

// %% tags=["active-ipynb", "glance"]
// glance(Load { syscalls: false, steps: 0 }, &[
//     ("manual", manual::<NoWork, Timed<()>>),
//     ("manual (best)", by_hand::<Pipeline, NoWork, Timed<()>>),
//     ("nonbox", nonbox::<NoWork, Timed<()>, SMALL_BUFFER>),
//     ("callerbox", callerbox::<Timed<()>>),
// ])

// %% [markdown]
// # Executor 2: boxes
//
// With every future behind a `Box<dyn Future>`, tasks of all types fit into one executor, each takes only the
// memory it needs, and the enum disappears. We pay with an allocation per spawn and a virtual call per poll.
// Since the type of the slots is now known in advance, the knot is gone, but another one takes its place:
// futures that borrow their own executor. The same spawner cuts that, too.

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
// does, with the box made one function further out. It ought to cost the same, and is a check on everything
// else.

// %%
/// Futures in boxes, which the executor makes. With a `BUFFER` of 16 KiB this is `large+box`.
pub fn boxes<P: Probe, const BUFFER: usize>(load: Load, drive: Drive<'_>) {
    let stats = Rc::new(Stats::new(load.syscalls));
    let (table, spawner) = (TaskTable::default(), BoxSpawner::<P>::default());
    let reactor = Rc::new(FakeReactor::<_, P>::new(Rc::clone(&stats)));
    // SAFETY: as for `nonbox`.
    let executor = unsafe { BoxExecutor::new(&table, &spawner) };
    let spawner = &spawner;
    drive(&stats, &mut || {
        let spawn = |stream| spawner.spawn(connection::<_, _, BUFFER>(stream, NoWork));
        executor.spawn(boxed::<P, _>(accept_all(Rc::clone(&reactor), spawn))).expect("a vacant slot");
        executor.run(|| reactor.poll());
    });
}

/// Futures in boxes, made by whoever spawns.
pub fn box_callerbox<P: Probe>(load: Load, drive: Drive<'_>) {
    let stats = Rc::new(Stats::new(load.syscalls));
    let (table, spawner) = (TaskTable::default(), BoxSpawner::<P>::default());
    let reactor = Rc::new(FakeReactor::<_, P>::new(Rc::clone(&stats)));
    // SAFETY: as for `boxes`.
    let executor = unsafe { BoxExecutor::new(&table, &spawner) };
    let spawner = &spawner;
    drive(&stats, &mut || {
        let spawn =
            |stream| spawner.spawn_boxed(boxed::<P, _>(connection::<_, _, SMALL_BUFFER>(stream, NoWork)));
        executor.spawn(boxed::<P, _>(accept_all(Rc::clone(&reactor), spawn))).expect("a vacant slot");
        executor.run(|| reactor.poll());
    });
}

// %% [markdown]
// The same future without a box, in a box, and in a box of `dyn`:

// %% tags=["active-ipynb", "glance"]
// glance(Load { syscalls: false, steps: 0 }, &[
//     ("nonbox", nonbox::<NoWork, Timed<()>, SMALL_BUFFER>),
//     ("callerbox", callerbox::<Timed<()>>),
//     ("box", boxes::<Timed<()>, SMALL_BUFFER>),
// ])

// %% [markdown]
// # Executor 3: wakers that are counted
//
// A conventional waker owns what it points at, so it may outlive its task and its executor. Here each points
// at a [`WakeTarget`]: a weak link to the task table, a slot, and the thread that made it. There is one for
// each slot, made along with the executor and cloned ever after. Mind what follows from that: **no variant
// allocates a waker during an iteration**. What we compare is 1536 clones and 1536 drops.

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
// The standard library turns an `Arc` into a `Waker` for you. With `Rc` you write the table of functions
// yourself, and what you get is unsound in any program that sends a waker elsewhere.
//
// The safe form compares threads in each of the four functions and panics on the wrong one. Which thread this
// is, it looks up in a thread-local variable that is filled on first use. That is one way to write the check,
// the published one, and what it takes says nothing about other ways.

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
// The `Wake` trait of the standard library does the rest. Only the waker's own count is atomic; the weak link
// below it is not; in a proper `Arc` waker it would be. So even here the wakers must not leave their thread.
// We keep it so, because that is what was published.

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
// Of the three kinds of waker, one looks after itself. Of the executors here, the one that uses it is the
// only one that safe code can make.

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
pub fn box_counted<K: WakerKind + 'static, P: Probe<Choices = AsDescribed>>(load: Load, drive: Drive<'_>) {
    let stats = Rc::new(Stats::new(load.syscalls));
    let reactor = Rc::new(FakeReactor::<_, P>::new(Rc::clone(&stats)));
    // SAFETY: nothing here has a second thread, and the reactor, which keeps the wakers, cannot be sent to
    // one.
    let executor = unsafe { BoxRcExecutor::<K, P>::new() };
    drive(&stats, &mut || {
        let spawner = Rc::clone(&executor);
        let spawn = move |stream| spawner.spawn(connection::<_, _, SMALL_BUFFER>(stream, NoWork));
        executor.spawn(accept_all(Rc::clone(&reactor), spawn)).expect("a vacant slot");
        executor.run(|| reactor.poll());
    });
}

// %% [markdown]
// And the kinds of counted waker, compared with the embedded one:

// %% tags=["active-ipynb", "glance"]
// glance(Load { syscalls: false, steps: 0 }, &[
//     ("box", boxes::<Timed<()>, SMALL_BUFFER>),
//     ("box+rc", box_counted::<RcWaker, Timed<()>>),
//     ("box+chkrc", box_counted::<CheckedRcWaker, Timed<()>>),
//     ("box+arc", box_counted::<ArcWaker, Timed<()>>),
// ])

// %% [markdown]
// # All variants in one table
//
// Each has three facts that the proof below needs: how many events its poller delivers, whether it is async, and how
// large its buffers are.

// %%
/// The published loads.
pub const PUBLISHED: [Load; 2] = [Load { syscalls: false, steps: 0 }, Load { syscalls: true, steps: 0 }];

/// Work per request, about three settings a decade. With system calls, as much as the document assumes: 10 µs, at two
/// nanoseconds for a step of six dependent operations. How long a step takes is measured.
pub const WORKING: [Load; 6] = [
    Load { syscalls: false, steps: 100 },
    Load { syscalls: false, steps: 300 },
    Load { syscalls: false, steps: 1000 },
    Load { syscalls: false, steps: 3000 },
    Load { syscalls: false, steps: 10_000 },
    Load { syscalls: true, steps: 5_000 },
];

// %% [markdown]
// A *world* is one of the functions above with its probe chosen, and a variant is a world with a name.

// %%
/// What a server is built of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A loop that keeps its listener registered to the end, and so hears of it twice more.
    Loop,
    /// A loop that unregisters its listener after the last accept.
    BestLoop,
    /// An executor, with futures by value.
    Unboxed,
    /// An executor, with a box for each future.
    Boxed,
}

/// One way to serve.
#[derive(Clone, Copy)]
pub struct Variant {
    /// The word for it in the data.
    pub name: &'static str,
    pub style: Style,
    /// Bytes of a connection's buffer.
    pub buffer: usize,
    /// What it is measured under.
    pub loads: &'static [Load],
    /// Its timed code.
    pub timed: World,
    /// The same code, counting.
    pub counted: World,
}

// %% [markdown]
// A variant's name under a load is the key of its rows, in the very words of the published table, so that
// measured and published figures can be joined without a dictionary.

// %%
impl Variant {
    /// Under both published loads, with the small buffer.
    pub const fn new(name: &'static str, style: Style, [timed, counted]: [World; 2]) -> Self {
        Self { name, style, buffer: SMALL_BUFFER, loads: &PUBLISHED, timed, counted }
    }

    /// Without system calls only.
    pub const fn bare(self) -> Self {
        Self { loads: PUBLISHED.split_at(1).0, ..self }
    }

    /// With the large buffer, and without system calls.
    pub const fn large(self) -> Self {
        Self { buffer: LARGE_BUFFER, ..self.bare() }
    }

    /// Under the loads with work, instead of the published ones.
    pub const fn working(self) -> Self {
        Self { loads: &WORKING, ..self }
    }

    /// Its name under this load, in the words of the published table.
    pub fn key(&self, load: Load) -> Key {
        let mut bench = self.name.to_owned();
        let mut parameter = if load.syscalls { "syscalls=on" } else { "syscalls=off" }.to_owned();
        if load.syscalls {
            bench += "+syscalls";
        }
        if load.steps > 0 {
            bench += "+work";
            parameter += &format!(" work={}", load.steps);
        }
        Key::new(bench, self.name, parameter)
    }
}

// %% [markdown]
// Each world is compiled twice, with the two probes, and with a label that nobody else has.

// %%
/// A world twice, with its probe `P` in both ways: `twice!(P => nonbox::<NoWork, P, SMALL>)`. Other choices are
/// `P<Lean>`.
#[macro_export]
macro_rules! twice {
    ($probe:ident => $world:expr) => {{
        enum Label {}
        let timed: $crate::World = {
            type $probe<C = $crate::AsDescribed> = $crate::Timed<Label, C>;
            $world
        };
        let counted: $crate::World = {
            type $probe<C = $crate::AsDescribed> = $crate::Counted<C>;
            $world
        };
        [timed, counted]
    }};
}

/// The published variants in the published order, then ours.
fn usual_variants() -> Vec<Variant> {
    use Style::{BestLoop, Boxed, Loop, Unboxed};
    const SMALL: usize = SMALL_BUFFER;
    const LARGE: usize = LARGE_BUFFER;
    let new = Variant::new;
    vec![
        new("manual", Loop, crate::twice!(P => manual::<NoWork, P>)),
        new("nonbox", Unboxed, crate::twice!(P => nonbox::<NoWork, P, SMALL>)),
        new("callerbox", Boxed, crate::twice!(P => callerbox::<P>)),
        new("large+nonbox", Unboxed, crate::twice!(P => nonbox::<NoWork, P, LARGE>)).large(),
        new("box", Boxed, crate::twice!(P => boxes::<P, SMALL>)),
        new("box+callerbox", Boxed, crate::twice!(P => box_callerbox::<P>)).bare(),
        new("large+box", Boxed, crate::twice!(P => boxes::<P, LARGE>)).large(),
        new("box+rc", Boxed, crate::twice!(P => box_counted::<RcWaker, P>)),
        new("box+chkrc", Boxed, crate::twice!(P => box_counted::<CheckedRcWaker, P>)),
        new("box+arc", Boxed, crate::twice!(P => box_counted::<ArcWaker, P>)),
        new("box (copied)", Boxed, crate::twice!(P => boxes::<P<Copied>, SMALL>)).bare(),
        new("large+box (copied)", Boxed, crate::twice!(P => boxes::<P<Copied>, LARGE>)).large(),
        new("manual (best)", BestLoop, crate::twice!(P => by_hand::<Pipeline, NoWork, P>)),
        new("manual", Loop, crate::twice!(P => manual::<Steps, P>)).working(),
        new("nonbox", Unboxed, crate::twice!(P => nonbox::<Steps, P, SMALL>)).working(),
    ]
}

// %% [markdown]
// And the choices: the loop and two executors as described but for one detail, and with all of the lean ones.

// %%
/// Under what a pair is compared: without system calls, and with them, too.
const BARE: &[Load] = PUBLISHED.split_at(1).0;
const BOTH: &[Load] = &PUBLISHED;

/// The loop and two executors with the choices `C`, which are told as a word for the data and as what changes.
struct Chosen {
    change: &'static str,
    servers: [Variant; 3],
}

fn with<C: Choices>(word: &str, change: &'static str, loads: &'static [Load]) -> Chosen {
    let new = |server, style, code| {
        let name = format!("{server} ({word})").leak();
        Variant { loads, ..Variant::new(name, style, code) }
    };
    let servers = [
        new("manual", Style::Loop, crate::twice!(P => manual::<NoWork, P<C>>)),
        new("nonbox", Style::Unboxed, crate::twice!(P => nonbox::<NoWork, P<C>, SMALL_BUFFER>)),
        new("box", Style::Boxed, crate::twice!(P => boxes::<P<C>, SMALL_BUFFER>)),
    ];
    Chosen { change, servers }
}

fn chosen() -> [Chosen; 7] {
    [
        with::<SmallError>("small error", "an error that holds nothing", BARE),
        with::<EventsInVec>("events in a Vec", "events in a `Vec`", BARE),
        with::<FromTheBack>("from the back", "a newline searched from the back", BARE),
        with::<EarlyReturn>("early return", "a list that returns early", BARE),
        with::<Inlined>("inlined", "operations that the optimiser may look into", BOTH),
        with::<Nested>("nested", "operations called by one more function", BOTH),
        with::<Lean>("lean", "all lean choices", BARE),
    ]
}

/// All variants.
pub fn variants() -> Vec<Variant> {
    usual_variants().into_iter().chain(chosen().into_iter().flat_map(|chosen| chosen.servers)).collect()
}

// %% [markdown]
// # Proof of equal work
//
// A benchmark whose variants do different work compares nothing. So before anything is timed, each variant
// makes one iteration to warm up and one that is counted, and every count must be what the algorithm demands.
// The six kinds of operation were published; the rest can be derived:
//
// - **Polls.** Each poll lets the listener yield one connection. The two polls after it report that
//   connection, and then it is finished. So the last of 256 connections needs poll 258.
// - **Events.** Two for each connection and one for the listener in each poll that it is registered for: the
//   first 256, or, in the published loop, all 258. Hence 768 or 770.
// - **Task polls.** A connection is polled three times (its read fails, its write fails, it is done); the
//   accept task 257 times (once to begin, then once for each client). Hence 3 · 256 + 257 = 1025.
// - **Wakers.** 256 accepts, 256 reads and 256 writes fail once and succeed once, and bind a waker each time:
//   1536 clones. Half of them are used up by a wake, and half are thrown away by an operation that succeeded:
//   768 and 768.
// - **Nothing in vain.** No operation is polled before its object is ready, and no waker is kept from one
//   poll to the next.

// %%
/// Makes two iterations in a world, and returns the operations of the second.
fn operations(world: World, load: Load) -> Counts {
    let mut counts = Counts::new();
    world(load, &mut |stats, run| {
        run();
        Counted::reset();
        let before = stats.counts();
        run();
        counts = stats.counts().into_iter().map(|(name, after)| (name, after - before[name])).collect();
    });
    counts
}

/// The same of a world whose probe is [`Counted`], and what that has counted.
pub fn count(world: World, load: Load) -> Counts {
    let mut counts = operations(world, load);
    let counted = tally(|values| values.map(|value| value as u64));
    counts.extend(Counter::NAMES.into_iter().zip(counted));
    counts
}

// %% [markdown]
// And this is what we demand, in terms of the number of connections.

// %%
/// What one iteration of a variant must count, by the reasoning above. How large futures are is for the
/// compiler to say.
pub fn expected(variant: &Variant, load: Load) -> Counts {
    let connections = CONNECTIONS as u64;
    let is_async = matches!(variant.style, Style::Unboxed | Style::Boxed);
    let if_async = |count| if is_async { count } else { 0 };
    let polls = connections + 2;
    let listener_events = if variant.style == Style::Loop { polls } else { connections };
    let operations = 2 * (connections + 1) + polls + 3 * 2 * connections;
    Counts::from([
        ("register", connections + 1),
        ("unregister", connections + 1),
        ("poll", polls),
        ("accept", 2 * connections),
        ("read", 2 * connections),
        ("write", 2 * connections),
        ("syscalls", if load.syscalls { operations } else { 0 }),
        ("events", listener_events + 2 * connections),
        ("spawns", if_async(connections + 1)),
        ("polls", if_async(4 * connections + 1)),
        ("operation_polls", if_async(6 * connections)),
        ("not_ready_polls", 0),
        ("waker_clones", if_async(6 * connections)),
        ("will_wake_hits", 0),
        ("waker_drops", if_async(3 * connections)),
        ("wakes", if_async(3 * connections)),
        ("transactions", connections),
        ("zeroed_bytes", connections * variant.buffer as u64),
        ("peak_connections", 3),
        ("peak_tasks", if_async(4)),
        ("peak_registrations", 4),
    ])
}

// %% [markdown]
// The proof runs in a cell below, in `cargo test`, and once more whenever the study is built: a study with an
// unproven variant does not come to be.
//
// Only the counting code can be proven to the last waker. But the ledger of operations is kept in the timed
// code too, and it must hold the same.

// %%
/// The counts of some code under this load: what its counting half counts.
///
/// # Errors
/// If it does not do the work that it should, or its timed half not the same operations: the counts that are wrong.
pub fn prove_both(
    name: &dyn fmt::Display,
    [timed, counted]: [World; 2],
    load: Load,
    expected: &Counts,
) -> Result<Counts, UnequalWork> {
    harness::prove_both(name, expected, count(counted, load), &operations(timed, load))
}

/// The counts of a variant under this load.
///
/// # Errors
/// As [`prove_both`].
pub fn prove(variant: &Variant, load: Load) -> Result<Counts, UnequalWork> {
    prove_both(&variant.key(load), [variant.timed, variant.counted], load, &expected(variant, load))
}

// %% [markdown]
// A proof that fails must not be overlooked. But the kernel only prints what a panic says, or an error that a
// cell hands to `?`, and goes on with the cells below. It does stop when its program ends, and so the cells that prove
// and measure hand their errors to `harness::stop`, which says what is wrong and ends it.

// %% tags=["active-ipynb"]
// for variant in variants().iter().filter(|variant| variant.loads[0] == PUBLISHED[0]) {
//     let counts = prove(variant, PUBLISHED[0]).unwrap_or_else(harness::stop);
//     let [polls, clones, size] = ["polls", "waker_clones", "future_bytes"].map(|name| counts[name]);
//     println!("{:>24}: {polls:>4} task polls, {clones:>4} clones, largest future {size:>5} bytes", variant.name);
// }

// %% [markdown]
// Look at the last column. It is 0 for the loops, which have no futures. Unboxed, every slot is as large as
// the largest future; a box is as large as what is in it. And `async` itself has a cost here that no timing
// shows: a connection's future is larger than the 128 bytes of its buffer, because it has to hold everything
// that lives across an `await`.

// %% [markdown]
// # The study
//
// What remains is to hand it all to the harness. It measures in rounds: every round runs each variant for some
// milliseconds, in a fresh random order, and only times of the same round are ever compared. The machine may slow down
// by half from one minute to the next, as rented machines do, and the ratios will not notice. The baseline is measured
// twice, the second time as `manual (A/A)`, whose true ratio is exactly 1. Whatever the study says about that one is
// its error.

// %% [markdown]
// Every variant is compared with the published loop under its load. Some are also compared with each other, because the
// published text does, or because the two differ in little. What changes from the second to the first is said here, in
// a few words, and nowhere else: the analysis picks its pairs from this list.

// %%
/// What the published pairs of a boxed and an unboxed executor differ in, and the same but for the box.
const BUNDLE: &str =
    "a box, `Rc` handles, calls through `dyn`, no enum of two kinds of task, and another spawner";
const REST: &str = "all but the box: `Rc` handles, `dyn`, no enum of two kinds of task, and another spawner";

/// Pairs besides those with the published loop: the first, what it is compared with, under what, and what changes.
const PAIRS: [(&str, &str, &[Load], &str); 13] = [
    ("nonbox", "manual (best)", BOTH, "async without boxes instead of the best loop"),
    ("callerbox", "nonbox", BOTH, "a box, made by the caller"),
    ("large+nonbox", "nonbox", BARE, "a buffer of 16 KiB instead of 128 bytes"),
    ("box", "nonbox", BOTH, BUNDLE),
    ("large+box", "large+nonbox", BARE, BUNDLE),
    ("box (copied)", "box", BARE, "a future that is copied into its box"),
    ("large+box (copied)", "large+box", BARE, "a future of 16 KiB that is copied into its box"),
    ("box", "callerbox", BARE, REST),
    ("box+callerbox", "box", BARE, "the caller makes the box"),
    ("box+rc", "box", BOTH, "wakers behind an `Rc` instead of embedded ones, and another spawner"),
    ("box+chkrc", "box+rc", BOTH, "an `Rc` that checks its thread"),
    ("box+arc", "box+rc", BOTH, "an `Arc` instead of an `Rc`"),
    ("box+arc", "box+chkrc", BOTH, "an `Arc` instead of an `Rc` that checks its thread"),
];

// %% [markdown]
// The study puts the parts together: variants, counts, pairs, controls.

// %%
/// All variants under all their loads, proven to do equal work.
///
/// # Errors
/// If one of them does not.
pub fn study() -> Result<Study, UnequalWork> {
    let mut study = Study::new("zero-cost").baseline("manual").unit("request");
    let all = variants();
    for variant in &all {
        for &load in variant.loads {
            let (key, mut counts) = (variant.key(load), prove(variant, load)?);
            // Proven to be 0 everywhere, these two would only be dead rows in the data.
            counts.retain(|counter, _| !matches!(*counter, "not_ready_polls" | "will_wake_hits"));
            study = study.bench(key.clone(), bench(variant.timed, load)).counts(&key, counts);
        }
    }
    let named = |name| all.iter().find(|variant| variant.name == name).expect("a variant of the study");
    for (one, other, loads, change) in PAIRS {
        for &load in loads {
            study = study.also_compare(named(one).key(load), named(other).key(load), change);
        }
    }
    for Chosen { change, servers } in chosen() {
        for (variant, described) in servers.iter().zip(["manual", "nonbox", "box"]) {
            for &load in variant.loads {
                study = study.compare(variant.key(load), named(described).key(load), change);
                if described != "manual" {
                    study =
                        study.compare(variant.key(load), servers[0].key(load), "async with the same choices");
                }
            }
        }
    }
    Ok(study.control("syscalls=off").control("syscalls=on"))
}

// %% [markdown]
// In the crate, tests ensure that all variants pass the proof and nothing else gets into the study. What executors
// promise beyond equal work (when they poll, what they drop and in which order, what a panic does, what a wrong thread
// does) is tested there as well, and so is the proof itself, with executors that are broken on purpose.

// %% [markdown]
// # A glance
//
// Some variants in turn, a second each: the time of a request, and its ratio to the first. Nothing is stored, and
// nothing is concluded. Choose others, or one of your own, and run the cell again; `syscalls=on` is the other load.

// %% tags=["active-ipynb", "glance"]
// study().unwrap_or_else(harness::stop).glance(|key| {
//     key.parameter == "syscalls=off" && matches!(&*key.variant, "manual" | "manual (best)" | "nonbox" | "box")
// }).unwrap_or_else(harness::stop)

// %% [markdown]
// # Measurement
//
// Choose how long. `quick` measures for a few seconds (the cells took about a minute to compile) and shows
// that everything works; it is not evidence. For that, set
// the environment variable `ASYNC_COST_PROFILE` to `standard` or `thorough` before you start the kernel, or
// write `harness::Profile::standard()` into the next cell.

// %% tags=["active-ipynb"]
// {
//     let profile = harness::Profile::from_env().unwrap_or_else(harness::stop);
//     let outcome = study().unwrap_or_else(harness::stop).measure(&profile).unwrap_or_else(harness::stop);
//     println!("{outcome}");
// };

// %% [markdown]
// The [analysis](analysis.ipynb) shows the ratio of each variant to the published loop in the same round. Before you
// believe one, check the control `manual (A/A)`: a difference as small as the control's distance from 1 means nothing.
//
// # What is not as published
//
// Everything here was written anew. These differences could matter to a result:
//
// - The operations are out of line and opaque here, and were open to the optimiser there. What that does is measured
//   (`manual (inlined)` and its like), and the claims that hang on it are also weighed with those.
// - With system calls, each function between the program and the kernel has to be returned through as well. How many
//   there are is a matter of inlining; `manual (nested)` and its like have one more around each operation.
// - The ledger is a `Cell` for each kind of operation, and so is what a listener and a spawner remember; they were
//   `RefCell`s there. The failing `read` checks that it failed for the right reason. The poller's events have room for
//   all.
// - Whether a future is made in its box or copied into it is up to the compiler, there and here; `large+box (copied)`
//   and `box (copied)` copy in any case.
// - Embedded wakers lie in an array of their own, not inside the nodes of the task table.
// - One run loop serves all executors, and its futures lie in slots next to the table, boxed ones included.
//
// # What next
//
// - The raw samples are in `data/runs`, and the analysis notebook next to this one reads them: intervals,
//   verdicts, and your ratios next to the published ones.
// - Change something. Make the connection's buffer uninitialised, give `CheckedRcWaker` another check, let
//   a wake poll its task at once: edit a cell, run the ones below it, and the proof will tell you whether it
//   is still the same server.
// - `cargo bench -p zero-cost --bench counts` counts instructions and allocations, which no noise can
//   disturb. They do not replace time: an atomic increment counts the same as a plain one, and clearing a
//   buffer with one string instruction counts once for each byte.
// - Three connections at a time keep every object in the first-level cache, and each box comes from the
//   hottest block of the allocator. What boxing costs with ten thousand connections alive, this study cannot
//   say.
