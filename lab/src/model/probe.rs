//! Finds an engine in a profile.

use std::fs;

use evener_core::{Cipher, Direction, EngineProfile, Includes, Profile};

/// An engine of a profile.
pub(super) struct Model {
    /// The machine's name.
    pub(super) machine: String,
    pub(super) cipher: Cipher,
    pub(super) direction: Direction,
    pub(super) includes: Includes,
    pub(super) engine: EngineProfile,
}

/// Reads the engine `FILE#NAME`. The error is the reason as text.
pub(super) fn read(parameters: &str) -> Result<Model, String> {
    // A file's name may contain a `#`; an engine's hardly ever does.
    let (file, name) = parameters
        .rsplit_once('#')
        .ok_or("it takes FILE#NAME, a profile and the name of an engine in it")?;
    let json = fs::read_to_string(file).map_err(|error| format!("can't read {file}: {error}"))?;
    let profile: Profile = json.parse().map_err(|error| format!("{file}: {error}"))?;
    let cipher = profile.cipher.parse().map_err(|error| format!("{file}: {error}"))?;
    let direction = match profile.direction.as_str() {
        "encrypt" => Direction::Encrypt,
        "decrypt" => Direction::Decrypt,
        other => return Err(format!("{file}: `{other}` is no direction")),
    };
    let engine = profile.engine(name).cloned().ok_or_else(|| {
        let names: Vec<_> = profile.engines.iter().map(|engine| engine.name.as_str()).collect();
        format!("{file} has no engine `{name}`; it has {}", names.join(", "))
    })?;
    let Profile { machine, includes, .. } = profile;
    Ok(Model { machine, cipher, direction, includes, engine })
}
