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
// # Does the cost of async disappear in a real application?
//
// [The notebook next to this one](measure.ipynb) measures what `async` costs over a loop written by hand, on a fake
// operating system made of counters. Such figures usually come with a reassurance: *in a real application there are
// system calls, and next to them the difference disappears.* That is usually calculated, or imitated by a dummy call
// behind each operation. Here it is measured.
//
// So this is the same server once more, on real sockets. Clients connect, each sends a line, each gets its
// line back; bytes go through the kernel, the poller is a real epoll, connections are file descriptors that
// are opened and closed. One thread serves them:
//
// - `manual`: a loop written by hand;
// - `async`: async functions on [the frontier](../ladder/frontier.ipynb), an executor of our own;
// - `async+box`: the same functions on the same executor, each connection's future in a box of `dyn Future`;
// - `tokio` and `tokio LocalSet`: the same functions on tokio's runtime of one thread, spawned on it or on its `LocalSet`;
// - `smol`: the same functions on smol's `LocalExecutor`.
//
// All but the boxed ones also serve clients that keep their connections and ask again and again. Then nothing is opened
// or closed, and the cost of async per request is known to some nanoseconds.
//
// After reading it you can decide whether the choice matters for a server of your own that does *at
// least* this: accept, read, write, close. Anything more that a real server does is the same on all sides, and only
// makes the relative difference smaller. But a real server does *not* play its own clients, which makes the difference
// look smaller than it is. So that part is measured too, for you to subtract; and where the servers are compared with
// runtimes, the clock stands still while clients act.

// %% [markdown]
// ## Compile cells as for a benchmark
//
// These settings give cells the profile of `cargo bench`. Without them, the harness refuses to measure.

// %% tags=["active-ipynb"]
// :build_env CARGO_PROFILE_DEV_OPT_LEVEL=3
// :build_env CARGO_PROFILE_DEV_DEBUG_ASSERTIONS=false
// :build_env CARGO_PROFILE_DEV_OVERFLOW_CHECKS=false
// :build_env CARGO_PROFILE_DEV_CODEGEN_UNITS=1
// :build_env CARGO_INCREMENTAL=0
// :dep frontier = { path = "../../rust-kernels/ladder/frontier" }
// :dep harness = { path = "../../rust-kernels/harness" }
// :dep rustix = { version = "=1.1.6", features = ["event", "time"] }
// :dep slab = "=0.4.12"
// :dep smol = "=2.0.2"
// :dep tokio = { version = "=1.54.1", features = ["io-util", "net", "rt"] }
// :dep zero-cost-loop = { path = "../../rust-kernels/zero-cost/loop" }

// %% [markdown]
// From `zero-cost`, which is the other notebook as a crate, come the probes that count without being timed, and the
// work of a request; from `frontier` the executor, its reactor and epoll.

// %%
use std::array;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::io::{self, ErrorKind, Read, Write};
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use frontier::{Epoll, Executor, Full, Io, Object, Reactor, Sockets, System, tried};
use harness::{Bencher, Counts, Key, Sample, Study, UnequalWork};
use rustix::event::epoll;
use rustix::time::{ClockId, clock_gettime};
use slab::Slab;
use zero_cost_loop::{
    CONNECTIONS, Counted, Counter, Lean, NoWork, Probe, SMALL_BUFFER, Steps, TASKS, Timed, Work, holds_line,
};

// %% [markdown]
// # A world of sockets
//
// ## The ledger
//
// Equal work has to be equal in system calls, because that is where the time goes. So
// each call to the operating system is entered in a ledger, in timed code as well: one addition to a cell,
// next to a system call. The server's calls and the client's are kept apart.

// %%
/// What the program asks of the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// The server has the poller watch a socket.
    Register,
    /// The server has the poller watch it for something else.
    Reregister,
    /// The server has the poller forget a socket.
    Unregister,
    /// The server waits for events.
    Poll,
    /// The server asks for the next connection.
    Accept,
    /// The server reads from a connection.
    Read,
    /// The server writes to a connection.
    Write,
    /// The server closes its end.
    Close,
    /// A client opens a connection.
    Open,
    /// Clients announce the connections they have opened.
    Announce,
    /// A client sends its line.
    Send,
    /// A client reads its answer.
    Receive,
    /// A client closes its end.
    HangUp,
}

// %% [markdown]
// All of these are one system call, with one exception: opening a connection makes the pair of sockets and sets
// each of them to non-blocking. (A test runs the servers under `strace` and compares.)

// %%
impl Call {
    /// All of them in the order of declaration, with their counter's name in the data and their number of
    /// system calls.
    pub const ALL: [(Self, &'static str, u64); 13] = [
        (Self::Register, "register", 1),
        (Self::Reregister, "reregister", 1),
        (Self::Unregister, "unregister", 1),
        (Self::Poll, "poll", 1),
        (Self::Accept, "accept", 1),
        (Self::Read, "read", 1),
        (Self::Write, "write", 1),
        (Self::Close, "close", 1),
        (Self::Open, "client_open", 3),
        (Self::Announce, "client_announce", 1),
        (Self::Send, "client_send", 1),
        (Self::Receive, "client_receive", 1),
        (Self::HangUp, "client_hang_up", 1),
    ];
}

/// Whether the operating system was interrupted by a signal before it did anything.
fn is_interrupted<T>(outcome: &io::Result<T>) -> bool {
    outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::Interrupted)
}

/// Whether the operation has to be tried again when the poller says so.
fn would_block<T>(outcome: &io::Result<T>) -> bool {
    outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

// %% [markdown]
// The ledger also knows how many of the calls would have blocked and how many bytes moved. And it has a
// knob for tests: sockets may take less than they are offered. With `most` at 5, each write moves five bytes
// at most, so that every server has to send its answers in pieces.

// %%
/// Counts calls to the operating system and the bytes that they moved.
pub struct Ledger {
    calls: [Cell<u64>; Call::ALL.len()],
    /// Calls of the server that would have blocked.
    refused: Cell<u64>,
    /// Bytes that the server read.
    bytes_read: Cell<u64>,
    /// Bytes that the server wrote.
    bytes_written: Cell<u64>,
    /// Bytes that the server may write at once.
    most: usize,
}

impl Ledger {
    /// A ledger of zeros. The server's writes will be of `most` bytes at most.
    pub fn new(most: usize) -> Self {
        Self {
            calls: array::from_fn(|_| Cell::default()),
            refused: Cell::default(),
            bytes_read: Cell::default(),
            bytes_written: Cell::default(),
            most,
        }
    }
}

// %% [markdown]
// A call that a signal interrupts is made again, and entered again.

// %%
impl Ledger {
    /// Enters a call.
    #[inline(always)]
    fn enter(&self, call: Call) {
        let count = &self.calls[call as usize];
        count.set(count.get() + 1);
    }

    /// Makes a call, again if a signal interrupts it.
    #[inline(always)]
    fn attempt<T>(&self, call: Call, mut operation: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        loop {
            self.enter(call);
            let outcome = operation();
            if would_block(&outcome) {
                self.refused.set(self.refused.get() + 1);
            }
            if !is_interrupted(&outcome) {
                return outcome;
            }
        }
    }
}

// %% [markdown]
// The counts are exported under these names.

// %%
impl Ledger {
    /// All counts so far, and the system calls that they amount to: all of them, and the clients' alone.
    pub fn counts(&self) -> Counts {
        let calls = Call::ALL.map(|(call, name, each)| (call, name, self.calls[call as usize].get(), each));
        let mut counts: Counts = calls.iter().map(|&(_, name, count, _)| (name, count)).collect();
        let clients = calls.iter().filter(|(call, ..)| *call as usize >= Call::Open as usize);
        counts.extend([
            ("syscalls", calls.iter().map(|(_, _, count, each)| count * each).sum()),
            ("client_syscalls", clients.map(|(_, _, count, each)| count * each).sum()),
            ("would_block", self.refused.get()),
            ("read_bytes", self.bytes_read.get()),
            ("written_bytes", self.bytes_written.get()),
        ]);
        counts
    }
}

// %% [markdown]
// Reading and writing are compiled once, out of line, so that every server enters the
// kernel in the same way. The sockets are non-blocking; a call either moves bytes now or fails with `WouldBlock`.

// %%
/// Reads into the start of `buffer`; 0 if the other end is closed, or the buffer empty.
#[inline(never)]
fn read_call(ledger: &Ledger, mut stream: &UnixStream, buffer: &mut [u8]) -> io::Result<usize> {
    let length = ledger.attempt(Call::Read, || stream.read(buffer))?;
    ledger.bytes_read.set(ledger.bytes_read.get() + length as u64);
    Ok(length)
}

/// Writes from the start of `bytes`; the number of bytes that were taken.
#[inline(never)]
fn write_call(ledger: &Ledger, mut stream: &UnixStream, bytes: &[u8]) -> io::Result<usize> {
    let most = bytes.len().min(ledger.most);
    let length = ledger.attempt(Call::Write, || stream.write(&bytes[..most]))?;
    ledger.bytes_written.set(ledger.bytes_written.get() + length as u64);
    Ok(length)
}

// %% [markdown]
// A connection is a socket that enters its calls in the ledger.

// %%
/// The server's end of a connection. Reads, writes and its end are entered in the ledger.
pub struct Socket<'d> {
    stream: UnixStream,
    ledger: &'d Ledger,
}

