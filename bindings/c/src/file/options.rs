//! Options of operations on files.

use std::ffi::{c_char, c_int, c_void};
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

use facade::gate::{Discipline, GateOptions, Turns};
use facade::{Base64, Evener, Existing, KeyRing, Options, SealedNames, StreamOptions, Update};

use super::watched::ProgressFacts;
use crate::status::Trouble;

/// Options of an operation on files. Zero in every field but the first is the default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FileOptions {
    /// `sizeof(evener_options)`, set by the caller.
    pub size: usize,
    /// Names of the engines, which all work at once; NULL for the default engine.
    pub engines: *const *const c_char,
    /// Number of names.
    pub engine_count: usize,
    /// Number of workers over all engines; 0 for as many as the engines recommend.
    pub workers: usize,
    /// Memory limit for the buffers of all workers, in bytes; 0 for 64 MiB.
    pub memory: usize,
    /// Suffix that encrypting appends to a file's name and decrypting removes; NULL for `.enc`,
    /// or `.age` with `evener_file_key_of_age`.
    pub suffix: *const c_char,
    /// Context that files are bound to, the same in both directions; NULL for none.
    pub context: *const u8,
    /// In bytes.
    pub context_length: usize,
    /// A sum of `evener_flag`s.
    pub flags: u32,
    /// Interval of the calls of `progress`, in milliseconds; 0 for 100.
    pub progress_interval: u32,
    /// Called with the progress; NULL for no callback.
    pub progress: ProgressCallback,
    /// Passed to `progress`.
    pub user_data: *mut c_void,
    /// Number of processes that may use each engine at once (permits), the same in all of them; 0
    /// for what the engine reports.
    pub permits: usize,
    /// How long a process may be stopped before its permit passes to another one, in milliseconds,
    /// the same in all processes; 0 for any time.
    pub permit_lease: u64,
    /// An `evener_gate`: how processes queue for permits.
    pub gate: u32,
    /// CPU limit as a percentage of all cores, 1 to 100; 0 for none.
    pub max_cpu: u32,
}

/// How processes queue for an engine that only some of them may use at once.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateNumber {
    /// In the order of arrival.
    Fifo = 0,
    /// In one list per permit, by process id.
    Lists = 1,
    /// Not at all.
    None = 2,
}

/// Options of an operation that are on or off, to be added up. An operation does not begin with
/// options that contradict each other.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// Skip files whose output is complete. Not with `EVENER_FLAG_UPDATE`.
    Resume = 1,
    /// Replace existing outputs; otherwise they are errors.
    Overwrite = 2,
    /// Remove each source after its output was read back, compared and synced. Neither with
    /// `EVENER_FLAG_UPDATE` nor with `EVENER_FLAG_FOLLOW_SYMLINKS`, nor to decrypt files of
    /// `openssl enc`, which nothing authenticates.
    RemoveSource = 4,
    /// Sync every output to the storage device before the operation ends.
    Durable = 8,
    /// Follow symbolic links instead of recreating them. Not with `EVENER_FLAG_REMOVE_SOURCE`.
    FollowSymlinks = 16,
    /// Keep owner and group, which needs privilege.
    KeepOwner = 32,
    /// Keep extended attributes.
    KeepXattrs = 64,
    /// When decrypting, write pages of zeros as holes.
    Sparse = 128,
    /// Write nothing, only count what would be done.
    DryRun = 256,
    /// Add up all sizes while walking, so that the progress includes the total.
    MeasureTotal = 512,
    /// Leave the cores to other programs: CPU workers use only idle CPU time.
    Background = 1024,
    /// Bring existing outputs up to date: replace those whose source has changed, leave all others.
    /// Neither with `EVENER_FLAG_RESUME` nor with `EVENER_FLAG_REMOVE_SOURCE`.
    Update = 2048,
    /// Leave out files that change while they are read.
    SkipChanging = 4096,
    /// With `EVENER_FLAG_UPDATE`: go by size and time, and not by the time of change.
    IgnoreCtime = 8192,
    /// When decrypting, write plaintext also where the file system takes no modes and others could
    /// read it (FAT, exFAT, NTFS), which is refused otherwise; and take the modes that such a file
    /// system shows for sources.
    InsecureModes = 16384,
    /// Take nothing below directories on other file systems than that of the source.
    OneFileSystem = 32768,
    /// With `evener_file_key_of_age`, encrypt a file or a pipe to ASCII armor. Reading needs no flag.
    Armor = 65536,
}

