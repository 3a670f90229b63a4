// -*- coding: utf-8 -*-
// ---
// jupyter:
//   jupytext:
//     formats: notebooks///ipynb,rust-kernels///rs:percent
//     text_representation:
//       extension: .rs
//       format_name: percent
//       format_version: '1.3'
//       jupytext_version: 1.19.6
//   kernelspec:
//     display_name: Rust
//     language: rust
//     name: rust
// ---

// %% [markdown]
// # Two executors on one loop: futures in slots, and fibers
//
// [The event loop](event-loop.ipynb) resumes slots, which are numbers. This notebook puts something into them. First
// futures: each call polls one at once, and if it waits, it moves into a slot. Then the same a second time with
// fibers, as in the program that this study follows: stacks of their own that can be left and entered again.
//
// Both have the four call styles of that program. What these cost is the question of [the next
// notebook](measure.ipynb).
//
// ## Compile cells as for a benchmark
//
// The cells that look at times need these settings.

// %% tags=["active-ipynb"]
// :build_env CARGO_PROFILE_DEV_OPT_LEVEL=3
// :build_env CARGO_PROFILE_DEV_DEBUG_ASSERTIONS=false
// :build_env CARGO_PROFILE_DEV_OVERFLOW_CHECKS=false
// :build_env CARGO_PROFILE_DEV_CODEGEN_UNITS=1
// :build_env CARGO_INCREMENTAL=0
// :dep call-styles-event-loop = { path = "../../rust-kernels/call-styles/event-loop" }
// :dep corosensei = "=0.3.4"
// :dep harness = { path = "../../rust-kernels/harness" }
// :dep idle = { path = "../../rust-kernels/idle" }
// :dep pin-project-lite = "=0.2.17"

// %% [markdown]
// Fibers come from the `corosensei` crate.

// %%
use std::alloc::{self, Layout};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::hint::black_box;
use std::io;
use std::mem::{ManuallyDrop, needs_drop, replace};
use std::pin::Pin;
use std::ptr::NonNull;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::thread::panicking;
use std::time::Duration;

use call_styles_event_loop::{
    Counter, Design, Direct, EventLoop, Parts, Probe, ROOT, Slot, Timer, WaiterOf, Wakers,
};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder, on_stack};
use harness::Bencher;
use idle::shielded;
use pin_project_lite::pin_project;

// %% [markdown]
// # Evaluations
//
// An **evaluation** is what you hold of a call that is not over: its result, once there is one, and the waiter for it.
// Here it is one reference-counted cell. It can be awaited, or cancelled, or dropped, which lets the call run on.
//
// A result that is not taken is dropped, and a panic of that drop is lost. It may hold the evaluation of another call,
// and so on: such a chain is dropped link by link, for the stack has an end.

// %%
/// Results that wait for their turn.
type Waiting = Vec<Box<dyn Any>>;

/// Drops `first`, and after it, not within, the results that hang on it.
fn drop_in_turn<T: 'static>(first: T) {
    thread_local! {
        /// What waits for its turn, while something is being dropped. Without a destructor of its own: other
        /// thread-locals may come here when their thread ends.
        static WAITING: RefCell<Option<ManuallyDrop<Waiting>>> = const { RefCell::new(None) };
    }
    if !needs_drop::<T>() {
        return;
    }
    let mut first = Some(first);
    WAITING.with_borrow_mut(|waiting| match waiting {
        Some(waiting) => waiting.push(Box::new(first.take())),
        None => *waiting = Some(ManuallyDrop::default()),
    });
    if first.is_none() {
        return;
    }
    shielded(|| drop(first));
    while let Some(next) =
        WAITING.with_borrow_mut(|waiting| waiting.as_mut().and_then(|waiting| waiting.pop()))
    {
        shielded(|| drop(next));
    }
    WAITING.take().map(ManuallyDrop::into_inner);
}

// %% [markdown]
// The cell that it is in:

// %%
/// A slot and which of its uses, so that the next one is not cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Task {
    slot: Slot,
    generation: u32,
}

/// The call has no result: it was cancelled, or it panicked, or its executor is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled;

/// The result of a call, and what waits for it.
pub struct Conclusion<T: 'static, D: Design> {
    task: Task,
    event_loop: Rc<EventLoop<D>>,
    concluded: Cell<bool>,
    /// Present from the conclusion until it is taken.
    result: Cell<Option<Result<T, Cancelled>>>,
    waiter: Cell<Option<WaiterOf<D>>>,
}

impl<T: 'static, D: Design> Conclusion<T, D> {
    fn new(task: Task, event_loop: &Rc<EventLoop<D>>) -> Rc<Self> {
        D::Probe::add(Counter::Handles, 1);
        let event_loop = Rc::clone(event_loop);
        let (concluded, result, waiter) = Default::default();
        Rc::new(Self { task, event_loop, concluded, result, waiter })
    }

    /// Gives it its result, unless it has one, and schedules its waiter into the next pass.
    fn conclude(&self, result: Result<T, Cancelled>) {
        if self.concluded.replace(true) {
            return drop_in_turn(result);
        }
        self.result.set(Some(result));
        if let Some(waiter) = self.waiter.take() {
            D::Probe::add(Counter::QueueEntries, 1);
            self.event_loop.wakers.wake(waiter);
        }
    }
}

