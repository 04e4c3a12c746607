//! Errors of the gate.

use std::io;
use std::path::PathBuf;

use evener_core::shown;

/// The reasons why a gate can't be opened or entered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GateError {
    /// The engine's name is empty or too long.
    #[error("`{engine}` can't be the name of a gate: it must have 1 to 80 bytes")]
    Name {
        /// The given name.
        engine: String,
    },
    /// A number in the options is out of bounds.
    #[error("a gate has 1 to {most} {what}, not {given}")]
    Bounds {
        /// Permits or places.
        what: &'static str,
        /// The given number.
        given: usize,
        /// The largest allowed number.
        most: usize,
    },
    /// No directory for the gate can be used.
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
        /// The system's error.
        #[source]
        cause: io::Error,
    },
    /// The process does not belong to the gate's group.
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
    /// Other users could write to a file or directory of the gate.
    #[error(
        "`{}` can't be trusted with a gate: {reason}; have its owner remove it (`evener gate \
         reset` removes a gate of yours)",
        shown(path)
    )]
    Untrusted {
        /// The file or directory.
        path: PathBuf,
        /// The reason, as text.
        reason: String,
    },
    /// Other processes use the gate with other settings.
    #[error(
        "the gate of engine `{engine}` is in use with {theirs}, and this process wants {ours}; \
         give all processes the same settings, or end them and run `evener gate reset`"
    )]
    Differs {
        /// The engine.
        engine: String,
        /// The settings of the other processes.
        theirs: String,
        /// The settings of this process.
        ours: String,
    },
    /// The file is damaged or of another version, and other processes use it.
    #[error(
        "the gate file `{}` is in use but can't be read: {reason}; end the processes that \
         use it, or run `evener gate reset`",
        shown(path)
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The reason, as text.
        reason: String,
    },
    /// Every place in the queue is taken.
    #[error(
        "the queue for engine `{engine}` is full: {places} processes wait; try again later \
         (`evener gate` lists them)"
    )]
    Full {
        /// The engine.
        engine: String,
        /// The capacity of the queue.
        places: usize,
    },
    /// A system call failed.
    #[error("{doing} for the gate of engine `{engine}`: {cause}")]
    System {
        /// The step that failed.
        doing: &'static str,
        /// The engine.
        engine: String,
        /// The system's error.
        #[source]
        cause: io::Error,
    },
}