impl AsFd for Socket<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

// %% [markdown]
// It reads and writes as any socket does, by shared reference.

// %%
impl Read for &Socket<'_> {
    #[inline(always)]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        read_call(self.ledger, &self.stream, buffer)
    }
}

impl Write for &Socket<'_> {
    #[inline(always)]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write_call(self.ledger, &self.stream, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Socket<'_> {
    fn drop(&mut self) {
        self.ledger.enter(Call::Close); // which happens when the field is dropped
    }
}

// %% [markdown]
// ## The listener
//
// A connection is a fresh pair of Unix-domain sockets: the client keeps one end, the server gets the other. What is
// missing is the moment of arrival, when a listening socket becomes readable. A third pair of sockets plays that part:
// clients write a byte to it for each connection, and to accept is to read one such byte and take the waiting
// connection. That is one system call, as `accept4` would be, and one that would block when no client has connected.

// %%
/// Where connections arrive.
pub struct Listener {
    /// What happens in this world.
    pub ledger: Ledger,
    /// Clients write a byte to it for each connection.
    sender: UnixStream,
    /// The server's end: readable while a connection waits.
    receiver: UnixStream,
    /// The server's ends of connections that wait to be accepted.
    waiting: RefCell<VecDeque<UnixStream>>,
}

impl Listener {
    /// A listener without connections. The server's writes will be of `most` bytes at most.
    ///
    /// # Errors
    /// The operating system's error, for example when too many files are open.
    pub fn open(most: usize) -> io::Result<Rc<Self>> {
        let (sender, receiver) = UnixStream::pair()?;
        receiver.set_nonblocking(true)?;
        let waiting = RefCell::new(VecDeque::with_capacity(CONNECTIONS));
        Ok(Rc::new(Self { ledger: Ledger::new(most), sender, receiver, waiting }))
    }

    /// Makes a connection wait, of which `stream`, non-blocking, is the server's end.
    pub fn hand_over(&self, stream: UnixStream) {
        self.waiting.borrow_mut().push_back(stream);
    }

    /// Opens a connection whose other end waits to be accepted, and returns the client's end. The server will
    /// not hear of it before it is announced.
    ///
    /// # Errors
    /// The operating system's error, for example when too many files are open.
    pub fn connect(&self) -> io::Result<UnixStream> {
        self.ledger.enter(Call::Open);
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        self.hand_over(theirs);
        Ok(ours)
    }
}

// %% [markdown]
// Clients that connect together are announced together. A Unix-domain socket charges every write with some hundred
// bytes of overhead, and would be full after less than three hundred single bytes.

// %%
impl Listener {
    /// Announces the last `arrivals` connections, with one system call.
    ///
    /// # Errors
    /// The operating system's error.
    ///
    /// # Panics
    /// If there are more of them than [`CONNECTIONS`].
    pub fn announce(&self, arrivals: usize) -> io::Result<()> {
        self.ledger.enter(Call::Announce);
        (&self.sender).write_all(&[b'!'; CONNECTIONS][..arrivals])
    }

    /// The next connection.
    ///
    /// # Errors
    /// `WouldBlock` if none was announced; any other error of the operating system.
    ///
    /// # Panics
    /// If one was announced and does not wait.
    #[inline(never)]
    pub fn accept(&self) -> io::Result<Socket<'_>> {
        let stream = self.accept_stream()?;
        Ok(Socket { stream, ledger: &self.ledger })
    }

    /// As [`accept`](Self::accept), without the ledger.
    #[inline(always)]
    fn accept_stream(&self) -> io::Result<UnixStream> {
        self.ledger.attempt(Call::Accept, || (&self.receiver).read_exact(&mut [0]))?;
        Ok(self.waiting.borrow_mut().pop_front().expect("a connection that was announced"))
    }
}

/// The receiver.
impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receiver.as_fd()
    }
}

// %% [markdown]
// ## The clients
//
// Requests have to come from the same thread. So clients follow a script: whenever the server has nothing left to do but
// wait, they take a *turn*, after which something is ready. In a turn, clients with an answer read it and hang up;
// clients that connected in the turn before send a line; and new clients connect, as long as fewer than `live` are
// connected.
//
// This work is the same code for all variants, driven by the same number of turns. Where it is part of the time, it is
// also measured on its own, further down; where connections are kept, it is no part of the time.
//
// A client asks once, and the server hangs up after its answer; or it asks several times over one connection, and hangs
// up itself. No two clients send the same, so an answer to the wrong connection is noticed.

// %%
/// Bytes of a request, and of its answer.
pub const LINE: usize = 12;

/// What client number `number` says, and wants to hear.
pub fn line(number: usize) -> [u8; LINE] {
    let mut line = *b"hello 00000\n";
    let mut rest = number;
    for digit in line[6..11].iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
    line
}

// %% [markdown]
// A client remembers its request and how much of the answer has arrived.

// %%
/// A client that is connected.
struct Peer {
    stream: UnixStream,
    line: [u8; LINE],
    /// One byte longer than it should get, to notice an answer that is too long.
    answer: [u8; LINE + 1],
    /// Bytes of `answer` that have come.
    received: usize,
    /// Requests that it has not sent yet.
    unsent: u32,
}

impl Peer {
    fn send(&mut self, ledger: &Ledger) {
        ledger.enter(Call::Send);
        self.received = 0;
        self.unsent -= 1;
        let sent = self.stream.write(&self.line).expect("a new socket has room for a line");
        assert_eq!(sent, LINE, "a new socket has room for a line");
    }

    /// Whether the whole answer is here.
    ///
    /// # Panics
    /// If it is wrong, or the server has hung up without one.
    fn has_answer(&mut self, ledger: &Ledger) -> bool {
        ledger.enter(Call::Receive);
        let read = self.stream.read(&mut self.answer[self.received..]);
        if would_block(&read) {
            return false;
        }
        let length = read.expect("the server is there");
        self.received += length;
        let expected = self.line.escape_ascii();
        assert_ne!(length, 0, "the server hung up on {expected}");
        let answer = &self.answer[..self.received];
        if self.received < LINE {
            return false;
        }
        assert_eq!(answer, self.line, "{expected} was answered {}", answer.escape_ascii());
        true
    }
}

// %% [markdown]
// The script itself, then. It panics at the first wrong byte: here, a benchmark is its own test.

// %%
/// All clients of one world.
pub struct Clients {
    listener: Rc<Listener>,
    /// How many are connected at one time.
    live: usize,
    /// Requests of each.
    asks: u32,
    /// How many will still come.
    left: usize,
    /// The number of the next one.
    number: usize,
    connected: Vec<Peer>,
    asked: Vec<Peer>,
}

impl Clients {
    /// Clients of this listener, `live` at a time, who ask `asks` times each.
    ///
    /// # Panics
    /// If `live` is 0 or more than [`CONNECTIONS`], or if nobody asks.
    pub fn new(listener: Rc<Listener>, live: usize, asks: u32) -> Self {
        assert!((1..=CONNECTIONS).contains(&live), "between 1 and {CONNECTIONS} at a time");
        assert!(asks > 0, "each client asks");
        let room = || Vec::with_capacity(live);
        Self { listener, live, asks, left: 0, number: 0, connected: room(), asked: room() }
    }
}

// %% [markdown]
// In a turn, clients with an answer ask again or leave, those that have just connected ask, and others replace those
// that left.

// %%
impl Clients {
    /// Lets everybody do what can be done without the server.
    ///
    /// # Panics
    /// If an answer is wrong, or the operating system refuses a socket.
    pub fn turn(&mut self) {
        let ledger = &self.listener.ledger;
        self.asked.retain_mut(|peer| {
            if !peer.has_answer(ledger) {
                return true;
            }
            let stays = peer.unsent > 0;
            match stays {
                true => peer.send(ledger),
                false => ledger.enter(Call::HangUp), // retain_mut drops the peer, and with it the socket
            }
            stays
        });
        self.connected.iter_mut().for_each(|peer| peer.send(ledger));
        self.asked.append(&mut self.connected);
        let arrivals = self.left.min(self.live - self.asked.len());
        for _ in 0..arrivals {
            let stream = self.listener.connect().expect("two more files may be opened");
            let line = line(self.number);
            self.number += 1;
            self.connected.push(Peer { stream, line, answer: [0; LINE + 1], received: 0, unsent: self.asks });
        }
        if arrivals > 0 {
            self.listener.announce(arrivals).expect("the server listens");
        }
        self.left -= arrivals;
    }
}

// %% [markdown]
// All servers have the same interface: a function that serves a number of connections and calls the clients before each
// wait.

// %%
/// Serves so many connections, and calls the second argument before each wait.
pub type Serve<'s> = &'s mut dyn FnMut(usize, &mut dyn FnMut());

