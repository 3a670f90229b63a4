//! A process that serves: it is told when to run a trial, and what of.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use by_turns_core::run::budget::shown;
use by_turns_core::run::files::{at, last_lines};
use by_turns_core::run::process;
use by_turns_core::run::protocol::{Answer, Offer, Request, SERVE};
use by_turns_core::trial::draw;

use crate::against::package::Package;

/// How a program is started.
pub struct How<'a> {
    /// As messages call its side.
    pub side: &'a str,
    pub package: &'a Package,
    /// The arguments that choose variants.
    pub filters: &'a [String],
    pub pin: Option<usize>,
    /// It answers within this when it measures.
    pub limit: Duration,
    /// It proves, and counts a variant, within this besides.
    pub budget: Duration,
    /// Takes what it says of errors.
    pub errors: PathBuf,
}

/// The process, which ends with this.
pub struct Peer {
    side: String,
    limit: Duration,
    budget: Duration,
    errors: PathBuf,
    child: Child,
    socket: UnixStream,
    answers: BufReader<UnixStream>,
}

impl Peer {
    /// Starts it.
    ///
    /// # Errors
    /// Of the system.
    pub fn start(program: &Path, how: &How<'_>) -> Result<Self, String> {
        let failed = |error: io::Error| format!("{}: a process could not be started: {error}", how.side);
        let (socket, theirs) = UnixStream::pair().map_err(failed)?;
        let number = theirs.as_raw_fd();
        let mut command = Command::new(program);
        // As cargo starts a bench, but for `[env]` of its configuration and for folders of shared libraries.
        command.arg("--bench").args(how.filters).current_dir(&how.package.folder);
        command.env("CARGO_MANIFEST_DIR", &how.package.folder).env("CARGO_PKG_NAME", &how.package.name);
        command.env(SERVE, number.to_string()).env("BY_TURNS_PADDING", draw::padding());
        let errors = File::create(&how.errors).map_err(at(&how.errors))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        let left_open = move || {
            // SAFETY: `fcntl` takes any number, and allocates nothing.
            match unsafe { libc::fcntl(number, libc::F_SETFD, 0) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        };
        let command = process::bound(&mut command, how.pin);
        // SAFETY: between fork and exec it makes a system call only.
        let child = unsafe { command.pre_exec(left_open) }.spawn().map_err(failed)?;
        let answers = BufReader::new(socket.try_clone().map_err(failed)?);
        let (side, errors) = (how.side.to_owned(), how.errors.clone());
        Ok(Self { side, limit: how.limit, budget: how.budget, errors, child, socket, answers })
    }

    /// What the bench offers that is so many further on in its program; `None` if there are fewer.
    ///
    /// # Errors
    /// Why it offers none.
    pub fn offer(&mut self, further: usize, brief: bool) -> Result<Option<Offer>, String> {
        self.offered(further, &Request::Prove { brief })
    }

    fn offered(&mut self, further: usize, how: &Request) -> Result<Option<Offer>, String> {
        for request in [&Request::Next].repeat(further).into_iter().chain([how]) {
            let _ = self.say(request); // it may have no other bench, and have ended
        }
        let Some(line) = self.line(true)? else { return Ok(None) };
        Offer::read(&line).map(Some).map_err(|why| format!("{}: {why}", self.side))
    }

    /// What all benches of its program offer, without a proof.
    ///
    /// # Errors
    /// Why one offers nothing.
    pub fn offers(&mut self) -> Result<Vec<Offer>, String> {
        let mut offers = vec![];
        while let Some(offer) = self.offered(usize::from(!offers.is_empty()), &Request::List)? {
            offers.push(offer);
        }
        Ok(offers)
    }

    /// What it answers to a request.
    ///
    /// # Errors
    /// What failed, and that it does not answer.
    pub fn ask(&mut self, request: &Request) -> Result<Answer, String> {
        self.say(request)?;
        let long = matches!(request, Request::Count { .. });
        let line = self.line(long)?.ok_or_else(|| format!("{}: its process ended early", self.side))?;
        match Answer::read(&line) {
            Ok(Answer::Failed(why)) | Err(why) => Err(format!("{}: {why}", self.side)),
            Ok(answer) => Ok(answer),
        }
    }

    fn say(&mut self, request: &Request) -> Result<(), String> {
        self.socket.write_all(request.line().as_bytes()).map_err(|_| self.ended())
    }

    /// `None` where it has ended well. What takes `long` may take the budget as well.
    fn line(&mut self, long: bool) -> Result<Option<String>, String> {
        let (within, options) = match long {
            true => (self.limit.saturating_add(self.budget), "--limit and --budget"),
            false => (self.limit, "--limit"),
        };
        let set = self.socket.set_read_timeout(Some(within));
        set.map_err(|error| format!("{}: {error}", self.side))?;
        let mut line = String::new();
        match self.answers.read_line(&mut line) {
            Ok(1..) => Ok(Some(line)),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Err(format!("{} did not answer within {} ({options})", self.side, shown(within)))
            }
            _ if self.child.wait().is_ok_and(|status| status.success()) => Ok(None),
            _ => Err(self.ended()),
        }
    }

    /// How its process has ended.
    fn ended(&mut self) -> String {
        let status = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        let said = File::open(&self.errors).map(last_lines).unwrap_or_default();
        let said = if said.is_empty() { String::new() } else { format!(":\n{said}") };
        format!("{}: its process ended with {status}{said}", self.side)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(&self.errors);
    }
}
