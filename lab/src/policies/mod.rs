//! Compares policies: the experiment of the 2013 and 2015 papers.
//!
//! Some thousand files of one size are in the queue before the clock starts. The clock runs from
//! just before the workers' threads are created until just after they have ended. Within a round
//! the policies run in turns on the same files, and every result is compared.
//!
//! [`run`] measures engines of this machine, including modelled ones. [`PoliciesReport`] has the
//! papers' two tables and figures, for measured and simulated rows.

mod command;
mod figures;
mod files;
mod options;
mod published;
mod reference;
mod report;
mod row;
mod run;
mod sizes;
mod summary;
mod tables;

pub use command::Command;
pub(crate) use files::Files;
pub use options::PoliciesOptions;
pub use published::Difference;
#[cfg(test)]
pub(crate) use published::Ratios;
pub use report::PoliciesReport;
pub use row::Row;
pub use run::run;
pub use sizes::Sizes;
