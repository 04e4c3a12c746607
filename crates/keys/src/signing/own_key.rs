//! The key that a writer makes for itself.

use std::fmt;
use std::path::Path;

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use hkdf::Hkdf;
use sha2::Sha256;
use ssh_key::private::{Ed25519Keypair, PrivateKey};
use ssh_key::public::KeyData;
use ssh_key::{LineEnding, public};
use zeroize::Zeroizing;

use super::sshsig::{signed_data, write};
use super::{PublicKey, PublicKeyFault, SigningError};
use crate::key_file::read;
use crate::{KeyError, NewKeyFile, NoUnlock, create, random};

/// An Ed25519 key that a writer makes for itself and keeps in its state, and the chain key that is
/// derived from it. Dropping it wipes both.
///
/// The chain key says nothing about the other: its seed is
/// `HKDF-Expand-SHA-256(seed, "evener/v1/chain" ‖ 0x00, 32)`.
pub struct OwnKey {
    signing: SigningKey,
    chain: SigningKey,
}

impl OwnKey {
    /// Makes a key from the operating system's randomness.
    ///
    /// # Errors
    /// [`KeyError::Random`] when the system supplies none.
    pub fn generate() -> Result<OwnKey, KeyError> {
        Ok(OwnKey::from_seed(&*random::bytes()?))
    }

    /// Reads what [`OwnKey::store`] wrote. The file must be accessible to its owner only.
    ///
    /// # Errors
    /// Says what is wrong with the file and what to do next.
    pub fn load(path: &Path) -> Result<OwnKey, SigningError> {
        let contents = read(path, "read the signing key")?;
        contents.check_private(path, &NoUnlock)?;
        let key = PrivateKey::from_openssh(&*contents.bytes).ok();
        match key.as_ref().and_then(|key| key.key_data().ed25519()) {
            Some(pair) => Ok(OwnKey::from_seed(pair.private.as_ref())),
            None => Err(SigningError::NotOwn { path: path.to_owned() }),
        }
    }

    /// Writes the key to a new file of mode 0600, as [`create`] does: a private key of OpenSSH
    /// without a passphrase.
    ///
    /// # Errors
    /// Those of [`create`]. A file of this name stays unchanged.
    pub fn store(&self, path: &Path) -> Result<NewKeyFile, KeyError> {
        let pair = Ed25519Keypair::from(&self.signing);
        let text = PrivateKey::new(pair.into(), "evener")
            .and_then(|key| key.to_openssh(LineEnding::LF))
            .expect("an Ed25519 key has a text");
        create(path, text.as_bytes())
    }

    /// The key that verifies its signatures.
    pub fn public(&self) -> PublicKey {
        let point = public::Ed25519PublicKey(self.signing.verifying_key().to_bytes());
        let wire = ssh_key::PublicKey::from(KeyData::Ed25519(point)).to_bytes();
        wire.map_err(|_| PublicKeyFault::Malformed)
            .and_then(|wire| PublicKey::from_wire(&wire))
            .expect("an Ed25519 key is a key")
    }

    /// Signs a message in [`NAMESPACE`](super::NAMESPACE); returns a binary SSHSIG.
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        let signature = self.signing.sign(&signed_data(message));
        write(&self.public(), &signature.to_bytes())
    }

    /// The public key of the chain key, for [`verify_chain`].
    pub fn chain_key(&self) -> [u8; 32] {
        self.chain.verifying_key().to_bytes()
    }

    /// Signs a message with the chain key, for [`verify_chain`].
    pub fn sign_chain(&self, message: &[u8]) -> [u8; 64] {
        self.chain.sign(&chain_data(message)).to_bytes()
    }

    fn from_seed(seed: &[u8; 32]) -> OwnKey {
        let mut chain = Zeroizing::new([0; 32]);
        let hkdf = Hkdf::<Sha256>::from_prk(seed).expect("the seed is as long as the hash");
        hkdf.expand(b"evener/v1/chain\0", chain.as_mut()).expect("32 bytes can be had");
        OwnKey { signing: SigningKey::from_bytes(seed), chain: SigningKey::from_bytes(&chain) }
    }
}

/// Shows the public key only.
impl fmt::Debug for OwnKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnKey({}, redacted)", self.public())
    }
}

/// Verifies a chain key's signature of a message: Ed25519 (RFC 8032) of `"evener-chain-v1" ‖ 0x00 ‖
/// message`. A key or a signature with a point of low order does not count.
pub fn verify_chain(key: &[u8; 32], message: &[u8], signature: &[u8; 64]) -> bool {
    let signature = Signature::from_bytes(signature);
    VerifyingKey::from_bytes(key)
        .is_ok_and(|key| key.verify_strict(&chain_data(message), &signature).is_ok())
}

fn chain_data(message: &[u8]) -> Vec<u8> {
    [b"evener-chain-v1\0", message].concat()
}
