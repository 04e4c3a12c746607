//! The meaning of the driver's error codes for an engine.

use std::ffi::c_int;

use crate::device::DeviceError;

/// The error for a code (`CUresult`) other than 0, with the driver's words.
pub(super) fn failure(doing: &'static str, code: c_int, words: String) -> DeviceError {
    match code {
        OUT_OF_MEMORY => DeviceError::OutOfMemory { doing, words },
        code if LOST.contains(&code) => DeviceError::Lost { doing, words },
        _ => DeviceError::Other { doing, words },
    }
}

/// `CUDA_ERROR_OUT_OF_MEMORY`.
const OUT_OF_MEMORY: c_int = 2;

/// Codes after which no call of this process has any effect on the device any more.
const LOST: &[c_int] = &[
    4,   // DEINITIALIZED
    46,  // DEVICE_UNAVAILABLE
    201, // INVALID_CONTEXT
    214, // ECC_UNCORRECTABLE
    220, // NVLINK_UNCORRECTABLE
    226, // CONTAINED
    700, // ILLEGAL_ADDRESS
    702, // LAUNCH_TIMEOUT
    709, // CONTEXT_IS_DESTROYED
    710, // ASSERT
    714, // HARDWARE_STACK_ERROR
    715, // ILLEGAL_INSTRUCTION
    716, // MISALIGNED_ADDRESS
    717, // INVALID_ADDRESS_SPACE
    718, // INVALID_PC
    719, // LAUNCH_FAILED
    999, // UNKNOWN
];
