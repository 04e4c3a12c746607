//! age's own format: its files have no key of their own, but recipients and identities.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::path::Path;

use evener::format::{self, Age, AgeHeaders as _, FormatError, Guess};
use evener::keys::age::{FileHeaders, is_armoured};
use evener::keys::{KeyError, Unlock};
use evener::place::{Name, Origin as _};
use evener::program::has_files;
use evener::{Failure, KeyRing, is_wrapped_key, is_wrapped_key_name};

use super::anew::UNCHECKED;
use super::wrap::{Wrapping, required};
use super::{KeyPlace, Keyholder, wrapping};
use crate::ends::Place;
use crate::hints;
use crate::objects::Address;
use crate::options::{Format, OpeningKeys, SealingKeys};
use crate::stores::{Stores, at};
use crate::trouble::{Trouble, shown};

/// The recipients or the passphrase that encrypt, and what opens files that are there already.
pub(super) fn sealing(
    options: &SealingKeys,
    keyholder: &Keyholder<'_>,
) -> Result<KeyRing, Trouble> {
    let given = [
        (options.key.is_some(), "--key"),
        (options.origins.key_command.is_some(), "--key-command"),
        (options.context.is_some(), "--context"),
        (options.openssl.one_line, "--one-line"),
    ];
    refuse(&given)?;
    refuse_of_openssl(options.openssl.any_but_base64())?;
    let (audience, passphrase) = match wrapping(&options.recipients, keyholder)? {
        None => return Err(Trouble::usage(NOBODY)),
        Some(Wrapping::Recipients(recipients)) => (Some(recipients), None),
        Some(Wrapping::Passphrase) => {
            let passphrase = required(keyholder.new_passphrase("the file")?)?;
            keyholder.warn_of_oddities(&passphrase, false);
            (None, Some(passphrase))
        }
    };
    let identities = keyholder.identities().to_vec();
    let headers = FileHeaders::opened_by(identities, passphrase.clone());
    let headers = headers.speaking(keyholder.dialogue());
    let headers = match (audience, passphrase) {
        (_, Some(passphrase)) => headers.for_passphrase(passphrase)?,
        (recipients, None) => headers.for_recipients(recipients.unwrap_or_default())?,
    };
    Ok(KeyRing::new(headers.recipe()))
}

/// The identities and passphrases that open age files from `source`.
pub(super) fn opening(
    options: &OpeningKeys,
    source: &Place,
    keyholder: &Keyholder<'_>,
) -> Result<KeyRing, Trouble> {
    let given = [
        (options.name_a_key(), "a key"),
        (options.context.is_some(), "--context"),
        (options.openssl.one_line, "--one-line"),
    ];
    refuse(&given)?;
    refuse_of_openssl(match options.format {
        Some(Format::Age) => options.openssl.any_but_base64(),
        _ => options.openssl.any(),
    })?;
    // A passphrase that opens an identity is not also that of files.
    let passphrase = match keyholder.has_passphrase() && !keyholder.opens_identities() {
        true => keyholder.known_passphrase("the age file")?,
        false => None,
    };
    let identities = keyholder.identities().to_vec();
    if identities.is_empty() && passphrase.is_none() {
        return Err(match source {
            Place::Path(path) => KeyError::OfAge { path: path.clone() }.into(),
            Place::Pipe | Place::Objects(_) => Trouble::usage(NO_OPENER),
        });
    }
    let headers = FileHeaders::opened_by(identities, passphrase).giving_up_after(MOST_REFUSALS);
    Ok(KeyRing::new(headers.speaking(keyholder.dialogue()).recipe()))
}

/// Gives age files other recipients.
pub(crate) struct AgeRewrapping {
    headers: FileHeaders,
    /// The identities that open the new headers to check them; `None` if they are trusted.
    check: Option<FileHeaders>,
}

