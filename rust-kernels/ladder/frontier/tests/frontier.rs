//! What the frontier promises: no lost wakes, no starvation, and a consistent state after a panic.

mod common;

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use async_channel::Sender;
use common::{Task, yield_now};
use frontier::{Executor, Fake, Full, Line, Listener, Reactor, Small, accept_all, echo};
use zero_cost_loop::{
    CONNECTIONS, Counted, Counter, FakeListener, LINE, NoWork, Operation, Probe, READABLE, Stats, TASKS,
    Timed,
};

/// A reactor for the fake system.
fn reactor<P: Probe>(stats: &Stats) -> Reactor<Fake<'_>, P> {
    Reactor::new(Fake::new(stats), TASKS).expect("room for all objects")
}

/// Calls `test` with an executor for tasks of all kinds.
fn on_frontier<P: Probe>(
    test: impl for<'r, 's> FnOnce(&'r Reactor<Fake<'s>, P>, &Executor<'r, Fake<'s>, Task<'r>, P>),
) {
    let stats = Stats::new(false);
    let reactor = reactor::<P>(&stats);
    test(&reactor, &Executor::new(&reactor, CONNECTIONS));
}

/// A listener of the fake system.
fn listen<'r, 's, P: Probe>(
    reactor: &'r Reactor<Fake<'s>, P>,
    stats: &'s Stats,
) -> Listener<'r, 's, FakeListener<&'s Stats>, P> {
    Listener::owned(reactor, FakeListener::new(stats), READABLE).expect("room for the listener")
}

/// Waits once, and leaves its waker in `place`.
fn wait_once(place: &RefCell<Option<Waker>>) -> impl Future<Output = ()> {
    let mut waited = false;
    poll_fn(move |context| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        *place.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    })
}

#[test]
fn run_returns_what_the_root_returns_when_all_tasks_are_done() {
    let done = Cell::new(0);
    on_frontier::<Timed<()>>(|_, executor| {
        let done = &done;
        let root = async {
            for _ in 0..256 {
                executor.spawn(|| Box::pin(async { yield_now(3).await })).unwrap();
            }
            assert_eq!(executor.spawn(|| unreachable!()), Err(Full));
            done.set(1);
            "root"
        };
        assert_eq!(executor.run(root), "root");
        assert!(executor.is_empty());
    });
    assert_eq!(done.get(), 1);
}

#[test]
fn a_wake_of_a_finished_task_is_harmless() {
    let place = Rc::new(RefCell::new(None::<Waker>));
    on_frontier::<Timed<()>>(|_, executor| {
        let inner = Rc::clone(&place);
        executor
            .spawn(|| {
                Box::pin(async move {
                    let waker = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
                    *inner.borrow_mut() = Some(waker);
                })
            })
            .unwrap();
        executor.run(async {});
        let waker = place.borrow().clone().unwrap();
        waker.wake_by_ref();
        executor.run(yield_now(3));
        waker.wake();
        executor.run(yield_now(3));
    });
    // Its executor is gone, and another one has its block.
    on_frontier::<Timed<()>>(|_, executor| {
        place.borrow().as_ref().unwrap().wake_by_ref();
        executor.run(yield_now(3));
    });
    place.take().unwrap().wake();
}

#[test]
fn a_wake_from_another_thread_ends_the_sleep() {
    on_frontier::<Timed<()>>(|_, executor| {
        let woken = Arc::new(AtomicUsize::new(0));
        let mut waker_sent = false;
        executor.run(poll_fn(|context| {
            if woken.load(Ordering::SeqCst) == 1 {
                return Poll::Ready(());
            }
            if !std::mem::replace(&mut waker_sent, true) {
                let (waker, woken) = (context.waker().clone(), Arc::clone(&woken));
                thread::spawn(move || {
                    // Long enough for the executor to fall asleep; were it not, the test would pass all the same.
                    thread::sleep(Duration::from_millis(20));
                    woken.store(1, Ordering::SeqCst);
                    waker.wake();
                });
            }
            Poll::Pending
        }));
    });
}

