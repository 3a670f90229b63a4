//! What can go wrong, each with a remedy.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use by_turns_core::base::key::{InvalidKey, Key};

/// Why a study was not measured or counted. Its text says what to do about it.
#[derive(Debug)]
pub enum Error {
    /// A key that cannot be written to a table.
    Key(InvalidKey),
    /// A study that contradicts itself: no variants, a key twice, a control without its baseline.
    Study {
        /// The name of the study.
        study: String,
        /// What is wrong and how to mend it.
        reason: String,
    },
    /// This build must not be measured; the text holds the settings to change.
    Gate(String),
    /// An environment variable or argument that is not understood.
    Setting {
        /// The variable's or argument's name.
        name: &'static str,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// A partial run that is not a beginning of this one.
    Resume {
        /// The file that does not fit.
        file: String,
        /// What does not fit and how to go on.
        reason: String,
    },
    /// A variant that failed where a failure is not tolerated (one single run, counting).
    Variant {
        /// The variant.
        key: Key,
        /// Its message.
        message: String,
    },
    /// A process that was to measure an episode did not.
    Episode {
        /// The name of the study.
        study: String,
        /// What became of it and how to go on.
        reason: String,
    },
    /// What waits for the measurement, such as the notebook's kernel, died; complete rounds are kept.
    Abandoned,
    /// A file operation that failed.
    Io {
        /// What was being done, with the file's name.
        action: String,
        /// The operating system's reason.
        source: io::Error,
    },
}

impl Error {
    /// Wraps an error of the operating system; only the file's name is shown, since the folders are the
    /// reader's.
    pub(crate) fn io(action: &str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let name = path.file_name().map_or_else(|| PathBuf::from("."), PathBuf::from);
        let action = format!("{action} {}", name.display());
        move |source| Error::Io { action, source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Key(invalid) => write!(f, "{invalid}"),
            Error::Study { study, reason } => write!(f, "study {study:?}: {reason}"),
            Error::Gate(text) => f.write_str(text),
            Error::Setting { name, reason } => write!(f, "{name}: {reason}"),
            Error::Resume { file, reason } => write!(f, "cannot resume from {file}: {reason}"),
            Error::Variant { key, message } => write!(f, "{key} failed: {message}"),
            Error::Episode { study, reason } => write!(f, "an episode of {study} was not measured: {reason}"),
            Error::Abandoned => f.write_str("what waits for this measurement, such as the kernel, has died; measure again to go on at the next round"),
            Error::Io { action, source } => write!(f, "could not {action}: {source}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