impl Clients {
    /// One run: `connections` clients come, ask and are answered.
    ///
    /// # Panics
    /// If one of them is not.
    pub fn visit(&mut self, connections: usize, serve: Serve<'_>) {
        self.left = connections;
        serve(connections, &mut || self.turn());
        self.turn(); // the last answers
        let waiting = self.left + self.connected.len() + self.asked.len();
        assert_eq!(waiting, 0, "the server ended while {waiting} clients waited");
    }
}

// %% [markdown]
// Such a run opens and closes a connection for each request. To see the server alone, the clock stands still while
// clients act. To see a request alone, clients keep their connections, and the clock runs only while the server answers:
// from the end of a turn with a request to the server's next wait. Either takes two readings of the clock for each wait,
// as many for every server.

// %%
impl Clients {
    /// As [`visit`](Self::visit); returns the time that the server took, or `only_answers`.
    ///
    /// # Panics
    /// As [`visit`](Self::visit).
    pub fn timed_visit(&mut self, connections: usize, only_answers: bool, serve: Serve<'_>) -> Duration {
        let listener = Rc::clone(&self.listener);
        let asked = || listener.ledger.calls[Call::Send as usize].get();
        let (mut time, mut since) = (Duration::ZERO, None);
        let so_far = |since: &Option<Instant>| since.as_ref().map_or(Duration::ZERO, Instant::elapsed);
        self.visit(connections, &mut |count, turn| {
            since = (!only_answers).then(Instant::now);
            serve(count, &mut || {
                time += so_far(&since);
                let before = asked();
                turn();
                since = (!only_answers || asked() > before).then(Instant::now);
            });
            time += so_far(&since);
        });
        time
    }
}

// %% [markdown]
// smol has a second thread, which may do the server's work while clients act. So its clock is the processor time of
// all threads, less that of the clients. A server that never sleeps uses as much processor time as time. And in a process
// of several threads the C library does more around each system call. So smol is proved and timed in processes of its
// own, and all others in one that has one thread.

// %%
impl Clients {
    /// As [`timed_visit`](Self::timed_visit), in processor time of all threads.
    ///
    /// # Panics
    /// As [`visit`](Self::visit).
    pub fn processor_timed_visit(
        &mut self,
        connections: usize,
        only_answers: bool,
        serve: Serve<'_>,
    ) -> Duration {
        let now = |clock| Duration::try_from(clock_gettime(clock)).expect("a time after the start");
        let servers = |clients| now(ClockId::ProcessCPUTime) - clients;
        let listener = Rc::clone(&self.listener);
        let asked = || listener.ledger.calls[Call::Send as usize].get();
        let (mut time, mut clients, mut since) = (Duration::ZERO, Duration::ZERO, None);
        self.visit(connections, &mut |count, turn| {
            since = (!only_answers).then(|| servers(clients));
            serve(count, &mut || {
                let (before, start) = (asked(), now(ClockId::ThreadCPUTime));
                turn();
                clients += now(ClockId::ThreadCPUTime) - start;
                let end = servers(clients);
                time += since.map_or(Duration::ZERO, |since| end - since);
                since = (!only_answers || asked() > before).then_some(end);
            });
            time += since.map_or(Duration::ZERO, |since| servers(clients) - since);
        });
        time
    }
}

// %% [markdown]
// ## The system
//
// Loop and frontier wait with the same epoll, which is the frontier's. A socket is registered once, *edge-triggered*:
// only changes are reported, so a socket that is not reported has not changed since the server looked. An answer that
// does not fit into the socket is the exception: from then on the socket is watched for writing as well. With lines as
// short as ours that never happens, and a connection costs two calls to the poller: one to register, one to unregister.
//
// Around it lies the ledger. A wait has a limit, and what is ready is ready before it begins, because clients act on
// the same thread; so the limit only turns a hang into an error message.

// %%
/// How long a server waits before it gives up.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// An epoll whose calls are entered in the ledger.
pub struct Ledgered<'d> {
    /// What it is registered with.
    epoll: Epoll<Socket<'d>>,
    listener: &'d Listener,
}

impl<'d> Ledgered<'d> {
    /// # Safety
    /// As for [`Object::register`].
    #[inline(never)]
    unsafe fn watch(&self, file: &impl AsFd, key: usize) -> io::Result<()> {
        self.listener.ledger.enter(Call::Register);
        // SAFETY: by the caller.
        unsafe { file.register(&self.epoll, key, ()) }
    }

    #[inline(never)]
    fn forget(&self, file: &impl AsFd) {
        self.listener.ledger.enter(Call::Unregister);
        file.unregister(&self.epoll);
    }
}

// %% [markdown]
// As a system it watches the servers' sockets and the listener. The kernel must see these three together, since each
// needs the others.

// %%
// SAFETY: its keys are those of its epoll.
unsafe impl<'d> System for Ledgered<'d> {
    type Event = epoll::Event;
    type Interest = ();
    type Stream = Socket<'d>;

    #[inline(never)]
    fn poll(&self, events: &mut Vec<epoll::Event>, may_wait: impl FnOnce() -> bool) {
        let at_most = if may_wait() { PATIENCE } else { Duration::ZERO };
        self.listener.ledger.enter(Call::Poll);
        self.epoll.wait(events, Some(at_most));
        let waited = at_most == PATIENCE && events.is_empty();
        assert!(!waited, "no client has done anything for {PATIENCE:?}; has one been forgotten?");
    }

    #[inline(always)]
    fn key(event: &epoll::Event) -> usize {
        Epoll::<Socket<'d>>::key(event)
    }

    #[inline(always)]
    fn is_end(event: &epoll::Event) -> bool {
        Epoll::<Socket<'d>>::is_end(event)
    }

    unsafe fn notifier(&self, key: usize) -> io::Result<Waker> {
        // SAFETY: by the caller.
        unsafe { self.epoll.notifier(key) }
    }
}

// SAFETY: as it says.
unsafe impl<'d> Object<Ledgered<'d>> for Socket<'d> {
    unsafe fn register(&self, system: &Ledgered<'d>, key: usize, (): ()) -> io::Result<()> {
        // SAFETY: by the caller.
        unsafe { system.watch(self, key) }
    }

    fn unregister(&self, system: &Ledgered<'d>) {
        system.forget(self);
    }
}

// SAFETY: as it says.
unsafe impl<'d> Object<Ledgered<'d>> for &'d Listener {
    unsafe fn register(&self, system: &Ledgered<'d>, key: usize, (): ()) -> io::Result<()> {
        // SAFETY: by the caller.
        unsafe { system.watch(self, key) }
    }

    fn unregister(&self, system: &Ledgered<'d>) {
        system.forget(self);
    }
}

// %% [markdown]
// Servers poll an epoll that belongs to the listener. Once a server waits to write, its interest changes, which is
// a call that the ledger counts.

// %%
impl Listener {
    /// An epoll for what arrives here.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn system(&self) -> io::Result<Ledgered<'_>> {
        Ok(Ledgered { epoll: Epoll::new()?, listener: self })
    }
}

impl Sockets for Ledgered<'_> {
    /// Our clients send bytes and nothing else.
    fn empties(_: &Self::Stream) -> bool {
        true
    }

    #[inline(never)]
    unsafe fn watch_writes(&self, stream: &Self::Stream, key: usize) -> io::Result<()> {
        self.listener.ledger.enter(Call::Reregister);
        // SAFETY: by the caller.
        unsafe { self.epoll.watch_writes(stream, key) }
    }
}

// %% [markdown]
// # By hand
//
// The state machine that everyone writes: am I receiving or sending, and how far am I? `step` goes as far as it can and
// says what it waits for. An error (a client that hangs up in the middle of its line, a socket that breaks during a
// write, a line longer than the buffer) ends *this* connection only.

// %%
/// How far a connection came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It has to wait until it can read.
    WaitToRead,
    /// It has to wait until it can write.
    WaitToWrite,
    /// It was answered, or it broke.
    Over,
}

/// A connection of the hand-written server.
struct Connection<'d> {
    socket: Socket<'d>,
    /// Whether the poller watches it for writing, too.
    watches_writes: bool,
    /// True once the whole request is here.
    answering: bool,
    buffer: [u8; SMALL_BUFFER],
    /// Bytes of `buffer` that were received.
    filled: usize,
    /// Bytes of `buffer` that were sent back.
    sent: usize,
}

impl<'d> Connection<'d> {
    fn new<P: Probe>(socket: Socket<'d>) -> Self {
        P::add(Counter::ZeroedBytes, SMALL_BUFFER);
        let buffer = [0; SMALL_BUFFER];
        Self { socket, watches_writes: false, answering: false, buffer, filled: 0, sent: 0 }
    }
}

// %% [markdown]
// A read that does not fill its buffer has emptied the socket, unless the client has finished, so no second read follows
// "to see if there is more". Whether a client may ask again (`KEEPS`) is known when the server is compiled, so a server
// of single requests does not pay for it.

