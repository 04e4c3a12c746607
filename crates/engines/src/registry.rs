//! The list of engines. ARCHITECTURE.md says how to add one.

use std::sync::Arc;

use evener_core::{Engine, EngineError};

#[cfg(feature = "gpu")]
use crate::gpu;
use crate::guard::{Watch, watched};
use crate::lanes;
use crate::pkcs11;
use crate::probing::{PinPrompt, Probe};
#[cfg(target_os = "linux")]
use crate::{af_alg, cryptodev};
#[cfg(feature = "openssl")]
use crate::{cpu, openssl};

/// Every engine, in the order of listings.
const ENTRIES: &[Entry] = &[
    #[cfg(feature = "openssl")]
    Entry { name: cpu::NAME, probe: |parameters| cpu::probe(parameters).into(), foreign: NEVER },
    #[cfg(feature = "openssl")]
    Entry { name: "openssl", probe: openssl::probe, foreign: openssl::loads_foreign_code },
    Entry { name: "lanes", probe: |parameters| lanes::probe(parameters).into(), foreign: NEVER },
    Entry {
        name: pkcs11::NAME,
        probe: |parameters| pkcs11::probe(parameters).into(),
        foreign: pkcs11::loads_foreign_code,
    },
    #[cfg(target_os = "linux")]
    Entry { name: "af_alg", probe: af_alg::probe, foreign: NEVER },
    #[cfg(target_os = "linux")]
    Entry { name: "cryptodev", probe: cryptodev::probe, foreign: NEVER },
    #[cfg(feature = "gpu")]
    Entry { name: gpu::NAME, probe: gpu::probe, foreign: |_| true },
];

struct Entry {
    /// The name, without parameters, by which the engine is selected.
    name: &'static str,
    /// Finds the engines that the parameters select (`DRIVER` in `af_alg:DRIVER`; empty without
    /// parameters).
    probe: fn(parameters: &str) -> Probe,
    /// Returns whether these parameters make the engine load foreign code.
    foreign: fn(parameters: &str) -> bool,
}

const NEVER: fn(&str) -> bool = |_| false;

/// Returns whether an engine loads code into the process that is neither Evener's nor OpenSSL's
/// own: a token's library, another provider, a GPU's driver. Such code can do whatever the process
/// can, and can end it with the status of a success.
pub fn loads_foreign_code(selector: &str) -> bool {
    let (name, parameters) = selector.split_once(':').unwrap_or((selector, ""));
    // A static program can't load any.
    !cfg!(target_feature = "crt-static")
        && ENTRIES.iter().any(|entry| entry.name == name && (entry.foreign)(parameters))
}

/// The result of probing for an engine.
pub struct Probed {
    /// The name in the registry, without parameters.
    pub name: &'static str,
    /// The engine, or the reason why it is absent.
    pub engine: Result<Arc<dyn Engine>, EngineError>,
}

/// The names of all engines, without parameters, whether they are on this machine or not.
pub fn names() -> impl Iterator<Item = &'static str> {
    ENTRIES.iter().map(|entry| entry.name)
}

/// The engine name most similar to a mistyped one, if any is similar enough.
fn nearest(typed: &str) -> Option<&'static str> {
    let likeness = |name: &str| strsim::jaro(&typed.to_ascii_lowercase(), name);
    let likest = names().max_by(|one, other| likeness(one).total_cmp(&likeness(other)))?;
    (likeness(likest) > LEAST_LIKENESS).then_some(likest)
}

/// Names that are no more similar than this are not suggested. (1 stands for equal names.)
const LEAST_LIKENESS: f64 = 0.7;

/// Finds an engine by its selector, `NAME` or `NAME:PARAMETERS`; a module is wrapped in
/// a guard with the [default settings](Watch::default).
///
/// # Errors
/// [`EngineError::Unavailable`] when no engine has that name, or it is not on this machine.
pub fn find(selector: &str) -> Result<Arc<dyn Engine>, EngineError> {
    watched(&find_raw(selector)?, Watch::default())
}

/// Finds an engine without wrapping it in a guard.
pub(crate) fn find_raw(selector: &str) -> Result<Arc<dyn Engine>, EngineError> {
    let (name, parameters) = selector.split_once(':').unwrap_or((selector, ""));
    let absent = |reason: String| EngineError::unavailable(reason).of(selector);
    let entry = ENTRIES.iter().find(|entry| entry.name == name);
    let entry = entry.ok_or_else(|| absent(why_unknown(name)))?;
    let engines = (entry.probe)(parameters).wait().map_err(|error| error.of(selector))?;
    engines.into_iter().next().ok_or_else(|| absent("nothing was found".to_owned()))
}

