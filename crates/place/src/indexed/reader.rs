//! Reads generations of a sealed tree.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use evener_format::index::Purpose;
use serde::Serialize;

use super::base::says_nothing;
use super::depot::{Depot, refused};
use super::keys::Keys;
use super::known::Known;
use super::marker;
use super::origin::Sealed as SealedOrigin;
use super::roots::{Generation, Roots, Step};
use super::snapshot::Snapshot;
use super::total;
use super::wanted::Wanted;
use super::writer::SealedOptions;
use crate::place::{Blob, Origin, Store, transfer};
use crate::sealed_names::SealedNames;
use crate::{
    Failure, FileError, KeyRing, Name, Operation, OperationError, Report, RunSettings, SealedTree,
    Selection, TransferOptions,
};

/// Which generation is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum At {
    /// The newest one.
    #[default]
    Newest,
    /// The one with this number.
    Number(u64),
    /// The last one that was made at this time or before, in seconds since 1970.
    Time(i64),
}

/// A generation of a sealed tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct GenerationInfo {
    /// The tree, in hexadecimal.
    pub tree: String,
    /// Its number.
    pub number: u64,
    /// The SHA-256 of its root, in hexadecimal.
    pub digest: String,
    /// When it was made, in seconds since 1970, by the clock of its writer.
    pub time: i64,
    /// The number of entries.
    pub entries: u64,
    /// The bytes of all files' content.
    pub bytes: u64,
    /// The fingerprint of the key that signed it.
    pub signer: Option<String>,
    /// True if this machine reads or writes the tree for the first time.
    pub is_first_seen: bool,
    /// Numbers of roots that come after a gap and were not read.
    pub beyond: Vec<u64>,
}

/// Returns whether a place says that it is a sealed tree.
///
/// # Errors
/// When it can't be read, or its marker is damaged.
pub fn is_sealed(origin: &dyn Origin, run: &RunSettings) -> Result<bool, FileError> {
    Ok(marker::read(&Depot { origin, store: None, run })?.is_some())
}

/// Decrypts or verifies a generation of a sealed tree. `store` is `None` exactly for
/// [`Operation::Verify`].
///
/// # Errors
/// [`OperationError::NotBegun`] when its root can't be read or is not believed, and otherwise those
/// of [`transfer`].
pub fn open(
    operation: Operation,
    origin: &dyn Origin,
    store: Option<&dyn Store>,
    run: &RunSettings,
    options: &TransferOptions,
    sealed: &SealedOptions,
) -> Result<(Report, GenerationInfo), OperationError> {
    let path = origin.label();
    let fail = |error| OperationError::from(Failure { path: path.clone(), error });
    if let (Some(source), Some(target)) = (origin.path(), store.and_then(Store::path)) {
        crate::tree::refuse_overlap(source, target)?;
    }
    let (snapshot, info) = snapshot(origin, run, sealed).map_err(fail)?;
    let ring = any_ring(&snapshot).map_err(fail)?;
    let options = TransferOptions { names: SealedNames::kept(), ..options.clone() };
    let mut source = SealedOrigin::new(&snapshot, wanted(&options.selection));
    if operation == Operation::Verify && options.selection.takes_everything() {
        source = source.verified();
    }
    let done = total::beside(&snapshot, &options.selection, total::stored, || {
        transfer(operation, &ring, &source, store, run, &options)
    });
    let mut report = done.or_else(OperationError::into_report)?;
    // The root has no name in the tree.
    let output = store.and_then(Store::path).unwrap_or(&path);
    for failure in report.failures.iter_mut().filter(|it| it.path.as_os_str().is_empty()) {
        let is_of_index = failure.error.to_string().starts_with(OF_INDEX);
        failure.path = if is_of_index { &path } else { output }.to_owned();
    }
    report.sealed = Some(SealedTree::Read(info.clone()));
    Ok((report.into_result()?, info))
}

/// Opens files of a generation, each to be read at any place. In a signed tree, reading all of a
/// file in order compares it with the index: the last read fails if somebody else who holds the
/// tree's keys has changed the file. Parts of it could have been changed unseen.
///
/// # Errors
/// The generation's are those of [`open`], and it names the tree. Otherwise it names the file that
/// the generation does not have.
pub fn open_files(
    origin: &dyn Origin,
    run: &RunSettings,
    sealed: &SealedOptions,
    paths: &[PathBuf],
) -> Result<(Vec<Box<dyn Blob>>, GenerationInfo), Failure> {
    let root = &*origin.label();
    let (snapshot, info) =
        snapshot(origin, run, sealed).map_err(|error| Failure { path: root.to_owned(), error })?;
    let source = SealedOrigin::new(&snapshot, Wanted::default());
    let open = |path: &PathBuf| {
        let opened = Name::new(path)
            .map_err(|error| refused(error.to_string()))
            .and_then(|name| source.open_in_order(&name).map_err(FileError::from));
        let blob = opened.map_err(|error| Failure { path: root.join(path), error })?;
        Ok(Box::new(blob) as Box<dyn Blob>)
    };
    Ok((paths.iter().map(open).collect::<Result<_, _>>()?, info))
}

