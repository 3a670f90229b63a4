//! Instructions of one iteration, counted by valgrind's callgrind; and how many of them are atomic or reach a
//! thread-local variable.
//!
//! The program runs itself under callgrind, and tells it by client requests where an iteration begins and ends: a
//! sequence of instructions that does nothing elsewhere, and that also a program without symbols has. Each variant is counted
//! twice: around nothing, and around an iteration. What the first took is taken off the second.

use std::arch::asm;
use std::collections::BTreeMap;
use std::env;
use std::ffi::CStr;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use crate::base::child;
use crate::count::disassembly::{self, Addresses};
use crate::trial::bencher::{self, Around, Function, TrialError};

/// Tells a process that it runs under callgrind, and which variants it is to run: their numbers joined by commas, after
/// the name of what they belong to and a colon.
const VARIANTS: &str = "BY_TURNS_COUNTED";

/// Requests that callgrind understands (`valgrind/callgrind.h`).
#[derive(Clone, Copy)]
enum Request {
    Zero = 0x4354_0001,
    Toggle = 0x4354_0002,
    DumpAt = 0x4354_0003,
    Start = 0x4354_0004,
}

/// What a file of callgrind is about: what it says of its reason.
const NOTHING: &CStr = c"nothing";
const ITERATION: &CStr = c"iteration";

/// Instructions of a call through `dyn FnMut` and around it, which each count contains: so many were there when counting was
/// switched by the name of a function, and counts of all runs can be compared.
const FRAME: u64 = 9;

/// True in a process that was started by [`executed`].
pub fn is_here() -> bool {
    env::var_os(VARIANTS).is_some()
}

const AROUND: Around =
    Around { iteration: |run| region(run, ITERATION), nothing: |run| region(run, NOTHING) };

/// Asks callgrind for something. Without valgrind, nothing happens.
fn ask(request: Request, text: Option<&CStr>) {
    let text = text.map_or(0, |text| text.as_ptr().expose_provenance()); // valgrind reads it
    let request: [usize; 6] = [request as usize, text, 0, 0, 0, 0];
    // SAFETY: the four rotations by 128 bits in all leave their register as it was, and the last instruction changes nothing. Only
    // valgrind reads more into them: it reads `request`, and a text that ends with a zero byte and outlives this, and puts its answer into `rdx`.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(
            "rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51", "xchg rbx, rbx",
            in("rax") request.as_ptr(), inout("rdx") 0_usize => _, options(nostack),
        );
    }
    // SAFETY: as above, with other registers.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(
            "ror x12, x12, #3", "ror x12, x12, #13", "ror x12, x12, #51", "ror x12, x12, #61", "orr x10, x10, x10",
            inout("x3") 0_usize => _, in("x4") request.as_ptr(), options(nostack),
        );
    }
    black_box(request);
}

/// The counted region: one call through `dyn FnMut` and some instructions around it, the same for all variants.
#[inline(never)]
fn region(run: &mut dyn FnMut(), name: &CStr) {
    // Also what callgrind counts while it is switched off: system calls.
    ask(Request::Zero, None);
    ask(Request::Toggle, None);
    run();
    ask(Request::DumpAt, Some(name));
    ask(Request::Toggle, None);
}

/// The variants of `name` that the parent process has named, by their numbers; none where it counts another's.
pub fn selected(name: &str) -> Vec<usize> {
    let named = env::var(VARIANTS).unwrap_or_default();
    match named.rsplit_once(':') {
        Some((of, numbers)) if of == name => {
            numbers.split(',').filter_map(|index| index.parse().ok()).collect()
        }
        _ => vec![],
    }
}

/// Runs a variant under callgrind, with one counted iteration.
///
/// # Errors
/// What the variant fails with.
pub fn count(function: &Function<'_>) -> Result<(), TrialError> {
    ask(Request::Start, None);
    (AROUND.nothing)(&mut || ());
    bencher::call(function, &mut |mut workload| workload.counted(AROUND, 1))
}

