// -*- coding: utf-8 -*-
// ---
// jupyter:
//   jupytext:
//     formats: notebooks///ipynb,rust-kernels///rs:percent
//     text_representation:
//       extension: .rs
//       format_name: percent
//       format_version: '1.3'
//       jupytext_version: 1.19.6
//   kernelspec:
//     display_name: Rust
//     language: rust
//     name: rust
// ---

// %% [markdown]
// # Is async a zero-cost abstraction?
//
// One thread. 256 clients connect, each sends a line, each gets the line back. You can serve them with a loop
// around a poller, written by hand, with every connection's state in a struct of your own. Or you can write
// two short `async` functions and let the compiler build those structs. **What do you pay for the second
// way?**
//
// Justin Karneges asked that question in [rust-async-bench](https://github.com/jkarneges/rust-async-bench/tree/818a146)
// and published his answer in September 2022: for all 256 requests a bare loop takes 24.5 µs, the leanest of his async
// executors 90.7 µs, and with a system call behind every I/O operation the two come within ten per cent.
// [Two](loop.ipynb) [notebooks](executors.ipynb) build his ten servers again, from the description up, and a better
// hand-written loop to compare them with. This one declares what is measured and compared, and measures it on *your*
// machine.
//
// So the answer here is what the published minimal executors cost, not the least that any could. `manual (best)` below
// is the best loop that we can write. The best async server is the subject of [the frontier](../ladder/frontier.ipynb).
//
// All 256 requests together are one **iteration**, and every figure is the cost of an iteration unless it says
// otherwise. A **run** is one measurement of everything, kept in `data/runs`. (In the code, `run` is the function that
// makes one iteration.)
//
// After reading it you can decide three things about a single-threaded program of your own:
//
// 1. whether the cost of `async` is anywhere near the cost of the work it schedules;
// 2. whether you need to avoid boxing futures;
// 3. whether an `Rc` waker is worth its danger, or an `Arc` is good enough.
//
// The notebook is also a Rust crate (`rust-kernels/zero-cost`, the same text), so everything you read here is
// tested, linted and run under sanitizers. Nothing below is pseudo-code.

// %% [markdown]
// ## Compile cells as for a benchmark
//
// A notebook kernel normally compiles in Cargo's development profile, with overflow checks and debug assertions. Those
// cost each server a different share of its time, so every ratio would come out wrong. So the first cell switches all of
// that off. Without it, the harness refuses to measure.

// %% tags=["active-ipynb"]
// :build_env CARGO_PROFILE_DEV_OPT_LEVEL=3
// :build_env CARGO_PROFILE_DEV_DEBUG_ASSERTIONS=false
// :build_env CARGO_PROFILE_DEV_OVERFLOW_CHECKS=false
// :build_env CARGO_PROFILE_DEV_CODEGEN_UNITS=1
// :build_env CARGO_INCREMENTAL=0
// :dep harness = { path = "../../rust-kernels/harness" }
// :dep zero-cost-executors = { path = "../../rust-kernels/zero-cost/executors" }
// :dep zero-cost-loop = { path = "../../rust-kernels/zero-cost/loop" }

// %% [markdown]
// The servers come from the two notebooks before.

// %%
use harness::{Counts, Key, Study, UnequalWork};
use zero_cost_executors::{
    ArcWaker, CheckedRcWaker, RcWaker, box_callerbox, box_counted, boxes, callerbox, nonbox,
};
use zero_cost_loop::{
    AnyOrder, BackwardSearch, CONNECTIONS, Choices, EarlyReturn, EventsInVec, InPlace, Inlined, LARGE_BUFFER,
    LINE, Lean, Load, MOST_NESTED, NestedCalls, NoWork, Pipeline, PlainValues, RETURNED_BEFORE, SMALL_BUFFER,
    SmallError, Steps, World, bench, by_hand, manual, prove_both, twice,
};

// %% [markdown]
// # All variants in one table
//
// Each has three facts that the proof below needs: how many events its poller delivers, whether it is async, and how
// large its buffers are.

// %%
/// The published loads.
pub const PUBLISHED: [Load; 2] = [Load { syscalls: false, steps: 0 }, Load { syscalls: true, steps: 0 }];

