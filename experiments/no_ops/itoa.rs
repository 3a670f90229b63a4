//! Numbers are formatted.

pub type Item = [u128; 4];

pub fn items() -> Vec<Item> {
    (0..100).map(|at| [7, 12_345 + at, u128::from(u64::MAX) - at, u128::MAX - at]).collect()
}

pub fn one(item: &Item) -> u64 {
    let mut buffer = itoa::Buffer::new();
    item.iter().map(|number| buffer.format(*number).len() as u64).sum()
}
