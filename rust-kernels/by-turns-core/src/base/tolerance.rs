//! How small a difference matters: half-widths of the region of practical equivalence, as shares.
//!
//! A tolerance says what a reader would act on, not how well something can be measured, so choose it before you measure,
//! and keep it. The studies of async-cost use these four and no others, so that *same* means one thing for what is alike;
//! `Bench::tolerance` of by-turns takes any share.

/// 1 %: one thread that computes, with or without system calls. Smaller differences come from where the linker put a
/// function.
pub const COMPUTATION: f64 = 0.01;

/// 2 %: one thread that calls the allocator and the system for each unit of work. Less is no reason to prefer one way of
/// spawning or calling.
pub const CALLS: f64 = 0.02;

/// 5 %: threads that wait for each other. How many wake-ups find the other thread asleep depends on the system, and changes by
/// more than 5 % from day to day.
pub const THREADS: f64 = 0.05;

/// 10 %: many threads on few processors, or bursts. The scheduler decides which of them runs; less is no reason to change a
/// pool or a runtime.
pub const CROWDS: f64 = 0.1;
