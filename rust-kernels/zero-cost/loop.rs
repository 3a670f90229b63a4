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
// # A fake kernel, and the loop that serves it
//
// One thread. 256 clients connect, each sends a line, each gets the line back. This notebook builds the world in which
// that happens, and the servers that need no async: a loop around a poller, written by hand, with every connection's
// state in a struct of its own. It is the loop of
// [rust-async-bench](https://github.com/jkarneges/rust-async-bench/tree/818a146), by Justin Karneges, built again from
// the description up; a better one follows. [The executors](executors.ipynb) serve the same world with `async`
// functions, and [a third notebook](measure.ipynb) measures what that costs.
//
// All 256 requests together are one **iteration**. The notebook is also a Rust crate (`rust-kernels/zero-cost/loop`,
// the same text), so everything you read here is tested, linted and run under sanitizers. Nothing below is pseudo-code.

// %% [markdown]
// ## Compile cells as for a benchmark
//
// A notebook kernel normally compiles in Cargo's development profile, with overflow checks and debug assertions. Those
// cost each server a different share of its time, so every ratio would come out wrong. So the first cell switches all of
// that off. Without it, the harness refuses to measure.

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
// ## A first result
//
// First, the finished crate at work: the published loop, and the better one at the end. A request takes tens of
// nanoseconds, since no real kernel is involved. It is a glance: one process, a second each, no control.

// %% tags=["active-ipynb", "glance"]
// :dep zero-cost-loop = { path = "../../rust-kernels/zero-cost/loop" }
// zero_cost_loop::glance(zero_cost_loop::Load { syscalls: false, steps: 0 }, &[
//     ("manual", zero_cost_loop::manual::<zero_cost_loop::NoWork, zero_cost_loop::Timed<()>>),
//     ("manual (best)", zero_cost_loop::by_hand::<zero_cost_loop::Pipeline, zero_cost_loop::NoWork, zero_cost_loop::Timed<()>>),
// ])

// %% [markdown]
// What do the 256 requests ask of the simulated kernel? The same loop counts, with another probe. There are two calls
// of `accept`, `read` and `write` for each: one that would block, and one that succeeds.

// %% tags=["active-ipynb", "glance"]
// {
//     let load = zero_cost_loop::Load { syscalls: false, steps: 0 };
//     let counts = zero_cost_loop::count(zero_cost_loop::manual::<zero_cost_loop::NoWork, zero_cost_loop::Counted>, load);
//     let calls = zero_cost_loop::Operation::ALL.map(|operation| format!("{} {}", operation.name(), counts[operation.name()]));
//     println!("{} requests: {}", counts["transactions"], calls.join(", "));
// };

// %% [markdown]
// Two crates besides our harness: `slab`, a vector with reusable slots, from which the event loop and every table below
// are made, and `libc` for the system call.

// %%
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::fmt;
use std::hint::black_box;
use std::io;
use std::marker::PhantomData;
use std::mem;
use std::ops::Deref;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::thread;

use harness::{Bencher, Counts, UnequalWork, tally};
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
// The system call is a `read` of one byte from a pipe that is never written to. It goes through the
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
        pipe.read_would_block();
        assert_eq!(
            io::Error::last_os_error().kind(),
            io::ErrorKind::WouldBlock,
            "the pipe is not as we believe"
        );
        Ok(pipe)
    }

    /// One system call that fails.
    ///
    /// # Panics
    /// If it does not fail: then it did other work than we believe.
    #[inline(never)]
    fn read_would_block(&self) {
        let mut byte = 0_u8;
        // SAFETY: the descriptor is open until `self` is dropped, and `byte` has room for the one byte asked
        // for.
        let outcome = unsafe { libc::read(self.ends[0], (&raw mut byte).cast(), 1) };
        assert_eq!(outcome, -1, "the empty pipe had something to read");
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
            pipe.read_would_block();
        }
        let count = &self.counts[operation as usize];
        count.set(count.get().wrapping_add(1));
    }
}

