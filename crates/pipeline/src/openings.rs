//! How long the sessions of modules took to open in this process.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use evener_core::IgnorePoison;

/// By the engines' names.
static LAST: Mutex<BTreeMap<String, Duration>> = Mutex::new(BTreeMap::new());

/// How long the last opening took, or how long it was waited for in vain.
pub(crate) fn last(engine: &str) -> Option<Duration> {
    LAST.lock().ignore_poison().get(engine).copied()
}

pub(crate) fn note(engine: &str, took: Duration) {
    LAST.lock().ignore_poison().insert(engine.to_owned(), took);
}

/// Notes an opening that was given up.
pub(crate) fn note_at_least(engine: &str, waited: Duration) {
    let mut last = LAST.lock().ignore_poison();
    let known = last.entry(engine.to_owned()).or_default();
    *known = waited.max(*known);
}
