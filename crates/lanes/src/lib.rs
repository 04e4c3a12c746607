//! AES on the calling core, many messages side by side in SIMD registers: the kernels of the engine
//! `lanes`, and an arena for their buffers. [`stream`] processes one message at a time, in pieces.
//!
//! They are a separate crate because they need no library except the crate `aes`, for the portable
//! kernel: this crate and its tests build for another architecture in seconds and run under
//! emulation.

#![cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "arm")),
    allow(unused, reason = "no kernel for this architecture uses what they share")
)]

mod arena;
mod boxed;
mod kernels;
pub mod stream;

pub use arena::Arena;
pub use boxed::boxed;
pub use kernels::{Kernel, Prepared, available};