// %%
impl Connection<'_> {
    /// Goes as far as possible without waiting; `finished` says that the client will send nothing more.
    #[inline(always)]
    fn step<W: Work, P: Probe, const KEEPS: bool>(&mut self, work: W, finished: bool) -> Step {
        let mut drained = false;
        loop {
            if !self.answering {
                while !holds_line::<Lean>(&self.buffer[..self.filled]) {
                    if drained {
                        return Step::WaitToRead;
                    }
                    match (&self.socket).read(&mut self.buffer[self.filled..]) {
                        Ok(length @ 1..) => self.filled += length,
                        error if would_block(&error) => return Step::WaitToRead,
                        _ => return Step::Over,
                    }
                    drained = !finished && self.filled < SMALL_BUFFER;
                }
                work.perform();
                self.answering = true;
            }
            while self.sent < self.filled {
                match (&self.socket).write(&self.buffer[self.sent..self.filled]) {
                    Ok(length @ 1..) => self.sent += length,
                    error if would_block(&error) => return Step::WaitToWrite,
                    _ => return Step::Over,
                }
            }
            P::add(Counter::Transactions, 1);
            if !KEEPS {
                return Step::Over;
            }
            (self.answering, self.filled, self.sent) = (false, 0, 0);
        }
    }
}

// %% [markdown]
// ## The loop
//
// Its list of work is the list of events, as in the best loop of the other notebook; connections live in a
// slab. Whatever needs memory is kept from run to run.

// %%
/// The listener's key; connection `slot` has the key `slot + 1`.
const LISTENER: usize = 0;

/// The hand-written server.
pub struct ManualServer<'d, W, P, const KEEPS: bool> {
    system: Ledgered<'d>,
    connections: Slab<Connection<'d>>,
    /// Connections that will still come in this run.
    left: usize,
    work: W,
    probe: PhantomData<P>,
}

impl<'d, W: Work, P: Probe, const KEEPS: bool> ManualServer<'d, W, P, KEEPS> {
    /// A server for the connections of `listener`.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn new(listener: &'d Listener, work: W) -> io::Result<Self> {
        let connections = Slab::with_capacity(CONNECTIONS);
        Ok(Self { system: listener.system()?, connections, left: 0, work, probe: PhantomData })
    }
}

// %% [markdown]
// An event concerns one connection, or the listener.

// %%
impl<W: Work, P: Probe, const KEEPS: bool> ManualServer<'_, W, P, KEEPS> {
    /// Lets the connection in `slot` go as far as it can, and closes it if that is the end.
    fn step(&mut self, slot: usize, finished: bool) {
        let connection = &mut self.connections[slot];
        match connection.step::<W, P, KEEPS>(self.work, finished) {
            Step::WaitToWrite if !connection.watches_writes => {
                connection.watches_writes = true;
                // SAFETY: any key is good, as it is looked up among the slots.
                let watched = unsafe { self.system.watch_writes(&connection.socket, slot + 1) };
                watched.expect("the kernel watches one file more");
            }
            Step::WaitToRead | Step::WaitToWrite => {}
            Step::Over => {
                self.system.forget(&connection.socket);
                self.connections.remove(slot); // closes the socket
            }
        }
    }

    /// Accepts all that wait; after the last connection the listener is not watched any more.
    fn accept(&mut self) {
        let listener = self.system.listener;
        while self.left > 0 {
            let accepted = listener.accept();
            if would_block(&accepted) {
                return;
            }
            let socket = accepted.expect("a listener that works");
            self.left -= 1;
            let slot = self.connections.insert(Connection::new::<P>(socket));
            P::peak(Counter::PeakConnections, self.connections.len());
            // SAFETY: as in `step`.
            let watched = unsafe { self.system.watch(&self.connections[slot].socket, slot + 1) };
            watched.expect("the kernel watches one file more");
            self.step(slot, false);
        }
        self.system.forget(listener);
    }
}

// %% [markdown]
// The loop itself is short. It ends when all clients have come and gone.

// %%
impl<W: Work, P: Probe, const KEEPS: bool> ManualServer<'_, W, P, KEEPS> {
    /// Serves so many connections; calls `before_wait` whenever there is nothing left to do but to wait.
    ///
    /// # Panics
    /// If nothing happens after that, or the operating system refuses what it must not.
    pub fn run(&mut self, connections: usize, events: &mut Vec<epoll::Event>, before_wait: &mut dyn FnMut()) {
        self.left = connections;
        // SAFETY: as in `step`.
        let watched = unsafe { self.system.watch(self.system.listener, LISTENER) };
        watched.expect("the kernel watches one file more");
        self.accept();
        while self.left > 0 || !self.connections.is_empty() {
            before_wait();
            self.system.poll(events, || true);
            for event in events.iter() {
                P::add(Counter::Events, 1);
                match Ledgered::key(event) {
                    LISTENER => self.accept(),
                    key => self.step(key - 1, Ledgered::is_end(event)),
                }
            }
        }
    }
}

// %% [markdown]
// # In async
//
// And this is what one writes. The state machine, its flag and its offsets have gone into two loops; the
// table of connections, into the executor.

// %%
/// A connection of the async servers.
pub trait Duplex {
    /// Reads into the start of `buffer`; 0 if nothing more will come, or the buffer is empty.
    fn read(&mut self, buffer: &mut [u8]) -> impl Future<Output = io::Result<usize>>;

    /// Writes from the start of `bytes`; the number of bytes that were taken.
    fn write(&mut self, bytes: &[u8]) -> impl Future<Output = io::Result<usize>>;
}

/// A connection on the frontier.
type Stream<'r, 'd, P> = Io<'r, Ledgered<'d>, P>;

impl<P: Probe> Duplex for Stream<'_, '_, P> {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> impl Future<Output = io::Result<usize>> {
        Io::read(self, buffer)
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) -> impl Future<Output = io::Result<usize>> {
        Io::write(self, bytes)
    }
}

// %% [markdown]
// The same server then runs on all of them: a task for each connection, and a root that accepts.

// %%
/// Reads a line and sends it back; one after the other if it `KEEPS` the connection. Whatever goes wrong ends this
/// connection only.
pub async fn connection<S: Duplex, W: Work, P: Probe, const KEEPS: bool>(mut stream: S, work: W) {
    P::add(Counter::ZeroedBytes, SMALL_BUFFER);
    let mut buffer = [0; SMALL_BUFFER];
    loop {
        let mut filled = 0;
        while !holds_line::<Lean>(&buffer[..filled]) {
            let Ok(length @ 1..) = stream.read(&mut buffer[filled..]).await else { return };
            filled += length;
        }
        work.perform();
        let mut sent = 0;
        while sent < filled {
            let Ok(length @ 1..) = stream.write(&buffer[sent..filled]).await else { return };
            sent += length;
        }
        P::add(Counter::Transactions, 1);
        if !KEEPS {
            return;
        }
    }
}

/// Accepts so many connections and hands each to `spawn`.
pub async fn accept_all<'r, 'd, P: Probe>(
    reactor: &'r Reactor<Ledgered<'d>, P>,
    listener: &'d Listener,
    connections: usize,
    spawn: impl Fn(Stream<'r, 'd, P>) -> Result<(), Full>,
) {
    let mut accepting = Io::owned(reactor, listener, ()).expect("room for the listener");
    for _ in 0..connections {
        let socket =
            accepting.attempt(|listener| tried(listener.accept())).await.expect("a listener that works");
        let stream = Io::in_entry(reactor, socket, ()).expect("the reactor has room for all connections");
        spawn(stream).expect("the executor has room for all connections");
    }
}

// %% [markdown]
// A *world* sets a server up and hands its `serve` function to `repeat`, which calls it as often as it
// likes, to time it, to count or to test. All set-up is outside the time.

