//! Wraps the keys of a place for other recipients, and finds those of a place that gets a new key.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use evener::keys::{Fingerprint, KeyFile, KeyMaterial, PipeHead};
use evener::sealed_trees::Rewrapped;
use evener::wrapped_key_name;

use super::fresh::{FreshKey, NO_PIN};
use super::pins::{Pin, Pins};
use super::place::KeyPlace;
use super::room::Readable;
use super::wrap::Wrapping;
use super::wrapped::{OpenKey, Opened, open_all};
use super::{Keyholder, load_key, named};
use crate::options::OpeningKeys;
use crate::trouble::{Trouble, shown};

/// Wraps the keys of a place that something given opens, and removes the old wrappings when all new
/// ones are on disk and were opened once. `notice` hears what the user should know.
pub(crate) fn rewrap(
    place: &KeyPlace,
    wrapping: &Wrapping,
    trusts_unopened: bool,
    keyholder: &Keyholder<'_>,
    notice: impl Fn(&str),
) -> Result<Rewrapped, Trouble> {
    let opened = open_all(place, keyholder)?;
    if opened.keys.is_empty() {
        return Err(nothing_opens(place, opened, NO_RECIPIENTS));
    }
    let pins = Pins::of_user();
    let (mut rewrapped, mut old) = (Rewrapped::default(), Vec::new());
    for key in distinct(&opened.keys) {
        let contents = wrapping.wrap(&key[0].material, keyholder)?;
        Readable::of(place).refuse_more(&contents, &place.directory)?;
        let fingerprint = Fingerprint::of(&contents);
        if key.iter().any(|key| is_pinned(key, place, &pins)) {
            let pinned = place.canonical().and_then(|place| {
                pins.add(fingerprint, &Pin { audience: wrapping.audience(), place })
            });
            pinned.err().into_iter().for_each(|_| notice(NO_PIN));
        }
        let created = place.create(&contents).inspect_err(|_| pins.remove(fingerprint))?;
        created.notice.into_iter().for_each(&notice);
        let read = place.read(&created.path)?;
        rewrapped.keys += 1;
        match opens_to(&read, &key[0].material, keyholder)
            || trusts_unopened && read.fingerprint() == fingerprint
        {
            true => old.extend(key),
            false => {
                rewrapped.unchecked += key.iter().map(|key| key.paths.len() as u64).sum::<u64>();
            }
        }
    }
    for key in old {
        rewrapped.removed += remove(place, key, &pins)?;
    }
    if opened.closed > 0 {
        notice(&format!("nothing given opens {} other wrapped keys, which stay", opened.closed));
    }
    Ok(rewrapped)
}

/// The new head of a file that was a pipe, whose wrapped key is opened once.
pub(crate) fn new_head(
    key: &KeyFile,
    wrapping: &Wrapping,
    trusts_unopened: bool,
    keyholder: &Keyholder<'_>,
) -> Result<Vec<u8>, Trouble> {
    let material = key.open(keyholder)?;
    let contents = wrapping.wrap(&material, keyholder)?;
    check_new(&contents, &material, trusts_unopened, keyholder)?;
    Ok(PipeHead::of(&contents))
}

/// Refuses a new wrapping that nothing given opens to its key.
fn check_new(
    contents: &[u8],
    material: &KeyMaterial,
    trusts_unopened: bool,
    keyholder: &Keyholder<'_>,
) -> Result<(), Trouble> {
    let file = KeyFile::read_from(&mut &*contents, "the new wrapped key")?;
    match trusts_unopened || opens_to(&file, material, keyholder) {
        true => Ok(()),
        false => Err(Trouble::usage(UNCHECKED)),
    }
}

pub(super) const UNCHECKED: &str = "nothing given opens the new wrapped key to check it: give an \
     --identity of one of the new recipients too, or --trust-unopened";

fn opens_to(file: &KeyFile, material: &KeyMaterial, keyholder: &Keyholder<'_>) -> bool {
    file.open(keyholder).is_ok_and(|opened| is_same(&opened, material))
}

fn is_same(one: &KeyMaterial, other: &KeyMaterial) -> bool {
    one.to_text() == other.to_text()
}

/// The wrappings of each key.
fn distinct(keys: &[OpenKey]) -> Vec<Vec<&OpenKey>> {
    let mut distinct: Vec<Vec<&OpenKey>> = Vec::new();
    for key in keys {
        let same = distinct.iter_mut().find(|same| is_same(&same[0].material, &key.material));
        match same {
            Some(same) => same.push(key),
            None => distinct.push(vec![key]),
        }
    }
    distinct
}

/// Returns whether this user has made a wrapped key for this place.
fn is_pinned(key: &OpenKey, place: &KeyPlace, pins: &Pins) -> bool {
    pins.find(key.fingerprint).is_some_and(|pin| place.is_place_of(&pin))
}

