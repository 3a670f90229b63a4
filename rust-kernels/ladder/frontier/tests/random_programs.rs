//! Random programs of tasks that spawn, post, wait, yield and panic end in the same state on the frontier as on an
//! executor that is too simple to be wrong.
//!
//! Tasks talk through semaphores with one consumer each, so the end of a program does not depend on the order of
//! polls, and two executors can be compared although they poll in different orders.

mod common;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle};

use common::seeds;
use frontier::{Executor, Reactor};
use zero_cost_loop::Timed;

/// Tasks of a program; the first three are there from the beginning.
const TASKS: usize = 24;
const PROGRAMS: u64 = if cfg!(miri) { 3 } else { 400 };

/// Polls of the root without news after which nothing will ever happen. The frontier looks for wakes from other threads
/// when nobody is awake or its patience ends, which is after some 250 polls.
const IDLE: usize = 1200;

/// What a task does next.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Starts a task, unless it was started.
    Spawn(usize),
    /// Adds to a task's semaphore and wakes whoever left a waker there, be he alive or not.
    Post(usize),
    /// The same, on a thread of its own.
    PostElsewhere(usize),
    /// Takes one from its own semaphore, or waits for it.
    Wait,
    /// Wakes itself and waits to be polled.
    Yield,
    /// Wakes itself twice, clones and drops some wakers, and goes on.
    Juggle,
    Panic,
}

/// A xorshift generator: the same programs on each machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }

    fn step(&mut self) -> Step {
        match self.roll(40) {
            0..8 => Step::Spawn(self.roll(TASKS)),
            8..18 => Step::Post(self.roll(TASKS)),
            18..20 => Step::PostElsewhere(self.roll(TASKS)),
            20..29 => Step::Wait,
            29..35 => Step::Yield,
            35..39 => Step::Juggle,
            _ => Step::Panic,
        }
    }
}

type Program = Arc<Vec<Vec<Step>>>;

fn program(seed: u64) -> Program {
    let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    Arc::new((0..TASKS).map(|_| (0..dice.roll(12)).map(|_| dice.step()).collect()).collect())
}

/// How far a task has come: steps done, and whether it has started and its future was dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Fate {
    started: usize,
    steps: usize,
    panicked: bool,
    dropped: usize,
}

#[derive(Default)]
struct World {
    fates: Vec<Fate>,
    semaphores: Vec<usize>,
    wakers: Vec<Option<Waker>>,
    /// Tasks that somebody wants to be spawned.
    requests: VecDeque<usize>,
    threads: Vec<JoinHandle<()>>,
    ending: bool,
}

#[derive(Clone)]
struct Shared(Arc<Mutex<World>>);

