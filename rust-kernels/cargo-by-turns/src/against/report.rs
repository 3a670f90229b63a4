//! What is said in the end: a table in Markdown, JSON, and the exit status.

use std::fmt::Write;

use by_turns_core::base::markdown::plain;
use by_turns_core::base::number::{grouped, time};
use by_turns_core::count::table::COUNTERS;
use by_turns_core::judge::verdict::Verdict;
use by_turns_core::run::process::Asked;
use serde_json::{Value, json};

use crate::against::judged::Line;

/// One bench.
#[derive(Debug, Default)]
pub struct Bench {
    pub bench: String,
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
    /// As the user has written it.
    pub against: String,
    /// With the commit of a revision.
    pub base: String,
    pub benches: Vec<Bench>,
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
const EXACT: &str = "Counts gate, by their limits; times do not (`--gate-time`).";
const TIME: &str = "Counts gate, by their limits, and so does a variant that is slower (`--gate-time`).";

impl Report {
    /// Whether it got worse by the stated policy.
    fn worse(&self, bench: &Bench, line: &Line) -> bool {
        !line.grown.is_empty() || self.gate_time && bench.orders && line.verdict == Some(Verdict::Slower)
    }

    /// How many variants did.
    fn all_worse(&self) -> usize {
        let of = |bench: &Bench| bench.lines.iter().filter(|line| self.worse(bench, line)).count();
        self.benches.iter().map(of).sum()
    }

    /// 0 if nothing got worse, 1 if something did, 2 if something could not be compared, and others for signals.
    pub fn status(&self) -> u8 {
        match (self.asked, self.all_worse()) {
            (Some(Asked::Interrupt), _) => 130,
            (Some(Asked::Terminate), _) => 143,
            (None, 1..) => 1,
            (None, 0) if !self.not_compared.is_empty() || self.benches.is_empty() => 2,
            (None, 0) => 0,
        }
    }

    /// For a comment on a pull request.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "### Against {}: {}\n", plain(&self.base), self.word());
        for bench in &self.benches {
            text += &bench.markdown();
        }
        for why in &self.not_compared {
            let _ = writeln!(text, "- **not compared**: {}", fenced(why));
        }
        if !self.locks.is_empty() {
            let locks: Vec<String> = self.locks.iter().map(|line| plain(line)).collect();
            let _ = writeln!(text, "- the lock files differ: {}", locks.join("; "));
        }
        let _ = write!(text, "\n{}", if self.gate_time { TIME } else { EXACT });
        text
    }

    fn word(&self) -> String {
        match (self.all_worse(), self.status()) {
            (0, 130..) => "**interrupted**; nothing got worse until then".to_owned(),
            (0, 2) => "**not everything could be compared**".to_owned(),
            (0, _) => "nothing got worse".to_owned(),
            (1, _) => "**1 variant got worse**".to_owned(),
            (some, _) => format!("**{some} variants got worse**"),
        }
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let benches: Vec<Value> = self.benches.iter().map(|bench| bench.json(self)).collect();
        json!({
            "against": self.against, "base": self.base, "benches": benches, "not_compared": self.not_compared,
            "locks": self.locks, "gate_time": self.gate_time, "status": self.status(),
        })
    }
}

