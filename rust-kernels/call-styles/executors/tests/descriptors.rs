//! Ten thousand descriptors that get ready, time out and are cancelled at random: what the loop makes of them is what a
//! model says that is too simple to be wrong, and nobody is polled once too often.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Mutex;
use std::time::Duration;

use call_styles_event_loop::{
    ArcWakers, Counted, Design, Direct, Epoll, Heap, IndexWakers, Interest, Parts, Polling, Probed,
    SortedVec, Tree, allow_descriptors,
};
use call_styles_executors::{CallState, CallStyles, Evaluation, Executor, Futures};
use rustix::event::{EventfdFlags, eventfd};

mod common;
use common::{Still, advance, time};

const DESCRIPTORS: usize = 10_000;
/// Rounds of random events.
const STEPS: usize = 12;
/// Events of a round, of each kind.
const EVENTS: usize = 3_000;
/// A turn of the loop brings at most 1024 answers of the selector.
const TURNS: usize = DESCRIPTORS / 1024 + 3;

/// A process may open some twenty thousand files, so one scene is played at a time.
static STAGE: Mutex<()> = Mutex::new(());

type Tested<W, T, S> = Probed<Still, Parts<W, T, S>>;

/// What the model knows of a descriptor for which somebody waits.
struct Waiting<D: Design> {
    deadline: Option<Duration>,
    evaluation: Evaluation<(), D>,
}

/// What waits have come to: descriptor, and whether it was ready.
type Log = Rc<RefCell<Vec<(usize, bool)>>>;

struct Scene<D: Design> {
    executor: Futures<D>,
    descriptors: Vec<Rc<OwnedFd>>,
    ready: Vec<bool>,
    waiting: BTreeMap<usize, Waiting<D>>,
    log: Log,
    dice: fastrand::Rng,
    /// Polls of tasks that there should have been.
    polls: u64,
    /// Waits of the root.
    turns: u64,
}

impl<D: Design> Scene<D> {
    fn new() -> Self {
        allow_descriptors(DESCRIPTORS + 1_000);
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Self {
            executor: Futures::new().unwrap(),
            descriptors: (0..DESCRIPTORS).map(|_| Rc::new(eventfd(0, flags).unwrap())).collect(),
            ready: vec![false; DESCRIPTORS],
            waiting: BTreeMap::new(),
            log: Log::default(),
            dice: fastrand::Rng::with_seed(8),
            polls: 0,
            turns: 0,
        }
    }

    /// Somebody waits for a descriptor from now on, with or without a timeout, begun by one style or another.
    fn wait(&mut self, which: usize) {
        if self.waiting.contains_key(&which) {
            return;
        }
        let event_loop = Rc::clone(self.executor.event_loop());
        let timeout = self.dice.bool().then(|| Duration::from_millis(self.dice.u64(0..50)));
        let deadline = timeout.map(|timeout| time() + timeout);
        let (descriptor, log) = (Rc::clone(&self.descriptors[which]), Rc::clone(&self.log));
        let task = async move {
            let ready = event_loop.await_ready(&descriptor, Interest::Readable, timeout).await.unwrap();
            log.borrow_mut().push((which, ready));
        };
        let evaluation = if self.dice.bool() {
            self.executor.call_detached(task)
        } else {
            match self.executor.call_nonblock(task) {
                CallState::Waiting(evaluation) => evaluation,
                CallState::Concluded(()) => panic!("it has to ask the selector first"),
            }
        };
        self.polls += 1;
        self.waiting.insert(which, Waiting { deadline, evaluation });
    }

    /// Makes a descriptor ready, or not ready any more.
    fn flip(&mut self, which: usize) {
        let descriptor = &self.descriptors[which];
        if self.ready[which] {
            rustix::io::read(descriptor, &mut [0; 8]).unwrap();
        } else {
            rustix::io::write(descriptor, &1_u64.to_ne_bytes()).unwrap();
        }
        self.ready[which] = !self.ready[which];
    }

    /// Nobody waits for a descriptor any more.
    fn cancel(&mut self, which: usize) {
        if let Some(waiting) = self.waiting.remove(&which) {
            assert!(self.executor.cancel(&waiting.evaluation), "it was not over");
            assert!(waiting.evaluation.is_concluded() && !self.executor.cancel(&waiting.evaluation));
        }
    }

    /// Lets the loop run until there is nothing left to do at this time, and compares with the model.
    fn settle(&mut self) {
        for _ in 0..TURNS {
            self.executor.block_on(self.executor.event_loop().wait(Duration::ZERO));
        }
        self.turns += TURNS as u64;
        let now = time();
        for (which, ready) in self.log.take() {
            let waiting = self.waiting.remove(&which).expect("nobody waits: a double wake-up");
            assert!(waiting.evaluation.is_concluded());
            let due = waiting.deadline.is_some_and(|deadline| deadline <= now);
            assert!(if ready { self.ready[which] } else { due }, "{which}: {ready}, and that is not so");
            self.polls += 1;
        }
        for (which, waiting) in &self.waiting {
            let due = waiting.deadline.is_some_and(|deadline| deadline <= now);
            assert!(!self.ready[*which] && !due, "{which} was lost");
        }
        assert_eq!(self.executor.waiting(), self.waiting.len());
    }

    fn play(&mut self) {
        drop(Counted::take());
        for _ in 0..STEPS {
            for _ in 0..EVENTS {
                let which = self.dice.usize(0..DESCRIPTORS);
                self.wait(which);
            }
            for _ in 0..EVENTS {
                let which = self.dice.usize(0..DESCRIPTORS);
                self.flip(which);
            }
            // All that was begun has been polled once before anything is cancelled.
            self.settle();
            for _ in 0..EVENTS / 3 {
                let which = self.dice.usize(0..DESCRIPTORS);
                self.cancel(which);
            }
            advance(Duration::from_millis(self.dice.u64(0..20)));
            self.settle();
        }
        for which in 0..DESCRIPTORS {
            self.cancel(which);
        }
        self.settle();
        assert_eq!(self.executor.waiting(), 0);
        let counts = Counted::take();
        // Each wait was polled when it began and when it ended, and never in between.
        assert_eq!(counts["switches"], 2 * (self.polls + self.turns), "somebody was polled once too often");
    }
}

fn play<D: Design>() {
    let _stage = STAGE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    Scene::<D>::new().play();
}

#[test]
fn no_wake_is_lost_or_doubled_with_the_published_design() {
    play::<Tested<ArcWakers, SortedVec, Polling>>();
}

#[test]
fn no_wake_is_lost_or_doubled_with_index_wakers_a_heap_and_plain_epoll() {
    play::<Tested<IndexWakers, Heap, Epoll>>();
}

#[test]
fn no_wake_is_lost_or_doubled_without_wakers_and_with_a_tree() {
    play::<Tested<Direct, Tree, Epoll>>();
}
