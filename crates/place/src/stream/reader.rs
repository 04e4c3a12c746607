//! Reads a stream piece by piece.

use std::io::{self, ErrorKind, Read};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evener_format::FormatError;
use evener_keys::age::unarmoured;
use evener_keys::faults::AgeDamage;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};

use super::base64::Decoder;
use crate::{Control, FileError};
use evener_seal::Fault;

/// Where a stream comes from.
pub(super) enum Input<'a> {
    Descriptor(BorrowedFd<'a>),
    Reader(&'a mut (dyn Read + Send)),
    /// An age file in ASCII armour, from one of the others.
    Armoured(Box<dyn Read + 'a>),
}

/// Reads ahead by one byte, so that it knows whether each piece is the last.
pub(super) struct Reader<'a> {
    input: Input<'a>,
    control: &'a Control,
    /// Bytes read but not given out yet.
    ahead: Vec<u8>,
    ended: bool,
    /// The number of bytes that came in so far.
    bytes: Arc<AtomicU64>,
    /// For base64 input: the decoder, and decoded bytes that were not taken yet.
    decoder: Option<(Decoder, Vec<u8>)>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(input: Input<'a>, control: &'a Control) -> Reader<'a> {
        let (ahead, bytes) = (Vec::new(), Arc::default());
        Reader { input, control, ahead, ended: false, bytes, decoder: None }
    }

    /// Puts bytes that were read before in front of the input.
    pub(super) fn behind(self, read: Vec<u8>) -> Reader<'a> {
        self.bytes.fetch_add(read.len() as u64, Ordering::Relaxed);
        self.control.done_bytes(read.len() as u64);
        Reader { ahead: read, ..self }
    }

    /// Treats the input as base64.
    pub(super) fn decode(mut self) -> Reader<'a> {
        self.decoder = Some(Default::default());
        self
    }

    /// Treats the input, and what was peeked at, as an age file in ASCII armour.
    pub(super) fn unarmour(&mut self) {
        let (control, bytes) = (self.control, Arc::clone(&self.bytes));
        // Blanks may precede it.
        let begins = self.ahead.iter().position(|&byte| byte == b'-').unwrap_or(0);
        let mut ahead = std::mem::take(&mut self.ahead);
        ahead.drain(..begins);
        let input = std::mem::replace(&mut self.input, Input::Armoured(Box::new(io::empty())));
        let armoured = Armoured { ahead, input, control, bytes, line: 0 };
        self.input = Input::Armoured(unarmoured(Box::new(armoured)));
        // The armour may have come in whole.
        self.ended = false;
    }

    /// The number of bytes that came in so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
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

    /// Reads the next piece into `buffer`. Returns its length and whether it is the last. Another is
    /// shorter than the buffer only if nothing more has come in yet: then it is as long as `whole`
    /// returns for the number of bytes that have come in, unless that is 0. `shows_more` is asked
    /// about whole chunks that nothing has followed yet, and returns whether something must.
    pub(super) fn next_piece(
        &mut self,
        buffer: &mut [u8],
        whole: impl Fn(usize) -> usize,
        mut shows_more: impl FnMut(&[u8]) -> bool,
    ) -> Result<(usize, bool), FileError> {
        let mut length = self.ahead.len().min(buffer.len());
        buffer[..length].copy_from_slice(&self.ahead[..length]);
        self.ahead.drain(..length);
        loop {
            let mut done = whole(length);
            if done > 0 && !self.has_more_now()? {
                if done == length && !shows_more(&buffer[..length]) {
                    done = whole(length - 1);
                }
                if done > 0 {
                    self.ahead = buffer[done..length].to_vec();
                    return Ok((done, false));
                }
            }
            if length == buffer.len() {
                break;
            }
            match self.read_once(&mut buffer[length..])? {
                0 => break,
                count => length += count,
            }
        }
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
            match self.read_once(&mut buffer[length..])? {
                0 => break,
                count => length += count,
            }
        }
        Ok(length)
    }

    /// Reads at least one byte, decoded if it is base64, or none when the stream has ended.
    fn read_once(&mut self, buffer: &mut [u8]) -> Result<usize, FileError> {
        let Some((mut decoder, mut decoded)) = self.decoder.take() else {
            return self.read_some(buffer);
        };
        while decoded.is_empty() {
            let mut text = vec![0; TEXT_AT_ONCE];
            match self.read_some(&mut text)? {
                0 => {
                    decoder.finish()?;
                    break;
                }
                count => decoded = decoder.decode(&text[..count])?,
            }
        }
        let taken = decoded.len().min(buffer.len());
        buffer[..taken].copy_from_slice(&decoded[..taken]);
        decoded.drain(..taken);
        self.decoder = Some((decoder, decoded));
        Ok(taken)
    }

    /// Returns whether reading does not wait for the other end, as far as that shows.
    fn has_more_now(&self) -> Result<bool, FileError> {
        let decoded = self.decoder.as_ref().is_some_and(|(_, decoded)| !decoded.is_empty());
        let has_some = decoded || !self.ahead.is_empty();
        match &self.input {
            Input::Descriptor(input) if !has_some && !self.ended => is_readable(*input),
            _ => Ok(true),
        }
    }

    /// Reads at least one byte, or none when the stream has ended.
    fn read_some(&mut self, buffer: &mut [u8]) -> Result<usize, FileError> {
        if self.ended {
            return Ok(0);
        }
        let count = read_input(&mut self.input, buffer, self.control, &self.bytes)?;
        self.ended = count == 0;
        Ok(count)
    }
}

