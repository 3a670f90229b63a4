//! The table of a bench: for people, and as JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use by_turns_core::base::key::Key;
use by_turns_core::base::markdown::aligned;
use by_turns_core::base::number::{grouped, rate, time};
use by_turns_core::count::table::COUNTERS;
use by_turns_core::judge::verdict::{Judged, Needed, Verdict};
use by_turns_core::run::files::{Running, at};

/// The unit where none is given.
pub const ITERATION: &str = "iteration";

/// All that a bench says, as `--format json` prints it; displayed, it is the table. [`Bench::on_report`](crate::Bench::on_report)
/// hands it over.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The name of the bench.
    pub bench: String,
    /// What was measured: processes, rounds, link orders.
    pub measured: String,
    /// The variants, in the order in which they were declared, then the A/A controls.
    pub variants: Vec<VariantReport>,
    /// The notes below the table: what is missing, what would decide it, what disturbed it.
    pub notes: Vec<String>,
    /// The folder of the samples.
    pub samples: String,
}

/// What a [`Report`] says of one variant. Intervals are of 95 %, over processes.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct VariantReport {
    /// The name of the variant, with ` (A/A)` if it is a control.
    pub variant: String,
    /// The name of its load, or nothing.
    pub load: String,
    /// The unit of work.
    pub unit: String,
    /// Units of work per iteration.
    pub units: u64,
    /// Nanoseconds per unit of work: the median over rounds.
    pub time_ns: f64,
    /// Nanoseconds per unit of work: `[low, high]` of its interval.
    pub time_interval_ns: Option<[f64; 2]>,
    /// Nanoseconds per unit of work: the median absolute deviation of rounds from `time_ns`.
    pub time_deviation_ns: Option<f64>,
    /// The name of the variant that it is compared with; none for a baseline.
    pub baseline: Option<String>,
    /// Whether it is its baseline, measured a second time.
    pub control: bool,
    /// Its time divided by that of the baseline in the same round: `[value, low, high]`.
    pub ratio: Option<[f64; 3]>,
    /// The same of the lowest tenth of the times in each process: `[value, low, high]`; for one thread only.
    pub undisturbed: Option<[f64; 3]>,
    /// `slower`, `faster`, `same` or `undecided`; none where nothing is concluded.
    pub verdict: Option<String>,
    /// Why there is no verdict.
    pub reason: Option<String>,
    /// Counts per iteration: `instructions`, `system_calls`, `allocations`, `allocated_bytes`, `future_bytes` and, if not 1,
    /// `units`. Where iterations differ, `<counter>_varies` is by how much.
    pub counts: BTreeMap<String, u64>,
}

impl Report {
    /// For programs.
    pub(crate) fn json(&self) -> Value {
        let Self { bench, measured, variants, notes, samples } = self;
        let variants: Vec<Value> = variants.iter().map(VariantReport::json).collect();
        json!({"bench": bench, "measured": measured, "variants": variants, "notes": notes, "samples": samples})
    }

    /// Writes that into the folder of the bench, whole or not at all.
    pub(crate) fn keep(&self, place: &Path, running: &Running) -> Result<(), String> {
        let (new, kept) = (running.folder.join("report.json"), place.join("report.json"));
        fs::write(&new, format!("{:#}\n", self.json())).map_err(at(&new))?;
        fs::rename(&new, &kept).map_err(at(&kept))
    }
}

impl VariantReport {
    fn json(&self) -> Value {
        let Self {
            variant,
            load,
            unit,
            units,
            time_ns,
            time_interval_ns,
            time_deviation_ns,
            baseline,
            control,
            ratio,
            undisturbed,
            verdict,
            reason,
            counts,
        } = self;
        json!({
            "variant": variant, "load": load, "unit": unit, "units": units, "time_ns": time_ns,
            "time_interval_ns": time_interval_ns, "time_deviation_ns": time_deviation_ns, "baseline": baseline,
            "control": control, "ratio": ratio, "undisturbed": undisturbed, "verdict": verdict, "reason": reason, "counts": counts,
        })
    }

    /// With what was judged.
    #[must_use]
    pub(crate) fn judged(mut self, judged: &Judged) -> Self {
        let ends = |value: f64, low: f64, high: f64| [value, low, high].map(f64::exp);
        self.ratio = judged.ratios.map(|ratios| {
            let typical = ratios.typical;
            ends(typical.value, typical.low, typical.high)
        });
        self.undisturbed = judged
            .ratios
            .and_then(|ratios| ratios.undisturbed)
            .map(|undisturbed| ends(undisturbed.value, undisturbed.low, undisturbed.high));
        self.verdict = judged.verdict.map(|verdict| verdict.to_string());
        self.reason = judged.inconclusive.map(|why| why.said("processes"));
        self
    }

