//! A small synthetic study that the integration tests measure, kill and resume. Not an example to follow.
//!
//! Arguments: `measure <rounds>[/<episodes>] [fault]` measures in the current folder's repository; `count [fault]`
//! counts. With a fault, or nothing, in `FIXTURE_UNDER_CRITERION`, the arguments are Criterion's. Faults: `panic` (one
//! variant panics in every trial), `late` (it panics from its third trial on), `lazy` (one never calls the bencher),
//! `baseline` (the baseline gives up at its third trial), `varies` (it allocates another number of times in each
//! iteration); and in an isolated study `hang`, `abort`, `stop` (it stops all of the program once, as Ctrl-Z does, with
//! the file `stopped` as its mark), `resources` (nothing is wrong, samples say what they used), `leak` (it leaves a thread behind that would keep on changing a static) and `thread` (the measuring process starts
//! one beforehand).

use std::cell::{Cell, RefCell};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use harness::counting::{self, CountingAllocator};
use harness::{Bencher, Key, Profile, Sample, Study};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Longer than any test lasts.
const WATCHDOG: Duration = Duration::from_secs(100);

/// Set by a thread of the variant that leaks.
static LEAKED: AtomicBool = AtomicBool::new(false);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |index: usize| arguments.get(index).map_or("", String::as_str);
    #[cfg(feature = "criterion")]
    if let Ok(fault) = std::env::var("FIXTURE_UNDER_CRITERION") {
        return harness::criterion::main(study(&fault));
    }
    match argument(0) {
        "measure" => measure(argument(1), argument(2)),
        _ => counting::main(study(argument(1))),
    }
}

fn measure(rounds: &str, fault: &str) {
    if fault == "thread" {
        std::thread::spawn(|| std::thread::sleep(WATCHDOG));
    }
    let times = (Duration::from_micros(200), Duration::from_micros(1_000));
    let (rounds, episodes) = rounds.split_once('/').unwrap_or((rounds, "1"));
    let number = |text: &str| text.parse().expect("numbers of rounds and of episodes");
    let (rounds, episodes) = (number(rounds), number(episodes));
    let name = "test".to_owned();
    let profile = Profile { name, rounds, episodes, warm_up: times.0, trial: times.1, times: 1 };
    match study(fault).measure(&profile) {
        Ok(outcome) => println!("{outcome}"),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}

fn study(fault: &str) -> Study {
    let (fault, baseline_fails) = (fault.to_owned(), fault == "baseline");
    let (trials, baseline_trials) = (Cell::new(0), Cell::new(0));
    let key = |variant: &str| Key::new("sum", variant, "items=100");
    let mut study = Study::new("fixture");
    if ["hang", "abort", "stop", "leak", "thread", "resources"].contains(&fault.as_str()) {
        study = study.isolated(match fault.as_str() {
            "hang" => Duration::from_millis(300),
            "stop" => Duration::from_secs(1),
            _ => WATCHDOG,
        });
    }
    if fault == "resources" {
        study = study.resources();
    }
    study
        .baseline("loop")
        .bench(key("loop"), move |bencher: &mut Bencher| {
            baseline_trials.set(baseline_trials.get() + 1);
            if baseline_fails && baseline_trials.get() > 2 {
                return bencher.fail("gone");
            }
            let items: Vec<u64> = (0..100).collect();
            bencher.iter(&mut || drop_value(items.iter().sum()));
        })
        .bench(key("box, with a comma"), |bencher: &mut Bencher| {
            let boxes = RefCell::new(0_u64);
            bencher.iter(&mut || *boxes.borrow_mut() += *black_box(Box::new(3_u64)));
        })
        .bench(key("custom"), |bencher: &mut Bencher| {
            bencher.iter_custom(&mut |iterations| {
                let start = Instant::now();
                (0..iterations).for_each(drop_value);
                start.elapsed()
            });
        })
        .bench(key("jobs"), |bencher: &mut Bencher| {
            bencher.samples(&mut || {
                let start = Instant::now();
                (0..500).for_each(drop_value);
                Sample::new(500, start.elapsed().max(Duration::from_nanos(1))).with("p99_ns", 9)
            });
        })
        .bench(key("faulty"), move |bencher: &mut Bencher| {
            trials.set(trials.get() + 1);
            match fault.as_str() {
                "lazy" => {}
                "panic" => {
                    bencher.iter(&mut || panic!("lost\nin {}", std::env::current_dir().unwrap().display()))
                }
                "varies" => {
                    let iterations = Cell::new(0);
                    bencher.iter(&mut || {
                        iterations.set(iterations.get() + 1);
                        (0..iterations.get()).for_each(|_| drop(black_box(Box::new(3_u64))));
                    });
                }
                "hang" => bencher.iter(&mut || std::thread::park()),
                "stop" => {
                    if std::fs::File::create_new("stopped").is_ok() {
                        // SAFETY: a signal to this group of processes, which touches no memory.
                        unsafe { libc::kill(0, libc::SIGSTOP) };
                        // Else it may be done before the process that waits for it has looked at the clock.
                        std::thread::sleep(Duration::from_millis(100));
                    }
                    bencher.iter(&mut || drop_value(7));
                }
                "abort" => bencher.iter(&mut || std::process::abort()),
                "leak" => {
                    let leaked = LEAKED.load(Ordering::SeqCst);
                    std::thread::spawn(|| LEAKED.store(true, Ordering::SeqCst))
                        .join()
                        .expect("it cannot fail");
                    std::thread::spawn(|| std::thread::sleep(WATCHDOG));
                    bencher.iter(&mut || assert!(!leaked, "an earlier trial is seen"));
                }
                "late" if trials.get() > 2 => bencher.fail("tired"),
                _ => bencher.iter(&mut || drop_value(7)),
            }
        })
        .control("items=100")
        .count(key("loop"), "polls", 0)
        .count(key("loop"), "units", 100)
}

fn drop_value(value: u64) {
    black_box(value);
}