/// Where this program runs under callgrind.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The folder that it starts in.
    pub started_in: &'a Path,
    /// The folder of callgrind's files, which are removed.
    pub files: &'a Path,
}

/// What one iteration executes.
#[derive(Default)]
pub struct Executed {
    /// All of them.
    pub instructions: u64,
    /// Those among them that are atomic, and those that reach a thread-local variable; `None` where the programs cannot
    /// be disassembled, and without the feature `studies`.
    pub atomic: Option<u64>,
    /// See `atomic`.
    pub thread_local: Option<u64>,
    /// System calls.
    pub system_calls: u64,
    /// Those outside of the functions of the simulated system and of what these call; `None` where none of them is
    /// called.
    pub own: Option<u64>,
    /// Whether it has made a thread, on which nothing is counted.
    pub made_thread: bool,
}

/// What one iteration of a variant executes, or why it could not be counted.
pub type Counted = Result<Executed, String>;

/// Why a difference that is negative is no count.
const ELSEWHERE: &str = "what drives it does less on this thread than without an iteration, which ran on another one: call .threads() before it";

impl Executed {
    fn without(self, nothing: &Self) -> Result<Self, String> {
        let less = |of: Option<u64>, nothing: Option<u64>| of?.checked_sub(nothing.unwrap_or(0));
        let instructions = |of: u64| (of + FRAME).checked_sub(nothing.instructions).ok_or(ELSEWHERE);
        Ok(Self {
            instructions: instructions(self.instructions)?,
            atomic: less(self.atomic, nothing.atomic),
            thread_local: less(self.thread_local, nothing.thread_local),
            system_calls: self.system_calls.checked_sub(nothing.system_calls).ok_or(ELSEWHERE)?,
            own: self.own.map(instructions).transpose()?,
            made_thread: self.made_thread,
        })
    }
}

/// What one iteration of each of these variants of `name` executes, or why it could not be counted; `None` when there is no
/// valgrind. The functions of the simulated system have names that begin with `system`.
///
/// # Errors
/// Files and processes that cannot be had.
pub fn executed(
    name: &str,
    variants: &[usize],
    system: Option<&str>,
    place: Place<'_>,
) -> io::Result<Option<Vec<Counted>>> {
    match run(name, variants, system, place, Stdio::inherit)? {
        None => Ok(None),
        Some(Ok(counts)) => Ok(Some(counts)),
        // One of them broke off, and the files do not tell which.
        Some(Err(_)) => executed_alone(name, variants, system, place),
    }
}

/// As [`executed`], each variant in a process of its own: what ran before, such as what it left in the allocator, changes
/// no count.
///
/// # Errors
/// Files and processes that cannot be had.
pub fn executed_alone(
    name: &str,
    variants: &[usize],
    system: Option<&str>,
    place: Place<'_>,
) -> io::Result<Option<Vec<Counted>>> {
    let at_once = thread::available_parallelism().map_or(1, usize::from);
    let mut counts = Vec::new();
    for some in variants.chunks(at_once) {
        let alone = |variant: &usize| run(name, &[*variant], system, place, Stdio::null);
        let ended: Vec<_> = thread::scope(|scope| {
            let runs: Vec<_> = some.iter().map(|variant| scope.spawn(move || alone(variant))).collect();
            runs.into_iter().map(|run| run.join().expect("no panic")).collect()
        });
        for counted in ended {
            let Some(counted) = counted? else { return Ok(None) };
            counts.push(counted.and_then(|mut counts| counts.remove(0)));
        }
    }
    Ok(Some(counts))
}

