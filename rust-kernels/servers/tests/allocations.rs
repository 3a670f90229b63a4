//! The loop by hand allocates nothing once its connections are open.

use harness::counting::{CountingAllocator, count_allocations};
use servers::{Load, Session, by_hand};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn the_loop_allocates_nothing_for_a_request() {
    let mut session = Session::open(by_hand, Load { connections: 100, active: 100, steps: 1 }).unwrap();
    let mut ask = || drop(session.ask(1_000).unwrap());
    ask();
    assert_eq!(count_allocations(&mut ask), 0);
    session.close(&harness::Key::new("test", "loop", "")).unwrap();
}
