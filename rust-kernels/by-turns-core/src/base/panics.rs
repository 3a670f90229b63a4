//! Panics of variants are results, not noise: their messages are recorded, not printed.

use std::any::Any;
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

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
                }
            }));
        });
        SILENCED.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for SilencedPanics {
    fn drop(&mut self) {
        SILENCED.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The text of a caught panic.
pub fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("panicked without a text").to_owned()
}
