//! The ioctls of `/dev/crypto`.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::zeroed;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::ptr;

use evener_core::{Cipher, Direction, Iv};

use super::abi::{
    AuthenticatedOperation, CIOCASYNCCRYPT, CIOCASYNCFETCH, CIOCAUTHCRYPT, CIOCCRYPT, CIOCFSESSION,
    CIOCGSESSINFO, CIOCGSESSION, Operation, SIOP_FLAG_KERNEL_DRIVER_ONLY, SessionInfo,
    SessionOperation, algorithm,
};
use super::patience::{Patience, is_busy, is_interrupted};
use crate::misfit;

/// An open `/dev/crypto`. Closing it ends its sessions.
pub(super) struct Device(File);

/// A cipher and a key that the device holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SessionId {
    number: u32,
    cipher: Cipher,
}

/// The device's information about a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SessionFacts {
    /// The kernel's name of its driver; empty if the device does not report it.
    pub(super) driver: String,
    /// True if user space can't reach the driver's hardware otherwise: it is not an instruction
    /// set.
    pub(super) is_kernel_only: bool,
    /// Addresses of data should be multiples of this, in bytes; a power of two.
    pub(super) alignment: usize,
}

impl Device {
    pub(super) fn open() -> io::Result<Device> {
        OpenOptions::new().read(true).write(true).open(PATH).map(Device)
    }

    /// Sleeps until this open device holds the lock that only one process has at a time; closing
    /// the device releases it. Processes get it in order of arrival.
    ///
    /// # Errors
    /// The errors of `flock`, for example if the file system has no locks.
    pub(super) fn wait_for_turn(&self) -> io::Result<()> {
        self.0.lock()
    }

    /// Starts a session for a cipher.
    pub(super) fn start_session(&self, cipher: Cipher, key: &[u8]) -> io::Result<SessionId> {
        // The device reports EINVAL for unknown ciphers.
        let unknown = || io::Error::from_raw_os_error(libc::EINVAL);
        let algorithm = algorithm(cipher).ok_or_else(unknown)?;
        misfit::check("a key", key.len(), cipher.key_length())?;
        let mut operation = SessionOperation {
            cipher: algorithm,
            mac: 0,
            key_length: key.len() as u32,
            key: key.as_ptr().cast_mut(),
            mac_key_length: 0,
            mac_key: ptr::null_mut(),
            session: 0,
        };
        // SAFETY: CIOCGSESSION reads and writes one `session_op`, and reads `key_length` bytes
        // from the key, which is borrowed for the call; it copies them.
        unsafe { self.request(CIOCGSESSION, &mut operation) }?;
        Ok(SessionId { number: operation.session, cipher })
    }

    pub(super) fn end_session(&self, id: SessionId) -> io::Result<()> {
        let mut id = id.number;
        // SAFETY: CIOCFSESSION reads one u32.
        unsafe { self.request(CIOCFSESSION, &mut id) }
    }

    pub(super) fn describe(&self, id: SessionId) -> io::Result<SessionFacts> {
        // SAFETY: all-zero is a valid `session_info_op`, which is integers and arrays of bytes.
        let mut info: SessionInfo = unsafe { zeroed() };
        info.session = id.number;
        // SAFETY: CIOCGSESSINFO reads and writes one `session_info_op`.
        unsafe { self.request(CIOCGSESSINFO, &mut info) }?;
        let driver = info.cipher.driver;
        let length = driver.iter().position(|&byte| byte == 0).unwrap_or(driver.len());
        Ok(SessionFacts {
            driver: evener_core::shown(OsStr::from_bytes(&driver[..length])).to_string(),
            is_kernel_only: info.flags & SIOP_FLAG_KERNEL_DRIVER_ONLY != 0,
            alignment: (usize::from(info.alignment_mask) + 1).next_power_of_two(),
        })
    }

    /// Encrypts or decrypts whole blocks and returns when that is done.
    pub(super) fn transform(
        &self,
        id: SessionId,
        direction: Direction,
        iv: Iv,
        data: &mut Data<'_>,
    ) -> io::Result<()> {
        let mut operation = data.operation(id, direction, &iv)?;
        // SAFETY: CIOCCRYPT reads and writes one `crypt_op`. It reads an IV of the cipher's length,
        // and reads and writes the data; `operation` vouches for all of these. It is done with them
        // when it returns. Without COP_FLAG_WRITE_IV it does not write to the IV.
        unsafe { self.request(CIOCCRYPT, &mut operation) }
    }

