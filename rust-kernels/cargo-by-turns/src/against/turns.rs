//! Two sides in living processes, which are told in turn to run a trial of a variant: today, the base, and the base a second time.
//!
//! Each of the three programs of a pair has a link order of its own, and starts a process for each variant: what another variant
//! allocates and frees would change where this one's memory lies, on the side where that other one changed. The three processes
//! of a variant live at the same time; one of them works.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use by_turns_core::base::key::Key;
use by_turns_core::base::random::{self, Random};
use by_turns_core::run::budget::{Plan, TRIAL, WARM_UP};
use by_turns_core::run::link;
use by_turns_core::run::process::{Asked, Caught};
use by_turns_core::run::progress::{self, Progress};
use by_turns_core::run::protocol::{Answer, Offer, Offered, Request};
use by_turns_core::run::work::{fingerprint, shown};
use by_turns_core::trial::undisturbed::Disturbance;

use crate::against::build::Built;
use crate::against::package::Package;
use crate::against::peer::{How, Peer};

/// The sides of a pair, by their numbers. The last is the A/A control.
pub const SIDES: [&str; 3] = ["base", "today", "base again"];

/// Which of the two programs a side runs: that of the base, or today's.
const PROGRAM: [usize; 3] = [0, 1, 0];

/// The base and today, and how their processes are started.
pub struct Sides<'a> {
    pub built: [&'a Built; 2],
    pub packages: [&'a Package; 2],
    pub filters: &'a [String],
    pub pin: Option<usize>,
    pub limit: Duration,
    pub budget: Duration,
    pub folder: &'a Path,
}

impl Sides<'_> {
    /// A process of the program as cargo has linked it, which says what there is.
    pub fn probe(&self, of: usize) -> Result<Peer, String> {
        self.start(&self.built[of].program, of, &format!("probe-{of}"), self.filters)
    }

    fn start(&self, program: &Path, side: usize, name: &str, filters: &[String]) -> Result<Peer, String> {
        let how = How {
            side: SIDES[side],
            package: self.packages[PROGRAM[side]],
            filters,
            pin: self.pin,
            limit: self.limit,
            budget: self.budget,
            errors: self.folder.join(format!("errors-{name}")),
        };
        Peer::start(program, &how)
    }
}

/// What both sides offer.
#[derive(Clone, Debug)]
pub struct Common {
    /// As today offers it.
    pub offered: Offered,
    /// Its number in the base, and today.
    pub numbers: [usize; 2],
}

/// What is common to both, and the names of variants that only the base has, and that only today has.
pub fn matched(base: &Offer, today: &Offer) -> (Vec<Common>, [Vec<String>; 2]) {
    let same = |one: &Offered, other: &Offered| one.variant == other.variant && one.load == other.load;
    let (mut common, mut new) = (vec![], vec![]);
    for (number, offered) in today.variants.iter().enumerate() {
        match base.variants.iter().position(|other| same(other, offered)) {
            Some(of_base) => {
                common.push(Common { offered: offered.clone(), numbers: [of_base, number] });
            }
            None => new.push(name(offered)),
        }
    }
    let gone = base.variants.iter().filter(|one| !today.variants.iter().any(|other| same(one, other)));
    (common, [gone.map(name).collect(), new])
}

/// The numbers of each bench in the base and today, where there is one of its name. Those of today come first, in their order.
pub fn matched_benches(base: &[Offer], today: &[Offer]) -> Vec<[Option<usize>; 2]> {
    let mut left: Vec<usize> = (0..base.len()).collect();
    let mut of_base = |name: &str| {
        let at = left.iter().position(|number| base[*number].name == name)?;
        Some(left.remove(at))
    };
    let mut found: Vec<_> =
        today.iter().enumerate().map(|(number, offer)| [of_base(&offer.name), Some(number)]).collect();
    found.extend(left.into_iter().map(|number| [Some(number), None]));
    found
}

/// A variant, with its load where it has one.
pub fn name(offered: &Offered) -> String {
    let Offered { variant, load, .. } = offered;
    if load.is_empty() { variant.clone() } else { format!("{variant} ({load})") }
}

/// So many further processes of each side show whether it prints one work in several ways, as a `HashMap` does.
const PRINTED: usize = 4;

