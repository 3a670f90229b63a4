//! A text is searched.

pub type Item = String;

pub fn items() -> Vec<Item> {
    (0..100).map(|_| "a heron over the harbour ".repeat(13) + "needle").collect()
}

pub fn one(item: &Item) -> u64 {
    let found = memchr::memmem::find(item.as_bytes(), b"needle").unwrap_or(0);
    (found + memchr::memchr_iter(b'h', item.as_bytes()).count()) as u64
}
