//! The gate: admission of many processes to a limited engine.
//!
//! When more processes want an engine than it can serve at once, they take turns in order of
//! arrival instead of trampling on each other. There is no daemon and nothing to install:
//! the processes of one user, or of one group, meet in a file in shared memory.
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
//! Inside, from the top: [`Gate`] and [`Permit`] over a checked `file` in a checked `directory`;
//! the algorithm in `table` and `watch`, which knows only the trait `memory`; the words'
//! places in `layout` and the processes' names in `identity`; `patience` is how
//! long a visitor waits. The module `model` checks the algorithm in every interleaving.

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
mod snapshot;
mod sys;
mod table;
mod watch;

pub use error::GateError;
pub use gate::{Gate, Permit, reset};
pub use options::{Discipline, GateOptions, Scope, UnknownDiscipline};
pub use patience::{Recall, Wait};
pub use snapshot::{Condition, Presence, Snapshot, list_gates, snapshot};
pub use sys::explain_bus_errors;
