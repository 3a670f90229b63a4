//! loom's atomics, of which one place at a time can be weakened: a test that passes all the same does not need that
//! place, or does not see it.
//!
//! `ASYNC_COST_WEAKEN=idle.rs:<line>` leaves out the fence in that line, or relaxes the atomic access there.
//! `ASYNC_COST_WEAKEN=list` weakens nothing and prints every place that could be.

use std::collections::HashSet;
use std::panic::Location;
use std::sync::{LazyLock, Mutex};

use loom::sync::atomic;
pub use loom::sync::atomic::Ordering;

/// Whether the place that calls is the one to be weakened.
#[track_caller]
fn weakened() -> bool {
    static CHOSEN: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("ASYNC_COST_WEAKEN").ok());
    static LISTED: Mutex<Option<HashSet<String>>> = Mutex::new(None);
    let Some(chosen) = &*CHOSEN else { return false };
    let place = Location::caller();
    let name = place.file().rsplit('/').next().unwrap_or_default();
    let place = format!("{name}:{}", place.line());
    let new = || LISTED.lock().unwrap().get_or_insert_default().insert(place.clone());
    if chosen == "list" && new() {
        println!("\nplace {place}");
    }
    place == *chosen
}

/// This ordering, or none where it is weakened.
#[track_caller]
fn effective(order: Ordering) -> Ordering {
    if order != Ordering::Relaxed && weakened() { Ordering::Relaxed } else { order }
}

#[track_caller]
pub fn fence(order: Ordering) {
    if !weakened() {
        atomic::fence(order);
    }
}

macro_rules! atomics {
    ($($name:ident of $value:ty: $($change:ident)*;)*) => {$(
        #[derive(Debug, Default)]
        pub struct $name(atomic::$name);

        impl $name {
            pub fn new(value: $value) -> Self {
                Self(atomic::$name::new(value))
            }

            #[track_caller]
            pub fn load(&self, order: Ordering) -> $value {
                self.0.load(effective(order))
            }

            #[track_caller]
            pub fn store(&self, value: $value, order: Ordering) {
                self.0.store(value, effective(order));
            }

            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                old: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.0.compare_exchange_weak(old, new, effective(success), effective(failure))
            }

            $(#[track_caller]
            pub fn $change(&self, value: $value, order: Ordering) -> $value {
                self.0.$change(value, effective(order))
            })*
        }
    )*};
}

/// A pointer.
#[derive(Debug)]
pub struct AtomicPtr<T>(atomic::AtomicPtr<T>);

impl<T> AtomicPtr<T> {
    pub fn new(value: *mut T) -> Self {
        Self(atomic::AtomicPtr::new(value))
    }

    #[track_caller]
    pub fn load(&self, order: Ordering) -> *mut T {
        self.0.load(effective(order))
    }

    #[track_caller]
    pub fn store(&self, value: *mut T, order: Ordering) {
        self.0.store(value, effective(order));
    }

    #[track_caller]
    pub fn swap(&self, value: *mut T, order: Ordering) -> *mut T {
        self.0.swap(value, effective(order))
    }
}

atomics! {
    AtomicBool of bool: swap;
    AtomicU64 of u64: swap fetch_or;
    AtomicUsize of usize: swap fetch_add fetch_sub fetch_or fetch_and fetch_xor;
}
