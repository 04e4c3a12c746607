//! Makes a generation of a sealed tree from a source.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use evener_core::{Direction, IgnorePoison, Key};
use evener_format::index::{KeyId, Purpose, TreeId, TreeKeys};
use evener_keys::{KeyFormat, KeyMaterial};
use serde::Serialize;

use super::assembler::Assembler;
use super::at_work::{self, AtWork};
use super::base::Base;
use super::depot::{Created, Depot, refused};
use super::index_writer::{IndexDone, IndexSettings, IndexWriter};
use super::keys::{Keychain, Keys, wrapping, wrappings};
use super::marker;
use super::merge::Merge;
use super::old::Old;
use super::origin::Recipes;
use super::plain::Plain;
use super::reader::{At, snapshot};
use super::roots::{Pin, RootDigest, Roots, Step, Trust, root_path};
use super::sealing::Sealing;
use super::snapshot::Snapshot;
use super::state::{Begun, State, StateReader, Written};
use super::succession::{Signer, Signing};
use crate::place::{Entry, Origin, Store, seats_for};
use crate::record::Record;
use crate::seats::{self, Accounts};
use crate::temporary::is_temporary_name;
use crate::{
    Failure, FileError, KeyRing, Operation, OperationError, Report, RunSettings, SealedTree,
    TransferOptions, contradictions,
};
use evener_seal::{Request, Sealer, affordable_workers};

/// Wraps the text of a key for the recipients.
pub type Wrap = Arc<dyn Fn(&[u8]) -> Result<Vec<u8>, FileError> + Send + Sync>;

/// How a sealed tree is written and read.
#[derive(Clone, Default)]
pub struct SealedOptions {
    /// What opens the tree. Without [`SealedOptions::wrap`], its first key seals.
    pub keychain: Keychain,
    /// Wraps a fresh key for each generation.
    pub wrap: Option<Wrap>,
    /// The directory that holds the state of all places, and the name of this place in it.
    pub state: Option<(PathBuf, String)>,
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
/// was made.
pub fn seal(
    origin: &dyn Origin,
    store: &dyn Store,
    run: &RunSettings,
    options: &TransferOptions,
    sealed: &SealedOptions,
) -> Result<(Report, Sealed), OperationError> {
    let path = store.path().unwrap_or(Path::new("")).to_owned();
    let fail = |error| Failure { path: path.clone(), error };
    contradictions::in_run(run).map_err(fail)?;
    if let (Some(source), Some(target)) = (origin.path(), store.path()) {
        crate::tree::refuse_overlap(source, target)?;
    }
    let depot = Depot::of(store, run).map_err(fail)?;
    let path = path.clone();
    Writer {
        origin,
        store,
        depot,
        run,
        options,
        sealed,
        path,
        new_key: None,
        began: Cell::default(),
    }
    .write()
}

/// Seals the newest generation of a tree anew, under another key: under `key`, or under a fresh one
/// that [`SealedOptions::wrap`] wraps. [`SealedOptions::keychain`] opens the tree. Its old keys seal
/// no later generation. What they have opened, and older generations, they still open: `clean`
/// removes those.
///
/// # Errors
/// Those of [`seal`].
pub fn rekey(
    store: &dyn Store,
    run: &RunSettings,
    options: &TransferOptions,
    sealed: &SealedOptions,
    key: Option<&Key>,
) -> Result<(Report, Sealed), OperationError> {
    let path = store.path().unwrap_or(Path::new("")).to_owned();
    let fail = |error| Failure { path: path.clone(), error };
    contradictions::in_run(run).map_err(fail)?;
    let depot = Depot::of(store, run).map_err(fail)?;
    let (newest, _) = snapshot(depot.origin, run, sealed).map_err(fail)?;
    let origin = Plain::new(&newest).map_err(fail)?;
    let new_key = Some(NewKey { key, replaces: retired(&newest).map_err(fail)? });
    let path = path.clone();
    Writer {
        origin: &origin,
        store,
        depot,
        run,
        options,
        sealed,
        path,
        new_key,
        began: Cell::default(),
    }
    .write()
}

/// The keys that seal no generation after this one, if that has a new key.
fn retired(newest: &Snapshot<'_>) -> Result<Vec<KeyId>, FileError> {
    let roots = Roots { depot: &newest.depot, keys: &newest.keys };
    let mut retired: BTreeSet<KeyId> = newest.generation.claim.retired.iter().copied().collect();
    let mut step = Step::of(&newest.generation);
    loop {
        retired.insert(step.claim.key);
        if step.claim.before.is_none() {
            return Ok(retired.into_iter().collect());
        }
        step = roots.predecessor(&step)?;
    }
}

/// A key that takes the place of others.
pub(super) struct NewKey<'a> {
    /// `None` for a fresh one.
    key: Option<&'a Key>,
    replaces: Vec<KeyId>,
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

/// The key of this generation.
pub(super) struct Own {
    pub(super) keys: TreeKeys,
    /// The wrapped key.
    wrapped: Option<Vec<u8>>,
    is_published: Mutex<bool>,
}

impl Own {
    /// Stores the wrapped key, before the first file that it opens. Of a run without files there is
    /// none.
    pub(super) fn publish(&self, depot: &Depot<'_>) -> Result<(), FileError> {
        let mut is_published = self.is_published.lock().ignore_poison();
        if let Some(wrapped) = self.wrapped.as_ref().filter(|_| !*is_published) {
            let path = wrapping(self.keys.commitment().id(), 1);
            if depot.create(&path, wrapped)? == Created::Taken {
                return Err(refused(format!("`{path}` is there already")));
            }
        }
        *is_published = true;
        Ok(())
    }
}

impl Writer<'_> {
    fn fail(&self, error: FileError) -> Failure {
        Failure { path: self.path.clone(), error }
    }

