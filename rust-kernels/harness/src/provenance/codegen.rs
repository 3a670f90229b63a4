//! How this program was compiled.

use std::hint::black_box;
use std::panic::catch_unwind;

use serde::{Deserialize, Serialize};

use crate::base::panics;
use crate::provenance::kernel;

/// The settings that change what compiled code does. What is not known is `None`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Codegen {
    /// `dev` or `release`; cargo does not tell bench from release.
    pub(crate) profile: String,
    pub(crate) opt_level: Option<String>,
    /// Observed in this crate's own code.
    pub(crate) debug_assertions: bool,
    /// Observed in this crate's own code.
    pub(crate) overflow_checks: bool,
    pub(crate) codegen_units: Option<u32>,
    pub(crate) incremental: Option<bool>,
    pub(crate) lto: Option<String>,
    pub(crate) prefer_dynamic: bool,
    /// Flags given to every crate, without those that hold a path.
    pub(crate) rustflags: Vec<String>,
}

/// The compiler that built this program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Toolchain {
    pub(crate) rustc: Option<String>,
    pub(crate) target: Option<String>,
    pub(crate) evcxr: Option<String>,
}

/// Manifest of the workspace at the time of compilation.
const MANIFEST: &str = include_str!(concat!(env!("OUT_DIR"), "/workspace.toml"));

impl Codegen {
    /// The settings of this build.
    pub(crate) fn of_this_build() -> Self {
        let dev = env!("HARNESS_PROFILE") == "debug";
        let told = Told { dev, manifest: MANIFEST, environment: &environment };
        let rustflags: Vec<String> =
            env!("HARNESS_RUSTFLAGS").split_whitespace().map(str::to_owned).collect();
        Self {
            profile: if dev { "dev" } else { env!("HARNESS_PROFILE") }.to_owned(),
            opt_level: known(env!("HARNESS_OPT_LEVEL")),
            debug_assertions: cfg!(debug_assertions),
            overflow_checks: overflow_is_checked(),
            codegen_units: told.setting("CODEGEN_UNITS").and_then(|text| text.parse().ok()),
            incremental: known(env!("HARNESS_CARGO_INCREMENTAL"))
                .map(|text| text == "1")
                .or_else(|| told.setting("INCREMENTAL").and_then(|text| text.parse().ok())),
            lto: told.setting("LTO"),
            prefer_dynamic: rustflags.iter().any(|flag| flag.ends_with("prefer-dynamic")),
            rustflags,
        }
    }
}

impl Toolchain {
    pub(crate) fn of_this_build() -> Self {
        Self {
            rustc: known(env!("HARNESS_RUSTC")),
            target: known(env!("HARNESS_TARGET")),
            evcxr: kernel::version(),
        }
    }
}

/// What cargo was told about the profile in use: the environment goes before the manifest.
struct Told<'a> {
    dev: bool,
    manifest: &'a str,
    environment: &'a dyn Fn(&str) -> Option<String>,
}

impl Told<'_> {
    /// The value of a setting such as `CODEGEN_UNITS`; `None` when cargo was not told, or was told different
    /// things for release and bench, between which a program cannot tell.
    fn setting(&self, name: &str) -> Option<String> {
        if self.dev {
            return self.of_profile("dev", name);
        }
        let release = self.of_profile("release", name);
        let bench = self.of_profile("bench", name).or_else(|| release.clone());
        if release == bench { release } else { None }
    }

    fn of_profile(&self, profile: &str, name: &str) -> Option<String> {
        let variable = format!("CARGO_PROFILE_{}_{name}", profile.to_uppercase());
        let told = (self.environment)(&variable);
        if self.dev {
            // The kernel compiles cells in a workspace of its own, whose manifest is not the repository's.
            return told;
        }
        told.or_else(|| self.in_manifest(profile, &name.to_lowercase().replace('_', "-")))
    }

    fn in_manifest(&self, profile: &str, name: &str) -> Option<String> {
        let manifest: toml::Table = self.manifest.parse().ok()?;
        match manifest.get("profile")?.get(profile)?.get(name)? {
            toml::Value::String(text) => Some(text.clone()),
            toml::Value::Integer(number) => Some(number.to_string()),
            toml::Value::Boolean(flag) => Some(flag.to_string()),
            _ => None,
        }
    }
}

/// A variable `CARGO_PROFILE_...` as the build script found it.
fn environment(variable: &str) -> Option<String> {
    let mut told = env!("HARNESS_CARGO_PROFILES").split(' ');
    known(told.find_map(|setting| setting.strip_prefix(variable)?.strip_prefix('='))?)
}

fn known(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn overflow_is_checked() -> bool {
    let _quiet = panics::Quiet::new();
    // An overflow panics where it is checked and wraps where it is not.
    catch_unwind(|| black_box(black_box(u8::MAX) + black_box(1))).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[profile.dev]\ncodegen-units = 1\n\
         [profile.release]\ncodegen-units = 1\nlto = \"thin\"\n[profile.bench]\ncodegen-units = 1\n";

    fn told(dev: bool, environment: &dyn Fn(&str) -> Option<String>) -> Told<'_> {
        Told { dev, manifest: MANIFEST, environment }
    }

    #[test]
    fn the_environment_goes_before_the_manifest() {
        let environment = |name: &str| (name == "CARGO_PROFILE_RELEASE_LTO").then(|| "fat".to_owned());
        assert_eq!(told(false, &environment).setting("LTO").as_deref(), Some("fat"));
        assert_eq!(told(false, &|_| None).setting("LTO").as_deref(), Some("thin"));
    }

    #[test]
    fn the_manifest_says_nothing_about_cells() {
        assert_eq!(told(true, &|_| None).setting("CODEGEN_UNITS"), None);
    }

    #[test]
    fn bench_and_release_that_differ_are_unknown() {
        let environment = |name: &str| (name == "CARGO_PROFILE_BENCH_CODEGEN_UNITS").then(|| "16".to_owned());
        assert_eq!(told(false, &environment).setting("CODEGEN_UNITS"), None);
        assert_eq!(told(false, &|_| None).setting("CODEGEN_UNITS").as_deref(), Some("1"));
    }

    #[test]
    fn observed_checks_agree_with_each_other_under_cargo_test() {
        let codegen = Codegen::of_this_build();
        assert_eq!(codegen.debug_assertions, cfg!(debug_assertions));
        assert_eq!(
            codegen.overflow_checks,
            cfg!(debug_assertions),
            "cargo sets both alike unless told otherwise"
        );
    }
}
