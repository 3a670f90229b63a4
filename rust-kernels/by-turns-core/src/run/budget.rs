//! The time that a bench may measure for.

use std::time::Duration;

use crate::base::number::time;
use crate::judge::interval::LEAST_EPISODES;
use crate::trial::sampling::SAMPLES;

/// Least time that a trial runs untimed.
pub const WARM_UP: Duration = Duration::from_micros(300);
/// The time that the samples of a trial take together.
pub const TRIAL: Duration = Duration::from_millis(1);

/// How much is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// As run.json calls it.
    pub name: &'static str,
    /// Fresh processes.
    pub processes: u32,
    /// Rounds in each of them.
    pub rounds: u32,
    /// The time for all of them, unless the user gives another one; else [`PROCESS`] for each, and a minute at least.
    pub budget: Option<Duration>,
    /// Whether a verdict is given.
    pub concludes: bool,
}

impl Profile {
    /// For a look.
    pub const QUICK: Self = Self {
        name: "quick",
        processes: 4,
        rounds: 3,
        budget: Some(Duration::from_secs(5)),
        concludes: false,
    };
    /// Half of an interval over so many processes is 0.42 of their standard deviation, which is 1 to 5 % with link orders.
    pub const STANDARD: Self =
        Self { name: "standard", processes: 24, rounds: 24, budget: None, concludes: true };
    /// For small differences.
    pub const LONG: Self = Self { name: "thorough", processes: 96, ..Self::STANDARD };
}

impl Profile {
    /// The time for all processes, where the user gives that one or none.
    pub fn time(&self, given: Option<Duration>) -> Duration {
        given.or(self.budget).unwrap_or(PROCESS * self.processes.max(24))
    }
}

/// A run that takes so many times its budget says so.
const OVERRUN: f64 = 1.03;

/// So much for each process: a minute for 24.
const PROCESS: Duration = Duration::from_millis(2_500);

/// A time such as `60s`, `2m` or `500ms`; without a unit it is in seconds.
pub fn parse(text: &str) -> Option<Duration> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[number.len()..] {
        "ms" => 0.001,
        "s" | "" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        _ => return None,
    };
    let seconds = number.parse::<f64>().ok()? * unit;
    Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero())
}

/// Such as `90 s`.
pub fn shown(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 10.0 {
        format!("{} s", (seconds * 10.0).round() / 10.0)
    } else {
        format!("{} s", seconds.round())
    }
}

/// How much is measured: all of the profile, or what fits into the budget.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The time that all processes may take together.
    pub budget: Duration,
    /// Processes that are asked for.
    pub processes: u32,
    /// Rounds in each of them, at most.
    pub rounds: u32,
    /// Of each trial.
    pub samples: usize,
    /// About what a call takes.
    call: Duration,
    /// About what a round takes, before one is measured.
    round: Duration,
    /// About what a process takes before its first round.
    start: Duration,
    /// Processes without which nothing can be said.
    least: u32,
}

impl Plan {
    /// What to measure of so many variants, of which a call takes about `call`, and setting one up about `set_up`.
    pub fn new(
        profile: &Profile,
        budget: Option<Duration>,
        variants: usize,
        call: Duration,
        set_up: Duration,
    ) -> Self {
        let budget = profile.time(budget);
        // Each variant is called three times to prove equal work, and in a round at least once to warm up, once for each
        // sample and once to be checked.
        let calls = (3 + 1 + SAMPLES + 1) * variants;
        let long = call * calls as u32 > budget / profile.processes;
        let samples = if long { 1 } else { SAMPLES };
        let trial = set_up + call.max(WARM_UP) + (call * samples as u32).max(TRIAL) + call;
        // All are proved in two calls of two set-ups each, or only baselines in one.
        let proof = if long { set_up + call } else { (2 * set_up + 3 * call) * variants as u32 };
        Self {
            budget,
            processes: profile.processes,
            rounds: profile.rounds,
            samples,
            call,
            round: trial * variants as u32,
            start: proof,
            least: if profile.concludes { profile.processes.min(LEAST_EPISODES as u32) } else { 1 },
        }
    }

    /// Whether an iteration is so long that processes prove and sample as little as they can.
    pub fn brief(&self) -> bool {
        self.samples < SAMPLES
    }