    /// Submits all of the data at once, up to the size of the ring of requests, and returns when
    /// all is done.
    ///
    /// # Errors
    /// When the device refuses (EINVAL if it has no asynchronous requests), or fails at some of the
    /// data; it does not report at which. The device is then closed.
    pub(super) fn transform_all(
        self,
        id: SessionId,
        direction: Direction,
        requests: &mut [Request<'_>],
    ) -> io::Result<Device> {
        let (mut submitted, mut returned) = (0, 0);
        let mut patience = Patience::new();
        let mut failure = None;
        loop {
            if failure.is_none()
                && let Some(request) = requests.get_mut(submitted)
            {
                // SAFETY: the requests are borrowed for all of this function, which does not
                // touch their data, and does not return before as many came back as were
                // submitted. Only a device that is gone answers for requests that did not come
                // back, and closing it, which `self` does, ends whatever is left of them.
                match unsafe { self.submit(id, direction, request) } {
                    Ok(()) => {
                        submitted += 1;
                        continue;
                    }
                    Err(error) if is_busy(&error) && submitted > returned => {}
                    Err(error) => {
                        failure = patience.after(error).err();
                        continue;
                    }
                }
            }
            if returned == submitted {
                return failure.map_or(Ok(self), Err);
            }
            match self.fetch() {
                Ok(destination) => {
                    returned += 1;
                    let mut open = requests[..submitted].iter_mut();
                    match open.find_map(|request| request.awaits(destination).then_some(request)) {
                        Some(request) => request.is_done = true,
                        None => failure = Some(io::Error::other("it returned an unknown request")),
                    }
                }
                Err(error) if is_busy(&error) => self.wait_for_result(),
                Err(error) if is_interrupted(&error) => patience.pause(),
                Err(error) => {
                    returned += 1;
                    failure = failure.or(Some(error));
                }
            }
        }
    }

    /// Encrypts all of `data` but the last 16 bytes, in place, and writes the tag to those; or
    /// decrypts all but the tag at the end, in place; the tag's bytes are then undefined.
    pub(super) fn authenticate_in_place(
        &self,
        id: SessionId,
        direction: Direction,
        iv: &[u8],
        aad: &[u8],
        data: &mut [u8],
    ) -> io::Result<()> {
        misfit::check("an IV", iv.len(), id.cipher.iv_length())?;
        misfit::check("a tag", TAG_LENGTH.min(data.len()), id.cipher.tag_length())?;
        let given = match direction {
            Direction::Encrypt => data.len() - TAG_LENGTH,
            Direction::Decrypt => data.len(),
        };
        let start = data.as_mut_ptr();
        let mut operation = AuthenticatedOperation {
            session: id.number,
            operation: operation(direction),
            flags: 0,
            length: length(given)?,
            aad_length: length(aad.len())?,
            aad: aad.as_ptr().cast_mut(),
            source: start,
            destination: start,
            tag: ptr::null_mut(),
            tag_length: TAG_LENGTH as u32,
            iv: iv.as_ptr().cast_mut(),
            iv_length: iv.len() as u32,
        };
        // SAFETY: CIOCAUTHCRYPT reads and writes one `crypt_auth_op`. It reads the additional data
        // and the IV, for the lengths given. In the data it reads `length` bytes and writes at most
        // those and, when encrypting, the tag after them, which the data has room for. It returns
        // when it is done with all of them.
        unsafe { self.request(CIOCAUTHCRYPT, &mut operation) }
    }

    /// Queues a request. The IV is copied.
    ///
    /// # Safety
    /// The request's data must not be touched or freed until the request is fetched or the
    /// device closed.
    unsafe fn submit(
        &self,
        id: SessionId,
        direction: Direction,
        request: &mut Request<'_>,
    ) -> io::Result<()> {
        let mut operation = request.data.operation(id, direction, &request.iv)?;
        // SAFETY: CIOCASYNCCRYPT reads one `crypt_op` and an IV of the cipher's length, which
        // `operation` vouches for; the caller vouches for the data, which is what it keeps.
        unsafe { self.request(CIOCASYNCCRYPT, &mut operation) }
    }

    /// Fetches a finished request, and returns the address of its result; EBUSY if none has
    /// finished.
    fn fetch(&self) -> io::Result<*mut u8> {
        // SAFETY: all-zero is a valid `crypt_op`, which is integers and pointers.
        let mut operation: Operation = unsafe { zeroed() };
        // SAFETY: CIOCASYNCFETCH writes one `crypt_op`, which was a queued one. Without a MAC
        // and COP_FLAG_WRITE_IV, which none of those have, it writes to nothing else.
        unsafe { self.request(CIOCASYNCFETCH, &mut operation) }?;
        Ok(operation.destination)
    }

    /// Sleeps until a request has finished, a signal comes, or the device ends. The next fetch
    /// shows which.
    fn wait_for_result(&self) {
        let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: the call reads and writes the one `pollfd`.
        unsafe { libc::poll(&mut poll, 1, -1) };
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

/// The data to encrypt or decrypt, in whole blocks, and the output.
pub(super) enum Data<'a> {
    /// From an input to an output of the same length.
    Between(&'a [u8], &'a mut [u8]),
    /// In place.
    InPlace(&'a mut [u8]),
}

impl Data<'_> {
    fn destination(&mut self) -> *mut u8 {
        match self {
            Data::Between(_, output) | Data::InPlace(output) => output.as_mut_ptr(),
        }
    }

    /// The request for this data. It points to the IV, which has the length of the session's
    /// cipher, and to the data, which is whole blocks; the source is readable and the destination
    /// writable for the request's length.
    ///
    /// For a request without an IV, the device continues with the IV of the session's last request.
    /// So every request of a cipher with IVs must have one.
    fn operation(&mut self, id: SessionId, direction: Direction, iv: &Iv) -> io::Result<Operation> {
        let destination = self.destination();
        let (source, bytes) = match self {
            Data::Between(input, output) => {
                misfit::check("an output", output.len(), input.len())?;
                (input.as_ptr().cast_mut(), input.len())
            }
            Data::InPlace(data) => (destination, data.len()),
        };
        let iv = iv.bytes();
        misfit::check("an IV", iv.len(), id.cipher.iv_length())?;
        misfit::check_blocks(bytes, id.cipher.block_length())?;
        Ok(Operation {
            session: id.number,
            operation: operation(direction),
            flags: 0,
            length: length(bytes)?,
            source,
            destination,
            mac: ptr::null_mut(),
            iv: if iv.is_empty() { ptr::null_mut() } else { iv.as_ptr().cast_mut() },
        })
    }
}

/// One of several requests that the device works on at once.
pub(super) struct Request<'a> {
    iv: Iv,
    data: Data<'a>,
    is_done: bool,
}

impl<'a> Request<'a> {
    pub(super) fn new(iv: Iv, data: Data<'a>) -> Request<'a> {
        Request { iv, data, is_done: false }
    }

    fn awaits(&mut self, destination: *mut u8) -> bool {
        !self.is_done && self.data.destination() == destination
    }
}

/// Length of every tag, in bytes.
pub(super) const TAG_LENGTH: usize = 16;

pub(super) const PATH: &str = "/dev/crypto";

#[cfg(test)]
mod tests {
    use super::*;

