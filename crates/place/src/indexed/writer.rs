//! Makes a generation of a sealed tree from a source.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;

use evener_core::Key;
use evener_format::index::TreeId;
use serde::Serialize;

use super::at_work::{self, AtWork};
use super::attempt::Attempt;
use super::audience;
use super::depot::{Depot, refused};
use super::keys::Keychain;
use super::marker;
use super::own::{NewKey, retired};
use super::plain::Plain;
use super::reader::{At, snapshot};
use super::roots::{Pin, RootDigest};
use super::sorted::Sorted;
use super::state::State;
use super::succession::{Signer, Signing};
use super::total;
use super::trust::Trust;
use crate::place::{Entry, Kind, Origin, Store};
use crate::temporary::is_temporary_name;
use crate::{
    Failure, FileError, Name, OperationError, Report, RunSettings, Selection, TransferOptions,
    contradictions,
};

/// Wraps the text of a key for the recipients.
pub type Wrap = Arc<dyn Fn(&[u8]) -> Result<Vec<u8>, FileError> + Send + Sync>;

/// Hears a sentence.
pub type OnAccepted = Arc<dyn Fn(&str) + Send + Sync>;

/// How a sealed tree is written and read.
#[derive(Clone, Default)]
pub struct SealedOptions {
    /// What opens the tree. Without [`SealedOptions::wrap`], its first key seals.
    pub keychain: Keychain,
    /// Wraps a fresh key for each generation.
    pub wrap: Option<Wrap>,
    /// A word that stands for those for whom [`SealedOptions::wrap`] wraps. Writers note it in their
    /// state, and refuse another one: its recipients could not read unchanged files.
    pub audience: Option<String>,
    /// Reuse the key of this machine's last generation, instead of a fresh one, if
    /// [`SealedOptions::keychain`] opens it: readers then derive one key from a passphrase, not one
    /// for each generation.
    pub keeps_key: bool,
    /// Accept another audience, as after [`rewrap`](super::rewrap()) on another machine.
    pub accepts_audience: bool,
    /// The directory that holds the state of all places, and the name of this place in it.
    pub state: Option<(PathBuf, String)>,
    /// Another name of this place, such as its path with links: what is known under either counts.
    pub alias: Option<String>,
    /// Hears what [`Trust::rollback`] has accepted.
    pub on_accepted: Option<OnAccepted>,
    /// The key that signs. Otherwise trees with [`SealedOptions::wrap`] are signed by a key that the
    /// writer makes and keeps in its state.
    pub signer: Option<Signer>,
    /// Whom readers believe.
    pub trust: Trust,
    /// The generation that readers read.
    pub at: At,
    /// The padding of a new tree: the least length of a file in bytes.
    pub padding: Option<u64>,
    /// Read every file, and compare it with the generation before.
    pub compares: bool,
    /// The source gives extended attributes, which entries keep.
    pub xattrs: bool,
    /// Leave out files that change each time they are read.
    pub skip_changing: bool,
    /// Write nothing.
    pub dry_run: bool,
}

/// The result of a run, besides its report.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Sealed {
    /// The newest generation.
    pub generation: u64,
    /// True if this run has made it; false where nothing had changed.
    pub is_new: bool,
    /// The entries of the generation before that are gone.
    pub gone: u64,
    /// Files that were moved or renamed, whose content was not sealed again.
    pub moved: u64,
    /// The fingerprint of the key that signed it.
    pub signer: Option<String>,
}

