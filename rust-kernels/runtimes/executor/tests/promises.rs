//! The table of promises names a test for each, and each public type.

const SOURCE: &str = include_str!("../../executor.rs");

/// The cells of the table, row by row.
fn rows() -> Vec<Vec<&'static str>> {
    let lines = SOURCE.lines().skip_while(|line| *line != "// | of | promise | test |").skip(2);
    lines
        .map_while(|line| line.strip_prefix("// | "))
        .map(|row| row.trim_end_matches(" |").split(" | ").collect())
        .collect()
}

#[test]
fn each_promise_has_its_test() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let files = std::fs::read_dir(folder).expect("the folder of the tests");
    let tests: String = files
        .map(|file| file.expect("a file").path())
        .filter(|path| path.is_file())
        .map(|path| std::fs::read_to_string(path).expect("a test"))
        .collect();
    let rows = rows();
    assert!(rows.len() > 20, "the table is not found");
    for row in rows {
        let [_, _, named] = row[..] else { panic!("{row:?}") };
        for name in named.split(", ").map(|name| name.trim_matches('`')) {
            assert!(tests.contains(&format!("#[test]\nfn {name}()")), "there is no test {name}");
        }
    }
}

#[test]
fn each_public_type_has_a_promise() {
    let is_public =
        |line: &'static str| line.strip_prefix("pub struct ").or_else(|| line.strip_prefix("pub enum "));
    let types = SOURCE.lines().filter_map(is_public);
    let types: Vec<_> = types.map(|name| name.split(['<', ' ', '{']).next().unwrap_or_default()).collect();
    assert!(types.contains(&"Runtime"));
    for name in types {
        assert!(rows().iter().any(|row| row[0].contains(name)), "nothing is promised of {name}");
    }
}
