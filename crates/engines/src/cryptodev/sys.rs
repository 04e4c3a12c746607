//! The ioctls of `/dev/crypto`, as cryptodev-linux's `crypto/cryptodev.h` lays them out.
//!
//! The structures have pointers in them and the request numbers have the structures' sizes in
//! them, so 32-bit and 64-bit programs speak two dialects; the device understands both.

use std::fs::{File, OpenOptions};
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::AsRawFd;
use std::ptr;

use evener_core::Direction;

/// An open `/dev/crypto`, and the sessions that were started through it: they end with it.
pub(super) struct Device(File);

/// A cipher and a key that the device holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SessionId(u32);

/// What the device tells about a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SessionFacts {
    /// The kernel's name of the driver that serves it; empty when the device does not say.
    pub(super) driver: String,
    /// The driver cannot be had from user space otherwise: it is not an instruction set.
    pub(super) is_kernel_only: bool,
    /// Addresses of data should be multiples of this, in bytes; a power of two.
    pub(super) alignment: usize,
}

impl Device {
    pub(super) fn open() -> io::Result<Device> {
        OpenOptions::new().read(true).write(true).open(PATH).map(Device)
    }

    pub(super) fn start_session(&self, algorithm: u32, key: &[u8]) -> io::Result<SessionId> {
        let mut operation = SessionOperation {
            cipher: algorithm,
            mac: 0,
            key_length: key.len() as u32,
            key: key.as_ptr(),
            mac_key_length: 0,
            mac_key: ptr::null(),
            session: 0,
        };
        // SAFETY: CIOCGSESSION reads and writes one `session_op`, and reads `key_length` bytes
        // from the key, which is borrowed for the call; it copies them.
        unsafe { self.request(CIOCGSESSION, &mut operation) }?;
        Ok(SessionId(operation.session))
    }

    pub(super) fn end_session(&self, id: SessionId) -> io::Result<()> {
        let mut id = id.0;
        // SAFETY: CIOCFSESSION reads one u32.
        unsafe { self.request(CIOCFSESSION, &mut id) }
    }

    pub(super) fn describe(&self, id: SessionId) -> io::Result<SessionFacts> {
        // SAFETY: all-zero is a valid `session_info_op`, which is integers and arrays of bytes.
        let mut info: SessionInfo = unsafe { zeroed() };
        info.session = id.0;
        // SAFETY: CIOCGSESSINFO reads and writes one `session_info_op`.
        unsafe { self.request(CIOCGSESSINFO, &mut info) }?;
        let driver = info.cipher.driver;
        let length = driver.iter().position(|&byte| byte == 0).unwrap_or(driver.len());
        Ok(SessionFacts {
            driver: String::from_utf8_lossy(&driver[..length]).into_owned(),
            is_kernel_only: info.flags & SIOP_FLAG_KERNEL_DRIVER_ONLY != 0,
            alignment: (usize::from(info.alignment_mask) + 1).next_power_of_two(),
        })
    }

    /// Encrypts or decrypts whole blocks; both slices have the same length. `iv` has the
    /// cipher's length.
    pub(super) fn transform(
        &self,
        id: SessionId,
        direction: Direction,
        iv: &[u8],
        input: &[u8],
        output: &mut [u8],
    ) -> io::Result<()> {
        assert_eq!(input.len(), output.len());
        // SAFETY: the input is readable and the output writable for the length given.
        unsafe { self.crypt(id, direction, iv, input.as_ptr(), output.as_mut_ptr(), input.len()) }
    }

    /// The same with the result in the place of the input.
    pub(super) fn transform_in_place(
        &self,
        id: SessionId,
        direction: Direction,
        iv: &[u8],
        data: &mut [u8],
    ) -> io::Result<()> {
        let start = data.as_mut_ptr();
        // SAFETY: the data is readable and writable for the length given, and the device
        // allows the two to be the same.
        unsafe { self.crypt(id, direction, iv, start, start, data.len()) }
    }

    /// Encrypts all of `data` but the last 16 bytes, in place, and writes the tag to those; or
    /// decrypts all but the tag at the end, in place, and leaves what it likes in its place.
    pub(super) fn authenticate_in_place(
        &self,
        id: SessionId,
        direction: Direction,
        iv: &[u8],
        aad: &[u8],
        data: &mut [u8],
    ) -> io::Result<()> {
        assert!(data.len() >= TAG_LENGTH);
        let given = match direction {
            Direction::Encrypt => data.len() - TAG_LENGTH,
            Direction::Decrypt => data.len(),
        };
        let start = data.as_mut_ptr();
        let mut operation = AuthenticatedOperation {
            session: id.0,
            operation: operation(direction),
            flags: 0,
            length: length(given)?,
            aad_length: length(aad.len())?,
            aad: aad.as_ptr(),
            source: start,
            destination: start,
            tag: ptr::null_mut(),
            tag_length: TAG_LENGTH as u32,
            iv: iv.as_ptr(),
            iv_length: iv.len() as u32,
        };
        // SAFETY: CIOCAUTHCRYPT reads and writes one `crypt_auth_op`; it reads the additional
        // data and the IV, for the lengths given, and in the data it reads `length` bytes and
        // writes at most those and, when encrypting, the tag behind them, which the data has
        // room for. It returns when it is done with all of them.
        unsafe { self.request(CIOCAUTHCRYPT, &mut operation) }
    }