impl<T: 'static, D: Design> Drop for Conclusion<T, D> {
    fn drop(&mut self) {
        if let Some(result) = self.result.take() {
            drop_in_turn(result);
        }
    }
}

// %% [markdown]
// What you hold is a reference to that.

// %%
/// A call that is not over, or whose result was not taken yet.
pub struct Evaluation<T: 'static, D: Design>(Rc<Conclusion<T, D>>);

impl<T: 'static, D: Design> Evaluation<T, D> {
    /// Whether the call is over.
    pub fn is_concluded(&self) -> bool {
        self.0.concluded.get()
    }
}

/// Awaits the result: at once if it is there.
impl<T: 'static, D: Design> Future for Evaluation<T, D> {
    type Output = Result<T, Cancelled>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self(of) = &*self;
        if let Some(result) = of.result.take() {
            return Poll::Ready(result);
        }
        let superseded = of.waiter.replace(Some(of.event_loop.waiter(context)));
        if superseded.is_some() {
            shielded(|| drop(superseded));
        }
        Poll::Pending
    }
}

impl<T: 'static, D: Design> Drop for Evaluation<T, D> {
    fn drop(&mut self) {
        if let Some(waiter) = self.0.waiter.take() {
            shielded(|| drop(waiter));
        }
    }
}

// %% [markdown]
// The caller's side holds the other reference, and drops it only when the evaluation is concluded: by a result, or,
// however the call comes to its end, without one. This is its *promise*. In the original it is an array of one element,
// called the bucket.

// %%
/// The evaluation that wants the result of a call, if there is one.
pub struct Promise<T: 'static, D: Design>(Option<Rc<Conclusion<T, D>>>);

impl<T: 'static, D: Design> Promise<T, D> {
    fn conclude(&mut self, result: T) {
        if let Some(of) = self.0.take() {
            of.conclude(Ok(result));
        }
    }
}

impl<T: 'static, D: Design> Drop for Promise<T, D> {
    fn drop(&mut self) {
        if let Some(of) = self.0.take() {
            of.conclude(Err(Cancelled));
        }
    }
}

// %% [markdown]
// # The four styles
//
// - **`call_nonblock`** begins the callee at once. If it does not wait you get the result. If it does, what is left
//   stays in a slot, and you get its evaluation, made now.
// - **`call`** is the same, and waits for the evaluation.
// - **`call_detached`** makes an evaluation and puts the callee into the run queue. Nothing begins before the program waits.
// - **`call_and_forget`** only puts it into the run queue.
//
// When is the evaluation made? `call_detached` needs it before the call begins: **eagerly**. `call_nonblock` needs it
// only if the callee waits: **lazily**. Both are here for `call_nonblock`, to tell what that is worth.

// %%
/// Resumes the slots of a loop.
pub trait Executor {
    /// The design of the loop.
    type Design: Design;

    /// The loop, with which procedures wait.
    fn event_loop(&self) -> &Rc<EventLoop<Self::Design>>;

    /// Runs what is in `slot`, if anything, until it waits.
    fn resume(&self, slot: Slot);

    /// Polls `future` as the root, and runs the loop for as long as it waits. It runs no loop if it does not wait.
    ///
    /// # Panics
    /// As [`EventLoop::block_on`].
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.event_loop().block_on(future, |slot| self.resume(slot))
    }
}

/// A call after its beginning.
pub enum CallState<T: 'static, D: Design> {
    /// It did not wait; this is its result.
    Concluded(T),
    /// It waits.
    Waiting(Evaluation<T, D>),
}

// %% [markdown]
// An executor that has these styles has `call`, too.

// %%
/// Calls a `C` by four styles.
pub trait CallStyles<C>: Executor {
    /// The result of a call.
    type Output: 'static;

    /// Begins at once, until the callee waits for the first time.
    fn call_nonblock(&self, callee: C) -> CallState<Self::Output, Self::Design>;

    /// The same with an evaluation that is made in any case.
    fn call_nonblock_eagerly(&self, callee: C) -> Evaluation<Self::Output, Self::Design>;

    /// Begins in the next pass of the loop.
    fn call_detached(&self, callee: C) -> Evaluation<Self::Output, Self::Design>;

    /// Begins in the next pass of the loop, and has no use for the result.
    fn call_and_forget(&self, callee: C);

    /// Begins at once and waits until the callee ends. For the root; others await what `call_nonblock` gives them.
    ///
    /// # Panics
    /// If the loop is running already.
    fn call(&self, callee: C) -> Self::Output {
        match self.call_nonblock(callee) {
            CallState::Concluded(result) => result,
            CallState::Waiting(evaluation) => {
                self.block_on(evaluation).unwrap_or_else(|Cancelled| unreachable!("it is known here alone"))
            }
        }
    }
}

// %% [markdown]
// # Futures
//
// The original never frees a fiber. One that has concluded goes back to a pool, last in first out, and waits for the
// next procedure. Here that is a table of slots with a list of vacant ones, and what is kept is the *memory* of the
// future: if the next future has the same layout, it moves in. The other choice makes a fresh box for each call.

