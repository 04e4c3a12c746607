//! File formats: where each chunk lies.

mod error;
mod geometry;

#[cfg(test)]
mod tests;

pub use error::FormatError;
pub use geometry::{Chunk, Ending, Geometry, Layout};
