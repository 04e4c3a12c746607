//! Detects that a source was changed after its output was made. The times of change show it, if the
//! outputs' file system keeps them; otherwise only size and time count.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use evener_core::IgnorePoison;
use rustix::fs::{AtFlags, Mode, Stat, StatxFlags, Timespec, Timestamps, futimens, statx};

use super::work::TreeWork;
use crate::FileError;
use crate::identity::status_now;

/// Records which of the outputs' file systems keep times of change.
#[derive(Default)]
pub(super) struct ChangeTimes {
    /// For each file system, whether it keeps any; `None` if it could not be tried.
    kept: Mutex<HashMap<u64, Option<bool>>>,
    /// True if only size and time counted for an output.
    lacked: AtomicBool,
}

impl ChangeTimes {
    /// A notice for the user, if only size and time counted.
    pub(super) fn notice(&self) -> Option<&'static str> {
        self.lacked.load(Ordering::Relaxed).then_some(LACKED)
    }

    fn lack(&self) -> bool {
        self.lacked.store(true, Ordering::Relaxed);
        true
    }
}

impl TreeWork<'_> {
    /// Returns whether nothing of a source was changed after its output was made, given equal sizes
    /// and times: a program that writes to a file can set its time back, but not the time at which
    /// its status changed. Within one tick of the clock, either may have come first.
    ///
    /// An output's status also changes later, for example when one of its names is replaced, so the
    /// time at which the output was made is used.
    pub(super) fn is_unchanged_since(
        &self,
        source: &Stat,
        directory: BorrowedFd<'_>,
        name: &OsStr,
        output: &Stat,
    ) -> bool {
        if self.options.existing.ignores_ctime() {
            return true;
        }
        let changed = changed(source);
        if changed >= self::changed(output) {
            return !self.keeps_change_times(directory, name, output) && self.change_times.lack();
        }
        match time_of_birth(directory, name, output) {
            Birth::At(birth) => changed < birth,
            // The last change may have been that of a name.
            Birth::Unknown => output.st_nlink == 1 || self.change_times.lack(),
            Birth::OfAnother => false,
        }
    }

    /// Returns whether an output's file system keeps times of change. Tries it once for each file
    /// system. Where nothing may be written, the output itself shows it, unless it was made in the
    /// same tick as its source.
    fn keeps_change_times(&self, directory: BorrowedFd<'_>, name: &OsStr, output: &Stat) -> bool {
        let tried = self.writes().then(|| {
            let kept = self.change_times.kept.lock();
            let mut kept = kept.ignore_poison();
            #[allow(clippy::unnecessary_cast, reason = "it differs between architectures")]
            let device = output.st_dev as u64;
            *kept.entry(device).or_insert_with(|| self.try_change_times(directory, name).ok())
        });
        tried.flatten().unwrap_or_else(|| changed(output) != modified(output))
    }

    /// Tries it with a file that never gets the name.
    fn try_change_times(&self, directory: BorrowedFd<'_>, name: &OsStr) -> Result<bool, FileError> {
        let system = FileError::system("try the times of its file system");
        let trial = self.outputs.create(directory, name, Mode::RUSR | Mode::WUSR)?;
        let time = Timespec { tv_sec: LONG_AGO, tv_nsec: 0 };
        let times = Timestamps { last_access: time, last_modification: time };
        futimens(trial.as_fd(), &times).map_err(&system)?;
        let status = status_now(trial.as_fd()).map_err(&system)?;
        Ok(![(0, 0), modified(&status)].contains(&changed(&status)))
    }
}

/// The time at which a file was made, in seconds and nanoseconds.
enum Birth {
    At((i64, i64)),
    /// The file system does not keep it.
    Unknown,
    /// Another file has the name now.
    OfAnother,
}

#[allow(clippy::unnecessary_cast, reason = "the fields' types differ between architectures")]
fn time_of_birth(directory: BorrowedFd<'_>, name: &OsStr, output: &Stat) -> Birth {
    let asked = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    match statx(directory, name, AtFlags::SYMLINK_NOFOLLOW, asked) {
        Ok(found) if found.stx_ino != output.st_ino as u64 => Birth::OfAnother,
        Ok(found)
            if found.stx_mask & StatxFlags::BTIME.bits() != 0 && found.stx_btime.tv_sec != 0 =>
        {
            Birth::At((found.stx_btime.tv_sec, found.stx_btime.tv_nsec.into()))
        }
        _ => Birth::Unknown,
    }
}

#[allow(clippy::unnecessary_cast, reason = "the fields' types differ between architectures")]
fn changed(status: &Stat) -> (i64, i64) {
    (status.st_ctime as i64, status.st_ctime_nsec as i64)
}

#[allow(clippy::unnecessary_cast, reason = "the fields' types differ between architectures")]
pub(super) fn modified(status: &Stat) -> (i64, i64) {
    (status.st_mtime as i64, status.st_mtime_nsec as i64)
}

/// A time that every file system can keep, in seconds since 1970.
const LONG_AGO: i64 = 1_000_000_000;

const LACKED: &str = "the file system doesn't keep when files were changed, so those whose size and time \
                      are their outputs' were taken for unchanged";