// %%
/// What is done with the memory of futures.
pub trait Boxes: 'static {
    /// What a vacant slot keeps.
    type Memory: Default;

    /// Boxes a future.
    fn put<F: Future<Output = ()> + 'static>(memory: &mut Self::Memory, future: F) -> Pin<Box<F>>;

    /// Drops a future.
    fn end<F: Future<Output = ()> + ?Sized>(memory: &mut Self::Memory, future: Pin<Box<F>>);
}

/// A box for each call.
pub enum Fresh {}

impl Boxes for Fresh {
    type Memory = ();

    fn put<F: Future<Output = ()> + 'static>(_: &mut (), future: F) -> Pin<Box<F>> {
        Box::pin(future)
    }

    fn end<F: Future<Output = ()> + ?Sized>(_: &mut (), future: Pin<Box<F>>) {
        drop(future);
    }
}

// %% [markdown]
// To use a box again takes it apart by hand: its content is dropped, its memory is kept, and the next content is
// written there.

// %%
/// The memory of one box without its content.
#[derive(Default)]
pub struct Memory(Option<(NonNull<u8>, Layout)>);

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some((memory, layout)) = self.0.take() {
            // SAFETY: it comes from a box of this layout, see `Reused::end`, and is known here alone.
            unsafe { alloc::dealloc(memory.as_ptr(), layout) };
        }
    }
}

/// The box of the last call, if it fits.
pub enum Reused {}

impl Boxes for Reused {
    type Memory = Memory;

    fn put<F: Future<Output = ()> + 'static>(memory: &mut Memory, future: F) -> Pin<Box<F>> {
        match memory.0.take() {
            Some((memory, layout)) if layout == Layout::new::<F>() => {
                let memory = memory.cast::<F>();
                // SAFETY: this is memory of the global allocator with the layout of F, which is not empty, and it is
                // ours alone. So once an F was written there, it is what a box of F consists of.
                Box::into_pin(unsafe {
                    memory.write(future);
                    Box::from_raw(memory.as_ptr())
                })
            }
            other => {
                drop(Memory(other));
                Box::pin(future)
            }
        }
    }

    fn end<F: Future<Output = ()> + ?Sized>(memory: &mut Memory, future: Pin<Box<F>>) {
        let layout = Layout::for_value(&*future);
        // SAFETY: the future is not moved: it is dropped where it is.
        let raw = Box::into_raw(unsafe { Pin::into_inner_unchecked(future) });
        let block = NonNull::new(raw.cast::<u8>()).filter(|_| layout.size() > 0);
        // First, so that a destructor that panics leaks nothing.
        *memory = Memory(block.map(|block| (block, layout)));
        // SAFETY: the content of a box that has just been taken apart; its memory is not used before this is over, as
        // the caller has it.
        unsafe { raw.drop_in_place() };
    }
}

// %% [markdown]
// A future that is called carries its promise, empty at first.

// %%
/// A future that is called.
mod called {
    use super::{Design, Future, Promise, pin_project};

    pin_project! {
        /// A future that is called, and the evaluation that wants its result.
        pub struct Called<F, D: Design>
        where
            F: Future,
            F: 'static,
        {
            #[pin]
            pub future: F,
            pub promise: Promise<F::Output, D>,
        }
    }
}

use self::called::Called;

impl<F: Future + 'static, D: Design> Future for Called<F, D> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let result = ready!(this.future.poll(context));
        this.promise.conclude(result);
        Poll::Ready(())
    }
}

// %% [markdown]
// ## Slots
//
// A future is taken out of its slot while it is polled, and the slot's waker and memory with it. So whatever it
// does meanwhile, call others, cancel them or itself, finds a table that is not borrowed.

// %%
/// A future of any type.
type Boxed = Pin<Box<dyn Future<Output = ()>>>;

/// What a slot has from the first future to the last.
struct Fixtures<B: Boxes> {
    waker: Waker,
    memory: B::Memory,
}

/// A slot.
struct Entry<B: Boxes> {
    /// Away while the future is polled.
    fixtures: Option<Fixtures<B>>,
    future: Option<Boxed>,
    /// How many futures have ended here.
    generation: u32,
    /// Cancelled while it is polled: ends after that poll.
    cancelled: bool,
}

/// Calls futures.
pub struct Futures<D: Design, B: Boxes = Reused> {
    event_loop: Rc<EventLoop<D>>,
    /// Slot 0 is the root's, and empty.
    entries: RefCell<Vec<Entry<B>>>,
    /// Vacant slots; the last one is used next.
    vacant: RefCell<Vec<Slot>>,
}

// %% [markdown]
// What a poll throws, and the destructor of a future that is done, reaches the code that runs the loop. Values dropped
// on the way, or because they are not wanted, are shielded: their panics are lost.

// %%
/// Held while code runs that may panic. That drops it, and must not meet a panic of its destructor on its way.
struct Held<T>(Option<T>);

impl<T> Held<T> {
    fn take(mut self) -> T {
        self.0.take().expect("it is there until the end")
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        if self.0.is_some() {
            shielded(|| drop(self.0.take()));
        }
    }
}