/// One count for each of the variants, from one run of this program under callgrind, or why there are fewer; `None` when there is
/// no valgrind.
fn run(
    name: &str,
    variants: &[usize],
    system: Option<&str>,
    place: Place<'_>,
    stdout: fn() -> Stdio,
) -> io::Result<Option<Result<Vec<Counted>, String>>> {
    let folder = Scratch::within(place.files)?;
    let [log, errors] = ["log", "errors"].map(|name| folder.0.join(name));
    let numbers: Vec<String> = variants.iter().map(usize::to_string).collect();
    let option = |name: &str, path: PathBuf| format!("--{name}={}", path.display());
    let status = child::bound(&mut Command::new("valgrind"))
        .current_dir(place.started_in)
        // What a user has set for valgrind, in VALGRIND_OPTS or .valgrindrc, is not for this.
        .arg("--command-line-only=yes")
        .args(["--tool=callgrind", "--quiet", "--collect-atstart=no", "--collect-systime=yes"])
        .arg("--instr-atstart=no") // what is set up before the first variant takes less time so
        .args(["--dump-instr=yes", "--compress-pos=no", "--compress-strings=no"])
        .arg(option("callgrind-out-file", folder.0.join("count")))
        .arg(option("log-file", log.clone()))
        .arg(env::current_exe()?)
        .env(VARIANTS, format!("{name}:{}", numbers.join(",")))
        .env_remove("DEBUGINFOD_URLS") // it would download what a debugger wants to know
        .stdin(Stdio::null())
        .stdout(stdout())
        .stderr(File::create(&errors)?)
        .status();
    let status = match status {
        Ok(status) => status,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let counts = totals(read_parts(&folder.0, system)?);
    if status.success() && counts.len() == variants.len() {
        return Ok(Some(Ok(counts)));
    }
    let said = [log, errors].map(|file| fs::read_to_string(file).unwrap_or_default());
    Ok(Some(Err(format!("under valgrind it ended with {status}{}", why(&said)))))
}

/// What valgrind and the program under it said of the reason.
fn why([log, errors]: &[String; 2]) -> String {
    let of_valgrind = ["unhandled", "terminating"].map(|word| log.lines().find(|line| line.contains(word)));
    let last = [errors, log].map(|text| text.lines().rev().map(str::trim).find(|line| !line.is_empty()));
    let Some(line) = of_valgrind.into_iter().chain(last).flatten().next() else { return String::new() };
    // Before its lines stands the number of the process.
    let line = line.strip_prefix("==").and_then(|rest| rest.split_once("== ")).map_or(line, |(_, said)| said);
    format!(": {line}")
}

/// What callgrind has seen of one region.
#[derive(Default)]
struct Part {
    /// Whether of an iteration, or of nothing.
    of_iteration: bool,
    /// How often each instruction of each file was executed.
    executed: BTreeMap<PathBuf, Vec<(u64, u64)>>,
    /// Instructions in the simulated system, from each call until its return.
    in_system: u64,
    system_calls: u64,
    made_thread: bool,
}

/// The functions of C libraries by which a program makes a thread.
const MAKES_THREAD: [&str; 3] = ["pthread_create", "clone", "thrd_create"];

/// What callgrind has written at the end of each region, in order.
fn read_parts(folder: &Path, system: Option<&str>) -> io::Result<Vec<Part>> {
    let entries = fs::read_dir(folder)?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let texts = paths.filter_map(|path| fs::read_to_string(path).ok());
    let mut parts: Vec<(u32, Part)> = texts.filter_map(|text| part(&text, system)).collect();
    parts.sort_unstable_by_key(|(number, _)| *number);
    Ok(parts.into_iter().map(|(_, part)| part).collect())
}

/// Number and content of one file of callgrind; `None` for those that it wrote for another reason, such as the
/// end of the program.
fn part(text: &str, system: Option<&str>) -> Option<(u32, Part)> {
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let region = value("desc: Trigger:")?.strip_prefix("Client Request: ")?;
    let of_iteration = region.as_bytes() == ITERATION.to_bytes();
    let of_system = |function: &str| system.is_some_and(|system| function.starts_with(system));
    // Instructions, system calls and their time; zeros at the end are left out. Its rows contain some system calls twice.
    let system_calls = value("summary:")?.split(' ').nth(1).map_or(Some(0), |calls| calls.parse().ok())?;
    let mut found = Part { of_iteration, system_calls, ..Part::default() };
    let mut object = PathBuf::new();
    let (mut function, mut called) = ("", "");
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(path) = line.strip_prefix("ob=") {
            object = PathBuf::from(path);
        } else if let Some(name) = line.strip_prefix("fn=") {
            function = name;
        } else if let Some(name) = line.strip_prefix("cfn=") {
            called = name;
            let name = name.trim_start_matches('_').split('@').next()?;
            found.made_thread |= MAKES_THREAD.contains(&name.trim_end_matches('3'));
        } else if line.starts_with("calls=") {
            // What was called takes so much, which is counted there as well.
            let inclusive = lines.next()?.split(' ').nth(2)?;
            if of_system(called) && !of_system(function) {
                found.in_system += inclusive.parse::<u64>().ok()?;
            }
        } else if let Some(address) = line.strip_prefix("0x") {
            let mut columns = address.split(' ');
            let address = u64::from_str_radix(columns.next()?, 16).ok()?;
            // The line of the source, instructions, system calls and their time.
            let count = columns.nth(1)?.parse().ok()?;
            found.executed.entry(object.clone()).or_default().push((address, count));
        }
    }
    Some((value("part:")?.parse().ok()?, found))
}