/// Removes the files of a wrapped key, as far as they still have its bytes. Returns their number.
fn remove(place: &KeyPlace, key: &OpenKey, pins: &Pins) -> Result<u64, Trouble> {
    let mut removed = 0;
    for path in &key.paths {
        let is_same = place.read(path).is_ok_and(|file| file.fingerprint() == key.fingerprint);
        if is_same {
            let failed = |cause| Trouble::File { action: "remove", path: path.clone(), cause };
            place.remove(path).map_err(failed)?;
            removed += 1;
        }
    }
    pins.remove(key.fingerprint);
    Ok(removed)
}

/// The error when no key opens. `none` explains what a tree without a wrapped key means.
fn nothing_opens(place: &KeyPlace, opened: Opened, none: &str) -> Trouble {
    match opened.refusal.or(opened.passed_over) {
        Some(error) => Trouble::Key(error),
        None => Trouble::Usage(match &place.file {
            None => format!(
                "{} has no wrapped key ({}){none}",
                shown(&place.directory),
                shown(Path::new(&wrapped_key_name(None, 1)))
            ),
            Some(file) => format!(
                "{} has no wrapped key at its head or beside it; if it belongs to a tree, name that, and \
                 if it is not encrypted yet, `evener encrypt` does that",
                shown(&place.directory.join(file))
            ),
        }),
    }
}

const NO_RECIPIENTS: &str = ", so there are no recipients to change; `evener rekey` seals its files under \
                             another key";
const NO_KEY: &str = ": name with --key the key that its files have; if they are not encrypted yet, \
                      `evener encrypt` does that";

/// The keys that a tree or a file has so far.
#[derive(Default)]
pub(crate) struct OldKeys {
    pub(crate) materials: Vec<KeyMaterial>,
    /// The wrapped keys among them that lie in the place, and open nothing afterwards.
    pub(crate) wrapped: Vec<OpenKey>,
    /// An interrupted run's key for the new recipients, and its file.
    pub(crate) begun: Option<(KeyMaterial, PathBuf, Fingerprint)>,
    /// A message for the user about keys that are not used.
    pub(crate) said: Option<String>,
}

impl OldKeys {
    /// Those that the options name, and what an interrupted run for these recipients has left.
    pub(crate) fn named(
        options: &OpeningKeys,
        place: &KeyPlace,
        new: Option<&Wrapping>,
        keyholder: &Keyholder<'_>,
    ) -> Result<OldKeys, Trouble> {
        let mut keys = OldKeys::begun(place, new, keyholder)?;
        let is_here = |path: &Path| {
            let identity = |path: &Path| fs::metadata(path).map(|it| (it.dev(), it.ino())).ok();
            let named = identity(path);
            place.existing().iter().any(|there| named.is_some() && identity(there) == named)
        };
        for path in &options.keys {
            let material = load_key(path, keyholder)?;
            if is_here(path) {
                let fingerprint = KeyFile::read(path)?.fingerprint();
                let (paths, material) = (vec![path.clone()], material.clone());
                keys.wrapped.push(OpenKey { paths, fingerprint, material });
            }
            keys.materials.push(material);
        }
        if let Some(key) = named(None, options.origins.key_command.as_deref())? {
            keys.materials.push(key.load(None, keyholder)?);
        }
        Ok(keys)
    }

    /// The key at the head of a pipe.
    pub(crate) fn of_head(key: &KeyFile, keyholder: &Keyholder<'_>) -> Result<OldKeys, Trouble> {
        let materials = vec![key.open(keyholder)?];
        Ok(OldKeys { materials, ..OldKeys::default() })
    }

    /// The wrapped keys of the place. Anybody who can write there can put further keys there, and
    /// files under them, which nobody could tell from this user's afterwards. So only keys that this
    /// user has made for the place count, or the only key.
    pub(crate) fn found(
        place: &KeyPlace,
        new: Option<&Wrapping>,
        keyholder: &Keyholder<'_>,
    ) -> Result<OldKeys, Trouble> {
        let mut keys = OldKeys::begun(place, new, keyholder)?;
        let opened = open_all(place, keyholder)?;
        let begun = keys.begun.as_ref().map(|(material, ..)| material);
        let is_begun = |key: &OpenKey| begun.is_some_and(|begun| is_same(begun, &key.material));
        let there: Vec<_> = opened.keys.iter().filter(|key| !is_begun(key)).cloned().collect();
        if there.is_empty() {
            // A run that was killed at its very end.
            return match keys.begun {
                Some(_) => Ok(keys),
                None => Err(nothing_opens(place, opened, NO_KEY)),
            };
        }
        let pins = Pins::of_user();
        let (own, others): (Vec<_>, Vec<_>) =
            there.into_iter().partition(|key| is_pinned(key, place, &pins));
        keys.wrapped = match (own.len(), distinct(&others).len()) {
            (0, 1) => others,
            (0, _) => {
                return Err(Trouble::Usage(format!(
                    "{} has several wrapped keys, and nothing shows that you made them on this \
                     machine; name with --key those whose files are yours",
                    shown(&place.directory)
                )));
            }
            (_, 0) => own,
            (_, number) => {
                let first = others.first().and_then(|key| key.paths.first());
                keys.said = first.map(|first| {
                    format!(
                        "{number} wrapped keys are not used, because nothing shows that you made \
                         them for this place: name them with --key if their files are yours, such \
                         as {}",
                        shown(first)
                    )
                });
                own
            }
        };
        keys.materials = keys.wrapped.iter().map(|key| key.material.clone()).collect();
        Ok(keys)
    }

