//! Who may outlive whom, and what happens to those who do.

mod common;

use std::cell::RefCell;
use std::future::{pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::task::Poll;

use common::{Executor, Silent, WakerSlot, on_each_executor, wait_once};
use zero_cost_executors::{
    ArgExecutor, ArgSpawner, BoxExecutor, BoxSpawner, BoxedFuture, Spawn, SpawnError, TaskTable,
};
use zero_cost_loop::TASKS;

/// Runs, and returns the message of the panic that must come of it.
fn message_of_run(executor: &dyn Executor) -> String {
    let payload = catch_unwind(AssertUnwindSafe(|| executor.run())).expect_err("run must panic");
    payload
        .downcast_ref::<String>()
        .cloned()
        .unwrap_or_else(|| payload.downcast_ref::<&str>().unwrap().to_string())
}

/// Notes its name when it is dropped.
struct Noted(&'static str, Rc<RefCell<Vec<&'static str>>>);

impl Drop for Noted {
    fn drop(&mut self) {
        self.1.borrow_mut().push(self.0);
    }
}

#[test]
fn a_full_table_refuses_a_task_and_takes_it_later() {
    on_each_executor(|executor| {
        for _ in 0..TASKS {
            executor.start(async {});
        }
        assert_eq!(executor.spawn_boxed(Box::pin(async {})), Err(SpawnError::Full));
        executor.run();
        for _ in 0..TASKS {
            executor.start(async {});
        }
        executor.run();
    });
}

#[test]
fn a_spawner_without_a_running_executor_says_so() {
    let (table, spawner) = (TaskTable::default(), ArgSpawner::default());
    // SAFETY: no wakers leave this thread.
    let executor = unsafe {
        ArgExecutor::<_, _, _, Silent>::new(&table, &spawner, |future: BoxedFuture<'static>| future)
    };
    assert_eq!(spawner.spawn(Box::pin(async {})), Err(SpawnError::NoExecutor));
    executor.spawn(Box::pin(async {})).unwrap();
    executor.run(|| ());
    drop(executor);
    assert_eq!(spawner.spawn(Box::pin(async {})), Err(SpawnError::NoExecutor));
}

#[test]
fn a_spawner_lets_go_of_an_executor_whose_task_panicked() {
    let (table, spawner) = (TaskTable::default(), BoxSpawner::<Silent>::default());
    // SAFETY: no wakers leave this thread.
    let executor = unsafe { BoxExecutor::new(&table, &spawner) };
    executor.spawn(Box::pin(async { panic!("on purpose") })).unwrap();
    catch_unwind(AssertUnwindSafe(|| executor.run(|| ()))).unwrap_err();
    drop(executor);
    assert_eq!(spawner.spawn(async {}), Err(SpawnError::NoExecutor));
}

#[test]
fn a_task_can_spawn_on_its_executor() {
    let (table, spawner) = (TaskTable::default(), BoxSpawner::<Silent>::default());
    let dropped = Rc::default();
    // SAFETY: no wakers leave this thread.
    let executor = unsafe { BoxExecutor::new(&table, &spawner) };
    let child = Noted("child", Rc::clone(&dropped));
    let spawn = async { spawner.spawn(async move { drop(child) }).unwrap() };
    executor.spawn(Box::pin(spawn)).unwrap();
    executor.run(|| panic!("no task waits"));
    assert_eq!(*dropped.borrow(), ["child"]);
}

#[test]
fn after_a_panic_the_task_is_gone_and_the_others_go_on() {
    on_each_executor(|executor| {
        let (dropped, slot, polls) = (Rc::default(), WakerSlot::default(), Rc::default());
        executor.start(wait_once(&slot, &polls));
        let noted = Noted("panicking", Rc::clone(&dropped));
        executor.start(async move {
            let _noted = noted;
            panic!("on purpose");
        });
        assert_eq!(message_of_run(executor), "on purpose");
        assert_eq!(*dropped.borrow(), ["panicking"]);
        slot.take().expect("the other task waits").wake();
        executor.run();
        assert_eq!(polls.get(), 2);
    });
}

#[test]
fn a_panic_in_drop_frees_the_slot() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("bomb");
        }
    }
    on_each_executor(|executor| {
        let bomb = Bomb;
        executor.start(poll_fn(move |_| {
            let _ = &bomb;
            Poll::Ready(())
        }));
        assert_eq!(message_of_run(executor), "bomb");
        for _ in 0..TASKS {
            executor.start(async {});
        }
        executor.run();
    });
}

#[test]
fn an_executor_drops_what_it_could_not_finish_in_slot_order() {
    let dropped = Rc::default();
    on_each_executor(|executor| {
        for name in ["first", "second", "third"] {
            let noted = Noted(name, Rc::clone(&dropped));
            executor.start(async move {
                let _noted = noted;
                pending().await
            });
        }
        // Polls them once, and gives up.
        catch_unwind(AssertUnwindSafe(|| executor.run())).unwrap_err();
        assert_eq!(dropped.borrow().len() % 3, 0, "dropped too early");
    });
    assert_eq!(*dropped.borrow(), ["first", "second", "third"].repeat(5));
}

#[test]
fn run_cannot_be_entered_from_a_task() {
    let (table, spawner) = (Box::default(), Box::new(BoxSpawner::<Silent>::default()));
    // SAFETY: no wakers leave this thread.
    let executor: &_ = Box::leak(Box::new(unsafe { BoxExecutor::new(Box::leak(table), Box::leak(spawner)) }));
    executor.spawn(Box::pin(async { executor.run(|| ()) })).unwrap();
    assert_eq!(message_of_run(executor), "the executor is running already");
    executor.spawn(Box::pin(async {})).unwrap();
    executor.run(|| ());
}

#[test]
fn a_waker_that_outlives_its_task_is_detected_and_harmless() {
    let kept = WakerSlot::default();
    on_each_executor(|executor| {
        let keep = Rc::clone(&kept);
        executor.start(poll_fn(move |context| {
            *keep.borrow_mut() = Some(context.waker().clone());
            Poll::Ready(())
        }));
        let message = message_of_run(executor);
        assert!(message.contains("outlived its task"), "{message}");
        // The slot is never used again, so a late wake reaches no task, and the other slots work.
        for _ in 1..TASKS {
            executor.start(async {});
        }
        assert_eq!(executor.spawn_boxed(Box::pin(async {})), Err(SpawnError::Full));
        kept.borrow().as_ref().expect("a waker").wake_by_ref();
        executor.run();
    });
    // The last executor is gone, and so were the other four when their wakers were replaced.
    kept.take().expect("a waker").wake();
}

#[test]
fn a_waker_outliving_its_executor_is_harmless() {
    on_each_executor(|executor| {
        let (slot, polls) = (WakerSlot::default(), Rc::default());
        executor.start(wait_once(&slot, &polls));
        catch_unwind(AssertUnwindSafe(|| executor.run())).unwrap_err();
        // The task still waits; dropping it drops the waker together with the slot that both share.
        drop(slot);
    });
}
