//! The key that encrypts or opens the files beside wrapped keys.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use evener::format::Guess;
use evener::keys::{Fingerprint, KeyError, KeyFile, KeyFormat, KeyMaterial, MalformedKey};
use evener::wrapped_key_name;

use super::fresh::FreshKey;
use super::pins::{Doubt, Pins};
use super::place::KeyPlace;
use super::room::{LIMITS, Readable};
use super::wrap::Wrapping;
use super::{Keyholder, check_format};
use crate::ends::directory_of;
use crate::hints;
use crate::trouble::{Trouble, complain, shown};

/// The wrapped form of the key that encrypts: there already, or yet to be written.
pub(super) enum Wrapped {
    /// It is there already.
    Reused {
        key: HeldKey,
        /// The other keys there that open existing files.
        others: Vec<KeyMaterial>,
    },
    /// It is yet to be written.
    Fresh(FreshKey),
}

/// A wrapped key that was there already.
pub(crate) struct HeldKey {
    /// While this file is open, the run that wrote it does not remove it.
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    pub(crate) fingerprint: Fingerprint,
}

/// The key that encrypts.
pub(super) struct Chosen {
    pub(super) material: KeyMaterial,
    /// Its wrapped form, if it has one on disk.
    pub(super) wrapped: Option<Wrapped>,
    /// A message for the user about the choice, if it needs one.
    pub(super) said: Option<String>,
}

impl From<KeyMaterial> for Chosen {
    fn from(material: KeyMaterial) -> Chosen {
        Chosen { material, wrapped: None, said: None }
    }
}

/// Returns the key for additions to a place: one that is there, can be opened and is known to be
/// made by this user for this place and for those that `wrapping` names, or else a fresh key that
/// `wrapping` wraps.
pub(super) fn reuse_or_make(
    place: KeyPlace,
    wrapping: Option<Wrapping>,
    wanted: Option<KeyFormat>,
    keyholder: &Keyholder<'_>,
) -> Result<Chosen, Trouble> {
    let audience = wrapping.as_ref().map(Wrapping::audience);
    let found = match keyholder.opens_something() {
        true => find_own(&place, audience.as_deref(), keyholder)?,
        false => Found::default(),
    };
    if let Some(Own { path, fingerprint, material }) = found.own {
        check_format(&material, wanted, &path)?;
        let said =
            Some(format!("encrypts with the key in {}, which you made before", shown(&path)));
        let file = match place.is_in_store() {
            true => hold_in_store(&path, fingerprint)?,
            false => hold(&path)?,
        };
        let key = HeldKey { file, path, fingerprint };
        let wrapped = Some(Wrapped::Reused { key, others: found.others });
        return Ok(Chosen { material, wrapped, said });
    }
    match (wrapping, found.refusal, found.left_alone) {
        // A wrong identity or passphrase must not lead to a tree under two keys.
        (_, Some(refusal), _) => Err(refusal.into()),
        (None, None, None) => Err(Trouble::Usage(format!(
            "{} has no wrapped key that --identity could open; give --recipient for a fresh one",
            shown(&place.directory)
        ))),
        (None, None, Some((path, why))) => Err(Trouble::Usage(format!(
            "{0} is not used: {why}; give --recipient for a fresh key, or, if you are sure who \
             can open it, --key {0}",
            shown(&path)
        ))),
        (Some(wrapping), None, left_alone) => {
            let material = KeyMaterial::generate(wanted.unwrap_or_default())?;
            let contents = wrapping.wrap(&material, keyholder)?;
            Readable::of(&place).refuse_more(&contents, &place.directory)?;
            let said = left_alone.as_ref().map(|(path, why)| {
                format!("makes a fresh key and leaves {} alone: {why}", shown(path))
            });
            let audience = wrapping.audience();
            let fresh = FreshKey { place, contents, audience, left_alone };
            Ok(Chosen { material, wrapped: Some(Wrapped::Fresh(fresh)), said })
        }
    }
}

