//! Errors of single files.

use std::{fmt, io};

use evener_core::{EngineError, Rejection, shown_error};
use evener_format::FormatError;
use rustix::io::Errno;

use crate::Refusal;
use crate::fault::Fault;

/// The reason that one file (or the whole operation, before it began) failed.
/// `Failure` gives the path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// A system call failed.
    #[error("can't {action}: {errno}")]
    System {
        /// The action, as in "can't open it".
        action: &'static str,
        /// The call's error.
        errno: SystemError,
    },
    /// A system call for the file's output failed.
    #[error("can't {action}: {errno} (its output is `{output}`)")]
    Output {
        /// The action, as in "can't create its output".
        action: &'static str,
        /// The call's error.
        errno: SystemError,
        /// The output's path.
        output: String,
    },
    /// The file does not follow its format, or the key is not its key.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A chunk can't be decrypted.
    #[error("chunk {chunk}: {rejection}: the data was changed or the key is wrong")]
    Rejected {
        /// The chunk's number, from 0.
        chunk: u64,
        /// The engine's reason.
        rejection: Rejection,
    },
    /// The last chunk that arrived can't be decrypted, perhaps because the data was cut off.
    #[error("chunk {chunk}, the last: {rejection}: {}", end_words(*.key_fits))]
    RejectedEnd {
        /// The chunk's number, from 0.
        chunk: u64,
        /// The engine's reason.
        rejection: Rejection,
        /// True if the header has shown that the key is the right one.
        key_fits: bool,
    },
    /// The place where it lies, or that it goes to, did not do something.
    #[error(transparent)]
    Place(#[from] Fault),
    /// The source was written to while it was read.
    #[error("changed while it was read, so it was not done; do it again")]
    Changed,
    /// The source shows a size that is never that of its content.
    #[error(
        "shows a size that is not its content's, as special files of /proc and /sys do; write its \
         content to a regular file first, as with `cat`"
    )]
    WrongSize,
    /// The source was written to during every read, and the last read was stored.
    #[error(
        "changed each time that it was read; what was stored may mix its states, so do it again \
         when nothing writes to it"
    )]
    StoredChanging,
    /// The output goes to a terminal, which its control characters could garble.
    #[error("is binary and would garble the terminal; redirect it or name a file")]
    NoText,
    /// The source was written to after its output was made, so it was not removed.
    #[error("changed after its output was made, so it was kept; encrypt or decrypt it again")]
    ChangedSince,
    /// The output already exists.
    #[error("the output `{0}` exists")]
    Exists(String),
    /// The output already exists, and resuming would not help.
    #[error("the output `{0}` exists")]
    Taken(String),
    /// Something other than a directory has the name of an output directory.
    #[error("its output directory `{name}` is there already and is {kind}; remove that first")]
    NoDirectory {
        /// The directory's name.
        name: String,
        /// Its kind, such as "a file".
        kind: &'static str,
    },
    /// Something other than a file has the output's name.
    #[error("the output `{name}` is {kind}, which is not replaced by a file; remove it first")]
    Special {
        /// The output's name.
        name: String,
        /// Its kind, such as "a device".
        kind: &'static str,
    },
    /// Something other than a symbolic link has the name of a link that was to be made.
    #[error("the output `{name}` is {kind}, which is not replaced by a link; remove it first")]
    NoLink {
        /// The output's name.
        name: String,
        /// Its kind, such as "a file".
        kind: &'static str,
    },
    /// When a run is resumed: the output exists, but does not match its source.
    #[error("the output `{name}` exists but {difference}")]
    Differs {
        /// The output's name.
        name: String,
        /// The difference in size or time, with both values, as in "has 3 bytes, not 67".
        difference: String,
    },
    /// When a run is resumed or outputs are updated: the output exists, but was made with another
    /// key.
    #[error("the output `{0}` exists but was not made with this key and context")]
    OtherKey(String),
    /// When outputs are updated: the decrypted output was changed after its source was made.
    #[error("the output `{0}` is newer than its source, so it was kept")]
    Newer(String),
    /// The output's name leads to another output of the same run.
    #[error(
        "another source has the output `{0}` already: the file system of the outputs takes their two \
         names for one, or another run is making the same outputs; rename the source, or do one run \
         at a time"
    )]
    SameName(String),
    /// A directory of the source was a mount point when its outputs were made.
    #[error(
        "was a mount point at an earlier run and is none now, so nothing was deleted, below it or \
         elsewhere"
    )]
    Unmounted,
    /// An earlier run found that none of the outputs were of the source.
    #[error(
        "nothing was deleted, because an earlier run found no output of its source here: that source \
         was a different one, or was not mounted"
    )]
    OtherSource,
    /// A directory of the source is empty, and it is not known what was a mount point.
    #[error(
        "its source is empty, which could mean that a disk is not mounted there, and no earlier run has \
         noted that it was not a mount point, so nothing was deleted"
    )]
    PerhapsUnmounted,
    /// The output has lost its name since it was made, so the source was not removed.
    #[error(
        "the output `{0}` was replaced or removed after it was made, perhaps by another run; the \
         source is kept; do it again"
    )]
    OutputGone(String),
    /// The wrapped key of the outputs was removed or replaced, so no source was removed.
    #[error(
        "the wrapped key `{0}` was replaced or removed after it was made or opened, and only it \
         opens the output; the source is kept; do it again"
    )]
    KeyGone(String),
    /// The output's name is longer than a name can be.
    #[error(
        "the output's name would have {length} bytes, more than the 255 that a name can have; \
         rename it, choose a shorter suffix, or do it alone and name the output"
    )]
    NameTooLong {
        /// The name's length, in bytes.
        length: usize,
    },
    /// A file to be decrypted does not have the suffix that encrypting gave it.
    #[error("the name does not end in `{0}`; skipped")]
    Suffix(String),
    /// A caller's buffer is too short for the result.
    #[error("the result has {needed} bytes, and the buffer for it {room}")]
    ShortBuffer {
        /// The result's length, in bytes.
        needed: u64,
        /// The buffer's length, in bytes.
        room: u64,
    },
    /// A chunk does not fit into the permitted memory.
    #[error("the buffers for one chunk take {needed} bytes")]
    Memory {
        /// The size of all workers' buffers together, in bytes.
        needed: u64,
    },
    /// The output has fewer or more bytes than belong to the file.
    #[error("{written} bytes came out instead of {expected}, so it was not done")]
    Incomplete {
        /// The expected length of the output, in bytes.
        expected: u64,
        /// Its actual length, in bytes.
        written: u64,
    },
    /// The written output, read back, does not match its source.
    #[error("the written output does not decrypt to the source; the source was kept")]
    NotVerified,
    /// The file is another name of one that failed.
    #[error("is a hard link to `{0}`, which failed")]
    LinkedToFailed(String),
    /// No engine was left to process it.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// No engine offers what the format needs.
    #[error("no selected engine can {direction} {cipher}")]
    NoEngine {
        /// The cipher that the format needs.
        cipher: evener_core::Cipher,
        /// The direction.
        direction: evener_core::Direction,
    },
    /// The encrypted side of a stream is not base64.
    #[error("is no base64, or was cut short")]
    NotBase64,
    /// Others could read the plaintext: its file system decides the modes and owners of files
    /// itself.
    #[error(
        "others could read the plaintext there: a new file of mode 0600 has mode {mode:04o} and \
         belongs to user {owner}, since the mount decides that; mount it for yourself alone (umask=077)"
    )]
    Exposed {
        /// The permission bits of a new file.
        mode: u32,
        /// Its owner.
        owner: u32,
    },
    /// Evener refused to do it, or found a fault of its own.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The operation was stopped before the file was done.
    #[error("interrupted")]
    Interrupted,
}