    /// Looks for what an interrupted run for these recipients has left.
    fn begun(
        place: &KeyPlace,
        new: Option<&Wrapping>,
        keyholder: &Keyholder<'_>,
    ) -> Result<OldKeys, Trouble> {
        let mut keys = OldKeys::default();
        let (Some(new), Ok(here)) = (new, place.canonical()) else { return Ok(keys) };
        let wanted = Pin { audience: begun_for(new), place: here };
        let pins = Pins::of_user();
        for (path, file) in Readable::of(place).keys {
            let Ok(file) = file else { continue };
            if pins.find(file.fingerprint()).as_ref() == Some(&wanted) {
                let material = file.open(keyholder).map_err(|_| {
                    Trouble::Usage(format!(
                        "an earlier run for these recipients was interrupted, and nothing given \
                         opens its key in {}: give an --identity of one of these recipients too",
                        shown(&path)
                    ))
                })?;
                keys.begun = Some((material, path, file.fingerprint()));
            }
        }
        Ok(keys)
    }

    /// Removes a key that is to become the new one. Returns whether others are left.
    pub(crate) fn without(&mut self, new: &KeyMaterial) -> bool {
        self.materials.retain(|key| !is_same(key, new));
        self.wrapped.retain(|key| !is_same(&key.material, new));
        !self.materials.is_empty()
    }
}

/// Wraps a fresh key for a place. Its pin says that not all files have it yet.
pub(crate) fn fresh(
    place: KeyPlace,
    material: &KeyMaterial,
    wrapping: &Wrapping,
    trusts_unopened: bool,
    keyholder: &Keyholder<'_>,
) -> Result<FreshKey, Trouble> {
    let contents = wrapping.wrap(material, keyholder)?;
    check_new(&contents, material, trusts_unopened, keyholder)?;
    Readable::of(&place).refuse_more(&contents, &place.directory)?;
    Ok(FreshKey { place, contents, audience: begun_for(wrapping), left_alone: None })
}

/// The audience of a key that does not encrypt all files of its place yet. No run adds files with
/// it.
fn begun_for(wrapping: &Wrapping) -> String {
    format!("rekey-{}", wrapping.audience())
}

/// The steps that follow when all files of a place have a new key.
pub(crate) struct LastSteps {
    pub(crate) place: KeyPlace,
    /// The old wrapped keys.
    pub(crate) old: Vec<OpenKey>,
    /// The new one, its place and those whom it is wrapped for.
    pub(crate) new: Option<(Fingerprint, KeyPlace, String)>,
}

impl LastSteps {
    /// Removes the old wrapped keys, unless a run uses them, and then pins the new one. Returns the
    /// keys that stay, with the reasons.
    pub(crate) fn take(&self) -> Vec<(PathBuf, String)> {
        let pins = Pins::of_user();
        let mut stay = Vec::new();
        for key in &self.old {
            let path = key.paths.first().cloned().unwrap_or_default();
            // A run that adds files with it holds it.
            let held = match self.place.is_in_store() {
                true => pins.open(key.fingerprint),
                false => File::open(&path),
            };
            if held.as_ref().is_ok_and(|file| file.try_lock().is_err()) {
                let reason = "the old wrapped key stays, because another run uses it".to_owned();
                stay.push((path, reason));
            } else if let Err(trouble) = remove(&self.place, key, &pins) {
                stay.push((path, format!("the old wrapped key stays: {trouble}")));
            }
        }
        if let Some((fingerprint, place, audience)) = &self.new
            && let Ok(place) = place.canonical()
        {
            let pin = Pin { audience: audience.clone(), place };
            // If this fails, the earlier pin stays: a later run makes its own key, and says so.
            let _ = pins.add(*fingerprint, &pin);
        }
        stay
    }
}
