//! From samples and counts of both sides to the lines of the table.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use by_turns_core::base::key::Key;
use by_turns_core::count::table::{COUNTERS, Change, Count};
use by_turns_core::judge::interval::median;
use by_turns_core::judge::pairs::{self, Time, Trials};
use by_turns_core::judge::verdict::{Judged, Needed, Row, Verdict, judge};

use crate::against::turns::{Common, SIDES, Taken, name};

/// A variant on both sides.
#[derive(Clone, Debug, Default)]
pub struct Line {
    pub variant: String,
    pub load: String,
    /// With its load.
    pub name: String,
    pub unit: String,
    pub units: u64,
    /// Nanoseconds of a unit of work, of the base and of today: the median over rounds of the base, and that times the ratio. The
    /// medians of both sides may contradict the ratio, which is taken round by round, where the machine changes its speed.
    pub time_ns: [Option<f64>; 2],
    /// Today's time divided by that of the base in the same round: `[value, low, high]`.
    pub ratio: Option<[f64; 3]>,
    /// The base's second process divided by its first.
    pub control: Option<[f64; 3]>,
    pub verdict: Option<Verdict>,
    /// Why there is none.
    pub reason: Option<String>,
    /// What would decide an undecided one.
    pub to_decide: Option<String>,
    /// So many pairs would perhaps, and probably.
    pub pairs: Option<[u32; 2]>,
    /// By counter, of the base and of today.
    pub counts: BTreeMap<String, [Option<u64>; 2]>,
    /// Counters that grew by more than they may.
    pub grown: Vec<String>,
    /// Counters of the base that today has not.
    pub lost: Vec<String>,
}

/// The line of each variant, judged together with the others of its bench.
pub fn lines(
    bench: &str,
    common: &[Common],
    taken: &Taken,
    counts: [&[Count]; 2],
    allowed: &BTreeMap<String, f64>,
) -> Vec<Line> {
    let trials = trials(common, taken);
    let key = |side: usize, at: usize| key(side, &common[at]);
    // The A/A control stands behind its variant.
    let row = |at: usize, side: usize| {
        let offered = &common[at].offered;
        let units = [offered.units as f64; 2];
        let pair = pairs::Pair { key: key(side, at), baseline: key(0, at), units };
        Row {
            kind: if offered.threads { "many threads" } else { "one thread" }.to_owned(),
            group: bench.to_owned(),
            behind: vec![],
            control: side == 2,
            tolerance: offered.tolerance,
            ratios: pair.ratios(&trials, !offered.threads),
        }
    };
    let rows: Vec<Row> = (0..common.len()).flat_map(|at| [row(at, 1), row(at, 2)]).collect();
    let judged = judge(&rows);
    let line = |at: usize| {
        let [own, control] = [&judged[2 * at], &judged[2 * at + 1]];
        let offered = &common[at].offered;
        let time = |side: usize| {
            let mut ns: Vec<f64> = trials.get(&key(side, at))?.values().map(|time| time.ns).collect();
            Some(median(&mut ns) / offered.units as f64)
        };
        let counts = counted(&offered.variant, &offered.load, counts);
        let pairs = taken.pairs.len() as u32;
        let (base, ratio) = (time(0), ratio(own));
        let each = taken.elapsed.checked_div(pairs).unwrap_or_default();
        Line {
            variant: offered.variant.clone(),
            load: offered.load.clone(),
            name: name(offered),
            unit: offered.unit.clone(),
            units: offered.units,
            time_ns: [base, base.zip(ratio).map(|(base, [ratio, ..])| base * ratio)],
            ratio,
            control: self::ratio(control),
            verdict: own.verdict,
            reason: own.inconclusive.map(|why| why.said("pairs")),
            pairs: own.needed.and_then(|needed| needed.processes(pairs)),
            to_decide: own.needed.map(|needed| to_decide(needed, own, offered.tolerance, pairs, each)),
            grown: became(&counts, allowed, |change| matches!(change, Change::Grown(_))),
            lost: became(&counts, allowed, |change| *change == Change::Lost),
            counts,
        }
    };
    (0..common.len()).map(line).collect()
}

fn key(side: usize, common: &Common) -> Key {
    Key::new(SIDES[side], &common.offered.variant, &common.offered.load)
}

