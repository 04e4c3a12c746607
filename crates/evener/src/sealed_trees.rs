//! Sealed trees: sources behind an encrypted index, in generations. docs/design/formats.md has the format.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::{env, fs, io};

use evener_core::Key;
use evener_keys::Fingerprint;
use evener_keys::age::Recipient;
use evener_keys::signing::PublicKey;
use evener_place::indexed;
use evener_place::{
    Failure, FileError, Local, Name, Operation, OperationError, Origin, RandomAccess, Report, Store,
};

pub use evener_place::indexed::{
    At, Change, CleanOptions, Cleaned, Depth, Difference, GenerationInfo, Keychain, Later,
    ListedEntry, OnAccepted, Opened, Rewrapped, RootDigest, Sealed, SealedOptions, Sign, Signer,
    SignerChange, TreeSigner, Trust, Wrap, is_sealed, known_places, lasting_files, own_signer,
    refuse_gone, take_over,
};

use crate::operations::cannot_begin;
use crate::seated::Seated;
use crate::{Evener, Options};

/// The directory of this user's own state of Evener's: `$XDG_STATE_HOME/evener/NAME`, or the same
/// below `.local/state` in the home directory. `None` where the environment names neither. That of
/// sealed trees is `trees`.
pub fn state_directory(name: &str) -> Option<PathBuf> {
    let absolute =
        |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state =
        absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local").join("state")));
    Some(state?.join("evener").join(name))
}

/// The name of a tree's place in [`SealedOptions::state`], as the program has it: its path without
/// links. The tree may be absent.
pub fn state_name(tree: &Path) -> String {
    text_of(&without_links(tree))
}

fn without_links(tree: &Path) -> PathBuf {
    let path = fs::canonicalize(tree).or_else(|_| {
        let above = tree.parent().filter(|above| !above.as_os_str().is_empty());
        let above = fs::canonicalize(above.unwrap_or(Path::new(".")))?;
        Ok::<_, io::Error>(above.join(tree.file_name().unwrap_or_default()))
    });
    path.unwrap_or_else(|_| tree.to_owned())
}

/// The other name of a tree's place, [`SealedOptions::alias`], as the program has it: its absolute
/// path as it was typed, without `.` and `..`, but with links.
pub fn typed_name(tree: &Path) -> String {
    text_of(&as_typed(tree))
}

fn as_typed(tree: &Path) -> PathBuf {
    let mut path = PathBuf::new();
    for part in std::path::absolute(tree).unwrap_or_else(|_| tree.to_owned()).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            part => path.push(part),
        }
    }
    path
}

/// Options with this user's state of a tree.
pub fn remembered(tree: &Path) -> SealedOptions {
    SealedOptions {
        state: state_directory("trees").map(|all| (all, state_name(tree))),
        alias: Some(typed_name(tree)),
        ..SealedOptions::default()
    }
}

/// Refuses a path if this user has seen a sealed tree there, or in a directory above it, that is gone.
/// With [`Trust::rollback`], it forgets such a tree, and returns true. It uses only the trust and
/// [`SealedOptions::on_accepted`] of the options. [`Evener::process`], [`Evener::rekey`] and
/// [`Evener::list`] call it for the encrypted side.
///
/// # Errors
/// When a tree is gone, or the state can't be read.
pub fn refuse_gone_at(path: &Path, options: &SealedOptions) -> Result<bool, Failure> {
    let all = state_directory("trees").filter(|all| all.is_dir());
    let Some(all) = all else { return Ok(false) };
    let (real, typed) = (without_links(path), as_typed(path));
    let mut is_forgotten = false;
    for place in real.ancestors().chain(typed.ancestors()).collect::<BTreeSet<_>>() {
        let state = Some((all.clone(), text_of(place)));
        let known = SealedOptions { state, alias: None, ..options.clone() };
        let strict = SealedOptions { trust: Trust::default(), ..known.clone() };
        // Don't look at a path where no tree was seen.
        if refuse_gone(&strict).is_err() && !place.join(MARKER).is_file() {
            let shown = if place == real || place == typed { path } else { place };
            is_forgotten |= refuse_gone(&known).map_err(at(shown.to_owned()))?;
        }
    }
    Ok(is_forgotten)
}

