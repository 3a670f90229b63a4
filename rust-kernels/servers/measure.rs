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
// # What does a server cost for each request?
//
// One echo server, written in seven ways: a loop by hand on bare epoll, the frontier, which is an executor of our own,
// a loop on the crate `polling`, tokio with one thread and with several, smol, and a thread for each connection. All of
// them serve the same clients over TCP: 10, 1,000 or 10,000 connections that stay open, of which ten or all send
// requests.
//
// For each server and each load this notebook measures
//
// - the processor time that the server takes for a request, and how much of it is spent in the kernel;
// - the time that passes for a request;
// - its latency, as median and 99th percentile;
// - the memory that a connection takes.
//
// After reading it you can decide whether your server needs to be written in another way than the most convenient one.

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
// :dep hdrhistogram = { version = "=7.6.0", default-features = false }
// :dep libc = "=0.2.189"
// :dep polling = "=3.11.0"
// :dep rustix = { version = "=1.1.6", features = ["event", "net", "process"] }
// :dep slab = "=0.4.12"
// :dep smol = "=2.0.2"
// :dep tokio = { version = "=1.54.1", features = ["io-util", "net", "rt-multi-thread"] }
// :dep zero-cost-loop = { path = "../../rust-kernels/zero-cost/loop" }

// %% [markdown]
// ## A first result
//
// First, the finished crate at work: three of its servers with ten connections, each of which sends its next request
// when it has its answer. The time is processor time of the server, for a request. It is a glance: no control, and a
// second each, in which a trial is a server and its clients in processes of their own.

// %% tags=["active-ipynb", "glance"]
// :dep servers = { path = "../../rust-kernels/servers" }
// servers::VARIANTS
//     .iter()
//     .filter(|variant| ["loop", "tokio current_thread", "thread per connection"].contains(&variant.name))
//     .fold(harness::Glance::at("request").trials_by(harness::in_processes(servers::LIMIT)), |glance, variant| {
//         glance.look(variant.name, move |bencher| variant.trial(servers::LOADS[0], 2_000, bencher))
//     })
//     .show()

// %% [markdown]
// The tables of all servers are slabs, readiness comes from `epoll`, and the executor without a runtime is the
// frontier of the ladder.

// %%
use std::convert::Infallible;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use frontier::{EVENTS, Epoll, Executor, Io, Reactor};
use harness::{Bencher, Counts, Key, Sample, Study, UnequalWork, limit};
use hdrhistogram::Histogram;
use polling::{Events, Poller};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{Shutdown, SocketFlags, accept_with, shutdown, sockopt::set_socket_linger};
use rustix::process::{Resource, getrlimit, setrlimit};
use slab::Slab;
use zero_cost_loop::{Steps, Timed, Work, WouldBlock};

// %% [markdown]
// # What all servers share
//
// ## A request
//
// A request has 64 bytes, and so has its answer, which repeats it. The bytes say which connection sends it and how many
// requests that connection has sent before, so an answer to another request, or to another client, is detected.

// %%
/// Bytes of a request, and of its answer.
pub const LENGTH: usize = 64;

/// What a connection sends as its request of this number.
pub fn request(connection: u64, number: u64) -> [u8; LENGTH] {
    let mut bytes = [b'.'; LENGTH];
    bytes[..8].copy_from_slice(&connection.to_le_bytes());
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    bytes
}

// %% [markdown]
// ## A connection
//
// A request may come in pieces, and several may come at once. All servers have to remember the same: the bytes that
// came, and how many of them were written as answers. The buffer has room for two requests, so that a read of one does
// not fill it: a server that reads less than there is room for knows that nothing is left to read.
//
// The work of a request is a chain of steps of a xorshift generator, done once for each request.

// %%
/// The bytes of a connection between coming in and going out.
pub struct Echo {
    buffer: [u8; 2 * LENGTH],
    /// Bytes that came in.
    filled: usize,
    /// Bytes of them that were written as answers.
    written: usize,
    work: Steps,
    served: Served,
}

/// What one connection has done.
pub struct Served {
    /// Requests answered.
    pub requests: u64,
    /// Bytes read.
    pub bytes: u64,
    tally: Arc<Tally>,
}

/// What was done for the connections that have ended.
#[derive(Default)]
pub struct Tally {
    ended: AtomicU64,
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl Served {
    /// Nothing yet.
    pub fn new(tally: &Arc<Tally>) -> Self {
        Self { requests: 0, bytes: 0, tally: Arc::clone(tally) }
    }
}

/// Each connection counts for itself, so that threads do not meet at a counter with every request.
impl Drop for Served {
    fn drop(&mut self) {
        self.tally.requests.fetch_add(self.requests, Ordering::Relaxed);
        self.tally.bytes.fetch_add(self.bytes, Ordering::Relaxed);
        // A thread that sees the end of a connection sees its counts.
        self.tally.ended.fetch_add(1, Ordering::Release);
    }
}

// %% [markdown]
// A server is generic over what its connections say. The server's end is used in turns: room for bytes to read, then
// bytes to write.

// %%
/// What is said over a connection, as the server's end keeps it.
pub trait Protocol: Send + 'static {
    /// A new connection. Its requests do this work.
    fn new(work: Steps, tally: &Arc<Tally>) -> Self;

    /// Where the next bytes belong. Not empty, once all answers are written.
    fn spare_capacity(&mut self) -> &mut [u8];

    /// So many bytes came in. Does the work of the requests that are whole now.
    fn take(&mut self, length: usize);

    /// Answers that are not yet written.
    fn answers(&self) -> &[u8];

    /// So many bytes of them were written.
    fn mark_written(&mut self, length: usize);

    /// All of them were written.
    fn mark_all_written(&mut self) {
        self.mark_written(self.answers().len());
    }
}

