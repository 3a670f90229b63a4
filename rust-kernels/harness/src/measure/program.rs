//! A study as a program: `cargo bench -p <study> --bench measure`.

use crate::base::declared::Comparison;
use crate::base::error::Error;
use crate::base::profile::Profile;
use crate::study::builder::Study;
use by_turns_core::base::csv;

/// Columns of what `--comparisons` prints.
const COLUMNS: [&str; 11] = [
    "study",
    "bench",
    "variant",
    "parameter",
    "baseline_bench",
    "baseline_variant",
    "baseline_parameter",
    "group",
    "limit",
    "change",
    "unit",
];

/// Measures the study in the profile of the environment, and prints what was measured. With the argument
/// `--comparisons` it measures nothing and prints, as CSV, what the study compares with what, in the order of
/// [`Study::comparisons`] and without the controls. Other arguments are cargo's and mean nothing.
///
/// # Errors
/// Those of [`Study::measure`].
pub fn main(study: Study) -> Result<(), Error> {
    if std::env::args().any(|argument| argument == "--comparisons") {
        print!("{}", table(&study)?);
        return Ok(());
    }
    let outcome = study.measure(&Profile::from_env()?)?;
    println!("{outcome}");
    Ok(())
}

fn table(study: &Study) -> Result<String, Error> {
    let (comparisons, limits) = (study.comparisons()?, study.groups()?);
    let mut table = csv::line(COLUMNS) + "\n";
    for comparison in comparisons.iter().filter(|comparison| !comparison.is_control()) {
        let limit = limits[&comparison.group].to_string();
        table += &(csv::line(record(study.name(), comparison, &limit)) + "\n");
    }
    Ok(table)
}

fn record<'a>(study: &'a str, comparison: &'a Comparison, limit: &'a str) -> [&'a str; 11] {
    let Comparison { key: k, baseline: b, group, change, unit } = comparison;
    [
        study,
        &k.bench,
        &k.variant,
        &k.parameter,
        &b.bench,
        &b.variant,
        &b.parameter,
        group,
        limit,
        change,
        unit,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use by_turns_core::base::key::Key;
    use by_turns_core::trial::bencher::Bencher;

    #[test]
    fn what_is_compared_is_printed_without_controls_and_quoted_where_needed() {
        let nothing = |bencher: &mut Bencher| bencher.iter(&mut || ());
        let key = |variant| Key::new("b", variant, "n=1");
        let study = ["a", "b", "c, with a comma"]
            .into_iter()
            .fold(Study::new("s").baseline("a").unit("call"), |study, variant| {
                study.bench(key(variant), nothing)
            })
            .also_compare(key("c, with a comma"), key("b"), "a box, and more")
            .control("n=1");
        let expected = "\
            study,bench,variant,parameter,baseline_bench,baseline_variant,baseline_parameter,group,limit,change,unit\n\
            s,b,b,n=1,b,a,n=1,,0.01,`b` instead of `a`,call\n\
            s,b,\"c, with a comma\",n=1,b,a,n=1,,0.01,\"`c, with a comma` instead of `a`\",call\n\
            s,b,\"c, with a comma\",n=1,b,b,n=1,,0.01,\"a box, and more\",call\n";
        assert_eq!(table(&study).expect("a sound study"), expected);
    }
}
