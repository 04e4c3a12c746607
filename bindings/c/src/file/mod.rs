//! Files and trees, and their keys.

mod buffer;
mod key;
mod options;
mod pipe;
mod report;
pub(crate) mod sys;
mod watched;

pub use key::FileKeyHandle;
pub use options::FileOptions;
pub use report::{FailureFacts, ReportHandle, Summary};
