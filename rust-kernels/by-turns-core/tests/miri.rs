//! A set for Miri (`make test-miri`), which interprets and so needs few and small tests: the allocator that counts, in the
//! place of the system's.

use std::alloc::{GlobalAlloc, Layout};
use std::thread;

use by_turns_core::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn what_is_allocated_is_as_large_as_asked_for() {
    let bytes: Vec<u8> = (0..100).collect();
    assert_eq!(bytes.iter().map(|byte| u32::from(*byte)).sum::<u32>(), 4950);
}

#[test]
fn what_is_asked_for_as_zero_is_zero() {
    assert!(vec![0_u64; 50].iter().all(|word| *word == 0));
}

#[test]
fn what_grows_and_shrinks_keeps_its_content() {
    let mut words = Vec::new();
    for word in 0..40_u16 {
        words.push(word);
    }
    words.truncate(3);
    words.shrink_to_fit();
    assert_eq!(words, [0, 1, 2]);
}

#[test]
fn alignments_are_kept() {
    for align in [1, 8, 64, 4096] {
        let layout = Layout::from_size_align(3 * align, align).unwrap();
        // SAFETY: the layout is not empty, and what was allocated is freed with it, once.
        unsafe {
            let block = ALLOCATOR.alloc(layout);
            assert!(!block.is_null() && block.addr().is_multiple_of(align));
            block.write_bytes(7, layout.size());
            ALLOCATOR.dealloc(block, layout);
        }
    }
}

#[test]
fn threads_allocate_and_free_for_each_other() {
    let text = thread::spawn(|| String::from("made there")).join().unwrap();
    thread::spawn(move || drop(text)).join().unwrap();
}
