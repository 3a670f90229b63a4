//! The manifest of the base, with today's benches put in. It is edited as text: what stands in it stays as it is.

use std::path::Path;

use serde_json::Value;

use crate::against::package::Bench;

/// The manifest with these benches, whose paths are relative to it, and with these dependencies, in place of those of the same
/// name.
pub fn with(text: &str, benches: &[(&Bench, &Path)], dependencies: &[&Value]) -> String {
    let mut text = text.to_owned();
    for dependency in dependencies {
        text = without(&text, named(dependency));
    }
    for (bench, _) in benches {
        text = without_bench(&text, &bench.name);
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    for (bench, path) in benches {
        let path = path.to_string_lossy();
        text += &format!(
            "\n[[bench]]\nname = {}\npath = {}\nharness = false\n",
            quoted(&bench.name),
            quoted(&path)
        );
    }
    for dependency in dependencies {
        text += &section(dependency);
    }
    text
}

/// The name by which a package uses a dependency.
pub fn named(dependency: &Value) -> &str {
    dependency["rename"].as_str().or(dependency["name"].as_str()).unwrap_or_default()
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string() // a basic string of TOML is written as one of JSON
}

fn section(dependency: &Value) -> String {
    let kind = dependency["kind"].as_str().map_or(String::new(), |kind| format!("{kind}-"));
    let target = dependency["target"].as_str();
    let target = target.map_or(String::new(), |target| format!("target.{}.", quoted(target)));
    let mut text = format!("\n[{target}{kind}dependencies.{}]\n", quoted(named(dependency)));
    let mut line = |name: &str, value: String| text += &format!("{name} = {value}\n");
    if dependency["rename"].is_string() {
        line("package", quoted(dependency["name"].as_str().unwrap_or_default()));
    }
    if let Some(requirement) = dependency["req"].as_str().filter(|requirement| *requirement != "*") {
        line("version", quoted(requirement));
    }
    if let Some(path) = dependency["path"].as_str() {
        line("path", quoted(path));
    } else if let Some(git) = dependency["source"].as_str().and_then(|source| source.strip_prefix("git+")) {
        let (address, query) = git.split_once('?').unwrap_or((git, ""));
        line("git", quoted(address));
        if let Some((name, value)) = query.split_once('=') {
            line(name, quoted(value));
        }
    }
    if dependency["optional"] == true {
        line("optional", "true".to_owned());
    }
    if dependency["uses_default_features"] == false {
        line("default-features", "false".to_owned());
    }
    if let Some(features) = dependency["features"].as_array().filter(|features| !features.is_empty()) {
        line("features", Value::from(features.clone()).to_string());
    }
    text
}

/// The manifest without the section of a bench.
fn without_bench(text: &str, name: &str) -> String {
    // A header begins a line; of what a value holds in brackets, so does an array of arrays at most.
    let (mut parts, mut kept) = (vec![String::new()], String::new());
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with('[') {
            parts.push(String::new());
        }
        parts.last_mut().expect("a first one").push_str(line);
    }
    let is = |line: &str| {
        let (key, value) = line.split_once('=').unwrap_or_default();
        let value = value.split('#').next().unwrap_or_default();
        key.trim() == "name" && value.trim().trim_matches(['"', '\'']) == name
    };
    for part in parts {
        let header = part.lines().next().unwrap_or_default().replace(' ', "");
        if !(header.starts_with("[[bench]]") && part.lines().any(is)) {
            kept += &part;
        }
    }
    kept
}

/// The manifest without what it says of a dependency of the package or of its benches.
fn without(text: &str, name: &str) -> String {
    let own = |header: &str| {
        let header: String = header.chars().filter(|c| !matches!(c, '"' | '\'' | ' ' | '[' | ']')).collect();
        let table = match header.strip_prefix("target.") {
            Some(one) => [".dev-", "."]
                .iter()
                .find_map(|kind| Some(&one[one.find(&format!("{kind}dependencies"))? + 1..]))?,
            None => &header,
        };
        let rest = table.strip_prefix("dev-").unwrap_or(table).strip_prefix("dependencies");
        rest.map(|rest| rest.trim_start_matches('.').to_owned())
    };
    let (mut kept, mut section, mut open) = (String::new(), None, 0_i32);
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        if open > 0 {
            open += depth(trimmed); // the rest of a value that is left out
            continue;
        }
        if trimmed.starts_with('[') {
            section = own(trimmed.split('#').next().unwrap_or_default());
        }
        match &section {
            Some(of) if of == name => continue,
            Some(of) if of.is_empty() => {
                let key = trimmed.split(['=', '.']).next().unwrap_or_default().trim();
                if key.trim_matches(['"', '\'']) == name {
                    open = depth(trimmed);
                    continue;
                }
            }
            _ => {}
        }
        kept += line;
    }
    kept
}

