//! A GPU, through the CUDA driver or OpenCL.

pub(crate) mod cuda;
pub(crate) mod device;
mod sys;
