//! Files and trees, and their keys.

mod buffer;
mod key;
pub(crate) mod options;
mod pipe;
pub(crate) mod report;
pub(crate) mod sys;
mod watched;

pub use key::FileKeyHandle;
pub use options::FileOptions;
pub use report::{FailureFacts, ReportHandle, Summary};