/// The instructions of each iteration, and how many of them are of which kind, without what the region of nothing before it has
/// taken. Each file is disassembled once.
fn totals(parts: Vec<Part>) -> Vec<Counted> {
    let mut known: BTreeMap<PathBuf, Option<Addresses>> = BTreeMap::new();
    for object in parts.iter().flat_map(|part| part.executed.keys()) {
        // Takes seconds, for what studies alone ask for.
        let read = |object: &PathBuf| cfg!(feature = "studies").then(|| disassembly::read(object)).flatten();
        known.entry(object.clone()).or_insert_with_key(read);
    }
    let sum = |part: &Part, is: &dyn Fn(&Addresses, u64) -> bool| -> Option<u64> {
        let of = |(object, executed): (&PathBuf, &Vec<(u64, u64)>)| {
            let addresses = known[object].as_ref()?;
            if executed.iter().any(|(address, _)| !addresses.known.contains(address)) {
                return None; // another file, or a disassembler that writes otherwise
            }
            Some(
                executed
                    .iter()
                    .filter(|(address, _)| is(addresses, *address))
                    .map(|(_, count)| count)
                    .sum::<u64>(),
            )
        };
        part.executed.iter().map(of).sum()
    };
    let executed = |part: &Part| {
        let instructions = part.executed.values().flatten().map(|(_, count)| count).sum();
        Executed {
            instructions,
            system_calls: part.system_calls,
            atomic: sum(part, &|found, address| found.atomic.contains(&address)),
            thread_local: sum(part, &|found, address| found.thread_local.contains(&address)),
            // More than there is was counted twice: by a system that calls back into code that calls it.
            own: (part.in_system > 0).then(|| instructions.checked_sub(part.in_system)).flatten(),
            made_thread: part.made_thread,
        }
    };
    let (mut nothing, mut counts) = (Executed::default(), Vec::new());
    for part in &parts {
        let found = executed(part);
        if part.of_iteration { counts.push(found.without(&nothing)) } else { nothing = found }
    }
    counts
}

/// A folder for callgrind's files, removed with this value.
struct Scratch(PathBuf);

