//! Tables as text: comma-separated values, quoted where need be (RFC 4180).

/// One line of a table, without its end.
pub fn line<T: AsRef<str>>(cells: impl IntoIterator<Item = T>) -> String {
    let cells: Vec<String> = cells.into_iter().map(|cell| quoted(cell.as_ref())).collect();
    cells.join(",")
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

/// The rows of a table below its header, which must be `header`; `None` if they are not whole.
pub fn rows(text: &str, header: &str) -> Option<Vec<Vec<String>>> {
    let columns = header.split(',').count();
    // An editor may have put a byte order mark in front.
    let rest = text.trim_start_matches('\u{feff}').strip_prefix(header)?.strip_prefix('\n')?;
    let rows: Vec<Vec<String>> = rest.lines().map(cells).collect::<Option<_>>()?;
    rows.iter().all(|row| row.len() == columns).then_some(rows)
}

/// The cells of one line without its end; `None` if they are not whole.
pub fn cells(line: &str) -> Option<Vec<String>> {
    let (mut cells, mut rest) = (Vec::new(), line);
    loop {
        let (cell, after) = match rest.strip_prefix('"') {
            None => rest.split_at(rest.find(',').unwrap_or(rest.len())),
            Some(inside) => {
                // Two quotes in a row are one of the cell.
                let mut ends = inside.match_indices('"').map(|(at, _)| at);
                let end = loop {
                    let at = ends.next()?;
                    if inside[at + 1..].starts_with('"') {
                        ends.next();
                    } else {
                        break at;
                    }
                };
                (&inside[..end], &inside[end + 1..])
            }
        };
        cells.push(if rest.starts_with('"') { cell.replace("\"\"", "\"") } else { cell.to_owned() });
        match after.strip_prefix(',') {
            Some(more) => rest = more,
            None => return after.is_empty().then_some(cells),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let cells = ["a", "b, with a comma", "", "\"quoted\"", "1"];
        let text = format!("k,l,m,n,o\n{}\n", line(cells));
        for text in [text.clone(), format!("\u{feff}{text}")] {
            assert_eq!(rows(&text, "k,l,m,n,o"), Some(vec![cells.map(str::to_owned).to_vec()]));
        }
    }

    #[test]
    fn other_tables_are_refused() {
        for text in ["", "a,b", "b,a\n1,2\n", "a,b\n1\n", "a,b\n\"1,2\n", "a,b\n\"1\"x,2\n"] {
            assert_eq!(rows(text, "a,b"), None, "{text:?}");
        }
        assert_eq!(rows("a,b\n", "a,b"), Some(vec![]));
    }
}
