//! Who runs the destructor of a task that is stopped, and which permits are missing then.

use async_fn_stopping::{
    Nio, Ours, SOCKET, STATES, Smol, State, StoppableRuntime, Table, TaskInputs, Tokio, Witness, expected,
    table, table_in_place, table_of_frontier, waitings,
};
use harness::{isolated, prove};

/// In a process of its own, which ends with all that the runtime started.
fn assert_table(name: &str, table: Table, states: &'static [State]) {
    let named = || table(states).into_iter().map(|(counter, count)| (counter.to_owned(), count)).collect();
    let found: std::collections::BTreeMap<String, u64> =
        isolated(async_fn_stopping::LIMIT, named).expect("it ends");
    let expected = expected(name, states);
    prove(name, &expected, &found).expect("the table");
    assert_eq!(found.len(), expected.len(), "{name} does something else as well: {found:?}");
}

#[test]
fn each_runtime_drops_a_stopped_task_where_the_table_says() {
    let all: [(&str, Table); 6] = [
        (<Tokio<0>>::NAME, table::<Tokio<0>>),
        (<Tokio<2>>::NAME, table::<Tokio<2>>),
        (Smol::NAME, table::<Smol>),
        (Nio::NAME, table::<Nio>),
        ("frontier", table_of_frontier),
        ("in place", table_in_place),
    ];
    for (name, table) in all {
        assert_table(name, table, STATES);
        assert_table(name, table, SOCKET);
    }
    assert_table(Ours::NAME, table::<Ours>, STATES);
}

#[test]
fn a_task_that_is_not_dropped_keeps_its_permit_and_its_socket() {
    assert_eq!(expected("nio", STATES)["permits_missing"], 2);
    assert_eq!(expected("nio", SOCKET)["sockets_open"], 2);
    assert_eq!(expected("tokio multi_thread", SOCKET)["sockets_open"], 1);
    assert_eq!(expected("in place", SOCKET)["sockets_open"], 0);
}

#[test]
fn every_way_to_wait_hears_each_arm_once() {
    for waiting in waitings() {
        waiting.proven().expect("equal work");
    }
}

/// Says that it has stopped a task, and has not.
struct Careless(Tokio<0>);

impl StoppableRuntime for Careless {
    const NAME: &str = "careless";
    const THREADS: bool = false;
    type Handle = <Tokio<0> as StoppableRuntime>::Handle;

    fn new(state: State) -> Self {
        Self(Tokio::new(state))
    }

    async fn wait(socket: Option<std::os::unix::net::UnixStream>) {
        Tokio::<0>::wait(socket).await;
    }

    fn start(&self, state: State, inputs: TaskInputs, witness: Witness) -> Self::Handle {
        self.0.start(state, inputs, witness)
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
    let refusal = prove("careless", &expected(<Tokio<0>>::NAME, STATES), &table::<Careless>(STATES))
        .expect_err("it stops none");
    assert!(refusal.to_string().contains("abort_by_caller_later: 4 expected, nothing counted"), "{refusal}");
}
