//! Return values of functions, and their messages.

use std::cell::RefCell;
use std::ffi::{CStr, CString};

use facade::format::FormatError;
use facade::keys::KeyError;
use facade::place::Fault;
use facade::{EngineError, Failure, FileError, Refusal, Rejection, UnknownCipher};

/// The result of a call. Later versions may add numbers and never change one.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Everything was done.
    Ok = 0,
    /// An argument is NULL, out of its range, or does not fit another.
    InvalidArgument = 1,
    /// There is no cipher of this name.
    UnknownCipher = 2,
    /// The key has the wrong length, is missing or superfluous, or is not that of the sealed tree.
    InvalidKey = 3,
    /// There is no engine of this name, or it can't be used on this machine.
    EngineUnavailable = 4,
    /// The engine does not offer the cipher.
    NotOffered = 5,
    /// The engine failed; the jobs that are pending were not done.
    EngineFailed = 6,
    /// The tag does not match: the key is wrong or the data was changed.
    AuthenticationFailed = 7,
    /// The padding is malformed: the key is wrong or the data was changed.
    BadPadding = 8,
    /// The lengths of a job do not fit its cipher or each other.
    MalformedJob = 9,
    /// Of a job: it was not done, because the engine failed before. Its input is unchanged.
    Pending = 10,
    /// A key file can't be read, made or opened.
    KeyFile = 11,
    /// An operation on files could not begin.
    File = 12,
    /// Some files of an operation failed, or may be wrong; its report lists them. The others were done.
    Incomplete = 13,
    /// The progress callback stopped the operation. Complete outputs stay.
    Cancelled = 14,
    /// Another thread is using the session.
    Busy = 15,
    /// A bug of Evener. The outputs are undefined.
    Internal = 16,
}

impl Status {
    /// A line that explains it.
    pub(crate) fn words(self) -> &'static CStr {
        match self {
            Status::Ok => c"done",
            Status::InvalidArgument => c"invalid argument",
            Status::UnknownCipher => c"unknown cipher",
            Status::InvalidKey => c"the key does not fit",
            Status::EngineUnavailable => c"the engine is not available",
            Status::NotOffered => c"the engine does not offer the cipher",
            Status::EngineFailed => c"the engine failed",
            Status::AuthenticationFailed => c"authentication failed",
            Status::BadPadding => c"the padding is malformed",
            Status::MalformedJob => c"malformed job",
            Status::Pending => c"not done yet",
            Status::KeyFile => c"the key file can't be used",
            Status::File => c"the operation could not begin",
            Status::Incomplete => c"some files could not be done",
            Status::Cancelled => c"cancelled",
            Status::Busy => c"another thread is using the session",
            Status::Internal => c"a defect of Evener's",
        }
    }

    /// The status with this number.
    pub(crate) fn from_number(number: i32) -> Option<Status> {
        ALL.iter().copied().find(|&status| status as i32 == number)
    }
}

const ALL: &[Status] = &[
    Status::Ok,
    Status::InvalidArgument,
    Status::UnknownCipher,
    Status::InvalidKey,
    Status::EngineUnavailable,
    Status::NotOffered,
    Status::EngineFailed,
    Status::AuthenticationFailed,
    Status::BadPadding,
    Status::MalformedJob,
    Status::Pending,
    Status::KeyFile,
    Status::File,
    Status::Incomplete,
    Status::Cancelled,
    Status::Busy,
    Status::Internal,
];

/// The reason why a call failed: a status and a message.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Trouble {
    pub(crate) status: Status,
    pub(crate) message: String,
}

impl Trouble {
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Trouble {
        Trouble { status, message: message.into() }
    }

    pub(crate) fn argument(message: impl Into<String>) -> Trouble {
        Trouble::new(Status::InvalidArgument, message)
    }

    /// Keeps the message for [`last_message`] on this thread.
    pub(crate) fn keep(self) -> Status {
        // One line, whatever names it quotes; control characters are escaped, zero bytes too.
        let message = facade::program::shown_text(&self.message).replace('\n', " ");
        let message = CString::new(message).unwrap_or_default();
        // While a thread ends its messages may be freed already; only the status remains.
        let _ = LAST.try_with(|last| last.replace(message));
        self.status
    }
}

/// Passes `read` the message of the last call on this thread that did not return [`Status::Ok`];
/// empty if there was none. It stays valid until the next such call.
pub(crate) fn last_message<T>(read: impl Fn(&CStr) -> T) -> T {
    // While a thread ends its messages may be freed already.
    LAST.try_with(|last| read(&last.borrow())).unwrap_or_else(|_| read(c""))
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

impl From<Rejection> for Status {
    fn from(rejection: Rejection) -> Status {
        match rejection {
            Rejection::Tag => Status::AuthenticationFailed,
            Rejection::Padding => Status::BadPadding,
            _ => Status::MalformedJob,
        }
    }
}

impl From<UnknownCipher> for Trouble {
    fn from(error: UnknownCipher) -> Trouble {
        Trouble::new(Status::UnknownCipher, error.to_string())
    }
}

impl From<EngineError> for Trouble {
    fn from(error: EngineError) -> Trouble {
        let status = match &error {
            EngineError::NotOffered { .. } => Status::NotOffered,
            EngineError::KeyLength { .. }
            | EngineError::NoKey { .. }
            | EngineError::HoldsKey { .. } => Status::InvalidKey,
            EngineError::Unavailable { .. } => Status::EngineUnavailable,
            _ => Status::EngineFailed,
        };
        Trouble::new(status, error.to_string())
    }
}

impl From<KeyError> for Trouble {
    fn from(error: KeyError) -> Trouble {
        Trouble::new(Status::KeyFile, error.to_string())
    }
}

impl From<FormatError> for Trouble {
    fn from(error: FormatError) -> Trouble {
        Trouble::new(Status::InvalidKey, error.to_string())
    }
}

/// The status of an error with a file's content in memory.
impl From<FileError> for Trouble {
    fn from(error: FileError) -> Trouble {
        let status = match &error {
            FileError::Rejected { rejection, .. } | FileError::RejectedEnd { rejection, .. } => {
                (*rejection).into()
            }
            FileError::Place(Fault::Damaged { .. }) => Status::AuthenticationFailed,
            FileError::Refused(Refusal::NoKey(_)) => Status::InvalidKey,
            FileError::Format(_) | FileError::ShortBuffer { .. } => Status::MalformedJob,
            FileError::Engine(error) => return error.clone().into(),
            _ => Status::File,
        };
        Trouble::new(status, error.to_string())
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Trouble {
        let status = match &failure.error {
            FileError::NoEngine { .. } => Status::NotOffered,
            FileError::Interrupted => Status::Cancelled,
            FileError::Place(Fault::Damaged { .. }) => Status::AuthenticationFailed,
            FileError::Refused(Refusal::NoKey(_)) => Status::InvalidKey,
            _ => Status::File,
        };
        Trouble::new(status, failure.to_string())
    }
}
