//! Files that are replaced as a whole.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::base::error::Error;

/// Replaces a file in one step that survives a crash.
pub(crate) fn replace(path: &Path, content: &[u8]) -> Result<(), Error> {
    let temporary = path.with_extension("tmp");
    let write = || {
        let mut file = File::create(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(Error::io("write", path))
}

/// The name of a file without its folders, which are the reader's.
pub(crate) fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
