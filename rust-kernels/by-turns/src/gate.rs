//! A gate for changes: what is exact, of two revisions.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::counts::Counted;
use crate::report::named;
use by_turns_core::base::key::Key;
use by_turns_core::base::markdown::plain;
use by_turns_core::base::number::grouped;
use by_turns_core::count::table::{COUNTERS, Change, Count};

/// What became of the counts.
#[derive(Debug, PartialEq)]
pub struct Gate {
    /// A table in Markdown.
    pub table: String,
    /// Whether nothing grew by more than it may, and everything could be compared.
    pub passed: bool,
}

/// Compares the counts of two revisions. `allowed` says by how many per cent a counter may grow.
pub fn compare(bench: &str, before: &[Count], after: &Counted, allowed: &BTreeMap<String, f64>) -> Gate {
    let Counted { counts: after, left_out, failed } = after;
    let mut keys: Vec<&Key> = Vec::new();
    for Count { key, .. } in after.iter().chain(before) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let (mut rows, mut same, mut beyond, mut within) = (String::new(), 0, failed.len(), 0);
    for key in keys {
        let value = |counts: &[Count], counter: &str| {
            let mut found = counts.iter().filter(|count| count.key == *key && count.counter == counter);
            found.next().map(|count| count.value)
        };
        let held = |counts: &[Count]| counts.iter().any(|count| count.key == *key);
        for (counter, most) in COUNTERS {
            let most = allowed.get(counter).copied().unwrap_or(most);
            let [old, new] = [before, after].map(|counts| value(counts, counter));
            let varies = format!("{counter}_varies");
            let varies = [before, after].iter().any(|counts| value(counts, &varies).is_some());
            let Some(change) = change([old, new], [before, after].map(held), varies, most) else { continue };
            let lost = match held(after) {
                true => "is not counted any more",
                false => "missing; if that is intended, save the counts again",
            };
            let (said, mark) = match change {
                Change::Same => {
                    same += 1;
                    continue;
                }
                Change::Within(said) => {
                    within += 1;
                    (said, "")
                }
                Change::Grown(said) => {
                    beyond += 1;
                    (said, "**too much**")
                }
                Change::Lost => {
                    beyond += 1;
                    (lost.to_owned(), "**too much**")
                }
            };
            let shown = |value: Option<u64>| value.map_or("–".to_owned(), grouped);
            let name = plain(&named(&key.variant, &key.parameter));
            let counter = counter.replace('_', " ");
            let _ = writeln!(
                rows,
                "| {name} | {counter} | {} | {} | {said} | {most} % | {mark} |",
                shown(old),
                shown(new)
            );
        }
    }
    let verdict = match (beyond, within) {
        (0, _) if before.is_empty() => "nothing was compared, since the file has no counts of it".to_owned(),
        (0, 0) => "nothing that is exact has changed".to_owned(),
        (0, _) => "nothing grew by more than it may".to_owned(),
        (number, _) => format!("**{number} exceed their limit or could not be counted**"),
    };
    let mut table = format!("### {}: {verdict}\n", plain(bench));
    if !rows.is_empty() {
        table +=
            "\n| variant | what | before | after | change | may grow by | |\n|---|---|--:|--:|--:|--:|---|\n";
        table += &rows;
    }
    let _ = writeln!(
        table,
        "\nThe same: {same} {}. Times are not compared: most machines are too noisy for that.",
        if same == 1 { "number" } else { "numbers" }
    );
    for why in left_out.iter().chain(failed) {
        let _ = writeln!(table, "- {why}");
    }
    Gate { table, passed: beyond == 0 && same + within > 0 }
}

/// What became of a number of a variant that is `held` before and after, if there was or is one.
fn change(of: [Option<u64>; 2], held: [bool; 2], varies: bool, most: f64) -> Option<Change> {
    match held {
        _ if of == [None, None] => None,
        [false, _] => Some(Change::Within("new".to_owned())),
        [_, false] => Some(Change::Lost),
        [true, true] => Change::of(of, varies, most),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(counts: Vec<Count>) -> Counted {
        Counted { counts, left_out: vec![], failed: vec![] }
    }

    fn counts(of: &[(&str, &str, u64)]) -> Vec<Count> {
        let count = |(variant, counter, value): &(&str, &str, u64)| Count {
            key: Key::new("b", *variant, ""),
            counter: (*counter).to_owned(),
            value: *value,
        };
        of.iter().map(count).collect()
    }

    fn gate(before: &[(&str, &str, u64)], after: &[(&str, &str, u64)]) -> Gate {
        compare("b", &counts(before), &counted(counts(after)), &BTreeMap::new())
    }

    #[test]
    fn what_grows_by_more_than_it_may_fails_and_its_reverse_passes() {
        let (few, many) = ([("a", "instructions", 1_000)], [("a", "instructions", 1_011)]);
        let grown = gate(&few, &many);
        assert!(!grown.passed);
        assert!(
            grown.table.contains("| a | instructions | 1,000 | 1,011 | +1.10 % | 1 % | **too much** |"),
            "{grown:?}"
        );
        assert!(gate(&many, &few).passed);
        let named = gate(&[("Vec<u8>|x", "allocations", 0)], &[("Vec<u8>|x", "allocations", 1)]);
        assert!(named.table.contains("| Vec&lt;u8&gt;\\|x | allocations |"), "{named:?}");
        assert!(gate(&few, &[("a", "instructions", 1_010)]).passed, "as much as it may");
        assert!(!gate(&[("a", "allocations", 0)], &[("a", "allocations", 1)]).passed, "from none");
        let allowed = BTreeMap::from([("instructions".to_owned(), 2.0)]);
        assert!(compare("b", &counts(&few), &counted(counts(&many)), &allowed).passed);
    }

    #[test]
    fn what_cannot_be_compared_any_more_fails() {
        let both = [("a", "instructions", 10), ("a", "allocations", 1)];
        assert!(!gate(&both, &both[1..]).passed, "valgrind is gone");
        assert!(!gate(&[], &[]).passed, "nothing was compared");
        assert!(gate(&both[1..], &both).passed);
        let renamed = gate(&both, &[("b", "instructions", 10)]);
        assert!(!renamed.passed, "one that is gone");
        assert!(renamed.table.contains("| b | instructions | – | 10 | new | 1 % |  |"), "{renamed:?}");
        assert!(renamed.table.contains(
            "| a | allocations | 1 | – | missing; if that is intended, save the counts again | 0 % | **too much** |"
        ));
        assert!(gate(&both, &[both[0], both[1], ("b", "instructions", 10)]).passed, "one that is new");
        let failed =
            Counted { failed: vec!["instructions of b/a: SIGILL".to_owned()], ..counted(counts(&both)) };
        let broken = compare("b", &counts(&both), &failed, &BTreeMap::new());
        assert!(!broken.passed && broken.table.contains("- instructions of b/a: SIGILL"), "{broken:?}");
        let new = gate(&[], &both);
        assert!(new.passed && new.table.contains("nothing was compared"), "a new bench: {new:?}");
        let varies = [("a", "allocations", 9), ("a", "allocations_varies", 2)];
        assert!(gate(&both[1..], &varies).table.contains("differs from iteration to iteration"));
    }
}