    /// # Safety
    /// `source` must be readable and `destination` writable for `bytes` bytes; they are the
    /// same or do not overlap.
    unsafe fn crypt(
        &self,
        id: SessionId,
        direction: Direction,
        iv: &[u8],
        source: *const u8,
        destination: *mut u8,
        bytes: usize,
    ) -> io::Result<()> {
        let mut operation = Operation {
            session: id.0,
            operation: operation(direction),
            flags: 0,
            length: length(bytes)?,
            source,
            destination,
            mac: ptr::null_mut(),
            iv: if iv.is_empty() { ptr::null() } else { iv.as_ptr() },
        };
        // SAFETY: CIOCCRYPT reads and writes one `crypt_op`; it reads the cipher's IV length
        // from `iv`, and reads and writes `length` bytes where the caller vouches for them. It
        // is done with all of them when it returns. Without COP_FLAG_WRITE_IV it does not
        // write to the IV.
        unsafe { self.request(CIOCCRYPT, &mut operation) }
    }

    /// # Safety
    /// `argument` must be what the request takes, with every pointer in it valid.
    unsafe fn request<T>(&self, request: libc::Ioctl, argument: &mut T) -> io::Result<()> {
        let argument: *mut T = argument;
        // SAFETY: the caller vouches for the argument.
        let status = unsafe { libc::ioctl(self.0.as_raw_fd(), request, argument) };
        if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

fn operation(direction: Direction) -> u16 {
    match direction {
        Direction::Encrypt => 0,
        Direction::Decrypt => 1,
    }
}

fn length(bytes: usize) -> io::Result<u32> {
    u32::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EMSGSIZE))
}

/// `struct session_op`.
#[repr(C)]
struct SessionOperation {
    cipher: u32,
    mac: u32,
    key_length: u32,
    key: *const u8,
    mac_key_length: u32,
    mac_key: *const u8,
    session: u32,
}

/// `struct session_info_op`.
#[repr(C)]
struct SessionInfo {
    session: u32,
    cipher: AlgorithmInfo,
    hash: AlgorithmInfo,
    alignment_mask: u16,
    flags: u32,
}

/// `struct alg_info`: names that end with a zero.
#[repr(C)]
struct AlgorithmInfo {
    name: [u8; 64],
    driver: [u8; 64],
}

/// `struct crypt_op`.
#[repr(C)]
struct Operation {
    session: u32,
    operation: u16,
    flags: u16,
    length: u32,
    source: *const u8,
    destination: *mut u8,
    mac: *mut u8,
    iv: *const u8,
}

/// `struct crypt_auth_op`.
#[repr(C)]
struct AuthenticatedOperation {
    session: u32,
    operation: u16,
    flags: u16,
    length: u32,
    aad_length: u32,
    aad: *const u8,
    source: *const u8,
    destination: *mut u8,
    tag: *mut u8,
    tag_length: u32,
    iv: *const u8,
    iv_length: u32,
}

const CIOCGSESSION: libc::Ioctl = libc::_IOWR::<SessionOperation>(b'c' as u32, 102);
const CIOCFSESSION: libc::Ioctl = libc::_IOW::<u32>(b'c' as u32, 103);
const CIOCCRYPT: libc::Ioctl = libc::_IOWR::<Operation>(b'c' as u32, 104);
const CIOCGSESSINFO: libc::Ioctl = libc::_IOWR::<SessionInfo>(b'c' as u32, 107);
const CIOCAUTHCRYPT: libc::Ioctl = libc::_IOWR::<AuthenticatedOperation>(b'c' as u32, 109);

const SIOP_FLAG_KERNEL_DRIVER_ONLY: u32 = 1;

/// Length of every tag, in bytes.
pub(super) const TAG_LENGTH: usize = 16;

pub(super) const PATH: &str = "/dev/crypto";

// What a C compiler makes of the header on x86-64 and on i386.
#[cfg(target_pointer_width = "64")]
const SIZES: [usize; 3] = [48, 48, 72];
#[cfg(target_pointer_width = "32")]
const SIZES: [usize; 3] = [28, 28, 44];
const _: () = assert!(
    size_of::<SessionOperation>() == SIZES[0]
        && size_of::<Operation>() == SIZES[1]
        && size_of::<AuthenticatedOperation>() == SIZES[2]
        && size_of::<SessionInfo>() == 268
);