#[test]
fn wakers_work_on_any_thread_after_their_executor() {
    let mut stored = None;
    on_frontier::<Timed<()>>(|_, executor| {
        executor.run(poll_fn(|context| {
            stored = Some(context.waker().clone());
            Poll::Ready(())
        }));
    });
    let stored = stored.unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            let waker = stored.clone();
            scope.spawn(move || waker.wake());
            scope.spawn(|| on_frontier::<Timed<()>>(|_, executor| executor.run(yield_now(100))));
        }
    });
}

#[test]
fn a_task_that_always_wakes_itself_starves_neither_tasks_nor_objects() {
    let stats = Stats::new(false);
    let reactor = reactor::<Timed<()>>(&stats);
    let served = &Cell::new(0);
    let executor = Executor::<_, Task<'_>, _>::new(&reactor, CONNECTIONS);
    executor
        .spawn(|| {
            Box::pin(async move {
                while served.get() < 256 {
                    yield_now(1).await;
                }
            })
        })
        .unwrap();
    let mut listener = listen(&reactor, &stats);
    executor.run(async {
        for _ in 0..256 {
            let stream = listener.accept().await.unwrap();
            let serve = async move {
                echo::<_, NoWork, Timed<()>, Small>(stream, NoWork).await;
                yield_now(5).await;
                served.set(served.get() + 1);
            };
            executor.spawn(|| Box::pin(serve)).unwrap();
        }
    });
    drop(listener);
    assert_eq!(served.get(), 256);
    assert_eq!(stats.count(Operation::Unregister), 257);
}

/// Spawns a task that spawns the next and ends, and so on.
fn spawn_next(
    executor: &Rc<Executor<'static, Fake<'static>, Task<'static>, Timed<()>>>,
    left: &Rc<Cell<usize>>,
) {
    let (next, left) = (Rc::clone(executor), Rc::clone(left));
    let serve = async move {
        left.set(left.get().saturating_sub(1));
        if left.get() > 0 {
            spawn_next(&next, &left);
        }
    };
    executor.spawn(|| Box::pin(serve)).unwrap();
}

#[test]
fn endless_new_tasks_lock_nobody_out_that_was_woken() {
    // Tasks that hold their executor must live as long as what it borrows.
    let stats = Box::into_raw(Box::new(Stats::new(false)));
    // SAFETY: it is freed below, when nobody refers to it.
    let reactor = Box::into_raw(Box::new(reactor(unsafe { &*stats })));
    // SAFETY: as above.
    let executor = Rc::new(Executor::new(unsafe { &*reactor }, CONNECTIONS));
    let left = Rc::new(Cell::new(1_000_000));
    executor.run(async {
        spawn_next(&executor, &left);
        yield_now(20).await;
        assert!(left.get() > 0, "the root was locked out");
        left.set(1);
    });
    drop(Rc::into_inner(executor).expect("all tasks are gone, and their handles with them"));
    // SAFETY: both came from boxes, and the executor was the last to refer to them.
    unsafe {
        drop(Box::from_raw(reactor));
        drop(Box::from_raw(stats));
    }
}

#[test]
fn a_panic_ends_its_task_and_the_root_and_no_other() {
    on_frontier::<Timed<()>>(|_, executor| {
        let finished = Rc::new(Cell::new(0));
        for task in 0..10 {
            let finished = Rc::clone(&finished);
            let serve = async move {
                yield_now(2).await;
                assert_ne!(task, 5, "five");
                finished.set(finished.get() + 1);
            };
            executor.spawn(|| Box::pin(serve)).unwrap();
        }
        let run = || executor.run(pending::<()>());
        catch_unwind(AssertUnwindSafe(run)).expect_err("task 5 panics");
        assert_eq!(executor.len() + finished.get(), 9);
        executor.run(async {});
        assert_eq!((executor.len(), finished.get()), (0, 9));
    });
}

#[test]
fn a_panic_leaves_the_tasks_that_were_never_polled_for_the_next_run() {
    on_frontier::<Timed<()>>(|_, executor| {
        let order = Rc::new(RefCell::new(Vec::new()));
        let number = |number| {
            let order = Rc::clone(&order);
            async move {
                assert_ne!(number, 5, "five");
                order.borrow_mut().push(number);
            }
        };
        (0..10).for_each(|task| executor.spawn(|| Box::pin(number(task))).unwrap());
        let run = || executor.run(pending::<()>());
        catch_unwind(AssertUnwindSafe(run)).expect_err("task 5 panics");
        assert_eq!((executor.len(), &*order.borrow()), (4, &vec![0, 1, 2, 3, 4]));
        executor.spawn(|| Box::pin(number(10))).unwrap();
        executor.run(async {});
        assert_eq!((executor.len(), &*order.borrow()), (0, &vec![0, 1, 2, 3, 4, 6, 7, 8, 9, 10]));
    });
}

