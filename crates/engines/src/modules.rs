//! The kernel's modules, for libraries that bring an engine of their own to verify them.

use std::sync::Arc;

use evener_core::{Engine, EngineError, Kind};

use crate::guard::{Watch, guard};
use crate::probing::Found;
#[cfg(target_os = "linux")]
use crate::{af_alg, cryptodev};

/// Those that [`find_module`] finds. Nothing here leads to OpenSSL.
const MODULES: &[(&str, Probe)] = &[
    #[cfg(target_os = "linux")]
    ("af_alg", af_alg::probe),
    #[cfg(target_os = "linux")]
    ("cryptodev", cryptodev::probe),
];

/// Finds the engine that the parameters select.
type Probe = fn(&str) -> Found;

/// Finds `cryptodev` or `af_alg`, with parameters as [`find`](crate::find) takes them, and wraps it
/// in a guard that recomputes results on `reference`. A driver that computes on the calling core is
/// guarded too, without a deadline.
///
/// # Errors
/// [`EngineError::Unavailable`] when it is none of the two, or is not on this machine.
pub fn find_module(
    selector: &str,
    reference: Arc<dyn Engine>,
    watch: Watch,
) -> Result<Arc<dyn Engine>, EngineError> {
    let (name, parameters) = selector.split_once(':').unwrap_or((selector, ""));
    let absent = |reason: String| EngineError::Unavailable { engine: selector.to_owned(), reason };
    let Some((_, probe)) = MODULES.iter().find(|(known, _)| *known == name) else {
        let names: Vec<_> = MODULES.iter().map(|(name, _)| *name).collect();
        return Err(absent(format!("only {} can be used here", names.join(" and "))));
    };
    let engine = probe(parameters)?.into_iter().next();
    let engine = engine.ok_or_else(|| absent("nothing was found".to_owned()))?;
    let is_module = engine.description().kind == Kind::Module;
    let deadline = watch.deadline.filter(|_| is_module);
    Ok(guard(engine, reference, Watch { deadline, ..watch }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_modules_are_found() {
        let Ok(reference) = crate::lanes::engine() else {
            evener_skipped::skipped!("this CPU has no AES instructions");
            return;
        };
        for name in ["openssl", "lanes", "cpu", "", "cryptodevs"] {
            let Err(error) = find_module(name, Arc::clone(&reference), Watch::default()) else {
                panic!("found {name}")
            };
            assert!(error.to_string().contains("only af_alg and cryptodev"), "{error}");
        }
    }
}
