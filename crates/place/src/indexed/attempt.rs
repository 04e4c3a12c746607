//! Makes one generation.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use evener_core::{Direction, Engine};
use evener_format::index::{KeyId, Purpose, TreeId};
use evener_pipeline::RunStatistics;

use super::assembler::Assembler;
use super::at_work::AtWork;
use super::base::Base;
use super::depot::refused;
use super::firsts::Firsts;
use super::index_writer::{IndexSettings, IndexWriter};
use super::keys::{Keys, wrappings};
use super::merge::{Found, Merge};
use super::old::Old;
use super::origin::Recipes;
use super::own::Own;
use super::sealing::Sealing;
use super::snapshot::Snapshot;
use super::state::{Begun, State, StateReader};
use super::succession::Signing;
use super::writer::{Sealed, SealedOptions, Writer};
use crate::place::seats_for;
use crate::record::Record;
use crate::seats::{self, Accounts};
use crate::{Fault, FileError, KeyRing, Operation, OperationError, Report, SealedTree};
use evener_seal::{Request, Sealer, affordable_workers};

/// The result of making one generation.
pub(super) enum Attempt {
    Done(Box<(Report, Sealed)>),
    /// Another run made a generation meanwhile.
    Lost,
}

/// The base, the keys and the signer of a generation.
struct Plan<'a> {
    base: Base,
    own: Own,
    signing: Option<Signing>,
    /// The generation before, if its index can be read.
    snapshot: Option<Snapshot<'a>>,
    /// The state of a tree that is sealed anew, for the stamps of its sources.
    sources: Option<StateReader>,
}

/// The work that the workers have done.
pub(super) struct Done {
    found: Found,
    statistics: RunStatistics,
    accounts: Accounts,
    /// The files that engines did without verification, and the number of others, by engine.
    unverified: Vec<(String, PathBuf)>,
    unnamed: Vec<(String, u64)>,
}