#[test]
fn new_tasks_have_their_turn_before_those_that_are_awake_the_oldest_first() {
    on_frontier::<Timed<()>>(|_, executor| {
        let order = Rc::new(RefCell::new(Vec::new()));
        executor.run(async {
            for task in 0..3 {
                let order = Rc::clone(&order);
                executor.spawn(|| Box::pin(async move { order.borrow_mut().push(task) })).unwrap();
            }
            yield_now(1).await;
            order.borrow_mut().push(100);
        });
        assert_eq!(*order.borrow(), [0, 1, 2, 100]);
    });
}

/// A task that borrows the executor that holds it cannot be written, unless that is leaked. A channel to the root will
/// do.
struct Wanted {
    depth: u32,
    wishes: Sender<Wanted>,
}

async fn have_children(Wanted { depth, wishes }: Wanted, born: Rc<Cell<u32>>) {
    born.set(born.get() + 1);
    for _ in 0..if depth > 0 { 2 } else { 0 } {
        wishes.send(Wanted { depth: depth - 1, wishes: wishes.clone() }).await.expect("the root listens");
        yield_now(1).await;
    }
}

#[test]
fn tasks_of_the_pool_spawn_through_the_root() {
    let born = Rc::new(Cell::new(0));
    on_frontier::<Timed<()>>(|_, executor| {
        let (wishes, wanted) = async_channel::unbounded();
        wishes.try_send(Wanted { depth: 5, wishes: wishes.clone() }).expect("the channel is open");
        drop(wishes);
        executor.run(async {
            while let Ok(one) = wanted.recv().await {
                executor.spawn(|| Box::pin(have_children(one, Rc::clone(&born)))).unwrap();
            }
        });
    });
    assert_eq!(born.get(), (1 << 6) - 1);
}

#[test]
fn a_panicking_maker_gives_its_slot_back() {
    on_frontier::<Timed<()>>(|_, executor| {
        for _ in 0..1000 {
            let spawn = || executor.spawn(|| panic!("no future"));
            catch_unwind(AssertUnwindSafe(spawn)).expect_err("it panics");
        }
        assert!(executor.is_empty());
        (0..256).for_each(|_| executor.spawn(|| Box::pin(async {})).unwrap());
        executor.run(async {});
    });
}

#[test]
fn a_maker_may_spawn() {
    on_frontier::<Timed<()>>(|_, executor| {
        let outer = executor.spawn(|| {
            executor.spawn(|| Box::pin(async {})).unwrap();
            Box::pin(async {})
        });
        assert_eq!((outer, executor.len()), (Ok(()), 2));
        executor.run(async {});
    });
}

#[test]
fn futures_are_dropped_with_their_executor() {
    let alive = Rc::new(());
    let place = Rc::new(RefCell::new(None));
    on_frontier::<Timed<()>>(|_, executor| {
        for _ in 0..3 {
            let (alive, place) = (Rc::clone(&alive), Rc::clone(&place));
            let serve = async move {
                wait_once(&place).await;
                drop(alive);
            };
            executor.spawn(|| Box::pin(serve)).unwrap();
        }
        let mut polls = 0;
        let root = poll_fn(|context| {
            context.waker().wake_by_ref();
            polls += 1;
            assert!(polls < 3, "enough");
            Poll::<()>::Pending
        });
        catch_unwind(AssertUnwindSafe(|| executor.run(root))).expect_err("the root panics");
        assert_eq!(Rc::strong_count(&alive), 4);
    });
    assert_eq!(Rc::strong_count(&alive), 1);
    place.take().unwrap().wake();
}

#[test]
fn run_does_not_nest() {
    on_frontier::<Timed<()>>(|_, executor| {
        let nested = || executor.run(async { executor.run(async {}) });
        catch_unwind(AssertUnwindSafe(nested)).expect_err("the inner run panics");
        executor.run(async {});
    });
}

