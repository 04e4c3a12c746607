//! Why a benchmark could not be run.

use std::io;
use std::path::{Path, PathBuf};

/// Why a benchmark could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// A file or directory could not be handled.
    #[error("cannot {action} {}: {source}", evener_core::shown(path))]
    File {
        /// What was being done: `create`, `read`.
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A program could not be started.
    #[error("cannot start {}: {source}", evener_core::shown(program))]
    Start {
        /// Its name or path.
        program: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A program reported failure.
    #[error("{program} failed ({status}): {message}")]
    Failed {
        /// Its name and what it was to do, such as `rclone copy`.
        program: String,
        /// How it ended.
        status: std::process::ExitStatus,
        /// The end of its standard error.
        message: String,
    },
    /// What a contender decrypted is not what it had encrypted.
    #[error("{contender} did not restore {} as it was", evener_core::shown(path))]
    NotRestored {
        /// Whose work it is.
        contender: String,
        /// The first file that differs.
        path: PathBuf,
    },
    /// What a contender made of messages in memory is not what OpenSSL made of them.
    #[error("{contender} does not give what OpenSSL gives for {cipher}")]
    Differs {
        /// Whose work it is.
        contender: &'static str,
        /// Of which cipher.
        cipher: evener_core::Cipher,
    },
    /// A file that should hold a profile holds none.
    #[error("{}: {error}", evener_core::shown(path))]
    Profile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: evener_core::ProfileError,
    },
    /// A contender can't take part; the reason says what would change that.
    #[error("{0}")]
    Unavailable(String),
    /// A place has too little room for a workload.
    #[error(
        "{} has {available} MiB left and the tree needs {needed} MiB",
        evener_core::shown(place)
    )]
    Space {
        /// The directory that was to hold it.
        place: PathBuf,
        /// In MiB.
        available: u64,
        /// In MiB.
        needed: u64,
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