/// Work per request, about three settings a decade. With system calls, as much as the document assumes: 10 µs, at two
/// nanoseconds for a step of six dependent operations. How long a step takes is measured.
pub const WORKING: [Load; 6] = [
    Load { syscalls: false, steps: 100 },
    Load { syscalls: false, steps: 300 },
    Load { syscalls: false, steps: 1000 },
    Load { syscalls: false, steps: 3000 },
    Load { syscalls: false, steps: 10_000 },
    Load { syscalls: true, steps: 5_000 },
];

// %% [markdown]
// A *world* is one of the functions above with its probe chosen, and a variant is a world with a name.

// %%
/// What a server is built of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A loop that keeps its listener registered to the end, and so hears of it twice more.
    Loop,
    /// A loop that unregisters its listener after the last accept.
    BestLoop,
    /// An executor, with futures by value.
    Unboxed,
    /// An executor, with a box for each future.
    Boxed,
}

/// One way to serve.
#[derive(Clone, Copy)]
pub struct Variant {
    /// The word for it in the data.
    pub name: &'static str,
    pub style: Style,
    /// Bytes of a connection's buffer.
    pub buffer: usize,
    /// What it is measured under.
    pub loads: &'static [Load],
    /// Its timed code.
    pub timed: World,
    /// The same code, counting.
    pub counted: World,
}

// %% [markdown]
// A variant's name under a load is the key of its rows, in the words of the published table, so that measured and
// published figures can be joined directly.

// %%
impl Variant {
    /// Under both published loads, with the small buffer.
    pub const fn new(name: &'static str, style: Style, [timed, counted]: [World; 2]) -> Self {
        Self { name, style, buffer: SMALL_BUFFER, loads: &PUBLISHED, timed, counted }
    }

    /// Without system calls only.
    pub const fn bare(self) -> Self {
        Self { loads: PUBLISHED.split_at(1).0, ..self }
    }

    /// With the large buffer, and without system calls.
    pub const fn large(self) -> Self {
        Self { buffer: LARGE_BUFFER, ..self.bare() }
    }

    /// Under the loads with work, instead of the published ones.
    pub const fn working(self) -> Self {
        Self { loads: &WORKING, ..self }
    }

    /// Its name under this load, in the words of the published table.
    pub fn key(&self, load: Load) -> Key {
        let mut bench = self.name.to_owned();
        let mut parameter = if load.syscalls { "syscalls=on" } else { "syscalls=off" }.to_owned();
        if load.syscalls {
            bench += "+syscalls";
        }
        if load.steps > 0 {
            bench += "+work";
            parameter += &format!(" work={}", load.steps);
        }
        Key::new(bench, self.name, parameter)
    }
}

// %% [markdown]
// The published variants are instances of the same generic code, as they were, and so they share it: they have one label.

// %%
/// The label of all published variants.
pub enum Published {}

/// The published variants in the published order.
fn published() -> Vec<Variant> {
    use Style::{Boxed, Loop, Unboxed};
    const SMALL: usize = SMALL_BUFFER;
    const LARGE: usize = LARGE_BUFFER;
    let new = Variant::new;
    vec![
        new("manual", Loop, twice!(Published, P => manual::<NoWork, P>)),
        new("nonbox", Unboxed, twice!(Published, P => nonbox::<NoWork, P, SMALL>)),
        new("callerbox", Boxed, twice!(Published, P => callerbox::<P>)),
        new("large+nonbox", Unboxed, twice!(Published, P => nonbox::<NoWork, P, LARGE>)).large(),
        new("box", Boxed, twice!(Published, P => boxes::<P, SMALL>)),
        new("box+callerbox", Boxed, twice!(Published, P => box_callerbox::<P>)).bare(),
        new("large+box", Boxed, twice!(Published, P => boxes::<P, LARGE>)).large(),
        new("box+rc", Boxed, twice!(Published, P => box_counted::<RcWaker, P>)),
        new("box+chkrc", Boxed, twice!(Published, P => box_counted::<CheckedRcWaker, P>)),
        new("box+arc", Boxed, twice!(Published, P => box_counted::<ArcWaker, P>)),
        new("manual", Loop, twice!(Published, P => manual::<Steps, P>)).working(),
        new("nonbox", Unboxed, twice!(Published, P => nonbox::<Steps, P, SMALL>)).working(),
    ]
}

// %% [markdown]
// Ours: the best loop; two published servers whose code is theirs alone, so that the optimiser inlines more of it; and
// one change of these at a time. Futures that may be made in their boxes share code as the published ones do.

