//! What a server has opened is closed when its clients have gone. Alone in its program: descriptors belong to the
//! process.

use std::time::{Duration, Instant};

use harness::Key;
use servers::{Load, Session, VARIANTS};

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn no_descriptor_is_left_open() {
    let load = Load { connections: 100, active: 20, steps: 1 };
    for variant in VARIANTS {
        let session = || {
            let mut session = Session::open(variant.serve, load).unwrap();
            assert!(open_files() >= 100, "{}: the connections are there", variant.name);
            session.send_requests(200).unwrap();
            session.close(&Key::new("test", variant.name, "")).unwrap();
        };
        // A runtime may keep for good what it opens once.
        session();
        let (before, deadline) = (open_files(), Instant::now() + Duration::from_secs(60));
        session();
        // A thread closes its connection after it has counted it.
        while open_files() > before {
            assert!(Instant::now() < deadline, "{}: {} files more", variant.name, open_files() - before);
            std::thread::yield_now();
        }
    }
}
