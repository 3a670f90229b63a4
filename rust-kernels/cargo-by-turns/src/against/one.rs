//! One program of benches: built for both sides, counted and measured.

use std::fs;
use std::path::Path;
use std::time::Duration;

use by_turns_core::count::table::Count;
use by_turns_core::run::budget::{Plan, Profile};
use by_turns_core::run::files::Running;
use by_turns_core::run::process::{Asked, Caught};
use by_turns_core::run::progress::Progress;
use by_turns_core::run::protocol::{Answer, Offer, Request};

use crate::against::alike::alike;
use crate::against::arguments::Arguments;
use crate::against::base::Prepared;
use crate::against::build::{self, Built};
use crate::against::package::{Bench, Package};
use crate::against::peer::Peer;
use crate::against::report::{self, Report};
use crate::against::turns::{self, Measuring, Sides, Taken};
use crate::against::{judged, samples};

/// What is said in place of a table.
const IDENTICAL: &str = "identical programs: nothing to measure";

/// The program, and what it is compared by.
pub struct One<'a> {
    pub arguments: &'a Arguments,
    pub today: &'a Package,
    pub base: &'a Prepared,
    pub bench: &'a Bench,
    pub home: &'a Path,
    pub running: &'a Running,
}

impl One<'_> {
    /// Adds each bench of the program to the report; returns what a signal asked for.
    ///
    /// # Errors
    /// Why they are not compared.
    pub fn compared(
        &self,
        caught: &Caught,
        progress: &mut Progress,
        report: &mut Report,
    ) -> Result<Option<Asked>, String> {
        let [base, today] = self.built(progress)?;
        if caught.asked().is_some() {
            return Ok(caught.asked());
        }
        let [of_base, of_today] = [&base, &today].map(|built| fs::read(&built.program).unwrap_or_default());
        if alike(&of_base, &of_today) {
            let bench = self.bench.name.clone();
            let measured = IDENTICAL.to_owned();
            report.benches.push(report::Bench {
                bench,
                measured,
                identical: true,
                ..report::Bench::default()
            });
            return Ok(None);
        }
        let Arguments { filters, pin, limit, .. } = self.arguments;
        let sides = Sides {
            built: [&base, &today],
            packages: [&self.base.package, self.today],
            filters,
            pin: *pin,
            limit: *limit,
            folder: &self.running.folder,
        };
        let mut probes = [sides.probe(0)?, sides.probe(1)?];
        for at in 0.. {
            let Some(offers) = offered(&mut probes, at)? else {
                if at == 0 {
                    return Err(
                        "neither side offers anything: it uses no by-turns, or no variant matches".into()
                    );
                }
                break;
            };
            let asked = self.measured(&sides, &mut probes, &offers, at, caught, progress, report)?;
            if asked.is_some() {
                return Ok(asked);
            }
        }
        Ok(None)
    }

    fn built(&self, progress: &mut Progress) -> Result<[Built; 2], String> {
        let (arguments, name) = (self.arguments, &self.bench.name);
        let folder = |side: &str| self.running.folder.join(side);
        progress.say(&format!("compiling {name} of today"));
        let today = build::built(arguments, self.today, name, false, &self.today.target, &folder("today"));
        let today = today.map_err(|why| format!("today does not compile:\n{why}"))?;
        progress.say(&format!("compiling {name} of the base"));
        let base =
            build::built(arguments, &self.base.package, name, true, &self.base.target, &folder("base"));
        let base = base.map_err(|why| {
            format!(
                "the base does not compile with today's bench; if its interface differed, write what it needs under \
                 #[cfg(by_turns_base)]:\n{why}"
            )
        })?;
        Ok([base, today])
    }

    /// Counts and measures one bench.
    #[allow(clippy::too_many_arguments)]
    fn measured(
        &self,
        sides: &Sides<'_>,
        probes: &mut [Peer; 2],
        offers: &[Offer; 2],
        at: usize,
        caught: &Caught,
        progress: &mut Progress,
        report: &mut Report,
    ) -> Result<Option<Asked>, String> {
        let offers = [&offers[0], &offers[1]];
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
        let plan = self.plan(offers, common.len());
        progress.say(&format!("counting {bench}"));
        let mut notes = vec![];
        let no_valgrind = plan.no_valgrind(common.len());
        let [base, today] = probes;
        let counts =
            [counts(base, no_valgrind.clone(), &mut notes)?, counts(today, no_valgrind, &mut notes)?];
        let measuring = Measuring { sides, at, common: &common, offers, plan: &plan };
        let taken = measuring.taken(caught, progress)?;
        let asked = taken.asked;
        if !taken.pairs.is_empty() {
            report.benches.push(self.reported(&measuring, &taken, &counts, notes)?);
        }
        Ok(asked)
    }

    /// How much is measured of a bench with so many variants on both sides.
    fn plan(&self, offers: [&Offer; 2], variants: usize) -> Plan {
        let profile = Profile { processes: self.arguments.pairs, ..Profile::STANDARD };
        let longest = |of: fn(&Offer) -> Duration| offers.map(of).into_iter().max().expect("two");
        let (call, set_up) = (longest(|offer| offer.call), longest(|offer| offer.set_up));
        Plan::new(&profile, self.arguments.budget, 3 * variants, call, set_up)
    }

    /// Judges what was measured, and keeps its samples.
    fn reported(
        &self,
        measured: &Measuring<'_>,
        taken: &Taken,
        counts: &[Vec<Count>; 2],
        mut notes: Vec<String>,
    ) -> Result<report::Bench, String> {
        let Measuring { sides, offers, common, plan, .. } = measured;
        let pairs = taken.pairs.len();
        match taken.asked {
            Some(_) => notes.push(format!("interrupted after {pairs} of {} pairs", plan.processes)),
            None => {
                let cut = plan.cut(pairs as u32, taken.rounds, taken.elapsed);
                notes.extend(cut.map(|cut| cut.replace("processes", "pairs")));
            }
        }
        let not_drawn = sides.built.iter().find_map(|built| built.linked.as_ref().err());
        notes.extend(not_drawn.map(|why| {
            format!(
                "link orders were not drawn ({why}): the same change in another build may differ by some per cent more than \
                 the intervals say"
            )
        }));
        let bench = &offers[1].bench;
        let lines = judged::lines(bench, common, taken, [&counts[0], &counts[1]], &self.arguments.allowed);
        let place = self.home.join("samples");
        let samples = samples::write(&place, &self.base.shown, offers[1], common, taken)?;
        let orders = if not_drawn.is_none() { ", each with link orders of its own" } else { "" };
        Ok(report::Bench {
            bench: bench.clone(),
            measured: format!("{pairs} pairs{orders}, {} rounds", taken.rounds),
            lines,
            notes,
            identical: false,
            samples: Some(samples.display().to_string()),
        })
    }
}

