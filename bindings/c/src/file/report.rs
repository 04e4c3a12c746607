//! Reports of operations on files.

use std::ffi::{CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::OnceLock;

use facade::{Control, Effort, Failure, FileError, OperationError, Refusal, Report, SealedTree};
use serde_json::{Value, json};

use crate::boundary::words_of;
use crate::status::{Status, Trouble};

/// The report of an operation on files: numbers, the failed files, and everything as JSON.
pub struct ReportHandle {
    report: Report,
    failures: Vec<(CString, CString)>,
    doubts: Vec<(CString, CString)>,
    /// The result of an operation that has fields of its own.
    document: Option<Value>,
    json: OnceLock<CString>,
}

/// A report's numbers.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Summary {
    /// `sizeof(evener_summary)`, set by the caller.
    pub size: usize,
    /// Files done, without those skipped.
    pub files: u64,
    /// Bytes read from them.
    pub bytes: u64,
    /// Bytes written for them.
    pub bytes_written: u64,
    /// Files that were complete already.
    pub files_skipped: u64,
    /// Further names of files done, made as hard links.
    pub hard_links: u64,
    /// Symbolic links recreated.
    pub symlinks: u64,
    /// Directories entered.
    pub directories: u64,
    /// Files that failed.
    pub failures: u64,
    /// Engines that were taken out of service.
    pub retired_engines: u64,
    /// Wall time of the whole operation.
    pub seconds: f64,
    /// 1 if the operation was stopped before its end, else 0.
    pub interrupted: u32,
    /// 1 if everything was done and no file is in doubt, else 0.
    pub success: u32,
    /// Files that were done but may be wrong, because an engine computed wrong results.
    pub doubtful_files: u64,
    /// Jobs of modules that the reference engine recomputed with the same result.
    pub verified_jobs: u64,
    /// Jobs of modules that were not recomputed.
    pub unverified_jobs: u64,
    /// Entries that were left out, such as special files and wrapped keys; the JSON names each.
    pub left_out: u64,
    /// Of a sealed tree: the number of the generation that was made or read; 0 if there is none.
    pub generation: u64,
    /// 1 if the operation has made that generation, else 0.
    pub generation_is_new: u64,
}

/// A file that failed. The texts belong to the report.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FailureFacts {
    /// `sizeof(evener_failure)`, set by the caller.
    pub size: usize,
    /// The path, as the caller would write it.
    pub path: *const c_char,
    /// The cause, as one line.
    pub cause: *const c_char,
}

/// The end of an operation: its report, and the result of its call.
pub(crate) struct Outcome {
    pub(crate) report: ReportHandle,
    pub(crate) verdict: Result<(), Trouble>,
}

impl Outcome {
    /// Performs an operation. If it can't begin, or a panic ends it, there is a report all the
    /// same: of what was done until then, as `control` has counted it.
    pub(crate) fn of(
        operation: &str,
        source: &Path,
        control: &Control,
        operate: impl FnOnce() -> Result<Report, OperationError>,
    ) -> Outcome {
        // Unwind safety: afterwards only the counts of `control` are read, which are atomic.
        let result = catch_unwind(AssertUnwindSafe(operate));
        let (failure, trouble) = match result.map(|it| it.or_else(OperationError::into_report)) {
            Ok(Ok(report)) => {
                let verdict = verdict(&report);
                return Outcome { report: ReportHandle::new(report), verdict };
            }
            Ok(Err(failure)) => (failure.clone(), failure.into()),
            Err(panic) => {
                let words = words_of(&*panic);
                let error = Refusal::Other(words.clone()).into();
                let failure = Failure { path: source.to_owned(), error };
                (failure, Trouble::new(Status::Internal, words))
            }
        };
        let report = ReportHandle::new(broken_off(operation, control, failure));
        Outcome { report, verdict: Err(trouble) }
    }
}

/// The report of an operation that ended without one.
fn broken_off(operation: &str, control: &Control, failure: Failure) -> Report {
    let progress = control.progress();
    let mut report = Report::default();
    operation.clone_into(&mut report.operation);
    report.files = progress.completed_files;
    report.bytes = progress.done_bytes;
    report.interrupted = failure.error == FileError::Interrupted;
    if !report.interrupted {
        report.failures.push(failure);
    }
    report
}

/// The return value of the operation's call.
fn verdict(report: &Report) -> Result<(), Trouble> {
    let status = if report.interrupted { Status::Cancelled } else { Status::Incomplete };
    report.shortfall().map_or(Ok(()), |message| Err(Trouble::new(status, message)))
}

