//! The report's entries, collected from all workers.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::{
    Control, Failure, FileError, FileOutcome, Listener, Notice, Refusal, Report, RunSettings,
    Settled,
};
use evener_core::IgnorePoison;

/// Counts and lists that workers extend while they work.
pub(crate) struct Record<'a> {
    control: &'a Control,
    listener: Option<&'a Listener>,
    root: &'a Path,
    /// Files that were fed, and those whose outcome is known.
    fed: AtomicU64,
    settled: AtomicU64,
    files: AtomicU64,
    bytes: AtomicU64,
    bytes_written: AtomicU64,
    files_skipped: AtomicU64,
    files_updated: AtomicU64,
    files_unchanged: AtomicU64,
    locks_extended: AtomicU64,
    files_deleted: AtomicU64,
    left_out: AtomicU64,
    interrupted: AtomicBool,
    gave_up: AtomicBool,
    lists: Mutex<Lists>,
}

#[derive(Default)]
struct Lists {
    notices: Vec<Notice>,
    failures: Vec<Failure>,
}

impl<'a> Record<'a> {
    /// `root` is the user's name for the source; the paths of failures begin with it.
    pub(crate) fn new(run: &'a RunSettings, root: &'a Path) -> Record<'a> {
        Record {
            control: &run.control,
            listener: run.listener.as_ref(),
            root,
            fed: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            files: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
            files_skipped: AtomicU64::new(0),
            files_updated: AtomicU64::new(0),
            files_unchanged: AtomicU64::new(0),
            locks_extended: AtomicU64::new(0),
            files_deleted: AtomicU64::new(0),
            left_out: AtomicU64::new(0),
            interrupted: AtomicBool::new(false),
            gave_up: AtomicBool::new(false),
            lists: Mutex::default(),
        }
    }

    /// Stops the run, and counts its progress.
    pub(crate) fn control(&self) -> &'a Control {
        self.control
    }

    /// Counts files that become tasks. Each is to be done, to fail or to be left.
    pub(crate) fn fed(&self, files: u64) {
        self.fed.fetch_add(files, Ordering::Relaxed);
        self.control.found(files, 0);
    }

    /// Records that a file (given by its path below the root) was done; `updated` says that it has
    /// replaced the output of an older state.
    pub(crate) fn done(
        &self,
        path: impl FnOnce() -> PathBuf,
        bytes: u64,
        bytes_written: u64,
        updated: bool,
    ) {
        if updated {
            self.files_updated.fetch_add(1, Ordering::Relaxed);
        }
        self.tell(path, if updated { FileOutcome::Updated } else { FileOutcome::Done });
        self.files.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bytes_written.fetch_add(bytes_written, Ordering::Relaxed);
        self.settled.fetch_add(1, Ordering::Relaxed);
        self.control.settled(Settled::Done);
    }

    /// Records that a file was already complete.
    pub(crate) fn skipped(&self, path: impl FnOnce() -> PathBuf, bytes: u64) {
        self.tell(path, FileOutcome::Skipped);
        self.files_skipped.fetch_add(1, Ordering::Relaxed);
        self.settle(Settled::Skipped);
        self.control.done_bytes(bytes);
    }

    /// Records that a file's output needs no update.
    pub(crate) fn unchanged(&self, path: impl FnOnce() -> PathBuf, bytes: u64) {
        self.tell(path, FileOutcome::Unchanged);
        self.files_unchanged.fetch_add(1, Ordering::Relaxed);
        self.settle(Settled::Unchanged);
        self.control.done_bytes(bytes);
    }

    /// Records whether the lock of an output that stays was extended.
    pub(crate) fn kept(&self, is_extended: bool) {
        self.locks_extended.fetch_add(is_extended.into(), Ordering::Relaxed);
    }

    /// Records that an output got another mode, and was otherwise up to date.
    pub(crate) fn changed_mode(&self, path: impl FnOnce() -> PathBuf, bytes: u64) {
        self.tell(path, FileOutcome::Updated);
        self.files_updated.fetch_add(1, Ordering::Relaxed);
        self.settle(Settled::Mode);
        self.control.done_bytes(bytes);
    }

    /// Records that a further name of a file (given by its path below the root) was made, or would
    /// be.
    pub(crate) fn linked(&self, path: impl FnOnce() -> PathBuf) {
        self.tell(path, FileOutcome::Linked);
        self.settle(Settled::Linked);
    }

    /// Records that the output with this path, whose source is gone, was removed.
    pub(crate) fn deleted(&self, path: &Path) {
        self.files_deleted.fetch_add(1, Ordering::Relaxed);
        if let Some(listener) = self.listener {
            listener(path, FileOutcome::Deleted);
        }
    }

    /// Returns whether outputs of the source existed before.
    pub(crate) fn found_outputs(&self) -> bool {
        let found = [&self.files_updated, &self.files_unchanged, &self.files_skipped];
        found.iter().any(|number| number.load(Ordering::Relaxed) > 0)
    }

    /// Returns whether an entry (given by its path below the root) failed.
    pub(crate) fn has_failed(&self, path: &Path) -> bool {
        let path = self.full(path);
        self.lists().failures.iter().any(|failure| failure.path == path)
    }

    /// Returns whether everything so far was done.
    pub(crate) fn is_success(&self) -> bool {
        !self.interrupted.load(Ordering::Relaxed) && self.lists().failures.is_empty()
    }

    /// Records that a file that was fed (given by its path below the root) could not be done. It is
    /// not among those done. A file left undone by an interruption has not failed.
    pub(crate) fn failed_file(&self, path: &Path, error: FileError) {
        if error != FileError::Interrupted {
            self.settle(Settled::Failed);
        }
        self.failed(path, error);
    }

    /// Records a failure of an entry that was not fed as a file, or that was already counted (given
    /// by its path below the root).
    pub(crate) fn failed(&self, path: &Path, error: FileError) {
        self.failed_of(self.full(path), error);
    }

    /// Records that a file (given by its path below the root) was done, but changed while it was
    /// read.
    pub(crate) fn stored_changing(&self, path: &Path) {
        self.failed(path, FileError::StoredChanging);
    }

    /// Records that an entry of the source (given by its path below the root) was left out on
    /// purpose.
    pub(crate) fn left_out(&self, path: &Path, reason: impl Into<String>) {
        self.left_out.fetch_add(1, Ordering::Relaxed);
        self.notice(path, reason);
    }

    /// As [`Record::left_out`], for a file that was fed.
    pub(crate) fn left_out_file(&self, path: &Path, reason: impl Into<String>) {
        self.left_out(path, reason);
        self.settle(Settled::LeftOut);
    }

    /// Records a notice about an entry (given by its path below the root).
    pub(crate) fn notice(&self, path: &Path, reason: impl Into<String>) {
        let notice = Notice { path: self.full(path), reason: reason.into() };
        self.lists().notices.push(notice);
    }

    /// As [`Record::notice`], for a path that is not below the source.
    pub(crate) fn notice_of(&self, path: PathBuf, reason: impl Into<String>) {
        self.lists().notices.push(Notice { path, reason: reason.into() });
    }

    /// As [`Record::failed`], for a path that is not a file of the source.
    pub(crate) fn failed_of(&self, path: PathBuf, error: FileError) {
        if error == FileError::Interrupted {
            self.interrupted.store(true, Ordering::Relaxed);
        } else {
            self.control.failed();
            self.lists().failures.push(Failure { path, error });
        }
    }

    /// Notes that the run ended early, for a reason that is reported elsewhere: files were left.
    pub(crate) fn give_up(&self) {
        self.gave_up.store(true, Ordering::Relaxed);
    }

    /// Moves everything into the report, with the lists sorted by path. A file that was fed and
    /// lost is a failure of the whole operation.
    pub(crate) fn into_report(self, report: &mut Report) {
        let settled = self.settled.load(Ordering::Relaxed);
        let lost = self.fed.load(Ordering::Relaxed).saturating_sub(settled);
        let is_told =
            self.interrupted.load(Ordering::Relaxed) || self.gave_up.load(Ordering::Relaxed);
        if lost > 0 && !is_told && !self.control.is_stopped() {
            self.failed(Path::new(""), Refusal::FilesLost(lost).into());
        }
        report.files = self.files.into_inner();
        report.bytes = self.bytes.into_inner();
        report.bytes_written = self.bytes_written.into_inner();
        report.interrupted = self.interrupted.into_inner();
        report.files_skipped = self.files_skipped.into_inner();
        report.files_updated = self.files_updated.into_inner();
        report.files_unchanged = self.files_unchanged.into_inner();
        report.locks_extended = self.locks_extended.into_inner();
        report.files_deleted = self.files_deleted.into_inner();
        report.left_out = self.left_out.into_inner();
        let mut lists = self.lists.into_inner().ignore_poison();
        lists.failures.sort_by(|a, b| a.path.cmp(&b.path));
        lists.notices.sort_by(|a, b| a.path.cmp(&b.path));
        report.failures = lists.failures;
        report.notices = lists.notices;
    }

    fn settle(&self, why: Settled) {
        self.settled.fetch_add(1, Ordering::Relaxed);
        self.control.settled(why);
    }

    fn tell(&self, path: impl FnOnce() -> PathBuf, outcome: FileOutcome) {
        if let Some(listener) = self.listener {
            listener(&self.full(&path()), outcome);
        }
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().ignore_poison()
    }

    fn full(&self, path: &Path) -> PathBuf {
        if path.as_os_str().is_empty() { self.root.to_owned() } else { self.root.join(path) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_lost_is_no_success() {
        for (done, is_success) in [(2, false), (3, true)] {
            let run = RunSettings::default();
            let record = Record::new(&run, Path::new("tree"));
            record.fed(4);
            record.skipped(PathBuf::new, 1);
            (0..done).for_each(|_| record.done(PathBuf::new, 1, 1, false));
            let mut report = Report::default();
            record.into_report(&mut report);
            assert_eq!(report.is_success(), is_success, "{:?}", report.failures);
            if let Some(failure) = report.failures.first() {
                assert!(failure.to_string().contains("1 of its files"), "{failure}");
            }
        }
    }

    #[test]
    fn what_an_interruption_leaves_is_not_lost() {
        let run = RunSettings::default();
        let record = Record::new(&run, Path::new("tree"));
        record.fed(1);
        record.failed_file(Path::new("file"), FileError::Interrupted);
        let mut report = Report::default();
        record.into_report(&mut report);
        assert!(report.failures.is_empty() && report.interrupted);
    }
}
