//! AF_ALG's socket calls (`linux/if_alg.h`).
//!
//! A *transform* socket is bound to a driver and holds the key. An *operation* socket is accepted
//! from it: a request is one `sendmsg`, with direction, IV and length of additional data in control
//! messages, and one `recvmsg`, which runs it. The kernel copies the input. For long inputs, a pipe
//! passes the pages instead, without a copy (`vmsplice` and `splice`).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::{offset_of, size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use evener_core::{Cipher, Direction};

use crate::misfit;

/// A socket bound to a driver, with a key.
pub(super) struct Transform(OwnedFd);

/// The call that refused a driver.
#[derive(Debug)]
pub(super) enum BindError {
    /// `socket`: AF_ALG is not available.
    Socket(io::Error),
    /// `bind`: this driver is not available.
    Bind(io::Error),
}

impl Transform {
    /// Opens a driver, by name, through the interface `skcipher` or `aead`.
    pub(super) fn bind(interface: &str, driver: &str) -> Result<Transform, BindError> {
        // SAFETY: the call takes no pointers.
        let socket =
            unsafe { libc::socket(libc::AF_ALG, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0) };
        let socket = owned(socket).map_err(BindError::Socket)?;
        let too_long = || BindError::Bind(io::Error::from_raw_os_error(libc::ENOENT));
        let address = address(interface, driver).ok_or_else(too_long)?;
        // SAFETY: the address is a whole `sockaddr_alg`, which is what AF_ALG reads, and the
        // length is its size.
        let status = unsafe {
            libc::bind(
                socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_alg>() as libc::socklen_t,
            )
        };
        check(status).map_err(BindError::Bind)?;
        Ok(Transform(socket))
    }

    /// Sets a cipher's key. Fails with EBUSY while an operation that was accepted with an earlier
    /// key is open.
    pub(super) fn set_key(&self, cipher: Cipher, key: &[u8]) -> io::Result<()> {
        misfit::check("a key", key.len(), cipher.key_length())?;
        set_option(&self.0, libc::SOL_ALG, libc::ALG_SET_KEY, key)
    }

    pub(super) fn set_tag_length(&self, length: usize) -> io::Result<()> {
        // The tag's length is passed as the length of an empty value. SAFETY: for this option the
        // kernel does not look at the value's address.
        let status = unsafe {
            libc::setsockopt(
                self.0.as_raw_fd(),
                libc::SOL_ALG,
                libc::ALG_SET_AEAD_AUTHSIZE,
                ptr::null(),
                length as libc::socklen_t,
            )
        };
        check(status)
    }

    /// Opens a socket for requests of one cipher in one direction.
    pub(super) fn accept(&self, cipher: Cipher, direction: Direction) -> io::Result<Operation> {
        // SAFETY: null asks for no address to be written.
        let socket = unsafe {
            libc::accept4(self.0.as_raw_fd(), ptr::null_mut(), ptr::null_mut(), libc::SOCK_CLOEXEC)
        };
        let mut operation = Operation {
            socket: owned(socket)?,
            cipher,
            direction,
            control: Control::new(direction, cipher.iv_length(), cipher.is_authenticated()),
            capacity: 0,
            pipe: None,
        };
        operation.capacity = operation.measure();
        Ok(operation)
    }
}

/// A socket that takes requests.
pub(super) struct Operation {
    socket: OwnedFd,
    cipher: Cipher,
    direction: Direction,
    control: Control,
    capacity: usize,
    /// The pipe for long inputs, if enabled.
    pipe: Option<Pipe>,
}

impl Operation {
    /// Greatest length of a request in bytes, with additional data and tag.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Asks for buffers for requests of `bytes` bytes; the capacity then shows the result.
    pub(super) fn widen(&mut self, bytes: usize) {
        // The kernel doubles the requested size. Only a privileged process can exceed the system's
        // limit; others get the limit.
        let half = ((bytes / 2) as libc::c_int).to_ne_bytes();
        for (force, ask) in
            [(libc::SO_SNDBUFFORCE, libc::SO_SNDBUF), (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF)]
        {
            if set_option(&self.socket, libc::SOL_SOCKET, force, &half).is_err() {
                let _ = set_option(&self.socket, libc::SOL_SOCKET, ask, &half);
            }
        }
        self.capacity = self.measure();
    }

    /// Passes long inputs, of up to `most` bytes, without a copy from now on.
    pub(super) fn lend(&mut self, most: usize) -> io::Result<()> {
        self.pipe = Some(Pipe::new(most)?);
        Ok(())
    }

