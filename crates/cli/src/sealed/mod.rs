//! Sealed trees: finding them, and carrying out what is done with them.

mod care;
pub(crate) mod list;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evener::keys::signing::UserKey;
use evener::place::Local;
use evener::sealed_trees::{SealedOptions, Signer, state_directory, state_name};
use evener::{
    Evener, Failure, FileError, Key, KeyRing, Operation, OperationError, Options, Report,
};

use crate::ends::{Ends, Place, directory_of};
use crate::keys::{AtTerminal, Keyholder, TreeKeys, opening_tree};
use crate::options::{Choosing, EngineOptions, Generations, OpeningKeys, Part, Telling};
use crate::plan::{Plan, warnings};
use crate::route::Route;
use crate::run::EMPTY;
use crate::signals::Signals;
use crate::trouble::{Trouble, refused, shown};

pub(crate) use care::Tree;

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

/// Refuses a sealed tree, or a directory in one, as the place for other outputs.
pub(crate) fn refuse_as_target(target: &Path) -> Result<(), Trouble> {
    match [target, directory_of(target)].into_iter().find(|path| is_sealed(path)) {
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
    let (Place::Path(source), true) = (&ends.source, ends.source_is_tree) else {
        return Err(Trouble::usage(
            "--sealed seals a directory, and SRC is none; put the file into one, or leave --sealed \
             out",
        ));
    };
    // Everything would be gone in the next generation.
    if fs::read_dir(source).is_ok_and(|mut entries| entries.next().is_none()) {
        let error = refused(format!("nothing was sealed{EMPTY}"));
        return Err(Failure { path: source.clone(), error }.into());
    }
    Ok(ends)
}

/// The directory in which this user keeps what is known of sealed trees, and this tree's name in it.
pub(crate) fn state_of(tree: &Path) -> Option<(PathBuf, String)> {
    Some((state_directory("trees")?, state_name(tree)))
}

/// A key of the user's with which `ssh-keygen` signs.
pub(crate) fn signer(path: &Path, signals: &Signals) -> Result<Signer, Trouble> {
    let key = UserKey::new(path).map_err(|error| Trouble::Usage(error.to_string()))?;
    let (public, signals) = (key.public().clone(), signals.clone());
    let sign = move |message: &[u8]| {
        let dialogue = AtTerminal { signals: signals.clone() };
        key.sign_with(message, &dialogue, |command, talk| signals.with_child(command, talk))
            .map_err(|error| refused(error.to_string()))
    };
    Ok(Signer { public, sign: Arc::new(sign) })
}

/// Seals, decrypts or verifies a tree. Failed files give a report, not an error.
pub(crate) fn process(
    evener: &Evener,
    operation: Operation,
    ends: &Ends,
    work: &Work,
) -> Result<Report, Failure> {
    let Work { options: sealed, kind } = work;
    let local = |place: &Place| match place {
        Place::Path(path) => evener.local(path),
        Place::Pipe => evener.local("-"),
    };
    let (source, target) = (local(&ends.source), ends.target.as_ref().map(local));
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
            let target = target.as_ref().map(|target: &Local| target as _);
            evener.open_tree(operation, &source, target, sealed).map(|(report, _)| report)
        }
    };
    match done.or_else(OperationError::into_report) {
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

/// What the options say of a sealed tree that is read.
pub(crate) struct Reading<'o> {
    pub(crate) keys: &'o OpeningKeys,
    pub(crate) generations: &'o Generations,
    pub(crate) kind: Kind,
    pub(crate) choosing: Choosing,
    pub(crate) part: Part,
    pub(crate) engines: &'o EngineOptions,
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
        let Reading { keys, generations, kind, choosing, part, engines, telling } = self;
        choosing.check_sealed(operation)?;
        let Place::Path(tree) = ends.source.clone() else {
            return Err(Trouble::usage("a sealed tree is a directory"));
        };
        let (mut options, ring, key_warnings) = open(keys, &tree, signals)?;
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
        Ok(plan.of_sealed(Work { options, kind }))
    }
}

/// Finds what opens a tree; also returns a key that stands for it, and warnings.
pub(crate) fn open(
    keys: &OpeningKeys,
    tree: &Path,
    signals: &Signals,
) -> Result<(SealedOptions, KeyRing, Vec<String>), Trouble> {
    keys.check_sealed()?;
    let OpeningKeys { origins, identities, passphrase, .. } = keys;
    let (asks, exposure) = (keys.name_a_key(), &origins.exposure);
    let keyholder = Keyholder::new(signals, Some(identities), passphrase, exposure, asks)?;
    let TreeKeys { keychain, ring, .. } = opening_tree(keys, &keyholder)?;
    let sealed = SealedOptions { keychain, state: state_of(tree), ..SealedOptions::default() };
    Ok((sealed, ring, keyholder.warnings()))
}

/// Separates `TREE DST PATH…`, if the first name is a sealed tree: returns the paths, and leaves the
/// others.
pub(crate) fn take_paths(names: &mut Vec<OsString>) -> Vec<PathBuf> {
    let is_tree = names.first().is_some_and(|first| is_sealed(Path::new(first)));
    match is_tree && names.len() > 2 {
        true => names.split_off(2).into_iter().map(PathBuf::from).collect(),
        false => Vec::new(),
    }
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
