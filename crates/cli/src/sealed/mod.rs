//! Sealed trees: finding them, and carrying out what is done with them.

mod care;
mod known;
pub(crate) mod list;

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use evener::keys::signing::UserKey;
use evener::place::Fault;
use evener::sealed_trees::{Sealed, SealedOptions, Signer, lasting_files};
use evener::{
    Evener, Failure, FileError, Key, KeyRing, Operation, OperationError, Options, Report,
    SealedTree,
};

use crate::ends::{Ends, Place, directory_of};
use crate::keys::{AtTerminal, Keyholder, TreeKeys, opening_tree};
use crate::objects::Address;
use crate::options::{Choosing, EngineOptions, Generations, OpeningKeys, Part, Telling};
use crate::plan::{Plan, warnings};
use crate::route::Route;
use crate::signals::Signals;
use crate::stores::{AnyPlace, Stores, at, refuse_overlap};
use crate::terminal::Terminal;
use crate::trouble::{Trouble, refused, shown};

pub(crate) use care::{Tree, refuse_other};
pub(crate) use known::{find, forgetful, refuse_seen, state_of};

/// What is done with a sealed tree.
pub(crate) struct Work {
    pub(crate) options: SealedOptions,
    pub(crate) kind: Kind,
}

/// A way to work on a sealed tree.
pub(crate) enum Kind {
    /// Seal a source, or decrypt or verify a generation.
    Whole,
    /// Verify without reading content.
    Quick,
    /// Verify so many files, chosen at random.
    Sample(u32),
    /// Seal the newest generation under another key, or under a fresh one that is wrapped.
    Rekey(Option<Key>),
}

/// Returns whether a path leads to a sealed tree, as far as its marker shows.
pub(crate) fn is_sealed(path: &Path) -> bool {
    path.join("evener-tree-v1").is_file()
}

/// As [`is_sealed`], for an address too.
pub(crate) fn is_sealed_in(stores: &Stores, typed: &OsStr) -> Result<bool, Trouble> {
    match Stores::address(typed)? {
        Some(address) => stores.has_sealed(&address),
        None => Ok(is_sealed(Path::new(typed))),
    }
}

/// Refuses a sealed tree, or a directory in one, as the place for other outputs.
pub(crate) fn refuse_as_target(operation: Operation, target: &Path) -> Result<(), Trouble> {
    match [target, directory_of(target)].into_iter().find(|path| is_sealed(path)) {
        Some(tree) if operation == Operation::Decrypt => Err(Trouble::Usage(format!(
            "{} is a sealed tree; decrypt to another place",
            shown(tree)
        ))),
        Some(tree) => Err(Trouble::Usage(format!(
            "{} is a sealed tree: --sealed adds a generation to it; other files need another place",
            shown(tree)
        ))),
        None => Ok(()),
    }
}

/// Source and target of `encrypt --sealed`.
pub(crate) fn ends_to_seal(paths: Vec<OsString>, telling: &Telling) -> Result<Ends, Trouble> {
    let Ok([source, target]) = <[OsString; 2]>::try_from(paths) else {
        return Err(Trouble::usage(
            "--sealed takes one directory and the place of its sealed tree: write `evener encrypt \
             --sealed SRC DST`",
        ));
    };
    let ends = Ends::find(Operation::Encrypt, source, Some(target), false, telling)?;
    match (&ends.source, ends.source_is_tree) {
        (Place::Objects(_), _) | (Place::Path(_), true) => Ok(ends),
        _ => Err(Trouble::usage(
            "--sealed seals a directory, and SRC is none; put the file into one, or leave --sealed \
             out",
        )),
    }
}

/// A key of the user's with which `ssh-keygen` signs. If nobody can be asked for its passphrase, it
/// signs something now: otherwise it would fail only when everything is sealed.
pub(crate) fn signer(path: &Path, signals: &Signals) -> Result<Signer, Trouble> {
    let key = UserKey::new(path).map_err(|error| Trouble::Usage(error.to_string()))?;
    let (public, signals) = (key.public().clone(), signals.clone());
    let sign = move |message: &[u8]| {
        let dialogue = AtTerminal { signals: signals.clone() };
        key.sign_with(message, &dialogue, |command, talk| signals.with_child(command, talk))
            .map_err(|error| refused(error.to_string()))
    };
    if Terminal::open().is_err() && env::var_os("SSH_ASKPASS").is_none() {
        sign(b"evener: a test of this key").map_err(|error| Trouble::Usage(error.to_string()))?;
    }
    Ok(Signer { public, sign: Arc::new(sign) })
}