    /// Why instructions of so many variants are not counted: each executes two iterations under valgrind, which is about 50
    /// times as slow.
    pub fn no_valgrind(&self, variants: usize) -> Option<String> {
        (self.call * 2 * 50 * variants as u32 > self.budget).then(|| {
            format!(
                "an iteration takes {}, and much longer under valgrind; --save-counts and --gate count them",
                time(self.call.as_nanos() as f64)
            )
        })
    }

    /// How many rounds the next process measures, after so many processes that have measured so many rounds in this time; none
    /// where there is to be none. It is known before the process begins: if its own pace decided, slow rounds, each process
    /// of which counts as much, would count more.
    pub fn next(&self, done: u32, rounds: u32, elapsed: Duration) -> Option<u32> {
        let left = self.budget.saturating_sub(elapsed);
        let (start, round) = match elapsed.checked_div(rounds) {
            None => (self.start, self.round),
            Some(round) => (Duration::ZERO, round), // with its share of the start
        };
        if done >= self.processes || done >= self.least && round > left {
            return None;
        }
        let time = (left / (self.processes - done)).saturating_sub(start);
        let fit = time.as_nanos() / round.as_nanos().max(1);
        Some(fit.clamp(1, self.rounds.into()) as u32)
    }

    /// About how much longer it takes.
    pub fn left(&self, done: u32, elapsed: Duration) -> Option<Duration> {
        let one = elapsed.checked_div(done)?;
        let all = one * (self.processes - done);
        Some(all.min(self.budget.saturating_sub(elapsed)).max(one * self.least.saturating_sub(done)))
    }