/// Seals a source into a new generation of a tree, which is made if there is none.
///
/// # Errors
/// [`OperationError::Incomplete`] when files failed: the generation has everything else, and of
/// files that failed the content of the generation before. [`OperationError::NotBegun`] when nothing
/// was made, as from a source that holds nothing.
pub fn seal(
    origin: &dyn Origin,
    store: &dyn Store,
    run: &RunSettings,
    options: &TransferOptions,
    sealed: &SealedOptions,
) -> Result<(Report, Sealed), OperationError> {
    let path = store.label();
    let fail = |error| Failure { path: path.clone(), error };
    contradictions::in_run(run).map_err(fail)?;
    if let (Some(source), Some(target)) = (origin.path(), store.path()) {
        crate::tree::refuse_overlap(source, target)?;
    }
    if holds_nothing(origin) {
        let path = origin.label();
        return Err(Failure { path, error: refused(NOTHING) }.into());
    }
    if selects_nothing(origin, &options.selection) {
        let path = origin.label();
        return Err(Failure { path, error: refused(NOTHING_SELECTED) }.into());
    }
    let depot = Depot::of(store, run).map_err(fail)?;
    let path = path.clone();
    Writer {
        origin: &Sorted { origin, control: &run.control },
        store,
        depot,
        run,
        options,
        sealed,
        path,
        new_key: None,
        began: Cell::default(),
    }
    .write()?
    .ok_or_else(|| fail(refused(OVERTAKEN)).into())
}

/// Returns whether a source has no entries. In the next generation, everything would be gone.
fn holds_nothing(origin: &dyn Origin) -> bool {
    !origin.walk().any(|entry| entry.map_or(true, |entry| entry.name != Name::root()))
}

/// Returns whether a selection leaves out all files of a source, and names no directory of it.
fn selects_nothing(origin: &dyn Origin, selection: &Selection) -> bool {
    let is_taken = |entry: Entry| match entry.kind {
        Kind::Directory => {
            let path = entry.name.path();
            let is_named = selection.paths().iter().any(|named| path.starts_with(named));
            is_named && selection.takes_directory(path)
        }
        _ => selection.takes_file(entry.name.path()),
    };
    !selection.takes_everything() && !origin.walk().any(|entry| entry.map_or(true, is_taken))
}

/// Seals the newest generation of a tree anew, under another key: under `key`, or under a fresh one
/// that [`SealedOptions::wrap`] wraps. [`SealedOptions::keychain`] opens the tree. Its old keys seal
/// no later generation. What they have opened, and older generations, they still open: `clean`
/// removes those.
///
/// # Errors
/// Those of [`seal`]; but when files failed, no generation is made. The same call goes on from there.
pub fn rekey(
    store: &dyn Store,
    run: &RunSettings,
    options: &TransferOptions,
    sealed: &SealedOptions,
    key: Option<&Key>,
) -> Result<(Report, Sealed), OperationError> {
    let path = store.label();
    let fail = |error| Failure { path: path.clone(), error };
    contradictions::in_run(run).map_err(fail)?;
    let depot = Depot::of(store, run).map_err(fail)?;
    for _ in 0..=MOST_ATTEMPTS {
        let (newest, _) = snapshot(depot.origin, run, sealed).map_err(fail)?;
        let origin = Plain::new(&newest).map_err(fail)?;
        let replaces = retired(&newest).map_err(fail)?;
        let new_key = Some(NewKey { key, replaces, of: newest.generation.digest });
        let (origin, path) = (&origin, path.clone());
        let began = Cell::default();
        let writer = Writer { origin, store, depot, run, options, sealed, path, new_key, began };
        let done = total::beside(&newest, &Selection::default(), total::plain, || writer.write());
        if let Some(done) = done? {
            return Ok(done);
        }
    }
    Err(fail(refused(OVERTAKEN)).into())
}

pub(super) struct Writer<'a> {
    pub(super) origin: &'a dyn Origin,
    pub(super) store: &'a dyn Store,
    pub(super) depot: Depot<'a>,
    pub(super) run: &'a RunSettings,
    pub(super) options: &'a TransferOptions,
    pub(super) sealed: &'a SealedOptions,
    pub(super) path: PathBuf,
    /// To seal everything anew.
    pub(super) new_key: Option<NewKey<'a>>,
    /// True once this run has begun the tree.
    pub(super) began: Cell<bool>,
}

