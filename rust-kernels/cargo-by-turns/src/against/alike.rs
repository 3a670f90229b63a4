//! Whether two programs are one: the same bytes are loaded of both. Names of symbols and the number of a build may differ.

/// A section that is loaded: its kind, flags, address, size and bytes.
type Section<'a> = ([u64; 4], &'a [u8]);

/// Holds the number of a build, and other notes.
const NOTE: u64 = 7;
/// Takes no place in the file.
const NO_BITS: u64 = 8;
/// The flag of what is loaded.
const LOADED: u64 = 2;

/// Whether both files load the same.
pub fn alike(one: &[u8], other: &[u8]) -> bool {
    one == other || loaded(one).is_some_and(|sections| Some(sections) == loaded(other))
}

/// What is loaded of a program in ELF of 64 bits, the lowest byte first; `None` of another file.
fn loaded(file: &[u8]) -> Option<Vec<Section<'_>>> {
    if file.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let (table, size, count) = (number(file, 40, 8)?, number(file, 58, 2)?, number(file, 60, 2)?);
    let mut sections = vec![];
    for at in 0..count {
        let header = usize::try_from(table + at * size).ok()?;
        let field = |place: usize, bytes: usize| number(file, header + place, bytes);
        let (kind, flags, address) = (field(4, 4)?, field(8, 8)?, field(16, 8)?);
        let [begin, size] = [field(24, 8)?, field(32, 8)?];
        if flags & LOADED == 0 || kind == NOTE {
            continue;
        }
        let end = if kind == NO_BITS { begin } else { begin + size };
        let bytes = file.get(usize::try_from(begin).ok()?..usize::try_from(end).ok()?)?;
        sections.push(([kind, flags, address, size], bytes));
    }
    (!sections.is_empty()).then_some(sections)
}

fn number(file: &[u8], at: usize, bytes: usize) -> Option<u64> {
    Some(file.get(at..at + bytes)?.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_like_itself_whatever_its_notes_say() {
        let own = std::fs::read(std::env::current_exe().expect("a program")).expect("readable");
        let sections = loaded(&own).expect("a program of Linux");
        assert!(sections.len() > 5 && sections.iter().any(|(_, bytes)| bytes.len() > 10_000));
        let changed = |at: usize| {
            let mut other = own.clone();
            other[at] ^= 1;
            other
        };
        let text = sections.iter().map(|(_, bytes)| *bytes).max_by_key(|bytes| bytes.len()).expect("code");
        let inside = text.as_ptr() as usize - own.as_ptr() as usize + text.len() / 2;
        assert!(!alike(&own, &changed(inside)), "another byte of the code");
        let last = number(&own, 40, 8).expect("a table") as usize - 1;
        assert!(alike(&own, &changed(last)), "another byte of the names of sections, before their table");
        assert!(!alike(&own, b"no program") && alike(b"no program", b"no program"));
    }
}