// %%
/// Ours, but for the choices and the functions below.
fn ours() -> Vec<Variant> {
    use Style::{BestLoop, Boxed, Unboxed};
    const SMALL: usize = SMALL_BUFFER;
    const LARGE: usize = LARGE_BUFFER;
    let new = Variant::new;
    vec![
        new("manual (best)", BestLoop, twice!(P => by_hand::<Pipeline, NoWork, P>)),
        new("nonbox (own code)", Unboxed, twice!(P => nonbox::<NoWork, P, SMALL>)),
        new("box (own code)", Boxed, twice!(P => boxes::<P, SMALL>)),
        new("nonbox (plain values)", Unboxed, twice!(P => nonbox::<NoWork, P<PlainValues>, SMALL>)),
        new("box (plain values)", Boxed, twice!(P => boxes::<P<PlainValues>, SMALL>)).bare(),
        new("box (in place)", Boxed, twice!(Published, P => boxes::<P<InPlace>, SMALL>)).bare(),
        new("large+box (in place)", Boxed, twice!(Published, P => boxes::<P<InPlace>, LARGE>)).large(),
    ]
}

// %% [markdown]
// Functions between the loop and its system calls: from one to six, and six that have returned before the call.

// %%
/// The published loop with so many functions around each entry into the fake system, or before it.
fn with_nested_calls() -> [Variant; 7] {
    let new = |name, code| Variant::new(name, Style::Loop, code);
    [
        new("manual (1 frame)", twice!(P => manual::<NoWork, P<NestedCalls<1>>>)),
        new("manual (2 frames)", twice!(P => manual::<NoWork, P<NestedCalls<2>>>)),
        new("manual (3 frames)", twice!(P => manual::<NoWork, P<NestedCalls<3>>>)),
        new("manual (4 frames)", twice!(P => manual::<NoWork, P<NestedCalls<4>>>)),
        new("manual (5 frames)", twice!(P => manual::<NoWork, P<NestedCalls<5>>>)),
        new(SIX_FRAMES, twice!(P => manual::<NoWork, P<NestedCalls<MOST_NESTED>>>)),
        new(SIX_FRAMES_APART, twice!(P => manual::<NoWork, P<NestedCalls<RETURNED_BEFORE>>>)),
    ]
}

const SIX_FRAMES: &str = "manual (6 frames)";
const SIX_FRAMES_APART: &str = "manual (6 frames apart)";

// %% [markdown]
// And the choices: the loop and two executors as described but for one detail, and with all of the lean ones.

// %%
/// Under what a pair is compared: without system calls, and with them, too.
const BARE: &[Load] = PUBLISHED.split_at(1).0;
const BOTH: &[Load] = &PUBLISHED;

/// The loop and two executors with the choices `C`, which are told as a word for the data and as what changes.
struct ChoiceVariants {
    change: &'static str,
    servers: [Variant; 3],
}

fn with<C: Choices>(word: &str, change: &'static str, loads: &'static [Load]) -> ChoiceVariants {
    let new = |server, style, code| {
        let name = format!("{server} ({word})").leak();
        Variant { loads, ..Variant::new(name, style, code) }
    };
    let servers = [
        new("manual", Style::Loop, twice!(P => manual::<NoWork, P<C>>)),
        new("nonbox", Style::Unboxed, twice!(P => nonbox::<NoWork, P<C>, SMALL_BUFFER>)),
        new("box", Style::Boxed, twice!(P => boxes::<P<C>, SMALL_BUFFER>)),
    ];
    ChoiceVariants { change, servers }
}

fn chosen() -> [ChoiceVariants; 7] {
    [
        with::<SmallError>("small error", "an error that holds nothing", BARE),
        with::<EventsInVec>("events in a Vec", "events in a `Vec`", BARE),
        with::<BackwardSearch>("from the back", "a newline searched from the back", BARE),
        with::<EarlyReturn>("early return", "a list that returns early", BARE),
        with::<Inlined>("inlined", "operations that the optimiser may look into", BOTH),
        with::<Lean>("lean", "all lean choices", BARE),
        with::<AnyOrder>(ANY_ORDER, "readiness in an order that is drawn by lot", BARE),
    ]
}

const ANY_ORDER: &str = "any order";

