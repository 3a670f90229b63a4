//! Refuses to measure what was not compiled like `cargo bench`.

use crate::base::error::Error;
use crate::base::profile::Profile;
use crate::provenance::codegen::Codegen;

/// A setting, the value it must have, and whether it has it.
struct Rule {
    variable: &'static str,
    value: &'static str,
    holds: bool,
}

/// Passes release builds, and dev builds (all cells of a notebook are dev builds) that were told to compile
/// alike. Tests of the harness pass, too: their profile says that it is no evidence.
pub(crate) fn check(codegen: &Codegen, profile: &Profile, notebook: bool) -> Result<(), Error> {
    let rules = rules(codegen);
    if codegen.profile != "dev" || profile.is_test() || rules.iter().all(|rule| rule.holds) {
        return Ok(());
    }
    Err(Error::Gate(if notebook { remedy(&rules) } else { native_remedy(&rules) }))
}

fn rules(codegen: &Codegen) -> [Rule; 5] {
    let rule = |variable, value, holds| Rule { variable, value, holds };
    [
        rule("CARGO_PROFILE_DEV_OPT_LEVEL", "3", codegen.opt_level.as_deref() == Some("3")),
        rule("CARGO_PROFILE_DEV_DEBUG_ASSERTIONS", "false", !codegen.debug_assertions),
        rule("CARGO_PROFILE_DEV_OVERFLOW_CHECKS", "false", !codegen.overflow_checks),
        rule("CARGO_PROFILE_DEV_CODEGEN_UNITS", "1", codegen.codegen_units == Some(1)),
        rule("CARGO_PROFILE_DEV_INCREMENTAL", "false", codegen.incremental == Some(false)),
    ]
}

fn remedy(rules: &[Rule]) -> String {
    let mut text = String::from(
        "These cells are not compiled like `cargo bench`, so their times would mislead. Put the lines marked with <- into the \
         first cell of the notebook, restart the kernel and run all cells:\n",
    );
    for rule in rules {
        let mark = if rule.holds { "" } else { "  <-" };
        text += &format!("\n:build_env {}={}{mark}", rule.variable, rule.value);
    }
    text
}

fn native_remedy(rules: &[Rule]) -> String {
    let wrong = rules.iter().filter(|rule| !rule.holds);
    let wrong: Vec<String> = wrong.map(|rule| format!("{}={}", rule.variable, rule.value)).collect();
    format!(
        "This is a dev build, so its times would mislead. Measure with `cargo bench`, or set {}",
        wrong.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn like_bench() -> Codegen {
        Codegen {
            profile: "dev".to_owned(),
            opt_level: Some("3".to_owned()),
            debug_assertions: false,
            overflow_checks: false,
            codegen_units: Some(1),
            incremental: Some(false),
            lto: None,
            prefer_dynamic: true,
            rustflags: Vec::new(),
        }
    }

    fn marked(codegen: &Codegen) -> Vec<String> {
        let error = check(codegen, &Profile::quick(), true).expect_err("must be refused").to_string();
        let lines = error.lines().filter_map(|line| line.strip_suffix("  <-").map(str::to_owned));
        lines.collect()
    }

    #[test]
    fn cells_compiled_like_cargo_bench_pass() {
        check(&like_bench(), &Profile::standard(), true).expect("these settings are right");
    }

    #[test]
    fn each_wrong_setting_is_named_with_its_remedy() {
        let cases = [
            (Codegen { opt_level: Some("0".to_owned()), ..like_bench() }, "OPT_LEVEL=3"),
            (Codegen { debug_assertions: true, ..like_bench() }, "DEBUG_ASSERTIONS=false"),
            (Codegen { overflow_checks: true, ..like_bench() }, "OVERFLOW_CHECKS=false"),
            (Codegen { codegen_units: None, ..like_bench() }, "CODEGEN_UNITS=1"),
            (Codegen { codegen_units: Some(16), ..like_bench() }, "CODEGEN_UNITS=1"),
            (Codegen { incremental: Some(true), ..like_bench() }, "INCREMENTAL=false"),
            (Codegen { incremental: None, ..like_bench() }, "INCREMENTAL=false"),
        ];
        for (codegen, line) in cases {
            assert_eq!(marked(&codegen), [format!(":build_env CARGO_PROFILE_DEV_{line}")]);
        }
    }

    #[test]
    fn release_builds_and_tests_of_the_harness_pass() {
        let release = Codegen { profile: "release".to_owned(), codegen_units: None, ..like_bench() };
        check(&release, &Profile::standard(), false).expect("a release build");
        let test = Profile { name: "test".to_owned(), ..Profile::quick() };
        check(&Codegen { debug_assertions: true, ..like_bench() }, &test, false).expect("a test");
    }

    #[test]
    fn a_dev_build_outside_of_a_notebook_is_sent_to_cargo_bench() {
        let dev = Codegen { debug_assertions: true, ..like_bench() };
        let text = check(&dev, &Profile::quick(), false).unwrap_err().to_string();
        assert!(text.contains("cargo bench") && !text.contains(":build_env"), "{text}");
    }
}
