//! A server in a thread of the test, and clients by hand.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::net::{Shutdown, shutdown};
use servers::{LENGTH, Serve, request};
use zero_cost_loop::Steps;

/// Serves while `work` lasts; then shuts the listener down, which must end the server.
pub fn serving<T>(serve: Serve, work: impl FnOnce(SocketAddr) -> T) -> T {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (address, theirs) = (listener.local_addr().unwrap(), listener.try_clone().unwrap());
    let server = thread::spawn(move || serve(theirs, Steps(1), &Arc::default()));
    let done = work(address);
    shutdown(&listener, Shutdown::Both).unwrap();
    let ended = server.join().expect("no panic").expect_err("it serves as long as it can");
    assert_eq!(ended.raw_os_error(), Some(rustix::io::Errno::INVAL.raw_os_error()), "{ended}");
    done
}

/// A connection that gives up when there is no answer for a minute.
pub fn client(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Sends a request and reads its answer.
pub fn is_answered(stream: &mut TcpStream, name: &str) {
    let (wanted, mut answer) = (request(11, 13), [0; LENGTH]);
    stream.write_all(&wanted).unwrap();
    stream.read_exact(&mut answer).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(answer, wanted, "{name}");
}
