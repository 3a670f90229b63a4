//! Markdown.

/// A text as Markdown that shows it, in a cell of a table as well.
pub fn plain(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars() {
        match c {
            '<' => shown.push_str("&lt;"),
            '>' => shown.push_str("&gt;"),
            '&' => shown.push_str("&amp;"),
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '~' => shown.extend(['\\', c]),
            c => shown.push(c),
        }
    }
    shown
}
