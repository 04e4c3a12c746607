//! Options of operations on files.

use std::ffi::{c_char, c_int, c_void};
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use facade::{Evener, KeyRing, Options};

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
    pub jobs: usize,
    /// Memory limit for the buffers of all workers, in bytes; 0 for 64 MiB.
    pub memory: usize,
    /// Suffix that encrypting appends to a file's name and decrypting removes; NULL for `.enc`.
    pub suffix: *const c_char,
    /// Context that files are bound to, the same in both directions; NULL for none.
    pub context: *const u8,
    /// In bytes.
    pub context_length: usize,
    /// A sum of `EVENER_RESUME` and the others.
    pub flags: u32,
    /// Interval of the calls of `progress`, in milliseconds; 0 for 100.
    pub progress_interval: u32,
    /// Called with the progress; NULL for no callback.
    pub progress: ProgressCallback,
    /// Passed to `progress`.
    pub user_data: *mut c_void,
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
    pub(crate) jobs: usize,
    pub(crate) memory: usize,
    pub(crate) suffix: Option<&'a Path>,
    pub(crate) context: &'a [u8],
    pub(crate) flags: u32,
    pub(crate) progress_interval: u32,
}

impl Wishes<'_> {
    pub(crate) fn evener(&self, keys: KeyRing) -> Result<Evener, Trouble> {
        let all = FLAGS.iter().fold(0, |all, (flag, _)| all | flag);
        if self.flags & !all != 0 {
            return Err(Trouble::argument(format!("unknown flags {:#x}", self.flags & !all)));
        }
        if let Some(suffix) = self.suffix {
            let suffix = suffix.as_os_str();
            // A C string contains no zero byte.
            if suffix.is_empty() || suffix.as_bytes().contains(&b'/') {
                return Err(Trouble::argument("a suffix has at least one character and no slash"));
            }
        }
        let mut evener = Evener::new(keys)?;
        if !self.engines.is_empty() {
            evener = evener.engines(&self.engines)?;
        }
        if let Some(jobs) = NonZeroUsize::new(self.jobs) {
            evener = evener.jobs(jobs);
        }
        Ok(evener.options(|options| {
            if self.memory > 0 {
                options.memory = self.memory;
            }
            if let Some(suffix) = self.suffix {
                options.suffix = suffix.as_os_str().to_owned();
            }
            for (flag, option) in FLAGS {
                *option(options) = self.flags & flag != 0;
            }
        }))
    }

    pub(crate) fn interval(&self) -> Duration {
        match self.progress_interval {
            0 => DEFAULT_INTERVAL,
            milliseconds => Duration::from_millis(milliseconds.into()),
        }
    }
}

/// The field of the options for a flag.
type Place = fn(&mut Options) -> &mut bool;

const FLAGS: &[(u32, Place)] = &[
    (super::sys::EVENER_RESUME, |options| &mut options.resume),
    (super::sys::EVENER_OVERWRITE, |options| &mut options.overwrite),
    (super::sys::EVENER_REMOVE_SOURCE, |options| &mut options.remove_source),
    (super::sys::EVENER_DURABLE, |options| &mut options.durable),
    (super::sys::EVENER_FOLLOW_SYMLINKS, |options| &mut options.follow_symlinks),
    (super::sys::EVENER_KEEP_OWNER, |options| &mut options.owner),
    (super::sys::EVENER_KEEP_XATTRS, |options| &mut options.xattrs),
    (super::sys::EVENER_SPARSE, |options| &mut options.sparse),
    (super::sys::EVENER_DRY_RUN, |options| &mut options.dry_run),
    (super::sys::EVENER_MEASURE_TOTAL, |options| &mut options.measure_total),
];

const DEFAULT_INTERVAL: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flag_sets_one_option() {
        let mut seen = 0;
        for (flag, option) in FLAGS {
            assert_eq!((flag.count_ones(), seen & flag), (1, 0));
            seen |= flag;
            let mut options = Options::new(Vec::new());
            *option(&mut options) = true;
            let set = FLAGS.iter().filter(|(_, option)| *option(&mut options)).count();
            assert_eq!(set, 1);
        }
    }
}
