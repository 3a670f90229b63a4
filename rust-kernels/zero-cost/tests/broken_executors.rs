//! The proof of equal work, put to the proof: executors with one fault each must not get through it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

use harness::UnequalWork;
use zero_cost::{PUBLISHED, expected, variants};
use zero_cost_executors::{AsyncStream, BoxedFuture, FakeReactor, ReactorHandle, accept_all, connection};
use zero_cost_loop::{
    CONNECTIONS, Counted, Counter, Load, NoWork, Probe, Repeat, SMALL_BUFFER, Stats, count,
};

const NO_FAULT: u8 = 0;
const LOSES_A_WAKE: u8 = 1;
const POLLS_TWICE: u8 = 2;
const LEAKS: u8 = 3;
const COPIES: u8 = 4;

/// The wake that [`LOSES_A_WAKE`] loses: one in the middle of the run.
const LOST_WAKE: usize = 100;
/// Parks after which a run is given up; one that works needs 258.
const MOST_PARKS: usize = 2 * CONNECTIONS;

/// A slot woken by a waker, and where that is noted.
struct Woken(usize, Arc<Mutex<VecDeque<usize>>>);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.1.lock().unwrap().push_back(self.0);
    }
}

/// A simple executor with a fault.
#[derive(Default)]
struct Broken<const FAULT: u8> {
    tasks: RefCell<Vec<Option<BoxedFuture<'static>>>>,
    queue: Arc<Mutex<VecDeque<usize>>>,
    /// Futures that were not dropped yet.
    alive: Cell<usize>,
    /// Futures of finished tasks that are not dropped before the executor ends.
    leaked: RefCell<Vec<BoxedFuture<'static>>>,
}

impl<const FAULT: u8> Broken<FAULT> {
    fn spawn<F: Future<Output = ()> + 'static>(&self, future: F) {
        let mut tasks = self.tasks.borrow_mut();
        self.queue.lock().unwrap().push_back(tasks.len());
        tasks.push(Some(Box::pin(future)));
        <Counted>::add(Counter::Spawns, 1);
        self.alive.set(self.alive.get() + 1);
        <Counted>::peak(Counter::PeakTasks, self.alive.get());
    }

    fn run(&self, park: impl Fn()) {
        let mut taken = 0;
        for _ in 0..MOST_PARKS {
            while let Some(slot) = self.next() {
                taken += 1;
                if !(FAULT == LOSES_A_WAKE && taken == LOST_WAKE) {
                    self.poll(slot);
                }
            }
            if self.tasks.borrow().iter().all(Option::is_none) {
                break;
            }
            park();
        }
        self.tasks.borrow_mut().clear();
        self.queue.lock().unwrap().clear();
    }

    fn next(&self) -> Option<usize> {
        self.queue.lock().unwrap().pop_front()
    }

    fn poll(&self, slot: usize) {
        let mut future = self.tasks.borrow_mut()[slot].take().expect("an unfinished task");
        let waker = Waker::from(Arc::new(Woken(slot, Arc::clone(&self.queue))));
        for _ in 0..if FAULT == POLLS_TWICE { 2 } else { 1 } {
            <Counted>::add(Counter::Polls, 1);
            if future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                if FAULT == LEAKS {
                    self.leaked.borrow_mut().push(future);
                } else {
                    self.alive.set(self.alive.get() - 1);
                }
                return;
            }
        }
        self.tasks.borrow_mut()[slot] = Some(future);
    }
}

/// A server that sends each line from a copy of it.
async fn copying<R: ReactorHandle>(stream: AsyncStream<R>) {
    <Counted>::add(Counter::ZeroedBytes, SMALL_BUFFER);
    let mut buffer = [0; SMALL_BUFFER];
    let length = stream.read(&mut buffer).await.expect("a line");
    let copy = buffer[..length].to_vec();
    stream.write(&copy).await.expect("room for it");
    <Counted>::add(Counter::Transactions, 1);
}

/// The server, on a broken executor.
fn world<const FAULT: u8>(load: Load, repeat: Repeat<'_>) {
    let stats = Rc::new(Stats::new(load.syscalls));
    let reactor = Rc::new(FakeReactor::<_, Counted>::new(Rc::clone(&stats)));
    let executor = Rc::new(Broken::<FAULT>::default());
    repeat(&stats, &mut || {
        let spawner = Rc::clone(&executor);
        let spawn = move |stream| {
            if FAULT == COPIES {
                spawner.spawn(copying(stream));
            } else {
                spawner.spawn(async { connection::<_, _, SMALL_BUFFER>(stream, NoWork).await.unwrap() });
            }
            Ok(())
        };
        let reactor_of_task = Rc::clone(&reactor);
        executor.spawn(async { accept_all(reactor_of_task, spawn).await.unwrap() });
        executor.run(|| reactor.poll());
    });
}

/// What the proof says about an executor with this fault.
fn verdict<const FAULT: u8>() -> Result<(), UnequalWork> {
    let honest = variants().into_iter().find(|variant| variant.name == "box").expect("the variant box");
    harness::prove("broken", &expected(&honest, PUBLISHED[0]), &count(world::<FAULT>, PUBLISHED[0]))
}

#[test]
fn without_a_fault_it_gets_through() {
    assert_eq!(verdict::<NO_FAULT>(), Ok(()));
}

#[test]
fn a_lost_wake_is_caught() {
    let wrong = verdict::<LOSES_A_WAKE>().unwrap_err().to_string();
    assert!(wrong.contains("transactions: 256 expected"), "{wrong}");
}

#[test]
fn a_poll_in_vain_is_caught() {
    let wrong = verdict::<POLLS_TWICE>().unwrap_err().to_string();
    assert!(
        wrong.contains("\npolls: 1025 expected") && wrong.contains("not_ready_polls: 0 expected"),
        "{wrong}"
    );
}

#[test]
fn a_future_that_is_not_dropped_is_caught() {
    let wrong = verdict::<LEAKS>().unwrap_err().to_string();
    assert!(wrong.contains("peak_tasks: 4 expected"), "{wrong}");
}

#[test]
fn a_copied_line_is_caught() {
    let wrong = verdict::<COPIES>().unwrap_err().to_string();
    assert!(wrong.contains("sent_in_place: 3072 expected, 0 counted"), "{wrong}");
}
