//! `<study>.time.csv`: every sample, one row each, a whole round at a time.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::base::error::Error;
use crate::base::file;
use crate::store::table::{self, Place, Row};
use by_turns_core::base::key::Key;
use by_turns_core::base::sample::Sample;
use by_turns_core::trial::rounds;

/// First line of the file.
const HEADER: &str = "study,bench,variant,parameter,round,position,sample,iterations,elapsed_ns\n";

/// What a time.csv must hold, given where its rows come from.
pub(crate) struct Plan<'a> {
    pub(crate) study: &'a str,
    pub(crate) keys: &'a [Key],
    /// Samples of a trial of each key.
    pub(crate) samples: Vec<usize>,
    pub(crate) seed: u64,
    /// What each key is compared with: see [`rounds::order`].
    pub(crate) neighbours: Vec<Vec<usize>>,
    pub(crate) rounds: u32,
    /// `failed[index]`: this key is left out from some round on.
    pub(crate) failed: Vec<bool>,
}

/// The file, open at its end and locked against a second process.
pub(crate) struct Timings {
    file: File,
    path: PathBuf,
}

impl Timings {
    /// Opens the file, creates it if need be, and cuts off whatever follows the last whole round.
    ///
    /// Returns the first round that is not there. Rows that do not follow from the plan are an error: then
    /// this is the file of another study, or of an older version of it.
    pub(crate) fn open(path: &Path, plan: &Plan<'_>) -> Result<(Self, u32), Error> {
        let mut options = OpenOptions::new();
        let opened = options.read(true).write(true).create(true).truncate(false).open(path);
        let file = opened.map_err(Error::io("open", path))?;
        lock(&file, path)?;
        let content = fs::read(path).map_err(Error::io("read", path))?;
        let (round, whole) = plan.whole_rounds(&content, path)?;
        let mut timings = Self { file, path: path.to_path_buf() };
        if whole == 0 {
            timings.cut(0)?;
            timings.append(HEADER.as_bytes())?;
        } else {
            timings.cut(whole)?;
        }
        Ok((timings, round))
    }

    /// Appends the rows of one round and waits until they are on the disk.
    pub(crate) fn append_round(&mut self, rows: &[Row]) -> Result<(), Error> {
        self.append(&table::bytes(rows))
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let mut write = || {
            self.file.write_all(bytes)?;
            self.file.sync_data()
        };
        write().map_err(Error::io("write", &self.path))
    }

    fn cut(&mut self, length: u64) -> Result<(), Error> {
        let mut cut = || {
            self.file.set_len(length)?;
            self.file.seek(SeekFrom::Start(length))
        };
        cut().map(drop).map_err(Error::io("cut", &self.path))
    }
}

impl Drop for Timings {
    fn drop(&mut self) {
        // A process that was forked meanwhile has the file open as well, and the lock with it. Not having had one is no
        // loss.
        let _ = self.file.unlock();
    }
}

impl Plan<'_> {
    /// The keys of a round as indices, in the order in which it runs them.
    pub(crate) fn order(&self, round: u32) -> Vec<usize> {
        rounds::order(self.seed, round, &self.neighbours)
    }

    /// The number of whole rounds at the beginning of the file, and the bytes that they and the header take.
    fn whole_rounds(&self, content: &[u8], path: &Path) -> Result<(u32, u64), Error> {
        let rows = table::rows(content, HEADER, path)?;
        if content.len() < HEADER.len() {
            return Ok((0, 0));
        }
        let mut next = 0;
        let mut whole = HEADER.len();
        for round in 0..self.rounds {
            match self.round(round, &rows[next..]) {
                Round::Whole(length) => next += length,
                Round::Torn => return Ok((round, whole as u64)),
                Round::Foreign(offset) => return Err(table::foreign(path, next + offset + 2)),
            }
            whole = rows[..next].last().map_or(whole, |(_, end)| *end);
        }
        Ok((self.rounds, whole as u64))
    }

    /// Compares the rows at the beginning of `rows` with those that this round must have.
    fn round(&self, round: u32, rows: &[(Row, usize)]) -> Round {
        let mut next = 0;
        for (position, index) in self.order(round).into_iter().enumerate() {
            let trial = Place::of_trial(self.study, &self.keys[index], round, position);
            let is_row = |sample: usize| {
                let ((place, _), _) = rows.get(next + sample)?;
                Some(*place == trial.of_sample(sample))
            };
            // A variant that failed has rows up to the round before its failure.
            if self.failed[index] && is_row(0) != Some(true) {
                continue;
            }
            for sample in 0..self.samples[index] {
                match is_row(sample) {
                    Some(true) => {}
                    Some(false) => return Round::Foreign(next + sample),
                    None => return Round::Torn,
                }
            }
            next += self.samples[index];
        }
        Round::Whole(next)
    }
}

/// How the rows of a round look.
enum Round {
    /// All there, so many.
    Whole(usize),
    /// They end too early.
    Torn,
    /// Another row stands there, at this offset.
    Foreign(usize),
}

/// The rows of one trial.
pub(crate) fn rows(trial: &Place, samples: &[Sample]) -> Vec<Row> {
    let time = |taken: &Sample| [taken.iterations.to_string(), taken.elapsed.as_nanos().to_string()];
    samples.iter().enumerate().map(|(sample, taken)| (trial.of_sample(sample), time(taken))).collect()
}

/// How often another process's end is waited for, 20 ms each time: one whose parent was killed ends after its trial. Not
/// by the clock, which goes on while both are stopped.
const WAITS: u32 = if cfg!(test) { 5 } else { 250 };