impl AgeRewrapping {
    pub(crate) fn new(
        wrapping: &Wrapping,
        trusts_unopened: bool,
        keyholder: &Keyholder<'_>,
    ) -> Result<AgeRewrapping, Trouble> {
        // A passphrase that opens an identity is not also that of files.
        let passphrase = match keyholder.has_passphrase() && !keyholder.opens_identities() {
            true => keyholder.known_passphrase("the age file")?,
            false => None,
        };
        let opened_by = || {
            FileHeaders::opened_by(keyholder.identities().to_vec(), passphrase.clone())
                .giving_up_after(MOST_REFUSALS)
                .speaking(keyholder.dialogue())
        };
        let Wrapping::Recipients(recipients) = wrapping else {
            return Err(Trouble::usage(NOBODY));
        };
        let headers = opened_by().for_recipients(recipients.clone())?;
        Ok(AgeRewrapping { headers, check: (!trusts_unopened).then(opened_by) })
    }

    /// Reads the header of a file, of which the first bytes are known. Also returns what was read
    /// behind it.
    pub(crate) fn read(
        &self,
        mut begins: Vec<u8>,
        file: &mut impl Read,
        path: &Path,
    ) -> Result<(Vec<u8>, Vec<u8>), Trouble> {
        loop {
            if is_armoured(&begins) {
                return Err(Trouble::Usage(format!(
                    "{} is in ASCII armour: decrypt it, and encrypt it to the new recipients",
                    shown(path)
                )));
            }
            if let Some(length) = Age::header_length(&begins) {
                let behind = begins.split_off(length);
                return Ok((begins, behind));
            }
            let mut more = Vec::new();
            let read = file.by_ref().take(MOST_READ).read_to_end(&mut more);
            read.map_err(|cause| Trouble::File { action: "read", path: path.into(), cause })?;
            begins.extend_from_slice(&more);
            if more.is_empty() || begins.len() > Age::LONGEST_HEADER {
                return Err(Trouble::Usage(format!("{} is no whole age file", shown(path))));
            }
        }
    }

    /// The header with other recipients, which was opened once.
    pub(crate) fn change(&self, header: &[u8], path: &Path) -> Result<Vec<u8>, Trouble> {
        let failed = |error: FormatError| {
            Trouble::Failure(Failure { path: path.to_owned(), error: error.into() })
        };
        let key = self.headers.open(header).map_err(failed)?;
        let new = self.headers.rewrap(header).map_err(failed)?;
        let opens = |check: &FileHeaders| check.open(&new).is_ok_and(|opened| opened == key);
        match self.check.as_ref().is_none_or(opens) {
            true => Ok(new),
            false => Err(Trouble::usage(UNCHECKED)),
        }
    }
}

/// Returns whether sources are age files and trees of such files. Directories without files may be
/// among several, and files that are named as wrapped keys, but these are keys if they are alone.
pub(crate) fn are_of_age(options: &OpeningKeys, sources: &[OsString]) -> bool {
    let is_of_age = |source: &OsString| is_of_age(options, source.as_ref());
    let is_key = |source: &OsString| is_wrapped_key(source.as_ref());
    let is_empty = |source: &OsString| {
        let path = Path::new(source);
        path.is_dir() && !has_files(path, false, false)
    };
    match (sources, options.format) {
        ([source], _) => is_of_age(source),
        (_, Some(format)) => format == Format::Age,
        _ => {
            sources.iter().any(|source| !is_key(source) && is_of_age(source))
                && sources.iter().all(|source| is_of_age(source) || is_empty(source))
        }
    }
}

/// Returns whether a source is an age file, or a tree of such files: one without a wrapped key, whose
/// first file of that name is one, or one that holds no others, or nothing but links and directories
/// that no key is needed for. A key always opens files of another format.
pub(crate) fn is_of_age(options: &OpeningKeys, source: &Path) -> bool {
    match options.format {
        Some(format) => format == Format::Age,
        None if options.name_a_key() => false,
        None if source.is_dir() => {
            let has_keys = !KeyPlace::in_tree(source).existing().is_empty();
            let has_nothing = || {
                let may_open = !options.identities.identity_files.is_empty();
                may_open && !has_keys && !has_files(source, false, false)
            };
            holds_age_files(source, has_keys) || has_nothing()
        }
        None => hints::guess(source) == Some(Guess::Age),
    }
}