impl Scratch {
    fn within(folder: &Path) -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = folder.join(format!("by-turns-callgrind-{}-{number}", std::process::id()));
        fs::create_dir(&folder)?;
        Ok(Self(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed may stay.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: &str = "# callgrind format\nversion: 1\npid: 7\ncmd:  ./counts\npart: 2\n\n\ndesc: Timerange: Basic block 0 - 9\n\
                        desc: Trigger: Client Request: iteration\n\npositions: instr line\nevents: Ir sysCount sysTime\nsummary: 1232 3 17\n\n\nob=/counts\nfl=a.rs\nfn=f\n\
                        0x1f0a 7 30\ncfn=g\ncalls=2 0x2000\n0x1f0e 8 1200\n0x1f0e 8 2\nob=/libc\nfn=g\n0x2000 0 1200\n0x2000 0 0 6 34\n\ntotals: 1232\n";

    #[test]
    fn a_part_is_read_with_its_number_and_what_was_called_is_counted_once() {
        let (number, found) = part(PART, None).unwrap();
        assert_eq!(number, 2);
        assert_eq!(found.executed[Path::new("/counts")], [(0x1f0a, 30), (0x1f0e, 2)]);
        assert_eq!(found.executed[Path::new("/libc")], [(0x2000, 1_200), (0x2000, 0)]);
        assert_eq!(found.system_calls, 3);
        assert!(part(&PART.replace("Client Request: iteration", "Program termination"), None).is_none());
        assert!(part("valgrind: a message\n", None).is_none());
    }

    #[test]
    fn the_reason_is_what_tells_most() {
        let reason = |log: &str, errors: &str| why(&[log.to_owned(), errors.to_owned()]);
        let log = "vex amd64->IR: unhandled instruction bytes: 0x62\n==7== Process terminating with default action of signal 4 (SIGILL)\n==7==    at 0x1: f\n";
        assert_eq!(reason(log, "a panic"), ": vex amd64->IR: unhandled instruction bytes: 0x62");
        let signal = log.split_once('\n').expect("lines").1;
        assert_eq!(
            reason(signal, "a panic"),
            ": Process terminating with default action of signal 4 (SIGILL)"
        );
        assert_eq!(reason("a warning\n", "one\nb/v failed: lost\n\n"), ": b/v failed: lost");
        assert_eq!(reason("", ""), "");
    }

    #[test]
    fn what_the_simulated_system_executes_is_counted_from_each_call_of_it() {
        // `read` of the system calls another function of the system and one of the library.
        let calls = "fn=server\n0x10 0 40\ncfn=fake::read\ncalls=2 0x20\n0x11 0 60\n\
                     fn=fake::read\n0x20 0 20\ncfn=fake::enter\ncalls=2 0x30\n0x21 0 10\ncfn=memcpy\ncalls=2 0x40\n0x22 0 30\n\
                     fn=fake::enter\n0x30 0 10\nfn=memcpy\n0x40 0 30\n";
        let text = PART.split_once("ob=").map(|(head, _)| format!("{head}ob=/counts\n{calls}")).unwrap();
        let own = |system| {
            let (_, found) = part(&text, system).unwrap();
            totals(vec![found]).remove(0).expect("a count").own
        };
        assert_eq!(own(Some("fake::")), Some(40 + FRAME));
        assert_eq!((own(None), own(Some("nobody::"))), (None, None));
    }

    #[test]
    fn less_than_nothing_is_no_count_and_a_thread_that_is_made_is_seen() {
        let nothing = PART.replace("Request: iteration", "Request: nothing");
        let counted = |nothing: &str, iteration: &str| {
            totals([nothing, iteration].map(|text| part(text, None).unwrap().1).into()).remove(0)
        };
        assert_eq!(counted(&nothing, PART).expect("as many").instructions, FRAME);
        let more = nothing.replace("0x1f0a 7 30", "0x1f0a 7 40");
        assert_eq!(counted(&more, PART).err().as_deref(), Some(ELSEWHERE));
        let calls = nothing.replace("summary: 1232 3", "summary: 1232 4");
        assert_eq!(counted(&calls, PART).err().as_deref(), Some(ELSEWHERE));
        for (called, makes) in
            [("pthread_create@@GLIBC_2.34", true), ("clone3", true), ("__clone", true), ("g::clone", false)]
        {
            let text = PART.replace("cfn=g", &format!("cfn={called}"));
            assert_eq!(counted(&nothing, &text).expect("as many").made_thread, makes, "{called}");
        }
    }

    #[test]
    fn where_a_file_cannot_be_disassembled_only_instructions_are_counted() {
        let (_, found) = part(PART, None).unwrap();
        let [Ok(ref executed)] = totals(vec![found])[..] else { panic!("one part") };
        assert_eq!(executed.instructions, 1_232 + FRAME);
        assert_eq!(executed.system_calls, 3);
        assert_eq!((executed.atomic, executed.thread_local), (None, None));
    }
}
