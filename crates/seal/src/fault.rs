//! The reasons that a place did not do something.

use evener_core::shown;

use crate::name::Name;

/// The reason that a place did not do something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// An object has the name, and may not be replaced.
    #[error("a file `{}` exists", shown(.0.path()))]
    Exists(Name),
    /// The object is no longer the one that was opened.
    #[error("changed while it was read")]
    Changed,
    /// There is no object with this name.
    #[error("there is no file `{}`", shown(.0.path()))]
    Missing(Name),
    /// The place can't be read, so it is unknown whether an object is complete.
    #[error("the place can't be read, so it is unknown whether an object there is complete")]
    Unread,
    /// A walk could not read the entry with this name.
    #[error("{reason}")]
    Entry {
        /// Its name.
        name: Name,
        /// The reason, as text.
        reason: String,
    },
    /// A sealed tree's index is not authentic from the entry with this name on, or the file with
    /// this name, a root or the marker, is not authentic.
    #[error("{reason}")]
    Damaged {
        /// Its name.
        name: Name,
        /// The reason, as text.
        reason: String,
    },
    /// The place does not take this; the text says why.
    #[error("{0}")]
    Refused(String),
    /// A call failed; the text says how.
    #[error("{0}")]
    Failed(String),
    /// The place as a whole takes no more data, like a full disk; the text says how a call failed.
    #[error("{0}")]
    Closed(String),
    /// An object may have been published or not: the answer was lost, and the place could not find
    /// out.
    #[error("{0}, so it is unknown whether the object was stored")]
    Unknown(String),
}

impl Fault {
    /// The name of the entry that could not be read.
    pub fn entry(&self) -> Option<&Name> {
        match self {
            Fault::Entry { name, .. } | Fault::Damaged { name, .. } => Some(name),
            _ => None,
        }
    }
}
