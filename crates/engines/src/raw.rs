//! Engines without guards, for the tests of engines (feature `raw`).

use std::sync::Arc;

use evener_core::{Engine, EngineError};

use crate::{Probed, registry};

/// Finds an engine as [`find`](crate::find) does, without a guard.
///
/// # Errors
/// As [`find`](crate::find).
pub fn find(selector: &str) -> Result<Arc<dyn Engine>, EngineError> {
    registry::find_raw(selector)
}

/// Probes for every engine: one entry for each engine found, and one for each absent one.
pub fn probe_all() -> Vec<Probed> {
    registry::probe_all_raw()
}
