//! Episodes: fresh processes, each of which measures some of a study's rounds.
//!
//! Where code, heap and stack lie in memory is drawn when a process starts, and stays for its life. So all rounds of
//! one process err together, which no control in it can see: both of its twins err alike. An episode is a process of
//! its own:
//!
//! - of a program: the same program with the same arguments;
//! - of a cell: the kernel's own child, told to load the library that the kernel has made of the cell, and to run it.
//!   Items of earlier cells and crates are in that library, variables of other cells are not.
//!
//! Either comes to [`Study::measure`](crate::Study::measure) again, finds [`EPISODE`] in its environment, measures up
//! to the round named there and ends. The library is copied each time: pages of one and the same file would keep their
//! places in memory. A block of random size on the heap and a variable of random length in the environment move what
//! comes after them. An outer program may run a file whose functions were linked in an order of its own instead, and
//! says so in its name: `<file>.layout<number>`.

use std::ffi::{CStr, CString, c_void};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::error::Error;
use crate::base::file;
use crate::base::isolation::readable;
use crate::base::profile::Profile;
use crate::measure::progress;
use crate::provenance::kernel;
use crate::store::run::{PARTIAL, Run};
use by_turns_core::trial::draw;

/// Tells a process to measure up to this round and to end, or, as [`PREPARE`], to say how such a process is started.
const EPISODE: &str = "ASYNC_COST_EPISODE";
const PREPARE: &str = "prepare";

/// Exit status of a process that has measured its episode. Not 0: a kernel's child that never came to measure ends with
/// that.
const MEASURED: i32 = 40;
/// Exit status of a process that was refused, and would be again: that of [`stop`](crate::stop), and of a `main` with
/// an error.
const REFUSED: i32 = 1;

/// Processes that may die of one episode before the measurement gives up.
const ATTEMPTS: u32 = 2;

/// What the kernel's child prints when a cell is done: passed on, it would end the cell that waits here.
const END_OF_CELL: &str = "EVCXR_EXECUTION_COMPLETE";

/// The part of a process in a measurement.
pub(crate) enum Role {
    /// It measures up to this round.
    Measures { until: u32 },
    /// It says how episodes are started, for an outer program that starts them.
    Prepares,
    /// It starts them one after the other.
    Starts,
}

impl Role {
    pub(crate) fn of_this_process(profile: &Profile) -> Result<Self, Error> {
        match std::env::var(EPISODE).ok().as_deref() {
            None if profile.episodes == 1 => Ok(Self::Measures { until: profile.rounds }),
            None => Ok(Self::Starts),
            Some(PREPARE) => Ok(Self::Prepares),
            Some(round) => match round.parse() {
                Ok(until) => Ok(Self::Measures { until }),
                Err(_) => {
                    let reason = format!("{round:?} is neither a number of rounds nor {PREPARE:?}");
                    Err(Error::Setting { name: EPISODE, reason })
                }
            },
        }
    }
}

/// True in a process that was started for an episode.
pub(crate) fn is_child() -> bool {
    std::env::var(EPISODE).is_ok_and(|value| value != PREPARE)
}

/// Ends the process of an episode.
pub(crate) fn end(outcome: Result<(), Error>) -> ! {
    let status = match outcome {
        Ok(()) => MEASURED,
        Err(error) => {
            eprintln!("{error}");
            REFUSED
        }
    };
    std::process::exit(status)
}

/// How a process of this study is started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EpisodeCommand {
    program: PathBuf,
    arguments: Vec<String>,
    /// Of a cell: what the program has to load and run.
    library: Option<Library>,
    /// The rounds at which episodes end.
    until: Vec<u32>,
    /// Exit status of a process that has measured its episode, and of one that was refused and would be again.
    done_status: i32,
    refused_status: i32,
}

/// What a kernel has made of a cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Library {
    path: PathBuf,
    /// The function that runs the cell.
    entry: String,
}

impl EpisodeCommand {
    /// That of a process like this one.
    pub(crate) fn of_this_process(study: &str, profile: &Profile) -> Result<Self, Error> {
        let lost = |reason: String| Error::Episode { study: study.to_owned(), reason };
        let program = std::env::current_exe()
            .map_err(|error| lost(format!("the running program is not known ({error})")))?;
        let (library, arguments) = if kernel::is_here() {
            (Some(library_of_this_cell().map_err(lost)?), vec![])
        } else {
            (None, std::env::args().skip(1).collect())
        };
        let until = profile.episode_ends();
        Ok(Self { program, arguments, library, until, done_status: MEASURED, refused_status: REFUSED })
    }

    /// Writes it into the folder of the run, for an outer program. The library is copied: the next kernel writes over
    /// it.
    pub(crate) fn save(mut self, study: &str, run: &Run) -> Result<(), Error> {
        if let Some(library) = &mut self.library {
            library.path = copy(&library.path, &format!("measures-{study}"))?;
        }
        let text = serde_json::to_vec_pretty(&self).expect("paths of cargo and the kernel are UTF-8");
        file::replace(&run.file(&format!("{study}.episode.json")), &text)
    }

    /// Runs all episodes of `study`, one after the other; what they print is printed.
    ///
    /// # Errors
    /// [`Error::Episode`] when a process was refused, or when two died of the same episode.
    pub(crate) fn run(&self, study: &str, run: &Run) -> Result<(), Error> {
        for until in &self.until {
            self.episode(study, run, *until)?;
        }
        Ok(())
    }