/// All variants.
pub fn variants() -> Vec<Variant> {
    let chosen = chosen().into_iter().flat_map(|chosen| chosen.servers);
    published().into_iter().chain(ours()).chain(with_nested_calls()).chain(chosen).collect()
}

// %% [markdown]
// # Proof of equal work
//
// A benchmark whose variants do different work compares nothing. So before anything is timed, each variant
// makes one iteration to warm up and one that is counted, and every count must be what the algorithm demands.
// The six kinds of operation were published; the rest can be derived:
//
// - **Polls.** Each poll lets the listener yield one connection. The two polls after it report that
//   connection, and then it is finished. So the last of 256 connections needs poll 258.
// - **Events.** Two for each connection and one for the listener in each poll that it is registered for: the
//   first 256, or, in the published loop, all 258. Hence 768 or 770.
// - **Task polls.** A connection is polled three times (its read fails, its write fails, it is done); the
//   accept task 257 times (once to begin, then once for each client). Hence 3 · 256 + 257 = 1025.
// - **Wakers.** 256 accepts, 256 reads and 256 writes fail once and succeed once, and bind a waker each time:
//   1536 clones. Half of them are used up by a wake, and half are dropped by an operation that succeeded:
//   768 and 768.
// - **No copies.** Every line is sent from where it was received: 256 times 12 bytes.
// - **Nothing in vain.** No operation is polled before its object is ready, and no waker is kept from one
//   poll to the next.
//
// In an order that is drawn by lot, several connections come with one poll, or none. Then polls, the loop's events of
// its listener and the peaks are others; all that is done for a connection is the same.

// %% [markdown]
// And this is what we demand, in terms of the number of connections.

// %%
/// What one iteration of a variant must count, by the reasoning above. How large futures are is for the
/// compiler to say.
pub fn expected(variant: &Variant, load: Load) -> Counts {
    let connections = CONNECTIONS as u64;
    let is_async = matches!(variant.style, Style::Unboxed | Style::Boxed);
    let if_async = |count| if is_async { count } else { 0 };
    let polls = connections + 2;
    let listener_events = if variant.style == Style::Loop { polls } else { connections };
    let operations = 2 * (connections + 1) + polls + 3 * 2 * connections;
    let mut counts = Counts::from([
        ("register", connections + 1),
        ("unregister", connections + 1),
        ("poll", polls),
        ("accept", 2 * connections),
        ("read", 2 * connections),
        ("write", 2 * connections),
        ("syscalls", if load.syscalls { operations } else { 0 }),
        ("events", listener_events + 2 * connections),
        ("spawns", if_async(connections + 1)),
        ("polls", if_async(4 * connections + 1)),
        ("operation_polls", if_async(6 * connections)),
        ("not_ready_polls", 0),
        ("waker_clones", if_async(6 * connections)),
        ("will_wake_hits", 0),
        ("waker_drops", if_async(3 * connections)),
        ("wakes", if_async(3 * connections)),
        ("transactions", connections),
        ("zeroed_bytes", connections * variant.buffer as u64),
        ("sent_in_place", connections * LINE.len() as u64),
        ("peak_connections", 3),
        ("peak_tasks", if_async(4)),
        ("peak_registrations", 4),
    ]);
    if variant.name.contains(ANY_ORDER) {
        let loops = variant.style == Style::Loop;
        let differs = |name: &str| name == "poll" || name == "events" && loops || name.starts_with("peak");
        counts.retain(|name, _| !differs(name));
    }
    counts
}

// %% [markdown]
// The proof runs in a cell below, in `cargo test`, and once more whenever the study is built: a study with an unproven
// variant cannot be built.

// %%
/// The counts of a variant under this load.
///
/// # Errors
/// As [`prove_both`].
pub fn prove(variant: &Variant, load: Load) -> Result<Counts, UnequalWork> {
    prove_both(&variant.key(load), [variant.timed, variant.counted], load, &expected(variant, load))
}

// %% [markdown]
// A proof that fails must not be overlooked. But the kernel only prints the message of a panic, or an error that a cell
// passes to `?`, and goes on with the cells below. It stops when its program ends, so the cells that prove and measure
// pass their errors to `harness::stop`, which prints them and ends the program.

