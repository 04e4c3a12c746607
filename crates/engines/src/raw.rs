//! Engines that nobody watches, for the tests of engines (feature `raw`).

use std::sync::Arc;

use evener_core::{Engine, EngineError};

use crate::registry;

/// Finds an engine as [`find`](crate::find) does, without a guard.
///
/// # Errors
/// As [`find`](crate::find).
pub fn find(selector: &str) -> Result<Arc<dyn Engine>, EngineError> {
    registry::find_raw(selector)
}

/// Looks for every engine: its name in the registry, and the engine or why it is absent.
pub fn probe_all() -> Vec<(&'static str, Result<Arc<dyn Engine>, EngineError>)> {
    registry::probe_all_raw()
}