    /// Its name, with its load where it has one.
    pub fn name(&self) -> String {
        named(&self.variant, &self.load)
    }

    pub(crate) fn key(&self, bench: &str) -> Key {
        Key::new(bench, &self.variant, &self.load)
    }

    /// Whether iterations differ in it.
    pub(crate) fn varies(&self, counter: &str) -> bool {
        self.counts.contains_key(&format!("{counter}_varies"))
    }

    /// Of a unit, and how many of them a second; the time alone where an iteration is all there is.
    fn time(&self) -> String {
        let time = time(self.time_ns);
        if self.unit == ITERATION { time } else { format!("{time}, {}", rate(&self.unit, self.time_ns)) }
    }

    fn cells(&self) -> Vec<String> {
        let ratio = self.ratio.map(|[value, low, high]| format!("{value:.3} ({low:.3} to {high:.3})"));
        let verdict = match (&self.verdict, self.control) {
            (_, true) => "A/A control",
            (Some(verdict), false) => verdict,
            (None, false) if self.baseline.is_some() => "none",
            (None, false) => "baseline",
        };
        let mut cells = vec![self.name(), self.time(), ratio.unwrap_or_default(), verdict.to_owned()];
        cells.extend(COUNTERS.iter().map(|(counter, _)| match self.counts.get(*counter) {
            Some(value) if self.varies(counter) => format!("~{}", grouped(*value)),
            Some(value) => grouped(*value),
            None => String::new(),
        }));
        cells
    }
}

/// A variant, with its load where it has one.
pub fn named(variant: &str, load: &str) -> String {
    if load.is_empty() { variant.to_owned() } else { format!("{variant} ({load})") }
}

/// What would decide a comparison that so many processes leave undecided, whose estimate alone would say `verdict`.
/// Where the budget has ended it, `each` is what a process took.
pub fn to_decide(
    name: &str,
    needed: Needed,
    verdict: Verdict,
    processes: u32,
    each: Option<Duration>,
) -> String {
    if let Some([perhaps, probably]) = needed.processes(processes) {
        let budget = each
            .map_or(String::new(), |each| format!(" --budget {}s", (each * probably).as_secs_f64().ceil()));
        return format!(
            "{name}: --processes {probably}{budget} would probably decide it, and {perhaps} perhaps, as {verdict} if ratio and spread \
             stay as they are"
        );
    }
    match needed {
        Needed::Times(_) => format!("{name}: more than a hundred times as many processes would decide it"),
        Needed::Border => {
            format!("{name}: no number of processes would decide it: the ratio is too close to the tolerance")
        }
        Needed::Never => {
            format!("{name}: no number of processes would decide it: identical code differs as much")
        }
        Needed::Control => {
            format!("{name}: nothing is the same beside a control that is slower or faster than itself")
        }
        Needed::Contradicted(typical, undisturbed) => {
            format!("{name}: {typical} on a typical machine, {undisturbed} on an undisturbed one")
        }
    }
}

impl Report {
    /// What was measured, and what is counted.
    pub(crate) fn about(&self) -> String {
        let counted =
            |line: &VariantReport| COUNTERS.iter().any(|(counter, _)| line.counts.contains_key(*counter));
        let of = if self.variants.iter().any(counted) { ", counts per iteration" } else { "" };
        format!("{}{of}", self.measured)
    }

    /// The cells of the table as they are shown, below a row of heads. A counter that nothing was seen through is left out.
    pub(crate) fn rows(&self) -> Vec<Vec<String>> {
        let unit = self.variants.first().map_or("", |line| &line.unit);
        let same = self.variants.iter().all(|line| line.unit == unit);
        let rate = if self.variants.iter().all(|line| line.unit == ITERATION) { "" } else { ", rate" };
        let time = if same { format!("time per {unit}{rate}") } else { format!("time{rate}") };
        let mut heads = vec!["".to_owned(), time, "ratio (95 %)".to_owned(), "verdict".to_owned()];
        heads.extend(COUNTERS.iter().map(|(counter, _)| counter.replace('_', " ")));
        let rows: Vec<Vec<String>> = self.variants.iter().map(VariantReport::cells).collect();
        let seen: Vec<bool> = (0..heads.len())
            .map(|column| column < 4 || rows.iter().any(|row| !row[column].is_empty()))
            .collect();
        let shown =
            |row: Vec<String>| row.into_iter().zip(&seen).filter_map(|(cell, seen)| seen.then_some(cell));
        std::iter::once(heads).chain(rows).map(|row| shown(row).collect()).collect()
    }
}