// %% [markdown]
// An echo answers with the bytes that came. Where all of them were written, the buffer is empty again.

// %%
impl Protocol for Echo {
    fn new(work: Steps, tally: &Arc<Tally>) -> Self {
        Self { buffer: [0; _], filled: 0, written: 0, work, served: Served::new(tally) }
    }

    fn spare_capacity(&mut self) -> &mut [u8] {
        &mut self.buffer[self.filled..]
    }

    fn take(&mut self, length: usize) {
        let before = self.filled / LENGTH;
        self.filled += length;
        self.served.bytes += length as u64;
        (before..self.filled / LENGTH).for_each(|_| self.work.perform());
    }

    fn answers(&self) -> &[u8] {
        &self.buffer[self.written..self.filled / LENGTH * LENGTH]
    }

    fn mark_written(&mut self, length: usize) {
        self.written += length;
        if self.answers().is_empty() {
            self.served.requests += (self.written / LENGTH) as u64;
            self.buffer.copy_within(self.written..self.filled, 0);
            self.filled -= self.written;
            self.written = 0;
        }
    }
}

// %% [markdown]
// Half a request comes in, then the rest of it with half of the next: only then is there something to answer, one request.

// %% tags=["active-ipynb", "glance"]
// {
//     let mut echo = Echo::new(Steps(0), &Arc::default());
//     for (length, what) in [(LENGTH / 2, "half a request"), (LENGTH, "as much again as a request")] {
//         echo.take(length);
//         println!("{what}: {} bytes to answer", echo.answers().len());
//         echo.mark_all_written();
//     }
// };

// %% [markdown]
// ## What a server is
//
// A function that accepts connections from a listener and serves them until it cannot accept any more: to end it, the
// listener is shut down. To add a server or an executor of your own, write one more such function, and one more line in
// the table further down.

// %%
/// Why a server has ended.
pub type Ended = io::Result<Infallible>;

/// Serves connections of a listener, each request with so much work, until accepting fails.
pub type Serve = fn(TcpListener, Steps, &Arc<Tally>) -> Ended;

// %% [markdown]
// # The servers
//
// ## The best loop that we know
//
// A connection is registered once, for reading and writing, and edge-triggered: epoll reports it when bytes arrive.
// Level-triggered, it would be reported as long as bytes are there, and the kernel would look at every reported
// connection again at the next wait. With edges one has to read until nothing is left. A read that does not fill its
// buffer says that nothing is, so a request takes one read and one write. When the client has hung up, which may be
// reported together with its last bytes, the loop reads to the end.

// %%
/// A connection of a server that waits for events.
pub struct Connection<P> {
    pub stream: TcpStream,
    pub echo: P,
}

impl<P: Protocol> Connection<P> {
    /// Writes and reads as far as it goes at once; reads only if it is `readable`, and to the end if this is the `last`
    /// time. Says whether the connection is still open.
    ///
    /// # Errors
    /// That of the connection, which has ended.
    pub fn serve(&mut self, mut readable: bool, last: bool) -> io::Result<bool> {
        loop {
            while !self.echo.answers().is_empty() {
                match self.stream.write(self.echo.answers()) {
                    Ok(length) => self.echo.mark_written(length),
                    Err(error) => return still_open(error),
                }
            }
            if !readable {
                return Ok(true);
            }
            let buffer = self.echo.spare_capacity();
            let most = buffer.len();
            match self.stream.read(buffer) {
                Ok(0) => return Ok(false),
                Ok(length) => {
                    self.echo.take(length);
                    readable = last || length == most;
                }
                Err(error) => return still_open(error),
            }
        }
    }
}

/// Whether a connection is still open after an operation that failed so: if it only has to wait.
fn still_open(error: io::Error) -> io::Result<bool> {
    if error.kind() == ErrorKind::WouldBlock { Ok(true) } else { Err(error) }
}

// %% [markdown]
// Both loops accept in the same way: one system call accepts a connection and makes it non-blocking. A client may be
// gone again before that.

// %%
/// The next connection of a non-blocking listener, if there is one.
///
/// # Errors
/// Why it cannot accept.
pub fn accept(listener: &TcpListener) -> io::Result<Option<TcpStream>> {
    loop {
        match accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok(stream) => {
                let stream = TcpStream::from(stream);
                stream.set_nodelay(true)?;
                return Ok(Some(stream));
            }
            Err(Errno::CONNABORTED) => {}
            Err(Errno::AGAIN) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}

// %% [markdown]
// An event carries the slot of its connection. The slots are there from the start, so the loop allocates nothing
// afterwards. To close a connection is to unregister it.

// %%
/// Connections for which a loop has slots before it needs more memory.
const SLOTS: usize = 16_384;
/// The listener's number among the slots.
const LISTENER: usize = usize::MAX - 1;

/// A loop by hand, on epoll.
pub fn by_hand<P: Protocol>(listener: TcpListener, work: Steps, tally: &Arc<Tally>) -> Ended {
    listener.set_nonblocking(true)?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, EventData::new_u64(LISTENER as u64), EventFlags::IN)?;
    let everything = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
    let ends = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
    let (mut slots, mut events) = (Slab::with_capacity(SLOTS), Vec::with_capacity(EVENTS));
    loop {
        retry_on_intr(|| epoll::wait(&epoll, spare_capacity(&mut events), None))?;
        for event in events.drain(..) {
            let (slot, flags) = (event.data.u64() as usize, event.flags);
            if slot == LISTENER {
                let Some(stream) = accept(&listener)? else { continue };
                let entry = slots.vacant_entry();
                epoll::add(&epoll, &stream, EventData::new_u64(entry.key() as u64), everything)?;
                entry.insert(Connection { stream, echo: P::new(work, tally) });
            } else {
                let last = flags.intersects(ends);
                let readable = last || flags.contains(EventFlags::IN);
                if !matches!(slots[slot].serve(readable, last), Ok(true)) {
                    slots.remove(slot);
                }
            }
        }
    }
}

