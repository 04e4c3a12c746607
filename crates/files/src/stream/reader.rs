//! Reads a stream piece by piece.

use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};

use super::base64::Decoder;
use crate::error::IntoSystemError;
use crate::{Control, FileError};

/// Reads ahead by one byte, so that it knows whether each piece is the last.
pub(super) struct Reader<'a> {
    input: BorrowedFd<'a>,
    control: &'a Control,
    /// Bytes read but not given out yet.
    ahead: Vec<u8>,
    ended: bool,
    bytes: u64,
    /// For base64 input: the decoder, and decoded bytes that were not taken yet.
    decoder: Option<(Decoder, Vec<u8>)>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(input: BorrowedFd<'a>, control: &'a Control) -> Reader<'a> {
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
        while !self.ended {
            self.wait()?;
            match read(self.input, &mut *buffer) {
                Ok(0) => self.ended = true,
                Ok(count) => {
                    self.bytes += count as u64;
                    self.control.done_bytes(count as u64);
                    return Ok(count);
                }
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(errno) => {
                    return Err(FileError::System { action: "read it", errno: errno.system() });
                }
            }
        }
        Ok(0)
    }

    /// Waits until there is something to read, checking now and then for a request to stop.
    fn wait(&self) -> Result<(), FileError> {
        let interval = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        loop {
            if self.control.is_stopped() {
                return Err(FileError::Interrupted);
            }
            let mut descriptors = [PollFd::from_borrowed_fd(self.input, PollFlags::IN)];
            match poll(&mut descriptors, Some(&interval)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(errno) => {
                    return Err(FileError::System { action: "read it", errno: errno.system() });
                }
            }
        }
    }
}

/// The amount of base64 that is read at once, in bytes.
const TEXT_AT_ONCE: usize = 1 << 16;
