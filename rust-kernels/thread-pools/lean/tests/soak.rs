//! Random programs: jobs that submit, join, wait, yield, panic, drop handles, keep them for others and shut pools down, in the
//! job, in its destructor and when its thread ends, while other threads join in and the last handle goes. Each job is run
//! or dropped once, no wait lasts for ever, and neither a queue nor what a worker has for itself is left.
//!
//! New ones for ten seconds, or `ASYNC_COST_SOAK_S` of them. What a program does depends on its seed alone, which a failure
//! names; `ASYNC_COST_SOAK_SEED` begins with it.

use std::any::Any;
use std::cell::RefCell;
use std::mem::take;
use std::panic::{panic_any, set_hook, take_hook};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

#[path = "../../../random.rs"]
mod random;

use random::Random;
use thread_pools_lean::{
    Closed, Fairness, Forking, Idle, Job, Notify, Pool, Queue, Settings, SharedChannel, Stealing, Wakes,
};

/// A program that takes longer hangs: it takes milliseconds, and some seconds under a sanitizer.
const LIMIT: Duration = Duration::from_secs(60);
/// Jobs that a program may begin: more than destructors are run within each other on a thread.
const JOBS: usize = 150;
const POOLS: u64 = 2;
const KEPT: u64 = 4;

/// How many there are.
#[derive(Clone, Default)]
struct Alive(Arc<()>);

impl Alive {
    fn number(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }
}

thread_local! {
    static PARTS: RefCell<Alive> = RefCell::default();
    static AT_THE_END: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(vec![]) };
}

/// Another queue, whose parts are counted.
struct Counted<Q: Queue>(Q, #[expect(dead_code, reason = "counted")] Alive);

impl<Q: Queue> Queue for Counted<Q> {
    type Local = (Q::Local, Alive);

    fn new(settings: &Settings) -> (Self, Vec<Self::Local>) {
        let (queue, locals) = Q::new(settings);
        let part = || PARTS.with_borrow(Alive::clone);
        (Self(queue, part()), locals.into_iter().map(|local| (local, part())).collect())
    }

    fn push(&self, job: Job) {
        self.0.push(job);
    }

    fn push_local(&self, local: &Self::Local, job: Job) -> Notify {
        self.0.push_local(&local.0, job)
    }

    fn next(&self, local: &Self::Local) -> Option<Job> {
        self.0.next(&local.0)
    }

    fn find(&self, local: &Self::Local) -> Option<Job> {
        self.0.find(&local.0)
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&self) -> Option<Job> {
        self.0.take()
    }
}

type PoolOf<Q> = Pool<Forking<Counted<Q>>>;

/// What all jobs of a program share.
struct World<Q: Queue> {
    jobs: Alive,
    begun: AtomicUsize,
    ran: AtomicUsize,
    submitted: AtomicUsize,
    refused: AtomicUsize,
    kept: Mutex<[Option<PoolOf<Q>>; KEPT as usize]>,
}

/// Who acts: handles of the pools, and what comes next.
struct Actor<Q: Queue> {
    world: Arc<World<Q>>,
    pools: Vec<PoolOf<Q>>,
    random: Random,
    /// Whether it may panic.
    panics: bool,
    alive: Alive,
}

impl<Q: Queue> Actor<Q> {
    /// Another one, with handles of its own; none, when enough have begun.
    fn next(&mut self) -> Option<Self> {
        let begun = self.world.begun.fetch_add(1, Ordering::Relaxed);
        let (world, pools, random) =
            (Arc::clone(&self.world), self.pools.clone(), Random(self.random.next()));
        (begun < JOBS).then(|| Self { world, pools, random, panics: true, alive: self.alive.clone() })
    }

    /// Submits a job that acts when it runs, and when it is dropped; with something that is dropped with it.
    fn submit(&mut self, with: impl Send + 'static) -> Option<Result<(), Closed>> {
        if self.pools.is_empty() {
            return None;
        }
        let job = Acts(Some(self.next()?));
        let pool = &self.pools[self.random.below(self.pools.len() as u64) as usize];
        let large = self.random.below(4) == 0;
        self.world.submitted.fetch_add(1, Ordering::Relaxed);
        let outcome = if large {
            let padding = [0_u64; 9];
            pool.execute(move || job.run((with, padding)))
        } else {
            pool.execute(move || job.run(with))
        };
        self.world.refused.fetch_add(usize::from(outcome.is_err()), Ordering::Relaxed);
        Some(outcome)
    }

    fn act(&mut self) {
        for _ in 0..self.random.below(4) {
            self.step();
        }
        if self.random.below(6) == 0 && self.panics && !thread::panicking() {
            panic_any(0_u64);
        }
    }

    fn step(&mut self) {
        let place = self.random.below(KEPT) as usize;
        match self.random.below(12) {
            0..4 => _ = self.submit(()),
            4 => {
                let (holds, gone) = channel::<()>();
                match self.submit(holds) {
                    // The one that is refused is dropped, here or elsewhere.
                    Some(Err(Closed)) => gone.recv_timeout(LIMIT).expect_err("nothing is sent"),
                    _ => gone.recv_timeout(Duration::from_micros(200)).expect_err("nothing is sent"),
                };
            }
            5 => thread::yield_now(),
            6 => drop(self.pools.pop()),
            7 => {
                let handle = self.pools.pop();
                let before = std::mem::replace(&mut self.world.kept.lock().unwrap()[place], handle);
                drop(before);
            }
            8 => {
                let handle = self.world.kept.lock().unwrap()[place].take();
                self.pools.extend(handle);
            }
            9 => {
                // With a handle of its pool, a worker would keep itself alive; and nothing may panic at a thread's end.
                let late = self.next().map(|next| Acts(Some(Self { pools: vec![], panics: false, ..next })));
                let _ended = AT_THE_END.try_with(|kept| kept.borrow_mut().extend(late.map(boxed)));
            }
            // Rarely: most of a program is to happen before.
            10 if self.random.below(4) == 0 => {
                if let Some(pool) = self.pools.last() {
                    let limit = [Duration::ZERO, Duration::from_micros(300), Duration::from_millis(2)];
                    let _busy = pool.shutdown(limit[self.random.below(3) as usize]);
                }
            }
            11 => {
                let panics = self.panics && !thread::panicking();
                let halves = [self.next(), self.next()];
                if let (Some(pool), [Some(one), Some(other)]) = (self.pools.last(), halves) {
                    let act = |half: Self| move || Self { panics, ..half }.act();
                    pool.join(act(one), act(other));
                }
            }
            _ => {}
        }
    }
}

fn boxed<T: 'static>(value: T) -> Box<dyn Any> {
    Box::new(value)
}