// %% [markdown]
// ### Details that are not async
//
// Some details of the published program have nothing to do with async, and may still cost the loop and the executors
// unequally: what an operation that would block reports, whether a result may hold an error, where the poller leaves its
// events, whether the search for a newline begins at the front or the back, what a list does when it is asked to remove
// an entry that it does not hold, and whether the optimiser may look into the fake. Each of them is a *choice*, made
// when the code is compiled. The published variants make the choices of the document, except that the fake stays opaque;
// `manual (best)` and the ladder make the others. A table of the analysis says what each choice does.

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
// In the async servers, an operation is a future. Its result may hold an error, which the servers pass on with `?` and
// unwrap in the end, as published; or it is the plain value. A `Result` without a possible error is as large as its
// value.

// %%
/// What the future of an operation reports if it fails in another way than that it would block, which it never does.
pub trait Failure<E>: fmt::Debug {
    /// The failure that this error is.
    fn of(error: E) -> Self;
}

/// As published.
impl<E: Blocked> Failure<E> for E {
    #[inline(always)]
    fn of(error: E) -> Self {
        error
    }
}

/// Plain values.
impl<E: Blocked> Failure<E> for Infallible {
    fn of(error: E) -> Self {
        panic!("{error:?}")
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
    fn with_capacity(capacity: usize) -> Self;
    /// Holds these instead.
    fn refill(&mut self, events: impl Iterator<Item = Event>);
    /// How many there are.
    fn count(&self) -> usize;
}

impl Events for Vec<Event> {
    fn with_capacity(capacity: usize) -> Self {
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
    fn with_capacity(capacity: usize) -> Self {
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
/// [`Choices::CALLS`], a number of functions: the operations are out of line and opaque, and so many functions, out of line
/// themselves, lie between each and its system call.
pub const OPAQUE: u8 = 0;
/// As many functions as there can be.
pub const MOST_NESTED: u8 = 6;
/// As many again, but they have returned before the system call.
pub const RETURNED_BEFORE: u8 = MOST_NESTED + 1;
/// The optimiser may look into the operations, and make them part of their callers.
pub const INLINED: u8 = RETURNED_BEFORE + 1;
/// As [`OPAQUE`], but which calls would block is drawn by lot.
pub const BY_LOT: u8 = INLINED + 1;

/// Details of the program that are not async.
pub trait Choices: 'static {
    /// What an operation that would block reports.
    type Error: Blocked;
    /// What the future of an operation reports if it fails.
    type Failure: Failure<Self::Error>;
    /// Where the poller leaves its events.
    type Events: Events;
    /// Whether a newline is searched from the back, where it is.
    const SEARCHES_BACKWARDS: bool;
    /// Whether a list that is to remove what it does not hold returns early.
    const EARLY_RETURN: bool;
    /// How the operations of the fake are called.
    const CALLS: u8;
    /// Whether a future is made first and then copied into its box. Otherwise that is up to the compiler.
    const COPIED: bool;
}

/// A set of choices, in the order of [`Choices`].
pub struct Set<E, F, V, const BACK: bool, const EARLY: bool, const CALLS: u8, const COPIED: bool>(
    PhantomData<(E, F, V)>,
);

impl<E, F, V, const BACK: bool, const EARLY: bool, const CALLS: u8, const COPIED: bool> Choices
    for Set<E, F, V, BACK, EARLY, CALLS, COPIED>
where
    E: Blocked + 'static,
    F: Failure<E> + 'static,
    V: Events + 'static,
{
    type Error = E;
    type Failure = F;
    type Events = V;
    const SEARCHES_BACKWARDS: bool = BACK;
    const EARLY_RETURN: bool = EARLY;
    const CALLS: u8 = CALLS;
    const COPIED: bool = COPIED;
}

// %% [markdown]
// These are the sets that are measured.

// %%
/// The document's, except for opaque calls. The others differ from it in one choice.
pub type AsDescribed = Set<io::Error, io::Error, Slab<Event>, false, false, OPAQUE, true>;
pub type SmallError = Set<WouldBlock, WouldBlock, Slab<Event>, false, false, OPAQUE, true>;
pub type PlainValues = Set<io::Error, Infallible, Slab<Event>, false, false, OPAQUE, true>;
pub type EventsInVec = Set<io::Error, io::Error, Vec<Event>, false, false, OPAQUE, true>;
pub type BackwardSearch = Set<io::Error, io::Error, Slab<Event>, true, false, OPAQUE, true>;
pub type EarlyReturn = Set<io::Error, io::Error, Slab<Event>, false, true, OPAQUE, true>;
pub type Inlined = Set<io::Error, io::Error, Slab<Event>, false, false, INLINED, true>;
pub type NestedCalls<const CALLS: u8> = Set<io::Error, io::Error, Slab<Event>, false, false, CALLS, true>;
pub type AnyOrder = Set<io::Error, io::Error, Slab<Event>, false, false, BY_LOT, true>;
pub type InPlace = Set<io::Error, io::Error, Slab<Event>, false, false, OPAQUE, false>;
/// All of the others.
pub type Lean = Set<WouldBlock, Infallible, Vec<Event>, true, true, OPAQUE, false>;

// %% [markdown]
// ### Listener and stream
//
// Both fail on odd calls and succeed on even ones. A stream counts its reads and writes with *one* counter,
// so the life of a connection is always the same: a read fails, a read brings the line, a write fails, a
// write takes the line. A processor may learn that order by heart. So one choice draws by lot which call of two fails, the
// same half of them. Objects come in two flavours, because the published variants do: they hold the ledger
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

/// Whether the call with this number, of all calls of its operation, would block: one of the calls 1 and 2, one of the calls 3
/// and 4, and so on, drawn by lot with a fixed seed. Each [`CONNECTIONS`] pairs end with one that does not, so that an
/// iteration makes as many calls as in strict order.
#[inline(always)]
fn blocks_by_lot(number: u32) -> bool {
    let pair = number.wrapping_sub(1) / 2;
    // The finaliser of MurmurHash3.
    let mut lot = (pair ^ (pair >> 16)).wrapping_mul(0x85eb_ca6b);
    lot = (lot ^ (lot >> 13)).wrapping_mul(0xc2b2_ae35);
    let second = (lot >> 31) == 1 && pair % (CONNECTIONS as u32) != CONNECTIONS as u32 - 1;
    (number % 2 == 1) != second
}

/// Whether a call of this operation would block, by lot.
///
/// # Errors
/// If it would.
#[inline(always)]
fn fail_by_lot<E: Blocked>(stats: &Stats, operation: Operation) -> Result<(), E> {
    if blocks_by_lot(stats.counts[operation as usize].get()) { Err(E::new()) } else { Ok(()) }
}

/// Hides a value from the optimiser, where the operation is opaque.
#[inline(always)]
fn opaque_value<const HOW: u8, T>(value: T) -> T {
    if HOW == INLINED { value } else { black_box(value) }
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
// A system call ends with a return, and so does each function between it and the loop. The ledger can be entered through
// some functions that do nothing else, or, for comparison, after as many of them.

// %%
/// Is one of `DEPTH` functions, the last of which enters the fake system if it `ENTERS_SYSTEM`.
#[inline(never)]
fn nested_call<const DEPTH: u8, const ENTERS_SYSTEM: bool>(stats: &Stats, operation: Operation) {
    match DEPTH {
        2 => nested_call::<1, ENTERS_SYSTEM>(stats, operation),
        3 => nested_call::<2, ENTERS_SYSTEM>(stats, operation),
        4 => nested_call::<3, ENTERS_SYSTEM>(stats, operation),
        5 => nested_call::<4, ENTERS_SYSTEM>(stats, operation),
        6 => nested_call::<5, ENTERS_SYSTEM>(stats, operation),
        _ if ENTERS_SYSTEM => stats.enter(operation),
        _ => {}
    }
    black_box(()); // keeps the call from becoming a jump
}

/// Enters the fake system by way of the functions that [`Choices::CALLS`] says.
#[inline(always)]
fn enter<const CALLS: u8>(stats: &Stats, operation: Operation) {
    match CALLS {
        1 => nested_call::<1, true>(stats, operation),
        2 => nested_call::<2, true>(stats, operation),
        3 => nested_call::<3, true>(stats, operation),
        4 => nested_call::<4, true>(stats, operation),
        5 => nested_call::<5, true>(stats, operation),
        6 => nested_call::<6, true>(stats, operation),
        RETURNED_BEFORE => {
            nested_call::<MOST_NESTED, false>(stats, operation);
            stats.enter(operation);
        }
        _ => stats.enter(operation),
    }
}

// %% [markdown]
// Here is what each operation does, once. It is compiled in all ways of [`Choices::CALLS`], of which the caller
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
                fn body<$($E: $bound,)? const HOW: u8>($($argument: $type),*) -> $out $body
                #[inline(never)]
                fn opaque<$($E: $bound,)? const HOW: u8>($($argument: $type),*) -> $out {
                    body::<$($E,)? HOW>($($argument),*)
                }
                match how {
                    OPAQUE => opaque::<$($E,)? OPAQUE>($($argument),*),
                    1 => opaque::<$($E,)? 1>($($argument),*), 2 => opaque::<$($E,)? 2>($($argument),*),
                    3 => opaque::<$($E,)? 3>($($argument),*), 4 => opaque::<$($E,)? 4>($($argument),*),
                    5 => opaque::<$($E,)? 5>($($argument),*), 6 => opaque::<$($E,)? 6>($($argument),*),
                    RETURNED_BEFORE => opaque::<$($E,)? RETURNED_BEFORE>($($argument),*),
                    BY_LOT => opaque::<$($E,)? BY_LOT>($($argument),*),
                    _ => body::<$($E,)? INLINED>($($argument),*),
                }
            }
        };
    }

