//! Checks settings that name credentials. If the file is missing, OpenDAL would silently ask the
//! metadata service of a cloud instead.

use std::fs;

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

const GOOGLE: &str = "GOOGLE_APPLICATION_CREDENTIALS";
