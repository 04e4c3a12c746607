//! The structures and request numbers of `/dev/crypto`, as cryptodev-linux's
//! `crypto/cryptodev.h` lays them out.
//!
//! The structures contain pointers, and the request numbers contain the structures' sizes, so
//! 32-bit and 64-bit programs use different layouts; the device understands both. `P` is the
//! pointer type, so that both layouts can be tested everywhere.

use std::mem::size_of;

use evener_core::{Cipher, Mode};

/// The device's number of a cipher (`enum cryptodev_crypto_op_t`).
///
/// XTS is left out: the device takes only whole blocks of it, and Evener's messages have any length
/// from one block.
pub(super) fn algorithm(cipher: Cipher) -> Option<u32> {
    use Cipher::{BfCbc, Camellia128Cbc, Camellia192Cbc, Camellia256Cbc, DesEde3Cbc};
    match (cipher, cipher.mode()) {
        (DesEde3Cbc, _) => Some(2),
        (BfCbc, _) => Some(3),
        (Camellia128Cbc | Camellia192Cbc | Camellia256Cbc, _) => Some(101),
        (_, Mode::Cbc) => Some(11),
        (_, Mode::Ctr) => Some(21),
        (_, Mode::Ecb) => Some(23),
        (_, Mode::Gcm) => Some(50),
        _ => None,
    }
}

/// A pointer in a structure. Its use decides whether the device writes through it.
pub(super) type Pointer = *mut u8;

/// `struct session_op`.
#[repr(C)]
pub(super) struct SessionOperation<P = Pointer> {
    pub(super) cipher: u32,
    pub(super) mac: u32,
    pub(super) key_length: u32,
    pub(super) key: P,
    pub(super) mac_key_length: u32,
    pub(super) mac_key: P,
    pub(super) session: u32,
}

/// `struct session_info_op`.
#[repr(C)]
pub(super) struct SessionInfo {
    pub(super) session: u32,
    pub(super) cipher: AlgorithmInfo,
    pub(super) hash: AlgorithmInfo,
    pub(super) alignment_mask: u16,
    pub(super) flags: u32,
}

/// `struct alg_info`: names that end with a zero.
#[repr(C)]
pub(super) struct AlgorithmInfo {
    pub(super) name: [u8; 64],
    pub(super) driver: [u8; 64],
}

/// `struct crypt_op`.
#[repr(C)]
pub(super) struct Operation<P = Pointer> {
    pub(super) session: u32,
    pub(super) operation: u16,
    pub(super) flags: u16,
    pub(super) length: u32,
    pub(super) source: P,
    pub(super) destination: P,
    pub(super) mac: P,
    pub(super) iv: P,
}

/// `struct crypt_auth_op`.
#[repr(C)]
pub(super) struct AuthenticatedOperation<P = Pointer> {
    pub(super) session: u32,
    pub(super) operation: u16,
    pub(super) flags: u16,
    pub(super) length: u32,
    pub(super) aad_length: u32,
    pub(super) aad: P,
    pub(super) source: P,
    pub(super) destination: P,
    pub(super) tag: P,
    pub(super) tag_length: u32,
    pub(super) iv: P,
    pub(super) iv_length: u32,
}

pub(super) const CIOCGSESSION: libc::Ioctl = libc::_IOWR::<SessionOperation>(GROUP, 102);
pub(super) const CIOCFSESSION: libc::Ioctl = libc::_IOW::<u32>(GROUP, 103);
pub(super) const CIOCCRYPT: libc::Ioctl = libc::_IOWR::<Operation>(GROUP, 104);
pub(super) const CIOCGSESSINFO: libc::Ioctl = libc::_IOWR::<SessionInfo>(GROUP, 107);
pub(super) const CIOCAUTHCRYPT: libc::Ioctl = libc::_IOWR::<AuthenticatedOperation>(GROUP, 109);
pub(super) const CIOCASYNCCRYPT: libc::Ioctl = libc::_IOW::<Operation>(GROUP, 110);
pub(super) const CIOCASYNCFETCH: libc::Ioctl = libc::_IOR::<Operation>(GROUP, 111);

pub(super) const SIOP_FLAG_KERNEL_DRIVER_ONLY: u32 = 1;

const GROUP: u32 = b'c' as u32;

const _: () = assert!(size_of::<SessionInfo>() == 268);

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    /// Sizes and offsets for one pointer, in the order in which the header has the structures.
    fn layout<P>() -> [usize; 9] {
        [
            size_of::<SessionOperation<P>>(),
            offset_of!(SessionOperation<P>, key),
            offset_of!(SessionOperation<P>, session),
            size_of::<Operation<P>>(),
            offset_of!(Operation<P>, source),
            offset_of!(Operation<P>, iv),
            size_of::<AuthenticatedOperation<P>>(),
            offset_of!(AuthenticatedOperation<P>, aad),
            offset_of!(AuthenticatedOperation<P>, iv_length),
        ]
    }

    fn requests<P>() -> [libc::Ioctl; 5] {
        [
            libc::_IOWR::<SessionOperation<P>>(GROUP, 102),
            libc::_IOWR::<Operation<P>>(GROUP, 104),
            libc::_IOWR::<AuthenticatedOperation<P>>(GROUP, 109),
            libc::_IOW::<Operation<P>>(GROUP, 110),
            libc::_IOR::<Operation<P>>(GROUP, 111),
        ]
    }

    /// The layout that a C compiler gives the header, on i386, x86-64 and 32-bit and 64-bit ARM
    /// alike.
    #[test]
    fn both_dialects_are_the_headers() {
        assert_eq!(layout::<u64>(), [48, 16, 40, 48, 16, 40, 72, 16, 64]);
        assert_eq!(layout::<u32>(), [28, 12, 24, 28, 12, 24, 44, 16, 40]);
        assert_eq!(
            requests::<u64>(),
            [0xC030_6366_u32, 0xC030_6368, 0xC048_636D, 0x4030_636E, 0x8030_636F]
                .map(|request| request as libc::Ioctl)
        );
        assert_eq!(
            requests::<u32>(),
            [0xC01C_6366_u32, 0xC01C_6368, 0xC02C_636D, 0x401C_636E, 0x801C_636F]
                .map(|request| request as libc::Ioctl)
        );
        assert_eq!((CIOCFSESSION, CIOCGSESSINFO), (0x4004_6367, 0xC10C_636B_u32 as libc::Ioctl));
    }

    #[test]
    fn this_machine_speaks_one_of_them() {
        let here = [CIOCGSESSION, CIOCCRYPT, CIOCAUTHCRYPT, CIOCASYNCCRYPT, CIOCASYNCFETCH];
        match size_of::<Pointer>() {
            4 => assert_eq!((layout::<Pointer>(), here), (layout::<u32>(), requests::<u32>())),
            _ => assert_eq!((layout::<Pointer>(), here), (layout::<u64>(), requests::<u64>())),
        }
    }
}
