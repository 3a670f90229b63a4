//! Copies of a program, each linked in an order of its own: where the linker puts a function changes its speed by some per cent.
//!
//! The linker keeps what it links in an archive; from that, a copy is linked in a fraction of a second. Only LLVM's linker can do
//! this, which rustc uses by default on x86-64 Linux with glibc since Rust 1.90.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::base::random;
use crate::run::files::{at, output, rustc};

/// Begins the names of copies.
const COPY: &str = "layout";

/// Why a compilation may have left no archive.
pub const NO_ARCHIVE: &str = "the linker does not accept --reproduce, or cargo failed; from Rust 1.90 on, rustc links with one that does";

/// What a program was linked from.
pub struct Linked {
    /// The folder with the response file of the linker.
    parts: PathBuf,
    linker: PathBuf,
    /// Where copies are put.
    folder: PathBuf,
}

impl Linked {
    /// Unpacks what the linker has kept into `folder`, where copies go as well.
    ///
    /// # Errors
    /// Why there are no link orders.
    pub fn unpacked(archive: &Path, linker: PathBuf, folder: &Path) -> Result<Self, String> {
        let parts = folder.join("linked");
        fs::create_dir_all(&parts).map_err(at(&parts))?;
        output(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(&parts))?;
        let inner = fs::read_dir(&parts).ok().and_then(|mut entries| entries.next()?.ok());
        let parts = inner.ok_or("the linker has kept nothing")?.path();
        let linked = Self { parts, linker, folder: folder.to_owned() };
        fs::remove_file(linked.draw(1)?).map_err(|error| error.to_string())?;
        Ok(linked)
    }

    /// A copy of the program, linked in the order that `seed` draws.
    ///
    /// # Errors
    /// Why it could not be linked.
    pub fn draw(&self, seed: u32) -> Result<PathBuf, String> {
        let copy = self.folder.join(format!("{COPY}{seed}"));
        output(
            Command::new(&self.linker)
                .current_dir(&self.parts)
                .arg("@response.txt")
                .arg("-o")
                .arg(&copy)
                .arg(format!("--shuffle-sections=.text*={seed}")),
        )?;
        Ok(copy)
    }
}

/// The number of a link order, drawn by lot; `other` where the system has no random numbers. Of 32 bits, of which 0 would be
/// another order each time, and all ones another rule.
pub fn order(other: u32) -> u32 {
    1 + (random::new_seed().unwrap_or(u64::from(other)) % (1 << 30)) as u32
}

/// The option of rustc by which the linker keeps what it links.
pub fn keeping(archive: &Path) -> String {
    format!("link-arg=-Wl,--reproduce={}", archive.display())
}

/// LLVM's linker, as rustc brings it along.
///
/// # Errors
/// Why link orders cannot be drawn here.
pub fn linker() -> Result<PathBuf, String> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err("link orders need x86-64 Linux".to_owned());
    }
    let found = || {
        let root = output(rustc().args(["--print", "sysroot"])).ok()?;
        let hosts = fs::read_dir(Path::new(root.trim()).join("lib/rustlib")).ok()?;
        let mut places = hosts.filter_map(|host| Some(host.ok()?.path().join("bin/gcc-ld/ld.lld")));
        places.find(|place| place.exists())
    };
    found().ok_or_else(|| "this rustc comes without LLVM's linker (rust-lld)".to_owned())
}
