//! Public keys for which every secret is the same (RFC 7748, section 6.1): what is encrypted for one
//! of them, anybody can open.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use curve25519_dalek::edwards::CompressedEdwardsY;
use curve25519_dalek::montgomery::MontgomeryPoint;
use curve25519_dalek::traits::IsIdentity;

/// Whether a point is one of low order of the curve or of its twist.
pub(super) fn is_low_order(point: MontgomeryPoint) -> bool {
    // Every clamped number is a multiple of the cofactor, and of no larger order.
    point.mul_clamped([0; 32]).is_identity()
}

/// The point of a recipient `age1…` of X25519.
pub(super) fn point_of_age(text: &str) -> Option<MontgomeryPoint> {
    let (_, point) = bech32::decode(text).ok()?;
    point.try_into().ok().map(MontgomeryPoint)
}

/// The point of a key `ssh-ed25519 …`, as X25519 has it.
pub(super) fn point_of_ssh(text: &str) -> Option<MontgomeryPoint> {
    let blob = BASE64_STANDARD.decode(text.split(' ').nth(1)?).ok()?;
    let (_, point) = blob.split_last_chunk()?;
    CompressedEdwardsY(*point).decompress().map(|point| point.to_montgomery())
}
