//! What a run of our servers allocates once it is warm: a box for each task of the boxed one, and nothing else.

#[allow(dead_code, reason = "only a part of it is needed here")]
mod common;

use std::rc::Rc;

use common::watched;
use harness::counting::{CountingAllocator, count_allocations};
use zero_cost_loop::CONNECTIONS;
use zero_cost_sockets::{Clients, Listener, variants};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn of_ours_only_the_boxed_server_allocates_and_once_for_each_task() {
    watched(|| {
        for variant in variants().into_iter().filter(|variant| !variant.is_on_runtime()) {
            for &load in variant.loads {
                let listener = Listener::open(usize::MAX).unwrap();
                let mut clients = Clients::new(Rc::clone(&listener), load.live, load.asks);
                let mut allocations = 0;
                (variant.timed)(0, &listener, &mut |serve| {
                    clients.visit(load.connections(), serve);
                    allocations = count_allocations(&mut || clients.visit(load.connections(), serve));
                });
                let wanted = if variant.name == "async+box" { CONNECTIONS as u64 } else { 0 };
                assert_eq!(allocations, wanted, "{}", variant.key(load));
            }
        }
    });
}
