//! The loop by hand allocates nothing once its connections are open.

use harness::counting::{CountingAllocator, count_allocations};
use servers::{Echo, Load, Session, by_hand};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn the_loop_allocates_nothing_for_a_request() {
    let mut session =
        Session::open(by_hand::<Echo>, Load { connections: 100, active: 100, steps: 1 }).unwrap();
    let mut send_requests = || drop(session.send_requests(1_000).unwrap());
    send_requests();
    assert_eq!(count_allocations(&mut send_requests), 0);
    session.close(&harness::Key::new("test", "loop", "")).unwrap();
}
