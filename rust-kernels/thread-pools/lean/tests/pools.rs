//! What our pools promise besides running jobs: panics, both ways to end, fairness, handles.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use thread_pools_lean::{
    Busy, Closed, Fairness, Idle, Pool, Queue, Settings, SharedChannel, Stealing, Wakes,
};

/// Far longer than anything here takes, but for what is lost.
const WATCHDOG: Duration = Duration::from_secs(60);

fn all_settings(workers: usize) -> Vec<Settings> {
    let usual = Settings::new(workers);
    let counted = Settings { fairness: Fairness::Counted(100), ..usual };
    let clocked = Fairness::Clocked(Duration::from_millis(1));
    let as_described = Settings { wakes: Wakes::EveryJob, fairness: clocked, shuffled: true, ..usual };
    [usual, counted, as_described]
        .into_iter()
        .flat_map(|one| [one, Settings { idle: Idle::NeverPark, ..one }])
        .collect()
}

/// Calls a generic test with both queues under all settings.
macro_rules! for_all_pools {
    ($($name:ident($workers:expr) = $test:ident;)*) => {$(
        #[test]
        fn $name() {
            for settings in all_settings($workers) {
                $test::<SharedChannel>(settings);
                $test::<Stealing>(settings);
            }
        }
    )*};
}

for_all_pools! {
    jobs_from_outside_and_from_workers_are_each_run_once(3) = each_once;
    a_panic_is_counted_and_disturbs_no_other_job(2) = panics;
    dropping_the_last_handle_runs_what_was_submitted_and_ends_the_workers(2) = dropped_while_busy;
    the_last_handle_may_be_dropped_by_a_job(2) = dropped_inside;
    shutdown_drops_what_is_queued_and_refuses_the_rest(1) = shut_down;
    shutdown_ends_a_job_that_waits_for_queued_ones(1) = waits_for_queued;
    shutdown_gives_up_at_its_deadline_and_says_how_many_are_busy(3) = deadline;
    a_job_may_shut_its_own_pool_down(2) = shut_down_inside;
    shutdown_may_race_with_submissions(2) = racing_shutdown;
    handles_may_be_cloned_inside_and_dropped_outside(2) = travelling_handles;
    jobs_of_any_size_and_alignment_keep_their_content(2) = sizes;
    a_pool_of_one_submits_to_another(2) = two_pools;
    each_queued_job_is_dropped_although_destructors_panic(1) = unruly_destructors;
    limits_of_time_may_be_as_long_as_they_can(1) = without_end;
    outside_jobs_do_not_wait_for_ever_behind_a_worker_that_feeds_itself(1) = fairness;
}

fn each_once<Q: Queue>(settings: Settings) {
    const OUTSIDE: usize = 2_000;
    let pool = Pool::<Q>::start(settings);
    let seen: Arc<Vec<AtomicUsize>> = Arc::new((0..4 * OUTSIDE).map(|_| AtomicUsize::new(0)).collect());
    let (done, all) = channel();
    thread::scope(|scope| {
        for producer in 0..2 {
            let (pool, seen, done) = (pool.clone(), Arc::clone(&seen), done.clone());
            scope.spawn(move || {
                for job in 0..OUTSIDE {
                    let (inner, seen, done) = (pool.clone(), Arc::clone(&seen), done.clone());
                    let outside = move || {
                        let number = 2 * (producer * OUTSIDE + job);
                        seen[number].fetch_add(1, Ordering::Relaxed);
                        inner
                            .execute(move || {
                                seen[number + 1].fetch_add(1, Ordering::Relaxed);
                                done.send(()).unwrap();
                            })
                            .unwrap();
                    };
                    pool.execute(outside).unwrap();
                }
            });
        }
    });
    for _ in 0..2 * OUTSIDE {
        all.recv_timeout(WATCHDOG).expect("a job was lost");
    }
    assert!(seen.iter().all(|times| times.load(Ordering::Relaxed) == 1));
    pool.shutdown(WATCHDOG).unwrap();
}

/// Panics once more when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("on purpose, while a payload is dropped");
    }
}

fn panics<Q: Queue>(settings: Settings) {
    // What is printed about panics on purpose would hide others.
    std::panic::set_hook(Box::new(|_| {}));
    let pool = Pool::<Q>::start(settings);
    let (done, all) = channel();
    for number in 0..200 {
        let done = done.clone();
        let job = move || match number % 4 {
            0 => panic!("on purpose"),
            1 => std::panic::panic_any(Bomb),
            _ => done.send(()).unwrap(),
        };
        pool.execute(job).unwrap();
    }
    for _ in 0..100 {
        all.recv_timeout(WATCHDOG).expect("a worker was lost with a panic");
    }
    // Those that panic send nothing, and what is still queued at the end is dropped.
    let late = Instant::now() + WATCHDOG;
    while pool.panics() < 100 && Instant::now() < late {
        std::thread::yield_now();
    }
    pool.shutdown(WATCHDOG).unwrap();
    assert_eq!(pool.panics(), 100);
}

