//! What is said in the end: a table, JSON, and the exit status.

use std::fmt::Write;

use by_turns_core::base::markdown::{self, plain};
use by_turns_core::base::number::{grouped, time};
use by_turns_core::count::table::COUNTERS;
use by_turns_core::judge::verdict::Verdict;
use by_turns_core::run::process::Asked;
use serde_json::{Map, Value, json};

use crate::against::arguments::Arguments;
use crate::against::judged::Line;

/// One bench.
#[derive(Debug, Default)]
pub struct Bench {
    pub bench: String,
    /// Cargo's bench that it is in.
    pub target: String,
    /// Pairs, rounds, link orders.
    pub measured: String,
    pub lines: Vec<Line>,
    pub notes: Vec<String>,
    /// Whether both programs are one, and no times were measured.
    pub identical: bool,
    /// Whether each process had a link order of its own. Else a slower variant may be so in another build only.
    pub orders: bool,
    /// The folder of the samples.
    pub samples: Option<String>,
}

/// All that is said.
#[derive(Debug, Default)]
pub struct Report {
    /// Whose benches they are.
    pub package: String,
    /// As the user has written it.
    pub against: String,
    /// With the commit of a revision.
    pub base: String,
    pub benches: Vec<Bench>,
    /// Why both sides are the same, so that nothing was compared.
    pub one_source: Option<String>,
    /// Benches and variants that exist on one side only.
    pub one_sided: Vec<String>,
    /// What could not be compared, and why.
    pub not_compared: Vec<String>,
    /// What lock files differ in.
    pub locks: Vec<String>,
    /// Whether a slower variant is worse.
    pub gate_time: bool,
    /// What a signal asked for, that ended it.
    pub asked: Option<Asked>,
}

/// The policy.
const EXACT: &str = "Counts gate, by their limits; times do not (--gate-time).";
const TIME: &str = "Counts gate, by their limits, and so does a variant that is slower (--gate-time).";

/// Where it is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Style {
    Markdown,
    Terminal,
}

impl Style {
    fn plain(self, text: &str) -> String {
        if self == Self::Markdown { plain(text) } else { text.to_owned() }
    }

    fn strong(self, text: &str) -> String {
        if self == Self::Markdown { format!("**{text}**") } else { text.to_owned() }
    }

    /// The first line, and what a program said behind it as it stands there.
    fn quoted(self, why: &str) -> String {
        let Some((first, said)) = why.split_once('\n') else { return self.plain(why) };
        let said = said.replace('\n', "\n  ");
        if self == Self::Terminal {
            return format!("{first}\n  {said}");
        }
        let fence = (3..).map(|many| "`".repeat(many)).find(|fence| !said.contains(fence));
        let fence = fence.expect("a longer one");
        format!("{}\n  {fence}text\n  {said}\n  {fence}", plain(first))
    }
}

impl Report {
    /// One that holds nothing yet.
    pub fn of(arguments: &Arguments) -> Self {
        let (against, gate_time) = (arguments.against.clone(), arguments.gate_time);
        Self { against, gate_time, ..Self::default() }
    }

    /// Whether it is slower, and that gates.
    fn slower(&self, bench: &Bench, line: &Line) -> bool {
        self.gate_time && bench.orders && line.verdict == Some(Verdict::Slower)
    }

    /// What got worse by the stated policy, of how many variants.
    fn worse(&self) -> Vec<String> {
        let of = |is: &dyn Fn(&Bench, &Line) -> bool| {
            let all = self.benches.iter().flat_map(|bench| bench.lines.iter().map(move |line| (bench, line)));
            all.filter(|(bench, line)| is(bench, line)).count()
        };
        let grown = |counter: &str| of(&|_, line| line.grown.iter().any(|grown| grown == counter));
        let counts = COUNTERS.iter().map(|(counter, _)| (counter.replace('_', " "), grown(counter)));
        let all = counts.chain([("time".to_owned(), of(&|bench, line| self.slower(bench, line)))]);
        let said = |(what, variants): (String, usize)| match variants {
            0 => None,
            1 => Some(format!("{what} of 1 variant")),
            some => Some(format!("{what} of {some} variants")),
        };
        all.filter_map(said).collect()
    }