/// The trials of each side and variant: the median of its samples.
fn trials(common: &[Common], taken: &Taken) -> Trials {
    let mut found: HashMap<(usize, usize), BTreeMap<u32, Vec<f64>>> = HashMap::new();
    for sample in &taken.samples {
        let ns = sample.elapsed.as_nanos() as f64 / sample.iterations as f64;
        found.entry((sample.side, sample.variant)).or_default().entry(sample.round).or_default().push(ns);
    }
    let pair = |round: u32| taken.pairs.partition_point(|pair| pair.first <= round) as u32;
    let time = |(round, mut samples): (u32, Vec<f64>)| {
        (round, Time { episode: pair(round), ns: median(&mut samples) })
    };
    let of = |((side, variant), rounds): ((usize, usize), BTreeMap<u32, Vec<f64>>)| {
        (key(side, &common[variant]), rounds.into_iter().map(time).collect())
    };
    found.into_iter().map(of).collect()
}

fn ratio(judged: &Judged) -> Option<[f64; 3]> {
    let typical = judged.ratios?.typical;
    Some([typical.value, typical.low, typical.high].map(f64::exp))
}

/// What would decide it after so many pairs, each of which took so long.
fn to_decide(needed: Needed, judged: &Judged, tolerance: f64, pairs: u32, each: Duration) -> String {
    if let Some([perhaps, probably]) = needed.processes(pairs) {
        let alone = judged.ratios.map(|ratios| Verdict::at(ratios.typical.value, tolerance));
        let alone =
            alone.map_or(String::new(), |alone| format!(", as {alone} if ratio and spread stay as they are"));
        let budget = |pairs: u32| (each * pairs).as_secs_f64().ceil();
        return format!(
            "--pairs {probably} --budget {}s would probably decide it, and --pairs {perhaps} --budget {}s perhaps{alone}",
            budget(probably),
            budget(perhaps)
        );
    }
    match needed {
        Needed::Times(_) => "more than a hundred times as many pairs would decide it".to_owned(),
        Needed::Border => {
            let percent = 100.0 * tolerance;
            format!(
                "no number of pairs would decide it: the ratio is too close to {percent} %, from which on a difference matters"
            )
        }
        Needed::Never => {
            "no number of pairs would decide it: the base differs from itself as much".to_owned()
        }
        Needed::Control => "nothing is the same where the base is slower or faster than itself".to_owned(),
        Needed::Contradicted(typical, undisturbed) => {
            format!("{typical} on a typical machine, {undisturbed} on an undisturbed one")
        }
    }
}

/// The counts of a variant on both sides.
fn counted(variant: &str, load: &str, counts: [&[Count]; 2]) -> BTreeMap<String, [Option<u64>; 2]> {
    let mut found: BTreeMap<String, [Option<u64>; 2]> = BTreeMap::new();
    for (side, counts) in counts.into_iter().enumerate() {
        for Count { key, counter, value } in counts {
            if key.variant == variant && key.parameter == load {
                found.entry(counter.clone()).or_default()[side] = Some(*value);
            }
        }
    }
    found
}