#[test]
fn a_reactor_has_one_executor() {
    on_frontier::<Timed<()>>(|reactor, _| {
        let second = || drop(Executor::<_, Task<'_>, _>::new(reactor, 1));
        catch_unwind(AssertUnwindSafe(second)).expect_err("attached already");
    });
}

/// A waker that forwards, as `join!` and `select!` make them.
struct Forward {
    inner: Waker,
    wakes: AtomicUsize,
}

impl Wake for Forward {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, Ordering::Relaxed);
        self.inner.wake_by_ref();
    }
}

#[test]
fn foreign_wakers_are_kept_called_and_dropped() {
    let forwards = RefCell::new(Vec::new());
    let forwards_in = &forwards;
    let stats = Stats::new(false);
    let reactor = reactor::<Counted>(&stats);
    let executor = Executor::<_, Task<'_>, _>::new(&reactor, CONNECTIONS);
    harness::tally::take(Counter::NAMES);
    executor.run(accept_all::<FakeListener<_>, _>(&reactor, &stats, |stream| {
        executor.spawn(|| {
            let mut serve = Box::pin(echo::<_, NoWork, Counted, Small>(stream, NoWork));
            Box::pin(poll_fn(move |context| {
                let forward =
                    Arc::new(Forward { inner: context.waker().clone(), wakes: AtomicUsize::new(0) });
                forwards_in.borrow_mut().push(Arc::clone(&forward));
                serve.as_mut().poll(&mut Context::from_waker(&Waker::from(forward)))
            }))
        })
    }));
    drop(executor);
    // Blocks are used again, and tests run side by side: a waker that outlived the executor of another test may poll a
    // task of this one without need, which then waits once more.
    let (clones, spurious) = (Counted::value(Counter::WakerClones), Counted::value(Counter::NotReadyPolls));
    assert!((512..=512 + spurious).contains(&clones), "{clones} clones, {spurious} spurious polls");
    let forwards = forwards.take();
    assert_eq!(forwards.iter().map(|forward| forward.wakes.load(Ordering::Relaxed)).sum::<usize>(), 512);
    assert!(forwards.iter().all(|forward| Arc::strong_count(forward) == 1), "the reactor has let go of them");
}

/// An object whose operation was given up may be used by another task: the last one to ask is woken.
#[test]
fn an_abandoned_operation_leaves_its_object_usable() {
    let stats = Stats::new(false);
    let reactor = reactor::<Timed<()>>(&stats);
    let executor = Executor::<_, Task<'_>, _>::new(&reactor, CONNECTIONS);
    let mut listener = listen(&reactor, &stats);
    executor.run(async {
        let mut first = Box::pin(listener.accept());
        poll_fn(|context| {
            assert!(first.as_mut().poll(context).is_pending());
            assert!(first.as_mut().poll(context).is_pending(), "not ready, so not tried");
            Poll::Ready(())
        })
        .await;
        drop(first);
        assert_eq!(stats.count(Operation::Accept), 1);
        drop(listener.accept().await);
    });
}

/// Its first owner is the root, its second a task, and its third a foreign waker: each is woken in his turn.
#[test]
fn a_stream_that_changes_hands_wakes_whoever_waits_now() {
    let stats = Stats::new(false);
    let reactor = reactor::<Timed<()>>(&stats);
    let executor = Executor::<_, Task<'_>, _>::new(&reactor, CONNECTIONS);
    let mut listener = listen(&reactor, &stats);
    executor.run(async {
        let mut stream = listener.accept().await.unwrap();
        let mut line = [0; LINE.len()];
        assert_eq!(stream.read(&mut line).await, LINE.len());
        let serve = async move {
            assert_eq!(stream.write(LINE).await, LINE.len());
            let mut again = Box::pin(echo::<_, NoWork, Timed<()>, Small>(stream, NoWork));
            poll_fn(move |context| {
                let clone = context.waker().clone();
                again.as_mut().poll(&mut Context::from_waker(&clone))
            })
            .await;
        };
        executor.spawn(|| Box::pin(serve)).unwrap();
    });
    drop(listener);
    assert_eq!(stats.count(Operation::Unregister), 2);
}

