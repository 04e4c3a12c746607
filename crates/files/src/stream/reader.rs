//! Reads a stream piece by piece.

use std::io::{ErrorKind, Read};
use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};

use super::base64::Decoder;
use crate::place::Fault;
use crate::{Control, FileError};

/// Where a stream comes from.
pub(super) enum Input<'a> {
    Descriptor(BorrowedFd<'a>),
    Reader(&'a mut (dyn Read + Send)),
}

/// Reads ahead by one byte, so that it knows whether each piece is the last.
pub(super) struct Reader<'a> {
    input: Input<'a>,
    control: &'a Control,
    /// Bytes read but not given out yet.
    ahead: Vec<u8>,
    ended: bool,
    bytes: u64,
    /// For base64 input: the decoder, and decoded bytes that were not taken yet.
    decoder: Option<(Decoder, Vec<u8>)>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(input: Input<'a>, control: &'a Control) -> Reader<'a> {
        Reader { input, control, ahead: Vec::new(), ended: false, bytes: 0, decoder: None }
    }

    /// Treats the input as base64.
    pub(super) fn decode(mut self) -> Reader<'a> {
        self.decoder = Some(Default::default());
        self
    }

    /// The number of bytes that came in so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Fills `buffer` with the next bytes, without taking them; returns how many there are.
    pub(super) fn peek(&mut self, buffer: &mut [u8]) -> Result<usize, FileError> {
        let have = self.ahead.len();
        if have < buffer.len() {
            let mut more = vec![0; buffer.len() - have];
            let count = self.read(&mut more)?;
            self.ahead.extend_from_slice(&more[..count]);
        }
        let length = self.ahead.len().min(buffer.len());
        buffer[..length].copy_from_slice(&self.ahead[..length]);
        Ok(length)
    }

    /// Drops bytes that were peeked at.
    pub(super) fn skip(&mut self, count: usize) {
        self.ahead.drain(..count.min(self.ahead.len()));
    }

    /// Reads the next piece into `buffer`. Returns its length and whether it is the last, as a
    /// piece shorter than the buffer always is.
    pub(super) fn next_piece(&mut self, buffer: &mut [u8]) -> Result<(usize, bool), FileError> {
        let have = self.ahead.len().min(buffer.len());
        buffer[..have].copy_from_slice(&self.ahead[..have]);
        self.ahead.drain(..have);
        let length = have + self.read(&mut buffer[have..])?;
        if self.ahead.is_empty() {
            let mut byte = [0];
            let count = self.read(&mut byte)?;
            self.ahead.extend_from_slice(&byte[..count]);
        }
        Ok((length, self.ahead.is_empty()))
    }

    /// Reads until `buffer` is full or the stream ends.
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, FileError> {
        let mut length = 0;
        while length < buffer.len() {
            let Some((mut decoder, mut decoded)) = self.decoder.take() else {
                let count = self.read_some(&mut buffer[length..])?;
                if count == 0 {
                    break;
                }
                length += count;
                continue;
            };
            let mut count = decoded.len();
            if decoded.is_empty() {
                let mut text = vec![0; TEXT_AT_ONCE];
                count = self.read_some(&mut text)?;
                match count {
                    0 => decoder.finish()?,
                    _ => decoded = decoder.decode(&text[..count])?,
                }
            }
            let taken = decoded.len().min(buffer.len() - length);
            buffer[length..length + taken].copy_from_slice(&decoded[..taken]);
            decoded.drain(..taken);
            length += taken;
            self.decoder = Some((decoder, decoded));
            if count == 0 {
                break;
            }
        }
        Ok(length)
    }

    /// Reads at least one byte, or none when the stream has ended.
    fn read_some(&mut self, buffer: &mut [u8]) -> Result<usize, FileError> {
        if self.ended {
            return Ok(0);
        }
        let count = match &mut self.input {
            Input::Descriptor(input) => read_descriptor(*input, buffer, self.control)?,
            Input::Reader(input) => read_from(&mut **input, buffer, self.control)?,
        };
        self.ended = count == 0;
        self.bytes += count as u64;
        self.control.done_bytes(count as u64);
        Ok(count)
    }
}

/// Reads from a reader of the caller's; it is asked to stop between two reads.
fn read_from(
    input: &mut (dyn Read + Send),
    buffer: &mut [u8],
    control: &Control,
) -> Result<usize, FileError> {
    loop {
        if control.is_stopped() {
            return Err(FileError::Interrupted);
        }
        match input.read(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Fault::Failed(format!("can't read it: {error}")).into()),
            Ok(count) => return Ok(count.min(buffer.len())),
        }
    }
}

fn read_descriptor(
    input: BorrowedFd<'_>,
    buffer: &mut [u8],
    control: &Control,
) -> Result<usize, FileError> {
    loop {
        wait(input, control)?;
        match read(input, &mut *buffer) {
            Err(Errno::INTR | Errno::AGAIN) => {}
            read => return read.map_err(FileError::system("read it")),
        }
    }
}

/// Waits until there is something to read, checking now and then for a request to stop.
fn wait(input: BorrowedFd<'_>, control: &Control) -> Result<(), FileError> {
    let interval = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    while !control.is_stopped() {
        let mut descriptors = [PollFd::from_borrowed_fd(input, PollFlags::IN)];
        match poll(&mut descriptors, Some(&interval)) {
            Ok(0) | Err(Errno::INTR) => {}
            waited => return waited.map(|_| ()).map_err(FileError::system("read it")),
        }
    }
    Err(FileError::Interrupted)
}

/// The amount of base64 that is read at once, in bytes.
const TEXT_AT_ONCE: usize = 1 << 16;