// %% [markdown]
// ## A loop on `polling`
//
// The poller below smol, used as in its documentation: it reports a connection once, and then has to be told to watch
// it again. So a request takes one more system call, and a wait takes five where that of the first loop is one.

// %%
/// A loop on `polling`.
pub fn on_polling<P: Protocol>(listener: TcpListener, work: Steps, tally: &Arc<Tally>) -> Ended {
    listener.set_nonblocking(true)?;
    let (mut slots, mut events) = (Slab::<Connection<P>>::new(), Events::new());
    // Declared after the connections, so dropped before them.
    let poller = Poller::new()?;
    // SAFETY: the listener is dropped after the poller.
    unsafe { poller.add(&listener, polling::Event::readable(LISTENER))? };
    loop {
        events.clear();
        poller.wait(&mut events, None)?;
        for event in events.iter() {
            if event.key == LISTENER {
                poller.modify(&listener, polling::Event::readable(LISTENER))?;
                let Some(stream) = accept(&listener)? else { continue };
                let slot = slots.insert(Connection { stream, echo: P::new(work, tally) });
                // SAFETY: a connection is deleted from the poller before it leaves its slot, or dropped after the
                // poller.
                unsafe { poller.add(&slots[slot].stream, polling::Event::readable(slot))? };
                continue;
            }
            let connection = &mut slots[event.key];
            if matches!(connection.serve(event.readable, false), Ok(true)) {
                let blocked = !connection.echo.answers().is_empty();
                let interest = polling::Event::new(event.key, !blocked, blocked);
                poller.modify(&connection.stream, interest)?;
            } else {
                poller.delete(&connection.stream)?;
                slots.remove(event.key);
            }
        }
    }
}

// %% [markdown]
// ## The frontier
//
// [The frontier](../ladder/frontier.ipynb), an executor of our own, on the same epoll as the first loop, edge-triggered
// like it. A task for each connection, in a table of tasks of one type.

// %%
/// A reactor of sockets.
type Sockets = Reactor<Epoll<TcpStream>, Timed<()>>;

/// Serves a connection on the frontier.
async fn echo_on_frontier<P: Protocol>(mut stream: Io<'_, Epoll<TcpStream>, Timed<()>>, mut echo: P) {
    while let Ok(length @ 1..) = stream.read(echo.spare_capacity()).await {
        echo.take(length);
        while !echo.answers().is_empty() {
            let Ok(length) = stream.write(echo.answers()).await else { return };
            echo.mark_written(length);
        }
    }
}

/// Serves on the frontier.
pub fn on_frontier<P: Protocol>(listener: TcpListener, work: Steps, tally: &Arc<Tally>) -> Ended {
    listener.set_nonblocking(true)?;
    let reactor = Sockets::new(Epoll::new()?, SLOTS)?;
    let executor = Executor::new(&reactor, SLOTS);
    let mut listener = Io::owned(&reactor, listener, ())?;
    executor.run(async {
        loop {
            let stream = listener.attempt(|listener| accept(listener).transpose().ok_or(WouldBlock)).await?;
            let stream = Io::in_entry(&reactor, stream, ())?;
            let serve = || echo_on_frontier(stream, P::new(work, tally));
            executor.spawn(serve)?;
        }
    })
}

// %% [markdown]
// ## tokio
//
// A task for each connection, which reads and writes in a loop. It is the same program with one thread and with
// several.

// %%
/// Serves a connection on tokio.
///
/// # Errors
/// That of the connection, which has ended.
pub async fn echo_on_tokio<P: Protocol>(mut stream: tokio::net::TcpStream, mut echo: P) -> io::Result<()> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    loop {
        match stream.read(echo.spare_capacity()).await? {
            0 => return Ok(()),
            length => echo.take(length),
        }
        stream.write_all(echo.answers()).await?;
        echo.mark_all_written();
    }
}

/// Serves on a runtime of tokio.
pub fn on_tokio<P: Protocol>(
    mut runtime: tokio::runtime::Builder,
    listener: TcpListener,
    work: Steps,
    tally: &Arc<Tally>,
) -> Ended {
    listener.set_nonblocking(true)?;
    runtime.enable_io().build()?.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(echo_on_tokio(stream, P::new(work, tally)));
        }
    })
}

/// tokio with one thread.
pub fn on_tokio_alone<P: Protocol>(listener: TcpListener, work: Steps, tally: &Arc<Tally>) -> Ended {
    on_tokio::<P>(tokio::runtime::Builder::new_current_thread(), listener, work, tally)
}

/// tokio with as many threads as there are processors.
pub fn on_tokio_threads<P: Protocol>(listener: TcpListener, work: Steps, tally: &Arc<Tally>) -> Ended {
    on_tokio::<P>(tokio::runtime::Builder::new_multi_thread(), listener, work, tally)
}

// %% [markdown]
// ## smol
//
// The same on smol, with its executor for one thread. A socket tries each operation at once. Where it would block, it
// tells the poller to watch it, and tries again when it is ready.

// %%
/// Serves a connection on smol.
async fn echo_on_smol<P: Protocol>(mut stream: smol::Async<TcpStream>, mut echo: P) -> io::Result<()> {
    use smol::io::{AsyncReadExt, AsyncWriteExt};
    loop {
        match stream.read(echo.spare_capacity()).await? {
            0 => return Ok(()),
            length => echo.take(length),
        }
        stream.write_all(echo.answers()).await?;
        echo.mark_all_written();
    }
}

