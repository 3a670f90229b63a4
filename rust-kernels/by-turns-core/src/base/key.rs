//! The name of one measured thing.

use std::fmt;

/// Names one row of a study in the words of its published table.
///
/// A key is data: it is written to CSV and JSON as it is and joined with published and claimed figures.
/// Several parameters are separated by one space, for example `syscalls=off work=1000`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The benchmark as the published table calls it, for example `nonbox+syscalls`.
    pub bench: String,
    /// The way of doing the work, for example `nonbox`.
    pub variant: String,
    /// The load, for example `syscalls=on`; empty when there is only one. Unless a study says otherwise, ratios
    /// are taken between variants of the same parameter.
    pub parameter: String,
}

impl Key {
    /// A key of these three words. They are checked where a key is used, so that what is measured can be put together
    /// without error handling.
    pub fn new(bench: impl Into<String>, variant: impl Into<String>, parameter: impl Into<String>) -> Self {
        Self { bench: bench.into(), variant: variant.into(), parameter: parameter.into() }
    }

    /// Refuses words that would not survive a table: empty ones (but for the parameter), ones with control
    /// characters (line breaks included) and ones with spaces at either end.
    ///
    /// # Errors
    /// The part that is wrong and why.
    pub fn validate(&self) -> Result<(), InvalidKey> {
        for (part, text) in
            [("bench", &self.bench), ("variant", &self.variant), ("parameter", &self.parameter)]
        {
            if part == "parameter" && text.is_empty() {
                continue;
            }
            validate_word(text).map_err(|reason| InvalidKey { key: self.clone(), part, reason })?;
        }
        Ok(())
    }

    /// The key under which this variant is measured a second time.
    pub fn again(&self) -> Self {
        Self { variant: format!("{} (A/A)", self.variant), ..self.clone() }
    }
}

/// A key that cannot be written to a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidKey {
    /// The key as given.
    pub key: Key,
    /// `bench`, `variant` or `parameter`.
    pub part: &'static str,
    /// What is wrong with that part.
    pub reason: &'static str,
}

impl fmt::Display for InvalidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `{:?}` keeps control characters of a hostile key away from the terminal.
        write!(f, "the {} of the key {:?} cannot be used: {}", self.part, self.key.to_string(), self.reason)
    }
}

impl std::error::Error for InvalidKey {}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.bench, self.variant)?;
        if self.parameter.is_empty() { Ok(()) } else { write!(f, "@{}", self.parameter) }
    }
}

/// A text as it is shown: characters that are not seen, or that change how others are, as Rust writes them (`\n`).
pub fn escaped(text: &str) -> String {
    let shown = |c: char| if is_invisible(c) { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(shown).collect()
}

/// Longest word accepted in a key, in characters: far above any real one, and short enough for a table cell.
const LONGEST_WORD: usize = 200;

/// Says what is wrong with a word of a key: it becomes a name in tables and pages.
pub fn validate_word(text: &str) -> Result<(), &'static str> {
    validate_line(text)?;
    if text.contains(MARKUP) { Err("it holds one of < > & \" ` | \\") } else { Ok(()) }
}

/// What a page could take for markup, or a table for its end. Readers refuse words that hold any of it.
const MARKUP: [char; 7] = ['<', '>', '&', '"', '`', '|', '\\'];

/// Whether this may name a counter or a metric: lower-case letters, digits and `_`, a letter first.
pub fn is_counter(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(plain)
        && name.len() <= LONGEST_WORD
}

/// Says what is wrong with a text of one line.
fn validate_line(text: &str) -> Result<(), &'static str> {
    if text.is_empty() {
        Err("it is empty")
    } else if text.chars().any(is_invisible) {
        Err("it holds a control character, a line break or an invisible one")
    } else if text.trim() != text {
        Err("it begins or ends with a space")
    } else if text.chars().count() > LONGEST_WORD {
        Err("it is longer than 200 characters")
    } else {
        Ok(())
    }
}

/// Says what is wrong with a text that tells what changes between two keys: it becomes part of a page.
pub fn validate_change(text: &str) -> Result<(), &'static str> {
    validate_line(text)?;
    if text.contains(['<', '>', '&']) { Err("it holds <, > or &") } else { Ok(()) }
}

/// Control characters, and those that change how other text is shown or are not shown themselves: separators
/// of lines, zero-width ones, marks that reverse the direction of writing, the soft hyphen.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// A name for a file, and of a study, made of any name: itself where it is one, else its letters and digits and a hash.
pub fn file_name(name: &str) -> String {
    if is_study(name) && name.len() <= LONGEST_FILE {
        return name.to_owned();
    }
    let kept = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' };
    let words: String = name.chars().map(kept).collect();
    let words: Vec<&str> = words.split_whitespace().collect();
    let short: String = words.join("-").chars().take(LONGEST_FILE).collect();
    // FNV-1a, which is the same with any compiler.
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, mix);
    format!("{short}-{hash:016x}").trim_start_matches('-').replace("--", "-")
}

/// Characters of a name that a file's name keeps at most, so that it is short enough for any file system.
const LONGEST_FILE: usize = 80;

/// Whether it can name a study: lower-case words joined by hyphens.
pub fn is_study(name: &str) -> bool {
    name.split('-').all(is_plain_word)
}

/// Whether it can name a unit of work: lower-case words that are joined by spaces or hyphens.
pub fn is_unit(text: &str) -> bool {
    text.split([' ', '-']).all(is_plain_word)
}

fn is_plain_word(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_words_are_accepted() {
        for (variant, parameter) in
            [("nonbox", "syscalls=on"), ("manual (A/A)", "syscalls=off work=1000"), ("nio", "")]
        {
            Key::new(format!("{variant}+x"), variant, parameter).validate().expect("a published key");
        }
    }

    #[test]
    fn hostile_words_are_refused() {
        for word in [
            "",
            " ",
            "a\nb",
            "a\r",
            "a\0",
            "\u{1b}[2J",
            " a",
            "a ",
            "a\u{85}b",
            "a\u{202e}b",
            "a\u{2028}b",
            "a<b",
            "a&b",
            "a\"b",
            "a`b",
            "a|b",
            "a\\b",
            &"x".repeat(201),
        ] {
            for key in [Key::new(word, "v", "p"), Key::new("b", word, "p"), Key::new("b", "v", word)] {
                let empty_parameter = key.parameter.is_empty();
                assert!(empty_parameter || key.validate().is_err(), "{word:?} must be refused");
            }
        }
    }

    #[test]
    fn any_name_becomes_a_line_and_the_name_of_a_file() {
        assert_eq!(escaped("a\nb\u{202e}\tVec<u8>, \"é\""), "a\\nb\\u{202e}\\tVec<u8>, \"é\"");
        assert_eq!(file_name("zero-cost"), "zero-cost");
        let long = "x".repeat(1000);
        let names = ["Vec<u8>", "vec u8", "vec<U8>", "../..", "a/b", "é", " ", "a-", &long, &long[1..]];
        let files = names.map(file_name);
        assert!(files.iter().all(|file| is_study(file) && file.len() < 120), "{files:?}");
        assert!(files[0].starts_with("vec-u8-"), "{files:?}");
        let different: std::collections::BTreeSet<&String> = files.iter().collect();
        assert_eq!(different.len(), names.len(), "{files:?}");
    }

    #[test]
    fn shows_itself_as_claims_name_it() {
        assert_eq!(Key::new("box+rc", "box+rc", "syscalls=on").to_string(), "box+rc/box+rc@syscalls=on");
        assert_eq!(Key::new("spawn_many", "nio", "").to_string(), "spawn_many/nio");
    }
}
