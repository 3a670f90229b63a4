//! Tables, in Markdown and in a terminal.

use std::fmt::Write;

/// Rows, below one of heads, in Markdown. Their cells are Markdown; `words` are the columns that hold no numbers.
pub fn table(rows: &[Vec<String>], words: &[usize]) -> String {
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let _ = writeln!(text, "| {} |", row.join(" | "));
        if number == 0 {
            let side = |column: usize| if words.contains(&column) { "---" } else { "--:" };
            let _ = writeln!(text, "|{}|", (0..row.len()).map(side).collect::<Vec<_>>().join("|"));
        }
    }
    text
}

/// The same in a terminal.
pub fn aligned(rows: &[Vec<String>], words: &[usize]) -> String {
    let wide = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for row in rows {
        let cells =
            row.iter().enumerate().map(|(column, cell)| match (words.contains(&column), wide(column)) {
                (true, wide) => format!("{cell:<wide$}"),
                (false, wide) => format!("{cell:>wide$}"),
            });
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    text
}

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