/// The columns of its table that hold no numbers.
pub const WORDS: &[usize] = &[0, 3];

/// What follows from a control that may be off by so much, as a logarithm.
pub fn wider(control: &VariantReport, offset: f64) -> String {
    let (percent, at) = (100.0 * offset.exp_m1(), if control.load.is_empty() { "" } else { " at this load" });
    let places = if percent < 1.0 { 2 } else { usize::from(percent < 10.0) };
    let name = control.name();
    format!("{name} differs from itself by up to {percent:.places$} %: intervals{at} are that much wider")
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{}: {}\n", self.bench, self.about())?;
        write!(f, "{}", aligned(&self.rows(), WORDS))?;
        if !self.notes.is_empty() {
            writeln!(f)?;
        }
        for note in &self.notes {
            writeln!(f, "- {note}")?;
        }
        write!(f, "\nsamples: {}", self.samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_in_a_terminal_and_by_programs() {
        let line = |variant: &str, verdict: Option<&str>| VariantReport {
            variant: variant.to_owned(),
            unit: "call".to_owned(),
            time_ns: 1_234.0,
            baseline: verdict.map(|_| "a".to_owned()),
            ratio: verdict.map(|_| [2.0, 1.9, 2.1]),
            verdict: verdict.map(str::to_owned),
            counts: BTreeMap::from([("instructions".to_owned(), 1_234_567), ("allocations".to_owned(), 3)]),
            ..VariantReport::default()
        };
        let variants = vec![line("a", None), line("boxed", Some("slower"))];
        let (bench, measured, samples) = ("calls".to_owned(), "24 processes".to_owned(), "target".to_owned());
        let report = Report { bench, measured, variants, notes: vec!["a note".to_owned()], samples };
        let text = report.to_string();
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows[1], "calls: 24 processes, counts per iteration", "times are per call");
        assert_eq!(
            rows[3],
            "       time per call, rate            ratio (95 %)  verdict   instructions  allocations",
            "{text}"
        );
        assert_eq!(
            rows[5],
            "boxed     1.23 µs, 810 k/s  2.000 (1.900 to 2.100)  slower       1,234,567            3"
        );
        assert!(text.contains("- a note") && !text.contains("future"));
        let json = report.json();
        assert_eq!(
            (&json["variants"][1]["verdict"], &json["variants"][1]["ratio"][2]),
            (&"slower".into(), &2.1.into())
        );
    }

    #[test]
    fn a_control_that_differs_says_what_follows() {
        let control = |load: &str| VariantReport {
            variant: "a (A/A)".to_owned(),
            load: load.to_owned(),
            ..VariantReport::default()
        };
        let said = [("", 1.16_f64), ("n=2", 1.016), ("n=2", 1.0016)]
            .map(|(load, by)| wider(&control(load), by.ln()));
        assert_eq!(said[0], "a (A/A) differs from itself by up to 16 %: intervals are that much wider");
        assert!(
            said[1]
                .starts_with("a (A/A) (n=2) differs from itself by up to 1.6 %: intervals at this load are")
        );
        assert!(said[2].contains(" 0.16 %"));
    }

    #[test]
    fn what_would_decide_is_said_in_processes() {
        let name =
            VariantReport { variant: "b".to_owned(), load: "n=2".to_owned(), ..VariantReport::default() }
                .name();
        assert_eq!(
            to_decide(&name, Needed::Times(2.5), Verdict::Same, 24, None),
            "b (n=2): --processes 120 would probably decide it, and 60 perhaps, as same if ratio and spread stay as they are"
        );
        assert!(
            to_decide("b", Needed::Times(1.0), Verdict::Slower, 24, None)
                .contains("--processes 50 would probably decide it, and 25 perhaps")
        );
        let each = Some(Duration::from_millis(2_500));
        assert!(
            to_decide("b", Needed::Times(2.5), Verdict::Same, 9, each)
                .contains("--processes 50 --budget 125s ")
        );
        let both = Needed::Contradicted(Verdict::Slower, Verdict::Same);
        let said = to_decide("b", both, Verdict::Slower, 24, None);
        assert!(said.contains("slower on a typical machine, same on an undisturbed one"));
    }
}
