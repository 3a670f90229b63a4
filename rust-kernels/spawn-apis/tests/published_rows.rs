//! Every row of the published table is measured, under its own name.

use harness::Key;
use spawn_apis::subjects;

#[test]
fn every_published_row_is_measured() {
    let table = include_str!("../../../data/published/spawn-apis.csv");
    let rows = table.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    let published: Vec<Key> = rows.map(|cells| Key::new(cells[1], cells[2], cells[3])).collect();
    assert_eq!(published.len(), 54);
    let loads = subjects().into_iter().flat_map(|subject| {
        let loads = subject.loads(2);
        loads.into_iter().map(move |(_, parameter)| subject.key(&parameter))
    });
    let measured: Vec<Key> = loads.collect();
    for key in published {
        assert!(measured.contains(&key), "{key} is not measured");
    }
}
