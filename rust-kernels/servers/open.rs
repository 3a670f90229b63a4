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
// # How long do requests wait that come at a rate?
//
// [The notebook next to this one](measure.ipynb) asks in a closed loop: a connection sends its next request when it has
// the answer to the last one. A server that is slow for a moment is then asked less, and the requests that would have
// met that moment are in no percentile (*coordinated omission*). Users do not wait for each other. So this notebook sends
// at a rate, an *open loop*:
//
// - Requests arrive by a Poisson process, drawn beforehand from a seed.
// - A latency counts from when a request was *to be sent*, whether or not the generator came to it then.
// - The rate is a part of what the server can do: 20, 50, 80 or 95 % of its own capacity, which each trial measures first.
// - The generator is a process on a processor of its own, where it never sleeps. How late it sends is measured: a row whose
//   generator was late at p99 by more than a tenth of the server's p99 is no evidence for the server.
//
// The servers are those of the other notebook and some more, among them several runtimes of one thread in place of one
// runtime of several. In a last part one request of a hundred computes for 5 ms without giving way, and the latency is
// that of the others.

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
// :dep fastrand = "=2.5.0"
// :dep harness = { path = "../../rust-kernels/harness" }
// :dep hdrhistogram = { version = "=7.6.0", default-features = false }
// :dep http-body-util = "=0.1.5"
// :dep httparse = "=1.10.1"
// :dep hyper = { version = "=1.12.0", features = ["http1", "server"] }
// :dep hyper-util = { version = "=0.1.21", features = ["tokio"] }
// :dep libc = "=0.2.189"
// :dep rustix = { version = "=1.1.6", features = ["event", "net", "thread", "time"] }
// :dep servers = { path = "../../rust-kernels/servers" }
// :dep slab = "=0.4.12"
// :dep tokio = { version = "=1.54.1", features = ["io-util", "net", "rt-multi-thread", "sync"] }
// :dep zero-cost-loop = { path = "../../rust-kernels/zero-cost/loop" }

// %% [markdown]
// ## A first result
//
// First, the finished crate at work: the loop by hand and tokio on one thread, at four fifths of what each can do. The time is
// processor time of the server, for a request; the analysis shows the latencies.

// %% tags=["active-ipynb", "glance"]
// :dep servers-open = { path = "../../rust-kernels/servers/open" }
// servers_open::PARTS[0]
//     .servers
//     .iter()
//     .filter(|server| [servers::LOOP, servers::TOKIO_ALONE].contains(&server.name))
//     .fold(harness::Glance::at("request").trials_by(harness::in_processes(servers::LIMIT)), |glance, server| {
//         let lasts = std::time::Duration::from_millis(100);
//         glance.look(server.name, move |bencher| servers_open::PARTS[0].trial(*server, 80, lasts, 1, bencher))
//     })
//     .show()

// %% [markdown]
// The servers that are known, what clients are and the session in which both meet are those of the other notebook. Histograms
// hold latencies, and hyper and httparse speak HTTP.

// %%
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::ready;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use harness::{Bencher, Key, Sample, Study, UnequalWork, limit};
use hdrhistogram::Histogram;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::retry_on_intr;
use rustix::net::sockopt::set_socket_reuseport;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use servers::{
    Connection, Echo, Ended, LENGTH, LIMIT, LOOP, Protocol, READY, Serve, Served, Session, TOKIO_ALONE,
    TOKIO_THREADS, Tally,
};
use slab::Slab;
use tokio::runtime::{Builder, Handle, Runtime};
use zero_cost_loop::{Steps, Work};

// %% [markdown]
// # What is said
//
// ## The base
//
// A hundred connections, requests and answers of 64 bytes, and own work of 20,000 steps of a xorshift generator for each
// request, which is some 40 µs (each trial measures it). Without own work a server takes hardly more time for a request than its
// generator, and what is measured is the generator: that is tried at half load only. From this base one thing is changed at
// a time: the work, the connections, the protocol. From HTTP, in turn, how many requests come at once, and how long answers
// are.

// %%
/// Connections that are open in the base, all of which may be used.
pub const CONNECTIONS: u64 = 100;
/// Steps of own work for each request: some 40 µs.
pub const STEPS: u32 = 20_000;

// %% [markdown]
// ## Requests that compute for long
//
// A request may be marked. Then a server of the last part does the work of 150, some 5 ms, before it answers. Whether it
// gives way meanwhile is up to the server: those of the other notebook do not.

// %%
/// How often the usual work a marked request does.
pub const LONG: u32 = 150;
/// Which byte of a request is the mark.
const MARK: usize = 16;

/// The work of this request, where others do `work`.
fn work_of(request: &[u8], work: Steps) -> Steps {
    if request[MARK] == b'!' { Steps(work.0 * LONG) } else { work }
}

/// An echo whose marked requests do more.
pub struct Marked {
    echo: Echo,
    work: Steps,
}

impl Protocol for Marked {
    fn new(work: Steps, tally: &Arc<Tally>) -> Self {
        Self { echo: Echo::new(Steps(0), tally), work }
    }

    fn spare_capacity(&mut self) -> &mut [u8] {
        self.echo.spare_capacity()
    }

    fn take(&mut self, length: usize) {
        self.echo.take(length);
        // All earlier answers were written before more was read.
        self.echo.answers().chunks_exact(LENGTH).for_each(|request| work_of(request, self.work).perform());
    }

    fn answers(&self) -> &[u8] {
        self.echo.answers()
    }

    fn mark_written(&mut self, length: usize) {
        self.echo.mark_written(length);
    }
}

// %% [markdown]
// ## HTTP
//
// A request as small clients send it, read by `httparse`; the answer repeats its path, filled up to 64 bytes, or to 1 or
// 64 KiB. Connections are kept. Requests may come without a wait for the answers to earlier ones (*pipelining*): then all
// that have come are answered together. What is no request fills the buffer, and ends its connection.

// %%
/// Appends the body of the answer to a request for this path, so long.
fn push_body(answers: &mut Vec<u8>, path: &str, body: usize) {
    let end = answers.len() + body;
    answers.extend_from_slice(path.as_bytes());
    answers.resize(end, b'.');
}

/// Appends the answer.
fn push_answer(answers: &mut Vec<u8>, path: &str, body: usize) {
    // Writing to memory does not fail.
    let _ = write!(answers, "HTTP/1.1 200 OK\r\ncontent-length: {body}\r\n\r\n");
    push_body(answers, path, body);
}

/// HTTP/1.1 over a connection that is kept. Answers have a body of so many bytes.
pub struct Http<const BODY: usize> {
    /// Room for all requests that come at once.
    buffer: [u8; 2_048],
    filled: usize,
    answers: Vec<u8>,
    /// How many answers these are, and how many bytes of them were written.
    count: u64,
    written: usize,
    work: Steps,
    served: Served,
}

// %% [markdown]
// What has come is searched for whole requests, and their answers wait in one buffer until all of it is written.

// %%
impl<const BODY: usize> Protocol for Http<BODY> {
    fn new(work: Steps, tally: &Arc<Tally>) -> Self {
        let served = Served::new(tally);
        Self { buffer: [0; _], filled: 0, answers: vec![], count: 0, written: 0, work, served }
    }

    fn spare_capacity(&mut self) -> &mut [u8] {
        &mut self.buffer[self.filled..]
    }

