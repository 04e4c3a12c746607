//! The formats that keys are for, by name.

use std::fmt;
use std::str::FromStr;

use evener_format::CobblestoneSuite;

/// The formats for which `evener keygen` makes keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the variants are the names")]
pub enum KeyFormat {
    #[default]
    Cobblestone256,
    Cobblestone128,
    Tink,
}

impl KeyFormat {
    /// Every format, the default first.
    pub const ALL: &'static [KeyFormat] =
        &[KeyFormat::Cobblestone256, KeyFormat::Cobblestone128, KeyFormat::Tink];

    /// The name, such as `cobblestone-256`.
    pub fn name(self) -> &'static str {
        match self {
            KeyFormat::Cobblestone256 => CobblestoneSuite::Aes256Gcm.name(),
            KeyFormat::Cobblestone128 => CobblestoneSuite::Aes128Gcm.name(),
            KeyFormat::Tink => "tink",
        }
    }
}

impl fmt::Display for KeyFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for KeyFormat {
    type Err = UnknownKeyFormat;

    fn from_str(name: &str) -> Result<Self, UnknownKeyFormat> {
        KeyFormat::ALL
            .iter()
            .copied()
            .find(|format| format.name() == name)
            .ok_or_else(|| UnknownKeyFormat(name.to_owned()))
    }
}

/// A name that no key format has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown key format {0:?}; take `cobblestone-256`, `cobblestone-128` or `tink`")]
pub struct UnknownKeyFormat(pub String);
