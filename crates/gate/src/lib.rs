//! The gate: admission of many processes to a limited engine.
//!
//! When more processes want an engine than it can serve at once, they queue in order of arrival
//! instead of failing or slowing each other down. There is no daemon and nothing to install: the
//! processes of one user, or of one group, share a file in memory.
//!
//! ```
//! use evener_gate::{Gate, GateOptions};
//!
//! # fn main() -> Result<(), evener_gate::GateError> {
//! // Two sessions at once, in all processes of this user together.
//! let gate = Gate::open(GateOptions::new("example", 2))?;
//! let permit = gate.enter()?; // sleeps while two others hold permits
//! // ... open a session on the engine and use it ...
//! drop(permit); // wakes the next in line
//! # evener_gate::reset("example", evener_gate::Scope::User, None)?;
//! # Ok(())
//! # }
//! ```
//!
//! The modules: `gate` has [`Gate`] and [`Permit`]; `file` and `directory` open and check the
//! shared file; `table` and `watch` are the algorithm, which uses memory only through the trait in
//! `memory`; `layout` places the words in the file; `identity` identifies processes; `patience`
//! decides how long a process waits, and `recall` ends waits. `model` checks the algorithm in every
//! interleaving.

#![deny(unsafe_code)]

mod directory;
mod error;
mod file;
mod gate;
mod identity;
mod layout;
mod memory;
#[cfg(test)]
mod model;
mod options;
mod patience;
mod recall;
mod snapshot;
mod sys;
mod table;
mod watch;

pub use error::GateError;
pub use evener_core::Recall;
pub use gate::{Gate, Permit, reset};
pub use options::{Discipline, GateOptions, Scope, UnknownDiscipline};
pub use recall::Wait;
pub use snapshot::{Condition, Presence, Snapshot, list_gates, snapshot};
pub use sys::explain_bus_errors;
