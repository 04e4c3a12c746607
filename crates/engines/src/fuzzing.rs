//! Entry points for fuzzing: parsers that are otherwise private.

use crate::pkcs11;

/// Parses the text after `pkcs11:` in an engine's name, without opening anything.
///
/// # Errors
/// The message that a person gets.
pub fn check_pkcs11_uri(text: &str) -> Result<(), String> {
    pkcs11::check_uri(text)
}