    /// The request for an IV and data of these lengths.
    fn asked(cipher: Cipher, iv: usize, data: usize) -> io::Result<Operation> {
        let id = SessionId { number: 1, cipher };
        let iv = Iv::new(&[1; 16][..iv]).unwrap();
        Data::InPlace(&mut vec![0; data]).operation(id, Direction::Decrypt, &iv)
    }

    #[test]
    fn no_request_is_made_without_the_ciphers_iv_or_with_part_of_a_block() {
        assert!(!asked(Cipher::Aes128Cbc, 16, 32).unwrap().iv.is_null());
        assert!(asked(Cipher::Aes128Ecb, 0, 32).unwrap().iv.is_null());
        assert!(asked(Cipher::Aes128Ctr, 16, 31).is_ok());
        for (cipher, iv, data) in [
            (Cipher::Aes128Cbc, 0, 32),
            (Cipher::Aes128Cbc, 8, 32),
            (Cipher::DesEde3Cbc, 16, 32),
            (Cipher::Aes128Ctr, 0, 32),
            (Cipher::Aes128Ecb, 16, 32),
            (Cipher::Aes128Cbc, 16, 31),
        ] {
            let error = asked(cipher, iv, data).err().expect("passed on");
            assert!(error.to_string().contains("nothing was passed on"), "{error}");
        }
        let (input, mut output) = ([0; 32], [0; 16]);
        let mut data = Data::Between(&input, &mut output);
        let id = SessionId { number: 1, cipher: Cipher::Aes128Cbc };
        assert!(data.operation(id, Direction::Encrypt, &Iv::new(&[1; 16]).unwrap()).is_err());
    }
}