    fn take(&mut self, length: usize) {
        self.filled += length;
        self.served.bytes += length as u64;
        let mut begun = 0;
        loop {
            let mut headers = [httparse::EMPTY_HEADER; 16];
            let mut request = httparse::Request::new(&mut headers);
            let Ok(httparse::Status::Complete(length)) = request.parse(&self.buffer[begun..self.filled])
            else {
                break;
            };
            self.work.perform();
            push_answer(&mut self.answers, request.path.unwrap_or_default(), BODY);
            self.count += 1;
            begun += length;
        }
        self.buffer.copy_within(begun..self.filled, 0);
        self.filled -= begun;
    }

    fn answers(&self) -> &[u8] {
        &self.answers[self.written..]
    }

    fn mark_written(&mut self, length: usize) {
        self.written += length;
        if self.answers().is_empty() {
            self.served.requests += std::mem::take(&mut self.count);
            self.answers.clear();
            self.written = 0;
        }
    }
}

// %% [markdown]
// ## What the generator says
//
// The same for every server. It knows the answer to each request byte by byte.

// %%
/// What requests look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    Echo,
    /// Answers have a body of so many bytes.
    Http {
        body: usize,
    },
}

impl Wire {
    /// Appends what a connection sends as its request of this number, and the answer to it.
    pub fn compose(
        self,
        [connection, number]: [u64; 2],
        marked: bool,
        [requests, answers]: [&mut Vec<u8>; 2],
    ) {
        match self {
            Self::Echo => {
                let mut bytes = servers::request(connection, number);
                bytes[MARK] = if marked { b'!' } else { b'.' };
                requests.extend_from_slice(&bytes);
                answers.extend_from_slice(&bytes);
            }
            Self::Http { body } => {
                let path = format!("/{connection:016x}/{number:016x}");
                for part in ["GET ", &path, " HTTP/1.1\r\nhost: localhost\r\naccept: */*\r\n\r\n"] {
                    requests.extend_from_slice(part.as_bytes());
                }
                push_answer(answers, &path, body);
            }
        }
    }

    /// Bytes of a request, and of an answer.
    pub fn lengths(self) -> [usize; 2] {
        let (mut request, mut answer) = (vec![], vec![]);
        self.compose([0, 0], false, [&mut request, &mut answer]);
        [request.len(), answer.len()]
    }
}

// %% [markdown]
// # More servers
//
// ## tokio on one thread, in other ways
//
// A `LocalSet` runs tasks that need not be `Send`. `accepting` is what all servers of this section share.

// %%
/// A runtime of one thread.
fn alone() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_io().build()
}

/// Accepts on tokio, and hands each connection on.
async fn accepting(listener: TcpListener, mut each: impl FnMut(tokio::net::TcpStream)) -> Ended {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        each(stream);
    }
}

/// A `LocalSet` on one thread.
pub fn on_local_set<P: Protocol>(listener: TcpListener, work: Steps, tally: &Arc<Tally>) -> Ended {
    let accepting = accepting(listener, |stream| {
        tokio::task::spawn_local(servers::echo_on_tokio(stream, P::new(work, tally)));
    });
    tokio::task::LocalSet::new().block_on(&alone()?, accepting)
}

// %% [markdown]
// hyper is what people run. It does not say how long a request was, so these bytes are counted by requests.

// %%
/// hyper on tokio, one thread.
pub fn on_hyper<const BODY: usize>(listener: TcpListener, work: Steps, tally: &Arc<Tally>) -> Ended {
    let [length, _] = Wire::Http { body: BODY }.lengths();
    alone()?.block_on(accepting(listener, |stream| {
        let served = Mutex::new(Served::new(tally));
        let service = service_fn(move |request: Request<Incoming>| {
            work.perform();
            let mut served = served.lock().unwrap_or_else(PoisonError::into_inner);
            served.requests += 1;
            served.bytes += length as u64;
            let mut body = Vec::with_capacity(BODY);
            push_body(&mut body, request.uri().path(), BODY);
            ready(Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(body)))))
        });
        let mut http = http1::Builder::new();
        http.auto_date_header(false);
        tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
    }))
}

// %% [markdown]
// ## N runtimes of one thread
//
// In place of one runtime of N threads, which may take tasks from each other, N runtimes of one thread, each with
// connections of its own. Either each listens at the same port (`SO_REUSEPORT`), and the kernel deals connections out by a
// hash of their addresses; or one thread accepts, and hands connections on in turns.

// %%
/// Listens at this port, or at any if it is 0, where others may listen, too.
///
/// # Errors
/// What failed.
pub fn listening(port: u16) -> io::Result<TcpListener> {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_reuseport(&socket, true)?;
    bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    listen(&socket, 1_024)?;
    Ok(socket.into())
}

/// N runtimes that listen at one port.
pub fn on_reuseport<P: Protocol, const N: usize>(
    listener: TcpListener,
    work: Steps,
    tally: &Arc<Tally>,
) -> Ended {
    let port = listener.local_addr()?.port();
    for _ in 1..N {
        let (listener, tally) = (listening(port)?, Arc::clone(tally));
        thread::spawn(move || servers::on_tokio_alone::<P>(listener, work, &tally));
    }
    servers::on_tokio_alone::<P>(listener, work, tally)
}

/// N runtimes, and a thread that accepts for them.
pub fn on_acceptor<P: Protocol, const N: usize>(
    listener: TcpListener,
    work: Steps,
    tally: &Arc<Tally>,
) -> Ended {
    let start = |_| {
        let (give, mut take) = tokio::sync::mpsc::unbounded_channel();
        let tally = Arc::clone(tally);
        thread::spawn(move || {
            alone()?.block_on(async {
                while let Some(stream) = take.recv().await {
                    let stream = tokio::net::TcpStream::from_std(stream)?;
                    tokio::spawn(servers::echo_on_tokio(stream, P::new(work, &tally)));
                }
                io::Result::Ok(())
            })
        });
        give
    };
    let runtimes: [_; N] = std::array::from_fn(start);
    loop {
        for runtime in &runtimes {
            if let Some(stream) = servers::accept(&listener)? {
                runtime.send(stream).map_err(io::Error::other)?;
            }
        }
    }
}

// %% [markdown]
// ## A thread pool
//
// One thread accepts, and four serve whatever connection is ready, each one at a time. They share one epoll. It reports
// a connection to one of them, which serves it and then watches it again (`EPOLLONESHOT`).

// %%
/// Threads that serve.
const POOL: usize = 4;

/// The connections of a pool, by slot.
struct Pool<P> {
    epoll: OwnedFd,
    slots: Mutex<Slab<Arc<Mutex<Connection<P>>>>>,
}

impl<P: Protocol> Pool<P> {
    /// Serves what is ready, as one of the threads.
    fn serve(&self) -> Ended {
        let mut events = Vec::with_capacity(1);
        loop {
            retry_on_intr(|| epoll::wait(&self.epoll, spare_capacity(&mut events), None))?;
            let Some(event) = events.pop() else { continue };
            let (slot, flags) = (event.data.u64() as usize, event.flags);
            let found = locked(&self.slots).get(slot).cloned();
            let Some(connection) = found else { continue };
            let mut connection = locked(&connection);
            if matches!(connection.serve(flags != EventFlags::OUT, false), Ok(true)) {
                let blocked = !connection.echo.answers().is_empty();
                let interest = if blocked { EventFlags::OUT } else { EventFlags::IN };
                let interest = interest | EventFlags::ONESHOT;
                epoll::modify(&self.epoll, &connection.stream, EventData::new_u64(slot as u64), interest)?;
            } else {
                locked(&self.slots).remove(slot);
            }
        }
    }
}

