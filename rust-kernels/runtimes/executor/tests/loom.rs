//! The executor in every order in which its threads can meet.
//!
//! `RUSTFLAGS="--cfg under_loom" cargo test -p runtimes-executor --test loom`, with debug assertions, which note what the
//! table of states is compared with; without `--cfg under_loom` there is nothing here. A lost wake or a task that no thread runs shows as a deadlock, because some thread sleeps for
//! ever; a missing order shows as a race for the future, the output, or a waker; a task that is dropped twice or never
//! shows in its count.
#![cfg(under_loom)]

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use runtimes_executor::{JoinError, JoinHandle, Runtime, Settings, spawn};
use sync::loom;
use sync::loom::cell::UnsafeCell;
use sync::loom::sync::atomic::{AtomicUsize, Ordering};
use sync::loom::sync::{Arc, Condvar, Mutex};
use sync::loom::thread;

#[path = "common/states.rs"]
mod states;

/// Runs `test` in every order with at most so many preemptions, which is where loom's own advice and all known bugs of
/// this kind lie. No task does what is not in the table of states.
fn in_every_order(preemptions: usize, test: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(test);
    states::assert_nothing_else_happens();
}

fn settings(workers: usize) -> Settings {
    Settings { awake: workers, searches: 1, ..Settings::new(workers) }
}

/// The thread that watches has checked all cores twice.
fn watch(runtime: &Runtime) {
    (0..2).for_each(|_| runtime.check_progress());
}

/// A waker that another thread uses.
#[derive(Default)]
struct Bell(Mutex<(bool, Option<Waker>)>);

