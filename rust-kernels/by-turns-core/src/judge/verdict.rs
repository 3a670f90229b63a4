//! What a run says about its comparisons, once its controls have had their say.
//!
//! A control is a variant beside itself. What the controls of a kind show in common, beyond what their own intervals
//! explain, is an error of every comparison of that kind, and widens its interval. A control that differs from itself
//! significantly (Holm's procedure over all controls of the run) widens those of its group by all that it may be off.
//! Beside one that is slower or faster than itself by its own interval, significantly or not, nothing is the same.
//! Without a control nothing is concluded.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::judge::interval::{Estimate, LEAST_EPISODES};
use crate::judge::pairs::Ratios;
use crate::judge::student;

/// An estimate within this part of the tolerance from the border counts as on it: deciding its side would take a hundred
/// times as long as detecting the tolerance.
const NEAR: f64 = 0.1;

/// What an interval says about a ratio of times, with a region around 1 in which a difference does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All of it lies above the region.
    Slower,
    /// All of it lies below.
    Faster,
    /// All of it lies within.
    Same,
    /// It crosses a border.
    Undecided,
}

impl Verdict {
    /// What the interval of a logarithm says, where less than `tolerance` does not matter.
    pub fn of(estimate: &Estimate, tolerance: f64) -> Self {
        let (low, high) = (estimate.low.exp(), estimate.high.exp());
        if low > 1.0 + tolerance {
            Verdict::Slower
        } else if high < 1.0 - tolerance {
            Verdict::Faster
        } else if low >= 1.0 - tolerance && high <= 1.0 + tolerance {
            Verdict::Same
        } else {
            Verdict::Undecided
        }
    }

    /// What a logarithm without an interval says.
    pub fn at(value: f64, tolerance: f64) -> Self {
        match value.exp() {
            ratio if ratio > 1.0 + tolerance => Verdict::Slower,
            ratio if ratio < 1.0 - tolerance => Verdict::Faster,
            _ => Verdict::Same,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Slower => "slower",
            Verdict::Faster => "faster",
            Verdict::Same => "same",
            Verdict::Undecided => "undecided",
        })
    }
}

/// A comparison with its numbers, before the controls correct it.
#[derive(Clone, Debug)]
pub struct Row {
    /// What its trials are like: controls of one kind err alike.
    pub kind: String,
    /// What has its controls in common.
    pub group: String,
    /// Groups that it depends on besides its own.
    pub behind: Vec<String>,
    /// Whether it is a variant beside itself.
    pub control: bool,
    /// How small a difference matters.
    pub tolerance: f64,
    /// What was measured, if it was.
    pub ratios: Option<Ratios>,
}

/// What would decide an undecided comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Needed {
    /// So many times as many processes.
    Times(f64),
    /// None would: it lies at the border.
    Border,
    /// None would: identical code differs by as much.
    Never,
    /// None would: it looks the same beside a control that does not.
    Control,
    /// None would: on a typical machine it is one verdict, on an undisturbed one another.
    Contradicted(Verdict, Verdict),
}

impl Needed {
    /// How many processes would decide it perhaps, and how many probably, where so many do not; none beyond a hundred times as
    /// many. With the former the interval is expected to end at the border, and crosses it in up to half of all runs; with twice
    /// as many, in few: of simulated runs at least 54 % and 71 % were decided, fewest with outliers.
    pub fn processes(self, now: u32) -> Option<[u32; 2]> {
        let Self::Times(times) = self else { return None };
        let perhaps = ((f64::from(now) * times).ceil() as u32).max(now + 1);
        (times <= 100.0).then(|| [perhaps, (2 * perhaps).next_multiple_of(10)])
    }
}

/// Why nothing is concluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inconclusive {
    /// A process counts once, and of three the spread is hardly known.
    TooFew,
    /// There is none.
    NoControl,
    /// There is one, and no numbers of it.
    ControlNotMeasured,
}

impl Inconclusive {
    /// In words, where `processes` are called so.
    pub fn said(self, processes: &str) -> String {
        match self {
            Self::TooFew => format!("fewer than four {processes}"),
            Self::NoControl => "no control".to_owned(),
            Self::ControlNotMeasured => "a control was not measured".to_owned(),
        }
    }
}

