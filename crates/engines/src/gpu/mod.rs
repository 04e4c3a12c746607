//! A GPU, through the CUDA driver or OpenCL.

pub(crate) mod device;
mod sys;