impl Shared {
    fn new() -> Self {
        let world = World {
            fates: vec![Fate::default(); TASKS],
            semaphores: vec![0; TASKS],
            wakers: vec![None; TASKS],
            requests: (0..3).collect(),
            ..World::default()
        };
        Self(Arc::new(Mutex::new(world)))
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn post(&self, task: usize) {
        let waker = {
            let mut world = self.lock();
            world.semaphores[task] += 1;
            // The waker stays, and will be used again when its task is long gone.
            world.wakers[task].clone()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The next task to be spawned.
    fn request(&self) -> Option<usize> {
        let mut world = self.lock();
        loop {
            let task = world.requests.pop_front()?;
            if world.fates[task].started == 0 {
                world.fates[task].started = 1;
                return Some(task);
            }
        }
    }

    fn progress(&self) -> (usize, usize) {
        let world = self.lock();
        (world.fates.iter().map(|fate| fate.steps + fate.started).sum(), world.requests.len())
    }

    fn join_threads(&self) -> bool {
        let threads = std::mem::take(&mut self.lock().threads);
        let any = !threads.is_empty();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        any
    }
}

/// A task of a program.
struct Actor {
    number: usize,
    program: Program,
    shared: Shared,
    yielded: bool,
}

impl Future for Actor {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let number = self.number;
            let mut world = self.shared.lock();
            let done = world.fates[number].steps;
            let Some(&step) = self.program[number].get(done) else { return Poll::Ready(()) };
            if world.ending {
                return Poll::Ready(());
            }
            match step {
                Step::Spawn(task) => world.requests.push_back(task),
                Step::Post(task) => {
                    drop(world);
                    self.shared.post(task);
                    world = self.shared.lock();
                }
                Step::PostElsewhere(task) => {
                    let shared = self.shared.clone();
                    world.threads.push(thread::spawn(move || shared.post(task)));
                }
                Step::Wait if world.semaphores[number] > 0 => world.semaphores[number] -= 1,
                Step::Wait => {
                    world.wakers[number] = Some(context.waker().clone());
                    return Poll::Pending;
                }
                Step::Yield => {
                    drop(world);
                    if !self.yielded {
                        self.yielded = true;
                        context.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    self.yielded = false;
                    world = self.shared.lock();
                }
                Step::Juggle => {
                    let clones: Vec<_> = (0..3).map(|_| context.waker().clone()).collect();
                    context.waker().wake_by_ref();
                    clones.into_iter().for_each(Waker::wake);
                }
                Step::Panic => {
                    world.fates[number].panicked = true;
                    world.fates[number].steps += 1;
                    drop(world);
                    resume_unwind(Box::new("as programmed"));
                }
            }
            world.fates[number].steps += 1;
        }
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.shared.lock().fates[self.number].dropped += 1;
    }
}

fn actor(number: usize, program: &Program, shared: &Shared) -> Actor {
    Actor { number, program: Arc::clone(program), shared: shared.clone(), yielded: false }
}

/// What the frontier makes of it: the fates when nothing moves any more, then after all is dropped.
fn on_frontier(program: &Program, release: bool) -> [Vec<Fate>; 2] {
    let shared = Shared::new();
    let reactor = Reactor::<_, Timed<()>>::new((), 0).expect("room for nothing");
    let executor = Executor::new(&reactor, TASKS);
    let mut at_rest = None;
    loop {
        let (mut before, mut idle) = (None, 0);
        let root = std::future::poll_fn(|context| {
            context.waker().wake_by_ref();
            while let Some(task) = shared.request() {
                executor.spawn(|| actor(task, program, &shared)).unwrap();
            }
            let now = Some(shared.progress());
            idle = if shared.join_threads() || now != before { 0 } else { idle + 1 };
            before = now;
            if idle < IDLE {
                return Poll::Pending;
            }
            at_rest.get_or_insert_with(|| shared.lock().fates.clone());
            if !release {
                resume_unwind(Box::new("enough"));
            }
            shared.lock().ending = true;
            let wakers: Vec<_> = shared.lock().wakers.iter().flatten().cloned().collect();
            wakers.into_iter().for_each(Waker::wake);
            Poll::Ready(())
        });
        let outcome = catch_unwind(AssertUnwindSafe(|| executor.run(root)));
        if outcome.is_ok() || at_rest.is_some() {
            break;
        }
    }
    assert!(executor.is_empty() || !release, "a task was forgotten");
    drop(executor);
    let wakers: Vec<_> = shared.lock().wakers.iter().flatten().cloned().collect();
    wakers.into_iter().for_each(Waker::wake);
    let dropped = shared.lock().fates.clone();
    [at_rest.unwrap(), dropped]
}

/// A queue, a mutex, and an `Arc` for each wake.
struct Simple {
    queue: Arc<Mutex<VecDeque<usize>>>,
}

struct SimpleWaker {
    task: usize,
    queue: Arc<Mutex<VecDeque<usize>>>,
    wakes: AtomicUsize,
}

impl Wake for SimpleWaker {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, Ordering::Relaxed);
        self.queue.lock().unwrap().push_back(self.task);
    }
}

/// What the simple executor makes of it.
fn on_simple(program: &Program) -> Vec<Fate> {
    let shared = Shared::new();
    let simple = Simple { queue: Arc::default() };
    let mut tasks: Vec<Option<Pin<Box<Actor>>>> = (0..TASKS).map(|_| None).collect();
    loop {
        while let Some(task) = shared.request() {
            tasks[task] = Some(Box::pin(actor(task, program, &shared)));
            simple.queue.lock().unwrap().push_back(task);
        }
        let next = simple.queue.lock().unwrap().pop_front();
        if let Some(task) = next {
            let Some(future) = &mut tasks[task] else { continue };
            let wakes = AtomicUsize::new(0);
            let waker = Waker::from(Arc::new(SimpleWaker { task, queue: Arc::clone(&simple.queue), wakes }));
            let poll = || future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
            if catch_unwind(AssertUnwindSafe(poll)).unwrap_or(true) {
                tasks[task] = None;
            }
        } else if !shared.join_threads() && shared.lock().requests.is_empty() {
            let idle = simple.queue.lock().unwrap().is_empty();
            if idle {
                return shared.lock().fates.clone();
            }
        }
    }
}

/// The fates without what depends on when the executor was dropped.
fn without_drops(fates: &[Fate]) -> Vec<Fate> {
    fates.iter().map(|fate| Fate { dropped: 0, ..fate.clone() }).collect()
}

#[test]
fn random_programs_end_as_on_a_simple_executor() {
    for seed in seeds(PROGRAMS) {
        let program = program(seed);
        let expected = on_simple(&program);
        let [at_rest, dropped] = on_frontier(&program, seed % 2 == 0);
        assert_eq!(at_rest, expected, "program {seed}: {program:?}");
        assert_eq!(without_drops(&dropped), without_drops(&at_rest), "program {seed}: moved after its end");
        for (task, fate) in dropped.iter().enumerate() {
            assert_eq!(fate.dropped, fate.started, "program {seed}: drops of task {task}");
        }
    }
}

#[test]
fn the_programs_are_worth_running() {
    let fates: Vec<Fate> = (1..=PROGRAMS).flat_map(|seed| on_simple(&program(seed))).collect();
    let share = |what: fn(&Fate) -> bool| fates.iter().filter(|fate| what(fate)).count() * 100 / fates.len();
    assert!(share(|fate| fate.started == 1) > 20, "few tasks start");
    assert!(share(|fate| fate.started > fate.dropped) > 2, "few tasks wait for ever");
    assert!(share(|fate| fate.panicked) > 0, "none panics");
}
