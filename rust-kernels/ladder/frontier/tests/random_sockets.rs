//! Random programs on real sockets: tasks that read, write, wait, give up, select, panic, and panic when they are
//! dropped, in chains, with wakers of their own and from other threads. Each ends, drops each of its tasks once, leaves
//! neither a waker nor a place behind, and nobody waits for what is there.
//!
//! The first 300 programs, and those that failed once; for `ASYNC_COST_SOAK_S` seconds those from `ASYNC_COST_SOAK_SEED`
//! on. A program depends on its seed alone, but for what the kernel and other threads do; a failure names it.

mod common;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use common::{Foreign, Task, poll_once, seeds, yield_now};
use frontier::{Epoll, Executor, Io, Reactor, tried};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use zero_cost_loop::Timed;

/// Programs that failed once.
const FAILED: [u64; 0] = [];
const PROGRAMS: u64 = 300;
/// Of a program.
const TASKS: usize = 8;
const STREAMS: usize = 4;
/// Checks of a system that does nothing more, each a millisecond later, after which it never will.
const CHECKS: usize = 300;

/// A panic of the program.
struct Planned;

fn throw() -> ! {
    resume_unwind(Box::new(Planned))
}

/// A xorshift generator: the same programs on each machine.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 8) as usize % sides
    }
}

/// A socket of either kind.
enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    fn pair(tcp: bool) -> io::Result<(Self, Self)> {
        if tcp {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            let client = TcpStream::connect(listener.local_addr()?)?;
            let (server, _) = listener.accept()?;
            server.set_nonblocking(true)?;
            client.set_nonblocking(true)?;
            return Ok((Self::Tcp(server), Self::Tcp(client)));
        }
        let (one, two) = UnixStream::pair()?;
        one.set_nonblocking(true)?;
        two.set_nonblocking(true)?;
        Ok((Self::Unix(one), Self::Unix(two)))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(socket) => socket.as_fd(),
            Self::Tcp(socket) => socket.as_fd(),
        }
    }
}

impl Read for &Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(socket) => (&*socket).read(buffer),
            Socket::Tcp(socket) => (&*socket).read(buffer),
        }
    }
}

impl Write for &Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(socket) => (&*socket).write(bytes),
            Socket::Tcp(socket) => (&*socket).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

type Sockets = Reactor<Epoll<Shared>, Timed<()>>;
type Stream<'r> = Io<'r, Epoll<Shared>, Timed<()>>;

/// Ours, which the hook reads, too.
struct Shared(Rc<Socket>);

impl AsFd for Shared {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Read for &Shared {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self.0).read(buffer)
    }
}

impl Write for &Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a task waits for and has not got.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Waits {
    Nothing,
    ToRead,
    ToWrite,
    ForPost,
    ForTask(usize),
}

/// How an operation is polled.
#[derive(Clone, Copy, Debug)]
enum Way {
    Await,
    /// Every second time with a waker of its own.
    Forwarded,
    GiveUp,
    GiveUpForwarded,
    /// With a waker that passes the wake on and panics then.
    Loud,
    /// First with a waker that panics when it is dropped: replaced, or given up with the operation.
    Unruly,
    /// Given up when the task's semaphore is posted.
    Select,
}

/// Passes wakes on. It panics when it has, or when it is dropped.
struct Hostile {
    inner: Waker,
    dropped: bool,
}

impl Wake for Hostile {
    fn wake(self: Arc<Self>) {
        self.inner.wake_by_ref();
        if !self.dropped {
            throw();
        }
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        if self.dropped {
            throw();
        }
    }
}

/// Semaphores, which other threads post.
#[derive(Default)]
struct Semaphore {
    posts: usize,
    waker: Option<Waker>,
}

type Semaphores = Arc<[Mutex<Semaphore>; TASKS]>;