impl Bell {
    fn ring(&self) {
        let waker = {
            let mut state = self.0.lock().unwrap();
            state.0 = true;
            state.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    async fn heard(&self) {
        poll_fn(|context| {
            let mut state = self.0.lock().unwrap();
            if state.0 {
                return Poll::Ready(());
            }
            state.1 = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// A number that is left before a wake, and nothing but the wake orders it with the poll that reads it.
#[derive(Default)]
struct Letter {
    waker: Mutex<Option<Waker>>,
    polled: Condvar,
    number: UnsafeCell<u32>,
}

// SAFETY: loom sees it if two threads use the number at once; that is the test.
unsafe impl Sync for Letter {}

impl Letter {
    /// Writes the number as soon as a task waits for it.
    fn write(&self) {
        let mut waker = self.waker.lock().unwrap();
        let waker = loop {
            match waker.take() {
                Some(waiting) => break waiting,
                None => waker = self.polled.wait(waker).unwrap(),
            }
        };
        // SAFETY: a task that has polled reads only when it is woken.
        self.number.with_mut(|number| unsafe { *number = 7 });
        waker.wake();
    }

    async fn read(&self) -> u32 {
        let mut polled = false;
        poll_fn(|context| {
            if std::mem::replace(&mut polled, true) {
                // SAFETY: this is the second poll, so it was woken.
                return Poll::Ready(self.number.with(|number| unsafe { *number }));
            }
            *self.waker.lock().unwrap() = Some(context.waker().clone());
            self.polled.notify_one();
            Poll::Pending
        })
        .await
    }
}

/// Counts its drops.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_task_from_outside_is_run_although_all_workers_go_to_rest() {
    in_every_order(2, || {
        let runtime = Runtime::new(settings(1));
        let bell = Arc::new(Bell::default());
        let ringing = Arc::clone(&bell);
        drop(runtime.spawn(async move { ringing.ring() }));
        runtime.block_on(async { bell.heard().await });
    });
}

#[test]
fn a_task_from_outside_is_run_although_the_root_gives_its_seat_up() {
    in_every_order(2, || {
        let runtime = Arc::new(Runtime::new(settings(1)));
        let bell = Arc::new(Bell::default());
        let (outside, ringing) = (Arc::clone(&runtime), Arc::clone(&bell));
        let thread = thread::spawn(move || drop(outside.spawn(async move { ringing.ring() })));
        runtime.block_on(async { bell.heard().await });
        thread.join().unwrap();
    });
}

#[test]
fn a_task_that_comes_during_a_search_does_not_wait_for_the_one_that_was_found() {
    in_every_order(1, || {
        let runtime = Runtime::new(settings(2));
        let ran = Arc::new((Mutex::new(false), Condvar::new()));
        let wait = |(ran, changed): &(Mutex<bool>, Condvar)| {
            let mut ran = ran.lock().unwrap();
            while !*ran {
                ran = changed.wait(ran).unwrap();
            }
        };
        let (blocked, other) = (Arc::clone(&ran), Arc::clone(&ran));
        drop(runtime.spawn(async move { wait(&blocked) }));
        drop(runtime.spawn(async move {
            *other.0.lock().unwrap() = true;
            other.1.notify_all();
        }));
        wait(&ran);
    });
}

#[test]
fn a_caller_hears_of_its_wakes_although_a_worker_has_the_place() {
    in_every_order(1, || {
        let runtime = Runtime::new(settings(1));
        // The worker may have run both, one or none when the caller comes.
        let tasks = [runtime.spawn(async { 1 }), runtime.spawn(async { 2 })];
        let sum = runtime.block_on(async {
            let mut sum = 0;
            for task in tasks {
                sum += task.await.unwrap();
            }
            sum
        });
        assert_eq!(sum, 3);
    });
}

#[test]
fn a_join_handle_hears_of_the_end() {
    in_every_order(2, || {
        let runtime = Runtime::new(Settings { takes_core: false, ..settings(1) });
        let task = runtime.spawn(async { 7 });
        assert_eq!(runtime.block_on(task).unwrap(), 7);
    });
}

#[test]
fn the_caller_and_a_worker_share_the_work() {
    share_the_work(2, settings(2));
}

#[test]
fn the_caller_and_a_worker_share_the_work_although_one_may_be_awake() {
    share_the_work(1, Settings { awake: 1, ..settings(2) });
}

fn share_the_work(preemptions: usize, settings: Settings) {
    in_every_order(preemptions, move || {
        let runtime = Runtime::new(settings);
        let sum = runtime.block_on(async {
            let tasks = [spawn(async { 1 }), spawn(async { 2 })];
            let mut sum = 0;
            for task in tasks {
                sum += task.await.unwrap();
            }
            sum
        });
        assert_eq!(sum, 3);
    });
}

/// A deque has room for four here, and a thief takes two at once. With a preemption, the orders are too many.
#[test]
fn more_tasks_than_a_deque_has_room_for_are_each_run_once() {
    in_every_order(0, || {
        let runtime = Runtime::new(Settings { awake: 1, ..settings(1) });
        let sum = Arc::new(AtomicUsize::new(0));
        runtime.block_on(async {
            let tasks = [1, 10, 100, 1000, 10_000, 100_000].map(|number| {
                let sum = Arc::clone(&sum);
                spawn(async move { sum.fetch_add(number, Ordering::Relaxed) })
            });
            for task in tasks {
                task.await.unwrap();
            }
        });
        assert_eq!(sum.load(Ordering::Relaxed), 111_111);
    });
}

#[test]
fn a_task_from_outside_is_run_although_one_of_two_may_be_awake() {
    in_every_order(1, || {
        let runtime = Arc::new(Runtime::new(Settings { awake: 1, ..settings(2) }));
        let bell = Arc::new(Bell::default());
        let (outside, ringing) = (Arc::clone(&runtime), Arc::clone(&bell));
        let thread = thread::spawn(move || drop(outside.spawn(async move { ringing.ring() })));
        runtime.block_on(async { bell.heard().await });
        thread.join().unwrap();
    });
}

/// A bell for threads that block.
#[derive(Default)]
struct Gong(Mutex<bool>, Condvar);

impl Gong {
    fn strike(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }

    fn wait(&self) {
        let mut struck = self.0.lock().unwrap();
        while !*struck {
            struck = self.1.wait(struck).unwrap();
        }
    }
}

#[test]
fn a_root_may_block_on_its_task_if_a_thread_watches() {
    in_every_order(2, || {
        let runtime = Runtime::new(settings(1));
        let gong = Arc::new(Gong::default());
        let striking = Arc::clone(&gong);
        runtime.block_on(async {
            drop(spawn(async move { striking.strike() }));
            watch(&runtime);
            gong.wait();
        });
    });
}

#[test]
fn the_thread_that_runs_what_a_blocked_root_has_spawned_sees_it() {
    in_every_order(2, || {
        let runtime = Arc::new(Runtime::new(settings(1)));
        let gongs: [Arc<Gong>; 2] = Default::default();
        let (watching, [spawned, striking]) = (Arc::clone(&runtime), gongs.clone());
        let thread = thread::spawn(move || {
            // Nothing but the slot orders this with what the root does. It may be too early.
            watch(&watching);
            spawned.wait();
            watch(&watching);
        });
        let own = Arc::new(Own::default());
        let written = Arc::clone(&own);
        runtime.block_on(async {
            // SAFETY: the task is spawned afterwards.
            own.0.with_mut(|number| unsafe { *number = 7 });
            drop(spawn(async move {
                // SAFETY: it was written before.
                assert_eq!(written.0.with(|number| unsafe { *number }), 7);
                striking.strike();
            }));
            gongs[0].strike();
            gongs[1].wait();
        });
        thread.join().unwrap();
    });
}

#[test]
fn what_a_root_spawns_after_its_place_was_handed_off_is_run_when_it_has_left() {
    in_every_order(2, || {
        let runtime = Runtime::new(settings(1));
        let gong = Arc::new(Gong::default());
        let striking = Arc::clone(&gong);
        runtime.block_on(async {
            watch(&runtime);
            drop(spawn(async move { striking.strike() }));
        });
        gong.wait();
    });
}

#[test]
fn a_task_may_block_on_another_if_a_thread_watches() {
    in_every_order(1, || {
        let runtime = Runtime::new(Settings { awake: 1, ..settings(2) });
        let gongs: [Arc<Gong>; 2] = Default::default();
        let [begun, end] = gongs.clone();
        drop(runtime.spawn(async move {
            let striking = Arc::clone(&end);
            drop(spawn(async move { striking.strike() }));
            begun.strike();
            end.wait();
        }));
        gongs[0].wait();
        watch(&runtime);
        gongs[1].wait();
    });
}

#[test]
fn a_place_may_be_handed_off_while_the_root_gives_it_up() {
    in_every_order(1, || {
        let runtime = Arc::new(Runtime::new(settings(1)));
        let watching = Arc::clone(&runtime);
        let thread = thread::spawn(move || watch(&watching));
        assert_eq!(runtime.block_on(async { spawn(async { 1 }).await.unwrap() }), 1);
        thread.join().unwrap();
    });
}

#[test]
fn a_wake_while_the_task_goes_to_sleep_is_not_lost() {
    in_every_order(2, || {
        let runtime = Runtime::new(settings(1));
        let bell = Arc::new(Bell::default());
        let hearing = Arc::clone(&bell);
        let task = runtime.spawn(async move { hearing.heard().await });
        bell.ring();
        runtime.block_on(task).unwrap();
    });
}

#[test]
fn the_root_sees_what_was_written_before_its_wake() {
    in_every_order(2, || {
        let runtime = Runtime::new(settings(1));
        let letter = Arc::new(Letter::default());
        let writing = Arc::clone(&letter);
        let thread = thread::spawn(move || writing.write());
        assert_eq!(runtime.block_on(async { letter.read().await }), 7);
        thread.join().unwrap();
    });
}

#[test]
fn a_task_sees_what_was_written_before_its_wake() {
    in_every_order(2, || {
        let runtime = Runtime::new(settings(1));
        let letter = Arc::new(Letter::default());
        let reading = Arc::clone(&letter);
        let task = runtime.spawn(async move { reading.read().await });
        letter.write();
        assert_eq!(runtime.block_on(task).unwrap(), 7);
    });
}

/// What only the polls of one task touch, each on another thread: written after the waker was given away, so nothing
/// but the task orders two polls.
#[derive(Default)]
struct Own(UnsafeCell<u32>);

// SAFETY: loom sees it if two threads use the number at once; that is the test.
unsafe impl Sync for Own {}

#[test]
fn a_poll_sees_what_the_one_before_it_has_written() {
    in_every_order(1, || {
        let runtime = Runtime::new(settings(2));
        let (letter, own) = (Arc::new(Letter::default()), Arc::new(Own::default()));
        let (reading, written) = (Arc::clone(&letter), Arc::clone(&own));
        let task = runtime.spawn(async move {
            let steps = AtomicUsize::new(0);
            let mut reading = std::pin::pin!(reading.read());
            poll_fn(|context| {
                let read = reading.as_mut().poll(context);
                // To loom, what has no step of its own belongs to the step before it.
                steps.load(Ordering::Relaxed);
                // SAFETY: polls of one task are one after the other.
                written.0.with_mut(|number| unsafe { *number += 1 });
                read
            })
            .await
        });
        letter.write();
        assert_eq!(runtime.block_on(task).unwrap(), 7);
        // SAFETY: the task has ended.
        assert_eq!(own.0.with(|number| unsafe { *number }), 2);
    });
}

#[test]
fn a_seat_that_is_given_back_with_a_task_is_taken_again() {
    in_every_order(2, || {
        let runtime = Runtime::new(settings(1));
        let bell = Arc::new(Bell::default());
        let ringing = Arc::clone(&bell);
        // The root ends before its task has run.
        runtime.block_on(async { drop(spawn(async move { ringing.ring() })) });
        let waiting = Settings { takes_core: false, ..settings(1) };
        let other = Runtime::new(waiting);
        other.block_on(async { bell.heard().await });
    });
}

#[test]
fn a_task_is_dropped_once_whether_it_runs_sleeps_or_is_woken_at_the_end() {
    in_every_order(2, || {
        let drops = Arc::new(AtomicUsize::new(0));
        let bell = Arc::new(Bell::default());
        let runtime = Runtime::new(settings(1));
        let (held, hearing) = (Counted(Arc::clone(&drops)), Arc::clone(&bell));
        let mut task = runtime.spawn(async move {
            let _held = held;
            hearing.heard().await;
        });
        let ringing = thread::spawn(move || bell.ring());
        drop(runtime);
        ringing.join().unwrap();
        assert_eq!(drops.load(Ordering::SeqCst), 1);
        let ended = Pin::new(&mut task).poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(ended, Poll::Ready(Ok(()) | Err(JoinError::Cancelled))));
    });
}

#[test]
fn a_handle_may_be_dropped_while_its_task_ends() {
    in_every_order(2, || {
        let drops = Arc::new(AtomicUsize::new(0));
        let runtime = Runtime::new(settings(1));
        let output = Counted(Arc::clone(&drops));
        let task = runtime.spawn(async move { output });
        drop(task);
        drop(runtime);
        assert_eq!(drops.load(Ordering::SeqCst), 1);
    });
}

/// Counts the drops of its wakers.
impl std::task::Wake for Counted {
    fn wake(self: std::sync::Arc<Self>) {}
}

#[test]
fn the_waker_of_a_handle_is_dropped_with_it_or_with_its_task() {
    in_every_order(2, || {
        let drops = Arc::new(AtomicUsize::new(0));
        let runtime = Runtime::new(settings(1));
        let mut task = runtime.spawn(async {});
        let waker = Waker::from(std::sync::Arc::new(Counted(Arc::clone(&drops))));
        let _ready = Pin::new(&mut task).poll(&mut Context::from_waker(&waker));
        drop((task, waker));
        drop(runtime);
        assert_eq!(drops.load(Ordering::SeqCst), 1);
    });
}

/// Strikes one gong when it wakes, and waits for the other.
struct Meets([Arc<Gong>; 2]);

impl std::task::Wake for Meets {
    fn wake(self: std::sync::Arc<Self>) {
        self.0[0].strike();
        self.0[1].wait();
    }
}

fn poll_with(task: &mut JoinHandle<()>, waker: impl std::task::Wake + Send + Sync + 'static) -> bool {
    let waker = Waker::from(std::sync::Arc::new(waker));
    Pin::new(task).poll(&mut Context::from_waker(&waker)).is_pending()
}

#[test]
fn each_row_of_the_table_of_states_happens_in_some_order() {
    // Woken by itself, twice at once; and after its end.
    in_every_order(1, || {
        let runtime = Runtime::new(settings(1));
        let kept = Arc::new(Mutex::new(None));
        let (keeping, mut left) = (Arc::clone(&kept), 2);
        let task = runtime.spawn(poll_fn(move |context| {
            (0..2).for_each(|_| context.waker().wake_by_ref());
            *keeping.lock().unwrap() = Some(context.waker().clone());
            left -= 1;
            if left > 0 { Poll::Pending } else { Poll::Ready(()) }
        }));
        runtime.block_on(task).unwrap();
        let waker: Waker = kept.lock().unwrap().take().unwrap();
        waker.wake_by_ref();
        waker.wake();
    });
    // Woken while it goes to sleep; awaited with one waker after the other, perhaps too late, and then dropped or not.
    in_every_order(1, || {
        let runtime = Runtime::new(settings(1));
        let (bell, gong) = (Arc::new(Bell::default()), Arc::new(Gong::default()));
        let (hearing, striking) = (Arc::clone(&bell), Arc::clone(&gong));
        let mut task = runtime.spawn(async move {
            let mut heard = std::pin::pin!(hearing.heard());
            poll_fn(|context| {
                let polled = heard.as_mut().poll(context);
                striking.strike();
                polled
            })
            .await;
        });
        let waker = || Counted(Arc::new(AtomicUsize::new(0)));
        let waits = poll_with(&mut task, waker());
        gong.wait();
        bell.ring();
        // It is not polled again once it was ready.
        if waits {
            poll_with(&mut task, waker());
        }
    });
    // Dropped while it wakes; and before its end.
    in_every_order(1, || {
        let runtime = Runtime::new(settings(1));
        let bell = Arc::new(Bell::default());
        let hearing = Arc::clone(&bell);
        let mut task = runtime.spawn(async move { hearing.heard().await });
        let gongs: [Arc<Gong>; 2] = Default::default();
        let waits = poll_with(&mut task, Meets(gongs.clone()));
        assert!(waits);
        drop(runtime.spawn(async {}));
        bell.ring();
        gongs[0].wait();
        drop(task);
        gongs[1].strike();
    });
    // Woken twice while it sleeps, and after its end.
    in_every_order(1, || {
        let runtime = Runtime::new(settings(1));
        let (kept, gong) = (Arc::new(Mutex::new(None)), Arc::new(Gong::default()));
        let (keeping, striking) = (Arc::clone(&kept), Arc::clone(&gong));
        let task = runtime.spawn(poll_fn(move |context| {
            if keeping.lock().unwrap().replace(context.waker().clone()).is_some() {
                return Poll::Ready(());
            }
            striking.strike();
            Poll::Pending
        }));
        gong.wait();
        let waker: Waker = kept.lock().unwrap().clone().unwrap();
        (0..2).for_each(|_| waker.wake_by_ref());
        runtime.block_on(task).unwrap();
        waker.wake();
    });
    states::assert_all_of_it_happens();
}

/// A task in `block_on` gives its worker's place up; a thread that comes for it, or the same one afterwards, runs the rest.
#[test]
fn what_a_task_waits_for_in_block_on_is_run_by_another_thread() {
    in_every_order(1, || {
        let runtime = std::sync::Arc::new(Runtime::new(Settings { takes_core: false, ..settings(1) }));
        let (inner, bell) = (std::sync::Arc::downgrade(&runtime), Arc::new(Bell::default()));
        let task = runtime.spawn(async move {
            let ringing = Arc::clone(&bell);
            let runtime = inner.upgrade().expect("it is awaited");
            runtime.block_on(async {
                drop(spawn(async move { ringing.ring() }));
                bell.heard().await;
            });
        });
        runtime.block_on(task).unwrap();
    });
}

/// Beside a task that comes from outside, for which the worker's thread comes back or another one is sent for.
#[test]
fn a_task_from_outside_is_run_although_the_worker_is_in_block_on() {
    in_every_order(1, || {
        let runtime = std::sync::Arc::new(Runtime::new(settings(1)));
        let (bell, gong) = (Arc::new(Bell::default()), Arc::new(Gong::default()));
        let (hearing, inner) = (Arc::clone(&bell), std::sync::Arc::clone(&runtime));
        let striking = Arc::clone(&gong);
        let task = runtime.spawn(async move {
            inner.block_on(async { hearing.heard().await });
            drop(inner);
            striking.strike();
        });
        drop(runtime.spawn(async move { bell.ring() }));
        gong.wait();
        drop((task, runtime));
    });
}

/// A caller leaves it to the worker, whose place it has.
#[test]
fn a_task_from_outside_is_run_although_the_caller_has_tasks_of_its_own() {
    in_every_order(1, || {
        let runtime = Arc::new(Runtime::new(settings(1)));
        let gong = Arc::new(Gong::default());
        let (outside, striking) = (Arc::clone(&runtime), Arc::clone(&gong));
        let thread = thread::spawn(move || drop(outside.spawn(async move { striking.strike() })));
        runtime.block_on(async { assert_eq!(spawn(async { 1 }).await.unwrap(), 1) });
        thread.join().unwrap();
        gong.wait();
    });
}