/// A lock, whoever has panicked with it.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A pool of threads.
pub fn on_pool<P: Protocol>(listener: TcpListener, work: Steps, tally: &Arc<Tally>) -> Ended {
    let pool = Arc::new(Pool { epoll: epoll::create(CreateFlags::CLOEXEC)?, slots: Mutex::default() });
    for _ in 0..POOL {
        let pool = Arc::clone(&pool);
        thread::spawn(move || pool.serve());
    }
    loop {
        let Some(stream) = servers::accept(&listener)? else { continue };
        let connection = Arc::new(Mutex::new(Connection { stream, echo: P::new(work, tally) }));
        let slot = locked(&pool.slots).insert(Arc::clone(&connection)) as u64;
        let once = EventFlags::IN | EventFlags::ONESHOT;
        epoll::add(&pool.epoll, &locked(&connection).stream, EventData::new_u64(slot), once)?;
    }
}

// %% [markdown]
// ## Ways to compute for long on tokio
//
// A marked request gives way after each fiftieth of its work (`yield_now`); or it asks tokio's budget after each five-hundredth,
// which lets it go on 128 times (`consume_budget`); or it computes on a thread for blocking calls (`spawn_blocking`); or
// the worker hands its other tasks to another thread before it computes (`block_in_place`, which needs a runtime of several
// threads); or it computes on another runtime, which has one thread and no other work.

// %%
/// What a server does with a marked request.
#[derive(Clone)]
enum How {
    Yields,
    Budget,
    Blocking,
    InPlace,
    Elsewhere(Handle),
}

/// In how many parts the work is done that gives way, and that asks the budget.
const YIELDS: u32 = 50;
const ASKS: u32 = 500;

/// Serves a connection so, until it ends.
async fn careful(
    mut stream: tokio::net::TcpStream,
    how: How,
    work: Steps,
    mut served: Served,
) -> io::Result<()> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut request = [0; LENGTH];
    loop {
        stream.read_exact(&mut request).await?;
        served.bytes += LENGTH as u64;
        let steps = work_of(&request, work);
        match &how {
            _ if steps.0 == work.0 => steps.perform(),
            How::Yields => {
                for _ in 0..YIELDS {
                    Steps(steps.0 / YIELDS).perform();
                    tokio::task::yield_now().await;
                }
            }
            How::Budget => {
                for _ in 0..ASKS {
                    Steps(steps.0 / ASKS).perform();
                    tokio::task::coop::consume_budget().await;
                }
            }
            How::Blocking => tokio::task::spawn_blocking(move || steps.perform()).await?,
            How::InPlace => tokio::task::block_in_place(|| steps.perform()),
            How::Elsewhere(other) => other.spawn(async move { steps.perform() }).await?,
        }
        stream.write_all(&request).await?;
        served.requests += 1;
    }
}

/// Serves so on a runtime.
fn carefully(
    mut runtime: Builder,
    how: How,
    (listener, work, tally): (TcpListener, Steps, &Arc<Tally>),
) -> Ended {
    runtime.enable_io().build()?.block_on(accepting(listener, |stream| {
        tokio::spawn(careful(stream, how.clone(), work, Served::new(tally)));
    }))
}

// %% [markdown]
// A server for each of these ways. Only `block_in_place` needs a runtime of several threads; the others run on one, as the
// server does that they are compared with.

// %%
/// It gives way.
pub fn yielding(listener: TcpListener, work: Steps, tally: &Arc<Tally>) -> Ended {
    carefully(Builder::new_current_thread(), How::Yields, (listener, work, tally))
}

/// It asks the budget.
pub fn asking(listener: TcpListener, work: Steps, tally: &Arc<Tally>) -> Ended {
    carefully(Builder::new_current_thread(), How::Budget, (listener, work, tally))
}

/// A thread for blocking calls computes.
pub fn blocking(listener: TcpListener, work: Steps, tally: &Arc<Tally>) -> Ended {
    carefully(Builder::new_current_thread(), How::Blocking, (listener, work, tally))
}

/// A worker computes that has handed its tasks on.
pub fn in_place(listener: TcpListener, work: Steps, tally: &Arc<Tally>) -> Ended {
    carefully(Builder::new_multi_thread(), How::InPlace, (listener, work, tally))
}

/// Another runtime computes.
pub fn elsewhere(listener: TcpListener, work: Steps, tally: &Arc<Tally>) -> Ended {
    let other = Builder::new_multi_thread().worker_threads(1).build()?;
    carefully(Builder::new_current_thread(), How::Elsewhere(other.handle().clone()), (listener, work, tally))
}

// %% [markdown]
// tokio looks for events when no task is ready, and after each 61st task (`event_interval`). These servers look after every task.

// %%
/// A runtime of one thread that looks for events after each task.
fn looking() -> Builder {
    let mut runtime = Builder::new_current_thread();
    runtime.event_interval(1);
    runtime
}

/// It looks, and marked requests compute in one piece.
pub fn on_looking<P: Protocol>(listener: TcpListener, work: Steps, tally: &Arc<Tally>) -> Ended {
    servers::on_tokio::<P>(looking(), listener, work, tally)
}

/// It looks, and they give way.
pub fn looking_yielding(listener: TcpListener, work: Steps, tally: &Arc<Tally>) -> Ended {
    carefully(looking(), How::Yields, (listener, work, tally))
}

// %% [markdown]
// # The generator
//
// ## Where it runs
//
// `Beside`: the server has one processor, and so has the generator, which asks again and again what has arrived. The
// runtimes find out that they have one processor, and start as many workers. `Contended`: both share two processors, and the
// generator sleeps until something happens, so it is late more often.

// %%
/// Where server and generator run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Beside,
    Contended,
}

impl Place {
    /// The processors of the server and those of the generator; `None` where this process may use only one.
    fn processors(self) -> Option<[Vec<usize>; 2]> {
        let allowed = sched_getaffinity(None).ok()?;
        let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|number| allowed.is_set(*number)).collect();
        let [first, .., last] = allowed[..] else { return None };
        Some(match self {
            Self::Beside => [vec![first], vec![last]],
            Self::Contended => [vec![first, last], vec![first, last]],
        })
    }
}

/// Keeps this thread, and those that it starts, on some processors.
fn keep_on(processors: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    processors.iter().for_each(|number| set.set(*number));
    Ok(sched_setaffinity(None, &set)?)
}

// %% [markdown]
// ## When requests arrive
//
// In a Poisson process the times between arrivals are independent and exponential: now and then several come at once.
// Without a rate, all come at the beginning: then each connection sends its next request when it has an answer, which is the
// closed loop that measures capacity.

// %%
/// When so many requests are to be sent, in nanoseconds from the beginning.
pub fn arrivals(requests: u64, per_second: u64, seed: u64) -> Vec<u64> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mean = if per_second == 0 { 0.0 } else { 1e9 / per_second as f64 };
    let next = |time: &mut f64, _| {
        // From (0, 1]: the logarithm of zero is none.
        *time -= mean * (1.0 - random.f64()).ln();
        Some(*time as u64)
    };
    (0..requests).scan(0.0, next).collect()
}

// %% [markdown]
// The same seed gives the same arrivals, and on average they come at the rate.

// %% tags=["active-ipynb", "glance"]
// {
//     let times = arrivals(10_000, 50_000, 7);
//     assert_eq!(times, arrivals(10_000, 50_000, 7));
//     println!("{} requests in {} ms, the first at {:?} ns", times.len(), times[9_999] / 1_000_000, &times[..5]);
// };