/// The counters of which this became, judged as for `--gate`.
fn became(
    counts: &BTreeMap<String, [Option<u64>; 2]>,
    allowed: &BTreeMap<String, f64>,
    what: fn(&Change) -> bool,
) -> Vec<String> {
    let is = |(counter, most): &(&str, f64)| {
        let values = counts.get(*counter).copied().unwrap_or_default();
        let varies = counts.contains_key(&format!("{counter}_varies"));
        Change::of(values, varies, *allowed.get(*counter).unwrap_or(most)).is_some_and(|change| what(&change))
    };
    COUNTERS.iter().filter(|one| is(one)).map(|(counter, _)| (*counter).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use by_turns_core::run::protocol::Offered;

    use super::*;
    use crate::against::turns::{Pair, Sample};

    fn common() -> Vec<Common> {
        let offered = Offered {
            variant: "a".to_owned(),
            load: "n=1".to_owned(),
            unit: "item".to_owned(),
            units: 10,
            tolerance: 0.01,
            threads: false,
            work: "1".to_owned(),
        };
        vec![Common { offered, numbers: [0, 0] }]
    }

    /// Six pairs of eight rounds, in which sides take so many nanoseconds, give or take some.
    fn taken(ns: [u64; 3]) -> Taken {
        let mut taken = Taken { rounds: 48, elapsed: Duration::from_secs(15), ..Taken::default() };
        for pair in 0..6_u32 {
            taken.pairs.push(Pair { first: 8 * pair, orders: [None; 3] });
            for (round, side) in
                (8 * pair..8 * pair + 8).flat_map(|round| (0..3).map(move |side| (round, side)))
            {
                let jitter = u64::from((round + 3 * pair * (side as u32 + 1)) % 5);
                let elapsed = Duration::from_nanos(1_000 * ns[side] + jitter);
                taken.samples.push(Sample {
                    round,
                    position: 0,
                    side,
                    variant: 0,
                    number: 0,
                    iterations: 1,
                    elapsed,
                });
            }
        }
        taken
    }

    fn line(ns: [u64; 3]) -> Line {
        lines("b", &common(), &taken(ns), [&[], &[]], &BTreeMap::new()).remove(0)
    }

    #[test]
    fn each_side_is_judged_against_the_base_beside_its_control() {
        let verdicts = [[100, 100, 100], [100, 110, 100], [100, 90, 100]].map(|ns| line(ns).verdict);
        assert_eq!(verdicts, [Verdict::Same, Verdict::Slower, Verdict::Faster].map(Some));
        let off = line([100, 100, 120]);
        assert_eq!(off.verdict, Some(Verdict::Undecided), "the base differs from itself");
        assert!(off.to_decide.expect("undecided").starts_with("nothing is the same"));
        let same = line([100, 100, 100]);
        assert_eq!((same.name.as_str(), same.time_ns[0].map(f64::round)), ("a (n=1)", Some(10_000.0)));
        assert_eq!(same.time_ns[1], same.time_ns[0].zip(same.ratio).map(|(base, [ratio, ..])| base * ratio));
        let mut few = taken([100, 100, 100]);
        few.pairs.truncate(1);
        let line = lines("b", &common(), &few, [&[], &[]], &BTreeMap::new()).remove(0);
        assert_eq!((line.verdict, line.reason.as_deref()), (None, Some("fewer than four pairs")));
    }

    #[test]
    fn what_would_decide_names_pairs_and_their_budget_or_the_one_reason_why_none_do() {
        let line = line([100_000, 101_000, 100_000]);
        let said = line.to_decide.expect("on the border");
        assert_eq!(
            said,
            "no number of pairs would decide it: the ratio is too close to 1 %, from which on a difference matters"
        );
        let mut wide = taken([100, 100, 100]);
        for sample in wide.samples.iter_mut().filter(|sample| sample.side == 1) {
            sample.elapsed += Duration::from_nanos(800 * u64::from(sample.round / 8 % 3));
        }
        let line = lines("b", &common(), &wide, [&[], &[]], &BTreeMap::new()).remove(0);
        let said = line.to_decide.unwrap_or_else(|| panic!("{:?}", line.verdict));
        let numbers: Vec<u32> =
            said.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
        let [probably, all, perhaps, some] = numbers[..4] else { panic!("{said}") };
        assert_eq!(line.pairs, Some([perhaps, probably]), "{said}");
        assert!(said.starts_with(&format!("--pairs {probably} --budget {all}s would probably")), "{said}");
        assert_eq!(
            [all, some],
            [probably, perhaps].map(|pairs| (f64::from(pairs) * 2.5).ceil() as u32),
            "{said}"
        );
    }

    #[test]
    fn what_grew_by_more_than_it_may_is_named() {
        let count = |counter: &str, value| Count {
            key: Key::new("b", "a", "n=1"),
            counter: counter.to_owned(),
            value,
        };
        let grown = |counter: &str, [base, today]: [u64; 2]| {
            let (base, today) = ([count(counter, base)], [count(counter, today)]);
            lines("b", &common(), &taken([9, 9, 9]), [&base, &today], &BTreeMap::new()).remove(0).grown
        };
        assert_eq!(grown("instructions", [1_000, 1_010]), [""; 0]);
        assert_eq!(grown("instructions", [1_000, 1_011]), ["instructions"]);
        assert_eq!(grown("allocations", [0, 1]), ["allocations"]);
        assert_eq!(grown("allocations", [1, 0]), [""; 0]);
        let base = [count("allocations", 1)];
        let lost = lines("b", &common(), &taken([9, 9, 9]), [&base, &[]], &BTreeMap::new()).remove(0);
        assert_eq!((lost.grown, lost.lost), (vec![], vec!["allocations".to_owned()]));
        let allowed = BTreeMap::from([("allocations".to_owned(), 100.0)]);
        let (base, today) = ([count("allocations", 1)], [count("allocations", 2)]);
        let all = lines("b", &common(), &taken([9, 9, 9]), [&base, &today], &allowed);
        assert!(all[0].grown.is_empty() && all[0].counts["allocations"] == [Some(1), Some(2)]);
    }
}
