//! Panics of variants are results, not noise: their messages are recorded, not printed.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{self, PanicHookInfo};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, Once, PoisonError};

/// How many [`SilencedPanics`]s are alive, over all threads: a variant's workers panic on threads of their own.
static SILENCED: AtomicU32 = AtomicU32::new(0);

/// While one of these lives, panics print nothing.
pub struct SilencedPanics;

impl SilencedPanics {
    /// Keeps panics of this thread off the terminal until the value is dropped.
    pub fn begin() -> Self {
        static INSTALL: Once = Once::new();
        // Installed once and never taken out: hooks are process-wide, and another one may be put on top of
        // ours meanwhile.
        INSTALL.call_once(|| {
            let previous = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                if SILENCED.load(Ordering::SeqCst) == 0 {
                    previous(info);
                } else if RECORDED.load(Ordering::Relaxed) {
                    record(info);
                }
            }));
        });
        if SILENCED.fetch_add(1, Ordering::SeqCst) == 0 {
            seen().clear();
        }
        Self
    }
}

impl Drop for SilencedPanics {
    fn drop(&mut self) {
        SILENCED.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Whether it is recorded where they happen.
static RECORDED: AtomicBool = AtomicBool::new(false);
/// The first ones since they were silenced.
static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// Of so many. A variant that catches its panics itself is not slowed down by the others.
const MOST: usize = 4;

fn seen() -> std::sync::MutexGuard<'static, Vec<String>> {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on, silenced panics are recorded for [`places`].
pub fn record_places() {
    RECORDED.store(true, Ordering::Relaxed);
}

/// Where the first panics happened since they were last silenced, on any thread: thread, file, line and message, and the
/// backtrace if `RUST_BACKTRACE` asks for it. For this process' user: they may name paths of the machine.
pub fn places() -> Vec<String> {
    seen().clone()
}

fn record(info: &PanicHookInfo<'_>) {
    let mut seen = seen();
    if seen.len() < MOST {
        let thread = std::thread::current();
        let place = info.location().map_or(String::new(), |place| format!(" at {place}"));
        let name = thread.name().unwrap_or("<unnamed>");
        let mut text = format!("thread '{name}' panicked{place}: {}", message(info.payload()));
        let trace = Backtrace::capture();
        if trace.status() == BacktraceStatus::Captured {
            text += &format!("\n{trace}");
        }
        seen.push(text);
    }
}

/// The text of a caught panic.
pub fn message(payload: &dyn Any) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("panicked without a text").to_owned()
}