// %% [markdown]
// While it is out, the slot is in a guard, which puts it back or, when the future is done, makes it vacant.

// %%
/// A slot that has been taken out of the table. Dropped, it is vacant: also when a procedure panics.
struct Occupied<'a, D: Design, B: Boxes> {
    executor: &'a Futures<D, B>,
    task: Task,
    /// Present until this is dropped.
    fixtures: Option<Fixtures<B>>,
}

impl<D: Design, B: Boxes> Occupied<'_, D, B> {
    fn fixtures(&mut self) -> &mut Fixtures<B> {
        self.fixtures.as_mut().expect("they are there until the end")
    }

    /// Polls a future in the name of this slot, and gives it back. A panic drops it.
    fn poll<F: ?Sized, T>(
        &mut self,
        future: Pin<Box<F>>,
        poll: impl FnOnce(Pin<&mut F>, &mut Context<'_>) -> Poll<T>,
    ) -> (Poll<T>, Pin<Box<F>>) {
        let _entered = self.executor.event_loop.enter(self.task.slot);
        D::Probe::add(Counter::Switches, 2);
        let mut future = Held(Some(future));
        let polled = future.0.as_mut().expect("it is there until the end").as_mut();
        let outcome = poll(polled, &mut Context::from_waker(&self.fixtures().waker));
        (outcome, future.take())
    }

    /// Puts the slot back with a future that waits; one that was cancelled meanwhile is dropped instead.
    fn put_back(mut self, future: Boxed) {
        let mut entries = self.executor.entries.borrow_mut();
        let entry = &mut entries[self.task.slot as usize];
        if entry.cancelled {
            drop(entries);
            return self.cancel(future);
        }
        entry.future = Some(future);
        entry.fixtures = self.fixtures.take();
    }

    /// Drops a future that is not wanted any more. A panic of its destructor stays here.
    fn cancel(mut self, future: Boxed) {
        shielded(|| B::end(&mut self.fixtures().memory, future));
    }
}

impl<D: Design, B: Boxes> Drop for Occupied<'_, D, B> {
    fn drop(&mut self) {
        let Some(fixtures) = self.fixtures.take() else { return };
        let mut entries = self.executor.entries.borrow_mut();
        let entry = &mut entries[self.task.slot as usize];
        entry.fixtures = Some(fixtures);
        entry.generation = entry.generation.wrapping_add(1);
        entry.cancelled = false;
        self.executor.vacant.borrow_mut().push(self.task.slot);
    }
}

// %% [markdown]
// Slots are made when no vacant one is left, and never unmade.

// %%
impl<D: Design, B: Boxes> Futures<D, B> {
    /// An executor with a loop of its own.
    ///
    /// # Errors
    /// If the operating system refuses a selector.
    pub fn new() -> io::Result<Self> {
        let event_loop = Rc::new(EventLoop::new()?);
        let of_the_root = Entry { fixtures: None, future: None, generation: 0, cancelled: false };
        Ok(Self { event_loop, entries: RefCell::new(vec![of_the_root]), vacant: RefCell::default() })
    }

    /// Calls that are not over.
    pub fn waiting(&self) -> usize {
        self.entries.borrow().len() - 1 - self.vacant.borrow().len()
    }

    /// Takes a vacant slot, or makes one.
    fn occupy(&self) -> Occupied<'_, D, B> {
        let vacant = self.vacant.borrow_mut().pop();
        let mut entries = self.entries.borrow_mut();
        let slot = vacant.unwrap_or_else(|| {
            let slot = Slot::try_from(entries.len()).expect("fewer than 2^32 slots");
            let waker = self.event_loop.wakers.waker(slot);
            let fixtures = Some(Fixtures { waker, memory: Default::default() });
            entries.push(Entry { fixtures, future: None, generation: 0, cancelled: false });
            slot
        });
        let entry = &mut entries[slot as usize];
        let fixtures = Some(entry.fixtures.take().expect("the fixtures of a vacant slot"));
        Occupied { executor: self, task: Task { slot, generation: entry.generation }, fixtures }
    }
}

// %% [markdown]
// A call can be cancelled by all code that has its evaluation, the callee included. What is dropped then may cancel the
// next call, and so on: now and then such a chain goes on on another stack.

// %%
/// Calls `work`, which may come back here: of so many calls within each other, the last one has a stack of its own, if
/// there is memory for it.
fn with_stack(work: impl FnOnce()) {
    const WITHIN: u32 = 64;
    thread_local! {
        static DEPTH: Cell<u32> = const { Cell::new(0) };
    }
    let depth = DEPTH.get();
    DEPTH.set((depth + 1) % WITHIN);
    match if depth + 1 == WITHIN { DefaultStack::new(1 << 20).ok() } else { None } {
        Some(stack) => on_stack(stack, work),
        None => work(),
    }
    DEPTH.set(depth);
}