// %%
/// Is given a server.
pub type Repeat<'d> = &'d mut dyn FnMut(Serve<'_>);

/// Sets up, at this listener, a server whose requests cause so many steps of work, and hands it over.
pub type World = fn(steps: u32, listener: &Rc<Listener>, repeat: Repeat<'_>);

/// Work of so many steps.
fn work<W: Work>(steps: u32) -> W {
    W::under(zero_cost_loop::Load { syscalls: false, steps })
}

/// The variant `manual`.
pub fn manual<W: Work, P: Probe, const KEEPS: bool>(steps: u32, listener: &Rc<Listener>, repeat: Repeat<'_>) {
    let listener: &Listener = listener;
    let mut server = ManualServer::<W, P, KEEPS>::new(listener, work(steps)).expect("a poller");
    let mut events = Vec::with_capacity(TASKS + 1);
    repeat(&mut |connections, before_wait| server.run(connections, &mut events, before_wait));
}

/// The variant `async`.
pub fn unboxed<W: Work, P: Probe, const KEEPS: bool>(
    steps: u32,
    listener: &Rc<Listener>,
    repeat: Repeat<'_>,
) {
    let listener: &Listener = listener;
    let reactor =
        Reactor::<_, P>::new(listener.system().expect("a poller"), TASKS).expect("room for all sockets");
    let executor = Executor::new(&reactor, CONNECTIONS);
    let work = work::<W>(steps);
    repeat(&mut |connections, before_wait| {
        let spawn = |stream| executor.spawn(|| connection::<_, _, P, KEEPS>(stream, work));
        executor.run_with(accept_all(&reactor, listener, connections, spawn), before_wait);
    });
}

/// A future of any type.
type Boxed<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// The variant `async+box`.
pub fn boxed<W: Work, P: Probe>(steps: u32, listener: &Rc<Listener>, repeat: Repeat<'_>) {
    let listener: &Listener = listener;
    let reactor =
        Reactor::<_, P>::new(listener.system().expect("a poller"), TASKS).expect("room for all sockets");
    let executor = Executor::<_, Boxed<'_>, _>::new(&reactor, CONNECTIONS);
    let work = work::<W>(steps);
    repeat(&mut |connections, before_wait| {
        let spawn = |stream| executor.spawn(|| Box::pin(connection::<_, _, P, false>(stream, work)));
        executor.run_with(accept_all(&reactor, listener, connections, spawn), before_wait);
    });
}

// %% [markdown]
// ## On runtimes
//
// The frontier is our own, for one kind of task, and writes its tasks into its reactor. Runtimes that anyone can use
// promise more: tasks of any type that may be woken, awaited and aborted from any thread, timers, a budget for each poll.
// So `connection` is also run by these, on one thread.
//
// - `tokio`: [`Builder::new_current_thread`](https://docs.rs/tokio/1.54.1/tokio/runtime/index.html#current-thread-scheduler),
//   `block_on` and [`tokio::spawn`](https://docs.rs/tokio/1.54.1/tokio/task/fn.spawn.html).
// - `tokio LocalSet`: the same runtime, and
//   [`spawn_local`](https://docs.rs/tokio/1.54.1/tokio/task/struct.LocalSet.html#use-with-run_until) within `run_until`.
// - `smol`: [`LocalExecutor`](https://docs.rs/smol/2.0.2/smol/struct.LocalExecutor.html), driven by
//   `smol::block_on(executor.run(…))`; the example there has the `block_on` of futures, which watches no sockets.
//
// Connections are streams of the runtime, read and written by its own extension methods. The runtime makes the system
// calls, so the ledger counts those that did something. How often it tries in vain, polls or changes a registration is
// its own affair, and part of its time (a test lists it with `strace`).

// %%
/// A stream of a runtime. Reads and writes are entered in the ledger when they are done.
pub struct Entered<S> {
    stream: S,
    listener: OneThread<Rc<Listener>>,
}

/// What stays on the thread that made it.
struct OneThread<T>(T);

// SAFETY: a runtime of one thread, which made it on this thread, polls and drops it there.
unsafe impl<T> Send for OneThread<T> {}

impl<S> Entered<S> {
    /// A stream that `stream`, which registers it, makes of the next connection.
    fn new(stream: io::Result<S>, listener: &Rc<Listener>) -> Self {
        listener.ledger.enter(Call::Register);
        Self {
            stream: stream.expect("the poller watches one file more"),
            listener: OneThread(Rc::clone(listener)),
        }
    }

    fn ledger(&mut self) -> &Ledger {
        &self.listener.0.ledger
    }

    fn has_read(&mut self, length: usize) -> usize {
        let ledger = self.ledger();
        ledger.enter(Call::Read);
        ledger.bytes_read.set(ledger.bytes_read.get() + length as u64);
        length
    }

    fn has_written(&mut self, length: usize) -> usize {
        let ledger = self.ledger();
        ledger.enter(Call::Write);
        ledger.bytes_written.set(ledger.bytes_written.get() + length as u64);
        length
    }
}

impl<S> Drop for Entered<S> {
    fn drop(&mut self) {
        let ledger = self.ledger();
        ledger.enter(Call::Unregister);
        ledger.enter(Call::Close);
    }
}

// %% [markdown]
// The streams of tokio and smol enter their reads and writes in the same ledger, and take no more bytes at once than ours.

// %%
/// A stream of tokio.
type TokioStream = Entered<tokio::net::UnixStream>;

impl Duplex for TokioStream {
    async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = tokio::io::AsyncReadExt::read(&mut self.stream, buffer).await?;
        Ok(self.has_read(length))
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let most = bytes.len().min(self.ledger().most);
        let length = tokio::io::AsyncWriteExt::write(&mut self.stream, &bytes[..most]).await?;
        Ok(self.has_written(length))
    }
}

/// A stream of smol.
type SmolStream = Entered<smol::Async<UnixStream>>;

impl Duplex for SmolStream {
    async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = smol::io::AsyncReadExt::read(&mut self.stream, buffer).await?;
        Ok(self.has_read(length))
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let most = bytes.len().min(self.ledger().most);
        let length = smol::io::AsyncWriteExt::write(&mut self.stream, &bytes[..most]).await?;
        Ok(self.has_written(length))
    }
}

// %% [markdown]
// tokio calls a function before its thread waits, where the clients take their turn. That function must live as long as
// the runtime, so it finds the clients of this run in a cell of the thread.

// %%
/// What this thread calls before it waits.
fn calls_of_thread<Out>(with: impl FnOnce(&Cell<Option<*mut dyn FnMut()>>) -> Out) -> Out {
    thread_local! {
        static BEFORE_WAIT: Cell<Option<*mut dyn FnMut()>> = const { Cell::new(None) };
    }
    BEFORE_WAIT.with(with)
}

/// Calls it.
fn before_wait_of_thread() {
    // Taken, so that nothing calls it within itself.
    if let Some(before_wait) = calls_of_thread(Cell::take) {
        // SAFETY: `calling` has put it there, still borrows it, and uses it nowhere else.
        unsafe { (*before_wait)() };
        calls_of_thread(|calls| calls.set(Some(before_wait)));
    }
}

/// Has what `run` starts on this thread call `before_wait` before each wait.
fn calling(before_wait: &mut dyn FnMut(), listener: &Listener, run: impl FnOnce()) {
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            calls_of_thread(|calls| calls.set(None));
        }
    }
    let mut entered = || {
        before_wait();
        listener.ledger.enter(Call::Poll);
    };
    let erased: *mut (dyn FnMut() + '_) = &mut entered;
    // SAFETY: only the lifetime differs, and `End` takes the pointer away before it ends.
    let erased = unsafe { std::mem::transmute::<*mut (dyn FnMut() + '_), *mut dyn FnMut()>(erased) };
    calls_of_thread(|calls| calls.set(Some(erased)));
    let _end = End;
    run();
}

// %% [markdown]
// tokio calls back before its thread waits, so the same clients take their turn there.

// %%
/// tokio's runtime of one thread.
fn tokio_runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_io().on_thread_park(before_wait_of_thread).build().expect("a runtime")
}

/// Accepts so many connections on tokio and hands each to `spawn`.
async fn accept_all_on_tokio(
    listener: &Rc<Listener>,
    connections: usize,
    mut spawn: impl FnMut(TokioStream),
) {
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;
    listener.ledger.enter(Call::Register);
    // SAFETY: what is registered is borrowed, so it stays open.
    let receiver = unsafe { AsyncFd::register_with_interest(listener.as_fd(), Interest::READABLE) };
    let receiver = receiver.expect("the poller watches one file more");
    for _ in 0..connections {
        let accepted = receiver.async_io(Interest::READABLE, |_| listener.accept_stream()).await;
        let stream = tokio::net::UnixStream::from_std(accepted.expect("a listener that works"));
        spawn(Entered::new(stream, listener));
    }
    listener.ledger.enter(Call::Unregister);
}

/// The variant `tokio`.
pub fn on_tokio<P: Probe, const KEEPS: bool>(_: u32, listener: &Rc<Listener>, repeat: Repeat<'_>) {
    let runtime = tokio_runtime();
    let mut tasks = Vec::with_capacity(CONNECTIONS);
    repeat(&mut |connections, before_wait| {
        let root = async {
            accept_all_on_tokio(listener, connections, |stream| {
                P::add(Counter::Spawns, 1);
                tasks.push(tokio::spawn(connection::<_, NoWork, P, KEEPS>(stream, NoWork)));
            })
            .await;
            for task in tasks.drain(..) {
                task.await.expect("a connection does not panic");
            }
        };
        calling(before_wait, listener, || runtime.block_on(root));
    });
}

/// The variant `tokio LocalSet`.
pub fn on_local_set<P: Probe, const KEEPS: bool>(_: u32, listener: &Rc<Listener>, repeat: Repeat<'_>) {
    let runtime = tokio_runtime();
    let mut local = tokio::task::LocalSet::new();
    repeat(&mut |connections, before_wait| {
        let root = accept_all_on_tokio(listener, connections, |stream| {
            P::add(Counter::Spawns, 1);
            tokio::task::spawn_local(connection::<_, NoWork, P, KEEPS>(stream, NoWork));
        });
        calling(before_wait, listener, || {
            runtime.block_on(local.run_until(root));
            runtime.block_on(&mut local);
        });
    });
}

// %% [markdown]
// smol calls nothing before it waits. So clients take their turn when the executor has nothing to do: its future was
// polled, waits, and was not woken meanwhile.

// %%
/// Passes wakes on, and notes them.
struct Noted {
    woken: AtomicBool,
    waker: Waker,
}

impl Wake for Noted {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        self.waker.wake_by_ref();
    }
}

