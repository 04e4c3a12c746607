//! The sealed bytes of a Python object.

use std::ops::Range;
use std::slice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use facade::KeyRing;
use facade::format::Layout;
use facade::place::{Blob, Fault};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

/// An encrypted file that Python reads. Reads announce what they need, so that one request fetches
/// it, instead of one for each chunk.
pub(crate) struct Source {
    object: Object,
    /// Held while a file is at one thread's position.
    turn: Mutex<()>,
    length: u64,
    /// What was fetched and is still needed.
    fetched: Mutex<Vec<Arc<Piece>>>,
    /// The exception of the object, which passes through the library as text.
    raised: Mutex<Option<PyErr>>,
}

/// Where the bytes come from.
pub(crate) enum Object {
    /// An object that has `seek` and `read`.
    File(Py<PyAny>),
    /// A function that takes the starts and the ends of ranges and returns their bytes.
    Ranges(Py<PyAny>),
}

struct Piece {
    start: u64,
    bytes: PyBackedBytes,
}

/// Bytes that stay fetched until this is dropped.
pub(crate) struct Fetched {
    source: Arc<Source>,
    pieces: Vec<Arc<Piece>>,
}

impl Source {
    pub(crate) fn new(object: Object, length: u64) -> Source {
        let (turn, fetched, raised) = (Mutex::default(), Mutex::default(), Mutex::default());
        Source { object, turn, length, fetched, raised }
    }

    /// Takes the exception that made a read fail.
    pub(crate) fn take_raised(&self) -> Option<PyErr> {
        locked(&self.raised).take()
    }

    /// Fetches what opening reads: the header and the last chunk, or all of a short file. Keeps the
    /// last chunk, which footers are in.
    pub(crate) fn prepare(self: &Arc<Self>, keys: &KeyRing) -> Result<Fetched, Fault> {
        let header = keys.bytes_to_open(&[]) as u64;
        let layout = Layout::for_sealed(&keys.primary().geometry(), self.length);
        let last = layout.map(|layout| layout.chunk(layout.chunks() - 1).sealed);
        let last = last.unwrap_or(self.length..self.length);
        // Ranges that touch become one.
        let beginning = if self.length <= SHORT { last.start } else { header.min(self.length) };
        let mut fetched = self.fetch(vec![0..beginning, last])?;
        // The last piece is not given back.
        fetched.pieces.pop();
        Ok(fetched)
    }

    /// Fetches ranges in ascending order, except what is there already.
    pub(crate) fn fetch(self: &Arc<Self>, ranges: Vec<Range<u64>>) -> Result<Fetched, Fault> {
        let mut fetched = Fetched { source: Arc::clone(self), pieces: Vec::new() };
        let missing = self.missing(ranges);
        if !missing.is_empty() {
            fetched.pieces = self.read(&missing)?;
            locked(&self.fetched).extend(fetched.pieces.iter().cloned());
        }
        Ok(fetched)
    }

    /// Returns the parts of ranges that are not there. Those that touch become one.
    pub(crate) fn missing(&self, ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
        let mut missing: Vec<Range<u64>> = Vec::new();
        for mut range in ranges {
            for piece in locked(&self.fetched).iter() {
                leave_out(&mut range, &piece.range());
            }
            match missing.last_mut() {
                _ if range.is_empty() => {}
                Some(before) if range.start <= before.end => before.end = before.end.max(range.end),
                _ => missing.push(range),
            }
        }
        missing
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Arc<Piece>>, Fault> {
        // No thread that waits for this one's locks holds the interpreter: `Reader` detaches first.
        let _turn = matches!(self.object, Object::File(_)).then(|| locked(&self.turn));
        let read = Python::attach(|py| match &self.object {
            Object::File(file) => {
                ranges.iter().map(|range| read_file(file.bind(py), range)).collect()
            }
            Object::Ranges(function) => {
                let starts: Vec<u64> = ranges.iter().map(|range| range.start).collect();
                let ends: Vec<u64> = ranges.iter().map(|range| range.end).collect();
                function.bind(py).call1((starts, ends))?.extract::<Vec<PyBackedBytes>>()
            }
        });
        let read = read.map_err(|error: PyErr| {
            let fault = Fault::Failed(error.to_string());
            *locked(&self.raised) = Some(error);
            fault
        })?;
        let is_whole = |(bytes, range): (&PyBackedBytes, &Range<u64>)| {
            bytes.len() as u64 == range.end - range.start
        };
        if read.len() != ranges.len() || !read.iter().zip(ranges).all(is_whole) {
            return Err(Fault::Changed);
        }
        let pieces = read.into_iter().zip(ranges);
        Ok(pieces.map(|(bytes, range)| Arc::new(Piece { start: range.start, bytes })).collect())
    }

    /// Copies bytes that were fetched. Returns whether all of them were.
    fn copy(&self, buffer: &mut [u8], at: u64) -> bool {
        let (fetched, mut done) = (locked(&self.fetched), 0);
        while done < buffer.len() {
            let at = at + done as u64;
            let Some(piece) = fetched.iter().find(|piece| piece.range().contains(&at)) else {
                return false;
            };
            let found = &piece.bytes[(at - piece.start) as usize..];
            let count = found.len().min(buffer.len() - done);
            buffer[done..done + count].copy_from_slice(&found[..count]);
            done += count;
        }
        true
    }
}

/// Shortens a range that begins or ends in another one.
fn leave_out(range: &mut Range<u64>, there: &Range<u64>) {
    if there.contains(&range.start) {
        range.start = there.end.min(range.end);
    }
    if range.contains(&there.start) && range.end <= there.end {
        range.end = there.start;
    }
}

/// Reads a range, or less of it if the file is too short.
fn read_file(file: &Bound<'_, PyAny>, range: &Range<u64>) -> PyResult<PyBackedBytes> {
    file.call_method1("seek", (range.start,))?;
    let length = (range.end - range.start) as usize;
    let read = |length: usize| -> PyResult<PyBackedBytes> {
        Ok(file.call_method1("read", (length,))?.extract()?)
    };
    let first = read(length)?;
    if first.len() >= length || first.is_empty() {
        return Ok(first);
    }
    // A raw file may return less than it has.
    let mut bytes = first.to_vec();
    while bytes.len() < length {
        let next = read(length - bytes.len())?;
        if next.is_empty() {
            break;
        }
        bytes.extend_from_slice(&next);
    }
    Ok(PyBytes::new(file.py(), &bytes).into())
}

impl Piece {
    fn range(&self) -> Range<u64> {
        self.start..self.start + self.bytes.len() as u64
    }
}

impl Drop for Fetched {
    fn drop(&mut self) {
        let is_own = |piece: &Arc<Piece>| self.pieces.iter().any(|own| Arc::ptr_eq(own, piece));
        locked(&self.source.fetched).retain(|piece| !is_own(piece));
    }
}

/// The library's view of a [`Source`].
pub(crate) struct Sealed(pub(crate) Arc<Source>);

impl Blob for Sealed {
    fn length(&self) -> u64 {
        self.0.length
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<(), Fault> {
        if !self.0.copy(buffer, at) {
            let range = at..at + buffer.len() as u64;
            let pieces = self.0.read(slice::from_ref(&range))?;
            pieces.iter().for_each(|piece| buffer.copy_from_slice(&piece.bytes));
        }
        Ok(())
    }

    fn check(&self) -> Result<(), Fault> {
        Ok(())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file of at most so many bytes is fetched whole.
const SHORT: u64 = 64 << 10;
