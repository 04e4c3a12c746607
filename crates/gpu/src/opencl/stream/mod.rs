//! A queue with its device memory and its kernels.

mod sys;

pub(super) use sys::Queue;