/// The result of a search among the wrapped keys of a place.
#[derive(Default)]
struct Found {
    /// A key of this user's.
    own: Option<Own>,
    /// Further keys of this user's that can be opened.
    others: Vec<KeyMaterial>,
    /// The reason why the first key that should have opened did not.
    refusal: Option<KeyError>,
    /// The first key that others may be able to open, and the reason.
    left_alone: Option<(PathBuf, Doubt)>,
}

/// A wrapped key of this user's, open.
struct Own {
    path: PathBuf,
    fingerprint: Fingerprint,
    material: KeyMaterial,
}

/// A wrapped key that is yet to be opened.
struct Closed {
    path: PathBuf,
    file: KeyFile,
    /// The reason why it does not encrypt even if it opens.
    doubt: Option<Doubt>,
}

/// Looks for a key of this user's. Anybody who can write to the place can put their own keys there,
/// wrapped for the same recipients, and could read files encrypted with them. So could the
/// recipients of another key of this user's that is copied there. Nor does the passphrase prove
/// that a key is this user's: this user may have encrypted content of somebody else with it, in
/// age's format. So a key must be one that this user made for this place and this audience, as its
/// pin says.
fn find_own(
    place: &KeyPlace,
    audience: Option<&str>,
    keyholder: &Keyholder<'_>,
) -> Result<Found, Trouble> {
    let pins = Pins::of_user();
    let mut found = Found::default();
    let mut with_passphrase = Vec::new();
    let mut pinned = Vec::new();
    let mut of_others = Vec::new();
    for (path, file) in Readable::of(place).keys {
        let pin = file.as_ref().ok().and_then(|file| pins.find(file.fingerprint()));
        let doubt = match pin {
            None => Some(Doubt::Unknown),
            Some(pin) if !place.is_place_of(&pin) => Some(Doubt::Elsewhere(pin.first_key())),
            Some(pin) if audience.is_some_and(|audience| audience != pin.audience) => {
                Some(Doubt::OtherAudience)
            }
            Some(_) => None,
        };
        match (file, doubt) {
            (Ok(file), None) => pinned.push(Closed { path, file, doubt: None }),
            (Ok(file), doubt) if file.has_passphrase() => {
                with_passphrase.push(Closed { path, file, doubt });
            }
            (file, Some(doubt)) => {
                if let (Ok(file), Doubt::OtherAudience) = (file, &doubt) {
                    of_others.push(file);
                }
                found.left_alone.get_or_insert((path, doubt));
            }
            (Err(_), None) => {}
        }
    }
    // Passphrases come last: trying one takes a second.
    let mut tried = 0;
    let mut seen = HashSet::new();
    let mut derived = 0;
    for Closed { path, file, doubt } in pinned.into_iter().chain(with_passphrase) {
        // A copy opens nothing that the original does not.
        if !seen.insert(file.fingerprint().to_string()) {
            continue;
        }
        if file.has_passphrase() && keyholder.has_passphrase() {
            if tried == MOST_REFUSALS || derived == MOST_PASSPHRASES {
                break;
            }
            derived += 1;
        }
        match file.open(keyholder) {
            Ok(material) if doubt.is_none() && found.own.is_none() => {
                let fingerprint = file.fingerprint();
                found.own = Some(Own { path, fingerprint, material });
            }
            Ok(material) => {
                found.others.push(material);
                if let Some(doubt) = doubt {
                    found.left_alone.get_or_insert((path, doubt));
                }
            }
            Err(error @ KeyError::Passphrase { .. }) => return Err(error.into()),
            // Wrapped in the other way, for recipients or with a passphrase.
            Err(KeyError::IdentityNeeded { .. } | KeyError::PassphraseNeeded { .. }) => {}
            // The passphrase was given for an identity, not for this key.
            Err(KeyError::WrongPassphrase { .. }) if keyholder.opens_identities() => tried += 1,
            Err(error) => {
                tried += usize::from(matches!(error, KeyError::WrongPassphrase { .. }));
                found.refusal.get_or_insert(error);
            }
        }
    }
    if !found.others.is_empty() {
        // The passphrase is right.
        found.refusal = None;
    }
    // Files that they encrypted are here, and may be complete already.
    found.others.extend(of_others.iter().filter_map(|file| file.open(keyholder).ok()));
    Ok(found)
}