    operation!(accept<E: Blocked>(stats: &Stats, calls: &Cell<u32>) -> Result<(), E> {
        let calls = opaque_value::<HOW, _>(calls);
        enter::<HOW>(stats, Operation::Accept);
        if HOW == BY_LOT { fail_by_lot(stats, Operation::Accept) } else { fail_first(calls) }
    });
    operation!(read<E: Blocked>(stats: &Stats, calls: &Cell<u32>, buffer: &mut [u8]) -> Result<usize, E> {
        enter::<HOW>(stats, Operation::Read);
        if HOW == BY_LOT { fail_by_lot(stats, Operation::Read)? } else { fail_first(calls)? }
        buffer[..LINE.len()].copy_from_slice(LINE);
        Ok(opaque_value::<HOW, _>(LINE.len()))
    });
    operation!(write<E: Blocked>(stats: &Stats, calls: &Cell<u32>, bytes: &[u8]) -> Result<usize, E> {
        let bytes = opaque_value::<HOW, _>(bytes);
        enter::<HOW>(stats, Operation::Write);
        if HOW == BY_LOT { fail_by_lot(stats, Operation::Write)? } else { fail_first(calls)? }
        Ok(bytes.len())
    });
    operation!(register(stats: &Stats, registry: &Registry, token: &Token, event: Event) -> () {
        enter::<HOW>(stats, Operation::Register);
        assert!(token.get().is_none(), "registered twice");
        token.set(Some(registry.borrow_mut().insert(event)));
    });
    operation!(unregister(stats: &Stats, registry: &Registry, token: &Token) -> () {
        enter::<HOW>(stats, Operation::Unregister);
        let slot = token.take().expect("not registered");
        registry.borrow_mut().remove(slot);
    });
    operation!(poll<E: Events>(stats: &Stats, registry: &Registry, events: &mut E) -> () {
        let events = opaque_value::<HOW, _>(events);
        enter::<HOW>(stats, Operation::Poll);
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
// A stream in use: each operation would block at first, and succeeds when it is tried again.

// %% tags=["active-ipynb", "glance"]
// {
//     let (stats, mut buffer) = (Stats::new(false), [0; SMALL_BUFFER]);
//     let stream = FakeStream::<_, Lean>::new(&stats);
//     let [first, second] = [(), ()].map(|()| stream.read(&mut buffer));
//     println!("read {first:?}, then {second:?}");
//     let [first, second] = [(), ()].map(|()| stream.write(LINE));
//     println!("write {first:?}, then {second:?}");
// };

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
// The poller insists that everything is unregistered in the end. A variant that leaks a connection fails.

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
// Before we time anything we want proof that all variants do the same work: as many spawns, polls, wakes and clones of
// wakers as the algorithm calls for, not one more. Counting in the timed code would slow down the very thing to be
// measured. So the machinery below is generic over a *probe*. `Counted` counts; `Timed` does nothing, and vanishes when
// compiled.
//
// `Timed` has a second job, hidden in its parameter. Two variants that share a generic instance also share its code,
// which the optimiser may then inline in neither; and a variant's time would depend on its neighbours. With a label of
// its own, a variant gets its own copy of everything between the server and the fake kernel. The published servers are
// ten in one program and share such code, and that takes time: so here they have one label together.

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
// A probe is notified of each of these.

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
    /// So many bytes were received there.
    fn received(place: *const u8, bytes: usize);
    /// So many bytes were sent from there.
    fn sent(place: *const u8, bytes: usize);
}

// %% [markdown]
// Here are both probes. Neither has a value anywhere: they act through their type alone, so the timed structs are not a
// byte larger.

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

    #[inline(always)]
    fn received(_: *const u8, _: usize) {}

    #[inline(always)]
    fn sent(_: *const u8, _: usize) {}
}

// %% [markdown]
// The counting probe also remembers where the fake wrote a line. A line sent from there was not copied meanwhile:
// neither into another buffer nor with a buffer that moved.

// %%
/// Where bytes were received that were not sent yet: the address and the number of each. And how many were sent.
#[derive(Default)]
struct ReceivedAt {
    received: Vec<(usize, usize)>,
    reported: bool,
    sent_in_place: u64,
}

impl ReceivedAt {
    fn reported_sent_in_place(self) -> Option<u64> {
        self.reported.then_some(self.sent_in_place)
    }
}

/// Those of this thread.
fn with_received_at<Out>(use_it: impl FnOnce(&mut ReceivedAt) -> Out) -> Out {
    thread_local! {
        static RECEIVED_AT: RefCell<ReceivedAt> = RefCell::default();
    }
    RECEIVED_AT.with_borrow_mut(use_it)
}

// %% [markdown]
// Everything else is one tally for each counter.

// %%
/// The probe of the proof: keeps one tally per thread.
pub struct Counted<C = AsDescribed>(PhantomData<C>);

impl Counted {
    /// What was counted on this thread since it was last taken.
    pub fn value(counter: Counter) -> u64 {
        tally::value(counter as usize)
    }