// %% [markdown]
// ## A connection
//
// What arrives is one request, or where several come at once (pipelining) 16 requests, which are written by one call on one
// connection. Then arrivals are a sixteenth as many, the rate of requests is the same, and each request counts from when all
// 16 were to be sent until its own answer is complete. A connection sends again when it has all answers.

// %%
/// The generator's end of a connection.
struct Caller {
    stream: TcpStream,
    connection: u64,
    sent: u64,
    /// When its requests were to be sent, and whether they are marked.
    intended: u64,
    marked: bool,
    requests: Vec<u8>,
    /// The answers to them, and how many bytes came.
    answers: Vec<u8>,
    received: usize,
    /// Bytes of an answer.
    each: usize,
}

impl Caller {
    fn open(address: SocketAddr, connection: u64, wire: Wire) -> io::Result<Self> {
        let stream = servers::connect(address, connection)?;
        let (requests, answers, [_, each]) = (vec![], vec![], wire.lengths());
        let (sent, intended, marked, received) = (0, 0, false, 0);
        Ok(Self { stream, connection, sent, intended, marked, requests, answers, received, each })
    }

    /// Sends so many requests that were to be sent then.
    fn send(&mut self, wire: Wire, depth: u64, (intended, marked): (u64, bool)) -> io::Result<()> {
        (self.intended, self.marked, self.received) = (intended, marked, 0);
        self.requests.clear();
        self.answers.clear();
        for number in self.sent..self.sent + depth {
            let both = [&mut self.requests, &mut self.answers];
            wire.compose([self.connection, number], marked, both);
        }
        self.sent += depth;
        self.stream.write_all(&self.requests)
    }

    /// Reads once. Returns how many answers have become complete.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match self.stream.read(buffer)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            length => &buffer[..length],
        };
        let (before, rest) = (self.received, &self.answers[self.received..]);
        self.received += read.len();
        if rest.starts_with(read) {
            return Ok(self.received / self.each - before / self.each);
        }
        let same = before + rest.iter().zip(read).take_while(|(wanted, found)| wanted == found).count();
        let number = self.sent + (same / self.each) as u64 - (self.answers.len() / self.each) as u64;
        let wrong = format!("request {number} of connection {} was given another answer", self.connection);
        Err(io::Error::other(wrong))
    }
}

// %% [markdown]
// ## A burst
//
// Whenever the generator has done anything, it looks whether the next request is due. If it is, and a connection is free,
// it sends it; how late that is, is its lateness. If no connection is free, the request waits for the server, and for
// that the generator is not late.

// %%
/// Arrivals that were drawn, and what became of them.
struct Burst {
    start: Instant,
    arrivals: Vec<u64>,
    /// How many of them were sent, and how many requests were answered.
    sent: usize,
    answered: usize,
    /// When one was last due without a free connection, and how many requests were.
    full: Option<u64>,
    waited: u64,
    /// Nanoseconds: of the generator, of requests, of those that are marked.
    late: Histogram<u64>,
    latencies: Histogram<u64>,
    marked: Histogram<u64>,
}

impl Burst {
    fn new(arrivals: Vec<u64>) -> Self {
        let most = LIMIT.as_nanos() as u64;
        let empty = || Histogram::new_with_bounds(1, most, 3).expect("bounds and digits that it takes");
        let (late, latencies, marked) = (empty(), empty(), empty());
        let start = Instant::now();
        Self { start, arrivals, sent: 0, answered: 0, full: None, waited: 0, late, latencies, marked }
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// When what arrives next is to be sent.
    fn next(&self) -> Option<u64> {
        self.arrivals.get(self.sent).copied()
    }
}

// %% [markdown]
// Every hundredth request is marked, if any is: they never meet by chance, and every server has equally many.

// %%
/// One request of so many is marked.
pub const ONE_OF: usize = 100;

/// What plays all clients.
struct Generator {
    callers: Vec<Caller>,
    /// Those without a request, in the order in which they became free.
    free: VecDeque<usize>,
    epoll: OwnedFd,
    /// Wakes it when the next request is due; `None` if it does not sleep.
    timer: Option<OwnedFd>,
    part: Part,
    /// Longer than all answers under way on a connection, to detect what is too long.
    buffer: Vec<u8>,
}

impl Generator {
    /// Sends what is due.
    fn send_due(&mut self, burst: &mut Burst) -> io::Result<()> {
        while let Some(intended) = burst.next() {
            let now = burst.now();
            if now < intended {
                break;
            }
            let Some(number) = self.free.pop_front() else {
                burst.full = Some(now);
                break;
            };
            if burst.full.is_some_and(|full| intended <= full) {
                burst.waited += self.part.depth;
            } else {
                burst.late.saturating_record(now - intended);
            }
            let marked = self.part.marks && burst.sent % ONE_OF == ONE_OF / 2;
            self.callers[number].send(self.part.wire, self.part.depth, (intended, marked))?;
            burst.sent += 1;
        }
        Ok(())
    }

    /// Reads what has come on a connection.
    fn receive(&mut self, number: usize, burst: &mut Burst) -> io::Result<()> {
        let caller = &mut self.callers[number];
        let complete = caller.receive(&mut self.buffer)?;
        let latency = burst.now() - caller.intended;
        let all = if caller.marked { &mut burst.marked } else { &mut burst.latencies };
        all.saturating_record_n(latency, complete as u64);
        burst.answered += complete;
        if caller.received == caller.answers.len() {
            self.free.push_back(number);
        }
        Ok(())
    }
}

// %% [markdown]
// Between two requests it looks for answers, as often as it can, or where it shares its processor, sleeps until there is one or
// a request is due.

// %%
/// The timer's number among the connections.
const TIMER: u64 = u64::MAX;
/// Answers that it learns of at a time.
const EVENTS: usize = 64;

impl Generator {
    /// Sends requests as they arrive, until all are answered.
    fn run(&mut self, arrivals: Vec<u64>) -> io::Result<Burst> {
        let requests = arrivals.len() * self.part.depth as usize;
        let mut burst = Burst::new(arrivals);
        let mut events = Vec::with_capacity(EVENTS);
        let at_once = Timespec::default();
        while burst.answered < requests {
            self.send_due(&mut burst)?;
            if let (Some(timer), Some(next), false) = (&self.timer, burst.next(), self.free.is_empty()) {
                // Zero would stop the timer.
                wake_after(timer, next.saturating_sub(burst.now()).max(1))?;
            }
            let most = if self.timer.is_some() { None } else { Some(&at_once) };
            retry_on_intr(|| epoll::wait(&self.epoll, spare_capacity(&mut events), most))?;
            for event in events.drain(..) {
                match event.data.u64() {
                    TIMER => {}
                    number => self.receive(number as usize, &mut burst)?,
                }
                self.send_due(&mut burst)?;
            }
        }
        Ok(burst)
    }
}

/// Sets a timer.
fn wake_after(timer: &OwnedFd, nanoseconds: u64) -> io::Result<()> {
    let (tv_sec, tv_nsec) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
    let it_value = Timespec { tv_sec: tv_sec as i64, tv_nsec: tv_nsec as _ };
    let once = Itimerspec { it_interval: Timespec::default(), it_value };
    timerfd_settime(timer, TimerfdTimerFlags::empty(), &once)?;
    Ok(())
}

// %% [markdown]
// ## The process
//
// It opens the connections, lets each be served once, and then does as it is told: so many requests, at so many a second,
// drawn from a seed.

// %%
/// What it says of a burst, all but the last in nanoseconds.
const SAID: [&str; 10] = [
    "wall_ns",
    "p50_ns",
    "p90_ns",
    "p99_ns",
    "p999_ns",
    "max_ns",
    "late_p50_ns",
    "late_p99_ns",
    "long_p50_ns",
    "waited",
];

/// Connections that are opened at a time, which fits the queue of a listener.
const BATCH: u64 = 64;

/// How long the server has to begin to listen everywhere.
const PAUSE: Duration = Duration::from_millis(2);

// %% [markdown]
// Connections are opened some at a time, as in the other notebook, and each is served once before the next come.

// %%
impl Generator {
    fn open(address: SocketAddr, part: Part, sleeps: bool) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let [_, each] = part.wire.lengths();
        let (mut callers, mut buffer) = (vec![], vec![0; part.depth as usize * each + 1]);
        while (callers.len() as u64) < part.connections {
            let first = callers.len() as u64;
            for number in first..part.connections.min(first + BATCH) {
                let mut caller = Caller::open(address, number, part.wire)?;
                caller.send(part.wire, 1, (0, false))?;
                callers.push(caller);
            }
            for caller in &mut callers[first as usize..] {
                while caller.receive(&mut buffer)? == 0 {}
                let (number, flags) =
                    (EventData::new_u64(caller.connection), EventFlags::IN | EventFlags::ET);
                epoll::add(&epoll, &caller.stream, number, flags)?;
            }
        }
        let timer =
            sleeps.then(|| timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)).transpose()?;
        if let Some(timer) = &timer {
            epoll::add(&epoll, timer, EventData::new_u64(TIMER), EventFlags::IN | EventFlags::ET)?;
        }
        let free = (0..callers.len()).collect();
        Ok(Self { callers, free, epoll, timer, part, buffer })
    }
}

