//! Recognises drivers of Linux's crypto subsystem by their names, and the errors of devices that
//! are gone.

/// Returns whether a driver of this name computes on a core (the caller's, or a kernel thread's)
/// instead of a device.
///
/// The kernel's listing does not say so. Software drivers have `generic` or an instruction set in
/// their names; all others count as devices.
pub(crate) fn computes_on_the_calling_core(driver: &str) -> bool {
    if WRAPPERS.iter().any(|wrapper| driver.starts_with(wrapper)) {
        return true;
    }
    let name = DEVICES.iter().find_map(|device| driver.strip_suffix(device)).unwrap_or(driver);
    name.split(['-', '_', '(', ')', ',']).any(|word| COMPUTING_WORDS.contains(&word))
}

/// Returns whether the kernel's error means that the device is gone: unplugged, shut down or
/// disconnected.
pub(crate) fn is_gone(error: i32) -> bool {
    use libc::{ECONNABORTED, ENODEV, ENOTCONN, ENXIO, ESHUTDOWN};
    [ENODEV, ENXIO, ENOTCONN, ECONNABORTED, ESHUTDOWN].contains(&error)
}

/// Name prefixes of drivers that run other drivers in kernel threads.
const WRAPPERS: &[&str] = &["cryptd(", "pcrypt(", "__", "simd"];

/// Name endings of device drivers that contain one of the `COMPUTING_WORDS`: Allwinner's Crypto
/// Engine.
const DEVICES: &[&str] = &["-sun8i-ce"];

/// Words in the names of software drivers: for plain C, and for the instruction set extensions of
/// every architecture for which the kernel has such drivers.
const COMPUTING_WORDS: &[&str] = &[
    "generic",
    "lib",
    "asm",
    "x86",
    "aesni",
    "avx",
    "avx2",
    "avx512",
    "vaes",
    "sse2",
    "ssse3",
    "3way",
    "16way",
    "neon",
    "neonbs",
    "ce",
    "arm",
    "arm64",
    "aarch64",
    "p8",
    "p10",
    "vsx",
    "ppc",
    "spe",
    "s390",
    "paes",
    "padlock",
    "octeon",
    "riscv64",
    "zvkned",
    "sparc64",
    "loongarch",
    "fixed",
    "time",
    "ti",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_gone_differs_from_one_that_fails() {
        for error in [libc::ENODEV, libc::ENXIO, libc::ESHUTDOWN] {
            assert!(is_gone(error));
        }
        for error in [libc::EIO, libc::EINVAL, libc::EBUSY, libc::ENOMEM] {
            assert!(!is_gone(error));
        }
    }

    #[test]
    fn devices_are_told_from_computation() {
        for device in [
            "virtio_crypto_aes_cbc",
            "qat_aes_cbc",
            "cbc-aes-caam",
            "atmel-cbc-aes",
            "omap-aes_cbc",
            "cbc-aes-omap",
            "ctr-aes-ccp",
            "mv-cbc-aes",
            "cbc-aes-talitos",
            "cbc-aes-sun8i-ce",
            "ctr-aes-sun8i-ce",
            "cbc-aes-sun4i-ss",
            "cbc-aes-rk",
            "stm32-cbc-aes",
            "safexcel-cbc-aes",
        ] {
            assert!(!computes_on_the_calling_core(device), "{device}");
        }
        for software in [
            "cbc(aes-generic)",
            "cbc-aes-aesni",
            "xts-aes-vaes-avx10_256",
            "ctr-aes-ce",
            "cbc-aes-neonbs",
            "cryptd(cbc-aes-sun8i-ce)",
            "cryptd(cbc-aes-qat)",
            "generic-gcm-aesni",
        ] {
            assert!(computes_on_the_calling_core(software), "{software}");
        }
    }
}
