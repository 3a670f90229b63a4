//! May I box a future that is called often?

use std::hint::black_box;

use by_turns::Bench;
use your_own::{boxed, finish, next};

by_turns::count_allocations!();

const CALLS: u64 = 1000;

fn main() {
    Bench::new("own")
        .unit("call", CALLS)
        .variant("inline", |turn| turn.iter(|| (0..CALLS).map(|call| finish(next(black_box(call)))).sum::<u64>()))
        .future_bytes(size_of_val(&next(0)))
        .variant("boxed", |turn| turn.iter(|| (0..CALLS).map(|call| finish(boxed(black_box(call)))).sum()))
        .future_bytes(size_of_val(&*boxed(0)))
        .main();
}
