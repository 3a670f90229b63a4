//! A line of a table is written.

pub type Item = [String; 6];

pub fn items() -> Vec<Item> {
    (0..100).map(|at: u32| ["study", "a, \"b\"", "variant", "n=10", "7", "12345"].map(|cell| format!("{cell}{at:02}"))).collect()
}

pub fn one(item: &Item) -> u64 {
    ours::base::csv::line(item).len() as u64
}
