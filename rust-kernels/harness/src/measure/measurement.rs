//! From a study to a run: rounds of trials, each round written as a whole.

use std::time::Instant;

use crate::base::declared::Settings;
use crate::base::error::Error;
use crate::base::profile::Profile;
use crate::base::resources;
use crate::measure::episode::{self, EpisodeCommand, Role};
use crate::measure::outcome::Outcome;
use crate::measure::progress::Progress;
use crate::provenance::codegen::Codegen;
use crate::provenance::gate;
use crate::provenance::kernel;
use crate::provenance::repository;
use crate::store::counts;
use crate::store::info::{State, StudyInfo};
use crate::store::metrics::{self, Metrics};
use crate::store::run::Run;
use crate::store::table::Place;
use crate::store::timings::{self, Plan, Timings};
use crate::study::builder::Study;
use crate::study::checks::Variant;
use by_turns_core::base::key::Key;
use by_turns_core::base::random;
use by_turns_core::base::sample::Sample;
use by_turns_core::trial::bencher::TrialError;
use by_turns_core::trial::draw;
use by_turns_core::trial::rounds;
use by_turns_core::trial::sampling::{Observer, Trial};
use by_turns_core::trial::undisturbed;

impl Study {
    /// Measures all variants in interleaved rounds and exports the raw samples with their provenance.
    ///
    /// Each episode of the profile is a fresh process: the cell, or the program, is run again up to this call, which
    /// there measures its rounds and ends the process. So it comes last, and uses no variable of another cell.
    ///
    /// Where the run goes, how an interrupted one is resumed, and how the environment asks for some variants only, is
    /// described in the crate's documentation.
    ///
    /// # Errors
    /// [`Error::Gate`] when this build must not be measured, [`Error::Key`] and [`Error::Study`] for mistakes in the
    /// study, [`Error::Resume`] when the partial run given by `ASYNC_COST_PARTIAL` is not a beginning of this one,
    /// [`Error::Episode`] when the process of one could not measure, [`Error::Setting`] and [`Error::Io`]. A variant
    /// that fails is not an error: see [`Outcome::failed`].
    pub fn measure(&self, profile: &Profile) -> Result<Outcome, Error> {
        let outcome = self.selected().and_then(|study| study.measured(profile));
        if episode::is_child() { episode::end(outcome.map(drop)) } else { outcome }
    }

    fn measured(&self, profile: &Profile) -> Result<Outcome, Error> {
        let started = Instant::now();
        let variants = self.variants()?;
        let settings = self.settings()?;
        let profile = &self.profile(profile);
        profile.validate()?;
        self.check_threads()?;
        gate::check(&Codegen::of_this_build(), profile, kernel::is_here())?;
        let mut run = Run::open(profile)?;
        let role = Role::of_this_process(profile)?;
        begin(self, &settings, profile, &mut run)?;
        run.unlock();
        match role {
            Role::Prepares => {
                EpisodeCommand::of_this_process(self.name(), profile)?.save(self.name(), &run)?
            }
            Role::Measures { until } => {
                draw::heap();
                let mut measurement =
                    Measurement { study: self, profile, variants: &variants, run: &mut run };
                measurement.rounds(&settings, until)?;
            }
            Role::Starts => {
                if run.info.studies[self.name()].state == State::Measuring {
                    EpisodeCommand::of_this_process(self.name(), profile)?.run(self.name(), &run)?;
                    run.read_again()?;
                }
            }
        }
        if run.info.studies[self.name()].state == State::Complete {
            run.publish(profile)?;
        }
        let section = &run.info.studies[self.name()];
        Ok(Outcome {
            study: self.name().to_owned(),
            variants: variants.len(),
            comparisons: settings.comparisons.len(),
            rounds: section.rounds,
            elapsed: started.elapsed(),
            failed: section.failures(),
            directory: run.relative_folder(),
            whole: run.is_published(),
        })
    }
}

/// Enters the study into run.json, or checks that the entry there is of the same measurement.
fn begin(study: &Study, settings: &Settings, profile: &Profile, run: &mut Run) -> Result<(), Error> {
    match run.info.studies.get_mut(study.name()) {
        Some(section) => {
            section.agrees_with(settings, profile)?;
            if section.state == State::Complete && !episode::is_child() {
                println!("{} is measured already, in {}", study.name(), run.relative_folder().display());
            }
            return Ok(());
        }
        None => {
            refuse_orphan(study, run)?;
            let seed = random::new_seed()
                .map_err(|error| Error::Setting { name: "random numbers", reason: error.to_string() })?;
            let section = StudyInfo::new(settings, seed, profile);
            run.info.studies.insert(study.name().to_owned(), section);
        }
    }
    run.save()?;
    counts::upsert(&run.file(&counts_file(study)), study.name(), &study.counts)
}

/// run.json is written before the samples, so samples without an entry there are not ours.
fn refuse_orphan(study: &Study, run: &Run) -> Result<(), Error> {
    let file = time_file(study);
    if run.file(&file).exists() {
        let reason = "run.json does not know it; remove it and measure again".to_owned();
        return Err(Error::Resume { file, reason });
    }
    Ok(())
}

