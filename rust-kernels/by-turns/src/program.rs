//! A bench as a program.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::fs;
use std::path::Path;
use std::process::exit;
use std::time::Instant;

use crate::arguments::{Arguments, HELP, Task};
use crate::builder::{Bench, Variant};
use crate::caution;
use crate::counts::{self, Counted};
use crate::episodes::{End, Episode, Measured};
use crate::equal_work::Proved;
use crate::format::Format;
use crate::gate;
use crate::layouts;
use crate::places::{Places, places};
use crate::plot::{self, Strip};
use crate::report::{Report, VariantReport};
use crate::serve;
use crate::store::{self, Before, Process, Taken};
use by_turns_core::base::clock::Utc;
use by_turns_core::base::csv;
use by_turns_core::base::key::Key;
use by_turns_core::base::{panics, random};
use by_turns_core::count::callgrind;
use by_turns_core::count::table;
use by_turns_core::judge::interval::median;
use by_turns_core::judge::pairs::{Time, Trials};
use by_turns_core::run::budget::{Plan, Profile};
use by_turns_core::run::files::{Running, at};
use by_turns_core::run::link::{self, Linked};
use by_turns_core::run::process::{self, Asked, Caught};
use by_turns_core::run::progress::{self, Progress};
use by_turns_core::run::work::fingerprint;
use by_turns_core::trial::bencher::TrialError;
use by_turns_core::trial::rounds;
use by_turns_core::trial::sampling::BATCH;

/// Of a system that is not Unix.
const ELSEWHERE: &str = "by-turns measures on Unix; here it proves equal work only";

