//! Another machine, whose profile the configuration names: `engine = model:FILE#module`. Its
//! processor is the engine `cpu` of the same file, and computes everything that the module does
//! not.

use std::sync::{Arc, OnceLock};

use crate::warning::warn;
use evener_core::{Engine, EngineError};
use evener_engines::{Watch, check_module, find_module, guard};
use model::Processor;

// The laboratory itself would link an OpenSSL, and the program that loads this has one.
#[allow(unreachable_pub)]
#[path = "../../../../lab/src/model/mod.rs"]
mod model;

static PROCESSOR: OnceLock<Processor> = OnceLock::new();

/// Checks a selector as [`check_module`] does; for a model, reads the profile.
pub(crate) fn check(selector: &str) -> Result<(), String> {
    let Some((_, processor)) = models(selector) else { return check_module(selector) };
    let processor = Processor::find(&processor).map_err(|error| error.to_string())?;
    let _ = PROCESSOR.set(processor);
    Ok(())
}

/// Finds a module as [`find_module`] does. The guard's recomputations take the modelled processor's
/// time.
pub(crate) fn find(
    selector: &str,
    reference: Arc<dyn Engine>,
    watch: Watch,
) -> Result<Arc<dyn Engine>, EngineError> {
    let Some((module, processor)) = models(selector) else {
        return find_module(selector, reference, watch);
    };
    let module = model::find(&module, Arc::clone(&reference), warn)?;
    let reference = model::find(&processor, reference, warn)?;
    Ok(guard(module, reference, watch))
}

/// The parameters of a modelled module and of the processor beside it.
fn models(selector: &str) -> Option<(String, String)> {
    let module = selector.strip_prefix(model::NAME)?.strip_prefix(':')?;
    let (file, _) = module.rsplit_once('#')?;
    Some((module.to_owned(), format!("{file}#cpu")))
}

/// Runs the work of a message of this many bytes.
pub(crate) fn message<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    match PROCESSOR.get() {
        Some(processor) => processor.message(bytes, work),
        None => work(),
    }
}

/// Runs the work of this many bytes within a message.
pub(crate) fn part<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    match PROCESSOR.get() {
        Some(processor) => processor.part(bytes, work),
        None => work(),
    }
}
