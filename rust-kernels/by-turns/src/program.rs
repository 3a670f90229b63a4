//! A bench as a program.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::fs;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::exit;

use crate::arguments::{Arguments, HELP, Profile, Task};
use crate::builder::{Bench, Proved, Variant};
use crate::caution;
use crate::counts::{self, Counted};
use crate::episodes::{Episode, Measured};
use crate::gate;
use crate::layouts::Linked;
use crate::plot::{self, Strip};
use crate::report::{Line, Report, to_decide};
use crate::store::{self, Before, Process};
use by_turns_core::base::clock::Utc;
use by_turns_core::base::csv;
use by_turns_core::base::key::Key;
use by_turns_core::base::random;
use by_turns_core::count::callgrind;
use by_turns_core::count::table::{self, Count};
use by_turns_core::judge::interval::{Estimate, median};
use by_turns_core::judge::pairs::{Time, Trials};
use by_turns_core::judge::verdict::{Row, Verdict, judge};
use by_turns_core::trial::bencher::TrialError;
use by_turns_core::trial::rounds;

/// Of a system that is not Unix.
const ELSEWHERE: &str = "by-turns measures on Unix; here it proves equal work only";

impl<W: PartialEq + Debug> Bench<'_, W> {
    /// Does what the arguments of the program ask for: see `cargo bench -- --help`. Ends the program with status 1 where
    /// something fails, or where variants do not do equal work.
    pub fn main(self) {
        let done = if callgrind::is_here() { self.counted() } else { self.done() };
        if let Err(why) = done {
            eprintln!("{why}");
            exit(1);
        }
    }

    fn done(&self) -> Result<(), String> {
        let arguments = Arguments::of(std::env::args().skip(1))?;
        if arguments.task == Task::Help {
            println!("{HELP}");
            return Ok(());
        }
        let all = self.variants(|_| true)?;
        let chosen = arguments.chosen(&all);
        if arguments.task == Task::List {
            let names: Vec<String> = chosen.iter().map(|key| key.to_string()).collect();
            print!("{}", arguments.format.list(&names));
            return Ok(());
        }
        if chosen.is_empty() {
            // Cargo goes on with the next bench, and a process that measures with the next of its program.
            if Episode::of_this_process().is_none() {
                eprintln!("{}: {}; 0 measured", self.title, arguments.nothing());
            }
            return Ok(());
        }
        let variants = self.variants(|key| chosen.contains(&key))?;
        let proved = self.prove(&variants)?;
        if let Some(episode) = Episode::of_this_process() {
            if episode.bench != self.name {
                return Ok(()); // another bench of this program
            }
            episode.measure(&self.measured(&variants, &proved), &neighbours(&variants))?;
            exit(0);
        }
        match &arguments.task {
            Task::Prove | Task::Help | Task::List => {
                println!("{}: all do equal work; `cargo bench` measures them", self.title);
                Ok(())
            }
            Task::Measure if !cfg!(unix) => {
                println!("{}: all do equal work; {ELSEWHERE}", self.name);
                Ok(())
            }
            Task::Count(_) | Task::Gate(_) if !cfg!(unix) => Err(ELSEWHERE.to_owned()),
            Task::Count(file) => self.save_counts(&variants, &typed(file)),
            Task::Gate(file) => self.gate(&variants, &typed(file), &arguments.allowed),
            Task::Measure if cfg!(debug_assertions) => {
                Err("this is a debug build, in which async code is slower than it is: use `cargo bench`"
                    .to_owned())
            }
            Task::Measure if variants.iter().all(|variant| variant.baseline.is_none()) => {
                eprintln!("{}: nothing is compared with {}; 0 measured", self.title, variants[0].key);
                Ok(())
            }
            Task::Measure => self.measure(&variants, &arguments),
        }
    }

    /// In a process under callgrind: one iteration of what the parent names.
    fn counted(&self) -> Result<(), String> {
        let selected = callgrind::selected(&self.name);
        for way in &selected {
            callgrind::count(&self.function(*way)).map_err(|trial_error| match trial_error {
                TrialError::Failed(why) | TrialError::Misused(why) => why,
            })?;
        }
        if selected.is_empty() { Ok(()) } else { exit(0) }
    }

    fn measured<'b>(&'b self, variants: &'b [Variant], proved: &'b Proved<W>) -> Vec<Measured<'b>> {
        // What is compared shares the processor alike: as the baseline does.
        let threads = |variant: &Variant| match variant.baseline {
            Some(baseline) => self.declared[variants[baseline].declared].settings.threads,
            None => self.declared[variant.declared].settings.threads,
        };
        let measured = |(at, variant): (usize, &Variant)| Measured {
            key: variant.key.clone(),
            function: Box::new(self.proved(variants, at, proved)),
            threads: threads(variant),
        };
        variants.iter().enumerate().map(measured).collect()
    }

    /// Writes the counts into a file, in place of those that these variants have there.
    fn save_counts(&self, variants: &[Variant], file: &Path) -> Result<(), String> {
        let package = counts::package()?;
        let Counted { counts, left_out, failed } = counts::count(self, variants)?;
        left_out.iter().for_each(|why| eprintln!("{why}"));
        if !failed.is_empty() || counts.is_empty() {
            return Err(format!("{}: counts are not saved\n{}", self.name, failed.join("\n")));
        }
        counts::save(file, &package, &self.title, self.among(variants), &counts)?;
        println!("{}: {} counts in {}", self.name, counts.len(), file.display());
        Ok(())
    }

    fn gate(&self, variants: &[Variant], file: &Path, allowed: &BTreeMap<String, f64>) -> Result<(), String> {
        if let Some(unknown) =
            allowed.keys().find(|name| !counts::COUNTERS.iter().any(|(counter, _)| counter == name))
        {
            return Err(format!("--allow: there is no counter {unknown}\n{HELP}"));
        }
        let package = counts::package()?;
        let mut before = counts::load(file, &package, &self.title)?;
        before.retain(|count| self.among(variants)(&count.key));
        let counted = counts::count(self, variants)?;
        let gate = gate::compare(&format!("{package}, {}", self.title), &before, &counted, allowed);
        println!("{}", gate.table);
        if gate.passed { Ok(()) } else { exit(1) }
    }

    /// Whether a key is one of these variants: where none of the bench is left out, any may be one that it had.
    fn among<'v>(&self, variants: &'v [Variant]) -> impl Fn(&Key) -> bool + 'v {
        let whole = variants.iter().filter(|variant| !variant.control).count() == self.declared.len();
        move |key| whole || variants.iter().any(|variant| variant.key == *key)
    }

    fn measure(&self, variants: &[Variant], arguments: &Arguments) -> Result<(), String> {
        let folder = store::folder(&self.name).map_err(|error| format!("no folder for the run: {error}"))?;
        let (before, start) = (Before::now(), caution::Start::now());
        let Counted { counts, left_out: mut notes, failed } = counts::count(self, variants)?;
        notes.extend(failed);
        if std::io::stderr().is_terminal() && !arguments.quiet {
            eprintln!("{}: compiling once more, for link orders", self.name);
        }
        let linked = match arguments.layouts {
            true => Linked::prepare(&folder),
            false => Err("--no-layouts".to_owned()),
        };
        let seed = random::new_seed().map_err(|error| format!("no random numbers: {error}"))?;
        let (samples, processes) = self.rounds(arguments, seed, linked.as_ref().ok(), &folder)?;
        let trials = trials(&samples, &arguments.profile)?;
        let met = met(&folder);
        notes.extend(start.disturbed(caution::met(&met)));
        let _ = fs::remove_file(met);
        let orders = match &linked {
            Ok(_) => "each with a link order of its own",
            Err(_) => "all with one link order",
        };
        if let Err(why) = linked {
            notes.push(format!(
                "link orders were not drawn ({why}): another build may differ by some per cent more than the intervals say"
            ));
        }
        let variants_judged = self.judged(variants, &trials, &counts, &arguments.profile, &mut notes);
        notes.extend(self.hardly_anything(variants, &variants_judged));
        let strips = self.strips(variants, &variants_judged, &trials);
        let whole = store::write(
            self,
            variants,
            &arguments.profile,
            seed,
            &before,
            &processes,
            &samples,
            &table::table(&self.name, &counts),
        );
        let Profile { processes, rounds, .. } = arguments.profile;
        let report = Report {
            bench: self.title.clone(),
            measured: format!("{processes} processes, {orders}, {} rounds", processes * rounds),
            variants: variants_judged,
            notes,
            samples: whole
                .map_err(|error| format!("the run could not be written: {error}"))?
                .display()
                .to_string(),
        };
        let picture = Path::new(&report.samples).join(format!("{}.svg", self.name));
        fs::write(&picture, plot::svg(&self.title, &strips))
            .map_err(|error| format!("{}: {error}", picture.display()))?;
        let json = format!("{:#}", report.json());
        let kept = fs::write(folder.join("report.json"), format!("{json}\n"));
        kept.map_err(|error| format!("the table could not be kept: {error}"))?;
        println!("{}", arguments.format.table(&report));
        if arguments.plot {
            eprint!("\n{}", plot::text(&strips));
        }
        Ok(())
    }

    /// What is told of variants whose iterations do hardly anything.
    fn hardly_anything(&self, variants: &[Variant], lines: &[Line]) -> Vec<String> {
        let floor = caution::floor();
        let told = |(variant, line): (&Variant, &Line)| {
            let units = self.declared[variant.declared].settings.units as f64;
            caution::hardly_anything(&line.name(), line.time_ns * units, floor)
        };
        variants.iter().zip(lines).filter(|(variant, _)| !variant.control).filter_map(told).collect()
    }

    fn strips(&self, variants: &[Variant], lines: &[Line], trials: &Trials) -> Vec<Strip> {
        let strip = |(variant, line): (&Variant, &Line)| {
            let pair = self.pair(variants, variant)?;
            let baseline = &self.declared[variants[variant.baseline?].declared];
            let verdict = if variant.control { None } else { line.verdict.as_deref() };
            let ratio = line.ratio.map(|[ratio, ..]| format!("{ratio:.3}"));
            Some(Strip {
                name: line.name(),
                control: variant.control,
                said: [ratio.as_deref(), verdict].into_iter().flatten().collect::<Vec<_>>().join(" "),
                tolerance: baseline.settings.tolerance,
                ratio: line.ratio,
                processes: plot::by_process(&pair, trials),
            })
        };
        variants.iter().zip(lines).filter_map(strip).collect()
    }

    /// The samples of all rounds, and the processes that took them.
    fn rounds(
        &self,
        arguments: &Arguments,
        seed: u64,
        linked: Option<&Linked>,
        folder: &Path,
    ) -> Result<(String, Vec<Process>), String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let to = samples_file(folder);
        let (mut samples, mut processes) = (String::new(), Vec::new());
        let Arguments { profile, quiet, .. } = arguments;
        let shown = std::io::stderr().is_terminal() && !quiet;
        for number in 0..profile.processes {
            if shown {
                eprint!("\r{}: process {} of {} ", self.name, number + 1, profile.processes);
                let _ = std::io::stderr().flush();
            }
            let first = number * profile.rounds;
            let (bench, to) = (self.name.clone(), to.clone());
            let episode = Episode { bench, first, until: first + profile.rounds, seed, to };
            let drawn = linked.map(|linked| {
                // Of 32 bits, of which 0 would be another order each time, and all ones another rule.
                let layout = 1 + (random::new_seed().unwrap_or(u64::from(number)) % (1 << 30)) as u32;
                linked.draw(layout).map(|program| (layout, program))
            });
            let drawn = drawn.transpose()?;
            let started = Utc::now();
            let rows = episode.run(drawn.as_ref().map_or(&program, |(_, program)| program));
            if let Some((_, program)) = &drawn {
                let _ = fs::remove_file(program);
            }
            samples += &rows?;
            let layout = drawn.map(|(layout, _)| layout);
            processes.push(Process { first, started, ended: Utc::now(), layout });
        }
        if shown {
            eprintln!();
        }
        let _ = fs::remove_file(to);
        Ok((samples, processes))
    }

    fn judged(
        &self,
        variants: &[Variant],
        trials: &Trials,
        counts: &[Count],
        profile: &Profile,
        notes: &mut Vec<String>,
    ) -> Vec<Line> {
        let compared: Vec<&Variant> = variants.iter().filter(|variant| variant.baseline.is_some()).collect();
        let row = |variant: &&Variant| {
            let baseline = &variants[variant.baseline.expect("compared")];
            let settings = &self.declared[baseline.declared].settings;
            Row {
                kind: store::kind(settings.threads).to_owned(),
                group: settings.load.clone(),
                behind: vec![],
                control: variant.control,
                tolerance: settings.tolerance,
                ratios: self.pair(variants, variant).and_then(|pair| pair.ratios(trials, !settings.threads)),
            }
        };
        let rows: Vec<Row> = compared.iter().map(row).collect();
        let judged: HashMap<&Key, _> =
            compared.iter().map(|variant| &variant.key).zip(judge(&rows)).collect();
        let quick = profile.name == "quick";
        if quick {
            notes.push("nothing is concluded: --quick shows that everything works".to_owned());
        }
        let line = |variant: &Variant| {
            let settings = &self.declared[variant.declared].settings;
            let mut times: Vec<(u32, f64)> = trials
                .get(&variant.key)
                .into_iter()
                .flatten()
                .map(|(_, time)| (time.episode, time.ns / settings.units as f64))
                .collect();
            let (time_ns, time_deviation_ns) = middle(&times).unzip();
            times.iter_mut().for_each(|(_, ns)| *ns = ns.ln());
            let interval = Estimate::of(&times).map(|ns| [ns.low, ns.high].map(f64::exp));
            let mine = counts.iter().filter(|count| count.key == variant.key);
            let line = Line {
                variant: variant.key.variant.clone(),
                load: variant.key.parameter.clone(),
                unit: settings.unit.clone(),
                units: settings.units,
                time_ns: time_ns.unwrap_or(f64::NAN),
                time_interval_ns: interval,
                time_deviation_ns,
                baseline: variant.baseline.map(|baseline| variants[baseline].key.variant.clone()),
                control: variant.control,
                counts: mine.map(|count| (count.counter.clone(), count.value)).collect(),
                ..Line::default()
            };
            let Some(judged) = judged.get(&variant.key) else { return line };
            let mut line = line.judged(judged);
            if quick {
                (line.verdict, line.doubt) = (None, Some("quick profile".to_owned()));
            } else if let Some(doubt) = judged.inconclusive.filter(|_| !variant.control) {
                notes.push(format!("{}: nothing is concluded: {doubt}", line.name()));
            } else if let Some((needed, ratios)) =
                judged.needed.zip(judged.ratios).filter(|_| !variant.control)
            {
                let tolerance =
                    variant.baseline.map(|first| self.declared[variants[first].declared].settings.tolerance);
                let alone = Verdict::at(ratios.typical.value, tolerance.expect("compared"));
                notes.push(to_decide(&line.name(), needed, alone, profile.processes));
            }
            line
        };
        variants.iter().map(line).collect()
    }
}