impl<W: PartialEq + Debug> Bench<'_, W> {
    /// Does what the arguments of the program ask for: see `cargo bench -- --help`.
    ///
    /// A program may hold several benches, one after the other: where the work of this one is done, or no variant of it is
    /// chosen, this returns. It ends the program with status 1 if something fails, variants do not do equal work or a gate does
    /// not pass; with 130 after Ctrl-C and 143 when terminated; and with 0 in the processes that it starts to measure and to
    /// count, each of which runs the program's main again. So put nothing behind it that must happen.
    pub fn main(self) {
        panics::record_places();
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
        let chosen = arguments.chosen(&all, serve::is_here());
        if arguments.task == Task::List {
            let names: Vec<String> = chosen.iter().map(|key| key.to_string()).collect();
            print!("{}", arguments.format.list(&names));
            return Ok(());
        }
        if chosen.is_empty() {
            // Cargo goes on with the next bench, and a process that measures or serves with the next of its program.
            if Episode::of_this_process().is_none() && !serve::is_here() {
                eprintln!("{}: 0 measured: {}", self.title, arguments.nothing(&all));
            }
            return Ok(());
        }
        if serve::is_here() {
            return self.serve(&self.only(|key| chosen.contains(&key))?);
        }
        let variants = self.variants(|key| chosen.contains(&key))?;
        if arguments.task == Task::Measure {
            self.compares()?;
        }
        let places = places();
        if let Some(episode) = Episode::of_this_process() {
            if episode.bench != self.name {
                return Ok(()); // another bench of this program
            }
            let proved = self.prove(&variants, episode.brief)?;
            episode.same_input(work(&proved))?;
            episode.measure(&self.measured(&variants, &proved), &neighbours(&variants))?;
            exit(0);
        }
        process::end_with_cargo(places.parent);
        let start = Instant::now();
        let proved = self.prove(&variants, false)?;
        let elapsed = start.elapsed();
        match &arguments.task {
            Task::Help | Task::List => unreachable!("done before"),
            Task::Prove => {
                println!("{}: all do equal work; `cargo bench` measures them", self.title);
                Ok(())
            }
            Task::Measure if !cfg!(unix) => {
                println!("{}: all do equal work; {ELSEWHERE}", self.title);
                Ok(())
            }
            Task::Count(_) | Task::Gate(_) if !cfg!(unix) => Err(ELSEWHERE.to_owned()),
            Task::Count(file) => self.save_counts(&variants, &places.typed(file)),
            Task::Gate(file) => self.gate(&variants, &places.typed(file), &arguments.allowed),
            Task::Measure if cfg!(debug_assertions) => {
                Err("this is a debug build, whose times mean nothing: use `cargo bench`".to_owned())
            }
            Task::Measure if variants.iter().all(|variant| variant.baseline.is_none()) => {
                eprintln!("{}: nothing is compared with {}; 0 measured", self.title, variants[0].key);
                Ok(())
            }
            Task::Measure => {
                let [call, set_up] = self.each(&variants, elapsed);
                let plan = Plan::new(&arguments.profile, arguments.budget, variants.len(), call, set_up);
                self.measure(&variants, &arguments, places, &plan, work(&proved))
            }
        }
    }

    /// In a process under callgrind: one iteration of what the parent names.
    fn counted(&self) -> Result<(), String> {
        let selected = callgrind::selected(&self.name);
        for index in &selected {
            callgrind::count(&self.alone(*index)).map_err(|trial_error| match trial_error {
                TrialError::Failed(why) | TrialError::Misused(why) => why,
            })?;
        }
        if selected.is_empty() { Ok(()) } else { exit(0) }
    }

    fn measured<'b>(&'b self, variants: &'b [Variant], proved: &'b Proved<W>) -> Vec<Measured<'b>> {
        let measured = |(at, variant): (usize, &Variant)| Measured {
            key: variant.key.clone(),
            function: Box::new(self.proved(variants, at, proved)),
            // What is compared shares the processor alike: as the baseline does.
            threads: self.settings(variant).threads,
        };
        variants.iter().enumerate().map(measured).collect()
    }

    fn running(&self) -> Result<Running, String> {
        Running::begin(&places().folder(&self.name)?)
    }

    /// Writes the counts into a file, in place of those that these variants have there.
    fn save_counts(&self, variants: &[Variant], file: &Path) -> Result<(), String> {
        let package = counts::package()?;
        let Counted { counts, left_out, failed } =
            counts::count(self, variants, None, &self.running()?, None)?;
        left_out.iter().for_each(|why| eprintln!("{why}"));
        if !failed.is_empty() || counts.is_empty() {
            return Err(format!("{}: counts are not saved\n{}", self.title, failed.join("\n")));
        }
        counts::save(file, &package, &self.title, self.among(variants), &counts)?;
        println!("{}: {} counts in {}", self.title, counts.len(), file.display());
        Ok(())
    }

    fn gate(&self, variants: &[Variant], file: &Path, allowed: &BTreeMap<String, f64>) -> Result<(), String> {
        let package = counts::package()?;
        let mut before = counts::load(file, &package, &self.title)?;
        before.retain(|count| self.among(variants)(&count.key));
        let mut counted = counts::count(self, variants, None, &self.running()?, None)?;
        if !before.iter().any(|count| count.counter == "instructions") {
            counted.left_out.extend(counted.failed.extract_if(.., |why| why == counts::NO_VALGRIND));
        }
        let gate = gate::compare(&format!("{package}, {}", self.title), &before, &counted, allowed);
        println!("{}", gate.table);
        if gate.passed { Ok(()) } else { exit(1) }
    }

    /// Whether a key is one of these variants: where none of the bench is left out, any may be one that it had.
    fn among<'v>(&self, variants: &'v [Variant]) -> impl Fn(&Key) -> bool + 'v {
        let whole = variants.iter().filter(|variant| !variant.control).count() == self.declared.len();
        move |key| whole || variants.iter().any(|variant| variant.key == *key)
    }

    fn measure(
        &self,
        variants: &[Variant],
        arguments: &Arguments,
        places: &Places,
        plan: &Plan,
        work: u64,
    ) -> Result<(), String> {
        process::no_pin(arguments.pin)?;
        let place = places.folder(&self.name)?;
        let running = Running::begin(&place)?;
        let before = Before::now();
        let mut progress = Progress::of(&self.title, arguments.quiet);
        progress.say("counting");
        let Counted { counts, left_out: mut notes, failed } =
            counts::count(self, variants, None, &running, plan.no_valgrind(variants.len()))?;
        notes.extend(failed);
        let linked = linked(arguments, places, &place, &running, &mut progress);
        let seed = random::new_seed().map_err(|error| format!("no random numbers: {error}"))?;
        // Until all is written.
        let caught = Caught::begin();
        let episode = Episode {
            bench: self.name.clone(),
            first: 0,
            until: 0,
            samples: plan.samples,
            brief: plan.brief(),
            seed,
            work,
            to: running.folder.join("samples.csv"),
        };
        let start = Instant::now();
        let (taken, asked) =
            rounds_of(episode, plan, places, arguments.pin, linked.as_ref().ok(), &caught, &mut progress)?;
        let elapsed = start.elapsed();
        drop(progress);
        let processes = taken.processes.len() as u32;
        if asked == Some(Asked::Terminate) || asked.is_some() && processes == 0 {
            drop(running);
            eprintln!("{}: interrupted after {processes} of {} processes", self.title, plan.processes);
            exit(status(asked));
        }
        let trials = trials(&taken)?;
        let met = caution::met(&running.folder.join("samples").with_extension(caution::DISTURBANCE));
        notes.extend(before.watch.told(met));
        let orders = match linked {
            Ok(_) => "each with a link order of its own",
            Err(why) => {
                notes.push(format!(
                    "link orders were not drawn ({why}): another build may differ by some per cent more than the intervals say"
                ));
                "all with one link order"
            }
        };
        let number = if processes == 1 { "1 process".to_owned() } else { format!("{processes} processes") };
        let measured = format!("{number}, {orders}, {} rounds", taken.rounds);
        let cut = plan.cut("processes", processes, taken.rounds, elapsed);
        let each = cut.as_ref().map(|_| elapsed / processes);
        match asked {
            Some(_) => notes.push(format!("interrupted after {processes} of {} processes", plan.processes)),
            None => notes.extend(cut),
        }
        let done = Profile { processes, ..arguments.profile.clone() };
        let variants_judged = self.judged(variants, &trials, &counts, &done, each, &mut notes);
        notes.extend(self.hardly_anything(variants, &variants_judged));
        notes.extend(self.short_batches(variants, &variants_judged, &taken)?);
        notes.extend(self.elsewhere(variants, &variants_judged));
        let strips = self.strips(variants, &variants_judged, &trials);
        let counts = table::table(&self.name, &counts);
        let whole =
            store::write(self, variants, &arguments.profile, &before, &taken, &counts, (&place, &running));
        let samples = whole.as_ref().map_or(String::new(), |whole| whole.display().to_string());
        let report =
            Report { bench: self.title.clone(), measured, variants: variants_judged, notes, samples };
        self.show(&report, &strips, arguments);
        let picture = whole?.join(format!("{}.svg", self.name));
        fs::write(&picture, plot::svg(&self.title, &strips)).map_err(at(&picture))?;
        report.keep(&place, &running)?;
        if asked.is_some() {
            drop(running);
            exit(status(asked));
        }
        Ok(())
    }

    /// Prints the report, and hands it to the bench's own code.
    fn show(&self, report: &Report, strips: &[Strip], arguments: &Arguments) {
        println!("{}", arguments.format.table(report));
        if arguments.plot {
            let drawn = plot::text(strips);
            match arguments.format {
                Format::Markdown => println!("\n```text\n{drawn}```"), // a part of the document
                _ => eprint!("\n{drawn}"),
            }
        }
        if let Some(hand_over) = self.on_report.take() {
            hand_over(report);
        }
    }

    /// What is said of variants whose iterations do hardly anything.
    fn hardly_anything(&self, variants: &[Variant], lines: &[VariantReport]) -> Vec<String> {
        let floor = caution::floor();
        let said = |(variant, line): (&Variant, &VariantReport)| {
            let units = self.declared[variant.declared].settings.units as f64;
            caution::hardly_anything(&line.name(), line.time_ns * units, floor)
        };
        variants.iter().zip(lines).filter(|(variant, _)| !variant.control).filter_map(said).collect()
    }

    /// What is said of variants with inputs of their own, too few of whose iterations are timed at once.
    fn short_batches(
        &self,
        variants: &[Variant],
        lines: &[VariantReport],
        taken: &Taken,
    ) -> Result<Vec<String>, String> {
        let mut told = vec![];
        for (Variant { key, declared, control, .. }, line) in variants.iter().zip(lines) {
            let declared = &self.declared[*declared];
            if *control || declared.by.get() != "iter_with" {
                continue;
            }
            let of_key = |row: &&Vec<String>| Key::new(&row[1], &row[2], &row[3]) == *key;
            let rows = rows(taken)?;
            let iterations = rows.iter().filter(of_key).filter_map(|row| row[7].parse().ok());
            let at_once = median(&mut iterations.collect::<Vec<f64>>()).min(BATCH as f64) as u64;
            let ns = line.time_ns * declared.settings.units as f64;
            told.extend(caution::short_batch(&line.name(), ns, at_once));
        }
        Ok(told)
    }

    /// What is said of variants whose tasks run on another thread, unless they use several.
    fn elsewhere(&self, variants: &[Variant], lines: &[VariantReport]) -> Vec<String> {
        let of = |(variant, line): (&Variant, &VariantReport)| {
            let is = self.declared[variant.declared].elsewhere.get() && !self.settings(variant).threads;
            (is && !variant.control).then(|| caution::elsewhere(&line.name()))
        };
        variants.iter().zip(lines).filter_map(of).collect()
    }

    fn strips(&self, variants: &[Variant], lines: &[VariantReport], trials: &Trials) -> Vec<Strip> {
        let strip = |(variant, line): (&Variant, &VariantReport)| {
            let pair = self.pair(variants, variant)?;
            let verdict = if variant.control { None } else { line.verdict.as_deref() };
            let ratio = line.ratio.map(|[ratio, ..]| format!("{ratio:.3}"));
            Some(Strip {
                name: line.name(),
                control: variant.control,
                said: [ratio.as_deref(), verdict].into_iter().flatten().collect::<Vec<_>>().join(" "),
                tolerance: self.settings(variant).tolerance,
                ratio: line.ratio,
                processes: plot::by_process(&pair, trials),
            })
        };
        variants.iter().zip(lines).filter_map(strip).collect()
    }
}