/// Opens a generation.
pub(super) fn snapshot<'a>(
    origin: &'a dyn Origin,
    run: &'a RunSettings,
    sealed: &'a SealedOptions,
) -> Result<(Snapshot<'a>, GenerationInfo), FileError> {
    let depot = Depot { origin, store: None, run };
    let state = sealed.place_state();
    let Some(tree) = marker::read(&depot)? else {
        sealed.gone(state.as_ref())?;
        return Err(refused(NO_TREE));
    };
    let keys = Keys::new(tree, &sealed.keychain)?;
    let roots = Roots { depot: &depot, keys: &keys };
    let known = Known::of(state.as_ref(), &roots, &sealed.trust)?;
    let (newest, taken_back) = match (roots.newest(&known, &sealed.trust), sealed.at) {
        (Err(error), _) if sealed.trust.rollback && !says_nothing(&error) => {
            let newest = roots.newest(&known.without_seen(), &sealed.trust)?;
            let pin = known.taken_back(&newest)?;
            (newest, Some(pin))
        }
        // Something that is no root may lie behind the one that is meant, or other keys open that.
        (Err(error), At::Number(number)) => {
            let meant = match known.last() {
                Some(pin) if pin.number > number => roots.known(number, pin, &sealed.trust),
                _ if roots.is_passed(number, &known)? => return Err(error),
                _ => roots.trusted(number, &known, &sealed.trust),
            };
            (meant.map_err(|_| error)?, None)
        }
        (newest, _) => (newest?, None),
    };
    let generation = match sealed.at {
        At::Newest => newest.clone(),
        at => earlier(&roots, &newest, at)?,
    };
    let (numbers, last) = (roots.numbers()?, newest.claim.number);
    if !matches!(sealed.at, At::Number(_)) {
        roots.refuse_gap_after(&newest, &numbers, last, &sealed.trust)?;
    }
    let goes_back = taken_back.is_some() || known.replaced.is_some();
    if goes_back {
        known.tell(sealed, &newest);
    }
    if let Some(state) = &state {
        state.keep_pin(&taken_back.unwrap_or_else(|| newest.pin()), goes_back)?;
    }
    let beyond = numbers.into_iter().filter(|it| *it > last).collect();
    let info = info_of(&generation, known.is_first(), beyond);
    Ok((Snapshot { depot, keys, generation }, info))
}

/// The generation that is meant, by the chain from the newest one.
fn earlier(roots: &Roots<'_>, newest: &Generation, at: At) -> Result<Generation, FileError> {
    let mut step = Step { digest: newest.digest, claim: newest.claim.clone(), chain: None };
    let is_whole =
        |number: u64| newest.claim.kept.as_ref().is_none_or(|kept| kept.contains(number));
    let opened = |step: &Step| {
        let generation = roots.open(step.claim.number)?;
        match generation.digest == step.digest {
            true => Ok(generation),
            false => Err(refused("it was exchanged while it was read")),
        }
    };
    loop {
        let number = step.claim.number;
        match at {
            At::Number(wanted) if wanted > number => {
                return Err(refused(match number == newest.claim.number {
                    true => format!("there is no generation {wanted}: the newest is {number}"),
                    false => format!("generation {wanted} is no valid one and was passed over"),
                }));
            }
            At::Number(wanted) if wanted == number && !is_whole(number) => {
                return Err(refused(format!("generation {number} was removed")));
            }
            At::Number(wanted) if wanted == number => return opened(&step),
            At::Time(time) if is_whole(number) => {
                let generation = opened(&step)?;
                if generation.body.time <= time {
                    return Ok(generation);
                }
            }
            _ => {}
        }
        if step.claim.before.is_none() {
            return Err(refused("there is no generation as old as that"));
        }
        step = roots.predecessor(&step)?;
    }
}

pub(super) fn info_of(
    generation: &Generation,
    is_first_seen: bool,
    beyond: Vec<u64>,
) -> GenerationInfo {
    GenerationInfo {
        tree: generation.body.tree.to_string(),
        number: generation.claim.number,
        digest: generation.digest.to_string(),
        time: generation.body.time,
        entries: generation.body.entries,
        bytes: generation.body.bytes,
        signer: generation.signer.as_ref().map(|signer| signer.fingerprint()),
        is_first_seen,
        beyond,
    }
}

/// A key ring for the cipher of all files; each file brings its own recipe.
pub(super) fn any_ring(snapshot: &Snapshot<'_>) -> Result<KeyRing, FileError> {
    let key = snapshot.keys.get(&snapshot.depot, snapshot.generation.claim.key)?;
    Ok(KeyRing::new(key.recipe(Purpose::Data, snapshot.generation.claim.number)?))
}

/// The part of an index that a selection needs.
pub(super) fn wanted(selection: &Selection) -> Wanted {
    Wanted::paths(selection.paths().iter().map(|path| path.as_os_str().as_bytes()))
}

/// How reasons begin that are about the index.
pub(super) const OF_INDEX: &str = "the index ";

const NO_TREE: &str = "it is no sealed tree: it has no marker";