/// Sends when the thread ends on which it is kept.
struct OnExit(Sender<()>);

impl Drop for OnExit {
    fn drop(&mut self) {
        // Whoever is gone does not wait.
        let _ = self.0.send(());
    }
}

thread_local! {
    static ON_EXIT: std::cell::RefCell<Option<OnExit>> = const { std::cell::RefCell::new(None) };
}

/// Makes every worker send when it ends.
fn report_exits<Q: Queue>(pool: &Pool<Q>, workers: usize, exits: &Sender<()>) {
    let together = Arc::new(Barrier::new(workers + 1));
    for _ in 0..workers {
        let (together, exits) = (Arc::clone(&together), exits.clone());
        let job = move || {
            ON_EXIT.set(Some(OnExit(exits)));
            together.wait();
        };
        pool.execute(job).unwrap();
    }
    together.wait();
}

fn dropped_while_busy<Q: Queue>(settings: Settings) {
    let pool = Pool::<Q>::start(settings);
    let ((exits, exited), run) = (channel(), Arc::new(AtomicUsize::new(0)));
    report_exits(&pool, settings.workers, &exits);
    for _ in 0..500 {
        let (inner, run) = (pool.clone(), Arc::clone(&run));
        let job = move || {
            let counts = Arc::clone(&run);
            inner
                .execute(move || {
                    counts.fetch_add(1, Ordering::Relaxed);
                })
                .unwrap();
            run.fetch_add(1, Ordering::Relaxed);
        };
        pool.execute(job).unwrap();
    }
    drop(pool);
    for _ in 0..settings.workers {
        exited.recv_timeout(WATCHDOG).expect("a worker goes on without a pool");
    }
    assert_eq!(run.load(Ordering::Relaxed), 1_000);
    assert_eq!(Arc::strong_count(&run), 1, "a job was kept");
}

fn dropped_inside<Q: Queue>(settings: Settings) {
    let pool = Pool::<Q>::start(settings);
    let (exits, exited) = channel();
    report_exits(&pool, settings.workers, &exits);
    let (handle, (go, wait)) = (pool.clone(), channel::<()>());
    pool.execute(move || {
        wait.recv().unwrap();
        drop(handle);
    })
    .unwrap();
    drop(pool);
    go.send(()).unwrap();
    for _ in 0..settings.workers {
        exited.recv_timeout(WATCHDOG).expect("a worker goes on without a pool");
    }
}

/// Occupies a worker until the result is dropped.
fn occupy<Q: Queue>(pool: &Pool<Q>) -> Sender<()> {
    let ((go, wait), (begins, began)) = (channel::<()>(), channel());
    pool.execute(move || {
        begins.send(()).unwrap();
        wait.recv().unwrap_err();
    })
    .unwrap();
    began.recv_timeout(WATCHDOG).expect("it begins");
    go
}

fn shut_down<Q: Queue>(settings: Settings) {
    let pool = Pool::<Q>::start(settings);
    let (busy, held) = (occupy(&pool), Arc::new(()));
    let run = Arc::new(AtomicBool::new(false));
    for _ in 0..100 {
        let (inner, held, run) = (pool.clone(), Arc::clone(&held), Arc::clone(&run));
        pool.execute(move || {
            run.store(true, Ordering::Relaxed);
            drop((inner, held));
        })
        .unwrap();
    }
    assert_eq!(pool.shutdown(Duration::ZERO), Err(Busy(1)));
    let queued = Arc::clone(&held);
    assert_eq!(pool.execute(move || drop(queued)), Err(Closed));
    drop(busy);
    pool.shutdown(WATCHDOG).unwrap();
    assert_eq!(Arc::strong_count(&held), 1, "a queued job was kept");
    assert!(!run.load(Ordering::Relaxed), "a queued job was run");
    assert_eq!(pool.shutdown(Duration::ZERO), Ok(()), "the end is the end");
}

fn waits_for_queued<Q: Queue>(settings: Settings) {
    let pool = Pool::<Q>::start(settings);
    let (inner, (feed, food), (begins, began)) = (pool.clone(), channel::<()>(), channel());
    let own = feed.clone();
    pool.execute(move || {
        // In the worker's own queue.
        inner.execute(move || drop(own)).unwrap();
        begins.send(()).unwrap();
        food.recv().unwrap_err();
    })
    .unwrap();
    began.recv_timeout(WATCHDOG).expect("it begins");
    // In everybody's.
    pool.execute(move || drop(feed)).unwrap();
    pool.shutdown(WATCHDOG).unwrap();
}

