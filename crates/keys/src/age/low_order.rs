//! Public keys for which every secret is the same (RFC 7748, section 6.1): anybody can open data
//! encrypted for one of them.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use curve25519_dalek::edwards::CompressedEdwardsY;
use curve25519_dalek::montgomery::MontgomeryPoint;
use curve25519_dalek::traits::IsIdentity;

/// Returns whether a point of the curve or of its twist has low order.
pub(super) fn is_low_order(point: MontgomeryPoint) -> bool {
    // Every clamped number is a multiple of the cofactor, but not of any larger order.
    point.mul_clamped([0; 32]).is_identity()
}

/// The point of a recipient `age1…` of X25519.
pub(super) fn point_of_age(text: &str) -> Option<MontgomeryPoint> {
    let (_, point) = bech32::decode(text).ok()?;
    point.try_into().ok().map(MontgomeryPoint)
}

/// The point of a key `ssh-ed25519 …`, in X25519's form.
pub(super) fn point_of_ssh(text: &str) -> Option<MontgomeryPoint> {
    let blob = BASE64_STANDARD.decode(text.split(' ').nth(1)?).ok()?;
    let (_, point) = blob.split_last_chunk()?;
    CompressedEdwardsY(*point).decompress().map(|point| point.to_montgomery())
}
