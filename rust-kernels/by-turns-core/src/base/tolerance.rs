//! How small a difference matters: half-widths of the region of practical equivalence.
//!
//! A limit says what a reader would act on, not how well something can be measured, so it is chosen before measuring
//! and stays. There are these four and no others, so that *same* means one thing for what is alike.

/// One thread that computes, with or without system calls. Below 1 % it matters more where the linker has put a
/// function.
pub const COMPUTATION: f64 = 0.01;

/// One thread that goes through the allocator and the system for each unit of work. Less than 2 % is no
/// reason to choose a way to spawn or to call.
pub const CALLS: f64 = 0.02;

/// Threads that meet. How many wake-ups find the other one asleep is up to the system, and differs by more than 5 %
/// from day to day.
pub const THREADS: f64 = 0.05;

/// Many threads on few processors, or bursts. Which of them runs is up to the scheduler; less than 10 % is no
/// reason to change a pool or a runtime.
pub const CROWDS: f64 = 0.1;