/// How many brackets a line leaves open.
fn depth(line: &str) -> i32 {
    line.chars().map(|c| i32::from("[{".contains(c)) - i32::from("]}".contains(c))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const BASE: &str = "[package]\nname = \"p\"\n\n[dev-dependencies]\nby-turns = { path = \"../x\", features = [\n  \"a\",\n] }\n\
                        serde = \"1\"\n[dev-dependencies.tokio]\nversion = \"1\"\n\n[lib]\nbench = false";

    #[test]
    fn a_dependency_is_replaced_and_the_rest_stays() {
        let dependency = |name: &str| json!({"name": name, "kind": "dev", "rename": null, "req": "*", "path": "/w/by turns", "source": null, "features": ["rt"], "uses_default_features": false});
        let bench = Bench { name: "own".to_owned(), source: "/w/benches/own.rs".into() };
        let [first, second] = ["by-turns", "tokio"].map(dependency);
        let text = with(BASE, &[(&bench, Path::new("benches/own.rs"))], &[&first, &second]);
        let begin = "[package]\nname = \"p\"\n\n[dev-dependencies]\nserde = \"1\"\n[lib]\nbench = false\n";
        assert!(text.starts_with(begin), "{text}");
        assert!(text.contains("[[bench]]\nname = \"own\"\npath = \"benches/own.rs\"\nharness = false\n"));
        let section = "[dev-dependencies.\"tokio\"]\npath = \"/w/by turns\"\ndefault-features = false\nfeatures = [\"rt\"]\n";
        assert!(text.ends_with(section), "{text}");
    }

    #[test]
    fn a_bench_that_moved_is_told_once() {
        let text = "[[bench]]\nname = \"a\"\n\n[[ bench ]] # b\nname = 'b' # it\npath = \"x\"\nharness = false\n[lib]\nname = \"b\"\n";
        let bench = Bench { name: "b".to_owned(), source: "/w/perf/b.rs".into() };
        let told = with(text, &[(&bench, Path::new("perf/b.rs"))], &[]);
        let section = "\n[[bench]]\nname = \"b\"\npath = \"perf/b.rs\"\nharness = false\n";
        assert_eq!(told, format!("[[bench]]\nname = \"a\"\n\n[lib]\nname = \"b\"\n{section}"));
    }

    #[test]
    fn releases_git_and_other_names_are_written_as_cargo_knows_them() {
        let renamed = json!({"name": "tokio", "kind": "dev", "rename": "old", "req": "^1.2", "source": "registry+x", "features": [], "uses_default_features": true});
        assert_eq!(
            section(&renamed),
            "\n[dev-dependencies.\"old\"]\npackage = \"tokio\"\nversion = \"^1.2\"\n"
        );
        let git = json!({"name": "t", "kind": null, "optional": true, "req": "*", "source": "git+https://example.org/t?branch=next", "features": []});
        assert_eq!(
            section(&git),
            "\n[dependencies.\"t\"]\ngit = \"https://example.org/t\"\nbranch = \"next\"\noptional = true\n"
        );
        assert_eq!(
            without("[dependencies]\na = \"1\"\n[dev-dependencies]\na.workspace = true\nab = \"1\"\n", "a"),
            "[dependencies]\n[dev-dependencies]\nab = \"1\"\n"
        );
        let of_target = json!({"name": "t", "kind": "dev", "target": "cfg(target_os = \"linux\")", "req": "^1", "features": []});
        let added =
            "\n[target.\"cfg(target_os = \\\"linux\\\")\".dev-dependencies.\"t\"]\nversion = \"^1\"\n";
        assert_eq!(section(&of_target), added);
        let others =
            "[target.'cfg(unix)'.build-dependencies]\nt = \"1\"\n[target.\"x\".dependencies]\nu = \"1\"\n";
        let text = format!(
            "[target.'cfg(target_os = \"linux\")'.dev-dependencies]\nt = \"1\"\n[target.x.dependencies.t]\nversion = \"1\"\n{others}"
        );
        let kept = "[target.'cfg(target_os = \"linux\")'.dev-dependencies]\n";
        assert_eq!(without(&text, "t"), format!("{kept}{others}"));
        assert_eq!(without(added, "t"), "\n");
    }
}