fn post(semaphores: &Semaphores, task: usize) {
    let waker = {
        let mut semaphore = semaphores[task].lock().expect("a semaphore");
        semaphore.posts += 1;
        semaphore.waker.clone() // it is used again when its task is long gone
    };
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Both ends of a stream, and the next byte that each writes and reads.
struct Peer {
    ours: Rc<Socket>,
    theirs: RefCell<Option<Socket>>,
    we_write: Cell<u8>,
    we_read: Cell<u8>,
    they_write: Cell<u8>,
    they_read: Cell<u8>,
}

/// Bytes that go on where the last ones ended.
fn bytes(next: &Cell<u8>, length: usize) -> Vec<u8> {
    (0..length).map(|index| next.get().wrapping_add(index as u8)).collect()
}

/// So many of them went.
fn advance(next: &Cell<u8>, length: usize) {
    next.set(next.get().wrapping_add(length as u8));
}

struct World {
    semaphores: Semaphores,
    peers: Vec<Peer>,
    waits: [Cell<Waits>; TASKS],
    /// Times a task was started and dropped.
    started: [Cell<u32>; TASKS],
    dropped: [Cell<u32>; TASKS],
    /// Wakers of those who wait for the end of a task.
    ends: [RefCell<Vec<Waker>>; TASKS],
    requests: RefCell<Vec<usize>>,
    root: RefCell<Option<Waker>>,
    foreign: RefCell<Vec<Arc<Foreign>>>,
    threads: RefCell<Vec<JoinHandle<()>>>,
    root_panics: Cell<bool>,
    ending: Cell<bool>,
}

impl World {
    fn forward(&self, inner: &Waker) -> Waker {
        let foreign = Foreign::new(Some(inner.clone()));
        self.foreign.borrow_mut().push(Arc::clone(&foreign));
        Waker::from(foreign)
    }

    fn wake_root(&self) {
        if let Some(waker) = &*self.root.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Whether somebody waits for what is there, and who.
    fn forgotten(&self) -> Option<(usize, Waits)> {
        let all = self.waits.iter().map(Cell::get).enumerate();
        all.filter(|&(task, _)| self.started[task].get() > self.dropped[task].get()).find(|&(task, waits)| {
            let ready = |flags| {
                let socket = &self.peers[task % STREAMS].ours;
                let mut state = [PollFd::new(socket, flags)];
                poll(&mut state, Some(&Timespec::default())).expect("a state");
                state[0].revents().intersects(flags)
            };
            match waits {
                Waits::Nothing => true,
                Waits::ToRead => ready(PollFlags::IN),
                Waits::ToWrite => ready(PollFlags::OUT),
                Waits::ForPost => self.semaphores[task].lock().expect("a semaphore").posts > 0,
                Waits::ForTask(other) => self.dropped[other].get() > 0,
            }
        })
    }
}

/// Polls an operation in some way; `None` if it was given up.
async fn in_some_way<F: Future>(
    world: &World,
    task: usize,
    way: Way,
    waits: Waits,
    operation: F,
) -> Option<F::Output> {
    let mut operation = pin!(operation);
    world.waits[task].set(waits);
    let mut polls = 0;
    let outcome = poll_fn(|context| {
        polls += 1;
        let foreign = match way {
            Way::GiveUpForwarded => Some(world.forward(context.waker())),
            Way::Forwarded if polls % 2 == 1 => Some(world.forward(context.waker())),
            // Wakers that others keep are of no concern to the reactor.
            Way::Loud | Way::Unruly if !matches!(waits, Waits::ToRead | Waits::ToWrite) => None,
            Way::Loud => {
                Some(Waker::from(Arc::new(Hostile { inner: context.waker().clone(), dropped: false })))
            }
            Way::Unruly if polls == 1 => {
                context.waker().wake_by_ref();
                Some(Waker::from(Arc::new(Hostile { inner: context.waker().clone(), dropped: true })))
            }
            _ => None,
        };
        let poll = match foreign {
            Some(waker) => {
                let poll = operation.as_mut().poll(&mut Context::from_waker(&waker));
                // It may be the last reference.
                let _ours = catch_unwind(AssertUnwindSafe(|| drop(waker)));
                poll
            }
            None => operation.as_mut().poll(context),
        };
        let posted = || {
            let mut semaphore = world.semaphores[task].lock().expect("a semaphore");
            semaphore.waker = Some(context.waker().clone());
            let posted = semaphore.posts > 0;
            semaphore.posts -= usize::from(posted);
            posted
        };
        match poll {
            Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
            Poll::Pending if matches!(way, Way::GiveUp | Way::GiveUpForwarded) => Poll::Ready(None),
            Poll::Pending if matches!(way, Way::Select) && posted() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await;
    world.waits[task].set(Waits::Nothing);
    outcome
}

/// Waits until the task's semaphore is posted.
fn posted(world: &World, task: usize) -> impl Future<Output = ()> + '_ {
    poll_fn(move |context| {
        let mut semaphore = world.semaphores[task].lock().expect("a semaphore");
        semaphore.waker = Some(context.waker().clone());
        if semaphore.posts == 0 && !world.ending.get() {
            return Poll::Pending;
        }
        semaphore.posts = semaphore.posts.saturating_sub(1);
        Poll::Ready(())
    })
}

/// Waits until a task that was started is dropped.
fn end_of(world: &World, task: usize) -> impl Future<Output = ()> + '_ {
    poll_fn(move |context| {
        if world.dropped[task].get() > 0 || world.ending.get() {
            return Poll::Ready(());
        }
        world.ends[task].borrow_mut().push(context.waker().clone());
        Poll::Pending
    })
}

/// Says that its task is dropped, and may panic then.
struct End<'w> {
    world: &'w World,
    task: usize,
    panics: bool,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        let dropped = &self.world.dropped[self.task];
        dropped.set(dropped.get() + 1);
        let waiting = self.world.ends[self.task].take();
        waiting.into_iter().for_each(Waker::wake);
        if self.panics {
            throw();
        }
    }
}

/// What a task does. Tasks beyond the streams have none.
async fn act<'r>(
    world: &World,
    reactor: &'r Sockets,
    task: usize,
    mut dice: Dice,
    mut stream: Option<Stream<'r>>,
) {
    for _ in 0..dice.roll(14) {
        let way = match dice.roll(12) {
            0..4 => Way::Await,
            4..6 => Way::Forwarded,
            6 => Way::GiveUp,
            7 => Way::GiveUpForwarded,
            8 => Way::Loud,
            9 => Way::Unruly,
            _ => Way::Select,
        };
        let step = dice.roll(40);
        match (step, &mut stream) {
            (0..18, Some(stream)) => {
                let peer = &world.peers[task % STREAMS];
                if step < 10 {
                    let mut buffer = vec![0; [0, 1, 7, 64, 4096][dice.roll(5)]];
                    let outcome = if step < 7 {
                        in_some_way(world, task, way, Waits::ToRead, stream.read(&mut buffer)).await
                    } else {
                        let read = stream.attempt(|mut stream| match buffer.len() {
                            0 => Ok(Ok(0)),
                            _ => tried(stream.read(&mut buffer)),
                        });
                        in_some_way(world, task, way, Waits::ToRead, read).await
                    };
                    let Some(Ok(length)) = outcome else { continue };
                    assert_eq!(buffer[..length], bytes(&peer.we_read, length), "what was sent, in order");
                    advance(&peer.we_read, length);
                } else {
                    let bytes = bytes(&peer.we_write, [0, 1, 100, 1 << 16, 1 << 19][dice.roll(5)]);
                    let outcome = in_some_way(world, task, way, Waits::ToWrite, stream.write(&bytes)).await;
                    let Some(Ok(length)) = outcome else { continue };
                    advance(&peer.we_write, length);
                }
            }
            (18..23, _) => drop(in_some_way(world, task, way, Waits::ForPost, posted(world, task)).await),
            (23..26, _) => {
                // Tasks wait for earlier ones, so that there is no ring.
                let other = dice.roll(TASKS);
                if other < task && world.started[other].get() > 0 {
                    in_some_way(world, task, way, Waits::ForTask(other), end_of(world, other)).await;
                }
            }
            (26..29, _) => post(&world.semaphores, dice.roll(TASKS)),
            (29..31, _) => {
                let (semaphores, other) = (Arc::clone(&world.semaphores), dice.roll(TASKS));
                world.threads.borrow_mut().push(thread::spawn(move || post(&semaphores, other)));
            }
            (31..34, _) => {
                world.requests.borrow_mut().push(dice.roll(TASKS));
                world.wake_root();
            }
            (34..36, _) => {
                // A place of its own for a while.
                let Ok((ours, _theirs)) = Socket::pair(false) else { continue };
                let Ok(mut other) = Io::in_entry(reactor, Shared(Rc::new(ours)), ()) else { continue };
                let waker = poll_fn(|context| Poll::Ready(world.forward(context.waker()))).await;
                assert!(poll_once(other.read(&mut [0; 8]), Some(&waker)).await.is_pending());
                yield_now(dice.roll(3)).await;
            }
            (39, _) => throw(),
            _ => yield_now(1 + dice.roll(2)).await,
        }
        if world.ending.get() {
            return;
        }
    }
}