impl Bench {
    fn markdown(&self) -> String {
        let Self { bench, measured, lines, notes, .. } = self;
        let mut text = format!("**{}**: {measured}\n\n", plain(bench));
        let seen = |counter: &&str| lines.iter().any(|line| line.counts.contains_key(*counter));
        let counters: Vec<&str> = COUNTERS.iter().map(|(counter, _)| *counter).filter(seen).collect();
        let heads = counters.iter().map(|counter| format!(" {} |", counter.replace('_', " ")));
        let _ =
            writeln!(text, "| variant | base | today | ratio (95 %) | time |{}", heads.collect::<String>());
        let _ = writeln!(text, "|---|--:|--:|--:|---|{}", "--:|".repeat(counters.len()));
        for line in lines {
            let ns = line.time_ns.map(|ns| ns.map_or(String::new(), time));
            let verdict = match line.verdict {
                Some(verdict) => verdict.to_string(),
                None if self.identical => "identical".to_owned(),
                None => "none".to_owned(),
            };
            let _ = write!(
                text,
                "| {} | {} | {} | {} | {verdict} |",
                plain(&line.name),
                ns[0],
                ns[1],
                line.ratio.map_or(String::new(), interval)
            );
            for counter in &counters {
                let _ = write!(text, " {} |", line.count(counter));
            }
            text.push('\n');
        }
        text.push('\n');
        for line in lines {
            let why = line
                .to_decide
                .clone()
                .or_else(|| Some(format!("nothing is concluded: {}", line.reason.as_ref()?)));
            if let Some(why) = why {
                let _ = writeln!(text, "- {}: {}", plain(&line.name), plain(&why));
            }
        }
        let controls = lines.iter().filter_map(|line| line.control).map(|[ratio, ..]| format!("{ratio:.3}"));
        let controls: Vec<String> = controls.collect();
        if !controls.is_empty() {
            let _ = writeln!(text, "- the base against itself (A/A): {}", controls.join(", "));
        }
        for note in notes {
            let _ = writeln!(text, "- {}", plain(note));
        }
        text + "\n"
    }

    fn json(&self, report: &Report) -> Value {
        let lines: Vec<Value> = self.lines.iter().map(|line| line.json(report.worse(self, line))).collect();
        json!({
            "bench": self.bench, "measured": self.measured, "identical": self.identical, "variants": lines,
            "notes": self.notes, "samples": self.samples,
        })
    }
}

/// The first line as Markdown, and what a program said behind it as it stands there.
fn fenced(why: &str) -> String {
    let Some((first, said)) = why.split_once('\n') else { return plain(why) };
    let fence = (3..).map(|many| "`".repeat(many)).find(|fence| !said.contains(fence)).expect("a longer one");
    format!("{}\n  {fence}text\n  {}\n  {fence}", plain(first), said.replace('\n', "\n  "))
}

fn interval([value, low, high]: [f64; 3]) -> String {
    format!("{value:.3} ({low:.3} to {high:.3})")
}

impl Line {
    /// The cell of a counter.
    fn count(&self, counter: &str) -> String {
        let Some([base, today]) = self.counts.get(counter) else { return String::new() };
        let about = if self.counts.contains_key(&format!("{counter}_varies")) { "\\~" } else { "" };
        let shown = |count: &Option<u64>| {
            count.map_or("–".to_owned(), |count| format!("{about}{}", grouped(count)))
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
        if self.grown.iter().any(|grown| grown == counter) { format!("**{text}**") } else { text }
    }

    fn json(&self, worse: bool) -> Value {
        let Self {
            variant,
            load,
            unit,
            units,
            time_ns,
            ratio,
            control,
            reason,
            to_decide,
            counts,
            grown,
            ..
        } = self;
        let verdict = self.verdict.map(|verdict| verdict.to_string());
        let [base, today] = time_ns;
        json!({
            "variant": variant, "load": load, "unit": unit, "units": units, "base_ns": base, "today_ns": today,
            "ratio": ratio, "control": control, "verdict": verdict, "reason": reason, "to_decide": to_decide,
            "counts": counts, "grown": grown, "worse": worse,
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
    }

    #[test]
    fn what_a_compiler_says_stands_as_it_is() {
        assert_eq!(fenced("no bench a_b"), "no bench a\\_b");
        let shown = "a\\_b:\n  ````text\n  error: a_b\n  ```x\n  ````";
        assert_eq!(fenced("a_b:\nerror: a_b\n```x"), shown);
    }

    #[test]
    fn a_pull_request_shows_a_table() {
        let text = report(&["instructions"], Verdict::Same).markdown();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "### Against main (abc): **1 variant got worse**");
        assert_eq!(lines[4], "| variant | base | today | ratio (95 %) | time | instructions | allocations |");
        let row = "| Vec&lt;u8&gt; (n=1\\|2) | 1.23 µs | 1.24 µs | 1.005 (1.000 to 1.010) | same | **1,000 → 1,100 (+10.00 %)** | 3 |";
        assert_eq!(lines[6], row, "{text}");
        assert!(text.contains("- the base against itself (A/A): 0.999") && text.ends_with(EXACT), "{text}");
    }
}
