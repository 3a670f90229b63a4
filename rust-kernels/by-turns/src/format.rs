//! The table of a bench as other programs read it.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::report::{Report, VariantReport, WORDS};
use by_turns_core::base::csv;
use by_turns_core::base::markdown::{self, plain};
use by_turns_core::base::number::grouped;
use by_turns_core::count::table::COUNTERS;

/// How a table, or a list of names, is printed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Format {
    /// For a terminal.
    Pretty,
    /// A list of names without their number.
    Terse,
    /// As report.json.
    Json,
    /// A row for each variant.
    Csv,
    /// For a comment or a summary on GitHub.
    Markdown,
    /// The lines that libtest prints for a bench.
    Bencher,
    /// The messages of cargo-criterion, one a line.
    Criterion,
}

impl Format {
    /// The one of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn of(name: &str) -> Result<Self, String> {
        Ok(match name {
            "pretty" => Self::Pretty,
            "terse" => Self::Terse,
            "json" => Self::Json,
            "csv" => Self::Csv,
            "markdown" => Self::Markdown,
            "bencher" => Self::Bencher,
            "criterion" => Self::Criterion,
            _ => {
                return Err(format!(
                    "--format: {name:?} is none of pretty, terse, json, csv, markdown, bencher and criterion"
                ));
            }
        })
    }

    /// The table in it.
    pub fn table(self, report: &Report) -> String {
        match self {
            Self::Pretty | Self::Terse => report.to_string(),
            Self::Json => format!("{:#}", report.json()),
            Self::Csv => table(report),
            Self::Markdown => markdown(report),
            Self::Bencher => {
                report.tracked().map(|line| bencher(&report.bench, line)).collect::<Vec<_>>().join("\n")
            }
            Self::Criterion => criterion(report),
        }
    }

    /// These names, as libtest lists them. nextest takes a name for what stands before `: benchmark`; and it asks for the
    /// list in one way, whether it is to test or to measure afterwards.
    pub fn list(self, names: &[String]) -> String {
        let mut text: String = names.iter().map(|name| format!("{name}: benchmark\n")).collect();
        if self != Self::Terse {
            let many = if names.len() == 1 { "" } else { "s" };
            let _ = writeln!(text, "\n0 tests, {} benchmark{many}\n", names.len());
        }
        text
    }
}

impl Report {
    /// What is followed over time: a control is not.
    fn tracked(&self) -> impl Iterator<Item = &VariantReport> {
        self.variants.iter().filter(|line| !line.control)
    }
}

fn table(report: &Report) -> String {
    let fixed = "bench,variant,load,unit,units,time_ns,time_low_ns,time_high_ns,baseline,control,ratio,ratio_low,ratio_high,\
                 undisturbed,undisturbed_low,undisturbed_high,verdict,reason";
    let counters = COUNTERS.map(|(counter, _)| counter);
    let mut text = format!("{fixed},{},varies", counters.join(","));
    for line in &report.variants {
        let number = |number: f64| if number.is_finite() { number.to_string() } else { String::new() };
        let [time_low, time_high] =
            line.time_interval_ns.map_or([String::new(), String::new()], |ends| ends.map(number));
        let three = |numbers: Option<[f64; 3]>| {
            numbers.map_or([const { String::new() }; 3], |numbers| numbers.map(number))
        };
        let varies =
            counters.iter().filter(|counter| line.varies(counter)).copied().collect::<Vec<_>>().join(" ");
        let cells = [&report.bench, &line.variant, &line.load, &line.unit].map(String::clone).into_iter();
        let cells = cells.chain([line.units.to_string(), number(line.time_ns), time_low, time_high]);
        let cells = cells.chain([line.baseline.clone().unwrap_or_default(), line.control.to_string()]);
        let cells = cells.chain(three(line.ratio)).chain(three(line.undisturbed));
        let cells = cells.chain([&line.verdict, &line.reason].map(|text| text.clone().unwrap_or_default()));
        let counted = |counter: &&str| line.counts.get(*counter).map_or(String::new(), u64::to_string);
        let cells = cells.chain(counters.iter().map(counted)).chain([varies]);
        let _ = write!(text, "\n{}", csv::line(cells));
    }
    text
}