    /// Bytes sent from where they were received, that is, without having been copied meanwhile, since it was last asked;
    /// None where the servers did not report what they received.
    fn take_sent_in_place() -> Option<u64> {
        with_received_at(|received_at| mem::take(received_at).reported_sent_in_place())
    }
}

impl<C: Choices> Probe for Counted<C> {
    type Choices = C;
    const COUNTS: bool = true;

    fn add(counter: Counter, times: usize) {
        tally::add(counter as usize, times as u64);
    }

    fn peak(counter: Counter, now: usize) {
        tally::peak(counter as usize, now as u64);
    }

    fn received(place: *const u8, bytes: usize) {
        with_received_at(|received_at| {
            received_at.reported = true;
            received_at.received.push((place.addr(), bytes));
        });
    }

    fn sent(place: *const u8, bytes: usize) {
        with_received_at(|received_at| {
            // The fake hands over a line as a whole and takes it as a whole.
            let same = |&each: &(usize, usize)| each == (place.addr(), bytes);
            if let Some(found) = received_at.received.iter().position(same) {
                received_at.received.swap_remove(found);
                received_at.sent_in_place += bytes as u64;
            }
        });
    }
}

// %% [markdown]
// ## What a server does with a request
//
// Nothing, in the published program: it looks for the end of the line and sends the line back. That makes the cost of
// the scheduling as visible as it can be, and as irrelevant as it can be. So there is an extra knob, a chain of xorshift
// steps, each of which needs the result of the one before. The published text *computes* what ten microseconds of work
// per request would do to its ratio; here the work is run.

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
    if C::SEARCHES_BACKWARDS { received.iter().rev().any(ends) } else { received.iter().any(ends) }
}

