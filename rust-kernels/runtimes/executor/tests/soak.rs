//! Random programs: tasks that spawn, await, let go, wake each other, sleep, time out, cancel, block and panic, in polls,
//! destructors and wakers, that hold each other's handles and wakers in chains, trees and cycles, while threads outside
//! join in, roots and callers block, and the runtime is dropped in the middle, by itself or by others. Every task ends as
//! it should, its future is dropped once, and neither a thread nor a waker is left.
//!
//! Those that failed once, and then new ones for ten seconds, or `ASYNC_COST_SOAK_S` of them. A program depends on its
//! seed alone, which a failure names; `ASYNC_COST_SOAK_SEED` begins with it.

use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

mod common;
#[path = "../../../random.rs"]
mod random;

use common::{block_on, yield_now};
use random::Random;
use runtimes_executor::{JoinError, JoinHandle, Runtime, Settings, sleep, spawn, spawn_blocking, timeout};

/// A program that takes longer hangs: it takes milliseconds, and some seconds under a sanitizer.
const LIMIT: Duration = Duration::from_secs(60);
/// Programs that failed once.
const FAILED: [u64; 0] = [];
/// Wakers that are kept for others to use.
const SLOTS: usize = 8;

/// What all tasks of a program share.
#[derive(Default)]
struct World {
    begun: AtomicUsize,
    dropped: AtomicUsize,
    wakers: Mutex<[Option<Waker>; SLOTS]>,
    /// Whether a task blocks its thread; one may if there are several workers.
    blocks: AtomicBool,
    runtime: Mutex<Weak<Runtime>>,
}

impl World {
    fn wake(&self, slot: u64) {
        let waker = self.wakers.lock().unwrap()[slot as usize].take();
        waker.into_iter().for_each(Waker::wake);
    }
}

/// Part of each task's future.
struct Counted(Arc<World>);

impl Counted {
    fn new(world: &Arc<World>) -> Self {
        world.begun.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(world))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

/// A task's future in a box, as tasks spawn tasks.
type Program = Pin<Box<dyn Future<Output = u64> + Send>>;

/// Whether a task or a call of this number panics with it: some at their end, some tasks when they are dropped.
fn is_odd(number: u64) -> bool {
    number % 2 == 1
}

fn is_unruly(number: u64) -> bool {
    number % 8 == 6
}

/// A future, and a destructor that may panic. (Not while it panics already: that would abort.)
struct Unruly(Program, u64);

impl Future for Unruly {
    type Output = u64;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<u64> {
        self.0.as_mut().poll(context)
    }
}

impl Drop for Unruly {
    fn drop(&mut self) {
        if is_unruly(self.1) && !thread::panicking() {
            panic_any(self.1);
        }
    }
}

/// A future within that of another task, which it leaves in peace.
struct Within(Option<Program>);

impl Within {
    /// Polls it; whether that was the last time.
    fn poll(&mut self, context: &mut Context<'_>) -> bool {
        let future = self.0.as_mut().expect("it is there until it is dropped").as_mut();
        catch_unwind(AssertUnwindSafe(|| future.poll(context))).map_or(true, |polled| polled.is_ready())
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        let _ = catch_unwind(AssertUnwindSafe(|| drop(self.0.take())));
    }
}

/// A waker that panics: when it wakes, or else when it is dropped.
struct Hostile(bool);

impl Wake for Hostile {
    fn wake(self: Arc<Self>) {
        if self.0 {
            panic_any(0_u64);
        }
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        if !self.0 {
            panic_any(0_u64);
        }
    }
}

/// A waker in a waker.
struct Wraps(Waker);

impl Wake for Wraps {
    fn wake(self: Arc<Self>) {
        self.0.wake_by_ref();
    }
}

/// Its poll may panic, and it always does when it is dropped, as its output does.
struct Doubly(#[allow(dead_code, reason = "counted")] Counted, Option<Bomb>);

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic_any(0_u64);
    }
}

impl Future for Doubly {
    type Output = Bomb;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Bomb> {
        if self.1.is_some() {
            return Poll::Ready(Bomb);
        }
        panic_any(0_u64);
    }
}

/// Does something when it is dropped, in whichever moment that is: spawns, makes a call, blocks on its runtime or the
/// thread, which may end the runtime, or leaves another of its kind in a task, a call or an output.
struct Acts(Arc<World>, Random, u64);

impl Acts {
    fn new(world: &Arc<World>, random: &mut Random) -> Self {
        Self(Arc::clone(world), random.fork(), 3)
    }