impl<D: Design, B: Boxes> Futures<D, B> {
    /// Ends a call of this executor that is not over: drops it where it waits, or after its poll if it is the one that
    /// cancels itself. Whether it was one.
    pub fn cancel<T: 'static>(&self, evaluation: &Evaluation<T, D>) -> bool {
        let Evaluation(of) = evaluation;
        if !Rc::ptr_eq(&of.event_loop, &self.event_loop) {
            return false;
        }
        let mut entries = self.entries.borrow_mut();
        let entry = &mut entries[of.task.slot as usize];
        if entry.generation != of.task.generation || entry.cancelled || evaluation.is_concluded() {
            return false;
        }
        if let Some(future) = entry.future.take() {
            let fixtures = entry.fixtures.take();
            drop(entries);
            let occupied = Occupied { executor: self, task: of.task, fixtures };
            with_stack(|| occupied.cancel(future));
        } else {
            entry.cancelled = true;
            drop(entries);
        }
        of.conclude(Err(Cancelled));
        true
    }
}

// %% [markdown]
// To resume a slot is to take its future out, to poll it, and to put it back or drop it.

// %%
impl<D: Design, B: Boxes> Executor for Futures<D, B> {
    type Design = D;

    fn event_loop(&self) -> &Rc<EventLoop<D>> {
        &self.event_loop
    }

    fn resume(&self, slot: Slot) {
        let (mut occupied, future) = {
            let mut entries = self.entries.borrow_mut();
            let Some(entry) = entries.get_mut(slot as usize) else { return };
            // Nothing: it has ended since it was woken.
            let Some(future) = entry.future.take() else { return };
            let task = Task { slot, generation: entry.generation };
            (Occupied { executor: self, task, fixtures: entry.fixtures.take() }, future)
        };
        self.event_loop.wakers.begin(slot);
        match occupied.poll(future, |future, context| future.poll(context)) {
            (Poll::Ready(()), future) => B::end(&mut occupied.fixtures().memory, future),
            (Poll::Pending, future) => occupied.put_back(future),
        }
    }
}

impl<D: Design, B: Boxes> Drop for Futures<D, B> {
    fn drop(&mut self) {
        // One after the other, with nothing borrowed: destructors may call and cancel.
        for slot in 1.. {
            let mut entries = self.entries.borrow_mut();
            let Some(entry) = entries.get_mut(slot) else { break };
            let future = entry.future.take();
            drop(entries);
            shielded(|| drop(future));
        }
    }
}

// %% [markdown]
// ## Futures, called by the four styles
//
// The styles differ in when the future is polled for the first time, and when its evaluation is made.

// %%
impl<D: Design, B: Boxes, F: Future + 'static> CallStyles<F> for Futures<D, B> {
    type Output = F::Output;

    fn call_nonblock(&self, future: F) -> CallState<F::Output, D> {
        let mut occupied = self.occupy();
        let called = B::put(&mut occupied.fixtures().memory, Called { future, promise: Promise(None) });
        match occupied.poll(called, |called, context| called.project().future.poll(context)) {
            (Poll::Ready(result), called) => {
                let result = Held(Some(result));
                B::end(&mut occupied.fixtures().memory, called);
                CallState::Concluded(result.take())
            }
            (Poll::Pending, mut called) => {
                let conclusion = Conclusion::new(occupied.task, &self.event_loop);
                called.as_mut().project().promise.0 = Some(Rc::clone(&conclusion));
                occupied.put_back(called);
                CallState::Waiting(Evaluation(conclusion))
            }
        }
    }

    fn call_nonblock_eagerly(&self, future: F) -> Evaluation<F::Output, D> {
        let mut occupied = self.occupy();
        let conclusion = Conclusion::new(occupied.task, &self.event_loop);
        let called = B::put(
            &mut occupied.fixtures().memory,
            Called { future, promise: Promise(Some(Rc::clone(&conclusion))) },
        );
        match occupied.poll(called, |called, context| called.poll(context)) {
            (Poll::Ready(()), called) => B::end(&mut occupied.fixtures().memory, called),
            (Poll::Pending, called) => occupied.put_back(called),
        }
        Evaluation(conclusion)
    }

    fn call_detached(&self, future: F) -> Evaluation<F::Output, D> {
        let occupied = self.occupy();
        let conclusion = Conclusion::new(occupied.task, &self.event_loop);
        self.begin_later(occupied, Called { future, promise: Promise(Some(Rc::clone(&conclusion))) });
        Evaluation(conclusion)
    }

    fn call_and_forget(&self, future: F) {
        self.begin_later(self.occupy(), Called { future, promise: Promise(None) });
    }
}

impl<D: Design, B: Boxes> Futures<D, B> {
    fn begin_later<F: Future + 'static>(&self, mut occupied: Occupied<'_, D, B>, called: Called<F, D>) {
        let called = B::put(&mut occupied.fixtures().memory, called);
        self.event_loop.schedule(occupied.task.slot);
        occupied.put_back(called);
    }
}

// %% [markdown]
// **A glance.** A call of a future that does not wait, with boxes that are used again and with fresh ones. Let it wait,
// or call it by another style, and run the cell again.

// %%
/// Gives back its argument, and shows where it keeps that: else the compiler would do without a fresh box.
pub fn echo(argument: u64) -> impl Future<Output = u64> {
    poll_fn(move |_| Poll::Ready(*black_box(&argument)))
}