/// Acts when it is dropped.
struct Acts<Q: Queue>(Option<Actor<Q>>);

impl<Q: Queue> Acts<Q> {
    fn run(mut self, _with: impl Send) {
        let actor = self.0.as_mut().expect("it is there until it is dropped");
        actor.world.ran.fetch_add(1, Ordering::Relaxed);
        actor.act();
    }
}

impl<Q: Queue> Drop for Acts<Q> {
    fn drop(&mut self) {
        let mut actor = self.0.take().expect("it is dropped once");
        actor.act();
    }
}

/// Two pools, one thread besides this one, and an end. How many jobs were run, and how many were not.
fn program<Q: Queue>(seed: u64) -> [usize; 2] {
    let mut random = Random(seed);
    let (parts, jobs) = (Alive::default(), Alive::default());
    PARTS.set(parts.clone());
    let pools = (0..POOLS).map(|_| {
        let fairness = [Fairness::Counted(3), Settings::new(1).fairness][random.below(2) as usize];
        let idle = if random.below(4) == 0 { Idle::NeverPark } else { Idle::Park };
        let wakes = if random.below(4) == 0 { Wakes::EveryJob } else { Wakes::OneAtATime };
        let workers = 1 + random.below(3) as usize;
        Pool::start(Settings { idle, wakes, fairness, shuffled: random.below(2) == 0, workers })
    });
    let pools: Vec<PoolOf<Q>> = pools.collect();
    PARTS.take();
    let counts = || AtomicUsize::new(0);
    let (begun, ran, submitted, refused) = (counts(), counts(), counts(), counts());
    let world = Arc::new(World { jobs, begun, ran, submitted, refused, kept: Mutex::default() });
    let alive = world.jobs.clone();
    let mut root =
        Actor { world: Arc::clone(&world), pools, random: Random(random.next()), panics: false, alive };
    let beside = root.next().expect("it is the first");
    let beside = thread::spawn(move || drop(Acts(Some(beside))));
    for _ in 0..4 {
        root.submit(());
    }
    let ends = random.below(3);
    for pool in root.pools.iter().take(ends as usize) {
        pool.shutdown(Duration::MAX).expect("time has no end");
    }
    drop(Acts(Some(root)));
    _ = beside.join();
    let began = Instant::now();
    loop {
        // What the last jobs have kept keeps their pools alive. On this thread, none is left for its end.
        drop(take(&mut *world.kept.lock().unwrap()));
        AT_THE_END.take();
        if world.jobs.number() == 0 && parts.number() == 0 {
            break;
        }
        assert!(
            began.elapsed() < LIMIT,
            "{} jobs and {} parts are left",
            world.jobs.number(),
            parts.number()
        );
        thread::sleep(Duration::from_micros(50));
    }
    let [ran, submitted, refused] =
        [&world.ran, &world.submitted, &world.refused].map(|count| count.load(Ordering::Relaxed));
    assert!(ran <= submitted - refused, "a job that was refused was run, or one was run twice");
    [ran, submitted - ran]
}

#[test]
fn random_programs_end_and_leave_nothing_behind() {
    let given = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let time = Duration::from_secs(given("ASYNC_COST_SOAK_S").unwrap_or(10));
    let first = given("ASYNC_COST_SOAK_SEED").unwrap_or(1);
    let others = take_hook();
    set_hook(Box::new(move |info| {
        if !info.payload().is::<u64>() {
            others(info);
        }
    }));
    let (began, mut seed, mut jobs) = (Instant::now(), first, [0; 2]);
    while began.elapsed() < time {
        let (ended, end) = channel();
        let named = thread::Builder::new().name(format!("program {seed}"));
        let one = named.spawn(move || {
            let program = if seed % 2 == 0 { program::<SharedChannel> } else { program::<Stealing> };
            ended.send(program(seed)).unwrap();
        });
        let [ran, left] = end.recv_timeout(2 * LIMIT).unwrap_or_else(|_| panic!("program {seed} fails"));
        jobs = [jobs[0] + ran, jobs[1] + left];
        one.expect("the system has a thread").join().expect("it has ended");
        seed = seed.wrapping_add(1);
    }
    let [ran, left] = jobs;
    println!("{} programs, {ran} jobs that were run and {left} that were not", seed - first);
    assert!(ran > 0 && left > 0);
}