    /// What the budget cut, when so many processes, which are called `what`, have measured so many rounds in this time.
    pub fn cut(&self, what: &str, processes: u32, rounds: u32, elapsed: Duration) -> Option<String> {
        let budget = shown(self.budget);
        let mut cut = vec![];
        if processes < self.processes {
            cut.push(format!("{processes} of {} {what}", self.processes));
        }
        if rounds < processes * self.rounds {
            cut.push(format!("{rounds} of {} rounds", processes * self.rounds));
        }
        if self.brief() {
            cut.push(format!("{} of {SAMPLES} samples in each trial", self.samples));
        }
        let over = elapsed > self.budget.mul_f64(OVERRUN);
        let took = shown(elapsed);
        if cut.is_empty() {
            return over.then(|| format!("the budget of {budget} was not enough: it took {took}"));
        }
        let over = match (over, processes <= self.least && rounds == processes) {
            (true, true) => format!("; this minimum took {took}"),
            (true, false) => format!("; it took {took}"),
            (false, _) => String::new(),
        };
        Some(format!("the budget of {budget} ended it after {}{over}", cut.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STANDARD: Profile = Profile::STANDARD;

    fn planned(profile: &Profile, budget: Option<&str>, variants: usize, call: Duration) -> Plan {
        Plan::new(profile, budget.map(|text| parse(text).expect("a time")), variants, call, Duration::ZERO)
    }

    /// How many processes and rounds are measured where `start` is the start of a process and `round` a round, and how long
    /// that takes.
    fn measured(plan: &Plan, start: Duration, round: Duration) -> (u32, u32, Duration) {
        let (mut processes, mut rounds, mut elapsed) = (0, 0, Duration::ZERO);
        while let Some(next) = plan.next(processes, rounds, elapsed) {
            (processes, rounds, elapsed) = (processes + 1, rounds + next, elapsed + start + next * round);
        }
        (processes, rounds, elapsed)
    }

    #[test]
    fn times_are_understood() {
        let seconds = |text| parse(text).map(|time| time.as_secs_f64());
        assert_eq!(["60s", "2m", "500ms", "7", "1.5s"].map(seconds), [60.0, 120.0, 0.5, 7.0, 1.5].map(Some));
        assert_eq!(["", "s", "-1s", "0s", "3 weeks", "nan"].map(seconds), [None; 6]);
        assert_eq!(
            [60_000, 2_500, 500].map(|ms| shown(Duration::from_millis(ms))),
            ["60 s", "2.5 s", "0.5 s"]
        );
    }

    #[test]
    fn what_fits_is_measured_whole() {
        let plan = planned(&STANDARD, None, 3, Duration::from_micros(100));
        let (processes, rounds, _) = measured(&plan, Duration::from_millis(50), Duration::from_millis(10));
        assert_eq!((processes, rounds), (24, 576));
        assert_eq!(plan.no_valgrind(3), None);
        assert_eq!((plan.samples, plan.cut("pairs", 24, 576, Duration::ZERO)), (2, None));
    }

    #[test]
    fn long_iterations_are_measured_less_often_within_the_budget() {
        let call = Duration::from_millis(300);
        let plan = planned(&STANDARD, None, 3, call);
        assert!(plan.brief() && plan.no_valgrind(3).expect("not").starts_with("an iteration takes 300 ms"));
        // A call at the start; each of three variants warms up, is sampled and is checked.
        let (processes, rounds, elapsed) = measured(&plan, call, 9 * call);
        assert_eq!((processes, rounds), (20, 20));
        assert!(elapsed <= plan.budget, "{elapsed:?}");
        let cut = "the budget of 60 s ended it after 20 of 24 processes, 20 of 480 rounds, 1 of 2 samples in each trial";
        assert_eq!(plan.cut("processes", processes, rounds, elapsed).as_deref(), Some(cut));
        let plan = planned(&STANDARD, None, 3, 10 * call);
        let (processes, rounds, elapsed) = measured(&plan, 10 * call, 90 * call);
        assert_eq!((processes, rounds), (4, 4), "fewer conclude nothing");
        let cut = plan.cut("processes", processes, rounds, elapsed).expect("cut");
        assert!(cut.ends_with("; this minimum took 120 s"), "{cut}");
        let plan = planned(&Profile::QUICK, None, 3, 10 * call);
        assert_eq!(measured(&plan, 10 * call, 90 * call).0, 1, "a look concludes nothing anyhow");
        let minutes = planned(&STANDARD, Some("2m"), 3, call);
        assert_eq!(measured(&minutes, call, 9 * call).0, 24);
    }

    #[test]
    fn rounds_are_cut_before_processes() {
        let plan = planned(&STANDARD, Some("10s"), 3, Duration::from_millis(5));
        let (processes, rounds, elapsed) =
            measured(&plan, Duration::from_millis(50), Duration::from_millis(60));
        assert_eq!(processes, 24);
        assert!(rounds > 100 && rounds < 200 && elapsed <= plan.budget, "{rounds} rounds, {elapsed:?}");
        assert!(plan.cut("processes", processes, rounds, elapsed).expect("cut").contains("of 576 rounds"));
    }

    #[test]
    fn more_processes_have_more_time() {
        let budget = |profile: &Profile| planned(profile, None, 2, Duration::ZERO).budget.as_secs_f64();
        let many = |processes| Profile { processes, ..STANDARD };
        assert_eq!([24, 96, 4].map(many).map(|profile| budget(&profile)), [60.0, 240.0, 60.0]);
        assert_eq!(budget(&Profile::QUICK), 5.0);
    }

    #[test]
    fn the_time_left_is_that_of_the_processes_or_of_the_budget() {
        let plan = planned(&STANDARD, None, 2, Duration::ZERO);
        let left = |done, seconds| plan.left(done, Duration::from_secs(seconds)).map(|left| left.as_secs());
        assert_eq!([left(0, 0), left(12, 6), left(12, 40)], [None, Some(6), Some(20)]);
    }

    #[test]
    fn rounds_are_known_before_a_process_begins() {
        let (call, set_up) = (Duration::from_nanos(10), Duration::from_secs(1));
        let quiet = planned(&STANDARD, None, 3, call);
        assert_eq!(quiet.next(0, 0, Duration::ZERO), Some(24));
        // Half of the budget has gone for a third of the processes; a round took 0.3 s.
        assert_eq!(quiet.next(8, 100, Duration::from_secs(30)), Some(6));
        // Each variant is set up in each round.
        let dear = Plan::new(&STANDARD, parse("4m"), 3, call, set_up);
        assert_eq!((dear.brief(), dear.no_valgrind(3)), (false, None), "its iterations are short");
        assert_eq!(dear.next(0, 0, Duration::ZERO), Some(1));
    }

    #[test]
    fn a_run_that_took_longer_says_so() {
        let plan = planned(&STANDARD, None, 2, Duration::ZERO);
        let cut = |processes, rounds, seconds| {
            plan.cut("processes", processes, rounds, Duration::from_secs(seconds)).unwrap_or_default()
        };
        assert_eq!(
            [cut(24, 576, 61), cut(24, 576, 70)],
            ["", "the budget of 60 s was not enough: it took 70 s"]
        );
        assert_eq!(cut(20, 90, 61), "the budget of 60 s ended it after 20 of 24 processes, 90 of 480 rounds");
        assert!(cut(20, 90, 70).ends_with("90 of 480 rounds; it took 70 s"));
    }
}