fn time_file(study: &Study) -> String {
    format!("{}.time.csv", study.name())
}

/// Name of the file of exact counts.
pub(crate) fn counts_file(study: &Study) -> String {
    format!("{}.counts.csv", study.name())
}

/// The rounds of one study.
struct Measurement<'a> {
    study: &'a Study,
    profile: &'a Profile,
    variants: &'a [Variant],
    run: &'a mut Run,
}

impl Measurement<'_> {
    /// Measures the rounds that are missing up to `until`.
    fn rounds(&mut self, settings: &Settings, until: u32) -> Result<(), Error> {
        let keys: Vec<Key> = self.variants.iter().map(|variant| variant.key.clone()).collect();
        let index = |key: &Key| keys.iter().position(|other| other == key).expect("checked by the study");
        let pairs = settings.comparisons.iter().map(|pair| (index(&pair.key), index(&pair.baseline)));
        let failures = self.section().failures();
        let mut plan = Plan {
            study: self.study.name(),
            keys: &keys,
            samples: self.variants.iter().map(|variant| variant.samples).collect(),
            seed: self.section().seed,
            neighbours: rounds::neighbours(keys.len(), pairs),
            rounds: self.section().rounds,
            failed: keys.iter().map(|key| failures.iter().any(|failure| failure.key == *key)).collect(),
        };
        let (mut times, mut metrics, first) = self.open(&plan)?;
        if first >= until {
            // A kill may have come between the last round and the word that all are there.
            return self.complete(first);
        }
        let profile = self.profile;
        self.section().begin_episode(first, profile, episode::layout());
        self.run.save()?;

        let waiting = kernel::ParentWatch::begin(episode::is_child());
        let mut progress = self.progress(keys.len());
        progress.begin(first, keys.len());
        for round in first..until {
            let (mut rows, mut metric_rows) = (Vec::new(), Vec::new());
            for (position, index) in plan.order(round).into_iter().enumerate() {
                if waiting.parent_died() {
                    return Err(Error::Abandoned);
                }
                if !plan.failed[index] {
                    match self.trial(&mut metrics, index)? {
                        Some(samples) => {
                            let trial = Place::of_trial(self.study.name(), &keys[index], round, position);
                            rows.extend(timings::rows(&trial, &samples));
                            metric_rows.extend(metrics::rows(&trial, &samples));
                        }
                        None => plan.failed[index] = true,
                    }
                }
                progress.trial(round);
            }
            // The times last: they say that the round is whole.
            metrics.append_round(&metric_rows)?;
            times.append_round(&rows)?;
        }
        progress.finish(until);
        self.section().end_episode();
        self.complete(until)
    }

    /// Notes what is known when so many rounds are whole.
    fn complete(&mut self, rounds: u32) -> Result<(), Error> {
        let section = self.section();
        if rounds == section.rounds && section.state == State::Measuring {
            section.complete();
        }
        self.run.save()
    }

    /// Opens both files, cut to the rounds that are whole, and returns how many these are.
    fn open(&mut self, plan: &Plan<'_>) -> Result<(Timings, Metrics, u32), Error> {
        let (times, first) = Timings::open(&self.run.file(&time_file(self.study)), plan)?;
        let metrics = self.run.file(&format!("{}.metrics.csv", self.study.name()));
        Ok((times, Metrics::open(&metrics, plan.study, plan.keys, first)?, first))
    }

    /// Measures one trial. A failure is written to run.json before the round, so that no round seems whole
    /// without reason.
    fn trial(&mut self, metrics: &mut Metrics, index: usize) -> Result<Option<Vec<Sample>>, Error> {
        let Variant { key, function, samples, resources, .. } = &self.variants[index];
        let &Profile { warm_up, trial: time, .. } = self.profile;
        let undisturbed = self.study.instructions;
        if undisturbed {
            // A trial in a process of its own inherits what is known of the core.
            undisturbed::is_undisturbed();
        }
        let observer = resources.then_some(resources::around as Observer);
        let trial = Trial { warm_up, time, samples: *samples, observer, undisturbed };
        let outcome = self.study.run_isolated(|| trial.run(&**function));
        let accepted = outcome.and_then(|samples| match metrics.accept(key, &samples) {
            Ok(()) => Ok(samples),
            Err(change) => Err(TrialError::Failed(change)),
        });
        match accepted {
            Ok(samples) => Ok(Some(samples)),
            Err(TrialError::Misused(reason)) => Err(self.study.misuse_error(key, &reason)),
            Err(TrialError::Failed(message)) => {
                let message = repository::public_text(&message, self.run.root());
                self.section().fail(key, message);
                self.run.save()?;
                Ok(None)
            }
        }
    }

    fn section(&mut self) -> &mut StudyInfo {
        let name = self.study.name();
        self.run.info.studies.get_mut(name).expect("begin() has entered this study")
    }

    fn progress(&self, variants: usize) -> Progress {
        let rounds = self.run.info.studies[self.study.name()].rounds;
        // Warm-up doubles its calls until it is over, so it lasts one and a half times as long on average.
        let trial = self.profile.warm_up.mul_f64(1.5) + self.profile.trial;
        Progress::new(self.study.name(), "round", rounds, variants, trial)
    }
}
