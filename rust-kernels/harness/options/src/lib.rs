//! The options of code generation that the compiler was given.
//!
//! Cargo tells a program some of its settings and not others, and takes them from a manifest, from configuration files
//! above the current folder and in the user's home, and from the environment. A macro runs inside of the compiler, so
//! it sees what became of all that: the compiler's own arguments.

use std::env;

use proc_macro::TokenStream;

/// A `&[&str]` of the options `-C` of the crate in which it stands, in order: such as `opt-level=3`. Of an option whose
/// value is a path there is the name alone, such as `incremental`; left out are the names of this build's files.
#[proc_macro]
pub fn codegen_options(_: TokenStream) -> TokenStream {
    let arguments = env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    format!("&{:?}", options(arguments)).parse().expect("a list of texts")
}

/// Options that name files of one build.
const FILES: [&str; 2] = ["metadata", "extra-filename"];

fn options(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let mut arguments = arguments.skip(1);
    let mut options = Vec::new();
    while let Some(argument) = arguments.next() {
        let option = match argument.as_str() {
            "-C" | "--codegen" => arguments.next(),
            "-O" => Some("opt-level=3".to_owned()),
            other => other.strip_prefix("-C").or(other.strip_prefix("--codegen=")).map(str::to_owned),
        };
        options.extend(option.filter(|option| !FILES.contains(&name(option))).map(|option| public(&option)));
    }
    options
}

fn name(option: &str) -> &str {
    option.split('=').next().unwrap_or_default()
}

/// A path may name a person.
fn public(option: &str) -> String {
    if option.contains(['/', '\\']) { name(option) } else { option }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options_of(arguments: &str) -> Vec<String> {
        options(arguments.split(' ').map(str::to_owned))
    }

    #[test]
    fn every_way_to_write_an_option_is_understood() {
        let options = options_of(
            "rustc --edition=2024 -C opt-level=3 -Ccodegen-units=1 --codegen lto=fat --codegen=strip=none -O",
        );
        assert_eq!(options, ["opt-level=3", "codegen-units=1", "lto=fat", "strip=none", "opt-level=3"]);
    }

    #[test]
    fn no_path_and_no_name_of_a_build_is_told() {
        let options = options_of(
            "rustc -C metadata=1f -C extra-filename=-2e -C incremental=/mine/target -Cprofile-use=C:\\me",
        );
        assert_eq!(options, ["incremental", "profile-use"]);
    }
}
