//! Files that are encrypted or decrypted piece by piece.

use std::sync::{Mutex, MutexGuard, TryLockError};

use facade::format::{Chunk, ChunkIv, FileCipher, FormatError, Geometry};
use facade::hazmat::{nonce, seal_batch};
use facade::{
    Aead, AeadError, Direction, FileError, KeyRing as Ring, Nonce, Opening, Refusal, Rejection,
    Sealing,
};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::buffers::{made, unattached};
use crate::error::Trouble;
use crate::keys::KeyRing;
use crate::sys::{Input, Output, disjoint};

/// Encrypts or decrypts one file on all cores. Each call returns the chunks that are complete.
#[pyclass(frozen, module = "evener._evener")]
pub(crate) struct Incremental {
    state: Mutex<Option<State>>,
    /// The process that encrypts; `None` for decryption. A child process would seal other chunks
    /// with the same nonces.
    process: Option<u32>,
}

struct State {
    direction: Direction,
    ring: Ring,
    /// `None` until the header is complete.
    file: Option<File>,
    /// Bytes not yet processed: part of a header, or at most one chunk.
    pending: Vec<u8>,
}

struct File {
    cipher: FileCipher,
    aead: Aead,
    /// The number of the next chunk.
    next: u64,
    /// The header, until it is written.
    header: Vec<u8>,
}

#[pymethods]
impl Incremental {
    #[new]
    fn new(encrypts: bool, keys: &KeyRing, context: &[u8]) -> Result<Incremental, Trouble> {
        let ring = keys.ring(context)?;
        let (direction, file) = match encrypts {
            true => {
                let (cipher, header) = ring.primary().create()?;
                (Direction::Encrypt, Some(File::new(cipher, header.bytes())?))
            }
            false => (Direction::Decrypt, None),
        };
        let state = State { direction, ring, file, pending: Vec::new() };
        let process = encrypts.then(std::process::id);
        Ok(Incremental { state: Mutex::new(Some(state)), process })
    }

    fn update<'py>(&self, py: Python<'py>, data: Input) -> Result<Bound<'py, PyBytes>, Trouble> {
        self.with(|state| {
            let data = state.begun(data.bytes())?;
            made(py, state.room(data.len()), |out| state.run(py, data, out, false))
        })
    }

    fn update_into(&self, py: Python<'_>, data: Input, mut out: Output) -> Result<usize, Trouble> {
        let (data, out) = disjoint(&data, &mut out)?;
        self.with(|state| {
            let header = state.file.is_none().then(|| state.pending.clone());
            let data = state.begun(data)?;
            let (needed, room) = (state.room(data.len()), out.len());
            if room < needed {
                // The caller may pass the same bytes again, the header among them.
                if let Some(header) = header {
                    (state.file, state.pending) = (None, header);
                }
                return Err(Trouble::Usage(format!(
                    "the result has {needed} bytes, and the buffer for it {room}"
                )));
            }
            state.run(py, data, out, false)
        })
    }

    fn finalize<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyBytes>, Trouble> {
        let mut state = self.state()?.take().ok_or_else(over)?;
        if state.file.is_none() {
            // The key may already see that the file is not one of its own.
            state.ring.primary().open(&state.pending)?;
            return Err(FormatError::Truncated.into());
        }
        let room = state.room(0) + 2 * state.pending.len() + SLACK;
        made(py, room, |out| state.run(py, &[], out, true))
    }
}

impl Incremental {
    /// Ends the file after any error, except that of a short buffer.
    fn with<T>(&self, work: impl FnOnce(&mut State) -> Result<T, Trouble>) -> Result<T, Trouble> {
        let mut state = self.state()?;
        let result = work(state.as_mut().ok_or_else(over)?);
        if !matches!(result, Ok(_) | Err(Trouble::Usage(_))) {
            *state = None;
        }
        result
    }

    /// Doesn't wait for another thread's call: that may wait for the interpreter, a deadlock.
    fn state(&self) -> Result<MutexGuard<'_, Option<State>>, Trouble> {
        if self.process.is_some_and(|process| process != std::process::id()) {
            let reason = "another process began this file; a child process begins its own";
            return Err(Trouble::File(Refusal::Other(reason.to_owned()).into()));
        }
        match self.state.try_lock() {
            Ok(state) => Ok(state),
            Err(TryLockError::Poisoned(state)) => Ok(state.into_inner()),
            Err(TryLockError::WouldBlock) => {
                Err(PyRuntimeError::new_err("another thread is in a call of this object").into())
            }
        }
    }
}