/// Plays all clients of a server, as told through `pipe`.
fn generate(address: SocketAddr, part: Part, sleeps: bool, pipe: &UnixStream) -> io::Result<()> {
    servers::send_numbers(pipe, [READY])?;
    servers::receive_numbers::<1>(pipe)?;
    thread::sleep(PAUSE);
    let mut generator = Generator::open(address, part, sleeps)?;
    servers::send_numbers(pipe, [READY])?;
    loop {
        let [requests] = servers::receive_numbers(pipe)?;
        if requests == 0 {
            break;
        }
        let [per_second, seed] = servers::receive_numbers(pipe)?;
        let (times, rate) = (requests / part.depth, per_second.div_ceil(part.depth));
        let burst = generator.run(arrivals(times, rate, seed))?;
        let of = |share| burst.latencies.value_at_quantile(share);
        let late = |share| burst.late.value_at_quantile(share);
        let long = burst.marked.value_at_quantile(0.5);
        let [p50, p90, p99, p999] = [0.5, 0.9, 0.99, 0.999].map(of);
        let max = burst.latencies.max();
        let said = [burst.now(), p50, p90, p99, p999, max, late(0.5), late(0.99), long, burst.waited];
        servers::send_numbers(pipe, said)?;
    }
    servers::hang_up(generator.callers);
    Ok(())
}

// %% [markdown]
// # What is measured
//
// A part holds servers that are compared with each other, and loads.

// %%
/// A server under a name.
#[derive(Clone, Copy)]
pub struct Server {
    pub name: &'static str,
    pub serve: Serve,
}

/// What some servers are put under.
#[derive(Clone, Copy)]
pub struct Part {
    /// As in the data.
    pub name: &'static str,
    pub wire: Wire,
    pub place: Place,
    pub connections: u64,
    /// Requests that a connection sends at once.
    pub depth: u64,
    /// Whether one request of a hundred computes for long.
    pub marks: bool,
    /// Steps of own work for each request.
    pub steps: u32,
    /// Per cent of each server's capacity.
    pub loads: &'static [u64],
    pub servers: &'static [Server],
}

const fn server(name: &'static str, serve: Serve) -> Server {
    Server { name, serve }
}

const LOCAL_SET: &str = "tokio LocalSet";
const LOOKING: &str = "tokio event_interval=1";
const YIELDING: &str = "tokio + yield_now";
const PER_CONNECTION: &str = "thread per connection";

// %% [markdown]
// Which servers are in which part. Where one thing is changed, only some of them are measured.

// %%
const ECHO_LOOP: Server = server(LOOP, servers::by_hand::<Echo>);
const ECHO_ALONE: Server = server(TOKIO_ALONE, servers::on_tokio_alone::<Echo>);
const ECHO_THREADS: Server = server(TOKIO_THREADS, servers::on_tokio_threads::<Echo>);
const ECHO_PER_CONNECTION: Server = server(PER_CONNECTION, servers::on_threads::<Echo>);

/// All ways to serve, one processor.
const ALL: &[Server] = &[
    ECHO_LOOP,
    server("frontier", servers::on_frontier::<Echo>),
    ECHO_ALONE,
    ECHO_THREADS,
    server(LOCAL_SET, on_local_set::<Echo>),
    server("tokio reuseport N=1", on_reuseport::<Echo, 1>),
    server("tokio acceptor N=1", on_acceptor::<Echo, 1>),
    server("smol", servers::on_smol::<Echo>),
    ECHO_PER_CONNECTION,
    server("thread pool", on_pool::<Echo>),
];

/// Those that are compared where one thing is changed.
const SOME: &[Server] = &[ECHO_LOOP, ECHO_ALONE, ECHO_THREADS, ECHO_PER_CONNECTION];

/// With more or fewer connections.
const FEW: &[Server] = &[ECHO_LOOP, ECHO_ALONE, ECHO_PER_CONNECTION];

/// Those of HTTP, with answers of this length.
const fn of_http<const BODY: usize>() -> [Server; 3] {
    [
        server(LOOP, servers::by_hand::<Http<BODY>>),
        server(TOKIO_ALONE, servers::on_tokio_alone::<Http<BODY>>),
        server("hyper", on_hyper::<BODY>),
    ]
}

const OF_HTTP: [Server; 3] = of_http::<LENGTH>();
const ALL_OF_HTTP: &[Server] =
    &[OF_HTTP[0], OF_HTTP[1], OF_HTTP[2], server(PER_CONNECTION, servers::on_threads::<Http<LENGTH>>)];

/// On two processors that the generator shares.
const ON_TWO: &[Server] = &[
    ECHO_LOOP,
    ECHO_ALONE,
    ECHO_THREADS,
    server("tokio reuseport N=2", on_reuseport::<Echo, 2>),
    server("tokio acceptor N=2", on_acceptor::<Echo, 2>),
    ECHO_PER_CONNECTION,
];

// %% [markdown]
// Beside requests that compute for long, more of them: the settings of tokio, and the ways to compute.

// %%
/// Beside requests that compute for long.
const DISTURBED: &[Server] = &[
    server(LOOP, servers::by_hand::<Marked>),
    server("frontier", servers::on_frontier::<Marked>),
    server(TOKIO_ALONE, servers::on_tokio_alone::<Marked>),
    server(TOKIO_THREADS, servers::on_tokio_threads::<Marked>),
    server("smol", servers::on_smol::<Marked>),
    server(PER_CONNECTION, servers::on_threads::<Marked>),
    server("thread pool", on_pool::<Marked>),
    server(LOOKING, on_looking::<Marked>),
    server(YIELDING, yielding),
    server("tokio + yield_now event_interval=1", looking_yielding),
    server("tokio + consume_budget", asking),
    server("tokio + spawn_blocking", blocking),
    server("tokio + block_in_place", in_place),
    server("tokio + another runtime", elsewhere),
];

