//! How this program was compiled.

use std::hint::black_box;
use std::panic::catch_unwind;

use serde::{Deserialize, Serialize};

use crate::provenance::kernel;
use by_turns_core::base::panics;

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

/// A fact that run.json has a place for and this crate does not find out: null.
pub(crate) type Unknown = ();

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
            // Cargo does not pass the compiler a level that is the compiler's default.
            opt_level: option_value(OPTIONS, "opt-level").or_else(|| nonempty(env!("HARNESS_OPT_LEVEL"))),
            debug_assertions: cfg!(debug_assertions),
            overflow_checks: overflow_is_checked(),
            codegen_units: option_value(OPTIONS, "codegen-units").and_then(|text| text.parse().ok()),
            incremental: Some(option_value(OPTIONS, "incremental").is_some()),
            lto: option_value(OPTIONS, "lto").or_else(|| option_value(OPTIONS, "linker-plugin-lto")),
            prefer_dynamic: option_value(OPTIONS, "prefer-dynamic").is_some(),
            rustflags,
            options: OPTIONS.iter().map(|option| (*option).to_owned()).collect(),
        }
    }
}

impl Toolchain {
    pub(crate) fn of_this_build() -> Self {
        Self {
            rustc: nonempty(env!("HARNESS_RUSTC")),
            target: nonempty(env!("HARNESS_TARGET")),
            evcxr: kernel::version(),
            linker: (),
        }
    }
}

/// The value of an option: of several the last, as for the compiler; of one without a value its name.
fn option_value(options: &[&str], name: &str) -> Option<String> {
    let value = |option: &&str| option.strip_prefix(name)?.strip_prefix('=').map(str::to_owned);
    let named = |option: &&&str| **option == name;
    options.iter().rev().find_map(value).or_else(|| options.iter().find(named).map(|name| (*name).to_owned()))
}

fn nonempty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn overflow_is_checked() -> bool {
    let _silenced = panics::SilencedPanics::begin();
    // An overflow panics where it is checked and wraps where it is not.
    catch_unwind(|| black_box(black_box(u8::MAX) + black_box(1))).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_several_options_holds() {
        let options = ["codegen-units=1", "incremental", "codegen-units=16", "linker-plugin-lto"];
        assert_eq!(option_value(&options, "codegen-units").as_deref(), Some("16"));
        assert_eq!(option_value(&options, "incremental").as_deref(), Some("incremental"));
        assert_eq!(option_value(&options, "lto"), None);
    }
}