/// smol with one thread.
pub fn on_smol<P: Protocol>(listener: TcpListener, work: Steps, tally: &Arc<Tally>) -> Ended {
    let listener = smol::Async::new(listener)?;
    let executor = smol::LocalExecutor::new();
    smol::block_on(executor.run(async {
        loop {
            let (stream, _) = listener.accept().await?;
            stream.get_ref().set_nodelay(true)?;
            executor.spawn(echo_on_smol(stream, P::new(work, tally))).detach();
        }
    }))
}

// %% [markdown]
// **What a connection is.** The loop keeps a struct, an executor a future. Each holds the same `Echo`; the difference is the
// socket, and what has to be known across a wait.

// %% tags=["active-ipynb", "glance"]
// {
//     fn bytes<S, F>(_: impl FnOnce(S, Echo) -> F) -> usize {
//         size_of::<F>()
//     }
//     println!("{} bytes of Echo, {} with the loop's socket", size_of::<Echo>(), size_of::<Connection<Echo>>());
//     println!(
//         "futures: frontier {}, tokio {}, smol {}",
//         bytes(echo_on_frontier), bytes(echo_on_tokio), bytes(echo_on_smol)
//     );
// };

// %% [markdown]
// ## A thread for each connection
//
// No poller and no readiness: a thread reads, and the operating system lets it wait. Stacks are small, as they would be
// for ten thousand threads.

// %%
/// Bytes of the stack of a connection's thread.
const STACK: usize = 64 * 1024;

/// A thread for each connection.
pub fn on_threads<P: Protocol>(listener: TcpListener, work: Steps, tally: &Arc<Tally>) -> Ended {
    let serve = |mut stream: TcpStream, mut echo: P| -> io::Result<()> {
        loop {
            match stream.read(echo.spare_capacity())? {
                0 => return Ok(()),
                length => echo.take(length),
            }
            stream.write_all(echo.answers())?;
            echo.mark_all_written();
        }
    };
    let mut number = 0_u64;
    loop {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let echo = P::new(work, tally);
        let thread = thread::Builder::new().stack_size(STACK).spawn(move || serve(stream, echo));
        number += 1;
        thread.map_err(|error| {
            let remedy = "raise `ulimit -u`, kernel.threads-max or vm.max_map_count";
            io::Error::other(format!("thread number {number} could not be started ({error}): {remedy}"))
        })?;
    }
}

// %% [markdown]
// # The clients
//
// One process plays all clients, and it is the same for every server. It has its own limit of open files, and its
// processor time and memory are not mixed with those of the server. The two processes tell each other what is next
// through a pair of sockets, as numbers.

// %%
/// Sends some numbers to the other process.
///
/// # Errors
/// If it has gone.
pub fn send_numbers<const N: usize>(mut pipe: &UnixStream, numbers: [u64; N]) -> io::Result<()> {
    numbers.iter().try_for_each(|number| pipe.write_all(&number.to_le_bytes()))
}

/// Waits for some numbers from the other process.
///
/// # Errors
/// If it has gone.
pub fn receive_numbers<const N: usize>(mut pipe: &UnixStream) -> io::Result<[u64; N]> {
    let mut numbers = [0; N];
    for number in &mut numbers {
        let mut bytes = [0; 8];
        pipe.read_exact(&mut bytes)?;
        *number = u64::from_le_bytes(bytes);
    }
    Ok(numbers)
}

// %% [markdown]
// A connection has at most one request under way. Its answer is compared byte by byte with what it should be.
//
// The side that closes a TCP connection first keeps its addresses for a minute (`TIME_WAIT`), and later trials would
// look for free ports among those of earlier ones. So clients reset their connections, which is what closing does when
// the time to linger is zero.

// %%
/// A client's end of a connection.
struct Peer {
    stream: TcpStream,
    connection: u64,
    /// Requests answered.
    answered: u64,
    sent: Instant,
    /// One byte longer than an answer, to detect one that is too long.
    answer: [u8; LENGTH + 1],
    received: usize,
}

/// Opens a connection of this number.
///
/// # Errors
/// If there is no port for it, and what else may fail.
pub fn connect(address: SocketAddr, connection: u64) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).map_err(|error| match error.kind() {
        ErrorKind::AddrNotAvailable => {
            let remedy = "widen net.ipv4.ip_local_port_range";
            io::Error::other(format!("no port for connection {connection} ({error}): {remedy}"))
        }
        _ => error,
    })?;
    stream.set_nodelay(true)?;
    set_socket_linger(&stream, Some(Duration::ZERO))?;
    Ok(stream)
}

impl Peer {
    fn connect(address: SocketAddr, connection: u64) -> io::Result<Self> {
        let (answer, sent) = ([0; _], Instant::now());
        let stream = connect(address, connection)?;
        Ok(Self { stream, connection, answered: 0, sent, answer, received: 0 })
    }
}

// %% [markdown]
// A client sends, and reads until it has the answer that belongs to its request.

// %%
impl Peer {
    /// Sends the next request, which begins now.
    fn send(&mut self, now: Instant) -> io::Result<()> {
        self.sent = now;
        self.stream.write_all(&request(self.connection, self.answered))
    }

    /// Reads once. Says whether the answer is complete.
    fn receive(&mut self) -> io::Result<bool> {
        self.received += match self.stream.read(&mut self.answer[self.received..])? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            length => length,
        };
        if self.received < LENGTH {
            return Ok(false);
        }
        if self.answer[..self.received] != request(self.connection, self.answered) {
            let (connection, number) = (self.connection, self.answered);
            let wrong = format!("request {number} of connection {connection} was given another answer");
            return Err(io::Error::other(wrong));
        }
        (self.received, self.answered) = (0, self.answered + 1);
        Ok(true)
    }
}

// %% [markdown]
// ## Opening connections
//
// Connections are opened 64 at a time, which fits the queue of every listener, and each is served once before the next
// 64 come. So when all of them are open, every server has made whatever it makes for a connection.

