//! `cargo by-turns --against <revision | crate@version>`: two programs, one of each side, take turns, trial by trial.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
mod against;

/// It could not compare.
const NOT_COMPARED: u8 = 2;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    let done = against::run(std::env::args().skip(1));
    #[cfg(not(target_os = "linux"))]
    let done: Result<u8, String> = Err("cargo by-turns --against is for Linux; nothing was built".to_owned());
    done.unwrap_or_else(|why| {
        eprintln!("{why}");
        NOT_COMPARED
    })
    .into()
}
