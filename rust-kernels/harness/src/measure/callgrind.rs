//! Instructions of one iteration, counted by valgrind's callgrind.
//!
//! The program runs itself once under callgrind for all variants. Counting is switched on by entering
//! [`counted_iteration`] and off by leaving it, when callgrind also writes its count to a file of its own;
//! the n-th file belongs to the n-th variant.

use std::env;
use std::fs;
use std::hint::black_box;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::base::error::Error;
use crate::measure::progress::Progress;
use crate::study::builder::Study;
use crate::study::checks::Variant;
use crate::trial::bencher;

/// Tells a process that it runs under callgrind, and which variants it is to run: indices joined by commas.
const VARIANTS: &str = "ASYNC_COST_COUNTED_VARIANTS";

/// How callgrind, which knows functions by their demangled names, finds [`counted_iteration`]. Spelled out,
/// since with wildcards it switches the counting but writes no files.
const FUNCTION: &str = "harness::measure::callgrind::counted_iteration";

/// Guess for the time of one variant under valgrind, until one has been measured.
const PLANNED: Duration = Duration::from_millis(50);

/// True in a process that was started by [`instructions`].
pub(crate) fn is_here() -> bool {
    env::var_os(VARIANTS).is_some()
}

/// The counted region: one iteration, one call through `dyn FnMut` and some ten instructions around it, the
/// same for all variants.
#[inline(never)]
fn counted_iteration(run: &mut dyn FnMut()) {
    run();
    // Something to do after the call, lest it become a jump and callgrind see this function end before the
    // iteration does.
    black_box(&mut 0_u8);
}

/// Runs the variants that the parent process has named, each with one counted iteration.
pub(crate) fn run_variants(study: &Study) -> Result<bool, Error> {
    let variants = study.variants()?;
    let named = env::var(VARIANTS).unwrap_or_default();
    let indices: Vec<usize> = named.split(',').filter_map(|index| index.parse().ok()).collect();
    let number = u32::try_from(indices.len()).unwrap_or(u32::MAX);
    let mut progress = Progress::new(study.name(), "variant", number, 1, PLANNED);
    progress.begin(0, 1);
    for (done, index) in (0..).zip(indices) {
        let Variant { key, function, .. } = &variants[index];
        // In this process, isolated or not: callgrind would number the files of every child anew.
        bencher::call(&**function, &mut |mut workload| workload.counted(counted_iteration, 1))
            .map_err(|trouble| study.trouble(key, trouble))?;
        progress.trial(done);
    }
    progress.finish(number);
    Ok(true)
}

/// Instructions of one iteration of each of these variants, or why they could not be counted; `None` when there is no
/// valgrind.
pub(crate) fn instructions(variants: &[usize]) -> Result<Option<Vec<Result<u64, String>>>, Error> {
    match run_together(variants)? {
        None => Ok(None),
        Some(Ok(counts)) => Ok(Some(counts.into_iter().map(Ok).collect())),
        // One of them broke off, and the files do not tell which: each on its own.
        Some(Err(_)) => {
            let alone = |variant: &usize| match run_together(&[*variant])? {
                Some(Ok(counts)) => Ok(Ok(counts[0])),
                Some(Err(reason)) => Ok(Err(reason)),
                None => Ok(Err("valgrind is not there any more".to_owned())),
            };
            variants.iter().map(alone).collect::<Result<Vec<_>, Error>>().map(Some)
        }
    }
}

/// One count for each of the variants, from one run of callgrind, or the last words of that run; `None` when there is
/// no valgrind.
fn run_together(variants: &[usize]) -> Result<Option<Result<Vec<u64>, String>>, Error> {
    let folder = Scratch::new()?;
    let Some(status) = run_callgrind(&folder.0, variants)? else {
        return Ok(None);
    };
    let counts = read_counts(&folder.0)?;
    if status && counts.len() == variants.len() {
        return Ok(Some(Ok(counts)));
    }
    let log = fs::read_to_string(folder.0.join("log")).unwrap_or_default();
    let last = log.lines().last().unwrap_or("it broke off under valgrind").trim().to_owned();
    Ok(Some(Err(last)))
}

/// Runs this program under callgrind; tells whether it succeeded, `None` when there is no valgrind.
fn run_callgrind(folder: &Path, variants: &[usize]) -> Result<Option<bool>, Error> {
    let program = env::current_exe().map_err(Error::io("find", Path::new("this program")))?;
    let variants: Vec<String> = variants.iter().map(usize::to_string).collect();
    let option = |name: &str, path: PathBuf| format!("--{name}={}", path.display());
    let status = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet", "--collect-atstart=no"])
        .arg(format!("--toggle-collect={FUNCTION}"))
        .arg(format!("--dump-after={FUNCTION}"))
        .arg(option("callgrind-out-file", folder.join("count")))
        .arg(option("log-file", folder.join("log")))
        .arg(program)
        .env(VARIANTS, variants.join(","))
        .stdin(Stdio::null())
        .status();
    match status {
        Ok(status) => Ok(Some(status.success())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Io { action: "start valgrind".to_owned(), source }),
    }
}

/// The counts that callgrind has written on leaving the counted function, in order.
fn read_counts(folder: &Path) -> Result<Vec<u64>, Error> {
    let entries = fs::read_dir(folder).map_err(Error::io("read", folder))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let texts = paths.filter_map(|path| fs::read_to_string(path).ok());
    let mut counts: Vec<(u32, u64)> = texts.filter_map(|text| part(&text)).collect();
    counts.sort_unstable();
    Ok(counts.into_iter().map(|(_, count)| count).collect())
}

/// Number and total of one file of callgrind; `None` for those that it wrote for another reason, such as the
/// end of the program.
fn part(text: &str) -> Option<(u32, u64)> {
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    if !value("desc: Trigger:")?.starts_with("--dump-after") {
        return None;
    }
    let total = value("totals:").or_else(|| value("summary:"))?;
    Some((value("part:")?.parse().ok()?, total.split(' ').next()?.parse().ok()?))
}

/// A folder for callgrind's files, removed with this value.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, Error> {
        let folder = env::temp_dir().join(format!("async-cost-callgrind-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(Error::io("create", &folder))?;
        Ok(Self(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed from a temporary folder may stay.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: &str = "# callgrind format\nversion: 1\npid: 7\ncmd:  ./counts\npart: 2\n\n\ndesc: Timerange: Basic block 0 - 9\n\
                        desc: Trigger: --dump-after=f\n\npositions: line\nevents: Ir\nsummary: 1234\n\n\ntotals: 1234\n";

    #[test]
    fn the_total_of_a_part_is_read_with_its_number() {
        assert_eq!(part(PART), Some((2, 1_234)));
        assert_eq!(part(&PART.replace("--dump-after=f", "Program termination")), None);
        assert_eq!(part("valgrind: a message\n"), None);
    }
}