/// Reads at least one byte, or none at the end, and counts them.
fn read_input(
    input: &mut Input<'_>,
    buffer: &mut [u8],
    control: &Control,
    bytes: &AtomicU64,
) -> Result<usize, FileError> {
    let count = match input {
        Input::Descriptor(input) => read_descriptor(*input, buffer, control)?,
        Input::Reader(input) => read_from(&mut **input, buffer, control)?,
        // Its own input is counted.
        Input::Armoured(input) => {
            let length = buffer.len().min(UNARMOURED_AT_ONCE);
            return input.read(&mut buffer[..length]).map_err(unarmoured_error);
        }
    };
    bytes.fetch_add(count as u64, Ordering::Relaxed);
    control.done_bytes(count as u64);
    Ok(count)
}

/// The input of what reads ASCII armour.
struct Armoured<'a> {
    ahead: Vec<u8>,
    input: Input<'a>,
    control: &'a Control,
    bytes: Arc<AtomicU64>,
    /// The number of bytes since the last end of a line.
    line: usize,
}

impl Read for Armoured<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = match self.ahead.len().min(buffer.len()) {
            0 => read_input(&mut self.input, buffer, self.control, &self.bytes)
                .map_err(io::Error::other)?,
            count => {
                buffer[..count].copy_from_slice(&self.ahead[..count]);
                self.ahead.drain(..count);
                count
            }
        };
        let end = buffer[..count].iter().rposition(|&byte| byte == b'\n');
        self.line = end.map_or(self.line + count, |end| count - end - 1);
        // Lines are kept until they end.
        match self.line > LONGEST_LINE {
            true => Err(io::ErrorKind::InvalidData.into()),
            false => Ok(count),
        }
    }
}

/// The error of reading ASCII armour: that of its input, or of the armour.
fn unarmoured_error(error: io::Error) -> FileError {
    let of_input = error.into_inner().and_then(|cause| cause.downcast::<FileError>().ok());
    of_input.map_or_else(|| FormatError::Age(AgeDamage::Armour.to_string()).into(), |error| *error)
}

/// Returns whether there is something to read, or an end.
fn is_readable(input: BorrowedFd<'_>) -> Result<bool, FileError> {
    let mut descriptors = [PollFd::from_borrowed_fd(input, PollFlags::IN)];
    match poll(&mut descriptors, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
        Err(Errno::INTR) => Ok(false),
        waited => waited.map(|count| count > 0).map_err(FileError::system("read it")),
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

/// The amount of armoured data that is read at once, in bytes: its reader waits for all of it.
const UNARMOURED_AT_ONCE: usize = 1 << 12;

/// More than a line of ASCII armour has, in bytes, with blanks around it.
const LONGEST_LINE: usize = 1 << 16;