/// `root`; calls `before_wait` whenever it has nothing to do but to wait.
async fn calling_when_idle(root: impl Future<Output = ()>, before_wait: &mut dyn FnMut()) {
    let mut root = pin!(root);
    let waker = std::future::poll_fn(|context| Poll::Ready(context.waker().clone())).await;
    let noted = Arc::new(Noted { woken: AtomicBool::new(false), waker });
    let waker = Waker::from(Arc::clone(&noted));
    std::future::poll_fn(|_| {
        noted.woken.store(false, Ordering::SeqCst);
        let outcome = root.as_mut().poll(&mut Context::from_waker(&waker));
        if outcome.is_pending() && !noted.woken.load(Ordering::SeqCst) {
            before_wait();
        }
        outcome
    })
    .await;
}

// %% [markdown]
// smol has no such call. Its root calls instead, whenever nothing woke it while it was polled. Clients that act for long
// within a poll make smol's second thread watch the sockets, and the first waits for it. Clients of
// [servers](../servers/measure.ipynb) are another process.

// %%
/// The variant `smol`.
pub fn on_smol<P: Probe, const KEEPS: bool>(_: u32, listener: &Rc<Listener>, repeat: Repeat<'_>) {
    let executor = smol::LocalExecutor::new();
    let mut tasks = Vec::with_capacity(CONNECTIONS);
    repeat(&mut |connections, before_wait| {
        let root = async {
            listener.ledger.enter(Call::Register);
            let receiver =
                smol::Async::new_nonblocking(listener.as_fd()).expect("the poller watches one file more");
            for _ in 0..connections {
                let accepted = receiver.read_with(|_| listener.accept_stream()).await;
                let stream = smol::Async::new_nonblocking(accepted.expect("a listener that works"));
                P::add(Counter::Spawns, 1);
                tasks.push(
                    executor.spawn(connection::<_, NoWork, P, KEEPS>(Entered::new(stream, listener), NoWork)),
                );
            }
            listener.ledger.enter(Call::Unregister);
            drop(receiver);
            for task in tasks.drain(..) {
                task.await;
            }
        };
        let mut before_wait = || {
            before_wait();
            listener.ledger.enter(Call::Poll);
        };
        smol::block_on(calling_when_idle(executor.run(root), &mut before_wait));
    });
}

// %% [markdown]
// ## The null subject
//
// How much of the time is not the server's? The variant `client` runs the same clients against a stand-in that knows in
// advance what happens when. It has no poller, never tries in vain, never waits; it does only what must happen at the
// other end for the clients to go on: take the connection, one read, one write, close. Its time is the floor below all
// servers. Subtract it from both sides, and the rest is what a server spends on *finding out* when to do these things:
// the poller, the registrations, the reads that come too early, and the loop or the executor around them.

// %%
/// The variant `client`.
pub fn stand_in<W: Work, P: Probe>(steps: u32, listener: &Rc<Listener>, repeat: Repeat<'_>) {
    let listener: &Listener = listener;
    let work = work::<W>(steps);
    let mut open = Vec::with_capacity(CONNECTIONS);
    repeat(&mut |connections, before_wait| {
        let mut left = connections;
        while left > 0 {
            before_wait(); // they connect
            let announcements =
                listener.ledger.attempt(Call::Accept, || (&listener.receiver).read(&mut [0; CONNECTIONS]));
            open.extend(listener.waiting.borrow_mut().drain(..announcements.expect("an announcement")));
            P::peak(Counter::PeakConnections, open.len());
            left -= open.len();
            before_wait(); // they ask
            for stream in open.drain(..) {
                let mut buffer = [0; SMALL_BUFFER];
                P::add(Counter::ZeroedBytes, SMALL_BUFFER);
                let length = read_call(&listener.ledger, &stream, &mut buffer).expect("a request");
                work.perform();
                write_call(&listener.ledger, &stream, &buffer[..length]).expect("room for the answer");
                P::add(Counter::Transactions, 1);
                listener.ledger.enter(Call::Close);
            }
        }
    });
}

// %% [markdown]
// Where connections are kept, the floor contains all of the kernel's time. `calls alone` makes every system call of a
// server, in the same order, and decides nothing: it knows which sockets are ready and what is in them. Any extra time
// is the server's own.

// %%
/// The variant `calls alone`, for clients who all come at once.
pub fn calls_alone<W: Work, P: Probe>(steps: u32, listener: &Rc<Listener>, repeat: Repeat<'_>) {
    let listener: &Listener = listener;
    let work = work::<W>(steps);
    let system = listener.system().expect("a poller");
    let (mut open, mut events) = (Vec::with_capacity(CONNECTIONS), Vec::with_capacity(TASKS + 1));
    let mut buffer = [0; SMALL_BUFFER];
    repeat(&mut |connections, before_wait| {
        // SAFETY: nobody looks at keys.
        unsafe { system.watch(listener, LISTENER) }.expect("the kernel watches one file more");
        assert!(listener.accept().is_err(), "they come at their first turn");
        before_wait();
        system.poll(&mut events, || true);
        for slot in 0..connections {
            let socket = listener.accept().expect("an announcement");
            P::add(Counter::ZeroedBytes, SMALL_BUFFER);
            // SAFETY: nobody looks at keys.
            unsafe { system.watch(&socket, slot + 1) }.expect("the kernel watches one file more");
            assert!((&socket).read(&mut buffer).is_err(), "they ask at their second turn");
            open.push(socket);
        }
        P::peak(Counter::PeakConnections, open.len());
        system.forget(listener);
        while !open.is_empty() {
            before_wait();
            system.poll(&mut events, || true);
            open.retain(|mut socket: &Socket<'_>| {
                let length = socket.read(&mut buffer).expect("a request, or the end");
                if length == 0 {
                    system.forget(socket);
                    return false;
                }
                work.perform();
                let sent = socket.write(&buffer[..length]).expect("room for the answer");
                P::add(Counter::Transactions, 1);
                sent == length
            });
        }
    });
}

// %% [markdown]
// # All variants in one table
//
// With `live=3`, three clients connect, ask, are answered and make room for the next three; a wait yields three events
// at best. With `live=256`, all clients are there at once: two waits serve them all, and 256 sockets and tasks no
// longer fit into the first-level cache. That load is the harder test of the claim.
//
// With `asks=64` or `asks=8`, clients keep their connections and ask that many times, and only answers are timed. With
// `timed=server`, all is timed that the server does, and nothing that clients do. Runtimes are run under these loads.
//
// And since a real application also *does* something, `manual` and `async` are run with work as well: a number of steps
// of a dependent xorshift chain per request, about a nanosecond each.

// %%
/// What a world is put under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Clients that are connected at one time.
    pub live: usize,
    /// Requests of each client.
    pub asks: u32,
    /// Steps of work per request.
    pub steps: u32,
    /// Whether the clients' turns are part of the time.
    pub times_clients: bool,
}

/// Nothing but I/O, with few clients and with many.
pub const BARE: [Load; 2] = [load(3, 1, 0), load(CONNECTIONS, 1, 0)];

/// The same, without the clients' time.
pub const ALONE: [Load; 2] = [alone(BARE[0]), alone(BARE[1])];

/// The same, on connections that are kept.
pub const KEPT: [Load; 2] = [load(3, 64, 0), load(CONNECTIONS, 8, 0)];

/// A microsecond of work per request, or ten.
pub const WORKING: [Load; 2] = [load(CONNECTIONS, 1, 1000), load(CONNECTIONS, 1, 10_000)];

const fn load(live: usize, asks: u32, steps: u32) -> Load {
    Load { live, asks, steps, times_clients: asks == 1 }
}

const fn alone(load: Load) -> Load {
    Load { times_clients: false, ..load }
}

impl Load {
    /// Whether connections are kept after the first answer.
    pub fn keeps(self) -> bool {
        self.asks > 1
    }

    /// Connections of one run.
    pub fn connections(self) -> usize {
        if self.keeps() { self.live } else { CONNECTIONS }
    }
}

// %% [markdown]
// A variant has a name and two functions that differ in their probe only: one is timed, the other counts.

// %%
/// Labels for [`Timed`], which give each variant its own machine code.
pub mod label {
    pub enum Manual {}
    pub enum Async {}
    pub enum AsyncBox {}
    pub enum Client {}
    pub enum ManualWork {}
    pub enum AsyncWork {}
    pub enum ManualKept {}
    pub enum AsyncKept {}
    pub enum CallsAlone {}
    pub enum Tokio {}
    pub enum TokioKept {}
    pub enum LocalSet {}
    pub enum LocalSetKept {}
    pub enum Smol {}
    pub enum SmolKept {}
}

/// One way to serve.
#[derive(Clone, Copy)]
pub struct Variant {
    /// The word for it in the data.
    pub name: &'static str,
    /// What it is measured under.
    pub loads: &'static [Load],
    /// Its timed code.
    pub timed: World,
    /// The same code, counting.
    pub counted: World,
}

impl Variant {
    /// Its name under this load.
    pub fn key(&self, load: Load) -> Key {
        let (kind, more) = match load {
            Load { asks: 1, times_clients: false, .. } => ("+alone", " timed=server".to_owned()),
            Load { asks: 1, steps: 0, .. } => ("", String::new()),
            Load { asks: 1, steps, .. } => ("+work", format!(" work={steps}")),
            Load { asks, .. } => ("+kept", format!(" asks={asks}")),
        };
        Key::new(format!("{}{kind}", self.name), self.name, format!("live={}{more}", load.live))
    }