// %%
/// What a server is put under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Connections that are open.
    pub connections: u64,
    /// How many of them send requests, as fast as they are answered.
    pub active: u64,
    /// Steps of own work for each request.
    pub steps: u32,
}

/// Connections that are opened at a time.
const CONNECT_BATCH: u64 = 64;

/// Opens all connections, and lets each be served once.
fn open(address: SocketAddr, load: Load) -> io::Result<Vec<Peer>> {
    let mut peers = Vec::with_capacity(load.connections as usize);
    while (peers.len() as u64) < load.connections {
        let first = peers.len() as u64;
        for connection in first..load.connections.min(first + CONNECT_BATCH) {
            let mut peer = Peer::connect(address, connection)?;
            peer.send(Instant::now())?;
            peers.push(peer);
        }
        for peer in &mut peers[first as usize..] {
            while !peer.receive()? {}
        }
    }
    Ok(peers)
}

// %% [markdown]
// ## Requests
//
// The load is closed: an active connection sends its next request when it has the answer to the last one. So there are
// as many requests under way as active connections, and a slow server gets fewer requests a second. The active
// connections are spread evenly over all.
//
// A latency lasts from before the request is sent until the answer is read. An answer that waits while the clients are
// busy with others has a longer one.

// %%
/// How long a session may last.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Sends so many requests over the active connections, one at a time over each. Returns nanoseconds: the time of all of
/// them, and the median, the 99th percentile and the largest of their latencies.
fn send_requests(peers: &mut [Peer], epoll: &OwnedFd, load: Load, requests: u64) -> io::Result<[u64; 4]> {
    let most = LIMIT.as_nanos() as u64;
    let mut latencies =
        Histogram::<u64>::new_with_bounds(1, most, 3).expect("bounds and digits that it takes");
    let mut events = Vec::with_capacity(EVENTS);
    let start = Instant::now();
    let every = (load.connections / load.active) as usize;
    let first = load.active.min(requests);
    for peer in peers.iter_mut().step_by(every).take(first as usize) {
        peer.send(Instant::now())?;
    }
    let (mut unsent, mut unanswered) = (requests - first, requests);
    while unanswered > 0 {
        retry_on_intr(|| epoll::wait(epoll, spare_capacity(&mut events), None))?;
        for event in events.drain(..) {
            let peer = &mut peers[event.data.u64() as usize];
            if peer.receive()? {
                let now = Instant::now();
                latencies.saturating_record((now - peer.sent).as_nanos() as u64);
                unanswered -= 1;
                if unsent > 0 {
                    unsent -= 1;
                    peer.send(now)?;
                }
            }
        }
    }
    let wall = start.elapsed().as_nanos() as u64;
    let quantile = |share| latencies.value_at_quantile(share);
    Ok([wall, quantile(0.5), quantile(0.99), latencies.max()])
}

// %% [markdown]
// The process of the clients reports that it is ready, opens the connections when told to, and then sends as many
// requests as it is told to, until that number is zero. Then it resets its connections, not all of them at once: the
// kernel's queue for packets to the machine itself holds a thousand by default, and what does not fit is lost. Requests
// and answers are sent again, but a reset is not, and the server would keep that connection.

// %%
/// What they say when they are there, and when all connections are open.
pub const READY: u64 = 1;

/// Connections that are reset at a time, and how long the queue has to empty.
const RESET_BATCH: usize = 250;
const PAUSE: Duration = Duration::from_millis(1);

/// Plays all clients of a server, as told through `pipe`.
fn clients(address: SocketAddr, load: Load, pipe: &UnixStream) -> io::Result<()> {
    send_numbers(pipe, [READY])?;
    receive_numbers::<1>(pipe)?;
    let mut peers = open(address, load)?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    for (number, peer) in peers.iter().enumerate() {
        epoll::add(&epoll, &peer.stream, EventData::new_u64(number as u64), EventFlags::IN | EventFlags::ET)?;
    }
    send_numbers(pipe, [READY])?;
    loop {
        match receive_numbers(pipe)? {
            [0] => break,
            [requests] => send_numbers(pipe, send_requests(&mut peers, &epoll, load, requests)?)?,
        }
    }
    hang_up(peers);
    Ok(())
}

/// Resets connections.
pub fn hang_up<T>(mut peers: Vec<T>) {
    while !peers.is_empty() {
        peers.truncate(peers.len().saturating_sub(RESET_BATCH));
        thread::sleep(PAUSE);
    }
}

// %% [markdown]
// # A server and its clients
//
// ## What the server uses
//
// The processor time is that of all threads of the server's process. On loopback, the side that writes does the kernel's
// work up to the socket of the other side, and pays for it. So the server pays for the path of its answers, and the
// clients for that of their requests.
//
// The total is exact to the microsecond. How much of it is the kernel's is an estimate: at each timer tick Linux looks
// whether the processor is in the kernel. One trial gives it to within some hundredths; many trials give more.

// %%
/// Processor time of this process so far, and the kernel's part of it.
fn processor_time() -> (Duration, Duration) {
    // SAFETY: all of its fields are numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` outlives the call, which cannot fail: this process is always known.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, 1_000 * time.tv_usec as u32);
    let kernel = time(usage.ru_stime);
    (kernel + time(usage.ru_utime), kernel)
}

/// Bytes of this process's memory that are no part of a file: heap and stacks, as far as they were ever touched. Not
/// every system tells (gVisor does not); then memory alone is not measured.
fn anonymous_memory() -> Option<u64> {
    parse_anonymous(&std::fs::read_to_string("/proc/self/smaps_rollup").ok()?)
}

/// The line `Anonymous: <number> kB` of such a file, in bytes.
fn parse_anonymous(rollup: &str) -> Option<u64> {
    let line = rollup.lines().find_map(|line| line.strip_prefix("Anonymous:")?.trim().strip_suffix("kB"));
    Some(1024 * line?.trim().parse::<u64>().ok()?)
}

