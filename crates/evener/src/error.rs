//! One error for everything that the library does.

use evener_core::{EngineError, InvalidIv, InvalidKey};
use evener_format::FormatError;
use evener_keys::KeyError;
use evener_place::Fault;
use evener_place::{
    Failure, FileError, MalformedGlob, MalformedPath, MalformedSuffix, OperationError,
};

use crate::hazmat::{BufferError, RecordError};
use crate::{AeadError, NonceError};

/// Any error of this library, for functions that use several parts of it. Each part's own errors
/// say more, and `?` turns them into this one.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
#[non_exhaustive]
pub enum Error {
    /// An operation could not begin, or did not succeed.
    Operation(#[from] OperationError),
    /// A file could not be done.
    File(#[from] FileError),
    /// A file could not be done; its path.
    Failure(#[from] Failure),
    /// A key could not be read, made or opened.
    Key(#[from] KeyError),
    /// A key's bytes are none of the cipher's.
    InvalidKey(#[from] InvalidKey),
    /// An IV's bytes are none of the cipher's.
    InvalidIv(#[from] InvalidIv),
    /// Data does not follow its format.
    Format(#[from] FormatError),
    /// An engine is not available, or failed.
    Engine(#[from] EngineError),
    /// Messages could not be sealed or opened.
    Aead(#[from] AeadError),
    /// There is no further nonce.
    Nonce(#[from] NonceError),
    /// A buffer could not be processed.
    Buffer(#[from] BufferError),
    /// Records could not be processed.
    Record(#[from] RecordError),
    /// A place did not do something.
    Place(#[from] Fault),
    /// A glob is malformed.
    Glob(#[from] MalformedGlob),
    /// A path can't be below a root.
    Path(#[from] MalformedPath),
    /// A suffix can't be a part of a name.
    Suffix(#[from] MalformedSuffix),
    /// The system did not do something.
    Io(#[from] std::io::Error),
}