/// Holds a wrapped key that another run may still find unused and remove.
fn hold(path: &Path) -> Result<File, Trouble> {
    let failed = |cause| Trouble::File { action: "open", path: path.to_owned(), cause };
    let file = File::open(path).map_err(failed)?;
    // Without locks, no other run removes the key either.
    let _ = file.lock_shared();
    if file.metadata().map_err(failed)?.nlink() == 0 {
        return Err(failed(io::ErrorKind::NotFound.into()));
    }
    Ok(file)
}

/// Holds a wrapped key in an object store by its pin.
fn hold_in_store(path: &Path, fingerprint: Fingerprint) -> Result<File, Trouble> {
    let failed = |cause| Trouble::File { action: "hold", path: path.to_owned(), cause };
    Pins::of_user().hold(fingerprint).map_err(failed)
}

/// Finds the keys that open the objects of a store. Tries the places in order.
pub(super) fn find_in_store(
    places: Vec<KeyPlace>,
    wanted: Option<KeyFormat>,
    keyholder: &Keyholder<'_>,
) -> Result<Vec<KeyMaterial>, Trouble> {
    let key = wrapped_key_name(None, 1);
    let none = |place: &KeyPlace| {
        Trouble::Usage(format!(
            "no wrapped key ({}) in {}; name the key with --key, or give --format age for age files",
            shown(Path::new(&key)),
            shown(&place.directory)
        ))
    };
    let last = places.last().map(none);
    let refusal = match open_first(places, wanted, keyholder)? {
        Ok(fitting) => return Ok(fitting),
        Err(refusal) => refusal.map(Trouble::Key),
    };
    Err(refusal.or(last).unwrap_or_else(|| Trouble::usage("no place for wrapped keys")))
}

/// The keys of the first place that has fitting ones; if there is none, the reason why a key that
/// should have opened did not.
fn open_first(
    places: impl IntoIterator<Item = KeyPlace>,
    wanted: Option<KeyFormat>,
    keyholder: &Keyholder<'_>,
) -> Result<Result<Vec<KeyMaterial>, Option<KeyError>>, Trouble> {
    let mut refusal = None;
    for place in places {
        if !place.is_in_store() {
            keyholder.note_found(&place.existing());
        }
        let opened = open_all(&place, keyholder)?;
        let materials = opened.keys.into_iter().map(|key| key.material);
        let is_fitting =
            |material: &KeyMaterial| wanted.is_none_or(|wanted| wanted == material.format());
        let fitting: Vec<_> = materials.filter(is_fitting).collect();
        if !fitting.is_empty() {
            return Ok(Ok(fitting));
        }
        refusal = refusal.or(opened.refusal).or(opened.passed_over);
    }
    Ok(Err(refusal))
}

/// Finds the keys that open a file or a tree: those beside the file, or else those of the tree
/// itself or of the file's directory. Keys further up are ignored: somebody other than SRC's author
/// may be able to write there.
pub(super) fn find(
    source: &Path,
    wanted: Option<KeyFormat>,
    keyholder: &Keyholder<'_>,
) -> Result<Vec<KeyMaterial>, Trouble> {
    let failed = |cause| Trouble::File { action: "open", path: source.to_owned(), cause };
    let metadata = fs::metadata(source).map_err(failed)?;
    let (beside, tree) = match metadata.is_dir() {
        true => (None, source),
        false => (Some(KeyPlace::beside(source)), directory_of(source)),
    };
    let places = beside.into_iter().chain([KeyPlace::in_tree(tree)]);
    let refusal = match open_first(places, wanted, keyholder)? {
        Ok(fitting) => return Ok(fitting),
        Err(refusal) => refusal,
    };
    if let Some(error @ KeyError::Malformed { reason: MalformedKey::NoKeyInAge, .. }) = &refusal {
        return Err(Trouble::Usage(format!("{error}; if all are files of age, give --format age")));
    }
    Err(refusal.map_or_else(
        || {
            let key = wrapped_key_name(None, 1);
            let key = shown(Path::new(&key));
            let beside = match metadata.is_dir() {
                true => String::new(),
                false => {
                    let source = shown(source);
                    format!("{source} is no age file, {source}.{key} is not there, and there is ")
                }
            };
            let of_age = first_of_age(source).map_or_else(String::new, |path| {
                format!("; {} is an age file: --format age opens it", shown(&path))
            });
            Trouble::Usage(format!(
                "{beside}no wrapped key ({key}) in {}; name the key with --key, where it lies \
                 elsewhere or SRC was moved or is a part of a tree{of_age}",
                shown(tree)
            ))
        },
        Trouble::Key,
    ))
}

