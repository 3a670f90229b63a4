//! run.json: what is known about a run besides its numbers.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::base::declared::{Comparison, Failure, Settings};
use crate::base::error::Error;
use crate::base::file;
use crate::base::profile::Profile;
use crate::provenance::codegen::{Codegen, Toolchain};
use crate::provenance::kernel;
use crate::provenance::repository::{self, Git, Versions};
use by_turns_core::base::clock::Utc;
use by_turns_core::base::key::Key;
use by_turns_core::base::machine::{self, Machine};

/// Version of the fields below. Readers refuse others.
const SCHEMA_VERSION: u32 = 4;

/// The whole of run.json.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunInfo {
    schema_version: u32,
    /// `<machine>/<utc-time>`: the folder that the run gets when it is whole.
    pub(crate) run_id: String,
    origin: String,
    profile: String,
    command: Option<String>,
    started: String,
    ended: Option<String>,
    machine: Machine,
    toolchain: Toolchain,
    codegen: Codegen,
    crates: BTreeMap<String, Versions>,
    git: Option<Git>,
    /// Hashes of what the run was made for and from, as the workflow that started it says: the claims and the findings
    /// that it will judge, and all that is measured with it.
    claims: Option<String>,
    findings: Option<String>,
    program: Option<String>,
    /// The first run of its series, as the workflow that started it says.
    series: Option<String>,
    /// Set by the outer program that waits, before the first episode.
    waited_s: Option<f64>,
    /// Tells one start of the machine from another; set as well by the outer program.
    #[serde(default)]
    boot: Option<String>,
    pub(crate) studies: BTreeMap<String, StudyInfo>,
}

/// How one study is measured, and how far it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StudyInfo {
    pub(crate) state: State,
    pub(crate) baseline: String,
    pub(crate) controls: Vec<String>,
    /// What the ratios are taken of, in the order of the study.
    comparisons: Vec<ComparisonEntry>,
    /// Half-width of the region of practical equivalence of each group of comparisons.
    groups: BTreeMap<String, f64>,
    /// What the trials of each group are like: their measurements err alike.
    kinds: BTreeMap<String, String>,
    /// The processes that measured, in order.
    pub(crate) episodes: Vec<Episode>,
    pub(crate) seed: u64,
    pub(crate) rounds: u32,
    pub(crate) samples: usize,
    pub(crate) warm_up_ns: u64,
    pub(crate) trial_ns: u64,
    started: String,
    ended: Option<String>,
    /// How often the measurement was interrupted and taken up again.
    pub(crate) resumed: u32,
    load_before: Option<[f64; 3]>,
    load_after: Option<[f64; 3]>,
    steal_before_ms: Option<u64>,
    steal_after_ms: Option<u64>,
    throttled_before: Option<u64>,
    throttled_after: Option<u64>,
    failed: Vec<FailedVariant>,
}

/// A process that measured some of the rounds, up to the first one of the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Episode {
    pub(crate) first_round: u32,
    started: String,
    /// None as long as it measures, and where it was interrupted.
    ended: Option<String>,
    /// The number from which the order of linking was drawn; null: that of the compiler.
    layout: Option<u64>,
}

/// Whether all rounds are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Measuring,
    Complete,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FailedVariant {
    bench: String,
    variant: String,
    parameter: String,
    error: String,
}

/// One comparison, spelled out like a row of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ComparisonEntry {
    bench: String,
    variant: String,
    parameter: String,
    baseline_bench: String,
    baseline_variant: String,
    baseline_parameter: String,
    group: String,
    /// What changes from the baseline to the key.
    change: String,
    /// The unit of work in which time is told.
    unit: String,
}

