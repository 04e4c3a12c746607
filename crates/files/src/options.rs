//! Options of an operation.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use evener_core::{Cipher, Direction, Engine};
use evener_pipeline::costs::Costs;
use evener_pipeline::policy::MakePolicy;
use evener_pipeline::{Courtesy, PolicyName, RunOptions};

use crate::{Base64, Control, Existing, Protected, Selection};

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

/// The settings of an operation. [`Options::new`] gives the program's defaults.
#[derive(Clone)]
pub struct Options {
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
    /// The suffix that encryption appends to a file's name and decryption strips.
    pub suffix: OsString,
    /// The files of a tree that are taken.
    pub selection: Selection,
    /// The treatment of outputs that exist already.
    pub existing: Existing,
    /// True if the key was made for this very run. Complete outputs then have other keys, so
    /// [`Existing::Resume`] can't check their headers.
    pub key_is_fresh: bool,
    /// The bytes that encrypting a stream writes before the file's own header: the wrapped key, as
    /// [`PipeHead`](evener_keys::PipeHead) makes it, or nothing.
    pub head: Vec<u8>,
    /// The base64 form of a stream's encrypted side, or `None` for binary. Trees and files that are
    /// not streams are never base64.
    pub base64: Option<Base64>,
    /// Take nothing below a directory on another file system than the tree's root.
    pub one_file_system: bool,
    /// Leave out files that change each time they are read. Otherwise encryption stores what it
    /// read last, and the file is still among the failures. With [`Options::remove_source`], and
    /// when decrypting, such files are always left out.
    pub skip_changing: bool,
    /// Remove each source once its output has been read back, compared and synced.
    pub remove_source: bool,
    /// Sync every output and its directory entry to the device before the operation ends. If the
    /// file system can't sync, that is a failure, and the outputs are still stored.
    pub durable: bool,
    /// Take the targets of symbolic links instead of recreating the links. Can't be combined with
    /// [`Options::remove_source`]. The source itself may always be a symbolic link. A link to a
    /// directory that contains the source or the target, or into one of the kernel's own file
    /// systems such as /proc, is a failure.
    pub follow_symlinks: bool,
    /// Files that are never taken as sources.
    pub protected: Protected,
    /// True if the caller has just made the target directory, which then gets the source's mode.
    /// Other existing directories keep their mode, owner and times.
    pub target_is_new: bool,
    /// True if a tree's target may be a symbolic link to a directory, as a target that a user has
    /// named may. Otherwise no link is followed at its last name, as for the names below it.
    pub follow_target: bool,
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
    /// checked: existing outputs, names, permissions, and the headers of files to be opened. Can't
    /// be combined with a stream.
    pub dry_run: bool,
    /// Add up the sizes of all files while walking, so that progress can show the remaining time.
    /// Costs one system call per file.
    pub measure_total: bool,
    /// A function that is called for each file.
    pub listener: Option<Listener>,
    /// Streams only: let only text reach a descriptor. Bytes that would command a terminal are an
    /// error. Meant for a standard output that is a terminal.
    pub only_text: bool,
    /// Counts progress and stops the operation.
    pub control: Arc<Control>,
}

impl Options {
    /// The default bound of the workers' buffers, in bytes.
    pub const DEFAULT_MEMORY: usize = 64 << 20;

    /// The default suffix.
    pub const DEFAULT_SUFFIX: &'static str = ".enc";

    /// The policy of a run.
    pub(crate) fn policy(&self) -> Arc<dyn MakePolicy> {
        let kinds = self.seats.iter().map(|engine| engine.description().kind);
        self.policy.clone().unwrap_or_else(|| PolicyName::usual(kinds).into())
    }

    /// The options of a run for a cipher, with a queue of this capacity.
    pub(crate) fn run(&self, cipher: Cipher, direction: Direction, capacity: usize) -> RunOptions {
        let mut options = RunOptions::new(self.policy(), cipher, direction, capacity);
        options.courtesy = self.courtesy;
        options.costs = self.costs.clone();
        options
    }

    /// The defaults, with one worker for each of `seats`.
    pub fn new(seats: Vec<Arc<dyn Engine>>) -> Options {
        Options {
            seats,
            policy: None,
            reference: None,
            courtesy: Courtesy::default(),
            costs: Costs::default(),
            memory: Options::DEFAULT_MEMORY,
            suffix: Options::DEFAULT_SUFFIX.into(),
            selection: Selection::default(),
            existing: Existing::default(),
            key_is_fresh: false,
            head: Vec::new(),
            base64: None,
            one_file_system: false,
            skip_changing: false,
            remove_source: false,
            durable: false,
            follow_symlinks: false,
            protected: Protected::default(),
            target_is_new: false,
            follow_target: true,
            owner: false,
            xattrs: false,
            sparse: false,
            insecure_modes: false,
            dry_run: false,
            measure_total: false,
            listener: None,
            only_text: false,
            control: Arc::default(),
        }
    }
}

impl Default for Options {
    /// The defaults, without seats.
    fn default() -> Options {
        Options::new(Vec::new())
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |engine: &Arc<dyn Engine>| engine.description().name.clone();
        f.debug_struct("Options")
            .field("seats", &self.seats.iter().map(name).collect::<Vec<_>>())
            .field("policy", &self.policy)
            .field("courtesy", &self.courtesy)
            .field("memory", &self.memory)
            .field("suffix", &self.suffix)
            .field("existing", &self.existing)
            .field("remove_source", &self.remove_source)
            .field("durable", &self.durable)
            .field("dry_run", &self.dry_run)
            .finish_non_exhaustive()
    }
}
