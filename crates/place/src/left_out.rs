//! The reasons for leaving entries out.

use rustix::fs::FileType;

pub(crate) const UNFINISHED: &str = "unfinished output of evener skipped";
pub(crate) const OTHER_FILE_SYSTEM: &str = "directory on another file system skipped";
pub(crate) const WRAPPED_KEY: &str = "wrapped key skipped";

/// The reason for leaving out an entry of a kind that is never taken.
pub(crate) fn special(kind: FileType) -> &'static str {
    match kind {
        FileType::Fifo => "FIFO skipped",
        FileType::Socket => "socket skipped",
        FileType::CharacterDevice | FileType::BlockDevice => "device skipped",
        FileType::Symlink => "symbolic link skipped",
        _ => "special file skipped",
    }
}
