//! AES on the calling core, many messages side by side in SIMD registers: the kernels of the
//! engine `lanes`, and the arena whose buffers suit them. [`stream`] has one message at a time, in
//! pieces.
//!
//! They are a crate of their own because they need no library: they and their tests build for
//! another architecture in seconds, and run under emulation.

mod arena;
mod kernels;
pub mod stream;

pub use arena::Arena;
pub use kernels::{Kernel, Prepared, available};
