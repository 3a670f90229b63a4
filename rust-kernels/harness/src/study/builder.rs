//! A study: its variants, its baseline, its controls and its exact counts.

use std::rc::Rc;
use std::time::Duration;

use crate::base::proof::UnequalWork;
use by_turns_core::base::key::Key;
use by_turns_core::base::tolerance as limit;
use by_turns_core::count::table::Count;
use by_turns_core::trial::bencher::{Bencher, Function};
use by_turns_core::trial::sampling::SAMPLES;

/// A comparison as a study declares it.
#[derive(Clone)]
pub(super) struct Declared {
    pub(super) key: Key,
    pub(super) baseline: Key,
    pub(super) change: String,
    /// Whether the comparison of the default rule is made as well.
    pub(super) keeps_default: bool,
}

/// A variant as it was added.
#[derive(Clone)]
pub(super) struct Bench {
    pub(super) key: Key,
    pub(super) function: Rc<Function<'static>>,
    pub(super) group: Group,
    pub(super) unit: String,
    pub(super) samples: usize,
    pub(super) resources: bool,
    pub(super) counted: bool,
}

/// Comparisons that are judged alike.
#[derive(Clone)]
pub(super) struct Group {
    pub(super) name: String,
    /// Half-width of the region of practical equivalence.
    pub(super) limit: f64,
}

/// What is to be measured a second time.
#[derive(Clone)]
pub(crate) enum Control {
    /// The baseline of this parameter.
    OfBaseline(String),
    OfKey(Key),
}

/// Variants that are measured together, round by round.
///
/// Built step by step; mistakes in it are reported by [`measure`](Self::measure), before anything is
/// measured:
/// ```
/// # use harness::{Bencher, Key, Study};
/// let sum = |bencher: &mut Bencher| bencher.iter(&mut || drop(std::hint::black_box((0..10).sum::<u32>())));
/// let study = Study::new("sums")
///     .baseline("range")
///     .bench(Key::new("sum", "range", "items=10"), sum)
///     .control("items=10")
///     .count(Key::new("sum", "range", "items=10"), "allocations", 0);
/// assert_eq!(study.keys()[1].variant, "range (A/A)");
/// ```
#[derive(Clone)]
#[must_use]
pub struct Study {
    pub(crate) name: String,
    pub(crate) baseline: Option<String>,
    pub(crate) counts: Vec<Count>,
    pub(super) benches: Vec<Bench>,
    pub(crate) controls: Vec<Control>,
    /// Comparisons that the default rule does not make.
    pub(super) compared: Vec<Declared>,
    /// The group of the keys that are added next.
    pub(super) group: Group,
    /// The unit of work of the keys that are added next.
    pub(super) unit: String,
    /// Samples of a trial of the keys that are added next.
    pub(super) samples: usize,
    /// Rounds of the quick and the standard profile, where the study does not take theirs.
    pub(super) rounds: Option<[u32; 2]>,
    /// Limit of each call of a variant, when each has a process of its own.
    pub(crate) isolated: Option<Duration>,
    /// Whether samples of the keys that are added next say what the process used meanwhile.
    pub(super) resources: bool,
    /// Whether allocations and instructions of the keys that are added next are counted.
    pub(super) counted: bool,
    /// Whether callgrind can count this study.
    pub(crate) instructions: bool,
    /// How the names of the functions begin that simulate the operating system.
    pub(crate) system: Option<String>,
}