// %% [markdown]
// With ten thousand connections, each side needs ten thousand open files and some more. The soft limit is often 1,024;
// a process may raise it to the hard limit.

// %%
/// Files that a process has open besides its connections, with some to spare.
const OTHER_FILES: u64 = 100;

/// Sees to it that this process, and those that it forks, may open so many connections.
fn raise_file_limit(connections: u64) -> Result<(), String> {
    let needed = connections + OTHER_FILES;
    let mut limits = getrlimit(Resource::Nofile);
    if limits.current.is_some_and(|soft| soft < needed) {
        limits.current = Some(needed);
        setrlimit(Resource::Nofile, limits).map_err(|error| {
            format!(
                "{connections} connections need {needed} open files ({error}): raise `ulimit -n` to {needed}"
            )
        })?;
    }
    Ok(())
}

// %% [markdown]
// ## Opening
//
// The process of the clients is forked before the server has any thread. The harness forks it, kills it when it takes
// too long, and reports its panic; a thread of this process waits for that.

// %%
/// A server in this process, with its clients in another one.
pub struct Session {
    pipe: UnixStream,
    clients: JoinHandle<Result<(), String>>,
    server: JoinHandle<Ended>,
    /// The server's, to shut it down.
    listener: TcpListener,
    tally: Arc<Tally>,
    connections: u64,
    /// Bytes of a request.
    length: u64,
    /// Requests that were answered, one for each connection at the beginning.
    requests: u64,
    /// Bytes by which the server's memory has grown while its connections were opened and served once, where the system
    /// tells.
    pub grown: Option<u64>,
}

/// Forks the clients of a server.
fn fork_clients(
    play: impl FnOnce(&UnixStream) -> io::Result<()> + Send + 'static,
    pipe: UnixStream,
) -> JoinHandle<Result<(), String>> {
    thread::spawn(move || {
        let play = || play(&pipe).map_err(|error| error.to_string());
        harness::isolated(LIMIT, play).flatten()
    })
}

/// Starts the server. When it ends, its clients find a listener that is shut down, not one that does not answer.
fn start(serve: Serve, listener: TcpListener, work: Steps, tally: Arc<Tally>) -> JoinHandle<Ended> {
    thread::spawn(move || {
        let closing = listener.try_clone()?;
        let ended = serve(listener, work, &tally);
        // A connection that was shut down before needs no other error than that of the server.
        let _ = shutdown(&closing, Shutdown::Both);
        ended
    })
}

// %% [markdown]
// To open a session, the clients are started in a process of their own, then the server; then the clients connect,
// and how much memory grows meanwhile is kept.

// %%
impl Session {
    /// Starts a server and opens the connections of this load.
    ///
    /// # Errors
    /// What failed.
    pub fn open(serve: Serve, load: Load) -> Result<Self, String> {
        let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let bound = bound.and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (address, listener) = bound.map_err(|error| error.to_string())?;
        let play = move |pipe: &UnixStream| clients(address, load, pipe);
        Self::open_with((listener, serve, load.steps), (load.connections, LENGTH), play)
    }

    /// The same with a listener and clients of one's own, so many, whose requests have this length. The clients say that they
    /// are there, wait for a word, connect, are served once each, and say so.
    ///
    /// # Errors
    /// What failed.
    pub fn open_with(
        (listener, serve, steps): (TcpListener, Serve, u32),
        (connections, length): (u64, usize),
        play: impl FnOnce(&UnixStream) -> io::Result<()> + Send + 'static,
    ) -> Result<Self, String> {
        raise_file_limit(connections)?;
        let begin = || {
            let (pipe, theirs) = UnixStream::pair()?;
            let clients = fork_clients(play, theirs);
            // If they are not there, `connect` finds that out.
            let _ = receive_numbers::<1>(&pipe);
            let tally = Arc::default();
            let server = start(serve, listener.try_clone()?, Steps(steps), Arc::clone(&tally));
            let (length, requests) = (length as u64, connections);
            Ok(Self { pipe, clients, server, listener, tally, connections, length, requests, grown: None })
        };
        let mut session = begin().map_err(|error: io::Error| error.to_string())?;
        match session.connect() {
            Ok(()) => Ok(session),
            Err(error) => Err(session.end().unwrap_or_else(|| error.to_string())),
        }
    }

    fn connect(&mut self) -> io::Result<()> {
        let before = anonymous_memory();
        send_numbers(&self.pipe, [READY])?;
        receive_numbers::<1>(&self.pipe)?;
        self.grown = before.zip(anonymous_memory()).map(|(before, after)| after.saturating_sub(before));
        Ok(())
    }
}

// %% [markdown]
// Once all connections are open, a sample is any number of requests.

// %%
impl Session {
    /// Lets the clients send so many requests, and tells them more about it. Returns what they say of it, and the server's
    /// processor time meanwhile, with the kernel's part.
    ///
    /// # Errors
    /// If the clients have gone.
    pub fn ask<const TOLD: usize, const SAID: usize>(
        &mut self,
        requests: u64,
        told: [u64; TOLD],
    ) -> io::Result<([u64; SAID], Duration, Duration)> {
        let before = processor_time();
        send_numbers(&self.pipe, [requests])?;
        send_numbers(&self.pipe, told)?;
        let said = receive_numbers(&self.pipe)?;
        let after = processor_time();
        self.requests += requests;
        Ok((said, after.0 - before.0, after.1.saturating_sub(before.1)))
    }

