//! What a run allocates once it is warm: a box for each task of the boxed server, and nothing else.

#[allow(dead_code, reason = "only a part of it is needed here")]
mod common;

use std::rc::Rc;

use common::{subjects, watched};
use harness::counting::{CountingAllocator, count_allocations};
use zero_cost::CONNECTIONS;
use zero_cost_sockets::{BARE, Clients, Door};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn only_the_boxed_server_allocates_and_once_for_each_task() {
    watched(|| {
        for (name, world) in subjects() {
            for load in BARE {
                let door = Door::open(usize::MAX).unwrap();
                let mut clients = Clients::new(Rc::clone(&door), load.live);
                let mut allocations = 0;
                world(0, &door, &mut |serve| {
                    clients.visit(CONNECTIONS, serve);
                    allocations = count_allocations(&mut || clients.visit(CONNECTIONS, serve));
                });
                let wanted = if name == "async+box" { CONNECTIONS as u64 } else { 0 };
                assert_eq!(allocations, wanted, "{name}, {load:?}");
            }
        }
    });
}
