//! The content of the state's files, about a tree and about a run.

use evener_format::index::{SignerKeys, TreeId};
use serde::{Deserialize, Serialize};

use crate::indexed::roots::{Pin, RootDigest};

/// A tree as a file of the state describes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) place: String,
    pub(super) tree: String,
    pub(super) number: u64,
    pub(super) digest: String,
    /// Keys of OpenSSH and of chains, in hexadecimal.
    signers: Vec<(String, String)>,
    revoked: Vec<(String, u64)>,
    /// Of the index, in hexadecimal; of a writer alone.
    #[serde(default)]
    pub(super) border: Option<String>,
    #[serde(default)]
    pub(super) padding: Option<u64>,
    /// The root whose index this one has too, if this machine has made it without a source.
    #[serde(default)]
    pub(super) same: Option<String>,
}

/// A run that seals a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::indexed) struct Begun {
    pub(in crate::indexed) tree: String,
    /// When it began by the clock of the place, in seconds since 1970.
    pub(in crate::indexed) time: i64,
    /// The commitment of its key.
    pub(in crate::indexed) key: String,
    /// The root on which it builds.
    pub(in crate::indexed) base: Option<String>,
    /// True if it seals everything anew.
    pub(in crate::indexed) has_new_key: bool,
    /// Those who can open its key.
    #[serde(default)]
    pub(in crate::indexed) audience: Option<String>,
    /// True if it keeps extended attributes.
    #[serde(default)]
    pub(in crate::indexed) xattrs: bool,
    /// The generation that the last cleaning before it made.
    #[serde(default)]
    pub(in crate::indexed) cleaned: Option<u64>,
    /// The name of its file in `writers/`.
    pub(in crate::indexed) writer: String,
}

/// The further notes of a writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::indexed) struct Written {
    pub(in crate::indexed) pin: Pin,
    pub(in crate::indexed) border: [u8; 16],
    pub(in crate::indexed) padding: Option<u64>,
}

impl Kept {
    pub(super) fn of(place: &str, pin: &Pin) -> Kept {
        let signer = |it: &SignerKeys| (hexadecimal(&it.key), hexadecimal(&it.chain));
        Kept {
            place: place.to_owned(),
            tree: pin.tree.to_string(),
            number: pin.number,
            digest: pin.digest.to_string(),
            signers: pin.signers.iter().map(signer).collect(),
            revoked: pin.revoked.iter().map(|(key, last)| (hexadecimal(key), *last)).collect(),
            border: None,
            padding: None,
            same: None,
        }
    }

    pub(super) fn written(&self) -> Option<Written> {
        let border = bytes(self.border.as_ref()?)?.try_into().ok()?;
        Some(Written { pin: self.pin()?, border, padding: self.padding })
    }

    pub(super) fn pin(&self) -> Option<Pin> {
        let signer = |(key, chain): &(String, String)| {
            Some(SignerKeys { key: bytes(key)?, chain: bytes(chain)?.try_into().ok()? })
        };
        let revoked = |(key, last): &(String, u64)| Some((bytes(key)?, *last));
        Some(Pin {
            tree: TreeId::from_text(&self.tree)?,
            number: self.number,
            digest: RootDigest::from_text(&self.digest)?,
            signers: self.signers.iter().map(signer).collect::<Option<_>>()?,
            revoked: self.revoked.iter().map(revoked).collect::<Option<_>>()?,
        })
    }
}

pub(in crate::indexed) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    let digit = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    (0..text.len()).step_by(2).map(digit).collect()
}