/// Proves that both sides do equal work: they print the same, or the same words where a side prints other text in one of its other
/// processes, whose offers come from `again`.
///
/// # Errors
/// Where they differ.
pub fn equal_work(
    base: &Offer,
    today: &Offer,
    common: &[Common],
    again: &mut dyn FnMut() -> Result<[Offer; 2], String>,
) -> Result<(), String> {
    let mut others: Vec<[Offer; 2]> = vec![];
    let mut varies = |numbers: &[usize; 2]| {
        let work = |offers: [&Offer; 2]| {
            [0, 1].map(|side| offers[side].variants.get(numbers[side]).map(|one| one.work.clone()))
        };
        let first = work([base, today]);
        for at in 0..PRINTED {
            if others.len() == at {
                others.push(again()?);
            }
            if work([&others[at][0], &others[at][1]]) != first {
                return Ok::<_, String>(true);
            }
        }
        Ok(false)
    };
    for Common { offered, numbers } in common {
        let [one, other] = [&base.variants[numbers[0]], &today.variants[numbers[1]]];
        if one.units != other.units || one.unit != other.unit {
            return Err(format!("{}: its units of work differ between the sides", name(offered)));
        }
        let words = |offered: &Offered| fingerprint([offered.work.clone()]);
        if one.work != other.work && !(words(one) == words(other) && varies(numbers)?) {
            let [of_base, of_today] = shown([one.work.clone(), other.work.clone()]);
            return Err(format!(
                "{} does not do equal work on both sides, so times say nothing:\n  the base{of_base}\n  today{of_today}",
                name(offered)
            ));
        }
    }
    Ok(())
}

/// A sample.
#[derive(Clone, Debug)]
pub struct Sample {
    pub round: u32,
    pub position: usize,
    pub side: usize,
    /// Its number among what is common.
    pub variant: usize,
    pub number: usize,
    pub iterations: u64,
    pub elapsed: Duration,
}

/// A pair that has measured.
pub struct Pair {
    /// Its first round.
    pub first: u32,
    /// The number of the link order of each side.
    pub orders: [Option<u32>; 3],
}

/// What all pairs have measured.
#[derive(Default)]
pub struct Taken {
    pub seed: u64,
    pub samples: Vec<Sample>,
    pub pairs: Vec<Pair>,
    pub rounds: u32,
    pub met: Disturbance,
    pub elapsed: Duration,
    pub asked: Option<Asked>,
}

/// A bench among those that the programs of the base and of today offer.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    pub listed: &'a [Vec<Offer>; 2],
    /// Its number among those.
    pub at: [usize; 2],
}

impl Place<'_> {
    /// What today's program offers of it.
    pub fn offer(&self) -> &Offer {
        &self.listed[1][self.at[1]]
    }

    /// How a program offers a variant of it alone: as that of which bench that has it, and by which arguments.
    fn alone(&self, of: usize, offered: &Offered) -> (usize, [String; 3]) {
        let Offered { variant, load, .. } = offered;
        let (bench, before) = (&self.listed[of][self.at[of]].bench, &self.listed[of][..self.at[of]]);
        let has = |offer: &&Offer| {
            offer.bench == *bench
                && offer.variants.iter().any(|one| one.variant == *variant && one.load == *load)
        };
        let name = Key::new(bench, variant, load).to_string();
        (before.iter().filter(has).count(), ["--exact".to_owned(), "--".to_owned(), name])
    }
}

/// How a bench is measured.
pub struct Measuring<'a> {
    pub sides: &'a Sides<'a>,
    pub place: Place<'a>,
    pub common: &'a [Common],
    pub plan: &'a Plan,
}

/// What each program's first process for a variant did, to which all others must be equal; by program and variant.
type Works = HashMap<(usize, usize), String>;

/// Programs with a link order of their own, which are removed in the end.
struct Drawn {
    programs: [PathBuf; 3],
    orders: [Option<u32>; 3],
}

impl Drop for Drawn {
    fn drop(&mut self) {
        for (program, order) in self.programs.iter().zip(self.orders) {
            if order.is_some() {
                let _ = fs::remove_file(program);
            }
        }
    }
}

