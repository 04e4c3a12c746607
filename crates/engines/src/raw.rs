//! Engines that nobody watches, for the tests of engines (feature `raw`).

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

/// Looks for every engine: one line for each engine found, one for each that is absent.
pub fn probe_all() -> Vec<Probed> {
    registry::probe_all_raw()
}
