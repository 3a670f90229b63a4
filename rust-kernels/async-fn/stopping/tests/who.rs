//! Who runs the destructor of a task that is stopped, and which permits are missing then.

use async_fn_stopping::{
    Begun, Nio, Ours, Smol, State, Stops, Tokio, Witness, expected, table, table_in_place, table_of_frontier,
    waitings,
};
use harness::{Counts, isolated, prove};

fn as_expected<R: Stops>() {
    assert_table(R::NAME, table::<R>);
}

/// In a process of its own, which ends with all that the runtime started.
fn assert_table(name: &str, table: fn() -> Counts) {
    let named = || table().into_iter().map(|(counter, count)| (counter.to_owned(), count)).collect();
    let found: std::collections::BTreeMap<String, u64> =
        isolated(async_fn_stopping::LIMIT, named).expect("it ends");
    prove(name, &expected(name), &found).expect("the table");
    assert_eq!(found.len(), expected(name).len(), "{name} does something else as well: {found:?}");
}

#[test]
fn each_runtime_drops_a_stopped_task_where_the_table_says() {
    as_expected::<Tokio<0>>();
    as_expected::<Tokio<2>>();
    as_expected::<Smol>();
    as_expected::<Nio>();
    as_expected::<Ours>();
    assert_table("frontier", table_of_frontier);
    assert_table("in place", table_in_place);
}

#[test]
fn every_way_to_wait_hears_each_arm_once() {
    for waiting in waitings() {
        waiting.proven().expect("equal work");
    }
}

/// Says that it has stopped a task, and has not.
struct Careless(Tokio<0>);

impl Stops for Careless {
    const NAME: &str = "careless";
    const THREADS: bool = false;
    type Handle = <Tokio<0> as Stops>::Handle;

    fn new() -> Self {
        Self(Tokio::new())
    }

    fn start(&self, state: State, begun: Begun, witness: Witness) -> Self::Handle {
        self.0.start(state, begun, witness)
    }

    fn turn(&self) {
        self.0.turn();
    }

    fn abort(_: Self::Handle) -> bool {
        false
    }
}

#[test]
fn a_runtime_that_does_not_stop_its_tasks_is_refused() {
    let refusal =
        prove("careless", &expected(<Tokio<0>>::NAME), &table::<Careless>()).expect_err("it stops none");
    assert!(refusal.to_string().contains("abort_by_caller_later: 4 expected, nothing counted"), "{refusal}");
}
