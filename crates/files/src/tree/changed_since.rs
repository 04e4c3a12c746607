//! Whether a source was changed after its output was made. The times of change tell, where the file
//! system of the outputs keeps them; elsewhere size and time have to do.

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

/// What is known of the times of change that the outputs' file systems keep.
#[derive(Default)]
pub(super) struct ChangeTimes {
    /// Which of them keep any; `None` for one that could not be tried.
    kept: Mutex<HashMap<u64, Option<bool>>>,
    /// Whether size and time had to do for an output.
    lacked: AtomicBool,
}

impl ChangeTimes {
    /// A notice for the user, if size and time had to do.
    pub(super) fn notice(&self) -> Option<&'static str> {
        self.lacked.load(Ordering::Relaxed).then_some(LACKED)
    }

    fn lack(&self) -> bool {
        self.lacked.store(true, Ordering::Relaxed);
        true
    }
}

impl TreeWork<'_> {
    /// Whether nothing of a source was changed after its output was made, where sizes and times are the
    /// same: a program that writes to a file can set its time back, but not the time at which its
    /// status changed. In one tick of the clock anything may have come first.
    ///
    /// An output's status changes later too, as when one of its names is replaced, so it is asked when the
    /// output was made.
    pub(super) fn is_unchanged_since(
        &self,
        source: &Stat,
        directory: BorrowedFd<'_>,
        name: &OsStr,
        output: &Stat,
    ) -> bool {
        if self.options.ignore_ctime {
            return true;
        }
        let changed = changed(source);
        if changed >= self::changed(output) {
            return !self.keeps_change_times(directory, name, output) && self.change_times.lack();
        }
        match time_of_birth(directory, name, output) {
            Birth::At(birth) => changed < birth,
            // The last change can have been that of a name.
            Birth::Unknown => output.st_nlink == 1 || self.change_times.lack(),
            Birth::OfAnother => false,
        }
    }

    /// Whether the file system of an output keeps times of change. It is tried, once for each. Where
    /// nothing may be written, the output tells, unless it was made in the tick in which its source was.
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

/// When a file was made, in seconds and nanoseconds.
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