impl State {
    /// Takes the header from the first bytes. Returns the data after it.
    fn begun<'d>(&mut self, data: &'d [u8]) -> Result<&'d [u8], Trouble> {
        if self.file.is_some() {
            return Ok(data);
        }
        let mut data = data;
        loop {
            let needed = self.ring.primary().bytes_to_open(&self.pending);
            let missing = needed.saturating_sub(self.pending.len());
            if missing == 0 {
                break;
            }
            let (first, rest) = data.split_at(missing.min(data.len()));
            self.pending.extend_from_slice(first);
            data = rest;
            if first.len() < missing {
                return Ok(data);
            }
        }
        let cipher = self.ring.primary().open(&self.pending)?;
        self.pending.clear();
        self.file = Some(File::new(cipher, b"")?);
        Ok(data)
    }

    /// The number of bytes that come out when `length` more go in.
    fn room(&self, length: usize) -> usize {
        let Some(file) = &self.file else { return 0 };
        let mut left = self.pending.len() + length;
        let mut room = file.header.len();
        for index in file.next.. {
            let (input, output) = file.chunk_lengths(index, self.direction);
            if left < input + file.held_back() {
                break;
            }
            left -= input;
            room += output;
        }
        room
    }

    fn run(
        &mut self,
        py: Python<'_>,
        mut data: &[u8],
        out: &mut [u8],
        is_last: bool,
    ) -> Result<usize, Trouble> {
        let Some(file) = &mut self.file else { return Ok(0) };
        let (direction, held_back) = (self.direction, file.held_back());
        let header = std::mem::take(&mut file.header);
        let (head, mut left) = out.split_at_mut(header.len());
        head.copy_from_slice(&header);
        let mut written = header.len();

        // The pending chunk comes first.
        let (full, _) = file.chunk_lengths(file.next, direction);
        if !self.pending.is_empty() {
            let first;
            (first, data) = data.split_at((full - self.pending.len()).min(data.len()));
            self.pending.extend_from_slice(first);
        }
        let goes = self.pending.len() == full && data.len() >= held_back;
        let mut pairs = Vec::new();
        let mut input = if goes { &self.pending[..] } else { &[] };
        loop {
            let (full, given) = file.chunk_lengths(file.next, direction);
            if input.is_empty() && data.len() >= full + held_back {
                (input, data) = data.split_at(full);
            }
            if input.is_empty() {
                break;
            }
            let (output, behind) = left.split_at_mut(given);
            left = behind;
            pairs.push((file.full_chunk()?, std::mem::take(&mut input), output));
            written += given;
        }
        unattached(py, written, || file.process(direction, pairs))?;
        if goes {
            self.pending.clear();
        }
        self.pending.extend_from_slice(data);
        if is_last {
            written += file.end(direction, &self.pending, left)?;
        }
        Ok(written)
    }
}

impl File {
    fn new(cipher: FileCipher, header: &[u8]) -> Result<File, Trouble> {
        let aead = Aead::new(cipher.cipher(), cipher.key())?;
        Ok(File { cipher, aead, next: 0, header: header.to_vec() })
    }

    fn geometry(&self) -> &Geometry {
        self.cipher.geometry()
    }

    /// The lengths of a full chunk before and after, in bytes.
    fn chunk_lengths(&self, index: u64, direction: Direction) -> (usize, usize) {
        let plain = self.geometry().full_plain_length(index) as usize;
        let sealed = self.geometry().full_sealed_length(index) as usize;
        match direction {
            Direction::Encrypt => (plain, sealed),
            Direction::Decrypt => (sealed, plain),
        }
    }

    /// The number of bytes that must follow a full chunk to show that it is not the last: 1 if the
    /// last one may be full.
    fn held_back(&self) -> usize {
        let full = self.geometry().full_plain_length(0);
        usize::from(self.geometry().last_chunk_of_plaintext(0, full).is_ok())
    }

    fn full_chunk(&mut self) -> Result<Chunk, FormatError> {
        let chunk = self.geometry().full_chunk(self.next)?;
        self.next += 1;
        Ok(chunk)
    }

    fn process(
        &self,
        direction: Direction,
        pairs: Vec<(Chunk, &[u8], &mut [u8])>,
    ) -> Result<(), Trouble> {
        let ivs: Vec<_> = pairs.iter().map(|(chunk, ..)| self.nonce(chunk)).collect();
        match direction {
            Direction::Encrypt => {
                let nonces = ivs.into_iter().map(nonce).collect();
                let seal = |(_, input, output)| Sealing::new(input, output);
                Ok(seal_batch(
                    &self.aead,
                    nonces,
                    &mut pairs.into_iter().map(seal).collect::<Vec<_>>(),
                )?)
            }
            Direction::Decrypt => {
                let open = |((_, input, output), iv)| Opening::new(iv, input, output);
                let first = pairs.first().map_or(0, |(chunk, ..)| chunk.index);
                let is_end = pairs.last().is_some_and(|(chunk, ..)| chunk.last);
                let mut batch: Vec<_> = pairs.into_iter().zip(&ivs).map(open).collect();
                let opened = self.aead.open_batch(&mut batch);
                opened.map_err(|error| self.forged(error, first, is_end))
            }
        }
    }

    /// Processes the last chunk.
    fn end(&self, direction: Direction, input: &[u8], out: &mut [u8]) -> Result<usize, Trouble> {
        let (next, length) = (self.next, input.len() as u64);
        let chunk = match direction {
            Direction::Encrypt => self.geometry().last_chunk_of_plaintext(next, length)?,
            Direction::Decrypt => self.geometry().last_chunk_of_sealed(next, length)?,
        };
        let output = match direction {
            Direction::Encrypt => chunk.sealed.end - chunk.sealed.start,
            Direction::Decrypt => chunk.plain.end - chunk.plain.start,
        };
        let output = output as usize;
        self.process(direction, vec![(chunk, input, &mut out[..output])])?;
        Ok(output)
    }

    /// The error for chunks from `first` on; `is_end` for the last one alone.
    fn forged(&self, error: AeadError, first: u64, is_end: bool) -> Trouble {
        let AeadError::Forged { message, .. } = error else { return error.into() };
        let (chunk, rejection) = (first + message as u64, Rejection::Tag);
        Trouble::File(match is_end {
            true => {
                let key_fits = self.cipher.is_committed();
                FileError::RejectedEnd { chunk, rejection, key_fits }
            }
            false => FileError::Rejected { chunk, rejection },
        })
    }

    fn nonce(&self, chunk: &Chunk) -> [u8; Nonce::LENGTH] {
        match self.cipher.iv(chunk) {
            ChunkIv::Known(iv) => iv.bytes().try_into().unwrap_or_default(),
            // Ciphers with tags never chain.
            ChunkIv::PreviousBlock => [0; Nonce::LENGTH],
        }
    }
}

fn over() -> Trouble {
    PyValueError::new_err("the file was finalized").into()
}

/// More than a tag.
const SLACK: usize = 64;
