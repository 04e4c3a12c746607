//! Evener's formats, key files and trees on disk.

#![forbid(unsafe_code)]

pub mod format;