/// What happens from outside, when nobody has anything to do.
fn meddle(world: &World, dice: &mut Dice) {
    world.threads.borrow_mut().drain(..).for_each(|thread| thread.join().expect("it posts"));
    let peer = &world.peers[dice.roll(STREAMS)];
    let theirs = peer.theirs.borrow();
    match (dice.roll(16), &*theirs) {
        (0..6, Some(socket)) => {
            let bytes = bytes(&peer.they_write, [1, 7, 64, 5000][dice.roll(4)]);
            advance(&peer.they_write, (&*socket).write(&bytes).unwrap_or(0));
        }
        (6..11, Some(socket)) => {
            let mut buffer = vec![0; [1, 1000, 1 << 20][dice.roll(3)]];
            let length = (&*socket).read(&mut buffer).unwrap_or(0);
            assert_eq!(buffer[..length], bytes(&peer.they_read, length), "what was written, in order");
            advance(&peer.they_read, length);
        }
        (11, Some(socket)) if dice.roll(3) == 0 => {
            // The last bytes and the end may come as one event.
            let bytes = bytes(&peer.they_write, dice.roll(3));
            advance(&peer.they_write, (&*socket).write(&bytes).unwrap_or(0));
            drop(theirs);
            peer.theirs.take();
        }
        (12, _) => world.root_panics.set(dice.roll(3) == 0),
        (13..16, _) => post(&world.semaphores, dice.roll(TASKS)),
        _ => {}
    }
}

