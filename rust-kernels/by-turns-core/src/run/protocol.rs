//! What a coordinator and the processes that it lets take turns say to each other: lines of JSON over a socket.
//!
//! The coordinator asks and the process answers, line by line, until the coordinator closes the socket. Each bench of the program
//! is asked for its [`Offer`] first, or left for the next one without an answer.

use std::time::Duration;

use serde_json::{Value, json};

use crate::base::key::Key;
use crate::count::table::Count;
use crate::trial::undisturbed::Disturbance;

/// Names, in the environment of a process that serves, the descriptor of its end of the socket.
pub const SERVE: &str = "BY_TURNS_SERVE";
/// Said in each offer. Another number is another protocol.
const VERSION: u64 = 3;

/// A bench, and what of it can be measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// As it is shown.
    pub bench: String,
    /// As files are named.
    pub name: String,
    /// About what a call takes, if all was proved.
    pub call: Duration,
    /// About what setting up a variant takes.
    pub set_up: Duration,
    /// In the order by whose number they are asked for.
    pub variants: Vec<Offered>,
}

/// A variant that can be measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Offered {
    /// Its name.
    pub variant: String,
    /// The name of its load, or nothing.
    pub load: String,
    /// The unit of work.
    pub unit: String,
    /// Units of work per iteration.
    pub units: u64,
    /// How small a difference matters, as a share.
    pub tolerance: f64,
    /// Whether it uses several threads.
    pub threads: bool,
    /// What the first call of its baseline returned, to which it is equal.
    pub work: String,
}

/// What the coordinator asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// To prove equal work, and to offer what can be measured.
    Prove {
        /// Only what baselines do in their first call, where iterations are long.
        brief: bool,
    },
    /// One trial.
    Trial {
        /// The number of the variant.
        variant: usize,
        /// Least time that it runs untimed.
        warm_up: Duration,
        /// The time that its samples take together.
        time: Duration,
        /// How many.
        samples: usize,
    },
    /// All that is exact of a variant; instructions and system calls unless there is a reason.
    Count {
        /// The number of the variant.
        variant: usize,
        /// The reason.
        no_valgrind: Option<String>,
    },
    /// To offer what can be measured without a proof: the work and the times of the offer are empty.
    List,
    /// The next bench of the program.
    Next,
}

/// What a process answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The samples of a trial: iterations, and how long they took together.
    Taken {
        /// In their order.
        samples: Vec<(u64, Duration)>,
        /// What they have met.
        met: Disturbance,
    },
    /// What is exact.
    Counted {
        /// The counts.
        counts: Vec<Count>,
        /// What is left out, and why.
        left_out: Vec<String>,
        /// What should have been counted, and why it was not.
        failed: Vec<String>,
    },
    /// Why there is no answer.
    Failed(String),
}

impl Offer {
    /// As a line.
    pub fn line(&self) -> String {
        let variants = self.variants.iter().map(|offered| {
            let Offered { variant, load, unit, units, tolerance, threads, work } = offered;
            json!({
                "variant": variant, "load": load, "unit": unit, "units": units, "tolerance": tolerance,
                "threads": threads, "work": work,
            })
        });
        let variants: Vec<Value> = variants.collect();
        let [call_ns, set_up_ns] = [self.call, self.set_up].map(|time| time.as_nanos() as u64);
        format!(
            "{}\n",
            json!({
                "protocol": VERSION, "bench": self.bench, "name": self.name, "call_ns": call_ns,
                "set_up_ns": set_up_ns, "variants": variants,
            })
        )
    }