// %% tags=["active-ipynb"]
// for variant in variants().iter().filter(|variant| variant.loads[0] == PUBLISHED[0]) {
//     let counts = prove(variant, PUBLISHED[0]).unwrap_or_else(harness::stop);
//     let [polls, clones, size] = ["polls", "waker_clones", "future_bytes"].map(|name| counts[name]);
//     println!("{:>24}: {polls:>4} task polls, {clones:>4} clones, largest future {size:>5} bytes", variant.name);
// }

// %% [markdown]
// Look at the last column. It is 0 for the loops, which have no futures. Unboxed, every slot is as large as the largest
// future; a box is as large as its content. And `async` itself has a cost here that no timing shows: a connection's
// future is larger than the 128 bytes of its buffer, because it holds everything that lives across an `await`.

// %% [markdown]
// # The study
//
// The harness does the rest. It measures in rounds: every round runs each variant for some milliseconds, in a fresh
// random order, and only times of the same round are compared. A rented machine may become half as fast from one minute
// to the next, and the ratios do not change. The baseline is measured twice, the second time as `manual (A/A)`, whose
// true ratio is exactly 1: its difference from 1 is error.

// %% [markdown]
// Every variant is compared with the published loop under its load. Some are also compared with each other, because the
// published text does, or because the two differ in little. The change from the second to the first is described here,
// in a few words, and nowhere else: the analysis picks its pairs from this list.

// %%
/// What the published pairs of a boxed and an unboxed executor differ in, and the same but for the box.
const BUNDLE: &str =
    "a box, `Rc` handles, calls through `dyn`, no enum of two kinds of task, and another spawner";
const REST: &str = "all but the box: `Rc` handles, `dyn`, no enum of two kinds of task, and another spawner";

/// Pairs besides those with the published loop: the first, what it is compared with, under what, and what changes.
const PAIRS: [(&str, &str, &[Load], &str); 18] = [
    ("nonbox", "manual (best)", BOTH, "async without boxes instead of the best loop"),
    ("callerbox", "nonbox", BOTH, "a box, made by the caller"),
    ("large+nonbox", "nonbox", BARE, "a buffer of 16 KiB instead of 128 bytes"),
    ("box", "nonbox", BOTH, BUNDLE),
    (
        "large+box",
        "large+nonbox",
        BARE,
        "a buffer of 16 KiB that is copied into its box, and the rest of `box`",
    ),
    ("box", "callerbox", BARE, REST),
    ("box+callerbox", "box", BARE, "the caller makes the box"),
    ("box+rc", "box", BOTH, "wakers behind an `Rc` instead of embedded ones, and another spawner"),
    ("box+chkrc", "box+rc", BOTH, "an `Rc` that checks its thread"),
    ("box+arc", "box+rc", BOTH, "an `Arc` instead of an `Rc`"),
    ("box+arc", "box+chkrc", BOTH, "an `Arc` instead of an `Rc` that checks its thread"),
    ("nonbox (own code)", "nonbox", BOTH, OWN),
    ("box (own code)", "box", BOTH, OWN),
    ("nonbox (plain values)", "nonbox (own code)", BOTH, "futures without errors"),
    ("box (plain values)", "box (own code)", BARE, "futures without errors"),
    ("box (in place)", "box", BARE, "a future that the compiler may make in its box"),
    ("large+box (in place)", "large+box", BARE, "a future of 16 KiB that the compiler may make in its box"),
    (SIX_FRAMES, SIX_FRAMES_APART, BOTH, "six functions that return after the system call instead of before"),
];
/// What a variant that shares no code with another differs in from the published one.
const OWN: &str = "generic code that it does not share, so that more of it is inlined";

// %% [markdown]
// The study puts the parts together: variants, counts, pairs, controls.