/// Runs the program of `seed` to its end.
fn run(seed: u64) {
    let mut dice = Dice::new(seed);
    let pairs: Vec<_> = (0..STREAMS).map(|_| Socket::pair(dice.roll(2) == 0).expect("two sockets")).collect();
    let peer = |(ours, theirs)| Peer {
        ours: Rc::new(ours),
        theirs: RefCell::new(Some(theirs)),
        we_write: Cell::new(0),
        we_read: Cell::new(0),
        they_write: Cell::new(100),
        they_read: Cell::new(0),
    };
    let world = World {
        semaphores: Arc::new(std::array::from_fn(|_| Mutex::default())),
        peers: pairs.into_iter().map(peer).collect(),
        waits: [const { Cell::new(Waits::Nothing) }; TASKS],
        started: [const { Cell::new(0) }; TASKS],
        dropped: [const { Cell::new(0) }; TASKS],
        ends: [const { RefCell::new(Vec::new()) }; TASKS],
        requests: RefCell::new((0..TASKS).filter(|_| dice.roll(3) > 0).collect()),
        root: RefCell::new(None),
        foreign: RefCell::new(Vec::new()),
        threads: RefCell::new(Vec::new()),
        root_panics: Cell::new(false),
        ending: Cell::new(false),
    };
    world.peers.iter().for_each(|peer| peer.we_read.set(100));
    let reactor = Sockets::new(Epoll::new().expect("an epoll"), STREAMS + 2).expect("room");
    let streams: Vec<_> = world
        .peers
        .iter()
        .map(|peer| Io::in_entry(&reactor, Shared(Rc::clone(&peer.ours)), ()).expect("room"))
        .map(|stream| RefCell::new(Some(stream)))
        .collect();
    let executor = Executor::<_, Task<'_>, _>::new(&reactor, TASKS);
    let start = |task: usize| {
        if world.started[task].replace(1) > 0 {
            return;
        }
        let stream = streams.get(task).and_then(RefCell::take);
        let end = End { world: &world, task, panics: Dice::new(seed ^ task as u64).roll(12) == 0 };
        let acts = act(&world, &reactor, task, Dice::new(seed + 1000 * task as u64), stream);
        // Not by an async block, in which the end would come while its panic is on its way.
        let mut both = (Box::pin(acts), end);
        let both = poll_fn(move |context| {
            let both = &mut both;
            both.0.as_mut().poll(context)
        });
        executor.spawn(|| Box::pin(both)).expect("room for all tasks");
    };
    let (releases, given_up) = (!seed.is_multiple_of(3), Cell::new(false));
    let mut actions = dice.roll(60);
    let (mut checks, mut quiet) = (0, 0);
    let mut hook = || {
        if world.ending.get() {
            return;
        }
        if actions > 0 {
            actions -= 1;
            meddle(&world, &mut dice);
            let Some(root) = world.root.borrow().clone() else { return };
            if dice.roll(4) == 0 {
                world.threads.borrow_mut().push(thread::spawn(|| root.wake()));
            } else {
                root.wake();
            }
            return;
        }
        world.threads.borrow_mut().drain(..).for_each(|thread| thread.join().expect("it posts"));
        if let Some(forgotten) = world.forgotten() {
            checks += 1;
            assert!(checks < CHECKS, "somebody waits for what is there: {forgotten:?}");
            (quiet, actions) = (0, 0);
            thread::sleep(Duration::from_millis(1));
        } else {
            quiet += 1;
        }
        if quiet == 3 {
            if !releases {
                given_up.set(true);
            }
            world.ending.set(releases);
            world.peers.iter().for_each(|peer| drop(peer.theirs.take()));
            (0..TASKS).for_each(|task| post(&world.semaphores, task));
            let waiting: Vec<_> = world.ends.iter().flat_map(RefCell::take).collect();
            waiting.into_iter().for_each(Waker::wake);
        }
        world.wake_root();
    };
    loop {
        let root = poll_fn(|context| {
            *world.root.borrow_mut() = Some(context.waker().clone());
            if given_up.get() || world.root_panics.take() {
                throw();
            }
            let requests = world.requests.take();
            requests.into_iter().for_each(start);
            if world.ending.get() { Poll::Ready(()) } else { Poll::Pending }
        });
        match catch_unwind(AssertUnwindSafe(|| executor.run_with(root, &mut hook))) {
            Ok(()) => break assert!(executor.is_empty()),
            Err(thrown) if !thrown.is::<Planned>() => resume_unwind(thrown),
            Err(_) if given_up.get() => break,
            Err(_) => {}
        }
    }
    if let Err(thrown) = catch_unwind(AssertUnwindSafe(|| drop(executor))) {
        assert!(thrown.is::<Planned>(), "a task panics when it is dropped");
    }
    world.threads.take().into_iter().for_each(|thread| thread.join().expect("it posts"));
    for task in 0..TASKS {
        assert_eq!(world.started[task].get(), world.dropped[task].get(), "ends of task {task}");
        world.semaphores[task].lock().expect("a semaphore").waker = None;
        world.ends[task].take();
    }
    assert!(world.foreign.borrow().iter().all(|foreign| Arc::strong_count(foreign) == 1), "a waker is kept");
    drop(streams);
    let places = (0..STREAMS + 2).map(|_| {
        let (ours, _) = Socket::pair(false).expect("two sockets");
        Io::in_entry(&reactor, Shared(Rc::new(ours)), ()).expect("all places are vacant")
    });
    assert_eq!(places.collect::<Vec<_>>().len(), STREAMS + 2);
}

#[test]
fn random_programs_on_sockets_end_and_leave_nothing() {
    let (done, wait) = channel();
    let programs = thread::spawn(move || {
        for seed in FAILED.into_iter().chain(seeds(PROGRAMS)) {
            let outcome = catch_unwind(|| run(seed));
            if outcome.is_err() {
                eprintln!("program {seed} fails");
            }
            let _sent = done.send(seed);
            outcome.unwrap_or_else(|thrown| resume_unwind(thrown));
        }
    });
    let mut last = None;
    loop {
        match wait.recv_timeout(Duration::from_secs(60)) {
            Ok(seed) => last = Some(seed),
            Err(RecvTimeoutError::Timeout) => panic!("the program after {last:?} does not end"),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    if let Err(thrown) = programs.join() {
        resume_unwind(thrown);
    }
    eprintln!("the last program was {last:?}");
}
