//! The list of engines. To add one, add its folder and one line here.

use std::sync::Arc;

use evener_core::{Engine, EngineError};

use crate::guard::{Watch, watched};
use crate::pkcs11::{self, PinPrompt};
#[cfg(target_os = "linux")]
use crate::{af_alg, cryptodev, model};
use crate::{cpu, lanes, openssl};

/// Every engine, in the order in which they are listed to people.
const ENTRIES: &[Entry] = &[
    Entry { name: cpu::NAME, probe: cpu::probe },
    Entry { name: "openssl", probe: openssl::probe },
    Entry { name: "lanes", probe: lanes::probe },
    Entry { name: pkcs11::NAME, probe: pkcs11::probe },
    #[cfg(target_os = "linux")]
    Entry { name: "af_alg", probe: af_alg::probe },
    #[cfg(target_os = "linux")]
    Entry { name: "cryptodev", probe: cryptodev::probe },
];

/// Engines that are there only when named, because they are made from what their name says.
const NAMED: &[Entry] = &[
    #[cfg(target_os = "linux")]
    Entry { name: model::NAME, probe: model::probe },
];

struct Entry {
    /// The name, without parameters, by which the engine is selected.
    name: &'static str,
    /// Finds what the parameters (`DRIVER` in `af_alg:DRIVER`; empty when there are none)
    /// select.
    probe: fn(parameters: &str) -> Found,
}

/// What probing found, best first, or why there is nothing.
pub(crate) type Found = Result<Vec<Arc<dyn Engine>>, EngineError>;

/// An engine that was looked for.
pub struct Probed {
    /// The name in the registry, without parameters.
    pub name: &'static str,
    /// The engine, or the reason why it is absent.
    pub engine: Result<Arc<dyn Engine>, EngineError>,
}

/// Finds the engine that `--engine` selects as `NAME` or `NAME:PARAMETERS`; a module comes with
/// a guard before it, which [watches it as usual](Watch::default).
///
/// # Errors
/// [`EngineError::Unavailable`] when no engine has that name, or it is not there.
pub fn find(selector: &str) -> Result<Arc<dyn Engine>, EngineError> {
    watched(&find_raw(selector)?, Watch::default())
}

/// Finds the engine itself.
pub(crate) fn find_raw(selector: &str) -> Result<Arc<dyn Engine>, EngineError> {
    let (name, parameters) = selector.split_once(':').unwrap_or((selector, ""));
    let absent = |reason: String| EngineError::Unavailable { engine: selector.to_owned(), reason };
    let mut entries = ENTRIES.iter().chain(NAMED);
    let entry = entries.find(|entry| entry.name == name).ok_or_else(|| {
        let names: Vec<_> = ENTRIES.iter().chain(NAMED).map(|entry| entry.name).collect();
        absent(format!("there is no engine of this name; there are {}", names.join(", ")))
    })?;
    let engines = (entry.probe)(parameters)?;
    engines.into_iter().next().ok_or_else(|| absent("nothing was found".to_owned()))
}

/// Finds an engine like [`find`], watched in a way of the caller's, with somebody to ask for a
/// token's PIN where it has none.
///
/// # Errors
/// As [`find`].
pub fn find_with(
    selector: &str,
    prompt: &PinPrompt<'_>,
    watch: Watch,
) -> Result<Arc<dyn Engine>, EngineError> {
    let engine = match selector.split_once(':') {
        Some((pkcs11::NAME, parameters)) => pkcs11::find(parameters, prompt),
        _ => find_raw(selector),
    };
    watched(&engine?, watch)
}

/// Looks for every engine: one line for each engine found, one for each that is absent. Modules
/// are guarded, as by [`find`].
pub fn probe_all() -> Vec<Probed> {
    let guarded = |Probed { name, engine }| Probed {
        name,
        engine: engine.and_then(|engine: Arc<dyn Engine>| watched(&engine, Watch::default())),
    };
    probe_all_raw().into_iter().map(guarded).collect()
}

/// Looks for the engines themselves.
pub(crate) fn probe_all_raw() -> Vec<Probed> {
    let probe = |entry: &Entry| {
        let name = entry.name;
        match (entry.probe)("") {
            Ok(engines) => {
                engines.into_iter().map(|engine| Probed { name, engine: Ok(engine) }).collect()
            }
            Err(error) => vec![Probed { name, engine: Err(error) }],
        }
    };
    ENTRIES.iter().flat_map(probe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_listed_and_found_by_its_name() {
        for entry in ENTRIES {
            let probed: Vec<_> =
                probe_all().into_iter().filter(|probed| probed.name == entry.name).collect();
            assert!(!probed.is_empty(), "{} is not listed", entry.name);
            let found = find(entry.name).is_ok();
            assert_eq!(found, probed.iter().any(|probed| probed.engine.is_ok()));
        }
    }

    #[test]
    fn every_engine_that_is_there_conforms() {
        for probed in probe_all_raw() {
            match probed.engine {
                Ok(engine) => crate::conformance::run(&*engine).assert_passed(),
                Err(error) => evener_skipped::skipped!("{error}"),
            }
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let Err(error) = find("enigma:M4") else { panic!("found an Enigma") };
        let text = error.to_string();
        assert!(text.contains("enigma:M4") && text.contains("openssl"), "{text}");
    }
}
