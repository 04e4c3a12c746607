//! Options of an operation.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evener_core::{Cipher, Direction, Engine};
use evener_pipeline::costs::Costs;
use evener_pipeline::{Courtesy, PolicyName, RunOptions};

use crate::{Base64, Control, Protected, Selection};

/// Whether the outputs with these paths may be deleted. It is asked once, and not in a dry run.
pub type Agree = Arc<dyn Fn(&[PathBuf]) -> bool + Send + Sync>;

/// Hears of each file as it is done, on a worker's thread: its path as the user would write it, and
/// what became of it. Failures are in the report.
pub type Listener = Arc<dyn Fn(&Path, FileOutcome) + Send + Sync>;

/// What became of a file, or in a dry run would.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileOutcome {
    /// It was encrypted, decrypted or verified.
    Done,
    /// Its output was brought up to date ([`Options::update`]).
    Updated,
    /// Its output was complete already ([`Options::resume`]).
    Skipped,
    /// Its output needed no update ([`Options::update`]).
    Unchanged,
    /// It is a further name of a file, and was made as a hard link.
    Linked,
    /// It is an output whose source has gone, and was deleted ([`Options::delete`]).
    Deleted,
}

/// How an operation is to be done. [`Options::new`] gives the defaults of the program.
#[derive(Clone)]
pub struct Options {
    /// One worker for each entry, on that engine. In the facade, empty stands for the workers of
    /// the selected engines, and they can't go with what the builder says of engines.
    pub seats: Vec<Arc<dyn Engine>>,
    /// The engine that reads outputs back before their sources are removed: one that is trusted,
    /// whatever wrote them. Without it no source is removed.
    pub reference: Option<Arc<dyn Engine>>,
    /// How workers come by tasks; `None` for the [usual](PolicyName::usual) policy with these
    /// engines.
    pub policy: Option<PolicyName>,
    /// How the workers share the cores with other programs.
    pub courtesy: Courtesy,
    /// Measured costs of the engines, from which the adaptive policy starts.
    pub costs: Costs,
    /// How much memory the workers' buffers may take together, in bytes. Fewer seats work where it can't
    /// hold a chunk for each.
    pub memory: usize,
    /// The suffix that encryption appends to a file's name and decryption strips.
    pub suffix: OsString,
    /// Which files of a tree are taken.
    pub selection: Selection,
    /// Skip files whose output is complete: it has the size that is expected, the source's time
    /// and, in formats that show it, the right key. Its content is not verified. Does not go with
    /// [`Options::update`], nor with a stream.
    pub resume: bool,
    /// Whether the key was made for this very run, so that complete outputs are of other keys,
    /// and [`Options::resume`] can't look at their headers.
    pub key_is_fresh: bool,
    /// What encrypting a stream writes before the file's own header: the wrapped key, as
    /// [`PipeHead`](crate::keys::PipeHead) makes it, or nothing.
    pub head: Vec<u8>,
    /// Whether the encrypted side of a stream is base64. Trees and files that are no streams are
    /// never.
    pub base64: Option<Base64>,
    /// Bring outputs that exist up to date: replace those whose source has changed, leave those
    /// that are complete as they are, and make those that are not there. A source has changed if
    /// its size or time is not the output's, or if its status (mode, owner, content) was changed
    /// after the output was made. An output that was not made with the keys is replaced only with
    /// [`Options::overwrite`], and so is a decrypted file that is newer than its source. Does not
    /// go with [`Options::remove_source`] and [`Options::resume`], nor with a stream.
    pub update: bool,
    /// With [`Options::update`]: go by size and time alone. A source's status also changes when a link to it
    /// is made, as by those who keep snapshots with `cp -al`. Where the outputs' file system does not keep
    /// times of change, the report has a notice that says that an update has gone by size and time.
    pub ignore_ctime: bool,
    /// With [`Options::update`], when a tree is encrypted: remove outputs whose source has gone,
    /// once all else is done without a failure, if outputs of this source were there before, and if
    /// this agrees. Only files that one of the keys opens are removed, links in whose place a file
    /// has come, and directories that are empty then. Beside a single file nothing is removed.
    pub delete: Option<Agree>,
    /// Let [`Options::delete`] delete also below directories of the source that were mount points at an
    /// earlier run and are none now, and below empty ones where it is not known which were mount
    /// points.
    pub delete_unmounted: bool,
    /// Take nothing of a tree that is below a directory on another file system than the tree's root.
    pub one_file_system: bool,
    /// Leave out files that change each time they are read. Otherwise, when encrypting, what was
    /// read last is stored, and the file is among the failures all the same. With
    /// [`Options::remove_source`] and when decrypting they are left out in any case.
    pub skip_changing: bool,
    /// Replace outputs that exist. Otherwise they are errors.
    pub overwrite: bool,
    /// Remove each source once its output has been read back, compared and synced.
    pub remove_source: bool,
    /// Have every output, and its directory entry, on the device before the operation ends. Where the file
    /// system can't sync that is a failure, and the outputs are stored all the same.
    pub durable: bool,
    /// Take what symbolic links point to, instead of recreating the links. Does not go with
    /// [`Options::remove_source`]. The source itself may be a symbolic link in any case. A link to a
    /// directory that contains the source or the target, or into a file system of the kernel's own
    /// such as /proc, is a failure.
    pub follow_symlinks: bool,
    /// Files that are never taken as sources.
    pub protected: Protected,
    /// Whether the caller has just made the target directory, which then gets the source's mode.
    /// Other directories that are there before keep their mode, owner and times.
    pub target_is_new: bool,
    /// Whether a tree's target may be a symbolic link to a directory, as one that a user has named
    /// may. Its last name is otherwise treated as the names below it are: no link is followed.
    pub follow_target: bool,
    /// Keep owner and group (needs privilege). Where that can't be done what is encrypted is stored without,
    /// which is a failure, and nothing is decrypted. Until all is done a new directory of a tree is the caller's
    /// alone, and has an extended attribute, `user.evener.unfinished`, by which the run after one that was
    /// killed knows it.
    pub owner: bool,
    /// Keep extended attributes, with failures as for the owner.
    pub xattrs: bool,
    /// When decrypting, leave holes where the plaintext has whole pages of zeros.
    pub sparse: bool,
    /// When decrypting, write plaintext also where the file system gives others more access to it than the
    /// source's mode does, as FAT, exFAT and NTFS may; and take the modes that these show for sources. Otherwise
    /// the one is refused, and what is decrypted from them is its owner's alone.
    pub insecure_modes: bool,
    /// Say what would be done and write nothing. All is checked that can be without reading
    /// content: existing outputs, names, permissions, and the headers of what is to be opened. Does
    /// not go with a stream.
    pub dry_run: bool,
    /// Add up the sizes of all files while walking, so that progress can tell the remaining
    /// time. Costs a system call a file.
    pub measure_total: bool,
    /// A function that is called for each file.
    pub listener: Option<Listener>,
    /// Streams only: let nothing reach a descriptor but text. Bytes that would command a terminal
    /// are an error. For a standard output that is one.
    pub only_text: bool,
    /// Where progress is counted and by which the operation is stopped.
    pub control: Arc<Control>,
}

impl Options {
    /// The default bound of the workers' buffers, in bytes.
    pub const DEFAULT_MEMORY: usize = 64 << 20;

    /// The default suffix.
    pub const DEFAULT_SUFFIX: &'static str = ".enc";

    /// The policy of a run.
    pub(crate) fn policy(&self) -> PolicyName {
        let kinds = self.seats.iter().map(|engine| engine.description().kind);
        self.policy.unwrap_or_else(|| PolicyName::usual(kinds))
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
            resume: false,
            key_is_fresh: false,
            head: Vec::new(),
            base64: None,
            update: false,
            ignore_ctime: false,
            delete: None,
            delete_unmounted: false,
            one_file_system: false,
            skip_changing: false,
            overwrite: false,
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
            .field("resume", &self.resume)
            .field("update", &self.update)
            .field("overwrite", &self.overwrite)
            .field("remove_source", &self.remove_source)
            .field("durable", &self.durable)
            .field("dry_run", &self.dry_run)
            .finish_non_exhaustive()
    }
}
