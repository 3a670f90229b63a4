//! Lock files: what both sides depend on, and what differs.

use std::collections::{BTreeMap, BTreeSet};

/// A package in a lock file.
struct Locked<'a> {
    name: &'a str,
    version: &'a str,
    /// Names, with versions where one alone would not do.
    dependencies: Vec<&'a str>,
}

fn locked(text: &str) -> Vec<Locked<'_>> {
    let package = |package| {
        let field = |name: &str| {
            let mut lines = str::lines(package);
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \"")?.strip_suffix('"'))
        };
        let listed = |line| str::strip_prefix(line, " \"")?.strip_suffix("\",");
        let dependencies = package.lines().filter_map(listed).collect();
        Some(Locked { name: field("name")?, version: field("version")?, dependencies })
    };
    text.split("[[package]]").skip(1).filter_map(package).collect()
}

/// The versions of each package in a lock file.
fn packages(text: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    locked(text).iter().for_each(|one| found.entry(one.name).or_default().push(one.version));
    found.values_mut().for_each(|versions| versions.sort_unstable());
    found
}

/// Whether there is such a package.
pub fn holds(text: &str, name: &str) -> bool {
    packages(text).contains_key(name)
}

/// What a package depends on, by way of others too but not of by-turns: names with versions.
pub fn reached<'a>(text: &'a str, package: &str) -> BTreeSet<(&'a str, &'a str)> {
    let all = locked(text);
    let mut found = BTreeSet::new();
    let mut open: Vec<&Locked> = all.iter().filter(|one| one.name == package).collect();
    while let Some(one) = open.pop() {
        for dependency in &one.dependencies {
            let mut words = dependency.split(' ');
            let (name, version) = (words.next(), words.next());
            let is = |other: &&Locked| {
                Some(other.name) == name && version.is_none_or(|version| other.version == version)
            };
            let new = all.iter().filter(is).filter(|other| other.name != "by-turns");
            open.extend(new.filter(|other| found.insert((other.name, other.version))));
        }
    }
    found
}

/// Which of these versions cargo would replace by another one: the compatible one, if there are several.
pub fn nearest<'a>(versions: &[&'a str], wanted: &str) -> Option<&'a str> {
    // Up to the first number that is not zero, as cargo reads them.
    let line = |version: &str| {
        let zeros = version.split('.').take_while(|number| *number == "0").count();
        version.split('.').take(zeros + 1).map(str::to_owned).collect::<Vec<_>>()
    };
    versions.iter().find(|version| line(version) == line(wanted)).or(versions.first()).copied()
}

/// What the base has in place of what today has: a line for each package.
pub fn differences(base: &str, today: &str) -> Vec<String> {
    let (base, today) = (packages(base), packages(today));
    let mut names: Vec<&str> = base.keys().chain(today.keys()).copied().collect();
    names.sort_unstable();
    names.dedup();
    let shown = |versions: Option<&Vec<&str>>| versions.map_or("none".to_owned(), |some| some.join(" and "));
    let differing = names.into_iter().filter(|name| base.get(name) != today.get(name));
    differing
        .map(|name| {
            format!("{name}: {} in the base, {} today", shown(base.get(name)), shown(today.get(name)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"b\"\nversion = \"2.0.0\"\nsource = \"registry+x\"\n";

    #[test]
    fn what_differs_is_named() {
        let today = BASE.replace("2.0.0", "2.1.0")
            + "\n[[package]]\nname = \"b\"\nversion = \"1.9.0\"\n\n[[package]]\nname = \"c\"\nversion = \"0.1.0\"\n";
        let told = ["b: 2.0.0 in the base, 1.9.0 and 2.1.0 today", "c: none in the base, 0.1.0 today"];
        assert_eq!(differences(BASE, &today), told);
        assert_eq!(nearest(&["0.14.5", "0.16.1", "1.2.0"], "0.16.0"), Some("0.16.1"));
        assert_eq!(nearest(&["0.14.5", "1.2.0"], "1.0.0"), Some("1.2.0"));
        assert_eq!((nearest(&["2.0.0"], "1.0.0"), nearest(&[], "1.0.0")), (Some("2.0.0"), None));
        assert!(differences(BASE, BASE).is_empty());
    }

    #[test]
    fn what_only_by_turns_depends_on_is_not_reached() {
        let package = |name: &str, version: &str, dependencies: &[&str]| {
            let listed: String = dependencies.iter().map(|one| format!(" \"{one}\",\n")).collect();
            format!(
                "[[package]]\nname = \"{name}\"\nversion = \"{version}\"\ndependencies = [\n{listed}]\n\n"
            )
        };
        let text = [
            package("user", "0.1.0", &["a 2.0.0", "by-turns"]),
            package("a", "1.0.0", &[]),
            package("a", "2.0.0", &["b", "user"]),
            package("b", "1.0.0", &["a 2.0.0"]),
            package("by-turns", "0.1.0", &["memchr", "a 1.0.0"]),
            package("memchr", "2.0.0", &[]),
        ];
        let text = text.concat();
        assert!(reached(&text, "user").into_iter().eq([("a", "2.0.0"), ("b", "1.0.0"), ("user", "0.1.0")]));
        assert!(holds(&text, "memchr") && !holds(&text, "none"));
    }
}