impl ReportHandle {
    pub(crate) fn new(report: Report) -> ReportHandle {
        let failures = report.failures.iter().map(|failure| {
            // A path has no zero byte.
            let path = CString::new(failure.path.as_os_str().as_bytes()).unwrap_or_default();
            (path, text(failure.error.to_string()))
        });
        let doubts = report.doubtful.iter().map(|doubt| {
            let path = CString::new(doubt.path.as_os_str().as_bytes()).unwrap_or_default();
            let cause =
                format!("engine `{}` did some of it and computed wrong results", doubt.engine);
            (path, text(cause))
        });
        ReportHandle {
            failures: failures.collect(),
            doubts: doubts.collect(),
            report,
            document: None,
            json: OnceLock::new(),
        }
    }

    /// With the result of an operation that has fields of its own, for [`ReportHandle::json`].
    pub(crate) fn with_document(self, document: Option<Value>) -> ReportHandle {
        ReportHandle { document, ..self }
    }

    pub(crate) fn summary(&self) -> Summary {
        let report = &self.report;
        let (generation, is_new) = match &report.sealed {
            None => (0, false),
            Some(SealedTree::Made(made)) => (made.generation, made.is_new),
            Some(SealedTree::Read(read)) => (read.number, false),
        };
        Summary {
            size: size_of::<Summary>(),
            files: report.files,
            bytes: report.bytes,
            bytes_written: report.bytes_written,
            files_skipped: report.files_skipped,
            hard_links: report.hard_links,
            symlinks: report.symlinks,
            directories: report.directories,
            failures: report.failures.len() as u64,
            retired_engines: report.retired.len() as u64,
            seconds: report.seconds,
            interrupted: report.interrupted.into(),
            success: report.is_success().into(),
            doubtful_files: report.doubtful.len() as u64,
            verified_jobs: sum(report, |effort| effort.verified_jobs),
            unverified_jobs: sum(report, |effort| effort.unverified_jobs),
            left_out: report.left_out,
            generation,
            generation_is_new: is_new.into(),
        }
    }

    pub(crate) fn failure(&self, index: usize) -> Result<FailureFacts, Trouble> {
        facts(&self.failures, index, "failure")
    }

    pub(crate) fn doubt(&self, index: usize) -> Result<FailureFacts, Trouble> {
        facts(&self.doubts, index, "doubtful file")
    }

    pub(crate) fn json(&self) -> &CString {
        self.json.get_or_init(|| {
            let text_of = match self.document.clone() {
                None => serde_json::to_string(&self.report),
                Some(mut document) => {
                    document["failures"] = json!(self.report.failures);
                    serde_json::to_string(&document)
                }
            };
            text(text_of.unwrap_or_default())
        })
    }
}

fn facts(list: &[(CString, CString)], index: usize, what: &str) -> Result<FailureFacts, Trouble> {
    let count = list.len();
    let (path, cause) = list.get(index).ok_or_else(|| {
        Trouble::argument(format!("there is no {what} {index}: there are {count}"))
    })?;
    let size = size_of::<FailureFacts>();
    Ok(FailureFacts { size, path: path.as_ptr(), cause: cause.as_ptr() })
}

/// The counts of all engines.
fn sum(report: &Report, figure: fn(&Effort) -> Option<u64>) -> u64 {
    report.engines.values().filter_map(figure).sum()
}

pub(crate) fn text(text: String) -> CString {
    CString::new(text.replace('\0', "\u{FFFD}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(operate: impl FnOnce() -> Result<Report, OperationError>) -> (Summary, Trouble) {
        let control = Control::default();
        let source = Path::new("tree");
        let Outcome { report, verdict } = Outcome::of("encrypt", source, &control, operate);
        assert!(report.json().to_str().unwrap().contains("\"operation\":\"encrypt\""));
        (report.summary(), verdict.unwrap_err())
    }

    #[test]
    fn every_end_has_a_report() {
        let failure = |error| Failure { path: "tree".into(), error };
        let refused = || Err(failure(Refusal::NeitherFileNorTree.into()).into());
        let (summary, trouble) = outcome(refused);
        assert_eq!((summary.failures, summary.success, trouble.status), (1, 0, Status::File));
        let (summary, trouble) = outcome(|| Err(failure(FileError::Interrupted).into()));
        assert_eq!((summary.failures, summary.interrupted), (0, 1));
        assert_eq!(trouble.status, Status::Cancelled);
        let (summary, trouble) = outcome(|| panic!("the wheel fell off"));
        assert_eq!((summary.failures, summary.success, trouble.status), (1, 0, Status::Internal));
        assert!(trouble.message.contains("the wheel fell off"));
    }
}
