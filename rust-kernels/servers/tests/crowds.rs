//! Each server with many connections.

use servers::{Load, VARIANTS};

#[test]
fn a_thousand_connections_are_served() {
    for variant in VARIANTS {
        for active in [10, 1_000] {
            variant.prove(Load { connections: 1_000, active, steps: 1 }).unwrap();
        }
    }
}