impl Measuring<'_> {
    /// All pairs that fit into the budget, or that were whole when a signal asked for the end.
    ///
    /// # Errors
    /// What failed, with the name of its side.
    pub fn taken(&self, caught: &Caught, progress: &mut Progress) -> Result<Taken, String> {
        let seed = random::new_seed().map_err(|error| format!("no random numbers: {error}"))?;
        let mut taken = Taken { seed, ..Taken::default() };
        let (start, mut works) = (Instant::now(), Works::new());
        loop {
            let done = taken.pairs.len() as u32;
            taken.elapsed = start.elapsed();
            let Some(rounds) = self.plan.next(done, taken.rounds, taken.elapsed) else { return Ok(taken) };
            let left = self.plan.left(done, taken.elapsed);
            let (before, began) = (taken.samples.len(), Instant::now());
            let mut say = || {
                let left = left.map(|left| left.saturating_sub(began.elapsed()));
                progress.say(&progress::step("pair", done, self.plan.processes, left));
            };
            let measured = self.pair(&mut taken, &mut works, rounds, caught, &mut say);
            if let Some(asked) = caught.asked() {
                // Of Ctrl-C, which all processes got as well.
                taken.samples.truncate(before);
                taken.asked = Some(asked);
                return Ok(taken);
            }
            let orders = measured?;
            taken.pairs.push(Pair { first: taken.rounds, orders });
            taken.rounds += rounds;
        }
    }

    /// So many rounds of each variant, in a pair of its own. Variants come in an order drawn by lot.
    fn pair(
        &self,
        taken: &mut Taken,
        works: &mut Works,
        rounds: u32,
        caught: &Caught,
        say: &mut dyn FnMut(),
    ) -> Result<[Option<u32>; 3], String> {
        say();
        let drawn = self.drawn(taken.pairs.len() as u32)?;
        let mut random = Random::of(taken.seed, taken.rounds);
        let mut variants: Vec<usize> = (0..self.common.len()).collect();
        random.shuffle(&mut variants);
        for variant in variants {
            let mut peers = self.started(&drawn, variant, works, &mut random)?;
            for round in taken.rounds..taken.rounds + rounds {
                for (position, side) in order(&mut random).into_iter().enumerate() {
                    let request = Request::Trial {
                        variant: 0,
                        warm_up: WARM_UP,
                        time: TRIAL,
                        samples: self.plan.samples,
                    };
                    let Answer::Taken { samples, met } = peers[side].ask(&request)? else {
                        return Err(format!("{}: it answered something else than samples", SIDES[side]));
                    };
                    taken.met.samples += met.samples;
                    taken.met.again += met.again;
                    taken.met.disturbed += met.disturbed;
                    for (number, (iterations, elapsed)) in samples.into_iter().enumerate() {
                        taken.samples.push(Sample {
                            round,
                            position,
                            side,
                            variant,
                            number,
                            iterations,
                            elapsed,
                        });
                    }
                    if caught.asked().is_some() {
                        return Ok(drawn.orders);
                    }
                }
                say();
            }
        }
        Ok(drawn.orders)
    }

    fn drawn(&self, pair: u32) -> Result<Drawn, String> {
        let mut drawn = Drawn { programs: Default::default(), orders: [None; 3] };
        for (side, of) in PROGRAM.into_iter().enumerate() {
            let built = self.sides.built[of];
            drawn.programs[side] = match &built.linked {
                Err(_) => built.program.clone(),
                Ok(linked) => {
                    let order = link::order(3 * pair + side as u32);
                    let program = linked.draw(order)?;
                    drawn.orders[side] = Some(order);
                    program
                }
            };
        }
        Ok(drawn)
    }

    /// The processes of a variant, started in an order drawn by lot.
    fn started(
        &self,
        drawn: &Drawn,
        variant: usize,
        works: &mut Works,
        random: &mut Random,
    ) -> Result<[Peer; 3], String> {
        let mut start = |side: usize| {
            let (of, (further, filters)) =
                (PROGRAM[side], self.place.alone(PROGRAM[side], &self.common[variant].offered));
            let mut peer = self.sides.start(&drawn.programs[side], side, &side.to_string(), &filters)?;
            let offer = peer
                .offer(further, self.plan.brief())?
                .ok_or_else(|| format!("{}: its process ended early", SIDES[side]))?;
            let [offered] = offer.variants.as_slice() else {
                return Err(format!("{}: a variant is not offered alone", SIDES[side]));
            };
            let first = works.entry((of, variant)).or_insert_with(|| offered.work.clone());
            same_input(SIDES[side], offered, first)?;
            Ok::<_, String>(peer)
        };
        let mut peers = [None, None, None];
        for side in order(random) {
            peers[side] = Some(start(side)?);
        }
        Ok(peers.map(|peer| peer.expect("each was started")))
    }
}

/// Sides in an order drawn by lot: none is first, last, or behind one of them more often than another.
fn order(random: &mut Random) -> [usize; 3] {
    let mut sides = [0, 1, 2];
    random.shuffle(&mut sides);
    sides
}

