//! Tests whether cores and a module together are ever slower than the cores alone, in real runs
//! with modules that are slow to open, far away or gone.
//!
//! Within a round the cores alone and every module run in turns on the same work. The bound for
//! each joint run is the sum of the cores' time, the time of one task on a core, 20 ms, and the
//! noise: the excess of the cores' worst run over their median one in this session.

mod command;
mod device;
mod modules;
mod options;
mod report;
mod run;
mod troubled;
mod work;

pub use command::Command;
pub use options::ModuleOptions;
pub use report::{ModuleReport, Row};
pub use run::run;