/// A word that stands for a set of recipients, or for a passphrase if there are none. The program
/// uses it as [`SealedOptions::audience`].
pub fn audience(recipients: &[Recipient]) -> String {
    if recipients.is_empty() {
        return "passphrase".to_owned();
    }
    let names: BTreeSet<_> = recipients.iter().map(Recipient::to_string).collect();
    Fingerprint::of(names.into_iter().collect::<Vec<_>>().join("\n").as_bytes()).to_string()
}

fn text_of(path: &Path) -> String {
    match path.to_str() {
        Some(path) => path.to_owned(),
        None => path.as_os_str().as_bytes().escape_ascii().to_string(),
    }
}

impl Evener {
    /// The directory at a path as a [place](crate::place), with the options of this value.
    pub fn local(&self, path: impl AsRef<Path>) -> Local {
        Local::new(path.as_ref(), &self.settings.options.tree)
    }

    /// Seals a source into a new generation of a sealed tree, which is made if there is none. Of the
    /// options, [`Options::run`](crate::Options::run) and
    /// [`Options::transfer`](crate::Options::transfer) count.
    ///
    /// # Errors
    /// [`OperationError::Incomplete`] when files failed: the generation has everything else, and of
    /// files that failed the content of the generation before. [`OperationError::NotBegun`] when
    /// nothing was made.
    pub fn seal_tree(
        &self,
        source: &dyn Origin,
        tree: &dyn Store,
        sealed: &SealedOptions,
    ) -> Result<(Report, Sealed), OperationError> {
        let Seated { options, notice } =
            self.seated(Operation::Encrypt).map_err(|error| cannot_begin(&tree.label(), error))?;
        let xattrs = sealed.xattrs || options.tree.xattrs;
        let sealed = SealedOptions { xattrs, ..sealed.clone() };
        let (mut report, made) =
            indexed::seal(source, tree, &options.run, &options.transfer, &sealed)?;
        report.notices.extend(notice);
        Ok((report, made))
    }

    /// Decrypts or verifies a generation of a sealed tree. `target` is `None` exactly for
    /// [`Operation::Verify`].
    ///
    /// # Errors
    /// [`OperationError::NotBegun`] when its root can't be read or is not believed, and otherwise
    /// those of [`Evener::transfer`].
    pub fn open_tree(
        &self,
        operation: Operation,
        tree: &dyn Origin,
        target: Option<&dyn Store>,
        sealed: &SealedOptions,
    ) -> Result<(Report, GenerationInfo), OperationError> {
        let Seated { options, notice } =
            self.seated(operation).map_err(|error| cannot_begin(&tree.label(), error))?;
        let (mut report, info) =
            indexed::open(operation, tree, target, &options.run, &options.transfer, sealed)?;
        report.notices.extend(notice);
        Ok((report, info))
    }

    /// Opens files of a generation, each to be read at any place, as [`Evener::open_at`] opens a
    /// file. In a signed tree, reading all of a file in order compares it with the index: the last
    /// read fails if somebody else who holds the tree's keys has changed the file. Parts of it could
    /// have been changed unseen.
    ///
    /// # Errors
    /// Those of [`Evener::open_tree`], and when the generation does not have one of the files.
    pub fn open_in_tree(
        &self,
        tree: &dyn Origin,
        sealed: &SealedOptions,
        paths: &[PathBuf],
    ) -> Result<(Vec<RandomAccess>, GenerationInfo), Failure> {
        let root = tree.label();
        let seated = self.seated(Operation::Decrypt);
        let Seated { options, .. } = seated.map_err(|error| cannot_begin(&root, error))?;
        let (blobs, info) = indexed::open_files(tree, &options.run, sealed, paths)?;
        let open = |(blob, path): (_, &PathBuf)| {
            let fail = |error| Failure { path: root.join(path), error };
            let opened = self.open_blob(blob).map_err(fail)?;
            // The comparison takes the file in order.
            Ok(if info.signer.is_some() { opened.with_workers(1) } else { opened })
        };
        Ok((blobs.into_iter().zip(paths).map(open).collect::<Result<_, _>>()?, info))
    }