impl Writer<'_> {
    /// Makes one generation.
    pub(super) fn attempt(
        &self,
        tree: TreeId,
        state: Option<&State>,
        at_work: Option<&AtWork<'_>>,
    ) -> Result<Attempt, OperationError> {
        let started = Instant::now();
        let fail = |error| self.fail(error);
        let Plan { mut base, own, signing, snapshot, sources } =
            self.plan(tree, state).map_err(fail)?;
        if self.new_key.as_ref().is_some_and(|new| !base.is_on(new.of)) {
            return Ok(Attempt::Lost);
        }
        let (generation, update) = (base.next(), base.claim.is_some());
        let forgets =
            update && snapshot.is_none() && base.state.is_none() && self.new_key.is_none();
        let stopped = state.map_or_else(Vec::new, |state| self.stopped(state, &base, &own));
        let index = self.index(&base, &own, state.zip(at_work)).map_err(fail)?;
        let before = snapshot.as_ref().filter(|_| self.new_key.is_none());
        let firsts = Firsts::new(base.state.as_ref(), base.is_own, before);
        let assembler = Assembler::new(index, firsts, &self.run.control);
        let mut old = Old::new(base.state.take(), base.is_own, before, stopped, sources);
        let recipe =
            own.keys.recipe(Purpose::Data, generation).map_err(|error| fail(error.into()))?;
        let ring = KeyRing::new(recipe);
        let root = self.origin.label();
        let record = Record::new(self.run, &root);
        if forgets {
            record.notice(Path::new(""), NOTES_REMOVED.to_owned());
        }
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
            shard: None,
        };
        let done = self.seal_changed(&sealing, &mut old).map_err(fail)?;
        let is_stopped = self.run.control.is_stopped();
        let is_closed = assembler.has_failed();
        let Found { gone, moved, .. } = done.found;
        let mut result = Sealed { gone, moved, ..Sealed::default() };
        if self.sealed.dry_run {
            result.generation = generation;
        } else if self.new_key.is_some() && !is_stopped && !record.is_success() && !is_closed {
            // Without the old key, nobody could add what is missing.
            record.notice(Path::new(""), NO_GENERATION.to_owned());
        } else if !is_stopped {
            match self.commit(assembler.end(), base, &own, signing.as_ref(), state) {
                Ok(Some((number, is_new))) => (result.generation, result.is_new) = (number, is_new),
                Ok(None) => return Ok(Attempt::Lost),
                Err(error) => {
                    record.give_up();
                    record.failed_of(self.path.clone(), not_yet(error));
                }
            }
        }
        result.signer = signing.map(|signing| signing.public().fingerprint());
        let mut report = self.report(&ring, done, record, &result);
        // The signer may be stopped too.
        let is_undone = result.generation == 0 && self.run.control.is_stopped();
        report.update = update;
        report.interrupted |= is_stopped || is_undone;
        report.seconds = started.elapsed().as_secs_f64();
        Ok(Attempt::Done(Box::new((report, result))))
    }

    fn plan(&self, tree: TreeId, state: Option<&State>) -> Result<Plan<'_>, FileError> {
        let keys = Keys::new(tree, &self.sealed.keychain)?;
        let mut base = self.base(&keys, state)?;
        let own = self.own_key(&keys, &base)?;
        let mut sources = None;
        if let Some(new) = &self.new_key {
            if new.replaces.contains(&own.keys.commitment().id()) {
                return Err(refused("the new key is one that the tree has had"));
            }
            base.retired = new.replaces.clone();
            sources = base.state.take().filter(|_| base.is_own);
        }
        let signing = self.signing(&base, state, tree)?;
        let snapshot =
            base.opened.take().map(|generation| Snapshot { depot: self.depot, keys, generation });
        Ok(Plan { base, own, signing, snapshot, sources })
    }

    /// Begins the index, and the state if there is one.
    fn index<'o>(
        &'o self,
        base: &Base,
        own: &'o Own,
        state: Option<(&State, &AtWork<'_>)>,
    ) -> Result<IndexWriter<'o>, FileError> {
        let settings = IndexSettings {
            depot: self.depot,
            own,
            generation: base.next(),
            border: base.border,
            padding: base.padding,
            dry_run: self.sealed.dry_run,
            part: None,
        };
        let begin = |(state, at_work): (&State, &AtWork<'_>)| {
            state.begin(&self.begun(base, own, at_work), base.state.as_ref())
        };
        Ok(IndexWriter::new(settings, state.map(begin).transpose()?))
    }

    /// Walks the source, and has workers seal the files that have changed.
    pub(super) fn seal_changed<'s>(
        &'s self,
        sealing: &Sealing<'s>,
        old: &mut Old<'_>,
    ) -> Result<Done, FileError> {
        let (keys, direction) = (sealing.keys, Direction::Encrypt);
        let seats = self.seats(keys)?;
        let accounts = Accounts::open(&seats);
        let request = Request {
            operation: Operation::Encrypt,
            keys,
            control: &self.run.control,
            seats: &seats,
            memory: self.run.memory,
            length: None,
            reads_back: false,
            order: None,
        };
        let sealer = Sealer::new(sealing, &request);
        let options = self.run.options(keys.primary().cipher(), direction, QUEUED_TASKS);
        let mut merge = Merge::new(
            self.origin,
            sealing.assembler,
            sealing.record,
            self.options,
            self.sealed,
            self.new_key.is_some(),
        );
        let statistics = evener_pipeline::run(&seats, &options, &sealer, |queue| {
            merge.walk(old, &sealer.feed(queue));
        });
        let unverified = sealer.unverified();
        let found = merge.end(old);
        let (unverified, unnamed) = (unverified.files, unverified.unnamed);
        Ok(Done { found, statistics, accounts, unverified, unnamed })
    }

    fn seats(&self, keys: &KeyRing) -> Result<Vec<Arc<dyn Engine>>, FileError> {
        let able = seats::able(self.run, keys.primary().cipher(), Direction::Encrypt)?;
        let abilities = [self.origin.abilities(), self.store.abilities()];
        let requests = abilities.iter().map(|it| it.requests()).filter(|most| *most > 1).min();
        let mut seats = seats_for(&able, requests.unwrap_or(1));
        seats.truncate(affordable_workers(self.run.memory, keys));
        Ok(seats)
    }

    pub(super) fn report(
        &self,
        keys: &KeyRing,
        done: Done,
        record: Record<'_>,
        result: &Sealed,
    ) -> Report {
        let Done { found, statistics, accounts, unverified, unnamed } = done;
        let mut report = Report {
            operation: "encrypt".to_owned(),
            format: keys.primary().format().to_owned(),
            cipher: keys.primary().cipher().to_string(),
            dry_run: self.sealed.dry_run,
            hard_links: found.hard_links,
            symlinks: found.symlinks,
            directories: found.directories,
            sealed: (result.generation > 0).then(|| SealedTree::Made(result.clone())),
            ..Report::default()
        };
        record.into_report(&mut report);
        report.add_statistics(statistics);
        accounts.settle(&mut report);
        let root = self.origin.label();
        let files = unverified.into_iter();
        report.add_doubts(files.map(|(engine, path)| (engine, root.join(path))));
        report.add_unnamed_doubts(&root, unnamed);
        report
    }

    /// This run, for one that goes on if it is stopped.
    fn begun(&self, base: &Base, own: &Own, at_work: &AtWork<'_>) -> Begun {
        Begun {
            tree: own.keys.tree().to_string(),
            time: at_work.time,
            key: own.keys.commitment().to_string(),
            base: base.claim.as_ref().map(|(_, digest)| digest.to_string()),
            has_new_key: self.new_key.is_some(),
            audience: self.sealed.readers().map(str::to_owned),
            xattrs: self.sealed.xattrs,
            cleaned: base.cleaned(),
            writer: at_work.name().to_owned(),
        }
    }

    /// Runs that were stopped, from which this one can go on: nothing was cleaned since, and the key
    /// is this one's, or is there wrapped for the same recipients. A key from before `rekey` is not.
    fn stopped(&self, state: &State, base: &Base, own: &Own) -> Vec<StateReader> {
        let root = base.claim.as_ref().map(|(_, digest)| digest.to_string());
        let fits = |stopped: &StateReader| {
            let Begun { tree, time, key, base: built_on, has_new_key, audience, cleaned, .. } =
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
                && (base.retired.is_empty() || *built_on == root)
                && audience.as_deref() == self.sealed.readers()
                && (is_own || is_wrapped())
        };
        state.partials().into_iter().filter(fits).collect()
    }

    /// The signer of the generation; `None` if nobody signs.
    fn signing(
        &self,
        base: &Base,
        state: Option<&State>,
        tree: TreeId,
    ) -> Result<Option<Signing>, FileError> {
        let SealedOptions { wrap, signer, .. } = self.sealed;
        if wrap.is_none() && signer.is_none() && base.signers.is_empty() {
            return Ok(None);
        }
        Signing::of(state, signer.as_ref(), Some(tree))?.among(&base.signers).map(Some)
    }
}

/// Adds to the error of a full or read-only place that no generation was made.
fn not_yet(error: FileError) -> FileError {
    match error {
        FileError::Place(Fault::Closed(reason)) => {
            Fault::Closed(format!("{reason}; {NOT_YET}")).into()
        }
        error => error,
    }
}

const QUEUED_TASKS: usize = 64;
const NOT_YET: &str = "no generation was made; repair this, then run it again to go on";
const NO_GENERATION: &str = "no generation was made, and the tree keeps its key, because files failed; run it \
                             again to go on. If one is damaged, first seal it from its source (encrypt \
                             --sealed --checksum), or remove it from there and seal the rest";
const NOTES_REMOVED: &str = "this machine's notes are on a generation that was removed, or that had \
                             another key, so everything is sealed again";