/// Calls what `callee` makes, again and again.
pub fn one_call<C>(executor: impl CallStyles<C>, callee: impl Fn() -> C) -> impl Fn(&mut Bencher<'_>) {
    move |bencher| {
        bencher.iter(&mut || {
            black_box(executor.call(callee()));
        });
    }
}

// %% [markdown]
// A call by futures whose slots are kept, and by futures that are boxed anew each time:

// %% tags=["active-ipynb", "glance"]
// harness::Glance::at("call")
//     .look("futures", one_call(Futures::<Parts>::new().expect("a selector"), || echo(7)))
//     .look("futures in fresh boxes", one_call(Futures::<Parts, Fresh>::new().expect("a selector"), || echo(7)))
//     .show()

// %% [markdown]
// # Fibers
//
// The same loop once more, and in the slots there are fibers, from the `corosensei` crate: stacks of their own, left and
// entered by exchanging registers. A procedure is then a plain function. It may wait anywhere, at any depth, and no
// function is `async`. No wakers are needed either, so a waiting fiber is resumed directly, as in the original.
//
// A fiber is entered with something to do, or to go on. It is left because it waits, or because its procedure has
// concluded, and then it is ready for the next one.

// %%
/// A fiber: entered with a callee, or with none to go on; left with a result, or with none to wait. One that is not
/// used again ends with the result.
type Fiber<D> = Coroutine<Option<FiberCall<D>>, Option<u64>, u64>;

/// A procedure that runs in a fiber, and its argument.
pub type FiberCall<D> = (FiberProc<D>, u64);

/// A procedure that runs in a fiber.
pub type FiberProc<D> = Rc<dyn Fn(&Inside<'_, D>, u64) -> u64>;

/// What a procedure can do that runs in a fiber. Its waits end at once while the fiber is unwound, because its procedure
/// panics or its executor is dropped: a stack that is left then could not be unwound any more.
pub struct Inside<'a, D: Design> {
    event_loop: &'a Rc<EventLoop<D>>,
    slot: Slot,
    yielder: &'a Yielder<Option<FiberCall<D>>, Option<u64>>,
    /// Whether the executor is being dropped.
    ends: &'a Cell<bool>,
    /// Whether the thread was panicking when it entered the fiber.
    entered_panicking: Cell<bool>,
}

impl<D: Design> Inside<'_, D> {
    /// Whether the fiber is being unwound.
    fn is_unwound(&self) -> bool {
        panicking() && (!self.entered_panicking.get() || self.ends.get())
    }

    /// The thread has just entered the fiber.
    fn entered(&self) {
        self.entered_panicking.set(panicking());
    }
}

impl<D: Design<Wakers = Direct>> Inside<'_, D> {
    /// Leaves the fiber until it is resumed.
    fn suspend(&self) {
        self.yielder.suspend(None);
        self.entered();
    }

    /// Waits for so long.
    pub fn wait(&self, time: Duration) {
        let timer = Timer::new(self.event_loop, time, self.slot);
        while !timer.has_fired() && !self.is_unwound() {
            self.suspend();
        }
    }

    /// Lets the other tasks have a turn.
    pub fn yield_now(&self) {
        if !self.is_unwound() {
            self.event_loop.wakers.wake(self.slot);
            self.suspend();
        }
    }
}

// %% [markdown]
// A slot holds a fiber, and what is to be done next with it.

// %%
/// A slot with a fiber.
struct FiberEntry<D: Design> {
    /// Away while it runs; none where a fiber is not used again.
    fiber: Option<Fiber<D>>,
    /// What a detached call begins with.
    begin: Option<FiberCall<D>>,
    /// Whether the fiber has left its procedure in order to wait.
    waits: bool,
    /// The evaluation of the procedure, if a caller wants its result.
    promise: Promise<u64, D>,
}

impl<D: Design> FiberEntry<D> {
    const VACANT: Self = Self { fiber: None, begin: None, waits: false, promise: Promise(None) };

    /// Unwinds the fiber. What is on its stack, and what it should have begun with, may panic: each for itself.
    fn end(self) {
        let Self { fiber, begin, waits: _, promise } = self;
        shielded(|| drop(fiber));
        shielded(|| drop(begin));
        drop(promise);
    }
}

/// Calls procedures in fibers. When they are dropped, fibers that wait are unwound: by then no destructor on their stacks
/// may panic, which would end the process.
pub struct Fibers<D: Design> {
    event_loop: Rc<EventLoop<D>>,
    /// Slot 0 is the root's, and empty.
    entries: RefCell<Vec<FiberEntry<D>>>,
    vacant: RefCell<Vec<Slot>>,
    /// Whether fibers are used again.
    pooled: bool,
    /// Whether this is being dropped.
    ends: Rc<Cell<bool>>,
}

impl<D: Design<Wakers = Direct>> Fibers<D> {
    /// Fibers with a loop of their own, from a pool or a fresh one for each call.
    ///
    /// # Errors
    /// If the operating system refuses a selector.
    pub fn new(pooled: bool) -> io::Result<Self> {
        let event_loop = Rc::new(EventLoop::new()?);
        let entries = RefCell::new(vec![FiberEntry::VACANT]);
        Ok(Self { event_loop, entries, vacant: RefCell::default(), pooled, ends: Rc::default() })
    }
}