/// What link orders are drawn from; else why they are not.
fn linked(
    arguments: &Arguments,
    places: &Places,
    place: &Path,
    running: &Running,
    progress: &mut Progress,
) -> Result<Linked, String> {
    if !arguments.profile.concludes {
        return Err("--quick".to_owned()); // compiling once more takes longer than the look
    }
    if !arguments.layouts {
        return Err("--no-layouts".to_owned());
    }
    progress.say("compiling once more, for link orders");
    layouts::prepare(places, place, running)
}

fn neighbours(variants: &[Variant]) -> Vec<Vec<usize>> {
    let pairs = variants.iter().enumerate().filter_map(|(at, variant)| Some((at, variant.baseline?)));
    rounds::neighbours(variants.len(), pairs)
}

/// The samples of all processes that were whole when a signal asked for the end, or of all that fit into the budget.
fn rounds_of(
    mut episode: Episode,
    plan: &Plan,
    places: &Places,
    pin: Option<usize>,
    linked: Option<&Linked>,
    caught: &Caught,
    progress: &mut Progress,
) -> Result<(Taken, Option<Asked>), String> {
    let Episode { seed, samples, .. } = episode;
    let mut taken = Taken { seed, rows: String::new(), processes: Vec::new(), rounds: 0, samples };
    let start = Instant::now();
    loop {
        let done = taken.processes.len() as u32;
        let Some(rounds) = plan.next(done, taken.rounds, start.elapsed()) else { return Ok((taken, None)) };
        let left = plan.left(done, start.elapsed());
        let began = Instant::now();
        let mut say = || {
            let left = left.map(|left| left.saturating_sub(began.elapsed()));
            progress.say(&progress::step("process", done, plan.processes, left));
        };
        say();
        (episode.first, episode.until) = (taken.rounds, taken.rounds + rounds);
        let drawn = linked.map(|linked| {
            let layout = link::order(done);
            linked.draw(layout).map(|program| (layout, program))
        });
        let drawn = match (drawn.transpose(), caught.asked()) {
            (Err(_), Some(asked)) => return Ok((taken, Some(asked))), // Ctrl-C ends the linker
            (drawn, _) => drawn?,
        };
        let started = Utc::now();
        let program = drawn.as_ref().map_or(&places.program, |(_, program)| program);
        let rows = episode.run(program, places, pin, caught, &mut say);
        if let Some((_, program)) = &drawn {
            let _ = fs::remove_file(program);
        }
        let rows = match rows {
            Ok(rows) => rows,
            Err(End::Asked(asked)) => return Ok((taken, Some(asked))),
            Err(End::Failed(why)) => return Err(why),
        };
        let last = rows.lines().last().and_then(|line| line.rsplit(',').nth(4)?.parse::<u32>().ok());
        let layout = drawn.map(|(layout, _)| layout);
        taken.processes.push(Process { first: episode.first, started, ended: Utc::now(), layout });
        if last != Some(episode.until - 1) {
            return Err("a process wrote incomplete samples".to_owned());
        }
        taken.rounds = episode.until;
        taken.rows += &rows;
    }
}

