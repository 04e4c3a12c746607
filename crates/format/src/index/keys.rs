//! The keys of a sealed tree's files.

use std::fmt;

use evener_core::Key;
use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::header::random;
use crate::{Cobblestone, CobblestoneSuite, FormatError, Recipe};

/// The identity of a tree: 128 random bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreeId(pub [u8; 16]);

/// The first half of a key's [`Commitment`], by which a root and the names of wrapped keys call it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub [u8; 16]);

/// 32 bytes that no two keys of a tree share, and that tell nothing about the key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Commitment(pub [u8; 32]);

/// The purpose of a file. Each has a subkey of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// A generation's root.
    Root,
    /// References to blocks.
    Node,
    /// Entries.
    Block,
    /// The content of a file of the source.
    Data,
}

impl Purpose {
    fn name(self) -> &'static str {
        match self {
            Purpose::Root => "root",
            Purpose::Node => "node",
            Purpose::Block => "block",
            Purpose::Data => "data",
        }
    }
}

/// A writer's key for a tree, from which the keys of all its files come.
#[derive(Clone)]
pub struct TreeKeys {
    key: Key,
    tree: TreeId,
    commitment: Commitment,
}

impl TreeKeys {
    /// Takes a uniformly random key of 32 bytes.
    ///
    /// # Errors
    /// [`FormatError::Length`] for another length.
    pub fn new(key: &Key, tree: TreeId) -> Result<TreeKeys, FormatError> {
        let suite = CobblestoneSuite::Aes256Gcm;
        let (expected, actual) = (suite.key_length(), key.len());
        if actual != expected {
            let cipher = suite.cipher();
            return Err(FormatError::Length { cipher, what: "a key", expected, actual });
        }
        let mut commitment = Commitment([0; 32]);
        expand(key, "id", tree, &mut commitment.0)?;
        Ok(TreeKeys { key: key.clone(), tree, commitment })
    }

    /// The tree.
    pub fn tree(&self) -> TreeId {
        self.tree
    }

    /// The key's commitment.
    pub fn commitment(&self) -> Commitment {
        self.commitment
    }

    /// What encrypts and decrypts files of a purpose that aim at a generation.
    ///
    /// # Errors
    /// [`FormatError::Derivation`].
    pub fn recipe(&self, purpose: Purpose, generation: u64) -> Result<Recipe, FormatError> {
        let mut subkey = Zeroizing::new([0; 32]);
        expand(&self.key, purpose.name(), self.tree, &mut *subkey)?;
        let subkey = Key::new(&*subkey).map_err(|it| FormatError::Derivation(it.to_string()))?;
        let mut context = [0; 32];
        context[..purpose.name().len()].copy_from_slice(purpose.name().as_bytes());
        context[8..24].copy_from_slice(&self.tree.0);
        context[24..].copy_from_slice(&generation.to_be_bytes());
        Recipe::cobblestone(CobblestoneSuite::Aes256Gcm, &subkey, &context)
    }
}

impl fmt::Debug for TreeKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TreeKeys").field("tree", &self.tree).finish_non_exhaustive()
    }
}

/// `HKDF-Expand-SHA-256(key, "evener/v1/" ‖ purpose ‖ 0 ‖ tree)`.
fn expand(key: &Key, purpose: &str, tree: TreeId, output: &mut [u8]) -> Result<(), FormatError> {
    let failed = |reason: &str| FormatError::Derivation(reason.to_owned());
    let hkdf = Hkdf::<Sha256>::from_prk(key.bytes()).map_err(|_| failed("the key is too short"))?;
    let info = [b"evener/v1/", purpose.as_bytes(), &[0], &tree.0].concat();
    hkdf.expand(&info, output).map_err(|_| failed("the output is too long"))
}

/// The commitment in the header of a sealed file: it binds its salt and its key.
pub fn commitment_of(header: &[u8]) -> Option<[u8; 32]> {
    header.get(..Cobblestone::HEADER_LENGTH)?.last_chunk().copied()
}

impl TreeId {
    /// A new tree.
    ///
    /// # Errors
    /// [`FormatError::Random`].
    pub fn random() -> Result<TreeId, FormatError> {
        random().map(TreeId)
    }

    /// Reads 32 hexadecimal digits.
    pub fn from_text(text: &str) -> Option<TreeId> {
        from_hexadecimal(text).map(TreeId)
    }
}

impl KeyId {
    /// Reads 32 hexadecimal digits.
    pub fn from_text(text: &str) -> Option<KeyId> {
        from_hexadecimal(text).map(KeyId)
    }
}

impl Commitment {
    /// The key's identifier.
    pub fn id(&self) -> KeyId {
        let mut id = [0; 16];
        id.copy_from_slice(&self.0[..16]);
        KeyId(id)
    }
}

/// Reads two lower-case hexadecimal digits for each byte.
pub(super) fn from_hexadecimal<const LENGTH: usize>(text: &str) -> Option<[u8; LENGTH]> {
    let digit = |digit: u8| char::from(digit).to_digit(16).filter(|_| !digit.is_ascii_uppercase());
    let byte = |pair: &[u8]| Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8);
    let pairs = text.as_bytes().chunks_exact(2);
    let bytes = pairs.map(byte).collect::<Option<Vec<_>>>()?;
    bytes.try_into().ok().filter(|_| text.len() == 2 * LENGTH)
}

macro_rules! hexadecimal {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )*};
}

pub(super) use hexadecimal;

hexadecimal!(TreeId, KeyId, Commitment);
