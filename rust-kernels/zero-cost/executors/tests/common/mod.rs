//! All five executors behind one face, so that each promise is tested on each of them.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::ptr;
use std::rc::Rc;
use std::sync::Mutex;
use std::task::{Poll, Waker};

use zero_cost_executors::{
    ArcWaker, ArgExecutor, ArgSpawner, BoxExecutor, BoxRcExecutor, BoxSpawner, BoxedFuture, CheckedRcWaker,
    RcWaker, Spawn, SpawnError, TaskTable, WakerKind,
};
use zero_cost_loop::Timed;

/// The probe of tests that count for themselves.
pub type Silent = Timed<()>;

/// What every executor can do.
pub trait Executor {
    fn spawn_boxed(&self, future: BoxedFuture<'static>) -> Result<(), SpawnError>;
    fn run_with(&self, park: &mut dyn FnMut());
}

impl dyn Executor + '_ {
    pub fn start(&self, future: impl Future<Output = ()> + 'static) {
        self.spawn_boxed(Box::pin(future)).expect("a vacant slot");
    }

    /// Runs tasks that never wait.
    pub fn run(&self) {
        self.run_with(&mut || panic!("all tasks wait, but none will be woken"));
    }
}

impl<Make: Fn(BoxedFuture<'static>) -> BoxedFuture<'static>> Executor
    for ArgExecutor<'_, BoxedFuture<'static>, BoxedFuture<'static>, Make, Silent>
{
    fn spawn_boxed(&self, future: BoxedFuture<'static>) -> Result<(), SpawnError> {
        self.spawn(future)
    }

    fn run_with(&self, park: &mut dyn FnMut()) {
        self.run(park);
    }
}

impl Executor for BoxExecutor<'_, 'static, Silent> {
    fn spawn_boxed(&self, future: BoxedFuture<'static>) -> Result<(), SpawnError> {
        self.spawn(future)
    }

    fn run_with(&self, park: &mut dyn FnMut()) {
        self.run(park);
    }
}

impl<K: WakerKind> Executor for BoxRcExecutor<K, Silent> {
    fn spawn_boxed(&self, future: BoxedFuture<'static>) -> Result<(), SpawnError> {
        self.spawn(future)
    }

    fn run_with(&self, park: &mut dyn FnMut()) {
        self.run(park);
    }
}

/// Runs `test` on a new executor of each kind. The executor is dropped when `test` returns.
pub fn on_each_executor(test: impl Fn(&dyn Executor)) {
    // Never freed, and not forgotten either: a tool that looks for leaks finds them here.
    static TABLES: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    let table = || -> &'static TaskTable {
        let table: &TaskTable = Box::leak(Box::default());
        TABLES.lock().unwrap().push(ptr::from_ref(table).addr());
        table
    };
    let arg_spawner = ArgSpawner::default();
    // SAFETY: no test that comes here moves a waker to another thread; nor do those below. Some keep one for longer
    // than its executor, so tables are never freed.
    test(&unsafe {
        ArgExecutor::<_, _, _, Silent>::new(table(), &arg_spawner, |future: BoxedFuture<'static>| future)
    });
    let box_spawner = BoxSpawner::<Silent>::default();
    // SAFETY: see above.
    test(&unsafe { BoxExecutor::new(table(), &box_spawner) });
    // SAFETY: see above.
    test(&*unsafe { BoxRcExecutor::<RcWaker, Silent>::new() });
    test(&*BoxRcExecutor::<CheckedRcWaker, Silent>::checked());
    // SAFETY: see above.
    test(&*unsafe { BoxRcExecutor::<ArcWaker, Silent>::new() });
}

/// A place for a waker.
pub type WakerSlot = Rc<RefCell<Option<Waker>>>;

/// Waits until it is polled a second time. Leaves its waker in `slot`, and its number of polls in `polls`.
pub fn wait_once(slot: &WakerSlot, polls: &Rc<Cell<u32>>) -> impl Future<Output = ()> + use<> {
    let (slot, polls) = (Rc::clone(slot), Rc::clone(polls));
    poll_fn(move |context| {
        polls.set(polls.get() + 1);
        if polls.get() > 1 {
            return Poll::Ready(());
        }
        *slot.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    })
}