    fn act(&mut self) {
        let Self(world, random, left) = self;
        let counted = Counted::new(world);
        let task = async move {
            let _counted = counted;
            yield_now().await;
        };
        let next = || Self(Arc::clone(world), Random(random.0 + 1), *left - 1);
        match random.clone().below(8) {
            0 => drop(spawn(task)),
            1 => drop(spawn_blocking(move || drop(task))),
            2 => {
                let runtime = world.runtime.lock().unwrap().upgrade();
                if let Some(runtime) = runtime {
                    let _ended = runtime.block_on(async { spawn(task).await });
                }
            }
            3 if !world.blocks.swap(true, Ordering::SeqCst) => {
                let _ended = catch_unwind(|| _ = block_on(spawn(task)));
                world.blocks.store(false, Ordering::SeqCst);
            }
            4 if *left > 0 => {
                let next = next();
                drop(spawn(async move { drop(next) }));
            }
            5 if *left > 0 => {
                let next = next();
                drop(spawn_blocking(move || next));
            }
            6 if *left > 0 => {
                let next = next();
                let _ended = spawn(async move { next });
            }
            _ => {}
        }
    }
}

impl Drop for Acts {
    fn drop(&mut self) {
        // The thread may belong to no runtime.
        let _ = catch_unwind(AssertUnwindSafe(|| self.act()));
    }
}

/// A task that draws what it does. Its output is its number, unless it panics with that.
fn program(world: &Arc<World>, mut random: Random, depth: u64) -> (u64, Program) {
    let number = random.next();
    let counted = Counted::new(world);
    let acts = (random.below(3) == 0).then(|| Acts::new(world, &mut random));
    let future = async move {
        let _acts = acts;
        let world = &counted.0;
        for _ in 0..random.below(6) {
            step(world, &mut random, depth).await;
        }
        if is_odd(number) {
            panic_any(number);
        }
        number
    };
    (number, Box::pin(Unruly(Box::pin(future), number)))
}

/// Tasks that each await the next.
fn chain(world: &Arc<World>, left: u64) -> Program {
    let counted = Counted::new(world);
    Box::pin(async move {
        yield_now().await;
        if left > 0 {
            let _ended = spawn(chain(&counted.0, left - 1)).await;
        }
        left
    })
}

/// Two tasks that await each other, until the runtime ends.
fn cycle(world: &Arc<World>) {
    let handles: Arc<Mutex<Vec<JoinHandle<()>>>> = Arc::default();
    let both: Vec<_> = (0..2)
        .map(|_| {
            let (handles, counted) = (Arc::clone(&handles), Counted::new(world));
            spawn(async move {
                let _counted = counted;
                yield_now().await;
                let other = handles.lock().unwrap().pop();
                if let Some(other) = other {
                    let _ended = other.await;
                }
                pending::<()>().await;
            })
        })
        .collect();
    *handles.lock().unwrap() = both;
}

/// A call that waits for what only the end of a task brings.
fn fed_by_a_task(world: &Arc<World>) {
    let [calling, waiting] = [Counted::new(world), Counted::new(world)];
    let (feed, food) = mpsc::channel::<()>();
    drop(spawn_blocking(move || {
        let _counted = calling;
        food.iter().count()
    }));
    drop(spawn(async move {
        let _counted = waiting;
        pending::<()>().await;
        drop(feed);
    }));
}

/// Blocks the thread until a task has run. For roots and callers, and one task at a time.
fn block(world: &Arc<World>, random: &mut Random) {
    let (sender, receiver) = mpsc::channel();
    let (counted, nap) = (Counted::new(world), random.below(3));
    drop(spawn(async move {
        let _counted = counted;
        match nap {
            0 => {}
            1 => yield_now().await,
            _ => sleep(Duration::from_micros(100)).await,
        }
        sender.send(()).unwrap();
    }));
    // A task is in the way of the end of its runtime, and is cancelled.
    let going = || world.runtime.lock().unwrap().strong_count() == 0;
    assert!(receiver.recv().is_ok() || going(), "a task is dropped without the runtime");
}

/// The depth of a root.
const ROOT: u64 = 3;

