//! The program of a bench, of one side: the same compiler, options and configuration for both.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use by_turns_core::run::files::at;
use by_turns_core::run::link::{self, Linked};
use by_turns_core::run::process;
use serde_json::Value;

use crate::against::arguments::Arguments;
use crate::against::package::{Package, cargo};

/// Set, as `cfg`, for a bench that is compiled for the base.
const CFG: &str = "by_turns_base";
/// So many lines of a compiler's errors are shown.
const LINES: usize = 40;

/// A program, and what it was linked from.
pub struct Built {
    pub program: PathBuf,
    /// Or why there are no link orders.
    pub linked: Result<Linked, String>,
}

/// Compiles a bench, with the linker's archive and its parts in `folder`.
///
/// # Errors
/// What the compiler says.
pub fn built(
    arguments: &Arguments,
    package: &Package,
    bench: &str,
    base: bool,
    target: &Path,
    folder: &Path,
) -> Result<Built, String> {
    fs::create_dir_all(folder).map_err(at(folder))?;
    let linker = if arguments.layouts { link::linker() } else { Err("--no-layouts".to_owned()) };
    let linker = match linker {
        Ok(linker) => linker,
        Err(why) => {
            let program = compiled(arguments, package, bench, base, target, None)?;
            return Ok(Built { program, linked: Err(why) });
        }
    };
    // The same in each run, as cargo names a program by it.
    let archive = target.join("by-turns").join(format!("{bench}.linked.tar"));
    let parent = archive.parent().expect("a folder");
    fs::create_dir_all(parent).map_err(at(parent))?;
    let _ = fs::remove_file(&archive); // of a run that was killed
    let mut program = compiled(arguments, package, bench, base, target, Some(&archive));
    if let Some(linked) = program.as_ref().ok().filter(|_| !archive.exists()) {
        // In an earlier run. Without its program cargo links once more, and the linker keeps what it links.
        let _ = fs::remove_file(linked);
        program = compiled(arguments, package, bench, base, target, Some(&archive));
    }
    match program {
        Ok(program) if archive.exists() => {
            let linked = Linked::unpacked(&archive, linker, folder);
            let _ = fs::remove_file(&archive);
            Ok(Built { program, linked })
        }
        Ok(program) => Ok(Built { program, linked: Err(link::NO_ARCHIVE.to_owned()) }),
        Err(why) if why.contains("linking with") => {
            let program = compiled(arguments, package, bench, base, target, None)?;
            Ok(Built { program, linked: Err(link::NO_ARCHIVE.to_owned()) })
        }
        Err(why) => Err(why),
    }
}

fn compiled(
    arguments: &Arguments,
    package: &Package,
    bench: &str,
    base: bool,
    target: &Path,
    archive: Option<&Path>,
) -> Result<PathBuf, String> {
    let mut command = cargo();
    // Cargo's configuration and the toolchain are those of this folder, for both sides.
    command.args(["rustc", "--quiet", "--message-format", "json-render-diagnostics", "--bench", bench]);
    command.arg("--manifest-path").arg(package.manifest()).arg("--target-dir").arg(target);
    if !arguments.cargo.iter().any(|word| word == "--profile") {
        command.args(["--profile", "bench"]);
    }
    command.args(&arguments.cargo).arg("--").arg("--check-cfg").arg(format!("cfg({CFG})"));
    if base {
        command.args(["--cfg", CFG]);
    }
    if let Some(archive) = archive {
        command.arg("-C").arg(link::keeping(archive));
    }
    let done = process::bound(&mut command, None).stdin(Stdio::null()).output();
    let done = done.map_err(|error| format!("cargo: {error}"))?;
    let said = String::from_utf8_lossy(&done.stderr);
    if !done.status.success() {
        let lines: Vec<&str> = said.lines().collect();
        let cut = if lines.len() > LINES { "\n…" } else { "" };
        return Err(format!("{}{cut}", lines[..lines.len().min(LINES)].join("\n")));
    }
    let messages = String::from_utf8_lossy(&done.stdout);
    program(&messages, bench).ok_or_else(|| format!("cargo has made no program of bench {bench}"))
}

/// The program of this bench in what cargo says.
fn program(messages: &str, bench: &str) -> Option<PathBuf> {
    messages.lines().rev().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let target = &message["target"];
        let own = target["name"] == bench && target["kind"][0] == "bench";
        message["executable"].as_str().filter(|_| own).map(PathBuf::from)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_that_of_the_bench() {
        let line = |kind: &str, name: &str, file: Option<&str>| serde_json::json!({"reason": "compiler-artifact", "target": {"kind": [kind], "name": name}, "executable": file});
        let lines = [
            line("bench", "own", Some("/t/own-1")),
            line("lib", "own", None),
            line("bench", "b", Some("/t/b-1")),
        ];
        let text = lines.map(|line| line.to_string()).join("\n") + "\nno json";
        assert_eq!(program(&text, "own"), Some(PathBuf::from("/t/own-1")));
        assert_eq!(program(&text, "other"), None);
    }
}
