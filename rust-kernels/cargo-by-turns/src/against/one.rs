//! One program of benches: built for both sides, counted and measured.

use std::fs;
use std::path::Path;
use std::time::Duration;

use by_turns_core::count::table::Count;
use by_turns_core::run::budget::{Plan, Profile};
use by_turns_core::run::files::{Running, at};
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
use crate::against::turns::{self, Common, Measuring, Sides, Taken};
use crate::against::{judged, samples};

/// What is said in place of a table.
const IDENTICAL: &str = "identical programs: no times to measure";

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
        let program = |built: &Built| fs::read(&built.program).map_err(at(&built.program));
        let identical = alike(&program(&base)?, &program(&today)?);
        let Arguments { filters, pin, limit, budget, .. } = self.arguments;
        let sides = Sides {
            built: [&base, &today],
            packages: [&self.base.package, self.today],
            filters,
            pin: *pin,
            limit: *limit,
            budget: self.profile().time(*budget),
            folder: &self.running.folder,
        };
        for at in 0.. {
            let mut probes = [sides.probe(0)?, sides.probe(1)?];
            let Some(offers) = offered(&mut probes, at)? else {
                if at == 0 {
                    return Err(
                        "neither side offers anything: it uses no by-turns, or no variant matches".into()
                    );
                }
                break;
            };
            let asked = self.measured(&sides, probes, &offers, at, identical, caught, progress, report)?;
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

    /// Counts one bench and measures it, unless both programs are identical and count alike: what they read may differ.
    #[allow(clippy::too_many_arguments)]
    fn measured(
        &self,
        sides: &Sides<'_>,
        mut probes: [Peer; 2],
        offers: &[Offer; 2],
        at: usize,
        identical: bool,
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
        let again = |side: usize| {
            let offer = sides.probe(side)?.offer(at, true)?;
            offer.ok_or_else(|| format!("{bench}: it is not offered once more"))
        };
        turns::equal_work(offers[0], offers[1], &common, &mut || Ok([again(0)?, again(1)?]))?;
        let plan = self.plan(offers, common.len());
        progress.say(&format!("counting {bench}"));
        let no_valgrind = plan.no_valgrind(common.len());
        let (mut counts, mut notes) = ([vec![], vec![]], vec![]);
        for Common { numbers, .. } in &common {
            for (side, probe) in probes.iter_mut().enumerate() {
                let (counted, failed) = counted(probe, numbers[side], no_valgrind.clone(), &mut notes)?;
                counts[side].extend(counted);
                for why in failed.into_iter().map(|why| format!("{bench}: {why}")) {
                    // Said once, of both.
                    if !report.not_compared.contains(&why) {
                        report.not_compared.push(why);
                    }
                }
            }
        }
        drop(probes); // no other process is there when times are measured
        let measuring = Measuring { sides, at, common: &common, offers, plan: &plan };
        let reported = if identical && counts[0] == counts[1] {
            self.identical(&measuring, &counts, notes)
        } else {
            let taken = measuring.taken(caught, progress)?;
            report.asked = taken.asked;
            if taken.pairs.is_empty() {
                return Ok(taken.asked);
            }
            self.reported(&measuring, &taken, &counts, notes)?
        };
        for line in &reported.lines {
            let lost = |counter: &String| {
                format!(
                    "{bench}: {} of {} are counted in the base only",
                    counter.replace('_', " "),
                    line.name
                )
            };
            report.not_compared.extend(line.lost.iter().map(lost));
        }
        if self.arguments.gate_time && !reported.orders && !reported.identical {
            report.not_compared.push(format!("{bench}: times, since link orders were not drawn"));
        }
        report.benches.push(reported);
        Ok(report.asked)
    }

    fn profile(&self) -> Profile {
        Profile { processes: self.arguments.pairs, ..Profile::STANDARD }
    }

    /// How much is measured of a bench with so many variants on both sides.
    fn plan(&self, offers: [&Offer; 2], variants: usize) -> Plan {
        let longest = |of: fn(&Offer) -> Duration| offers.map(of).into_iter().max().expect("two");
        let (call, set_up) = (longest(|offer| offer.call), longest(|offer| offer.set_up));
        Plan::new(&self.profile(), self.arguments.budget, 3 * variants, call, set_up)
    }

    /// Judges counts alone.
    fn identical(
        &self,
        measured: &Measuring<'_>,
        counts: &[Vec<Count>; 2],
        notes: Vec<String>,
    ) -> report::Bench {
        let bench = &measured.offers[1].bench;
        let (taken, allowed) = (Taken::default(), &self.arguments.allowed);
        let mut lines = judged::lines(bench, measured.common, &taken, [&counts[0], &counts[1]], allowed);
        lines.iter_mut().for_each(|line| line.reason = None);
        let measured = IDENTICAL.to_owned();
        report::Bench {
            bench: bench.clone(),
            measured,
            lines,
            notes,
            identical: true,
            ..report::Bench::default()
        }
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
            orders: not_drawn.is_none(),
            samples: Some(samples.display().to_string()),
        })
    }
}

/// What both sides offer as their bench of this number; none if there are fewer.
fn offered(probes: &mut [Peer; 2], at: usize) -> Result<Option<[Offer; 2]>, String> {
    let [base, today] = probes;
    match [base, today].map(|probe| probe.offer(at, false)) {
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

/// What is exact of a variant, and why something of it could not be counted. What is left out is noted.
fn counted(
    probe: &mut Peer,
    variant: usize,
    no_valgrind: Option<String>,
    notes: &mut Vec<String>,
) -> Result<(Vec<Count>, Vec<String>), String> {
    let request = Request::Count { variant, no_valgrind };
    let Answer::Counted { counts, left_out, failed } = probe.ask(&request)? else {
        return Err("a side answered something else than counts".to_owned());
    };
    for why in left_out {
        if !notes.contains(&why) {
            notes.push(why);
        }
    }
    Ok((counts, failed))
}