// %% [markdown]
// # By hand
//
// ## A list without allocations
//
// The published loop keeps a list of the connections that have something to do, and so do all its executors with their
// tasks. It must offer constant-time removal from the middle, so that a second event for the same connection does not
// queue it twice. Hence a doubly linked list; and since the nodes live in a slab, the links are slot numbers, not
// pointers, and the borrow checker has nothing to object to.

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
// is one of the choices. Whether it is inlined is left to the compiler, as in the published program: `#[inline]` would
// make the executors' servers execute fewer instructions than the published ones do, and leave `manual` as it is.

// %%
impl<C: Choices> RunList<C> {
    /// Unlinks `slot`. Does nothing if it is not linked, in which case it may return early.
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
                P::received(self.buffer.as_ptr().wrapping_add(self.filled), length);
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
            P::sent(self.buffer.as_ptr().wrapping_add(self.sent), length);
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
            events: Events::with_capacity(TASKS),
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
// Now the first server can be run. All variants have this form: make a world, then hand one
// iteration of it to `repeat`, which calls it as often as it likes, to time it or to count. All set-up happens
// before.

// %%
/// Is given a world's ledger and a function that makes one iteration in that world.
pub type Repeat<'d> = &'d mut dyn FnMut(&Stats, &mut dyn FnMut());

/// Makes a world for this load and hands its iteration to a [`Repeat`].
pub type World = fn(Load, Repeat<'_>);

/// The published hand-written loop.
pub fn manual<W: Work, P: Probe>(load: Load, repeat: Repeat<'_>) {
    let stats = Stats::new(load.syscalls);
    let mut server = ManualServer::<W, P>::new(&stats, W::under(load));
    repeat(&stats, &mut || server.run());
}

// %% [markdown]
// How long does a request take? The cell below runs servers in turn, a second each, and compares them with the
// first. It is a glance: one process, no control, and of the proof only that all do the operations of the first. Change
// the load, or a cell above, and look again.

// %%
/// Times the iterations of a world.
pub fn bench(world: World, load: Load) -> impl Fn(&mut Bencher) {
    move |bencher| world(load, &mut |_, run| bencher.iter(run))
}

/// Some worlds at a glance; the first is what the others are compared with. One that does other operations is not timed.
pub fn glance(load: Load, worlds: &[(&str, World)]) -> harness::Seen {
    let did = |world: World| {
        let mut counts = Counts::new();
        world(load, &mut |stats, run| {
            run();
            counts = stats.counts();
        });
        counts
    };
    let first = worlds.first().map(|&(_, world)| did(world));
    let glance = harness::Glance::at("request").each_of(CONNECTIONS as u64);
    let looked = worlds.iter().fold(glance, |glance, &(name, world)| match Some(did(world)) == first {
        true => glance.look(name, bench(world, load)),
        false => glance.look(name, move |bencher| bencher.fail("other operations than those of the first")),
    });
    looked.show()
}

// %% [markdown]
// The published loop, with an opaque fake and with one that the optimiser may look into:

// %% tags=["active-ipynb", "glance"]
// glance(Load { syscalls: false, steps: 0 }, &[
//     ("manual", manual::<NoWork, Timed<()>>),
//     ("manual (inlined)", manual::<NoWork, Timed<(), Inlined>>),
// ])

// %% [markdown]
// ## As good as we can make it
//
// "What you do use, you couldn't hand code any better", says the definition of a zero-cost abstraction. The published
// loop *can* be hand-coded better. It queues connections in a list, only to walk the list at once; but the events from
// the poller already are that list. And with at most 256 connections, a fixed array can replace the slab. What remains:
// for each event, step its connection. The buffer is as large and as zeroed as everywhere else, and the fake kernel sees
// the same 2308 operations. One difference is visible from outside: the listener is unregistered after the last accept,
// as the async servers do it, so two events fewer are delivered than in the published loop, 768 for 770.
//
// All ratios in the tables use the *published* loop as their baseline. Look at both before you judge the abstraction.

// %% [markdown]
// ### Two loads
//
// The published load is a pipeline: the listener yields one client per poll, so at most three connections live at once,
// all state stays in the first-level cache, and every table could be tiny. That flatters everything that walks or
// allocates. So there is a second load, a **crowd**: all 256 clients connect at the same moment, and `accept` never
// blocks. Then 256 connections live at once, two polls serve them all, and each poll reports 256 events.

// %%
/// Where clients come from.
pub trait Door<S>: Source {
    /// Opens it. `stats` is a handle to the ledger.
    fn open(stats: S) -> Self;

    /// The next client.
    ///
    /// # Errors
    /// [`WouldBlock`] if no client waits.
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

// %% [markdown]
// The second kind of door: a crowd, for questions about many connections at once.

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
                P::received(self.buffer.as_ptr().wrapping_add(self.filled), length);
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
            P::sent(self.buffer.as_ptr().wrapping_add(self.sent), length);
            self.sent += length;
            if self.sent == self.filled {
                P::add(Counter::Transactions, 1);
                return true;
            }
        }
    }
}