// %% [markdown]
// The base and small requests of HTTP are what other parts differ from.

// %%
/// What all others differ from.
pub const BASE: Part = Part {
    name: "echo",
    wire: Wire::Echo,
    place: Place::Beside,
    connections: CONNECTIONS,
    depth: 1,
    marks: false,
    steps: STEPS,
    loads: &[20, 50, 80, 95],
    servers: ALL,
};

/// At one load, where one thing is changed.
const AT_80: Part = Part { loads: &[80], servers: SOME, ..BASE };

/// Small requests of HTTP, from which some parts differ in their turn.
pub const HTTP: Part =
    Part { name: "http", wire: Wire::Http { body: LENGTH }, servers: ALL_OF_HTTP, ..AT_80 };

// %% [markdown]
// Then one thing is changed at a time: own work, connections, the protocol, requests at once, the length of answers, the
// processors, the marks.

// %%
/// The base first.
pub const PARTS: [Part; 13] = [
    BASE,
    // One generator is hardly faster than a server without work: what each can do is what both can, and at half of that it
    // is in time or not.
    Part { steps: 0, loads: &[50], ..AT_80 },
    Part { steps: 5_000, ..AT_80 },
    Part { steps: 50_000, ..AT_80 },
    Part { connections: 10, servers: FEW, ..AT_80 },
    Part { connections: 1_000, servers: FEW, ..AT_80 },
    Part { connections: 10_000, servers: FEW, ..AT_80 },
    HTTP,
    Part { depth: 16, servers: &OF_HTTP, ..HTTP },
    Part { wire: Wire::Http { body: 1_024 }, servers: &of_http::<1_024>(), ..HTTP },
    Part { wire: Wire::Http { body: 65_536 }, servers: &of_http::<65_536>(), ..HTTP },
    // A generator that shares its processors has time left.
    Part {
        name: "contended",
        place: Place::Contended,
        steps: 50_000,
        loads: &[50, 80],
        servers: ON_TWO,
        ..BASE
    },
    Part { name: "disturbed", marks: true, loads: &[50], servers: DISTURBED, ..BASE },
];

impl Part {
    /// The other part that it differs from in one thing, its parameter, and the change.
    fn differs(self) -> Option<(Self, String, String)> {
        let Self { connections, depth, wire, .. } = self;
        Some(match wire {
            _ if connections != CONNECTIONS => {
                (BASE, "connections", connections, format!("{connections} connections, not {CONNECTIONS}"))
            }
            _ if depth > 1 => (HTTP, "pipelined", depth, format!("{depth} requests at once")),
            Wire::Http { body } if body != LENGTH => {
                (HTTP, "answer", body as u64, format!("answers of {body} bytes, not {LENGTH}"))
            }
            _ => return None,
        })
        .map(|(than, name, value, change)| (than, format!(" {name}={value}"), change))
    }
}

// %% [markdown]
// ## A trial
//
// A trial is a session in a process of its own. First the capacity: as many requests as connections are under way all the
// time, and how many are answered in a second is what the server can do. A short burst before it warms up and tells how long
// it will take. Then requests arrive at the rate, in three bursts, each of which is a sample.
//
// The host of a cloud machine stops one of its processors now and then for some milliseconds, which is longer than all
// else that is measured here. So capacity is that of the middle one of three bursts, and pages show of each percentile
// the middle one of a trial. What happens in less than half of all bursts is in the raw samples.

// %%
/// What a burst lasts: longer than a stall, and short enough that most meet none.
fn lasting(profile: &str) -> Duration {
    Duration::from_millis(if profile == "standard" || profile == "thorough" { 40 } else { 16 })
}

/// Bursts of which the middle one counts.
const BURSTS: u32 = 3;

/// As many requests as a burst has at least: for a 99th percentile, where a server is slow.
fn least(lasts: Duration) -> u64 {
    5 * lasts.as_millis() as u64
}

/// Nanoseconds that the work of a request takes by itself.
fn work_ns(work: Steps) -> u64 {
    let (start, times) = (Instant::now(), 20);
    (0..times).for_each(|_| work.perform());
    start.elapsed().as_nanos() as u64 / times
}

// %% [markdown]
// A session opens with server and generator, each in its place. A proof is a session of few requests in a closed and in an
// open loop: each answer is checked byte by byte, and at the end the server has answered exactly as many as were sent.

// %%
impl Part {
    /// Starts a server, whose requests do so many steps, and opens its connections. This process stays on the processors
    /// of the server.
    ///
    /// # Errors
    /// What failed.
    pub fn open(self, server: Server, steps: u32) -> Result<Session, String> {
        let begin = || {
            let processors = self.place.processors();
            if let Some([servers, _]) = &processors {
                keep_on(servers)?;
            }
            let listener = listening(0)?;
            Ok((processors, listener.local_addr()?, listener))
        };
        let (processors, address, listener) = begin().map_err(|error: io::Error| error.to_string())?;
        let sleeps = self.place == Place::Contended || processors.is_none();
        let play = move |pipe: &UnixStream| {
            if let Some([_, generators]) = processors {
                keep_on(&generators)?;
            }
            generate(address, self, sleeps, pipe)
        };
        let [length, _] = self.wire.lengths();
        Session::open_with((listener, server.serve, steps), (self.connections, length), play)
    }

    /// Its name under this load.
    pub fn key(self, server: Server, load: u64) -> Key {
        let more = self.differs().map(|(_, parameter, _)| parameter).unwrap_or_default();
        Key::new(self.name, server.name, format!("work={} load={load}{more}", self.steps))
    }

    /// Proves that a server does its work, in a process of its own: in a closed and in an open loop.
    ///
    /// # Errors
    /// If it does not.
    pub fn prove(self, server: Server) -> Result<(), UnequalWork> {
        let key = self.key(server, 0);
        // More than these are opened, and proved again, by trials alone.
        let part = Self { connections: self.connections.min(10 * CONNECTIONS), ..self };
        let session = || {
            let mut session = part.open(server, 3).map_err(|wrong| format!("{key}: {wrong}"))?;
            let requests = part.connections.max(3 * CONNECTIONS).next_multiple_of(part.depth);
            for per_second in [0, 20_000] {
                // If that fails, so does closing, which says why.
                let _ = session.ask::<2, { SAID.len() }>(requests, [per_second, 1]);
            }
            session.close(&key)
        };
        harness::isolated(LIMIT, session).map_err(|end| UnequalWork::from(format!("{key}: {end}"))).flatten()
    }
}

// %% [markdown]
// ## System calls
//
// How many system calls a request takes is counted at half load, in a session of its own that is not timed. The process of
// that session lets its parent trace it (`ptrace`): the system stops a thread where a call begins and where it ends, and the
// parent sees which call it is and lets the thread go on. That takes as long as the work of a request, so that requests meet
// more often than they do at half load, and share a wait. Hence each does ten times the work here. What counts is the calls of
// all threads but the first, which only talks to the generator.

// %%
/// Requests whose system calls are counted.
pub const TRACED: u64 = 500;
/// How often the usual work they do.
const LONGER: u32 = 10;
/// What is counted: all calls, those to an epoll, and those that wait for another thread or wake one.
const CALLS: [&str; 3] = ["system_calls", "epoll_calls", "futex_calls"];
type Calls = [u64; CALLS.len()];
/// Calls to an epoll.
const TO_EPOLL: &[libc::c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_epoll_ctl,
];
/// How a process ends that may not be traced.
const UNTRACED: i32 = 2;

