//! Files that were opened are closed: alone in its file, because it counts those of the whole program.

#[allow(dead_code, reason = "only a part of it is needed here")]
mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use common::{subjects, visit, watched};
use zero_cost_sockets::{Clients, Listener, World};

/// Files that this program has open.
fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("a list of open files").count()
}

#[test]
fn no_file_stays_open() {
    watched(|| {
        for (name, world) in subjects() {
            // smol keeps its poller.
            visit(world, &Listener::open(usize::MAX).unwrap(), 1, 1);
            let before = open_files();
            let listener = Listener::open(usize::MAX).unwrap();
            for live in [1, 256] {
                visit(world, &listener, 1000, live);
                assert_eq!(open_files(), before + 2, "{name}: only the receiver's two ends are open");
            }
            drop(listener);
            assert_eq!(open_files(), before, "{name}");
            // All clients connected; or more to come, so that the server still listens.
            for connections in [100, 200] {
                panic_with_connections_open(world, connections);
                assert_eq!(open_files(), before, "{name}: after a panic, {connections} expected");
            }
        }
    });
}

/// Has a panic take the whole world away, while 100 of so many connections are open.
fn panic_with_connections_open(world: World, connections: usize) {
    let broken = catch_unwind(AssertUnwindSafe(|| {
        let listener = Listener::open(usize::MAX).unwrap();
        let mut clients = Clients::new(Rc::clone(&listener), 100, 1);
        let mut turns = 0;
        world(0, &listener, &mut |serve| {
            clients.visit(connections, &mut |count, turn| {
                serve(count, &mut || {
                    turns += 1;
                    assert!(turns < 2, "a panic with connections open");
                    turn();
                });
            });
        });
    }));
    broken.expect_err("the panic comes through");
}