async fn step(world: &Arc<World>, random: &mut Random, depth: u64) {
    match random.below(20) {
        0 | 1 if depth > 0 => {
            let (number, child) = program(world, random.fork(), depth - 1);
            let handle = spawn(child);
            match random.below(3) {
                0 => drop(handle),
                _ => ended_as_it_should(number, handle.await),
            }
        }
        2 => yield_now().await,
        3 => sleep(Duration::from_micros(random.below(200))).await,
        // A sleep that is moved after it was polled.
        4 => {
            let mut early = Box::new(sleep(Duration::from_micros(random.below(200))));
            poll_fn(|context| Poll::Ready(Pin::new(&mut *early).poll(context).is_ready())).await;
            if random.below(2) == 0 {
                let moved = *early;
                moved.await;
            }
        }
        // Waits for a wake, or not for long.
        5 => {
            let (slot, wraps, mut polled) =
                (random.below(SLOTS as u64) as usize, random.below(2) == 0, false);
            let woken = poll_fn(|context| {
                if std::mem::replace(&mut polled, true) {
                    return Poll::Ready(());
                }
                let waker = context.waker().clone();
                let waker = if wraps { Waker::from(Arc::new(Wraps(waker))) } else { waker };
                world.wakers.lock().unwrap()[slot] = Some(waker);
                Poll::Pending
            });
            timeout(Duration::from_micros(random.below(300)), woken).await;
        }
        6 => world.wake(random.below(SLOTS as u64)),
        // Cancelled at some await, or over by then.
        7 if depth > 0 => {
            let mut child = Within(Some(program(world, random.fork(), depth - 1).1));
            for _ in 0..random.below(5) {
                if poll_fn(|context| Poll::Ready(child.poll(context))).await {
                    break;
                }
                yield_now().await;
            }
        }
        8 => {
            let handle = spawn(chain(world, random.below(30)));
            if random.below(2) == 0 {
                let _ended = handle.await;
            }
        }
        9 if depth > 0 => {
            let (number, child) = program(world, random.fork(), depth - 1);
            let mut handle = spawn(child);
            let hostile = Waker::from(Arc::new(Hostile(random.below(2) == 0)));
            let polled = Pin::new(&mut handle).poll(&mut Context::from_waker(&hostile));
            let _last = catch_unwind(AssertUnwindSafe(|| drop(hostile)));
            match (polled, random.below(2)) {
                (Poll::Ready(ended), _) => ended_as_it_should(number, ended),
                (Poll::Pending, 0) => drop(handle),
                (Poll::Pending, _) => ended_as_it_should(number, handle.await),
            }
        }
        // Gives its worker's place up, if it is a task and has to wait. The last reference ends the runtime.
        10 => {
            let runtime = world.runtime.lock().unwrap().upgrade();
            if let Some(runtime) = runtime {
                let nap = random.below(100);
                runtime.block_on(async {
                    yield_now().await;
                    sleep(Duration::from_micros(nap)).await;
                });
            }
        }
        11 if depth == ROOT || !world.blocks.swap(true, Ordering::SeqCst) => {
            block(world, random);
            if depth < ROOT {
                world.blocks.store(false, Ordering::SeqCst);
            }
        }
        12 => {
            let bad = random.below(2) == 0;
            let handle = spawn(Doubly(Counted::new(world), bad.then(|| Bomb)));
            match random.below(2) {
                0 => drop(handle),
                _ => {
                    let _ended = handle.await.map(std::mem::forget);
                }
            }
        }
        13 => cycle(world),
        14 => assert_eq!(timeout(Duration::from_micros(random.below(100)), sleep(Duration::MAX)).await, None),
        15 => assert_eq!(timeout(Duration::MAX, sleep(Duration::ZERO)).await, Some(())),
        16 => fed_by_a_task(world),
        17 | 18 => {
            let acts = Acts::new(world, random);
            let handle = spawn(async move { acts });
            match random.below(3) {
                0 => drop(handle),
                1 => {
                    yield_now().await;
                    drop(handle);
                }
                _ => drop(handle.await),
            }
        }
        _ => {
            // No destructor of a call panics.
            let (number, counted) = (random.next() & !6, Counted::new(world));
            let handle = spawn_blocking(move || {
                let _counted = counted;
                if is_odd(number) {
                    panic_any(number);
                }
                number
            });
            match random.below(2) {
                0 => drop(handle),
                _ => ended_as_it_should(number, handle.await),
            }
        }
    }
}

fn ended_as_it_should(number: u64, ended: Result<u64, JoinError>) {
    match ended {
        Ok(output) => assert!(output == number && !is_odd(number) && !is_unruly(number), "another output"),
        Err(JoinError::Panicked(payload)) => {
            let panics = is_odd(number) || is_unruly(number);
            assert!(payload.downcast_ref() == Some(&number) && panics, "another panic");
        }
        // The runtime is going.
        Err(JoinError::Cancelled) => {}
    }
}

