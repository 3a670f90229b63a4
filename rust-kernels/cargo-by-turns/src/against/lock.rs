//! Lock files: what both sides depend on, and what differs.

use std::collections::BTreeMap;

/// The versions of each package in a lock file.
fn packages(text: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in text.split("[[package]]").skip(1) {
        let field = |name: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \""));
            line.and_then(|value| value.strip_suffix('"'))
        };
        if let (Some(name), Some(version)) = (field("name"), field("version")) {
            found.entry(name).or_default().push(version);
        }
    }
    found.values_mut().for_each(|versions| versions.sort_unstable());
    found
}

/// The versions of one package.
pub fn versions(text: &str, name: &str) -> Vec<String> {
    packages(text).get(name).into_iter().flatten().map(|version| (*version).to_owned()).collect()
}

/// Which of these versions cargo would replace by another one: the compatible one, if there are several.
pub fn nearest<'a>(versions: &'a [String], wanted: &str) -> Option<&'a String> {
    // Up to the first number that is not zero, as cargo reads them.
    let line = |version: &str| {
        let zeros = version.split('.').take_while(|number| *number == "0").count();
        version.split('.').take(zeros + 1).map(str::to_owned).collect::<Vec<_>>()
    };
    versions.iter().find(|version| line(version) == line(wanted)).or(versions.first())
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
        assert_eq!(versions(&today, "b"), ["1.9.0", "2.1.0"]);
        let told = ["b: 2.0.0 in the base, 1.9.0 and 2.1.0 today", "c: none in the base, 0.1.0 today"];
        assert_eq!(differences(BASE, &today), told);
        let of = |versions: &[&str], wanted| {
            let versions: Vec<String> = versions.iter().map(|one| (*one).to_owned()).collect();
            nearest(&versions, wanted).cloned()
        };
        assert_eq!(of(&["0.14.5", "0.16.1", "1.2.0"], "0.16.0").as_deref(), Some("0.16.1"));
        assert_eq!(of(&["0.14.5", "1.2.0"], "1.0.0").as_deref(), Some("1.2.0"));
        assert_eq!((of(&["2.0.0"], "1.0.0").as_deref(), of(&[], "1.0.0")), (Some("2.0.0"), None));
        assert!(differences(BASE, BASE).is_empty() && versions(BASE, "c").is_empty());
    }
}
