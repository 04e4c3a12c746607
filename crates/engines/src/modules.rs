//! Finds modules for libraries that verify them with an engine of their own.

use std::sync::Arc;

use evener_core::{Engine, EngineError, Kind};

use crate::guard::{Watch, guard};
use crate::pkcs11;
use crate::probing::Probe;
#[cfg(target_os = "linux")]
use crate::{af_alg, cryptodev};

/// The modules that [`find_module`] finds. None of them leads to OpenSSL.
const MODULES: &[Module] = &[
    #[cfg(target_os = "linux")]
    Module { name: "af_alg", check: check_driver, probe: af_alg::probe },
    #[cfg(target_os = "linux")]
    Module { name: "cryptodev", check: check_driver, probe: cryptodev::probe },
    Module {
        name: pkcs11::NAME,
        check: pkcs11::check_token,
        probe: |parameters| pkcs11::probe_unattended(parameters).into(),
    },
];

struct Module {
    name: &'static str,
    /// Checks the parameters (`None` without a colon). Returns the reason if they are invalid.
    check: fn(Option<&str>) -> Result<(), String>,
    /// Finds the engine that the parameters select.
    probe: fn(&str) -> Probe,
}

/// Checks a selector for [`find_module`] without opening anything.
///
/// # Errors
/// The reason why the selector is invalid. The message never repeats a value of a `pkcs11:` URI,
/// since a misplaced PIN may be there.
pub fn check_module(selector: &str) -> Result<(), String> {
    let (module, parameters) = find_by_name(selector)?;
    (module.check)(parameters)
}

fn find_by_name(selector: &str) -> Result<(&'static Module, Option<&str>), String> {
    let (name, parameters) = match selector.split_once(':') {
        Some((name, parameters)) => (name, Some(parameters)),
        None => (selector, None),
    };
    let module = MODULES.iter().find(|module| module.name == name).ok_or_else(|| {
        let names: Vec<_> = MODULES.iter().map(|module| module.name).collect();
        format!("only {} can be used here", names.join(", "))
    })?;
    Ok((module, parameters))
}

#[cfg(target_os = "linux")]
fn check_driver(parameters: Option<&str>) -> Result<(), String> {
    match parameters {
        Some("") => Err("the colon must be followed by a driver's name".to_owned()),
        _ => Ok(()),
    }
}

/// Finds a module, with parameters as [`find`](crate::find) takes them, and wraps it in a guard
/// that recomputes results on `reference`. A driver that computes on the calling core is guarded
/// too, without a deadline. Nobody is asked for a token's PIN. After a wrong PIN, none is tried
/// until somebody has logged in with the right one: many processes with a wrong PIN would lock the
/// token.
///
/// # Errors
/// [`EngineError::Unavailable`] when the selector names no module, or the module is not on this
/// machine.
pub fn find_module(
    selector: &str,
    reference: Arc<dyn Engine>,
    watch: Watch,
) -> Result<Arc<dyn Engine>, EngineError> {
    let absent = |reason: String| EngineError::unavailable(reason).of(selector);
    let (module, parameters) = find_by_name(selector).map_err(absent)?;
    let found = (module.probe)(parameters.unwrap_or_default()).wait();
    let engine = found.map_err(|error| error.of(selector))?.into_iter().next();
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
            evener_core::skipped!("this CPU has no AES instructions");
            return;
        };
        for name in ["openssl", "lanes", "cpu", "", "cryptodevs"] {
            let Err(error) = find_module(name, Arc::clone(&reference), Watch::default()) else {
                panic!("found {name}")
            };
            let words = "only af_alg, cryptodev, pkcs11 can";
            assert!(error.to_string().contains(words), "{error}");
        }
    }

    #[test]
    fn a_selector_is_checked_without_a_device() {
        let token = "pkcs11:token=a?module-path=/nowhere.so&pin-source=/nowhere";
        for right in ["cryptodev", "af_alg", "cryptodev:ctr-aes-caam", token] {
            assert_eq!(check_module(right), Ok(()), "{right}");
        }
        for (wrong, words) in [
            ("openssl", "only af_alg"),
            ("cryptodev:", "followed by a driver's name"),
            ("pkcs11", "name a token"),
            ("pkcs11:", "name a token"),
            ("pkcs11:token", "NAME=VALUE"),
            ("pkcs11:token=a;object=b", "object="),
            ("pkcs11:token=a?pin-value=648219", "PIN in the URI"),
            ("pkcs11:token=a;pin-value=648219", "no attribute `pin-value`"),
            ("pkcs11:648219", "NAME=VALUE"),
        ] {
            let said = check_module(wrong).unwrap_err();
            assert!(said.contains(words) && !said.contains("648219"), "{wrong}: {said}");
        }
    }
}