/// A runtime with some programs, from inside and from threads outside; then its end, in the middle or not.
fn round(seed: u64) {
    let mut random = Random(seed);
    let workers = 1 + random.below(4) as usize;
    let settings = Settings {
        takes_core: random.below(2) == 0,
        lifo: random.below(2) == 0,
        searches: random.below(3) as u32,
        awake: 1 + random.below(workers as u64) as usize,
        ..Settings::new(workers)
    };
    let world = Arc::new(World::default());
    let threads = threads_of_the_process();
    let runtime = Arc::new(Runtime::new(settings));
    *world.runtime.lock().unwrap() = Arc::downgrade(&runtime);
    world.blocks.store(workers == 1, Ordering::SeqCst);
    let mut left: Vec<(u64, JoinHandle<u64>)> = vec![];
    thread::scope(|scope| {
        let outside: Vec<_> = (0..random.below(3))
            .map(|_| {
                let (runtime, world, mut random) = (&runtime, &world, random.fork());
                scope.spawn(move || {
                    let mut handles = vec![];
                    for _ in 0..random.below(6) {
                        let (number, task) = program(world, random.fork(), 2);
                        handles.push((number, runtime.spawn(task)));
                        world.wake(random.below(SLOTS as u64));
                    }
                    if random.below(2) == 0
                        && let Some((number, handle)) = handles.pop()
                    {
                        ended_as_it_should(number, runtime.block_on(handle));
                    }
                    if random.below(8) == 0 {
                        runtime.block_on(async { block(world, &mut random) });
                    }
                    handles
                })
            })
            .collect();
        if random.below(4) > 0 {
            let (mut random, world) = (random.fork(), &world);
            runtime.block_on(async {
                for _ in 0..random.below(6) {
                    step(world, &mut random, ROOT).await;
                    if random.below(16) == 0 {
                        block(world, &mut random);
                    }
                }
            });
        }
        left.extend(outside.into_iter().flat_map(|thread| thread.join().expect("a thread outside")));
    });
    if random.below(2) == 0 {
        for (number, handle) in left.drain(..) {
            ended_as_it_should(number, runtime.block_on(handle));
        }
    }
    // Survives the runtime.
    let mut nap = sleep(Duration::from_micros(random.below(200)));
    runtime.block_on(poll_fn(|context| Poll::Ready(_ = Pin::new(&mut nap).poll(context))));
    end(runtime, &mut random);
    Runtime::new(Settings::new(1)).block_on(nap);
    // Whatever has not run by now never will, and says so.
    for (number, handle) in left {
        ended_as_it_should(number, block_on(handle));
    }
    world.wakers.lock().unwrap().fill(None);
    // When a task has ended the runtime, this may be under way.
    let is_over = || {
        // In this order: destructors begin others meanwhile.
        let [dropped, begun] = [&world.dropped, &world.begun].map(|count| count.load(Ordering::SeqCst));
        assert!(dropped <= begun, "a future was dropped twice");
        dropped == begun && threads_of_the_process() <= threads && Arc::strong_count(&world) == 1
    };
    let late = Instant::now() + LIMIT / 2;
    while !is_over() {
        let (begun, dropped, now) = (&world.begun, &world.dropped, threads_of_the_process());
        assert!(
            Instant::now() < late,
            "futures that were begun {begun:?} and dropped {dropped:?}; threads {threads} and {now}; {} users of the world",
            Arc::strong_count(&world)
        );
        thread::yield_now();
    }
}

/// The runtime is dropped here, by a task of its own or by a call of its own, unless a task has the last reference.
fn end(runtime: Arc<Runtime>, random: &mut Random) {
    let (give, given) = mpsc::channel::<Arc<Runtime>>();
    let ends = move || drop(given.recv());
    match random.below(4) {
        0 => drop(runtime.spawn(async move { ends() })),
        1 => drop(runtime.spawn_blocking(ends)),
        _ => {}
    }
    let _refused = give.send(runtime);
}

fn threads_of_the_process() -> usize {
    std::fs::read_dir("/proc/self/task").expect("the threads of this process").count()
}

#[test]
fn random_programs_end_and_every_future_is_dropped_once() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
    let end = Instant::now() + Duration::from_secs(number("ASYNC_COST_SOAK_S").unwrap_or(10));
    let since = || std::time::UNIX_EPOCH.elapsed().expect("a clock after 1970").as_nanos() as u64;
    let mut seed = number("ASYNC_COST_SOAK_SEED").unwrap_or_else(since);
    // Panics of tasks are expected, and there are thousands; those of the test are printed with the seed.
    std::panic::set_hook(Box::new(|panic| {
        let outside = panic.payload_as_str().is_some_and(|text| text.contains("belongs to no runtime"));
        if !panic.payload().is::<u64>() && !outside {
            eprintln!("{panic}");
        }
    }));
    FAILED.into_iter().for_each(run);
    let mut rounds = 0_u64;
    while Instant::now() < end {
        run(seed);
        (seed, rounds) = (seed.wrapping_add(1), rounds + 1);
    }
    println!("{rounds} programs, the last with seed {}", seed.wrapping_sub(1));
    assert!(rounds > 0);
}

/// Runs the program of this seed, in time.
fn run(seed: u64) {
    let (done, waiting) = mpsc::channel();
    let thread = thread::spawn(move || {
        round(seed);
        let _ = done.send(());
    });
    match waiting.recv_timeout(LIMIT) {
        Ok(()) => thread.join().expect("it has said that it is done"),
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("seed {seed}: hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => panic!("seed {seed}: fails (above)"),
    }
}