/// Chooses the format of age for objects in that format, if it was left open.
pub(crate) fn recognise(
    stores: &Stores,
    options: &mut OpeningKeys,
    source: &OsStr,
) -> Result<(), Trouble> {
    let Some(address) = Stores::address(source)? else { return Ok(()) };
    if options.format.is_some() || !options.look_for_one() {
        return Ok(());
    }
    let has_keys = |place: &KeyPlace| !place.existing().is_empty();
    let is_other = KeyPlace::of_objects(stores, &address)?.iter().any(has_keys);
    if !is_other && is_object_of_age(stores, &address)? {
        options.format = Some(Format::Age);
    }
    Ok(())
}

/// Returns whether an object, or the first one below a prefix that is named as an age file, is one.
fn is_object_of_age(stores: &Stores, address: &Address) -> Result<bool, Failure> {
    let is_named = |name: &Name| {
        let path = name.path();
        path.extension().is_some_and(|it| it == "age") && !is_named_as_key(path)
    };
    let (objects, name) = match stores.split_object(address)? {
        Some((above, name)) => (stores.open_source(&above)?, Some(name)),
        None => {
            let objects = stores.open_source(address)?;
            let entries = objects.in_order().take(MOST_LOOKED_AT);
            let name = entries.filter_map(|it| Some(it.ok()?.name)).find(is_named);
            (objects, name)
        }
    };
    let Some(name) = name else { return Ok(false) };
    let mut begins = [0; BEGINNING];
    let opened = objects.open(&name, &mut begins);
    let (_, read) = opened.map_err(|fault| at(address, fault))?;
    Ok(format::recognise(&begins[..read]) == Guess::Age)
}

/// Returns whether an object has the name of a wrapped key, of a tree or of another object.
fn is_named_as_key(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    let file = name.to_str().and_then(|name| name.split_once(".evener-key"));
    is_wrapped_key_name(file.map(|(file, _)| file.as_ref()), name)
}

/// Returns whether a tree holds an age file, as far as the first of its entries show. Those that are
/// named as wrapped keys do not count. With `alone`, there may be no other files.
fn holds_age_files(tree: &Path, alone: bool) -> bool {
    let mut directories = vec![tree.to_owned()];
    let (mut left, mut has_found) = (MOST_LOOKED_AT, false);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten().take(left) {
            left -= 1;
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => directories.push(path),
                Ok(kind) if kind.is_file() => {
                    let is_named = path.extension().is_some_and(|it| it == "age");
                    if !is_named && alone {
                        return false;
                    }
                    if is_named && !(alone && is_wrapped_key(&path)) {
                        has_found = hints::guess(&path) == Some(Guess::Age);
                        if !(alone && has_found) {
                            return has_found;
                        }
                    }
                }
                _ => {}
            }
        }
    }
    has_found
}

fn refuse(given: &[(bool, &str)]) -> Result<(), Trouble> {
    match given.iter().find(|(given, _)| *given) {
        Some((_, name)) => Err(Trouble::Usage(format!(
            "{name} does not go with --format age, whose files open with an identity or a passphrase"
        ))),
        None => Ok(()),
    }
}

fn refuse_of_openssl(option: Option<&str>) -> Result<(), Trouble> {
    match option {
        Some(name) => Err(Trouble::Usage(format!(
            "{name} goes only with --format openssl; give that, or leave {name} out"
        ))),
        None => Ok(()),
    }
}

const NOBODY: &str =
    "nobody could open the files: give --recipient, --recipients-file or --passphrase";
const NO_OPENER: &str = "no key: give --identity or --passphrase";

/// The most files that a passphrase is tried on although it does not open them.
const MOST_REFUSALS: u32 = 16;

/// The number of bytes of a header that are read at once.
const MOST_READ: u64 = 4096;

/// The number of bytes that show an age file.
const BEGINNING: usize = 72;

/// The most entries that are looked at.
const MOST_LOOKED_AT: usize = 10_000;
