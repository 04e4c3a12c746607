//! Checks of what names credentials. The protocols' library passes over names that lead nowhere,
//! and asks the metadata service of a cloud instead.

use std::{env, fs, path};

use evener_seal::Fault;

use crate::operator::variable;

/// # Errors
/// [`Fault::Refused`] where `GOOGLE_APPLICATION_CREDENTIALS` names a file that has none.
pub(crate) fn check_google() -> Result<(), Fault> {
    let Some(file) = variable(GOOGLE) else { return Ok(()) };
    let refused = |reason| Err(Fault::Refused(format!("{GOOGLE} names {file}, {reason}")));
    let bytes = match fs::read(&file) {
        Ok(bytes) => bytes,
        Err(error) => return refused(format!("which can't be read: {error}")),
    };
    let parsed = serde_json::from_slice::<serde_json::Value>(&bytes);
    match parsed.is_ok_and(|it| it["type"].is_string()) {
        true => Ok(()),
        false => refused("which has no credentials of Google's: no JSON with a `type`".to_owned()),
    }
}

/// # Errors
/// [`Fault::Refused`] where neither of the files of Amazon's tools has the profile.
pub(crate) fn check_profile(profile: Option<&str>) -> Result<(), Fault> {
    let Some(profile) = profile.map(str::to_owned).or_else(|| variable("AWS_PROFILE")) else {
        return Ok(());
    };
    let files = [
        ("AWS_SHARED_CREDENTIALS_FILE", "credentials", profile.clone()),
        ("AWS_CONFIG_FILE", "config", format!("profile {profile}")),
    ]
    .map(|(name, usual, section)| {
        let file = variable(name).map(path::PathBuf::from);
        let home = env::home_dir().unwrap_or_default();
        (file.unwrap_or_else(|| home.join(".aws").join(usual)), section)
    });
    let has_it = |(file, section): &(path::PathBuf, String)| {
        let text = fs::read_to_string(file).unwrap_or_default();
        text.lines().filter_map(section_of).any(|it| it == section)
    };
    if profile == "default" || files.iter().any(has_it) {
        return Ok(());
    }
    let [(one, _), (other, _)] = &files;
    let (one, other) = (one.display(), other.display());
    Err(Fault::Refused(format!("the profile {profile} is neither in {one} nor in {other}")))
}

fn section_of(line: &str) -> Option<&str> {
    Some(line.trim().strip_prefix('[')?.strip_suffix(']')?.trim())
}

const GOOGLE: &str = "GOOGLE_APPLICATION_CREDENTIALS";
