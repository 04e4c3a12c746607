//! Texts that configure Evener.

use evener_core::Profile;
use evener_engines::fuzzing::check_pkcs11_uri;
use evener_pipeline::costs::Costs;

/// The part after `pkcs11:` in the name of an engine. No error repeats a PIN.
pub fn pkcs11_uri(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = check_pkcs11_uri(text);
    // As part of a name it may be repeated.
    if text.contains(PIN) {
        return;
    }
    let separator = if text.contains('?') { '&' } else { '?' };
    let with_pin = format!("{text}{separator}pin-value={PIN}");
    let refusal = check_pkcs11_uri(&with_pin).expect_err("a PIN in the URI");
    assert!(!refusal.contains(PIN), "{refusal}");
}

/// A profile of engines' costs. A profile that was read is written and read back the same, and
/// estimates made from it are numbers.
pub fn profile(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(profile) = text.parse::<Profile>() else { return };
    let again: Profile = profile.to_json().parse().expect("what it wrote");
    assert_eq!(again, profile);
    let costs = Costs::from_profile(&profile);
    for engine in &profile.engines {
        let known = costs.engine(&engine.name).expect("every engine of the profile");
        for bytes in [0.0, 1.0, 16_384.0, 1e15] {
            for jobs in [1.0, 100.0, 1e9] {
                if let Some(cost) = known.cost(bytes, jobs) {
                    let numbers = [cost.wall, cost.cpu];
                    let sound = numbers.iter().all(|number| !number.is_nan() && *number >= 0.0);
                    assert!(sound, "{numbers:?} for {jobs} jobs of {bytes} bytes");
                }
            }
        }
    }
}

const PIN: &str = "Sw0rdf1sh";