impl From<&Comparison> for ComparisonEntry {
    fn from(comparison: &Comparison) -> Self {
        let (key, baseline) = (comparison.key.clone(), comparison.baseline.clone());
        Self {
            bench: key.bench,
            variant: key.variant,
            parameter: key.parameter,
            baseline_bench: baseline.bench,
            baseline_variant: baseline.variant,
            baseline_parameter: baseline.parameter,
            group: comparison.group.clone(),
            change: comparison.change.clone(),
            unit: comparison.unit.clone(),
        }
    }
}

impl RunInfo {
    /// A run that begins now, on this machine, with this program.
    pub(crate) fn new(root: &Path, profile: &Profile) -> Self {
        let (now, machine) = (Utc::now(), Machine::this());
        Self {
            schema_version: SCHEMA_VERSION,
            run_id: format!("{}/{}", machine.name, now.folder()),
            origin: if kernel::is_here() { "notebook" } else { "native" }.to_owned(),
            profile: profile.name.clone(),
            command: std::env::var("ASYNC_COST_COMMAND")
                .ok()
                .map(|text| repository::public_text(&text, root)),
            started: now.text(),
            ended: None,
            machine,
            toolchain: Toolchain::of_this_build(),
            codegen: Codegen::of_this_build(),
            crates: repository::crates(root),
            git: repository::git(root),
            claims: std::env::var("ASYNC_COST_CLAIMS").ok(),
            findings: std::env::var("ASYNC_COST_FINDINGS").ok(),
            program: std::env::var("ASYNC_COST_PROGRAM").ok(),
            series: std::env::var("ASYNC_COST_SERIES").ok(),
            waited_s: None,
            boot: None,
            studies: BTreeMap::new(),
        }
    }

    /// Reads the run.json of a partial run; `None` when there is none yet.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, Error> {
        if !path.exists() {
            return Ok(None);
        }
        let text = fs::read_to_string(path).map_err(Error::io("read", path))?;
        let info: Self = serde_json::from_str(&text).map_err(|error| resume_error(error.to_string()))?;
        if info.schema_version != SCHEMA_VERSION {
            return Err(resume_error(format!(
                "its schema version is {}, not {SCHEMA_VERSION}",
                info.schema_version
            )));
        }
        Ok(Some(info))
    }

    /// Replaces run.json as a whole: a reader, or a process that was killed meanwhile, has the old one or the
    /// new one.
    pub(crate) fn write(&self, path: &Path) -> Result<(), Error> {
        let mut text = serde_json::to_vec_pretty(self).map_err(|error| resume_error(error.to_string()))?;
        text.push(b'\n');
        file::replace(path, &text)
    }

    /// Refuses to go on with a run that another machine, program or profile has begun.
    pub(crate) fn agrees_with(&self, other: &Self) -> Result<(), Error> {
        let facts = [
            ("profile", self.profile == other.profile),
            ("origin", self.origin == other.origin),
            ("machine", self.machine.name == other.machine.name && self.machine.cpu == other.machine.cpu),
            ("toolchain", self.toolchain == other.toolchain),
            ("codegen", self.codegen == other.codegen),
        ];
        match facts.iter().find(|(_, agrees)| !agrees) {
            Some((fact, _)) => Err(resume_error(format!("its {fact} is not that of this program"))),
            None => Ok(()),
        }
    }

    /// Notes what another process, that goes on with this run, has found of the machine.
    pub(crate) fn note(&mut self, other: &Self) {
        self.machine.note(&other.machine);
    }

    /// Notes the end of the run when all its studies are complete.
    pub(crate) fn update_end(&mut self) {
        let whole = self.studies.values().all(|study| study.state == State::Complete);
        self.ended = self.ended.take().filter(|_| whole).or_else(|| whole.then(|| Utc::now().text()));
    }
}