    fn episode(&self, study: &str, run: &Run, until: u32) -> Result<(), Error> {
        let lost = |reason: String| Error::Episode { study: study.to_owned(), reason };
        let mut died = String::new();
        for _ in 0..ATTEMPTS {
            let copied = match &self.library {
                Some(library) => Some(TemporaryLibrary(copy(&library.path, &format!("episode-of-{study}"))?)),
                None => None,
            };
            let child = self.spawn(run, until, copied.as_ref()).map_err(Error::io("start", &self.program))?;
            let status = wait(child)?;
            match status.code() {
                Some(MEASURED) => return Ok(()),
                Some(REFUSED) => return Err(lost("its process was refused; see above".to_owned())),
                Some(0) => {
                    let reason = "its process never came to measure: the cell panicked (see above), or it depends on variables of \
                                  other cells; let it stand alone";
                    return Err(lost(reason.to_owned()));
                }
                _ => died = status.to_string(),
            }
        }
        Err(lost(format!("{ATTEMPTS} processes died of it ({died}); completed rounds are kept")))
    }

    fn spawn(&self, run: &Run, until: u32, library: Option<&TemporaryLibrary>) -> std::io::Result<Child> {
        let padding = draw::padding();
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.env(EPISODE, until.to_string()).env(PARTIAL, run.folder()).env("ASYNC_COST_PADDING", padding);
        command.env(progress::FORM, progress::Form::here().name());
        let mut child = command.spawn()?;
        if let (Some(library), Some(TemporaryLibrary(path)), Some(mut stdin)) =
            (&self.library, library, child.stdin.take())
        {
            writeln!(stdin, "LOAD_AND_RUN {} {}", path.display(), library.entry)?;
        }
        Ok(child)
    }
}

/// A copy of a library that goes with its process.
struct TemporaryLibrary(PathBuf);

impl Drop for TemporaryLibrary {
    fn drop(&mut self) {
        // One that stays is overwritten by the next.
        let _ = fs::remove_file(&self.0);
    }
}

/// A copy in the same folder, because a library finds the standard library relative to its own place.
fn copy(library: &Path, name: &str) -> Result<PathBuf, Error> {
    let extension = library.extension().unwrap_or_default();
    let to = library.with_file_name(name).with_extension(extension);
    // Not written over: a process that is still there may be running it.
    let _ = fs::remove_file(&to);
    fs::copy(library, &to).map_err(Error::io("copy", library))?;
    Ok(to)
}

/// Passes on what the child prints, until it has ended; ends it when the kernel has died.
fn wait(mut child: Child) -> Result<std::process::ExitStatus, Error> {
    let waiting = kernel::ParentWatch::begin(is_child());
    let ended = |child: &mut Child| child.wait().map_err(Error::io("wait for", Path::new("the episode")));
    let mut out = File::from(OwnedFd::from(child.stdout.take().expect("it is piped")));
    let (mut buffer, mut line) = ([0; 4096], Vec::new());
    loop {
        if waiting.parent_died() {
            // It may have ended already.
            let _ = child.kill();
            ended(&mut child)?;
            return Err(Error::Abandoned);
        }
        if !readable(&out, Duration::from_millis(200)) {
            continue;
        }
        let length = out.read(&mut buffer).map_err(Error::io("read", Path::new("the episode's output")))?;
        if length == 0 {
            pass_on(&line);
            return ended(&mut child);
        }
        for byte in &buffer[..length] {
            line.push(*byte);
            if matches!(byte, b'\n' | b'\r') {
                pass_on(&line);
                line.clear();
            }
        }
    }
}

fn pass_on(line: &[u8]) {
    let text = String::from_utf8_lossy(line);
    if !text.contains(END_OF_CELL) {
        print!("{text}");
        // A closed stream has nothing left to lose.
        let _ = std::io::stdout().flush();
    }
}

/// The number from which the link order of this very code was drawn; `None`: it is that of the compiler.
pub(crate) fn layout() -> Option<u64> {
    let file = file_of_this_code()?.to_string_lossy().into_owned();
    file.rsplit_once(".layout")?.1.parse().ok()
}

/// The program or library that holds this very code.
fn file_of_this_code() -> Option<CString> {
    let here: fn() -> Option<CString> = file_of_this_code;
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `info` outlives the call, which fills it when it does not return 0; all of its fields may be zero.
    let found = unsafe { libc::dladdr(here as *const c_void, info.as_mut_ptr()) };
    // SAFETY: see above.
    let info = unsafe { info.assume_init() };
    // SAFETY: the name of a loaded file is a string that lives as long as the file is loaded, and we are in it.
    (found != 0 && !info.dli_fname.is_null()).then(|| unsafe { CStr::from_ptr(info.dli_fname) }.to_owned())
}

/// The library that holds this very code, and the function in it that runs the cell.
fn library_of_this_cell() -> Result<Library, String> {
    let name = file_of_this_code().ok_or("the library of this cell is not known")?;
    // SAFETY: the name is a string; the library is loaded already, so nothing of it is run.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if library.is_null() {
        return Err(format!("the library {} is not loaded", name.to_string_lossy()));
    }
    // A kernel numbers its cells from 0; no session has more.
    let entry = (0..100_000).map(|number| format!("run_user_code_{number}")).find(|entry| {
        let entry = CString::new(entry.as_str()).expect("it has no zero byte");
        // SAFETY: the library is open, the name is a string.
        !unsafe { libc::dlsym(library, entry.as_ptr()) }.is_null()
    });
    // SAFETY: it was opened above, and once.
    unsafe { libc::dlclose(library) };
    let entry =
        entry.ok_or("its cell has no entry that this harness knows: another version of the kernel?")?;
    Ok(Library { path: PathBuf::from(name.to_string_lossy().into_owned()), entry })
}