fn markdown(report: &Report) -> String {
    let mut text = format!("### {}\n\n{}\n\n", plain(&report.bench), plain(&report.about()));
    let escaped = |row: Vec<String>| row.iter().map(|cell| plain(cell)).collect();
    text += &markdown::table(&report.rows().into_iter().map(escaped).collect::<Vec<_>>(), WORDS);
    if !report.notes.is_empty() {
        text.push('\n');
    }
    report.notes.iter().for_each(|note| {
        let _ = writeln!(text, "- {}", plain(note));
    });
    text.truncate(text.trim_end().len());
    text
}

/// The time of an iteration, and half of its interval. Readers take a name for what stands before the first space.
fn bencher(bench: &str, line: &VariantReport) -> String {
    let name = line.key(bench).to_string().replace(char::is_whitespace, "_");
    let [low, high] = line.time_interval_ns.unwrap_or([line.time_ns; 2]);
    let [time, half] = [line.time_ns, (high - low) / 2.0].map(|ns| hundredths(ns * line.units as f64));
    format!("test {name} ... bench: {time:>14} ns/iter (+/- {half})")
}

/// With two digits behind the point and a comma after each thousand, as libtest does.
fn hundredths(number: f64) -> String {
    let text = format!("{number:.2}");
    let (whole, rest) = text.split_once('.').unwrap_or((&text, ""));
    whole.parse().map_or(text.clone(), |whole| format!("{}.{rest}", grouped(whole)))
}