// %% [markdown]
// The body of a pooled fiber is a loop, and so never ends. It is unwound when the pool is dropped, so that
// whatever lives on its stack is dropped as well.

// %%
impl<D: Design<Wakers = Direct>> Fibers<D> {
    /// A new fiber for this slot.
    fn fiber(&self, slot: Slot) -> Fiber<D> {
        let (event_loop, ends, pooled) = (Rc::clone(&self.event_loop), Rc::clone(&self.ends), self.pooled);
        Coroutine::new(move |yielder: &Yielder<_, _>, mut entered| {
            let entered_panicking = Cell::new(false);
            let inside = Inside { event_loop: &event_loop, slot, yielder, ends: &ends, entered_panicking };
            loop {
                inside.entered();
                let Some((procedure, argument)) = entered else { unreachable!("a fiber is begun first") };
                let result = procedure(&inside, argument);
                // A vacant fiber keeps nothing of it.
                drop(procedure);
                if !pooled {
                    return result;
                }
                entered = yielder.suspend(Some(result));
            }
        })
    }

    /// A slot with a fiber that does nothing yet.
    fn occupy(&self) -> Slot {
        let vacant = self.vacant.borrow_mut().pop();
        let slot = vacant.unwrap_or_else(|| {
            let mut entries = self.entries.borrow_mut();
            let slot = Slot::try_from(entries.len()).expect("fewer than 2^32 slots");
            self.event_loop.wakers.waker(slot);
            entries.push(FiberEntry::VACANT);
            slot
        });
        self.entries.borrow_mut()[slot as usize].fiber.get_or_insert_with(|| self.fiber(slot));
        slot
    }
}

// %% [markdown]
// To enter a fiber is two switches, in and out. A result makes its slot vacant.

// %%
impl<D: Design<Wakers = Direct>> Fibers<D> {
    /// Enters a fiber until it waits or concludes; then its slot is vacant.
    fn enter(&self, slot: Slot, call: Option<FiberCall<D>>) -> Option<u64> {
        /// Makes the slot vacant when its procedure panics; the fiber is no more.
        struct Ended<'a, D: Design>(&'a Fibers<D>, Slot);
        impl<D: Design> Drop for Ended<'_, D> {
            fn drop(&mut self) {
                let Self(fibers, slot) = *self;
                // Dropped when nothing is borrowed: its evaluation is concluded.
                let ended = replace(&mut fibers.entries.borrow_mut()[slot as usize], FiberEntry::VACANT);
                ended.end();
                fibers.vacant.borrow_mut().push(slot);
            }
        }
        let fiber = self.entries.borrow_mut()[slot as usize].fiber.take();
        let mut fiber = fiber.expect("a fiber that does not run");
        let entered = self.event_loop.enter(slot);
        D::Probe::add(Counter::Switches, 2);
        let ended = Ended(self, slot);
        let left = fiber.resume(call);
        std::mem::forget(ended);
        drop(entered);
        let (result, fiber) = match left {
            CoroutineResult::Yield(result) => (result, Some(fiber)),
            CoroutineResult::Return(result) => (Some(result), None),
        };
        let mut entries = self.entries.borrow_mut();
        let entry = &mut entries[slot as usize];
        (entry.fiber, entry.waits) = (fiber, result.is_none());
        drop(entries);
        if result.is_some() {
            self.vacant.borrow_mut().push(slot);
        }
        result
    }

    /// The same for a fiber that may have an evaluation.
    fn enter_and_conclude(&self, slot: Slot, call: Option<FiberCall<D>>) {
        let Some(result) = self.enter(slot, call) else { return };
        let promise = self.entries.borrow_mut()[slot as usize].promise.0.take();
        Promise(promise).conclude(result);
    }
}

// %% [markdown]
// The rest has the same shape: resume, begin later, and the four styles. Fibers cannot be cancelled, and their results
// are `u64`.

// %%
impl<D: Design<Wakers = Direct>> Executor for Fibers<D> {
    type Design = D;

    fn event_loop(&self) -> &Rc<EventLoop<D>> {
        &self.event_loop
    }

    fn resume(&self, slot: Slot) {
        let mut entries = self.entries.borrow_mut();
        let Some(entry) = entries.get_mut(slot as usize).filter(|_| slot != ROOT) else { return };
        self.event_loop.wakers.begin(slot);
        let call = entry.begin.take();
        // Nothing: it has ended since it was woken.
        if call.is_none() && !entry.waits {
            return;
        }
        drop(entries);
        self.enter_and_conclude(slot, call);
    }
}

impl<D: Design> Drop for Fibers<D> {
    fn drop(&mut self) {
        self.ends.set(true);
        // As above: with nothing borrowed, since what is unwound may call.
        for slot in 1.. {
            let Some(entry) =
                self.entries.borrow_mut().get_mut(slot).map(|entry| replace(entry, FiberEntry::VACANT))
            else {
                break;
            };
            entry.end();
        }
    }
}

