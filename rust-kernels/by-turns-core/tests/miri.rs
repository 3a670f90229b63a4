//! A set for Miri (`make test-miri`), which interprets and so needs few and small tests: the allocator that counts, in the
//! place of the system's.

use std::alloc::{GlobalAlloc, Layout};
use std::thread;

use by_turns_core::{Counting, CountingAllocator};

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
fn blocks_of_another_allocator_grow_and_go_back_to_it() {
    // Two layers: the outer one only knows that the inner one is an allocator.
    let wrapped = Counting(CountingAllocator);
    let [small, large] = [8, 24].map(|size| Layout::from_size_align(size, 8).unwrap());
    // SAFETY: no layout is empty, what is written lies within the block, and the block is freed once, with its layout.
    unsafe {
        let block = wrapped.alloc_zeroed(small);
        block.write(7);
        let block = wrapped.realloc(block, small, large.size());
        assert_eq!((block.read(), block.add(7).read()), (7, 0));
        wrapped.dealloc(block, large);
    }
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
