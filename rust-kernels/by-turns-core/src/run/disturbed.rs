//! What disturbed a run.

use std::thread::available_parallelism;
use std::time::Instant;

use crate::base::machine;
use crate::trial::undisturbed::Disturbance;

/// The machine when a run began.
pub struct Watch {
    since: Instant,
    /// The average load, over one, five and fifteen minutes.
    pub load: Option<[f64; 3]>,
    /// Time that other virtual machines took, since the machine was started.
    pub steal_ms: Option<u64>,
}

impl Watch {
    /// From now on.
    pub fn begin() -> Self {
        Self { since: Instant::now(), load: machine::load(), steal_ms: machine::steal_ms() }
    }

    /// What disturbed the run since then, if it was much.
    pub fn told(&self, met: Disturbance) -> Option<String> {
        let cores = available_parallelism().map_or(1, usize::from);
        let passed = self.since.elapsed().as_secs_f64() * 1e3 * cores as f64;
        let stolen = machine::steal_ms().zip(self.steal_ms).map(|(now, then)| now.saturating_sub(then));
        let stolen = stolen.map_or(0.0, |stolen| stolen as f64 / passed);
        disturbed(self.load.map(|[last_minute, ..]| last_minute), cores, met, stolen)
    }
}

/// More than this share of samples that were disturbed is told.
const MUCH: f64 = 0.1;
/// More than this share of the processors' time that was stolen is told.
const MUCH_STOLEN: f64 = 0.01;

/// What disturbed the bench, if it was much: `load` at its start, what samples met, the share of time that was stolen.
fn disturbed(load: Option<f64>, cores: usize, met: Disturbance, stolen: f64) -> Option<String> {
    let share = |of: u64| of as f64 / met.samples.max(1) as f64;
    let per_cent = |share: f64| format!("{:.0} %", share * 100.0);
    let mut said = vec![];
    if let Some(load) = load.filter(|load| *load > cores as f64) {
        said.push(format!("load {load:.0} on {cores} cores at the start"));
    }
    if share(met.again) > MUCH {
        said.push(format!("{} of samples were taken again", per_cent(share(met.again))));
    }
    if share(met.disturbed) > MUCH {
        said.push(format!("{} were kept although the core was shared", per_cent(share(met.disturbed))));
    }
    if stolen > MUCH_STOLEN {
        said.push(format!("{} of the processors' time went to other virtual machines", per_cent(stolen)));
    }
    (!said.is_empty()).then(|| {
        format!("the machine was disturbed, which widens intervals and may move ratios: {}", said.join("; "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_disturbed_is_told_where_it_was_much() {
        let met = Disturbance { samples: 1000, again: 610, disturbed: 120 };
        assert_eq!(
            disturbed(Some(14.2), 2, met, 0.034).expect("much"),
            "the machine was disturbed, which widens intervals and may move ratios: load 14 on 2 cores at the start; 61 % of samples were taken again; \
             12 % were kept although the core was shared; 3 % of the processors' time went to other virtual machines"
        );
        assert_eq!(disturbed(Some(1.9), 2, Disturbance { again: 90, disturbed: 10, ..met }, 0.005), None);
        assert_eq!(disturbed(None, 2, Disturbance::default(), 0.0), None, "several threads wait for no core");
    }
}
