//! What running the variants of a study takes.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::base::error::Error;
use crate::base::isolation;
use crate::base::profile::Profile;
use crate::study::builder::Study;
use by_turns_core::base::key::Key;
use by_turns_core::trial::bencher::{self, TrialError};
use by_turns_core::trial::sampling::OF_A_PROCESS;

impl Study {
    /// Runs one variant for one iteration, untimed: what a test wants.
    ///
    /// # Errors
    /// [`Error::Study`] when there is no such key or its function misuses the bencher; [`Error::Variant`]
    /// when it fails or panics.
    pub fn run_once(&self, key: &Key) -> Result<(), Error> {
        let variants = self.variants()?;
        let variant = variants.iter().find(|variant| variant.key == *key);
        let variant = variant.ok_or_else(|| self.wrong(format!("there is no variant {key}")))?;
        self.run_isolated(|| {
            bencher::call(&*variant.function, &mut |mut workload| workload.single(|run| run()))
        })
        .map_err(|variant_error| self.variant_error(key, variant_error))
    }

    /// Does work that calls a variant: in a process of its own when the study is isolated.
    pub(crate) fn run_isolated<T: Serialize + DeserializeOwned>(
        &self,
        work: impl FnOnce() -> Result<T, TrialError>,
    ) -> Result<T, TrialError> {
        isolation::run_isolated(self.isolated, work)
    }

    /// Whether each trial has a process of its own.
    pub(crate) fn is_isolated(&self) -> bool {
        self.isolated.is_some()
    }

    /// The error for a variant that failed where that is not tolerated.
    pub(crate) fn variant_error(&self, key: &Key, variant_error: TrialError) -> Error {
        match variant_error {
            TrialError::Failed(message) => Error::Variant { key: key.clone(), message },
            TrialError::Misused(reason) => self.misuse_error(key, &reason),
        }
    }

    /// Refuses to fork a process that has threads: a fork has only one of them.
    pub(crate) fn check_threads(&self) -> Result<(), Error> {
        match isolation::threads() {
            Some(threads) if threads > 1 && self.isolated.is_some() => Err(self.wrong(format!(
                "it is isolated, and this process has {} threads besides its main one; start them within \
                 harness::isolated(limit, work), and restart the kernel",
                threads - 1
            ))),
            _ => Ok(()),
        }
    }

    /// The profile with what this study sets itself. In a test a trial is as long as the test says.
    pub(crate) fn profile(&self, profile: &Profile) -> Profile {
        let rounds = self.rounds.map_or(profile.rounds, |rounds| profile.rounds_of(rounds));
        let longer = if self.is_isolated() && !profile.is_test() { OF_A_PROCESS } else { 1 };
        let (warm_up, trial) = (profile.warm_up * longer, profile.trial * longer);
        let times = profile.times;
        let (rounds, episodes) = (rounds * times, profile.episodes * times);
        Profile { rounds, episodes, warm_up, trial, times: 1, name: profile.name.clone() }
    }

    /// The error for a study function that does not keep to the rules of [`Bencher`].
    pub(crate) fn misuse_error(&self, key: &Key, reason: &str) -> Error {
        self.wrong(format!("{key} cannot be measured: {reason}; see harness::Bencher"))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::base::proof::UnequalWork;
    use by_turns_core::trial::bencher::Bencher;

    fn nothing(bencher: &mut Bencher) {
        bencher.iter(&mut || ());
    }

    #[test]
    fn a_variant_whose_proof_failed_is_never_run_and_says_why() {
        let key = |variant| Key::new("b", variant, "");
        let lost = isolation::isolated(Duration::from_millis(100), std::thread::park);
        let lost = lost.map_err(|end| UnequalWork::from(format!("{}: {end}", key("lost"))));
        let study = Study::new("s")
            .baseline("good")
            .proven(key("good"), Ok(()), nothing)
            .proven(key("lost"), lost, |_: &mut Bencher| panic!("it is run"))
            .control_of(key("lost"));
        study.run_once(&key("good")).expect("its proof was right");
        for key in &study.keys()[1..] {
            let message = study.run_once(key).unwrap_err().to_string();
            assert!(message.contains("b/lost: did not end within 100ms"), "{message}");
        }
    }
}