    /// One sample: so many requests. Its time is the processor time of the server.
    ///
    /// # Errors
    /// If the clients have gone.
    pub fn send_requests(&mut self, requests: u64) -> io::Result<Sample> {
        let ([wall, p50, p99, max], used, kernel) = self.ask(requests, [])?;
        let sample = Sample::new(requests, used)
            .with("kernel_ns", kernel.as_nanos() as u64)
            .with("wall_ns", wall)
            .with("p50_ns", p50)
            .with("p99_ns", p99)
            .with("max_ns", max);
        Ok(self.grown.into_iter().fold(sample, |sample, grown| sample.with("memory_bytes", grown)))
    }
}

// %% [markdown]
// ## Closing
//
// When the clients have gone, the server must have seen all connections end, answered exactly as many requests as were
// sent, and read not a byte more. So every trial proves that the code that it timed did its work.

// %%
impl Session {
    /// Ends both sides. Says what went wrong on one of them, if anything did: on that of the server, if both say
    /// something.
    pub fn end(self) -> Option<String> {
        // Clients that wait for a word find that there is none; those that have gone are gone.
        let _ = self.pipe.shutdown(std::net::Shutdown::Both);
        let clients = self.clients.join().unwrap_or_else(|_| Err("panicked".to_owned()));
        let _ = shutdown(&self.listener, Shutdown::Both);
        let server = match self.server.join() {
            // That of accepting from a listener that is shut down.
            Ok(Err(error)) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("panicked".to_owned()),
        };
        let clients = clients.err().map(|error| format!("the clients: {error}"));
        server.map(|error| format!("the server: {error}")).or(clients)
    }

    /// Closes the connections and proves that the server has done its work.
    ///
    /// # Errors
    /// What it has counted otherwise, or what went wrong.
    pub fn close(self, key: &Key) -> Result<(), UnequalWork> {
        let sent = send_numbers(&self.pipe, [0]);
        let deadline = Instant::now() + LIMIT / 4;
        let ended = || self.tally.ended.load(Ordering::Acquire);
        while sent.is_ok() && ended() < self.connections && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
        let (tally, requests) = (Arc::clone(&self.tally), self.requests);
        let counted = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let expected = [self.connections, requests, requests * self.length];
        let found = [ended(), counted(&tally.requests), counted(&tally.bytes)];
        if let Some(wrong) = self.end() {
            return Err(format!("{key}: {wrong}").into());
        }
        let named = |[ended, requests, bytes]: [u64; 3]| {
            Counts::from([("connections", ended), ("requests", requests), ("bytes", bytes)])
        };
        harness::prove(key, &named(expected), &named(found))
    }
}

// %% [markdown]
// # What is measured
//
// A name and a function for each server. One more server is one more line.

// %%
/// A server under a name.
#[derive(Clone, Copy)]
pub struct Variant {
    /// As in the data.
    pub name: &'static str,
    /// Serves.
    pub serve: Serve,
}

/// The baseline.
pub const LOOP: &str = "loop";
pub const TOKIO_ALONE: &str = "tokio current_thread";
pub const TOKIO_THREADS: &str = "tokio multi_thread";

/// All servers.
pub const VARIANTS: [Variant; 7] = [
    Variant { name: LOOP, serve: by_hand::<Echo> },
    Variant { name: "frontier", serve: on_frontier::<Echo> },
    Variant { name: "polling", serve: on_polling::<Echo> },
    Variant { name: TOKIO_ALONE, serve: on_tokio_alone::<Echo> },
    Variant { name: TOKIO_THREADS, serve: on_tokio_threads::<Echo> },
    Variant { name: "smol", serve: on_smol::<Echo> },
    Variant { name: "thread per connection", serve: on_threads::<Echo> },
];

// %% [markdown]
// Few connections and many, of which few or all are active. Under the last load each request does work of its own.

// %%
const fn load(connections: u64, active: u64, steps: u32) -> Load {
    Load { connections, active, steps }
}

/// All loads. The first is what those are compared with that have as many active connections, and more idle ones.
pub const LOADS: [Load; 6] = [
    load(10, 10, 0),
    load(1_000, 10, 0),
    load(10_000, 10, 0),
    load(1_000, 1_000, 0),
    load(10_000, 10_000, 0),
    WORKING,
];

/// With own work.
pub const WORKING: Load = load(1_000, 1_000, 10_000);

impl Load {
    /// As in the data.
    pub fn parameter(self) -> String {
        let work = if self.steps > 0 { format!(" work={}", self.steps) } else { String::new() };
        format!("connections={} active={}{work}", self.connections, self.active)
    }

    /// Requests of a sample: enough for a 99th percentile, and two for each active connection.
    pub fn requests(self, profile: &str) -> u64 {
        let usual = match (profile, self.steps) {
            ("quick", _) => 2_000,
            (_, 0) => 20_000,
            _ => 5_000,
        };
        usual.max(2 * self.active)
    }
}

// %% [markdown]
// ## A trial
//
// A trial is a session in a process of its own. A tenth of the requests warms up; then one sample is taken.
//
// Ratios are those of the server's processor time. Wall-clock time is recorded as well, but it says less, for the
// clients need a processor, too. With all connections active, it is that of the slower side: a server that is faster
// than its clients does not show it. With few connections active, both sides take turns to sleep and wake each other.
// In either case, processor time is what the server takes from the machine.

// %%
impl Variant {
    /// Its name under this load.
    pub fn key(self, load: Load) -> Key {
        Key::new("echo", self.name, load.parameter())
    }

    /// Proves that it does its work, in a process of its own.
    ///
    /// # Errors
    /// If it does not.
    pub fn prove(self, load: Load) -> Result<(), UnequalWork> {
        let key = self.key(load);
        let session = || {
            let mut session = Session::open(self.serve, load).map_err(|wrong| format!("{key}: {wrong}"))?;
            // If that fails, so does closing, which says why.
            let _ = session.send_requests(10 * load.active);
            session.close(&key)
        };
        harness::isolated(LIMIT, session).map_err(|end| UnequalWork::from(format!("{key}: {end}"))).flatten()
    }