    fn write(&self) -> Result<(Report, Sealed), OperationError> {
        let fail = |error| self.fail(error);
        let state = self.sealed.state.as_ref().map(|(all, place)| State::of(all, place));
        let tree = self.find_or_begin(state.as_ref()).map_err(fail)?;
        let at_work = match self.sealed.dry_run {
            true => None,
            false => Some(AtWork::make(&self.depot).map_err(fail)?),
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
                        state
                            .sweep()
                            .and_then(|left| at_work::forget(&self.depot, left))
                            .map_err(fail)?;
                    }
                    drop(at_work);
                    return report.into_result().map(|report| (report, sealed));
                }
                Attempt::Lost if attempts < MOST_ATTEMPTS => attempts += 1,
                Attempt::Lost => {
                    return Err(fail(refused(
                        "other runs made generations all the time, so none was made; try again",
                    ))
                    .into());
                }
            }
        }
    }

    /// The tree that is there, or a new one.
    fn find_or_begin(&self, state: Option<&State>) -> Result<TreeId, FileError> {
        if let Some(tree) = marker::read(&self.depot)? {
            return Ok(tree);
        }
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
            Signing::of(state, self.sealed.signer.as_ref())?;
        }
        if let Some(state) = state {
            let digest = RootDigest([0; 32]);
            let (signers, revoked) = (Vec::new(), Vec::new());
            state.keep_pin(&Pin { tree, number: 0, digest, signers, revoked }, true)?;
        }
        marker::create(&self.depot, tree)?;
        self.began.set(true);
        Ok(tree)
    }

    /// Makes one generation.
    fn attempt(
        &self,
        tree: TreeId,
        state: Option<&State>,
        at_work: Option<&AtWork<'_>>,
    ) -> Result<Attempt, OperationError> {
        let started = Instant::now();
        let fail = |error| self.fail(error);
        let keys = Keys::new(tree, &self.sealed.keychain).map_err(fail)?;
        let mut base = self.base(&keys, state).map_err(fail)?;
        let own = self.own_key(tree).map_err(fail)?;
        if let Some(new) = &self.new_key {
            if new.replaces.contains(&own.keys.commitment().id()) {
                return Err(fail(refused("the new key is one that the tree has had")).into());
            }
            base.retired = new.replaces.clone();
            base.state = None;
        }
        let signing = self.signing(&base, state).map_err(fail)?;
        let generation = base.next();
        let snapshot =
            base.opened.take().map(|generation| Snapshot { depot: self.depot, keys, generation });
        let settings = IndexSettings {
            depot: self.depot,
            own: &own,
            generation,
            border: base.border,
            padding: base.padding,
            dry_run: self.sealed.dry_run,
        };
        let stopped = state.and_then(|state| self.stopped(state, &base, &own));
        let state_writer = match (state, at_work) {
            (Some(state), Some(at_work)) => {
                Some(state.begin(&self.begun(&base, &own, at_work)).map_err(fail)?)
            }
            _ => None,
        };
        let index = IndexWriter::new(settings, state_writer);
        let assembler = Assembler::new(index, &self.run.control);
        let before = snapshot.as_ref().filter(|_| self.new_key.is_none());
        let mut old = Old::new(base.state.take(), base.is_own, before, stopped);
        let recipe =
            own.keys.recipe(Purpose::Data, generation).map_err(|error| fail(error.into()))?;
        let ring = KeyRing::new(recipe);
        let root = self.origin.path().unwrap_or(Path::new(""));
        let record = Record::new(self.run, root);
        let (cipher, direction) = (ring.primary().cipher(), Direction::Encrypt);
        let able = seats::able(self.run, cipher, direction).map_err(fail)?;
        let abilities = [self.origin.abilities(), self.store.abilities()];
        let requests = abilities.iter().map(|it| it.requests()).filter(|most| *most > 1).min();
        let mut seats = seats_for(&able, requests.unwrap_or(1));
        seats.truncate(affordable_workers(self.run.memory, &ring));
        let sealing = Sealing {
            origin: self.origin,
            store: self.store,
            depot: self.depot,
            keys: &ring,
            own: &own,
            generation,
            padding: base.padding,
            has_hashes: signing.is_some(),
            skip_changing: self.sealed.skip_changing,
            names: Mutex::default(),
            assembler: &assembler,
            before,
            recipes: Recipes::default(),
            control: &self.run.control,
            record: &record,
        };
        let accounts = Accounts::open(&seats);
        let request = Request {
            operation: Operation::Encrypt,
            keys: &ring,
            control: &self.run.control,
            seats: &seats,
            memory: self.run.memory,
            length: None,
            reads_back: false,
            order: None,
        };
        let sealer = Sealer::new(&sealing, &request);
        let run_options = self.run.options(cipher, direction, QUEUED_TASKS);
        let mut merge = Merge::new(
            self.origin,
            &assembler,
            &record,
            self.options,
            self.sealed,
            self.new_key.is_some(),
        );
        let statistics = evener_pipeline::run(&seats, &run_options, &sealer, |queue| {
            merge.walk(&mut old, &sealer.feed(queue));
        });
        let unverified = sealer.unverified();
        let found = merge.end(&mut old);
        let mut report = Report {
            operation: "encrypt".to_owned(),
            format: ring.primary().format().to_owned(),
            cipher: cipher.to_string(),
            update: base.claim.is_some(),
            dry_run: self.sealed.dry_run,
            hard_links: found.hard_links,
            symlinks: found.symlinks,
            directories: found.directories,
            ..Report::default()
        };
        let is_stopped = self.run.control.is_stopped();
        let mut result = Sealed { gone: found.gone, moved: found.moved, ..Sealed::default() };
        if self.sealed.dry_run {
            result.generation = base.next();
        } else if !is_stopped {
            match self.commit(assembler.end(), base, &own, signing.as_ref(), state) {
                Ok(Some((number, is_new))) => (result.generation, result.is_new) = (number, is_new),
                Ok(None) => return Ok(Attempt::Lost),
                Err(error) => record.failed_of(self.path.clone(), error),
            }
        }
        result.signer = signing.map(|signing| signing.public().fingerprint());
        report.sealed = (result.generation > 0).then(|| SealedTree::Made(result.clone()));
        record.into_report(&mut report);
        report.add_statistics(statistics);
        accounts.settle(&mut report);
        let files = unverified.files.into_iter();
        report.add_doubts(files.map(|(engine, path)| (engine, root.join(path))));
        report.add_unnamed_doubts(root, unverified.unnamed);
        // What signs may be stopped too.
        let is_undone = result.generation == 0 && self.run.control.is_stopped();
        report.interrupted |= is_stopped || is_undone;
        report.seconds = started.elapsed().as_secs_f64();
        Ok(Attempt::Done(Box::new((report, result))))
    }

    /// This run, for one that goes on if it is stopped.
    fn begun(&self, base: &Base, own: &Own, at_work: &AtWork<'_>) -> Begun {
        Begun {
            tree: own.keys.tree().to_string(),
            time: at_work.time,
            key: own.keys.commitment().to_string(),
            base: base.claim.as_ref().map(|(_, digest)| digest.to_string()),
            has_new_key: self.new_key.is_some(),
            xattrs: self.sealed.xattrs,
            cleaned: base.cleaned(),
            writer: at_work.name().to_owned(),
        }
    }

    /// A run that was stopped, from which this one can go on: nothing was cleaned since, and its key
    /// is this one's, or is there wrapped.
    fn stopped(&self, state: &State, base: &Base, own: &Own) -> Option<StateReader> {
        let root = base.claim.as_ref().map(|(_, digest)| digest.to_string());
        let fits = |stopped: &StateReader| {
            let Begun { tree, time, key, base: built_on, has_new_key, cleaned, .. } =
                &stopped.begun;
            let is_own = *key == own.keys.commitment().to_string();
            let id = KeyId::from_text(key.get(..32).unwrap_or_default());
            let is_wrapped = || {
                let there = id.map(|id| wrappings(&self.depot, id));
                own.wrapped.is_some() && there.is_some_and(|it| it.is_ok_and(|it| !it.is_empty()))
            };
            *tree == own.keys.tree().to_string()
                && base.cutoff() <= *time
                && base.cleaned() == *cleaned
                && *has_new_key == self.new_key.is_some()
                && (!has_new_key || *built_on == root)
                && (is_own || is_wrapped())
        };
        state.partials().into_iter().find(fits)
    }

    fn own_key(&self, tree: TreeId) -> Result<Own, FileError> {
        let given = self.new_key.as_ref().and_then(|new| new.key);
        let Some(wrap) = self.sealed.wrap.as_ref().filter(|_| given.is_none()) else {
            let key = match &self.new_key {
                Some(new) => new.key,
                None => self.sealed.keychain.keys.first(),
            };
            let key = key.ok_or_else(|| refused("no key was given that could seal the tree"))?;
            let keys = TreeKeys::new(key, tree)?;
            return Ok(Own { keys, wrapped: None, is_published: Mutex::default() });
        };
        let material = KeyMaterial::generate(KeyFormat::Cobblestone256);
        let material = material.map_err(|error| refused(error.to_string()))?;
        let keys = TreeKeys::new(key_of(&material)?, tree)?;
        let wrapped = match self.sealed.dry_run {
            true => None,
            false => Some(wrap(material.to_text().as_bytes())?),
        };
        Ok(Own { keys, wrapped, is_published: Mutex::default() })
    }

    /// Who signs the generation; `None` if nobody does.
    fn signing(&self, base: &Base, state: Option<&State>) -> Result<Option<Signing>, FileError> {
        let SealedOptions { wrap, signer, .. } = self.sealed;
        if wrap.is_none() && signer.is_none() && base.signers.is_empty() {
            return Ok(None);
        }
        Signing::of(state, signer.as_ref())?.among(&base.signers).map(Some)
    }

    /// Writes the root. Returns its number, and whether it is new; `None` if other runs have made
    /// generations meanwhile and cleaned, so that content may be gone.
    fn commit(
        &self,
        index: Result<IndexDone, FileError>,
        mut base: Base,
        own: &Own,
        signing: Option<&Signing>,
        state: Option<&State>,
    ) -> Result<Option<(u64, bool)>, FileError> {
        let mut index = index?;
        let was = base.claim.as_ref().map(|(claim, _)| claim.number);
        let is_first_signed = signing.is_some() && base.signers.is_empty();
        if let (Some(was), true, false) = (was, index.is_same, is_first_signed) {
            if let Some(state) = index.state.take() {
                state.discard();
            }
            return Ok(Some((was, false)));
        }
        own.publish(&self.depot)?;
        if self.options.durable {
            self.store.sync()?;
        }
        for _ in 0..MOST_ATTEMPTS {
            if let Some(number) = self.publish(&mut index, &base, own, signing, state)? {
                return Ok(Some((number, true)));
            }
            let keys = Keys::new(own.keys.tree(), &self.sealed.keychain)?;
            let next = self.base(&keys, state)?;
            if next.cleaned() != base.cleaned() {
                return Ok(None);
            }
            base = Base { retired: base.retired, ..next };
        }
        Ok(None)
    }

    /// Publishes a root; `None` if its number is taken.
    fn publish(
        &self,
        index: &mut IndexDone,
        base: &Base,
        own: &Own,
        signing: Option<&Signing>,
        state: Option<&State>,
    ) -> Result<Option<u64>, FileError> {
        let root = base.root(index, own, signing);
        let (bytes, pin) = root.write(&self.depot, &own.keys, signing)?;
        if let Some(writer) = &mut index.state {
            let padding = base.padding.map(|padding| padding.floor);
            writer.end(&Written { pin: pin.clone(), border: base.border.0, padding })?;
        }
        if self.depot.create(&root_path(pin.number), &bytes)? == Created::Taken {
            return Ok(None);
        }
        if self.options.durable {
            self.store.sync()?;
        }
        match (index.state.take(), state) {
            (Some(writer), _) => writer.keep(&pin)?,
            (None, Some(state)) => state.keep_pin(&pin, false)?,
            (None, None) => {}
        }
        Ok(Some(pin.number))
    }
}

enum Attempt {
    Done(Box<(Report, Sealed)>),
    /// Another run made a generation meanwhile.
    Lost,
}

fn key_of(material: &KeyMaterial) -> Result<&Key, FileError> {
    match material {
        KeyMaterial::Cobblestone { key, .. } => Ok(key),
        KeyMaterial::Tink(_) => Err(refused("a sealed tree needs a key for cobblestone-256")),
    }
}

const QUEUED_TASKS: usize = 64;
const MOST_ATTEMPTS: u32 = 16;
