//! A hundred calls, some of which a planted change makes twice.

use std::hint::black_box;

use one::Item;

#[path = "one.rs"]
mod one;

pub fn items() -> Vec<Item> {
    black_box(NAME::prepared());
    one::items()
}

pub fn all(items: &[Item]) -> u64 {
    let mut sum = 0;
    for (at, item) in items.iter().enumerate() {
        let mut done = 0;
        for _ in 0..NAME::planted(at) {
            done = one::one(black_box(item));
        }
        sum += done;
    }
    sum
}
