//! How many system calls a request takes, where they are known. They are counted in forks of this process, which therefore
//! starts no threads besides: so no other test stands in this file.

use servers_open::{BASE, TRACED};

#[test]
fn a_request_takes_as_many_system_calls_as_its_server_makes() {
    let counted = |name| {
        let server = BASE.servers.iter().find(|server| server.name == name).unwrap();
        BASE.system_calls(*server, 1).unwrap()
    };
    let Some([all, epoll, futex]) = counted("thread per connection") else {
        return eprintln!("skipped: no process may trace another here");
    };
    // It reads and it writes. The thread that waits for the process of the clients looks now and then whether they are late.
    assert!((2 * TRACED..2 * TRACED + 20).contains(&all), "{all}");
    assert_eq!([epoll, futex], [0, 0]);
    let [all, epoll, futex] = counted("loop").unwrap();
    assert!((2 * TRACED..2 * TRACED + 20).contains(&(all - epoll)), "{all} of which {epoll}");
    // A wait may bring several requests.
    assert!((TRACED / 10..TRACED + 10).contains(&epoll), "{epoll}");
    assert_eq!(futex, 0);
    // It waits, and watches the connection again, after each of them.
    let [_, epoll, _] = counted("thread pool").unwrap();
    assert!((2 * TRACED - 10..2 * TRACED + 10).contains(&epoll), "{epoll}");
}
