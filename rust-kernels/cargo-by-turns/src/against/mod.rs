//! From arguments to a report.

mod arguments;
mod base;
mod build;
mod judged;
mod lock;
mod manifest;
mod package;
mod peer;
mod report;
mod samples;
mod turns;

use std::fs;
use std::path::Path;

use by_turns_core::base::lock::held;
use by_turns_core::count::table::Count;
use by_turns_core::run::budget::{Plan, Profile};
use by_turns_core::run::files::{Running, at};
use by_turns_core::run::process::{Asked, Caught, end_with_cargo, parent};
use by_turns_core::run::progress::Progress;
use by_turns_core::run::protocol::{Answer, Offer, Request};

use arguments::{Arguments, HELP};
use base::Prepared;
use build::Built;
use package::{Bench, Package};
use peer::Peer;
use report::Report;
use turns::{Common, Measuring, Side};

/// Does what the arguments ask for, and returns the exit status.
///
/// # Errors
/// Why nothing could be compared.
pub fn run(words: impl IntoIterator<Item = String>) -> Result<u8, String> {
    let Some(arguments) = Arguments::of(words)? else {
        println!("{HELP}");
        return Ok(0);
    };
    end_with_cargo(parent());
    let manifest = arguments.manifest.as_ref().map(Path::new);
    let today = Package::find(manifest, arguments.package.as_deref())?;
    let benches = chosen(&today, &arguments.benches)?;
    let home = today.target.join("by-turns").join("against");
    fs::create_dir_all(&home).map_err(at(&home))?;
    let _alone = held(&home); // the folder of a base is one, however many ask for it
    let mut progress = Progress::of("by-turns", arguments.quiet);
    progress.say("preparing the base");
    let base = base::prepared(&arguments, &today, &benches, &home)?;
    let mut report = Report {
        against: arguments.against.clone(),
        base: base.shown.clone(),
        gate_time: arguments.gate_time,
        ..Report::default()
    };
    for bench in &base.gone {
        report.not_compared.push(format!("bench {bench} exists in the base only"));
    }
    let caught = Caught::begin();
    let mut asked = None;
    for bench in benches {
        let running = Running::begin(&home)?;
        let one =
            One { arguments: &arguments, today: &today, base: &base, bench, home: &home, running: &running };
        match one.compared(&caught, &mut progress, &mut report) {
            Ok(ended) => asked = ended,
            Err(why) => report.not_compared.push(format!("bench {}: {why}", bench.name)),
        }
        asked = asked.or(caught.asked());
        if asked.is_some() {
            break;
        }
    }
    let texts = [&base.package, &today].map(|side| fs::read_to_string(side.lock()).unwrap_or_default());
    report.locks = lock::differences(&texts[0], &texts[1]);
    drop(progress);
    match arguments.json {
        true => println!("{:#}", report.json()),
        false => println!("{}", report.markdown()),
    }
    Ok(match asked {
        None => report.status(),
        Some(Asked::Interrupt) => 130,
        Some(Asked::Terminate) => 143,
    })
}

/// The benches of these names, or all that use by-turns.
fn chosen<'a>(today: &'a Package, names: &[String]) -> Result<Vec<&'a Bench>, String> {
    if let Some(name) = names.iter().find(|name| !today.benches.iter().any(|bench| bench.name == **name)) {
        let known: Vec<&str> = today.benches.iter().map(|bench| bench.name.as_str()).collect();
        return Err(format!("{} has no bench {name}; it has {}", today.name, known.join(", ")));
    }
    let uses = |bench: &Bench| fs::read_to_string(&bench.source).is_ok_and(|text| text.contains("by_turns"));
    let chosen = |bench: &&Bench| if names.is_empty() { uses(bench) } else { names.contains(&bench.name) };
    let found: Vec<&Bench> = today.benches.iter().filter(chosen).collect();
    if found.is_empty() { Err(format!("{} has no bench that uses by-turns", today.name)) } else { Ok(found) }
}

/// A program of benches that is compared.
struct One<'a> {
    arguments: &'a Arguments,
    today: &'a Package,
    base: &'a Prepared,
    bench: &'a Bench,
    home: &'a Path,
    running: &'a Running,
}