/// A comparison with its verdict.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The numbers as the controls correct them, on the scale of logarithms.
    pub ratios: Option<Ratios>,
    /// The standard deviation of the error that controls of its kind show; none if there are none.
    pub bias: Option<f64>,
    /// Of a control: the chance of its ratio being 1, after Holm.
    pub chance: Option<f64>,
    /// Of a control that differs from itself, how far it may be off; else by how much such controls of its groups widen
    /// the interval on each side. On the scale of logarithms.
    pub offset: f64,
    /// Why nothing is concluded from it.
    pub inconclusive: Option<Inconclusive>,
    /// None if nothing is concluded, and where nothing was measured.
    pub verdict: Option<Verdict>,
    /// Of an undecided one.
    pub needed: Option<Needed>,
}

/// What the controls of a comparison say of it, which further processes do not take away.
struct Fixed {
    /// A standard deviation.
    bias: f64,
    /// Added on each side.
    offset: f64,
    /// Whether one of them is slower or faster than itself.
    off: bool,
}

/// The verdict of each comparison of a run.
pub fn judge(rows: &[Row]) -> Vec<Judged> {
    let chances = holm(&chances_given_other_controls(rows));
    let biases = biases(rows, &chances);
    let inconclusive_groups = inconclusive_groups(rows);
    let (offsets, off) = (largest_offsets(rows, &chances), groups_with_a_control_off(rows));
    let judged = rows.iter().zip(chances).map(|(row, chance)| {
        let bias = biases.get(row.kind.as_str()).copied();
        let groups = || std::iter::once(&row.group).chain(&row.behind).map(String::as_str);
        let offset = match row.control {
            true => own_offset(row, chance),
            false => groups().filter_map(|group| offsets.get(group)).sum(),
        };
        let off = !row.control && groups().any(|group| off.contains(group));
        let fixed = Fixed { bias: bias.unwrap_or(0.0), offset, off };
        let ratios = row.ratios.map(|ratios| corrected(row, ratios, &fixed));
        let inconclusive = groups().find_map(|group| inconclusive_groups.get(group).copied().flatten());
        let (verdict, needed) = match ratios {
            Some(ratios) if inconclusive.is_none() => concluded(&ratios, row.tolerance, &fixed),
            _ => (None, None),
        };
        Judged { ratios, bias, chance, offset, inconclusive, verdict, needed }
    });
    judged.collect()
}

/// The square of a control's own error in standard errors, less its expectation; and 1 / error squared.
fn squares(row: &Row) -> Option<(f64, f64)> {
    let estimate = row.ratios.filter(|_| row.control)?.typical;
    let error = (estimate.high - estimate.low) / 2.0 / estimate.quantile;
    let expected = if estimate.freedom > 2.0 { estimate.freedom / (estimate.freedom - 2.0) } else { 1.0 };
    let precision = 1.0 / (error * error);
    (error > 0.0).then(|| (estimate.value.powi(2) * precision - expected, precision))
}

/// The chance of each control if it may also have the error that the other controls of its kind show: not smaller than
/// its own. Without that, a kind whose controls are all off by more than their intervals explain would lose the largest
/// of them, one by one, and be corrected by the rest.
fn chances_given_other_controls(rows: &[Row]) -> Vec<Option<f64>> {
    let squared: Vec<Option<(f64, f64)>> = rows.iter().map(squares).collect();
    let mut sums: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for (row, (surplus, precision)) in
        rows.iter().zip(&squared).filter_map(|(row, some)| Some((row, (*some)?)))
    {
        let sum = sums.entry(&row.kind).or_default();
        *sum = (sum.0 + surplus, sum.1 + precision);
    }
    let chance = |(row, squared): (&Row, &Option<(f64, f64)>)| {
        let own = row.ratios.filter(|_| row.control)?.typical;
        let Some((surplus, precision)) = squared else { return Some(own.chance) };
        let sum = sums[row.kind.as_str()];
        let others = (sum.0 - surplus) / (sum.1 - precision);
        if !(others > 0.0 && others.is_finite()) {
            return Some(own.chance);
        }
        let far = own.value.abs() / (1.0 / precision + others).sqrt();
        Some(own.chance.max(student::chance(own.freedom, far)))
    };
    rows.iter().zip(&squared).map(chance).collect()
}