    /// 0 if nothing got worse, 1 if something did, 2 if something could not be compared, and others for signals.
    pub fn status(&self) -> u8 {
        let compared = self.one_source.is_some() || !self.benches.is_empty();
        match self.asked {
            Some(asked) => asked.status(),
            None if !self.worse().is_empty() => 1,
            None if !compared || !self.not_compared.is_empty() => 2,
            None => 0,
        }
    }

    /// For people; in Markdown for a comment on a pull request.
    pub fn text(&self, style: Style) -> String {
        let head = if style == Style::Markdown { "### " } else { "" };
        let mut text = format!("{head}Against {}: {}\n\n", style.plain(&self.base), self.word(style));
        for bench in &self.benches {
            text += &bench.text(style);
        }
        if let Some(why) = &self.one_source {
            let _ = writeln!(text, "- both sides are one source: {}", style.plain(why));
        }
        for (lines, what) in [(&self.one_sided, "on one side only"), (&self.not_compared, "not compared")] {
            for why in lines {
                let _ = writeln!(text, "- {}: {}", style.strong(what), style.quoted(why));
            }
        }
        if !self.locks.is_empty() {
            let _ = writeln!(text, "- the lock files differ: {}", style.plain(&self.locks.join("; ")));
        }
        text.truncate(text.trim_end().len());
        let _ = write!(text, "\n\n{}", if self.gate_time { TIME } else { EXACT });
        text
    }

    fn word(&self, style: Style) -> String {
        let (worse, slower) = (self.worse(), if self.gate_time { ", and nothing is slower" } else { "" });
        let found = match worse.is_empty() {
            true => format!("no count grew by more than its limit{slower}"),
            false => style.strong(&format!("worse: {}", worse.join(", "))),
        };
        match self.status() {
            0 if self.one_source.is_some() => "nothing to compare".to_owned(),
            2 => style.strong("not everything could be compared"),
            130.. => format!("{}; until then {found}", style.strong("interrupted")),
            _ => found,
        }
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let benches: Vec<Value> = self.benches.iter().map(|bench| bench.json(self)).collect();
        json!({
            "package": self.package, "against": self.against, "base": self.base, "benches": benches, "one_source": self.one_source,
            "one_sided": self.one_sided, "not_compared": self.not_compared, "locks": self.locks,
            "gate_time": self.gate_time, "status": self.status(),
        })
    }
}

impl Bench {
    fn text(&self, style: Style) -> String {
        let Self { bench, measured, lines, notes, .. } = self;
        let seen = |counter: &&str| lines.iter().any(|line| line.counts.contains_key(*counter));
        let counters: Vec<&str> = COUNTERS.iter().map(|(counter, _)| *counter).filter(seen).collect();
        let heads = ["variant", "base", "today", "ratio (95 %)", "time"].map(str::to_owned).into_iter();
        let heads = heads.chain(counters.iter().map(|counter| counter.replace('_', " ")));
        let row = |line: &Line| {
            let [base, today] = line.time_ns.map(|ns| ns.map_or(String::new(), time));
            let verdict = match line.verdict {
                Some(verdict) => verdict.to_string(),
                None if self.identical => "identical".to_owned(),
                None => "none".to_owned(),
            };
            let ratio = line.ratio.map_or(String::new(), interval);
            let cells = [style.plain(&line.name), base, today, ratio, verdict].into_iter();
            cells.chain(counters.iter().map(|counter| line.count(counter, style))).collect::<Vec<_>>()
        };
        let rows: Vec<Vec<String>> = std::iter::once(heads.collect()).chain(lines.iter().map(row)).collect();
        let table = if style == Style::Markdown { markdown::table } else { markdown::aligned };
        let head = style.strong(&style.plain(bench));
        let mut text = format!("{head}: {measured}\n\n{}\n", table(&rows, &[0, 4]));
        let mut note = |note: &str| text += &format!("- {}\n", style.plain(note));
        for Line { name, to_decide, reason, .. } in lines {
            let none = reason.as_ref().map(|reason| format!("nothing is concluded: {reason}"));
            if let Some(why) = to_decide.clone().or(none) {
                note(&format!("{name}: {why}"));
            }
        }
        let control = |line: &Line| {
            let name = if lines.len() == 1 { String::new() } else { format!("{} ", line.name) };
            Some(name + &interval(line.control?))
        };
        let controls: Vec<String> = lines.iter().filter_map(control).collect();
        if !controls.is_empty() {
            note(&format!("the base against itself (A/A): {}", controls.join("; ")));
        }
        notes.iter().for_each(|text| note(text));
        text + "\n"
    }

