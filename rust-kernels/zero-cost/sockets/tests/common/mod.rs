//! What all tests of the servers need: the servers, a limit on time, and sockets for one test at a time.

use std::process;
use std::rc::Rc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use zero_cost_sockets::{BARE, Clients, Listener, Variant, World, variants};

/// How long one test may take before it counts as hanging.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs `test` alone, because two tests with 256 connections each need more files than a program may usually
/// open. Kills the program when it takes too long.
pub fn watched(test: impl FnOnce()) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (done, waits) = mpsc::channel::<()>();
    let name = thread::current().name().unwrap_or("a test").to_owned();
    thread::spawn(move || {
        if waits.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{name} hangs: not finished after {LIMIT:?}");
            process::abort();
        }
    });
    test();
    drop(done);
}

/// The timed servers of one request for each connection and their stand-in, by name.
pub fn subjects() -> impl Iterator<Item = (&'static str, World)> {
    let (ours, more) = variants().into_iter().partition::<Vec<_>, _>(|variant| variant.loads == BARE);
    let runtimes = more.into_iter().filter(|variant| variant.is_on_runtime() && !variant.loads[0].keeps());
    ours.into_iter().chain(runtimes).map(|variant| (variant.name, variant.timed))
}

/// Our servers, without the stand-in, which knows nothing of trouble, and without runtimes, which wait for ever.
pub fn servers() -> impl Iterator<Item = (&'static str, World)> {
    subjects().take(3)
}

/// The timed servers that keep connections, without their stand-in. Before which wait of smol a client acts is not known.
pub fn kept_servers() -> impl Iterator<Item = (&'static str, World)> {
    let keeps =
        |variant: &Variant| variant.loads[0].keeps() && !["calls alone", "smol"].contains(&variant.name);
    variants().into_iter().filter(keeps).map(|variant| (variant.name, variant.timed))
}

/// Has `connections` well-behaved clients served, `live` at a time, each answer checked by the client.
pub fn visit(world: World, listener: &Rc<Listener>, connections: usize, live: usize) {
    let mut clients = Clients::new(Rc::clone(listener), live, 1);
    world(0, listener, &mut |serve| clients.visit(connections, serve));
}
