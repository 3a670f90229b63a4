//! A selector without an operating system, for Miri, which does not know all of epoll: every descriptor is ready once.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use call_styles_event_loop::{Interest, Selector};

/// What is to be reported, and whether the wait was ended.
#[derive(Default)]
pub struct Parked(Mutex<(Vec<u64>, bool)>, Condvar);

impl Selector for Parked {
    const CALLS: u64 = 0;
    type Events = ();

    fn new() -> io::Result<Self> {
        Ok(Self::default())
    }

    fn events() {}

    fn add(&self, _: BorrowedFd<'_>, key: u64, _: Interest) -> io::Result<()> {
        self.0.lock().unwrap().0.push(key);
        Ok(())
    }

    fn change(&self, descriptor: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        self.add(descriptor, key, interest)
    }

    fn delete(&self, _: BorrowedFd<'_>) -> io::Result<()> {
        Ok(())
    }

    fn wait(&self, (): &mut (), time: Option<Duration>, keys: &mut Vec<u64>) -> io::Result<()> {
        let rests = |(ready, ended): &mut (Vec<u64>, bool)| ready.is_empty() && !*ended;
        let state = self.0.lock().unwrap();
        let time = time.unwrap_or(Duration::from_secs(60));
        let (mut state, _) = self.1.wait_timeout_while(state, time, rests).unwrap();
        state.1 = false;
        keys.append(&mut state.0);
        Ok(())
    }

    fn notify(&self) -> io::Result<()> {
        self.0.lock().unwrap().1 = true;
        self.1.notify_one();
        Ok(())
    }
}