impl<D: Design<Wakers = Direct>> Fibers<D> {
    fn begin_later(&self, call: FiberCall<D>) -> Slot {
        let slot = self.occupy();
        self.entries.borrow_mut()[slot as usize].begin = Some(call);
        self.event_loop.schedule(slot);
        slot
    }

    /// The evaluation of the procedure in this slot. It cannot be cancelled, so the generation is not needed.
    fn evaluation(&self, slot: Slot) -> Evaluation<u64, D> {
        let conclusion = Conclusion::new(Task { slot, generation: 0 }, &self.event_loop);
        self.entries.borrow_mut()[slot as usize].promise.0 = Some(Rc::clone(&conclusion));
        Evaluation(conclusion)
    }
}

// %% [markdown]
// And the four styles:

// %%
impl<D: Design<Wakers = Direct>> CallStyles<FiberCall<D>> for Fibers<D> {
    type Output = u64;

    fn call_nonblock(&self, call: FiberCall<D>) -> CallState<u64, D> {
        let slot = self.occupy();
        match self.enter(slot, Some(call)) {
            Some(result) => CallState::Concluded(result),
            None => CallState::Waiting(self.evaluation(slot)),
        }
    }

    fn call_nonblock_eagerly(&self, call: FiberCall<D>) -> Evaluation<u64, D> {
        let slot = self.occupy();
        let evaluation = self.evaluation(slot);
        self.enter_and_conclude(slot, Some(call));
        evaluation
    }

    fn call_detached(&self, call: FiberCall<D>) -> Evaluation<u64, D> {
        self.evaluation(self.begin_later(call))
    }

    fn call_and_forget(&self, call: FiberCall<D>) {
        self.begin_later(call);
    }
}

// %% [markdown]
// # A glance
//
// The same call of a fiber, from a pool or on a fresh stack, and of a future. Futures are resumed through wakers behind
// an `Arc`, fibers without any.

// %%
/// A procedure for fibers that gives its argument back.
pub fn fiber_call() -> impl Fn() -> FiberCall<Parts<Direct>> {
    let procedure: FiberProc<Parts<Direct>> = Rc::new(|_, argument| argument);
    move || (Rc::clone(&procedure), black_box(7))
}

// %% [markdown]
// The same call on futures, on fibers whose stacks are kept, and on fresh stacks:

// %% tags=["active-ipynb", "glance"]
// harness::Glance::at("call")
//     .look("futures", one_call(Futures::<Parts>::new().expect("a selector"), || echo(7)))
//     .look("fibers", one_call(Fibers::new(true).expect("a selector"), fiber_call()))
//     .look("fibers on fresh stacks", one_call(Fibers::new(false).expect("a selector"), fiber_call()))
//     .show()

// %% [markdown]
// # What is promised
//
// Futures, procedures and results are written by users, and so are their destructors, which may do what other code may.
// Each promise, and each limit, has a test in [`tests`](../../rust-kernels/call-styles/executors/tests).
//
// | of | promise | test |
// |---|---|---|
// | `cancel` | it ends calls of its own executor only | `only_its_own_executor_cancels_a_call` |
// | | calls that cancel each other when they are dropped are dropped when it returns; *limit:* 64 of their destructors at once need room on a stack of 1 MiB | `calls_that_cancel_the_next_one_when_dropped_need_no_stack_for_each` |
// | `resume` | a slot number that was never given out is ignored | `a_slot_that_there_is_not_is_passed_over` |
// | `block_on` | destructors of the root may block, also after a panic | `destructors_of_the_root_may_block_although_it_has_panicked` |
// | | *limit:* tasks and their destructors may not | `the_root_does_not_wait_within_itself` |
// | `Evaluation` | it outlives its executor | `evaluations_outlive_their_executor` |
// | | a chain of results is dropped link by link; *limit:* within the destructor of a result, others are put off until it has returned | `long_chain`, `results_within_a_result_are_dropped_after_it` |
// | | thread-locals may hold it, in whatever order they end | `results_and_executors_may_be_kept_until_their_thread_ends` |
// | `Futures` | slots are used again; *limit:* they are kept until it is dropped, as many as there were calls at once | `used_again` |
// | `Inside` | destructors may wait while the fiber goes on | `a_destructor_may_wait_in_a_fiber_that_goes_on` |
// | | their waits end at once while it is unwound; *limit:* a procedure that catches that and waits again in a loop is never over | `waits_end_at_once_in_a_fiber_that_panics`, `waits_end_at_once_in_fibers_whose_executor_is_dropped_although_the_thread_panics` |
// | | a fiber that is called while the thread panics waits | `a_fiber_that_is_called_while_the_thread_panics_waits` |
// | `Fibers` | a vacant fiber keeps nothing of its last procedure | `a_vacant_fiber_keeps_nothing_of_its_last_procedure` |
// | | *limit:* a panic on a stack that is unwound ends the process | `a_panic_on_a_stack_that_is_unwound_ends_the_process` |

// %% [markdown]
// # What next
//
// [Call styles](measure.ipynb) measures both executors, by all styles, with procedures that wait and that do not.
