//! Reads generations of a sealed tree.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use evener_format::index::{Purpose, TreeId};
use serde::Serialize;

use super::depot::{Depot, refused};
use super::keys::Keys;
use super::marker;
use super::origin::Sealed as SealedOrigin;
use super::roots::{Generation, Pin, Roots, Step};
use super::snapshot::Snapshot;
use super::state::State;
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
    let path = origin.path().unwrap_or(Path::new("")).to_owned();
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
    let done = transfer(operation, &ring, &source, store, run, &options);
    let mut report = done.or_else(OperationError::into_report)?;
    report.sealed = Some(SealedTree::Read(info.clone()));
    Ok((report.into_result()?, info))
}

/// Opens files of a generation, each to be read at any place. Whoever holds the tree's keys could
/// have changed them unseen: only [`open`] compares the whole of a signed tree's files with the
/// index.
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
    let root = origin.path().unwrap_or(Path::new(""));
    let (snapshot, info) =
        snapshot(origin, run, sealed).map_err(|error| Failure { path: root.to_owned(), error })?;
    let source = SealedOrigin::new(&snapshot, Wanted::default());
    let open = |path: &PathBuf| {
        let opened = Name::new(path)
            .map_err(|error| refused(error.to_string()))
            .and_then(|name| source.open_part(&name, &mut []).map_err(FileError::from));
        let (blob, _) = opened.map_err(|error| Failure { path: root.join(path), error })?;
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
    let tree = marker::read(&depot)?.ok_or_else(|| refused(NO_TREE))?;
    let keys = Keys::new(tree, &sealed.keychain)?;
    let state = sealed.state.as_ref().map(|(all, place)| State::of(all, place));
    let pin = state.as_ref().map(State::pin).transpose()?.flatten();
    let pin = pin.filter(|pin| pin.number > 0);
    let pin = check_tree(pin, tree, sealed)?;
    let roots = Roots { depot: &depot, keys: &keys };
    let newest = match (roots.newest(pin.as_ref(), &sealed.trust), sealed.at) {
        (Err(_), _) if sealed.trust.rollback => roots.newest(None, &sealed.trust)?,
        // Something that is no root may lie behind the one that is meant.
        (Err(error), At::Number(number)) if pin.as_ref().is_none_or(|it| it.number <= number) => {
            roots.trusted(number, pin.as_ref(), &sealed.trust).map_err(|_| error)?
        }
        (newest, _) => newest?,
    };
    let generation = match sealed.at {
        At::Newest => newest.clone(),
        at => earlier(&roots, &newest, at)?,
    };
    if let Some(state) = &state {
        state.keep_pin(&newest.pin(), sealed.trust.rollback)?;
    }
    let beyond = roots.numbers()?.into_iter().filter(|it| *it > newest.claim.number).collect();
    let info = info_of(&generation, pin.is_none(), beyond);
    Ok((Snapshot { depot, keys, generation }, info))
}

/// Refuses another tree than this machine has seen in the place.
fn check_tree(
    pin: Option<Pin>,
    tree: TreeId,
    sealed: &SealedOptions,
) -> Result<Option<Pin>, FileError> {
    match pin {
        Some(pin) if pin.tree != tree && sealed.trust.rollback => Ok(None),
        Some(pin) if pin.tree != tree => Err(refused(format!(
            "it is the tree {tree}, and this machine has seen the tree {} there; --allow-rollback \
             accepts it once",
            pin.tree
        ))),
        pin => Ok(pin),
    }
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

const NO_TREE: &str = "it is no sealed tree: it has no marker";
