//! Sealed trees.

mod item;
mod operation;
mod options;
mod sys;

pub use item::ItemCallback;
pub use options::SealedTreeOptions;