fn unruly_destructors<Q: Queue>(settings: Settings) {
    struct Unruly(#[allow(dead_code, reason = "held")] Arc<()>);
    impl Drop for Unruly {
        fn drop(&mut self) {
            panic!("on purpose, while a job is dropped");
        }
    }
    std::panic::set_hook(Box::new(|_| {}));
    let pool = Pool::<Q>::start(settings);
    let held = Arc::new(());
    // Some are in the worker's own queue, some in everybody's.
    let (inner, own, (begin, begins)) = (pool.clone(), Arc::clone(&held), channel::<()>());
    let (sender, begun) = channel();
    pool.execute(move || {
        for _ in 0..50 {
            let unruly = Unruly(Arc::clone(&own));
            inner.execute(move || drop(unruly)).unwrap();
        }
        drop(own);
        sender.send(()).unwrap();
        let _ended = begins.recv();
    })
    .unwrap();
    begun.recv_timeout(WATCHDOG).expect("it begins");
    for _ in 0..50 {
        let unruly = Unruly(Arc::clone(&held));
        pool.execute(move || drop(unruly)).unwrap();
    }
    assert_eq!(pool.shutdown(Duration::ZERO), Err(Busy(1)));
    drop(begin);
    pool.shutdown(WATCHDOG).unwrap();
    assert_eq!(Arc::strong_count(&held), 1, "a queued job was kept");
}

fn without_end<Q: Queue>(settings: Settings) {
    for fairness in [
        Fairness::Timed(Duration::MAX),
        Fairness::Timed(Duration::ZERO),
        Fairness::Clocked(Duration::MAX),
        Fairness::Clocked(Duration::ZERO),
        Fairness::Counted(0),
        Fairness::Counted(u32::MAX),
    ] {
        let pool = Pool::<Q>::start(Settings { fairness, ..settings });
        let (done, all) = channel();
        for _ in 0..100 {
            let (inner, done) = (pool.clone(), done.clone());
            pool.execute(move || inner.execute(move || done.send(()).unwrap()).unwrap()).unwrap();
        }
        drop(done);
        (0..100).for_each(|_| all.recv_timeout(WATCHDOG).expect("a worker was lost"));
        pool.shutdown(Duration::MAX).unwrap();
    }
}

#[test]
fn numbers_of_workers_out_of_bounds_are_refused_before_anything_is_made_for_them() {
    for workers in [0, 1 << 16, usize::MAX] {
        let settings = Settings::new(workers);
        assert!(std::panic::catch_unwind(|| Pool::<SharedChannel>::start(settings)).is_err());
        assert!(std::panic::catch_unwind(|| Pool::<Stealing>::start(settings)).is_err());
    }
}

fn deadline<Q: Queue>(settings: Settings) {
    let pool = Pool::<Q>::start(settings);
    let busy = [occupy(&pool), occupy(&pool)];
    let start = Instant::now();
    loop {
        match pool.shutdown(Duration::from_millis(50)) {
            Err(Busy(2)) => break,
            Err(Busy(3)) if start.elapsed() < WATCHDOG => {} // the idle worker has yet to be given time to end
            other => panic!("{other:?}"),
        }
    }
    let [one, other] = busy;
    drop(one);
    drop(other);
    pool.shutdown(WATCHDOG).unwrap();
}

fn shut_down_inside<Q: Queue>(settings: Settings) {
    let pool = Pool::<Q>::start(settings);
    let (handle, (done, ended)) = (pool.clone(), channel());
    // The job may have closed the pool before whoever offered it looks once more: then it hears `Closed` of a job that
    // runs.
    let _ = pool.execute(move || done.send(handle.shutdown(WATCHDOG)).unwrap());
    assert_eq!(ended.recv_timeout(WATCHDOG).expect("it waits for itself"), Ok(()));
    pool.shutdown(WATCHDOG).unwrap();
}

fn racing_shutdown<Q: Queue>(settings: Settings) {
    for _ in 0..50 {
        let (pool, held) = (Pool::<Q>::start(settings), Arc::new(()));
        thread::scope(|scope| {
            let (submits, held) = (pool.clone(), Arc::clone(&held));
            scope.spawn(move || {
                loop {
                    let (inner, held) = (submits.clone(), Arc::clone(&held));
                    // Refused or not: the pool may close between the two.
                    let job = move || {
                        let _ = inner.execute(move || drop(held));
                    };
                    if submits.execute(job) == Err(Closed) {
                        break;
                    }
                }
            });
            thread::yield_now();
            pool.shutdown(WATCHDOG).unwrap();
        });
        assert_eq!(Arc::strong_count(&held), 1, "a job was kept");
    }
}

fn travelling_handles<Q: Queue>(settings: Settings) {
    let pool = Pool::<Q>::start(settings);
    let (exits, exited) = channel();
    report_exits(&pool, settings.workers, &exits);
    let (handle, (sends, handles)) = (pool.clone(), channel());
    pool.execute(move || (0..5_000).for_each(|_| sends.send(handle.clone()).unwrap())).unwrap();
    drop(pool);
    // The workers sleep by now, or will; each handle keeps the pool alive.
    let handles: Vec<_> = handles.iter().collect();
    let ((done, run), last) = (channel(), handles.last().unwrap().clone());
    drop(handles);
    last.execute(move || done.send(()).unwrap()).unwrap();
    run.recv_timeout(WATCHDOG).expect("the pool has ended too early");
    assert!(exited.try_recv().is_err(), "a worker has ended too early");
    drop(last);
    for _ in 0..settings.workers {
        exited.recv_timeout(WATCHDOG).expect("a worker goes on without a pool");
    }
}

#[repr(align(64))]
#[derive(Clone)]
struct Aligned([u8; 64]);

fn sizes<Q: Queue>(settings: Settings) {
    let pool = Pool::<Q>::start(settings);
    let (done, all) = channel();
    let (nothing, large, aligned) = ((), [7_u64; 100], Aligned([8; 64]));
    let checks: [Box<dyn FnOnce(Sender<bool>) + Send>; 2] = [
        Box::new(move |done| done.send(large.iter().sum::<u64>() == 700).unwrap()),
        Box::new(move |done| {
            let place = (&raw const aligned).addr();
            done.send(place.is_multiple_of(64) && aligned.0 == [8; 64]).unwrap();
        }),
    ];
    for check in checks {
        let done = done.clone();
        pool.execute(move || check(done)).unwrap();
    }
    let (sends, stays) = (done.clone(), large);
    pool.execute(move || sends.send(stays == [7; 100]).unwrap()).unwrap();
    pool.execute(move || nothing).unwrap();
    pool.execute(move || done.send(true).unwrap()).unwrap();
    for _ in 0..4 {
        assert!(all.recv_timeout(WATCHDOG).expect("it is run"));
    }
    pool.shutdown(WATCHDOG).unwrap();
}

fn two_pools<Q: Queue>(settings: Settings) {
    let (one, other) = (Pool::<Q>::start(settings), Pool::<Q>::start(settings));
    let (done, all) = channel();
    for _ in 0..500 {
        let (back, there, done) = (one.clone(), other.clone(), done.clone());
        let job = move || {
            let back_again = move || back.execute(move || done.send(()).unwrap()).unwrap();
            there.execute(back_again).unwrap();
        };
        one.execute(job).unwrap();
    }
    for _ in 0..500 {
        all.recv_timeout(WATCHDOG).expect("a job was lost between two pools");
    }
    one.shutdown(WATCHDOG).unwrap();
    other.shutdown(WATCHDOG).unwrap();
}

/// Submits itself until it has to end, counting.
fn feed<Q: Queue>(pool: Pool<Q>, turns: Arc<AtomicUsize>, end: Arc<AtomicBool>, pause: Duration) {
    turns.fetch_add(1, Ordering::Relaxed);
    thread::sleep(pause);
    if !end.load(Ordering::Relaxed) {
        let next = pool.clone();
        pool.execute(move || feed(next, turns, end, pause)).unwrap();
    }
}

fn fairness<Q: Queue>(settings: Settings) {
    let pause = match settings.fairness {
        Fairness::Timed(_) | Fairness::Clocked(_) => Duration::from_micros(200),
        Fairness::Counted(_) => Duration::ZERO,
    };
    let (pool, end) = (Pool::<Q>::start(settings), Arc::new(AtomicBool::new(false)));
    let (turns, (done, waited)) = (Arc::new(AtomicUsize::new(0)), channel());
    let job = {
        let (pool, turns, end) = (pool.clone(), Arc::clone(&turns), Arc::clone(&end));
        move || {
            // While this job runs, the one from outside is queued.
            let (outside, counts) = (pool.clone(), Arc::clone(&turns));
            let stranger = move || {
                let job = move || done.send(counts.load(Ordering::Relaxed)).unwrap();
                outside.execute(job).unwrap();
            };
            thread::spawn(stranger).join().unwrap();
            feed(pool, turns, end, pause);
        }
    };
    pool.execute(job).unwrap();
    let turns = waited.recv_timeout(WATCHDOG).expect("the job from outside is never run");
    end.store(true, Ordering::Relaxed);
    // A millisecond has room for five pauses of 200 us; one turn before it begins, and one that is running when it is
    // over.
    let most = if pause.is_zero() { 101 } else { 7 };
    assert!(turns <= most, "it waited for {turns} jobs, and should for at most {most}");
    pool.shutdown(WATCHDOG).unwrap();
}
