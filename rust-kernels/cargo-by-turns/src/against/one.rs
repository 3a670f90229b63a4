//! One program of benches: built for both sides, counted and measured.

use std::fs;
use std::path::Path;
use std::time::Duration;

use by_turns_core::base::key::Key;
use by_turns_core::count::table::Count;
use by_turns_core::run::budget::{Plan, Profile};
use by_turns_core::run::disturbed::Watch;
use by_turns_core::run::files::{Running, at};
use by_turns_core::run::process::Caught;
use by_turns_core::run::progress::Progress;
use by_turns_core::run::protocol::{Answer, Offer, Request};

use crate::against::alike::alike;
use crate::against::arguments::Arguments;
use crate::against::base::Prepared;
use crate::against::build::{self, Built};
use crate::against::package::{Bench, Package};
use crate::against::peer::Peer;
use crate::against::report::{self, Report};
use crate::against::turns::{self, Common, Measuring, Place, SIDES, Sides, Taken};
use crate::against::{judged, samples};

/// What is said in place of a table.
const IDENTICAL: &str = "identical programs: no times to measure";

/// So often at most a base that counts otherwise than today's identical program is counted again: one that varies may count the
/// same by chance.
const AGAIN: usize = 4;

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
    /// Adds each bench of the program to the report, unless a signal ends it; returns the names of all variants, as filters
    /// match them.
    ///
    /// # Errors
    /// Why they are not compared.
    pub fn compared(
        &self,
        caught: &Caught,
        progress: &mut Progress,
        report: &mut Report,
    ) -> Result<Vec<String>, String> {
        let mut names = vec![];
        let Some([base, today]) = self.built(caught, progress, report)? else { return Ok(names) };
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
        let listed = [sides.probe(0)?.offers()?, sides.probe(1)?.offers()?];
        if listed.iter().all(Vec::is_empty) && filters.is_empty() {
            return Err("neither side offers anything: it uses no by-turns".to_owned());
        }
        for Offer { bench, variants, .. } in listed.iter().flatten() {
            names.extend(variants.iter().map(|of| Key::new(bench, &of.variant, &of.load).to_string()));
        }
        for numbers in turns::matched_benches(&listed[0], &listed[1]) {
            match numbers {
                [Some(base), Some(today)] => {
                    self.measured(
                        &sides,
                        Place { listed: &listed, at: [base, today] },
                        identical,
                        caught,
                        progress,
                        report,
                    )?;
                }
                [Some(only), None] => {
                    report.one_sided.push(format!("{} exists in the base only", listed[0][only].bench));
                }
                [None, today] => {
                    let only = today.map(|only| &listed[1][only].bench).expect("one of both");
                    report.one_sided.push(format!("{only} exists today only"));
                }
            }
            if caught.asked().is_some() {
                break;
            }
        }
        Ok(names)
    }

    /// Both programs; none if a signal asked for the end, or if the base does not compile a bench that is new.
    fn built(
        &self,
        caught: &Caught,
        progress: &mut Progress,
        report: &mut Report,
    ) -> Result<Option<[Built; 2]>, String> {
        let (arguments, name) = (self.arguments, &self.bench.name);
        let folder = |side: &str| self.running.folder.join(side);
        progress.say(&format!("compiling {name} of today"));
        let today = build::built(arguments, self.today, name, false, &self.today.target, &folder("today"));
        let today = today.map_err(|why| format!("today does not compile:\n{why}"))?;
        if caught.asked().is_some() {
            return Ok(None);
        }
        progress.say(&format!("compiling {name} of the base"));
        match build::built(arguments, &self.base.package, name, true, &self.base.target, &folder("base")) {
            _ if caught.asked().is_some() => Ok(None),
            Ok(base) => Ok(Some([base, today])),
            Err(why) if self.base.new.contains(name) => {
                let only = "exists today only, and the base does not compile it";
                report.one_sided.push(format!("bench {name} {only}:\n{why}"));
                Ok(None)
            }
            Err(why) => Err(format!(
                "the base does not compile with today's bench; if its interface differed, write what it needs under \
                 #[cfg(by_turns_base)]:\n{why}"
            )),
        }
    }

    /// Counts one bench and measures it, unless both programs are identical and count alike: what they read may differ.
    fn measured(
        &self,
        sides: &Sides<'_>,
        place: Place<'_>,
        identical: bool,
        caught: &Caught,
        progress: &mut Progress,
        report: &mut Report,
    ) -> Result<(), String> {
        let proved = |side: usize, brief: bool| {
            let mut probe = sides.probe(side)?;
            let offer = probe.offer(place.at[side], brief)?;
            let offer = offer.ok_or_else(|| format!("{}: a bench is not offered once more", SIDES[side]))?;
            Ok::<_, String>((probe, offer))
        };
        let ((base, of_base), (today, of_today)) = (proved(0, false)?, proved(1, false)?);
        let (mut probes, offers) = ([base, today], [&of_base, &of_today]);
        let (common, one_sided) = turns::matched(offers[0], offers[1]);
        let bench = &offers[1].bench;
        for (names, side) in one_sided.iter().zip(["in the base only", "today only"]) {
            let lost = |name: &String| format!("{bench}: {name} exists {side}");
            report.one_sided.extend(names.iter().map(lost));
        }
        if common.is_empty() {
            return Ok(());
        }
        turns::equal_work(offers[0], offers[1], &common, &mut || {
            Ok([proved(0, true)?.1, proved(1, true)?.1])
        })?;
        let plan = self.plan(offers, common.len());
        progress.say(&format!("counting {bench}"));
        let no_valgrind = plan.no_valgrind(common.len());
        let (mut counts, mut notes, mut not_counted) = ([vec![], vec![]], vec![], vec![]);
        for Common { numbers, .. } in &common {
            for (side, probe) in probes.iter_mut().enumerate() {
                let (counted, failed) = counted(probe, numbers[side], no_valgrind.clone(), &mut notes)?;
                counts[side].extend(counted);
                for why in failed.into_iter().map(|why| format!("{bench}: {why}")) {
                    // Said once, of both.
                    if !not_counted.contains(&why) {
                        not_counted.push(why);
                    }
                }
            }
        }
        if caught.asked().is_some() {
            return Ok(());
        }
        report.not_compared.extend(not_counted);
        // Identical programs may count otherwise because they read something else, or as a `HashMap` does, which is another one in
        // each process.
        let mut varies = false;
        for _ in 0..if identical && counts[0] != counts[1] { AGAIN } else { 0 } {
            let mut again = vec![];
            for Common { numbers, .. } in &common {
                again.extend(counted(&mut probes[0], numbers[0], no_valgrind.clone(), &mut notes)?.0);
            }
            varies = again != counts[0];
            if varies || caught.asked().is_some() {
                break;
            }
        }
        if caught.asked().is_some() {
            return Ok(());
        }
        drop(probes); // no other process is there when times are measured
        let measuring = Measuring { sides, place, common: &common, plan: &plan };
        let reported = if identical && (counts[0] == counts[1] || varies) {
            self.identical(&measuring, &counts, varies, notes)
        } else {
            let watch = Watch::begin();
            let taken = measuring.taken(caught, progress)?;
            if taken.pairs.is_empty() {
                return Ok(());
            }
            notes.extend(watch.told(taken.met));
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
        Ok(())
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

    /// Judges counts alone, unless they vary among processes of one program.
    fn identical(
        &self,
        measured: &Measuring<'_>,
        counts: &[Vec<Count>; 2],
        varies: bool,
        mut notes: Vec<String>,
    ) -> report::Bench {
        let bench = &measured.place.offer().bench;
        let (taken, allowed) = (Taken::default(), &self.arguments.allowed);
        let mut lines = judged::lines(bench, measured.common, &taken, [&counts[0], &counts[1]], allowed);
        lines.iter_mut().for_each(|line| line.reason = None);
        if varies {
            lines.iter_mut().for_each(|line| line.grown.clear());
            notes.push("counts of the base vary from process to process, as of a HashMap".to_owned());
        }
        let measured = IDENTICAL.to_owned();
        report::Bench {
            bench: bench.clone(),
            target: self.bench.name.clone(),
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
        let Measuring { sides, common, plan, .. } = measured;
        let pairs = taken.pairs.len();
        match taken.asked {
            Some(_) => notes.push(format!("interrupted after {pairs} of {} pairs", plan.processes)),
            None => {
                notes.extend(plan.cut("pairs", pairs as u32, taken.rounds, taken.elapsed));
            }
        }
        let not_drawn = sides.built.iter().find_map(|built| built.linked.as_ref().err());
        notes.extend(not_drawn.map(|why| {
            format!(
                "link orders were not drawn ({why}): the same change in another build may differ by some per cent more than \
                 the intervals say"
            )
        }));
        let bench = &measured.place.offer().bench;
        let lines = judged::lines(bench, common, taken, [&counts[0], &counts[1]], &self.arguments.allowed);
        let place = self.home.join("samples");
        let samples = samples::write(&place, &self.base.shown, measured.place.offer(), common, taken)?;
        let orders = if not_drawn.is_none() { ", each with link orders of its own" } else { "" };
        Ok(report::Bench {
            bench: bench.clone(),
            target: self.bench.name.clone(),
            measured: format!("{pairs} pairs{orders}, {} rounds", taken.rounds),
            lines,
            notes,
            identical: false,
            orders: not_drawn.is_none(),
            samples: Some(samples.display().to_string()),
        })
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