    /// What a line says.
    ///
    /// # Errors
    /// Why the process offers nothing.
    pub fn read(line: &str) -> Result<Self, String> {
        let json: Value = serde_json::from_str(line).map_err(|_| no_line(line))?;
        if let Some(why) = json["failed"].as_str() {
            return Err(why.to_owned());
        }
        if json["protocol"].as_u64().is_some_and(|version| version != VERSION) {
            return Err("the bench was compiled with another version of by-turns".to_owned());
        }
        let variants = json["variants"].as_array().and_then(|all| all.iter().map(offered).collect());
        let offer = || {
            Some(Self {
                bench: json["bench"].as_str()?.to_owned(),
                name: json["name"].as_str()?.to_owned(),
                call: Duration::from_nanos(json["call_ns"].as_u64()?),
                set_up: Duration::from_nanos(json["set_up_ns"].as_u64()?),
                variants: variants?,
            })
        };
        offer().ok_or_else(|| no_line(line))
    }
}

fn offered(json: &Value) -> Option<Offered> {
    let text = |name: &str| json[name].as_str().map(str::to_owned);
    Some(Offered {
        variant: text("variant")?,
        load: text("load")?,
        unit: text("unit")?,
        units: json["units"].as_u64()?,
        tolerance: json["tolerance"].as_f64()?,
        threads: json["threads"].as_bool()?,
        work: text("work")?,
    })
}

fn no_line(line: &str) -> String {
    let begin: String = line.chars().take(80).collect();
    format!("it said {begin:?}, which is no answer")
}

impl Request {
    /// As a line.
    pub fn line(&self) -> String {
        let json = match self {
            Self::Prove { brief } => json!({"prove": {"brief": brief}}),
            Self::Trial { variant, warm_up, time, samples } => json!({
                "trial": variant, "warm_up_us": warm_up.as_micros() as u64, "time_us": time.as_micros() as u64,
                "samples": samples,
            }),
            Self::Count { variant, no_valgrind } => json!({"count": variant, "no_valgrind": no_valgrind}),
            Self::List => json!("list"),
            Self::Next => json!("next"),
        };
        format!("{json}\n")
    }

    /// What a line asks for; `None` if for nothing that is known.
    pub fn read(line: &str) -> Option<Self> {
        let json: Value = serde_json::from_str(line).ok()?;
        match json.as_str() {
            Some("list") => return Some(Self::List),
            Some("next") => return Some(Self::Next),
            _ => {}
        }
        if let Some(prove) = json.get("prove") {
            return Some(Self::Prove { brief: prove["brief"].as_bool()? });
        }
        let number = |name: &str| json[name].as_u64();
        if let Some(variant) = number("count") {
            let no_valgrind = json["no_valgrind"].as_str().map(str::to_owned);
            return Some(Self::Count { variant: variant as usize, no_valgrind });
        }
        Some(Self::Trial {
            variant: number("trial")? as usize,
            warm_up: Duration::from_micros(number("warm_up_us")?),
            time: Duration::from_micros(number("time_us")?),
            samples: number("samples")? as usize,
        })
    }
}

impl Answer {
    /// As a line.
    pub fn line(&self) -> String {
        let json = match self {
            Self::Taken { samples, met } => {
                let samples: Vec<Value> = samples
                    .iter()
                    .map(|(iterations, elapsed)| json!([iterations, elapsed.as_nanos() as u64]))
                    .collect();
                json!({"samples": samples, "met": [met.samples, met.again, met.disturbed]})
            }
            Self::Counted { counts, left_out, failed } => {
                let counts: Vec<Value> = counts
                    .iter()
                    .map(|Count { key, counter, value }| {
                        json!([key.bench, key.variant, key.parameter, counter, value])
                    })
                    .collect();
                json!({"counts": counts, "left_out": left_out, "not_counted": failed})
            }
            Self::Failed(why) => json!({"failed": why}),
        };
        format!("{json}\n")
    }

