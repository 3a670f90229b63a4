//! A set for Miri (`make test-miri`), which interprets and so needs few and small tests: tasks in their slots, wakers that
//! are addresses, here and on other threads, objects in their entries.

mod common;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::thread;

use common::{Task, yield_now};
use frontier::{Executor, Full, Io, Object, Reactor, Sockets, System, frontier};
use zero_cost_loop::{Load, NoWork, Pipeline, Timed};

type Alone<'r> = Executor<'r, (), Task<'r>, Timed<()>>;

fn alone(work: impl FnOnce(&Alone<'_>)) {
    let reactor = Reactor::new((), 1).unwrap();
    work(&Executor::new(&reactor, 4));
}

#[test]
fn tasks_come_and_go_in_their_slots() {
    alone(|executor| {
        let (alive, ran) = (Rc::new(()), Rc::new(Cell::new(0)));
        let root = async {
            for _ in 0..3 {
                for _ in 0..4 {
                    let (held, ran) = (Rc::clone(&alive), Rc::clone(&ran));
                    let task = async move {
                        yield_now(2).await;
                        ran.set(ran.get() + 1);
                        drop(held);
                    };
                    executor.spawn(|| Box::pin(task)).unwrap();
                }
                assert_eq!(executor.spawn(|| unreachable!()), Err(Full));
                while !executor.is_empty() {
                    yield_now(1).await;
                }
            }
        };
        executor.run(root);
        assert_eq!((ran.get(), Rc::strong_count(&alive)), (12, 1));
    });
}

#[test]
fn a_panic_leaves_the_others() {
    alone(|executor| {
        executor.spawn(|| Box::pin(async { panic!("on purpose") })).unwrap();
        executor.spawn(|| Box::pin(yield_now(3))).unwrap();
        assert!(catch_unwind(AssertUnwindSafe(|| executor.run(yield_now(5)))).is_err());
        executor.run(async {});
        assert!(executor.is_empty());
    });
}

#[test]
fn wakers_reach_the_executor_from_threads_and_outlive_it() {
    let kept = RefCell::new(None::<Waker>);
    alone(|executor| {
        let mut thread = None;
        executor.run(poll_fn(|context| {
            if thread.is_some() {
                return Poll::Ready(());
            }
            let waker = context.waker().clone();
            kept.replace(Some(waker.clone()));
            thread = Some(thread::spawn(move || waker.wake()));
            Poll::Pending
        }));
        thread.unwrap().join().unwrap();
    });
    let waker = kept.take().unwrap();
    waker.wake_by_ref();
    thread::spawn(move || waker.wake()).join().unwrap();
}

#[test]
fn the_fake_server_serves_all_its_clients() {
    frontier::<Pipeline, NoWork, Timed<()>>(Load { syscalls: false, steps: 0 }, &mut |_, run| run());
}

/// A system with one line of bytes, which is always ready.
struct Memory;

/// Gives one byte at a time; blocks before each.
struct Slow(Cell<u32>);

// SAFETY: its only events are the keys of what was registered.
unsafe impl System for Memory {
    type Event = usize;
    type Interest = ();
    type Stream = Slow;

    fn poll(&self, events: &mut Vec<usize>, _: impl FnOnce() -> bool) {
        events.clear();
        KEY.with(|key| events.extend(Some(key.get()).filter(|key| *key > 0)));
    }

    fn key(event: &usize) -> usize {
        *event
    }

    fn is_end(_: &usize) -> bool {
        false
    }

    unsafe fn notifier(&self, _: usize) -> io::Result<Waker> {
        Ok(Waker::noop().clone())
    }
}

thread_local! {
    static KEY: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: as it says.
unsafe impl Object<Memory> for Slow {
    unsafe fn register(&self, _: &Memory, key: usize, (): ()) -> io::Result<()> {
        KEY.set(key);
        Ok(())
    }

    fn unregister(&self, _: &Memory) {
        KEY.set(0);
    }
}

impl Sockets for Memory {
    unsafe fn watch_writes(&self, _: &Slow, _: usize) -> io::Result<()> {
        Ok(())
    }
}

impl Read for &Slow {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.set(self.0.get() + 1);
        if self.0.get() % 2 == 1 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        buffer[0] = 7;
        Ok(1)
    }
}

impl Write for &Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.set(self.0.get() + 1);
        if self.0.get() % 2 == 1 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn streams_are_read_and_written_in_their_entries() {
    let reactor = Reactor::<_, Timed<()>>::new(Memory, 2).unwrap();
    let executor = Executor::<_, Task<'_>, _>::new(&reactor, 1);
    executor.run(async {
        for _ in 0..2 {
            let mut stream = Io::in_entry(&reactor, Slow(Cell::new(0)), ()).unwrap();
            let mut buffer = [0; 4];
            for _ in 0..2 {
                assert_eq!(stream.read(&mut buffer).await.unwrap(), 1);
                assert_eq!(stream.write(&buffer).await.unwrap(), 4);
            }
            assert_eq!(buffer[0], 7);
        }
    });
}