/// Finds a file in the directory itself that age encrypted, and not Evener.
fn first_of_age(directory: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(directory).ok()?.flatten().take(MOST_LOOKED_AT);
    entries.map(|entry| entry.path()).find(|path| hints::guess(path) == Some(Guess::Age))
}

/// The result of opening wrapped keys.
#[derive(Default)]
pub(super) struct Opened {
    pub(super) keys: Vec<OpenKey>,
    /// The number of keys that nothing given opens.
    pub(super) closed: u64,
    /// The error of the first key that should have opened and did not.
    pub(super) refusal: Option<KeyError>,
    /// The error of the first key that is wrapped in the other way, for recipients or with a
    /// passphrase.
    pub(super) passed_over: Option<KeyError>,
}

/// A wrapped key, open.
#[derive(Clone)]
pub(crate) struct OpenKey {
    /// Its file, and copies of that.
    pub(super) paths: Vec<PathBuf>,
    pub(super) fingerprint: Fingerprint,
    pub(super) material: KeyMaterial,
}

pub(super) fn open_all(place: &KeyPlace, keyholder: &Keyholder<'_>) -> Result<Opened, Trouble> {
    let mut opened = Opened::default();
    let mut seen = HashSet::new();
    let (mut tried, mut refused) = (0, 0);
    let readable = Readable::of(place);
    if readable.left_out > 0 {
        complain(&format_args!(
            "the {} longest wrapped keys were not tried: {LIMITS} (name one with --key)",
            readable.left_out
        ));
    }
    for (path, file) in readable.keys {
        let file = match file {
            Ok(file) => file,
            Err(error) => {
                opened.closed += 1;
                opened.refusal.get_or_insert(error);
                continue;
            }
        };
        // A copy opens nothing that the original does not.
        let fingerprint = file.fingerprint();
        if !seen.insert(fingerprint.to_string()) {
            let original = opened.keys.iter_mut().find(|key| key.fingerprint == fingerprint);
            original.into_iter().for_each(|key| key.paths.push(path.clone()));
            continue;
        }
        if file.has_passphrase() && keyholder.has_passphrase() {
            if tried == MOST_PASSPHRASES || refused == MOST_REFUSALS {
                let none = if refused == tried { "opens none of" } else { "was tried on" };
                complain(&format_args!(
                    "the passphrase {none} {tried} keys; {} and any others were not tried (name \
                     one with --key)",
                    shown(&path)
                ));
                break;
            }
            tried += 1;
        }
        match file.open(keyholder) {
            Ok(material) => opened.keys.push(OpenKey { paths: vec![path], fingerprint, material }),
            Err(error @ KeyError::Passphrase { .. }) => return Err(error.into()),
            Err(error @ (KeyError::IdentityNeeded { .. } | KeyError::PassphraseNeeded { .. })) => {
                opened.closed += 1;
                opened.passed_over.get_or_insert(error);
            }
            Err(error) => {
                refused += usize::from(matches!(error, KeyError::WrongPassphrase { .. }));
                opened.closed += 1;
                opened.refusal.get_or_insert(error);
            }
        }
    }
    Ok(opened)
}

/// The most keys that are tried although a passphrase does not open them. Each takes a second or
/// more, and anybody who can write beside the files can put more there.
const MOST_REFUSALS: usize = 3;

/// The most keys that are tried with a passphrase at all, whether it opens them or not.
const MOST_PASSPHRASES: usize = 4;

/// The most files that are examined to identify them.
const MOST_LOOKED_AT: usize = 100;