/// The p-values of a family, adjusted by Holm's step-down procedure: in 95 % of honest families none is below 5 %.
fn holm(chances: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut order: Vec<(usize, f64)> =
        chances.iter().enumerate().filter_map(|(place, chance)| Some((place, (*chance)?))).collect();
    order.sort_by(|first, other| first.1.total_cmp(&other.1));
    let (mut adjusted, mut most, number) = (vec![None; chances.len()], 0.0_f64, order.len());
    for (done, (place, chance)) in order.into_iter().enumerate() {
        most = most.max(chance * (number - done) as f64);
        adjusted[place] = Some(most.min(1.0));
    }
    adjusted
}

fn differs(chance: Option<f64>) -> bool {
    chance.is_some_and(|chance| chance < 0.05)
}

/// By kind, the standard deviation of the error that its controls have in common.
fn biases<'a>(rows: &'a [Row], chances: &[Option<f64>]) -> BTreeMap<&'a str, f64> {
    let mut sums: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for (row, chance) in rows.iter().zip(chances) {
        if let Some((surplus, precision)) = squares(row).filter(|_| !differs(*chance)) {
            let sum = sums.entry(&row.kind).or_default();
            *sum = (sum.0 + surplus, sum.1 + precision);
        }
    }
    sums.into_iter()
        .map(|(kind, (surplus, precision))| (kind, (surplus / precision).max(0.0).sqrt()))
        .collect()
}

/// How far a control that differs from itself may be off: to the farther end of its interval.
fn own_offset(row: &Row, chance: Option<f64>) -> f64 {
    match row.ratios.filter(|_| row.control && differs(chance)) {
        Some(Ratios { typical, .. }) => typical.low.abs().max(typical.high.abs()),
        None => 0.0,
    }
}

/// By group, the largest offset of its controls.
fn largest_offsets<'a>(rows: &'a [Row], chances: &[Option<f64>]) -> BTreeMap<&'a str, f64> {
    let mut offsets: BTreeMap<&str, f64> = BTreeMap::new();
    for (row, chance) in rows.iter().zip(chances) {
        let largest = offsets.entry(&row.group).or_default();
        *largest = largest.max(own_offset(row, *chance));
    }
    offsets
}

/// The groups in which a control is slower or faster than itself by its own interval. Among many controls chance may
/// explain it, and precise ones outweigh it in the bias of its kind; but it speaks against what would be the same.
fn groups_with_a_control_off(rows: &[Row]) -> BTreeSet<&str> {
    let off = |row: &&Row| {
        let verdict = row.ratios.map(|ratios| Verdict::of(&ratios.typical, row.tolerance));
        row.control && matches!(verdict, Some(Verdict::Slower | Verdict::Faster))
    };
    rows.iter().filter(off).map(|row| row.group.as_str()).collect()
}

fn corrected(row: &Row, ratios: Ratios, fixed: &Fixed) -> Ratios {
    if row.control || fixed.bias.max(fixed.offset) == 0.0 {
        return ratios;
    }
    let widened = |estimate: Estimate| estimate.widened(ratios.typical.quantile * fixed.bias, fixed.offset);
    Ratios { typical: widened(ratios.typical), undisturbed: ratios.undisturbed.map(widened), ..ratios }
}

/// By group, why nothing is concluded from it.
fn inconclusive_groups(rows: &[Row]) -> BTreeMap<&str, Option<Inconclusive>> {
    let groups: BTreeSet<&str> = rows.iter().map(|row| row.group.as_str()).collect();
    let inconclusive = |group: &str| {
        let of = || rows.iter().filter(|row| row.group == group);
        let mut measured = of().filter_map(|row| Some(row.ratios?.typical));
        let mut controls = of().filter(|row| row.control).peekable();
        if measured.any(|estimate| estimate.episodes < LEAST_EPISODES) {
            Some(Inconclusive::TooFew)
        } else if controls.peek().is_none() {
            Some(Inconclusive::NoControl)
        } else if controls.any(|row| row.ratios.is_none()) {
            Some(Inconclusive::ControlNotMeasured)
        } else {
            None
        }
    };
    groups.into_iter().map(|group| (group, inconclusive(group))).collect()
}