impl FileError {
    /// For `map_err`: turns a system call's error into "can't ACTION: …".
    #[doc(hidden)]
    pub fn system(action: &'static str) -> impl Fn(Errno) -> FileError {
        move |errno| FileError::System { action, errno: errno.system() }
    }
}

/// Possible reasons for a wrong end of the data.
fn end_words(key_fits: bool) -> &'static str {
    match key_fits {
        true => "the data was changed, cut short or lengthened",
        false => "the data was changed, cut short or lengthened, or the key is wrong",
    }
}

/// An error of a system call. Its text is the system's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SystemError(Errno);

impl SystemError {
    /// The number, such as 13 for `EACCES`.
    pub fn number(self) -> i32 {
        self.0.raw_os_error()
    }

    /// The kind, for programs.
    pub fn kind(self) -> io::ErrorKind {
        self.0.kind()
    }

    /// Compares it with an error of a system call.
    #[doc(hidden)]
    pub fn is(self, errno: Errno) -> bool {
        self.0 == errno
    }
}

impl fmt::Display for SystemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown_error(&self.0.into()))
    }
}

impl fmt::Debug for SystemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// Makes a [`SystemError`] of the error of a system call. It is hidden, so that the type of another
/// crate stays out of the interface.
#[doc(hidden)]
pub trait IntoSystemError {
    /// The same error.
    fn system(self) -> SystemError;
}

impl IntoSystemError for Errno {
    fn system(self) -> SystemError {
        SystemError(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_errors_read_as_a_sentence() {
        let error = FileError::system("open it")(Errno::ACCESS);
        assert_eq!(error.to_string(), "can't open it: Permission denied");
    }
}