impl One<'_> {
    /// Adds each bench of the program to the report; returns what a signal asked for.
    fn compared(
        &self,
        caught: &Caught,
        progress: &mut Progress,
        report: &mut Report,
    ) -> Result<Option<Asked>, String> {
        let (arguments, name) = (self.arguments, &self.bench.name);
        let folder = |side: &str| self.running.folder.join(side);
        progress.say(&format!("compiling {name} of today"));
        let today = build::built(arguments, self.today, name, false, &self.today.target, &folder("today"))
            .map_err(|why| format!("today does not compile:\n{why}"))?;
        progress.say(&format!("compiling {name} of the base"));
        let base =
            build::built(arguments, &self.base.package, name, true, &self.base.target, &folder("base"))
                .map_err(|why| {
                    format!(
                        "the base does not compile with today's bench; if its interface differed, write what it needs under \
                         #[cfg(by_turns_base)]:\n{why}"
                    )
                })?;
        if caught.asked().is_some() {
            return Ok(caught.asked());
        }
        for at in 0.. {
            let Some([of_base, of_today]) = self.offers([&base, &today], at)? else {
                if at == 0 {
                    return Err(
                        "neither side offers anything: it uses no by-turns, or no variant matches".to_owned()
                    );
                }
                break;
            };
            progress.say(&format!("counting {}", of_today.bench));
            let asked =
                self.measured([&base, &today], [&of_base, &of_today], at, caught, progress, report)?;
            if asked.is_some() {
                return Ok(asked);
            }
        }
        Ok(None)
    }

    fn sides<'s>(&'s self, [base, today]: [&'s Built; 2]) -> [Side<'s>; 2] {
        [Side { built: base, package: &self.base.package }, Side { built: today, package: self.today }]
    }

    /// What both sides offer as their bench of this number; none if there are fewer.
    fn offers(&self, built: [&Built; 2], at: usize) -> Result<Option<[Offer; 2]>, String> {
        let mut offers = vec![];
        for (number, name) in ["base", "today"].into_iter().enumerate() {
            offers.push(self.probe(built, number, name)?.offer(at)?);
        }
        match <[Option<Offer>; 2]>::try_from(offers).expect("two") {
            [None, None] => Ok(None),
            [Some(base), Some(today)] if base.name == today.name => Ok(Some([base, today])),
            [base, today] => {
                let name = |offer: Option<Offer>| offer.map_or("none".to_owned(), |offer| offer.bench);
                let (base, today) = (name(base), name(today));
                Err(format!("the sides offer other benches: the base {base}, today {today}"))
            }
        }
    }

    /// A process of the program as cargo has linked it.
    fn probe(&self, built: [&Built; 2], number: usize, name: &'static str) -> Result<Peer, String> {
        let plan = Plan::new(&self.profile(), None, 1, Default::default(), Default::default());
        let sides = self.sides(built);
        let (common, offers) = (&[], [&NOTHING, &NOTHING]);
        let measuring = self.measuring(sides, 0, common, offers, &plan);
        Peer::start(&built[number].program, &measuring.how(name, number, number))
    }

    fn profile(&self) -> Profile {
        Profile { processes: self.arguments.pairs, ..Profile::STANDARD }
    }

    fn measuring<'m>(
        &'m self,
        sides: [Side<'m>; 2],
        at: usize,
        common: &'m [Common],
        offers: [&'m Offer; 2],
        plan: &'m Plan,
    ) -> Measuring<'m> {
        let Arguments { filters, pin, limit, .. } = self.arguments;
        let folder = &self.running.folder;
        Measuring { sides, at, common, offers, plan, filters, pin: *pin, limit: *limit, folder }
    }

    /// Counts and measures one bench.
    fn measured(
        &self,
        built: [&Built; 2],
        offers: [&Offer; 2],
        at: usize,
        caught: &Caught,
        progress: &mut Progress,
        report: &mut Report,
    ) -> Result<Option<Asked>, String> {
        let (common, one_sided) = turns::matched(offers[0], offers[1]);
        let bench = &offers[1].bench;
        for (names, side) in one_sided.iter().zip(["in the base only", "today only"]) {
            let lost = |name: &String| format!("{bench}: {name} exists {side}");
            report.not_compared.extend(names.iter().map(lost));
        }
        if common.is_empty() {
            return Err("no variant exists on both sides".to_owned());
        }
        turns::equal_work(offers[0], offers[1], &common)?;
        let call = offers[0].call.max(offers[1].call);
        let plan =
            Plan::new(&self.profile(), self.arguments.budget, 3 * common.len(), call, Default::default());
        let mut notes = vec![];
        let no_valgrind = plan.no_valgrind(common.len());
        let mut counts: [Vec<Count>; 2] = Default::default();
        for (number, side) in ["base", "today"].into_iter().enumerate() {
            counts[number] = self.counts(built, number, side, at, no_valgrind.clone(), &mut notes)?;
        }
        let measuring = self.measuring(self.sides(built), at, &common, offers, &plan);
        let taken = measuring.taken(caught, progress)?;
        if taken.pairs.is_empty() {
            return Ok(taken.asked);
        }
        let pairs = taken.pairs.len();
        match taken.asked {
            Some(_) => notes.push(format!("interrupted after {pairs} of {} pairs", plan.processes)),
            None => notes.extend(
                plan.cut(pairs as u32, taken.rounds, taken.elapsed)
                    .map(|cut| cut.replace("processes", "pairs")),
            ),
        }
        notes.extend(self.orders(built));
        let lines = judged::lines(bench, &common, &taken, [&counts[0], &counts[1]], &self.arguments.allowed);
        let samples =
            samples::write(&self.home.join("samples"), &self.base.shown, offers[1], &common, &taken)?;
        let orders = if built.iter().all(|built| built.linked.is_ok()) {
            ", each with link orders of its own"
        } else {
            ""
        };
        report.benches.push(report::Bench {
            bench: bench.clone(),
            measured: format!("{pairs} pairs{orders}, {} rounds", taken.rounds),
            lines,
            notes,
            samples: samples.display().to_string(),
        });
        Ok(taken.asked)
    }

    /// What is exact, of one side.
    fn counts(
        &self,
        built: [&Built; 2],
        number: usize,
        side: &'static str,
        at: usize,
        no_valgrind: Option<String>,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Count>, String> {
        let mut peer = self.probe(built, number, side)?;
        peer.offer(at)?;
        let Answer::Counted { counts, left_out, failed } = peer.ask(&Request::Count { no_valgrind })? else {
            return Err(format!("{side}: it answered something else than counts"));
        };
        for why in left_out.into_iter().chain(failed) {
            // Said once, of both.
            if !notes.contains(&why) {
                notes.push(why);
            }
        }
        Ok(counts)
    }

    /// Why link orders were not drawn.
    fn orders(&self, built: [&Built; 2]) -> Option<String> {
        let why = built.into_iter().find_map(|built| built.linked.as_ref().err())?;
        Some(format!(
            "link orders were not drawn ({why}): the same change in another build may differ by some per cent more than the intervals say"
        ))
    }
}

/// What a process offers of which nothing is known.
static NOTHING: Offer =
    Offer { bench: String::new(), name: String::new(), call: std::time::Duration::ZERO, variants: vec![] };
