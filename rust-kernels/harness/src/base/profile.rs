//! How much to measure.

use std::time::Duration;

use crate::base::error::Error;

/// As many samples of one trial as a study may ask for.
pub(crate) const MOST_SAMPLES: usize = 100;

/// How many rounds to measure, in how many processes, and how long each trial lasts.
///
/// A round takes about `variants x (warm_up + trial)`; the warm-up, which doubles its iterations, may take up to twice
/// `warm_up`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// `smoke`, `quick`, `standard` or `thorough`. `test` is kept for tests of the harness: it is measured whatever
    /// the build, and a run made with it stays in the hidden folder of partial runs, so that no reader takes
    /// it for evidence.
    pub name: String,
    /// Rounds; every round runs each variant once.
    pub rounds: u32,
    /// Processes that measure them, one after the other: a fresh process draws the addresses of code, heap and stack
    /// anew. With one, the rounds are measured in the process that calls [`measure`](crate::Study::measure).
    pub episodes: u32,
    /// Least time that a trial runs untimed before its samples.
    pub warm_up: Duration,
    /// Time that the samples of a trial take together.
    pub trial: Duration,
    /// How many times the rounds, also those that a study sets itself, and the episodes are measured.
    pub times: u32,
}

/// Name, rounds, episodes, warm-up in microseconds, trial in microseconds. The warm-up is long enough to refill the
/// caches and the branch predictor after the preceding variant. Trials are short, because what is compared is then near
/// each other in time: in 64 readings of a second, nine of ten saw one loop differ from itself by less than 0.53 % with
/// these trials, and by less than 0.89 % with 2 ms of warm-up and 6 ms (the median hardly differs).
///
/// A standard run is one sitting. Its processes, as many in every study, draw a link order each; what more of them do
/// not tell, another hour does.
const PROFILES: [(&str, u32, u32, u64, u64); 4] = [
    ("smoke", 4, 2, 20, 60),
    ("quick", 12, 2, 150, 500),
    ("standard", 180, 12, 300, 1_000),
    ("thorough", 360, 24, 300, 1_000),
];

/// Says how many times a profile is measured: a lone study has time for more.
const TIMES: &str = "ASYNC_COST_TIMES";

/// Name of the profile that only tests use.
const TEST: &str = "test";

impl Profile {
    /// Every variant of every study in about a minute, for tests of the whole; its times mean nothing.
    pub fn smoke() -> Self {
        Self::built_in(0)
    }

    /// Shows that everything works; labelled as not evidence.
    pub fn quick() -> Self {
        Self::built_in(1)
    }

    /// What a report is made from.
    pub fn standard() -> Self {
        Self::built_in(2)
    }

    /// A sitting of twice the rounds and processes, for a machine that is there once.
    pub fn thorough() -> Self {
        Self::built_in(3)
    }

    /// The profile named by `ASYNC_COST_PROFILE`, `quick` when that is not set, as many times as `ASYNC_COST_TIMES` says.
    ///
    /// # Errors
    /// [`Error::Setting`] when the name is none of the four, or the times are no number.
    pub fn from_env() -> Result<Self, Error> {
        let set = |name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        let profile = set("ASYNC_COST_PROFILE").map_or(Ok(Self::quick()), |name| Self::named(&name))?;
        let times = set(TIMES).map_or(Ok(1), |times| times.parse::<u32>());
        let times = times.map_err(|error| Error::Setting { name: TIMES, reason: error.to_string() })?;
        Ok(Self { times, ..profile })
    }

    /// True for profiles that exist for tests only.
    pub(crate) fn is_test(&self) -> bool {
        self.name == TEST
    }

    /// The rounds that this profile measures of a study that has so many in quick and in standard: `smoke` those of
    /// quick, but at most its own, `thorough` twice those of standard; a test its own.
    pub(crate) fn rounds_of(&self, [quick, standard]: [u32; 2]) -> u32 {
        match self.name.as_str() {
            "smoke" => quick.min(self.rounds),
            "quick" => quick,
            "standard" => standard,
            "thorough" => 2 * standard,
            _ => self.rounds,
        }
    }

    /// The rounds at which its episodes end, as even as they can be; the last one is the number of rounds.
    pub(crate) fn episode_ends(&self) -> Vec<u32> {
        let end = |episode| u64::from(self.rounds) * u64::from(episode) / u64::from(self.episodes);
        let mut ends: Vec<u32> = (1..=self.episodes).map(|episode| end(episode) as u32).collect();
        // Fewer rounds than episodes: each has one.
        ends.dedup();
        ends.retain(|end| *end > 0);
        ends
    }

    /// Refuses a profile that measures nothing or that borrows a built-in name for other numbers.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        let refuse = |reason: String| Err(Error::Setting { name: "profile", reason });
        if self.rounds == 0
            || self.episodes == 0
            || self.times == 0
            || self.trial.is_zero()
            || self.warm_up.is_zero()
        {
            return refuse("rounds, episodes, times, warm-up and trial must be more than zero".to_owned());
        }
        if !self.is_test() {
            Self::named(&self.name)?;
        }
        Ok(())
    }

    fn built_in(index: usize) -> Self {
        let (name, rounds, episodes, warm_up, trial) = PROFILES[index];
        Self {
            name: name.to_owned(),
            rounds,
            episodes,
            warm_up: Duration::from_micros(warm_up),
            trial: Duration::from_micros(trial),
            times: 1,
        }
    }

    fn named(name: &str) -> Result<Self, Error> {
        PROFILES.iter().position(|profile| profile.0 == name).map(Self::built_in).ok_or_else(|| {
            Error::Setting {
                name: "ASYNC_COST_PROFILE",
                reason: format!("{name:?} is not a profile; use smoke, quick, standard or thorough"),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_profile_measures_more_than_the_one_before() {
        let profiles = [Profile::smoke(), Profile::quick(), Profile::standard(), Profile::thorough()];
        for pair in profiles.windows(2) {
            assert!(pair[0].rounds < pair[1].rounds && pair[0].episodes <= pair[1].episodes);
        }
        for profile in profiles {
            profile.validate().expect("a built-in profile");
        }
    }

    #[test]
    fn unknown_names_are_refused_with_the_known_ones() {
        let message = Profile::named("fast").unwrap_err().to_string();
        assert!(message.contains("smoke, quick, standard or thorough"), "{message}");
    }

    #[test]
    fn episodes_share_the_rounds() {
        let ends = |rounds, episodes| Profile { rounds, episodes, ..Profile::quick() }.episode_ends();
        assert_eq!(ends(120, 8), [15, 30, 45, 60, 75, 90, 105, 120]);
        assert_eq!(ends(7, 3), [2, 4, 7]);
        assert_eq!(ends(2, 8), [1, 2]);
        assert_eq!(ends(5, 1), [5]);
    }

    #[test]
    fn empty_profiles_are_refused() {
        let empty = Profile { rounds: 0, ..Profile::quick() };
        assert!(empty.validate().is_err());
        assert!(Profile { episodes: 0, ..Profile::quick() }.validate().is_err());
    }
}