/// Refuses to measure a process in which a variant does other work than in the first one of its side.
fn same_input(side: &str, offered: &Offered, first: &str) -> Result<(), String> {
    if fingerprint([offered.work.clone()]) == fingerprint([first.to_owned()]) {
        return Ok(());
    }
    Err(format!(
        "{side}: the first result of {} in this process differs from that in another one of this side. The program's main \
         runs again in each process, and must have the same input each time: no random seed of its own, no file that changes",
        name(offered)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(variants: &[(&str, &str)]) -> Offer {
        let offered = |(variant, work): &(&str, &str)| Offered {
            variant: (*variant).to_owned(),
            load: String::new(),
            unit: "iteration".to_owned(),
            units: 1,
            tolerance: 0.01,
            threads: false,
            work: (*work).to_owned(),
        };
        Offer {
            bench: "b".to_owned(),
            name: "b".to_owned(),
            call: Duration::ZERO,
            set_up: Duration::ZERO,
            variants: variants.iter().map(offered).collect(),
        }
    }

    #[test]
    fn variants_are_matched_by_name_and_the_others_are_named() {
        let (base, today) =
            (offer(&[("gone", "1"), ("a", "1"), ("b", "1")]), offer(&[("b", "1"), ("new", "1"), ("a", "1")]));
        let (common, [gone, new]) = matched(&base, &today);
        let numbers: Vec<[usize; 2]> = common.iter().map(|one| one.numbers).collect();
        assert_eq!(
            (numbers, gone, new),
            (vec![[2, 0], [1, 2]], vec!["gone".to_owned()], vec!["new".to_owned()])
        );
    }

    #[test]
    fn benches_are_matched_by_name_wherever_they_stand() {
        let named = |name: &str| Offer { name: name.to_owned(), ..offer(&[]) };
        let sides = |names: &str| names.chars().map(|name| named(&name.to_string())).collect::<Vec<_>>();
        let matched = matched_benches(&sides("abcc"), &sides("xbcac"));
        let numbers = [[None, Some(0)], [Some(1), Some(1)], [Some(2), Some(2)], [Some(0), Some(3)]];
        assert_eq!(matched, [&numbers[..], &[[Some(3), Some(4)]]].concat());
        assert_eq!(matched_benches(&sides("ab"), &sides("a"))[1], [Some(1), None]);
    }

    #[test]
    fn each_side_stands_at_each_place_and_behind_itself_equally_often() {
        let mut random = Random::of(1, 0);
        let rounds: Vec<[usize; 3]> = (0..6_000).map(|_| order(&mut random)).collect();
        let mut places = [[0; 3]; 3];
        for round in &rounds {
            for (place, side) in round.iter().enumerate() {
                places[*side][place] += 1;
            }
        }
        // 2,000 are expected, with a standard deviation of 37; and 667 of 24.
        assert!(places.iter().flatten().all(|times| (1_800..2_200).contains(times)), "{places:?}");
        let mut itself = [0; 3];
        let trials = rounds.concat();
        trials.windows(2).filter(|two| two[0] == two[1]).for_each(|two| itself[two[0]] += 1);
        assert!(itself.iter().all(|times| (560..780).contains(times)), "{itself:?}");
    }

    #[test]
    fn equal_work_is_equal_in_any_order_of_a_set_alone_and_another_is_shown() {
        let (base, other) = (offer(&[("a", "{1, 2}")]), offer(&[("a", "{2, 1}")]));
        let common = matched(&base, &other).0;
        let equal_work = |base: &Offer, today: &Offer, again: [&Offer; 2]| {
            let mut times = 0;
            let mut again = || {
                times += 1;
                Ok(if times < PRINTED { [base.clone(), today.clone()] } else { again.map(Clone::clone) })
            };
            super::equal_work(base, today, &common, &mut again)
        };
        assert_eq!(equal_work(&base, &other, [&base, &base]), Ok(()), "today prints it in both orders");
        assert!(equal_work(&base, &other, [&base, &other]).is_err(), "each prints it in one");
        for [one, two] in
            [["[1, 2, 3]", "[3, 2, 1]"], ["[-1, 2]", "[1, -2]"], ["[[1], [2, 3]]", "[[1, 2], [3]]"]]
        {
            let [one, two] = [one, two].map(|work| offer(&[("a", work)]));
            assert!(equal_work(&one, &two, [&one, &two]).is_err(), "{one:?}");
        }
        let another = offer(&[("a", "{1, 3}")]);
        let why = equal_work(&base, &another, [&other, &other]).unwrap_err();
        assert!(why.ends_with("\n  the base did {1, 2}\n  today did {1, 3}"), "{why}");
        let same_input = |first| same_input("base", &base.variants[0], first);
        assert!(same_input("{2, 1}").is_ok());
        assert!(
            same_input("7").unwrap_err().starts_with("base: the first result of a in this process differs")
        );
    }
}
