//! Errors of benchmarks.

use std::io;
use std::path::{Path, PathBuf};

use evener_core::shown_error;

use crate::done::Amount;

/// The reason why a benchmark could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// A file or directory could not be handled.
    #[error("can't {action} {}: {}", evener_core::shown(path), shown_error(source))]
    File {
        /// The action: `create`, `read`.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A program could not be started.
    #[error("can't start {}: {}", evener_core::shown(program), shown_error(source))]
    Start {
        /// Its name or path.
        program: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A program reported failure.
    #[error("{program} failed ({status}): {message}")]
    Failed {
        /// Its name and task, such as `rclone copy`.
        program: String,
        /// Its exit status.
        status: std::process::ExitStatus,
        /// The end of its standard error.
        message: String,
    },
    /// A contender's decrypted tree differs from the source.
    #[error("{contender} restored {} with different content", evener_core::shown(path))]
    NotRestored {
        /// The contender.
        contender: String,
        /// The first file that differs.
        path: PathBuf,
    },
    /// A contender's results for messages in memory differ from OpenSSL's.
    #[error("{contender} and OpenSSL have different results for {cipher}")]
    Differs {
        /// The contender.
        contender: &'static str,
        /// The cipher.
        cipher: evener_core::Cipher,
    },
    /// A run did not do all of its work, so its time is not comparable.
    #[error(
        "{run}: {} of {} files were done ({} of {} bytes), so there are no figures",
        done.files, wanted.files, done.bytes, wanted.bytes
    )]
    Undone {
        /// The run's name, such as `polling, 8 bytes`.
        run: String,
        /// The work that was done.
        done: Amount,
        /// The work that was required.
        wanted: Amount,
    },
    /// A file does not contain a valid profile.
    #[error("{}: {error}", evener_core::shown(path))]
    Profile {
        /// The file.
        path: PathBuf,
        /// The error in it.
        error: evener_core::ProfileError,
    },
    /// A contender can't take part; the text gives the reason and the remedy.
    #[error("{0}")]
    Unavailable(String),
    /// There is no GPU of this name.
    #[error(
        "there is no GPU to measure: {reason}; name another device with --device (engine {engine})"
    )]
    NoDevice {
        /// The engine to be measured.
        engine: String,
        /// The reason why it is absent.
        reason: String,
    },
    /// A directory has too little free space for a workload.
    #[error(
        "{} has {available} MiB left and the tree needs {needed} MiB",
        evener_core::shown(place)
    )]
    Space {
        /// The directory.
        place: PathBuf,
        /// The free space, in MiB.
        available: u64,
        /// The space required, in MiB.
        needed: u64,
    },
    /// Runs took longer than the benchmark's bound.
    #[error("{beyond} of {runs} runs beside a module were beyond the bound")]
    Late {
        /// The number of late runs.
        beyond: usize,
        /// The number of runs.
        runs: usize,
    },
    /// The benchmark was interrupted from the keyboard.
    #[error("interrupted")]
    Interrupted,
}

impl LabError {
    /// Wraps an error of the file system; for use with `map_err`.
    pub(crate) fn file(
        action: &'static str,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(io::Error) -> LabError {
        move |source| LabError::File { action, path: path.as_ref().to_owned(), source }
    }
}