    fn json(&self, report: &Report) -> Value {
        let worse = |line: &Line| !line.grown.is_empty() || report.slower(self, line);
        let lines: Vec<Value> = self.lines.iter().map(|line| line.json(worse(line))).collect();
        json!({
            "bench": self.bench, "target": self.target, "measured": self.measured, "identical": self.identical, "variants": lines,
            "notes": self.notes, "samples": self.samples,
        })
    }
}

fn interval([value, low, high]: [f64; 3]) -> String {
    format!("{value:.3} ({low:.3} to {high:.3})")
}

impl Line {
    /// The cell of a counter.
    fn count(&self, counter: &str, style: Style) -> String {
        let Some([base, today]) = self.counts.get(counter) else { return String::new() };
        let about = if self.counts.contains_key(&format!("{counter}_varies")) { "~" } else { "" };
        let shown = |count: &Option<u64>| {
            count.map_or("–".to_owned(), |count| style.plain(about) + &grouped(count))
        };
        if base == today {
            return shown(today);
        }
        let share = match (base, today) {
            (Some(base), Some(today)) if *base > 0 => {
                format!(" ({:+.2} %)", (*today as f64 / *base as f64 - 1.0) * 100.0)
            }
            _ => String::new(),
        };
        let text = format!("{} → {}{share}", shown(base), shown(today));
        match self.grown.iter().any(|grown| grown == counter) {
            true if style == Style::Terminal => format!("{text}, worse"),
            true => style.strong(&text),
            false => text,
        }
    }

