//! Operations on sealed trees.

use std::path::Path;
use std::sync::Arc;

use facade::place::Local;
use facade::sealed_trees::{
    At, Depth, Later, Sealed, SealedOptions, SignerChange, TreeSigner, is_sealed, own_signer,
};
use facade::{
    Control, Evener, Failure, FileError, Key, Operation, OperationError, Refusal, Report,
    RunSettings, SealedTree,
};
use serde_json::{Value, to_value};

use super::item::Item;
use super::options::{TreeFlag, TreeWishes, lines};
use crate::file::FileKeyHandle;
use crate::file::options::Flag;
use crate::file::report::Outcome;
use crate::status::{Status, Trouble};

/// A sealed tree, with what opens it.
pub(crate) struct OpenTree<'a> {
    path: &'a Path,
    wishes: &'a TreeWishes<'a>,
    evener: Evener,
    sealed: SealedOptions,
    pub(crate) control: Arc<Control>,
}

/// Takes items until it returns false.
pub(crate) type Each<'a> = &'a mut dyn FnMut(&Item) -> bool;

impl<'a> OpenTree<'a> {
    /// Prepares a tree that `key` opens, to read or to write it.
    pub(crate) fn new(
        operation: Operation,
        path: &'a Path,
        wishes: &'a TreeWishes<'a>,
        key: &FileKeyHandle,
    ) -> Result<OpenTree<'a>, Trouble> {
        let control = Arc::new(Control::default());
        let evener = wishes
            .evener(operation)?
            .with_options(|options| options.run.control = Arc::clone(&control));
        let sealed = wishes.sealed(path, key.keychain(None)?)?;
        Ok(OpenTree { path, wishes, evener, sealed, control })
    }

    /// Opens the tree also with the identities of a second key.
    pub(crate) fn opened_by(mut self, [key, other]: [&FileKeyHandle; 2]) -> Result<Self, Trouble> {
        self.sealed.keychain = key.keychain(Some(other))?;
        Ok(self)
    }

    /// Wraps the fresh keys of new generations.
    pub(crate) fn wrapping(mut self, key: &FileKeyHandle) -> Result<OpenTree<'a>, Trouble> {
        self.sealed.wrap = key.wrap()?;
        self.sealed.keeps_key = key.is_passphrase();
        self.sealed.audience = key.audience();
        Ok(self)
    }

    /// Seals a source with a key.
    pub(crate) fn seal(&self, source: &Path, key: &FileKeyHandle) -> Outcome {
        self.outcome("encrypt", |tree| {
            let (source, sealed) = (self.evener.local(source), &self.sealed);
            // A mistyped passphrase would be that of the new generation.
            if key.is_passphrase() && is_tree(tree) {
                self.evener.signers_of_tree(tree, sealed)?;
            }
            Ok((self.evener.seal_tree(&source, tree, sealed)?.0, None))
        })
    }

    pub(crate) fn rekey(&self, key: Option<&Key>) -> Outcome {
        self.outcome("rekey", |tree| Ok((self.evener.rekey_tree(tree, &self.sealed, key)?.0, None)))
    }

    /// Decrypts to a target, or verifies without one.
    pub(crate) fn read(&self, target: Option<&Path>) -> Outcome {
        let (evener, sealed) = (&self.evener, &self.sealed);
        let operation = target.map_or(Operation::Verify, |_| Operation::Decrypt);
        self.outcome(operation.name(), |tree| {
            let target = target.map(|target| evener.local(target));
            let target = target.as_ref().map(|target: &Local| target as _);
            let read = match operation == Operation::Verify && self.wishes.has(TreeFlag::Quick) {
                true => evener.verify_tree_quickly(tree, sealed),
                false => evener.open_tree(operation, tree, target, sealed),
            };
            Ok((read?.0, None))
        })
    }

    pub(crate) fn list(&self, each: Each<'_>) -> Outcome {
        let depth = if self.wishes.has(TreeFlag::Shallow) { Depth::One } else { Depth::All };
        self.outcome("list", |tree| {
            let mut report = Report::default();
            let mut listed = |entry| match entry {
                Ok(entry) => each(&Item::of_entry(&entry)),
                Err(failure) => {
                    report.failures.push(failure);
                    true
                }
            };
            let read = self.evener.list_tree(tree, depth, &self.sealed, &mut listed)?;
            report.sealed = Some(SealedTree::Read(read));
            Ok((report, None))
        })
    }

    pub(crate) fn generations(&self, each: Each<'_>) -> Outcome {
        self.outcome("generations", |tree| {
            let mut report = Report::default();
            let mut listed = |number: u64, is_whole, info| match info {
                Ok(info) => {
                    let goes_on = each(&Item::of_generation(&info, is_whole));
                    report.sealed.get_or_insert(SealedTree::Read(info));
                    goes_on
                }
                // Keys of removed generations are no longer needed.
                Err(_) if !is_whole => true,
                Err(error) => {
                    let path = self.path.join(format!("tree/{number:019}"));
                    report.failures.push(Failure { path, error });
                    true
                }
            };
            self.evener.list_generations(tree, &self.sealed, &mut listed)?;
            Ok((report, None))
        })
    }

    /// Compares with a directory, or with a generation, of which 0 is the newest one.
    pub(crate) fn diff(
        &self,
        generation: u64,
        directory: Option<&Path>,
        each: Each<'_>,
    ) -> Outcome {
        self.outcome("diff", |tree| {
            let place = directory.map(|directory| self.evener.local(directory));
            let later = match &place {
                Some(place) => Later::Place(place),
                None if generation > 0 => Later::Generation(At::Number(generation)),
                None => Later::Generation(At::Newest),
            };
            let mut differs = |it| each(&Item::of_difference(&it));
            self.evener.diff_tree(tree, later, &self.sealed, &mut differs)?;
            Ok((Report::default(), None))
        })
    }

    pub(crate) fn clean(&self) -> Outcome {
        self.outcome("clean", |tree| {
            let cleaned = self.evener.clean_tree(tree, &self.wishes.clean(), &self.sealed)?;
            let report = cleaned.generation.map_or_else(Report::default, made);
            Ok((report, to_value(&cleaned).ok()))
        })
    }

    /// Wraps the keys for the recipients of `key`.
    pub(crate) fn rewrap(&self, key: &FileKeyHandle) -> Result<Outcome, Trouble> {
        self.refuse_dry_run()?;
        let wrap = key.wrap()?.filter(|_| key.has_recipients());
        let wrap = wrap.ok_or_else(|| Trouble::argument("the new key has no recipients"))?;
        let trusts = self.wishes.has(TreeFlag::TrustUnopened);
        let sealed = SealedOptions { audience: key.audience(), ..self.sealed.clone() };
        Ok(self.outcome("rewrap", |tree| {
            let done = self.evener.rewrap_tree(tree, &wrap, trusts, &sealed)?;
            let mut report = Report::default();
            report.failures = done.faults.iter().map(|fault| self.refused(fault.clone())).collect();
            Ok((report.into_result()?, to_value(&done).ok()))
        }))
    }

    pub(crate) fn signers(&self, each: Each<'_>) -> Outcome {
        self.outcome("signers", |tree| {
            let (signers, revoked, read) = self.evener.signers_of_tree(tree, &self.sealed)?;
            let signers = signers.iter().map(Item::of_signer);
            let revoked = revoked.iter().map(|(key, last)| Item::of_revoked(key, *last));
            signers.chain(revoked).all(|item| each(&item));
            let mut report = Report::default();
            report.sealed = Some(SealedTree::Read(read));
            Ok((report, None))
        })
    }

    /// Admits the signers of the lines `add`, and removes and revokes those with these fingerprints.
    pub(crate) fn change_signers(
        &self,
        [add, remove, revoke]: [Option<&str>; 3],
    ) -> Result<Outcome, Trouble> {
        self.refuse_dry_run()?;
        let add = lines(add).map(|line| {
            TreeSigner::from_line(line).map_err(|error| Trouble::argument(error.to_string()))
        });
        let add = add.collect::<Result<_, _>>()?;
        let revoke = lines(revoke).map(revocation).collect::<Result<Vec<_>, _>>()?;
        Ok(self.outcome("signers", |tree| {
            let (known, ..) = self.evener.signers_of_tree(tree, &self.sealed)?;
            let named = |fingerprint: &str| {
                let mut keys = known.iter().map(|signer| &signer.key);
                keys.find(|key| key.fingerprint() == fingerprint).cloned().ok_or_else(|| {
                    self.refused(format!("{fingerprint} is none of the tree's signers"))
                })
            };
            let remove = lines(remove).map(named).collect::<Result<_, _>>()?;
            let revoke = revoke.iter().map(|(name, last)| Ok((named(name)?, *last)));
            let revoke = revoke.collect::<Result<_, Failure>>()?;
            let change = SignerChange { add, remove, revoke };
            let number = self.evener.change_signers(tree, &change, &self.sealed)?;
            Ok((made(number), None))
        }))
    }

    fn refuse_dry_run(&self) -> Result<(), Trouble> {
        match self.wishes.files.has(Flag::DryRun) {
            true => Err(Trouble::argument("this can't be tried: leave EVENER_FLAG_DRY_RUN out")),
            false => Ok(()),
        }
    }

    fn refused(&self, reason: String) -> Failure {
        Failure { path: self.path.to_owned(), error: Refusal::Other(reason).into() }
    }

    fn outcome(
        &self,
        operation: &str,
        operate: impl FnOnce(&Local) -> Result<(Report, Option<Value>), OperationError>,
    ) -> Outcome {
        let mut document = None;
        let outcome = Outcome::of(operation, self.path, &self.control, || {
            let (mut report, result) = operate(&self.evener.local(self.path))?;
            document = result;
            if report.operation.is_empty() {
                operation.clone_into(&mut report.operation);
            }
            Ok(report)
        });
        Outcome { report: outcome.report.with_document(document), ..outcome }
    }
}

fn is_tree(place: &Local) -> bool {
    is_sealed(place, &RunSettings::default()).unwrap_or(true)
}

/// The line with which another machine admits this one.
pub(crate) fn own_line(path: &Path, wishes: &TreeWishes<'_>) -> Result<Item, Trouble> {
    let sealed = wishes.sealed(path, Default::default())?;
    let own = own_signer(&Local::new(path, &Default::default()), &sealed);
    let own = own.map_err(|error: FileError| Trouble::new(Status::File, error.to_string()))?;
    Ok(Item::of_signer(&own))
}

/// The report of an operation that has made a generation and nothing else.
fn made(generation: u64) -> Report {
    let mut sealed = Sealed::default();
    (sealed.generation, sealed.is_new) = (generation, true);
    let mut report = Report::default();
    report.sealed = Some(SealedTree::Made(sealed));
    report
}

/// Reads `SHA256:…@N`.
fn revocation(line: &str) -> Result<(String, u64), Trouble> {
    let parts = line.rsplit_once('@');
    let read = parts.and_then(|(key, last)| Some((key.to_owned(), last.parse().ok()?)));
    read.ok_or_else(|| {
        Trouble::argument("not a fingerprint and a generation, such as SHA256:...@12")
    })
}
