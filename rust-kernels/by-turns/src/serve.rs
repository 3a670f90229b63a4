//! Serving: a process that runs a trial whenever another one, the coordinator of `cargo by-turns --against`, asks for it.
//!
//! The coordinator leaves one end of a socket open in the process, whose number the environment tells. Over it, lines go to and
//! fro: by-turns-core's `run::protocol` says which.

use std::fmt::Debug;
use std::process::exit;
use std::time::{Duration, Instant};

use crate::builder::{Bench, Variant};
use crate::counts;
use crate::equal_work::{Proved, failed};
use crate::places::places;
use by_turns_core::run::files::Running;
use by_turns_core::run::protocol::{Answer, Offer, Offered, Request};
use by_turns_core::trial::draw;
use by_turns_core::trial::sampling::Trial;
use by_turns_core::trial::undisturbed::take_disturbance;

pub(crate) use line::is_here;

#[cfg(target_os = "linux")]
mod line {
    use std::io::{self, BufRead, BufReader, Write};
    use std::os::unix::net::UnixStream;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use by_turns_core::run::protocol::inherited;

    /// The end of the socket, once for all benches of the program: what was read ahead of one may be for the next.
    fn own() -> MutexGuard<'static, Option<BufReader<UnixStream>>> {
        static OWN: Mutex<Option<BufReader<UnixStream>>> = Mutex::new(None);
        let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
        if own.is_none() {
            *own = inherited().map(BufReader::new);
        }
        own
    }

    /// Whether this process was started to serve.
    pub(crate) fn is_here() -> bool {
        own().is_some()
    }

    /// The next line of the coordinator; an empty one when it has closed the socket.
    pub(super) fn read() -> io::Result<String> {
        let mut line = String::new();
        own().as_mut().ok_or(io::ErrorKind::NotConnected)?.read_line(&mut line)?;
        Ok(line)
    }

    pub(super) fn say(line: &str) -> io::Result<()> {
        own().as_mut().ok_or(io::ErrorKind::NotConnected)?.get_mut().write_all(line.as_bytes())
    }
}

#[cfg(not(target_os = "linux"))]
mod line {
    use std::io;

    /// Elsewhere, no process serves.
    pub(crate) fn is_here() -> bool {
        false
    }

    pub(super) fn read() -> io::Result<String> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn say(_: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl<W: PartialEq + Debug> Bench<'_, W> {
    /// Answers requests, of which the first ones are for its names, for a proof or for the next bench of the program, when it
    /// returns. Ends the process when the coordinator has gone.
    ///
    /// # Errors
    /// What does other work, and where the coordinator cannot be reached.
    pub(crate) fn serve(&self, variants: &[Variant]) -> Result<(), String> {
        let gone = |error: std::io::Error| format!("the coordinator has gone: {error}");
        let say = |line: String| line::say(&line).map_err(gone);
        let mut proved: Proved<W> = vec![];
        loop {
            let line = line::read().map_err(gone)?;
            if line.is_empty() {
                exit(0);
            }
            let answer = match Request::read(&line) {
                None => Answer::Failed(format!("{line:?} is no request")),
                Some(Request::Next) => return Ok(()),
                Some(Request::List) => {
                    let unproved: Proved<W> = variants.iter().map(|_| None).collect();
                    say(self.offer(variants, &unproved, Duration::ZERO).line())?;
                    continue;
                }
                Some(Request::Prove { brief }) => {
                    let start = Instant::now();
                    proved = match self.prove(variants, brief) {
                        Ok(proved) => proved,
                        Err(why) => {
                            say(Answer::Failed(why.clone()).line())?;
                            return Err(why);
                        }
                    };
                    say(self.offer(variants, &proved, start.elapsed()).line())?;
                    draw::heap();
                    continue;
                }
                Some(Request::Count { variant, no_valgrind }) => {
                    self.count_for(variants, variant, no_valgrind)
                }
                Some(Request::Trial { variant, warm_up, time, samples }) => {
                    let trial = Trial { warm_up, time, samples, observer: None, undisturbed: true };
                    self.tried(variants, &proved, variant, trial)
                }
            };
            say(answer.line())?;
        }
    }

    /// What it offers after a proof that took so long.
    fn offer(&self, variants: &[Variant], proved: &Proved<W>, took: Duration) -> Offer {
        let own = variants.iter().filter(|variant| !variant.control);
        let [call, set_up] = self.each(variants, took);
        let offered = own.enumerate().map(|(at, variant)| {
            let declared = &self.declared[variant.declared];
            let settings = self.settings(variant);
            let work = &proved[variant.baseline.unwrap_or(at)];
            Offered {
                variant: variant.key.variant.clone(),
                load: variant.key.parameter.clone(),
                unit: declared.settings.unit.clone(),
                units: declared.settings.units,
                tolerance: settings.tolerance,
                threads: settings.threads,
                work: work.as_ref().map_or(String::new(), |work| format!("{work:?}")),
            }
        });
        Offer {
            bench: self.title.clone(),
            name: self.name.clone(),
            call,
            set_up,
            variants: offered.collect(),
        }
    }

    /// One trial, whose result is checked after its samples.
    fn tried(&self, variants: &[Variant], proved: &Proved<W>, at: usize, trial: Trial) -> Answer {
        let Some(variant) = variants.get(at) else {
            return Answer::Failed(format!("there is no variant {at}"));
        };
        let trial = Trial { undisturbed: !self.settings(variant).threads, ..trial };
        match trial.run(&self.proved(variants, at, proved)) {
            Ok(samples) => {
                let samples = samples.iter().map(|sample| (sample.iterations, sample.elapsed)).collect();
                Answer::Taken { samples, met: take_disturbance() }
            }
            Err(error) => Answer::Failed(failed(&variant.key, error)),
        }
    }

    fn count_for(&self, variants: &[Variant], at: usize, no_valgrind: Option<String>) -> Answer {
        let counted = || {
            let running = Running::begin(&places().folder(&self.name)?)?;
            counts::count(self, variants, Some(at), &running, no_valgrind)
        };
        match counted() {
            Ok(counted) => {
                Answer::Counted { counts: counted.counts, left_out: counted.left_out, failed: counted.failed }
            }
            Err(why) => Answer::Failed(why),
        }
    }
}