    /// Returns whether a place says that it is a sealed tree. If not, [`refuse_gone_at`] refuses a path
    /// at which this machine has seen one.
    ///
    /// # Errors
    /// When it can't be read, or its marker is damaged.
    pub fn is_sealed_tree(&self, place: &dyn Origin) -> Result<bool, FileError> {
        indexed::is_sealed(place, &self.settings.options.run)
    }

    /// Seals the newest generation of a tree anew, under `key`, or under a fresh one that
    /// [`SealedOptions::wrap`] wraps. [`SealedOptions::keychain`] opens the tree. Its old keys seal
    /// no later generation, but still open what they have sealed.
    ///
    /// # Errors
    /// Those of [`Evener::seal_tree`].
    pub fn rekey_tree(
        &self,
        tree: &dyn Store,
        sealed: &SealedOptions,
        key: Option<&Key>,
    ) -> Result<(Report, Sealed), OperationError> {
        let options = self.options_for(Operation::Encrypt, tree.label())?;
        indexed::rekey(tree, &options.run, &options.transfer, sealed, key)
    }

    /// Looks at every selected file of a generation: it is there, and its length, its header and its
    /// last tag are those that the index names. So missing, cut and exchanged files are found, but
    /// not those whose content has decayed.
    ///
    /// # Errors
    /// Those of [`Evener::open_tree`].
    pub fn verify_tree_quickly(
        &self,
        tree: &dyn Origin,
        sealed: &SealedOptions,
    ) -> Result<(Report, GenerationInfo), OperationError> {
        let options = self.options_for(Operation::Verify, tree.label())?;
        indexed::verify_quickly(tree, &options.run, &options.transfer, sealed)
    }

    /// Verifies so many of a generation's selected files, which are chosen at random. A notice of the
    /// report says with which chance that finds damage.
    ///
    /// # Errors
    /// Those of [`Evener::open_tree`].
    pub fn verify_sample_of_tree(
        &self,
        tree: &dyn Origin,
        files: u32,
        sealed: &SealedOptions,
    ) -> Result<(Report, GenerationInfo), OperationError> {
        let options = self.options_for(Operation::Verify, tree.label())?;
        indexed::verify_sample(tree, &options.run, &options.transfer, sealed, files)
    }

    /// Lists the selected entries of a generation, by directory, then by name. `each` returns false
    /// to stop, and hears of parts that can't be read.
    ///
    /// # Errors
    /// When the root can't be read or is not believed.
    pub fn list_tree(
        &self,
        tree: &dyn Origin,
        depth: Depth,
        sealed: &SealedOptions,
        each: &mut dyn FnMut(Result<ListedEntry, Failure>) -> bool,
    ) -> Result<GenerationInfo, Failure> {
        let options = self.options_for(Operation::Decrypt, tree.label())?;
        let selection = &options.transfer.selection;
        indexed::list(tree, &options.run, selection, depth, sealed, each).map_err(at(tree.label()))
    }

    /// Lists the generations of a tree, the newest first: the number of each, true if it is whole,
    /// and what its root says. `each` returns false to stop.
    ///
    /// # Errors
    /// When the newest root can't be read or is not believed.
    pub fn list_generations(
        &self,
        tree: &dyn Origin,
        sealed: &SealedOptions,
        each: &mut dyn FnMut(u64, bool, Result<GenerationInfo, FileError>) -> bool,
    ) -> Result<(), Failure> {
        let options = self.options_for(Operation::Decrypt, tree.label())?;
        indexed::generations(tree, &options.run, sealed, each).map_err(at(tree.label()))
    }