/// A path as it was typed: in the folder of cargo, which starts a bench in that of its package.
fn typed(path: &Path) -> PathBuf {
    let of_cargo = fs::read_link(format!("/proc/{}/cwd", std::os::unix::process::parent_id()));
    let folder = if std::env::var_os("CARGO").is_some() { of_cargo.ok() } else { None };
    folder.or_else(|| std::env::current_dir().ok()).unwrap_or_default().join(path)
}

/// Where a process writes its samples.
fn samples_file(folder: &Path) -> PathBuf {
    folder.join(format!("samples-{}.csv", std::process::id()))
}

/// Where processes write what their samples met.
fn met(folder: &Path) -> PathBuf {
    samples_file(folder).with_extension(caution::MET)
}

fn neighbours(variants: &[Variant]) -> Vec<Vec<usize>> {
    let pairs = variants.iter().enumerate().filter_map(|(at, variant)| Some((at, variant.baseline?)));
    rounds::neighbours(variants.len(), pairs)
}

/// The median of times, and their median absolute deviation from it.
fn middle(times: &[(u32, f64)]) -> Option<(f64, f64)> {
    let mut times: Vec<f64> = times.iter().map(|(_, ns)| *ns).collect();
    let centre = (!times.is_empty()).then(|| median(&mut times))?;
    times.iter_mut().for_each(|ns| *ns = (*ns - centre).abs());
    Some((centre, median(&mut times)))
}

