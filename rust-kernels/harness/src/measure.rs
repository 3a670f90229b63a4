//! From a study to a run: rounds of trials, each round written as a whole.

use std::rc::Rc;
use std::time::Instant;

use crate::bencher::{self, Mode, Trouble};
use crate::codegen::Codegen;
use crate::engine::{Engine, Trial};
use crate::info::{Settings, State, StudyInfo};
use crate::outcome::Outcome;
use crate::progress::Progress;
use crate::run::Run;
use crate::study::Variant;
use crate::timings::{self, Plan, Row, Timings};
use crate::{Error, Key, Profile, Study, counts, gate, kernel, repository, rounds};

/// Measures a study. See [`Study::measure`].
pub(crate) fn measure(study: &Study, profile: &Profile) -> Result<Outcome, Error> {
    let started = Instant::now();
    let variants = study.variants()?;
    let settings = study.settings()?;
    let profile = &study.profile(profile);
    profile.validate()?;
    study.check_threads()?;
    gate::check(&Codegen::of_this_build(), profile, kernel::is_here())?;
    let mut run = Run::open(profile)?;
    begin(study, &settings, profile, &mut run)?;
    if run.info.studies[study.name()].state == State::Measuring {
        Measurement { study, profile, variants: &variants, run: &mut run }.rounds()?;
        complete(study, profile, &mut run)?;
    }
    let rows = timings::read(&run.file(&time_file(study)))?;
    let section = &run.info.studies[study.name()];
    Ok(Outcome::new(run.relative_folder(), section, &settings.comparisons, &rows, started.elapsed()))
}

/// Enters the study into run.json, or checks that the entry there is of the same measurement.
fn begin(study: &Study, settings: &Settings, profile: &Profile, run: &mut Run) -> Result<(), Error> {
    match run.info.studies.get_mut(study.name()) {
        Some(section) => {
            section.agrees_with(settings, profile)?;
            if section.state == State::Complete {
                println!("{} is measured already, in {}", study.name(), run.relative_folder().display());
                return Ok(());
            }
            section.resumed += 1;
        }
        None => {
            refuse_orphan(study, run)?;
            let seed = rounds::new_seed()
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

fn complete(study: &Study, profile: &Profile, run: &mut Run) -> Result<(), Error> {
    if let Some(section) = run.info.studies.get_mut(study.name()) {
        section.complete();
    }
    run.save()?;
    run.appear(profile)
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
    /// Measures the rounds that are missing.
    fn rounds(&mut self) -> Result<(), Error> {
        let keys: Vec<Key> = self.variants.iter().map(|variant| variant.key.clone()).collect();
        let section = self.section();
        let failures = section.failures();
        let mut failed: Vec<bool> =
            keys.iter().map(|key| failures.iter().any(|failure| failure.key == *key)).collect();
        let seed = section.seed;
        let plan = Plan {
            study: self.study.name(),
            keys: &keys,
            samples: self.variants.iter().map(|variant| variant.samples).collect(),
            seed,
            rounds: self.profile.rounds,
            failed: failed.clone(),
        };
        let (mut file, first) = Timings::open(&self.run.file(&time_file(self.study)), &plan)?;

        let engine = Rc::new(Engine::new(self.profile.warm_up, self.profile.trial));
        let waiting = kernel::Waiting::begin();
        let mut progress = self.progress();
        progress.begin(first, self.variants.len());
        for round in first..self.profile.rounds {
            let mut rows = Vec::new();
            for (position, index) in rounds::order(seed, round, keys.len()).into_iter().enumerate() {
                if waiting.is_over() {
                    return Err(Error::Abandoned);
                }
                if !failed[index] {
                    match self.trial(&engine, round, position, index)? {
                        Some(samples) => rows.extend(samples),
                        None => failed[index] = true,
                    }
                }
                progress.trial(round);
            }
            file.append_round(&rows)?;
        }
        progress.finish();
        Ok(())
    }

    /// Measures one trial. A failure is written to run.json before the round, so that no round seems whole
    /// without reason.
    fn trial(
        &mut self,
        engine: &Rc<Engine>,
        round: u32,
        position: usize,
        index: usize,
    ) -> Result<Option<Vec<Row>>, Error> {
        let Variant { key, function, samples } = &self.variants[index];
        let trial = Trial { engine: Rc::clone(engine), samples: *samples, resources: self.study.resources };
        match self.study.shielded(|| bencher::call(&**function, Mode::Trial(Rc::new(trial)))) {
            Ok(samples) => Ok(Some(timings::rows(self.study.name(), key, round, position, &samples))),
            Err(Trouble::Misused(reason)) => Err(self.study.misused(key, &reason)),
            Err(Trouble::Failed(message)) => {
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

    fn progress(&self) -> Progress {
        // Warm-up doubles its calls until it is over, so it lasts one and a half times as long on average.
        let trial = self.profile.warm_up.mul_f64(1.5) + self.profile.trial;
        Progress::new(self.study.name(), "round", self.profile.rounds, self.variants.len(), trial)
    }
}
