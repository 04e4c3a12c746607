//! Are cores and a module together ever slower than the cores alone? Real runs beside modules that are
//! slow to open, far away or gone.
//!
//! Within a round the cores alone and every module run in turns on the same work. The bound for each
//! run together is the cores' time, the time of one task on a core, 20 ms, and the noise: how much
//! the cores' own worst run took longer than their median one in this session.

mod command;
mod device;
mod modules;
mod options;
mod report;
mod run;
mod work;

pub use command::Command;
pub use options::ModuleOptions;
pub use report::{ModuleReport, Row};
pub use run::run;
