//! The kernel's protocol for character devices in user space (`linux/fuse.h`).

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};

/// An open `/dev/cuse`, which is one device.
pub(crate) struct Connection {
    file: File,
    buffer: Vec<u8>,
}

/// A request of a program, through the kernel.
#[derive(Debug)]
pub(crate) struct Request {
    unique: u64,
    /// The thread that waits for the answer.
    pub(crate) thread: u32,
    pub(crate) kind: Kind,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The answer is the handle that names the opened file in later requests.
    Open,
    Release {
        handle: u64,
    },
    Ioctl {
        handle: u64,
        command: u32,
        argument: u64,
    },
    /// The answer is [`Answer::Events`].
    Poll {
        handle: u64,
    },
    /// The program that waits for the answer to another request has received a signal.
    Interrupt {
        unique: u64,
    },
    Other,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Opened(u64),
    Done,
    /// An errno.
    Error(i32),
    /// The current events of poll(2).
    Events(i16),
    /// An errno for an earlier request, and no answer to this one.
    Interrupted(u64),
}

impl Connection {
    /// Makes the device `/dev/NAME`.
    pub(crate) fn open(name: &str) -> io::Result<Connection> {
        let file =
            OpenOptions::new().read(true).write(true).open("/dev/cuse").map_err(|error| {
                io::Error::other(format!(
                    "/dev/cuse, of the module cuse, could not be opened: {error}"
                ))
            })?;
        let mut connection = Connection { file, buffer: vec![0; LARGEST_REQUEST] };
        connection.initialise(name)?;
        Ok(connection)
    }

    fn initialise(&mut self, name: &str) -> io::Result<()> {
        let length = self.file.read(&mut self.buffer)?;
        let request = &self.buffer[..length];
        if length < HEADER + 16 || u32_at(request, 4) != CUSE_INIT {
            return Err(io::Error::other("/dev/cuse did not begin with CUSE_INIT"));
        }
        let unique = u64_at(request, 8);
        let (major, minor) = (u32_at(request, HEADER), u32_at(request, HEADER + 4));
        // struct cuse_init_out, then the name.
        let mut answer = Vec::new();
        for word in [major, minor, 0, CUSE_UNRESTRICTED_IOCTL, 1 << 16, 1 << 16, 0, 0] {
            answer.extend(word.to_ne_bytes());
        }
        answer.extend([0; 40]);
        answer.extend(format!("DEVNAME={name}\0").bytes());
        self.write(unique, 0, &answer)
    }

    /// The next request; `None` when the kernel has ended the connection.
    pub(crate) fn receive(&mut self) -> io::Result<Option<Request>> {
        let length = loop {
            match self.file.read(&mut self.buffer) {
                Ok(length) => break length,
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return Ok(None),
                // A request was withdrawn before it was read.
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        };
        // The fixed part of every request that is read fits in these.
        self.buffer[length..].fill(0);
        let (request, body) = (&self.buffer, &self.buffer[HEADER..]);
        let kind = match u32_at(request, 4) {
            FUSE_OPEN => Kind::Open,
            FUSE_RELEASE => Kind::Release { handle: u64_at(body, 0) },
            FUSE_IOCTL => Kind::Ioctl {
                handle: u64_at(body, 0),
                command: u32_at(body, 12),
                argument: u64_at(body, 16),
            },
            FUSE_POLL => Kind::Poll { handle: u64_at(body, 0) },
            FUSE_INTERRUPT => Kind::Interrupt { unique: u64_at(body, 0) },
            _ => Kind::Other,
        };
        Ok(Some(Request { unique: u64_at(request, 8), thread: u32_at(request, 32), kind }))
    }

    pub(crate) fn reply(&mut self, request: &Request, answer: Answer) -> io::Result<()> {
        let result = match (answer, &request.kind) {
            (Answer::Opened(handle), _) => {
                // struct fuse_open_out
                let mut body = handle.to_ne_bytes().to_vec();
                body.extend([0; 8]);
                self.write(request.unique, 0, &body)
            }
            // struct fuse_ioctl_out
            (Answer::Done, Kind::Ioctl { .. }) => self.write(request.unique, 0, &[0; 16]),
            (Answer::Done, _) => self.write(request.unique, 0, &[]),
            (Answer::Events(events), _) => {
                // struct fuse_poll_out
                let mut body = u32::from(events.cast_unsigned()).to_ne_bytes().to_vec();
                body.extend([0; 4]);
                self.write(request.unique, 0, &body)
            }
            (Answer::Error(errno), _) => self.write(request.unique, errno, &[]),
            (Answer::Interrupted(unique), _) => self.write(unique, libc::EINTR, &[]),
        };
        match result {
            // The program that asked no longer exists.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
            result => result,
        }
    }

    /// Writes struct fuse_out_header and the body, in one call as the kernel requires.
    fn write(&mut self, unique: u64, errno: i32, body: &[u8]) -> io::Result<()> {
        let mut message = ((16 + body.len()) as u32).to_ne_bytes().to_vec();
        message.extend((-errno).to_ne_bytes());
        message.extend(unique.to_ne_bytes());
        message.extend(body);
        self.file.write_all(&message)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |chunk| u32::from_ne_bytes(*chunk))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |chunk| u64::from_ne_bytes(*chunk))
}

/// Length of struct fuse_in_header.
const HEADER: usize = 40;

/// No request here is longer; the kernel requires at least 8 KiB.
const LARGEST_REQUEST: usize = 1 << 17;

const FUSE_OPEN: u32 = 14;
const FUSE_RELEASE: u32 = 18;
const FUSE_INTERRUPT: u32 = 36;
const FUSE_IOCTL: u32 = 39;
const FUSE_POLL: u32 = 40;
const CUSE_INIT: u32 = 4096;

/// Ioctls arrive with their argument unchanged: an address in the caller's memory.
const CUSE_UNRESTRICTED_IOCTL: u32 = 1;