// %% [markdown]
// The loop keeps its connections in an array, and a stack of the places that are vacant.

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

// %% [markdown]
// It accepts all waiting clients, steps each connection that has an event, and returns when all are served.

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

    /// Accepts until that would block, or all are accepted: then no event of the listener is needed again.
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
        // A client may wait already: so begins the only place that accepts.
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
// As a world, like the published loop above; a type says which door it has.

// %%
/// The world of the best loop.
pub fn by_hand<D: OpensDoors, W: Work, P: Probe>(load: Load, repeat: Repeat<'_>) {
    let stats = Stats::new(load.syscalls);
    let mut server = Loop::<D::Door<&Stats>, W, P>::new(&stats, W::under(load));
    let mut events = Vec::with_capacity(TASKS);
    repeat(&stats, &mut || server.run(&mut events));
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
// Both loops, with a system call behind each operation:

// %% tags=["active-ipynb", "glance"]
// glance(Load { syscalls: true, steps: 0 }, &[
//     ("manual", manual::<NoWork, Timed<()>>),
//     ("manual (best)", by_hand::<Pipeline, NoWork, Timed<()>>),
// ])

// %% [markdown]
// # What a proof counts
//
// A benchmark whose variants do different work compares nothing. So before anything is timed, each variant makes one
// iteration to warm up and one that is counted. Only the counting code can be proven to the last waker. But the ledger
// of operations is kept in the timed code too, and it must hold the same.

// %%
/// Makes two iterations in a world, and returns the operations of the second.
fn operations(world: World, load: Load) -> Counts {
    let mut counts = Counts::new();
    world(load, &mut |stats, run| {
        run();
        tally::take(Counter::NAMES);
        Counted::take_sent_in_place();
        let before = stats.counts();
        run();
        counts = stats.counts().into_iter().map(|(name, after)| (name, after - before[name])).collect();
    });
    counts
}

/// The same of a world whose probe is [`Counted`], and what that has counted.
pub fn count(world: World, load: Load) -> Counts {
    let mut counts = operations(world, load);
    counts.extend(tally::take(Counter::NAMES));
    counts.extend(Counted::take_sent_in_place().map(|bytes| ("sent_in_place", bytes)));
    counts
}

// %% [markdown]
// So the timed half and the counting half of a world are proven together:

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

// %% [markdown]
// Each world is compiled twice, with the two probes, and with a label of its own, or one that it is given.

// %%
/// A world twice, with its probe `P` in both ways: `twice!(P => nonbox::<NoWork, P, SMALL>)`, or `twice!(Label, P => …)`
/// with a label. Other choices are `P<Lean>`.
#[macro_export]
macro_rules! twice {
    ($probe:ident => $world:expr) => {{
        enum Label {}
        $crate::twice!(Label, $probe => $world)
    }};
    ($label:ident, $probe:ident => $world:expr) => {{
        let timed: $crate::World = {
            type $probe<C = $crate::AsDescribed> = $crate::Timed<$label, C>;
            $world
        };
        let counted: $crate::World = {
            type $probe<C = $crate::AsDescribed> = $crate::Counted<C>;
            $world
        };
        [timed, counted]
    }};
}