/// Seals, decrypts or verifies a tree. Failed files give a report, not an error.
pub(crate) fn process(
    stores: &Stores,
    evener: &Evener,
    operation: Operation,
    ends: &Ends,
    work: &Work,
) -> Result<Report, Failure> {
    let Work { options: sealed, kind } = work;
    refuse_overlap(ends)?;
    let place = |place: &Place, is_written| {
        Ok(match place {
            Place::Path(path) => AnyPlace::local(evener, path),
            Place::Pipe => AnyPlace::local(evener, Path::new("-")),
            Place::Objects(address) if is_written => AnyPlace::Objects(stores.open(address)?),
            Place::Objects(address) => AnyPlace::Objects(stores.open_source(address)?),
        })
    };
    let source = place(&ends.source, matches!(kind, Kind::Rekey(_)))?;
    let target = ends.target.as_ref().map(|target| place(target, true)).transpose()?;
    let done = match (kind, &target) {
        (Kind::Quick, _) => evener.verify_tree_quickly(&source, sealed).map(|(report, _)| report),
        (Kind::Sample(files), _) => {
            evener.verify_sample_of_tree(&source, *files, sealed).map(|(report, _)| report)
        }
        (Kind::Rekey(key), _) => {
            evener.rekey_tree(&source, sealed, key.as_ref()).map(|(report, _)| report)
        }
        (Kind::Whole, Some(target)) if operation == Operation::Encrypt => {
            evener.seal_tree(&source, target, sealed).map(|(report, _)| report)
        }
        (Kind::Whole, target) => {
            let target = target.as_ref().map(|target: &AnyPlace| target as _);
            evener.open_tree(operation, &source, target, sealed).map(|(report, _)| report)
        }
    };
    // Of what happened to the tree itself, a place without a path tells none.
    let of_tree = |mut failure: Failure| {
        let tree = if operation == Operation::Encrypt { ends.target.as_ref() } else { None };
        if let (true, Place::Objects(address)) =
            (failure.path.as_os_str().is_empty(), tree.unwrap_or(&ends.source))
        {
            failure.path = address.to_string().into();
        }
        failure
    };
    let done = done.or_else(OperationError::into_report).map_err(of_tree).map(|mut report| {
        let written = ends.target.as_ref().unwrap_or(&ends.source);
        if let (Operation::Encrypt, Place::Objects(tree)) = (operation, written)
            && has_earlier(&report)
        {
            let opening = (!matches!(kind, Kind::Rekey(_))).then_some((evener, sealed));
            report.failures.extend(retain(stores, tree, opening).err());
        }
        report
    });
    match done {
        // It was stopped while it read the root.
        Err(Failure { error: FileError::Interrupted, .. }) => {
            let mut report = Report::default();
            report.operation = operation.name().to_owned();
            report.interrupted = true;
            Ok(report)
        }
        done => done,
    }
}

/// Returns whether a generation stands on earlier ones.
fn has_earlier(report: &Report) -> bool {
    let is_later = |made: &Sealed| made.generation > 1 || !made.is_new;
    let is_done = !report.dry_run && !report.interrupted;
    is_done && matches!(&report.sealed, Some(SealedTree::Made(made)) if is_later(made))
}

/// If new files are locked, also locks the marker, the roots and the wrapped keys of a tree, and
/// what else its newest generation needs, if `opening` opens that.
pub(crate) fn retain(
    stores: &Stores,
    tree: &Address,
    opening: Option<(&Evener, &SealedOptions)>,
) -> Result<(), Failure> {
    if !stores.retains() {
        return Ok(());
    }
    let objects = stores.open(tree)?;
    let needed = match opening {
        Some((evener, sealed)) => evener.files_of_tree(&objects, sealed)?,
        None => lasting_files(&objects)
            .map_err(|error| Failure { path: tree.to_string().into(), error })?,
    };
    objects.retain(&needed).map_err(|fault| {
        let reason = format!("could not lock all files of earlier runs until that time: {fault}");
        at(tree, Fault::Failed(reason))
    })
}

