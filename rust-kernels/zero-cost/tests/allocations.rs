//! What a run allocates once it is warm: a box for each task, or nothing.

use harness::counting::{CountingAllocator, count_allocations};
use zero_cost::{Style, variants};
use zero_cost_loop::TASKS;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn only_boxed_variants_allocate_and_once_for_each_task() {
    for variant in variants() {
        for &load in variant.loads {
            let mut allocations = None;
            (variant.timed)(load, &mut |_, run| {
                run();
                allocations = Some(count_allocations(run));
            });
            let wanted = if variant.style == Style::Boxed { TASKS as u64 } else { 0 };
            assert_eq!(allocations, Some(wanted), "{}", variant.key(load));
        }
    }
}
