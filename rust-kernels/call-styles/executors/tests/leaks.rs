//! Nothing is kept after its last use: neither of a call, however it ends, nor of a wait that is given up.

mod common;
#[path = "../../../live_allocations.rs"]
mod live_allocations;

use std::cell::RefCell;
use std::future::{Future, pending};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use call_styles_event_loop::{
    ArcWakers, Design, Direct, Epoll, Heap, IndexWakers, Interest, Parts, Polling, Probed, SortedVec, Tree,
};
use call_styles_executors::{CallState, CallStyles, Evaluation, Executor, FiberProc, Fibers, Futures};
use common::Still;
use live_allocations::assert_nothing_is_kept;

/// A waker that is one allocation.
struct Foreign;

impl Wake for Foreign {
    fn wake(self: Arc<Self>) {}
}

/// Polls once, with a waker that nobody else has.
fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(&Waker::from(Arc::new(Foreign))))
}

/// What a call holds, and gives back.
fn held(ends: bool) -> impl Future<Output = Box<u8>> {
    let held = Box::new(1);
    async move {
        if !ends {
            pending::<()>().await;
        }
        held
    }
}

fn waits<T, D: Design>(begun: CallState<T, D>) -> Evaluation<T, D> {
    match begun {
        CallState::Waiting(evaluation) => evaluation,
        CallState::Concluded(_) => panic!("it waits"),
    }
}

fn futures_keep_nothing<D: Design>() {
    let executor = Rc::new(Futures::<D>::new().unwrap());
    let event_loop = Rc::clone(executor.event_loop());
    // Stays the next that is due, so that nobody is thrown out because it is his turn.
    let mut first = pin!(event_loop.wait(Duration::from_secs(1)));
    assert!(poll_once(first.as_mut()).is_pending());
    let turn = || executor.block_on(event_loop.wait(Duration::ZERO));
    assert_nothing_is_kept("calls whose result is not taken", || {
        drop(executor.call_nonblock_eagerly(held(true)));
        let evaluation = executor.call_detached(held(true));
        drop(executor.call_detached(held(true)));
        turn();
        drop(evaluation);
        assert_eq!(executor.waiting(), 0);
    });
    assert_nothing_is_kept("calls that are cancelled, and one that cancels itself", || {
        let mut evaluation = waits(executor.call_nonblock(held(false)));
        assert!(poll_once(Pin::new(&mut evaluation)).is_pending());
        assert!(executor.cancel(&evaluation));
        let own: Rc<RefCell<Option<Evaluation<(), D>>>> = Rc::default();
        let (canceller, mine) = (Rc::clone(&executor), Rc::clone(&own));
        let evaluation = executor.call_detached(async move {
            assert!(canceller.cancel(mine.borrow().as_ref().unwrap()));
            pending::<()>().await;
        });
        own.replace(Some(evaluation));
        turn();
        assert_eq!(executor.waiting(), 0);
    });
    assert_nothing_is_kept("calls that panic", || {
        let evaluation = executor.call_detached(async {
            let _held = Box::new(1);
            resume_unwind(Box::new(1));
        });
        catch_unwind(AssertUnwindSafe(turn)).unwrap_err();
        assert!(evaluation.is_concluded() && executor.waiting() == 0);
    });
    assert_nothing_is_kept("waits for a time, given up before it comes", || {
        let mut late = pin!(event_loop.wait(Duration::MAX));
        assert!(poll_once(late.as_mut()).is_pending());
    });
    let (reading, _writing) = rustix::pipe::pipe().unwrap();
    assert_nothing_is_kept("waits for a descriptor, given up before it is ready", || {
        let late = Some(Duration::from_secs(1000));
        let mut once = pin!(event_loop.await_ready(&reading, Interest::Readable, late));
        assert!(poll_once(once.as_mut()).is_pending());
    });
    let mut registered = event_loop.register(&reading).unwrap();
    assert_nothing_is_kept("the same of one that is registered", || {
        let mut once = pin!(registered.ready(Interest::Readable, Some(Duration::MAX)));
        assert!(poll_once(once.as_mut()).is_pending());
    });
    assert_nothing_is_kept("an executor with calls that wait", || {
        let executor = Futures::<D>::new().unwrap();
        let event_loop = Rc::clone(executor.event_loop());
        let inner = executor.call_detached(held(false));
        let outer = executor.call_detached(async move {
            let _never = inner.await;
            event_loop.wait(Duration::MAX).await;
        });
        executor.block_on(executor.event_loop().wait(Duration::ZERO));
        drop(executor);
        assert!(outer.is_concluded());
    });
}

#[test]
fn a_thousand_rounds_leave_nothing_behind() {
    futures_keep_nothing::<Probed<Still, Parts<ArcWakers, SortedVec, Polling>>>();
    futures_keep_nothing::<Probed<Still, Parts<IndexWakers, Heap, Epoll>>>();
    futures_keep_nothing::<Probed<Still, Parts<Direct, Tree, Epoll>>>();
    let procedure: FiberProc<Parts<Direct>> = Rc::new(|inside, waits| {
        let _held = Box::new(1);
        match waits {
            0 => inside.yield_now(),
            1 => inside.wait(Duration::ZERO),
            2 => inside.wait(Duration::MAX),
            _ => resume_unwind(Box::new(1)),
        }
        waits
    });
    for pooled in [true, false] {
        let fibers = Fibers::new(pooled).unwrap();
        assert_nothing_is_kept("fibers", || {
            for waits in 0..2 {
                assert_eq!(fibers.call((Rc::clone(&procedure), waits)), waits);
                drop(fibers.call_detached((Rc::clone(&procedure), waits)));
            }
            fibers.block_on(some_turns(&fibers));
            let panics = fibers.call_detached((Rc::clone(&procedure), 3));
            catch_unwind(AssertUnwindSafe(|| fibers.block_on(some_turns(&fibers)))).unwrap_err();
            assert!(panics.is_concluded());
        });
        assert_nothing_is_kept("fibers that wait until they are dropped", || {
            let fibers = Fibers::new(pooled).unwrap();
            fibers.call_and_forget((Rc::clone(&procedure), 2));
            assert!(!fibers.call_nonblock_eagerly((Rc::clone(&procedure), 2)).is_concluded());
        });
    }
}

async fn some_turns(fibers: &Fibers<Parts<Direct>>) {
    for _ in 0..4 {
        fibers.event_loop().wait(Duration::ZERO).await;
    }
}