impl<'a> Writer<'a> {
    /// A writer of roots, which seals no source.
    pub(super) fn of(
        store: &'a dyn Store,
        run: &'a RunSettings,
        options: &'a TransferOptions,
        sealed: &'a SealedOptions,
    ) -> Result<Writer<'a>, FileError> {
        let depot = Depot::of(store, run)?;
        let (origin, path, new_key) = (depot.origin, store.label(), None);
        let began = Cell::default();
        Ok(Writer { origin, store, depot, run, options, sealed, path, new_key, began })
    }

    pub(super) fn fail(&self, error: FileError) -> Failure {
        Failure { path: self.path.clone(), error }
    }

    /// Makes a generation; `None` if others made some first, from which it would have to begin.
    fn write(&self) -> Result<Option<(Report, Sealed)>, OperationError> {
        let fail = |error| self.fail(error);
        let state = self.sealed.place_state();
        let tree = self.find_or_begin(state.as_ref()).map_err(fail)?;
        if let Some(state) = state.as_ref().filter(|_| self.new_key.is_none()) {
            self.sealed.check_audience(&self.depot, state, tree).map_err(fail)?;
        }
        let at_work = match self.sealed.dry_run {
            true => None,
            false => Some(AtWork::make(&self.depot, state.as_ref()).map_err(fail)?),
        };
        let mut attempts = 0;
        loop {
            let attempt = self.attempt(tree, state.as_ref(), at_work.as_ref())?;
            match attempt {
                Attempt::Done(done) => {
                    let (report, sealed) = *done;
                    if let Some(state) =
                        state.filter(|_| sealed.generation > 0 && at_work.is_some())
                    {
                        audience::keep(&state, tree, self.sealed.readers()).map_err(fail)?;
                        state
                            .sweep()
                            .and_then(|left| at_work::forget(&self.depot, left))
                            .and_then(|()| at_work::forget_dead(&self.depot, &state))
                            .map_err(fail)?;
                    }
                    drop(at_work);
                    return report.into_result().map(|report| Some((report, sealed)));
                }
                Attempt::Lost if attempts < MOST_ATTEMPTS && self.new_key.is_none() => {
                    attempts += 1;
                }
                Attempt::Lost => return Ok(None),
            }
        }
    }

    /// The tree that is there, or a new one.
    pub(super) fn find_or_begin(&self, state: Option<&State>) -> Result<TreeId, FileError> {
        if let Some(tree) = marker::read(&self.depot)? {
            return Ok(tree);
        }
        let _begins = match (state, self.sealed.dry_run) {
            (Some(state), false) => Some(state.lock_to_begin()?),
            _ => None,
        };
        // Another run may have begun it meanwhile.
        match marker::read(&self.depot)? {
            Some(tree) => Ok(tree),
            None => self.begin(state),
        }
    }

    fn begin(&self, state: Option<&State>) -> Result<TreeId, FileError> {
        let gone = self.sealed.gone(state)?;
        // A run that was killed at once may have left a temporary file.
        let is_other = |entry: &Entry| {
            let name = entry.name.path().as_os_str();
            !is_temporary_name(name.as_encoded_bytes())
        };
        if self.depot.list("")?.iter().any(is_other) {
            return Err(refused(
                "it holds something else; a sealed tree begins in a new or an empty directory",
            ));
        }
        let tree = TreeId::random()?;
        if self.sealed.dry_run {
            return Ok(tree);
        }
        if self.sealed.wrap.is_some() || self.sealed.signer.is_some() {
            Signing::of(state, self.sealed.signer.as_ref(), None)?;
        }
        if let Some(state) = state {
            let digest = RootDigest([0; 32]);
            let (signers, revoked) = (Vec::new(), Vec::new());
            state.keep_pin(&Pin { tree, number: 0, digest, signers, revoked }, true)?;
            audience::keep(state, tree, self.sealed.readers())?;
        }
        if let Some(gone) = gone {
            self.sealed.tell(&format!("began the tree {tree} in place of the tree {gone}"));
        }
        marker::create(&self.depot, tree)?;
        self.began.set(true);
        Ok(tree)
    }
}

/// How often a run begins again because of others.
pub(super) const MOST_ATTEMPTS: u32 = 16;

const OVERTAKEN: &str = "other runs made generations all the time, so none was made; try again";
const NOTHING: &str = "nothing was sealed: it holds neither files nor links nor directories, as where \
                       a disk is not mounted";
const NOTHING_SELECTED: &str = "nothing was sealed: --include, --exclude and --only leave out all files, so the \
                                next generation would hold none";