/// The trials of each key: the median of its samples.
fn trials(samples: &str, profile: &Profile) -> Result<Trials, String> {
    let rows = csv::rows(&format!("{}\n{samples}", store::TIMES), store::TIMES)
        .ok_or("a process left torn samples")?;
    let mut taken: HashMap<Key, BTreeMap<u32, Vec<f64>>> = HashMap::new();
    for row in rows {
        let number = |column: usize| row[column].parse::<f64>().map_err(|_| "a process left torn samples");
        let key = Key::new(&row[1], &row[2], &row[3]);
        taken.entry(key).or_default().entry(number(4)? as u32).or_default().push(number(8)? / number(7)?);
    }
    let time = |(round, mut samples): (u32, Vec<f64>)| {
        (round, Time { episode: round / profile.rounds, ns: median(&mut samples) })
    };
    Ok(taken.into_iter().map(|(key, rounds)| (key, rounds.into_iter().map(time).collect())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is noted of a variant with a load, whose processes show these ratios.
    fn noted(ratios: &[f64]) -> Vec<String> {
        let bench = Bench::new("b").load("n=2").variant("a", |turn| turn.iter(|| 1));
        let bench = bench.variant("b", |turn| turn.iter(|| 1));
        let variants = bench.variants(|_| true).expect("sound");
        let times = |of: &dyn Fn(f64) -> f64| {
            let time = |(round, ratio): (u32, &f64)| (round, Time { episode: round, ns: of(*ratio) });
            (0..).zip(ratios).map(time).collect()
        };
        let control = |ratio: f64| 100.0 + (ratio - 1.0075);
        let measured: [&dyn Fn(f64) -> f64; 3] = [&|_| 100.0, &|ratio| 100.0 * ratio, &control];
        let trials = variants.iter().zip(measured).map(|(variant, of)| (variant.key.clone(), times(of)));
        let profile = Profile { name: "standard", processes: ratios.len() as u32, rounds: 1 };
        let mut notes = vec![];
        bench.judged(&variants, &trials.collect(), &[], &profile, &mut notes);
        notes
    }

    #[test]
    fn what_is_noted_names_the_load() {
        let few = noted(&[1.0, 1.1]);
        assert!(few[0].starts_with("b (n=2): nothing is concluded: "), "{few:?}");
        let undecided = noted(&[1.0, 1.02, 1.0, 1.02, 1.0, 1.0, 1.02, 1.0]);
        assert!(undecided[0].starts_with("b (n=2): about --processes "), "{undecided:?}");
        assert!(undecided[0].contains("would decide it, as same if"), "{undecided:?}");
    }
}