/// Called with the progress of an operation, on the thread that called the operation: before it
/// begins, at intervals, and at its end. Return 0 to continue. After any other value no new file is
/// begun, unfinished outputs are removed, complete outputs stay, and the callback is not called
/// again. It must not throw or jump out.
pub type ProgressCallback =
    Option<unsafe extern "C" fn(progress: *const ProgressFacts, user_data: *mut c_void) -> c_int>;

/// The options in Rust's types.
#[derive(Default)]
pub(crate) struct Wishes<'a> {
    pub(crate) engines: Vec<&'a str>,
    pub(crate) workers: usize,
    pub(crate) memory: usize,
    pub(crate) suffix: Option<&'a Path>,
    pub(crate) context: &'a [u8],
    pub(crate) flags: u32,
    pub(crate) progress_interval: u32,
    pub(crate) permits: usize,
    pub(crate) permit_lease: u64,
    pub(crate) gate: u32,
    pub(crate) max_cpu: u32,
}

impl Wishes<'_> {
    /// The names of encrypted files, where a key's usual suffix is `usual`.
    pub(crate) fn names(&self, usual: SealedNames) -> Result<SealedNames, Trouble> {
        let names = self.suffix.map_or(Ok(usual), SealedNames::new);
        names.map_err(|error| Trouble::argument(error.to_string()))
    }

    pub(crate) fn evener(&self, keys: KeyRing, names: SealedNames) -> Result<Evener, Trouble> {
        let all = FLAGS.iter().map(|(flag, _)| flag).chain(&OF_EXISTING);
        let all = all.fold(Flag::Armor as u32, |all, flag| all | *flag as u32);
        if self.flags & !all != 0 {
            return Err(Trouble::argument(format!("unknown flags {:#x}", self.flags & !all)));
        }
        let max_cpu = match self.max_cpu {
            0 => None,
            1..=100 => Some(self.max_cpu as u8),
            _ => return Err(Trouble::argument("max_cpu is no percentage from 1 to 100")),
        };
        let mut evener = Evener::builder(keys).engines(&self.engines).gate(self.turns()?);
        if let Some(workers) = NonZeroUsize::new(self.workers) {
            evener = evener.workers(workers);
        }
        let evener = evener.options(|options| {
            if self.memory > 0 {
                options.run.memory = self.memory;
            }
            options.tree.names = names;
            for (flag, option) in FLAGS {
                *option(options) = self.has(*flag);
            }
            options.run.courtesy.most_cpu = max_cpu;
        });
        Ok(evener.build()?)
    }

    /// The treatment of existing outputs, or the reason why the flags contradict each other.
    pub(crate) fn existing(&self) -> Result<Existing, &'static str> {
        let [resume, overwrite, update, ignore_ctime] = OF_EXISTING.map(|flag| self.has(flag));
        match (resume, update) {
            (true, true) => Err(ONE_OF_BOTH),
            (_, false) if ignore_ctime => Err(NO_COMPARISON),
            (_, true) => Ok(Existing::Update(Update { overwrite, ignore_ctime, delete: None })),
            (true, _) => Ok(Existing::Resume { overwrite }),
            _ if overwrite => Ok(Existing::Overwrite),
            _ => Ok(Existing::Refuse),
        }
    }

    /// The options of a pipe, or the reason why the flags are none of a pipe's.
    pub(crate) fn stream(&self) -> Result<StreamOptions, &'static str> {
        if OF_FILES.iter().any(|flag| self.has(*flag)) {
            return Err(NO_FILE);
        }
        Ok(StreamOptions {
            overwrite: self.has(Flag::Overwrite),
            durable: self.has(Flag::Durable),
            insecure_modes: self.has(Flag::InsecureModes),
            base64: self.has(Flag::Armor).then_some(Base64::Armour),
            ..StreamOptions::default()
        })
    }

    pub(crate) fn has(&self, flag: Flag) -> bool {
        self.flags & flag as u32 != 0
    }

    fn turns(&self) -> Result<Turns, Trouble> {
        let discipline = match self.gate {
            number if number == GateNumber::Fifo as u32 => Discipline::Fifo,
            number if number == GateNumber::Lists as u32 => Discipline::Lists,
            number if number == GateNumber::None as u32 => Discipline::None,
            number => return Err(Trouble::argument(format!("there is no evener_gate {number}"))),
        };
        if self.permits > GateOptions::MAX_PERMITS {
            let (most, permits) = (GateOptions::MAX_PERMITS, self.permits);
            return Err(Trouble::argument(format!("permits is at most {most}, not {permits}")));
        }
        let permits = NonZeroUsize::new(self.permits);
        let lease = (self.permit_lease > 0).then(|| Duration::from_millis(self.permit_lease));
        Ok(Turns { discipline, permits, lease, ..Turns::default() })
    }

    pub(crate) fn interval(&self) -> Duration {
        match self.progress_interval {
            0 => DEFAULT_INTERVAL,
            milliseconds => Duration::from_millis(milliseconds.into()),
        }
    }
}