    /// Returns whether an input of this length is passed without a copy.
    pub(super) fn lends(&self, bytes: usize) -> bool {
        self.pipe.as_ref().is_some_and(|pipe| (LENT_FROM..=pipe.most).contains(&bytes))
    }

    /// Runs one request: sends both inputs as one message, and receives its result into both
    /// outputs, which together must be as long as the result is. Lengths that are not the cipher's
    /// are rejected: with a shorter IV, the kernel would use the rest of the previous one.
    ///
    /// After an error other than EBADMSG the socket may hold an unfinished request.
    pub(super) fn perform(
        &mut self,
        iv: &[u8],
        aad_length: usize,
        input: [&[u8]; 2],
        output: [&mut [u8]; 2],
    ) -> io::Result<()> {
        let given = input[0].len() + input[1].len();
        let wanted = output[0].len() + output[1].len();
        self.check(iv, aad_length, given, wanted)?;
        self.control.set(iv, aad_length);
        let sent = match &self.pipe {
            Some(pipe) if self.lends(given) => {
                self.send(&[], libc::MSG_MORE)?;
                pipe.lend(&self.socket, input.map(IoSlice::new))?
            }
            _ => self.send(&input.map(IoSlice::new), 0)?,
        };
        if sent != given {
            return Err(short("took", sent, given));
        }
        // Without an output buffer the kernel would not run the request.
        let mut spare = [0];
        let [first, second] = output;
        let second = if wanted == 0 { &mut spare[..] } else { second };
        let received = self.receive([IoSliceMut::new(first), IoSliceMut::new(second)])?;
        if received != wanted {
            return Err(short("returned", received, wanted));
        }
        Ok(())
    }

    fn check(&self, iv: &[u8], aad: usize, given: usize, wanted: usize) -> io::Result<()> {
        let (cipher, tag) = (self.cipher, self.cipher.tag_length());
        misfit::check("an IV", iv.len(), cipher.iv_length())?;
        let most = if cipher.is_authenticated() { given } else { 0 };
        misfit::check("additional data", aad, aad.min(most))?;
        misfit::check_blocks(given, cipher.block_length())?;
        let result = match self.direction {
            Direction::Encrypt => given + tag,
            Direction::Decrypt => given.saturating_sub(tag),
        };
        Ok(misfit::check("an output", wanted, result)?)
    }

