//! Refuses to measure what was not compiled like `cargo bench`.

use crate::base::error::Error;
use crate::base::profile::Profile;
use crate::provenance::codegen::Codegen;

/// A setting, the value it must have, and whether it has it.
struct Rule {
    variable: String,
    value: &'static str,
    holds: bool,
}

/// Passes builds that were compiled like those of `cargo bench` in this repository: all cells of a notebook are dev
/// builds, and a user's configuration may change a benchmark. Tests of the harness pass, too: their profile says that it
/// is no evidence.
pub(crate) fn check(codegen: &Codegen, profile: &Profile, notebook: bool) -> Result<(), Error> {
    let rules = rules(codegen);
    if profile.is_test() || rules.iter().all(|rule| rule.holds) {
        return Ok(());
    }
    Err(Error::Gate(if notebook { remedy(&rules) } else { native_remedy(codegen, &rules) }))
}

fn rules(codegen: &Codegen) -> [Rule; 5] {
    let of_profile = if codegen.profile == "dev" { "DEV" } else { "BENCH" };
    let rule =
        |name, value, holds| Rule { variable: format!("CARGO_PROFILE_{of_profile}_{name}"), value, holds };
    [
        rule("OPT_LEVEL", "3", codegen.opt_level.as_deref() == Some("3")),
        rule("DEBUG_ASSERTIONS", "false", !codegen.debug_assertions),
        rule("OVERFLOW_CHECKS", "false", !codegen.overflow_checks),
        rule("CODEGEN_UNITS", "1", codegen.codegen_units == Some(1)),
        Rule {
            // It goes before the profile, and before what is configured for all profiles.
            variable: "CARGO_INCREMENTAL".to_owned(),
            value: "0",
            holds: codegen.incremental == Some(false),
        },
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

fn native_remedy(codegen: &Codegen, rules: &[Rule]) -> String {
    let wrong = rules.iter().filter(|rule| !rule.holds);
    let wrong: Vec<String> = wrong.map(|rule| format!("{}={}", rule.variable, rule.value)).collect();
    let wrong = wrong.join(" ");
    if codegen.profile == "dev" {
        return format!(
            "This is a dev build, so its times would mislead. Measure with `cargo bench`, or set {wrong}"
        );
    }
    format!(
        "Your cargo configuration changes how benchmarks are compiled (options: {}), so their times would not be \
         comparable with others. Nothing was measured. Set {wrong} in the environment and measure again",
        codegen.options.join(" ")
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
            options: Vec::new(),
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

    /// Each setting that may be wrong, and what is to be set for it.
    fn wrong() -> [(Codegen, &'static str); 6] {
        [
            (Codegen { opt_level: Some("0".to_owned()), ..like_bench() }, "CARGO_PROFILE_DEV_OPT_LEVEL=3"),
            (Codegen { debug_assertions: true, ..like_bench() }, "CARGO_PROFILE_DEV_DEBUG_ASSERTIONS=false"),
            (Codegen { overflow_checks: true, ..like_bench() }, "CARGO_PROFILE_DEV_OVERFLOW_CHECKS=false"),
            (Codegen { codegen_units: None, ..like_bench() }, "CARGO_PROFILE_DEV_CODEGEN_UNITS=1"),
            (Codegen { codegen_units: Some(16), ..like_bench() }, "CARGO_PROFILE_DEV_CODEGEN_UNITS=1"),
            (Codegen { incremental: Some(true), ..like_bench() }, "CARGO_INCREMENTAL=0"),
        ]
    }

    #[test]
    fn each_wrong_setting_is_named_with_its_remedy() {
        for (codegen, setting) in wrong() {
            assert_eq!(marked(&codegen), [format!(":build_env {setting}")]);
        }
    }

    #[test]
    fn benchmarks_that_a_user_has_configured_are_refused_with_what_to_set() {
        let release = |codegen| Codegen { profile: "release".to_owned(), ..codegen };
        check(&release(like_bench()), &Profile::standard(), false).expect("as cargo bench compiles it here");
        for (codegen, setting) in wrong() {
            let text = check(&release(codegen), &Profile::quick(), false).unwrap_err().to_string();
            assert!(text.contains(&format!("Set {} in", setting.replace("_DEV_", "_BENCH_"))), "{text}");
        }
    }

    #[test]
    fn tests_of_the_harness_pass() {
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