/// The reason why no engine has this name.
fn why_unknown(name: &str) -> String {
    if LEFT_OUT.contains(&name) {
        return format!("this program was built without it (Cargo feature `{name}`)");
    }
    let all = names().collect::<Vec<_>>().join(", ");
    let nearest = nearest(name).map(|name| format!(" (did you mean `{name}`?)"));
    format!("there is no engine of this name{}; there are {all}", nearest.unwrap_or_default())
}

/// Engines that this build lacks. Each has the name of its feature.
const LEFT_OUT: &[&str] = if cfg!(feature = "gpu") { &[] } else { &["gpu"] };

/// As [`find`], with these guard settings, and a prompt for a token's PIN if the selector has none.
///
/// # Errors
/// As [`find`].
pub fn find_with(
    selector: &str,
    prompt: &PinPrompt<'_>,
    watch: Watch,
) -> Result<Arc<dyn Engine>, EngineError> {
    let engine = match selector.split_once(':') {
        Some((pkcs11::NAME, parameters)) => {
            pkcs11::find(parameters, prompt).map_err(|error| error.of(selector))
        }
        _ => find_raw(selector),
    };
    watched(&engine?, watch)
}

/// Probes for every engine: one entry for each engine found, and one for each absent one. Modules
/// are guarded, as by [`find`]. An engine that does not answer within 10 seconds counts as absent.
/// All probes run at the same time.
pub fn probe_all() -> Vec<Probed> {
    let guarded = |Probed { name, engine }| Probed {
        name,
        engine: engine.and_then(|engine: Arc<dyn Engine>| watched(&engine, Watch::default())),
    };
    probe_all_raw().into_iter().map(guarded).collect()
}

/// As [`probe_all`], without guards.
pub(crate) fn probe_all_raw() -> Vec<Probed> {
    // Start every probe before waiting for the first, so that a hanging one delays no other.
    let probes: Vec<_> = ENTRIES.iter().map(|entry| (entry.name, (entry.probe)(""))).collect();
    let wait = |(name, probe): (&'static str, Probe)| match probe.wait_in_a_list() {
        Ok(engines) => {
            engines.into_iter().map(|engine| Probed { name, engine: Ok(engine) }).collect()
        }
        Err(error) => vec![Probed { name, engine: Err(error.of(name)) }],
    };
    probes.into_iter().flat_map(wait).collect()
}

#[cfg(all(test, feature = "openssl"))]
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
                Err(error) => evener_core::skipped!("{error}"),
            }
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let Err(error) = find("enigma:M4") else { panic!("found an Enigma") };
        let text = error.to_string();
        assert!(text.contains("enigma:M4") && text.contains("openssl"), "{text}");
        assert!(!text.contains("did you mean"), "{text}");
    }

    #[cfg(feature = "gpu")]
    #[test]
    fn a_driver_is_known_before_it_is_loaded() {
        assert!(loads_foreign_code("gpu") && loads_foreign_code("gpu:opencl:pocl"));
    }

    #[test]
    fn libraries_of_others_are_known_before_they_are_loaded() {
        let foreign = [
            "pkcs11:token=a",
            "pkcs11:?module-path=/nowhere.so",
            "openssl:provider=pkcs11",
            "openssl:provider=default,path=/tmp",
        ];
        let own = ["cpu", "openssl", "openssl:provider=legacy", "openssl:fast", "lanes", "af_alg"];
        // Refused selectors load nothing.
        let none = ["cryptodev:ctr-aes-caam", "pkcs11", "pkcs11:token=a?pin-value=1", "enigma", ""];
        for selector in foreign {
            assert!(loads_foreign_code(selector), "{selector}");
        }
        for selector in own.iter().chain(&none) {
            assert!(!loads_foreign_code(selector), "{selector}");
        }
    }

    #[test]
    fn a_mistyped_name_is_answered_with_the_nearest_one() {
        for (typed, meant) in [
            ("opensl", "openssl"),
            ("OpenSSL", "openssl"),
            ("lane", "lanes"),
            ("afalg:cbc(aes)", "af_alg"),
            ("cryptdev", "cryptodev"),
        ] {
            let Err(error) = find(typed) else { panic!("found {typed}") };
            let text = error.to_string();
            assert!(text.contains(&format!("did you mean `{meant}`?")), "{text}");
        }
    }
}

#[cfg(all(test, not(feature = "gpu")))]
mod tests_without_gpu {
    #[test]
    fn the_gpu_is_said_to_be_left_out() {
        let Err(error) = super::find("gpu:opencl:pocl") else { panic!("found it") };
        assert!(error.to_string().contains("built without it (Cargo feature `gpu`)"), "{error}");
        assert!(super::names().all(|name| name != "gpu") && !super::loads_foreign_code("gpu"));
    }
}