    /// Whether a runtime serves, which makes system calls that the ledger does not see.
    pub fn is_on_runtime(&self) -> bool {
        ["tokio", "tokio LocalSet", "smol"].contains(&self.name)
    }

    /// Whether its runtime has a thread of its own.
    fn starts_thread(&self) -> bool {
        self.name == "smol"
    }
}

// %% [markdown]
// These are all of them.

// %%
/// The baseline, the two async servers and their null subject; the first two with work; on kept connections, with
/// theirs; and the runtimes.
pub fn variants() -> [Variant; 17] {
    use label::*;
    let new = |name, loads: &'static [Load], timed, counted| Variant { name, loads, timed, counted };
    [
        new("manual", &BARE, manual::<NoWork, Timed<Manual>, false>, manual::<NoWork, Counted, false>),
        new("async", &BARE, unboxed::<NoWork, Timed<Async>, false>, unboxed::<NoWork, Counted, false>),
        new("async+box", &BARE, boxed::<NoWork, Timed<AsyncBox>>, boxed::<NoWork, Counted>),
        new("client", &BARE, stand_in::<NoWork, Timed<Client>>, stand_in::<NoWork, Counted>),
        new("manual", &WORKING, manual::<Steps, Timed<ManualWork>, false>, manual::<Steps, Counted, false>),
        new("async", &WORKING, unboxed::<Steps, Timed<AsyncWork>, false>, unboxed::<Steps, Counted, false>),
        new("manual", &KEPT, manual::<NoWork, Timed<ManualKept>, true>, manual::<NoWork, Counted, true>),
        new("async", &KEPT, unboxed::<NoWork, Timed<AsyncKept>, true>, unboxed::<NoWork, Counted, true>),
        new("calls alone", &KEPT, calls_alone::<NoWork, Timed<CallsAlone>>, calls_alone::<NoWork, Counted>),
        new("manual", &ALONE, manual::<NoWork, Timed<Manual>, false>, manual::<NoWork, Counted, false>),
        new("async", &ALONE, unboxed::<NoWork, Timed<Async>, false>, unboxed::<NoWork, Counted, false>),
        new("tokio", &ALONE, on_tokio::<Timed<Tokio>, false>, on_tokio::<Counted, false>),
        new("tokio", &KEPT, on_tokio::<Timed<TokioKept>, true>, on_tokio::<Counted, true>),
        new("tokio LocalSet", &ALONE, on_local_set::<Timed<LocalSet>, false>, on_local_set::<Counted, false>),
        new(
            "tokio LocalSet",
            &KEPT,
            on_local_set::<Timed<LocalSetKept>, true>,
            on_local_set::<Counted, true>,
        ),
        new("smol", &ALONE[1..], on_smol::<Timed<Smol>, false>, on_smol::<Counted, false>),
        new("smol", &KEPT[1..], on_smol::<Timed<SmolKept>, true>, on_smol::<Counted, true>),
    ]
}

// %% [markdown]
// # Proof of equal work
//
// What must one run of *C* clients count, which ask *A* times each? They come in batches of `live`, so there are *B* =
// *C* / `live` batches, rounded up. Where *A* > 1 the client hangs up, and the server has to notice: *E* = *C* ends,
// else none.
//
// - **Waits.** A batch needs one until it has connected, one for each time that it asks, and one for its ends.
// - **Accepts.** *C* succeed. One comes too early, before the first client; and after each batch but the
//   last the server tries once more, in vain. So *B* fail.
// - **Reads.** A connection is tried as soon as it is accepted, which is too early, then whenever a line
//   is there, and at its end: *C* + *C A* + *E*, of which *C* fail. **Writes** never fail: *C A*.
// - **Events.** One for each line and each end, and one for each batch that arrives: *C A* + *E* + *B*.
// - **The poller** hears of *C* connections and one listener, twice each, and nothing is ever watched for
//   writing.
// - **Tasks** are polled once when they start and once for each event they wait for: *C* + *C A* + *E*, and 1 + *B*
//   for the one that accepts.
// - **Wakers** are never cloned: the reactor notes tasks.
//
// This holds for manual and async, as far as both have the counter, and for all system calls of `calls alone`. Nothing
// depends on chance: the script decides what is ready when.
//
// Of a runtime the ledger knows what was done, and the waits. tokio accepts only when it has heard of a client, so *B* - 1
// fail. When smol's other thread reports a client before all have taken their turn, there are more waits, and more
// looks for an answer that is not there; so these two are not compared.

// %%
/// The counters of the probe that mean something here.
pub const COUNTERS: [(Counter, &str); 12] = [
    (Counter::Events, "events"),
    (Counter::Spawns, "spawns"),
    (Counter::Polls, "polls"),
    (Counter::OperationPolls, "operation_polls"),
    (Counter::NotReadyPolls, "not_ready_polls"),
    (Counter::WakerClones, "waker_clones"),
    (Counter::Wakes, "wakes"),
    (Counter::Transactions, "transactions"),
    (Counter::ZeroedBytes, "zeroed_bytes"),
    (Counter::FutureBytes, "future_bytes"),
    (Counter::PeakConnections, "peak_connections"),
    (Counter::PeakTasks, "peak_tasks"),
];

/// Makes two runs in a world that counts, and returns the counts of the second.
///
/// # Panics
/// If an answer is wrong, or sockets cannot be had.
pub fn count(world: World, load: Load) -> Counts {
    let listener = Listener::open(usize::MAX).expect("sockets for the listener");
    let mut clients = Clients::new(Rc::clone(&listener), load.live, load.asks);
    let mut counts = Counts::new();
    world(load.steps, &listener, &mut |serve| {
        clients.visit(load.connections(), serve);
        harness::tally::take(Counter::NAMES);
        let before = listener.ledger.counts();
        clients.visit(load.connections(), serve);
        counts =
            listener.ledger.counts().into_iter().map(|(name, after)| (name, after - before[name])).collect();
    });
    counts.extend(COUNTERS.map(|(counter, name)| (name, Counted::value(counter))));
    counts
}

/// Counters that a runtime keeps to itself.
const UNSEEN: [&str; 11] = [
    "syscalls",
    "would_block",
    "events",
    "polls",
    "operation_polls",
    "not_ready_polls",
    "waker_clones",
    "wakes",
    "future_bytes",
    "peak_connections",
    "peak_tasks",
];
/// Those that depend on which of smol's threads is first.
const BY_CHANCE: [&str; 4] = ["poll", "accept", "client_receive", "client_syscalls"];

impl Variant {
    /// Whether it can tell this count, each time the same.
    fn counts(&self, name: &str) -> bool {
        !(self.is_on_runtime() && UNSEEN.contains(&name) || self.starts_thread() && BY_CHANCE.contains(&name))
    }
}

// %% [markdown]
// The same in code. The compiler decides how large futures are.

// %%
/// What one run of a variant must count, by the reasoning above.
pub fn expected(variant: &Variant, load: Load) -> Counts {
    let (connections, asks) = (load.connections() as u64, u64::from(load.asks));
    let (requests, batches) = (connections * asks, connections.div_ceil(load.live as u64));
    let ends = if load.keeps() { connections } else { 0 };
    let when = |condition, count| if condition { count } else { 0 };
    let runtime = variant.is_on_runtime();
    let serves = |count| when(variant.name != "client", count);
    let finds_out = |count| when(!["client", "calls alone"].contains(&variant.name), count);
    let schedules = |count| when(runtime || variant.name.starts_with("async"), count);
    let in_vain = |count| when(!runtime, serves(count));
    let tokio = u64::from(variant.name.starts_with("tokio"));
    let clients_calls = [
        ("client_open", connections),
        ("client_announce", batches),
        ("client_send", requests),
        ("client_receive", requests),
        ("client_hang_up", connections),
    ];
    let servers_calls = [
        ("register", serves(connections + 1)),
        ("reregister", 0),
        ("unregister", serves(connections + 1)),
        ("poll", serves((1 + asks) * batches + ends / load.live as u64)),
        ("accept", batches - tokio + serves(connections)),
        ("read", requests + ends + in_vain(connections)),
        ("write", requests),
        ("close", connections),
    ];
    let client_syscalls = 2 * connections + clients_calls.iter().map(|(_, count)| count).sum::<u64>();
    let server_syscalls = servers_calls.iter().map(|(_, count)| count).sum::<u64>();
    let mut counts = Counts::from([
        ("would_block", serves(connections + batches)),
        ("read_bytes", requests * LINE as u64),
        ("written_bytes", requests * LINE as u64),
        ("client_syscalls", client_syscalls),
        ("syscalls", client_syscalls + server_syscalls),
        ("events", finds_out(requests + ends + batches)),
        ("spawns", schedules(connections)),
        ("polls", schedules(connections + requests + ends + 1 + batches)),
        ("operation_polls", schedules(connections + batches + connections + 2 * requests + ends)),
        ("not_ready_polls", 0),
        ("waker_clones", 0),
        ("wakes", 0),
        ("transactions", requests),
        ("zeroed_bytes", connections * SMALL_BUFFER as u64),
        ("peak_connections", load.live as u64),
        ("peak_tasks", schedules(load.live as u64 + 1)),
    ]);
    counts.extend(clients_calls.into_iter().chain(servers_calls));
    counts.retain(|name, _| variant.counts(name));
    counts
}

