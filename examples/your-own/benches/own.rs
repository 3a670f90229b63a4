//! May I box a future that is called often?

use std::hint::black_box;

use by_turns::Bench;
use your_own::{boxed, finish, next};

by_turns::count_allocations!();

const CALLS: u64 = 1000;

fn main() {
    Bench::new("own")
        .unit("call", CALLS)
        .way("inline", |turn| turn.iter(|| (0..CALLS).map(|call| finish(next(black_box(call)))).sum::<u64>()))
        .size(size_of_val(&next(0)))
        .way("boxed", |turn| turn.iter(|| (0..CALLS).map(|call| finish(boxed(black_box(call)))).sum()))
        .size(size_of_val(&*boxed(0)))
        .main();
}