    fn send(&self, parts: &[IoSlice<'_>], flags: libc::c_int) -> io::Result<usize> {
        let parts = match parts {
            [first, last] if last.is_empty() => std::slice::from_ref(first),
            parts => parts,
        };
        // SAFETY: all-zero is a valid `msghdr`: no name, no vectors, no control data.
        let mut message: libc::msghdr = unsafe { zeroed() };
        // The kernel only reads through these when sending.
        message.msg_iov = parts.as_ptr().cast_mut().cast();
        message.msg_iovlen = parts.len() as _;
        message.msg_control = self.control.bytes.0.as_ptr().cast_mut().cast();
        message.msg_controllen = self.control.length as _;
        // No other thread reads from this socket, so waiting for space in it would hang. SAFETY: an
        // `IoSlice` is an `iovec` by its documentation, and the slices behind them are borrowed for
        // the call; the control data is initialised for `length` bytes.
        let sent =
            unsafe { libc::sendmsg(self.socket.as_raw_fd(), &message, libc::MSG_DONTWAIT | flags) };
        count(sent)
    }

    fn receive(&mut self, mut parts: [IoSliceMut<'_>; 2]) -> io::Result<usize> {
        let parts = if parts[0].is_empty() { &mut parts[1..] } else { &mut parts[..] };
        // SAFETY: all-zero is a valid `msghdr`: no name, no vectors, no control data.
        let mut message: libc::msghdr = unsafe { zeroed() };
        message.msg_iov = parts.as_mut_ptr().cast();
        message.msg_iovlen = parts.len() as _;
        loop {
            // SAFETY: an `IoSliceMut` is an `iovec` by its documentation, and the slices behind
            // them are borrowed mutably until the call returns. The kernel keeps none of their
            // pages longer: this is no asynchronous request.
            let received = unsafe { libc::recvmsg(self.socket.as_raw_fd(), &mut message, 0) };
            match count(received) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    /// The smaller of the two buffers in whole pages, less one page for unaligned data.
    fn measure(&self) -> usize {
        let room = |option| {
            let mut bytes: libc::c_int = 0;
            let mut length = size_of::<libc::c_int>() as libc::socklen_t;
            // SAFETY: the value is an int, and `length` is its size.
            let status = unsafe {
                libc::getsockopt(
                    self.socket.as_raw_fd(),
                    libc::SOL_SOCKET,
                    option,
                    (&raw mut bytes).cast(),
                    &mut length,
                )
            };
            if status == 0 { usize::try_from(bytes).unwrap_or(0) } else { 0 }
        };
        let bytes = room(libc::SO_SNDBUF).min(room(libc::SO_RCVBUF));
        let page = page_length();
        (bytes - bytes % page).saturating_sub(page)
    }
}

/// A pipe that passes memory to a socket without a copy.
struct Pipe {
    from: OwnedFd,
    to: OwnedFd,
    /// Its capacity in bytes, for any alignment to pages.
    most: usize,
}

impl Pipe {
    fn new(most: usize) -> io::Result<Pipe> {
        let mut ends = [0; 2];
        // SAFETY: the call writes two descriptors to the array.
        check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) })?;
        let (from, to) = (owned(ends[0])?, owned(ends[1])?);
        // Two slices, each of which may begin and end inside a page.
        let pages = most.div_ceil(page_length()) + 4;
        // SAFETY: the command takes an int, and no pointer.
        check(unsafe {
            libc::fcntl(to.as_raw_fd(), libc::F_SETPIPE_SZ, (pages * page_length()) as libc::c_int)
        })?;
        Ok(Pipe { from, to, most })
    }

    /// Sends without copying. The kernel reads from the memory until it has run the request.
    fn lend(&self, socket: &OwnedFd, parts: [IoSlice<'_>; 2]) -> io::Result<usize> {
        let wanted = parts[0].len() + parts[1].len();
        // SAFETY: an `IoSlice` is an `iovec` by its documentation, and the call only reads the two.
        // The kernel keeps references to the slices' pages, but does not write to them. Should they
        // outlive the slices, after an error, the kernel reads what is there then, and only the
        // result of an abandoned request depends on it.
        let taken =
            unsafe { libc::vmsplice(self.to.as_raw_fd(), parts.as_ptr().cast(), parts.len(), 0) };
        let taken = count(taken)?;
        let mut sent = 0;
        while sent < taken {
            // SAFETY: pipes and sockets take null offsets.
            let moved = unsafe {
                libc::splice(
                    self.from.as_raw_fd(),
                    ptr::null_mut(),
                    socket.as_raw_fd(),
                    ptr::null_mut(),
                    taken - sent,
                    0,
                )
            };
            match count(moved)? {
                0 => return Err(short("took", sent, wanted)),
                moved => sent += moved,
            }
        }
        Ok(sent)
    }
}

/// Control messages for `sendmsg`, made once and then changed in place.
struct Control {
    bytes: Aligned,
    length: usize,
    /// The offsets of the IV and of the length of the additional data; 0 when there is none.
    iv_at: usize,
    aad_length_at: usize,
}

#[repr(align(8))]
struct Aligned([u8; 128]);

impl Control {
    fn new(direction: Direction, iv_length: usize, is_authenticated: bool) -> Control {
        let mut control =
            Control { bytes: Aligned([0; 128]), length: 0, iv_at: 0, aad_length_at: 0 };
        let operation = match direction {
            Direction::Encrypt => libc::ALG_OP_ENCRYPT,
            Direction::Decrypt => libc::ALG_OP_DECRYPT,
        };
        let at = control.add(libc::ALG_SET_OP, size_of::<u32>());
        control.put(at, &operation.to_ne_bytes());
        if iv_length > 0 {
            // `struct af_alg_iv`: the length and then the bytes.
            let at = control.add(libc::ALG_SET_IV, size_of::<u32>() + iv_length);
            control.put(at, &(iv_length as u32).to_ne_bytes());
            control.iv_at = at + size_of::<u32>();
        }
        if is_authenticated {
            control.aad_length_at = control.add(libc::ALG_SET_AEAD_ASSOCLEN, size_of::<u32>());
        }
        control
    }

    fn set(&mut self, iv: &[u8], aad_length: usize) {
        if self.iv_at != 0 {
            self.put(self.iv_at, iv);
        }
        if self.aad_length_at != 0 {
            self.put(self.aad_length_at, &(aad_length as u32).to_ne_bytes());
        }
    }

    /// Adds a header and space for `length` bytes, and returns the offset of that space. Header and
    /// padding are the kernel's (`struct cmsghdr`), which has a `size_t` for the length.
    fn add(&mut self, kind: libc::c_int, length: usize) -> usize {
        let start = self.length;
        let at = start + HEADER_LENGTH;
        self.put(start, &(HEADER_LENGTH + length).to_ne_bytes());
        self.put(start + LEVEL_AT, &libc::SOL_ALG.to_ne_bytes());
        self.put(start + LEVEL_AT + size_of::<libc::c_int>(), &kind.to_ne_bytes());
        self.length = at + length.next_multiple_of(size_of::<usize>());
        at
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes.0[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

/// `None` when a name is too long for any driver to have it.
fn address(interface: &str, driver: &str) -> Option<libc::sockaddr_alg> {
    // SAFETY: all-zero is a valid `sockaddr_alg`, which is integers and arrays of bytes.
    let mut address: libc::sockaddr_alg = unsafe { zeroed() };
    address.salg_family = libc::AF_ALG as libc::sa_family_t;
    for (field, name) in
        [(&mut address.salg_type[..], interface), (&mut address.salg_name[..], driver)]
    {
        // The terminating zero has to fit too, and the name may contain no zero.
        let room = field.len() - 1;
        field[..room].get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        if name.contains('\0') {
            return None;
        }
    }
    Some(address)
}

fn page_length() -> usize {
    // SAFETY: the call takes no pointers.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).ok().filter(|&bytes| bytes > 0).unwrap_or(4096)
}

fn set_option(
    socket: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &[u8],
) -> io::Result<()> {
    // SAFETY: the kernel reads `value.len()` bytes from the slice, and copies them.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            value.as_ptr().cast(),
            value.len() as libc::socklen_t,
        )
    };
    check(status)
}

fn owned(descriptor: libc::c_int) -> io::Result<OwnedFd> {
    check(descriptor)?;
    // SAFETY: it is not negative, so the call that returned it has just opened it for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn check(status: libc::c_int) -> io::Result<()> {
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn count(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

fn short(verb: &str, bytes: usize, expected: usize) -> io::Error {
    io::Error::other(format!("the kernel {verb} {bytes} of {expected} bytes"))
}

/// The length in bytes from which a pipe costs less than copying.
const LENT_FROM: usize = 8192;

const HEADER_LENGTH: usize = size_of::<usize>() + 2 * size_of::<libc::c_int>();
const LEVEL_AT: usize = size_of::<usize>();

const _: () = assert!(offset_of!(libc::cmsghdr, cmsg_type) == HEADER_LENGTH - 4);

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    /// A request of these lengths on an invalid socket, so that sending it fails.
    fn refusal(cipher: Cipher, iv: usize, aad: usize, input: usize, output: usize) -> String {
        let mut operation = Operation {
            socket: File::open("/dev/null").unwrap().into(),
            cipher,
            direction: Direction::Encrypt,
            control: Control::new(
                Direction::Encrypt,
                cipher.iv_length(),
                cipher.is_authenticated(),
            ),
            capacity: 1 << 16,
            pipe: None,
        };
        let (input, mut output) = (vec![0; input], vec![0; output]);
        let result =
            operation.perform(&vec![1; iv], aad, [&input, &[]], [&mut [], &mut output[..]]);
        result.unwrap_err().to_string()
    }

    #[test]
    fn no_wrong_length_is_sent() {
        assert!(refusal(Cipher::Aes128Cbc, 16, 0, 32, 32).contains("non-socket"));
        assert!(refusal(Cipher::Aes128Gcm, 12, 8, 32, 48).contains("non-socket"));
        for (cipher, iv, aad, input, output) in [
            (Cipher::Aes128Cbc, 0, 0, 32, 32),
            (Cipher::Aes128Cbc, 8, 0, 32, 32),
            (Cipher::DesEde3Cbc, 16, 0, 32, 32),
            (Cipher::Aes128Cbc, 16, 1, 32, 32),
            (Cipher::Aes128Cbc, 16, 0, 31, 31),
            (Cipher::Aes128Cbc, 16, 0, 32, 16),
            (Cipher::Aes128Gcm, 16, 8, 32, 48),
            (Cipher::Aes128Gcm, 12, 33, 32, 48),
            (Cipher::Aes128Gcm, 12, 8, 32, 32),
        ] {
            let words = refusal(cipher, iv, aad, input, output);
            assert!(words.contains("nothing was passed on"), "{cipher}: {words}");
        }
    }
}