    fn json(&self, worse: bool) -> Value {
        let three = |interval: Option<[f64; 3]>| {
            interval.map(|[value, low, high]| json!({"value": value, "low": low, "high": high}))
        };
        let two = |[base, today]: &[Option<u64>; 2]| json!({"base": base, "today": today});
        let counts: Map<String, Value> =
            self.counts.iter().map(|(counter, values)| (counter.clone(), two(values))).collect();
        let [base, today] = self.time_ns;
        let [perhaps, probably] = self.pairs.map_or([None; 2], |pairs| pairs.map(Some));
        json!({
            "variant": self.variant, "load": self.load, "unit": self.unit, "units": self.units, "base_ns": base,
            "today_ns": today, "ratio": three(self.ratio), "control": three(self.control),
            "verdict": self.verdict.map(|verdict| verdict.to_string()), "reason": self.reason,
            "to_decide": self.to_decide, "pairs_perhaps": perhaps, "pairs_probably": probably, "counts": counts, "grown": self.grown, "worse": worse,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(grown: &[&str], verdict: Verdict) -> Report {
        let counts = [("instructions", [Some(1_000), Some(1_100)]), ("allocations", [Some(3), Some(3)])];
        let line = Line {
            variant: "Vec<u8>".to_owned(),
            name: "Vec<u8> (n=1|2)".to_owned(),
            time_ns: [Some(1_234.0), Some(1_240.0)],
            ratio: Some([1.005, 1.0, 1.01]),
            control: Some([0.999, 0.99, 1.01]),
            verdict: Some(verdict),
            counts: counts.into_iter().map(|(name, values)| (name.to_owned(), values)).collect(),
            grown: grown.iter().map(|name| (*name).to_owned()).collect(),
            ..Line::default()
        };
        let bench = Bench {
            bench: "own".to_owned(),
            measured: "6 pairs".to_owned(),
            orders: true,
            lines: vec![line],
            ..Bench::default()
        };
        Report { base: "main (abc)".to_owned(), benches: vec![bench], ..Report::default() }
    }

    #[test]
    fn the_status_follows_the_policy() {
        assert_eq!(report(&[], Verdict::Slower).status(), 0, "time does not gate");
        assert_eq!(Report { gate_time: true, ..report(&[], Verdict::Slower) }.status(), 1);
        assert_eq!(Report { gate_time: true, ..report(&[], Verdict::Undecided) }.status(), 0);
        let mut one_build = Report { gate_time: true, ..report(&[], Verdict::Slower) };
        one_build.benches[0].orders = false;
        assert_eq!(one_build.status(), 0, "it may be slower because of where the linker put it");
        for (asked, status) in [(Asked::Interrupt, 130), (Asked::Terminate, 143)] {
            let ended = Report { asked: Some(asked), ..report(&["instructions"], Verdict::Same) };
            assert_eq!((ended.status(), ended.json()["status"].as_u64()), (status, Some(status.into())));
        }
        assert_eq!(report(&["instructions"], Verdict::Faster).status(), 1);
        let lost = vec!["other".to_owned()];
        assert_eq!(Report { not_compared: lost.clone(), ..report(&[], Verdict::Same) }.status(), 2);
        assert_eq!(Report { not_compared: lost, ..report(&["instructions"], Verdict::Same) }.status(), 1);
        assert_eq!(Report::default().status(), 2, "nothing was compared");
        let one_sided = vec!["bench new exists today only".to_owned()];
        assert_eq!(Report { one_sided: one_sided.clone(), ..report(&[], Verdict::Same) }.status(), 0);
        assert_eq!(Report { one_sided, ..Report::default() }.status(), 2, "and nothing else");
        let same = Report { one_source: Some("nothing differs".to_owned()), ..Report::default() };
        assert_eq!(same.status(), 0, "nothing got worse");
        let said = same.text(Style::Markdown);
        assert!(
            said.starts_with("### Against : nothing to compare\n\n- both sides are one source: nothing"),
            "{said}"
        );
    }

    #[test]
    fn what_a_compiler_says_stands_as_it_is() {
        assert_eq!(Style::Markdown.quoted("no bench a_b"), "no bench a\\_b");
        let shown = "a\\_b:\n  ````text\n  error: a_b\n  ```x\n  ````";
        assert_eq!(Style::Markdown.quoted("a_b:\nerror: a_b\n```x"), shown);
        assert_eq!(Style::Terminal.quoted("a_b:\nerror: `a_b`\nx"), "a_b:\n  error: `a_b`\n  x");
    }

    #[test]
    fn a_pull_request_shows_a_table() {
        let text = report(&["instructions"], Verdict::Same).text(Style::Markdown);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "### Against main (abc): **worse: instructions of 1 variant**");
        assert_eq!(lines[4], "| variant | base | today | ratio (95 %) | time | instructions | allocations |");
        let row = "| Vec&lt;u8&gt; (n=1\\|2) | 1.23 µs | 1.24 µs | 1.005 (1.000 to 1.010) | same | **1,000 → 1,100 (+10.00 %)** | 3 |";
        assert_eq!(lines[6], row, "{text}");
        assert!(text.contains("- the base against itself (A/A): 0.999 (0.990 to 1.010)\n"), "{text}");
        assert!(text.ends_with(EXACT), "{text}");
    }

    #[test]
    fn a_terminal_shows_names_as_they_are_in_columns() {
        let mut report = report(&["instructions"], Verdict::Same);
        report.benches[0].lines[0].to_decide = Some("`a_b`".to_owned());
        let text = report.text(Style::Terminal);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..3], ["Against main (abc): worse: instructions of 1 variant", "", "own: 6 pairs"]);
        assert_eq!(
            lines[4],
            "variant             base    today            ratio (95 %)  time                     instructions  allocations"
        );
        let row = "Vec<u8> (n=1|2)  1.23 µs  1.24 µs  1.005 (1.000 to 1.010)  same  1,000 → 1,100 (+10.00 %), worse            3";
        assert_eq!(lines[5], row, "{text}");
        assert_eq!(lines[7], "- Vec<u8> (n=1|2): `a_b`");
    }

    #[test]
    fn the_first_line_says_what_got_worse() {
        let word = |report: Report| report.word(Style::Terminal);
        let gated =
            || Report { gate_time: true, ..report(&["allocations", "instructions"], Verdict::Slower) };
        assert_eq!(
            word(gated()),
            "worse: instructions of 1 variant, allocations of 1 variant, time of 1 variant"
        );
        assert_eq!(word(report(&[], Verdict::Slower)), "no count grew by more than its limit");
        let mut two = gated();
        two.benches.extend(report(&["instructions"], Verdict::Same).benches);
        two.asked = Some(Asked::Interrupt);
        assert!(
            word(two)
                .starts_with("interrupted; until then worse: instructions of 2 variants, allocations of 1")
        );
    }
}