/// What both sides offer as their bench of this number; none if there are fewer.
fn offered(probes: &mut [Peer; 2], at: usize) -> Result<Option<[Offer; 2]>, String> {
    let [base, today] = probes;
    match [base, today].map(|probe| probe.offer(at.min(1), false)) {
        [Err(why), _] | [_, Err(why)] => Err(why),
        [Ok(None), Ok(None)] => Ok(None),
        [Ok(Some(base)), Ok(Some(today))] if base.name == today.name => Ok(Some([base, today])),
        [Ok(base), Ok(today)] => {
            let name = |offer: Option<Offer>| offer.map_or("none".to_owned(), |offer| offer.bench);
            let (base, today) = (name(base), name(today));
            Err(format!("the sides offer other benches: the base {base}, today {today}"))
        }
    }
}

/// What is exact, of one side.
fn counts(
    probe: &mut Peer,
    no_valgrind: Option<String>,
    notes: &mut Vec<String>,
) -> Result<Vec<Count>, String> {
    let Answer::Counted { counts, left_out, failed } = probe.ask(&Request::Count { no_valgrind })? else {
        return Err("a side answered something else than counts".to_owned());
    };
    for why in left_out.into_iter().chain(failed) {
        // Said once, of both.
        if !notes.contains(&why) {
            notes.push(why);
        }
    }
    Ok(counts)
}
