//! Signatures in the format SSHSIG, in binary.

use ssh_key::{HashAlg, Signature, SshSig};

use super::wire::{Fields, strings};
use super::{NAMESPACE, PublicKey, SignatureError};

/// Verifies a binary signature (PROTOCOL.sshsig, without the armour) over a message in
/// [`NAMESPACE`], and returns its key. The caller decides whether that may sign.
///
/// It is stricter than `ssh-keygen -Y verify`: a security key must have been touched, and the
/// reserved field must be empty, as OpenSSH writes it. Anybody can turn an ECDSA signature into a
/// second one of the same key and message.
///
/// # Errors
/// Says why the signature does not count.
pub fn verify(signature: &[u8], message: &[u8]) -> Result<PublicKey, SignatureError> {
    let parts = Parts::read(signature).ok_or(SignatureError::Malformed)?;
    if parts.namespace != NAMESPACE.as_bytes() {
        return Err(SignatureError::Namespace);
    }
    let key = PublicKey::from_wire(parts.key)?;
    let trailer = if key.is_of_security_key() { TRAILER } else { 0 };
    if parts.kind != key.kind().as_bytes() || parts.trailer.len() != trailer {
        return Err(SignatureError::Malformed);
    }
    let data = key.data();
    let signed = Signature::new(data.algorithm(), [parts.signature, parts.trailer].concat())
        .and_then(|signature| SshSig::new(data.clone(), NAMESPACE, parts.hash, signature))
        .map_err(|_| SignatureError::Malformed)?;
    ssh_key::PublicKey::from(data)
        .verify(NAMESPACE, message, &signed)
        .map_err(|_| SignatureError::Mismatch)?;
    match parts.trailer.first() {
        Some(flags) if flags & TOUCHED == 0 => Err(SignatureError::NotTouched),
        _ => Ok(key),
    }
}

/// Writes a signature in [`NAMESPACE`].
pub(super) fn write(key: &PublicKey, signature: &[u8]) -> Vec<u8> {
    let inner = strings(&[key.kind().as_bytes(), signature]);
    let hash = HASH.as_str().as_bytes();
    let fields = strings(&[key.wire(), NAMESPACE.as_bytes(), b"", hash, &inner]);
    [MAGIC, &VERSION.to_be_bytes(), &fields].concat()
}

/// The bytes that [`write`]'s signature signs.
pub(super) fn signed_data(message: &[u8]) -> Vec<u8> {
    SshSig::signed_data(NAMESPACE, HASH, message).expect("the namespace is not empty")
}

/// The fields of a signature.
struct Parts<'a> {
    key: &'a [u8],
    namespace: &'a [u8],
    hash: HashAlg,
    kind: &'a [u8],
    signature: &'a [u8],
    /// A security key's flags and counter.
    trailer: &'a [u8],
}

impl Parts<'_> {
    fn read(signature: &[u8]) -> Option<Parts<'_>> {
        let mut fields = Fields(signature);
        if fields.take(MAGIC.len())? != MAGIC || fields.number()? != VERSION {
            return None;
        }
        let (key, namespace, reserved) = (fields.string()?, fields.string()?, fields.string()?);
        let hash = HashAlg::new(std::str::from_utf8(fields.string()?).ok()?).ok()?;
        let mut inner = Fields(fields.string()?);
        if !reserved.is_empty() || !fields.0.is_empty() {
            return None;
        }
        let (kind, signature) = (inner.string()?, inner.string()?);
        Some(Parts { key, namespace, hash, kind, signature, trailer: inner.0 })
    }
}

const MAGIC: &[u8] = b"SSHSIG";
const VERSION: u32 = 1;
const HASH: HashAlg = HashAlg::Sha512;

/// The length of a security key's flags and counter.
const TRAILER: usize = 5;

/// The flag of a security key that was touched.
const TOUCHED: u8 = 1;