// %% [markdown]
// Nothing is measured that has not passed this: the study below proves each of its variants when it is
// built. The timed code keeps the ledger too, and must make the same calls.

// %%
/// How long a process of its own may take.
const LIMIT: Duration = Duration::from_secs(60);

/// The counts of a variant under this load.
///
/// # Errors
/// If the variant does not do the work that it should, or its timed code not the same calls as its counting code: the
/// counts that are wrong.
pub fn prove(variant: &Variant, load: Load) -> Result<BTreeMap<String, u64>, UnequalWork> {
    let (key, expected) = (variant.key(load), expected(variant, load));
    let mut of_ledger = expected.clone();
    of_ledger.retain(|name, _| COUNTERS.iter().all(|(_, counter)| counter != name));
    let seen = |world| {
        let mut counts = count(world, load);
        counts.retain(|name, _| variant.counts(name));
        counts
    };
    if variant.starts_thread() {
        harness::prove_isolated(&key, LIMIT, &of_ledger, || [seen(variant.timed)])?;
        return harness::prove_isolated(&key, LIMIT, &expected, || [seen(variant.counted)]);
    }
    harness::prove(&key, &of_ledger, &seen(variant.timed))?;
    let counts = seen(variant.counted);
    harness::prove(&key, &expected, &counts)?;
    Ok(counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect())
}

// %% [markdown]
// Here is what they count without extra work, once it is proved. A dash: the runtime does not expose this count.

// %% tags=["active-ipynb"]
// for variant in variants() {
//     for &load in variant.loads.iter().filter(|load| load.steps == 0) {
//         let counts = prove(&variant, load).unwrap_or_else(harness::stop);
//         let row = ["syscalls", "client_syscalls", "poll", "read", "would_block", "polls"];
//         let count = |name: &str| counts.get(name).map_or("-".into(), u64::to_string);
//         let row = row.map(|name| format!("{name} {:>4}", count(name))).join("  ");
//         println!("{:>11} {:>15}  {row}", variant.name, variant.key(load).parameter);
//     }
// }

// %% [markdown]
// The first column is the scale of everything that follows. It is the same for the loop and for async, so what async
// adds is on the near side of the kernel.
//
// # The study
//
// Every variant is compared with the loop written by hand under its load, and the boxed server with the other one. The
// change is described here, and the analysis repeats it. Each load without work has a control.

// %%
/// Runs of a sample that is taken in a process of its own, after two that warm it up.
const VISITS: u64 = 4;

/// A sample of a server that starts a thread, taken in a process of its own.
fn sample_apart(variant: Variant, load: Load) -> Sample {
    let time = harness::isolated(LIMIT, || {
        let listener = Listener::open(usize::MAX).expect("sockets for the listener");
        let mut clients = Clients::new(Rc::clone(&listener), load.live, load.asks);
        let mut time = Duration::ZERO;
        (variant.timed)(load.steps, &listener, &mut |serve| {
            let mut visit = || clients.processor_timed_visit(load.connections(), load.keeps(), serve);
            visit();
            visit();
            time = (0..VISITS).map(|_| visit()).sum();
        });
        time
    });
    Sample::new(VISITS, time.unwrap_or_else(|end| panic!("{end}")))
}

// %% [markdown]
// The study:

// %%
/// All variants under all their loads, proven to do equal work.
///
/// # Errors
/// If one of them does not.
pub fn study() -> Result<Study, UnequalWork> {
    let mut study = Study::new("zero-cost-sockets").baseline("manual").unit("request");
    let all = variants();
    for variant in all {
        for &load in variant.loads {
            let key = variant.key(load);
            if variant.starts_thread() {
                study = study.uncounted();
            }
            study = study.bench(key.clone(), move |bencher: &mut Bencher| {
                if variant.starts_thread() {
                    return bencher.samples(&mut || sample_apart(variant, load));
                }
                let listener = Listener::open(usize::MAX).expect("sockets for the listener");
                let mut clients = Clients::new(Rc::clone(&listener), load.live, load.asks);
                (variant.timed)(load.steps, &listener, &mut |serve| {
                    if load.times_clients {
                        return bencher.iter(&mut || clients.visit(load.connections(), serve));
                    }
                    let mut visit = || clients.timed_visit(load.connections(), load.keeps(), serve);
                    bencher.iter_custom(&mut |times| (0..times).map(|_| visit()).sum());
                });
            });
            for (counter, value) in prove(&variant, load)? {
                // What is timed is one run, of as many requests as the load has.
                let is_unit = load.keeps() && counter == "transactions";
                let counter = if is_unit { "units".to_owned() } else { counter };
                study = study.count(key.clone(), counter, value);
            }
        }
    }
    let [manual, unboxed, boxed, ..] = all;
    for load in BARE {
        let change = "each connection's future in a box of `dyn Future`";
        study = study.also_compare(boxed.key(load), unboxed.key(load), change);
    }
    Ok(BARE.into_iter().chain(KEPT).map(|load| manual.key(load)).fold(study, Study::control_of))
}

// %% [markdown]
// In the crate: a test builds the study, and so proves all of it. Ten thousand connections in
// sequence, requests in pieces, clients that hang up, and files that must all be closed in the end, are
// tested in files of their own.

// %%
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_variants_do_equal_work_and_are_compared_without_another_thread() {
        study().unwrap().comparisons().unwrap();
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.join("comm")).ok());
        let left: Vec<String> = names.filter(|name| name.starts_with("async-io")).collect();
        assert!(left.is_empty(), "smol's thread would be measured with");
    }
}

// %% [markdown]
// # A glance
//
// All variants under one load in turns, a second each: the time of a request, and how many times that of the loop.
// Nothing is kept, and nothing is concluded. Choose others, or one of your own, and run the cell again. With `live=3`,
// connections are opened and closed, too.

// %% tags=["active-ipynb", "glance"]
// study().unwrap_or_else(harness::stop).glance(|key| {
//     key.parameter == "live=3 asks=64"
// }).unwrap_or_else(harness::stop)

// %% [markdown]
// # Measurement
//
// What is timed is a whole visit of 256 clients: opening their sockets, sending, serving, reading and checking the
// answers, closing. Only the poller, the tables and the executor are made beforehand. With `timed=server` the clients'
// part is left out, and with clients that keep their connections, only the server's answers are timed.
//
// `quick` takes a minute or two and shows that everything works; it is not evidence. For evidence, set the environment
// variable `ASYNC_COST_PROFILE` to `standard` or `thorough` before you start the kernel.

// %% tags=["active-ipynb"]
// {
//     let profile = harness::Profile::from_env().unwrap_or_else(harness::stop);
//     let outcome = study().unwrap_or_else(harness::stop).measure(&profile).unwrap_or_else(harness::stop);
//     println!("{outcome}");
// };

// %% [markdown]
// The [analysis](analysis.ipynb) has the results: ratios to the loop written by hand, in the same round and under the
// same load. Check `manual (A/A)` first. Its true ratio is 1, so a difference that is not clearly larger than its own
// has not been seen: that is what "disappears" means. Then look at `client`, and where connections are kept at `calls
// alone`: the rest up to 1 is the part that a server can influence at all. To judge servers alone, take the floor off
// both sides: (async − client) / (manual − client).
//
// # What this does not say
//
// - The clients live on the server's thread and in its caches. On the far side of a network they would take
//   none of its time, which makes the server's share larger; a TCP stack and a network card's interrupts
//   would make it smaller again.
// - `client` is a floor, not an exact share: the stand-in touches memory in another order, and its read,
//   write and close count as floor although a server has to do them.
// - `calls alone` holds what the kernel does, and also the way there: entering it, counting the call, checking its
//   outcome.
// - Of connections that stay open only answers are timed. What it takes to accept a connection, to spawn its task and
//   to end both is in the loads whose clients come and go.
// - The loop finds a connection in a slab, by an index that is checked; the frontier by its address. A difference of
//   some nanoseconds may be that as well as `async`.
// - Where `calls alone` and the loop are not told apart, no server can be seen. Then the interval is an upper bound,
//   and no proof that there is no difference.
// - 256 clients at once need some 520 open files, which the usual limit of 1024 allows. This study cannot say what
//   happens with ten thousand at once.
// - The clock of smol is another one than that of the others, and its second thread may serve while clients act.
// - A runtime is asked for one thread here, and all that it does for several is not seen. How it waits for sockets over
//   TCP, with clients in another process, is measured by [the servers](../servers/measure.ipynb).
// - An answer that fits into the socket is never waited for. Large answers would add waits, and equally
//   many to both sides.
//
// # What next
//
// - Change something: give the connection two lines to echo, watch levels instead of edges, let the clients
//   send byte by byte. The proof tells you which counts have changed, and in which server.
// - `cargo bench -p zero-cost-sockets --bench counts` counts instructions and allocations. Instructions are
//   those in user space only: the kernel's are in none of these counts.