    /// What a line says.
    ///
    /// # Errors
    /// If it says nothing that is known.
    pub fn read(line: &str) -> Result<Self, String> {
        let known = || {
            let json: Value = serde_json::from_str(line).ok()?;
            if let Some(why) = json["failed"].as_str() {
                return Some(Self::Failed(why.to_owned()));
            }
            if let Some(counts) = json["counts"].as_array() {
                let counts = counts.iter().map(count).collect::<Option<_>>()?;
                let (left_out, failed) = (texts(&json["left_out"])?, texts(&json["not_counted"])?);
                return Some(Self::Counted { counts, left_out, failed });
            }
            let sample = |pair: &Value| Some((pair[0].as_u64()?, Duration::from_nanos(pair[1].as_u64()?)));
            let samples = json["samples"].as_array()?.iter().map(sample).collect::<Option<_>>()?;
            let met = |at: usize| json["met"][at].as_u64();
            let met = Disturbance { samples: met(0)?, again: met(1)?, disturbed: met(2)? };
            Some(Self::Taken { samples, met })
        };
        known().ok_or_else(|| no_line(line))
    }
}

fn texts(json: &Value) -> Option<Vec<String>> {
    json.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
}

fn count(json: &Value) -> Option<Count> {
    let text = |at: usize| json[at].as_str();
    let key = Key::new(text(0)?, text(1)?, text(2)?);
    Some(Count { key, counter: text(3)?.to_owned(), value: json[4].as_u64()? })
}

/// The end of the socket that the environment names, which no process inherits that this one starts. Once: afterwards the
/// descriptor is that of the result.
#[cfg(unix)]
pub fn inherited() -> Option<std::os::unix::net::UnixStream> {
    use std::os::fd::{BorrowedFd, RawFd};

    let number: RawFd = std::env::var(SERVE).ok()?.parse().ok().filter(|number| *number > 2)?;
    // SAFETY: `fcntl` takes any number, and fails for one that is not open.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } != 0 {
        return None;
    }
    // SAFETY: it is open, as has just been seen, and nothing closes it: the process that has started this one has left it for this.
    let own = unsafe { BorrowedFd::borrow_raw(number) };
    own.try_clone_to_owned().ok().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        let offer = Offer {
            bench: "a \"b\"\n ü".to_owned(),
            name: "a-b".to_owned(),
            call: Duration::from_nanos(17),
            set_up: Duration::from_nanos(4),
            variants: vec![Offered {
                variant: "Vec<u8>".to_owned(),
                load: "n=1".to_owned(),
                unit: "byte".to_owned(),
                units: 1000,
                tolerance: 0.02,
                threads: true,
                work: "[1, 2]\n".to_owned(),
            }],
        };
        assert_eq!(Offer::read(&offer.line()), Ok(offer.clone()));
        assert_eq!(offer.line().matches('\n').count(), 1, "a line");
        let trial = Request::Trial {
            variant: 3,
            warm_up: Duration::from_micros(300),
            time: Duration::from_millis(1),
            samples: 2,
        };
        let counts =
            [None, Some("long".to_owned())].map(|no_valgrind| Request::Count { variant: 3, no_valgrind });
        let prove = Request::Prove { brief: true };
        for request in [prove, trial, Request::List, Request::Next].into_iter().chain(counts) {
            assert_eq!(Request::read(&request.line()), Some(request));
        }
        let met = Disturbance { samples: 2, again: 1, disturbed: 0 };
        let count = Count { key: Key::new("b", "v", "n=1"), counter: "allocations".to_owned(), value: 7 };
        for answer in [
            Answer::Taken { samples: vec![(10, Duration::from_nanos(99))], met },
            Answer::Counted { counts: vec![count], left_out: vec!["a".to_owned()], failed: vec![] },
            Answer::Failed("b/a failed".to_owned()),
        ] {
            assert_eq!(Answer::read(&answer.line()), Ok(answer));
        }
    }

    #[test]
    fn what_is_not_understood_is_shown() {
        assert_eq!(Request::read("trial 1\n"), None);
        assert!(Answer::read("hello").unwrap_err().contains("\"hello\""));
        assert!(Answer::read("{\"counts\": [[1]]}").is_err());
        assert_eq!(Offer::read(&Answer::Failed("why".to_owned()).line()), Err("why".to_owned()));
        let newer = "{\"protocol\": 4}";
        assert!(Offer::read(newer).unwrap_err().contains("another version of by-turns"));
    }
}
