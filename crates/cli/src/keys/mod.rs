//! Turns options into keys.

mod age;
mod anew;
mod command;
mod dialogue;
mod fresh;
mod keyholder;
mod openssl;
mod pins;
mod place;
mod room;
mod tree;
mod wrap;
mod wrapped;

use std::ffi::OsStr;
use std::path::Path;

use evener::KeyRing;
use evener::keys::{self, KeyFile, KeyFormat, KeyMaterial, PipeHead, Unlock};

use crate::ends::{Head, Place};
use crate::options::{Format, Identities, OpeningKeys, OpensslOptions, SealingKeys};
use crate::stores::Stores;
use crate::trouble::{Trouble, shown};

pub(crate) use age::{AgeRewrapping, are_of_age, is_of_age, recognise};
pub(crate) use anew::{LastSteps, OldKeys, fresh as fresh_for_rekey, new_head, rewrap};
pub(crate) use dialogue::AtTerminal;
pub(crate) use fresh::{FreshKey, WrittenKey};
pub(crate) use keyholder::Keyholder;
pub(crate) use openssl::Intent;
pub(crate) use place::KeyPlace;
pub(crate) use tree::{
    TreeKeys, load_tree_key, of_job, opening_tree, recipient_texts, recipients_wrap, sealing_tree,
};
pub(crate) use wrap::{Wrapping, wrapping};
use wrapped::{Chosen, HeldKey, Wrapped};

/// The keys for encryption, with the wrapped key and message that go with them.
pub(crate) struct Sealing {
    pub(crate) ring: KeyRing,
    /// A key that has to be on disk before the first output.
    pub(crate) fresh: Option<FreshKey>,
    /// The wrapped key, with which a pipe begins.
    pub(crate) head: Vec<u8>,
    /// The wrapped key that was there already, to be held open while it is used.
    pub(crate) reused: Option<HeldKey>,
    /// A message for the user about the choice of the key.
    pub(crate) said: Option<String>,
    /// True if there are wrapped keys of earlier runs, and nothing was given that opens them.
    pub(crate) has_closed_keys: bool,
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
            (options.origins.key_command.is_some(), "--key-command"),
            (!options.recipients.is_empty(), "--recipient"),
            (!options.identities.identity_files.is_empty(), "--identity"),
            (context.is_some(), "--context"),
        ];
        refuse_with_openssl(&others)?;
        let recipe = openssl::recipe(&options.openssl, Intent::Encrypt, keyholder)?;
        return Ok(Sealing::with(KeyRing::new(recipe)));
    }
    if options.format == Some(Format::Age) {
        return Ok(Sealing::with(age::sealing(options, keyholder)?));
    }
    refuse_without_openssl(&options.openssl)?;
    let wanted = options.format.and_then(Format::of_keys);
    let wrapping = wrapping(&options.recipients, keyholder)?;
    let key = named(options.key.as_deref(), options.origins.key_command.as_deref())?;
    let mut head = Vec::new();
    let chosen = match (key, wrapping) {
        (Some(_), Some(Wrapping::Recipients(_))) => {
            return Err(Trouble::usage(
                "--key and --recipient exclude each other, since the key in a file is there already; \
                 give one of them",
            ));
        }
        (Some(key), _) => {
            let material = key.load(wanted, keyholder)?;
            keyholder.refuse_idle_passphrase()?;
            Chosen::from(material)
        }
        (None, None) if options.identities.identity_files.is_empty() => {
            return Err(Trouble::usage(
                "no key: give --key, --recipient or --passphrase (`evener keygen` makes a key)",
            ));
        }
        (None, wrapping) => match (place, wrapping) {
            (Some(place), wrapping) => wrapped::reuse_or_make(place, wrapping, wanted, keyholder)?,
            (None, Some(wrapping)) => {
                let material = KeyMaterial::generate(wanted.unwrap_or_default())?;
                head = PipeHead::of(&wrapping.wrap(&material, keyholder)?);
                Chosen::from(material)
            }
            (None, None) => return Err(Trouble::usage(NO_PLACE)),
        },
    };
    let keys = ring(&chosen.material, context)?;
    let mut sealing = Sealing { said: chosen.said, head, ..Sealing::with(keys) };
    match chosen.wrapped {
        None => {}
        Some(Wrapped::Fresh(key)) => sealing.fresh = Some(key),
        Some(Wrapped::Reused { key, others }) => {
            sealing.reused = Some(key);
            for other in others {
                sealing.ring = sealing.ring.joined_by(ring(&other, context)?);
            }
        }
    }
    Ok(sealing)
}

impl Sealing {
    /// Keys alone.
    fn with(ring: KeyRing) -> Sealing {
        let (fresh, head, reused, said) = (None, Vec::new(), None, None);
        Sealing { ring, fresh, head, reused, said, has_closed_keys: false }
    }

    /// Joins to a fresh key those of earlier runs that can be opened: complete outputs are theirs.
    pub(crate) fn with_earlier_keys(
        mut self,
        context: Option<&str>,
        keyholder: &Keyholder<'_>,
    ) -> Result<Sealing, Trouble> {
        let Some(fresh) = &self.fresh else { return Ok(self) };
        if !keyholder.opens_something() {
            self.has_closed_keys = fresh.has_earlier_keys();
            return Ok(self);
        }
        for earlier in fresh.earlier_keys(keyholder)? {
            self.ring = self.ring.joined_by(ring(&earlier, context)?);
        }
        Ok(self)
    }
}

