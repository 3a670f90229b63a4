//! How this program was compiled.

use std::hint::black_box;
use std::panic::catch_unwind;

use serde::{Deserialize, Serialize};

use crate::provenance::kernel;
use by_turns::base::machine::Unknown;
use by_turns::base::panics;

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
    /// All options that the compiler was given: see [`compiler_options::codegen_options`].
    pub(crate) options: Vec<String>,
}

/// The compiler that built this program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Toolchain {
    pub(crate) rustc: Option<String>,
    pub(crate) target: Option<String>,
    pub(crate) evcxr: Option<String>,
    pub(crate) linker: Unknown,
}

/// The options that the compiler was given for this crate, which is compiled like every other one of the program.
const OPTIONS: &[&str] = compiler_options::codegen_options!();

impl Codegen {
    /// The settings of this build.
    pub(crate) fn of_this_build() -> Self {
        let rustflags: Vec<String> =
            env!("HARNESS_RUSTFLAGS").split_whitespace().map(str::to_owned).collect();
        Self {
            profile: if env!("HARNESS_PROFILE") == "debug" { "dev" } else { env!("HARNESS_PROFILE") }
                .to_owned(),
            // Cargo does not tell the compiler a level that is the compiler's default.
            opt_level: told(OPTIONS, "opt-level").or_else(|| known(env!("HARNESS_OPT_LEVEL"))),
            debug_assertions: cfg!(debug_assertions),
            overflow_checks: overflow_is_checked(),
            codegen_units: told(OPTIONS, "codegen-units").and_then(|text| text.parse().ok()),
            incremental: Some(told(OPTIONS, "incremental").is_some()),
            lto: told(OPTIONS, "lto").or_else(|| told(OPTIONS, "linker-plugin-lto")),
            prefer_dynamic: told(OPTIONS, "prefer-dynamic").is_some(),
            rustflags,
            options: OPTIONS.iter().map(|option| (*option).to_owned()).collect(),
        }
    }
}

impl Toolchain {
    pub(crate) fn of_this_build() -> Self {
        Self {
            rustc: known(env!("HARNESS_RUSTC")),
            target: known(env!("HARNESS_TARGET")),
            evcxr: kernel::version(),
            linker: (),
        }
    }
}

/// The value of an option: of several the last, as for the compiler; of one without a value its name.
fn told(options: &[&str], name: &str) -> Option<String> {
    let value = |option: &&str| option.strip_prefix(name)?.strip_prefix('=').map(str::to_owned);
    let named = |option: &&&str| **option == name;
    options.iter().rev().find_map(value).or_else(|| options.iter().find(named).map(|name| (*name).to_owned()))
}

fn known(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn overflow_is_checked() -> bool {
    let _quiet = panics::Quiet::begin();
    // An overflow panics where it is checked and wraps where it is not.
    catch_unwind(|| black_box(black_box(u8::MAX) + black_box(1))).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_several_options_holds() {
        let options = ["codegen-units=1", "incremental", "codegen-units=16", "linker-plugin-lto"];
        assert_eq!(told(&options, "codegen-units").as_deref(), Some("16"));
        assert_eq!(told(&options, "incremental").as_deref(), Some("incremental"));
        assert_eq!(told(&options, "lto"), None);
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