impl StudyInfo {
    pub(crate) fn new(settings: &Settings, seed: u64, profile: &Profile) -> Self {
        Self {
            state: State::Measuring,
            baseline: settings.baseline.clone(),
            controls: settings.controls.clone(),
            comparisons: settings.comparisons.iter().map(ComparisonEntry::from).collect(),
            groups: settings.groups.clone(),
            kinds: owned(&settings.kinds),
            episodes: Vec::new(),
            seed,
            rounds: profile.rounds,
            samples: settings.samples,
            warm_up_ns: nanoseconds(profile.warm_up),
            trial_ns: nanoseconds(profile.trial),
            started: Utc::now().text(),
            ended: None,
            resumed: 0,
            load_before: machine::load(),
            load_after: None,
            steal_before_ms: machine::steal_ms(),
            steal_after_ms: None,
            throttled_before: machine::throttled(),
            throttled_after: None,
            failed: Vec::new(),
        }
    }

    /// Refuses to go on when the study was begun with other settings.
    pub(crate) fn agrees_with(&self, settings: &Settings, profile: &Profile) -> Result<(), Error> {
        let comparisons = settings.comparisons.iter().map(ComparisonEntry::from);
        let facts = [
            ("baseline", self.baseline == settings.baseline),
            ("controls", self.controls == settings.controls),
            ("comparisons", self.comparisons.iter().cloned().eq(comparisons)),
            ("groups", self.groups == settings.groups),
            ("kinds", self.kinds == owned(&settings.kinds)),
            ("rounds", self.rounds == profile.rounds),
            ("samples", self.samples == settings.samples),
            ("warm_up_ns", self.warm_up_ns == nanoseconds(profile.warm_up)),
            ("trial_ns", self.trial_ns == nanoseconds(profile.trial)),
        ];
        match facts.iter().find(|(_, agrees)| !agrees) {
            Some((fact, _)) => Err(resume_error(format!("it was begun with other {fact}"))),
            None => Ok(()),
        }
    }

    /// Notes that this process measures from this round on. Where no episode should begin, or where one began that came
    /// to no round, an earlier process was interrupted.
    pub(crate) fn begin_episode(&mut self, first_round: u32, profile: &Profile, layout: Option<u64>) {
        let known = self.episodes.len();
        self.episodes.retain(|episode| episode.first_round < first_round);
        let fruitless = self.episodes.len() < known;
        let planned = first_round == 0 || profile.episode_ends().contains(&first_round);
        if fruitless || !planned {
            self.resumed += 1;
        }
        self.episodes.push(Episode { first_round, started: Utc::now().text(), ended: None, layout });
    }

    /// Notes that the last episode has measured all of its rounds, and in what state the machine is: it may be the last
    /// of all.
    pub(crate) fn end_episode(&mut self) {
        if let Some(episode) = self.episodes.last_mut() {
            episode.ended = Some(Utc::now().text());
        }
        self.note_machine();
    }

    pub(crate) fn fail(&mut self, key: &Key, error: String) {
        let Key { bench, variant, parameter } = key.clone();
        self.failed.push(FailedVariant { bench, variant, parameter, error });
    }

    pub(crate) fn failures(&self) -> Vec<Failure> {
        let failure = |failed: &FailedVariant| Failure {
            key: Key::new(&failed.bench, &failed.variant, &failed.parameter),
            error: failed.error.clone(),
        };
        self.failed.iter().map(failure).collect()
    }

    pub(crate) fn complete(&mut self) {
        self.state = State::Complete;
        self.ended = Some(Utc::now().text());
        self.note_machine();
    }

    fn note_machine(&mut self) {
        self.load_after = machine::load();
        self.steal_after_ms = machine::steal_ms();
        self.throttled_after = machine::throttled();
    }
}

fn owned(kinds: &BTreeMap<String, &'static str>) -> BTreeMap<String, String> {
    kinds.iter().map(|(group, kind)| (group.clone(), (*kind).to_owned())).collect()
}

fn nanoseconds(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn resume_error(problem: String) -> Error {
    let reason = format!("{problem}; remove the partial run's folder and measure again");
    Error::Resume { file: "run.json".to_owned(), reason }
}