    /// Compares a generation, [`SealedOptions::at`], with a later one or with a place such as its
    /// source, in the order of the index. `each` returns false to stop.
    ///
    /// # Errors
    /// When a root can't be read or is not believed, a part of the index is damaged, or an entry of
    /// the place can't be read.
    pub fn diff_tree(
        &self,
        tree: &dyn Origin,
        later: Later<'_>,
        sealed: &SealedOptions,
        each: &mut dyn FnMut(Difference) -> bool,
    ) -> Result<(), Failure> {
        let options = self.options_for(Operation::Decrypt, tree.label())?;
        let selection = &options.transfer.selection;
        indexed::diff(tree, later, &options.run, selection, sealed, each).map_err(at(tree.label()))
    }

    /// Removes the files of old generations, and those that killed runs have left. It first makes a
    /// generation that says so, with the content of the newest one.
    ///
    /// # Errors
    /// When a generation that is kept can't be read whole; then nothing is removed.
    pub fn clean_tree(
        &self,
        tree: &dyn Store,
        clean: &CleanOptions,
        sealed: &SealedOptions,
    ) -> Result<Cleaned, Failure> {
        let options = self.options_for(Operation::Encrypt, tree.label())?;
        indexed::clean(tree, &options.run, sealed, clean).map_err(at(tree.label()))
    }

    /// Lists the files that the newest generation needs, each once, with all roots and wrapped
    /// keys.
    ///
    /// # Errors
    /// When a root can't be read or is not trusted, or a part of the index is damaged.
    pub fn files_of_tree(
        &self,
        tree: &dyn Origin,
        sealed: &SealedOptions,
    ) -> Result<Vec<Name>, Failure> {
        let options = self.options_for(Operation::Decrypt, tree.label())?;
        indexed::needed_files(tree, &options.run, sealed).map_err(at(tree.label()))
    }

    /// Wraps all keys of a tree for other recipients. Content is not read. Old wrappings go when all
    /// new ones are there and were opened once; those that nothing given opens stay, unless
    /// `trusts_unopened`. [`Rewrapped::faults`] names keys that may be missing.
    ///
    /// # Errors
    /// When a root can't be read or is not believed, or a key can't be opened; then nothing is
    /// removed.
    pub fn rewrap_tree(
        &self,
        tree: &dyn Store,
        wrap: &Wrap,
        trusts_unopened: bool,
        sealed: &SealedOptions,
    ) -> Result<Rewrapped, Failure> {
        let options = self.options_for(Operation::Encrypt, tree.label())?;
        indexed::rewrap(tree, &options.run, wrap, trusts_unopened, sealed).map_err(at(tree.label()))
    }

    /// Those who may sign the next generation of a tree, and those who are no longer believed, each
    /// with the last good generation.
    ///
    /// # Errors
    /// When the root can't be read or is not believed.
    #[allow(clippy::type_complexity, reason = "two lists and what they belong to")]
    pub fn signers_of_tree(
        &self,
        tree: &dyn Origin,
        sealed: &SealedOptions,
    ) -> Result<(Vec<TreeSigner>, Vec<(PublicKey, u64)>, GenerationInfo), Failure> {
        let options = self.options_for(Operation::Decrypt, tree.label())?;
        indexed::signers(tree, &options.run, sealed).map_err(at(tree.label()))
    }

    /// Changes who may sign a tree, in a generation of its own. An unsigned tree becomes a signed
    /// one. Returns the number of the generation.
    ///
    /// # Errors
    /// When the root can't be read or is not believed, or this machine may not sign.
    pub fn change_signers(
        &self,
        tree: &dyn Store,
        change: &SignerChange,
        sealed: &SealedOptions,
    ) -> Result<u64, Failure> {
        let options = self.options_for(Operation::Encrypt, tree.label())?;
        indexed::change_signers(tree, &options.run, change, sealed).map_err(at(tree.label()))
    }

    pub(crate) fn options_for(
        &self,
        operation: Operation,
        path: PathBuf,
    ) -> Result<Options, Failure> {
        self.seated(operation).map(|seated| seated.options).map_err(at(path))
    }
}

const MARKER: &str = "evener-tree-v1";

fn at(path: PathBuf) -> impl FnOnce(FileError) -> Failure {
    move |error| Failure { path, error }
}
