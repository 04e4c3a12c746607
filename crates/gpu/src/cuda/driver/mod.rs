//! The CUDA driver's functions.

mod sys;

pub(super) use sys::{Address, Driver, LIBRARY, Object};