/// Places that held streams are good for other objects, and the other way round.
#[test]
fn a_reactor_is_full_when_all_places_are_taken_and_not_before() {
    let stats = Stats::new(false);
    let reactor = Reactor::<_, Timed<()>>::new(Fake::new(&stats), 2).expect("room for two");
    let executor = Executor::<_, Task<'_>, _>::new(&reactor, 1);
    let mut first = listen(&reactor, &stats);
    executor.run(async {
        drop(first.accept().await.unwrap());
        let second = listen(&reactor, &stats);
        let third = || drop(listen(&reactor, &stats));
        catch_unwind(AssertUnwindSafe(third)).expect_err("the reactor is full");
        drop(second);
        drop(first.accept().await.unwrap());
    });
}

/// An object may outlive the executor whose task waits for it. The next executor does not know that task.
#[test]
fn a_task_that_waits_is_forgotten_with_its_executor() {
    let stats = Stats::new(false);
    let reactor = reactor::<Timed<()>>(&stats);
    let mut listener = listen(&reactor, &stats);
    let executor = Executor::<_, Task<'_>, _>::new(&reactor, CONNECTIONS);
    executor.run(async {
        let mut accept = Box::pin(listener.accept());
        poll_fn(|context| {
            assert!(accept.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
    });
    drop(executor);
    let executor = Executor::<_, std::future::Ready<()>, _>::new(&reactor, 1);
    executor.run(async {
        // The reactor reports the listener, for which nobody waits.
        yield_now(2000).await;
        drop(listener.accept().await);
    });
}

/// More tasks than one block has flags for: each is woken by itself, by the root and from elsewhere.
#[test]
fn a_thousand_tasks_are_all_woken() {
    const MANY: usize = 1500;
    let done = Cell::new(0);
    let phases: Vec<AtomicUsize> = (0..MANY).map(|_| AtomicUsize::new(0)).collect();
    let wakers: Vec<RefCell<Option<Waker>>> = (0..MANY).map(|_| RefCell::new(None)).collect();
    let (phases, wakers) = (&phases, &wakers);
    // Waits for a phase; spurious polls do no harm.
    let wait_for = |number: usize, phase: usize| {
        poll_fn(move |context: &mut Context<'_>| {
            *wakers[number].borrow_mut() = Some(context.waker().clone());
            if phases[number].load(Ordering::SeqCst) >= phase { Poll::Ready(()) } else { Poll::Pending }
        })
    };
    let stats = Stats::new(false);
    let reactor = reactor::<Timed<()>>(&stats);
    let executor = Executor::<_, Task<'_>, _>::new(&reactor, MANY);
    thread::scope(|scope| {
        executor.run(async {
            for number in 0..MANY {
                let (done, wait_for) = (&done, &wait_for);
                let task = async move {
                    yield_now(2).await;
                    wait_for(number, 1).await;
                    wait_for(number, 2).await;
                    done.set(done.get() + 1);
                };
                executor.spawn(|| Box::pin(task)).unwrap();
            }
            assert_eq!(executor.spawn(|| unreachable!()), Err(Full));
            while wakers.iter().any(|waker| waker.borrow().is_none()) {
                yield_now(1).await;
            }
            for (phase, waker) in phases.iter().zip(wakers) {
                phase.store(1, Ordering::SeqCst);
                waker.borrow().as_ref().unwrap().wake_by_ref();
            }
            let wakers: Vec<Waker> = wakers.iter().filter_map(|waker| waker.borrow().clone()).collect();
            scope.spawn(move || {
                for (number, waker) in wakers.into_iter().enumerate() {
                    phases[number].store(2, Ordering::SeqCst);
                    waker.wake();
                }
            });
        });
    });
    assert_eq!(done.get(), MANY);
}

#[test]
fn a_task_that_wakes_itself_for_ever_locks_out_nobody_in_another_block() {
    let finished = Cell::new(false);
    let stats = Stats::new(false);
    let reactor = reactor::<Timed<()>>(&stats);
    let executor = Executor::<_, Task<'_>, _>::new(&reactor, 600);
    executor.run(async {
        let finished = &finished;
        for number in 0..600 {
            let task: Task<'_> = match number {
                0 => Box::pin(async {
                    while !finished.get() {
                        yield_now(1).await;
                    }
                }),
                599 => Box::pin(async {
                    yield_now(10).await;
                    finished.set(true);
                }),
                _ => Box::pin(async {}),
            };
            executor.spawn(|| task).unwrap();
        }
    });
    assert!(finished.get());
}