/// A key that the user names.
enum Named<'o> {
    File(&'o Path),
    Command(&'o OsStr),
}

/// Reads the key in a file that the user names.
pub(crate) fn load_key(path: &Path, keyholder: &Keyholder<'_>) -> Result<KeyMaterial, Trouble> {
    Named::File(path).load(None, keyholder)
}

/// The key that one of two options names.
fn named<'o>(
    file: Option<&'o Path>,
    command: Option<&'o OsStr>,
) -> Result<Option<Named<'o>>, Trouble> {
    match (file, command) {
        (Some(_), Some(_)) => {
            Err(Trouble::usage("--key and --key-command exclude each other; give one of them"))
        }
        (Some(path), None) => Ok(Some(Named::File(path))),
        (None, command) => Ok(command.map(Named::Command)),
    }
}

impl Named<'_> {
    fn load(
        &self,
        wanted: Option<KeyFormat>,
        keyholder: &Keyholder<'_>,
    ) -> Result<KeyMaterial, Trouble> {
        let (file, name) = match *self {
            Named::File(path) => {
                // An error message would reveal the key.
                if path.as_os_str().as_encoded_bytes().starts_with(b"evener-key:") {
                    return Err(Trouble::usage(
                        "--key takes the path of a key file, not the key itself, which others can \
                         see in the arguments of a program; write it to a file, and replace it",
                    ));
                }
                (KeyFile::read_given(path)?, path)
            }
            Named::Command(command) => {
                (command::run(command, keyholder.signals)?, Path::new(command::NAME))
            }
        };
        let material = file.open(keyholder)?;
        check_format(&material, wanted, name)?;
        Ok(material)
    }
}

/// Finds the keys that decrypt `source`, which began with `head`.
pub(crate) fn opening(
    options: &OpeningKeys,
    source: &Place,
    head: Option<&Head>,
    intent: Intent,
    (stores, keyholder): (&Stores, &Keyholder<'_>),
) -> Result<KeyRing, Trouble> {
    let context = options.context.as_deref();
    if options.format == Some(Format::Openssl) {
        let others = [
            (!options.keys.is_empty(), "--key"),
            (options.origins.key_command.is_some(), "--key-command"),
            (!options.identities.identity_files.is_empty(), "--identity"),
            (context.is_some(), "--context"),
        ];
        refuse_with_openssl(&others)?;
        return Ok(KeyRing::new(openssl::recipe(&options.openssl, intent, keyholder)?));
    }
    let is_age = match (source, head) {
        (_, Some(head)) => matches!(head, Head::Age(_)),
        (Place::Path(path), None) => is_of_age(options, path),
        (Place::Pipe | Place::Objects(_), None) => options.format == Some(Format::Age),
    };
    if is_age {
        return age::opening(options, source, keyholder);
    }
    refuse_without_openssl(&options.openssl)?;
    let wanted = options.format.and_then(Format::of_keys);
    let materials = if options.name_a_key() {
        let files = options.keys.iter().map(|path| Named::File(path));
        let command = options.origins.key_command.as_deref().map(Named::Command);
        let loaded = files.chain(command).map(|key| key.load(wanted, keyholder));
        let loaded: Vec<_> = loaded.collect::<Result<_, _>>()?;
        keyholder.refuse_idle_passphrase()?;
        Ok(loaded)
    } else if let (Some(Head::Key(head)), true) = (head, keyholder.opens_something()) {
        let material = head.open(keyholder)?;
        check_format(&material, wanted, Path::new("the source"))?;
        Ok(vec![material])
    } else if !options.identities.identity_files.is_empty() || keyholder.has_passphrase() {
        match source {
            Place::Pipe => Err(Trouble::usage(NO_PLACE)),
            Place::Objects(address) => {
                let places = KeyPlace::of_objects(stores, address)?;
                wrapped::find_in_store(places, wanted, keyholder)
            }
            Place::Path(path) => wrapped::find(path, wanted, keyholder),
        }
    } else {
        Err(Trouble::usage("no key: give --key, --key-command, --identity or --passphrase"))
    };
    let mut rings = materials?.into_iter().map(|material| ring(&material, context));
    let first = rings.next().unwrap_or_else(|| Err(Trouble::usage("no key")))?;
    rings.try_fold(first, |joined, ring| Ok(joined.joined_by(ring?)))
}

/// Reads the identities that open wrapped keys; a file of them may itself be encrypted with a
/// passphrase.
pub(crate) fn identities(
    options: &Identities,
    unlock: &dyn Unlock,
) -> Result<Vec<keys::age::Identity>, Trouble> {
    let mut identities = Vec::new();
    for path in &options.identity_files {
        identities.extend(keys::age::Identity::read_file(path, unlock)?);
    }
    Ok(identities)
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

/// The key ring of a key.
pub(crate) fn ring(material: &KeyMaterial, context: Option<&str>) -> Result<KeyRing, Trouble> {
    Ok(material.key_ring(context.unwrap_or_default().as_bytes())?)
}

fn refuse_with_openssl(others: &[(bool, &str)]) -> Result<(), Trouble> {
    match others.iter().find(|(given, _)| *given) {
        Some((_, name)) => Err(Trouble::Usage(format!(
            "{name} does not go with --format openssl; give a passphrase, or --key-hex-file and \
             --iv-hex-file"
        ))),
        None => Ok(()),
    }
}

fn refuse_without_openssl(options: &OpensslOptions) -> Result<(), Trouble> {
    match options.any() {
        Some("--base64") => Err(Trouble::usage(
            "--base64 goes only with --format openssl or age; give one of them, or leave it out",
        )),
        Some(name) => Err(Trouble::Usage(format!(
            "{name} goes only with --format openssl; give that too, or leave {name} out"
        ))),
        None => Ok(()),
    }
}

const NO_PLACE: &str = "--identity opens the wrapped key of files, and a pipe has none yet: give \
     --recipient, which writes a fresh one to its head, or --key KEYFILE";