fn concluded(ratios: &Ratios, tolerance: f64, fixed: &Fixed) -> (Option<Verdict>, Option<Needed>) {
    if fixed.off && Verdict::at(ratios.typical.value, tolerance) == Verdict::Same {
        return (Some(Verdict::Undecided), Some(Needed::Control));
    }
    let typical = Verdict::of(&ratios.typical, tolerance);
    let undisturbed = ratios.undisturbed.map(|estimate| Verdict::of(&estimate, tolerance));
    match undisturbed {
        Some(undisturbed) if undisturbed != typical && undisturbed != Verdict::Undecided => {
            let needed = match typical {
                Verdict::Undecided => needed(&ratios.typical, tolerance, fixed),
                decided => Needed::Contradicted(decided, undisturbed),
            };
            (Some(Verdict::Undecided), Some(needed))
        }
        _ if typical == Verdict::Undecided => {
            (Some(typical), Some(needed(&ratios.typical, tolerance, fixed)))
        }
        _ => (Some(typical), None),
    }
}

/// How many times as many processes it takes until an interval that crosses a border would not. The half width shrinks
/// with the square root of their number, but for what the controls add to it.
fn needed(estimate: &Estimate, tolerance: f64, fixed: &Fixed) -> Needed {
    let borders = [(1.0 - tolerance).ln(), tolerance.ln_1p()];
    let (more, offset) = (estimate.quantile * fixed.bias, fixed.offset);
    let times = |border: f64| {
        let half = if border < estimate.value {
            estimate.value - estimate.low
        } else {
            estimate.high - estimate.value
        };
        let (half, distance) = (half - offset, (border - estimate.value).abs() - offset);
        match () {
            () if half <= distance => 1.0,
            () if distance > more => (half * half - more * more) / (distance * distance - more * more),
            () => f64::INFINITY,
        }
    };
    let at_one = borders.iter().any(|border| (estimate.value - border).abs() <= (NEAR * tolerance).ln_1p());
    let most = borders.into_iter().map(times).fold(1.0, f64::max);
    match () {
        () if at_one => Needed::Border,
        () if most.is_infinite() => Needed::Never,
        () => Needed::Times(most),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A comparison whose processes say these logarithms.
    fn row(control: bool, logs: &[f64]) -> Row {
        let values: Vec<(u32, f64)> = (0..).zip(logs.iter().copied()).collect();
        let ratios = Estimate::of(&values).map(|typical| Ratios { typical, undisturbed: None, ns: 1.0 });
        let (kind, group) = ("one thread".to_owned(), String::new());
        Row { kind, group, behind: vec![], control, tolerance: 0.01, ratios }
    }

    const LOG_RATIOS: [f64; 6] = [0.001, -0.001, 0.0005, -0.0005, 0.0002, -0.0002];

    fn moved(by: f64) -> Row {
        row(false, &LOG_RATIOS.map(|log| log + by))
    }

    #[test]
    fn each_verdict_has_its_region_and_its_reverse() {
        let verdicts = [
            (0.05, Verdict::Slower),
            (-0.05, Verdict::Faster),
            (0.002, Verdict::Same),
            (0.0095, Verdict::Undecided),
        ];
        for (by, verdict) in verdicts {
            assert_eq!(judge(&[moved(by), row(true, &LOG_RATIOS)])[0].verdict, Some(verdict), "{by}");
        }
    }

    /// A control that is off by as much.
    fn off(by: f64) -> Row {
        row(true, &LOG_RATIOS.map(|log| log + by))
    }

    #[test]
    fn without_a_control_and_in_too_few_processes_nothing_is_concluded() {
        for (rows, why) in [
            (vec![moved(0.05)], Inconclusive::NoControl),
            (vec![moved(0.05), Row { ratios: None, ..off(0.0) }], Inconclusive::ControlNotMeasured),
            (vec![row(false, &[0.1, 0.1, 0.1]), off(0.0)], Inconclusive::TooFew),
        ] {
            let judged = judge(&rows);
            assert_eq!((judged[0].inconclusive, judged[0].verdict), (Some(why), None));
        }
    }

    #[test]
    fn one_process_concludes_nothing_however_many_rounds_it_has() {
        for (processes, concludes) in [(1, false), (3, false), (4, true)] {
            let values =
                |by: f64| (0..96).map(move |round| (round % processes, by + 1e-5 * f64::from(round)));
            let [slower, control] = [(0.5, false), (-5e-4, true)].map(|(by, control)| {
                let values: Vec<(u32, f64)> = values(by).collect();
                let ratios =
                    Estimate::of(&values).map(|typical| Ratios { typical, undisturbed: None, ns: 1.0 });
                Row { ratios, ..row(control, &[]) }
            });
            let judged = judge(&[slower, control]);
            assert_eq!(judged[0].verdict.is_some(), concludes, "{processes} processes: {judged:?}");
        }
    }

    #[test]
    fn beside_a_control_off_by_16_percent_58_times_is_slower_and_little_is_undecided() {
        for (ratio, verdict) in [
            (58.0, Verdict::Slower),
            (1.0 / 58.0, Verdict::Faster),
            (1.16, Verdict::Undecided),
            (1.0, Verdict::Undecided),
        ] {
            let judged = judge(&[moved(f64::ln(ratio)), off(0.86_f64.ln())]);
            assert_eq!((judged[0].inconclusive, judged[0].verdict), (None, Some(verdict)), "{ratio}");
            let ends = judged.iter().map(|row| row.ratios.expect("measured").typical);
            let [wider, control] = ends.collect::<Vec<_>>().try_into().expect("two");
            assert_eq!(judged[0].offset, control.low.abs(), "the farther end");
            assert_eq!(judged[1].offset, judged[0].offset);
            let Row { ratios: Some(Ratios { typical: own, .. }), .. } = moved(f64::ln(ratio)) else {
                panic!()
            };
            for (end, before) in [(wider.low, own.low), (wider.high, own.high)] {
                assert!(((end - before).abs() - judged[0].offset).abs() < 1e-12, "on both sides");
            }
            if verdict == Verdict::Undecided {
                let needed = if ratio == 1.0 { Needed::Control } else { Needed::Never };
                assert_eq!(judged[0].needed, Some(needed));
            }
        }
    }

    #[test]
    fn nothing_is_the_same_beside_a_control_that_is_off_by_more_than_the_tolerance() {
        let mut seen = [0, 0];
        for step in 0..400 {
            let (by, error) = (1e-5 * f64::from(step % 20), 1e-4 * f64::from(step));
            let judged = judge(&[moved(by), off(error)]);
            let more = judged[0].offset > -(-0.01_f64).ln_1p();
            assert!(!more || judged[0].verdict == Some(Verdict::Undecided), "{judged:?}");
            seen[usize::from(more)] += i32::from(judged[0].offset > 0.0);
        }
        assert!(seen.iter().all(|seen| *seen > 50), "{seen:?}");
    }

    #[test]
    fn nothing_is_the_same_beside_a_broken_control_that_precise_ones_outweigh() {
        let group = |name: String, row: Row| Row { group: name, ..row };
        let mut seen = [0_usize; 3];
        for (number, by) in [5, 9, 20, 40]
            .into_iter()
            .flat_map(|number| (-40..=40).map(move |step| (number, 2e-3 * f64::from(step))))
        {
            // Its interval is about fifteen times as wide as those of the precise ones.
            let broken = row(true, &LOG_RATIOS.map(|log| 25.0 * log + by));
            let verdict = Verdict::of(&broken.ratios.expect("measured").typical, broken.tolerance);
            let mut rows = vec![
                group("broken".to_owned(), moved(0.0)),
                group("precise 0".to_owned(), moved(0.0)),
                Row { behind: vec!["broken".to_owned()], ..group("precise 0".to_owned(), moved(0.0)) },
                group("broken".to_owned(), moved(0.5)),
                group("broken".to_owned(), broken),
            ];
            rows.extend((0..number).map(|at| group(format!("precise {at}"), off(0.0))));
            let judged = judge(&rows);
            assert_eq!((judged[1].verdict, judged[3].verdict), (Some(Verdict::Same), Some(Verdict::Slower)));
            if matches!(verdict, Verdict::Slower | Verdict::Faster) {
                for beside in [&judged[0], &judged[2]] {
                    let said = (beside.verdict, beside.needed);
                    assert_eq!(said, (Some(Verdict::Undecided), Some(Needed::Control)), "{number} {by}");
                }
                let alone = Verdict::of(&judged[0].ratios.expect("measured").typical, 0.01);
                seen[usize::from(judged[0].offset > 0.0)] += 1;
                seen[2] += usize::from(alone == Verdict::Same);
            }
        }
        assert!(
            seen.iter().all(|seen| *seen > 10),
            "with and without an offset, and the same without the rule: {seen:?}"
        );
    }

    #[test]
    fn what_depends_on_two_groups_may_be_off_by_what_both_are() {
        let group = |name: &str, row: Row| Row { group: name.to_owned(), ..row };
        let loads = Row { behind: vec!["many".to_owned()], ..group("few", moved(0.5)) };
        let controls = |few: f64, many: f64| {
            [(few, "few"), (many, "many"), (0.0, "none")].map(|(by, name)| group(name, off(by)))
        };
        // Of two kinds: controls of one would explain each other.
        let rows = |few: f64, many: f64| -> Vec<Row> {
            let mut rows = vec![loads.clone(), group("none", moved(0.5))];
            rows.extend(controls(few, many));
            rows[3].kind = "many threads".to_owned();
            rows
        };
        let offsets =
            |few, many| judge(&rows(few, many)).iter().map(|judged| judged.offset).collect::<Vec<_>>();
        let [both, none, few, many, _] = offsets(0.1, -0.2)[..] else { panic!() };
        assert!(few > 0.1 && many > 0.2 && none == 0.0);
        assert!((both - few - many).abs() < 1e-12);
        assert!((offsets(0.0, 0.2)[0] - offsets(0.0, 0.2)[3]).abs() < 1e-12);
    }

    #[test]
    fn identical_code_is_called_different_in_one_of_twenty_comparisons_at_most() {
        // SplitMix64, and a sum of uniform numbers in place of a normal one.
        let mut state = 3_u64;
        let mut uniform = move || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut normal = move |deviation: f64| deviation * ((0..12).map(|_| uniform()).sum::<f64>() - 6.0);
        for (extra, broken) in [(0.0, 0.0), (0.03, 0.0), (0.0, 0.16), (0.03, 0.5)] {
            let (mut wrong, runs) = (0, 20);
            for _ in 0..runs {
                let mut rows = Vec::new();
                for group in 0..20 {
                    let mut off = [0; 3].map(|_| normal(extra));
                    off[0] += if group == 0 { broken } else { 0.0 };
                    let processes: Vec<[f64; 3]> =
                        (0..12).map(|_| off.map(|off| off + normal(0.02))).collect();
                    for other in [1, 2] {
                        let logs: Vec<f64> =
                            processes.iter().map(|process| process[other] - process[0]).collect();
                        rows.push(Row { group: group.to_string(), ..row(other == 1, &logs) });
                    }
                }
                let judged = judge(&rows);
                assert!(judged.iter().all(|row| row.inconclusive.is_none()));
                let others = judged.iter().skip(1).step_by(2);
                wrong += others
                    .filter(|row| matches!(row.verdict, Some(Verdict::Slower | Verdict::Faster)))
                    .count();
            }
            assert!(wrong <= runs, "{wrong} of {} for {extra} {broken}", 20 * runs);
        }
    }

    #[test]
    fn controls_that_are_off_together_widen_what_they_control() {
        let rows = [moved(0.012), off(0.0015), off(-0.0016), off(0.0015), off(-0.0014)];
        let judged = judge(&rows);
        assert!(judged[0].bias.expect("controls") > 0.001, "{:?}", judged[0].bias);
        let half = |judged: &Judged| judged.ratios.map(|ratios| ratios.typical.high - ratios.typical.low);
        assert!(half(&judged[0]) > half(&judge(&[moved(0.012), row(true, &LOG_RATIOS)])[0]));
        assert_eq!(half(&judged[1]), half(&judge(&[off(0.0015)])[0]), "a control keeps its own");
    }

    #[test]
    fn what_would_decide_is_told() {
        let wide = LOG_RATIOS.map(|log| 20.0 * log + 0.005);
        let judged = judge(&[row(false, &wide), row(true, &LOG_RATIOS)]);
        let Some(Needed::Times(times)) = judged[0].needed else { panic!("{judged:?}") };
        assert!((2.0..30.0).contains(&times), "{times}");
        let verdicts = [0.005, 0.02, -0.02].map(|value| Verdict::at(value, 0.01));
        assert_eq!(verdicts, [Verdict::Same, Verdict::Slower, Verdict::Faster]);
        let at_the_border = judge(&[moved(0.01), row(true, &LOG_RATIOS)]);
        assert_eq!(at_the_border[0].needed, Some(Needed::Border));
    }

    #[test]
    fn holm_multiplies_the_smallest_by_the_number_of_the_family() {
        let adjusted = holm(&[Some(0.04), None, Some(0.01), Some(0.03)]);
        assert_eq!(adjusted, [Some(0.06), None, Some(0.03), Some(0.06)]);
    }
}
