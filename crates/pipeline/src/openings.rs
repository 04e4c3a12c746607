//! The opening times of modules' sessions in this process.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use evener_core::IgnorePoison;

/// The last opening time of each engine, by its name.
static LAST: Mutex<BTreeMap<String, Duration>> = Mutex::new(BTreeMap::new());

/// The time of the last opening, or the time that was waited for it in vain.
pub(crate) fn last(engine: &str) -> Option<Duration> {
    LAST.lock().ignore_poison().get(engine).copied()
}

pub(crate) fn note(engine: &str, took: Duration) {
    LAST.lock().ignore_poison().insert(engine.to_owned(), took);
}

/// Records an opening that was given up.
pub(crate) fn note_at_least(engine: &str, waited: Duration) {
    let mut last = LAST.lock().ignore_poison();
    let known = last.entry(engine.to_owned()).or_default();
    *known = waited.max(*known);
}
