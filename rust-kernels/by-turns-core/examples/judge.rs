//! Judges a run that was measured elsewhere: reads samples and comparisons, prints a verdict for each.
//!
//! `judge <folder>` reads, in the folder,
//! - `comparisons.csv`: what is compared, each with its group, kind, limit and the units of work of an iteration;
//! - `<study>.episodes.csv`: the first round of each process;
//! - `<study>.time.csv`: the samples,
//!
//! and prints a table with a row for each comparison, in their order.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fs;
use std::path::PathBuf;

use by_turns_core::Key;
use by_turns_core::base::csv;
use by_turns_core::judge::interval::median;
use by_turns_core::judge::pairs::{Pair, Ratios, Time, Trials};
use by_turns_core::judge::verdict::{Needed, Row, judge};

const COMPARISONS: &str = "study,bench,variant,parameter,baseline_bench,baseline_variant,baseline_parameter,group,kind,\
                           limit,control,units,baseline_units,behind";
const TIMES: &str = "study,bench,variant,parameter,round,position,sample,iterations,elapsed_ns";
const JUDGED: &str =
    "ratio,low,high,undisturbed,undisturbed_low,undisturbed_high,bias,chance,offset,verdict,reason,needed";

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("which folder?")?);
    let table = |name: &str, header: &str| -> Result<Vec<Vec<String>>, Box<dyn Error>> {
        let text = fs::read_to_string(folder.join(name))?;
        Ok(csv::rows(&text, header).ok_or_else(|| format!("{name} is not a table of {header}"))?)
    };
    let mut measured: HashMap<String, Trials> = HashMap::new();
    let mut rows = Vec::new();
    for cells in table("comparisons.csv", COMPARISONS)? {
        let [
            study,
            bench,
            variant,
            parameter,
            of,
            baseline,
            under,
            group,
            kind,
            limit,
            control,
            units,
            others,
            behind,
        ] = &cells[..]
        else {
            unreachable!("as many as the header")
        };
        if !measured.contains_key(study) {
            let starts = table(&format!("{study}.episodes.csv"), "first_round")?;
            let starts: Vec<u32> = starts.iter().map(|row| row[0].parse()).collect::<Result<_, _>>()?;
            measured.insert(study.clone(), trials(&table(&format!("{study}.time.csv"), TIMES)?, &starts)?);
        }
        let pair = Pair {
            key: Key::new(bench, variant, parameter),
            baseline: Key::new(of, baseline, under),
            units: [units.parse()?, others.parse()?],
        };
        rows.push(Row {
            ratios: pair.ratios(&measured[study], kind == "one thread"),
            kind: kind.clone(),
            group: format!("{study} {group}"),
            behind: behind
                .split(';')
                .filter(|name| !name.is_empty())
                .map(|name| format!("{study} {name}"))
                .collect(),
            control: control == "true",
            tolerance: limit.parse()?,
        });
    }
    println!("{JUDGED}");
    for judged in judge(&rows) {
        let ends = |pick: fn(&Ratios) -> Option<[f64; 3]>| match judged.ratios.as_ref().and_then(pick) {
            Some(ends) => ends.map(|end| format!("{:e}", end.exp())),
            None => Default::default(),
        };
        let typical = ends(|ratios| Some([ratios.typical.value, ratios.typical.low, ratios.typical.high]));
        let undisturbed = ends(|ratios| ratios.undisturbed.map(|found| [found.value, found.low, found.high]));
        let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:e}"));
        let needed = match judged.needed {
            Some(Needed::Times(times)) => format!("{times:e}"),
            Some(Needed::Border | Needed::Never) => "inf".to_owned(),
            Some(Needed::Control) => "control".to_owned(),
            Some(Needed::Contradicted(typical, undisturbed)) => format!("{typical}/{undisturbed}"),
            None => String::new(),
        };
        let verdict = judged.verdict.map_or(String::new(), |verdict| verdict.to_string());
        let more = [
            number(judged.bias),
            number(judged.chance),
            number(Some(judged.offset)),
            verdict,
            judged.inconclusive.map_or(String::new(), |why| why.said("processes")),
            needed,
        ];
        println!("{}", csv::line(typical.into_iter().chain(undisturbed).chain(more)));
    }
    Ok(())
}

/// The median of the samples of each trial. `starts` are the first rounds of the processes.
fn trials(rows: &[Vec<String>], starts: &[u32]) -> Result<Trials, Box<dyn Error>> {
    let mut samples: HashMap<Key, BTreeMap<u32, Vec<f64>>> = HashMap::new();
    for row in rows {
        let ns = row[8].parse::<f64>()? / row[7].parse::<f64>()?;
        let key = Key::new(&row[1], &row[2], &row[3]);
        samples.entry(key).or_default().entry(row[4].parse()?).or_default().push(ns);
    }
    let time = |(round, mut samples): (u32, Vec<f64>)| {
        let episode = starts.partition_point(|first| *first <= round) as u32;
        (round, Time { episode, ns: median(&mut samples) })
    };
    Ok(samples.into_iter().map(|(key, rounds)| (key, rounds.into_iter().map(time).collect())).collect())
}
