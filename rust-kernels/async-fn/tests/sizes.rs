//! Every way does equal work, and a size is what its parts add up to.

use std::collections::BTreeMap;
use std::rc::Rc;

use async_fn::{ONE_CALL, Outcome, PendingTimes, Row, Way, copies_by_spawns, in_frame, proven, rows, study};

fn sizes() -> BTreeMap<String, usize> {
    rows().iter().map(|row| (row.key.to_string(), row.way.bytes)).collect()
}

#[test]
fn every_way_does_its_job_and_waits_as_often_as_it_is_told_without_another_thread() {
    for row in rows() {
        proven(&row).expect("equal work");
    }
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.join("comm")).ok());
    assert!(!names.into_iter().any(|name| name.starts_with("async-io")), "the allocator would lock");
}

#[test]
fn a_way_that_forgets_to_wait_or_does_something_else_is_refused() {
    let once = || rows().into_iter().find(|row| row.job.calls == 1).expect("a row that calls once");
    let row = |way: Way| Row { way, ..once() };
    let refusal = |way| proven(&row(way)).expect_err("broken").to_string();
    let hasty = in_frame(|job| async move { 2 * job.seed });
    assert!(refusal(hasty).contains("polls: 2 expected, 1 counted"));
    let wrong = in_frame(|job| async move {
        PendingTimes(job.waits).await;
        job.seed
    });
    assert!(refusal(wrong).contains("value: 14 expected, 7 counted"));
    let idle = Way { code: Rc::new(|_| Outcome { value: 0, polls: 0 }), bytes: 0 };
    assert!(refusal(idle).contains("value"));
}

#[test]
fn what_lives_across_an_await_is_in_the_future_unless_it_is_boxed() {
    let sizes = sizes();
    let of = |variant, bytes| sizes[&format!("call/{variant}@bytes={bytes} calls=1")];
    assert_eq!(of("inline", 65_536) - of("inline", 1024), 65_536 - 1024);
    assert_eq!(of("boxed", 65_536), of("boxed", 0));
    let buffer = |variant| sizes[&format!("buffer/{variant}@bytes=65536 calls=100")];
    assert!(buffer("in the future") > 65_536 && buffer("one for all calls") > 65_536);
    assert!(buffer("in a box") < 1024 && buffer("from a pool") < 1024);
}

#[test]
fn an_argument_is_there_twice_and_a_future_that_is_taken_doubles_at_each_level() {
    let sizes = sizes();
    let buffers = |variant| sizes[&format!("made/{variant}@bytes=4096")] / 4096;
    assert_eq!([buffers("local"), buffers("argument"), buffers("argument, handed on")], [1, 2, 3]);
    let nested = |variant, depth| sizes[&format!("nested/{variant}@depth={depth}")];
    assert!(nested("taken", 8) > 16 * nested("taken", 4) && nested("calls", 8) < 2 * nested("calls", 4));
}

#[test]
fn a_spawn_copies_the_future() {
    assert_eq!(ONE_CALL.calls, 1);
    for (who, copies) in copies_by_spawns() {
        assert!(copies.before_poll >= 1 && copies.after_poll == 0 && copies.bytes > 4096, "{who}: {copies}");
    }
}

#[test]
fn the_study_compares_each_key_once_and_has_a_control_for_each_kind() {
    let study = study().expect("equal work");
    let keys = study.keys();
    let kinds = ["call", "buffer", "spawn", "made", "wrapped", "nested", "shape", "woken", "beside a thread"];
    let controls = keys.iter().filter(|key| key.variant.ends_with("(A/A)")).count();
    assert_eq!(controls, kinds.len());
    assert!(keys.iter().all(|key| kinds.contains(&&*key.bench)));
    for key in keys.iter().filter(|key| key.bench == "shape") {
        study.run_once(key).expect("it runs");
    }
}
