//! From trials to ratios within a round.

use std::collections::{BTreeMap, HashMap};

use crate::base::key::Key;
use crate::judge::interval::{Estimate, LEAST_EPISODES, quantile};

/// The quantile of its trials that represents a key on an undisturbed machine: whatever disturbs a thread that waits for
/// no other makes it slower (Chen and Revels, Robust benchmarking in noisy environments, 2016).
const LOW: f64 = 0.1;

/// One trial: its process and the time of an iteration, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    /// The process that measured it.
    pub episode: u32,
    /// Of one iteration.
    pub ns: f64,
}

/// The trials of each key, by round.
pub type Trials = HashMap<Key, BTreeMap<u32, Time>>;

/// What is compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// The variant, and how many units of work an iteration of it does.
    pub key: Key,
    /// What it is compared with.
    pub baseline: Key,
    /// Units of work of an iteration of either.
    pub units: [f64; 2],
}

/// What rounds say of a pair, as logarithms of ratios.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratios {
    /// Over all rounds.
    pub typical: Estimate,
    /// Of the lowest deciles of the trials in each process; for work on one thread in at least four processes.
    pub undisturbed: Option<Estimate>,
    /// Nanoseconds of a unit of work of the key, in the middle over rounds.
    pub ns: f64,
}

impl Pair {
    /// `None` where one of the two was measured in less than two rounds. `alone` says that it is work on one thread.
    pub fn ratios(&self, trials: &Trials, alone: bool) -> Option<Ratios> {
        let (mine, others) = (trials.get(&self.key)?, trials.get(&self.baseline)?);
        let both = mine.iter().filter_map(|(round, time)| Some((time, others.get(round)?)));
        let mut times = Vec::new();
        let logs: Vec<(u32, f64)> = both
            .map(|(time, other)| {
                times.push(time.ns / self.units[0]);
                (time.episode, self.log_ratio(time.ns, other.ns))
            })
            .collect();
        let typical = Estimate::of(&logs)?;
        let undisturbed = alone.then(|| self.undisturbed(mine, others)).flatten();
        Some(Ratios { typical, undisturbed, ns: quantile(&mut times, 0.5) })
    }

    fn log_ratio(&self, ns: f64, other: f64) -> f64 {
        (ns / self.units[0] / (other / self.units[1])).ln()
    }

    fn undisturbed(&self, mine: &BTreeMap<u32, Time>, others: &BTreeMap<u32, Time>) -> Option<Estimate> {
        let (mine, others) = (lowest(mine), lowest(others));
        let both = mine.iter().filter_map(|(episode, ns)| Some((*episode, *ns, *others.get(episode)?)));
        let logs: Vec<(u32, f64)> =
            both.map(|(episode, ns, other)| (episode, self.log_ratio(ns, other))).collect();
        Estimate::of(&logs).filter(|estimate| estimate.episodes >= LEAST_EPISODES)
    }
}

/// The lowest decile of the trials in each process.
fn lowest(trials: &BTreeMap<u32, Time>) -> BTreeMap<u32, f64> {
    let mut processes: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    trials.values().for_each(|time| processes.entry(time.episode).or_default().push(time.ns));
    processes.into_iter().map(|(episode, mut times)| (episode, quantile(&mut times, LOW))).collect()
}