/// Two processes that append to the same file would interleave their rows. The lock ends with the process,
/// however it ends.
fn lock(file: &File, path: &Path) -> Result<(), Error> {
    for _ in 0..WAITS {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(20)),
            tried => return locked(tried, path),
        }
    }
    locked(file.try_lock(), path)
}

fn locked(tried: Result<(), TryLockError>, path: &Path) -> Result<(), Error> {
    match tried {
        Err(TryLockError::WouldBlock) => Err(Error::Resume {
            file: file::name(path),
            reason: "another process is measuring into it; wait for it or stop it".to_owned(),
        }),
        // Some network file systems cannot lock; measuring there is still better than not measuring.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: u64 = 5;

    /// Samples of the three keys: unequal.
    const SAMPLES: [usize; 3] = [10, 1, 3];

    fn keys() -> Vec<Key> {
        ["a", "b, with a comma", "c"].map(|variant| Key::new("bench", variant, "p=1")).to_vec()
    }

    /// The first is compared with the last.
    fn neighbours() -> Vec<Vec<usize>> {
        rounds::neighbours(3, [(0, 2)])
    }

    fn plan(keys: &[Key], failed: [bool; 3]) -> Plan<'_> {
        Plan {
            study: "s",
            keys,
            samples: SAMPLES.to_vec(),
            seed: SEED,
            neighbours: neighbours(),
            rounds: 3,
            failed: failed.to_vec(),
        }
    }

    /// A folder that is removed when it goes out of scope.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(test: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("harness-timings-{test}-{}", std::process::id()));
            fs::create_dir_all(&folder).expect("a temporary folder");
            Self(folder)
        }

        fn file(&self) -> PathBuf {
            self.0.join("s.time.csv")
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).expect("the folder is ours");
        }
    }

    fn round_rows(keys: &[Key], round: u32, failed: [bool; 3]) -> Vec<Row> {
        let samples = |count| vec![Sample::new(7, Duration::from_nanos(9)); count];
        let order = rounds::order(SEED, round, &neighbours())
            .into_iter()
            .enumerate()
            .filter(|(_, index)| !failed[*index]);
        order
            .flat_map(|(position, index)| {
                rows(&Place::of_trial("s", &keys[index], round, position), &samples(SAMPLES[index]))
            })
            .collect()
    }

    /// Writes two rounds and returns the file's content after the first and after the second.
    fn two_rounds(path: &Path, keys: &[Key]) -> (Vec<u8>, Vec<u8>) {
        let (mut timings, next) = Timings::open(path, &plan(keys, [false; 3])).expect("a new file");
        assert_eq!(next, 0);
        timings.append_round(&round_rows(keys, 0, [false; 3])).expect("round 0");
        let first = fs::read(path).expect("written");
        timings.append_round(&round_rows(keys, 1, [false; 3])).expect("round 1");
        (first, fs::read(path).expect("written"))
    }

    #[test]
    fn a_file_torn_anywhere_goes_on_after_its_last_whole_round() {
        let scratch = Scratch::new("torn");
        let (path, keys) = (scratch.file(), keys());
        let (first, second) = two_rounds(&path, &keys);
        for length in 0..=second.len() {
            fs::write(&path, &second[..length]).expect("torn on purpose");
            let (_, next) =
                Timings::open(&path, &plan(&keys, [false; 3])).expect("a beginning of the same run");
            let (rounds, content) = match length {
                _ if length == second.len() => (2, &second[..]),
                _ if length >= first.len() => (1, &first[..]),
                _ => (0, HEADER.as_bytes()),
            };
            assert_eq!(next, rounds, "torn at byte {length}");
            assert_eq!(fs::read(&path).expect("still there"), content, "torn at byte {length}");
        }
    }

    #[test]
    fn rows_of_another_study_are_not_overwritten() {
        let scratch = Scratch::new("foreign");
        let (path, keys) = (scratch.file(), keys());
        let (_, content) = two_rounds(&path, &keys);
        let changed = [keys[0].clone(), Key::new("bench", "new", "p=1"), keys[2].clone()];
        // One that draws another order.
        let differs =
            |seed: &u64| rounds::order(*seed, 0, &neighbours()) != rounds::order(SEED, 0, &neighbours());
        let seed = (SEED..).find(differs).expect("there are six orders");
        let seed = Plan { seed, ..plan(&keys, [false; 3]) };
        for plan in [plan(&changed, [false; 3]), seed] {
            assert!(Timings::open(&path, &plan).is_err());
            assert_eq!(fs::read(&path).expect("still there"), content);
        }
        fs::write(&path, "study,other\n").expect("foreign on purpose");
        assert!(Timings::open(&path, &plan(&keys, [false; 3])).is_err());
    }

    #[test]
    fn a_variant_that_failed_is_expected_up_to_its_failure_only() {
        let scratch = Scratch::new("failed");
        let (path, keys) = (scratch.file(), keys());
        two_rounds(&path, &keys);
        let failed = [false, true, false];
        let (mut timings, next) = Timings::open(&path, &plan(&keys, failed)).expect("the same run");
        assert_eq!(next, 2);
        timings.append_round(&round_rows(&keys, 2, failed)).expect("round 2");
        drop(timings);
        let (_, next) = Timings::open(&path, &plan(&keys, failed)).expect("the same run");
        assert_eq!(next, 3);
    }

    #[test]
    fn a_second_process_is_kept_out() {
        let scratch = Scratch::new("lock");
        let (path, keys) = (scratch.file(), keys());
        let (_first, _) = Timings::open(&path, &plan(&keys, [false; 3])).expect("a new file");
        let second = Timings::open(&path, &plan(&keys, [false; 3])).err().expect("must be kept out");
        assert!(second.to_string().contains("another process"));
    }
}