    /// One trial with so many requests.
    pub fn trial(self, load: Load, requests: u64, bencher: &mut Bencher) {
        let opened = Session::open(self.serve, load);
        let mut session = match opened {
            Ok(session) => Some(session),
            Err(wrong) => return bencher.fail(wrong),
        };
        let mut warm = false;
        bencher.samples(&mut || {
            let requests = if warm { requests } else { requests / 10 };
            warm = true;
            let asked = session.as_mut().expect("it is open").send_requests(requests);
            asked.unwrap_or_else(|error| {
                let wrong = session.take().and_then(Session::end);
                panic!("{}", wrong.unwrap_or_else(|| error.to_string()))
            })
        });
        if let Some(Err(wrong)) = session.map(|session| session.close(&self.key(load))) {
            bencher.fail(wrong.to_string());
        }
    }
}

// %% [markdown]
// # The study
//
// Every server is compared with the loop under its load. tokio with several threads is compared with tokio with one, and
// every server with itself when more connections are open, of which as many are active. The loop with work is compared
// with the loop without. Each load is a group with a control of its own.

// %%
/// What else is compared with what: key, baseline, and what changes.
fn comparisons(variant: Variant) -> Vec<(Key, Key, String)> {
    let mut all = vec![];
    for load in LOADS {
        if variant.name == TOKIO_THREADS {
            let alone = Key { variant: TOKIO_ALONE.to_owned(), ..variant.key(load) };
            all.push((variant.key(load), alone, "several threads instead of one".to_owned()));
        }
        if load == WORKING && variant.name == LOOP {
            let idle = Load { steps: 0, ..load };
            let change = format!("{} steps of own work in each request", load.steps);
            all.push((variant.key(load), variant.key(idle), change));
        }
        if load.active == LOADS[0].active && load != LOADS[0] {
            let idle = load.connections - load.active;
            let change = format!("{idle} connections more, which are idle");
            all.push((variant.key(load), variant.key(LOADS[0]), change));
        }
    }
    all
}

// %% [markdown]
// Each server is proved once, under a small load, in a process of its own. One that fails is named and left out.

// %%
/// The load of the proofs.
const PROOF: Load = load(50, 10, 3);

/// All servers under all loads, proven to serve.
///
/// # Errors
/// If the profile that the environment names is none.
pub fn study() -> Result<Study, harness::Error> {
    let profile = harness::Profile::from_env()?.name;
    let mut study = Study::new("servers").rounds(2, 12).isolated(LIMIT).instructions(false);
    study = study.baseline(LOOP).unit("request").samples(1);
    for variant in VARIANTS {
        let proof = variant.prove(PROOF);
        for load in LOADS {
            let (key, requests) = (variant.key(load), load.requests(&profile));
            study = study
                .group(load.parameter(), limit::THREADS)
                .proven(key.clone(), proof.clone(), move |bencher: &mut Bencher| {
                    variant.trial(load, requests, bencher);
                })
                .count(key.clone(), "units", 1)
                .count(key.clone(), "counted_requests", requests)
                .count(key.clone(), "connections", load.connections)
                .count(key, "active", load.active);
        }
        for (key, baseline, change) in comparisons(variant) {
            study = study.also_compare(key, baseline, change);
        }
    }
    Ok(LOADS.iter().fold(study, |study, load| study.control(load.parameter())))
}

// %% [markdown]
// In the crate: the proof as a test. Requests in pieces, clients that go away, and what is left
// open are tested in files of their own.

// %%
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_servers_serve() {
        for variant in VARIANTS {
            variant.prove(PROOF).unwrap();
        }
    }

    #[test]
    fn its_comparisons_make_sense() {
        study().unwrap().comparisons().unwrap();
    }

    #[test]
    fn memory_that_the_system_does_not_tell_is_unknown() {
        assert_eq!(parse_anonymous("Rss:  60 kB\nAnonymous:   12 kB\nLazyFree:  0 kB\n"), Some(12 << 10));
        assert_eq!(parse_anonymous("Rss:  60 kB\n"), None);
    }
}

// %% [markdown]
// # A glance
//
// All servers under one load, in turns: processor time for a request. Choose another load, or a server of your own, and
// run the cell again.

// %% tags=["active-ipynb", "glance"]
// study().unwrap_or_else(harness::stop).glance(|key| {
//     key.parameter == "connections=1000 active=1000"
// }).unwrap_or_else(harness::stop)

// %% [markdown]
// # Measurement
//
// `quick` takes less than a minute and shows that everything works; it is not evidence. For evidence, set the environment
// variable `ASYNC_COST_PROFILE` to `standard` or `thorough` before you start the kernel.

// %% tags=["active-ipynb"]
// {
//     let profile = harness::Profile::from_env().unwrap_or_else(harness::stop);
//     let outcome = study().unwrap_or_else(harness::stop).measure(&profile).unwrap_or_else(harness::stop);
//     println!("{outcome}");
// };

// %% [markdown]
// The [analysis](analysis.ipynb) compares processor times in the same round and under the same load, and shows
// latencies and memory as well.
//
// # What this does not say
//
// - Server and clients share the processors, their caches and one kernel. A network card would add interrupts, and
//   packets would arrive together.
// - Requests are small, and an answer never has to wait for room in a socket.
// - Memory is that of the process. What the kernel keeps for each connection (two sockets, and for a thread its kernel
//   stack) is not in it.
// - What the kernel does in threads of its own is in neither side's processor time.
// - The load is closed: no client sends while it waits for an answer. [The open loop](open.ipynb) sends at a rate, whether
//   answers come or not.
//
// # What next
//
// - Register for levels instead of edges in `by_hand`, and see what the second look costs.
// - Let `on_polling` use `PollMode::Level`, so that it need not re-arm the poller.
// - Give a connection a larger buffer, and look at the memory.