/// Stops this thread until the process that traces this one lets it go on.
fn stop(signal: i32) {
    // SAFETY: it touches no memory, and the process that traces this one lets no such signal through.
    unsafe { libc::raise(signal) };
}

/// Does `work` in a fork of this process, which may trace it. The fork ends here.
fn fork_traced(work: impl FnOnce() -> Result<(), String>) -> libc::pid_t {
    // SAFETY: this process has one thread, so that nothing is locked in the copy for ever.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: it touches no memory.
        let end = if unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0_usize, 0_usize) } == 0 {
            stop(libc::SIGSTOP);
            i32::from(!matches!(catch_unwind(AssertUnwindSafe(work)), Ok(Ok(()))))
        } else {
            UNTRACED
        };
        // SAFETY: it touches no memory. The clients end with this process.
        unsafe { libc::_exit(end) }
    }
    child
}

// %% [markdown]
// The parent hears of every stop. Each thread stops first by `SIGSTOP`; the first thread says by `SIGUSR1` where the
// requests begin and where they end.

// %%
/// How a thread stops that begins a call, or ends one.
const AT_A_CALL: i32 = libc::SIGTRAP | 0x80;

/// Which call a thread begins that stopped so; `None` where it ends one.
fn begun(thread: libc::pid_t) -> Option<libc::c_long> {
    // SAFETY: all of its fields are numbers, for which zero is a value.
    let mut call: libc::ptrace_syscall_info = unsafe { std::mem::zeroed() };
    let size = size_of_val(&call);
    // SAFETY: `call` outlives this, which writes at most so many bytes of it.
    unsafe { libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, thread, size, &raw mut call) };
    // SAFETY: `entry` is numbers as well, whatever the kernel has written there.
    let number = unsafe { call.u.entry.nr };
    (call.op == libc::PTRACE_SYSCALL_INFO_ENTRY).then_some(number as libc::c_long)
}

/// Lets a child that may be traced run to its end. Returns what its threads called meanwhile, where the system tells.
fn trace(child: libc::pid_t) -> Result<Option<Calls>, String> {
    // For its threads as well. The child ends with this process.
    let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_EXITKILL;
    let (mut calls, mut counting, mut status) = ([0; CALLS.len()], false, 0);
    loop {
        // SAFETY: `status` outlives the call.
        let thread = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL) };
        let signal = match status {
            _ if thread < 0 => return Err(io::Error::last_os_error().to_string()),
            _ if libc::WIFSTOPPED(status) => libc::WSTOPSIG(status),
            _ if thread != child => continue,
            0 => return Ok((calls[0] > 0).then_some(calls)),
            _ if libc::WEXITSTATUS(status) == UNTRACED => return Ok(None),
            _ => return Err(format!("the session that was traced ended with status {status}")),
        };
        match signal {
            libc::SIGUSR1 => counting = !counting,
            AT_A_CALL if counting && thread != child => {
                if let Some(call) = begun(thread) {
                    let counted = [true, TO_EPOLL.contains(&call), call == libc::SYS_futex];
                    calls.iter_mut().zip(counted).for_each(|(calls, counted)| *calls += u64::from(counted));
                }
            }
            libc::SIGSTOP => {
                // SAFETY: the thread is stopped, and this touches no memory.
                unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, thread, 0_usize, options as usize) };
            }
            _ => {}
        }
        // These are for this process, not for the child.
        let ours = [libc::SIGUSR1, libc::SIGSTOP, libc::SIGTRAP, AT_A_CALL].contains(&signal);
        let signal = if ours { 0 } else { signal as usize };
        // SAFETY: as above.
        unsafe { libc::ptrace(libc::PTRACE_SYSCALL, thread, 0_usize, signal) };
    }
}

// %% [markdown]
// The session is as one that is timed: first the capacity, then requests at the rate, and in the end the proof that all of them
// were answered.

// %%
/// The load under which system calls are counted, in the first part.
const HALF: u64 = 50;

/// Requests that are answered in a second, if so many take so many nanoseconds.
fn able(requests: u64, wall: u64) -> u64 {
    requests * 1_000_000_000 / wall.max(1)
}

impl Part {
    /// Whether system calls are counted under this load.
    fn is_traced(self, load: u64) -> bool {
        (self.name, self.steps, self.connections, load) == (BASE.name, BASE.steps, BASE.connections, HALF)
    }

    /// What a server calls for [`TRACED`] requests at half load; `None` where no process may trace another.
    ///
    /// # Errors
    /// What failed.
    pub fn system_calls(self, server: Server, seed: u64) -> Result<Option<Calls>, String> {
        let session = || {
            let mut session = self.open(server, LONGER * self.steps)?;
            let mut ask = |per_second: u64| {
                let asked = session.ask::<2, { SAID.len() }>(TRACED, [per_second, seed]);
                asked.map(|([wall, ..], ..)| wall).map_err(|error| error.to_string())
            };
            let wall = ask(0)?;
            stop(libc::SIGUSR1);
            ask(able(TRACED, wall) * HALF / 100)?;
            stop(libc::SIGUSR1);
            session.close(&self.key(server, HALF)).map_err(|wrong| wrong.to_string())
        };
        let traced = || {
            let child = fork_traced(session);
            // Elsewhere this process would take time from the generator.
            if let Some([servers, _]) = self.place.processors() {
                let _ = keep_on(&servers);
            }
            trace(child)
        };
        harness::isolated(LIMIT, traced).flatten()
    }
}

// %% [markdown]
// A trial notes with each of its bursts what it found out before: what the server can do, how long the work of a request
// takes, how much memory the connections take, and at half load the system calls.

// %%
impl Part {
    /// One trial at this load, for so long.
    pub fn trial(self, server: Server, load: u64, lasts: Duration, seed: u64, bencher: &mut Bencher) {
        let calls = match self.is_traced(load).then(|| self.system_calls(server, seed)).transpose() {
            Ok(calls) => calls.flatten(),
            Err(wrong) => return bencher.fail(wrong),
        };
        let mut session = match self.open(server, self.steps) {
            Ok(session) => Some(session),
            Err(wrong) => return bencher.fail(wrong),
        };
        let grown = session.as_ref().and_then(|session| session.grown);
        let mut ask = |requests: u64, per_second: u64, seed: u64| {
            let asked = session.as_mut().expect("it is open").ask(requests, [per_second, seed]);
            asked.unwrap_or_else(|error| -> ([u64; SAID.len()], Duration, Duration) {
                let wrong = session.take().and_then(Session::end);
                panic!("{}", wrong.unwrap_or_else(|| error.to_string()))
            })
        };
        let within = |time: Duration, per_second: u64| {
            let requests = least(time).max((per_second as f64 * time.as_secs_f64()) as u64);
            requests.next_multiple_of(self.depth)
        };
        let first = within(lasts, 0);
        let requests = within(lasts / 2, able(first, ask(first, 0, seed).0[0]));
        let mut bursts: [_; BURSTS as usize] = std::array::from_fn(|_| {
            let ([wall, ..], used, _) = ask(requests, 0, seed);
            (able(requests, wall), used.as_nanos() as u64 / requests)
        });
        bursts.sort_unstable();
        let (capacity, full) = bursts[bursts.len() / 2];
        let per_second = (capacity * load / 100).max(1);
        let work = work_ns(Steps(self.steps));
        let mut noted = vec![("capacity_per_s", capacity), ("full_cpu_ns", full), ("work_ns", work)];
        noted.extend(grown.map(|grown| ("memory_bytes", grown)));
        noted.extend(calls.into_iter().flat_map(|calls| CALLS.into_iter().zip(calls)));
        let mut burst = 0;
        bencher.samples(&mut || {
            // The first one warms up.
            let requests = within(if burst > 0 { lasts } else { lasts / 4 }, per_second);
            let seed = seed + burst;
            burst += 1;
            let (said, used, kernel) = ask(requests, per_second, seed);
            let of_burst = [("kernel_ns", kernel.as_nanos() as u64), ("seed", seed)];
            let metrics = SAID.into_iter().zip(said).chain(of_burst).chain(noted.iter().copied());
            metrics.fold(Sample::new(requests, used), |sample, (name, value)| sample.with(name, value))
        });
        if let Some(Err(wrong)) = session.map(|session| session.close(&self.key(server, load))) {
            bencher.fail(wrong.to_string());
        }
    }
}

