//! Settings of a run, and options of its operation.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evener_core::{Cipher, Direction, Engine};
use evener_keys::Fingerprint;
use evener_pipeline::costs::Costs;
use evener_pipeline::policy::MakePolicy;
use evener_pipeline::{Courtesy, PolicyName, Pool, RunOptions};

use crate::tree::Claims;
use crate::{Base64, Control, Existing, Protected, SealedNames, Selection};

/// Called on a worker's thread for each file as it is done, with its path as the user would write
/// it and its outcome. Failures are in the report.
pub type Listener = Arc<dyn Fn(&Path, FileOutcome) + Send + Sync>;

/// The outcome of a file; in a dry run, the outcome that it would have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileOutcome {
    /// It was encrypted, decrypted or verified.
    Done,
    /// Its output was brought up to date ([`Existing::Update`]).
    Updated,
    /// Its output was complete already ([`Existing::Resume`]).
    Skipped,
    /// Its output needed no update ([`Existing::Update`]).
    Unchanged,
    /// It is another name of a file, and was made as a hard link.
    Linked,
    /// It is an output whose source is gone, and was deleted ([`Delete`](crate::Delete)).
    Deleted,
}

/// The settings that all operations share: the workers, and how the caller watches and stops them.
/// [`RunSettings::new`] gives the program's defaults.
#[derive(Clone)]
pub struct RunSettings {
    /// One worker for each entry, on that engine. In the facade, an empty list means the workers of
    /// the selected engines; other seats can't be combined with the builder's engine settings.
    pub seats: Vec<Arc<dyn Engine>>,
    /// The trusted engine that reads outputs back before their sources are removed, whichever
    /// engine wrote them. Without it no source is removed.
    pub reference: Option<Arc<dyn Engine>>,
    /// How workers get tasks: a [`PolicyName`], or a policy of the caller's. `None` means the
    /// [usual](PolicyName::usual) policy for these engines.
    pub policy: Option<Arc<dyn MakePolicy>>,
    /// How the workers share the cores with other programs.
    pub courtesy: Courtesy,
    /// Measured costs of the engines, from which the adaptive policy starts.
    pub costs: Costs,
    /// The most memory that the workers' buffers may use together, in bytes. If it can't hold a
    /// chunk for each seat, fewer seats work.
    pub memory: usize,
    /// A function that is called for each file.
    pub listener: Option<Listener>,
    /// Counts progress and stops the operation.
    pub control: Arc<Control>,
    /// The threads that share a [buffer](crate::buffer)'s chunks and wait between two buffers, if
    /// one CPU engine does all of them. `None` starts threads for each buffer, as everything else
    /// does; in the facade it means a pool with a thread for each worker.
    pub pool: Option<Arc<Pool>>,
}

/// The options of an operation on a file or a tree.
#[derive(Clone, Debug, Default)]
pub struct TreeOptions {
    /// The names of encrypted files.
    pub names: SealedNames,
    /// The files of a tree that are taken.
    pub selection: Selection,
    /// The treatment of outputs that exist already.
    pub existing: Existing,
    /// Take nothing below a directory on another file system than the tree's root.
    pub one_file_system: bool,
    /// Leave out files that change each time they are read. Otherwise encryption stores what it
    /// read last, and the file is still among the failures. With [`TreeOptions::remove_source`],
    /// and when decrypting, such files are always left out.
    pub skip_changing: bool,
    /// Remove each source once its output has been read back, compared and synced.
    pub remove_source: bool,
    /// Sync every output and its directory entry to the device before the operation ends. If the
    /// file system can't sync, that is a failure, and the outputs are still stored.
    pub durable: bool,
    /// Take the targets of symbolic links instead of recreating the links. Can't be combined with
    /// [`TreeOptions::remove_source`]. The source itself may always be a symbolic link. A link to a
    /// directory that contains the source or the target, or into one of the kernel's own file
    /// systems such as /proc, is a failure.
    pub follow_symlinks: bool,
    /// Files that are never taken as sources.
    pub protected: Protected,
    /// Keep owner and group (needs privilege). If that fails, encrypted files are stored without
    /// them, which is a failure, and nothing is decrypted. Until all is done, a new directory of a
    /// tree is accessible to the caller alone, and has an extended attribute,
    /// `user.evener.unfinished`, by which the next run recognises it if this one is killed.
    pub owner: bool,
    /// Keep extended attributes, with failures as for the owner.
    pub xattrs: bool,
    /// When decrypting, leave holes where the plaintext has whole pages of zeros.
    pub sparse: bool,
    /// When decrypting, write plaintext even where the file system gives others more access than
    /// the source's mode does, as FAT, exFAT and NTFS may, and use the modes that these show for
    /// sources. Otherwise such outputs are refused, and files decrypted from these file systems are
    /// accessible to their owner alone.
    pub insecure_modes: bool,
    /// Report what would be done and write nothing. Everything that needs no reading of content is
    /// checked: existing outputs, names, permissions, and the headers of files to be opened.
    pub dry_run: bool,
    /// Add up the sizes of all files while walking, so that progress can show the remaining time.
    /// Costs one system call per file.
    pub measure_total: bool,
    /// For the program `evener`.
    #[doc(hidden)]
    pub program: ForProgram,
}