impl Study {
    /// An empty study of this name, the first word of its rows and of its files (`<name>.time.csv`).
    /// Lower-case words joined by hyphens.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            baseline: None,
            counts: Vec::new(),
            benches: Vec::new(),
            controls: Vec::new(),
            compared: Vec::new(),
            group: Group { name: String::new(), limit: limit::COMPUTATION },
            unit: "iteration".to_owned(),
            samples: SAMPLES,
            rounds: None,
            isolated: None,
            resources: false,
            counted: true,
            instructions: true,
            system: None,
        }
    }

    /// The variant that all others of the same parameter are compared with: the one of the same bench where there is
    /// one, else the only one of that parameter. Not needed where every comparison is made with
    /// [`compare`](Self::compare).
    pub fn baseline(mut self, variant: impl Into<String>) -> Self {
        self.baseline = Some(variant.into());
        self
    }

    /// Adds a variant. `function` is called anew for each trial; what it does before it calls the bencher is
    /// not timed.
    pub fn bench(mut self, key: Key, function: impl Fn(&mut Bencher) + 'static) -> Self {
        self.benches.push(Bench {
            key,
            function: Rc::new(function),
            group: self.group.clone(),
            unit: self.unit.clone(),
            samples: self.samples,
            resources: self.resources,
            counted: self.counted,
        });
        self
    }

    /// Adds a variant whose proof of equal work came out like this. If that failed, because the counts are wrong or
    /// because the variant hung or crashed in its process, it is never run: it is listed as failed, with what the proof
    /// says, and the others are measured.
    pub fn proven<T>(
        self,
        key: Key,
        proof: Result<T, UnequalWork>,
        function: impl Fn(&mut Bencher) + 'static,
    ) -> Self {
        match proof {
            Ok(_) => self.bench(key, function),
            Err(wrong) => self.bench(key, move |bencher: &mut Bencher| bencher.fail(wrong.to_string())),
        }
    }

    /// Compares `key` with `baseline` instead of the baseline that the default rule gives it. Both are among the
    /// variants, added before or afterwards; their parameters may differ. A key may be compared with several others.
    ///
    /// `change` says in a few words what differs from the baseline to the key, as in "`Arc` handles instead of `Rc`":
    /// one line of Markdown of at most 200 characters, without `<`, `>` and `&`.
    pub fn compare(self, key: Key, baseline: Key, change: impl Into<String>) -> Self {
        self.declare(key, baseline, change.into(), false)
    }

    /// As [`compare`](Self::compare), but besides the comparison that the default rule makes.
    pub fn also_compare(self, key: Key, baseline: Key, change: impl Into<String>) -> Self {
        self.declare(key, baseline, change.into(), true)
    }

    fn declare(mut self, key: Key, baseline: Key, change: String, keeps_default: bool) -> Self {
        self.compared.push(Declared { key, baseline, change, keeps_default });
        self
    }

    /// Puts the variants that are added from here on into a group of this name. The comparisons of a group are judged
    /// alike: differences below `limit`, one of [`limit`], do not matter. A study begins in the group `""` with
    /// [`limit::COMPUTATION`]. Each group has an A/A control.
    pub fn group(mut self, name: impl Into<String>, limit: f64) -> Self {
        self.group = Group { name: name.into(), limit };
        self
    }

    /// Tells the time of the variants that are added from here on per `unit`: `request`, `spawn`, `call`; lower-case
    /// words, in the singular. A study begins with `iteration`. How many of them one iteration does is said by the
    /// exact count `units` (or `transactions`) of each variant; see [`count`](Self::count). What is compared has the
    /// same unit.
    pub fn unit(mut self, unit: impl Into<String>) -> Self {
        self.unit = unit.into();
        self
    }

    /// Adds the baseline of this parameter a second time: [`control_of`](Self::control_of) its key.
    pub fn control(mut self, parameter: impl Into<String>) -> Self {
        self.controls.push(Control::OfBaseline(parameter.into()));
        self
    }

    /// Adds this variant a second time, under the variant name `<variant> (A/A)`, compared with the first and in its
    /// group. The ratio is 1 by construction, so what is measured for it is the error of the measurement.
    pub fn control_of(mut self, key: Key) -> Self {
        self.controls.push(Control::OfKey(key));
        self
    }

    /// Measures so many rounds, in all processes together, in the profiles quick and standard instead of the profile's
    /// own number, and twice those of standard in thorough: fewer for long trials.
    pub fn rounds(mut self, quick: u32, standard: u32) -> Self {
        self.rounds = Some([quick, standard]);
        self
    }

    /// Takes so many samples in each trial of the variants that are added from here on, 1 to 100; 2 at the beginning.
    /// Fewer are for workloads of which one iteration lasts about as long as a trial.
    pub fn samples(mut self, samples: u32) -> Self {
        self.samples = samples as usize;
        self
    }

    /// Calls every variant in a process of its own, a fork of this one, for each trial, for
    /// [`run_once`](Self::run_once) and for counting. For variants that start threads, or that may hang or crash: a
    /// call that does not end within `limit` is killed, and the variant fails with a message that says so; an abort or
    /// a signal fails it, too. Pools and threads end with the process, so that no variant runs next to the leftovers of
    /// another.
    ///
    /// A trial lasts six times as long as the profile says, because its process begins with memory that it has to copy.
    /// Two rules follow. The measuring process starts no threads itself; whatever a proof has to start, it starts
    /// within [`isolated`](crate::isolated()). And no trial sees what an earlier one has changed.
    pub fn isolated(mut self, limit: Duration) -> Self {
        self.isolated = Some(limit);
        self
    }

    /// Adds to each sample of the variants that are added from here on what the process used while it was taken:
    /// `cpu_ns` (user and system time of all threads), `voluntary_switches`, `involuntary_switches` and, on Linux,
    /// `busy_threads` (those with a hundredth of that time or more). They go to `<study>.metrics.csv`. Best with
    /// [`isolated`](Self::isolated), so that nothing else runs in the process.
    pub fn resources(mut self) -> Self {
        self.resources = true;
        self
    }

    /// Leaves the variants that are added from here on out of counting: another program works for them, whose
    /// allocations and instructions are not seen.
    pub fn uncounted(mut self) -> Self {
        self.counted = false;
        self
    }

    /// Whether callgrind counts instructions, which it does unless told otherwise. It counts those of the calling
    /// thread and runs one thread at a time: say `false` for work that several threads do. What is not counted is of
    /// the kind `many threads` in run.json, as groups of one sample a trial are `long trials`: controls of one kind
    /// correct each other's comparisons.
    pub fn instructions(mut self, counted: bool) -> Self {
        self.instructions = counted;
        self
    }

    /// Says which functions simulate the operating system: those whose names begin with `functions`, such as
    /// `zero_cost_loop::calls::`, and are compiled out of line. The instructions of a variant outside of them are counted as
    /// `own_instructions`.
    pub fn simulated(mut self, functions: impl Into<String>) -> Self {
        self.system = Some(functions.into());
        self
    }

    /// Records an exact count per iteration, written to `<study>.counts.csv` when the study is measured. A
    /// second value for the same key and counter replaces the first.
    pub fn count(mut self, key: Key, counter: impl Into<String>, value: u64) -> Self {
        let counter = counter.into();
        self.counts.retain(|count| !(count.key == key && count.counter == counter));
        self.counts.push(Count { key, counter, value });
        self
    }

    /// Records several exact counts of one variant, such as those that its proof has found: each as by
    /// [`count`](Self::count).
    pub fn counts(self, key: &Key, counts: impl IntoIterator<Item = (impl Into<String>, u64)>) -> Self {
        counts.into_iter().fold(self, |study, (counter, value)| study.count(key.clone(), counter, value))
    }

    /// All keys in the order in which they were added, followed by the controls.
    pub fn keys(&self) -> Vec<Key> {
        let benches = self.benches.iter().map(|bench| bench.key.clone());
        let controls = self.controls.iter().filter_map(|control| self.controlled(control).ok());
        benches.chain(controls.map(|bench| bench.key.again())).collect()
    }

    /// The name given to [`new`](Self::new).
    pub fn name(&self) -> &str {
        &self.name
    }
}