/// What cargo-criterion says of each benchmark: of an iteration. Its samples are in a file, so these are left empty; its mean is
/// the median, as everywhere here.
fn criterion(report: &Report) -> String {
    let id = |line: &VariantReport| {
        let load = if line.load.is_empty() { String::new() } else { format!("/{}", line.load) };
        format!("{}/{}{load}", report.bench, line.variant)
    };
    let complete = |line: &VariantReport| {
        let [low, high] = line.time_interval_ns.unwrap_or([line.time_ns; 2]);
        let estimate = |ns: [f64; 3]| {
            let [value, low, high] = ns.map(|ns| ns * line.units as f64);
            json!({"estimate": value, "lower_bound": low, "upper_bound": high, "unit": "ns"})
        };
        let time = estimate([line.time_ns, low, high]);
        let throughput = match line.units {
            1 => json!([]),
            units => {
                let bytes = matches!(line.unit.as_str(), "byte" | "bytes");
                json!([{"per_iteration": units, "unit": if bytes { "bytes" } else { "elements" }}])
            }
        };
        json!({
            "reason": "benchmark-complete",
            "id": id(line),
            "report_directory": report.samples,
            "iteration_count": [],
            "measured_values": [],
            "unit": "ns",
            "throughput": throughput,
            "typical": time,
            "mean": time,
            "median": time,
            "median_abs_dev": estimate([line.time_deviation_ns.unwrap_or(f64::NAN); 3]),
            "slope": Value::Null,
            "change": Value::Null,
        })
    };
    let group = json!({
        "reason": "group-complete",
        "group_name": report.bench,
        "benchmarks": report.tracked().map(id).collect::<Vec<_>>(),
        "report_directory": report.samples,
    });
    let messages = report.tracked().map(complete).chain([group]);
    messages.map(|message| message.to_string()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn report() -> Report {
        let line = |variant: &str, verdict: Option<&str>| VariantReport {
            variant: variant.to_owned(),
            load: "n=1|2".to_owned(),
            unit: "item".to_owned(),
            units: 10,
            time_ns: 1_234.5,
            time_interval_ns: Some([1_200.0, 1_300.0]),
            time_deviation_ns: Some(3.0),
            baseline: verdict.map(|_| "Vec<u8>".to_owned()),
            ratio: verdict.map(|_| [2.0, 1.9, 2.1]),
            verdict: verdict.map(str::to_owned),
            counts: BTreeMap::from([("allocations".to_owned(), 3_000), ("allocations_varies".to_owned(), 1)]),
            ..VariantReport::default()
        };
        let control = VariantReport { control: true, ..line("Vec<u8> (A/A)", Some("same")) };
        let variants = vec![line("Vec<u8>", None), line("a,\"b\"*", Some("slower")), control];
        let [bench, measured, samples] = ["calls", "24 processes", "target/x"].map(str::to_owned);
        Report { bench, measured, variants, notes: vec!["a <note>".to_owned()], samples }
    }

    fn printed(format: &str) -> String {
        Format::of(format).expect("a format").table(&report())
    }

    #[test]
    fn formats_are_known_by_name() {
        assert!(printed("pretty").contains("a,\"b\"* (n=1|2)"), "{}", printed("pretty"));
        assert_eq!(printed("json"), format!("{:#}", report().json()));
        assert!(Format::of("xml").expect_err("no format").contains("\"xml\" is none of pretty"));
    }

    #[test]
    fn names_are_listed_as_libtest_does() {
        let names = ["x/a", "x/b@n=1"].map(str::to_owned);
        assert_eq!(Format::Terse.list(&names), "x/a: benchmark\nx/b@n=1: benchmark\n");
        assert_eq!(Format::Pretty.list(&names[..1]), "x/a: benchmark\n\n0 tests, 1 benchmark\n\n");
        assert_eq!(Format::Terse.list(&[]), "");
    }

    #[test]
    fn csv_is_quoted_and_has_a_row_for_each_variant() {
        let text = printed("csv");
        let header = text.lines().next().expect("a header");
        assert_eq!(header.split(',').count(), 24, "{header}");
        let quoted = "calls,\"a,\"\"b\"\"*\",n=1|2,item,10,1234.5,1200,1300,Vec<u8>,false,2,1.9,2.1,,,,slower,,,3000,,,,allocations";
        assert!(text.contains(&format!("\n{quoted}\ncalls,Vec<u8> (A/A),")), "{text}");
    }

    #[test]
    fn markdown_shows_names_and_keeps_its_columns() {
        let text = printed("markdown");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "### calls");
        assert_eq!(lines[5], "|---|--:|--:|---|--:|");
        assert_eq!(lines[6], "| Vec&lt;u8&gt; (n=1\\|2) | 1.23 µs, 810 k/s |  | baseline | \\~3,000 |");
        assert!(lines[7].starts_with("| a,\"b\"\\* (n=1\\|2) | "), "{}", lines[7]);
        assert_eq!(lines.last(), Some(&"- a &lt;note&gt;"));
    }

    #[test]
    fn bencher_prints_what_libtest_prints_of_an_iteration() {
        let text = printed("bencher");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "test calls/Vec<u8>@n=1|2 ... bench:      12,345.00 ns/iter (+/- 500.00)");
        assert_eq!(lines.len(), 2, "a control is not followed");
        let spaced =
            VariantReport { variant: "a b".to_owned(), time_ns: 0.294, units: 1, ..VariantReport::default() };
        assert_eq!(bencher("c", &spaced), "test c/a_b ... bench:           0.29 ns/iter (+/- 0.00)");
    }

    #[test]
    fn criterion_prints_its_messages() {
        let messages: Vec<Value> =
            printed("criterion").lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
        assert_eq!(messages.len(), 3, "{messages:?}");
        let first = &messages[0];
        assert_eq!(
            (&first["reason"], &first["id"]),
            (&"benchmark-complete".into(), &"calls/Vec<u8>/n=1|2".into())
        );
        assert_eq!(
            first["typical"],
            json!({"estimate": 12_345.0, "lower_bound": 12_000.0, "upper_bound": 13_000.0, "unit": "ns"})
        );
        assert_eq!((&first["median_abs_dev"]["estimate"], &first["unit"]), (&30.0.into(), &"ns".into()));
        assert_eq!(first["throughput"][0], json!({"per_iteration": 10, "unit": "elements"}));
        assert_eq!(messages[2]["benchmarks"][1], messages[1]["id"]);
    }
}