/// The options of a stream.
#[derive(Clone, Debug, Default)]
pub struct StreamOptions {
    /// Replace an existing output. Otherwise it is an error.
    pub overwrite: bool,
    /// Sync an output that is a file, and its directory entry, to the device before the operation
    /// ends.
    pub durable: bool,
    /// Files that an output never replaces.
    pub protected: Protected,
    /// When decrypting to a file, write plaintext even where the file system gives others access to
    /// it. Otherwise such an output is refused.
    pub insecure_modes: bool,
    /// The bytes that encryption writes before the file's own header: the wrapped key, as
    /// [`PipeHead`](evener_keys::PipeHead) makes it, or nothing.
    pub head: Vec<u8>,
    /// The base64 form of the encrypted side, or `None` for binary.
    pub base64: Option<Base64>,
}

/// The options of a transfer between places.
#[derive(Clone, Debug, Default)]
pub struct TransferOptions {
    /// The names of encrypted objects.
    pub names: SealedNames,
    /// The objects that are taken.
    pub selection: Selection,
    /// Skip objects whose output is complete: it has the expected length and, in formats that show
    /// it, the right key.
    pub resume: bool,
    /// Bring existing outputs up to date, as [`Update`](crate::Update) says; not with `resume`.
    pub update: bool,
    /// With `update`: compare only size and time, and modes.
    pub ignore_ctime: bool,
    /// Replace existing outputs that are not skipped. Otherwise they are errors, except those that
    /// `update` replaces.
    pub overwrite: bool,
    /// Report what would be done, and write nothing, as [`TreeOptions::dry_run`] does.
    pub dry_run: bool,
    /// Have the store sync the outputs before the operation ends.
    pub durable: bool,
    /// For the program `evener`: true if complete outputs may have keys that this run can't open.
    /// Then `resume` does not check their keys.
    #[doc(hidden)]
    pub has_closed_keys: bool,
}

/// For the program `evener`: no part of the interface, and it may change at any time.
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct ForProgram {
    /// True if complete outputs may have other keys, which this run can't open. Then
    /// [`Existing::Resume`] does not check their headers.
    pub has_closed_keys: bool,
    /// True if the caller has just made the target directory, which then gets the source's mode.
    /// Other existing directories keep their mode, owner and times.
    pub target_is_new: bool,
    /// The file of the wrapped key that opens the outputs. [`TreeOptions::remove_source`] removes
    /// nothing unless its name still leads to the same bytes.
    pub wrapped_key: Option<(PathBuf, Fingerprint)>,
    /// The directory that several sources go to. A tree's target in it may not be a symbolic link
    /// to a directory, unlike one that a user has named: no link is followed at its last name, as
    /// for the names below it.
    pub shared: Option<SharedTarget>,
}

/// For the program `evener`: a directory to which all sources of a run go under their own names.
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct SharedTarget {
    /// The sources, none of which an output replaces.
    pub sources: Protected,
    /// The outputs of all sources in that directory.
    pub(crate) claims: Arc<Claims>,
}

impl RunSettings {
    /// The default bound of the workers' buffers, in bytes.
    pub const DEFAULT_MEMORY: usize = 64 << 20;

    /// The defaults, with one worker for each of `seats`.
    pub fn new(seats: Vec<Arc<dyn Engine>>) -> RunSettings {
        RunSettings {
            seats,
            reference: None,
            policy: None,
            courtesy: Courtesy::default(),
            costs: Costs::default(),
            memory: RunSettings::DEFAULT_MEMORY,
            listener: None,
            control: Arc::default(),
            pool: None,
        }
    }

    /// The options of the pipeline's run for a cipher, with a queue of this capacity.
    pub(crate) fn options(
        &self,
        cipher: Cipher,
        direction: Direction,
        capacity: usize,
    ) -> RunOptions {
        let kinds = self.seats.iter().map(|engine| engine.description().kind);
        let policy = self.policy.clone().unwrap_or_else(|| PolicyName::usual(kinds).into());
        let mut options = RunOptions::new(policy, cipher, direction, capacity);
        options.courtesy = self.courtesy;
        options.costs = self.costs.clone();
        options.tally = self.control.tally().clone();
        options
    }
}

impl Default for RunSettings {
    /// The defaults, without seats.
    fn default() -> RunSettings {
        RunSettings::new(Vec::new())
    }
}

impl fmt::Debug for RunSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |engine: &Arc<dyn Engine>| engine.description().name.clone();
        f.debug_struct("RunSettings")
            .field("seats", &self.seats.iter().map(name).collect::<Vec<_>>())
            .field("policy", &self.policy)
            .field("courtesy", &self.courtesy)
            .field("memory", &self.memory)
            .finish_non_exhaustive()
    }
}

impl From<&TreeOptions> for StreamOptions {
    /// The options of a file whose output goes to a device or a FIFO.
    fn from(options: &TreeOptions) -> StreamOptions {
        StreamOptions {
            overwrite: options.existing.overwrites(),
            durable: options.durable,
            protected: options.protected.clone(),
            insecure_modes: options.insecure_modes,
            ..StreamOptions::default()
        }
    }
}
