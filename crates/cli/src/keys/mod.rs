//! From options to keys.

mod keyholder;
mod openssl;
mod pins;
mod wrap;
mod wrapped;

use std::fs::File;
use std::path::Path;

use evener::KeyRing;
use evener::keys::{self, KeyFormat, KeyMaterial};

use crate::options::{Format, Identities, OpeningKeys, OpensslOptions, SealingKeys};
use crate::plan::Place;
use crate::trouble::{Trouble, shown};

pub(crate) use keyholder::Keyholder;
pub(crate) use openssl::Intent;
pub(crate) use wrap::{Wrapping, wrapping};
use wrapped::Wrapped;
pub(crate) use wrapped::{FreshKey, KeyPlace, WrittenKey};

/// What encrypts.
pub(crate) struct Sealing {
    pub(crate) ring: KeyRing,
    /// A key that has to be on disk before the first output.
    pub(crate) fresh: Option<FreshKey>,
    /// The wrapped key that lay there already, to be held open while it is used.
    pub(crate) reused: Option<File>,
    /// What the user should know of the choice of the key.
    pub(crate) said: Option<String>,
}

/// Finds or makes the key that encrypts. `place` is where a fresh key would be kept: beside the
/// output, unless that is a pipe.
pub(crate) fn sealing(
    options: &SealingKeys,
    place: Option<KeyPlace>,
    keyholder: &Keyholder<'_>,
) -> Result<Sealing, Trouble> {
    let context = options.context.as_deref();
    if options.format == Some(Format::Openssl) {
        let others = [
            (options.key.is_some(), "--key"),
            (!options.recipients.is_empty(), "--recipient"),
            (!options.identities.identity_files.is_empty(), "--identity"),
            (context.is_some(), "--context"),
        ];
        refuse_with_openssl(&others)?;
        let recipe = openssl::recipe(&options.openssl, Intent::Encrypt, keyholder)?;
        return Ok(Sealing { ring: KeyRing::new(recipe), fresh: None, reused: None, said: None });
    }
    refuse_without_openssl(&options.openssl)?;
    let wanted = options.format.and_then(Format::of_keys);
    let wrapping = wrapping(&options.recipients, keyholder)?;
    let (material, wrapped, said) = match (&options.key, wrapping) {
        (Some(_), Some(Wrapping::Recipients(_))) => {
            return Err(Trouble::usage(
                "either --key or --recipient: a key file is wrapped already",
            ));
        }
        (Some(path), _) => (load(path, wanted, keyholder)?, None, None),
        (None, None) if options.identities.identity_files.is_empty() => {
            return Err(Trouble::usage(
                "no key: give --key, --recipient or --passphrase (`evener keygen` makes a key)",
            ));
        }
        (None, wrapping) => {
            let place = place.ok_or_else(|| Trouble::usage(NO_PLACE))?;
            let (material, wrapped, said) =
                wrapped::reuse_or_make(place, wrapping, wanted, keyholder)?;
            (material, Some(wrapped), said)
        }
    };
    let ring_of = ring(&material, context)?;
    let mut sealing = Sealing { ring: ring_of, fresh: None, reused: None, said };
    match wrapped {
        None => {}
        Some(Wrapped::Fresh(key)) => sealing.fresh = Some(key),
        Some(Wrapped::Reused(file, others)) => {
            sealing.reused = Some(file);
            for other in others {
                sealing.ring = sealing.ring.joined_by(ring(&other, context)?);
            }
        }
    }
    Ok(sealing)
}

/// Finds the keys that decrypt `source`.
pub(crate) fn opening(
    options: &OpeningKeys,
    source: &Place,
    intent: Intent,
    keyholder: &Keyholder<'_>,
) -> Result<KeyRing, Trouble> {
    let context = options.context.as_deref();
    if options.format == Some(Format::Openssl) {
        let others = [
            (!options.keys.is_empty(), "--key"),
            (!options.identities.identity_files.is_empty(), "--identity"),
            (context.is_some(), "--context"),
        ];
        refuse_with_openssl(&others)?;
        return Ok(KeyRing::new(openssl::recipe(&options.openssl, intent, keyholder)?));
    }
    refuse_without_openssl(&options.openssl)?;
    let wanted = options.format.and_then(Format::of_keys);
    let materials = if !options.keys.is_empty() {
        options.keys.iter().map(|path| load(path, wanted, keyholder)).collect()
    } else if !options.identities.identity_files.is_empty() || keyholder.has_passphrase() {
        match source {
            Place::Pipe => Err(Trouble::usage(NO_PLACE)),
            Place::Path(path) => wrapped::find(path, wanted, keyholder),
        }
    } else {
        Err(Trouble::usage("no key: give --key, --identity or --passphrase"))
    };
    let mut rings = materials?.into_iter().map(|material| ring(&material, context));
    let first = rings.next().unwrap_or_else(|| Err(Trouble::usage("no key")))?;
    rings.try_fold(first, |joined, ring| Ok(joined.joined_by(ring?)))
}

/// Reads the identities that open wrapped keys; a file of them may itself be encrypted with a
/// passphrase.
pub(crate) fn identities(
    options: &Identities,
    asker: &Keyholder<'_>,
) -> Result<Vec<keys::age::Identity>, Trouble> {
    let mut identities = Vec::new();
    for path in &options.identity_files {
        identities.extend(keys::age::Identity::read_file(path, asker)?);
    }
    Ok(identities)
}

fn load(
    path: &Path,
    wanted: Option<KeyFormat>,
    keyholder: &Keyholder<'_>,
) -> Result<KeyMaterial, Trouble> {
    let material = keys::load(path, keyholder)?;
    check_format(&material, wanted, path)?;
    Ok(material)
}

fn check_format(
    material: &KeyMaterial,
    wanted: Option<KeyFormat>,
    path: &Path,
) -> Result<(), Trouble> {
    match wanted {
        Some(wanted) if wanted != material.format() => Err(Trouble::Usage(format!(
            "the key in {} is for {}, but --format says {wanted}",
            shown(path),
            material.format()
        ))),
        _ => Ok(()),
    }
}

fn ring(material: &KeyMaterial, context: Option<&str>) -> Result<KeyRing, Trouble> {
    Ok(material.key_ring(context.unwrap_or_default().as_bytes())?)
}

fn refuse_with_openssl(others: &[(bool, &str)]) -> Result<(), Trouble> {
    match others.iter().find(|(given, _)| *given) {
        Some((_, name)) => Err(Trouble::Usage(format!("{name} does not go with --format openssl"))),
        None => Ok(()),
    }
}

fn refuse_without_openssl(options: &OpensslOptions) -> Result<(), Trouble> {
    match options.any() {
        Some(name) => Err(Trouble::Usage(format!("{name} goes only with --format openssl"))),
        None => Ok(()),
    }
}

const NO_PLACE: &str = "a pipe has no place for a wrapped key: make a key with \
     `evener keygen -r RECIPIENT -o KEYFILE`, and give --key KEYFILE (and --identity to open it)";
