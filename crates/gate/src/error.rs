//! Why a gate can't be opened or passed.

use std::io;
use std::path::PathBuf;

use evener_core::shown;

/// Why a gate can't be opened or passed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GateError {
    /// The engine's name can't name a gate.
    #[error("`{engine}` can't name a gate: 1 to 80 bytes are needed")]
    Name {
        /// As it was given.
        engine: String,
    },
    /// A number in the options is out of bounds.
    #[error("a gate has 1 to {most} {what}, not {given}")]
    Bounds {
        /// Permits or places.
        what: &'static str,
        /// As it was given.
        given: usize,
        /// The largest that works.
        most: usize,
    },
    /// There is no directory in which processes could meet.
    #[error(
        "the gate of engine `{engine}` can't use `{}`: {cause}; mount a writable tmpfs \
         there, or turn the gate off (discipline `none`)",
        shown(path)
    )]
    Directory {
        /// The engine.
        engine: String,
        /// The directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// A gate for a group was to be made by a process that does not belong to it.
    #[error(
        "no gate for group {group} can be made as `{}`: this process does not belong to that \
         group; name one of its groups (`id -G` lists them)",
        shown(path)
    )]
    OtherGroup {
        /// The group.
        group: u32,
        /// The directory.
        path: PathBuf,
    },
    /// A file or directory of the gate is not ours alone.
    #[error(
        "`{}` can't be trusted with a gate: {reason}; have its owner remove it (`evener gate \
         reset` removes a gate of yours)",
        shown(path)
    )]
    Untrusted {
        /// The file or directory.
        path: PathBuf,
        /// In words.
        reason: String,
    },
    /// Processes that are there now use the gate in another way.
    #[error(
        "the gate of engine `{engine}` is in use with {theirs}, and this process wants {ours}; \
         give all processes the same settings, or end them and run `evener gate reset`"
    )]
    Differs {
        /// The engine.
        engine: String,
        /// How the others use it.
        theirs: String,
        /// How this process wants to.
        ours: String,
    },
    /// The file is not as this version writes it, and processes that are there now use it.
    #[error(
        "the gate file `{}` is in use but can't be read: {reason}; end the processes that \
         use it, or run `evener gate reset`",
        shown(path)
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// In words.
        reason: String,
    },
    /// Every place in the queue is taken.
    #[error(
        "{places} processes wait for engine `{engine}` already; try again later, or see who \
         they are with `evener gate`"
    )]
    Full {
        /// The engine.
        engine: String,
        /// How many can wait.
        places: usize,
    },
    /// A system call failed.
    #[error("{doing} for the gate of engine `{engine}`: {cause}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// The engine.
        engine: String,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
}
