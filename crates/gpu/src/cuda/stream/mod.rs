//! A stream with its device memory and its kernels.

mod sys;

pub(super) use sys::CudaStream;