/// The status of a program that a signal has ended.
fn status(asked: Option<Asked>) -> i32 {
    asked.map_or(0, Asked::status).into()
}

/// The work of the baselines.
fn work<W: Debug>(proved: &Proved<W>) -> u64 {
    fingerprint(proved.iter().flatten().map(|work| format!("{work:?}")))
}

fn rows(taken: &Taken) -> Result<Vec<Vec<String>>, String> {
    csv::rows(&format!("{}\n{}", store::TIMES, taken.rows), store::TIMES)
        .ok_or_else(|| "a process wrote incomplete samples".to_owned())
}

/// The trials of each key: the median of its samples.
fn trials(taken: &Taken) -> Result<Trials, String> {
    let rows = rows(taken)?;
    let mut found: HashMap<Key, BTreeMap<u32, Vec<f64>>> = HashMap::new();
    for row in rows {
        let number =
            |column: usize| row[column].parse::<f64>().map_err(|_| "a process wrote incomplete samples");
        let key = Key::new(&row[1], &row[2], &row[3]);
        found.entry(key).or_default().entry(number(4)? as u32).or_default().push(number(8)? / number(7)?);
    }
    let process = |round: u32| taken.processes.partition_point(|process| process.first <= round) as u32 - 1;
    let time = |(round, mut samples): (u32, Vec<f64>)| {
        (round, Time { episode: process(round), ns: median(&mut samples) })
    };
    Ok(found.into_iter().map(|(key, rounds)| (key, rounds.into_iter().map(time).collect())).collect())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn a_report_is_handed_over_once() {
        let handed = RefCell::new(vec![]);
        let note = |report: &Report| handed.borrow_mut().push(report.notes.clone());
        let bench: Bench<'_, u64> = Bench::new("b").on_report(note);
        let arguments = Arguments::of([]).expect("understood");
        for note in ["first", "second"] {
            let [title, measured, samples] = ["b", "1 process", "target"].map(str::to_owned);
            let notes = vec![note.to_owned()];
            let report = Report { bench: title, measured, variants: vec![], notes, samples };
            bench.show(&report, &[], &arguments);
        }
        assert_eq!(*handed.borrow(), [["first"]]);
    }
}