/// The flags of [`Wishes::existing`].
const OF_EXISTING: [Flag; 4] = [Flag::Resume, Flag::Overwrite, Flag::Update, Flag::IgnoreCtime];

const ONE_OF_BOTH: &str = "to resume is to leave complete outputs as they are, to update is to \
    replace those of changed sources: an operation does one of both";

const NO_COMPARISON: &str =
    "only an update compares times of change, so only there they can be ignored";

/// The flags that need files on both sides, whose lengths and times can be compared.
const OF_FILES: [Flag; 5] =
    [Flag::Resume, Flag::Update, Flag::IgnoreCtime, Flag::RemoveSource, Flag::DryRun];

const NO_FILE: &str = "a pipe, or ASCII armor, can't be resumed, updated, removed or tried";

/// The field of the options for a flag.
type Place = fn(&mut Options) -> &mut bool;

const FLAGS: &[(Flag, Place)] = &[
    (Flag::RemoveSource, |options| &mut options.tree.remove_source),
    (Flag::Durable, |options| &mut options.tree.durable),
    (Flag::FollowSymlinks, |options| &mut options.tree.follow_symlinks),
    (Flag::KeepOwner, |options| &mut options.tree.owner),
    (Flag::KeepXattrs, |options| &mut options.tree.xattrs),
    (Flag::Sparse, |options| &mut options.tree.sparse),
    (Flag::DryRun, |options| &mut options.tree.dry_run),
    (Flag::MeasureTotal, |options| &mut options.tree.measure_total),
    (Flag::Background, |options| &mut options.run.courtesy.in_background),
    (Flag::SkipChanging, |options| &mut options.tree.skip_changing),
    (Flag::InsecureModes, |options| &mut options.tree.insecure_modes),
    (Flag::OneFileSystem, |options| &mut options.tree.one_file_system),
];

const DEFAULT_INTERVAL: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flag_sets_one_option() {
        let mut seen = 0;
        for (flag, option) in FLAGS {
            let flag = *flag as u32;
            assert_eq!((flag.count_ones(), seen & flag), (1, 0));
            seen |= flag;
            let mut options = Options::default();
            *option(&mut options) = true;
            let set = FLAGS.iter().filter(|(_, option)| *option(&mut options)).count();
            assert_eq!(set, 1);
        }
        assert!(OF_EXISTING.into_iter().all(|flag| seen & flag as u32 == 0));
    }

    #[test]
    fn flags_choose_the_treatment_of_existing_outputs() {
        let existing = |flags: &[Flag]| {
            let flags = flags.iter().fold(0, |all, flag| all | *flag as u32);
            Wishes { flags, ..Wishes::default() }.existing()
        };
        let updating = [Flag::Update, Flag::IgnoreCtime];
        assert!(matches!(existing(&[]), Ok(Existing::Refuse)));
        assert!(matches!(existing(&[Flag::Overwrite]), Ok(Existing::Overwrite)));
        assert!(matches!(existing(&[Flag::Resume]), Ok(Existing::Resume { overwrite: false })));
        assert!(matches!(existing(&updating), Ok(Existing::Update(it)) if it.ignore_ctime));
        assert_eq!(existing(&[Flag::Resume, Flag::Update]).unwrap_err(), ONE_OF_BOTH);
        assert_eq!(existing(&[Flag::IgnoreCtime]).unwrap_err(), NO_COMPARISON);
    }
}