// %% [markdown]
// # The study
//
// Every server is compared with the loop of its part under the same load. Ways to run tokio are compared with
// `current_thread` as well, that with itself at the lowest load, N runtimes with one of several threads, and ways to compute
// for long with computing in place. With other connections, requests at once or longer answers, each server is compared with
// itself without.

// %%
/// What else a server is compared with, and what changes.
fn others(part: Part, server: Server) -> Vec<(&'static str, &'static str)> {
    match (part.name, server.name) {
        ("disturbed", LOOKING) => vec![(TOKIO_ALONE, "events are looked for after each task")],
        ("disturbed", name) if name.ends_with("event_interval=1") => {
            vec![(YIELDING, "events are looked for after each task")]
        }
        ("disturbed", name) if name.starts_with("tokio +") => {
            vec![(TOKIO_ALONE, "where marked requests compute")]
        }
        ("contended", name) if name.contains("N=") => {
            vec![(TOKIO_THREADS, "runtimes of one thread instead of one of several")]
        }
        (_, TOKIO_THREADS) => vec![(TOKIO_ALONE, "`multi_thread` instead of `current_thread`")],
        (_, LOCAL_SET) => vec![(TOKIO_ALONE, "tasks in a `LocalSet`")],
        (_, "hyper") => vec![(TOKIO_ALONE, "hyper instead of httparse")],
        (_, name) if name.contains("N=") => vec![(TOKIO_ALONE, "how connections are accepted")],
        _ => vec![],
    }
}

// %% [markdown]
// A proof counts for all loads of a server. Each part is a group, with the first server at its lowest load as the control.

// %%
/// All servers under all loads, proven to serve.
///
/// # Errors
/// If the profile that the environment names is none.
pub fn study() -> Result<Study, harness::Error> {
    let lasts = lasting(&harness::Profile::from_env()?.name);
    // One for all trials of a process, so that those of a round have the same arrivals.
    let seed = u64::from(std::process::id());
    let study = Study::new("servers-open").rounds(2, 5).isolated(LIMIT).instructions(false).baseline(LOOP);
    let mut study = study.unit("request").samples(BURSTS).resources().uncounted();
    for part in PARTS {
        let differs = part.differs();
        let more = differs.as_ref().map_or("", |(_, parameter, _)| parameter);
        study = study.group(format!("{} work={}{more}", part.name, part.steps), limit::CROWDS);
        for server in part.servers.iter().copied() {
            let proof = part.prove(server);
            for load in part.loads.iter().copied() {
                let key = part.key(server, load);
                for (other, change) in others(part, server) {
                    let other = Key { variant: other.to_owned(), ..key.clone() };
                    study = study.also_compare(key.clone(), other, change);
                }
                if load > part.loads[0] && server.name == TOKIO_ALONE {
                    let low = part.loads[0];
                    let change = format!("{load} % of its capacity instead of {low} %");
                    study = study.also_compare(key.clone(), part.key(server, low), change);
                }
                if let Some((than, _, change)) = differs.clone() {
                    study = study.also_compare(key.clone(), than.key(server, load), change);
                }
                let trial = move |bencher: &mut Bencher| part.trial(server, load, lasts, seed, bencher);
                study = study.proven(key.clone(), proof.clone(), trial);
                study = study.count(key.clone(), "units", 1);
                if part.is_traced(load) {
                    study = study.count(key.clone(), "traced_requests", TRACED);
                }
                study = study.count(key, "connections", part.connections);
            }
        }
        study = study.control_of(part.key(part.servers[0], part.loads[0]));
    }
    Ok(study)
}

// %% [markdown]
// In the crate: the proofs as tests. Servers with a fault, and one that stalls, are tested in a file of their own.

// %%
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_servers_serve() {
        for part in PARTS {
            part.servers.iter().for_each(|server| part.prove(*server).unwrap());
        }
    }

    #[test]
    fn its_comparisons_make_sense() {
        study().unwrap().comparisons().unwrap();
    }

    #[test]
    fn what_is_said_over_http_is_known_byte_by_byte() {
        let (mut requests, mut answers) = (vec![], vec![]);
        for number in [1, 2] {
            Wire::Http { body: 40 }.compose([10, number], false, [&mut requests, &mut answers]);
        }
        let path = |number| format!("/000000000000000a/000000000000000{number}");
        let of = |number| {
            let path = path(number);
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: */*\r\n\r\n")
        };
        assert_eq!(String::from_utf8(requests).unwrap(), of(1) + &of(2));
        let of = |number| format!("HTTP/1.1 200 OK\r\ncontent-length: 40\r\n\r\n{}......", path(number));
        assert_eq!(String::from_utf8(answers).unwrap(), of(1) + &of(2));
    }

    #[test]
    fn arrivals_come_at_the_rate_and_are_those_of_the_seed() {
        let (times, other) = (arrivals(100_000, 50_000, 3), arrivals(100_000, 50_000, 4));
        assert_eq!(times, arrivals(100_000, 50_000, 3));
        assert_ne!(times, other);
        assert!(times.is_sorted());
        let seconds = times[99_999] as f64 / 1e9;
        assert!((1.96..2.04).contains(&seconds), "{seconds}");
        // Of exponential gaps, those below the mean are 1 - 1/e of all.
        let short = times.windows(2).filter(|pair| pair[1] - pair[0] < 20_000).count();
        assert!((62_000..64_500).contains(&short), "{short}");
        assert_eq!(arrivals(3, 0, 3), [0, 0, 0]);
    }
}

// %% [markdown]
// # A glance
//
// What some servers take for a request of HTTP, at 80 % of their capacity. Choose another part or load, and run the cell again.

// %% tags=["active-ipynb", "glance"]
// study().unwrap_or_else(harness::stop).glance(|key| key.bench == "http").unwrap_or_else(harness::stop)

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
// The [analysis](../open-loop/analysis.ipynb) shows percentiles by load, and says of which the generator was late.
//
// # What this does not say
//
// - Two processors of a small cloud machine are often two hardware threads of one core: a generator that never sleeps
//   then takes part of the server's core.
// - A burst lasts a fraction of a second. Its p99.9 is one request or two, and what happens once a minute is in none.
// - Capacity is measured in each trial, to within some per cent. At 95 % that is the difference between a queue that ends and
//   one that grows.
// - Requests and generator are on one machine, without a network.
//
// # What next
//
// - Let hyper write all answers to requests that came at once together (`pipeline_flush`).
// - Set `global_queue_interval` in `looking`, and see who waits longer.
