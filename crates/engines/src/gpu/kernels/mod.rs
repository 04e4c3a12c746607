//! The kernels' source, and their PTX.

/// The whole source in OpenCL C 1.2.
pub(super) fn source() -> String {
    FILES.concat()
}

/// The same, compiled for the CUDA driver by `scripts/gpu-ptx`.
pub(super) const PTX: &str = include_str!("evener.ptx");

/// In this order. `scripts/gpu-ptx` joins the same files.
const FILES: &[&str] = &[
    include_str!("common.cl"),
    include_str!("aes.cl"),
    include_str!("hash.cl"),
    include_str!("gcm.cl"),
    include_str!("resident.cl"),
    include_str!("chacha.cl"),
    include_str!("xts.cl"),
    include_str!("des.cl"),
    include_str!("camellia.cl"),
    include_str!("blowfish.cl"),
];