// %%
/// All variants under all their loads, proven to do equal work.
///
/// # Errors
/// If one of them does not.
pub fn study() -> Result<Study, UnequalWork> {
    let mut study = Study::new("zero-cost").baseline("manual").unit("request").rounds(12, 180);
    let all = variants();
    for variant in &all {
        for &load in variant.loads {
            let (key, mut counts) = (variant.key(load), prove(variant, load)?);
            // Proven to be 0 everywhere, these two would only be dead rows in the data.
            counts.retain(|counter, _| !matches!(*counter, "not_ready_polls" | "will_wake_hits"));
            study = study.bench(key.clone(), bench(variant.timed, load)).counts(&key, counts);
        }
    }
    let named = |name| all.iter().find(|variant| variant.name == name).expect("a variant of the study");
    for (one, other, loads, change) in PAIRS {
        for &load in loads {
            study = study.also_compare(named(one).key(load), named(other).key(load), change);
        }
    }
    for ChoiceVariants { change, servers } in chosen() {
        let described = ["manual", "nonbox (own code)", "box (own code)"];
        for (variant, described) in servers.iter().zip(described) {
            for &load in variant.loads {
                study = study.compare(variant.key(load), named(described).key(load), change);
                if described != "manual" {
                    study =
                        study.compare(variant.key(load), servers[0].key(load), "async with the same choices");
                }
            }
        }
    }
    for (frames, variant) in with_nested_calls().iter().enumerate() {
        let change = match frames + 1 {
            _ if variant.name == SIX_FRAMES_APART => {
                "six functions, called before each system call".to_owned()
            }
            1 => "a function between the loop and each system call".to_owned(),
            number => format!("{number} functions between the loop and each system call"),
        };
        for &load in variant.loads {
            study = study.compare(variant.key(load), named("manual").key(load), change.clone());
        }
    }
    Ok(study.control("syscalls=off").control("syscalls=on"))
}

// %% [markdown]
// In the crate, tests ensure that all variants pass the proof and nothing else gets into the study. What executors
// promise beyond equal work (when they poll, what they drop and in which order, what a panic does, what a wrong thread
// does) is tested there as well, and so is the proof itself, with executors that are broken on purpose.

// %% [markdown]
// # A glance
//
// Some variants in turn, a second each: the time of a request, and its ratio to the first. Nothing is stored, and
// nothing is concluded. Choose others, or one of your own, and run the cell again; `syscalls=on` is the other load.

// %% tags=["active-ipynb", "glance"]
// study().unwrap_or_else(harness::stop).glance(|key| {
//     key.parameter == "syscalls=off" && matches!(&*key.variant, "manual" | "manual (best)" | "nonbox" | "box")
// }).unwrap_or_else(harness::stop)

// %% [markdown]
// # Measurement
//
// Choose how long. `quick` measures for a few seconds (the cells took about a minute to compile) and shows that
// everything works; it is not evidence. For evidence, set the environment variable `ASYNC_COST_PROFILE` to `standard` or
// `thorough` before you start the kernel, or write `harness::Profile::standard()` into the next cell.

// %% tags=["active-ipynb"]
// {
//     let profile = harness::Profile::from_env().unwrap_or_else(harness::stop);
//     let outcome = study().unwrap_or_else(harness::stop).measure(&profile).unwrap_or_else(harness::stop);
//     println!("{outcome}");
// };

// %% [markdown]
// The [analysis](analysis.ipynb) shows the ratio of each variant to the published loop in the same round. Before you
// believe one, check the control `manual (A/A)`: a difference as small as the control's distance from 1 means nothing.
//
// # What is not as published
//
// Everything here was written anew. These differences could matter to a result:
//
// - The operations are out of line and opaque here, and were open to the optimiser there. The effect is measured
//   (`manual (inlined)` and the like), and the claims that depend on it are also judged with those.
// - The ledger is a `Cell` for each kind of operation, and so is what a listener and a spawner remember; they were
//   `RefCell`s there. The poller's events have room for all.
// - Whether a future is made in its box or copied into it was up to the compiler, which copies. The published variants
//   copy in any case here; `large+box (in place)` and `box (in place)` leave it to the compiler.
// - Embedded wakers lie in an array of their own, not inside the nodes of the task table.
// - One run loop serves all executors, and its futures lie in slots next to the table, boxed ones included.
//
// # What next
//
// - The raw samples are in `data/runs`, and the analysis notebook next to this one reads them: intervals,
//   verdicts, and your ratios next to the published ones.
// - Change something. Make the connection's buffer uninitialised, give `CheckedRcWaker` another check, let a wake poll
//   its task at once: edit a cell of [the loop](loop.ipynb) or [the executors](executors.ipynb), save, and run the proof
//   above again: it tells you whether it is still the same server.
// - `cargo bench -p zero-cost --bench counts` counts instructions and allocations, which are free of noise. They do not
//   replace time: an atomic increment counts the same as a plain one, and clearing a buffer with one string instruction
//   counts once for each byte.
// - Three connections at a time keep every object in the first-level cache, and each box comes from the
//   hottest block of the allocator. This study cannot say what boxing costs with ten thousand connections alive.
