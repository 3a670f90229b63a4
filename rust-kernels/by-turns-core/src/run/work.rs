//! What an iteration did, as text: whether two processes did the same, and where they differ.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::base::number::grouped;

/// A number for what was done, which is the same in each process. The words of each text count in any order, since a
/// `HashMap` shows its items in another order in each process.
pub fn fingerprint(works: impl IntoIterator<Item = String>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for work in works {
        let mut words: Vec<&str> = work.split(|c: char| !c.is_alphanumeric() && c != '.').collect();
        words.sort_unstable();
        words.hash(&mut hasher);
    }
    hasher.finish()
}

/// Longer works are shown where they begin to differ.
const LONGEST: usize = 100;
/// So much before that is shown.
const BEFORE: usize = 30;

/// Two works, at most a line of each, with the place where they begin to differ.
pub fn shown(works: [String; 2]) -> [String; 2] {
    if works.iter().all(|work| work.chars().count() <= LONGEST) {
        return works.map(|work| format!(" did {work}"));
    }
    let [one, other] = &works;
    let alike = one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
    works.map(|work| {
        let length = work.chars().count();
        let from = alike.saturating_sub(BEFORE);
        let part: String = work.chars().skip(from).take(LONGEST).collect();
        let [before, after] = [from > 0, from + LONGEST < length].map(|cut| if cut { "…" } else { "" });
        format!(
            " did, from character {} of {}: {before}{part}{after}",
            grouped(alike as u64 + 1),
            grouped(length as u64)
        )
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn another_input_is_another_fingerprint_and_another_order_of_a_set_is_not() {
        let of = |works: &[&[u64]]| {
            let shown = |work: &&[u64]| format!("{:?}", work.iter().copied().collect::<HashSet<u64>>());
            fingerprint(works.iter().map(shown))
        };
        let items: Vec<u64> = (0..100).collect();
        assert_eq!(of(&[&items, &[7]]), of(&[&items, &[7]]));
        assert_ne!(of(&[&items, &[7]]), of(&[&items, &[8]]));
        assert_ne!(of(&[&items[1..], &[7]]), of(&[&items, &[7]]));
        assert_ne!(fingerprint(["1.5".to_owned()]), fingerprint(["5.1".to_owned()]));
    }

    #[test]
    fn long_works_are_shown_where_they_begin_to_differ() {
        let items: Vec<u64> = (0..1000).collect();
        let other: Vec<u64> = (0..999).chain([7]).collect();
        let [one, other] = shown([format!("{items:?}"), format!("{other:?}")]);
        assert_eq!(one, " did, from character 4,887 of 4,890: …993, 994, 995, 996, 997, 998, 999]");
        assert_eq!(other, " did, from character 4,887 of 4,888: …993, 994, 995, 996, 997, 998, 7]");
        let [short, long] = shown(["[0]".to_owned(), format!("{items:?}")]);
        assert_eq!(short, " did, from character 3 of 3: [0]");
        assert!(long.contains(": [0, 1, 2, ") && long.ends_with('…'));
    }
}
