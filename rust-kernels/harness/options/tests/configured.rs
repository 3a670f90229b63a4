//! Whatever a user has configured for cargo is seen, wherever it stands.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

/// A package that prints its options, below a folder with a cargo configuration.
struct Configured(PathBuf);

impl Configured {
    fn new(configuration: &str) -> Self {
        let root = env::temp_dir().join(format!("compiler-options-{}", std::process::id()));
        let write = |name: &str, text: &str| {
            let file = root.join(name);
            fs::create_dir_all(file.parent().expect("a folder")).expect("a temporary folder");
            fs::write(file, text).expect("a temporary file");
        };
        write(".cargo/config.toml", configuration);
        write(
            "package/Cargo.toml",
            &format!(
                "[package]\nname = \"printed\"\nedition = \"2024\"\n[dependencies]\ncompiler-options.path = {:?}\n\
                 [profile.release]\ncodegen-units = 1\nincremental = false\n[workspace]\n",
                env!("CARGO_MANIFEST_DIR")
            ),
        );
        write(
            "package/src/main.rs",
            "fn main() { println!(\"{}\", { const TOLD: &[&str] = compiler_options::codegen_options!(); TOLD }.join(\" \")) }",
        );
        Self(root)
    }

    fn options(&self, environment: &[(&str, &str)]) -> Vec<String> {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["run", "--quiet", "--release", "--offline"]).current_dir(self.0.join("package"));
        let ours = env::vars().map(|(name, _)| name).filter(|name| {
            name.starts_with("CARGO_PROFILE") || name == "CARGO_INCREMENTAL" || name.ends_with("RUSTFLAGS")
        });
        for name in ours {
            cargo.env_remove(name);
        }
        let output = cargo.env("CARGO_TARGET_DIR", self.0.join("target")).envs(environment.iter().copied());
        let output = output.output().expect("cargo starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_owned).collect()
    }
}

impl Drop for Configured {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("the folder is ours");
    }
}

#[test]
fn configuration_files_and_the_environment_are_seen_in_cargos_own_order() {
    let package =
        Configured::new("[build]\nincremental = true\n[profile.release]\ncodegen-units = 7\nlto = \"off\"\n");
    let has = |options: &[String], wanted: &str| options.iter().any(|option| option == wanted);
    let files = package.options(&[]);
    for wanted in ["codegen-units=7", "incremental", "lto=off", "opt-level=3"] {
        assert!(has(&files, wanted), "{wanted} in {files:?}");
    }
    let environment =
        package.options(&[("CARGO_INCREMENTAL", "0"), ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "2")]);
    assert!(has(&environment, "codegen-units=2") && !has(&environment, "incremental"), "{environment:?}");
}