/// What the options say of a sealed tree that is read.
pub(crate) struct Reading<'o> {
    pub(crate) keys: &'o OpeningKeys,
    pub(crate) generations: &'o Generations,
    pub(crate) kind: Kind,
    pub(crate) choosing: Choosing,
    pub(crate) part: Part,
    pub(crate) engines: &'o EngineOptions,
    pub(crate) stores: &'o Stores,
    pub(crate) telling: &'o Telling,
}

impl Reading<'_> {
    /// Plans to decrypt or verify a sealed tree.
    pub(crate) fn plan(
        self,
        operation: Operation,
        ends: Ends,
        signals: &Signals,
        apply: impl FnOnce(&mut Options),
    ) -> Result<Plan, Trouble> {
        let Reading { keys, generations, kind, choosing, part, engines, stores, telling } = self;
        choosing.check_sealed(operation)?;
        let tree = match &ends.source {
            Place::Path(path) => path.clone(),
            Place::Objects(address) => address.to_string().into(),
            Place::Pipe => return Err(Trouble::usage("a sealed tree is a directory")),
        };
        let accepts = generations.trust.allow_rollback;
        let (mut options, ring, key_warnings) = open(keys, stores, (&tree, accepts), signals)?;
        generations.apply(&mut options)?;
        let evener = engines.evener(ring, telling, signals)?;
        let mut warnings = warnings(operation, &evener, true);
        warnings.extend(key_warnings);
        let plan = Plan::new(operation, evener, Route::of(vec![ends]), warnings, |options| {
            keys.files().iter().for_each(|path| options.protect(path));
            apply(options);
            choosing.apply(&mut options.tree)?;
            part.apply(&mut options.tree)
        })?;
        Ok(Plan { stores: stores.clone(), ..plan }.of_sealed(Work { options, kind }))
    }
}

/// Finds the keys of a tree; also returns a key that stands for it, and warnings. `accepts` is
/// --allow-rollback.
pub(crate) fn open(
    keys: &OpeningKeys,
    stores: &Stores,
    (tree, accepts): (&Path, bool),
    signals: &Signals,
) -> Result<(SealedOptions, KeyRing, Vec<String>), Trouble> {
    keys.check_sealed()?;
    let OpeningKeys { origins, identities, passphrase, .. } = keys;
    let (asks, exposure) = (keys.name_a_key(), &origins.exposure);
    let keyholder = Keyholder::new(signals, Some(identities), passphrase, exposure, asks)?;
    let TreeKeys { keychain, ring, .. } = opening_tree(keys, &keyholder)?;
    let sealed = SealedOptions { keychain, ..state_of(stores, tree, accepts)? };
    let warnings = keyholder.warnings().into_iter().chain(forgetful(&sealed)).collect();
    Ok((sealed, ring, warnings))
}

/// Separates `TREE DST PATH…`, if the first name is a sealed tree: returns the paths, and leaves the
/// others.
pub(crate) fn take_paths(
    stores: &Stores,
    names: &mut Vec<OsString>,
) -> Result<Vec<PathBuf>, Trouble> {
    let is_tree = match &**names {
        [first, _, _, ..] => is_sealed_in(stores, first)?,
        _ => false,
    };
    Ok(match is_tree {
        true => without_root(names.split_off(2).into_iter().map(PathBuf::from).collect()),
        false => Vec::new(),
    })
}

/// Paths of which none is the whole tree: with `.`, nothing needs to be chosen.
pub(crate) fn without_root(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let is_root = |path: &PathBuf| path.components().eq([Component::CurDir]);
    if paths.iter().any(is_root) { Vec::new() } else { paths }
}

/// Refuses a sealed tree among sources that are no such trees.
pub(crate) fn refuse_among<'p>(
    sources: impl IntoIterator<Item = &'p OsStr>,
) -> Result<(), Trouble> {
    match sources.into_iter().map(Path::new).find(|path| is_sealed(path)) {
        Some(tree) => Err(Trouble::Usage(format!(
            "{} is a sealed tree, which is decrypted alone; name it first, then DST, and then paths \
             in it if you want only a part",
            shown(tree)
        ))),
        None => Ok(()),
    }
}
