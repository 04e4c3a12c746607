//! Evener for C and for languages that call C.
//!
//! `include/evener.h` is the documentation for users; it is generated from the comments here. There
//! is a folder for each subject: `mod.rs` does the work in safe Rust; `sys.rs` has the exported
//! functions, which only convert C's types to Rust's.
//!
//! Every exported function that can fail runs inside [`boundary::enter`], which turns errors and
//! panics into a status and keeps the message for the thread. Ownership is in the types: a
//! parameter `Option<&T>` is borrowed for the call, an `Option<Box<T>>` passes to the function.

#![allow(
    unreachable_pub,
    reason = "what is exported is public to C, and `pub` is how the header's generator knows"
)]
#![allow(
    clippy::missing_safety_doc,
    reason = "the rules are the same everywhere and stand once, at the header's beginning"
)]

mod boundary;
mod cipher;
mod engine;
mod file;
mod gpu;
mod key;
mod parallel;
mod session;
mod status;
mod tree;
