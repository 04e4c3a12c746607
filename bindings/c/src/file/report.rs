//! Reports of operations on files.

use std::ffi::{CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

use facade::{Effort, Report};

use crate::status::{Status, Trouble};

/// The report of an operation on files: numbers, the failed files, and everything as JSON.
pub struct ReportHandle {
    report: Report,
    failures: Vec<(CString, CString)>,
    doubts: Vec<(CString, CString)>,
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
            json: OnceLock::new(),
        }
    }

    pub(crate) fn summary(&self) -> Summary {
        let report = &self.report;
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
        }
    }

    pub(crate) fn failure(&self, index: usize) -> Result<FailureFacts, Trouble> {
        facts(&self.failures, index, "failure")
    }

    pub(crate) fn doubt(&self, index: usize) -> Result<FailureFacts, Trouble> {
        facts(&self.doubts, index, "doubtful file")
    }

    pub(crate) fn json(&self) -> &CString {
        self.json.get_or_init(|| text(serde_json::to_string(&self.report).unwrap_or_default()))
    }

    /// The return value of the operation's call.
    pub(crate) fn verdict(&self) -> Result<(), Trouble> {
        let report = &self.report;
        let status = if report.interrupted { Status::Cancelled } else { Status::Incomplete };
        report.shortfall().map_or(Ok(()), |message| Err(Trouble::new(status, message)))
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

fn text(text: String) -> CString {
    CString::new(text.replace('\0', "\u{FFFD}")).unwrap_or_default()
}
