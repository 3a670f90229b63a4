//! Does a trial in a forked process cost more because its pages are copied when they are first written? `python -m
//! experiments --only forks` starts it with microseconds of a trial and rounds: events by hand, in `FuturesUnordered` and
//! in a `JoinSet`, in interleaved rounds whose trials are so long, after a warm-up of three tenths of that.
//!
//! It writes a run into the folder that `ASYNC_COST_PARTIAL` names, with the profile `test`.

use std::env;
use std::error::Error;
use std::time::Duration;

use harness::Profile;

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo adds `--bench`.
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [trial, rounds] = arguments.as_slice() else {
        println!("started by `python -m experiments`; see the head of this file");
        return Ok(());
    };
    let trial = Duration::from_micros(trial.parse()?);
    let profile =
        Profile { name: "test".to_owned(), rounds: rounds.parse()?, episodes: 1, ..Profile::standard() };
    let profile = Profile { warm_up: trial * 3 / 10, trial, ..profile };
    let study = async_fn_stopping::study()?.only(&["by hand", "FuturesUnordered", "JoinSet"])?;
    study.measure(&profile)?;
    Ok(())
}
